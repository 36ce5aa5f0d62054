"""Elements of one HTML page without outside resources.

    page("model.pte", [section("Weights", table(["name"], [["<b>"]]))])

Texts come from files that may be hostile: everything that is not `Html` is escaped, and characters
that are not printable are shown by their code. The page's policy allows our one script only and no
address.
"""

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator, Sequence


class Html(str):
    """What needs no escaping."""


def element(tag: str, *children: object, **attributes: object) -> Html:
    """An element. `class_` is the attribute `class`; attributes that are None are left out."""
    names = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    shown = "".join(f' {name}="{_escaped(value)}"' for name, value in names if value is not None)
    return Html(f"<{tag}{shown}>{''.join(map(_escaped, children))}</{tag}>")


def _escaped(value: object) -> str:
    if isinstance(value, Html):
        return value
    shown = str(value)
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in shown)
    return html.escape(shown)


def joined(parts: Iterable[Html]) -> Html:
    return Html("".join(parts))


def section(title: str, *children: object) -> Html:
    name = title.lower().replace(" ", "-")
    return element("section", element("h2", title), *children, id=name, aria_label=title)


def more(title: str, *children: object, is_open: bool = False) -> Html:
    """Children that a click shows."""
    return element("details", element("summary", title), *children, open="" if is_open else None)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table that scrolls; columns whose head ends in ` #` hold numbers."""
    kinds = ["number" if head.endswith(" #") else None for head in heads]
    head = joined(
        element("th", text.removesuffix(" #"), scope="col", class_=kind)
        for text, kind in zip(heads, kinds, strict=True)
    )
    body = joined(
        element("tr", *(element("td", v, class_=k) for v, k in zip(row, kinds, strict=True)))
        for row in rows
    )
    found = element("table", element("thead", element("tr", head)), element("tbody", body))
    label = f"table of {', '.join(text.removesuffix(' #') for text in heads if text)}"
    return scrolled(label, found)


def scrolled(label: str, child: Html, class_: str = "", style: str | None = None) -> Html:
    """A region that scrolls, also by keyboard."""
    name = f"scroll {class_}".rstrip()
    return element(
        "div", child, class_=name, tabindex="0", role="region", aria_label=label, style=style
    )


def cells(role: str, values: Iterable[object]) -> Iterator[Html]:
    """Cells of a row of a graph; their titles show what the column cuts off."""
    for value in values:
        title = None if isinstance(value, Html) else value or None
        yield element("div", value, role=role, title=title)


def bar(share: float) -> Html:
    """A bar of this share of its column's width, 0 to 1."""
    return element("div", class_="bar", style=f"width:{100 * share:.1f}%", aria_hidden="true")


def picture(label: str, width: int, height: int, *children: Html, stretched: bool = False) -> Html:
    ratio = "none" if stretched else None
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=label,
        class_="picture",
        preserveAspectRatio=ratio,
    )


def page(title: str, sections: Sequence[tuple[str, Html]]) -> str:
    links = (element("a", name, href="#" + name.lower().replace(" ", "-")) for name, _ in sections)
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
        " base-uri 'none'; form-action 'none'"
    )
    head = (
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", title),
        element("style", Html(_STYLE)),
    )
    body = (
        element("header", element("h1", title), element("nav", *links, aria_label="sections")),
        element("main", *(content for _, content in sections)),
        element("script", Html(_SCRIPT)),
    )
    parts = element("head", *head) + element("body", *body)
    return f'<!DOCTYPE html>\n<html lang="en">{parts}</html>\n'


_STYLE = """
:root{--paper:#fff;--ink:#1b1f24;--dim:#59636e;--line:#d1d9e0;--fill:#0969da;--soft:#f6f8fa;
--hit:#fff3bf;--input:#1a7f37;--kernel:#bc4c00}
@media(prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--dim:#9198a1;
--line:#3d444d;--fill:#4493f8;--soft:#151b23;--hit:#3b3000;--input:#3fb950;--kernel:#f0883e}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:1rem 1.5rem;background:var(--paper);color:var(--ink);
font:14px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
nav a{margin-right:1rem}
a{color:var(--fill)}
p{margin:.3rem 0;color:var(--dim)}
pre{overflow:auto;background:var(--soft);padding:.8rem;border:1px solid var(--line)}
summary{cursor:pointer;margin:.4rem 0}
.scroll{overflow:auto;max-height:75vh;border:1px solid var(--line)}
table{border-collapse:collapse;width:100%}
th{position:sticky;top:0;background:var(--soft);text-align:left;z-index:1}
th,td{padding:2px 8px;border-bottom:1px solid var(--line);white-space:nowrap;max-width:26rem;
overflow:hidden;text-overflow:ellipsis}
.number{text-align:right;font-variant-numeric:tabular-nums}
.bar{background:var(--fill);height:.7rem;min-width:1px}
.graph [role=row]{display:grid;grid-template-columns:var(--columns);height:27px;width:var(--width);
min-width:100%;line-height:26px;
border-bottom:1px solid var(--line);content-visibility:auto;contain-intrinsic-size:auto 27px}
.graph [role=row][hidden]{display:none}
.graph [role=row]>*{padding:0 8px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.graph [role=row]>:first-child{padding:0 0 0 6px}
.graph [role=row]>:nth-child(4){text-align:right;font-variant-numeric:tabular-nums}
.graph .heads{position:sticky;top:0;background:var(--soft);font-weight:600;z-index:1}
.graph svg{display:block;height:26px;stroke:var(--dim);fill:none;stroke-width:1.5}
.graph a,.graph span{margin-right:.6rem}
.graph circle{stroke:none;fill:var(--fill)}
.graph .input circle{fill:var(--input)}
.graph .kernel circle{fill:var(--kernel)}
.graph [role=row].head{grid-template-columns:none;background:var(--soft);font-weight:600}
.graph :target{background:var(--hit)}
.picture{width:100%;height:160px;border:1px solid var(--line);background:var(--soft)}
.picture rect{fill:var(--fill);fill-opacity:.55;stroke:var(--paper)}
.picture rect,.picture polyline{vector-effect:non-scaling-stroke}
.picture polyline{fill:none;stroke:var(--fill)}
.find{width:22rem;max-width:100%;padding:.3rem;margin:.3rem 0;background:var(--paper);
color:inherit;border:1px solid var(--line)}
"""

# Shows only rows of a graph that contain a text.
_SCRIPT = """
for (const graph of document.querySelectorAll('.graph')) {
  const field = document.createElement('input');
  field.type = 'search';
  field.className = 'find';
  field.placeholder = 'find operators, modules, lines, shapes';
  field.setAttribute('aria-label', field.placeholder);
  const rows = [...graph.querySelectorAll('[role=row]:not(.heads)')];
  const texts = rows.map(row => row.textContent.toLowerCase());
  field.addEventListener('input', () => {
    const text = field.value.toLowerCase();
    rows.forEach((row, i) => { row.hidden = !texts[i].includes(text); });
  });
  graph.before(field);
}
"""
