"""GPU-free code generation.

Inductor queries the GPU for its properties, and Triton loads each kernel that it compiles. Inside
`absent_gpu` a table replaces the queries, and kernels are compiled but neither loaded nor
autotuned: the first configuration that fits is taken. The output is the same on every machine, with
or without a GPU.
"""

import contextlib
import functools
import types
from collections.abc import Iterator
from typing import Any, NoReturn
from unittest import mock

import torch
from torch._prims_common import suggest_memory_format

from pteron.backends.aoti.inductor.gpu_properties import GpuProperties, properties_of
from pteron.backends.aoti.inductor.patches import Context, patched, together, wrapped
from pteron.backends.aoti.inductor.release import UnsupportedTorch, release

#: What torch's CUDA build requires, by its release.
_TRITON = {"2.11": "3.6.0", "2.12": "3.7.1", "2.13": "3.7.1", "2.14": "3.8.0"}


class TritonMissing(RuntimeError):
    """The compiler of kernels is not installed."""


@contextlib.contextmanager
def absent_gpu(architecture: str) -> Iterator[None]:
    """Inside, Inductor generates code for a GPU of `architecture` without querying one.

    Raises:
        UnsupportedArchitecture: the table lacks it.
        TritonMissing: Triton is not installed.
    """
    gpu = properties_of(architecture)
    _check_triton()
    with (
        _query_caches_cleared(),
        _torch_queries(gpu),
        _triton_queries(gpu),
        _kernels_compiled_only(),
    ):
        yield


def _check_triton() -> None:
    try:
        import triton  # noqa: F401
    except ImportError as error:
        version = _TRITON[release()]
        raise TritonMissing(
            "lowering for CUDA compiles kernels with Triton, and torch's build for the CPU comes "
            "without it. Install the one of torch's CUDA build, which needs no GPU: pip install "
            f"triton=={version}. A Bazel target gets it by @pypi//triton among its deps."
        ) from error


def _torch_queries(gpu: GpuProperties) -> Context:
    """Queries of torch.cuda and of Inductor's device interface return the properties of `gpu`."""
    from torch._dynamo import device_interface
    from torch._inductor import config

    fields = types.SimpleNamespace(**gpu.as_torch_properties())
    answers: dict[str, Any] = {
        "get_device_capability": lambda device=None: (gpu.major, gpu.minor),
        "get_device_properties": lambda device=None: fields,
        "get_device_name": lambda device=None: fields.name,
        "mem_get_info": lambda device=None: (gpu.total_memory, gpu.total_memory),
        "is_bf16_supported": lambda including_emulation=True: True,
    }
    if not torch.cuda.is_available():
        answers |= {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "synchronize": do_nothing,
            "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
            "set_rng_state": do_nothing,
            "device": contextlib.nullcontext,  # torch's needs a driver
        }
    asked_of_interface: dict[str, Any] = {
        **answers,
        "get_compute_capability": lambda device=None: gpu.capability,
        "is_triton_capable": lambda device=None: True,
        "exchange_device": lambda device: 0,
        "maybe_exchange_device": lambda device: 0,
        "Worker": types.SimpleNamespace(
            current_device=lambda: 0, get_device_properties=lambda device=None: fields
        ),
    }
    before = device_interface.get_interface_for_device("cuda")
    interface = type(
        "AbsentGpu",
        (before,),
        {k: staticmethod(v) if callable(v) else v for k, v in asked_of_interface.items()},
    )
    return together(
        *(patched(torch.cuda, name, value) for name, value in answers.items()),
        mock.patch.dict(device_interface.device_interfaces, {"cuda": interface}),
        as_on_gpu(gpu),
        # Padding of matmuls is decided by benchmarking.
        config.patch({"shape_padding": False}),
    )


def as_on_gpu(gpu: GpuProperties) -> Context:
    """Inside, Inductor takes a GPU for `gpu`, and patterns and fake tensors need none."""
    from torch._inductor.runtime.hints import DeviceProperties

    def properties(device: torch.device) -> DeviceProperties:
        index = device.index or 0
        return DeviceProperties(device.type, index, cc=gpu.capability, **gpu.as_hints())

    return together(
        patched(DeviceProperties, "create", staticmethod(properties)),
        patterns_traced_on_the_host(),
        fake_tensors_of_any_device(),
    )


def patterns_traced_on_the_host() -> Context:
    """Patterns of graphs, which are traced once in a process, are the same there."""
    from torch._inductor.fx_passes import joint_graph

    joint_graph.lazy_init(torch.device("cpu"))
    return wrapped(joint_graph, "lazy_init", do_nothing)


def fake_tensors_of_any_device() -> Context:
    """Inside, fake tensors on "cuda" and "mps" work as in a build of torch for that device.

    Methods whose bindings initialize the device call the operator instead. Convolutions have
    cuDNN's memory format, as the runtime's have.
    """
    from torch._subclasses import FakeTensor, fake_tensor

    def getitem(original: Any, tensor: torch.Tensor, index: Any) -> Any:
        if type(index) is int:
            return tensor.select(0, index)
        parts = index if isinstance(index, tuple) else (index,)
        tensors = [part if isinstance(part, torch.Tensor) else None for part in parts]
        others = [part for part in parts if not isinstance(part, torch.Tensor)]
        if len(others) < len(parts) and all(part == slice(None) for part in others):
            return aten.index.Tensor(tensor, tensors)
        return original(tensor, index)

    def contiguous(
        tensor: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
    ) -> Any:
        if tensor.is_contiguous(memory_format=memory_format):
            return tensor
        return aten.clone.default(tensor, memory_format=memory_format)

    def convolution_format(original: Any, input: torch.Tensor, weight: Any, backend: Any) -> Any:
        if input.device.type not in ("cuda", "mps"):
            return original(input, weight, backend)
        operands = () if torch.float64 in (input.dtype, weight.dtype) else (input, weight)
        last = {torch.channels_last, torch.channels_last_3d}
        formats = (suggest_memory_format(operand) for operand in operands)
        return next((found for found in formats if found in last), torch.contiguous_format)

    aten: Any = torch.ops.aten
    return together(
        patched(fake_tensor, "init_gpu_context", do_nothing),
        wrapped(FakeTensor, "__getitem__", getitem),
        patched(FakeTensor, "__invert__", lambda tensor: aten.bitwise_not.default(tensor)),
        patched(FakeTensor, "copy_", lambda *args, **more: aten.copy_.default(*args, **more)),
        patched(FakeTensor, "contiguous", contiguous),
        wrapped(torch._C, "_conv_determine_backend_memory_format", convolution_format),
    )


