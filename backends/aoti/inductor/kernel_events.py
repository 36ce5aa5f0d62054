"""Calls of kernels and shims in a model's code that a profile records, and where each comes from.

`note_origins` lets Inductor write a number before each call, and `traced` puts an event around the
call (a PteronKernel, whose runtime side is runtime/kernel_trace.h). While nothing is traced an
event tests one pointer.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from torch.fx import Node

from pteron.backends.aoti.inductor.generated_code import Kernel
from pteron.backends.aoti.inductor.kernel_text import after_includes
from pteron.backends.aoti.inductor.patches import Context, patched, together
from pteron.exir.graph.exported_program import module_path, source_line

_EVENTS = """#include <atomic>
#include <type_traits>
struct PteronTracing {
  uint64_t (*begin)(uint32_t kernel);
  void (*end)(uint64_t event, uint32_t kernel, AtenTensorHandle const* tensors, size_t count);
};
static std::atomic<const PteronTracing*> pteron_tracing{nullptr};
extern "C" __attribute__((visibility("default"))) void pteron_set_tracing(
    const PteronTracing* tracing) {
  pteron_tracing.store(tracing, std::memory_order_release);
}
template <size_t kTensors>
class PteronKernel {
 public:
  explicit PteronKernel(uint32_t kernel)
      : tracing_(pteron_tracing.load(std::memory_order_acquire)) {
    if (__builtin_expect(tracing_ != nullptr, 0)) event_ = tracing_->begin(kernel_ = kernel);
  }
  ~PteronKernel() {
    if (__builtin_expect(tracing_ != nullptr, 0)) tracing_->end(event_, kernel_, tensors_, count_);
  }
  template <typename... Tensors>
  void tensors(const Tensors&... tensors) {
    if (__builtin_expect(tracing_ == nullptr, 1)) return;
    count_ = 0;
    (add(tensors), ...);
  }

 private:
  template <typename Tensor>
  void add(const Tensor& tensor) {  // handles of other objects are left out
    if constexpr (std::is_convertible<const Tensor&, AtenTensorHandle>::value) {
      tensors_[count_++] = tensor;
    }
  }

  const PteronTracing* const tracing_;
  uint32_t kernel_;
  uint64_t event_;
  size_t count_ = 0;
  AtenTensorHandle tensors_[kTensors + 1];
};
"""


@dataclasses.dataclass(frozen=True)
class Origin:
    """The operator that a shim implements, None for a compiled kernel, and the nodes of a call."""

    operator: Any
    nodes: Sequence[Node]


def note_origins(origins: list[Origin]) -> Context:
    """Before a call in generated code stands a comment with an index into `origins`."""
    from torch._inductor import debug
    from torch._inductor.codegen import cpp, triton

    def note(node_schedule: Any, kernel_name: str, is_extern: bool = False) -> int:
        if is_extern:
            calls = [node_schedule]
        else:  # several scheduled nodes are one in a kernel of independent ones
            calls = [part.node for n in node_schedule for part in getattr(n, "get_nodes", list)()]
        nodes = {node for call in calls if call is not None for node in call.origins}
        operator = node_schedule.op_overload if is_extern else None
        own = {node for node in nodes if node.target == operator} or nodes
        origins.append(Origin(operator, sorted(own, key=lambda node: node._sort_key)))
        return len(origins) - 1

    return together(
        patched(debug, "set_kernel_post_grad_provenance_tracing", note),
        patched(cpp, "set_kernel_post_grad_provenance_tracing", note),
        patched(triton, "set_kernel_post_grad_provenance_tracing", note),
    )


_CALL = re.compile(
    r"^ *// \[Provenance debug handles\] \S+:(?P<origin>\d+)\n"
    r"|^(?P<indent> *)(?P<call>"
    r"(?:AOTI_TORCH_ERROR_CODE_CHECK\((?P<shim>aoti_torch_(?:cpu|cuda|mps)_\w+)"
    r"|(?P<kernel>(?:cpp|call)_\w+))\((?P<arguments>.*)\);)$",
    re.MULTILINE,
)
_HANDLE = re.compile(
    r"\b(?:RAIIAtenTensorHandle|ConstantHandle) (\w+)[(;]"
    r"|\bauto&? (\w+) = (?:std::move\(|constants_->at\(|wrap_with_raii_handle_if_needed\()"
)


def traced(model: str, origins: Sequence[Origin]) -> tuple[str, tuple[Kernel, ...]]:
    """The model's code with an event around each call, and the kernels by their numbers."""
    handles = {first or second for first, second in _HANDLE.findall(model)}
    kernels: list[Kernel] = []
    pending = nothing = Origin(None, ())

    def replace(match: re.Match[str]) -> str:
        nonlocal pending
        if match["origin"]:
            pending = origins[int(match["origin"])]
            return ""
        kernels.append(_kernel(match["shim"] or match["kernel"], pending))
        pending = nothing
        words = dict.fromkeys(re.findall(r"(?<![\w.>])[A-Za-z_]\w*", match["arguments"]))
        outputs = re.findall(r"&(\w+_handle)\b", match["arguments"])
        tensors = [word for word in words if word in handles or word in outputs]
        event = f"PteronKernel<{len(tensors)}> pteron_kernel({len(kernels) - 1});"
        tensors_call = f" pteron_kernel.tensors({', '.join(tensors)});" if tensors else ""
        return f"{match['indent']}{{ {event} {match['call']}{tensors_call} }}"

    return after_includes(_CALL.sub(replace, model), _EVENTS), tuple(kernels)


def _kernel(name: str, origin: Origin) -> Kernel:
    nodes = [node for node in origin.nodes if node.op == "call_function"]
    # What the model called, before Inductor's decompositions.
    ops = [node.meta.get("original_aten") or node.target for node in nodes]
    return Kernel(
        name,
        _joined(map(str, ops if origin.operator is None else [origin.operator])),
        _joined(map(module_path, nodes)),
        _joined(map(source_line, nodes)),
    )


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, texts)))
