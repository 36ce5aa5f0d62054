"""Options of a backend, as stored in the file, by ExecuTorch's name."""

from pteron.exir.graph.compile_spec import METHOD_NAME_KEY, CompileSpec

__all__ = ["METHOD_NAME_KEY", "CompileSpec"]
