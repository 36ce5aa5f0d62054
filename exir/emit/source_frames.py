"""Source locations of instructions in the model."""

import re

from torch.fx import Node

from pteron.exir._serialize import schema

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def source_frames(node: Node) -> list[schema.Frame]:
    """Frames of a node's stack trace, outermost first; empty if it has none."""
    lines = (node.meta.get("stack_trace") or "").splitlines()
    frames = []
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        match = _FRAME.match(line)
        if match:
            source = "" if _FRAME.match(following) else following.strip()
            frames.append(
                schema.Frame(match["file"], int(match["line"]), match["function"], source)
            )
    return frames
