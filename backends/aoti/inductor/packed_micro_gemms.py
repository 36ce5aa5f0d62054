"""Micro-GEMMs for weights that are not float32.

They accumulate in float32. They differ from Inductor's in how the weight is laid out and loaded:

* bfloat16: VNNI2, [k / 2][n][2], for vdpbf16ps (AVX512-BF16). A machine without it converts the
  same pairs to float32 by a shift and a mask.
* float16: laid out as Inductor does; each register is converted as it is loaded.
* int8 and int4 with scales: `quantized_micro_gemm`.

This module has subclasses of Inductor's classes: it is imported once Inductor is at work.
"""

from typing import Any

import torch
from torch._inductor.codegen.common import KernelTemplate
from torch._inductor.codegen.cpp_micro_gemm import CppMicroGemm, LayoutType
from torch._inductor.codegen.cpp_utils import GemmBlocking

#: Prefetch distance in the weight, bytes: a page, at whose end the hardware prefetcher stops.
AHEAD = 4096

#: Between sums[rows][registers], accumulators, and C.
_SUMS = r"""{%- set load_sums %}
    #pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
        #pragma GCC unroll 8
        for (int i = 0; i < registers; ++i) {
            float* place = C + row * ldc + i * {{lanes}};
            sums[row][i] = accum ? {{mm}}_loadu_ps(place) : {{mm}}_setzero_ps();
        }
    }
{%- endset %}
{%- set store_sums %}
    #pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
        #pragma GCC unroll 8
        for (int i = 0; i < registers; ++i) {
            {{mm}}_storeu_ps(C + row * ldc + i * {{lanes}}, sums[row][i]);
        }
    }
{%- endset %}"""

#: Where the machine has AVX512-BF16.
_PAIRS = r"""{%- if multiplies_pairs %}
// Two terms for each multiply-add.
template <int rows, bool accum>
__attribute__((target("avx512bf16"))) static void {{name}}_rows_of_pairs(
    const at::BFloat16* __restrict__ A, const at::BFloat16* __restrict__ B, float* __restrict__ C,
    int64_t K, int64_t lda, int64_t ldb, int64_t ldc
) {
    constexpr int registers = {{step // lanes}};
    __m512 sums[rows][registers];
{{- load_sums}}
    for (int64_t k = 0; k < K; k += 2) {
        __m512bh right[registers];
        #pragma GCC unroll 8
        for (int i = 0; i < registers; ++i) {
            const at::BFloat16* stored = B + k * ldb + 2 * i * {{lanes}};
            __builtin_prefetch(stored + {{pairs_ahead}});
            right[i] = (__m512bh)_mm512_loadu_si512(stored);
        }
        #pragma GCC unroll 16
        for (int row = 0; row < rows; ++row) {
            int pair;
            std::memcpy(&pair, A + row * lda + k, sizeof(pair));
            #pragma GCC unroll 8
            for (int i = 0; i < registers; ++i) {
                sums[row][i] = _mm512_dpbf16_ps(
                    sums[row][i], (__m512bh)_mm512_set1_epi32(pair), right[i]);
            }
        }
    }
{{- store_sums}}
}

template <bool accum>
static void {{name}}_pairs(
    const at::BFloat16* A, const at::BFloat16* B, float* C,
    int64_t M, int64_t K, int64_t lda, int64_t ldb, int64_t ldc
) {
    // With AMX, whose tiles of few rows take as long as full ones.
    if (M > {{block_m}} &&
        aoti_torch_cpu_multiply_pairs(A, lda, B, ldb, C, ldc, M, {{block_n}}, K, accum)) {
        return;
    }
    for (int64_t m = 0; m < M; m += {{block_m}}) {
        switch (std::min<int64_t>(M - m, {{block_m}})) {
{%- for rows in range(block_m, 0, -1) %}
            case {{rows}}:
                {{name}}_rows_of_pairs<{{rows}}, accum>(
                    A + m * lda, B, C + m * ldc, K, lda, ldb, ldc);
                break;
{%- endfor %}
        }
    }
}
{%- if terms != 2 %}

// Pairs of rows of float32.
__attribute__((target("avx512bf16"))) static void {{name}}_as_pairs(
    const float* right, int64_t count, at::BFloat16* pairs
) {
    for (int64_t k = 0; k < count; k += 2) {
        for (int n = 0; n < {{block_n}}; n += 16) {
            const float* row = right + k * {{block_n}} + n;
            const auto first = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(row));
            const auto second = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(row + {{block_n}}));
            const __m512i pair = _mm512_or_si512(
                _mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
            _mm512_storeu_si512(pairs + k * {{block_n}} + 2 * n, pair);
        }
    }
}
{%- endif %}
{%- endif %}
"""

