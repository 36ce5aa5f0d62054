"""GEMMs whose weights are not float32, generated with `packed_micro_gemms`."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen import cpp_gemm_template
from torch._inductor.codegen.cpp_gemm_template import CppGemmTemplate
from torch._inductor.codegen.cpp_micro_gemm import CppMicroGemmFP32Vec

from pteron.backends.aoti.inductor.convolutions import with_lowering
from pteron.backends.aoti.inductor.cpu import single_thread_if_small
from pteron.backends.aoti.inductor.micro_gemms import TILES
from pteron.backends.aoti.inductor.packed_micro_gemms import HalvesMicroGemm
from pteron.backends.aoti.inductor.patches import Context, patched, together, wrapped
from pteron.backends.aoti.inductor.quantized_micro_gemm import QuantizedMicroGemm
from pteron.backends.aoti.ops.quantized_mm import QUANTIZED_MM, Packing


def half_precision_gemms(width: int) -> Context:
    """Constant bfloat16 (VNNI2) and float16 weights are read by our micro-GEMMs.

    Args:
        width: of registers, in bits. Panels are those of the micro-GEMM that is replaced.
    """

    def with_halves(method: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
        # A bmm rarely has constant weights; others would be repacked at each call.
        if CppGemmTemplate not in (owner, type(owner)):
            return method(owner, *args, **kwargs)
        create = functools.partial(_create, width)
        with wrapped(cpp_gemm_template, "create_micro_gemm", create):
            return method(owner, *args, **kwargs)

    return together(
        wrapped(CppGemmTemplate, "add_choices", with_halves),
        wrapped(CppGemmTemplate, "get_options", with_halves),
    )


def _create(width: int, create: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    plain = create(*args, **kwargs)
    dtype, terms = plain.input_dtype, args[3]
    if (
        type(plain) is not CppMicroGemmFP32Vec
        or plain.input2_dtype != dtype
        or dtype not in (torch.bfloat16, torch.float16)
        or (dtype == torch.bfloat16 and terms % 2)
        or plain.alpha != 1
    ):
        return plain
    rows, columns, _ = plain.register_blocking
    step = TILES[columns][1] if width == 256 and columns in TILES else columns
    return HalvesMicroGemm(plain.name, dtype, columns, rows, step, width)


class QuantizedGemm(CppGemmTemplate):
    """A GEMM with a weight that is packed already."""

    def __init__(self, *args: Any, packing: Packing, width: int, **kwargs: Any) -> None:
        dtype = kwargs["input_nodes"][0].get_dtype()
        make = functools.partial(QuantizedMicroGemm, left=dtype, packing=packing, width=width)
        self._micro_gemm = lambda name, *_, **__: make(name)
        kwargs["register_blocking"] = make("").register_blocking
        super().__init__(*args, **kwargs)
        self._row_bytes = packing.row_bytes

    def get_options(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with patched(cpp_gemm_template, "create_micro_gemm", self._micro_gemm):
            options: dict[str, Any] = super().get_options(*args, **kwargs)
        return options

    def _template_from_string(self, text: str) -> Any:  # type: ignore[override]
        """A row of the packed weight has `row_bytes` elements."""
        row = '["k_end - k_start", micro_gemm.register_blocking.block_n]'
        text = text.replace(row, f'["k_end - k_start", {self._row_bytes}]')
        return CppGemmTemplate._template_from_string(text)


def quantized_gemms(width: int) -> Context:
    """Lowers `QUANTIZED_MM` to a C++ GEMM template. `width`: of registers, in bits."""

    def lower(
        x: Any, weight: Any, columns: int, bits: int, group_size: int, has_zero_point: bool
    ) -> Any:
        x = ir.ExternKernel.require_stride1(ir.ExternKernel.realize_input(x))
        weight = ir.ExternKernel.realize_input(weight)
        rows, terms = x.get_size()
        with single_thread_if_small([rows, columns, terms]):
            threads = torch._inductor.config.cpp.threads
        template: Any = QuantizedGemm(
            input_nodes=[x, weight],
            layout=ir.FixedLayout(x.get_device(), x.get_dtype(), [rows, columns]),
            num_threads=threads,
            packing=Packing(columns, bits, group_size, has_zero_point),
            width=width,
        )
        return template.generate().output_node()

    return with_lowering(QUANTIZED_MM, lower)
