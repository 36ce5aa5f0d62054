"""Sources compile without precompiled headers: they include what those would give them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.lint import source_tree

_PRECOMPILED = "tools/build/std_headers_to_precompile.h"

# What is looked for of each header, after `std::`. Those that others include too are left out.
_NAMES = {
    "algorithm": "all_of any_of binary_search clamp copy copy_n count count_if equal_range fill "
    "fill_n find find_if is_sorted lower_bound max_element min_element minmax none_of nth_element "
    "partial_sort remove_if replace reverse rotate sort stable_sort transform unique upper_bound",
    "array": "array",
    "cstring": "memchr memcmp memcpy memmove memset strchr strcmp strlen strncmp strrchr strstr",
    "memory": "addressof make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock",
    "optional": "make_optional nullopt optional",
    "string": "stod stoi stoll string to_string",
    "string_view": "string_view",
    "unordered_map": "unordered_map unordered_multimap",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+[<"]([^">]+)[>"]', re.MULTILINE)
# As [util.smartptr] and the like say; libraries agree on these.
_BRINGS = {"string": {"string_view"}}


@functools.cache
def _sources() -> dict[str, str]:
    files = source_tree.files(source_tree.root())
    wanted = {n: p for n, p in files.items() if n.endswith((".cpp", ".h", ".inc"))}
    return {name: path.read_text() for name, path in wanted.items()}


def included(name: str, sources: dict[str, str]) -> set[str]:
    """Standard headers, by name, that a file includes, also through other files of `sources`."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for header in _INCLUDE.findall(sources[file]):
            beside = str(Path(file).parent / header)
            for path in (header.removeprefix("pteron/"), beside):
                if path in sources:
                    waiting.append(path)
                    break
            else:
                found |= {header} | _BRINGS.get(header, set())
    return found


def missing(name: str, sources: dict[str, str]) -> Iterator[str]:
    """What a file uses of the precompiled headers and does not include, as `<header> for name`."""
    used = set(re.findall(r"\bstd::(\w+)\b", re.sub(r"//.*", "", sources[name])))
    has = included(name, sources)
    for header, names in _NAMES.items():
        for use in sorted(used.intersection(names.split())):
            if header not in has:
                yield f"<{header}> for std::{use}"


def test_every_source_includes_what_it_uses() -> None:
    sources = _sources()
    assert len(sources) > 300
    wanted = sources.keys() - {"tools/build/tests/test_precompiled_header.cpp"}
    faults = [f"{name}: #include {w}" for name in sorted(wanted) for w in missing(name, sources)]
    assert not faults, "\n".join(faults)


def test_names_are_those_of_precompiled_headers() -> None:
    precompiled = set(_INCLUDE.findall(_sources()[_PRECOMPILED]))
    assert set(_NAMES) <= precompiled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "std::vector<std::string> names;",
            ["<string> for std::string", "<vector> for std::vector"],
        ),
        ('#include "a/names.h"\nstd::vector<int> v; // std::mutex', []),
        ('#include "near.h"\nstd::string_view s;', []),
        ("#include <string>\nstd::string_view s; Error copy(); std::move(s);", []),
    ],
)
def test_what_is_missing(text: str, expected: list[str]) -> None:
    sources = {"a/x.cpp": text, "a/names.h": "#include <vector>", "a/near.h": "#include <string>"}
    assert list(missing("a/x.cpp", sources)) == expected