#: What all have in common: `right` and `one_row` are what a kind adds.
_COMMON = r"""
{%- if input_dtype != torch.float32 %}
// Rows of A as float32.
static void {{name}}_left(
    const {{input_t}}* A, int64_t lda, int64_t rows, int64_t count, float* left
) {
    for (int64_t row = 0; row < rows; ++row) {
        int64_t k = 0;
        for (; k + {{lanes}} <= count; k += {{lanes}}) {
            const {{half_ints}} stored = {{half_mm}}_loadu_si{{width // 2}}(
                reinterpret_cast<const {{half_ints}}*>(A + row * lda + k));
{%- if input_dtype == torch.bfloat16 %}
            const {{floats}} values = {{mm}}_castsi{{width}}_ps(
                {{mm}}_slli_epi32({{mm}}_cvtepu16_epi32(stored), 16));
{%- else %}
            const {{floats}} values = {{mm}}_cvtph_ps(stored);
{%- endif %}
            {{mm}}_storeu_ps(left + row * {{chunk}} + k, values);
        }
        for (; k < count; ++k) left[row * {{chunk}} + k] = static_cast<float>(A[row * lda + k]);
    }
}
{%- endif %}

// A float32 GEMM of {{step // lanes}} registers of columns.
template <int rows, bool accum>
static void {{name}}_rows(
    const float* __restrict__ left, int64_t lda, const float* __restrict__ right, int64_t count,
    float* __restrict__ C, int64_t ldc
) {
    constexpr int registers = {{step // lanes}};
    {{floats}} sums[rows][registers];
{{- load_sums}}
    for (int64_t k = 0; k < count; ++k) {
        {{floats}} read[registers];
        #pragma GCC unroll 8
        for (int i = 0; i < registers; ++i) {
            read[i] = {{mm}}_loadu_ps(right + k * {{block_n}} + i * {{lanes}});
        }
        #pragma GCC unroll 16
        for (int row = 0; row < rows; ++row) {
            const {{floats}} element = {{mm}}_set1_ps(left[row * lda + k]);
            #pragma GCC unroll 8
            for (int i = 0; i < registers; ++i) {
                sums[row][i] = {{mm}}_fmadd_ps(element, read[i], sums[row][i]);
            }
        }
    }
{{- store_sums}}
}

{{declare_kernel}} {
{%- if multiplies_pairs %}
    const bool multiplies_pairs = __builtin_cpu_supports("avx512bf16");
{%- if terms == 2 %}
    if (multiplies_pairs) {
        {{name}}_pairs<accum>(A, B, C, M, K, lda, ldb, ldc);
        return;
    }
{%- endif %}
{%- endif %}
    if (M == 1) {
{%- if row_of_pairs %}
        if (multiplies_pairs && __builtin_cpu_supports("avx512vbmi")) {
            {{name}}_one_row_of_pairs<accum>(A, B, C, K, ldb);
            return;
        }
{%- endif %}
        {{name}}_one_row<accum>(A, B, C, K, ldb);
        return;
    }
    alignas(64) float right[{{chunk}} * {{block_n}}];
{%- if multiplies_pairs and terms != 2 %}
    if (multiplies_pairs && K % 2 == 0) {
        // Of more terms than a block of float32: sums, which AMX loads and stores, are memory.
        constexpr int64_t depth = 4 * {{chunk}};
        alignas(64) at::BFloat16 pairs[depth * {{block_n}}];
        for (int64_t begin = 0; begin < K; begin += depth) {
            const int64_t count = std::min<int64_t>(K - begin, depth);
            for (int64_t k = 0; k < count; k += {{chunk}}) {
                const int64_t some = std::min<int64_t>(count - k, {{chunk}});
                {{name}}_right(B + (begin + k) * ldb, ldb, some, right);
                {{name}}_as_pairs(right, some, pairs + k * {{block_n}});
            }
            if (accum || begin) {
                {{name}}_pairs<true>(A + begin, pairs, C, M, count, lda, {{block_n}}, ldc);
            } else {
                {{name}}_pairs<false>(A + begin, pairs, C, M, count, lda, {{block_n}}, ldc);
            }
        }
        return;
    }
{%- endif %}
{%- if input_dtype != torch.float32 %}
    alignas(64) float left[{{block_m}} * {{chunk}}];
{%- endif %}
    for (int64_t begin = 0; begin < K; begin += {{chunk}}) {
        const int64_t count = std::min<int64_t>(K - begin, {{chunk}});
        {{name}}_right(B + begin * ldb, ldb, count, right);
        for (int64_t m = 0; m < M; m += {{block_m}}) {
            const int64_t rows = std::min<int64_t>(M - m, {{block_m}});
{%- if input_dtype == torch.float32 %}
            const float* left = A + m * lda + begin;
{%- set stride = "lda" %}
{%- else %}
            {{name}}_left(A + m * lda + begin, lda, rows, count, left);
{%- set stride = chunk %}
{%- endif %}
            for (int64_t n = 0; n < {{block_n}}; n += {{step}}) {
                float* sums = C + m * ldc + n;
                switch (rows) {
{%- for rows in range(block_m, 0, -1) %}
                    case {{rows}}:
                        if (accum || begin) {
                            {{name}}_rows<{{rows}}, true>(
                                left, {{stride}}, right + n, count, sums, ldc);
                        } else {
                            {{name}}_rows<{{rows}}, false>(
                                left, {{stride}}, right + n, count, sums, ldc);
                        }
                        break;
{%- endfor %}
                }
            }
        }
    }
}
"""

