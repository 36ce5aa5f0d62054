"""Text generation: from a checkpoint of `transformers` to tokens.

    import pteron.llm

    pteron.llm.export("folder/of/a/checkpoint", "model.pte", max_length=2048)
    for text in pteron.llm.Generator("model.pte")("Once upon a time", max_new_tokens=50):
        print(text, end="", flush=True)

`export` needs torch and transformers; `Generator` needs tokenizers, and jinja2 for chats.
"""

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from pteron.llm.export_checkpoint import export as export
    from pteron.llm.generator import Generator as Generator

__all__ = ["Generator", "export"]


_HOMES = {"export": "export_checkpoint", "Generator": "generator"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
