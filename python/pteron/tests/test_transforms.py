"""Models that differentiate in forward(), by torch.func."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

import pteron
from pteron.runtime import Runtime


class Field(nn.Module):
    """A scalar of three coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def of(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[0]


class Gradients(Field):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            grad(self.of)(x[0]),
            *grad_and_value(self.of)(x[1]),
            vjp(self.of, x[0])[1](x[1, 0])[0],
        )


class Laplacians(Field):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return vmap(hessian(self.of))(x).diagonal(dim1=1, dim2=2).sum(1)


class Jacobians(Field):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of_all, ones = jacrev(torch.sin)(x), torch.ones_like(x)
        return of_all, jacfwd(torch.cos)(x), *jvp(self.layers, (x,), (ones,))


@pytest.mark.parametrize(
    "kind, sizes", [(Gradients, [2, 5, 9]), (Laplacians, [5, 5]), (Jacobians, [5, 5])]
)
def test_transforms(kind: type[nn.Module], sizes: list[int], tmp_path: Path) -> None:
    model = kind().eval()
    shapes = ({0: Dim("points", max=9)},) if len({*sizes}) > 1 else None
    pteron.export(model, (torch.randn(5, 3),), tmp_path / "model.pte", dynamic_shapes=shapes)
    method = Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    for points in sizes:
        x = torch.randn(points, 3)
        torch.testing.assert_close(method(x), model(x))


def test_what_is_refused_leaves_no_transform(tmp_path: Path) -> None:
    model, x, path = Laplacians().eval(), torch.randn(5, 3), tmp_path / "model.pte"
    with pytest.raises(pteron.ExportError, match="specialized it to be a constant"):
        pteron.export(model, (x,), path, dynamic_shapes=({0: Dim("points", max=9)},))
    torch.testing.assert_close(jvp(torch.sin, (x,), (x,))[1], x.cos() * x)
