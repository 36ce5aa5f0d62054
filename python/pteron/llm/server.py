"""OpenAI's HTTP interface to a program, as an ASGI application of Starlette.

app = application(Generator("model.pte"), "model")
uvicorn.run(app)
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import dataclasses
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pteron.llm.generator import Answer, Generator

#: What would change an answer and is not supported, with the values that change nothing.
_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}
_SETTINGS = {
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "min_p": float,
    "repetition_penalty": float,
    "seed": int,
}
_TYPES = (("stream", bool, "true or false"), ("stream_options", dict, "an object"))
_KINDS = {413: "request_too_large", 429: "rate_limit_error", 500: "server_error"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server takes.

    Attributes:
      queue: texts that wait for a row of the cache, or audio for its turn; more are answered with
        429.
      prompt: tokens of a prompt; None is what the program has memory for.
      body: bytes of a request.
      seconds: of audio, which a small file may have many of.
    """

    queue: int = 64
    prompt: int | None = None
    body: int = 1 << 20
    seconds: int = 7200


class RequestError(Exception):
    """Is answered in OpenAI's form."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def response(self) -> Response:
        return JSONResponse({"error": self.body()}, self.status)

    def body(self) -> dict[str, Any]:
        kind = _KINDS.get(self.status, "invalid_request_error")
        return {"message": str(self), "type": kind, "param": self.param, "code": self.code}


class _Cancelled(Exception):
    """Nobody waits for the answer."""


def application(generator: Generator, name: str, limits: Limits | None = None) -> Starlette:
    """Answers /v1/chat/completions, /v1/completions, /v1/models and /health.

    Args:
      generator: its `batch` is how many texts are generated at the same time.
      name: of the model.
    """
    service = _Service(generator, name, limits or Limits())
    return service.application(
        Route("/v1/completions", service.completions, methods=["POST"]),
        Route("/v1/chat/completions", service.chat, methods=["POST"]),
    )


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    found = f"{request.method} {request.url.path}: {error.detail}"
    response = RequestError(error.status_code, found).response()
    response.headers.update(error.headers or {})
    return response


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # for the log; the client left while it sent the request


async def _server_error(request: Request, error: Exception) -> Response:
    return RequestError(500, "the server failed; its log says why").response()


class ModelService:
    """What serves one model, of any kind.

    Args:
      name: of the model.
      limits: of each request.
      attributes: what /v1/models says of it, too.
    """

    def __init__(self, name: str, limits: Limits, **attributes: Any) -> None:
        self._name, self._limits = name, limits
        self._running = self._waiting = 0
        self._model: dict[str, Any] = {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "pteron",
            **attributes,
        }

    def application(self, *routes: Route) -> Starlette:
        """With /v1/models, /health and `routes`."""
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._one_model),
                *routes,
            ],
            exception_handlers={
                HTTPException: _http_error,
                ClientDisconnect: _left,
                Exception: _server_error,
            },
        )

    def check_model(self, name: Any) -> None:
        """RequestError unless the model has that name."""
        if name != self._name:
            message = f"there is no model {name!r}; the model of this server is {self._name!r}"
            raise RequestError(404, message, "model", "model_not_found")

    def check_queue(self, more: int, free: int) -> None:
        """RequestError if more wait already than may, with `free` places to run at once."""
        if self._waiting + more > self._limits.queue + free:
            message = f"{self._waiting} requests wait already; try again later"
            raise RequestError(429, message, code="queue_full")

    def limited(self, request: Request) -> Request:
        """The request; RequestError if its body has, or will have, more bytes than it may."""
        found = 0

        def check(length: int) -> None:
            if length > self._limits.body:
                raise RequestError(413, f"the request has more than {self._limits.body} bytes")

        async def receive() -> Any:
            nonlocal found
            message = await request.receive()
            found += len(message.get("body", b""))
            check(found)
            return message

        check(int(request.headers.get("content-length", 0)))

        return Request(request.scope, receive)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "running": self._running, "waiting": self._waiting})

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model]})

    async def _one_model(self, request: Request) -> Response:
        try:
            self.check_model(request.path_params["name"])
        except RequestError as error:
            return error.response()
        return JSONResponse(self._model)


class _Service(ModelService):
    def __init__(self, generator: Generator, name: str, limits: Limits) -> None:
        super().__init__(name, limits, max_model_len=generator.max_length)
        self._generator = generator
        self._pool = ThreadPoolExecutor(max_workers=generator.batch)
        self._rows = asyncio.Semaphore(generator.batch)

    async def completions(self, request: Request) -> Response:
        return await self._respond(request, _Completion())

    async def chat(self, request: Request) -> Response:
        return await self._respond(request, _Chat())

    async def _respond(self, request: Request, form: _Form) -> Response:
        try:
            fields = await self._fields(request)
            cancelled = threading.Event()
            answers = await asyncio.to_thread(self._answers, fields, form, cancelled)
            self.check_queue(len(answers), self._generator.batch - self._running)
            pieces = self._pieces(answers, cancelled)
            form.model = self._name
            if fields.get("stream"):
                options = fields.get("stream_options") or {}
                events = form.events(answers, pieces, usage=bool(options.get("include_usage")))
                return StreamingResponse(events, media_type="text/event-stream")
            return await unless_disconnected(request, form.whole(answers, pieces))
        except RequestError as error:
            return error.response()

    async def _fields(self, request: Request) -> dict[str, Any]:
        body = await self.limited(request).body()
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, f"the request is no JSON: {error}") from error
        if not isinstance(fields, dict):
            raise RequestError(400, "expected an object of JSON")
        for key, kind, expected in _TYPES:
            if fields.get(key) is not None and not isinstance(fields[key], kind):
                raise RequestError(400, f"{key}: expected {expected}", key)
        self.check_model(fields.get("model", self._name))
        for key, harmless in _REFUSED.items():
            value = fields.get(key)
            if value is not None and value not in harmless:
                raise RequestError(400, f"{key} is not supported", key, "unsupported_parameter")
        return fields

    def _answers(
        self, fields: dict[str, Any], form: _Form, cancelled: threading.Event
    ) -> list[Answer]:
        """One for each prompt, and `n` times; they compute nothing yet."""
        settings: dict[str, Any] = {"temperature": 1.0, "seed": secrets.randbits(62)}
        for key, kind in _SETTINGS.items():
            if fields.get(key) is not None:
                settings[key] = _number(fields, key, kind)
        count = _number(fields, "n", int) if fields.get("n") is not None else 1
        stop = fields.get("stop")
        stop = [] if stop in (None, "") else [stop] if isinstance(stop, str) else stop
        if not isinstance(stop, list) or not all(isinstance(text, str) for text in stop):
            raise RequestError(400, "stop: expected a string or a list of strings", "stop")

        def on_token(token: int) -> None:
            if cancelled.is_set():
                raise _Cancelled

        answers = []
        prompts = form.prompts(fields)
        if not 1 <= count * len(prompts) <= self._limits.queue:
            message = f"found {count * len(prompts)} answers; expected 1 to {self._limits.queue}"
            raise RequestError(400, message, "n")
        for prompt in prompts:
            for i in range(count):
                try:
                    answer = self._generator(
                        prompt,
                        max_new_tokens=form.most(fields),
                        stop=stop,
                        on_token=on_token,
                        **{**settings, "seed": settings["seed"] + i},
                    )
                except ValueError as error:
                    code = "context_length_exceeded" if "expected less than" in str(error) else None
                    raise RequestError(400, str(error), code=code) from error
                most = self._limits.prompt
                if most is not None and answer.prompt_tokens > most:
                    message = (
                        f"the prompt has {answer.prompt_tokens} tokens; expected at most {most}"
                    )
                    raise RequestError(400, message, code="context_length_exceeded")
                answers.append(answer)
        return answers

    async def _pieces(
        self, answers: list[Answer], cancelled: threading.Event
    ) -> AsyncIterator[tuple[int, str | None]]:
        """Texts with the number of their answer, as they come; None ends an answer."""
        loop = asyncio.get_running_loop()
        found: asyncio.Queue[tuple[int, str | Exception | None]] = asyncio.Queue()

        def work(index: int) -> None:
            last: Exception | None = None
            try:
                for text in answers[index]:
                    loop.call_soon_threadsafe(found.put_nowait, (index, text))
            except Exception as error:
                last = error
            finally:
                answers[index].close()
            loop.call_soon_threadsafe(found.put_nowait, (index, last))

        async def run(index: int) -> None:
            self._waiting += 1
            try:
                await self._rows.acquire()
            finally:
                self._waiting -= 1
            self._running += 1
            try:
                await loop.run_in_executor(self._pool, work, index)
            finally:
                self._running -= 1
                self._rows.release()

        tasks = [asyncio.create_task(run(index)) for index in range(len(answers))]
        try:
            left = len(answers)
            while left:
                index, item = await found.get()
                if isinstance(item, Exception):
                    raise item
                left -= item is None
                yield index, item
        finally:
            cancelled.set()
            for task in tasks:
                task.cancel()


async def unless_disconnected(request: Request, work: Any) -> Response:
    """The response that `work` gives, which is cancelled if the client leaves."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.create_task(work), asyncio.create_task(disconnected())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else Response(status_code=499)
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]


