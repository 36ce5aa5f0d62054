"""Programs of a CUDA delegate and others, and loops, exported on the GPU. Needs a GPU."""

import pathlib
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan

from pteron.backends.cpu import CpuPartitioner
from pteron.backends.cuda import CudaPartitioner
from pteron.backends.cuda.tests.programs import ON_DEVICE, check, flat, load, lower, save
from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from pteron.exir.graph.lowered_backend_module import lowered_modules

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_CUDA, _CPU = "CudaBackend", "CpuBackend"


class Layers(nn.Module):
    """Two products with something between them and behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(32, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).sin()).softmax(-1)


class Roots(nn.Module):
    """An error of the data in the middle: a matrix without a Cholesky root."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return self.last(torch.linalg.cholesky(y @ y.mT + shift * torch.eye(8, device=x.device)))


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.zeros((), dtype=torch.int64, device=x.device)
        count, y = torch.while_loop(
            lambda count, y: y.sum() < 100, lambda count, y: (count + 1, y * 2), (start, x)
        )
        return y + count


class Maps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return map_rows(lambda row, bias: row.sin() + bias, x, x[0] * 0.5)


class Scans(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return carry + row, carry * row

        return scan(step, torch.zeros_like(x[0]), x)


class Mixture(nn.Module):
    """What each device keeps handles, plans and kernels for."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 64, 4, 4), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).flatten(2).mT.unflatten(-1, (1, 64)).transpose(1, 2)
        return self.out(F.scaled_dot_product_attention(y, y, y, is_causal=True).flatten(0, 1))


def _is_of_products(node: torch.fx.Node) -> bool:
    return not any(name in str(node.target) for name in ("sin", "softmax"))


def _load(manager: Any, folder: pathlib.Path, **config: Any) -> tuple[Any, list[str]]:
    """The method, and whose its delegates are, in order."""
    program = manager.to_executorch(ExecutorchBackendConfig(**config))
    program.save(folder / "model.pte")
    program.write_tensor_data_to_file(folder)
    delegates = lowered_modules(program.exported_program().graph_module)
    backends = [lowered.backend_id for _, lowered in delegates]
    return load(folder / "model.pte").load_method("forward"), backends


_PARTITIONERS: dict[str, tuple[Any, list[str]]] = {
    "cuda_first": (
        lambda: [CudaPartitioner(leave_out=["aten.sin.default"]), CpuPartitioner()],
        [_CUDA, _CPU, _CUDA],
    ),
    "cpu_first": (
        lambda: [CpuPartitioner(leave_out=_is_of_products), CudaPartitioner()],
        [_CUDA, _CPU, _CUDA, _CPU],
    ),
    "left_out": (lambda: [CudaPartitioner(leave_out=["aten.sin.default"])], [_CUDA, _CPU, _CUDA]),
}


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("name", _PARTITIONERS)
def test_with_another_backend(name: str, on_device: bool, tmp_path: pathlib.Path) -> None:
    partitioners, backends = _PARTITIONERS[name]
    module, x = Layers().cuda().eval(), torch.randn(5, 32, device="cuda")
    manager = to_edge_transform_and_lower(
        torch.export.export(module, (x,)), partitioner=partitioners()
    )
    method, found_backends = _load(manager, tmp_path, **(ON_DEVICE if on_device else {}))
    assert found_backends == backends
    for _ in range(3):
        x = torch.randn(5, 32, device="cuda")
        found = method.execute([x if on_device else x.cpu()])
        with torch.no_grad():
            check(found, [module(x).cpu()], 1e-5)


@pytest.mark.parametrize("left_out", [[], ["aten.linalg_cholesky_ex.default"]])
def test_an_error_in_the_middle(left_out: list[str], tmp_path: pathlib.Path) -> None:
    """Of one delegate or of the second of three: the method goes on as if it had not been."""
    module, x = Roots().cuda().eval(), torch.randn(8, 8, device="cuda")
    right, wrong = torch.ones((), device="cuda"), torch.full((), -1e3, device="cuda")
    manager = to_edge_transform_and_lower(
        torch.export.export(module, (x, right)), partitioner=[CudaPartitioner(leave_out=left_out)]
    )
    method, backends = _load(manager, tmp_path)
    assert backends == ([_CUDA, _CPU, _CUDA] if left_out else [_CUDA])
    free = 0
    for i in range(30):
        x = torch.randn(8, 8, device="cuda")
        with pytest.raises(Exception, match="cholesky|positive"):
            method.execute([x.cpu(), wrong.cpu()])
        found = method.execute([x.cpu(), right.cpu()])
        with torch.no_grad():
            check(found, [module(x, right).cpu()], 1e-4)
        if i == 5:
            free = torch.cuda.mem_get_info()[0]
    assert torch.cuda.mem_get_info()[0] >= free


@pytest.mark.parametrize("model", [Counts, Maps, Scans])
def test_loops(model: type[nn.Module], tmp_path: pathlib.Path) -> None:
    module, x = model().cuda(), torch.rand(6, 5, device="cuda") + 0.1
    method, backends = _load(lower(torch.export.export(module, (x,))), tmp_path)
    assert backends == [_CUDA]
    for scale in (0.02, 1, 7):
        found = method.execute([(x * scale).cpu()])
        check(found, [value.cpu() for value in flat(module(x * scale))], 1e-6)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two CUDA devices")
@pytest.mark.parametrize("exported_on", ["cuda:0", "cuda:1"])
def test_two_devices(exported_on: str, tmp_path: pathlib.Path) -> None:
    """One program on two devices at once, each with inputs and outputs of its own."""
    example = torch.randn(2, 3, 32, 32, device=exported_on, dtype=torch.float16)
    module = Mixture().to(exported_on, torch.float16).eval()
    path = save(lower(torch.export.export(module, (example,))), tmp_path, **ON_DEVICE)
    program = load(path)
    problems: list[BaseException] = []

    def run(device: str) -> None:
        try:
            method = program.load_method("forward", devices={"cuda:0": device})
            here = Mixture().to(device, torch.float16).eval()
            here.load_state_dict(module.state_dict())
            for _ in range(20):
                x = torch.randn(2, 3, 32, 32, device=device, dtype=torch.float16)
                found = method.execute([x])
                assert str(found[0].device) == device
                with torch.no_grad():
                    check(found, [here(x).cpu()], 4e-3)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(f"cuda:{index}",)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    method = program.load_method("forward", devices={"cuda:0": "cuda:1"})
    with pytest.raises(Exception, match="cuda:1"):
        method.execute([example.to("cuda:0")])
