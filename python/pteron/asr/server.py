"""OpenAI's HTTP interface to a program of speech, as an ASGI application of Starlette.

app = application(Transcriber("model.pte"), "model")
uvicorn.run(app)
"""

import asyncio
import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pteron.asr.audio import Samples, read_file
from pteron.asr.transcriber import Segment, Transcriber
from pteron.llm.generator import import_package
from pteron.llm.server import Limits, ModelService, RequestError, unless_disconnected

#: What would change an answer and is not supported, with the values that change nothing.
_REFUSED = {
    "chunking_strategy": ("auto",),
    "include[]": (),
    "prompt": ("",),
    "stream": ("false",),
    "temperature": ("0", "0.0"),
    "timestamp_granularities[]": ("segment",),
}


def application(transcriber: Transcriber, name: str, limits: Limits | None = None) -> Starlette:
    """Answers /v1/audio/transcriptions, /v1/audio/translations, /v1/models and /health.

    One audio is transcribed at a time.

    Args:
      name: of the model.
    """
    import_package("python_multipart", "serve")
    service = _Service(transcriber, name, limits or Limits(body=25 << 20))
    return service.application(
        Route("/v1/audio/transcriptions", service.transcriptions, methods=["POST"]),
        Route("/v1/audio/translations", service.translations, methods=["POST"]),
    )


class _Service(ModelService):
    def __init__(self, transcriber: Transcriber, name: str, limits: Limits) -> None:
        super().__init__(name, limits)
        self._transcriber = transcriber
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._turn = asyncio.Semaphore()

    async def transcriptions(self, request: Request) -> Response:
        return await self._respond(request, None)

    async def translations(self, request: Request) -> Response:
        return await self._respond(request, "translate")

    async def _respond(self, request: Request, task: str | None) -> Response:
        try:
            self.check_queue(1, 1 - self._running)
            async with self.limited(request).form(max_files=1, max_fields=20) as form:
                self.check_model(form.get("model", self._name))
                for key, harmless in _REFUSED.items():
                    if any(value not in harmless for value in form.getlist(key)):
                        code = "unsupported_parameter"
                        raise RequestError(400, f"{key} is not supported", key, code)
                return await unless_disconnected(request, self._transcribe(form, task))
        except RequestError as error:
            return error.response()

    async def _transcribe(self, form: FormData, task: str | None) -> Response:
        file, kind = form.get("file"), form.get("response_format", "json")
        if not isinstance(file, UploadFile):
            raise RequestError(400, "file: expected an audio file", "file")
        if kind not in _FORMATS:
            message = f"found {kind!r}; expected one of {', '.join(_FORMATS)}"
            raise RequestError(400, f"response_format: {message}", "response_format")
        cancelled = threading.Event()

        def work() -> Response:
            samples = self._samples(file)
            segments = []
            for segment in self._transcriber(
                samples, language=form.get("language") or None, task=task,
                timestamps=kind in ("verbose_json", "srt", "vtt"),
            ):  # fmt: skip
                segments.append(segment)
                if cancelled.is_set():
                    break
            return _FORMATS[kind](segments, samples, self._transcriber.sampling_rate, task)

        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        self._running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except ValueError as error:
            raise RequestError(400, str(error)) from error
        finally:
            cancelled.set()
            self._running -= 1
            self._turn.release()

    def _samples(self, file: UploadFile) -> Samples:
        rate = self._transcriber.sampling_rate
        pieces, left = [np.zeros(0, np.float32)], self._limits.seconds * rate
        for piece in read_file(file.file, rate):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise RequestError(413, f"the audio has more than {self._limits.seconds} s", "file")
        return np.concatenate(pieces)


def _text(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments).strip()


def _json(segments: Sequence[Segment], samples: Samples, rate: int, task: str | None) -> Response:
    usage = {"type": "duration", "seconds": math.ceil(len(samples) / rate)}
    return JSONResponse({"text": _text(segments), "usage": usage})


def _verbose_json(
    segments: Sequence[Segment], samples: Samples, rate: int, task: str | None
) -> Response:
    parts = [{"id": i, **dataclasses.asdict(segment)} for i, segment in enumerate(segments)]
    return JSONResponse(
        {
            "task": task or "transcribe",
            "language": segments[0].language if segments else None,
            "duration": len(samples) / rate,
            "text": _text(segments),
            "segments": parts,
            "usage": {"type": "duration", "seconds": math.ceil(len(samples) / rate)},
        }
    )


def _plain(segments: Sequence[Segment], *_: Any) -> Response:
    return PlainTextResponse(_text(segments) + "\n")


def _subtitles(mark: str, head: str, numbered: bool) -> Callable[..., Response]:
    def time_of(seconds: float) -> str:
        ms = round(seconds * 1000)
        return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"

    def response(segments: Sequence[Segment], *_: Any) -> Response:
        parts = [
            (f"{number}\n" if numbered else "")
            + f"{time_of(segment.start)} --> {time_of(segment.end)}\n{segment.text.strip()}\n\n"
            for number, segment in enumerate(segments, 1)
        ]
        return PlainTextResponse(head + "".join(parts))

    return response


_FORMATS: dict[Any, Callable[..., Response]] = {
    "json": _json,
    "text": _plain,
    "srt": _subtitles(",", "", numbered=True),
    "verbose_json": _verbose_json,
    "vtt": _subtitles(".", "WEBVTT\n\n", numbered=False),
}
