"""Where the runtime half of this backend is. Nothing here imports torch."""

#: The id under which programs name the backend.
BACKEND_ID = "MetalBackend"
#: Shared library that registers it when it is opened, relative to this package.
LIBRARY = "runtime/libmetal_backend.so"
