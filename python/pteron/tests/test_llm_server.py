"""`pteron serve`, called with OpenAI's client: a small model that was trained here."""

import concurrent.futures
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn

import pteron.llm
from pteron.command.main import main
from pteron.llm.generator import Answer
from pteron.llm.server import Limits, application
from tests.models.checkpoints import save, trained

TEXT = "Once there was a café 🌍 at the end of the world. Its owner counted the guests, one by one."
_TEMPLATE = (
    "{%- for message in messages %}{%- if message.role == 'system' %}"
    "{{ raise_exception('no system here') }}{%- endif %}{{ message.content }}{%- endfor %}"
)
_CHAT: Any = [{"role": "user", "content": "Once there"}]
_ANSWER = TEXT.removeprefix("Once there")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    save(trained(TEXT), folder, chat_template=_TEMPLATE)
    program = folder / "small.pte"
    options = {"cpu.isa": "native"}
    pteron.llm.export(folder, program, max_length=256, chunk=16, batch=2, options=options)
    return program


@contextlib.contextmanager
def _served(*command: str) -> Iterator[tuple[subprocess.Popen[str], openai.OpenAI]]:
    with subprocess.Popen(
        [sys.executable, *command], stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
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
            yield process, _client(found[1])
        finally:
            process.kill()


def _client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60)


_MAIN = "import sys; from pteron.command.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def client(path: Path) -> Iterator[openai.OpenAI]:
    flags = ["--port=0", "--max-body=20000", "--max-prompt=150"]
    with _served("-c", _MAIN, "serve", str(path), *flags) as (_, found):
        yield found


@pytest.fixture(scope="module")
def generator(path: Path) -> Any:
    return pteron.llm.Generator(path)


def _get(client: openai.OpenAI, path: str, body: bytes | None = None) -> tuple[int, Any]:
    url = str(client.base_url).removesuffix("v1/") + path
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body)) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_chat(client: openai.OpenAI) -> None:
    done = client.chat.completions.create(model="small", messages=_CHAT, temperature=0)
    (choice,) = done.choices
    assert choice.message.content == _ANSWER
    assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
    assert done.usage is not None
    assert done.usage.prompt_tokens == len("Once there")
    assert done.usage.completion_tokens == len(_ANSWER.encode())
    assert done.usage.total_tokens == len(TEXT.encode())
    parts: Any = [{"type": "text", "text": "Once "}, {"type": "text", "text": "there"}]
    done = client.chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": parts}],
        temperature=0,
        max_completion_tokens=4,
    )
    assert done.choices[0].message.content == _ANSWER[:4]
    assert done.choices[0].finish_reason == "length"


def test_a_chat_in_a_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="small",
        messages=_CHAT,
        temperature=0,
        stop=["guests"],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    deltas = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(deltas) == _ANSWER.partition("guests")[0]
    assert len(deltas) > 20
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-2:] == [None, "stop"]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(_ANSWER.partition("guests")[0].encode()) + 6
    assert len({c.id for c in chunks}) == 1


def test_completions(client: openai.OpenAI, generator: Any) -> None:
    def texts(**options: Any) -> list[str]:
        done = client.completions.create(model="small", **options)
        assert [choice.index for choice in done.choices] == list(range(len(done.choices)))
        return [choice.text for choice in done.choices]

    assert texts(prompt="Once there", temperature=0) == [
        _ANSWER.encode()[:16].decode(errors="ignore")
    ]
    sampled = {"temperature": 2.0, "top_p": 0.9, "max_tokens": 30}
    alone = ["".join(generator("Once", **_settings(sampled), seed=seed)) for seed in (5, 6)]
    assert texts(prompt="Once", seed=5, n=2, **sampled) == alone
    assert alone[0] != alone[1]
    assert texts(prompt="Once", **sampled) != texts(prompt="Once", **sampled), "a seed each time"
    prompts = ["Once there", "Once there was"]
    ids = [generator.ids(prompt) for prompt in prompts]
    expected = [
        TEXT.removeprefix(prompt).encode()[:8].decode(errors="ignore") for prompt in prompts
    ]
    greedy = {"temperature": 0, "max_tokens": 8}
    assert texts(prompt=prompts, **greedy) == texts(prompt=ids, **greedy) == expected
    assert texts(prompt=ids[0], **greedy) == expected[:1]
    extra = {"top_k": 1, "min_p": 0.1, "repetition_penalty": 1.0}
    assert texts(prompt="Once there", max_tokens=8, extra_body=extra) == expected[:1]
    pieces = ["", ""]
    for chunk in client.completions.create(model="small", prompt=prompts, stream=True, **greedy):
        pieces[chunk.choices[0].index] += chunk.choices[0].text
    assert pieces == expected


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    return {("max_new_tokens" if k == "max_tokens" else k): v for k, v in options.items()}


