"""Disables pattern-matcher rewrites that introduce unsupported operators."""

import contextlib
import functools
import inspect
from typing import Any

from pteron.backends.aoti.inductor.patches import Context, patched


def disable_patterns_of(modules: frozenset[str]) -> Context:
    """Pattern-matcher passes skip entries whose functions are defined in `modules`."""
    from torch._inductor.pattern_matcher import PatternMatcherPass

    apply = PatternMatcherPass.apply

    @functools.wraps(apply)
    def filtered_apply(self: PatternMatcherPass, *args: Any, **kwargs: Any) -> int:
        registered = self.patterns
        self.patterns = type(registered)(
            list,
            {
                key: kept
                for key, entries in registered.items()
                if (kept := [e for e in entries if not _origins(e) & modules])
            },
        )
        try:
            return apply(self, *args, **kwargs)
        finally:
            self.patterns = registered

    return patched(PatternMatcherPass, "apply", filtered_apply)


_ORIGINS: dict[int, tuple[Any, frozenset[str]]] = {}


def _origins(entry: Any) -> frozenset[str]:
    """Modules of the functions that `entry` calls."""
    known = _ORIGINS.get(id(entry))
    if known is not None and known[0] is entry:
        return known[1]
    seen: set[int] = set()
    found: set[str] = set()

    def visit(value: Any, depth: int) -> None:
        if id(value) in seen or depth > 3:
            return
        seen.add(id(value))
        if isinstance(value, functools.partial):
            visit(value.func, depth)
            for argument in (*value.args, *value.keywords.values()):
                visit(argument, depth + 1)
        elif inspect.isfunction(value):
            found.add(value.__module__)
            for cell in value.__closure__ or ():
                with contextlib.suppress(ValueError):
                    visit(cell.cell_contents, depth + 1)

    for attribute in ("handler", "extra_check", "normalize_args"):
        visit(getattr(entry, attribute, None), 0)
    origins = frozenset(found)
    _ORIGINS[id(entry)] = (entry, origins)
    return origins
