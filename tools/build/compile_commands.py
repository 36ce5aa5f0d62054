"""Writes compile_commands.json to the checkout, for clangd and other tools.

    tools/bazel run //tools/build:compile_commands                  # all of it
    tools/bazel run //tools/build:compile_commands -- //runtime/... # a part

Generated headers exist after a build.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Options of GCC that clang does not know.
_GCC_ONLY = frozenset({"-fno-canonical-system-headers"})
_EXTERNAL = re.compile(r"^(-I|-isystem|-iquote)?(?=external/)")


def commands(
    actions: Iterable[dict[str, Any]], checkout: Path, execution_root: Path
) -> list[dict[str, Any]]:
    """Entries of compile_commands.json.

    Args:
        actions: compile actions, as Bazel's aquery describes them.
        checkout: where a person opens the sources.
        execution_root: where the actions' paths begin.
    """
    entries = {}
    for action in actions:
        # The execution root has only those other repositories that the last build needed.
        arguments = [
            _EXTERNAL.sub(rf"\g<1>{execution_root.parents[1]}/", option)
            for option in action["arguments"]
            if option not in _GCC_ONLY
        ]
        source = arguments[arguments.index("-c") + 1]
        if source in entries:  # compiled for another target, too
            continue
        directory = execution_root if source.startswith("bazel-out/") else checkout
        entries[source] = {
            "directory": str(execution_root),
            "file": str(directory / source),
            "arguments": arguments,
        }
    return list(entries.values())


def main(scope: list[str]) -> None:
    checkout = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])

    def bazel(*arguments: str) -> str:
        command = [str(checkout / "tools/bazel"), *arguments]
        return subprocess.run(
            command, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    query = f'mnemonic("CppCompile", {" + ".join(scope or ["//..."])})'
    actions = json.loads(bazel("aquery", query, "--output=jsonproto")).get("actions", [])
    found = commands(actions, checkout, Path(bazel("info", "execution_root").strip()))
    path = checkout / "compile_commands.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{path}: {len(found)} files")


if __name__ == "__main__":
    main(sys.argv[1:])
