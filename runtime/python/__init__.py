"""The Python binding of the runtime; its front door is the package `pteron.runtime`."""