def _number(fields: Mapping[str, Any], key: str, kind: type) -> Any:
    value = fields[key]
    right = isinstance(value, int | float) and not isinstance(value, bool)
    right = right and abs(value) < 1 << 64  # not NaN or infinity, which JSON may have
    if not right or (kind is int and value != int(value)):
        raise RequestError(400, f"{key}: found {value!r}; expected a number", key)
    return kind(value)


class _Form(abc.ABC):
    """What differs between the two endpoints."""

    prefix = ""
    whole_object = ""
    chunk_object = ""

    def __init__(self) -> None:
        self.model = ""
        self._id = f"{self.prefix}-{secrets.token_hex(12)}"
        self._created = int(time.time())

    @abc.abstractmethod
    def prompts(self, fields: dict[str, Any]) -> list[Any]:
        """As `Generator` takes them."""

    @abc.abstractmethod
    def most(self, fields: dict[str, Any]) -> int | None:
        """Tokens of an answer."""

    @abc.abstractmethod
    def choice(self, text: str) -> dict[str, Any]:
        """Of a whole answer."""

    @abc.abstractmethod
    def chunk(self, text: str | None) -> dict[str, Any]:
        """Of a part; None is after the last one."""

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self.model}

    async def whole(
        self, answers: list[Answer], pieces: AsyncIterator[tuple[int, str | None]]
    ) -> Response:
        texts = [""] * len(answers)
        async for index, text in pieces:
            texts[index] += text or ""
        choices = [
            {
                "index": i,
                **self.choice(text),
                "logprobs": None,
                "finish_reason": answers[i].finish_reason,
            }
            for i, text in enumerate(texts)
        ]
        head = self._head(self.whole_object)
        return JSONResponse({**head, "choices": choices, "usage": _usage(answers)})

    async def events(
        self,
        answers: list[Answer],
        pieces: AsyncIterator[tuple[int, str | None]],
        *,
        usage: bool,
    ) -> AsyncIterator[str]:
        """Server-sent events."""
        head = self._head(self.chunk_object)

        def event(choices: list[dict[str, Any]], **more: Any) -> str:
            return f"data: {json.dumps({**head, 'choices': choices, **more})}\n\n"

        for choice in self.beginnings(len(answers)):
            yield event([choice])
        try:
            async for index, text in pieces:
                reason = answers[index].finish_reason if text is None else None
                choice = {"index": index, **self.chunk(text), "finish_reason": reason}
                yield event([{**choice, "logprobs": None}])
        except RuntimeError as error:  # a step failed; the status has been sent
            yield f"data: {json.dumps({'error': RequestError(500, str(error)).body()})}\n\n"
            return
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]
        if usage:
            yield event([], usage=_usage(answers))
        yield "data: [DONE]\n\n"

    def beginnings(self, count: int) -> Iterator[dict[str, Any]]:
        return iter(())


