"""How a program says that its values are nested: whatever it says, calls are an error or work."""

import sys

import atheris

with atheris.instrument_imports(include=["pteron.runtime.python.pytree"]):
    from pteron.runtime.python import pytree
    from pteron.runtime.python.errors import PteronError


def _num_leaves(tree: pytree.Tree) -> int:
    return (tree.kind == "leaf") + sum(map(_num_leaves, tree.children))


def test_one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        pytree.flatten_call(pytree.parse(text, "inputs"), (1, 2), {"x": 3}, ["a", "b_x"])
    except PteronError:
        pass
    try:
        tree = pytree.parse(text, "outputs")
        leaves = list(range(_num_leaves(tree)))
        tree.describe()
        value = pytree.unflatten(tree, leaves)
        if "class" not in repr(tree):  # of which fields may be values of their own
            assert len(pytree.flatten(tree, value)) == len(leaves)
    except PteronError:
        pass


_LEAF = '{"type": null, "context": null, "children_spec": []}'
SEEDS = [
    f'[1, {{"type": "{kind}", "context": {context}, "children_spec": [{_LEAF}, {_LEAF}]}}]'
    for kind, context in [
        ("builtins.tuple", '"null"'),
        ("builtins.list", "null"),
        ("builtins.dict", '"[\\"a\\", \\"b\\"]"'),
        ("collections.OrderedDict", '"[\\"a\\", \\"b\\"]"'),
        ("collections.defaultdict", '"{\\"dict_context\\": [1, [2, 3]]}"'),
        ("collections.namedtuple", '"[\\"a\\", \\"b\\"]"'),
        ("module.Class", '"[[\\"a\\", \\"b\\"], [\\"c\\"]]"'),
        ("builtins.NoneType", "null"),
    ]
]

if __name__ == "__main__":
    for example in SEEDS:
        test_one_input(example.encode())
    words = ['"', "[", "]", "{", "}", "null", "[[1]]", '"builtins.dict"', '"a"', ", "]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        """A seed, with words put into it."""
        if len(data) < 20:
            return SEEDS[seed % len(SEEDS)].encode()[:max_size]
        if seed % 2:
            return atheris.Mutate(data, max_size)
        at, word = seed // 2 % len(data), words[seed // 7 % len(words)].encode()
        return (data[:at] + word + data[at + seed // 11 % 5 * len(word) :])[:max_size]

    atheris.Setup(sys.argv, test_one_input, custom_mutator=mutate)
    atheris.Fuzz()
