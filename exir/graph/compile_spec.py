"""Options of a backend, as stored in the file."""

from dataclasses import dataclass

METHOD_NAME_KEY = "method_name"
"""Key of the spec that names the method a partition belongs to. Lowering adds it automatically."""


@dataclass(frozen=True, slots=True)
class CompileSpec:
    """An option of a backend: a key and opaque bytes.

    Specs are passed to `BackendDetails.preprocess` and written to the file for the backend's
    runtime half.
    """

    key: str
    value: bytes
