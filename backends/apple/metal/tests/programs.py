"""Models lowered for Metal and run over the recording device, and what eager says of them."""

import pathlib
from typing import Any

import torch
from torch.utils import _pytree as pytree

import pteron.backends.apple.metal as metal
from pteron.backends.apple.metal import MetalOptions, MetalPartitioner
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import Runtime
from tests.models.features import FEATURES
from tests.models.networks import NETWORKS
from tests.models.sample import Sample, max_relative_error

_LIBRARY = pathlib.Path(metal.__file__).parent / "runtime/testing/libmetal_recording.so"


#: Code for this machine, which the recording device runs.
HOST = MetalOptions(platform="host")


def open_recording_device() -> None:
    """From here on this process has a Metal device."""
    registry = Runtime.get().backend_registry
    registry.is_available("MetalBackend")  # opens the backend's library
    registry.open_library(_LIBRARY)
    assert registry.is_available("MetalBackend")


def sample_named(name: str) -> Sample:
    return next(sample for sample in NETWORKS + FEATURES if sample.name == name)


def lower(program: Any, partitioner: Any = None) -> Any:
    """The lowering's manager for an exported program, or for several by method."""
    return to_edge_transform_and_lower(program, partitioner=partitioner or [MetalPartitioner(HOST)])


def save(manager: Any, folder: pathlib.Path) -> pathlib.Path:
    """Writes program and weights; returns the program's path."""
    program = manager.to_executorch()
    program.save(folder / "model.pte")
    program.write_tensor_data_to_file(folder)
    return folder / "model.pte"


def load(path: pathlib.Path) -> Any:
    return Runtime.get().load_program(path, data_path=sorted(path.parent.glob("*.ptd")))


def flat(tree: Any) -> list[Any]:
    return pytree.tree_leaves(tree)


def check(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """The largest error relative to the largest magnitude of each output stays below tolerance."""
    found, expected = flat(found), flat(expected)
    assert len(found) == len(expected)
    for index, (a, b) in enumerate(zip(found, expected, strict=True)):
        error = max_relative_error(torch.as_tensor(a), torch.as_tensor(b))
        assert error <= tolerance, f"output {index}: relative error {error:.2e}"


def run_and_check(
    module: torch.nn.Module,
    calls: list[tuple[Any, ...]],
    folder: pathlib.Path,
    *,
    tolerance: float = 1e-4,
    dynamic_shapes: Any = None,
    partitioner: Any = None,
) -> Any:
    """Lowers `module` for the inputs of the first call and compares all calls with eager."""
    module = module.eval()
    with torch.no_grad():
        exported = torch.export.export(module, calls[0], dynamic_shapes=dynamic_shapes)
        manager = lower(exported, partitioner)
        method = load(save(manager, folder)).load_method("forward")
        for inputs in calls:
            expected = module(*pytree.tree_map(_copy, inputs))
            check(method.execute(flat(inputs)), expected, tolerance)
    return manager


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
