"""Loads an AOTInductor package, runs it twice, and says how long the load took.

run_aoti_package.py model.pt2 inputs.safetensors
"""

from __future__ import annotations

import sys
import time

import torch
from safetensors.torch import load_file


def main(package_path: str, inputs_path: str) -> None:
    tensors = load_file(inputs_path)
    inputs = [tensors[f"input_{i}"] for i in range(len(tensors))]
    start = time.perf_counter()
    package = torch._inductor.aoti_load_package(package_path)
    load_us = (time.perf_counter() - start) * 1e6
    with torch.no_grad():
        package(*inputs)
        package(*inputs)
    print(f"load {load_us:.0f} us")


if __name__ == "__main__":
    main(*sys.argv[1:])
