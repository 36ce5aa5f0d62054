// Replaces Metal's standard library when kernels are compiled for the CPU: the subset that
// Inductor's kernels and ours use. One host thread runs all threads of a kernel and switches
// between them at barriers (lockstep.h).
#pragma once

#include <limits>
#include <type_traits>

#define __METAL__ 1
#define __METAL_VERSION__ 320

// Address spaces and function qualifiers. kernel_text.h has already replaced `threadgroup` before a
// variable by `static`.
#define kernel
#define device
#define thread
#define threadgroup
#define constant const

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef _Float16 half;

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_huge_valf()
#define MAXFLOAT __FLT_MAX__
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define M_E_F 2.71828182845904523536f
#define M_LN2_F 0.693147180559945309417f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_1_PI_F 0.318309886183790671538f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.707106781186547524401f

// Rounds to nearest even; computes in float.
struct bfloat {
  ushort bits;
  bfloat() = default;
  template <typename T, typename = std::enable_if_t<std::is_convertible_v<T, float>>>
  constexpr bfloat(T number) : bits(rounded(static_cast<float>(number))) {}
  constexpr operator float() const { return __builtin_bit_cast(float, uint(bits) << 16); }

  static constexpr ushort rounded(float number) {
    const uint all = __builtin_bit_cast(uint, number);
    if (number != number) return ushort(all >> 16 | 0x40);
    return ushort((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  bfloat& operator+=(float b) { return *this = bfloat(float(*this) + b); }
  bfloat& operator-=(float b) { return *this = bfloat(float(*this) - b); }
  bfloat& operator*=(float b) { return *this = bfloat(float(*this) * b); }
  bfloat& operator/=(float b) { return *this = bfloat(float(*this) / b); }
};

template <typename T, typename U>
inline T as_type(U value) {
  static_assert(sizeof(T) == sizeof(U), "as_type between types of one size");
  T result;
  __builtin_memcpy(&result, &value, sizeof(T));
  return result;
}

namespace metal {

template <typename T, int N>
struct vec;

template <typename T>
struct vec<T, 2> {
  T x, y;
  vec() = default;
  constexpr vec(T all) : x(all), y(all) {}
  constexpr vec(T a, T b) : x(a), y(b) {}
  template <typename U>
  explicit constexpr vec(vec<U, 2> o) : x(T(o.x)), y(T(o.y)) {}
  constexpr T& operator[](int i) { return (&x)[i]; }
  constexpr const T& operator[](int i) const { return (&x)[i]; }
};

template <typename T>
struct vec<T, 3> {
  T x, y, z;
  vec() = default;
  constexpr vec(T all) : x(all), y(all), z(all) {}
  constexpr vec(T a, T b, T c) : x(a), y(b), z(c) {}
  template <typename U>
  explicit constexpr vec(vec<U, 3> o) : x(T(o.x)), y(T(o.y)), z(T(o.z)) {}
  constexpr T& operator[](int i) { return (&x)[i]; }
  constexpr const T& operator[](int i) const { return (&x)[i]; }
};

template <typename T>
struct alignas(sizeof(T) * 4) vec<T, 4> {
  // Two adjacent elements as a vector swizzle.
  struct Two {
    T a, b;
    constexpr operator vec<T, 2>() const { return {a, b}; }
    constexpr Two& operator=(vec<T, 2> o) { return a = o.x, b = o.y, *this; }
  };
  union {
    T x;
    Two xy;
    T all[4];
    struct {
      T skip_x, y;
    };
    struct {
      T skip_x2, skip_y2;
      union {
        T z;
        Two zw;
        struct {
          T skip_z, w;
        };
      };
    };
  };
  vec() = default;
  constexpr vec(T one) : all{one, one, one, one} {}
  constexpr vec(T a, T b, T c, T d) : all{a, b, c, d} {}
  template <typename U>
  explicit constexpr vec(vec<U, 4> o) : all{T(o[0]), T(o[1]), T(o[2]), T(o[3])} {}
  constexpr T& operator[](int i) { return all[i]; }
  constexpr const T& operator[](int i) const { return all[i]; }
};

// Without constructors in a union, for elements that have some.
template <>
struct vec<bfloat, 4> {
  bfloat x, y, z, w;
  vec() = default;
  constexpr vec(bfloat a) : x(a), y(a), z(a), w(a) {}
  constexpr vec(bfloat a, bfloat b, bfloat c, bfloat d) : x(a), y(b), z(c), w(d) {}
  bfloat& operator[](int i) { return (&x)[i]; }
  const bfloat& operator[](int i) const { return (&x)[i]; }
};

#define MSL_VECTOR_OPERATOR(op)                                       \
  template <typename T, int N>                                        \
  constexpr vec<T, N> operator op(vec<T, N> a, vec<T, N> b) {         \
    vec<T, N> r = a;                                                  \
    for (int i = 0; i < N; ++i) r[i] = T(a[i] op b[i]);               \
    return r;                                                         \
  }                                                                   \
  template <typename T, int N, typename S,                            \
            typename = std::enable_if_t<std::is_convertible_v<S, T>>> \
  constexpr vec<T, N> operator op(vec<T, N> a, S b) {                 \
    return a op vec<T, N>(T(b));                                      \
  }                                                                   \
  template <typename T, int N, typename S,                            \
            typename = std::enable_if_t<std::is_convertible_v<S, T>>> \
  constexpr vec<T, N> operator op(S a, vec<T, N> b) {                 \
    return vec<T, N>(T(a)) op b;                                      \
  }                                                                   \
  template <typename T, int N, typename S>                            \
  constexpr vec<T, N>& operator op## = (vec<T, N> & a, S b) {         \
    return a = a op b;                                                \
  }
MSL_VECTOR_OPERATOR(+)
MSL_VECTOR_OPERATOR(-)
MSL_VECTOR_OPERATOR(*)
MSL_VECTOR_OPERATOR(/)
#undef MSL_VECTOR_OPERATOR

template <typename T, int N>
constexpr vec<T, N> operator-(vec<T, N> a) {
  return T(0) - a;
}
template <typename T, int N>
constexpr bool operator==(vec<T, N> a, vec<T, N> b) {
  for (int i = 0; i < N; ++i) {
    if (!(a[i] == b[i])) return false;
  }
  return true;
}
template <typename T, int N>
constexpr bool operator!=(vec<T, N> a, vec<T, N> b) {
  return !(a == b);
}

}  // namespace metal

#define MSL_VECTORS(T)           \
  typedef metal::vec<T, 2> T##2; \
  typedef metal::vec<T, 3> T##3; \
  typedef metal::vec<T, 4> T##4;
MSL_VECTORS(bool)
MSL_VECTORS(char)
MSL_VECTORS(uchar)
MSL_VECTORS(short)
MSL_VECTORS(ushort)
MSL_VECTORS(int)
MSL_VECTORS(uint)
MSL_VECTORS(long)
MSL_VECTORS(ulong)
MSL_VECTORS(half)
MSL_VECTORS(bfloat)
MSL_VECTORS(float)
#undef MSL_VECTORS

namespace metal {

using std::declval;
using std::enable_if_t;
using std::is_same_v;

template <typename T>
struct element {
  using type = T;
};
template <typename T, int N>
struct element<vec<T, N>> {
  using type = T;
};
template <typename T>
inline constexpr bool is_half_v = is_same_v<T, half> || is_same_v<T, bfloat>;
template <typename T>
inline constexpr bool is_floating_point_v =
    is_half_v<typename element<T>::type> || std::is_floating_point_v<typename element<T>::type>;
template <typename T>
inline constexpr bool is_integral_v = std::is_integral_v<T>;
template <typename T>
inline constexpr bool is_scalar_v = is_half_v<T> || std::is_arithmetic_v<T>;
template <typename T>
inline constexpr bool is_signed_v = std::is_signed_v<T> || is_half_v<T>;
template <typename T>
inline constexpr bool is_unsigned_v = std::is_unsigned_v<T>;

template <typename T>
struct numeric_limits : std::numeric_limits<T> {};
template <>
struct numeric_limits<half> {
  static constexpr half infinity() { return half(__builtin_inff()); }
  static constexpr half quiet_NaN() { return half(__builtin_nanf("")); }
  static constexpr half max() { return half(65504.0f); }
  static constexpr half lowest() { return half(-65504.0f); }
  static constexpr half min() { return half(6.103515625e-05f); }
  static constexpr half epsilon() { return half(9.765625e-04f); }
};
template <>
struct numeric_limits<bfloat> {
  static constexpr bfloat infinity() { return bfloat(__builtin_inff()); }
  static constexpr bfloat quiet_NaN() { return bfloat(__builtin_nanf("")); }
  static constexpr bfloat max() { return bfloat(3.38953139e38f); }
  static constexpr bfloat lowest() { return bfloat(-3.38953139e38f); }
  static constexpr bfloat min() { return bfloat(1.17549435e-38f); }
  static constexpr bfloat epsilon() { return bfloat(7.8125e-03f); }
};

template <typename T, size_t N>
struct array {
  T elements[N];
  constexpr T& operator[](size_t i) { return elements[i]; }
  constexpr const T& operator[](size_t i) const { return elements[i]; }
  constexpr size_t size() const { return N; }
};

// --- mathematics ---

// The result type of a math function: the argument type if it is floating point, else float.
template <typename T>
using math_t = std::conditional_t<is_half_v<T>, T, float>;

#define MSL_FUNCTION(name, builtin)                               \
  template <typename T, enable_if_t<is_scalar_v<T>, bool> = true> \
  inline math_t<T> name(T x) {                                    \
    return math_t<T>(builtin(float(x)));                          \
  }
MSL_FUNCTION(acos, __builtin_acosf)
MSL_FUNCTION(acosh, __builtin_acoshf)
MSL_FUNCTION(asin, __builtin_asinf)
MSL_FUNCTION(asinh, __builtin_asinhf)
MSL_FUNCTION(atan, __builtin_atanf)
MSL_FUNCTION(atanh, __builtin_atanhf)
MSL_FUNCTION(ceil, __builtin_ceilf)
MSL_FUNCTION(cos, __builtin_cosf)
MSL_FUNCTION(cosh, __builtin_coshf)
MSL_FUNCTION(exp, __builtin_expf)
MSL_FUNCTION(exp2, __builtin_exp2f)
MSL_FUNCTION(fabs, __builtin_fabsf)
MSL_FUNCTION(floor, __builtin_floorf)
MSL_FUNCTION(log, __builtin_logf)
MSL_FUNCTION(log10, __builtin_log10f)
MSL_FUNCTION(log2, __builtin_log2f)
MSL_FUNCTION(rint, __builtin_rintf)
MSL_FUNCTION(round, __builtin_roundf)
MSL_FUNCTION(rsqrt, 1.0f / __builtin_sqrtf)
MSL_FUNCTION(sin, __builtin_sinf)
MSL_FUNCTION(sinh, __builtin_sinhf)
MSL_FUNCTION(sqrt, __builtin_sqrtf)
MSL_FUNCTION(tan, __builtin_tanf)
MSL_FUNCTION(tanh, __builtin_tanhf)
MSL_FUNCTION(trunc, __builtin_truncf)
#undef MSL_FUNCTION

inline float sinpi(float x) { return __builtin_sinf(M_PI_F * x); }
inline float cospi(float x) { return __builtin_cosf(M_PI_F * x); }
inline float fract(float x) { return x - __builtin_floorf(x); }
inline float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
inline float sincos(float x, float& cosine) {
  cosine = __builtin_cosf(x);
  return __builtin_sinf(x);
}

#define MSL_FUNCTION_OF_TWO(name, builtin)                                                      \
  template <typename T, typename U, enable_if_t<is_scalar_v<T> && is_scalar_v<U>, bool> = true> \
  inline std::conditional_t<is_same_v<T, U>, math_t<T>, float> name(T x, U y) {                 \
    using R = std::conditional_t<is_same_v<T, U>, math_t<T>, float>;                            \
    return R(builtin(float(x), float(y)));                                                      \
  }
MSL_FUNCTION_OF_TWO(atan2, __builtin_atan2f)
MSL_FUNCTION_OF_TWO(copysign, __builtin_copysignf)
MSL_FUNCTION_OF_TWO(fdim, __builtin_fdimf)
MSL_FUNCTION_OF_TWO(fmax, __builtin_fmaxf)
MSL_FUNCTION_OF_TWO(fmin, __builtin_fminf)
MSL_FUNCTION_OF_TWO(fmod, __builtin_fmodf)
MSL_FUNCTION_OF_TWO(nextafter, __builtin_nextafterf)
MSL_FUNCTION_OF_TWO(pow, __builtin_powf)
MSL_FUNCTION_OF_TWO(powr, __builtin_powf)
#undef MSL_FUNCTION_OF_TWO

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

template <typename T>
inline T abs(T x) {
  if constexpr (is_floating_point_v<T>) return T(__builtin_fabsf(float(x)));
  return x < T(0) ? T(-x) : x;
}
template <typename T>
inline T max(T a, T b) {
  if constexpr (is_floating_point_v<T>) return T(__builtin_fmaxf(float(a), float(b)));
  return a < b ? b : a;
}
template <typename T>
inline T min(T a, T b) {
  if constexpr (is_floating_point_v<T>) return T(__builtin_fminf(float(a), float(b)));
  return b < a ? b : a;
}
template <typename T>
inline T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}
template <typename T>
inline T sign(T x) {
  if constexpr (is_floating_point_v<T>) {
    return x != x ? T(0) : T(float(x > T(0)) - float(x < T(0)));
  }
  return T((x > T(0)) - (x < T(0)));
}
template <typename T>
inline T select(T otherwise, T chosen, bool condition) {
  return condition ? chosen : otherwise;
}
#define MSL_TEST(name)                      \
  template <typename T>                     \
  inline bool name(T x) {                   \
    return __builtin_##name(float(x)) != 0; \
  }
MSL_TEST(isnan)
MSL_TEST(isinf)
MSL_TEST(isfinite)
MSL_TEST(signbit)
#undef MSL_TEST
template <typename T>
inline bool isunordered(T a, T b) {
  return isnan(a) || isnan(b);
}
template <typename T, int N>
inline T dot(vec<T, N> a, vec<T, N> b) {
  T sum = 0;
  for (int i = 0; i < N; ++i) sum += a[i] * b[i];
  return sum;
}
template <typename T>
inline T ctz(T x) {
  return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzl(ulong(x)));
}
template <typename T>
inline T clz(T x) {
  return x == 0 ? T(8 * sizeof(T)) : T(__builtin_clzl(ulong(x)) - 64 + 8 * sizeof(T));
}
template <typename T>
inline T popcount(T x) {
  return T(__builtin_popcountl(ulong(x)));
}

// Of the two namespaces alone, in Metal.
template <typename T>
inline T divide(T x, T y) {
  return x / y;
}

namespace precise {
using namespace metal;
}
namespace fast {
using namespace metal;
}

// --- atomics: threads run one at a time, so these are plain ---

enum memory_order { memory_order_relaxed };

template <typename T>
struct atomic {
  T value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;

template <typename T>
inline T atomic_load_explicit(const atomic<T>* a, memory_order) {
  return a->value;
}
template <typename T, typename U>
inline void atomic_store_explicit(atomic<T>* a, U value, memory_order) {
  a->value = T(value);
}
template <typename T, typename U>
inline T atomic_exchange_explicit(atomic<T>* a, U value, memory_order) {
  const T before = a->value;
  a->value = T(value);
  return before;
}
template <typename T, typename U>
inline bool atomic_compare_exchange_weak_explicit(atomic<T>* a, T* expected, U wanted, memory_order,
                                                  memory_order) {
  if (__builtin_memcmp(&a->value, expected, sizeof(T)) == 0) return a->value = T(wanted), true;
  return *expected = a->value, false;
}
#define MSL_ATOMIC(name, expression)                                         \
  template <typename T, typename U>                                          \
  inline T atomic_fetch_##name##_explicit(atomic<T>* a, U u, memory_order) { \
    const T before = a->value, given = T(u);                                 \
    a->value = (expression);                                                 \
    return before;                                                           \
  }
MSL_ATOMIC(add, T(before + given))
MSL_ATOMIC(sub, T(before - given))
MSL_ATOMIC(max, before < given ? given : before)
MSL_ATOMIC(min, given < before ? given : before)
MSL_ATOMIC(or, T(before | given))
MSL_ATOMIC(and, T(before& given))
#undef MSL_ATOMIC

}  // namespace metal

