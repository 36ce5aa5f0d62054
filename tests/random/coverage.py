"""Which templates were taken for products and which functions of the runtime are called.

The lists here say what a run of many modules has to meet, and what none can meet, with the reason.
"""

import collections
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pteron.backends.aoti.schema.metadata_generated as schema
from pteron.backends.aoti.ops import shim_list
from pteron.exir._serialize.program_file import deserialize_program


@contextlib.contextmanager
def templates_taken() -> Iterator[collections.Counter[str]]:
    """Counts, inside, the templates that Inductor takes, by name."""
    from torch._inductor import ir, select_algorithm
    from torch._inductor.codegen.cpp_template_kernel import CppTemplateCaller

    found: collections.Counter[str] = collections.Counter()

    def counted(owner: Any, method: str, name_of: Callable[..., str]) -> Any:
        original = getattr(owner, method)

        def count(*args: Any) -> Any:
            found[name_of(*args)] += 1
            return original(*args)

        return mock.patch.object(owner, method, count)

    def of_triton(caller: Any) -> str:
        return caller.name.rsplit("_", 1)[0]  # less its number

    with (
        counted(CppTemplateCaller, "output_node", lambda caller: type(caller.template).__name__),
        counted(select_algorithm.TritonTemplateCaller, "output_node", of_triton),
        counted(
            ir.MultiTemplateBuffer,
            "finalize_as_triton_caller",
            lambda buffer, caller: of_triton(caller),
        ),
    ):
        yield found


def shims_of(program: bytes) -> list[str]:
    """The names that the delegates of a program file import, sorted."""
    named = deserialize_program(program).named_data
    tables = (
        schema.ModelMetadataT.InitFromObj(schema.ModelMetadata.GetRootAs(bytes(blob), 0))
        for key, blob in named.items()
        if key.endswith("/metadata")
    )
    return sorted({name.decode() for table in tables for name in table.shims or ()})


def templates(device: str) -> tuple[str, ...]:
    """The templates that a run on `device` has to take."""
    return _TEMPLATES[device]


def shims(device: str) -> frozenset[str]:
    """The functions that a run on `device` has to import."""
    return shim_list.load(device).names - unreachable(device)


def unreachable(device: str) -> frozenset[str]:
    """The functions that generated code for `device` does not call."""
    names = shim_list.load(device).names
    patterns = [pattern for devices, pattern, _ in _UNREACHABLE if device in devices]
    return frozenset(name for name in names if any(re.fullmatch(p, name) for p in patterns))


_TEMPLATES = {"cpu": ("CppBmmTemplate", "CppGemmTemplate"), "cuda": ("triton_bmm", "triton_mm")}

_BOTH, _CPU, _CUDA = ("cpu", "cuda"), ("cpu",), ("cuda",)

# Devices, a pattern of names, and why no generated code calls them there.
_UNREACHABLE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        _BOTH,
        r"aoti_torch_(device_type_(meta|xpu|mps|privateuse1)|layout_(?!strided).*|memory_format_.*)",
        "devices and layouts that no tensor of ours has; formats are arguments of the operators "
        "that are compiled",
    ),
    (
        _BOTH,
        r"aoti_torch_dtype_(complex32|complex128|float4_e2m1fn_x2|float8_(e5m2fnuz|e4m3fnuz|e8m0fnu))",
        "element types without arithmetic there, and complex numbers of double precision",
    ),
    (
        _BOTH,
        r"aoti_torch_(empty_strided_pinned|get_storage_numel|get_device_index|get_layout|get_stride"
        r"|is_contiguous|is_defined|tensor_copy_|assign_tensors|dtype_element_size|zero_"
        r"|_alloc_from_pool|as_strided)",
        "part of the interface that only other modes of Inductor use",
    ),
    (
        _BOTH,
        r"aoti_torch_(scalar_to_tensor_(?!int64).*|item_complex64)",
        "numbers of the host are integers where they become tensors, and never complex",
    ),
    (
        _BOTH,
        r"aoti_torch_new_uninitialized_tensor",
        "results of operators that have no C function, which are refused",
    ),
    (
        _BOTH,
        r"aoti_torch_(cpu|cuda)_(baddbmm_out|sort|max_pool[23]d_with_indices"
        r"|scatter_(src|value)_out|index_put|fill__Scalar)",
        "operators that are decomposed on the way, or compiled",
    ),
    (
        _BOTH,
        r"aoti_torch_(cpu|cuda)_(abs|add_Tensor|mul_Tensor|polar|permute|reshape|slice_Tensor)",
        "complex numbers, which become real ones before (exir/operators/complex_numbers.py)",
    ),
    (
        _BOTH,
        r"aoti_torch_(cpu|cuda)_(nms_mask|(ps_)?roi_(align|pool)|_linalg_(eigh|svd))",
        "operators of torchvision, which is not installed there, and vectors of either sign",
    ),
    (_CPU, r"aoti_torch_(clone_preserve_strides|warn)", "inputs are realigned on GPUs only"),
    (
        _CPU,
        r"GOMP_(atomic|critical).*|omp_(get_num_procs|in_parallel|set_num_threads)",
        "constructs that Inductor does not write",
    ),
    (
        _CPU,
        r"Sleef_(sincos.*|(sin|cos|erf)f\d+_u10|(atanh|expm1)[fd]\d+_u10|expf_u10)",
        "vectors of these are computed another way, by a formula or at lower precision (u35)",
    ),
)
