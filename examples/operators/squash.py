"""A model with an operator of one's own: `example::squash`, whose C function is in squash.cpp.

    python squash.py libsquash.so squash.pte

lowers it, and runs it with the function in that shared library.
"""

import sys

import torch

import pteron


@torch.library.custom_op("example::squash", mutates_args=())
def squash(x: torch.Tensor, limit: float) -> torch.Tensor:
    """What eager computes; the program calls the C function instead."""
    return limit * torch.tanh(x / limit)


@squash.register_fake
def _(x: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return squash(self.linear(x), 2.5).softmax(-1)


def main(library: str, path: str) -> None:
    pteron.load_operators(library)  # before the program, and to compare it with eager
    x = torch.randn(3, 8)
    options = {"cpu.operators": ["example::squash"]}
    print(pteron.export(Model(), (x,), path, backend="cpu", options=options))
    print(pteron.Runtime.get().load_program(path).load_method("forward")(x))


if __name__ == "__main__":
    main(*sys.argv[1:])
