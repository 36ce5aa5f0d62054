"""Runs a program over batches of rows, as Ray Data gives them.

    dataset.map_batches(pteron.ray.Predictor("model.pte"), batch_size=32)

A column of the batch is an input, an output is a column. Dimension 0 of inputs and outputs is the
batch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from pteron.runtime import (
    BackendError,
    CancelledError,
    InvalidArgumentError,
    Method,
    NotSupportedError,
    PteronError,
    ResourceError,
    Runtime,
    ScalarMeta,
    TensorInfo,
)
from pteron.runtime.python.scalar_type import NUMPY_NAMES


class Predictor:
    """A function of batches: a dict of NumPy arrays, a pandas DataFrame or a pyarrow Table.

    It is pickled as its arguments. The program is loaded by the first call, once per process, and
    again when its file was replaced. Threads may share it; their calls take turns.

    A batch runs in parts of at most the program's batch size. A program of a static batch gets its
    last part padded with copies of the last row. If a part fails, its halves run, down to single
    rows: a row that fails has its error as text in the column `error_column`, and zeros as outputs
    (an array without elements beside rows of several shapes).

    Args:
      path: the program's file, on each node. It is mapped: the processes of a node share the
        pages. Replace it by a renamed file, never write into it.
      method: its method. It has no mutable buffers.
      inputs: the column of each input with another name.
      keep: the columns that stay; by default all. An output replaces a column of its name.
      error_column: None: a row's error is raised.
      device: such as `cuda:1`, for a program that was lowered for `cuda:0`. By default the first
        GPU of the process, which is the one that Ray assigns. Of several, `["cuda:0", "cuda:1"]`,
        each has the weights and takes parts of a batch, on a thread of its own.
      load_options: keyword arguments of `Runtime.load_program`, such as `data_path` or `policy`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        method: str = "forward",
        inputs: Mapping[str, str] | None = None,
        keep: Collection[str] | None = None,
        error_column: str | None = "error",
        device: str | Sequence[str] | None = None,
        load_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._path = os.path.abspath(path)
        self._load_options = dict(load_options or {})
        self._method = method
        self._device = device
        self._columns = dict(inputs or {})
        self._keep = keep
        self._error_column = error_column

    def __call__(self, batch: Any) -> Any:
        """The columns that are kept, the outputs and the errors, in the batch's own format.

        Raises:
          NotSupportedError: the program has no batch dimension, or has state.
          InvalidArgumentError: a column is missing, or `error_column` is an output.
          BackendError, ResourceError: all rows of a device failed so: that is no fault of theirs.
          PteronError, ValueError, TypeError: of a row, if `error_column` is None.
        """
        rows = self.rows()
        known = list(batch.column_names if hasattr(batch, "column_names") else batch)
        columns = {name: self._columns.get(name, name) for name in rows.input_names}
        for column in (*columns.values(), *(self._keep or ())):
            if column not in known:
                raise InvalidArgumentError(
                    f"{self._path}: no column {column!r} among {', '.join(map(repr, known))};"
                    " inputs={INPUT: COLUMN} and keep=[COLUMN] say which are meant"
                )
        if self._error_column in rows.output_names:
            raise InvalidArgumentError(
                f"{self._path} has an output {self._error_column!r}; give another error_column"
            )
        if isinstance(batch, Mapping):
            arrays = batch
        else:
            from ray.data.block import BlockAccessor

            arrays = BlockAccessor.for_block(batch).to_numpy(list(columns.values()))
        results, errors = rows.run({name: arrays[column] for name, column in columns.items()})
        if self._error_column is not None:
            results[self._error_column] = np.array(
                [e and f"{type(e).__name__}: {e}" for e in errors], object
            )
        elif first := next(filter(None, errors), None):
            raise first
        kept = [
            name for name in (known if self._keep is None else self._keep) if name not in results
        ]
        if isinstance(batch, Mapping):
            return {**{name: batch[name] for name in kept}, **results}
        made = BlockAccessor.for_block(BlockAccessor.batch_to_block(results))
        if hasattr(batch, "column_names"):
            batch = batch.select(kept)
            for name, column in zip(results, made.to_arrow().columns, strict=True):
                batch = batch.append_column(name, column)
            return batch
        return batch[kept].assign(**{n: made.to_pandas()[n].array for n in results})

    def rows(self) -> Rows:
        """The loaded program."""
        file = os.stat(self._path)
        return _load(
            pickle.dumps((self._path, self._method, self._device, self._load_options)),
            (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns),
        )


