"""The Metal backend's lowering half: kernels as text, and a host part that encodes them."""

from collections.abc import Callable, Iterable, Mapping
from typing import final

from torch.export import ExportedProgram

from pteron.backends.aoti.aoti_backend import AotiBackend, BuildTarget
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.passes.fold_batch_norms import fold_batch_norms
from pteron.backends.aoti.payload import SharedObjectInfo
from pteron.backends.aoti.toolchain import Machine
from pteron.backends.apple.metal.metal_options import MetalOptions
from pteron.exir._serialize.named_data_store import NamedDataStoreOutput
from pteron.exir.backend.backend_details import BackendDetails
from pteron.exir.backend.compile_spec_schema import CompileSpec


@final
class MetalBackend(AotiBackend[MetalOptions], BackendDetails):
    """Compiles partitions to kernels in Metal's language, and a host part that runs them without
    libtorch."""

    @classmethod
    def get_device_name(cls) -> str:
        return "mps"

    @classmethod
    def get_options(cls, compile_specs: Iterable[CompileSpec]) -> MetalOptions:
        return MetalOptions.from_compile_specs(compile_specs)

    @classmethod
    def get_build_target(cls, options: MetalOptions) -> BuildTarget:
        return BuildTarget(
            code=Target("mps", freeze=False, gpu="apple"),
            machine=Machine(march=(), defines=("USE_MPS",)),
            info=SharedObjectInfo(
                device="metal",
                shims=(),
                shim_list_version=0,
                weights_layout="shared",
            ),
        )

    @classmethod
    def describe(
        cls, processed_bytes: bytes, data_store_output: NamedDataStoreOutput | None
    ) -> Mapping[str, str]:
        lines = super().describe(processed_bytes, data_store_output)
        return {**lines, "executed": "not on a Mac, so far only on a device for tests"}

    @classmethod
    def save_data_externally(cls, options: MetalOptions) -> bool:
        return options.save_data_externally

    @classmethod
    def get_program_passes(cls, options: MetalOptions) -> list[Callable[[ExportedProgram], None]]:
        return [fold_batch_norms]
