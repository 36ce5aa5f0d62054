"""Targets of code generation, and the generated code."""

import dataclasses
from collections.abc import Mapping

import torch


@dataclasses.dataclass(frozen=True)
class Target:
    """What to generate code for.

    Attributes:
        device: a torch device type, "cpu", "cuda" or "mps".
        vector_bits: SIMD width of CPU code: 512, 256 or 0 (scalar).
        num_threads: most threads that one parallel region may use (CPU).
        freeze: fold constants and pack weights; without it the code reads the model's own tensors,
            which other code can then share.
        templates: generate matmuls into the code where a template takes the shape, rather
            than call the runtime's (CPU). Takes effect only with `freeze`.
        packed_for: SIMD width whose layout of packed weights the code reads; 0: its own (CPU).
        gpu: what kernels are compiled for without querying a GPU, as "sm_90"; empty: the current
            GPU (CUDA).
        architectures: what kernels are compiled for besides that GPU, as "sm_80" (CUDA).
        allow_tf32: whether generated float32 matmuls may use TF32 (CUDA).
        operators: operators with a C function of the caller's, as "mylib::scale".
    """

    device: str
    vector_bits: int = 256
    num_threads: int = 1
    freeze: bool = True
    templates: bool = True
    packed_for: int = 0
    gpu: str = ""
    architectures: tuple[str, ...] = ()
    allow_tf32: bool = False
    operators: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Constant:
    """A tensor of the generated code; `name` is the container's, `fqn` the model's, `index` its
    index in the container's table."""

    index: int
    name: str
    fqn: str
    tensor: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A call of a compiled kernel or a shim, and what it was made of: operators, paths of modules
    and lines of the model, each separated by commas."""

    name: str
    ops: str = ""
    modules: str = ""
    lines: str = ""


@dataclasses.dataclass(frozen=True)
class GeneratedCode:
    """Sources of one model and what they need.

    Attributes:
        model: the model class; needs the headers of `interface()`, not its text.
        kernels: C++ kernels that `model` calls; may be empty.
        constants: in the container's order, without those that no line of code reads.
        unread_constants: declared in the container but read by no line of code.
        proxied: operators that the code can only call through the proxy executor.
        num_outputs: of the container, mutated inputs not counted.
        events: the calls that a profile records, by the numbers that `model` has for them.
        embedded: device code of kernels that the model loads, by the symbol it is found under.
    """

    model: str
    kernels: str
    constants: tuple[Constant, ...]
    unread_constants: tuple[Constant, ...]
    proxied: tuple[str, ...]
    num_outputs: int
    events: tuple[Kernel, ...] = ()
    embedded: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    @property
    def all_constants(self) -> tuple[Constant, ...]:
        """Every constant that the container declares, in its order."""
        return tuple(sorted((*self.constants, *self.unread_constants), key=lambda c: c.index))
