"""The repository `@source_tree` seen from Python: the checkout's source files, all of them."""

import os
import shutil
from pathlib import Path

_RENAMED = ".source"


def root() -> Path:
    """The directory of the files; a test names it in $SOURCE_TREE by the marker file in it."""
    return Path(os.environ["SOURCE_TREE"]).parent


def files(directory: Path) -> dict[str, Path]:
    """The files by their path from the checkout's root, as `a/BUILD.bazel`."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder, name)
            found[str(path.relative_to(directory)).removesuffix(_RENAMED)] = path
    return found


def copy(directory: Path, target: Path) -> None:
    """Copies the files to `target` under their own names."""
    for name, path in files(directory).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
