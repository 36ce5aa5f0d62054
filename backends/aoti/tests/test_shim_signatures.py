"""Signatures of shims against torch's own headers and functions, of the installed torch."""

import ctypes
import pathlib
import re

import pytest
import torch
from torchgen.gen_aoti_c_shim import gen_arguments, gen_returns
from torchgen.model import FunctionSchema

import pteron.backends.aoti.ops.tests.torchvision_operators  # noqa: F401
from pteron.backends.aoti.inductor.release import release
from pteron.backends.aoti.inductor.runtime_functions import runtime_functions
from pteron.backends.aoti.ops import shim_list

_HEADERS = pathlib.Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_torch"
_BACKENDS = pathlib.Path(shim_list.__file__).parents[2]
# What a type of torch's is called here.
_TYPES = {
    "c10::Half": "uint16_t",
    "c10::BFloat16": "uint16_t",
    "c10::complex<float>": "AbiComplexFloat",
    "c10::complex<double>": "AbiComplexDouble",
    "AtenGeneratorHandle": "void*",
    "AOTIMetalKernelFunctionHandle": "KernelFunction*",
    "AOTIMetalShaderLibraryHandle": "ShaderLibrary*",
    "aoti_torch_mps_command_block_callback_t": "CommandBlock",
}


def _types(parameters: str) -> list[str]:
    """The types of "int64_t ndim, const int64_t* sizes": names left out, one spelling."""
    found = []
    for parameter in filter(None, (part.strip() for part in parameters.split(","))):
        kind = re.sub(r"\w+$", "", parameter).strip() or parameter
        kind = re.sub(r"^const (\w+)$", r"\1", re.sub(r"\s+(?=\*)|\s+$", "", kind))
        for theirs, ours in _TYPES.items():
            kind = kind.replace(theirs, ours)
        found.append(kind)
    return found


def _torch_functions(device: str) -> dict[str, tuple[str, list[str]]]:
    """Returned type and parameters of all C functions that torch has for `device`."""
    headers = [*(_HEADERS / "c").glob("*.h"), _HEADERS / f"generated/c_shim_{device}.h"]
    functions = {}
    for header in headers:
        text = re.sub(r"//.*", "", header.read_text())
        for match in re.finditer(
            r"AOTI_TORCH_EXPORT\s+(\w+)\s+(aoti_\w+)\s*\(([^;]*?)\)\s*;", text, re.DOTALL
        ):
            functions[match[2]] = (match[1], _types(match[3]))
    assert len(functions) > 200
    return functions


def _own_functions(device: str) -> dict[str, tuple[str, list[str]]]:
    """The same for functions that torch has not and the runtime has: what torch's would be."""
    functions = {}
    for op, name in runtime_functions(device).items():
        schema = FunctionSchema.parse(str(op._schema).removeprefix(f"{op.namespace}::"))
        parameters = gen_arguments(schema.arguments.flat_all, set())[0] + gen_returns(schema)[0]
        functions[name] = ("AOTITorchError", _types(", ".join(parameters)))
    return functions


#: Operators that releases before had; programs of these still call their functions.
_GONE = {"2.14": {"cholesky"}}


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
def test_operators_have_the_signatures_of_torch(device: str) -> None:
    # What torch has for some devices only is called on others as on these.
    functions = {
        name.replace("_torch_cpu_", f"_torch_{device}_"): function
        for name, function in _torch_functions("cpu").items()
    }
    functions |= _torch_functions(device) | _own_functions(device)
    differing = {}
    for name, declaration in shim_list.load(device).declarations.items():
        found = re.fullmatch(r"(\w+) \w+\((.*)\)", declaration)
        assert found is not None
        if (found[1], _types(found[2])) != functions.get(name):
            differing[name] = (declaration, functions.get(name, "there is no such operator"))
    gone = {f"aoti_torch_{device}_{name}" for name in _GONE.get(release(), ())}
    assert differing.keys() == gone, differing


@pytest.mark.parametrize(
    ("device", "folder"), [("cpu", "cpu"), ("cuda", "cuda"), ("mps", "apple/metal")]
)
def test_common_shims_have_the_signatures_of_torch(device: str, folder: str) -> None:
    torch_functions = _torch_functions(device)
    text = "".join(
        (_BACKENDS / path).read_text()
        for path in ("aoti/shims/shims.inc", f"{folder}/runtime/shims/shims.inc")
    )
    entry = r"AOTI_COMMON_SHIM\((\w+), \d+,\s*(\w+),\s*\((.*?)\)\)$"
    listed = re.findall(entry, text, re.DOTALL | re.MULTILINE)
    assert len(listed) > 60
    found = {f"aoti_torch_{name}": (kind, _types(types)) for name, kind, types in listed}
    assert {n: f for n, f in found.items() if f != torch_functions.get(n)} == {}


def test_constants_have_the_numbers_of_torch() -> None:
    library = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"))
    text = (_BACKENDS / "aoti/shims/shims.inc").read_text()
    listed = re.findall(r"AOTI_CONSTANT_SHIM\((\w+), \d+, (\d+)\)", text)
    # An older torch lacks the newest dtypes.
    numbers = {name: int(n) for name, n in listed if hasattr(library, f"aoti_torch_{name}")}
    assert len(numbers) > 35
    assert numbers == {name: getattr(library, f"aoti_torch_{name}")() for name in numbers}
