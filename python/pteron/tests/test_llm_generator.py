"""A small model, trained here, writes its text: from Python and from the command line."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import pteron.llm
from pteron.command.main import main
from pteron.exporter import ExportError
from tests.models.checkpoints import byte_ids, save, trained

TEXT = (
    "Once there was a café 🌍 at the end of the world. Its owner counted the guests, one after"
    " another: \U0001f469\u200d\U0001f680, ünï, and 中文. Nobody else came.\n"
)
_TEMPLATE = (
    "{%- for message in messages %}{%- if message.role != 'user' %}"
    "{{ raise_exception('only users speak') }}{%- endif %}{{ bos_token[:0] + message.content }}"
    "{%- endfor %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("checkpoint")
    save(trained(TEXT), found, chat_template=_TEMPLATE)
    return found


@pytest.fixture(scope="module")
def path(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program for two texts at a time."""
    found = tmp_path_factory.mktemp("program") / "model.pte"
    arguments = ["pteron", "export-lm", str(folder), "-o", str(found), "--option=cpu.isa=native"]
    assert main([*arguments, "--max-length=256", "--chunk=16", "--batch=2"]) == 0
    return found


@pytest.fixture(scope="module")
def generator(path: Path) -> Any:
    return pteron.llm.Generator(path)


def test_it_writes_its_text(generator: Any) -> None:
    for beginning in ("O", "Once there was a café", TEXT[:100]):
        pieces = list(generator(beginning))
        assert beginning + "".join(pieces) == TEXT
        assert all(pieces)
        assert not any("\ufffd" in piece for piece in pieces)
    assert len(list(generator("Once"))) > 100, "they come one by one"
    assert byte_ids(TEXT)[:9] == generator.ids(TEXT)[:9]


def test_an_answer_within_a_character_has_no_part_of_it(generator: Any) -> None:
    beginning = TEXT[: TEXT.index("🌍")]
    for count in range(5):
        text = "".join(generator(beginning, max_new_tokens=count))
        assert text == ("🌍" if count == 4 else "")


def test_stop_strings_are_not_written_in_part(generator: Any) -> None:
    def answer(*stop: str) -> list[str]:
        return list(generator("Once there", stop=stop))

    expected = TEXT.removeprefix("Once there")
    assert "".join(answer("the world")) == expected.partition("the world")[0]
    assert "".join(answer("world", "the end")) == expected.partition("the end")[0]
    assert "".join(answer("the worlds")) == expected
    assert "".join(answer(" was")) == ""
    # "the " begins a stop string, until the "g" of "guests".
    pieces = answer("the world.!")
    assert "".join(pieces) == expected
    assert "".join(generator("Once there", stop="the world")) == expected.partition("the world")[0]


def test_rows_of_a_batch_are_as_alone(generator: Any) -> None:
    prompts = [generator.ids(TEXT[:40]), generator.ids("xyzzy plugh, "), generator.ids("é")]
    for settings in ({}, {"temperature": 2.0, "seed": 5, "repetition_penalty": 1.5}):
        alone = [
            [token for (token,) in generator.tokens([ids], max_new_tokens=30, **settings)]
            for ids in prompts
        ]
        for first, second in ((0, 1), (1, 0), (2, 0), (1, 2)):
            steps = generator.tokens(
                [prompts[first], prompts[second]], max_new_tokens=30, **settings
            )
            both = list(zip(*steps, strict=True))
            for row, number in enumerate((first, second)):
                assert [token for token in both[row] if token is not None] == alone[number]
    assert alone[0] != alone[1]


def test_texts_that_are_written_at_the_same_time_are_separate(generator: Any) -> None:
    beginnings = ["Once there", TEXT[:90]]
    running = [generator(beginning) for beginning in beginnings]
    for _ in range(10):
        for i, text in enumerate(running):
            beginnings[i] += next(text)
    running[0].close()  # cancelled
    assert TEXT.startswith(beginnings[0])
    assert beginnings[1] + "".join(running[1]) == TEXT
    assert "Once" + "".join(generator("Once")) == TEXT


