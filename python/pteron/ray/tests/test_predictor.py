"""`pteron.ray.Predictor`, alone and in Ray Data."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pteron
import pteron.ray
from pteron.ray.tests.programs import eager, make_images

_ALONE = """\
import sys
import numpy as np
import pteron.ray

predictor = pteron.ray.Predictor(sys.argv[1])
rows = [predictor({"image": x[None]})["logits"][0] for x in np.load(sys.argv[2])]
np.save(sys.argv[3], rows)
"""


def _predictor(folder: Path, name: str, **options: Any) -> pteron.ray.Predictor:
    """Of a file, or of a method of `several`."""
    path = folder / f"{name}.pte"
    if path.exists():
        return pteron.ray.Predictor(path, **options)
    return pteron.ray.Predictor(folder / "several.pte", method=name, **options)


@pytest.mark.parametrize("name", ["first", "dynamic"])
def test_rows_have_the_same_bits_alone(folder: Path, name: str) -> None:
    """Also the last ones, of a part that is padded."""
    predictor = pickle.loads(pickle.dumps(_predictor(folder, name)))
    images = make_images(11)
    batch = predictor({"image": images, "id": np.arange(11)})
    assert list(batch) == ["image", "id", "logits", "error"]
    assert batch["error"].tolist() == [None] * 11
    np.testing.assert_allclose(batch["logits"], eager(0, images), atol=1e-5, rtol=1e-5)
    alone = [predictor({"image": images[i : i + 1]})["logits"][0] for i in range(11)]
    assert np.array_equal(batch["logits"], np.stack(alone))
    assert predictor({"image": images[:0]})["logits"].shape == (0, 4)


@pytest.mark.parametrize("name", ["first", "dynamic"])
def test_a_row_that_fails_is_set_aside(folder: Path, name: str) -> None:
    images = make_images(11)
    images[5] = np.nan  # no failure
    rows = np.empty(11, object)
    rows[:] = list(images)
    rows[3], rows[7], rows[8] = images[3, :, :5], None, "text"
    predictor = _predictor(folder, name, keep=())
    batch, whole = predictor({"image": rows}), predictor({"image": images})
    assert list(batch) == ["logits", "error"]
    assert np.flatnonzero(batch["error"] != None).tolist() == [3, 7, 8]  # noqa: E711
    assert "5, expected 8" in batch["error"][3] or "size 5 is outside 8" in batch["error"][3]
    assert (
        batch["error"][7] == "InvalidArgumentError: input image: found NoneType, expected float32"
    )
    good = [0, 1, 2, 4, 5, 6, 9, 10]
    assert np.array_equal(batch["logits"][good], whole["logits"][good], equal_nan=True)
    assert np.isnan(batch["logits"][5]).all()
    assert not batch["logits"][[3, 7, 8]].any()
    with pytest.raises(pteron.InvalidArgumentError, match="found NoneType"):
        _predictor(folder, name, error_column=None)({"image": rows[7:8]})


def test_rows_of_several_sizes(folder: Path) -> None:
    """Of a program with a second dynamic dimension; one index is outside the table."""
    predictor = _predictor(folder, "tokens", inputs={"ids": "tokens"})
    rows = np.empty(5, object)
    rows[:] = [np.array(row) for row in ([1, 2], [3], [4, 99], [5, 6], [7] * 7)]
    batch = predictor({"tokens": rows, "scale": np.arange(5)})
    assert [error is None for error in batch["error"]] == [True, True, False, True, False]
    shapes = [row.shape for row in batch["output_0"]]
    assert shapes == [(2, 4), (1, 4), (0, 0), (2, 4), (0, 0)]
    alone = predictor({"tokens": np.array([[5, 6]]), "scale": np.array([3])})
    assert np.array_equal(alone["output_0"][0], batch["output_0"][3])


def test_values_that_a_dtype_cannot_hold(folder: Path) -> None:
    predictor = _predictor(folder, "tokens")
    ids = np.array([[1], [2**63]], np.uint64)
    errors = predictor({"ids": ids, "scale": np.ones(2)})["error"]
    assert errors.tolist() == [
        None,
        "InvalidArgumentError: input ids: a value that int64 cannot hold",
    ]
    scales = np.array([1.0, -1e300, np.inf, np.nan])
    errors = predictor({"ids": np.ones((4, 1), np.int32), "scale": scales})["error"]
    refused = "InvalidArgumentError: input scale: a value that float32 cannot hold"
    assert errors.tolist() == [None, refused, None, None]
    errors = predictor({"ids": np.array([[1.5]]), "scale": np.ones(1)})["error"]
    assert errors.tolist() == ["InvalidArgumentError: input ids: found float64, expected int64"]


def test_columns_that_are_missing_or_taken(folder: Path) -> None:
    image = {"image": make_images(1)}
    for options, batch, message in (
        ({}, {"picture": make_images(1)}, "no column 'image' among 'picture'"),
        ({"keep": ["id"]}, image, "no column 'id' among 'image'"),
        ({"error_column": "logits"}, image, "has an output 'logits'"),
    ):
        with pytest.raises(pteron.InvalidArgumentError, match=message):
            _predictor(folder, "first", **options)(batch)


def test_a_device_that_fails_is_no_fault_of_the_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pteron.ray import serving

    predictor, image = _predictor(folder, "first"), {"image": make_images(1)}
    replica = serving.Replica(predictor, max_batch_size=4, batch_wait_s=0)

    def fails(*_: Any) -> Any:
        raise pteron.BackendError("the device is gone")

    with monkeypatch.context() as patch:
        patch.setattr(predictor.rows(), "_call", fails)
        with pytest.raises(pteron.BackendError):
            predictor({"image": make_images(3)})
        with pytest.raises(pteron.BackendError):
            replica._run([image])
        with pytest.raises(pteron.BackendError, match="gone"):
            replica.check_health()
    replica._run([image])
    replica.check_health()


def test_a_file_that_was_replaced_is_loaded_again(folder: Path, tmp_path: Path) -> None:
    path, images = tmp_path / "model.pte", make_images(2)
    predictor = pteron.ray.Predictor(path)
    for seed, name in enumerate(("first", "second")):
        shutil.copy(folder / f"{name}.pte", tmp_path / "new")
        (tmp_path / "new").rename(path)
        logits = predictor({"image": images})["logits"]
        np.testing.assert_allclose(logits, eager(seed, images), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "message"), [("count", r"has state \(total\)"), ("sum", "no batch dimension")]
)
def test_programs_without_batch_or_with_state(folder: Path, name: str, message: str) -> None:
    with pytest.raises(pteron.NotSupportedError, match=message):
        _predictor(folder, name)({"x": np.ones((2, 2), np.float32)})


def _dataset(n: int) -> Any:
    import ray.data

    images = make_images(n)
    rows = [{"id": i, "image": images[i]} for i in range(n)]
    return ray.data.from_items(rows, override_num_blocks=n // 20)


def test_a_worker_that_is_killed_loses_no_row(cluster: None, folder: Path) -> None:
    import ray.data

    class Watched(pteron.ray.Predictor):
        def __call__(self, batch: Any) -> Any:
            time.sleep(0.1)  # so that batches are left when the worker is killed
            n = len(batch["id"])
            kb = dict.fromkeys(("Shared_Clean", "Shared_Dirty", "Anonymous"), 0)
            results, inside = super().__call__(batch), False
            with open("/proc/self/smaps") as maps:
                for line in maps:
                    key, value = line.split()[:2]
                    if not key.endswith(":"):
                        inside = line.rstrip().endswith(".pte")
                    elif inside and key[:-1] in kb:
                        kb[key[:-1]] += int(value)
            threads = int(os.environ["OMP_NUM_THREADS"])
            about = {"pid": os.getpid(), "threads": threads, **kb}
            return {**results, **{name: np.full(n, value) for name, value in about.items()}}

    path = folder / "for the workers.pte"  # which this process does not map
    shutil.copy(folder / "first.pte", path)
    results = _dataset(400).map_batches(
        Watched,
        fn_constructor_args=(path,),
        compute=ray.data.ActorPoolStrategy(size=2),
        batch_size=10,
        num_cpus=1,
    )
    rows: list[dict[str, Any]] = []
    for row in results.iter_rows():
        if not rows:
            os.kill(int(row["pid"]), signal.SIGKILL)
        rows.append(row)
    assert sorted(row["id"] for row in rows) == list(range(400))
    assert len({row["pid"] for row in rows}) == 3  # two, and the one that Ray started instead
    assert {row["threads"] for row in rows} == {1}
    # The two that ran at a time on a node share all pages of the file.
    assert {row["Anonymous"] for row in rows} == {0}
    shared = max(row["Shared_Clean"] + row["Shared_Dirty"] for row in rows)
    assert shared >= path.stat().st_size / 1024 * 0.9
    images = make_images(400)
    np.save(folder / "images.npy", images)
    files = [str(folder / "first.pte"), str(folder / "images.npy"), str(folder / "alone.npy")]
    subprocess.run(
        [sys.executable, "-c", _ALONE, *files],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    alone = np.load(folder / "alone.npy")
    assert all(np.array_equal(row["logits"], alone[row["id"]]) for row in rows)


@pytest.mark.parametrize("batch_format", ["pandas", "pyarrow"])
def test_batches_of_other_libraries(cluster: None, folder: Path, batch_format: str) -> None:
    import ray.data

    images = make_images(20)
    rows: list[Any] = [{"name": f"row {i}", "n": i, "image": images[i]} for i in range(20)]
    rows[5]["image"] = images[5, :, :5]
    rows[6]["name"] = None
    predictor = pteron.ray.Predictor(folder / "first.pte", keep=["name", "n"])
    dataset = ray.data.from_items(rows).map_batches(predictor, batch_format=batch_format)
    found = sorted(dataset.take_all(), key=lambda row: row["n"])
    assert [set(row) for row in found] == [{"name", "n", "logits", "error"}] * 20
    assert [row["name"] for row in found] == [row["name"] for row in rows]
    assert [row["n"] for row in found if row["error"]] == [5]
    expected = eager(0, images)
    expected[5] = 0
    logits = np.stack([row["logits"] for row in found])
    np.testing.assert_allclose(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["first", "dynamic"])
def test_several_devices_of_a_process(folder: Path, name: str) -> None:
    """Their names mean nothing to a program for the CPU: two methods, on two threads."""
    images = make_images(64)
    images[9] = np.nan
    rows = np.empty(64, object)
    rows[:] = list(images)
    rows[3] = images[3, :, :5]
    two = _predictor(folder, name, device=["cuda:0", "cuda:1"], keep=())
    one = _predictor(folder, name, keep=())
    assert len(two.rows()._methods) == 2
    for _ in range(20):
        found, expected = two({"image": rows}), one({"image": rows})
        assert np.array_equal(found["logits"], expected["logits"], equal_nan=True)
        assert found["error"].tolist() == expected["error"].tolist()
    assert two({"image": images[:1]})["logits"].shape == (1, 4)


def test_a_device_of_several_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are not called faulty."""
    predictor = _predictor(folder, "first", device=["cuda:0", "cuda:1"])
    rows, call, barrier = predictor.rows(), predictor.rows()._call, threading.Barrier(2)

    def fails(method: Any, *arguments: Any) -> Any:
        if len(seen) < 2:  # each has a part
            seen.add(id(method))
            barrier.wait(timeout=60)
        if method is rows._methods[1]:
            raise pteron.BackendError("the device is gone")
        return call(method, *arguments)

    seen = set[int]()
    monkeypatch.setattr(rows, "_call", fails)
    with pytest.raises(pteron.BackendError, match="gone"):
        predictor({"image": make_images(16)})
