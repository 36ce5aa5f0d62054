"""Programs in MLServer, by REST and gRPC of the Open Inference Protocol, as KServe and Seldon use.

    {"name": "scores", "implementation": "pteron.mlserver.PteronRuntime",
     "parameters": {"uri": "model.pte", "extra": {"limits": {"run_time": 1}}}}

is a model-settings.json for `mlserver start FOLDER`. Needs `pip install 'pteron[mlserver]'`;
docs/ray.md has a page's part on it.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.codecs.numpy import to_datatype
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor
from mlserver.utils import get_model_uri

from pteron.ray.predictor import Predictor
from pteron.runtime import BackendError, Limits, PteronError, ResourceError, TensorInfo
from pteron.runtime.python.scalar_type import NUMPY_NAMES

__all__ = ["PteronRuntime"]


class PteronRuntime(MLModel):  # type: ignore[misc]
    """A model of MLServer that is a program; dimension 0 of its tensors is the batch.

    `parameters.uri` is the file, or a folder with `model.pte`. `parameters.extra` may have `method`
    and `device`, as of `pteron.ray.Predictor`; `limits`, as of `pteron.Limits`; `max_rows`, the
    most rows of a request (by default 1024); the rest is for `Runtime.load_program`, as
    `data_path`.

    An invalid request is answered with 400 or INVALID_ARGUMENT, and what is wrong. Calls of a
    process take turns, on a thread beside the event loop.
    """

    async def load(self) -> bool:
        """Loads the program; raises what `Runtime.load_program` and `Predictor` do."""
        path = await get_model_uri(self._settings, wellknown_filenames=["model.pte"])
        given = self._settings.parameters.extra if self._settings.parameters else None
        extra: dict[str, Any] = dict(given or {})
        self._max_rows = extra.pop("max_rows", 1024)
        about = {name: extra.pop(name) for name in ("method", "device") if name in extra}
        if "limits" in extra:
            extra["limits"] = Limits(**extra["limits"])
        self._rows = Predictor(path, load_options=extra, **about).rows()
        self._thread = ThreadPoolExecutor(max_workers=1)
        self.inputs = _metadata(self._rows.inputs)
        self.outputs = _metadata(self._rows.outputs)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answers a request.

        Raises:
          InferenceError: it is not valid.
          BackendError, ResourceError: by no fault of its own.
        """
        loop = asyncio.get_running_loop()
        try:
            arrays: dict[str, Any] = {x.name: NumpyCodec.decode_input(x) for x in payload.inputs}
            n = self._rows.count(arrays)
            if n > self._max_rows:
                raise ValueError(f"found {n} rows; expected at most {self._max_rows}")
            results, errors = await loop.run_in_executor(self._thread, self._rows.run, arrays)
            for row, error in enumerate(errors):
                if error is not None:
                    raise ValueError(f"row {row}: {error}")
        except (BackendError, ResourceError):
            raise
        except (PteronError, ValueError, TypeError) as error:
            raise InferenceError(str(error)) from error
        outputs = [NumpyCodec.encode_output(name, y) for name, y in results.items()]
        for output, y in zip(outputs, results.values(), strict=True):
            output.shape = list(y.shape)  # of one dimension, it has another
        return InferenceResponse(
            id=payload.id, model_name=self.name, model_version=self.version, outputs=outputs
        )


def _metadata(tensors: Iterable[TensorInfo]) -> list[MetadataTensor]:
    """-1 are dimensions that may change."""
    made = []
    for about in tensors:
        shape = [-1, *about.sizes()[1:]] if about.is_static() else [-1] * len(about.sizes())
        datatype = to_datatype(np.dtype(NUMPY_NAMES[about.dtype().name]))
        made.append(MetadataTensor(name=about.name(), datatype=datatype, shape=shape))
    return made
