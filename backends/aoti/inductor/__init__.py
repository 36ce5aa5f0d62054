"""Everything this project knows of TorchInductor's inside; no other module touches it.

`generate` turns a graph into C++ sources and constants without writing a file and without running
a compiler. All the state it needs is set for the duration of the call and put back, whatever
happens, so that a program's own `torch.compile` before and after is not affected and does not
affect us::

    code = inductor.generate(exported_program, target, options)
    code.model      # C++: the model class and its kernels call
    code.constants  # (Constant(name, fqn, tensor), ...): what the code reads

What is relied on was read and tested in the releases of torch that `release.py` names. Another
counts as the newest of them if all places that are changed or used are recognised, and is refused
with a list of those that are not. `patches.py` has workarounds for Inductor's bugs.

One call at a time: a lock serialises callers, because Inductor's state belongs to the process.
"""

from pteron.backends.aoti.inductor.absent_gpu import TritonMissing, fake_tensors_of_any_device
from pteron.backends.aoti.inductor.absent_weights import move_to_absent_gpu
from pteron.backends.aoti.inductor.architectures import UnsupportedArchitecture, capability
from pteron.backends.aoti.inductor.capture import operator_functions
from pteron.backends.aoti.inductor.fallbacks import (
    CalledFunctions,
    c_function,
    compiles_higher_order,
    functions_called_by,
    may_be_fallback,
    signature,
)
from pteron.backends.aoti.inductor.generate import LOCK, MutatedBuffers, generate, generate_variants
from pteron.backends.aoti.inductor.generated_code import Constant, GeneratedCode, Kernel, Target
from pteron.backends.aoti.inductor.gpu_properties import GPUS
from pteron.backends.aoti.inductor.release import (
    SUPPORTED_RELEASES,
    UnknownTorchWarning,
    UnsupportedTorch,
    release,
)
from pteron.backends.aoti.inductor.runtime_functions import callers_functions
from pteron.backends.aoti.inductor.runtime_headers import short_headers, standard_headers
from pteron.backends.aoti.inductor.tuning import compile_workers_started_by, tuning

__all__ = [
    "GPUS",
    "LOCK",
    "SUPPORTED_RELEASES",
    "CalledFunctions",
    "Constant",
    "GeneratedCode",
    "Kernel",
    "MutatedBuffers",
    "Target",
    "TritonMissing",
    "UnknownTorchWarning",
    "UnsupportedArchitecture",
    "UnsupportedTorch",
    "c_function",
    "callers_functions",
    "capability",
    "compile_workers_started_by",
    "compiles_higher_order",
    "fake_tensors_of_any_device",
    "functions_called_by",
    "generate",
    "generate_variants",
    "may_be_fallback",
    "move_to_absent_gpu",
    "operator_functions",
    "release",
    "short_headers",
    "signature",
    "standard_headers",
    "tuning",
]
