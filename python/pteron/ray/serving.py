"""A program behind HTTP: a deployment of Ray Serve with dynamic batches.

serve.run(pteron.ray.deployment("model.pte"))
"""

import asyncio
import io
import json
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from pteron.ray.predictor import Predictor
from pteron.runtime import BackendError, InvalidArgumentError, ResourceError

_NPY, _NPZ = "application/x-npy", "application/x-npz"

#: A replica that another program replaces answers what it has taken. After 20 seconds, Ray's
#: default, Serve would kill it, and its requests get status 500.
_GRACEFUL = {"graceful_shutdown_timeout_s": 300.0}


def deployment(
    path: str | os.PathLike[str],
    *,
    max_batch_size: int | None = None,
    batch_wait_s: float = 0.01,
    method: str = "forward",
    device: str | Sequence[str] | None = None,
    load_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> serve.Application:
    """An application for `serve.run` that answers requests with a program's outputs.

    POST `{"inputs": {"x": [[...], ...]}}` gives `{"outputs": {"y": [[...], ...]}}`. A body of type
    application/x-npy is the only input, one of application/x-npz has all by name; the answer to
    both is npz. In Python, `handle.predict.remote(x=array)` gives a dict of arrays. Dimension 0 is
    the batch, also in a request of one row. An invalid request is answered with 400 and its error,
    and does not disturb those that it shares a batch with.

    Args:
      path: the program's file, on each node; as of `Predictor`.
      max_batch_size: most rows of a batch; by default what the program takes, for which it is
        opened here.
      batch_wait_s: how long the first request of a batch waits for others, in seconds.
      method, device, load_options: as of `Predictor`.
      options: of `serve.deployment`, such as num_replicas, autoscaling_config, ray_actor_options,
        max_queued_requests. By default max_ongoing_requests is two batches, and
        graceful_shutdown_timeout_s is 300.
    """
    predictor = Predictor(path, method=method, device=device, load_options=load_options)
    most = max_batch_size or predictor.rows().batch_size
    defaults = {"name": "pteron", "max_ongoing_requests": max(5, 2 * most), **_GRACEFUL}
    options = {**defaults, **options}
    made = serve.deployment(**options)(Replica)
    return made.bind(predictor, most, batch_wait_s)


class Replica:
    """A process with the program, which Ray Serve starts."""

    def __init__(self, predictor: Predictor, max_batch_size: int, batch_wait_s: float) -> None:
        self._rows = predictor.rows()
        self._thread = ThreadPoolExecutor(max_workers=1)  # the event loop stays free
        self._failure: Exception | None = None
        self._most, self._wait = max_batch_size, batch_wait_s
        self._waiting = deque[tuple[dict[str, Any], asyncio.Future[None]]]()
        self._next: dict[int, int] = {}  # rows of the next batch's requests, by their id
        self._opened = 0.0  # when the first of them came
        self._running = 0
        self._batched: Any = serve.batch(
            max_batch_size=max_batch_size,
            batch_wait_timeout_s=batch_wait_s,
            batch_size_fn=lambda requests: sum(min(_count(r), max_batch_size) for r in requests),
        )(self._run_batch)

    async def predict(self, **inputs: Any) -> dict[str, Any]:
        """Outputs by name, of arrays with a batch dimension.

        Raises:
          InvalidArgumentError: the inputs are not the program's.
          PteronError: a row fails.
        """
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        self._rows.count(arrays)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((arrays, turn))
        try:
            self._admit()
            await turn
            outputs, errors = await self._batched(arrays)
        finally:  # also of a request that is cancelled
            self._next.pop(id(arrays), None)
            self._admit()
        for row, error in enumerate(errors):
            if error is not None:
                raise InvalidArgumentError(f"row {row}: {error}") from error
        return outputs

    async def __call__(self, request: Request) -> Response:
        """Answers an HTTP request."""
        kind = request.headers.get("content-type", "").partition(";")[0]
        try:
            inputs = _parse(await request.body(), kind, self._rows.input_names)
            outputs = await self.predict(**inputs)
        except (ValueError, TypeError) as error:  # InvalidArgumentError is one, too
            return Response(json.dumps({"error": str(error)}), 400, media_type="application/json")
        if kind in (_NPY, _NPZ):
            file = io.BytesIO()
            np.savez(file, **outputs)
            return Response(file.getvalue(), media_type=_NPZ)
        lists = {name: array.tolist() for name, array in outputs.items()}
        return Response(json.dumps({"outputs": lists}), media_type="application/json")

    def check_health(self) -> None:
        """Raises if the last batch failed by no row's fault: Ray Serve replaces the replica."""
        if self._failure is not None:
            raise self._failure

    def _admit(self) -> None:
        """Gives Ray what its next batch takes, unless one runs.

        Ray closes a batch `batch_wait_s` after its first request, also while another runs: requests
        that come one by one would run one by one.
        """
        now = time.monotonic()
        while self._waiting and not self._running:
            arrays, turn = self._waiting[0]
            rows = min(_count(arrays), self._most)
            if not self._next:
                self._opened = now
            elif sum(self._next.values(), rows) > self._most or now - self._opened > self._wait:
                break
            self._waiting.popleft()
            if not turn.done():  # as of a request that is cancelled
                self._next[id(arrays)] = rows
                turn.set_result(None)

    async def _run_batch(self, requests: list[dict[str, Any]]) -> list[Any]:
        for request in requests:
            self._next.pop(id(request), None)
        self._running += 1
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._run, requests)
        finally:
            self._running -= 1
            self._admit()

    def _run(self, requests: Sequence[dict[str, Any]]) -> list[Any]:
        columns: dict[str, Any] = requests[0]
        if len(requests) > 1:
            columns = {name: [row for r in requests for row in r[name]] for name in columns}
        try:
            outputs, errors = self._rows.run(columns)
            self._failure = None
        except (BackendError, ResourceError) as error:
            self._failure = error
            raise
        results, start = [], 0
        for request in requests:
            part = slice(start, start := start + _count(request))
            results.append(({name: y[part] for name, y in outputs.items()}, errors[part]))
        return results


