// SHA-256 with the x86 SHA extensions.
//
// The state is in two registers in the order of sha256rnds2: ABEF and CDGH, the first word in the
// highest lane. One step does four rounds; the message schedule runs four steps ahead.
#include "pteron/runtime/platform/sha256.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace pteron::internal {
namespace {

#define PTERON_TARGET_SHA __attribute__((target("sha,sse4.1")))

// w[0..3] are the last 16 message words; replaces the oldest four by the next four.
PTERON_TARGET_SHA inline __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3) {
  const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
  return _mm_sha256msg2_epu32(sum, w3);
}

PTERON_TARGET_SHA void compress(uint32_t* state, const uint8_t* blocks, size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

  for (; count > 0; --count, blocks += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];
    for (int step = 0; step < 16; ++step) {
      __m128i& words = w[step % 4];
      if (step < 4) {
        words = _mm_shuffle_epi8(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + 16 * step)), swap);
      } else {
        words = next_words(words, w[(step + 1) % 4], w[(step + 2) % 4], w[(step + 3) % 4]);
      }
      const __m128i rounds = _mm_add_epi32(
          words, _mm_load_si128(reinterpret_cast<const __m128i*>(kSha256Constants + 4 * step)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, rounds);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(rounds, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }

  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace

Sha256Compress sha256_compress_accelerated() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_SSE4_1)) return nullptr;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_SHA)) return nullptr;
  return compress;
}

}  // namespace pteron::internal

#else

namespace pteron::internal {

Sha256Compress sha256_compress_accelerated() { return nullptr; }

}  // namespace pteron::internal

#endif
