"""`pteron inspect --html`: a program as one HTML page."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pteron.command import program_file, trace_file
from pteron.command.html_page import (
    Html,
    bar,
    cells,
    element,
    joined,
    more,
    page,
    picture,
    scrolled,
    section,
    table,
)
from pteron.command.usage import human_nbytes
from pteron.exir._serialize import schema
from pteron.exir._serialize.container import Chunks
from pteron.exir._serialize.model_graph import GraphNode
from pteron.exir.graph.scalar_types import scalar_type_by_number
from pteron.runtime import Program

_STORED = ("weight", "buffer", "constant")
_LANE, _ROW, _MOST_LANES = 12, 26, 40  # pixels, pixels, lanes of a row


def write(path: Path, program: Program, file: Path, trace: str | None, check: str | None) -> None:
    """Writes the page, whole or not at all.

    Args:
      path: of the page.
      program: opened from `file`, which has checked it.
      trace: a Chrome trace of it, or None.
      check: what `pteron compare --json` printed, or None.

    Raises:
      OSError: a file cannot be read or written.
      ValueError: one is damaged.
    """
    further = []
    if trace is not None:
        further.append(("Profile", trace_file.read(trace)))
    if check is not None:
        further.append(("Check", _check(Path(check))))
    tables, graphs = program_file.tables_of(file)
    parts = [
        (f"Method {method.name}", _method(method, graphs.get(method.name), f"n{i}_"))
        for i, method in enumerate(tables.methods)
    ]
    parts.append(("Weights", _weights([node for graph in graphs.values() for node in graph])))
    parts += [("Contents", _contents(tables)), *further]
    parts.append(("Description", element("pre", program.describe())))
    sections = [(name, section(name, content)) for name, content in parts]
    text = page(f"{file.name}, {human_nbytes(file.stat().st_size)}", sections)
    Chunks([memoryview(text.encode())]).save(path)


# ---- One method.


def _method(method: schema.Method, graph: list[GraphNode] | None, prefix: str) -> Html:
    names = _value_names(method)
    values = [
        [kind, names[index], _value(method.values[index].value)]
        for kind, indices in (("input", method.inputs), ("output", method.outputs))
        for index in indices
    ]
    parts = [element("h3", "Inputs and outputs"), table(["", "name", "value"], values)]
    calls = list(_calls(method))
    if graph is None:
        note = "The file has no graph of the model, so these are its instructions."
        parts += [element("h3", "Instructions"), element("p", note)]
        graph = _instructions(method, calls)
    else:
        parts.append(element("h3", "Graph"))
    parts.append(_rows(graph, [delegate.id for delegate in method.delegates], prefix))
    parts += [element("h3", "Memory plan"), *_memory(method, calls, names)]
    return joined(parts)


def _value_names(method: schema.Method) -> list[str]:
    names = [f"value {i}" for i in range(len(method.values))]
    for i, item in enumerate(method.values):
        extra = item.value.extra if isinstance(item.value, schema.Tensor) else None
        if extra is not None and extra.fully_qualified_name:
            names[i] = extra.fully_qualified_name
    types = method.container_types
    for indices, given in (
        (method.outputs, types.output_names if types else None),
        (method.inputs, types.input_names if types else None),
    ):
        for index, name in zip(indices, given or (), strict=False):
            names[index] = name
    return names


def _value(value: schema.Value) -> str:
    if isinstance(value, schema.Tensor):
        bound = "" if value.shape_dynamism is schema.ShapeDynamism.STATIC else "<="
        sizes = ", ".join(f"{bound}{size}" for size in value.sizes)
        return f"{scalar_type_by_number(value.scalar_type).torch_name}[{sizes}]"
    shown = next(iter(vars(value).values()), "")
    return f"{type(value).__name__} {shown}"


def _calls(method: schema.Method) -> Iterator[tuple[str, list[int]]]:
    """The name and the values of each instruction."""
    for instruction in method.chains[0].instructions if method.chains else ():
        call = instruction.call
        if isinstance(call, schema.KernelCall):
            operator = method.operators[call.operator_index]
            yield ".".join(filter(None, (operator.name, operator.overload))), call.args
        elif isinstance(call, schema.DelegateCall):
            yield method.delegates[call.delegate_index].id, call.args
        elif isinstance(call, schema.MoveCall):
            yield "move", [call.from_index, call.to_index]
        elif isinstance(call, schema.JumpFalseCall):
            yield f"jump to {call.destination} if false", [call.condition_index]
        else:
            yield "free", [call.value_index]


def _instructions(method: schema.Method, calls: list[tuple[str, list[int]]]) -> list[GraphNode]:
    """The instructions as a graph: a value comes from the last one before that has it."""
    nodes = [
        GraphNode(name, "input", shapes=[_value(method.values[index].value)])
        for index, name in ((i, _value_names(method)[i]) for i in method.inputs)
    ]
    last = {index: position for position, index in enumerate(method.inputs)}
    for position, (name, args) in enumerate(calls):
        tensors = [i for i in args if isinstance(method.values[i].value, schema.Tensor)]
        inputs = sorted({last[i] for i in tensors if i in last})
        shapes = [_value(method.values[i].value) for i in tensors]
        last.update(dict.fromkeys(tensors, len(nodes)))
        nodes.append(GraphNode(f"instruction {position}", name, inputs, shapes))
    return nodes


def _rows(nodes: Sequence[GraphNode], backends: Sequence[str], prefix: str) -> Html:
    """A row for each node but stored tensors, with the edges drawn on the left.

    Not a table, whose rows a browser lays out all at once.
    """
    shown = [i for i, node in enumerate(nodes) if node.op not in _STORED]
    edges, width = _edges(nodes, shown)
    heads = ["", "operator", "shape", "bytes", "module", "source", "reads"]
    columns = [f"{width + 14}px", *(f"{size}rem" for size in (20, 16, 6, 16, 10, 24))]
    per_delegate = Counter(nodes[i].delegate for i in shown)
    delegate, rows = -1, [element("div", *cells("columnheader", heads), role="row", class_="heads")]
    for i, edge in zip(shown, edges, strict=True):
        node = nodes[i]
        if node.delegate != delegate:
            delegate = node.delegate
            backend = backends[delegate] if 0 <= delegate < len(backends) else "unknown"
            name = f"delegate {delegate}, {backend}, {per_delegate[delegate]} nodes"
            text = "outside delegates" if delegate < 0 else name
            rows.append(element("div", *cells("cell", [text]), role="row", class_="head"))
        reads = joined(
            element("span", nodes[j].name)
            if nodes[j].op in _STORED
            else element("a", nodes[j].name, href=f"#{prefix}{j}")
            for j in node.inputs
        )
        kind = "input" if node.op == "input" else "kernel" if node.delegate < 0 else "call"
        title = node.name if node.op == "input" else node.op
        size = human_nbytes(node.nbytes) if node.nbytes else ""
        values = [edge, title, "; ".join(node.shapes), size, node.module, node.source, reads]
        shape = cells("cell", values)
        rows.append(element("div", *shape, role="row", class_=kind, id=f"{prefix}{i}"))
    label = f"graph of {len(shown)} nodes"
    style = f"--columns:{' '.join(columns)};--width:calc({' + '.join(columns)})"
    return scrolled(label, element("div", *rows, role="table", aria_label=label), "graph", style)


def _edges(nodes: Sequence[GraphNode], shown: Sequence[int]) -> tuple[list[Html], int]:
    """A picture for each row, and their width. A value that is read later has a lane."""
    last = {j: i for i in shown for j in nodes[i].inputs}
    lanes: list[int | None] = []
    pictures = []
    for i in shown:
        read = [j for j in nodes[i].inputs if j in lanes]
        before = {j: lanes.index(j) for j in read}
        lanes = [None if j is not None and last[j] == i else j for j in lanes]
        through = [x for x, j in enumerate(lanes) if j is not None]
        free = [x for x, j in enumerate(lanes) if j is None]
        mine = next((x for x in before.values() if x in free), free[0] if free else len(lanes))
        lines = [f"M{_x(x)} 0V{_ROW}" for x in through]
        middle = _ROW // 2
        for x in before.values():
            lines.append(f"M{_x(x)} 0C{_x(x)} {middle} {_x(mine)} 0 {_x(mine)} {middle}")
        if i in last and mine < _MOST_LANES:
            lanes += [None] * (mine + 1 - len(lanes))
            lanes[mine] = i
            lines.append(f"M{_x(mine)} {middle}V{_ROW}")
        while lanes and lanes[-1] is None:
            lanes.pop()
        size = _LANE * (max([mine, *through, *before.values()]) + 1)
        dot = element("circle", cx=_x(mine), cy=middle, r=4)
        path = element("path", d="".join(lines))
        shape = element("svg", path, dot, width=size, height=_ROW, aria_hidden="true")
        pictures.append((shape, size))
    return [shape for shape, _ in pictures], max((size for _, size in pictures), default=0)


def _x(lane: int) -> int:
    return lane * _LANE + _LANE // 2


def _memory(
    method: schema.Method, calls: list[tuple[str, list[int]]], names: list[str]
) -> Iterator[Html]:
    """A picture of each pool: instructions from left to right, addresses from the bottom up."""
    end = max(1, len(calls))
    life: dict[int, tuple[int, int]] = dict.fromkeys(method.inputs, (0, 0))
    for position, (_, args) in enumerate(calls):
        for index in args:
            life[index] = life.get(index, (position, position))[0], position
    for index in method.outputs:
        life[index] = life.get(index, (0, 0))[0], end - 1
    pools: dict[int, list[tuple[int, int, int, int, int]]] = {}
    for index, item in enumerate(method.values):
        tensor = item.value
        if isinstance(tensor, schema.Tensor) and tensor.allocation is not None:
            is_state = tensor.extra is not None and bool(tensor.extra.fully_qualified_name)
            first, last = (0, end - 1) if is_state else life.get(index, (0, end - 1))
            place = index, first, last, tensor.allocation.offset, _nbytes(tensor)
            pools.setdefault(tensor.allocation.memory_id, []).append(place)
    if not pools:
        yield element("p", "No memory is planned: inputs and outputs are the caller's.")
    devices = {d.buffer_index: d for d in method.buffer_devices or ()}
    for pool, places in sorted(pools.items()):
        size = max(1, method.buffer_sizes[pool])
        device = devices.get(pool)
        where = f" on {device.device_type.name}:{device.device_index}" if device else ""
        title = f"Pool {pool}{where}: {human_nbytes(size)}; tensors: {len(places)}"
        title += f"; instructions: {len(calls)}"
        shapes = [
            element(
                "rect",
                element("title", f"{names[i]} {_value(method.values[i].value)}"),
                x=f"{1000 * first / end:.2f}",
                width=f"{1000 * (last + 1 - first) / end:.2f}",
                y=f"{200 * (1 - (offset + nbytes) / size):.2f}",
                height=f"{200 * nbytes / size:.2f}",
            )
            for i, first, last, offset, nbytes in places
        ]
        rows = [
            [names[i], _value(method.values[i].value), human_nbytes(nbytes), offset, first, last]
            for i, first, last, offset, nbytes in sorted(places, key=lambda p: (p[1], p[3]))
        ]
        yield element("p", title)
        yield picture(title, 1000, 200, *shapes, stretched=True)
        heads = ["tensor", "value", "size #", "offset #", "first #", "last #"]
        yield more("as a table", table(heads, rows))
    if len(calls) == sum(name in {d.id for d in method.delegates} for name, _ in calls):
        text = "A delegate's own temporary memory is not planned in the file; a trace shows it."
        yield element("p", text)


def _nbytes(tensor: schema.Tensor) -> int:
    nbytes = scalar_type_by_number(tensor.scalar_type).nbytes
    for size in tensor.sizes:
        nbytes *= size
    return nbytes


# ---- The whole program.


def _weights(nodes: Sequence[GraphNode]) -> Html:
    stored = {node.name: node for node in nodes if node.op in _STORED}
    ordered = sorted(stored.values(), key=lambda node: (-node.nbytes, node.name))
    if not ordered:
        return element("p", "None that the file names; see its contents.")
    total = sum(node.nbytes for node in ordered)
    largest = max(1, ordered[0].nbytes)
    rows = [
        [
            node.name,
            node.op,
            "; ".join(node.shapes),
            human_nbytes(node.nbytes),
            bar(node.nbytes / largest),
        ]
        for node in ordered
    ]
    text = f"{len(ordered)} tensors of the model, {human_nbytes(total)}, as the model has them."
    return joined([element("p", text), table(["name", "kind", "shape", "size #", ""], rows)])


def _contents(tables: schema.Program) -> Html:
    keys: dict[int, list[str]] = {}
    for item in tables.named_data or ():
        keys.setdefault(item.segment_index, []).append(item.key)
    if tables.constant_segment is not None:
        keys.setdefault(tables.constant_segment.segment_index, []).append("constants")
    for part in tables.mutable_segments or ():
        keys.setdefault(part.segment_index, []).append("initial values of state")
    for method in tables.methods:
        for i, delegate in enumerate(method.delegates):
            if delegate.processed.location is schema.DelegateDataLocation.SEGMENT:
                what = f"delegate {i} of {method.name}, {delegate.id}"
                keys.setdefault(delegate.processed.index, []).append(what)
    largest = max([1, *(segment.size for segment in tables.segments)])
    rows = [
        [
            " = ".join(keys.get(i, ["unused"])),
            human_nbytes(segment.size),
            segment.offset,
            bar(segment.size / largest),
        ]
        for i, segment in sorted(enumerate(tables.segments), key=lambda item: -item[1].size)
    ]
    return table(["segment", "size #", "offset #", ""], rows)


def _check(path: Path) -> Html:
    """What `pteron compare --json` found."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        rows = [
            [
                method,
                output["index"],
                f"{output['error']:.2e}",
                f"{output['limit']:.2e}",
                "differs" if output["error"] > output["limit"] else "equal",
            ]
            for method, report in found["methods"].items()
            for output in report["outputs"]
        ]
        origin = found["origin"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"--check: {path} is not what `pteron compare --json` prints: {error!r}"
        ) from error
    heads = ["method", "output #", "largest difference #", "limit #", ""]
    return joined([table(heads, rows), element("pre", origin) if origin else Html()])
