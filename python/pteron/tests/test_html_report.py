"""`pteron inspect --html`: what is in the page, and what hostile files cannot do."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import tempfile
import zlib

import pytest

from pteron.command.html_report import write
from pteron.exir._serialize import model_graph, schema
from pteron.exir._serialize.model_graph import GraphNode
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir._serialize.program_file import ProgramData, serialize_program
from pteron.runtime import PteronError, Runtime

HOSTILE = "<script>document.title='owned'</script>\"'><img src=x onerror=alert(1)>\u202e"
VOID = {"meta"}


def tensor(sizes, pool=None, offset=0):
    allocation = None if pool is None else schema.AllocationInfo.at(pool, offset)
    return schema.EValue(
        schema.Tensor(6, sizes=sizes, dim_order=[*range(len(sizes))], allocation=allocation)
    )


def program_file(path, graph=None, name="forward", texts="x"):
    """A method of a copy, a call of a delegate and a copy; `graph` are its bytes in the file."""
    clone = schema.KernelCall(0, [0, 3, 1, 1])
    method = schema.Method(
        name=name,
        container_types=schema.ContainerTypes(input_names=[texts], output_names=["y"]),
        values=[
            tensor([2, 3]),
            tensor([2, 3], 1),
            tensor([2, 3], 1, 64),
            schema.EValue(schema.Null()),
        ],
        inputs=[0],
        outputs=[2],
        chains=[
            schema.Chain(
                instructions=[
                    schema.Instruction(clone),
                    schema.Instruction(schema.DelegateCall(0, [1, 2])),
                ]
            )
        ],
        operators=[schema.Operator("aten::clone", "out")],
        delegates=[schema.Delegate(texts, schema.DelegateData())],
        buffer_sizes=[0, 128],
    )
    store = NamedDataStore()
    if graph is not None:
        store.add_named_data(model_graph.KEY + name, graph)
    program = schema.Program(methods=[method], inline_delegate_data=[schema.InlineBytes(b"code")])
    data = ProgramData(program, named_data=store.get_named_data_store_output())
    serialize_program(data).save(path)
    return path


def report(path, trace=None, check=None):
    target = path.with_suffix(".html")
    write(target, Runtime.get().load_program(path), path, trace, check)
    return target.read_text()


def chain(count):
    nodes = [GraphNode("x", "input", shapes=["float32[2, 3]"], nbytes=24)]
    nodes.append(GraphNode("layer.weight", "weight", shapes=["float32[3, 3]"], nbytes=36))
    for i in range(2, count):
        reads = sorted({1, max(0, i - 1), max(0, i - 7)} - {1} or {0})
        nodes.append(
            GraphNode(f"add_{i}", "aten.add.Tensor", [*reads, 1] if i == 2 else reads,
                      ["float32[2, 3]"], 24, f"model.py:{i}", f"layers.{i}", 0)
        )  # fmt: skip
    return nodes


class Page(html.parser.HTMLParser):
    """Checks that a page is well-formed, refers to nothing outside and has one script."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open
        assert self.tags.count("script") == 1
        assert not {"img", "link", "iframe", "object", "base", "form", "image"} & set(self.tags)
        assert len(set(self.ids)) == len(self.ids)
        assert {link[:1] for link in self.links} == {"#"}
        assert {link[1:] for link in self.links} <= set(self.ids)
        assert not re.search(r"https?:|url\(|@import|//[a-z]", text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert not name.startswith("on") and name not in ("src", "srcdoc", "xlink:href")
            self.ids += [value] if name == "id" else []
            self.links += [value] if name == "href" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def browser(*arguments):
    """What chromium prints; skips without one."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    with tempfile.TemporaryDirectory(dir="/tmp") as home:  # a socket's path is short
        options = (*options, "--disable-dev-shm-usage", f"--user-data-dir={home}/profile")
        done = subprocess.run(
            [program, *options, *map(str, arguments)],
            env={
                **os.environ,
                **dict.fromkeys(("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), home),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_in_a_page(tmp_path):
    text = report(program_file(tmp_path / "m.pte", model_graph.pack(chain(12))))
    page = Page(text)
    for shown in (
        "Method forward",
        "delegate 0, x, 10 nodes",
        "aten.add.Tensor",
        "layers.5",
        "model.py:5",
        "layer.weight",
        "36 B",
        "Pool 1: 128 B; tensors: 2; instructions: 2",
        "model_graph/forward",
    ):
        assert shown in page.texts, shown
    assert "prefers-color-scheme:dark" in text
    assert 'href="#n0_4">add_4' in text
    # A tensor of 24 bytes at offset 64 of 128, alive from the second instruction on.
    assert 'x="500.00" width="500.00" y="62.50" height="37.50"' in text
    assert page.tags[:2] == ["html", "head"] and {"main", "nav", "h1"} <= set(page.tags)
    # What is no text has one, and what scrolls can be reached by keyboard.
    assert text.count('role="img" aria-label=') == text.count('role="img"') == 1
    assert text.count('class="scroll') == text.count('tabindex="0" role="region" aria-label=')


def test_names_that_are_no_utf8(tmp_path):
    path = program_file(tmp_path / "m.pte", texts="abcdefgh")
    bad = path.read_bytes().replace(b"abcdefgh", b"abcdefg\xff")
    path.write_bytes(bad.replace(b"PTI1", bytes(4)).replace(b"eh00", bytes(4)))  # no digests
    with pytest.raises((ValueError, PteronError), match="UTF-8"):
        report(path)


def test_a_file_without_a_graph_shows_its_instructions(tmp_path):
    page = Page(report(program_file(tmp_path / "m.pte")))
    assert "aten::clone.out" in page.texts
    assert "The file has no graph of the model, so these are its instructions." in page.texts


def test_hostile_names_are_text(tmp_path):
    nodes = [GraphNode(HOSTILE, "input", shapes=[HOSTILE]), GraphNode(HOSTILE, "weight")]
    nodes.append(GraphNode(HOSTILE, HOSTILE, [0, 1], [HOSTILE], 8, HOSTILE, HOSTILE, 0))
    path = program_file(tmp_path / "m.pte", model_graph.pack(nodes), HOSTILE, HOSTILE)
    trace = tmp_path / "trace.json"
    arguments = {"op": HOSTILE, "module": HOSTILE, "bytes": 8}
    event = {"ph": "X", "name": HOSTILE, "ts": 0, "dur": 1, "args": arguments}
    count = {"ph": "C", "name": HOSTILE, "ts": 0, "args": {"value": 1}}
    trace.write_text(json.dumps([event, count]))
    check = tmp_path / "check.json"
    output = {"index": HOSTILE, "error": 1, "limit": 0.5}
    check.write_text(json.dumps({"methods": {HOSTILE: {"outputs": [output]}}, "origin": HOSTILE}))
    text = report(path, str(trace), str(check))
    assert "\u202e" not in text
    assert any(HOSTILE[:-1] + "\\u202e" in shown for shown in Page(text).texts)
    shown = browser("--dump-dom", path.with_suffix(".html").as_uri())
    assert "<title>m.pte" in shown
    assert "find operators" in shown  # our own script did run


def test_2000_nodes_in_a_browser(tmp_path):
    path = program_file(tmp_path / "m.pte", model_graph.pack(chain(2000)))
    text = report(path)
    Page(text)
    assert len(text) < 2_000_000
    address = path.with_suffix(".html").as_uri()
    assert browser("--dump-dom", address).count('role="row" class="call"') == 1998
    pictures = []
    for scheme in (0, 1):  # dark, light
        target = tmp_path / f"{scheme}.png"
        browser(f"--blink-settings=preferredColorScheme={scheme}", "--window-size=900,900",
                f"--screenshot={target}", address)  # fmt: skip
        pictures.append(first_pixel(target.read_bytes()))
    dark, light = pictures
    assert max(dark) < 64 and min(light) > 192


def first_pixel(png):
    """Red, green and blue of the first pixel, which no filter changes."""
    chunks, data = png[8:], b""
    while chunks:
        size = int.from_bytes(chunks[:4], "big")
        if chunks[4:8] == b"IDAT":
            data += chunks[8 : 8 + size]
        chunks = chunks[12 + size :]
    return zlib.decompress(data)[1:4]


@pytest.mark.parametrize(
    "graph",
    [
        b"no graph",
        zlib.compress(b"{}"),
        zlib.compress(b'{"version":1,"nodes":[{"inputs":[0]}]}'),
        zlib.compress(b'{"version":1,"nodes":[{"name":7}]}'),
        zlib.compress(b'{"version":1,"nodes":[7]}'),
        zlib.compress(b'{"version":2,"nodes":[]}'),
        zlib.compress(b"[" * 100_000),
        zlib.compress(bytes(1 << 27), 9),  # much from little
    ],
)
def test_graphs_that_cannot_be_read(tmp_path, graph):
    path = program_file(tmp_path / "m.pte", graph)
    with pytest.raises(ValueError, match="the graph in the file cannot be read"):
        report(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.pte"]


def test_lanes_are_limited(tmp_path):
    """Many values that are all read at the end."""
    nodes = [GraphNode(f"x{i}", "input") for i in range(200)]
    nodes.append(GraphNode("cat", "aten.cat", [*range(200)], delegate=0))
    text = report(program_file(tmp_path / "m.pte", model_graph.pack(nodes)))
    assert max(map(int, re.findall(r'<svg width="(\d+)"', text))) <= 12 * 41


def test_trace_and_check(tmp_path):
    path = program_file(tmp_path / "m.pte", model_graph.pack(chain(3)))
    trace, check = tmp_path / "trace.json", tmp_path / "check.json"
    arguments = {
        "kind": "kernel",
        "op": "aten.mm",
        "module": "head",
        "source": "m.py:3",
        "bytes": 96,
    }
    events = [
        {"ph": "M", "name": "process_name", "args": {"name": "pteron"}},
        {"ph": "X", "name": "forward", "ts": 0, "dur": 4000, "pid": 1, "tid": 1, "args": {}},
        {"ph": "X", "name": "mm", "ts": 0, "dur": 1000, "pid": 1, "tid": 1, "args": arguments},
        {"ph": "X", "name": "mm", "ts": 1000, "dur": 2000, "pid": 1, "tid": 1, "args": arguments},
        {"ph": "C", "name": "memory", "ts": 0, "args": {"value": 1000}},
        {"ph": "C", "name": "memory", "ts": 4000, "args": {"value": 500}},
    ]
    trace.write_text(json.dumps({"traceEvents": events}))
    output = {"index": 0, "error": 0.5, "limit": 0.25}
    found = {"methods": {"forward": {"outputs": [output]}}, "origin": "the first is mm"}
    check.write_text(json.dumps(found))
    page = Page(report(path, str(trace), str(check)))
    times = [text for text in page.texts if text.endswith(" ms")]
    assert times == ["3.000 ms", "1.000 ms"]  # without the events inside
    assert "75.0 %" in page.texts and "memory over time, at most 1.0 kB" in page.texts
    assert "differs" in page.texts and "the first is mm" in page.texts


@pytest.mark.parametrize("text", ["", "7", '{"traceEvents": [{"ph": "X"}]}', "[[]]", "\xff"])
def test_what_is_no_trace_or_check(tmp_path, text):
    path = program_file(tmp_path / "m.pte")
    other = tmp_path / "other.json"
    other.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"--trace: .*other.json is no Chrome trace"):
        report(path, trace=str(other))
    with pytest.raises(ValueError, match=r"--check: .*other.json is not what"):
        report(path, check=str(other))
    assert not path.with_suffix(".html").exists()
