"""What one can choose when a model is lowered for an NVIDIA GPU.

CudaOptions(gemm="best", save_data_externally=False).to_compile_specs()
"""

import dataclasses
import re
from typing import ClassVar, Literal

from pteron.backends.aoti.aoti_options import AotiOptions
from pteron.backends.cuda.autotune_record import AutotuneRecord

GEMM = ("cublas", "triton", "best")
ATTENTION = ("auto", "library", "flex", "products")
AUTOTUNE = ("off", "kernels", "exhaustive")
WEIGHTS = ("shared", "one_blob")
_DEVICE = re.compile(r"cuda(:\d+)?")
_ARCHITECTURE = re.compile(r"sm_(\d{2,3})")
#: sm_75, the first that CUDA 13 compiles for. For what is older Triton ends the process.
_LEAST_ARCHITECTURE = 75


@dataclasses.dataclass(frozen=True)
class CudaOptions(AotiOptions):
    """Options of `CudaBackend`.

    Attributes:
        target_device: device of the program unless overridden at load: "cuda" or
            "cuda:1".
        architectures: what the kernels are compiled for, as "sm_90". Where there is nothing to
            measure (gemm="cublas", autotune="off"), no GPU is needed: the first one that is named
            decides how kernels are configured, and a GPU of a named architecture at hand is not
            asked, so that all machines make the same program. Otherwise the GPU of the machine
            that lowers tunes them and is always among them. Lowering fails where a kernel cannot
            be compiled for one of them. Recorded in the file and checked before code is loaded.
        gemm: who multiplies matrices. "cublas": the runtime's library calls. "triton": kernels in
            the program, tuned during lowering. "best": both are measured for each product, and
            the faster one is taken.
        attention: what computes scaled_dot_product_attention. "library": the runtime, by cuDNN for
            many queries in float16 and bfloat16, and by a kernel of its own for few, for float32,
            and where there is no cuDNN. "flex": flex_attention, compiled into the program.
            "products": matmuls and a softmax. "auto": "library", but "flex" for many
            queries in float32. What the chosen one cannot do is products.
        autotune: "off": one configuration for each pointwise kernel. "kernels": a few are measured.
            "exhaustive": also a wider search for matmuls and a descent along each
            coordinate; slow.
        autotune_record: `AutotuneRecord.to_json()` of an earlier lowering, whose choices are made
            again instead of measured; empty: everything is measured.
        weights: "shared": each tensor is stored once, in the file and on a GPU, however many
            partitions and methods read it. "one_blob": all that a partition reads is one blob, as
            ExecuTorch's own CUDA backend and other readers of such delegates expect it.
        save_data_externally: weights go to a .ptd file of the tag `aoti_cuda_blob`.
        allow_tf32: products of float32 matrices may round their operands to TF32.
        emulate_precision_casts: fused kernels round intermediate results as the operators one by
            one would; slower, nearer to eager in bfloat16 and float16.
        operators: names of operators with a C function of the caller's, as "mylib::scale"
            (docs/operators.md).
    """

    TEXTS: ClassVar[tuple[str, ...]] = ("target_device",)

    target_device: str = "cuda"
    architectures: tuple[str, ...] = ()
    gemm: str = "cublas"
    attention: Literal["auto", "library", "flex", "products"] = "auto"
    autotune: str = "off"
    autotune_record: str = ""
    weights: str = "shared"
    save_data_externally: bool = True
    allow_tf32: bool = False
    emulate_precision_casts: bool = False
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(self.operators))  # JSON has lists
        object.__setattr__(self, "architectures", tuple(self.architectures))
        problems = [
            f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}"
            for name, known in (
                ("gemm", GEMM),
                ("attention", ATTENTION),
                ("autotune", AUTOTUNE),
                ("weights", WEIGHTS),
            )
            if getattr(self, name) not in known
        ]
        if not isinstance(self.target_device, str) or not _DEVICE.fullmatch(self.target_device):
            problems.append(f"target_device is {self.target_device!r}; expected cuda or cuda:<n>")
        if self.autotune_record:
            try:
                AutotuneRecord.from_json(self.autotune_record)
            except ValueError as error:
                problems.append(f"autotune_record: {error}")
            if not self.tunes:
                problems.append(
                    'autotune_record is given, but with gemm="cublas" and autotune="off" there is '
                    "nothing to choose"
                )
        wrong = [name for name in self.architectures if not _is_architecture(name)]
        if wrong:
            problems.append(
                f"architectures has {wrong}; expected names such as sm_90, from sm_75 on"
            )
        for name in ("save_data_externally", "allow_tf32", "emulate_precision_casts"):
            if not isinstance(getattr(self, name), bool):
                problems.append(f"{name} is {getattr(self, name)!r}; expected True or False")
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def tunes(self) -> bool:
        """Whether lowering measures anything."""
        return self.gemm != "cublas" or self.autotune != "off"


def _is_architecture(name: object) -> bool:
    match = _ARCHITECTURE.fullmatch(str(name))
    return match is not None and int(match[1]) >= _LEAST_ARCHITECTURE
