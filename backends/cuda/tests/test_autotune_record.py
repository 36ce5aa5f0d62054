"""Records of tuning, and the cache folder that they are taken from. Needs no GPU."""

import os
import pathlib

import pytest

from pteron.backends.aoti import inductor
from pteron.backends.cuda import AutotuneRecord
from pteron.exir._serialize import schema
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir._serialize.program_file import ProgramData, serialize_program

_HERE = {"torch": "2.11.0", "triton": "3.6.0", "gpu": "NVIDIA H200"}
_FILES = {"ab/1.best_config": '{"XBLOCK": 64}', "cache/77": '{"cache": {}}'}


def test_survives_the_way_through_json() -> None:
    record = AutotuneRecord(_HERE, _FILES)
    assert AutotuneRecord.from_json(record.to_json()) == record
    assert "\n" not in record.to_json()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"made_with":{},"files":{"a":1}}'])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no record of tuning"):
        AutotuneRecord.from_json(text)


def test_records_of_different_machines_do_not_mix() -> None:
    other = AutotuneRecord({**_HERE, "gpu": "NVIDIA A100"}, {})
    with pytest.raises(ValueError, match="A100.*H200.*do not mix"):
        AutotuneRecord.merged([AutotuneRecord(_HERE, _FILES), other])


def test_says_what_it_does_not_cover() -> None:
    record = AutotuneRecord(_HERE, _FILES)
    assert record.missing(_FILES) == []
    changed = {**_FILES, "cache/77": "{}", "cd/2.kernel_perf": "0.1"}
    assert record.missing(changed) == ["cache/77", "cd/2.kernel_perf"]


def _program(folder: pathlib.Path, *records: AutotuneRecord) -> pathlib.Path:
    store = NamedDataStore()
    store.add_named_data("other_blob", b"not a record")
    for record in records:
        store.add_named_data(record.key(), record.to_json().encode())
    data = ProgramData(schema.Program(), named_data=store.get_named_data_store_output())
    path = folder / "model.pte"
    path.write_bytes(serialize_program(data).tobytes())
    return path


def test_is_read_from_a_program(tmp_path: pathlib.Path) -> None:
    record = AutotuneRecord(_HERE, _FILES)
    assert AutotuneRecord.of_program(_program(tmp_path, record)) == record


def test_a_program_without_one_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="model.pte carries no record"):
        AutotuneRecord.of_program(_program(tmp_path))


def test_the_cache_folder_is_fresh_and_put_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    before = str(tmp_path / "before")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", before)
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    with inductor.tuning({"ab/1.best_config": "replayed"}) as found:
        folder = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        assert (folder / "ab/1.best_config").read_text() == "replayed"
        (folder / "ab/2.kernel_perf").write_text("0.25")
        (folder / "ab/kernel.py").write_text("not measured")
        (folder / "cache").mkdir()
        (folder / "cache/digest").write_text("{}")
        assert os.environ["TRITON_CACHE_DIR"].startswith(str(folder))
    assert found == {
        "ab/1.best_config": "replayed",
        "ab/2.kernel_perf": "0.25",
        "cache/digest": "{}",
    }
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == before
    assert "TRITON_CACHE_DIR" not in os.environ
    assert not folder.exists()


def test_the_caches_are_put_back_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    before = str(tmp_path / "before")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", before)
    with pytest.raises(RuntimeError, match="lowering failed"), inductor.tuning({}):
        raise RuntimeError("lowering failed")
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == before


@pytest.mark.parametrize("name", ["../up.best_config", "/etc/x.best_config", "ab/kernel.py", "a"])
def test_a_record_writes_nothing_but_tuning_files(name: str) -> None:
    with pytest.raises(ValueError, match="the record is damaged"), inductor.tuning({name: ""}):
        pass
