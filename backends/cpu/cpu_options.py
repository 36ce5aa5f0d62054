"""What one can choose when a model is lowered for a CPU.

CpuOptions(isa="native", weights="shared").to_compile_specs()
"""

import dataclasses

from pteron.backends.aoti.aoti_options import AotiOptions

WEIGHTS = ("auto", "packed", "shared")
GEMM = ("auto", "template", "library")
ISA = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "native")


@dataclasses.dataclass(frozen=True)
class CpuOptions(AotiOptions):
    """Options of `CpuBackend`.

    Attributes:
        isa: instruction set the code may use: a psABI level, or "native" for the best level of the
            machine that lowers. The level is recorded in the file and checked before code is
            loaded.
        weights: "packed" stores matrices in the layout of the generated GEMM, fastest for one
            method; "shared" stores them as they are, one copy for all methods, and multiplies
            through the runtime's library; "auto" is packed for a program of one method and shared
            for more.
        num_threads: threads that the code is cut for, the most it can use at run time; 0 means the
            cores of the machine that lowers. Recorded in the file.
        save_data_externally: weights go to a .ptd file.
        gemm: "template" generates matrix products into the code, "library" calls the runtime's,
            "auto" is template for packed weights and library for shared ones.
    """

    isa: str = "x86-64-v3"
    weights: str = "auto"
    num_threads: int = 0
    save_data_externally: bool = False
    gemm: str = "auto"

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}"
            for name, known in (("isa", ISA), ("weights", WEIGHTS), ("gemm", GEMM))
            if getattr(self, name) not in known
        ]
        if not isinstance(self.num_threads, int) or not 0 <= self.num_threads <= 1024:
            problems.append(f"num_threads is {self.num_threads!r}; expected 0 to 1024")
        if self.weights == "shared" and self.gemm == "template":
            problems.append(
                "gemm='template' packs weights and weights='shared' does not; choose one of them"
            )
        if problems:
            raise ValueError("; ".join(problems))