_ELEMENT = r"""
// An element of A, broadcast.
static inline {{floats}} {{name}}_element(const {{input_t}}* element) {
{%- if input_dtype == torch.float32 %}
    return {{mm}}_set1_ps(*element);
{%- elif input_dtype == torch.bfloat16 %}
    return {{mm}}_castsi{{width}}_ps({{mm}}_slli_epi32({{mm}}_set1_epi16(element->x), 16));
{%- else %}
    return {{mm}}_cvtph_ps({{half_mm}}_set1_epi16(element->x));
{%- endif %}
}
"""

_HALVES = r"""
// A register of a row as float32. bfloat16 rows are interleaved in pairs.
static inline {{floats}} {{name}}_read(const {{input_t}}* stored, int term) {
{%- if terms == 2 %}
    const {{ints}} pair = {{mm}}_loadu_si{{width}}(reinterpret_cast<const {{ints}}*>(stored));
    return {{mm}}_castsi{{width}}_ps(
        term ? {{mm}}_and_si{{width}}(pair, {{mm}}_set1_epi32(0xffff0000))
             : {{mm}}_slli_epi32(pair, 16));
{%- else %}
    return {{mm}}_cvtph_ps({{half_mm}}_loadu_si{{width // 2}}(
        reinterpret_cast<const {{half_ints}}*>(stored)));
{%- endif %}
}

static void {{name}}_right(const {{input_t}}* B, int64_t ldb, int64_t count, float* right) {
    for (int64_t k = 0; k < count; k += {{terms}}) {
        for (int term = 0; term < {{terms}}; ++term) {
            for (int n = 0; n < {{block_n}}; n += {{lanes}}) {
                {{mm}}_storeu_ps(
                    right + (k + term) * {{block_n}} + n,
                    {{name}}_read(B + k * ldb + {{terms}} * n, term));
            }
        }
    }
}

template <bool accum>
static void {{name}}_one_row(
    const {{input_t}}* __restrict__ A, const {{input_t}}* __restrict__ B, float* __restrict__ C,
    int64_t K, int64_t ldb
) {
    constexpr int registers = {{block_n // lanes}};
    {{floats}} sums[registers];
    #pragma GCC unroll 8
    for (int i = 0; i < registers; ++i) {
        sums[i] = accum ? {{mm}}_loadu_ps(C + i * {{lanes}}) : {{mm}}_setzero_ps();
    }
    for (int64_t k = 0; k < K; k += {{terms}}) {
        #pragma GCC unroll 8
        for (int i = 0; i < {{terms * block_n // 32}}; ++i) {
            __builtin_prefetch(B + k * ldb + {{ahead}} + 32 * i);
        }
        #pragma GCC unroll 2
        for (int term = 0; term < {{terms}}; ++term) {
            const {{floats}} element = {{name}}_element(A + k + term);
            #pragma GCC unroll 8
            for (int i = 0; i < registers; ++i) {
                sums[i] = {{mm}}_fmadd_ps(
                    element, {{name}}_read(B + k * ldb + {{terms}} * i * {{lanes}}, term), sums[i]);
            }
        }
    }
    #pragma GCC unroll 8
    for (int i = 0; i < registers; ++i) {{mm}}_storeu_ps(C + i * {{lanes}}, sums[i]);
}
"""


