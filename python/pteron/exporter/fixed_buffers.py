"""What forward() reads in Python, which torch.export refuses: buffers (`if self.initialized:`), and
values in checks (`assert (x >= 0).all()`)."""

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch._subclasses.fake_tensor import is_fake
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from pteron.exporter.conditions import outcome, place_of
from pteron.exporter.modules import storage_of

#: Functions whose results are values of tensors.
_READERS = frozenset(
    getattr(torch.Tensor, name)
    for name in "__bool__ __int__ __index__ __float__ item tolist numpy __array__ equal allclose"
    " is_nonzero".split()
) | {torch.equal, torch.allclose, torch.is_nonzero}

_WRITERS = frozenset(
    f"__{name}__" for name in "setitem iadd isub imul itruediv ifloordiv ipow iand ior ixor".split()
)

#: Functions that read whether two tensors are equal; and those that read the shape of a tensor.
_EQUAL = frozenset({torch.equal, torch.allclose, torch.Tensor.equal, torch.Tensor.allclose})
_OF_SHAPES = frozenset(
    {torch.ones_like, torch.zeros_like, torch.full_like}
    | {getattr(torch.Tensor, f"new_{name}") for name in ("ones", "zeros", "full")}
)

#: Elements of tensors whose values are followed.
_LARGEST = 1 << 12


_UNKNOWN = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


class FixedBuffers(TorchFunctionMode):
    """Inside, Python reads the values of what does not depend on the inputs: small buffers as they
    were before, tensors of attributes, and what is computed of these and of constants
    (`torch.linspace(0, 1, 5)`); and checks of values pass: a condition whose one outcome is nothing
    but an error has the other. A tensor is equal to itself and to what is computed alike, and not
    to one of another shape.

    For torch.export with strict=False, while which the module has other tensors as its buffers.

    Attributes:
      read: value by name of buffers that were read; that of the one element, if there is one.
      passed: file and line of each check.
      equal: those of comparisons of what is computed alike, which are not equal where it is NaN.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module
        self._values = {
            name: buffer.detach().clone()
            for name, buffer in module.named_buffers()
            if buffer.numel() <= _LARGEST and buffer.device.type != "meta"
        }
        # Values by id of tensors that were computed, with these, so that ids stay theirs.
        self._computed: dict[int, tuple[torch.Tensor, torch.Tensor, list[str]]] = {}
        self._reads_constants = True
        self.read: dict[str, Any] = {}
        self.passed: dict[str, None] = {}
        self.equal: dict[str, None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.__iter__ and self._known(args[0]):
            with self:
                return iter(args[0].unbind(0))
        if func in _READERS:
            if known := self._values_of((args, kwargs)):
                (values, options), names = known
                for name in names:
                    value = self._values[name]
                    self.read[name] = value.item() if value.numel() == 1 else value.tolist()
                with _outside():
                    return func(*values, **options)
            if func in _EQUAL and (is_equal := _is_equal(*args[:2])) is not None:
                if is_equal:
                    self.equal[place_of(_caller())] = None
                return is_equal
            # Below autograd, conditions are read as items.
            if func is torch.Tensor.__bool__ or (
                func is torch.Tensor.item and args[0].dtype is torch.bool
            ):
                frame = _caller()
                always = None if frame is None else outcome(frame)
                if always is not None:
                    if always[1]:
                        self.passed[place_of(frame)] = None
                    return always[0]
        result = func(*args, **kwargs)
        if not self._follow(func, args, kwargs, result) and _writes(func, kwargs):
            for target in _tensors((args[:1], kwargs.get("out"))):
                self._forget(target)
        return result

    def _forget(self, written: torch.Tensor) -> None:
        """Forgets values that may share a tensor's memory."""
        self._reads_constants &= not (_is_constant(written) or written._is_view())
        if known := self._known(written):
            storage = storage_of(known[0])
            self._computed = {
                key: item for key, item in self._computed.items() if storage_of(item[1]) != storage
            }
        elif written._is_view():
            self._computed.clear()

    def _follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> bool:
        """Computes what a function did, also with the values, if those of its arguments are known;
        whether they are."""
        if func in _OF_SHAPES and all(type(n) is int for n in args[0].shape):
            with _outside():
                same = torch.zeros(tuple(args[0].shape), dtype=args[0].dtype)
            self._computed[id(same)] = same, same, []
            args = (same, *args[1:])
        known, results = self._values_of((args, kwargs)), _tensors(result)
        if known is None or any(each.numel() > _LARGEST for each in results):
            return False
        if not results and not _writes(func, kwargs):
            return True
        (values, options), names = known
        try:
            with _outside(), torch.random.fork_rng(devices=[]):
                state = torch.get_rng_state()
                computed = _tensors(func(*values, **options))
                is_random = not torch.equal(state, torch.get_rng_state())
        except Exception:
            return False
        if is_random or len(computed) != len(results):
            return False
        for each, value in zip(results, computed, strict=True):
            self._computed[id(each)] = each, value, names
        return True

    def _values_of(self, arguments: Any) -> tuple[Any, list[str]] | None:
        """The same with values, and the names of the buffers that these are of; None if some depend
        on inputs."""
        leaves, spec = pytree.tree_flatten(arguments)
        names: list[str] = []
        for i, leaf in enumerate(leaves):
            parts = (leaf.start, leaf.stop, leaf.step) if isinstance(leaf, slice) else (leaf,)
            if isinstance(leaf, torch.Tensor):
                if (known := self._known(leaf)) is None:
                    return None
                leaves[i], of = known
                names += of
            elif any(isinstance(part, _UNKNOWN) for part in parts):
                return None
        return pytree.tree_unflatten(leaves, spec), names

    def _known(self, tensor: torch.Tensor) -> tuple[torch.Tensor, list[str]] | None:
        """The value of a tensor that does not depend on inputs, and the buffers that it is of."""
        if id(tensor) in self._computed:
            return self._computed[id(tensor)][1:]
        for name, buffer in self._module.named_buffers():
            if buffer is tensor and name in self._values:
                return self._values[name], [name]
        if self._reads_constants and _is_constant(tensor) and tensor.numel() <= _LARGEST:
            with _outside():
                return tensor.clone(), []
        return None

    def check(self, program: torch.export.ExportedProgram) -> None:
        """ValueError: the program changes what it was made for."""
        signature = program.run_decompositions({}).graph_signature
        changed = sorted(self.read.keys() & signature.buffers_to_mutate.values())
        if changed:
            raise ValueError(
                f"forward() changes {', '.join(changed)}, which Python reads in it: data-dependent"
                " control flow"
            )


