"""What one can choose when a model is lowered for a CPU.

CpuOptions(isa="native", weights="shared").to_compile_specs()
"""

import dataclasses

from pteron.backends.aoti.aoti_options import AotiOptions

WEIGHTS = ("auto", "packed", "shared")
GEMM = ("auto", "template", "library")
MATMUL_PRECISION = ("highest", "medium")
ISA = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "native")
DEFAULT_ISA = ("x86-64-v3", "x86-64-v4")


@dataclasses.dataclass(frozen=True)
class CpuOptions(AotiOptions):
    """Options of `CpuBackend`.

    Attributes:
        isa: instruction sets that the file has code for: psABI levels, or "native" for the best
            level of the machine that lowers. Several are a tuple, or text with commas. The best
            that the machine has is chosen at load; packed weights are stored once for x86-64-v3
            and v4.
        weights: "packed" stores matrices in the layout of the generated GEMM, fastest for one
            method; "shared" stores them as they are, one copy for all methods, and multiplies
            through the runtime's library; "auto" is packed for a program of one method and shared
            for more.
        num_threads: the most threads that the code uses at run time; 0 means those of the machine
            that runs. Code for 1 has no parallel regions.
        save_data_externally: weights go to a .ptd file.
        gemm: "template" generates matmuls into the code, "library" calls the runtime's,
            "auto" is template for packed weights and library for shared ones.
        matmul_precision: "medium" lets float32 matmuls with constant weights round both operands
            to bfloat16, as torch.set_float32_matmul_precision has it: weights take half of the
            memory, and processors with AMX are several times as fast. Needs packed weights: where
            weights="auto" shares them among methods, nothing is rounded.
        updatable_weights: the file says how its constants are made from the model's weights, so
            that `pteron.update_weights` can give the code others.
        symbols: the code keeps its symbol table, with the names of kernels, for profilers and
            debuggers (docs/profiling.md).
        operators: names of operators with a C function of the caller's, as "mylib::scale"
            (docs/operators.md).
    """

    isa: str | tuple[str, ...] = DEFAULT_ISA
    weights: str = "auto"
    num_threads: int = 0
    save_data_externally: bool = False
    gemm: str = "auto"
    matmul_precision: str = "highest"
    updatable_weights: bool = False
    symbols: bool = False
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(self.operators))  # JSON has lists
        if not isinstance(self.isa, str):
            object.__setattr__(self, "isa", tuple(self.isa))  # JSON has lists
        elif "," in self.isa:
            object.__setattr__(self, "isa", tuple(self.isa.split(",")))
        problems = [
            f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}"
            for name, known in (
                ("weights", WEIGHTS),
                ("gemm", GEMM),
                ("matmul_precision", MATMUL_PRECISION),
            )
            if getattr(self, name) not in known
        ]
        if not self.levels or not set(self.levels) <= set(ISA):
            problems.append(f"isa is {self.isa!r}; expected one or several of {', '.join(ISA)}")
        if not isinstance(self.num_threads, int) or not 0 <= self.num_threads <= 1024:
            problems.append(f"num_threads is {self.num_threads!r}; expected 0 to 1024")
        if self.weights == "shared" and self.gemm == "template":
            problems.append(
                "gemm='template' packs weights and weights='shared' does not; choose one of them"
            )
        if self.matmul_precision == "medium" and "shared" in (self.weights, self.gemm):
            problems.append(
                "matmul_precision='medium' packs weights and weights='shared' does not; choose one"
                " of them"
            )
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def levels(self) -> tuple[str, ...]:
        """What `isa` names."""
        return (self.isa,) if isinstance(self.isa, str) else self.isa
