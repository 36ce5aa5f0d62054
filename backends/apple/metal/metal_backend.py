"""The Metal backend's lowering half: kernels as source text, and host code that encodes them."""

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import final

from torch.export import ExportedProgram

from pteron.backends.aoti.aoti_backend import AotiBackend, BuildTarget
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.mac_toolchain import MacBuildStep
from pteron.backends.aoti.passes.fold_batch_norms import fold_batch_norms
from pteron.backends.aoti.payload import SharedObjectInfo
from pteron.backends.aoti.toolchain import HOST_PLATFORM, Machine, ToolchainError
from pteron.backends.apple.metal.metal_options import MetalOptions
from pteron.exir._serialize.named_data_store import NamedDataStoreOutput
from pteron.exir.backend.backend_details import BackendDetails
from pteron.exir.backend.compile_spec_schema import CompileSpec


@final
class MetalBackend(AotiBackend[MetalOptions], BackendDetails):
    """Compiles partitions to Metal kernels, and host code that runs them without libtorch."""

    @classmethod
    def get_device_name(cls) -> str:
        return "mps"

    @classmethod
    def get_options(cls, compile_specs: Iterable[CompileSpec]) -> MetalOptions:
        return MetalOptions.from_compile_specs(compile_specs)

    @classmethod
    def get_build_target(cls, options: MetalOptions) -> BuildTarget:
        is_host = options.platform == "host"
        step = None if is_host else MacBuildStep
        return BuildTarget(
            code=Target("mps", freeze=False, gpu="apple"),
            machine=Machine(march=(), defines=("USE_MPS",), step=step),
            info=SharedObjectInfo(
                device="metal",
                weights_layout="shared",
                platform=HOST_PLATFORM if is_host else options.platform,
            ),
        )

    @classmethod
    def keeps_results(cls, options: MetalOptions) -> bool:
        return not options.sign  # another program's result

    @classmethod
    def codesign_so(cls, shared_object: bytes, options: MetalOptions) -> bytes:
        if not options.sign:
            return shared_object
        with tempfile.TemporaryDirectory(prefix="pteron-sign-") as folder:
            path = Path(folder) / "model.dylib"
            path.write_bytes(shared_object)
            command = [*options.sign_command, str(path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                raise ToolchainError(
                    f"the code cannot be signed by {options.sign!r}: {error}"
                ) from error
            if done.returncode != 0:
                raise ToolchainError(
                    f"the code cannot be signed: {options.sign!r} failed "
                    f"(exit {done.returncode}).\n" + (done.stderr or done.stdout).strip()[:4000]
                )
            return path.read_bytes()

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
        return [*super().get_program_passes(options), fold_batch_norms]
