"""Speech recognition: from a Whisper checkpoint of `transformers` to text.

    import pteron.asr

    pteron.asr.export("folder/of/a/checkpoint", "model.pte")
    for segment in pteron.asr.Transcriber("model.pte")("speech.wav"):
        print(segment.start, segment.end, segment.text)

`export` needs torch and transformers; `Transcriber` needs tokenizers, and soundfile for files.
"""

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from pteron.asr.export_speech import export as export
    from pteron.asr.transcriber import Segment as Segment
    from pteron.asr.transcriber import Transcriber as Transcriber

__all__ = ["Segment", "Transcriber", "export"]


_HOMES = {"export": "export_speech", "Segment": "transcriber", "Transcriber": "transcriber"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
