"""Matrix products: shims against torch's operators."""

from pathlib import Path

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    ShimError,
    ShimLibrary,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    FLOATING,
    INTEGERS,
    check,
    check_sums,
    layouts,
    poison,
    values,
)


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
@pytest.mark.parametrize(
    "m,k,n", [(1, 1, 1), (3, 0, 2), (1, 8, 8), (5, 7, 3), (33, 65, 129), (1, 300, 70)]
)
def test_mm_out(shims: ShimLibrary, dtype: torch.dtype, m: int, k: int, n: int) -> None:
    for a in layouts(values(m, k, dtype=dtype)):
        for b in layouts(values(k, n, dtype=dtype)):
            for out in layouts(poison(m, n, dtype=dtype)):
                shims.call("cpu_mm_out", out, a, b)
                expected = a.double() @ b.double() if dtype.is_floating_point else a @ b
                check_sums(out, expected)


def test_mm_out_large_uses_threads(shims: ShimLibrary) -> None:
    a, b = values(300, 200), values(200, 500)
    out = poison(300, 500, dtype=torch.float32)
    shims.call("cpu_mm_out", out, a, b)
    check_sums(out, a.double() @ b.double())
    # Nothing is linked with OpenBLAS: the first large product finds and opens it.
    assert "/libscipy_openblas.so\n" in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("dtype", FLOATING + [torch.int64], ids=str)
@pytest.mark.parametrize("beta,alpha", [(1.0, 1.0), (0.0, 1.0), (2.0, -3.0)])
def test_addmm_out(shims: ShimLibrary, dtype: torch.dtype, beta: float, alpha: float) -> None:
    a, b = values(9, 40, dtype=dtype), values(40, 21, dtype=dtype)
    for self_shape in [(21,), (1, 21), (9, 21), (9, 1), ()]:
        self = values(*self_shape, dtype=dtype)
        if beta == 0 and dtype.is_floating_point:
            self.fill_(float("nan"))  # must not be read
        for out in layouts(poison(9, 21, dtype=dtype)):
            shims.call("cpu_addmm_out", out, self, a, b.t().contiguous().t(), beta, alpha)
            wide = torch.float64 if dtype.is_floating_point else torch.int64
            base = 0 if beta == 0 else beta * self.to(wide)
            expected = base + alpha * (a.to(wide) @ b.to(wide))
            check_sums(out, expected.expand(9, 21))


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_bmm_out(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for batch, m, k, n in [
        (1, 3, 4, 5),
        (4, 17, 33, 9),
        (3, 1, 64, 100),
        (2, 130, 140, 150),
        (0, 2, 3, 4),
    ]:
        a, b = values(batch, m, k, dtype=dtype), values(batch, k, n, dtype=dtype)
        for left in layouts(a):
            for right in (b, b.transpose(1, 2).contiguous().transpose(1, 2)):
                out = poison(batch, m, n, dtype=dtype)
                shims.call("cpu_bmm_out", out, left, right)
                check_sums(out, a.double() @ b.double())


def test_bmm_out_of_an_expanded_batch(shims: ShimLibrary) -> None:
    a, b = values(1, 3, 4).expand(5, 3, 4), values(5, 4, 6)
    out = poison(5, 3, 6, dtype=torch.float32)
    shims.call("cpu_bmm_out", out, a, b)
    check_sums(out, a.double() @ b.double())


def test_baddbmm_out(shims: ShimLibrary) -> None:
    a, b = values(4, 17, 33), values(4, 33, 9)
    for self in (values(4, 17, 9), values(9), values(4, 1, 9)):
        out = poison(4, 17, 9, dtype=torch.float32)
        shims.call("cpu_baddbmm_out", out, self, a, b, 0.5, 2.0)
        check_sums(out, 0.5 * self.double().expand(4, 17, 9) + 2 * (a.double() @ b.double()))


def test_int_mm_out(shims: ShimLibrary) -> None:
    a, b = (torch.randint(-128, 128, s).to(torch.int8) for s in ((33, 70), (70, 90)))
    for right in layouts(b):
        out = poison(33, 90, dtype=torch.int32)
        shims.call("cpu__int_mm_out", out, a, right)
        check(out, a.int() @ b.int())


def test_products_refuse_what_does_not_fit(shims: ShimLibrary) -> None:
    out = poison(3, 5, dtype=torch.float32)
    for a, b in [
        (values(3, 4), values(5, 5)),
        (values(3, 4), values(4, 6)),
        (values(3, 4), values(4, 5, dtype=torch.float64)),
        (values(3, 4), values(4)),
    ]:
        with pytest.raises(ShimError):
            shims.call("cpu_mm_out", out, a, b)
    assert out.isnan().all()
