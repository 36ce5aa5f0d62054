"""What torch notes of tensors that it traces."""

import contextlib
import functools
from collections.abc import Iterator
from unittest import mock

from torch.fx.experimental import proxy_tensor


@contextlib.contextmanager
def unguarded_metadata() -> Iterator[None]:
    """Inside, torch notes no memory format of traced tensors, which nothing reads.

    To find it torch compares strides with sizes and guards on the outcome, so a crop of an image to
    its size before padding would be taken to do nothing, as it may for the example.
    """
    describe = proxy_tensor._extract_tensor_metadata
    without = functools.partial(describe, include_contiguity=False)
    with mock.patch.object(proxy_tensor, "_extract_tensor_metadata", without):
        yield
