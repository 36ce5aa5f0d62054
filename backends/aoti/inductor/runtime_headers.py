"""Replacements of standard headers that torch's headers of models hardly use.

A model's code takes 3.7 CPU seconds to compile, 2.2 of which are for these headers and what they
instantiate.
"""

from pathlib import Path

import torch

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
