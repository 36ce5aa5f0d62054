"""Options of a backend, as they are stored in the file."""

from dataclasses import dataclass

METHOD_NAME_KEY = "method_name"
"""Key of the spec that names the method a partition belongs to. Lowering adds it by itself."""


@dataclass(frozen=True, slots=True)
class CompileSpec:
    """One choice for a backend: a key it knows and opaque bytes.

    Specs are given to `BackendDetails.preprocess` and written into the file, where the backend's
    runtime half reads them.
    """

    key: str
    value: bytes
