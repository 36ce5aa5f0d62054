"""Replacements of headers that torch's headers hardly use.

A model's code takes 3.7 CPU seconds to compile, 2.2 of which are for these headers and what they
instantiate. An empty file of kernels takes 1.8, of which half are left.
"""

from pathlib import Path

import torch

from pteron.backends.aoti.inductor.release import SUPPORTED_RELEASES

_DEVICE = 'std::regex re("(cpu|cuda|xpu|mps)(:([0-9]+))?");'
#: Headers that use <filesystem>: none of them is a part of code for the CPU.
_OF_FILES = {"cpu_triton_runtime_wrappers.h", "kernel_context_tls.h", "sycl_runtime_wrappers.h"}
_REGEX = f"""#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#ifdef __GLIBCXX__
#define _GLIBCXX_REGEX 1
namespace std {{
struct smatch {{
  struct Part {{
    string text;
    bool matched = false;
    const string& str() const {{ return text; }}
  }};
  Part parts[4];
  const Part& operator[](int i) const {{ return parts[i]; }}
}};
struct regex {{
  explicit regex(const char*) {{}}
}};
// Of {_DEVICE[15:-2]}; the names of devices are compared by the caller.
inline bool regex_match(const string& text, smatch& found, const regex&) {{
  const size_t end = text.find(':');
  found.parts[1] = {{text.substr(0, end), true}};
  if (end == string::npos) return true;
  found.parts[3] = {{text.substr(end + 1), true}};
  return end + 1 < text.size() &&
         text.find_first_not_of("0123456789", end + 1) == string::npos;
}}
}}
#endif
"""
_FILESYSTEM = "#define _GLIBCXX_FILESYSTEM 1\n"
#: How torch's check fails outside of torch, in the header that `_STREAMS` replaces.
_CHECK = "throw std::runtime_error(TORCH_CHECK_MSG("
#: The parts of <immintrin.h> that torch's headers use for x86-64-v3 and x86-64-v4.
#: All of it declares 5,000 functions, mostly for masked registers.
_INTRINSICS = """#if defined(__AVX2__) && !defined(__AVXVNNI__) && !defined(__AVX512VNNI__)
#define _X86INTRIN_H_INCLUDED
#define _X86GPRINTRIN_H_INCLUDED
#define _IMMINTRIN_H_INCLUDED
#include <ia32intrin.h>
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
#ifdef __AVX512F__
typedef unsigned int __mmask32;
#include <avx512fintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vlbwintrin.h>
#endif
#endif
"""
#: A call that is left when all is inlined does not compile.
_ABSENT = """#define PTERON_ABSENT __attribute__((error("is not a part of the short headers")))
"""
#: Inline functions that divide a matmul keep results in maps, for each thread. They are
#: instantiated in each file, and called where sizes are dynamic.
_MAPS_USER = "mm_get_"
_MAPS = """#define _BACKWARD_AUTO_PTR_H 1
#define _GLIBCXX_MAP 1
#define _GLIBCXX_UNORDERED_MAP 1
#define _SHARED_PTR_H 1
#define _SHARED_PTR_ATOMIC_H 1
#include <memory>
namespace std {
template <typename T>
struct shared_ptr {
  shared_ptr() = default;
  PTERON_ABSENT explicit shared_ptr(const void*);
  PTERON_ABSENT remove_extent_t<T>& operator[](int) const;
};
template <typename Key, typename Value, typename = void>
struct unordered_map {
  using Place = pair<Key, Value>*;
  PTERON_ABSENT Place end();
  PTERON_ABSENT Place find(const Key&);
  PTERON_ABSENT Value& operator[](const Key&);
  PTERON_ABSENT pair<Place, bool> try_emplace(const Key&);
};
template <typename Key, typename Value>
using map = unordered_map<Key, Value>;
}
"""
#: Torch's types can be written to streams, and its errors have texts from streams.
_STREAMS = """#define _GLIBCXX_BITS_SPECFUN_H 1
#define _GLIBCXX_FUNCTIONAL 1
#define _GLIBCXX_IOMANIP 1
#define _GLIBCXX_IOS 1
#define _GLIBCXX_IOSTREAM 1
#define _GLIBCXX_ISTREAM 1
#define _GLIBCXX_OSTREAM 1
#define _GLIBCXX_SSTREAM 1
#define _STREAMBUF_ITERATOR_H 1
#define _STREAM_ITERATOR_H 1
#define C10_UTIL_EXCEPTION_H_
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <c10/macros/Macros.h>
namespace std {
struct ios_base {
  enum { failbit };
};
template <>
struct basic_ostream<char> {
  template <typename T>
  PTERON_ABSENT basic_ostream& operator<<(const T&);
};
template <>
struct basic_ostringstream<char> : basic_ostream<char> {
  PTERON_ABSENT string str();
};
extern int hex;
PTERON_ABSENT int setfill(char);
PTERON_ABSENT int setw(int);
template <typename>
class function;
}
#define TORCH_CHECK(condition, ...)                                                    \\
  if (C10_UNLIKELY(!(condition))) {                                                    \\
    throw std::runtime_error("expected that " #condition "; torch says " #__VA_ARGS__); \\
  }
#define TORCH_CHECK_MSG(condition, type, message) message
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) static_cast<void>(0)
"""


def short_headers(kernels: str) -> str:
    """To include before torch's headers of `kernels` with GCC: by it these include less. May be
    too little, and then compiling fails. "" for a release of torch that differs."""
    header = Path(torch.__file__).parent / "include/c10/util/Exception.h"
    is_known = torch.__version__.startswith(SUPPORTED_RELEASES)
    if not is_known or not header.is_file() or _CHECK not in header.read_text():
        return ""
    return "".join(
        (
            _ABSENT,
            "" if "target(" in kernels else _INTRINSICS,
            "" if _MAPS_USER in kernels else _MAPS,
            _STREAMS,
        )
    )


def standard_headers(device: str) -> str:
    """To include before torch's headers of a model: less than torch includes, where this release
    needs no more."""
    folder = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_runtime"
    texts = {path.name: path.read_text() for path in folder.glob("*.h")}
    base = texts.get("model_base.h", "")
    others = "".join(texts.values())
    if _DEVICE not in base or not base.count("regex") == others.count("regex") == 3:
        return ""
    using = {name for name, text in texts.items() if "std::filesystem" in text}
    return _REGEX + (_FILESYSTEM if device == "cpu" and using <= _OF_FILES else "")
