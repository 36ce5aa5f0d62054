"""Which torch releases lowering knows."""

import torch

#: torch releases whose Inductor was read and tested.
SUPPORTED_RELEASES = ("2.11", "2.12", "2.13", "2.14")


class UnsupportedTorch(RuntimeError):
    """This torch release's Inductor is not one that was tested."""


def release() -> str:
    """The running torch's release, "2.13"; raises UnsupportedTorch if it is not a tested one."""
    found = ".".join(torch.__version__.split(".")[:2])
    if found not in SUPPORTED_RELEASES:
        raise UnsupportedTorch(
            f"torch {torch.__version__} is installed; lowering was tested with torch "
            f"{' and '.join(SUPPORTED_RELEASES)}. Install one of these to lower a model "
            "(running a lowered program needs no torch)."
        )
    return found
