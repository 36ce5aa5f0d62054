"""How a lock is made of pip's report."""

from typing import Any

from third_party.python import update_locks


def _item(name: str, *requires: str, url: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "version": "1", "requires_dist": list(requires)},
        "download_info": {"url": url, "archive_info": {"hashes": {"sha256": "ab"}}},
    }


def test_label() -> None:
    assert update_locks.label("Ruamel.yaml-Core__x") == "ruamel_yaml_core_x"


def test_imports_follow_the_extras_that_others_ask_for() -> None:
    items = {
        "app": _item("app", "kit[fast]", 'elsewhere; sys_platform == "nowhere"'),
        "kit": _item("kit", 'engine; extra == "fast"', 'docs; extra == "docs"'),
        "engine": _item("engine"),
        "docs": _item("docs"),
    }
    found = update_locks.imports(items, {})
    assert found == {"app": {"kit"}, "kit": {"engine"}, "engine": set(), "docs": set()}


def test_an_extra_that_is_not_asked_for_does_not_count() -> None:
    items = {
        "kit": _item("kit", 'engine; extra == "fast"', 'kit[fast]; extra == "all"'),
        "engine": _item("engine"),
    }
    assert update_locks.imports(items, {})["kit"] == set()


def test_an_extra_that_the_requirements_ask_for_counts() -> None:
    items = {
        "kit": {**_item("kit", 'engine; extra == "fast"'), "requested_extras": ["fast"]},
        "engine": _item("engine"),
    }
    assert update_locks.imports(items, {})["kit"] == {"engine"}


def test_imports_of_a_lock_below_count() -> None:
    below: dict[str, Any] = {"numpy": {}}
    assert update_locks.imports({"app": _item("app", "NumPy>=2")}, below) == {"app": {"numpy"}}


def test_wheel_file() -> None:
    url = "index/a/b/ruamel.yaml-0.19.1-py2.py3-none-manylinux_2_28_x86_64.whl"
    expected = ("py2.py3-none-manylinux_2_28_x86_64", "ab")
    assert update_locks.wheel_file(_item("ruamel.yaml", url=url)) == expected
