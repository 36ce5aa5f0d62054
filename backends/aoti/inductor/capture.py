"""Captures Inductor's sources and constants instead of compiling them."""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from pteron.backends.aoti.inductor.cuda import device_kernels
from pteron.backends.aoti.inductor.generated_code import Constant, GeneratedCode
from pteron.backends.aoti.inductor.kernel_events import Origin, note_origins, traced
from pteron.backends.aoti.inductor.kernel_text import finish_kernels
from pteron.backends.aoti.inductor.patches import Context, patched, together
from pteron.backends.aoti.inductor.release import UnsupportedTorch


def capture_sources(captured: list[GeneratedCode]) -> Context:
    """Appends the sources that Inductor would compile to `captured`."""
    from torch._inductor.codecache import AotCodeCompiler

    def compile(graph: Any, wrapper: str, kernels: str, proxied: str | None, **_: Any) -> list[str]:
        captured.append(_generated_code(graph, wrapper, kernels, proxied, origins))
        origins.clear()
        return ["captured"]

    origins: list[Origin] = []
    capture = patched(AotCodeCompiler, "compile", staticmethod(compile))
    return together(note_origins(origins), capture)


def _generated_code(
    graph: Any, wrapper: str, kernels: str, proxied: str | None, origins: Sequence[Origin]
) -> GeneratedCode:
    model = _UNCHECKED_CALL.sub(r"\1AOTI_TORCH_ERROR_CODE_CHECK(\2);", model_part(wrapper))
    model, events = traced(model, origins)
    read = identifiers_read(model)
    constants: list[Constant] = []
    unread: list[Constant] = []
    for index, name in enumerate(graph.constants):
        if name in graph.folded_constants:
            continue
        fqn = graph.allocated_constant_name.get(name, name)
        tensor = graph.get_original_value_of_constant(name).detach()
        (constants if name in read else unread).append(Constant(index, name, fqn, tensor))
    calls = json.loads(proxied or '{"nodes": []}')["nodes"]
    return GeneratedCode(
        model=constants_in_calls(constants_on_their_devices(model, graph.constants)),
        kernels=finish_kernels(kernels),
        constants=tuple(constants),
        unread_constants=tuple(unread),
        proxied=tuple(sorted({call["node"]["target"] for call in calls})),
        num_outputs=len(graph.graph_outputs),
        events=events,
        embedded=device_kernels(wrapper),
    )


def constants_on_their_devices(model: str, constants: Mapping[str, Any]) -> str:
    """`model` with the device types of `constants`, which may be fake; Inductor wrote those of the
    real tensors, on the host."""
    devices = [tensor.device.type for tensor in constants.values()]

    def device_type(match: re.Match[str]) -> str:
        return f"{match[1]}aoti_torch_device_type_{devices[int(match[2])]}();"

    return re.sub(r"(constants_info_\[(\d+)\]\.device_type = )\w+;", device_type, model)


_FIELDS = (
    *("name", "dtype", "device_type", "offset", "data_size", "from_folded", "type"),
    *("shape", "stride", "layout", "original_fqn"),
)
_CONSTANT = re.compile(
    r"^    (constants_info_\[\d+\])\.name = (.*);\n"
    + "".join(rf"    \1\.{field} = (.*);\n" for field in _FIELDS[1:]),
    re.MULTILINE,
)


def constants_in_calls(model: str) -> str:
    """`model` with a call of `pteron_constant` (`source_headers`) for each constant, since
    assignments take longer to compile."""
    return _CONSTANT.sub(lambda m: f"    pteron_constant({', '.join(m.groups())});\n", model)


@functools.cache
def interface() -> str:
    """The C entry points of a model container, the same for every model of one torch release."""
    path = Path(torch.__file__).parent / "_inductor/codegen/aoti_runtime/interface.cpp"
    try:
        return path.read_text().rstrip()
    except OSError as error:
        raise UnsupportedTorch(f"torch has no entry points of a container: {error}") from error


def model_part(wrapper: str) -> str:
    """Inductor's wrapper without the C entry points in it: ours are fewer."""
    head, found, rest = wrapper.partition(interface())
    if not found:
        raise UnsupportedTorch(
            "Inductor's wrapper no longer has the entry points of a model container in it"
        )
    includes = (line for line in head.splitlines(keepends=True) if line.startswith("#include"))
    return "".join(includes) + rest.lstrip("\n")


#: Inductor ignores the error codes of some calls (scatters).
_UNCHECKED_CALL = re.compile(r"^(\s*)(aoti_torch_(?:cpu|cuda|mps)_\w+\(.*\));$", re.MULTILINE)

_DECLARATION = re.compile(
    r"^\s*(constants_info_\[\d+\]\..*|\[\[maybe_unused\]\] auto& \w+ = constants_->at\(\d+\);)$",
    re.MULTILINE,
)


def identifiers_read(model: str) -> set[str]:
    """Identifiers in the model's code, except in declarations of constants."""
    return set(re.findall(r"[A-Za-z_]\w*", _DECLARATION.sub("", model)))


_OPERATOR_CALL = re.compile(r"\b(aoti_torch_(?:cpu|cuda|mps)_\w+)\(")


def operator_functions(model: str) -> tuple[str, ...]:
    """The C shims of operators that the model's code calls, sorted."""
    return tuple(sorted(set(_OPERATOR_CALL.findall(model))))
