# What type checkers know of __init__.py.
from pteron import asr as asr
from pteron import llm as llm
from pteron import ray as ray
from pteron.backends.apple.metal.metal_options import MetalOptions as MetalOptions
from pteron.backends.apple.metal.metal_partitioner import MetalPartitioner as MetalPartitioner
from pteron.backends.cpu.cpu_options import CpuOptions as CpuOptions
from pteron.backends.cpu.cpu_partitioner import CpuPartitioner as CpuPartitioner
from pteron.backends.cuda.cuda_options import CudaOptions as CudaOptions
from pteron.backends.cuda.cuda_partitioner import CudaPartitioner as CudaPartitioner
from pteron.exir import *
from pteron.exporter import ExportError as ExportError
from pteron.exporter import ExportReport as ExportReport
from pteron.exporter import export as export
from pteron.exporter import update_weights as update_weights
from pteron.runtime import *
from pteron.sdk import cmake_prefix_path as cmake_prefix_path
from pteron.sdk import include_dir as include_dir
from pteron.sdk import pkg_config_path as pkg_config_path

__all__: list[str]
_PACKAGES: tuple[str, ...]

def _how_to_install_torch() -> str: ...
