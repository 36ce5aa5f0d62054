"""Which torch releases lowering knows, and what it does with another."""

import functools
import re
import warnings

import torch

#: torch releases whose Inductor was read and tested, the newest last.
SUPPORTED_RELEASES = ("2.11", "2.12", "2.13", "2.14")


class UnsupportedTorch(RuntimeError):
    """The installed torch's Inductor is not one that lowering works with."""


class UnknownTorchWarning(UserWarning):
    """The installed torch is not a tested release; it is treated as the newest of them."""


def release() -> str:
    """The installed torch's release, "2.13".

    One that was not tested (a later one, a nightly) counts as the newest that was, with one
    UnknownTorchWarning, if all places that are changed or used are as they are there.

    Raises:
        UnsupportedTorch: they are not. Names all that differ.
    """
    return _release_of(str(torch.__version__))


@functools.cache
def _release_of(version: str) -> str:
    found = re.fullmatch(r"(\d+\.\d+)\.\d+(\+.*)?", version)
    if found and found[1] in SUPPORTED_RELEASES:
        return found[1]
    from pteron.backends.aoti.inductor import recognition

    newest = SUPPORTED_RELEASES[-1]
    tested = f"{', '.join(SUPPORTED_RELEASES[:-1])} and {newest}"
    problems, changed = recognition.compare(newest)
    if problems:
        major, minor = newest.split(".")
        raise UnsupportedTorch(
            f"torch {version} is installed; lowering was tested with torch {tested}. "
            f"This one differs from {newest} in what lowering changes or uses of it:\n  "
            + "\n  ".join(problems)
            + f"\ntry:  pip install 'torch>={SUPPORTED_RELEASES[0]},<{major}.{int(minor) + 1}';"
            "\n      running a lowered program needs no torch."
        )
    others = f" {len(changed)} functions that lowering wraps changed inside, which may matter: "
    others = f"{others}{', '.join(changed)}." if changed else ""
    warnings.warn(
        f"torch {version} is not a release that lowering was tested with ({tested}); it is treated "
        f"as {newest}, since all that is changed or used of it is still in its place.{others}",
        UnknownTorchWarning,
        stacklevel=3,
    )
    return newest
