"""Who starts the processes that Inductor compiles Triton kernels in."""

import contextlib
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

from pteron.backends.aoti.inductor.patches import patched


@contextlib.contextmanager
def compile_workers_started_by(popen: type[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Inside, Inductor starts them by `popen`; torch's own go on after Ctrl-C and SIGTERM.

    Left by an exception that is no `Exception`, after `popen` has ended them, they are forgotten.
    """
    from torch._inductor.async_compile import shutdown_compile_workers
    from torch._inductor.compile_worker import subproc_pool

    with patched(subproc_pool, "subprocess", SimpleNamespace(Popen=popen)):
        try:
            yield
        except Exception:
            raise
        except BaseException:
            shutdown_compile_workers()
            raise
