"""The BLAS backend's lowering half: a partition becomes a plan and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from torch.export import ExportedProgram

from pteron.backends.example.blas import plan
from pteron.backends.example.blas.blas_options import BlasOptions
from pteron.exir._serialize.named_data_store import NamedDataStore, NamedDataStoreOutput
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec


@final
class BlasBackend(BackendDetails):
    """Multiplies matrices with OpenBLAS. The class name is the id in the file."""

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        options = BlasOptions.from_compile_specs(compile_specs)
        made = plan.build(edge_program)
        weights = NamedDataStore()
        for key, weight in made.weights.items():
            weights.add_named_data(
                key, weight, plan.WEIGHT_ALIGNMENT, external_tag=options.external_tag or None
            )
        return PreprocessResult(
            processed_bytes=made.processed_bytes,
            data_store_output=weights.get_named_data_store_output(),
        )

    @classmethod
    def describe(
        cls, processed_bytes: bytes, data_store_output: NamedDataStoreOutput | None
    ) -> Mapping[str, str]:
        return plan.describe(processed_bytes)
