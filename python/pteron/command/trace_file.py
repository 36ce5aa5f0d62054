"""A Chrome trace of a program as part of a page: time by operator, and memory over time."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from pteron.command.html_page import Html, bar, element, joined, picture, table
from pteron.command.usage import human_nbytes

_ARGUMENTS = ("op", "module", "source", "shapes")
_SHOWN = 200  # rows


def read(path: str) -> Html:
    """OSError, or ValueError for a file that is no trace."""
    try:
        found = json.loads(Path(path).read_text())
        events = found["traceEvents"] if isinstance(found, dict) else found
        spans = [_span(event) for event in events if event.get("ph") == "X"]
        counts = [
            (event["name"], float(event["ts"]), float(event["args"]["value"]))
            for event in events
            if event.get("ph") == "C" and "value" in event["args"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"--trace: {path} is no Chrome trace: {error!r}; expected JSON with traceEvents"
        ) from error
    return joined([_times(spans), *_counters(counts)])


def _span(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event.get("args", {})
    return {
        "name": str(event["name"]),
        "start": float(event["ts"]),
        "duration": float(event["dur"]),
        "row": (str(event.get("pid")), str(event.get("tid"))),
        "nbytes": int(arguments.get("bytes", 0)),
        **{key: str(arguments.get(key, "")) for key in _ARGUMENTS},
    }


def _times(spans: list[dict[str, Any]]) -> Html:
    """Time of each kind of event without that of the events inside it."""
    own = [span["duration"] for span in spans]
    order = sorted(range(len(spans)), key=lambda i: (spans[i]["start"], -spans[i]["duration"]))
    open_by_row: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for i in order:
        enclosing = open_by_row[spans[i]["row"]]
        while enclosing and _end(spans[enclosing[-1]]) <= spans[i]["start"]:
            enclosing.pop()
        if enclosing:
            own[enclosing[-1]] -= spans[i]["duration"]
        enclosing.append(i)
    groups: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, span in enumerate(spans):
        groups[span["name"], *(span[key] for key in _ARGUMENTS)].append(i)
    ordered = sorted(groups.items(), key=lambda item: -sum(own[i] for i in item[1]))
    total = sum(own) or 1.0
    rows = []
    for (name, op, module, source, shapes), members in ordered[:_SHOWN]:
        time, nbytes = sum(own[i] for i in members), spans[members[0]]["nbytes"]
        size = human_nbytes(nbytes) if nbytes else ""
        rows.append(
            [
                name,
                f"{time / 1e3:.3f} ms",
                f"{100 * time / total:.1f} %",
                bar(time / total),
                len(members),
                op,
                module,
                source,
                shapes,
                size,
            ]
        )
    heads = [
        "event",
        "own time #",
        "share #",
        "",
        "calls #",
        "operator",
        "module",
        "source",
        "shapes",
        "bytes #",
    ]
    text = f"{len(spans)} events, {total / 1e3:.3f} ms; own time is without the events inside."
    if len(ordered) > _SHOWN:
        text += f" The {_SHOWN} longest of {len(ordered)} kinds."
    return joined([element("p", text), table(heads, rows)])


def _end(span: dict[str, Any]) -> float:
    return float(span["start"] + span["duration"])


def _counters(counts: list[tuple[str, float, float]]) -> list[Html]:
    """A curve for each counter."""
    pictures = []
    for name in dict.fromkeys(name for name, _, _ in counts):
        points = [(time, value) for of, time, value in counts if of == name]
        begin, most = points[0][0], max(value for _, value in points)
        scale = 1000 / ((points[-1][0] - begin) or 1.0)
        line, before = [], 0.0
        for time, value in points:
            x = scale * (time - begin)
            line += [f"{x:.2f},{_y(before, most)}", f"{x:.2f},{_y(value, most)}"]
            before = value
        title = f"{name} over time, at most {human_nbytes(most)}"
        curve = element("polyline", points=" ".join(line))
        pictures += [element("p", title), picture(title, 1000, 200, curve, stretched=True)]
    return pictures


def _y(value: float, most: float) -> str:
    return f"{198 - 190 * value / (most or 1.0):.2f}"
