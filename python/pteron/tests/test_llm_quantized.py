"""Weights that export() quantizes: the tokens of torchao's own module, in a smaller file."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torchao import quantization

import pteron.asr
import pteron.llm
from pteron.exir._serialize.program_file import deserialize_program
from pteron.llm import language_model
from pteron.llm.export_checkpoint import options_for
from tests.models import speech
from tests.models.checkpoints import save


@pytest.mark.parametrize(
    ("kind", "dtype"), [("int8", "float32"), ("int4", "bfloat16"), ("fp8", "float32")]
)
def test_quantized_weights(
    kind: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_model, "choose", lambda logits, *_, **__: logits.argmax(-1))
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=258,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        eos_token_id=None,
        initializer_range=0.2,
    )
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    save(model, tmp_path)
    program = tmp_path / "model.pte"
    pteron.llm.export(
        tmp_path,
        program,
        quantize=kind,
        dtype=dtype,
        max_length=64,
        chunk=16,
        options={"cpu.isa": "native"},
    )
    # torchao would turn it on for the whole process.
    assert not torch._inductor.config.coordinate_descent_tuning
    model = model.to(getattr(torch, dtype))
    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))
    embedding = model.get_input_embeddings().weight.nbytes
    stored = (_weight_bytes(program) - embedding) / linear
    # Once for both methods, with scales: one a row, or float32 for 32 elements. The small head is
    # padded by a tenth, and code has descriptions.
    least = {"int8": 1.0, "int4": 0.5 + 4 / 32, "fp8": 1.0}[kind]
    assert least < stored < 1.25 * least
    quantization.quantize_(model, _config(kind))
    ids = torch.randint(2, 258, (1, 20))
    steps = pteron.llm.Generator(program).tokens(ids.tolist(), max_new_tokens=20)
    found = torch.tensor([[token for (token,) in steps]])
    assert len(set(found[0].tolist())) > 5
    with torch.no_grad():
        logits = model(torch.cat([ids, found], 1)).logits[:, 19:-1].float()
    # The likeliest tokens, but for bfloat16: three ULPs of the largest logits are 0.04 deviations.
    missing = logits.amax(-1) - logits.gather(2, found[:, :, None])[:, :, 0]
    assert missing.max() <= (0 if dtype == "float32" else 0.06) * logits.std()


def test_quantized_weights_of_speech(tmp_path: Path) -> None:
    kind = "int8"
    torch.set_num_threads(1)  # the model is too small for several threads
    model = speech.whisper(d_model=128, encoder_ffn_dim=128, decoder_ffn_dim=128)
    speech.save(model, tmp_path)
    program = tmp_path / "model.pte"
    pteron.asr.export(tmp_path, program, quantize=kind, options={"cpu.isa": "native"})
    samples = speech.sound(11)
    features = speech.extractor(model)(
        samples, sampling_rate=speech.RATE, return_tensors="pt", truncation=False, padding="longest"
    ).input_features
    plain = model.generate(features, language="en")[0].tolist()
    quantization.quantize_(model, _config(kind))
    expected = model.generate(features, language="en")[0].tolist()
    segments = pteron.asr.Transcriber(program)(samples, language="en")
    assert [token for segment in segments for token in segment.tokens] == expected
    assert expected != plain


def _weight_bytes(path: Path) -> int:
    named = deserialize_program(path.read_bytes()).named_data
    return sum(
        len(data)
        for key, data in named.items()
        if not key.endswith("_so_blob") and not key.startswith("model_graph/")
    )


def _config(kind: str) -> Any:
    if kind == "int8":
        return quantization.Int8WeightOnlyConfig(set_inductor_config=False)
    if kind == "fp8":
        return quantization.Float8WeightOnlyConfig(set_inductor_config=False)
    int4 = torch.int4  # type: ignore[attr-defined]
    return quantization.IntxWeightOnlyConfig(
        weight_dtype=int4, granularity=quantization.PerGroup(32)
    )


def test_weights_of_bfloat16_are_packed() -> None:
    """The runtime's library would convert them to float32 in each step."""
    packed = {"cpu.weights": "packed"}
    assert options_for("none", "cpu", None, torch.bfloat16) == packed
    assert options_for("int8", "cpu", None) == packed
    assert options_for("fp8", "cpu", None, torch.bfloat16) == {}
    assert options_for("none", "cpu", None, torch.float32) == {}
    assert options_for("none", "cuda", None, torch.bfloat16) == {}
    chosen = {"cpu.weights": "shared"}
    assert options_for("none", "cpu", chosen, torch.bfloat16) == chosen
