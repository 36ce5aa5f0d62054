"""Where the time of one call went."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    import os
    from typing import Any

#: Kinds of rows that other rows are inside of.
_OUTER = ("method", "delegate")


class Profile:
    """What `Method.profile()` recorded. `print(profile)` shows a table.

    docs/profiling.md describes all fields.

    Attributes:
        outputs: what the call returned; None if it failed.
        trace: Chrome's trace format, what `save()` writes.
    """

    def __init__(self, trace: str, outputs: Any = None) -> None:
        import json

        self.outputs = outputs
        self.trace = trace
        self._events = json.loads(trace)["traceEvents"]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Events in the order in which they began: dicts of `name`, `kind` ("method", "delegate",
        "kernel", "compiled", "shim", "move", "jump"), `op`, `module`, `source`, `start_us`,
        `dur_us`, `thread`, `stream` (of a GPU, else ""), `shapes`, `bytes`, `threads`, `cpu_us`.
        """
        return [
            {
                "name": event["name"],
                "start_us": event["ts"],
                "dur_us": event["dur"],
                "thread": event["tid"],
                **event["args"],
            }
            for event in sorted(self._events, key=lambda event: event.get("ts", 0))
            if event["ph"] == "X"
        ]

    @property
    def total_us(self) -> float:
        """Of the method."""
        return sum(row["dur_us"] for row in self.rows if row["kind"] == "method")

    @property
    def memory(self) -> list[dict[str, Any]]:
        """Values of counters over time: dicts of `name`, `time_us` and `value`."""
        return [
            {"name": event["name"], "time_us": event["ts"], "value": event["args"]["value"]}
            for event in self._events
            if event["ph"] == "C"
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes Chrome's trace format, for https://ui.perfetto.dev and chrome://tracing.

        The file is written whole or not at all.
        """
        import os

        temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(self.trace)
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.remove(temporary)
            raise

    def table(self, limit: int = 40) -> str:
        """What was called, by time; at most `limit` lines of them."""
        rows = self.rows
        total = self.total_us
        # A GPU's times replace those of launches.
        streams = {row["name"] for row in rows if row["stream"]}
        leaves = [
            row
            for row in rows
            if row["kind"] not in _OUTER and (row["stream"] or row["name"] not in streams)
        ]
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in leaves:
            key = tuple(str(row[k]) for k in ("name", "module", "source", "shapes", "stream"))
            groups.setdefault(key, []).append(row)

        def line(us: float, cpu: str, threads: str, calls: str, name: str, *rest: str) -> str:
            share = f"{100 * us / total:.1f}%" if total else ""
            texts = "  ".join(text for text in rest if text)
            return f"{us:>11.1f} {share:>6} {cpu:>10} {threads:>7} {calls:>5}  {name}  {texts}"

        def time_of(group: list[dict[str, Any]]) -> float:
            return sum(row["dur_us"] for row in group)

        ordered = sorted(groups.values(), key=time_of, reverse=True)
        lines = [f"{'time us':>11} {'share':>6} {'cpu us':>10} {'threads':>7} {'calls':>5}  name"]
        for group in ordered[:limit]:
            row = group[0]
            lines.append(
                line(
                    time_of(group),
                    f"{sum(r['cpu_us'] for r in group):.1f}",
                    str(max(r["threads"] for r in group)),
                    str(len(group)),
                    row["name"],
                    *(row[k] for k in ("op", "module", "source", "shapes", "stream")),
                )
            )
        if rest := ordered[limit:]:
            us = sum(map(time_of, rest))
            lines.append(line(us, "", "", str(sum(map(len, rest))), f"{len(rest)} others"))
        inner = [row for row in rows if row["kind"] not in _OUTER and not row["stream"]]
        on_host = sum(row["dur_us"] for row in inner)
        lines.append(line(total - on_host, "", "", "", "between calls: checks, allocation, copies"))
        lines.append(line(total, "", "", "", "in all"))
        return "\n".join(text.rstrip() for text in lines)

    def __str__(self) -> str:
        return self.table()
