"""The lowering interface of a backend.

A backend is a class that derives from `BackendDetails` directly; the class name is the id that
the file carries and that the runtime looks up::

    class MyBackend(BackendDetails):
        @classmethod
        def preprocess(cls, edge_program, compile_specs):
            return PreprocessResult(processed_bytes=compile(edge_program))

Backends are final. Put shared code into a mixin that does not derive from `BackendDetails`: `class
MyBackend(SharedMixin, BackendDetails)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.export import ExportedProgram

from pteron.exir._serialize.named_data_store import NamedDataStoreOutput
from pteron.exir.backend.compile_spec_schema import CompileSpec


@dataclass(frozen=True)
class PreprocessResult:
    """The result of lowering one partition.

    Attributes:
      processed_bytes: passed to the backend's runtime half at load.
      debug_handle_map: the backend's own ids to debug handles of the program, if it has any.
      data_store_output: named blobs (code, weights) for the program file or a data file.
    """

    processed_bytes: bytes = b""
    debug_handle_map: Mapping[Any, Any] | None = None
    data_store_output: NamedDataStoreOutput | None = None


_backends: WeakValueDictionary[str, type[BackendDetails]] = WeakValueDictionary()


class BackendDetails(ABC):
    """Base class of all backends. See the module's docstring."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__mro__[1:]:
            if base is not BackendDetails and issubclass(base, BackendDetails):
                raise TypeError(
                    f"{cls.__name__} derives from {base.__name__}, which is a backend, and backends"
                    f" are final. Move what the two share into a mixin that does not derive from"
                    f" BackendDetails, and write"
                    f" class {cls.__name__}(SharedMixin, BackendDetails)."
                )
        other = _backends.get(cls.__name__)
        if other is not None:
            raise TypeError(
                f"there is a backend named {cls.__name__} already"
                f" ({other.__module__}.{other.__qualname__}). The class name is the id by which"
                f" files name a backend, so it must be unique: rename this one"
                f" ({cls.__module__}.{cls.__qualname__})."
            )
        _backends[cls.__name__] = cls

    @classmethod
    @abstractmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Compiles one partition.

        Args:
          edge_program: the partition. Constants that it owns are parameters, buffers and constants
            of it; state that it mutates is a user input with a mutation output, and the compiled
            code must write it in place. The graph may be edited; the tensors belong to the model
            and must not be. `graph_module.meta["partition_boundaries"]` has a human-readable line
            per boundary of the partition: where it ends and why.
          compile_specs: those of the partition's `DelegationSpec`, and the method's name.
        """

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Compiles all partitions of all methods; by default sequentially.

        A backend that shares something between methods overrides this. Results are in the order of
        the arguments.
        """
        return {
            method: [
                cls.preprocess(program, specs)
                for program, specs in zip(programs, compile_specs[method], strict=True)
            ]
            for method, programs in edge_programs.items()
        }

    @classmethod
    def get_load_options(
        cls, compile_specs: list[CompileSpec]
    ) -> Sequence[Mapping[str, bool | int | str]]:
        """Load options that each select another variant of a partition's code on this machine.
        Verification runs all of them."""
        return ()

    @classmethod
    def get_platform(cls, compile_specs: list[CompileSpec]) -> str:
        """Target platform of a lowered partition, such as "macos-arm64"; "" for any."""
        return ""

    @classmethod
    def rounds_to_tf32(cls, compile_specs: list[CompileSpec]) -> bool:
        """Whether the partition's options allow TF32 in float32 matmuls, so that verification
        tolerates it."""
        return False

    @classmethod
    def precision_of_products(cls, compile_specs: list[CompileSpec]) -> torch.dtype | None:
        """A dtype of whose precision operands of float32 matmuls may be by the partition's options,
        so that verification tolerates it; None: that of float32. TF32 has that of float16."""
        return torch.float16 if cls.rounds_to_tf32(compile_specs) else None

    @classmethod
    def weights_of(
        cls, processed_bytes: bytes, named_data: Mapping[str, memoryview]
    ) -> Mapping[str, tuple[torch.dtype, tuple[int, ...]]] | None:
        """Dtypes and shapes of the model's weights in a lowered partition; None if the partition
        cannot take others."""
        return None

    @classmethod
    def with_weights(
        cls,
        processed_bytes: bytes,
        named_data: Mapping[str, memoryview],
        weights: Mapping[str, torch.Tensor],
    ) -> PreprocessResult:
        """A lowered partition with the same code and other weights, all those of `weights_of`.
        ValueError: the code is for values that these do not have."""
        raise NotImplementedError

    @classmethod
    def describe(
        cls, processed_bytes: bytes, data_store_output: NamedDataStoreOutput | None
    ) -> Mapping[str, str]:
        """Details of a lowered partition for `explain()`: short names to one-line texts."""
        return {}


def imported_backend(backend_id: str) -> type[BackendDetails]:
    """The backend of an id; `BackendDetails` itself, with its defaults, if it is not imported."""
    return _backends.get(backend_id, BackendDetails)


def known_backends() -> list[str]:
    """Ids of the backends that are imported, sorted."""
    return sorted(_backends.keys())


def find_backend(backend_id: str) -> type[BackendDetails]:
    """The backend of an id. ValueError lists the known ones."""
    backend = _backends.get(backend_id)
    if backend is None:
        known = ", ".join(known_backends()) or "none"
        raise ValueError(
            f"no backend is named {backend_id!r}; known backends: {known}."
            f" Import the module that defines it, or correct the id in the DelegationSpec."
        )
    return backend
