"""Shared code of the backends that compile with AOTInductor and run without libtorch."""
