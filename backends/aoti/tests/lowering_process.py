"""A process that generates code and compiles with torch, in the order it is told.

    lowering_process.py lower compile lower    # prints one JSON list: a digest for each step

`lower` is the digest of our sources and constants for a model with attention, convolution and
matmuls; `compile` that of the calls in what torch.compile makes of the same model, with
freezing; `fail` a lowering that raises inside Inductor.
"""

import hashlib
import json
import re
import sys

import torch
from torch._inductor.utils import run_and_get_code

from pteron.backends.aoti import inductor
from pteron.backends.aoti.tests.models import AttentionAndConvolution

_TARGETS = {
    "lower": inductor.Target("cpu", 256, 2),
    "lower-wide": inductor.Target("cpu", 512, 2),
    "lower-plain": inductor.Target("cpu", 256, 1, freeze=False),
}


def lower(target: inductor.Target) -> str:
    model, example = AttentionAndConvolution.sample()
    program = torch.export.export(model, (example,))
    code = inductor.generate(program.run_decompositions(), target)
    hasher = hashlib.sha256()
    for text in (code.model, code.kernels):
        hasher.update(text.encode())
    for constant in code.constants:
        hasher.update(constant.name.encode())
        hasher.update(constant.tensor.contiguous().numpy().tobytes())
    return hasher.hexdigest()


def compile_with_torch() -> str:
    torch.compiler.reset()
    model, example = AttentionAndConvolution.sample()
    with torch._inductor.config.patch(freezing=True, fx_graph_cache=False), torch.no_grad():
        _, (code, *_) = run_and_get_code(torch.compile(model), example)
    # Names of kernels hold hashes of cache folders; what is called, in order, is what counts.
    calls = re.findall(r"(?:extern_kernels|torch\.ops)[\w.]+", code)
    digest = hashlib.sha256("\n".join(calls).encode()).hexdigest()
    return f"{digest} {' '.join(sorted(set(calls)))}"


def fail() -> str:
    """Inductor raises while everything is set for us."""

    class Failing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu()

    from torch._inductor.graph import GraphLowering

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("on purpose")

    program = torch.export.export(Failing(), (torch.ones(3),))
    before, GraphLowering.run = GraphLowering.run, broken
    try:
        inductor.generate(program, _TARGETS["lower"])
    except Exception as error:
        return "raised" if "on purpose" in str(error) else repr(error)
    finally:
        GraphLowering.run = before
    return "did not raise"


def state() -> str:
    """What a user can see of the settings that lowering changes for a while."""
    from torch._inductor import cpu_vec_isa
    from torch._inductor.codecache import AotCodeCompiler
    from torch._inductor.pattern_matcher import PatternMatcherPass
    from torch._inductor.select_algorithm import get_algorithm_selector_cache

    return repr(
        (
            torch.is_grad_enabled(),
            torch._C._get_mkldnn_enabled(),
            torch.backends.cuda.flash_sdp_enabled(),
            torch._inductor.config.freezing,
            torch._inductor.config.cpp.simdlen,
            cpu_vec_isa.valid_vec_isa_list.__module__,
            AotCodeCompiler.compile.__module__,
            PatternMatcherPass.apply.__module__,
            [f.__name__ for f in get_algorithm_selector_cache().preprocessing_fns],
        )
    )


_STEPS = {
    **{name: (lambda target=target: lower(target)) for name, target in _TARGETS.items()},
    "compile": compile_with_torch,
    "fail": fail,
    "state": state,
}


def main() -> None:
    torch.manual_seed(0)
    print(json.dumps([_STEPS[step]() for step in sys.argv[1:]]))


if __name__ == "__main__":
    main()
