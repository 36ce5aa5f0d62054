"""Writes the archive of the SDK; equal files make an equal archive.

Arguments, one a line in a file: archive, the folder's name in it, a folder of files, and then pairs
of a path and a library.
"""

import gzip
import io
import sys
import tarfile
from pathlib import Path

from tools.sdk.run_path import with_own_run_path


def main() -> None:
    lines = Path(sys.argv[1].removeprefix("@")).read_text(encoding="utf-8").splitlines()
    archive, top, folder, *rest = lines
    contents = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in Path(folder).rglob("*")
        if path.is_file()
    }
    for name, library in zip(rest[::2], rest[1::2], strict=True):
        contents[name] = with_own_run_path(Path(library).read_bytes())
    with (
        open(archive, "wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name, data in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(data)
            entry.mode = 0o755 if ".so" in name else 0o644
            tar.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