// --- groups ---

// Services of the recording device; see lockstep.h.
struct MslHost {
  // Returns when all threads of the group have called it.
  void (*barrier)();
  // Shares a value of up to 16 bytes with the SIMD group and returns those of all 32 threads, 16
  // bytes apart, once all active threads have called it. `active` has a bit per active thread.
  const void* (*exchange)(const void* value, size_t nbytes, uint* active);
  // The thread's index in its SIMD group.
  uint (*lane)();
};
extern "C" const MslHost* msl_host;

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
inline void threadgroup_barrier(mem_flags) { msl_host->barrier(); }
inline void simdgroup_barrier(mem_flags) {
  uint active;
  const uint nothing = 0;
  msl_host->exchange(&nothing, sizeof nothing, &active);
}

// The values of a SIMD group.
template <typename T>
struct Lanes {
  static_assert(sizeof(T) <= 16, "values of up to 16 bytes");
  const char* values;
  uint active;
  explicit Lanes(T mine)
      : values(static_cast<const char*>(msl_host->exchange(&mine, sizeof mine, &active))) {}
  bool has(uint lane) const { return lane < 32 && (active >> lane & 1); }
  T operator[](uint lane) const {
    T value = T(0);
    if (has(lane)) __builtin_memcpy(static_cast<void*>(&value), values + 16 * lane, sizeof value);
    return value;
  }
  template <typename Combine>
  T reduce(Combine combine) const {
    T result = T(0);
    bool first = true;
    for (uint lane = 0; lane < 32; ++lane) {
      if (!has(lane)) continue;
      result = first ? (*this)[lane] : T(combine(result, (*this)[lane]));
      first = false;
    }
    return result;
  }
};

