"""Metadata of a method, read from the file without loading the method."""

import dataclasses
from typing import Any

from pteron.runtime.python.errors import InvalidArgumentError
from pteron.runtime.python.scalar_type import ScalarType


@dataclasses.dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor among the inputs, outputs or mutable buffers of a method.

    The accessors are ExecuTorch's; `sizes` are upper bounds if the shape is dynamic.
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
        """Bytes of the largest shape."""
        return self._nbytes

    def is_memory_planned(self) -> bool:
        """Whether it is in planned memory of the method."""
        return self._planned

    def dim_order(self) -> tuple[int, ...]:
        """The dim order, outermost dimension first."""
        return self._dim_order

    def is_static(self) -> bool:
        """Whether its shape is static."""
        return self._is_static

    def name(self) -> str:
        """For inputs and outputs as in `input_names`; for a mutable buffer its fully qualified
        name."""
        return self._name


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarMeta:
    """An input or output that is not a tensor.

    Attributes:
      kind: `Int`, `Double`, `Bool`, `String`, `None` or the name of a list.
      value: the value at export, for the first four.
      symbolic: whether an input may differ from `value`.
    """

    kind: str
    value: int | float | bool | str | None
    symbolic: bool


class MethodMeta:
    """Inputs, outputs and requirements of a method."""

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
        """Names of the module's arguments: `ids`, nested: `batch_ids`.

        Unique among inputs and among outputs; empty in files of other writers.
        """
        return [value["name"] for value in self._native["inputs"]]

    def output_names(self) -> list[str]:
        """Keys of the returned dict, else `output_0`, `output_1`, ..."""
        return [value["name"] for value in self._native["outputs"]]

    def input_meta(self, index: int) -> TensorInfo | ScalarMeta:
        """Metadata of input `index` of any kind."""
        return _value_meta(_at(self._native["inputs"], index, "input", self.name()))

    def output_meta(self, index: int) -> TensorInfo | ScalarMeta:
        """Metadata of output `index` of any kind."""
        return _value_meta(_at(self._native["outputs"], index, "output", self.name()))

    def input_tensor_meta(self, index: int) -> TensorInfo:
        """Raises InvalidArgumentError if input `index` is not a tensor."""
        return _tensor_only(self.input_meta(index), "input", index)

    def output_tensor_meta(self, index: int) -> TensorInfo:
        """Raises InvalidArgumentError if output `index` is not a tensor."""
        return _tensor_only(self.output_meta(index), "output", index)

    def num_attributes(self) -> int:
        """The number of mutable buffers."""
        return len(self._native["mutable_buffers"])

    def attribute_tensor_meta(self, index: int) -> TensorInfo:
        """Metadata of a mutable buffer; they are sorted by name."""
        native = _at(self._native["mutable_buffers"], index, "mutable buffer", self.name())
        sizes = tuple(native["sizes"])
        order = tuple(range(len(sizes)))
        return TensorInfo(
            sizes, ScalarType(native["dtype"]), native["nbytes"], True, order, True, native["name"]
        )

    def backends(self) -> list[str]:
        """The backend id of each delegate, in load order."""
        return list(self._native["backends"])

    def operators(self) -> list[str]:
        """The kernels it calls outside its delegates."""
        return list(self._native["operators"])

    def planned_nbytes(self) -> int:
        """Bytes for activations and state allocated at load."""
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
