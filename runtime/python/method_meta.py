"""What a method takes and returns, read from the file without loading the method."""

import dataclasses
from typing import Any

from pteron.runtime.python.errors import InvalidArgumentError
from pteron.runtime.python.scalar_type import ScalarType


@dataclasses.dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor among the inputs, outputs or mutable buffers of a method.

    The accessors are those of ExecuTorch; `sizes` are upper bounds where the shape is dynamic.
    """

    _sizes: tuple[int, ...]
    _dtype: ScalarType
    _nbytes: int
    _planned: bool
    _dim_order: tuple[int, ...]
    _is_static: bool
    _name: str = ""

    def sizes(self) -> tuple[int, ...]:
        return self._sizes

    def dtype(self) -> ScalarType:
        return self._dtype

    def nbytes(self) -> int:
        """Of the largest shape."""
        return self._nbytes

    def is_memory_planned(self) -> bool:
        """Whether the method has memory of its own for it."""
        return self._planned

    def dim_order(self) -> tuple[int, ...]:
        """Dimensions from the outermost in memory to the innermost."""
        return self._dim_order

    def is_static(self) -> bool:
        """Whether `sizes` are the only ones it can have."""
        return self._is_static

    def name(self) -> str:
        """Of an input or output as in `input_names`; of a mutable buffer fully qualified."""
        return self._name


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarMeta:
    """An input or output that is no tensor.

    Attributes:
      kind: `Int`, `Double`, `Bool`, `String`, `None` or the name of a list.
      value: what it was exported with, for the first four.
      symbolic: whether an input may differ from `value`.
    """

    kind: str
    value: int | float | bool | str | None
    symbolic: bool


class MethodMeta:
    """Inputs, outputs and needs of one method."""

    __slots__ = ("_native",)

    def __init__(self, native: dict[str, Any]) -> None:
        self._native = native

    def name(self) -> str:
        return self._native["name"]

    def num_inputs(self) -> int:
        return len(self._native["inputs"])

    def num_outputs(self) -> int:
        return len(self._native["outputs"])

    def input_names(self) -> list[str]:
        """Those of the module's arguments: `ids`, or of what is nested `batch_ids`.

        Names of inputs, and of outputs, are unique; they are empty in files of other writers.
        """
        return [value["name"] for value in self._native["inputs"]]

    def output_names(self) -> list[str]:
        """The keys of the dict that was returned, else `output_0`, `output_1`, ..."""
        return [value["name"] for value in self._native["outputs"]]

    def input_meta(self, index: int) -> TensorInfo | ScalarMeta:
        """Of whatever kind input `index` is."""
        return _value_meta(_at(self._native["inputs"], index, "input", self.name()))

    def output_meta(self, index: int) -> TensorInfo | ScalarMeta:
        """Of whatever kind output `index` is."""
        return _value_meta(_at(self._native["outputs"], index, "output", self.name()))

    def input_tensor_meta(self, index: int) -> TensorInfo:
        """Raises InvalidArgumentError if input `index` is no tensor."""
        return _tensor_only(self.input_meta(index), "input", index)

    def output_tensor_meta(self, index: int) -> TensorInfo:
        """Raises InvalidArgumentError if output `index` is no tensor."""
        return _tensor_only(self.output_meta(index), "output", index)

    def num_attributes(self) -> int:
        """How many mutable buffers it keeps between calls."""
        return len(self._native["mutable_buffers"])

    def attribute_tensor_meta(self, index: int) -> TensorInfo:
        """Of a mutable buffer; they are sorted by name."""
        native = _at(self._native["mutable_buffers"], index, "mutable buffer", self.name())
        sizes = tuple(native["sizes"])
        order = tuple(range(len(sizes)))
        return TensorInfo(
            sizes, ScalarType(native["dtype"]), native["nbytes"], True, order, True, native["name"]
        )

    def backends(self) -> list[str]:
        """The backend id of each delegate, in the order in which they are loaded."""
        return list(self._native["backends"])

    def operators(self) -> list[str]:
        """The kernels it calls outside its delegates."""
        return list(self._native["operators"])

    def planned_nbytes(self) -> int:
        """Memory for activations and state that loading it allocates."""
        return self._native["planned_nbytes"]

    def __repr__(self) -> str:
        inputs = ", ".join(value["description"] for value in self._native["inputs"])
        outputs = ", ".join(value["description"] for value in self._native["outputs"])
        return f"MethodMeta({self.name()}({inputs}) -> ({outputs}))"


def _at(values: list[Any], index: int, what: str, method: str) -> Any:
    if not 0 <= index < len(values):
        raise InvalidArgumentError(
            f'method "{method}" has no {what} {index}; there are {len(values)}, counted from 0'
        )
    return values[index]


def _value_meta(native: dict[str, Any]) -> TensorInfo | ScalarMeta:
    if native["kind"] != "Tensor":
        return ScalarMeta(native["kind"], native["value"], native["symbolic"])
    return TensorInfo(
        tuple(native["sizes"]),
        ScalarType(native["dtype"]),
        native["nbytes"],
        native["planned"] or native["constant"],
        tuple(native["dim_order"]),
        native["is_static"],
        native["name"],
    )


def _tensor_only(meta: TensorInfo | ScalarMeta, what: str, index: int) -> TensorInfo:
    if isinstance(meta, ScalarMeta):
        raise InvalidArgumentError(f"{what} {index} is {meta.kind}, not a tensor")
    return meta