def test_beginnings_that_are_held_change_nothing(path: Path) -> None:
    settings: dict[str, Any] = {"temperature": 2.0, "seed": 3, "repetition_penalty": 1.5}
    generator = pteron.llm.Generator(path)
    beginning = generator.ids(TEXT[:60])
    prompts = [beginning + generator.ids(end) for end in ("was", "the", "it counted")]
    expected = [
        [t for (t,) in pteron.llm.Generator(path).tokens([ids], max_new_tokens=20, **settings)]
        for ids in prompts
    ]
    (batch,) = generator._batches
    prefill, copy = batch._methods["prefill"], batch._methods["copy"]
    read: list[int] = []
    copied: list[int] = []

    class Counted:
        def __init__(self, method: Any, add: Any) -> None:
            self.method, self.add = method, add

        def execute(self, inputs: list[Any]) -> Any:
            self.add(inputs)
            return self.method.execute(inputs)

    batch._methods["prefill"] = Counted(prefill, lambda inputs: read.append(int(inputs[2][0])))
    batch._methods["copy"] = Counted(copy, lambda inputs: copied.append(int(inputs[0][0])))
    running = generator.tokens([prompts[0]], max_new_tokens=20, **settings)
    found = [[t for (t,) in (next(running),)]]
    for ids in prompts[1:]:  # in the other row: first copied, then held there
        steps = generator.tokens([ids], max_new_tokens=20, **settings)
        found.append([t for (t,) in steps])
    found[0] += [t for (t,) in running]
    assert found == expected
    assert len({tuple(answer) for answer in expected}) == 3
    assert sum(read) == len(prompts[0]) - 1 + 2 + len("it counted") - 1
    assert copied == [0]


def test_sampling_is_of_its_seed(generator: Any) -> None:
    def said(**settings: Any) -> str:
        return "".join(generator("Once", max_new_tokens=40, **settings))

    first = said(temperature=3.0, seed=1)
    assert first == said(temperature=3.0, seed=1)
    assert first != said(temperature=3.0, seed=2)
    assert said(temperature=3.0, seed=2, top_k=1) == said() == TEXT[4:44][: len(said())]


