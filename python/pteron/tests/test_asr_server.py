"""`pteron serve` of a program of speech, called with OpenAI's client: a small random model."""

import http.client
import io
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
import torch

import pteron.asr
from tests.models import speech

_MAIN = "import sys; from pteron.command.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("checkpoint")
    speech.save(speech.whisper(30), folder)
    options = {"cpu.isa": "native"}
    pteron.asr.export(folder, folder / "small.pte", options=options)
    return folder / "small.pte"


@pytest.fixture(scope="module")
def client(path: Path) -> Iterator[openai.OpenAI]:
    command = [
        sys.executable,
        "-c",
        _MAIN,
        "serve",
        str(path),
        "--port=0",
        "--max-body=3000000",
        "--max-seconds=60",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stderr is not None
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if found := re.search(r"running on (http://[0-9.:]+)", line):
                    break
            else:
                raise AssertionError("".join(lines))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield openai.OpenAI(base_url=f"{found[1]}/v1", api_key="none", max_retries=0)
        finally:
            process.kill()


def _file(seconds: float, kind: str = "flac") -> tuple[str, bytes]:
    stream = io.BytesIO()
    soundfile.write(stream, speech.sound(seconds), speech.RATE, format=kind)
    return f"speech.{kind}", stream.getvalue()


@pytest.fixture(scope="module")
def segments(path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[pteron.asr.Segment]:
    """What the transcriber hears in 40 s of the same file."""
    file = tmp_path_factory.mktemp("sound") / "speech.flac"
    file.write_bytes(_file(40)[1])
    return list(pteron.asr.Transcriber(path)(str(file), language="de", timestamps=True))


def test_each_format(client: openai.OpenAI, segments: list[pteron.asr.Segment]) -> None:
    audio: Any = client.audio.transcriptions
    call = {"model": "small", "file": _file(40), "language": "de"}
    text = "".join(segment.text for segment in segments).strip()
    assert len(segments) > 1
    found = audio.create(**call)
    assert (found.text, found.usage.seconds) == (text, 40)
    assert audio.create(**call, response_format="text") == text + "\n"
    whole = audio.create(**call, response_format="verbose_json")
    assert (whole.text, whole.language, whole.duration) == (text, "de", 40)
    assert [(s.start, s.end, s.text) for s in whole.segments] == [
        (s.start, s.end, s.text) for s in segments
    ]
    for kind, head, mark in (("srt", "1\n", ","), ("vtt", "WEBVTT\n\n", ".")):
        said = audio.create(**call, response_format=kind)
        assert said.startswith(f"{head}00:00:")
        assert said.count(" --> ") == len(segments)
        assert re.search(rf"00:00:[0-5]\d\{mark}\d\d\d --> ", said)


def test_a_translation(client: openai.OpenAI, path: Path) -> None:
    found = client.audio.translations.create(model="small", file=_file(3))
    samples = soundfile.read(io.BytesIO(_file(3)[1]), dtype="float32")[0]
    said = pteron.asr.Transcriber(path)(samples, task="translate")
    assert found.text == "".join(segment.text for segment in said).strip()


@pytest.mark.parametrize(
    ("options", "message", "param"),
    [
        ({"model": "large"}, "there is no model 'large'", "model"),
        ({"file": ("a.wav", b"no audio")}, "is no audio that libsndfile reads", None),
        ({"file": _file(0, "wav")}, "the audio is empty", None),
        ({"language": "klingon"}, "language: found 'klingon'", None),
        ({"response_format": "html"}, "expected one of json, text", "response_format"),
        ({"temperature": 0.5}, "temperature is not supported", "temperature"),
        ({"prompt": "Names:"}, "prompt is not supported", "prompt"),
        ({"stream": True}, "stream is not supported", "stream"),
    ],
)
def test_an_invalid_request(
    client: openai.OpenAI, options: dict[str, Any], message: str, param: str | None
) -> None:
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as raised:
        client.audio.transcriptions.create(**{"model": "small", "file": _file(1), **options})
    error: Any = raised.value.body
    assert message in error["message"]
    assert error["param"] == param


def test_a_small_file_of_long_silence(client: openai.OpenAI) -> None:
    stream = io.BytesIO()
    soundfile.write(stream, np.zeros(61 * 8000), 8000, format="FLAC")
    assert len(stream.getvalue()) < 20000
    with pytest.raises(openai.APIStatusError, match="the audio has more than 60 s") as raised:
        file = ("silence.flac", stream.getvalue())
        client.audio.transcriptions.create(model="small", file=file)
    assert raised.value.status_code == 413


def test_what_is_no_request(client: openai.OpenAI) -> None:
    multipart = {"Content-Type": "multipart/form-data; boundary=x"}
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (head, bytes(3000001)))
    for body, headers, status, message in (
        (b"{}", {"Content-Length": "2"}, 400, "file: expected an audio file"),
        (b"no parts", {"Content-Length": "8", **multipart}, 400, "POST /v1/audio/transcriptions"),
        (b"", {"Content-Length": "3000001", **multipart}, 413, "more than 3000000 bytes"),
        (b"0\r\n\r\n", {"Transfer-Encoding": "chunked"}, 400, "file: expected an audio file"),
        (chunks, {"Transfer-Encoding": "chunked", **multipart}, 413, "more than 3000000 bytes"),
        (chunks, {"Content-Length": "9", "Transfer-Encoding": "chunked", **multipart}, 413, ""),
    ):
        connection = http.client.HTTPConnection(client.base_url.host, client.base_url.port)
        connection.request("POST", "/v1/audio/transcriptions", body, headers)
        answer = connection.getresponse()
        assert answer.status == status
        assert message in json.loads(answer.read())["error"]["message"]
        connection.close()
    assert [model.id for model in client.models.list()] == ["small"]
