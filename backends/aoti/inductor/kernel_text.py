"""Small changes to the text of generated code, most of them to kernels.

* They lose the note-keeping for division by zero, which goes through a pointer that all kernels of
  the shared object, on all threads, would write (`integer_divisions` checks instead).
* Micro-GEMMs become sources of their own (`micro_gemms`).
* Bytes of which wider numbers are made are read into a register at once (`pteron_load` of the
  kernels' header).
"""

import re

from pteron.backends.aoti.inductor import micro_gemms

#: Each kernel's text starts with it.
KERNEL_START = "#include <torch/csrc/inductor/cpp_prefix.h>\n"

_DIVISION_NOTES = re.compile(r"^.*inductor_cpu_(?:throw_if_)?integer_div_error.*\n", re.MULTILINE)
#: Of fewer bytes than a register has, which at::vec reads through memory.
_LOADS_OF_BYTES = re.compile(
    r"at::vec::Vectorized<(u?int8_t)>::loadu\((.+), static_cast<int64_t>\((8|16|32)\)\);$",
    re.MULTILINE,
)


def after_includes(code: str, inserted: str) -> str:
    """`code` with `inserted` between the includes at its start and the rest."""
    return re.sub(r"\A(?:#include.*\n)*", lambda includes: includes[0] + inserted, code)


def finish_kernels(text: str) -> str:
    """The text as it is compiled."""
    kernels, shared = micro_gemms.separate(re.split(f"(?={re.escape(KERNEL_START)})", text))
    text = _DIVISION_NOTES.sub("", "".join(kernels))
    text = _LOADS_OF_BYTES.sub(r"pteron_load<\1, \3>(\2);", text)
    return "".join(KERNEL_START + shared[name] for name in sorted(shared)) + text
