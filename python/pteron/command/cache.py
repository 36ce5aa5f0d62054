"""Shows the cache of compiled code, shrinks it once, or clears it.

    pteron cache
    pteron cache --shrink_to=500
    pteron cache --clear

Lowering compiles nothing that is in it. It is in $PTERON_CACHE_DIR, by default in
$XDG_CACHE_HOME/pteron or ~/.cache/pteron. $PTERON_CACHE_MB is its limit, above which lowering
removes what was not used for longest (2048; 0: nothing is kept between processes).
"""

import collections
import json

from pteron.backends.aoti.object_cache import ObjectCache, danger_of, limit_megabytes, user_folder
from pteron.command.usage import UsageError, command_flags, only

FLAGS = command_flags()
FLAGS.boolean("clear", False, "Remove all of it.")
FLAGS.integer(
    "shrink_to", None, "Remove what was not used for longest, down to this many MiB.", lower_bound=0
)


def run(positional: list[str]) -> bool:
    only(positional)
    if FLAGS.clear and FLAGS.shrink_to is not None:
        raise UsageError("found --clear and --shrink_to; expected one of them")
    limit = limit_megabytes()
    folder = user_folder()
    if folder is None:
        raise UsageError("there is no home folder for a cache. try: set PTERON_CACHE_DIR")
    cache = ObjectCache(folder, limit << 20)
    before = sum(size for _, size, _ in cache.entries())
    if FLAGS.clear or FLAGS.shrink_to is not None:
        cache.shrink(0 if FLAGS.clear else FLAGS.shrink_to << 20)
    kinds: dict[str, int] = collections.Counter()
    for _, size, path in cache.entries():
        kinds[path.name.partition(".")[2]] += size
    report = {
        "folder": str(folder),
        "nbytes": sum(kinds.values()),
        "removed_nbytes": before - sum(kinds.values()),
        "limit_nbytes": limit << 20,
        "kinds": {kind: nbytes for kind, nbytes in sorted(kinds.items()) if nbytes},
        "refused": danger_of(folder) if folder.is_dir() else "",
    }
    print(json.dumps(report, indent=2) if FLAGS.json else _text(report))
    return True


def _text(report: dict[str, object]) -> str:
    kinds = report["kinds"]
    assert isinstance(kinds, dict)
    lines = [f"folder    {report['folder']}", f"holds     {_megabytes(report['nbytes'])}"]
    lines += [f"  .{kind:<8}{_megabytes(nbytes)}" for kind, nbytes in kinds.items()]
    lines.append(f"limit     {_megabytes(report['limit_nbytes'])}")
    if report["removed_nbytes"]:
        lines.append(f"removed   {_megabytes(report['removed_nbytes'])}")
    if report["refused"]:
        lines.append(f"not used  {report['refused']}")
    return "\n".join(lines)


def _megabytes(nbytes: object) -> str:
    assert isinstance(nbytes, int)
    return f"{nbytes / (1 << 20):.1f} MiB"
