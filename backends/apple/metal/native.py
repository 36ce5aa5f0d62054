"""The location of this backend's runtime half. Does not import torch."""

#: The backend's id in programs.
BACKEND_ID = "MetalBackend"
#: The shared library that registers it when opened, relative to this package.
LIBRARY = "runtime/libmetal_backend.so"
