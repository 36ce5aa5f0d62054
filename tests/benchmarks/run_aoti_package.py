"""Loads an AOTInductor package and runs it, as our runner does a program.

run_aoti_package.py --package model.pt2 --inputs inputs.safetensors [--repeat 1]
"""

import pathlib
import time

import torch
from absl import app, flags
from safetensors.torch import load_file

_PACKAGE = flags.DEFINE_string("package", None, "The package.", required=True)
_INPUTS = flags.DEFINE_string("inputs", None, "Tensors input_0, input_1, ...", required=True)
_REPEAT = flags.DEFINE_integer("repeat", 0, "More runs; then prints load time and memory.")


def main(argv: list[str]) -> None:
    del argv
    tensors = load_file(_INPUTS.value)
    inputs = [tensors[f"input_{i}"] for i in range(len(tensors))]
    start = time.perf_counter()
    package = torch._inductor.aoti_load_package(_PACKAGE.value)
    load_us = (time.perf_counter() - start) * 1e6
    with torch.no_grad():
        for _ in range(1 + _REPEAT.value):
            package(*inputs)
    if _REPEAT.value:
        print(f"load {load_us:.0f} us")
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                print(f"peak memory {line.split()[1]} KiB")
        mapped = 0
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
            if "/" in line:
                begin, end = (int(address, 16) for address in line.split()[0].split("-"))
                mapped += end - begin
        print(f"mapped files {mapped // 1024} KiB")


if __name__ == "__main__":
    app.run(main)
