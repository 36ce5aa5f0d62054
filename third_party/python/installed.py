"""Says where a package lies that the interpreter of this program has.

    python -I installed.py <package> <package with a wheel of ours>...

Prints JSON: `python`, [major, minor]; `entries`, the path of each file and folder of the package
and of what it requires, by its name in site-packages, less the packages with wheels of ours; and
`watch`, a file that changes with the package's version. Exits with 1 and a text on stderr when the
package is not there.
"""

import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Collection


def label(name: str) -> str:
    """The name of a package's Bazel target."""
    return re.sub(r"[-_.]+", "_", name).lower()


def required(package: str, pinned: Collection[str]) -> list[importlib.metadata.Distribution]:
    """What is installed of the package and of all that it may require, less what is pinned.

    Raises:
        PackageNotFoundError: the package itself is not installed.
    """
    found = {label(package): importlib.metadata.distribution(package)}
    todo = list(found.values())
    while todo:
        for text in todo.pop().requires or ():
            # Whatever the marker says: what it does not ask for is rarely there, and does no harm.
            name = label(re.split(r"[^\w.-]", text, maxsplit=1)[0])
            if name in found or name in pinned:
                continue
            try:
                found[name] = importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            todo.append(found[name])
    return list(found.values())


def entries(distribution: importlib.metadata.Distribution) -> dict[str, str]:
    """The package's files and folders by their name in site-packages."""
    names = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    return {name: os.path.abspath(str(distribution.locate_file(name))) for name in sorted(names)}


def main() -> None:
    package, *pinned = sys.argv[1:]
    try:
        distributions = required(package, pinned)
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"{sys.executable} has no {package}. Install it there with pip, or choose a lock.")
    found = entries(distributions[0])
    info = [path for name, path in found.items() if name.endswith(".dist-info")]
    if not info:
        sys.exit(
            f"{sys.executable} has {package} without the list of its files that pip writes. Name "
            f"an environment where it was installed by pip."
        )
    for distribution in distributions[1:]:
        found.update(entries(distribution))
    facts = {"python": sys.version_info[:2], "entries": found, "watch": f"{info[0]}/METADATA"}
    json.dump(facts, sys.stdout)


if __name__ == "__main__":
    main()
