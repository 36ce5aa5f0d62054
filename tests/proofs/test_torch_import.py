"""torch comes from the lock, not from the machine, and computes."""

import sys

import torch


def test_torch_is_the_pinned_one() -> None:
    assert torch.__version__.startswith("2.13.0")
    assert not any("dist-packages" in entry for entry in sys.path)
    assert (torch.ones(2, 3) @ torch.ones(3, 1)).flatten().tolist() == [3.0, 3.0]
