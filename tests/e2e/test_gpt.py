"""A decoder in two methods that share weights and a KV cache.

Every step is fed the token that eager chose (teacher forcing), so that one near-tie does not end
the comparison; where eager's choice is clear, ours must be the same.
"""

import pathlib
from typing import Any

import pytest
import torch

from examples.decoder.gpt import Gpt
from pteron.runtime import Runtime
from tests.e2e.lowering import lower_to_file
from tests.models.gpt import Decode, Prefill, export_methods, make_gpt
from tests.models.sample import max_relative_error

_STEPS = 64
# All alike; test_cuda_decoder.py has twelve.
_LAYERS = 4
_TOLERANCE = 1e-4  # of the largest logit: layers of float32 sums in another order
_PROMPT = (torch.arange(8)[None] * 37 + 11) % 2000


@pytest.fixture(scope="module")
def program_file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("gpt") / "gpt.pte"
    programs = export_methods(make_gpt(_LAYERS))
    lower_to_file(programs, path)
    return path


@pytest.fixture(scope="module")
def eager() -> tuple[list[torch.Tensor], list[int]]:
    """Logits of every step and the tokens that follow from them."""
    gpt = make_gpt(_LAYERS)
    with torch.no_grad():
        logits = [Prefill(gpt)(_PROMPT)]
        tokens = [int(logits[0].argmax())]
        for step in range(_STEPS):
            position = torch.tensor([_PROMPT.shape[1] + step])
            logits.append(Decode(gpt)(torch.tensor([[tokens[-1]]]), position))
            tokens.append(int(logits[-1].argmax()))
    return logits, tokens


def run(
    session: Any, program: Any, tokens: list[int], prompt: torch.Tensor = _PROMPT
) -> list[torch.Tensor]:
    """Our logits of every step for the given tokens, with the state in `session`."""
    prefill = program.load_method("prefill", session=session)
    decode = program.load_method("decode", session=session)
    logits = [prefill.execute([prompt])[0]]
    for step, token in enumerate(tokens[:-1]):
        position = torch.tensor([_PROMPT.shape[1] + step])
        logits.append(decode.execute([torch.tensor([[token]]), position])[0])
    return logits


def test_every_step_equals_eager(program_file: pathlib.Path, eager: Any) -> None:
    logits, tokens = eager
    assert len(set(tokens)) >= 20, "the tokens repeat: the comparison would see few states"
    program = Runtime.get().load_program(program_file)
    found = run(program.session(), program, tokens)
    assert len(found) == len(logits) == _STEPS + 1
    for step, (ours, expected) in enumerate(zip(found, logits, strict=True)):
        assert max_relative_error(ours, expected) <= _TOLERANCE, f"step {step}"
        best, second = expected.topk(2).values[0]
        if best - second > 2 * _TOLERANCE * expected.abs().max():
            assert int(ours.argmax()) == tokens[step], f"step {step}"


def test_sessions_do_not_see_each_other(program_file: pathlib.Path, eager: Any) -> None:
    logits, tokens = eager
    program = Runtime.get().load_program(program_file)
    alone = run(program.session(), program, tokens[:5], _PROMPT + 5)
    sessions = [program.session() for _ in range(2)]
    decoders = [program.load_method("decode", session=session) for session in sessions]
    # The second session runs over another prompt between the steps of the first.
    program.load_method("prefill", session=sessions[0]).execute([_PROMPT])
    program.load_method("prefill", session=sessions[1]).execute([_PROMPT + 5])
    for step in range(4):
        position = torch.tensor([_PROMPT.shape[1] + step])
        token = torch.tensor([[tokens[step]]])
        ours = decoders[0].execute([token, position])[0]
        other = decoders[1].execute([token, position])[0]
        assert max_relative_error(ours, logits[step + 1]) <= _TOLERANCE
        assert torch.equal(other, alone[step + 1])


def test_each_weight_is_stored_once(program_file: pathlib.Path) -> None:
    gpt: Gpt = make_gpt(_LAYERS)
    weights = sum(p.numel() * p.element_size() for p in gpt.parameters())
    code_and_tables = 3_500_000  # 2.7 MB by GCC 12, 3.2 by GCC 13
    assert weights <= program_file.stat().st_size <= weights + code_and_tables
