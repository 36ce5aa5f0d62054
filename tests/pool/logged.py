"""What is warned of."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def logged_warnings(name: str, found: list[str]) -> Iterator[None]:
    """Adds what the logger `name` warns of, inside, to `found`."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