class PackedMicroGemm(CppMicroGemm):
    """A GEMV converts the weight as it is loaded; a GEMM converts a block of it, which stays in the
    L1 cache, to float32 once for all rows.

    Args:
        step: columns of a panel that are computed at a time.
        width: of registers, in bits.
        options: template variables of `TEXT`.
    """

    TEXT = ""

    def __init__(
        self, name: str, dtypes: Any, blocking: GemmBlocking, step: int, width: int, **options: Any
    ) -> None:
        left, right = dtypes
        super().__init__(name, left, right, torch.float32, torch.float32, blocking)
        self.step, self.width, self.options = step, width, options

    def codegen_define(self, kernel: Any) -> str:
        common: Any = self  # whose methods have no annotations
        mm = {512: "_mm512", 256: "_mm256", 128: "_mm"}
        columns = self.register_blocking.block_n
        options = {
            **common.get_common_options(),
            "declare_kernel": common.get_kernel_declaration(),
            "name": self.name,
            "block_m": self.register_blocking.block_m,
            "block_n": columns,
            "step": self.step,
            "chunk": 128 if columns <= 32 else 64,
            "multiplies_pairs": self.input_dtype == torch.bfloat16 and self.width == 512,
            "pairs_ahead": AHEAD // 2,
            "terms": 1,
            "row_of_pairs": False,
            "width": self.width,
            "lanes": self.width // 32,
            "mm": mm[self.width],
            "half_mm": mm[self.width // 2],
            "floats": f"__m{self.width}",
            "ints": f"__m{self.width}i",
            "half_ints": f"__m{self.width // 2}i",
            **self.options,
        }
        text = _SUMS + _ELEMENT + self.TEXT + _PAIRS + _COMMON
        return str(KernelTemplate._template_from_string(text).render(options))


class HalvesMicroGemm(PackedMicroGemm):
    """bfloat16, with an even K, or float16."""

    TEXT = _HALVES

    def __init__(
        self, name: str, dtype: torch.dtype, columns: int, rows: int, step: int, width: int
    ) -> None:
        terms = 2 if dtype == torch.bfloat16 else 1  # that lie side by side
        blocking, options = GemmBlocking(rows, columns, terms), {"terms": terms}
        super().__init__(name, (dtype, dtype), blocking, step, width, ahead=AHEAD // 2, **options)

    def get_b_layout(self) -> LayoutType:
        return LayoutType.VNNI2 if self.options["terms"] == 2 else LayoutType.NORMAL
