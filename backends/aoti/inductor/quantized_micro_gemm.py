"""The micro-GEMM for int8 and int4 weights with scales, in the layout of `ops/quantized_mm.py`.

A bfloat16 GEMM rounds the dequantized weight to bfloat16 and uses vdpbf16ps, too.
"""

import torch
from torch._inductor.codegen.cpp_utils import GemmBlocking

from pteron.backends.aoti.inductor.micro_gemms import TILES
from pteron.backends.aoti.inductor.packed_micro_gemms import AHEAD, PackedMicroGemm
from pteron.backends.aoti.ops.quantized_mm import PANEL, Packing

_QUANTIZED = r"""
{%- set adds_zero_point = has_zero_point or (bits == 4 and width == 256) %}
// Values of a row: {{lanes}} columns from `column`.
static inline {{floats}} {{name}}_values(const uint8_t* row, int column) {
    const auto* place = reinterpret_cast<const __m128i*>(row + column % {{value_bytes}});
    const __m128i bytes = {{ "_mm_loadu_si128" if width == 512 else "_mm_loadl_epi64" }}(place);
{%- if bits == 8 %}
    return {{mm}}_cvtepi32_ps({{mm}}_cvtepi8_epi32(bytes));
{%- else %}
    {{ints}} stored = {{mm}}_cvtepu8_epi32(bytes);
    if (column >= {{value_bytes}}) stored = {{mm}}_srli_epi32(stored, 4);
{%- if width == 512 %}
    const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    return _mm512_permutexvar_ps(stored, table);
{%- else %}
    return _mm256_cvtepi32_ps(_mm256_and_si256(stored, _mm256_set1_epi32(15)));  // 8 more
{%- endif %}
{%- endif %}
}

// Scales and zero points of a group.
struct {{name}}_Dequantizer {
{%- if group_size %}
    {{floats}} scale[{{block_n // lanes}}];
{%- endif %}
{%- if adds_zero_point %}
    {{floats}} zero_point[{{block_n // lanes}}];
{%- endif %}
    explicit {{name}}_Dequantizer(const uint8_t* stored) {
{%- if group_size %}
        const auto* scales = reinterpret_cast<const float*>(stored + {{group_size * value_bytes}});
        #pragma GCC unroll 4
        for (int i = 0; i < {{block_n // lanes}}; ++i) {
            scale[i] = {{mm}}_loadu_ps(scales + i * {{lanes}});
{%- if adds_zero_point %}
{%- if has_zero_point %}
            zero_point[i] = {{mm}}_loadu_ps(scales + {{block_n}} + i * {{lanes}});
{%- else %}
            zero_point[i] = {{mm}}_setzero_ps();
{%- endif %}
{%- if bits == 4 and width == 256 %}
            zero_point[i] = {{mm}}_fmadd_ps(scale[i], {{mm}}_set1_ps(-8), zero_point[i]);
{%- endif %}
{%- endif %}
        }
{%- endif %}
    }

    {{floats}} of(const uint8_t* row, int i) const {
        const {{floats}} values = {{name}}_values(row, i * {{lanes}});
{%- if adds_zero_point %}
        return {{mm}}_fmadd_ps(values, scale[i], zero_point[i]);
{%- elif group_size %}
        return {{mm}}_mul_ps(values, scale[i]);
{%- else %}
        return values;
{%- endif %}
    }
};

static void {{name}}_right(const uint8_t* B, int64_t ldb, int64_t count, float* right) {
    const int64_t group_size = {{ group_size or "count" }};
    for (int64_t begin = 0; begin < count; begin += group_size) {
        const uint8_t* stored = B + begin * ldb;
        const {{name}}_Dequantizer weight(stored);
        for (int64_t k = 0; k < group_size; ++k) {
            #pragma GCC unroll 4
            for (int i = 0; i < {{block_n // lanes}}; ++i) {
                {{mm}}_storeu_ps(
                    right + (begin + k) * {{block_n}} + i * {{lanes}},
                    weight.of(stored + k * {{value_bytes}}, i));
            }
        }
    }
}

{%- if row_of_pairs %}
// int4 as bfloat16, by a table, so that two terms are one multiply-add; sums of a group are scaled.
template <bool accum>
__attribute__((target("avx512bf16,avx512vbmi"))) static void {{name}}_one_row_of_pairs(
    const at::BFloat16* __restrict__ A, const uint8_t* __restrict__ B, float* __restrict__ C,
    int64_t K, int64_t ldb
) {
    // For column c, byte c of two rows, each twice: the table's index is 5 bits, of which the upper
    // one does not matter.
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i first_rows = _mm512_add_epi32(
        _mm512_mullo_epi32(lanes, _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(0x10100000));
    const __m512i rows[2] = {
        first_rows, _mm512_add_epi32(first_rows, _mm512_set1_epi32(0x20202020))};
    alignas(64) static const uint16_t values[32] = {
{%- for _ in range(2) %}
        0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80,  // -8 to -1
        0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0,
{%- endfor %}
    };
    const __m512i table = _mm512_load_si512(values);
    __m512 sums[2];
    for (int i = 0; i < 2; ++i) {
        sums[i] = accum ? _mm512_loadu_ps(C + i * 16) : _mm512_setzero_ps();
    }
    for (int64_t begin = 0; begin < K; begin += {{group_size}}) {
        const uint8_t* stored = B + begin * ldb;
        __m512 parts[2][2] = {
            {_mm512_setzero_ps(), _mm512_setzero_ps()}, {_mm512_setzero_ps(), _mm512_setzero_ps()}};
        for (int64_t k = 0; k < {{group_size}}; k += 4) {
            const __m512i bytes = _mm512_loadu_si512(stored + k * 16);
            __builtin_prefetch(stored + k * 16 + {{ahead}});
            #pragma GCC unroll 2
            for (int pair = 0; pair < 2; ++pair) {
                int terms;
                std::memcpy(&terms, A + begin + k + 2 * pair, sizeof(terms));
                const __m512bh left = (__m512bh)_mm512_set1_epi32(terms);
                const __m512i index = _mm512_permutexvar_epi8(rows[pair], bytes);
                parts[pair][0] = _mm512_dpbf16_ps(
                    parts[pair][0], (__m512bh)_mm512_permutexvar_epi16(index, table), left);
                parts[pair][1] = _mm512_dpbf16_ps(
                    parts[pair][1],
                    (__m512bh)_mm512_permutexvar_epi16(_mm512_srli_epi16(index, 4), table), left);
            }
        }
        const auto* scales = reinterpret_cast<const float*>(stored + {{group_size * value_bytes}});
        #pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            sums[i] = _mm512_fmadd_ps(
                _mm512_loadu_ps(scales + i * 16), _mm512_add_ps(parts[0][i], parts[1][i]), sums[i]);
        }
    }
    for (int i = 0; i < 2; ++i) _mm512_storeu_ps(C + i * 16, sums[i]);
}
{%- endif %}

// Several accumulators for each element, so that multiply-adds do not wait for each other.
template <bool accum>
static void {{name}}_one_row(
    const {{input_t}}* __restrict__ A, const uint8_t* __restrict__ B, float* __restrict__ C,
    int64_t K, int64_t ldb
) {
    constexpr int chains = {{ 4 if width == 512 else 2 }}, registers = {{block_n // lanes}};
    {{floats}} sums[chains][registers];
    #pragma GCC unroll 4
    for (int i = 0; i < registers; ++i) {
        #pragma GCC unroll 4
        for (int chain = 0; chain < chains; ++chain) sums[chain][i] = {{mm}}_setzero_ps();
        if (accum) sums[0][i] = {{mm}}_loadu_ps(C + i * {{lanes}});
    }
    const int64_t group_size = {{ group_size or "K" }};
    for (int64_t begin = 0; begin < K; begin += group_size) {
        const uint8_t* stored = B + begin * ldb;
        const {{name}}_Dequantizer weight(stored);
        int64_t k = 0;
        for (; k + chains <= group_size; k += chains) {
            #pragma GCC unroll 4
            for (int chain = 0; chain < chains; ++chain) {
                const uint8_t* row = stored + (k + chain) * {{value_bytes}};
                if (chain * {{value_bytes}} % 64 == 0) __builtin_prefetch(row + {{ahead}});
                const {{floats}} element = {{name}}_element(A + begin + k + chain);
                #pragma GCC unroll 4
                for (int i = 0; i < registers; ++i) {
                    sums[chain][i] = {{mm}}_fmadd_ps(element, weight.of(row, i), sums[chain][i]);
                }
            }
        }
        for (; k < group_size; ++k) {
            const {{floats}} element = {{name}}_element(A + begin + k);
            #pragma GCC unroll 4
            for (int i = 0; i < registers; ++i) {
                sums[0][i] = {{mm}}_fmadd_ps(
                    element, weight.of(stored + k * {{value_bytes}}, i), sums[0][i]);
            }
        }
    }
    #pragma GCC unroll 4
    for (int i = 0; i < registers; ++i) {
        #pragma GCC unroll 4
        for (int chain = 1; chain < chains; ++chain) {
            sums[0][i] = {{mm}}_add_ps(sums[0][i], sums[chain][i]);
        }
        {{mm}}_storeu_ps(C + i * {{lanes}}, sums[0][i]);
    }
}
"""


class QuantizedMicroGemm(PackedMicroGemm):
    """A packed int8 or int4 weight; A is float32, bfloat16 or float16."""

    TEXT = _QUANTIZED

    def __init__(self, name: str, left: torch.dtype, packing: Packing, width: int) -> None:
        rows, step = (8, PANEL) if width == 512 else TILES[PANEL]
        # Inductor cuts terms at multiples of the last number; an odd number of them is no pairs.
        blocking = GemmBlocking(rows, PANEL, packing.group_size or 32)
        options = {**vars(packing), "value_bytes": packing.value_bytes, "ahead": AHEAD}
        pairs = packing.bits == 4 and packing.group_size and packing.group_size % 4 == 0
        pairs = pairs and left == torch.bfloat16 and width == 512
        options["row_of_pairs"] = pairs and not packing.has_zero_point
        super().__init__(name, (left, torch.uint8), blocking, step, width, **options)
