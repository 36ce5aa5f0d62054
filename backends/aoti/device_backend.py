"""What a device's backend says of itself: target, functions, passes. See `aoti_backend.py`."""

import contextlib
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch.export import ExportedProgram

from pteron.backends.aoti import inductor, payload, toolchain
from pteron.backends.aoti.aoti_options import AotiOptions
from pteron.backends.aoti.ops import shim_list
from pteron.backends.aoti.passes.attention import AttentionPass, WholeAttentionPass
from pteron.backends.aoti.passes.clamp_windows import ClampWindowsPass
from pteron.backends.aoti.passes.constant_masks import remove_constant_masks
from pteron.backends.aoti.passes.gemv_as_reduction import GemvAsReductionPass
from pteron.backends.aoti.passes.recurrent import RecurrentPass, has_recurrent_steps
from pteron.backends.aoti.passes.replace_view_copy_with_view import ReplaceViewCopyWithViewPass
from pteron.exir.backend.compile_spec_schema import CompileSpec

OptionsT = TypeVar("OptionsT", bound=AotiOptions)


@dataclasses.dataclass(frozen=True)
class BuildTarget:
    """The compilation target of one variant of a partition's code, derived from its options.

    Attributes:
        code: what Inductor generates for.
        machine: what the compiler builds for.
        info: what the metadata says of it.
        own_blobs: see `payload.build`.
    """

    code: inductor.Target
    machine: toolchain.Machine
    info: payload.SharedObjectInfo
    own_blobs: bool = True


class DeviceBackend(ABC, Generic[OptionsT]):
    """The device-specific methods of `AotiBackend`, with their defaults."""

    #: A GEMV with a floating-point weight of at most this many columns becomes a reduction: see
    #: `passes/gemv_as_reduction.py`.
    max_gemv_columns: ClassVar[int] = 0

    @classmethod
    @abstractmethod
    def get_device_name(cls) -> str:
        """The torch device type: "cpu", "cuda", "mps"."""
        raise _abstract(cls, "get_device_name")

    @classmethod
    @abstractmethod
    def get_options(cls, compile_specs: Iterable[CompileSpec]) -> OptionsT:
        """Parses `compile_specs`; ValueError for an unknown option."""
        raise _abstract(cls, "get_options")

    @classmethod
    @abstractmethod
    def get_build_target(cls, options: OptionsT) -> BuildTarget:
        """The target of `options`; ValueError for an unsupported option."""
        raise _abstract(cls, "get_build_target")

    @classmethod
    def get_build_targets(cls, options: OptionsT) -> list[BuildTarget]:
        """A target per code variant, in ascending ISA level."""
        return [cls.get_build_target(options)]

    @classmethod
    def get_supported_fallback_kernels(cls) -> dict[str, int]:
        """Functions that compiled code may call, and the shim-list version that added each."""
        return shim_list.load(cls.get_device_name()).versions

    @classmethod
    def get_decomposition_table(cls) -> Mapping[Any, Callable[..., Any]]:
        """Decompositions to run before compilation, in addition to those of the edge program."""
        return {}

    @classmethod
    def get_aoti_compile_options(cls, options: OptionsT) -> dict[str, Any]:
        """Inductor options that override the shared ones."""
        return {}

    @classmethod
    def get_program_passes(cls, options: OptionsT) -> list[Callable[[ExportedProgram], None]]:
        """Passes over the partition and its tensors, in order, before those over its graph."""
        return [remove_constant_masks]

    @classmethod
    def get_custom_passes(cls, options: OptionsT) -> list[Callable[[torch.fx.GraphModule], Any]]:
        """Passes over the partition's graph, in order, just before compilation."""
        shims = cls.get_supported_fallback_kernels()
        return [
            RecurrentPass(is_loop=not has_recurrent_steps(cls.get_device_name(), shims)),
            ClampWindowsPass(),
            WholeAttentionPass(),
            ReplaceViewCopyWithViewPass(),
            GemvAsReductionPass(cls.max_gemv_columns),
            cls.get_attention_pass(options),
        ]

    @classmethod
    def get_attention_pass(cls, options: OptionsT) -> AttentionPass:
        """The implementation of attention."""
        return AttentionPass(lambda call: "library")

    @classmethod
    def get_fallback_options(cls, options: OptionsT) -> OptionsT | None:
        """Fallback options for attention if Inductor fails with `options`; None: no fallback."""
        return None

    @classmethod
    def save_data_externally(cls, options: OptionsT) -> bool:
        """Whether weights go to a .ptd under the tag `aoti_{device}_blob`."""
        return False

    @classmethod
    def records_weights(cls, options: OptionsT) -> bool:
        """Whether the payload says how constants are made of the model's weights."""
        return False

    @classmethod
    def keeps_results(cls, options: OptionsT) -> bool:
        """Whether results are kept in the cache. They must depend on nothing but the partition, the
        options and this package; weights must be on the host."""
        return False

    @classmethod
    def codesign_so(cls, shared_object: bytes, options: OptionsT) -> bytes:
        """The linked code, signed if its platform requires it."""
        return shared_object

    @classmethod
    def get_extra_aoti_compile_context_manager(
        cls,
    ) -> contextlib.AbstractContextManager[Any]:
        """Entered around code generation and compilation."""
        return contextlib.nullcontext()


def _abstract(backend: type[Any], method: str) -> NotImplementedError:
    return NotImplementedError(
        f"{backend.__name__} does not define {method}. AotiBackend is abstract: use a backend that "
        f"derives from it, such as CpuBackend, or define {method}"
    )
