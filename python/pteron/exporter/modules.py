"""Modules as torch.export sees them, and their state after it."""

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.nn.modules.module import _global_buffer_registration_hooks
from torch.utils import _pytree as pytree

from pteron.exir.verification.full_precision import full_precision_matmuls

#: Bytes of a buffer up to which it is copied in any case.
_SMALL = 1 << 20


def evaluate(module: torch.nn.Module) -> None:
    """`module.eval()`, also for graphs of torch.export, as prepare_pt2e and convert_pt2e return
    them: they refuse it, since what a mode changes was decided when they were exported."""
    try:
        module.eval()
    except NotImplementedError:
        for part in module.modules():
            part.training = False


def run_module(
    module: torch.nn.Module,
    forward: Callable[..., Any],
    inputs: tuple[tuple[Any, ...], dict[str, Any]],
    written: Collection[int],
) -> tuple[Any, list[str]]:
    """Calls a module, and puts back its attributes and the storages that it may have `written`;
    returns what it returns, and the names of attributes that it changed."""
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), inputs
    )

    def call() -> Any:
        try:
            return module(*args, **kwargs)
        except RuntimeError as error:
            if "does not require grad" not in str(error):
                raise
            with torch.enable_grad():
                return module(*args, **kwargs)

    with torch.no_grad(), torch.random.fork_rng(devices=[]), full_precision_matmuls():
        with as_exported(module, forward, written) as changed:
            # Some may be the buffers that are put back.
            returned = pytree.tree_map_only(torch.Tensor, torch.clone, call())
        # What the next call sets to the same tensor is no state (the weight of weight_norm).
        again = changed
        if any(changed.values()):
            with as_exported(module, forward, written):
                call()
                with as_exported(module, forward, written) as again:
                    call()
    return returned, [name for name, is_tensor in changed.items() if not is_tensor or name in again]


def returning_detached(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A method that may differentiate by its parameters, and whose outputs need no gradient."""

    @functools.wraps(forward)
    def entered(*args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad():
            returned = forward(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, returned)

    return entered


def writing_buffers(module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A method that writes to a buffer what `forward` assigns to it (`self.state = new`), and
    returns copies of what it was. torch.export does the first for buffers of the module itself,
    not for those of its parts, nor for two that are exchanged, and then returns new values for old
    ones."""

    @functools.wraps(forward)
    def entered(*args: Any, **kwargs: Any) -> Any:
        before = buffers_of(module)
        # Torch's way to notice such assignments.
        with mock.patch.dict(_global_buffer_registration_hooks, clear=True):
            returned = forward(*args, **kwargs)
        assigned = [
            (part, key, old, new)
            for part, key, old in before
            if (new := part._buffers.get(key)) is not None and new is not old
            # Another shape is none that the next call could have.
            if all(type(size) is int for size in new.shape) and new.shape == old.shape
        ]
        if not assigned:
            return returned
        storages = {storage_of(old) for _, _, old, _ in assigned}

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.clone() if storage_of(tensor) in storages else tensor

        returned, values = pytree.tree_map_only(
            torch.Tensor, copied, (returned, [new.detach() for *_, new in assigned])
        )
        for (part, key, old, _), value in zip(assigned, values, strict=True):
            old.copy_(value)
            part._buffers[key] = old
        return returned

    return entered


@contextlib.contextmanager
def as_exported(
    module: torch.nn.Module, forward: Callable[..., Any], written: Collection[int]
) -> Iterator[dict[str, bool]]:
    """The module as torch.export is to see it: evaluating, and with the method as its forward.

    Buffers are put back, if they are small or among those storages that may be `written`, and so
    are parameters of those, and attributes, of which those that changed are then in the dict, with
    whether they were tensors. Sparse buffers are attributes meanwhile, which are part of a program
    only if it uses them.
    """
    sparse = [
        (part, name, buffer)
        for part in module.modules()
        for name, buffer in dict(part._buffers).items()
        if buffer is not None and buffer.layout is not torch.strided
    ]
    for part, name, buffer in sparse:
        del part._buffers[name]
        vars(part)[name] = buffer
    buffers, storages = (
        buffers_of(module),
        {name: storage_of(buffer) for name, buffer in module.named_buffers()},
    )
    before = {
        name: buffer.clone()
        for name, buffer in module.named_buffers()
        if buffer.nbytes <= _SMALL or storage_of(buffer) in written
    }
    parameters = {
        parameter: parameter.detach().clone()
        for parameter in module.parameters()
        if storage_of(parameter) in written
    }
    modes = [(part, part.training) for part in module.modules()]
    own = vars(module).get("forward")
    attributes = _Attributes(module)
    changed: dict[str, bool] = {}

    def restore() -> None:
        if own is None:
            vars(module).pop("forward", None)
        else:
            module.forward = own

    evaluate(module)
    if forward != module.forward:

        @functools.wraps(forward)
        def entered(*args: Any, **kwargs: Any) -> Any:
            restore()  # the method may call the module itself
            try:
                return forward(*args, **kwargs)
            finally:
                module.forward = entered

        module.forward = entered
    try:
        yield changed
    finally:
        for part, mode in modes:
            part.training = mode
        restore()
        changed |= attributes.restore()
        for name, buffer in module.named_buffers():
            # Those that a program may write are put back for it.
            if name in before and storages[name] not in written:
                if not _is_same_tensor(buffer, before[name]):
                    changed[name] = True
        kept = {(id(part), name) for part, name, _ in buffers}
        for part, name, _ in buffers_of(module):
            if (id(part), name) not in kept:
                delattr(part, name)  # one that forward() made
                changed[name] = True
        for part, name, buffer in buffers:
            part._buffers[name] = buffer
        for name, buffer in module.named_buffers():
            if name in before and buffer.shape == before[name].shape:
                buffer.data.copy_(before[name])
        for parameter, value in parameters.items():
            parameter.data.copy_(value)
        for part, name, buffer in sparse:
            vars(part).pop(name)
            part._buffers[name] = buffer


class _Attributes:
    """What a module's parts hold that is no parameter, buffer or module, also in lists, dicts, sets
    and objects; and the values of small tensors among that."""

    _OTHERS = frozenset(vars(torch.nn.Module())) | {"forward"}

    #: Containers with more elements are copied, but not searched.
    _MANY = 1000

    def __init__(self, module: torch.nn.Module) -> None:
        self._before: list[tuple[str, Any, Any]] = []
        self._tensors: list[tuple[str, torch.Tensor, int, torch.Tensor]] = []
        self._seen = {id(t) for t in (*module.parameters(), *module.buffers())}
        for path, part in module.named_modules():
            self._note(path, part)

    def _note(self, path: str, value: Any, depth: int = 4) -> None:
        if id(value) in self._seen or not depth:
            return
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            if value.layout is torch.strided and value.nbytes <= _SMALL:
                if not (value.is_meta or value.is_inference()):
                    was = value.detach().clone()
                    self._tensors.append((path, value, value._version, was))
        elif (content := self._held(value)) is not None:
            self._before.append((path, value, content))
            is_dict = isinstance(content, dict)
            for key in content if len(content) <= self._MANY else ():
                inner = content[key] if is_dict else key
                self._note(f"{path}.{key}".lstrip(".") if is_dict else path, inner, depth - 1)
        self._seen.add(id(value))

    def _held(self, value: Any) -> Any:
        """A copy of what a container or an object holds; None of others."""
        if type(value) in (list, dict, set):
            return value.copy()
        is_pythons = type(value).__module__.partition(".")[0] in sys.stdlib_module_names
        if is_pythons or isinstance(value, torch.Tensor | type) or not hasattr(value, "__dict__"):
            return None
        others = self._OTHERS if isinstance(value, torch.nn.Module) else ()
        return {key: inner for key, inner in vars(value).items() if key not in others}

    def restore(self) -> dict[str, bool]:
        """Puts them back; returns those that changed, and whether they were tensors."""
        changed = {}
        for path, value, before in self._before:
            now = self._held(value)
            if isinstance(value, list | dict | set):
                if not _is_same_content(now, before):
                    changed[path] = False
                    value.clear()
                    (value.extend if isinstance(value, list) else value.update)(before)
                continue
            for key in now.keys() | before.keys():
                if key in now and key in before and _is_same(now[key], before[key]):
                    continue
                if not _is_same_tensor(now.get(key), before.get(key)):
                    is_tensor = isinstance(before.get(key), torch.Tensor)
                    changed[f"{path}.{key}".lstrip(".")] = is_tensor
                if key in before:
                    vars(value)[key] = before[key]
                else:
                    vars(value).pop(key)
        for path, tensor, version, was in self._tensors:
            if tensor._version != version and not torch.equal(tensor, was):
                changed[path] = True
                tensor.data.copy_(was)
        return dict(sorted(changed.items()))


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and type(a) in (int, float, bool, str) and a == b)


