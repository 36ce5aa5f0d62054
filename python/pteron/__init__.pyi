# What type checkers know of __init__.py.
from pteron.backends.cpu.cpu_options import CpuOptions as CpuOptions
from pteron.backends.cpu.cpu_partitioner import CpuPartitioner as CpuPartitioner
from pteron.backends.cuda.cuda_options import CudaOptions as CudaOptions
from pteron.backends.cuda.cuda_partitioner import CudaPartitioner as CudaPartitioner
from pteron.exir import (
    EdgeCompileConfig as EdgeCompileConfig,
)
from pteron.exir import (
    EdgeProgramManager as EdgeProgramManager,
)
from pteron.exir import (
    ExecutorchBackendConfig as ExecutorchBackendConfig,
)
from pteron.exir import (
    ExecutorchProgramManager as ExecutorchProgramManager,
)
from pteron.exir import (
    LoweredBackendModule as LoweredBackendModule,
)
from pteron.exir import (
    MemoryPlanningPass as MemoryPlanningPass,
)
from pteron.exir import (
    UnsupportedOperatorsError as UnsupportedOperatorsError,
)
from pteron.exir import (
    VerificationError as VerificationError,
)
from pteron.exir import (
    to_edge as to_edge,
)
from pteron.exir import (
    to_edge_transform_and_lower as to_edge_transform_and_lower,
)
from pteron.runtime import (
    AccessError as AccessError,
)
from pteron.runtime import (
    BackendError as BackendError,
)
from pteron.runtime import (
    BackendRegistry as BackendRegistry,
)
from pteron.runtime import (
    InvalidArgumentError as InvalidArgumentError,
)
from pteron.runtime import (
    InvalidProgramError as InvalidProgramError,
)
from pteron.runtime import (
    InvalidStateError as InvalidStateError,
)
from pteron.runtime import (
    Method as Method,
)
from pteron.runtime import (
    MethodMeta as MethodMeta,
)
from pteron.runtime import (
    NotFoundError as NotFoundError,
)
from pteron.runtime import (
    NotSupportedError as NotSupportedError,
)
from pteron.runtime import (
    Program as Program,
)
from pteron.runtime import (
    PteronError as PteronError,
)
from pteron.runtime import (
    ResourceError as ResourceError,
)
from pteron.runtime import (
    Runtime as Runtime,
)
from pteron.runtime import (
    ScalarMeta as ScalarMeta,
)
from pteron.runtime import (
    ScalarType as ScalarType,
)
from pteron.runtime import (
    Session as Session,
)
from pteron.runtime import (
    TensorInfo as TensorInfo,
)
from pteron.runtime import (
    Verification as Verification,
)

__all__: list[str]
