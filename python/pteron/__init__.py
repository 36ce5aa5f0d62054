"""Compiles PyTorch programs to single files and runs them.

    import pteron

    print(pteron.export(model, (x,), "model.pte"))
    outputs = pteron.Runtime.get().load_program("model.pte").load_method("forward").execute([x])

Names are imported on first use: `import pteron` costs nothing, `pteron.Runtime` imports no torch.
"""

import os
import sys
from _thread import get_ident as _get_ident

# Names by package. __init__.pyi declares the same for type checkers.
_HOMES = {
    "exporter": ("ExportError", "ExportReport", "export", "update_weights"),
    "exir": (
        "EdgeCompileConfig",
        "EdgeProgramManager",
        "ExecutorchBackendConfig",
        "ExecutorchProgramManager",
        "LoweredBackendModule",
        "MemoryPlanningPass",
        "UnsupportedOperatorsError",
        "VerificationError",
        "to_edge",
        "to_edge_transform_and_lower",
    ),
    "runtime": (
        "AccessError",
        "BackendError",
        "BackendRegistry",
        "CancelledError",
        "InvalidArgumentError",
        "InvalidProgramError",
        "InvalidStateError",
        "Limits",
        "LoadPolicy",
        "Method",
        "MethodMeta",
        "NotFoundError",
        "NotSupportedError",
        "Profile",
        "Program",
        "PteronError",
        "ResourceError",
        "Runtime",
        "ScalarMeta",
        "ScalarType",
        "Session",
        "TensorInfo",
        "TimedOutError",
        "Verification",
        "load_operators",
    ),
    "sdk": ("cmake_prefix_path", "include_dir", "pkg_config_path"),
    "backends.cpu": ("CpuOptions", "CpuPartitioner"),
    "backends.cuda": ("CudaOptions", "CudaPartitioner"),
    "backends.apple.metal": ("MetalOptions", "MetalPartitioner"),
}
# Packages that are names themselves, as after `import pteron.llm`.
_PACKAGES = ("asr", "llm", "ray")
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605

_HOME |= {name: name for name in _PACKAGES}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])  # "Did you mean ...?"
    import importlib

    home = _HOME[name]
    try:
        module = importlib.import_module(f"{__name__}.{home}")
        value = module if home == name else getattr(module, name)
    except (AttributeError, ModuleNotFoundError) as error:
        # A folder with only data is an empty module.
        if error.name == "torch":
            raise ImportError(
                f"pteron.{name} needs torch, which is not installed;"
                f" try: {_how_to_install_torch()}",
                name="torch",
            ) from error
        if error.name not in (None, name) and not error.name.startswith(f"{__name__}."):
            raise
        raise ImportError(
            f"pteron.{name} is not among what this program depends on ({error}). "
            f"Add {_target(home)} to the deps of its Bazel target",
            name=f"{__name__}.{home}",
        ) from error
    globals()[name] = value
    return value


def _how_to_install_torch() -> str:
    """What to type; of the wheel's metadata, which says which releases lowering was tested with."""
    import importlib.metadata

    try:
        needed = importlib.metadata.requires("pteron") or []
    except importlib.metadata.PackageNotFoundError:
        needed = []
    extra = [text.partition(";")[0] for text in needed if 'extra == "lowering"' in text]
    return "pip install " + " ".join(f"'{text.strip()}'" for text in extra or ["torch"])


def _target(home: str) -> str:
    is_here = home in ("exporter", *_PACKAGES)
    return "@pteron//" + (f"python/{__name__}:{home}" if is_here else home.replace(".", "/"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _ZipFinder:
    """Finds `pteron.exir` and others in a Bazel zip, which has the checkout's layout."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        package, _, folder = name.partition(".")
        if package != __name__ or "." in folder:
            return None
        place = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, folder)
        place = os.path.normpath(place)
        file = os.path.join(place, "__init__.zipped.py")  # as //tools/build:py.bzl calls it
        if not os.path.exists(file):
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, file, submodule_search_locations=[place])


sys.meta_path.append(_ZipFinder)  # type: ignore[arg-type]


def _wait_for_imports() -> None:
    """Before fork(): waits until other threads have finished their imports, including names of this
    package.

    Otherwise a child would deadlock: Python releases the global import lock there, but not those
    of single modules, which have no public API.
    """
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for _ in range(100):  # others may start while it waits
        known = [reference() for reference in list(locks.values())]
        held = [lock for lock in known if getattr(lock, "owner", None) not in (None, _get_ident())]
        if not held:
            return
        for lock in held:
            try:
                lock.acquire()
            except RuntimeError:  # it waits for this thread's import
                return
            lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports)