def _is_same_tensor(a: Any, b: Any) -> bool:
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    if is_fake(a) or is_fake(b):
        return False
    return (a.dtype, a.device) == (b.dtype, b.device) and bool(torch.equal(a, b))


def _is_same_content(value: Any, content: Any) -> bool:
    if isinstance(value, set):
        return bool(value == content)
    if isinstance(value, dict):
        value, content = [*value, *value.values()], [*content, *content.values()]
    return len(value) == len(content) and all(map(_is_same, value, content))


def storage_of(tensor: torch.Tensor) -> int:
    # Sparse tensors have none.
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)


def buffers_of(module: torch.nn.Module) -> list[tuple[torch.nn.Module, str, torch.Tensor]]:
    """The parts that have buffers, with names and buffers; a ScriptModule's are no dict."""
    return [
        (part, name, buffer)
        for part in module.modules()
        if isinstance(part._buffers, dict)
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]


def storages_of(module: torch.nn.Module) -> set[int]:
    return {storage_of(buffer) for buffer in module.buffers()}


def shared_buffers(value: Any) -> set[int]:
    """The storages of the buffers of a method's module to which there is another reference, or of
    which a view: torch.export writes to them if it finds them in an object."""
    target = value[0] if isinstance(value, tuple) and value else value
    module = getattr(target, "__self__", target)

    def users(owner: Mapping[str, Any], name: str) -> tuple[int, int]:
        storage = owner[name].untyped_storage()._cdata
        return sys.getrefcount(owner[name]), torch._C._storage_Use_Count(storage)

    alone = users({"": torch.empty(0)}, "")
    parts = module.modules() if isinstance(module, torch.nn.Module) else ()
    # A ScriptModule's are no dict, and no Python object is among them.
    owners: list[Mapping[str, Any]] = [
        part._buffers for part in parts if isinstance(part._buffers, dict)
    ]
    return {
        storage_of(owner[name])
        for owner in owners
        for name in owner
        if isinstance(owner[name], torch.Tensor)
        and owner[name].layout is torch.strided
        and any(map(operator.gt, users(owner, name), alone))
    }
