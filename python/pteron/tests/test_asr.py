"""Speech: a random Whisper writes the tokens of transformers; a trained one, what it hears."""

import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from absl.testing import flagsaver

import pteron.asr
from pteron.asr.audio import read_file
from pteron.asr.transcriber import split
from pteron.command.main import main
from pteron.exporter import ExportError
from tests.models import speech

RATE = speech.RATE

# The models are too small for several threads.
torch.set_num_threads(1)


def run(*argv: object) -> int:
    """A command line, whose flags the next one does not inherit."""
    values = importlib.import_module(f"pteron.command.{str(argv[0]).replace('-', '_')}").FLAGS
    saved = flagsaver.save_flag_values(values)
    try:
        return main(["pteron", *map(str, argv)])
    finally:
        flagsaver.restore_flag_values(saved, values)


def _exported(model: Any, folder: Path) -> Path:
    speech.save(model, folder)
    path = folder / "model.pte"
    assert run("export-asr", folder, "-o", path, "--option=cpu.isa=native") == 0
    return path


@pytest.fixture(scope="module")
def random_model() -> Any:
    """With windows of 30 s."""
    return speech.whisper(30)


@pytest.fixture(scope="module")
def random_path(random_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _exported(random_model, tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="module")
def transcriber(random_path: Path) -> Any:
    return pteron.asr.Transcriber(random_path)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that hears letters, with windows of 2 s."""
    return _exported(speech.trained(), tmp_path_factory.mktemp("trained"))


def _features(model: Any, samples: Any) -> torch.Tensor:
    is_long = len(samples) > 30 * RATE
    found: torch.Tensor = speech.extractor(model)(
        samples,
        sampling_rate=RATE,
        return_tensors="pt",
        truncation=False,
        padding="longest" if is_long else "max_length",
    ).input_features
    return found


@pytest.mark.parametrize(("language", "task"), [(None, None), ("de", None), ("en", "translate")])
@pytest.mark.parametrize(
    ("seconds", "timestamps"),
    [(3.3, False), (30, False), (3.3, True), (30, True), (30.01, True), (77.7, False)],
)
def test_tokens_are_those_of_transformers(
    transcriber: Any,
    random_model: Any,
    seconds: float,
    timestamps: bool,
    language: str | None,
    task: str | None,
) -> None:
    samples = speech.sound(seconds)
    expected = random_model.generate(
        _features(random_model, samples),
        return_timestamps=timestamps or seconds > 30,
        language=language,
        task=task,
        return_segments=True,
    )
    segments = list(transcriber(samples, language=language, task=task, timestamps=timestamps))
    tokens = [token for segment in segments for token in segment.tokens]
    wanted = expected["sequences"][0].tolist()
    # Of short audio, transformers goes on in the silence behind it.
    assert tokens == (wanted if seconds >= 30 else wanted[: len(tokens)])
    assert len(tokens) > (10 if seconds >= 30 else 3)
    for segment, other in zip(segments, expected["segments"][0], strict=False):
        start, end = (min(float(other[key]), seconds) for key in ("start", "end"))
        assert (segment.start, segment.end) == pytest.approx((start, end), abs=1e-6)
    assert {segment.language for segment in segments} <= {language or segments[0].language}


def test_what_the_model_hears_decides_on_the_language(transcriber: Any, random_model: Any) -> None:
    codes = {
        token: code.strip("<|>")
        for code, token in random_model.generation_config.lang_to_id.items()
    }
    heard = set()
    for seed in range(8):
        samples = speech.sound(5, seed)
        (token,) = random_model.detect_language(_features(random_model, samples)).tolist()
        heard.add(codes[token])
        assert next(transcriber(samples)).language == codes[token]
    assert heard == {"de", "en"}


def test_features_are_those_of_the_extractor(random_path: Path, random_model: Any) -> None:
    method = pteron.Runtime.get().load_program(random_path).load_method("features")
    samples = speech.sound(30)
    found = np.array(
        method(np.pad(samples, 200, mode="reflect")[None, : 2999 * 160 + 400])["features"]
    )
    found = (np.maximum(found, found.max() - 8) + 4) / 4
    np.testing.assert_allclose(found, _features(random_model, samples).numpy(), atol=1e-4)


@pytest.mark.parametrize("seconds", [30.5, 60, 60.0123, 95])
def test_features_of_long_audio_are_those_of_the_extractor(
    random_path: Path, random_model: Any, seconds: float
) -> None:
    from pteron.asr.transcriber import Audio

    method = pteron.Runtime.get().load_program(random_path).load_method("features")
    samples = speech.sound(seconds)
    expected = _features(random_model, samples).numpy()
    for pieces in ([samples], np.array_split(samples, 37)):
        audio = Audio(method, pieces, 3000, 160, 400)
        audio.read(None)
        limited = (np.maximum(np.concatenate(audio._read, -1), audio.maximum - 8) + 4) / 4
        assert limited.shape == expected.shape
        np.testing.assert_allclose(limited, expected, atol=1e-4)


def test_a_stream_is_transcribed_window_by_window(transcriber: Any) -> None:
    samples = speech.sound(95) / 4
    samples[:RATE] *= 8  # the loudest sound is in the first window
    sent = 0

    def pieces() -> Any:
        nonlocal sent
        for piece in np.array_split(samples, 95):
            sent += 1
            yield piece

    segments = transcriber(pieces(), language="en")
    found = [next(segments)]
    assert sent == 31, "the first segment needs the first window, and the next frame"
    found += segments
    assert sent == 95
    assert found == list(transcriber(samples, language="en"))


def test_two_that_are_transcribed_at_the_same_time_are_separate(transcriber: Any) -> None:
    audio = [speech.sound(70, 1), speech.sound(70, 2)]
    alone = [list(transcriber(samples)) for samples in audio]
    both = [transcriber(samples) for samples in audio]
    turns = [[next(segments)] for segments in both]
    assert [turn + list(rest) for turn, rest in zip(turns, both, strict=True)] == alone


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], ([(0, 50, [])], 100)),
        ([1, 2], ([(0, 50, [1, 2])], 100)),
        ([10, 1, 14], ([(0, 4, [10, 1, 14])], 100)),
        ([10, 1, 14, 14, 2], ([(0, 4, [10, 1, 14, 14])], 8)),
        ([10, 1, 14, 15, 2, 20], ([(0, 4, [10, 1, 14]), (5, 10, [15, 2, 20])], 100)),
        ([10, 1, 14, 14], ([(0, 4, [10, 1, 14, 14])], 8)),
        ([10, 10], ([(0, 0, [10, 10])], 100)),  # goes on all the same
    ],
)
def test_segments(tokens: list[int], expected: Any) -> None:
    assert split(tokens, 10, 100) == expected


_TEXTS = ("abc", "hgfed", "d", "bead", "cab")


@pytest.fixture(scope="module")
def talk() -> np.ndarray[Any, Any]:
    random = np.random.default_rng(5)
    return np.concatenate([speech.beeps(text, random) for text in _TEXTS])


@pytest.mark.parametrize(
    ("file", "rate"), [("a.wav", RATE), ("a.flac", RATE), ("a.wav", 44100), ("a.wav", 48000)]
)
def test_the_command_writes_what_is_said(
    path: Path,
    talk: Any,
    file: str,
    rate: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import soxr

    source = str(tmp_path / file)
    soundfile.write(source, soxr.resample(talk, RATE, rate), rate)
    assert run("transcribe", path, source, "--language=en") == 0
    captured = capfd.readouterr()
    assert captured.out == "".join(_TEXTS) + "\n"
    assert "5 segments in" in captured.err


def test_timestamps_and_json(
    path: Path, talk: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = str(tmp_path / "a.wav")
    soundfile.write(source, talk[: 4 * RATE], RATE)
    command = ("transcribe", path, source, "--language=english")
    assert run(*command, "--timestamps") == 0
    assert capfd.readouterr().out == "[0.00 --> 2.00]abc\n[2.00 --> 4.00]hgfed\n"
    assert run(*command, "--json") == 0
    report = json.loads(capfd.readouterr().out)
    assert report["text"] == "abchgfed"
    assert [part["start"] for part in report["segments"]] == [0.0, 2.0]
    assert report["segments"][0]["language"] == "en"


def _command(path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    argv = ["pteron", "transcribe", str(path), "-", "--language=en", *arguments]
    code = f"import sys; from pteron.command.main import main; sys.exit(main({argv!r}))"
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def _bytes(samples: Any, kind: str) -> bytes:
    if kind == "f32le":
        return bytes(samples.astype("<f4").tobytes())
    if kind == "s16le":
        return bytes((samples * 32767).astype("<i2").tobytes())
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV")
    return file.getvalue()


@pytest.mark.parametrize("kind", ["wav", "s16le", "f32le"])
def test_a_pipe_is_transcribed_before_it_ends(path: Path, talk: Any, kind: str) -> None:
    process = _command(path, *([] if kind == "wav" else [f"--raw={kind}"]))
    assert process.stdin and process.stdout
    data = _bytes(talk, kind)
    process.stdin.write(data[: len(data) // 2])
    process.stdin.flush()
    assert os.read(process.stdout.fileno(), 3) == b"abc", "while the pipe is open"
    out, _ = process.communicate(data[len(data) // 2 :])
    assert (out.decode(), process.returncode) == ("".join(_TEXTS[1:]) + "\n", 0)


def test_ctrl_c(path: Path, talk: Any) -> None:
    process = _command(path, "--raw=f32le")
    assert process.stdin and process.stdout
    process.stdin.write(_bytes(talk, "f32le")[:-4])
    process.stdin.flush()
    assert os.read(process.stdout.fileno(), 3) == b"abc"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.decode() == "pteron transcribe: interrupted\n"


def test_closing_the_iterator_cancels(transcriber: Any) -> None:
    samples = speech.sound(70, 1)
    expected = list(transcriber(samples))
    segments = transcriber(samples)
    next(segments)
    segments.close()
    assert list(transcriber(samples)) == expected


def test_channels_are_mixed(tmp_path: Path) -> None:
    left, right = speech.sound(2.5), speech.sound(2.5)[::-1]
    file = tmp_path / "stereo.wav"
    soundfile.write(file, np.stack([left, right], 1), RATE, subtype="FLOAT")
    found = np.concatenate(list(read_file(file, RATE)))
    np.testing.assert_allclose(found, (left + right) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("text.wav", "no audio that libsndfile reads"),
        ("cut.flac", "no audio that libsndfile reads"),
        ("empty.wav", "the audio is empty"),
        ("nan.wav", "samples that are NaN or too large"),
        ("none.wav", "No such file"),
        (".", "Is a directory"),
    ],
)
def test_what_is_no_speech(
    path: Path, file: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    samples = speech.sound(1)
    (tmp_path / "text.wav").write_text("RIFF, but only this")
    soundfile.write(tmp_path / "cut.flac", samples, RATE)
    (tmp_path / "cut.flac").write_bytes((tmp_path / "cut.flac").read_bytes()[:20])
    soundfile.write(tmp_path / "empty.wav", samples[:0], RATE)
    samples[50] = np.nan
    soundfile.write(tmp_path / "nan.wav", samples, RATE, subtype="FLOAT")
    assert run("transcribe", path, tmp_path / file) == 1
    captured = capfd.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--language=klingon"],
            "language: found 'klingon'; the model expects one of de, en, english, ger",
        ),
        (["--task=sing"], "task: found 'sing'; the model expects one of transcribe, translate"),
        (["--raw=s16le"], "--raw is of a pipe; found the file 'a.wav', expected -"),
    ],
)
def test_a_wrong_command_line(
    path: Path, arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("transcribe", path, "a.wav", *arguments) == 2
    assert message in capfd.readouterr().err


def test_a_pipe_that_ends_within_a_sample(path: Path) -> None:
    process = _command(path, "--raw=f32le")
    _, errors = process.communicate(b"123456")
    assert process.returncode == 1
    assert b"the pipe ends within a sample; expected f32le, 4 bytes" in errors


def test_stdin_that_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as of the interpreter then
    assert run("transcribe", path, "-") == 2
    assert "stdin, which - is, was closed" in capfd.readouterr().err


@pytest.mark.parametrize(
    "samples", [np.zeros((2, 99), np.float32), np.zeros(99, np.int16), [0.5, 0.5]]
)
def test_what_are_no_samples(transcriber: Any, samples: Any) -> None:
    with pytest.raises(ValueError, match="expected samples \\[time\\] of a float type"):
        list(transcriber(samples))


@pytest.mark.parametrize("value", [np.nan, -np.inf, 2e15, -1e30, 1e300])
def test_samples_whose_features_are_not_finite(transcriber: Any, value: float) -> None:
    from pteron.asr.transcriber import Audio

    samples = np.zeros(999, np.float64 if abs(value) > 1e38 else np.float32)
    samples[7] = value
    with pytest.raises(ValueError, match="samples that are NaN or too large; expected -1 to 1"):
        list(transcriber(samples))
    samples[:] = np.resize([1e15, -1e15], 999)  # as loud as may be
    audio = Audio(
        transcriber._program.load_method("features"),
        [samples],
        transcriber._frames,
        transcriber._hop,
        transcriber._fft,
    )
    audio.read(None)
    assert np.isfinite(audio.maximum)


def test_what_is_no_program_of_speech(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "relu.pte"
    pteron.export(torch.nn.ReLU(), (torch.randn(3),), other, options={"cpu.isa": "native"})
    assert run("transcribe", other, "a.wav") == 1
    assert "is not of speech: it has no method decode, encode" in capfd.readouterr().err


def test_packages_that_are_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert run("transcribe", path, "a.wav") == 1
    assert "pip install 'pteron[speech]'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config.json": '{"model_type": "llama"}'}, "of type 'llama'; expected 'whisper'"),
        ({"config.json": None}, "no readable config.json"),
        ({"tokenizer.json": "{}"}, "is no tokenizer"),
        ({"preprocessor_config.json": None}, "cannot load the feature extractor"),
        ({"model.safetensors": "x"}, "cannot load"),
        ({"generation_config.json": "{}"}, "has no eos_token_id or decoder_start_token_id"),
        (
            {
                "generation_config.json": '{"eos_token_id": 1, "decoder_start_token_id": 1,'
                ' "lang_to_id": ["x"]}'
            },
            "is not of a Whisper model",
        ),
        ({"config.json": "[]"}, "no readable config.json"),
    ],
)
def test_a_folder_that_cannot_be_exported(
    random_path: Path, tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(random_path.parent, folder, ignore=shutil.ignore_patterns("*.pte"))
    for name, text in change.items():
        (folder / name).unlink()
        if text is not None:
            (folder / name).write_text(text)
    with pytest.raises(ExportError, match=message):
        pteron.asr.export(folder, tmp_path / "model.pte")
    assert not (tmp_path / "model.pte").exists()


@pytest.mark.parametrize(
    ("language", "task", "expected"),
    [
        (None, None, ["<|startoftranscript|>", None]),
        ("german", None, ["<|startoftranscript|>", "<|de|>", "<|transcribe|>"]),
        ("<|de|>", "translate", ["<|startoftranscript|>", "<|de|>", "<|translate|>"]),
        (None, "translate", ["<|startoftranscript|>", None, "<|translate|>"]),
    ],
)
def test_the_language_and_task_that_a_checkpoint_is_for(
    language: str | None, task: str | None, expected: list[str | None]
) -> None:
    from pteron.asr.export_speech import _text_constants

    model, ids = speech.whisper(), speech.tokenizer()[1]
    model.generation_config.language, model.generation_config.task = language, task
    prompt = [-1 if token is None else ids[token] for token in expected]
    assert _text_constants(model)["prompt"] == prompt
    if language:
        features = torch.zeros(1, 80, 200)
        model.generation_config.return_timestamps = True
        asked = model._retrieve_init_tokens(
            features, 1, model.generation_config, model.config, 200, {}
        )
        assert asked[0].tolist()[:3] == prompt
    model.generation_config.language = "klingon"
    with pytest.raises(ExportError, match="has language 'klingon'"):
        _text_constants(model)


def test_ids_outside_of_the_vocabulary_suppress_nothing() -> None:
    """As in transformers; -1 is in generation_config.json of some checkpoints."""
    from pteron.asr.speech_model import SpeechModel

    model = speech.whisper()
    extractor = speech.extractor(model)
    model.generation_config.suppress_tokens = [-1, 3, model.config.vocab_size]
    found = SpeechModel(model, extractor).suppressed
    assert found.nonzero().flatten().tolist() == [3]


def _runner(path: Path, samples: Any, *arguments: object) -> "subprocess.CompletedProcess[bytes]":
    command = [os.path.abspath(os.environ["RUNNER"]), str(path), *map(str, arguments)]
    return subprocess.run(command, input=samples.tobytes(), capture_output=True, check=False)


@pytest.mark.parametrize(
    ("seconds", "language", "task", "timestamps"),
    [
        (3.3, "", "", 1),
        (30, "", "translate", 0),
        (30.01, "en", "", 0),
        (77.7, "de", "translate", 0),
    ],
)
def test_the_runner_in_cpp_writes_the_same(
    random_path: Path, transcriber: Any, seconds: float, language: str, task: str, timestamps: int
) -> None:
    samples = speech.sound(seconds)
    done = _runner(random_path, samples, language, task, timestamps, -1)
    assert done.returncode == 0, done.stderr
    options = {"language": language or None, "task": task or None, "timestamps": bool(timestamps)}
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    segments = list(transcriber(samples, **options))
    assert [tuple(map(int, line[2:])) for line in lines] == [s.tokens for s in segments]
    for line, segment in zip(lines, segments, strict=True):
        assert [float(t) for t in line[:2]] == pytest.approx([segment.start, segment.end], abs=1e-6)


def test_the_runner_in_cpp_writes_text(path: Path, talk: Any) -> None:
    assert _runner(path, talk).stdout.decode() == "".join(_TEXTS)


def test_the_runner_in_cpp_with_the_tokenizer_of_the_program(path: Path, talk: Any) -> None:
    done = _runner(path, talk, "own")
    assert done.returncode == 0, done.stderr
    texts = [s.text for s in pteron.asr.Transcriber(path)(talk, language="en")]
    assert done.stdout.decode() == "".join(texts) == "".join(_TEXTS)


@pytest.mark.parametrize(
    ("count", "arguments", "message"),
    [
        (0, ("", "", 0, -1), "the audio is empty"),
        (
            9,
            ("klingon", "", 0, -1),
            "the model does not know 'klingon'; expected one of the keys of",
        ),
        (9, ("", "sing", 0, -1), "the model does not know 'sing'"),
    ],
)
def test_an_error_of_the_runner_in_cpp(
    random_path: Path, count: int, arguments: tuple[object, ...], message: str
) -> None:
    done = _runner(random_path, speech.sound(1)[:count], *arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert message in done.stderr.decode()


@pytest.mark.parametrize("value", [np.nan, np.inf, -2e15])
def test_samples_that_the_runner_in_cpp_refuses(random_path: Path, value: float) -> None:
    done = _runner(random_path, np.array([0, value], np.float32), "en", "", 0, -1)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"samples that are NaN or too large; expected -1 to 1" in done.stderr


def test_the_runner_in_cpp_with_a_limit(random_path: Path, transcriber: Any) -> None:
    done = _runner(random_path, speech.sound(30), "en", "", 0, 1)
    (first, *_) = transcriber(speech.sound(30), language="en")
    assert [int(line.split()[2]) for line in done.stdout.splitlines()] == [first.tokens[0]]
    assert len(done.stdout.split()) == 3


def test_the_runner_in_cpp_refuses_other_programs(tmp_path: Path) -> None:
    other = tmp_path / "relu.pte"
    pteron.export(torch.nn.ReLU(), (torch.randn(3),), other, options={"cpu.isa": "native"})
    done = _runner(other, speech.sound(1), "", "", 0, -1)
    assert b"the program is not of speech: it has no method features" in done.stderr
