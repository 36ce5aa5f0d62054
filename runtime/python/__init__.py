"""The Python binding of the runtime; import `pteron.runtime` instead."""
