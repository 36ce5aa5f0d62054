"""Runs a bundle on the machine with the GPU: `python3 run.py --output=FOLDER`.

Unpacks the archive beside this file (once) and starts its tools/gpu/session.py.
"""

import hashlib
import os
import shutil
import sys
import tarfile
from pathlib import Path

ARCHIVE = "tree.tar.xz"


def unpack(folder: Path) -> Path:
    """The unpacked bundle in `folder`; unpacked only once."""
    archive, tree = folder / ARCHIVE, folder / "tree"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    mark = tree / ".unpacked"
    if mark.exists() and mark.read_text() == digest:
        return tree
    partial = folder / f"tree.partial.{os.getpid()}"
    with tarfile.open(archive) as packed:
        # Python 3.11.3 and earlier have no filters.
        packed.extraction_filter = getattr(tarfile, "tar_filter", None)
        packed.extractall(partial)
    (partial / ".unpacked").write_text(digest)
    shutil.rmtree(tree, ignore_errors=True)
    partial.rename(tree)
    return tree


def main() -> None:
    tree = unpack(Path(__file__).resolve().parent)
    sys.path.insert(0, str(tree))
    from absl import app

    from tools.gpu import session

    app.run(session.main)


if __name__ == "__main__":
    main()
