"""A 12-layer decoder with a KV cache, teacher-forced, in float32 and bfloat16. Needs a GPU.

The reference is the same decoder in float64 with the same (rounded) weights. What an error may be
is measured, not guessed: eager, which rounds after every operator, differs from the reference too,
and ours may differ by at most twice as much, since fused kernels round after other operations.
"""

import copy
import pathlib
from collections.abc import Callable

import pytest
import torch

from pteron.backends.cuda.tests.programs import load, lower, save
from tests.models.gpt import export_methods, make_gpt

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_PROMPT, _STEPS = 16, 64


def _error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.cpu().double() - exact.cpu()).norm() / exact.cpu().norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_logits_follow_step_by_step(
    dtype: torch.dtype, tmp_path: pathlib.Path, record_property: Callable[[str, object], None]
) -> None:
    gpt = make_gpt().to(dtype)
    exact, eager = copy.deepcopy(gpt).double(), copy.deepcopy(gpt).cuda()
    program = load(save(lower(export_methods(gpt)), tmp_path))
    session = program.session()
    prefill = program.load_method("prefill", session=session)
    decode = program.load_method("decode", session=session)
    ids = torch.randint(0, 50, (1, _STEPS), generator=torch.Generator().manual_seed(3))
    prompt = ids[:, :_PROMPT].contiguous()
    ours, theirs = [], []
    with torch.no_grad():
        positions = torch.arange(_PROMPT)
        reference = exact(prompt, positions)
        theirs.append(_error(eager(prompt.cuda(), positions.cuda()), reference))
        ours.append(_error(prefill.execute([prompt])[0], reference))
        for step in range(_PROMPT, _STEPS):
            token, position = ids[:, step : step + 1].contiguous(), torch.tensor([step])
            reference = exact(token, position)
            theirs.append(_error(eager(token.cuda(), position.cuda()), reference))
            ours.append(_error(decode.execute([token, position])[0], reference))
    record_property("worst_error", f"ours {max(ours):.2e}, eager {max(theirs):.2e}")
    allowed = 2 * max(theirs)
    assert allowed < (1e-5 if dtype == torch.float32 else 0.1)  # the measure itself is sound
    assert max(ours) <= allowed, f"step {ours.index(max(ours))}: {max(ours):.2e} > {allowed:.2e}"
