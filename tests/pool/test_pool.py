"""Tasks that return, fail, end their process and take too long."""

import os
import time

from tests.pool.pool import Pool

FOREVER = float("inf")


def double(task: int) -> tuple[int, int]:
    if task == 13:
        os._exit(3)
    if task == 99:
        time.sleep(60)
    return 2 * task, os.getpid()


def failed(task: int, reason: str) -> tuple[int, int]:
    assert str(task) and reason
    return -task, 3 if "status 3" in reason else 99 if "longer than" in reason else 0


def make(limit: float = 30, fresh: bool = False) -> Pool[int, tuple[int, int]]:
    return Pool(double, failed, jobs=1, limit=limit, fresh=fresh)


def test_a_process_does_one_task_after_the_other() -> None:
    results = list(make().run([1, 2, 3], FOREVER))
    assert [value for value, _ in results] == [2, 4, 6]
    assert len({process for _, process in results} - {os.getpid()}) == 1


def test_or_one_only() -> None:
    results = list(make(fresh=True).run([1, 2], FOREVER))
    assert len({process for _, process in results}) == 2


def test_a_process_that_ends_fails_one_task() -> None:
    results = list(make().run([13, 1], FOREVER))
    assert results[0] == (-13, 3) and results[1][0] == 2


def test_a_task_that_takes_too_long_fails() -> None:
    assert list(make(limit=0.5).run([99], FOREVER)) == [(-99, 99)]


def test_what_is_not_done_in_time_has_no_result() -> None:
    assert list(make().run([99, 1], time.monotonic() + 0.5)) == []
