"""What Inductor's tuning measured, kept apart and given back.

    with tuning({}) as measured:
        ...                     # generate(), with options that tune
    with tuning(measured):      # the same program: nothing is measured, the same kernels come out
        ...

Inductor decides by times, and keeps each in a file of its cache folder: those of candidates for a
matmul (`cache/`), of kernels with and without what could be fused into them (`.kernel_perf`), and
the configuration that won (`.best_config`). The names are digests of what was measured and of
torch's release. So a fresh cache folder collects what one lowering measured, and a folder with
these files makes the same decisions again.

Candidates that do not compile (too much shared memory, say) have no time. Inductor would compile
them all again to find that out; where times are replayed, candidates without one are passed over.
"""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pteron.backends.aoti.inductor.patches import Context, patched, wrapped

_LOCK = threading.Lock()
_TUNING_FILE = re.compile(r"cache/[^/.][^/]*|[^/.][^/]*/[^/]+\.(best_config|kernel_perf)")


@contextlib.contextmanager
def tuning(replayed: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Inside, Inductor's caches are a fresh folder with the files `replayed` (path to text) in it.

    Yields a dict that holds, after the block, all such files: those replayed and those measured.
    One at a time in a process; the caches that were in use before are used again afterwards.
    Inductor's compile workers are stopped before and after, since they keep to the folders and
    results that they know: nothing else should be compiled meanwhile.

    Raises:
        ValueError: a path in `replayed` is not that of a tuning file.
    """
    from torch._inductor.async_compile import shutdown_compile_workers
    from torch._inductor.utils import clear_caches

    for name in replayed:
        if not _TUNING_FILE.fullmatch(name):
            raise ValueError(f"{name!r} is no file that tuning writes: the record is damaged")
    found: dict[str, str] = {}
    with _LOCK, tempfile.TemporaryDirectory(prefix="pteron-tuning-") as folder:
        for name, text in replayed.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        folders = {
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "TRITON_CACHE_DIR": f"{folder}/triton",
            # For the compile workers; kernels of equal text are equal bytes, wherever the text was.
            "TRITON_DISABLE_LINE_INFO": "1",
        }
        with mock.patch.dict(os.environ, folders), _only_candidates_with_times(replayed):
            shutdown_compile_workers()
            clear_caches()
            try:
                yield found
                for path in sorted(Path(folder).glob("*/*")):
                    name = path.relative_to(folder).as_posix()
                    if _TUNING_FILE.fullmatch(name) and path.is_file():
                        found[name] = path.read_text()
            finally:
                shutdown_compile_workers()
                clear_caches()


def _only_candidates_with_times(replayed: Mapping[str, str]) -> Context:
    """Inside, products that `replayed` has times for are chosen among the candidates that have."""
    from torch._inductor import select_algorithm

    times = [json.loads(text)["cache"] for name, text in replayed.items() if name[:6] == "cache/"]
    if not times:
        return contextlib.nullcontext()

    def select_among_known(
        select: Any, self: Any, name: str, choices: Any, input_nodes: Any, *args: Any, **more: Any
    ) -> Any:
        key = select_algorithm.create_inputs_key(input_nodes)
        known = {
            choice
            for table in times
            for by_choice in table.get(name, {}).get(key, {}).values()
            for choice in by_choice
        }
        kept = [choice for choice in choices if choice.hash_key() in known]
        return select(self, name, kept or choices, input_nodes, *args, **more)

    return wrapped(select_algorithm.AlgorithmSelectorCache, "__call__", select_among_known)


@contextlib.contextmanager
def compile_workers_started_by(popen: type[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Inside, Inductor starts them by `popen`; torch's own go on after Ctrl-C and SIGTERM.

    Left by an exception that is no `Exception`, after `popen` has ended them, they are forgotten.

    They are kept for an hour. Inductor gives up all that have returned nothing for a minute, also
    those with jobs, as on a busy machine, and makes others by fork(), in a process that has threads
    by then; a job was seen that never ended.
    """
    from torch._inductor import config
    from torch._inductor.async_compile import shutdown_compile_workers
    from torch._inductor.compile_worker import subproc_pool

    with (
        patched(subproc_pool, "subprocess", SimpleNamespace(Popen=popen)),
        config.patch(quiesce_async_compile_time=3600),
    ):
        try:
            yield
        except Exception:
            raise
        except BaseException:
            shutdown_compile_workers()
            raise
