"""Collections are rare while programs are lowered, and as before afterwards, whatever happens."""

import gc
import threading
from collections.abc import Iterator

import pytest
import torch

from pteron.exir.garbage_collection import collected_rarely
from pteron.exir.program import to_edge, to_edge_transform_and_lower


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_thresholds_are_put_back_after_an_error() -> None:
    with pytest.raises(KeyError), collected_rarely():
        assert gc.get_threshold()[0] >= 100_000
        with collected_rarely():
            pass
        assert gc.get_threshold()[0] >= 100_000
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_of_several_threads_puts_them_back() -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        with collected_rarely():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=wait)
    with collected_rarely():
        thread.start()
        entered.wait()
    assert gc.get_threshold()[0] >= 100_000
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (10**6, 5, 5)])
def test_what_is_off_or_rarer_stays(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    with collected_rarely():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


class Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_lowering_collects_rarely() -> None:
    seen = []

    def watch(module: torch.fx.GraphModule) -> None:
        seen.append(gc.get_threshold()[0])

    program = torch.export.export(Plus(), (torch.ones(2),))
    to_edge_transform_and_lower(program, transform_passes=[watch]).to_executorch()
    to_edge(program).transform([watch])
    assert seen == [100_000, 700]
    assert gc.get_threshold() == (700, 10, 10)
