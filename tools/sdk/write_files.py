"""Writes headers and other files of the SDK into a folder.

Arguments, one a line in a file: folder, version, the number of headers to start from, their
names, and then pairs of a path and a file. Of files `pteron/...`, which are headers, those are
written that the headers to start from include.
"""

import re
import sys
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(pteron/[^"]+)"', re.MULTILINE)


def main() -> None:
    lines = Path(sys.argv[1].removeprefix("@")).read_text(encoding="utf-8").splitlines()
    folder, version, count, *rest = lines
    headers, pairs = rest[: int(count)], rest[int(count) :]
    files = dict(zip(pairs[::2], map(Path, pairs[1::2]), strict=True))
    for name in with_included(headers, files):
        _write(Path(folder, "include", name), files[name].read_text(encoding="utf-8"))
    for name, file in files.items():
        if not name.startswith("pteron/"):
            text = file.read_text(encoding="utf-8")
            _write(Path(folder, name), text.replace("@VERSION@", version))


def with_included(names: list[str], files: dict[str, Path]) -> list[str]:
    """The headers, and those that they include, sorted."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        if name not in files:
            sys.exit(
                f"no header {name}: add the target that has it to the deps of //tools/sdk:files"
            )
        found.add(name)
        left += _INCLUDE.findall(files[name].read_text(encoding="utf-8"))
    return sorted(found)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
