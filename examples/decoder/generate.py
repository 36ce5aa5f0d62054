"""Continues a text, as generate.cpp does, without torch.

tools/bazel run //examples/decoder:generate -- "Once there"
"""

import sys

import numpy as np

from pteron import Runtime


def generate(path: str, prompt: str) -> str:
    """The text up to the end of its line."""
    program = Runtime.get().load_program(path)
    session = program.session()  # the KV cache of one text
    prefill = program.load_method("prefill", session=session)
    decode = program.load_method("decode", session=session)
    text = prompt
    outputs = prefill(np.array([list(prompt.encode("ascii"))]))
    for position in range(len(prompt), 250):
        token = np.asarray(outputs["token"])
        if chr(token.item()) == "\n":
            break
        text += chr(token.item())
        outputs = decode(token, np.array([position]))
    return text


if __name__ == "__main__":
    print(generate(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "Once there"))