def test_many_at_the_same_time_are_as_alone(client: openai.OpenAI, generator: Any) -> None:
    def one(i: int) -> str:
        done = client.completions.create(
            model="small", prompt=TEXT[: 3 + 2 * i], max_tokens=40, temperature=2.0, seed=i
        )
        return done.choices[0].text

    expected = [
        "".join(generator(TEXT[: 3 + 2 * i], max_new_tokens=40, temperature=2.0, seed=i))
        for i in range(12)
    ]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(one, range(12))) == expected


def test_models_and_health(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("small").owned_by == "pteron"
    with pytest.raises(openai.NotFoundError, match="no model 'large'; .* is 'small'"):
        client.models.retrieve("large")
    assert _get(client, "health") == (200, {"status": "ok", "running": 0, "waiting": 0})


@pytest.mark.parametrize(
    ("options", "message", "param", "code"),
    [
        ({"model": "large"}, "no model 'large'", "model", "model_not_found"),
        ({"prompt": ""}, "the prompt is empty", None, None),
        ({"prompt": {"a": 1}}, "expected a string, ids of tokens", "prompt", None),
        ({"prompt": [5, "x"]}, "expected a string, ids of tokens", "prompt", None),
        ({"prompt": [5000]}, "outside of the vocabulary", None, None),
        ({"prompt": "x" * 256}, "expected less than 256", None, "context_length_exceeded"),
        ({"prompt": "x" * 151}, "expected at most 150", None, "context_length_exceeded"),
        ({"temperature": -1}, "temperature is -1.0; expected a number from 0", None, None),
        ({"temperature": "hot"}, "found 'hot'; expected a number", "temperature", None),
        ({"seed": 0.5}, "found 0.5; expected a number", "seed", None),
        ({"max_tokens": -3}, "max_new_tokens is -3", None, None),
        ({"stop": [""]}, "expected strings that are not empty", None, None),
        ({"stop": False}, "expected a string or a list", "stop", None),
        ({"stream": "false"}, "stream: expected true or false", "stream", None),
        ({"stop": [1]}, "expected a string or a list", "stop", None),
        ({"n": 0}, "found 0 answers; expected 1 to 64", "n", None),
        ({"n": 65}, "found 65 answers; expected 1 to 64", "n", None),
        ({"logprobs": 3}, "logprobs is not supported", "logprobs", "unsupported_parameter"),
        ({"echo": True}, "echo is not supported", "echo", "unsupported_parameter"),
    ],
)
def test_an_invalid_request(
    client: openai.OpenAI, options: dict[str, Any], message: str, param: str | None, code: str
) -> None:
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as raised:
        client.completions.create(**{"model": "small", "prompt": "Once", **options})
    error: Any = raised.value.body
    assert message in error["message"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)


def test_invalid_chats(client: openai.OpenAI) -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    for messages, message in (
        ([], "expected a list of messages"),
        (["hello"], "expected objects with role and content"),
        ([image], "expected content of text alone"),
        ([{"role": "user", "content": [{"type": "text"}]}], "expected content of text alone"),
        ([{"role": "user", "content": 5}], "expected content of text alone"),
        ([{"role": "system", "content": "x"}], "chat template: no system here"),
    ):
        with pytest.raises(openai.BadRequestError, match=message):
            client.chat.completions.create(model="small", messages=messages)  # type: ignore[arg-type]


def test_what_is_no_request(client: openai.OpenAI) -> None:
    for path, body, status, message in (
        ("v1/completions", b"{", 400, "is no JSON"),
        ("v1/completions", b"[]", 400, "expected an object"),
        ("v1/completions", b"[" * 19000, 400, "is no JSON"),
        ("v1/completions", b'{"prompt": "x", "max_tokens": 1e999}', 400, "expected a number"),
        ("v1/completions", b'{"prompt": "x", "seed": NaN}', 400, "expected a number"),
        ("v1/completions", b'{"prompt": "x", "top_p": 1%s}' % (b"0" * 400), 400, "a number"),
        ("v1/completions", b'{"prompt": "x", "stream_options": [1]}', 400, "expected an object"),
        ("v1/completions", b'{"prompt": "x", "stream": 1}', 400, "expected true or false"),
        ("v1/completions", rb'{"prompt": "\ud800"}', 400, "cannot be split into tokens"),
        (
            "v1/chat/completions",
            rb'{"messages": [{"role": "user", "content": "\udc80"}]}',
            400,
            "tokens",
        ),
        ("v1/completions", b"x" * 20001, 413, "more than 20000 bytes"),
        ("v1/completions", None, 405, "GET /v1/completions: Method Not Allowed"),
        ("v1/embeddings", b"{}", 404, "POST /v1/embeddings: Not Found"),
    ):
        found, answer = _get(client, path, body)
        assert found == status
        assert message in answer["error"]["message"]


def test_the_command_line(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["pteron", "serve", str(path.with_name("none.pte"))]) == 2
    for flag in ("max-queue=0", "max-prompt=0", "max-body=-1", "port=65536", "port=-1"):
        assert main(["pteron", "serve", str(path), f"--{flag}"]) == 2
        assert f"flag --{flag}: " in capfd.readouterr().err


class Slow:
    """A generator whose answers take `seconds`; it records which were closed."""

    batch, max_length = 1, 1000

    def __init__(self, *_: Any, seconds: float = 60.0, **__: Any) -> None:
        self.seconds, self.closed = seconds, 0

    def __call__(self, prompt: Any, *, on_token: Any, **_: Any) -> Answer:
        def steps() -> Iterator[list[int | None]]:
            try:
                for _ in range(int(self.seconds / 0.01)):
                    time.sleep(0.01)
                    yield [1]
            finally:
                self.closed += 1

        return Answer(steps(), lambda token: "x", [], on_token, 1, 1 << 30)


@pytest.fixture
def slow() -> Iterator[tuple[Slow, openai.OpenAI]]:
    generator: Any = Slow()
    config = uvicorn.Config(application(generator, "slow", Limits(queue=1)), port=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        _until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield generator, _client(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def _until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_who_leaves_cancels(slow: tuple[Slow, openai.OpenAI]) -> None:
    generator, client = slow
    stream = client.completions.create(model="slow", prompt="x", stream=True)
    next(iter(stream))
    assert _get(client, "health")[1]["running"] == 1
    stream.close()
    _until(lambda: generator.closed == 1)
    _until(lambda: _get(client, "health")[1]["running"] == 0)
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).completions.create(model="slow", prompt="x")
    _until(lambda: generator.closed == 2)
    _until(lambda: _get(client, "health")[1]["running"] == 0)


def test_who_leaves_within_a_request_is_no_error(
    slow: tuple[Slow, openai.OpenAI], caplog: pytest.LogCaptureFixture
) -> None:
    _, client = slow
    for head in (b"Content-Length: 100", b"Transfer-Encoding: chunked"):
        address = (str(client.base_url.host), client.base_url.port)
        with socket.create_connection(address) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % head)
            time.sleep(0.1)
    time.sleep(0.1)
    assert _get(client, "health")[0] == 200
    assert not [record for record in caplog.records if record.exc_info]


def test_a_queue_that_is_full(slow: tuple[Slow, openai.OpenAI]) -> None:
    generator, client = slow
    running = client.completions.create(model="slow", prompt="x", stream=True)
    next(iter(running))
    waiting = client.completions.create(model="slow", prompt="x", stream=True)
    _until(lambda: _get(client, "health")[1]["waiting"] == 1)
    with pytest.raises(openai.RateLimitError) as raised:
        client.completions.create(model="slow", prompt="x")
    error: Any = raised.value.body
    assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
    running.close()
    next(iter(waiting))  # it is its turn
    waiting.close()
    _until(lambda: generator.closed == 2)


def test_after_sigterm_running_answers_are_complete(path: Path) -> None:
    script = (
        "import pteron.llm.generator as g, test_llm_server as t;"
        f"g.Generator = lambda *a, **k: t.Slow(seconds=1.0); {_MAIN}"
    )
    folder = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {folder!r}); {script}"
    with _served("-c", script, "serve", str(path), "--port=0") as (process, client):
        stream = client.completions.create(model="small", prompt="x", stream=True)
        chunks = iter(stream)
        next(chunks)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(openai.APIConnectionError):
            client.models.list()
        assert "".join(chunk.choices[0].text for chunk in chunks) == "x" * 99
        assert process.wait(20) == 128 + signal.SIGTERM
