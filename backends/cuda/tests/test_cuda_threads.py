"""Whole programs from eight threads at once, each with a stream of its own. Needs a GPU."""

import pathlib
import threading
import time
from collections.abc import Callable

import pytest
import torch

from pteron.backends.cuda.tests.programs import (
    ON_DEVICE,
    check,
    eager,
    inputs_of,
    load,
    lower,
    sample_named,
    save,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_THREADS, _CALLS = 8, 10_000


def test_eight_threads_get_equal_results(
    tmp_path: pathlib.Path, record_property: Callable[[str, object], None]
) -> None:
    sample = sample_named("mlp_block")
    program = load(save(lower(sample.export()), tmp_path, **ON_DEVICE))
    x = inputs_of(sample, 0)[0].cuda()
    unequal: list[tuple[int, int]] = []
    results: list[torch.Tensor | None] = [None] * _THREADS
    failures: list[BaseException] = []

    def work(index: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                method = program.load_method("forward")
                first = method.execute([x])[0].clone()
                for call in range(_CALLS):
                    (found,) = method.execute([x])
                    if call % 100 == 99 and not torch.equal(found, first):
                        unequal.append((index, call))
                results[index] = first.cpu()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(_THREADS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record_property("seconds", round(time.perf_counter() - start, 1))
    assert not failures, failures[0]
    assert not unequal
    for found in results:
        assert found is not None and torch.equal(found, results[0])
    check([results[0]], eager(sample, 1)[0], sample.rtol)
