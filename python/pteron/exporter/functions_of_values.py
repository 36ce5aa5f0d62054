"""torch's functions of statistics, which check values in C++ where nothing can follow them."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Covariances(TorchFunctionMode):
    """Inside, torch.cov() and torch.corrcoef() are made of functions that torch.export takes."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.cov, torch.Tensor.cov):
            return _covariance(*args, **(kwargs or {}))
        if func in (torch.corrcoef, torch.Tensor.corrcoef):
            return _correlation(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _covariance(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    x = input if input.dim() == 2 else input.reshape(1, -1)
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(torch.get_default_dtype())
    if fweights is None and aweights is None:
        count = torch.scalar_tensor(x.shape[1], dtype=x.real.dtype, device=x.device)
        mean, weighted, freedom = x.sum(1) / count, None, count - correction
    else:
        given = [weights for weights in (fweights, aweights) if weights is not None]
        weighted = given[0] * given[1] if len(given) > 1 else given[0]
        freedom = weighted.sum()
        mean = (x * weighted).sum(1) / freedom
        if aweights is None or correction == 0:
            freedom = freedom - correction
        else:
            freedom = freedom - correction * (weighted * aweights).sum() / freedom
    x = x - mean[:, None]
    products = x @ (x if weighted is None else x * weighted).mH
    covariance = products / freedom.clamp(min=0)
    return covariance if input.dim() == 2 and input.shape[0] != 1 else covariance[0, 0]


def _correlation(input: torch.Tensor) -> torch.Tensor:
    covariance = _covariance(input)
    if covariance.dim() == 0:
        return covariance / covariance
    deviations = covariance.real.diagonal().sqrt()
    found = covariance / deviations[:, None] / deviations
    if found.is_complex():
        return torch.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)