def test_a_chat(generator: Any) -> None:
    messages = [{"role": "user", "content": "Once there"}]
    assert "".join(generator(messages)) == TEXT.removeprefix("Once there")
    with pytest.raises(ValueError, match="chat template: only users speak"):
        generator([{"role": "system", "content": "x"}])


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ("", {}, "the prompt is empty"),
        ([], {}, "the prompt is empty"),
        ("x" * 256, {}, "has 256 tokens; expected less than 256"),
        ([300], {}, "outside of the vocabulary, 0 to 257"),
        (b"Once", {}, "the prompt is of bytes"),
        ([1.5], {}, "expected a text, messages of a chat, or ids"),
        ([1, "a"], {}, "expected a text, messages of a chat, or ids"),
        (5, {}, "expected a text, messages of a chat, or ids"),
        ("a\ud800", {}, "cannot be split into tokens: .*surrogates not allowed"),
        ("x", {"temperature": -0.1}, "temperature is -0.1; expected a number from 0"),
        ("x", {"temperature": "1"}, "temperature is '1'; expected a number"),
        ("x", {"top_k": 2.5, "seed": 1.5}, "top_k is 2.5; expected an integer .*seed is 1.5"),
        ("x", {"seed": 1 << 63}, "from 0 to 9223372036854775807"),
        ("x", {"temperature": float("nan")}, "temperature is nan; expected"),
        ("x", {"top_p": 1.1, "top_k": -1}, "top_k is -1.*; top_p is 1.1"),
        ("x", {"top_p": 0.0}, "top_p is 0.0; expected a number more than 0, at most 1"),
        ("x", {"min_p": 2.0}, "min_p is 2.0"),
        ("x", {"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        ("x", {"repetition_penalty": 1e-40}, "expected a number from 1e-6 to 1e6"),
        ("x", {"seed": -1}, "seed is -1"),
        ("x", {"max_new_tokens": -1}, "max_new_tokens is -1"),
        ("x", {"max_new_tokens": 1.5}, "max_new_tokens is 1.5; expected an integer"),
        ("x", {"stop": ["a", ""]}, "expected strings that are not empty"),
        ("x", {"stop": b"a"}, "expected strings that are not empty"),
    ],
)
def test_an_error(generator: Any, prompt: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generator(prompt, **settings)


def test_ids_of_any_integers(generator: Any) -> None:
    ids = generator.ids("Once there")
    for prompt in (tuple(ids), np.array(ids), list(map(np.int32, ids)), torch.tensor(ids)):
        assert "".join(generator(prompt)) == TEXT.removeprefix("Once there")
    assert next(generator.tokens([np.array(ids)], max_new_tokens=np.int64(1))) == generator.ids(" ")


def test_a_stop_string_of_any_length_takes_no_time(generator: Any) -> None:
    begin = time.monotonic()
    assert "".join(generator("Once there", stop=" " * 1_000_000)) == TEXT.removeprefix("Once there")
    assert time.monotonic() - begin < 5


def test_too_many_prompts(generator: Any) -> None:
    with pytest.raises(ValueError, match="found 3 prompts; expected 1 to 2"):
        generator.tokens([[1], [2], [3]])


def test_the_longest_prompt(generator: Any) -> None:
    assert len(list(generator.tokens([[5] * 255], temperature=5.0))) == 1


def test_the_command_line(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["pteron", "generate", str(path), "Once there", "--stop=one after"]) == 0
    captured = capfd.readouterr()
    assert captured.out == TEXT.removeprefix("Once there").partition("one after")[0] + "\n"
    assert "tokens; the first after" in captured.err
    assert main(["pteron", "generate", str(path), "Once there", "--chat", "--json", "--stop="]) == 2
    assert "strings that are not empty" in capfd.readouterr().err
    assert main(["pteron", "generate", str(path), "Once", "--top-p=7", "--nojson"]) == 2
    assert "top_p is 7.0; expected" in capfd.readouterr().err


def test_the_runner_in_cpp_generates_the_same(path: Path, generator: Any) -> None:
    def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
        command = [os.path.abspath(os.environ["RUNNER"]), str(path), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, check=False)

    for ids in (generator.ids("O"), generator.ids(TEXT[:60])):
        for temperature, seed in ((0, 0), (3.0, 5)):
            steps = generator.tokens([ids], temperature=temperature, seed=seed, max_new_tokens=40)
            done = run(temperature, seed, *ids)
            assert done.returncode == 0, done.stderr
            assert list(map(int, done.stdout.split())) == [token for (token,) in steps]
    assert run(-1, 0, 5).stderr == b"temperature is -1; expected 0 to 1e30\n"
    assert b"has 256 tokens; expected less than 256" in run(0, 0, *[5] * 256).stderr
    assert b"the id 300; expected 0 to 257" in run(0, 0, 300).stderr
    assert run("O").stdout == re.sub(rb"[^!-~]", b"?", TEXT.encode()[:31])


def test_the_program_is_all_that_the_example_in_cpp_needs(path: Path, generator: Any) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [os.path.abspath(os.environ["EXAMPLE"]), *arguments]
        return subprocess.run(command, capture_output=True, check=False)

    for prompt in ("Once there was a café 🌍", TEXT[:100]):
        done = run(str(path), prompt)
        assert done.returncode == 0, done.stderr
        answer = "".join(generator(prompt, max_new_tokens=200))
        assert len(answer) > 20
        assert done.stdout.decode() == prompt + answer
    assert run().returncode == 2
    assert b"cannot open" in run("nowhere.pte", "x").stderr


def test_what_is_no_language_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "relu.pte"
    pteron.export(torch.nn.ReLU(), (torch.randn(3),), other, options={"cpu.isa": "native"})
    with pytest.raises(ValueError, match="is no language model: it has no method decode"):
        pteron.llm.Generator(other)
    assert main(["pteron", "generate", str(other), "x"]) == 1
    assert "is no language model" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors.index.json"])
def test_a_folder_without_a_file(name: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "folder")
    (tmp_path / "folder" / name).unlink()
    message = "cannot load" if "model" in name else f"no readable {name}"
    with pytest.raises(ExportError, match=message):
        pteron.llm.export(tmp_path / "folder", tmp_path / "model.pte")
    assert not (tmp_path / "model.pte").exists()


def test_a_file_that_is_no_tokenizer(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "folder")
    (tmp_path / "folder" / "tokenizer.json").write_text("{}")
    with pytest.raises(ExportError, match="is no tokenizer"):
        pteron.llm.export(tmp_path / "folder", tmp_path / "model.pte")


def _without_weight(folder: Path) -> None:
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    for name in set(index["weight_map"].values()):
        tensors = load_file(folder / name)
        tensors.pop("model.norm.weight", None)
        save_file(tensors, folder / name, {"format": "pt"})


def _changed(name: str, **values: Any) -> Any:
    def change(folder: Path) -> None:
        known = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**known, **values}))

    return change


