"""New weights for a program that was lowered before.

pteron.export(model, (x,), "model.pte", options={"cpu.updatable_weights": True})
pteron.update_weights("model.pte", trained.state_dict(), "trained.pte")
"""

import contextlib
import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from pteron.exir._serialize import model_graph, schema
from pteron.exir._serialize.blob import Blob
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir._serialize.program_file import (
    ProgramData,
    ProgramFile,
    deserialize_program,
    serialize_program,
)
from pteron.exir._serialize.tensor_data_file import serialize_tensor_data
from pteron.exir.backend.backend_details import find_backend
from pteron.exporter.errors import ExportError
from pteron.exporter.exporter import check_path, save_files

_OPTION = 'options={"cpu.updatable_weights": True}'
#: Buffers of modules that no program in eval mode reads.
_UNREAD = ".num_batches_tracked"


def update_weights(
    program: str | os.PathLike[str],
    weights: Mapping[str, Any] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    strict: bool = True,
) -> dict[str, int]:
    """Writes a program with the same code and other weights, as lowering again would, in seconds.

    Constants are packed and folded by the operators that lowering recorded. With the option
    "cpu.save_data_externally" the weights are in a .ptd file beside the program, which then has
    only code. Files name their weights by content: any number of them can be loaded at once.

    Args:
      program: a program file that was exported with `options={"cpu.updatable_weights": True}`.
        It must be trusted as its code is.
      weights: a state dict of the same module; or a file, or several, of it: safetensors, or what
        torch.load reads with weights_only=True.
      path: the program file to write, `*.pte`; it may be `program` itself.
      strict: whether names that are no weights of the program are an error. Weights that are
        missing always are.

    Returns:
      Written files with sizes in bytes; the program first.

    Raises:
      ExportError: lists all weights that are missing, unknown, of another dtype or shape, or in the
        code as literals, with another value now; nothing was written.
      OSError: a file cannot be read or written.
    """
    check_path(path)
    file = _read(program)
    delegates = {
        (delegate.id, _processed(file, delegate)): None
        for method in file.program.methods
        for delegate in method.delegates
    }
    takes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    problems = list(_constants(file))
    for backend_id, processed in delegates:
        found = _backend(backend_id).weights_of(processed, file.named_data)
        if found is None:
            problems.append(f"a delegate of {backend_id} does not say how its weights are made")
        takes.update(found or {})
    if problems:
        raise ExportError(
            f"{os.fspath(program)!r} cannot take other weights: {'; '.join(problems)}.\n"
            f"try:  pteron.export(model, args, path, {_OPTION})"
        )
    given = dict(_loaded(weights))
    problems = [*_differences(takes, given, strict, _buffers(file)), *_state(file, given)]
    if problems:
        raise ExportError("these are not weights of the program:\n" + "\n".join(problems))
    store = NamedDataStore()
    changed: dict[tuple[str, bytes], bytes] = {}
    for backend_id, processed in delegates:
        try:
            result = _backend(backend_id).with_weights(processed, file.named_data, given)
        except ValueError as error:
            problems += str(error).split("; ")
            continue
        changed[backend_id, processed] = result.processed_bytes
        if result.data_store_output is not None:
            store.merge_named_data_store(result.data_store_output)
    if problems:
        raise ExportError(
            "the code was generated for the values of some weights:\n"
            + "\n".join(dict.fromkeys(problems))
            + "\ntry:  pteron.export with these weights"
        )
    for key, data in file.named_data.items():
        if key.startswith(model_graph.KEY):
            store.add_named_data(key, bytes(data))
    return save_files(
        serialize_program(_program_data(file, changed, store)),
        {
            tag: serialize_tensor_data(store.get_named_data_store_output(), tag)
            for tag in store.get_named_data_store_output().external_data
        },
        Path(path),
    )


def _read(program: Any) -> ProgramFile:
    if not isinstance(program, str | os.PathLike):
        raise ExportError(
            f"found a {type(program).__name__}; expected the name of a program file, as 'model.pte'"
        )
    try:
        return deserialize_program(Path(program).read_bytes())
    except ValueError as error:
        raise ExportError(f"{os.fspath(program)!r}: {error}") from error


def _processed(file: ProgramFile, delegate: schema.Delegate) -> bytes:
    data = delegate.processed
    if data.location == schema.DelegateDataLocation.INLINE:
        return bytes(file.program.inline_delegate_data[data.index].data)
    return bytes(file.segments[data.index])


def _backend(backend_id: str) -> Any:
    import pteron

    with contextlib.suppress(ImportError, AttributeError):
        getattr(pteron, backend_id.removesuffix("Backend") + "Partitioner")  # registers it
    return find_backend(backend_id)