def _is_constant(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one of an attribute, or of numpy, and no buffer."""
    return type(tensor) is torch.Tensor and not is_fake(tensor) and not tensor.is_meta


@contextlib.contextmanager
def _outside() -> Iterator[None]:
    """Outside of what traces."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


def _is_equal(a: Any, b: Any) -> bool | None:
    """Whether tensors are equal, if that is known without their values."""
    if a is b:
        return True
    sizes = zip(a.shape, b.shape, strict=False)
    if a.dim() != b.dim() or any(type(m) is type(n) is int and m != n for m, n in sizes):
        return False
    nodes = _node_of(a), _node_of(b)
    if nodes[0] is None or nodes[1] is None or any(map(_is_write, nodes[0].graph.nodes)):
        return None
    return True if _is_alike(*nodes) else None


def _is_write(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _node_of(tensor: torch.Tensor) -> torch.fx.Node | None:
    """What computes a tensor in the graph that is traced."""
    mode = get_proxy_mode()
    if isinstance(tensor, FunctionalTensor):
        torch._sync(tensor)
        tensor = torch._from_functional_tensor(tensor.elem)
    slot = None if mode is None else get_proxy_slot(tensor, mode.tracer, None)
    return None if slot is None else slot.proxy.node


def _is_alike(a: Any, b: Any) -> bool:
    """Whether two nodes, or arguments of such, have the same value."""
    if not isinstance(a, torch.fx.Node) or not isinstance(b, torch.fx.Node):
        return a is b or (type(a) is type(b) and bool(a == b))
    if a is b:
        return True
    tags = getattr(a.target, "tags", ())
    if a.op != "call_function" or torch.Tag.nondeterministic_seeded in tags:
        return False
    (x, of_a), (y, of_b) = (pytree.tree_flatten((n.target, n.args, n.kwargs)) for n in (a, b))
    return of_a == of_b and all(map(_is_alike, x, y))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _writes(func: Any, kwargs: Any) -> bool:
    """Whether a function writes to its arguments, as far as names say."""
    name = getattr(func, "__name__", "")
    is_in_place = name.endswith("_") and not name.endswith("__")
    return is_in_place or "out" in kwargs or name in _WRITERS


def _caller() -> FrameType | None:
    """The frame that called a function of torch."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name in ("__torch_function__", "__bool__"):
        frame = frame.f_back
    return frame