class _Completion(_Form):
    prefix, whole_object, chunk_object = "cmpl", "text_completion", "text_completion"

    def prompts(self, fields: dict[str, Any]) -> list[Any]:
        prompt = fields.get("prompt")
        if isinstance(prompt, str):
            return [prompt]
        if isinstance(prompt, list) and prompt:
            if all(type(item) is int for item in prompt):
                return [prompt]
            if all(isinstance(item, str) for item in prompt) or all(
                isinstance(item, list) and all(type(token) is int for token in item)
                for item in prompt
            ):
                return prompt
        raise RequestError(
            400, "prompt: expected a string, ids of tokens, or a list of these", "prompt"
        )

    def most(self, fields: dict[str, Any]) -> int | None:
        return 16 if fields.get("max_tokens") is None else int(_number(fields, "max_tokens", int))

    def choice(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def chunk(self, text: str | None) -> dict[str, Any]:
        return {"text": text or ""}


class _Chat(_Form):
    prefix, whole_object, chunk_object = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def prompts(self, fields: dict[str, Any]) -> list[Any]:
        messages = fields.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RequestError(400, "messages: expected a list of messages", "messages")
        for message in messages:
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                raise RequestError(
                    400, "messages: expected objects with role and content", "messages"
                )
        return [[{**m, "content": _content(m.get("content"))} for m in messages]]

    def most(self, fields: dict[str, Any]) -> int | None:
        for key in ("max_completion_tokens", "max_tokens"):
            if fields.get(key) is not None:
                return int(_number(fields, key, int))
        return None

    def beginnings(self, count: int) -> Iterator[dict[str, Any]]:
        delta = {"role": "assistant", "content": ""}
        return ({"index": i, "delta": delta, "finish_reason": None} for i in range(count))

    def choice(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def chunk(self, text: str | None) -> dict[str, Any]:
        return {"delta": {} if text is None else {"content": text}}


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [
        part["text"]
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    ]
    if not isinstance(content, list) or len(texts) != len(content):
        raise RequestError(400, "messages: expected content of text alone", "messages")
    return "".join(texts)


def _usage(answers: list[Answer]) -> dict[str, int]:
    prompt = sum(answer.prompt_tokens for answer in answers)
    completion = sum(answer.tokens for answer in answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