def _constants(file: ProgramFile) -> Iterator[str]:
    """Problems with constants outside of delegates, whose names the file does not have."""
    for method in file.program.methods:
        for value in method.values:
            tensor = value.value
            if not isinstance(tensor, schema.Tensor) or tensor.allocation is not None:
                continue
            external = tensor.extra and tensor.extra.location == schema.TensorLocation.EXTERNAL
            if tensor.data_index or external:
                yield f"method {method.name!r} has constants outside of delegates"


def _state(file: ProgramFile, given: Mapping[str, Any]) -> Iterator[str]:
    """Problems with buffers that methods write."""
    for name, tensor in _buffers(file).items():
        if isinstance(given.get(name), torch.Tensor):
            blob = Blob(given[name].detach())
            initial = bytes(blob.nbytes)
            if tensor.data_index:
                initial = bytes(file.constant(tensor, blob.nbytes))
            if bytes(blob.data) != initial:
                yield f"{name} is state, with another initial value; session.set_buffer() sets it"


def _buffers(file: ProgramFile) -> dict[str, schema.Tensor]:
    return {
        value.value.extra.fully_qualified_name: value.value
        for method in file.program.methods
        for value in method.values
        if isinstance(value.value, schema.Tensor)
        and value.value.allocation is not None
        and value.value.extra is not None
        and value.value.extra.fully_qualified_name
    }


def _differences(
    takes: Mapping[str, tuple[torch.dtype, tuple[int, ...]]],
    given: dict[str, Any],
    strict: bool,
    state: Collection[str],
) -> Iterator[str]:
    """Problems with names, dtypes and shapes."""
    yield from (f"{name} is missing" for name in takes if name not in given)
    same = [given[name] for name in takes if isinstance(given.get(name), torch.Tensor)]
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            yield f"{name} is a {type(value).__name__}, expected a tensor"
        elif name in takes:
            dtype, shape = takes[name]
            if (value.dtype, tuple(value.shape)) != (dtype, shape):
                yield (
                    f"{name} is {value.dtype} {list(value.shape)}, expected {dtype} {list(shape)}"
                ).replace("torch.", "")
            given[name] = value.detach().cpu()
        elif (
            strict
            and name not in state
            and not name.endswith(_UNREAD)
            and not any(map(value.is_set_to, same))  # a tied weight
        ):
            yield f"{name} is not a weight of the program (strict=False ignores it)"


def _loaded(weights: Any) -> dict[str, Any]:
    if isinstance(weights, Mapping):
        return {str(name): value for name, value in weights.items()}
    if isinstance(weights, list | tuple):
        return {name: value for part in weights for name, value in _loaded(part).items()}
    if isinstance(weights, torch.nn.Module):
        return dict(weights.state_dict(keep_vars=True))
    if not isinstance(weights, str | os.PathLike):
        raise ExportError(
            f"found a {type(weights).__name__} as weights; expected a state dict or a file.\n"
            f"try:  model.state_dict()"
        )
    file = Path(weights)
    try:
        if file.suffix == ".safetensors":
            try:
                from safetensors.torch import load_file
            except ImportError as error:
                raise ExportError(
                    f"{str(file)!r}: {error}; try: pip install safetensors"
                ) from error
            return dict(load_file(file))
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, ExportError):
        raise
    except Exception as error:  # of several libraries
        raise ExportError(f"{str(file)!r} cannot be read as weights: {error}") from error
    return _loaded(loaded)


def _program_data(
    file: ProgramFile, changed: Mapping[tuple[str, bytes], bytes], store: NamedDataStore
) -> ProgramData:
    """The program with other payloads of its delegates."""
    inline: dict[bytes, int] = {}
    in_segments: dict[bytes, int] = {}

    def with_payload(delegate: schema.Delegate) -> schema.Delegate:
        location = delegate.processed.location
        data = changed[delegate.id, _processed(file, delegate)]
        known = inline if location == schema.DelegateDataLocation.INLINE else in_segments
        index = known.setdefault(data, len(known))
        return dataclasses.replace(delegate, processed=schema.DelegateData(location, index))

    methods = [
        dataclasses.replace(method, delegates=[with_payload(d) for d in method.delegates])
        for method in file.program.methods
    ]
    old = file.program
    return ProgramData(
        dataclasses.replace(
            old, methods=methods, inline_delegate_data=[schema.InlineBytes(d) for d in inline]
        ),
        constants=_parts(file, old.constant_segment),
        mutable_data=_parts(file, next(iter(old.mutable_segments or []), None)),
        delegate_data=[Blob(data) for data in in_segments],
        named_data=store.get_named_data_store_output(),
    )


def _parts(file: ProgramFile, segment: schema.SegmentOffsets | None) -> list[Blob]:
    """The blobs of a segment, with the padding after them."""
    if segment is None or len(segment.offsets) < 2:
        return []
    data = file.segments[segment.segment_index]
    starts = segment.offsets[1:]
    ends = [*starts[1:], data.nbytes]
    return [Blob(data[start:end]) for start, end in zip(starts, ends, strict=True)]
