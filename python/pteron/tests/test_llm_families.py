"""Programs of each family's checkpoint choose the tokens that transformers does."""

import os
from pathlib import Path

import pytest
import torch

import pteron.llm
from pteron.llm import language_model
from tests.models.checkpoints import FAMILIES, WINDOW, random_model, save

_CHUNK = 8
_NEW = 24


@pytest.mark.parametrize("family", os.environ.get("FAMILIES", " ".join(FAMILIES)).split())
def test_tokens_are_those_of_transformers(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The rest of the graph of sampling is compiled in other tests.
    monkeypatch.setattr(language_model, "choose", lambda logits, *_, **__: logits.argmax(-1))
    model = random_model(family)
    save(model, tmp_path)
    program = tmp_path / "model.pte"
    options = {"cpu.isa": "native"}
    pteron.llm.export(tmp_path, program, max_length=60, chunk=_CHUNK, batch=2, options=options)
    generator = pteron.llm.Generator(program)
    kinds = set()
    for length in (1, 2, _CHUNK + 1, _CHUNK + 2, 2 * _CHUNK + 3):
        prompts = torch.randint(2, model.config.vocab_size, (2, length))
        with torch.no_grad():  # without a cache: all that a token may attend to, at each step
            expected = model.generate(
                prompts, max_new_tokens=_NEW, do_sample=False, use_cache=False
            )[:, length:]
        steps = list(generator.tokens(prompts.tolist(), max_new_tokens=_NEW))
        for row, tokens in zip(expected.tolist(), zip(*steps, strict=True), strict=True):
            assert list(tokens) == row, f"after {length} tokens"
            kinds |= set(row)
        assert length + _NEW > 2 * WINDOW
    assert len(kinds) > 5, "the model says always the same"
