"""What Inductor's tuning measured, kept apart and given back.

    with tuning({}) as measured:
        ...                     # generate(), with options that tune
    with tuning(measured):      # the same program: nothing is measured, the same kernels come out
        ...

Inductor decides by times alone, and keeps each time in a file of its cache folder: those of the
candidates for a product (`cache/`), of kernels with and without what could be fused into them
(`.kernel_perf`), and the configuration that won for a kernel (`.best_config`). The files' names are
digests of what was measured, and of torch's release. So a fresh cache folder collects exactly what
one lowering measured, and a folder with these files makes the same decisions again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

_LOCK = threading.Lock()
_SUFFIXES = (".best_config", ".kernel_perf")


@contextlib.contextmanager
def tuning(replayed: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Inside, Inductor's caches are a fresh folder with the files `replayed` (path to text) in it.

    Yields a dict that holds, after the block, all such files: those replayed and those measured.
    One at a time in a process; the caches that were in use before are used again afterwards.

    Raises:
        ValueError: a path in `replayed` is not that of a tuning file.
    """
    from torch._inductor.utils import clear_caches

    for name in replayed:
        if not _is_tuning_file(PurePosixPath(name)):
            raise ValueError(f"{name!r} is no file that tuning writes: the record is damaged")
    found: dict[str, str] = {}
    with _LOCK, tempfile.TemporaryDirectory(prefix="pteron-tuning-") as folder:
        for name, text in replayed.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        places = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
        with _environment(places):
            clear_caches()
            try:
                yield found
                found.update(_tuning_files(Path(folder)))
            finally:
                clear_caches()


def _is_tuning_file(path: PurePosixPath) -> bool:
    if path.is_absolute() or len(path.parts) != 2 or ".." in path.parts:
        return False
    return path.parts[0] == "cache" or path.suffix in _SUFFIXES


def _tuning_files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.glob("*/*"))
        if path.is_file() and _is_tuning_file(PurePosixPath(path.relative_to(folder).as_posix()))
    }


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