def _triton_queries(gpu: GpuProperties) -> Context:
    """Triton's driver returns the properties of `gpu`, and does not load kernels."""
    import triton
    from torch._inductor.runtime import triton_helpers
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("cuda", gpu.capability, 32)
    driver = types.SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        launcher_cls=lambda source, metadata: _not_run,
        utils=types.SimpleNamespace(
            get_device_properties=lambda device: {
                "max_shared_mem": gpu.shared_memory_per_block_optin,
                "multiprocessor_count": gpu.multi_processor_count,
            },
            # module, function, registers, spilled registers, threads that a block may have
            load_binary=lambda name, code, shared, device: (object(), object(), 0, 0, 1024),
        ),
    )
    return together(
        patched(triton.runtime.driver, "_active", driver),
        patched(triton_helpers, "set_driver_to_gpu", do_nothing),
    )


def _kernels_compiled_only() -> Context:
    """Kernels that Inductor would compile and autotune are only compiled and kept."""
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    def compile_kernels(wrapper: Any) -> None:
        wrapper.kernel_autotune_defs.splice("async_compile.wait(globals())\ndel async_compile\n")
        scope: dict[str, Any] = {}
        exec(wrapper.kernel_autotune_defs.getvalue(), scope)
        for kernel in scope.values():
            if isinstance(kernel, CachingAutotuner):
                kernel.save_gpu_kernel("stream", kernel.launchers[0])

    return together(
        patched(PythonWrapperCodegen, "generate_and_run_autotune_block", compile_kernels),
        # Worker processes would query the GPU.
        patched(AsyncCompile, "use_process_pool", classmethod(lambda cls: False)),
    )


@contextlib.contextmanager
def _query_caches_cleared() -> Iterator[None]:
    """Clears torch's caches of device queries and of loaded kernels, before and after."""
    from torch._inductor import codecache, utils
    from torch.utils import _triton

    def clear() -> None:
        for owner in (_triton, utils):
            for value in list(vars(owner).values()):
                is_cache = isinstance(value, functools._lru_cache_wrapper)
                if is_cache and value.__module__ == owner.__name__:
                    value.cache_clear()
        codecache.CacheBase.get_system.cache_clear()
        # With the modules of kernels, which keep what they were compiled to: here, for no GPU.
        utils.clear_caches()

    clear()
    try:
        yield
    finally:
        clear()


def without_kernels() -> Context:
    """Inside, GPU code is generated without kernels and their launches.

    Which operators the code calls is known without kernels, Triton or a GPU.
    """
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.scheduler import Scheduler

    # Properties of the GPU affect how reductions are split, but no call.
    has_gpu = torch.cuda.is_available()
    return together(
        patched(Scheduler, "create_backend", _backend_without_kernels),
        patched(PythonWrapperCodegen, "generate_and_run_autotune_block", do_nothing),
        contextlib.nullcontext() if has_gpu else as_on_gpu(properties_of("sm_90")),
    )


def _backend_without_kernels(scheduler: Any, device: torch.device) -> Any:
    """The device's scheduling, which fuses nodes but generates no kernels."""
    from torch._inductor.codegen.common import get_scheduling_for_device
    from torch._inductor.virtualized import V

    V.graph.add_device_info(device)
    backend = get_scheduling_for_device(device.type)(scheduler)  # type: ignore[misc]
    if device.type != "cpu":
        for kind in ("node", "template", "combo_kernel", "mix_order_reduction"):
            setattr(backend, f"codegen_{kind}", _allocate_results)
        for name in ("codegen_sync", "flush", "ready_to_flush"):
            setattr(backend, name, do_nothing)
    return backend


def _allocate_results(node: Any, *_: Any, **__: Any) -> None:
    for each in node.get_nodes():
        each.mark_run()


def absent_mps() -> Context:
    """Inside, Inductor generates code for an Apple GPU without querying one, on a Mac too.

    Its wrapper contains the source of Metal kernels, so nothing is compiled here.
    """
    return together(
        patterns_traced_on_the_host(),
        patched(torch.backends.mps, "is_available", lambda: True),
        patched(torch.backends.mps, "is_macos_or_newer", lambda *version: version <= (14, 0)),
        patched(torch.mps, "is_available", lambda: True),
        _query_caches_cleared(),
        # An M1's. They affect how reductions are split, never results.
        patched(torch.backends.mps, "get_core_count", lambda: 8),
        fake_tensors_of_any_device(),
    )


def do_nothing(*_: Any, **__: Any) -> None:
    pass


def _not_run(*_: Any, **__: Any) -> NoReturn:
    raise UnsupportedTorch("a kernel was run while code was generated for a GPU that is not there")
