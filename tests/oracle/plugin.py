"""Our delegates as plug-ins of the stock runtime."""

import ctypes
import functools
import importlib
import os
from pathlib import Path

import executorch.runtime  # noqa: F401  its libexecutorch.so is what the plug-in is linked to


@functools.cache
def plug_in(package: str) -> None:
    """Makes the backend of a package (`pteron.backends.cpu`) one of the stock runtime's too."""
    native = importlib.import_module(f"{package}.native")
    library = Path(native.__file__).parent / native.LIBRARY
    plugin = ctypes.CDLL(os.path.abspath(os.environ["STOCK_PLUGIN"]), mode=ctypes.RTLD_GLOBAL)
    error = plugin.plug_in(os.fsencode(library), native.BACKEND_ID.encode())
    if error:
        raise OSError(f"{library} cannot be plugged in: error {error:#x}")