class Rows:
    """A loaded method that runs on any number of rows.

    Attributes:
      batch_size: most rows of a run.
      inputs: those that are tensors; others have the values they were exported with.
      outputs: all; their names are `output_names`.
    """

    def __init__(
        self,
        path: str,
        method: str,
        device: str | Sequence[str] | None,
        load_options: Mapping[str, Any],
    ) -> None:
        program = Runtime.get().load_program(path, **load_options)
        meta = program.metadata(method)
        what = f"method {method!r} of {path}"
        self._inputs = [meta.input_meta(i) for i in range(meta.num_inputs())]
        outputs = [meta.output_meta(i) for i in range(meta.num_outputs())]
        self.inputs = [value for value in self._inputs if isinstance(value, TensorInfo)]
        self.outputs = [value for value in outputs if isinstance(value, TensorInfo)]
        tensors = [*self.inputs, *self.outputs]
        sizes = {value.sizes()[0] if value.sizes() else 0 for value in tensors}
        if len(sizes) != 1 or 0 in sizes or not self.inputs or len(self.outputs) < len(outputs):
            raise NotSupportedError(
                f"{what} has no batch dimension: expected tensors with the same dimension 0 as"
                f" inputs and outputs, found {meta!r}. Export it with a batch"
            )
        if meta.num_attributes():
            raise NotSupportedError(
                f"{what} has state ({meta.attribute_tensor_meta(0).name()}), so that a row's"
                " results depend on the rows before it"
            )
        unknown = {v.dtype().name for v in tensors} - NUMPY_NAMES.keys()
        if unknown:
            raise NotSupportedError(
                f"{what} has inputs or outputs of {', '.join(unknown)}, which NumPy lacks; export"
                " a model that converts them, as from float32"
            )
        (self.batch_size,) = sizes
        self.input_names = [value.name() for value in self.inputs]
        if len(set(self.input_names)) < len(self.inputs):
            raise NotSupportedError(f"{what} has several inputs without a name")
        self.output_names = meta.output_names()
        self._is_static = all(value.is_static() for value in self.inputs)
        devices = [device] if isinstance(device, str) else device or ["cuda:0"]
        self._methods = [
            program.load_method(method, devices={"cuda:0": d if ":" in d else f"{d}:0"})
            for d in devices
        ]
        self._threads = ThreadPoolExecutor(len(devices))

    def count(self, arrays: Mapping[str, Any]) -> int:
        """How many rows a request has; InvalidArgumentError if it has other inputs."""
        counts = {array.shape[:1] for array in arrays.values()}
        if set(arrays) != set(self.input_names) or len(counts) != 1 or counts <= {(), (0,)}:
            found = ", ".join(f"{name}{list(array.shape)}" for name, array in arrays.items())
            raise InvalidArgumentError(
                f"found inputs {found or 'none'}; expected {', '.join(self.input_names)}, all with"
                " the same batch of at least 1 as dimension 0"
            )
        return int(counts.pop()[0])

    def run(
        self, columns: Mapping[str, Sequence[Any]]
    ) -> tuple[dict[str, Any], list[Exception | None]]:
        """Runs on the rows of `columns`: an array, or a sequence of a value per row.

        Returns:
          Outputs by name, and the error of each row.

        Raises:
          BackendError, ResourceError: all rows of a device failed, this one by no fault of its own.
        """
        n = len(columns[self.input_names[0]])
        errors: list[Exception | None] = [None] * n
        done: list[tuple[range, list[Any]]] = []
        size = self.batch_size
        if not self._is_static:  # something for each device
            size = max(1, min(size, -(-n // len(self._methods))))
        todo = [range(n)[i : i + size] for i in range(0, n, size)]

        def work(method: Method) -> None:
            fault, ran = None, False
            while todo:
                try:
                    part = todo.pop()
                except IndexError:  # another thread took it
                    break
                try:
                    done.append((part, self._execute(method, columns, part)))
                    ran = True
                except (CancelledError, NotSupportedError):
                    todo.clear()
                    raise
                except (PteronError, ValueError, TypeError) as failure:
                    if len(part) > 1:
                        todo.extend([part[: len(part) // 2], part[len(part) // 2 :]])
                        continue
                    errors[part[0]] = failure
                    if isinstance(failure, BackendError | ResourceError):
                        fault = failure
            if fault and not ran:
                raise fault

        if len(self._methods) == 1:
            work(self._methods[0])
        else:
            list(self._threads.map(work, self._methods))
        outputs = {
            name: _column([(part, results[i]) for part, results in done], n, self.outputs[i])
            for i, name in enumerate(self.output_names)
        }
        return outputs, errors

    def _execute(
        self, method: Method, columns: Mapping[str, Sequence[Any]], part: range
    ) -> list[Any]:
        rows = {
            value.name(): _array(columns[value.name()][part.start : part.stop], value)
            for value in self.inputs
        }
        missing = self.batch_size - len(part)
        try:
            return self._call(method, rows, len(part), missing if self._is_static else 0)
        except InvalidArgumentError:
            # Another dimension may be the dynamic one, or the batch has a minimum.
            if missing and not self._is_static:
                with contextlib.suppress(InvalidArgumentError):
                    return self._call(method, rows, len(part), missing)
            raise

    def _call(self, method: Method, rows: Mapping[str, Any], n: int, padding: int) -> list[Any]:
        if padding:
            rows = {
                name: np.pad(x, [(0, padding)] + [(0, 0)] * (x.ndim - 1), "edge")
                for name, x in rows.items()
            }
        inputs = [
            value.value if isinstance(value, ScalarMeta) else rows[value.name()]
            for value in self._inputs
        ]
        results = [np.asarray(result) for result in method.execute(inputs)]
        for name, result in zip(self.output_names, results, strict=True):
            if result.shape[:1] != (n + padding,):
                raise NotSupportedError(
                    f"output {name} has no batch dimension: of {n + padding} rows it has shape"
                    f" {result.shape}"
                )
        return [result[:n] for result in results]


def _array(rows: Sequence[Any], about: TensorInfo) -> Any:
    """The rows as one array of the input's dtype."""
    name, dtype = about.name(), np.dtype(NUMPY_NAMES[about.dtype().name])
    try:
        array: Any = rows
        if not isinstance(rows, np.ndarray) or rows.dtype == object:
            array = np.stack([np.asarray(row) for row in rows])
        if array.dtype == dtype:
            return array
        is_integer = array.dtype.kind in "iu" and dtype.kind in "iu"
        if array.dtype == object or not (
            is_integer or np.can_cast(array.dtype, dtype, "same_kind")
        ):
            found = type(rows[0]).__name__ if array.dtype == object else array.dtype
            raise TypeError(f"found {found}, expected {dtype}")
        with np.errstate(over="ignore"):
            cast = array.astype(dtype)
        kept = cast == array if is_integer else np.isfinite(cast) == np.isfinite(array)
        if not kept.all():
            raise ValueError(f"a value that {dtype} cannot hold")
        return cast
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"input {name}: {error}") from error


def _column(done: list[tuple[range, Any]], n: int, about: TensorInfo) -> Any:
    """An output of all rows, from those of parts."""
    if len(done) == 1 and len(done[0][0]) == n:
        return done[0][1]
    dtype = done[0][1].dtype if done else np.dtype(NUMPY_NAMES[about.dtype().name])
    shapes = {result.shape[1:] for _, result in done}
    if not shapes:
        shapes = {about.sizes()[1:]}
    column: Any = np.empty(n, object)
    if len(shapes) == 1:
        column = np.zeros((n, *shapes.pop()), dtype)
    else:
        for i in range(n):
            column[i] = np.zeros((0,) * (len(about.sizes()) - 1), dtype)
    for part, result in done:
        for i, row in zip(part, result, strict=True):
            column[i] = row
    return column


@functools.lru_cache(maxsize=8)
def _load(arguments: bytes, file: tuple[int, ...]) -> Rows:
    return Rows(*pickle.loads(arguments))
