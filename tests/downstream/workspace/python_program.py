"""Lowers a model to the file that is named, with Pteron's Python package, and runs it.

Prints names that an extension module and the packages of this workspace say.
"""

import sys

import _errors
import torch
from add import Add

import exir
import pteron
import tests
from backends import words as backends
from runtime import words as runtime
from tools import words as tools


def main() -> None:
    x = torch.tensor([1.0, 2.0])
    exported = torch.export.export(Add(), (x, x))
    lowered = pteron.to_edge_transform_and_lower(exported, partitioner=[pteron.CpuPartitioner()])
    lowered.to_executorch().save(sys.argv[1])
    method = pteron.Runtime.get().load_program(sys.argv[1]).load_method("forward")
    print(*method.execute([x, x])[0].tolist(), _errors.name(0x20))
    print(*(package.WORDS for package in (backends, exir, runtime, tests, tools)))


if __name__ == "__main__":
    main()
