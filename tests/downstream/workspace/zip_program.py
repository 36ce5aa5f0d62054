"""Pteron's runtime in a zip, without wheels, beside packages of names that it has, too."""

import exir
import pteron
from backends import words as backends

print(pteron.Runtime.get().backend_registry.registered_backend_names, pteron.runtime.__name__)
print(backends.WORDS, exir.WORDS)