_TOKENIZER, _GENERATION = "tokenizer_config.json", "generation_config.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without_weight, "lacks 1 weights of LlamaForCausalLM, which would be random: model.norm"),
        (_changed("config.json", num_hidden_layers=9), "lacks .* weights of .*model.layers.2"),
        (_changed("config.json", quantization_config={"quant_method": "x"}), "are quantized"),
        (_changed(_GENERATION, eos_token_id="a"), "expected ids"),
        (lambda folder: (folder / _GENERATION).write_text("{"), f"no readable {_GENERATION}"),
        (lambda folder: (folder / _TOKENIZER).write_text("[]"), "it has no object of JSON"),
        (_changed(_TOKENIZER, chat_template=5), "is no text"),
        (_changed(_TOKENIZER, chat_template=[5]), "TypeError"),
        (_changed(_TOKENIZER, chat_template=[{}]), "KeyError: 'name'"),
        (_changed(_TOKENIZER, chat_template="x", bos_token={}), "KeyError: 'content'"),
    ],
)
def test_a_damaged_checkpoint(change: Any, message: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "folder")
    (tmp_path / "folder/chat_template.jinja").unlink()
    change(tmp_path / "folder")
    with pytest.raises(ExportError, match=message):
        pteron.llm.export(tmp_path / "folder", tmp_path / "model.pte")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantize": "int3"}, "quantize: found 'int3'; expected one of none, int8, int4"),
        ({"max_length": 257}, "max_length: found 257; expected 2 to 256"),
        ({"batch": 0}, "batch: found 0"),
        ({"batch": True}, "batch: found True"),
        ({"dtype": "nn"}, "dtype: found 'nn'"),
        ({"backend": "cpux"}, "there is no backend 'cpux'"),
    ],
)
def test_what_cannot_be_exported(
    options: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=message):
        pteron.llm.export(folder, tmp_path / "model.pte", **options)
    assert not (tmp_path / "model.pte").exists()


def test_packages_that_are_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert main(["pteron", "generate", str(path), "Once"]) == 1
    assert "pip install 'pteron[text]'" in capfd.readouterr().err


def test_metadata_has_the_names_of_executorch(path: Path) -> None:
    program = pteron.Runtime.get().load_program(path)
    expected = {
        "get_max_seq_len": 16,
        "get_max_context_len": 256,
        "get_max_batch_size": 2,
        "get_vocab_size": 258,
        "get_bos_id": 1,
        "get_eos_ids": [0],
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
    }
    for name, value in expected.items():
        assert program.load_method(name)() == value, name
    assert json.loads(program.load_method("tokenizer")())["model"]["type"] == "BPE"


def test_keys_and_values_are_not_in_the_file(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    heads, layers = config["num_key_value_heads"], config["num_hidden_layers"]
    width = config["hidden_size"] // config["num_attention_heads"]
    program = tmp_path / "model.pte"
    options = {"cpu.isa": "native"}
    pteron.llm.export(folder, program, batch=256, max_length=256, options=options, verify=False)
    assert program.stat().st_size < 256 * 256 * heads * width * layers * 2 * 4 / 4


def test_a_model_with_another_state_is_refused(tmp_path: Path) -> None:
    config = transformers.MambaConfig(vocab_size=258, hidden_size=32, num_hidden_layers=1)
    save(transformers.AutoModelForCausalLM.from_config(config), tmp_path / "mamba")
    with pytest.raises(
        ExportError, match="MambaForCausalLM does not run with a cache of keys and values alone"
    ):
        pteron.llm.export(tmp_path / "mamba", tmp_path / "model.pte")