def _count(inputs: Mapping[str, Any]) -> int:
    return len(next(iter(inputs.values())))


def _parse(body: bytes, kind: str, names: Sequence[str]) -> dict[str, Any]:
    """The inputs of a request by name; ValueError or TypeError."""
    inputs: Any
    try:
        if kind in (_NPY, _NPZ):
            loaded = np.load(io.BytesIO(body), allow_pickle=False)
            inputs = loaded if isinstance(loaded, np.ndarray) else dict(loaded)
        else:
            inputs = json.loads(body)
    except Exception as error:  # of many kinds: zipfile's, zlib's, tokenize's, ...
        raise ValueError(
            f"the body is not of type {kind or 'application/json'}: {error}"
        ) from error
    if isinstance(inputs, np.ndarray):
        if len(names) != 1:
            raise ValueError(f"found one npy array; expected npz with {', '.join(names)}")
        return {names[0]: inputs}
    if kind in (_NPY, _NPZ):
        return inputs
    inputs = inputs.get("inputs") if isinstance(inputs, dict) else None
    if not isinstance(inputs, dict):
        raise ValueError('expected {"inputs": {NAME: nested lists}} in JSON, npy or npz')
    return {name: np.array(value) for name, value in inputs.items()}


def text_deployment(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    load_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> serve.Application:
    """An application for `serve.run` that answers OpenAI's requests, as `pteron serve` does.

    Needs `pip install 'pteron[ray,serve]'`.

    Args:
      path: a program of `pteron.llm.export`, on each node.
      name: of the model; by default the file's.
      load_options: of `pteron.llm.Generator`.
      options: of `serve.deployment`; graceful_shutdown_timeout_s is 300 by default.
    """
    file = os.path.abspath(path)
    model = name or os.path.splitext(os.path.basename(file))[0]

    def build() -> Any:  # on a replica
        from pteron.llm.generator import Generator
        from pteron.llm.server import application

        return application(Generator(file, **(load_options or {})), model)

    options = {"name": "pteron-text", "max_ongoing_requests": 100, **_GRACEFUL, **options}
    return serve.deployment(**options)(serve.ingress(build)()).bind()
