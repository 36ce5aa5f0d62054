"""Attributes and environment variables that are patched for a scope."""

import contextlib
import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Any


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` inside."""
    before = inspect.getattr_static(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """The process's environment has `values` inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
