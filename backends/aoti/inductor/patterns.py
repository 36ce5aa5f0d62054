"""Disables pattern-matcher rewrites that introduce unsupported operators."""

from typing import Any

from pteron.backends.aoti.inductor.patches import Context, patched, wrapped


def disable_patterns_of(modules: frozenset[str]) -> Context:
    """Pattern-matcher passes skip entries whose functions are defined in `modules`."""
    from torch._inductor.pattern_matcher import PatternMatcherPass

    def apply_others(apply: Any, self: PatternMatcherPass, *args: Any, **kwargs: Any) -> Any:
        kept = type(self.patterns)(list)
        for key, entries in self.patterns.items():
            if others := [entry for entry in entries if modules.isdisjoint(_origins(entry))]:
                kept[key] = others
        with patched(self, "patterns", kept):
            return apply(self, *args, **kwargs)

    return wrapped(PatternMatcherPass, "apply", apply_others)


def _origins(entry: Any) -> set[str]:
    """Modules of the functions that `entry` calls, and of those that they were made with."""
    functions = [getattr(entry, name, None) for name in ("handler", "extra_check")]
    functions = [getattr(function, "func", function) for function in functions]  # of a partial
    cells = (
        cell for function in functions for cell in getattr(function, "__closure__", None) or ()
    )
    return {getattr(f, "__module__", "") for f in (*functions, *(c.cell_contents for c in cells))}