#define MSL_REDUCTION(name, expression)                                   \
  template <typename T>                                                   \
  inline T simd_##name(T value) {                                         \
    return Lanes<T>(value).reduce([](T a, T b) { return (expression); }); \
  }
MSL_REDUCTION(sum, a + b)
MSL_REDUCTION(product, a* b)
MSL_REDUCTION(max, metal::max(a, b))
MSL_REDUCTION(min, metal::min(a, b))
#undef MSL_REDUCTION

// The value of another thread, whose lane the expression says.
#define MSL_LANE(name, lane)                 \
  template <typename T>                      \
  inline T simd_##name(T value, ushort to) { \
    return Lanes<T>(value)[lane];            \
  }
MSL_LANE(broadcast, to)
MSL_LANE(shuffle, to)
MSL_LANE(shuffle_xor, msl_host->lane() ^ to)
MSL_LANE(shuffle_down, msl_host->lane() + to)
MSL_LANE(shuffle_up, msl_host->lane() - to)
#undef MSL_LANE

template <typename T>
inline T simd_shuffle_and_fill_down(T value, T fill, ushort delta) {
  const uint lane = msl_host->lane() + delta;
  const Lanes<T> lanes(value);
  return lane < 32 ? lanes[lane] : fill;
}
template <typename T>
inline T simd_prefix_inclusive_sum(T value) {
  const Lanes<T> lanes(value);
  T sum = T(0);
  for (uint lane = 0; lane <= msl_host->lane(); ++lane) sum = T(sum + lanes[lane]);
  return sum;
}
template <typename T>
inline T simd_prefix_exclusive_sum(T value) {
  return T(simd_prefix_inclusive_sum(value) - value);
}

struct simd_vote {
  ulong bits;
  explicit operator ulong() const { return bits; }
};
inline simd_vote simd_ballot(bool value) {
  const Lanes<uint> lanes(value);
  ulong bits = 0;
  for (uint lane = 0; lane < 32; ++lane) bits |= ulong(lanes[lane] != 0) << lane;
  return {bits};
}
inline bool simd_any(bool value) { return simd_ballot(value).bits != 0; }
inline bool simd_all(bool value) { return simd_ballot(!value).bits == 0; }

}  // namespace metal

// Unqualified names of it are used in kernels, too.
using namespace metal;

// --- how a kernel is started ---

// Values of parameter attributes for one thread; each a vector of three.
struct MslPlace {
  uint thread_position_in_grid[3];
  uint thread_position_in_threadgroup[3];
  uint threadgroup_position_in_grid[3];
  uint threads_per_threadgroup[3];
  uint threads_per_grid[3];
  uint threadgroups_per_grid[3];
  uint thread_index_in_threadgroup[1];
  uint thread_index_in_simdgroup[1];
  uint simdgroup_index_in_threadgroup[1];
  uint threads_per_simdgroup[1];
};

template <typename T>
struct MslPlaceAs {
  static T of(const uint* numbers) { return T(numbers[0]); }
};
template <typename T>
struct MslPlaceAs<metal::vec<T, 2>> {
  static metal::vec<T, 2> of(const uint* n) { return {T(n[0]), T(n[1])}; }
};
template <typename T>
struct MslPlaceAs<metal::vec<T, 3>> {
  static metal::vec<T, 3> of(const uint* n) { return {T(n[0]), T(n[1]), T(n[2])}; }
};

template <typename T>
struct MslArgument;
template <typename T>
struct MslArgument<T*> {
  static T* of(const void* memory) { return static_cast<T*>(const_cast<void*>(memory)); }
};
template <typename T>
struct MslArgument<T&> {
  static T& of(const void* memory) { return *static_cast<T*>(const_cast<void*>(memory)); }
};
