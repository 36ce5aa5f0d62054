"""Reads inputs of a method from the command line, writes outputs to files or a summary."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from pteron.command.usage import UsageError, nearest
from pteron.runtime import MethodMeta, ScalarMeta, TensorInfo

_SCALARS: dict[str, Callable[[str], Any]] = {
    "Int": int,
    "Double": float,
    "Bool": lambda text: text == "true",
}
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_DTYPES = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "Bool": "bool",
}


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_multi_string(
        "input",
        [],
        "NAME=VALUE, where NAME is an input or its position and VALUE is `random`, `random:2,16`"
        " (sizes), `zeros`, a number, a file .npy, an image (scaled to the input's size, 0 to 1),"
        " or FILE.npz:KEY, FILE.safetensors:KEY. A file .npz or .safetensors, `random` or `zeros`"
        " without NAME is for all inputs that are not named. May be repeated.",
        short_name="i",
        flag_values=values,
    )


def inputs_of(meta: MethodMeta, texts: Sequence[str]) -> list[Any]:
    """Flat inputs. UsageError lists all invalid or missing ones."""
    named: dict[int, str] = {}
    rest: list[str] = []
    problems: list[str] = []
    names = names_of(meta)
    for text in texts:
        name, equal, value = text.partition("=")
        if not equal:
            rest.append(text)
        elif name in names:
            named[names.index(name)] = value
        elif name.isdigit() and int(name) < len(names):
            named[int(name)] = value
        else:
            problems.append(nearest("input", name, names))
    if len(names) == 1 and len(rest) == 1 and Path(rest[0]).suffix in (".npy", *_IMAGES):
        named[0] = rest.pop()  # the input is unambiguous
    shared = _Shared(rest, names)
    generator = np.random.default_rng(0)
    values: list[Any] = []
    for index, name in enumerate(names):
        about = meta.input_meta(index)
        try:
            if index in named:
                values.append(_value(named[index], about, generator))
            elif isinstance(about, ScalarMeta) and not about.symbolic:
                values.append(about.value)
            else:
                values.append(shared.value(index, about, generator))
        except (UsageError, OSError, ValueError, KeyError) as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise UsageError("--input: " + "\n".join(problems))
    return values


def names_of(meta: MethodMeta) -> list[str]:
    """Names of the inputs; input_0, input_1, ... if the file has none."""
    return [name or f"input_{index}" for index, name in enumerate(meta.input_names())]


def output_names_of(meta: MethodMeta) -> list[str]:
    """Likewise."""
    return [name or f"output_{index}" for index, name in enumerate(meta.output_names())]


class _Shared:
    """The value for all inputs that are not named."""

    def __init__(self, texts: Sequence[str], names: Sequence[str]) -> None:
        self._words = [t for t in texts if t.partition(":")[0] in ("random", "zeros")]
        self._names = names
        self._tensors: dict[str, Any] = {}
        for text in texts:
            if text not in self._words:
                self._tensors.update(_read_all(Path(text)))

    def value(self, index: int, about: Any, generator: np.random.Generator) -> Any:
        for key in (self._names[index], f"input_{index}"):
            if key in self._tensors:
                return self._tensors[key]
        if not self._words:
            raise UsageError(
                f"{_described(about)} is not given; expected --input {self._names[index]}=x.npy,"
                f" or --input random for all"
            )
        return _value(self._words[-1], about, generator)


def _value(text: str, about: TensorInfo | ScalarMeta, generator: np.random.Generator) -> Any:
    word, _, more = text.partition(":")
    if isinstance(about, ScalarMeta):
        if text in ("random", "zeros"):
            return about.value if about.value is not None else 1
        return _SCALARS[about.kind](text)
    if word in ("random", "zeros"):
        if more and not all(size.isdigit() for size in more.split(",")):
            raise UsageError(f"found {text!r}; expected sizes, as {word}:2,16")
        sizes = tuple(map(int, more.split(","))) if more else about.sizes()
        return _cast(
            _random(sizes, about, generator) if word == "random" else np.zeros(sizes), about
        )
    try:
        return _cast(np.full(about.sizes(), float(text)), about)
    except ValueError:
        pass
    path, _, key = text.rpartition(":")
    if path and not Path(text).exists():
        found = _read_all(Path(path))
        if key not in found:
            raise UsageError(nearest("tensor", key, found))
        return found[key]
    return _cast(_image(Path(text), about.sizes()), about) if _is_image(text) else _read(Path(text))


def _random(sizes: tuple[int, ...], about: TensorInfo, generator: np.random.Generator) -> Any:
    if about.dtype().name in ("Float", "Double", "Half", "BFloat16"):
        return generator.standard_normal(sizes)
    return generator.integers(0, 2, sizes)  # any indexed dimension has at least two


def _cast(array: Any, about: TensorInfo) -> Any:
    name = about.dtype().name
    if name in _DTYPES:
        return np.asarray(array).astype(_DTYPES[name])
    import torch  # NumPy lacks the dtype

    return torch.from_numpy(np.asarray(array, np.float32)).to(getattr(torch, name.lower()))


def _is_image(text: str) -> bool:
    return text.lower().endswith(_IMAGES)


def _image(path: Path, sizes: tuple[int, ...]) -> Any:
    """Pixels from 0 to 1 as [..., channels, height, width], or with the channels last."""
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError("reading images needs the package pillow (pip install pillow)") from error
    last = len(sizes) > 2 and sizes[-1] in (1, 3)
    channels, height, width = (sizes[-1], *sizes[-3:-1]) if last else sizes[-3:]
    image = Image.open(path).convert("L" if channels == 1 else "RGB").resize((width, height))
    pixels = np.asarray(image, np.float32).reshape(height, width, channels) / 255
    return (pixels if last else pixels.transpose(2, 0, 1)).reshape(
        (1,) * (len(sizes) - 3) + sizes[-3:]
    )


def _read(path: Path) -> Any:
    if not path.is_file() and path.suffix in (".npy", ".npz", ".safetensors"):
        raise UsageError(f"there is no file {str(path)!r}")
    if path.suffix == ".npy":
        try:
            return np.load(path, allow_pickle=False)
        except ValueError as error:
            raise UsageError(
                f"{str(path)!r} holds no array of numbers; expected what np.save writes"
            ) from error
    if path.suffix in (".npz", ".safetensors"):
        found = _read_all(path)
        if len(found) == 1:
            return next(iter(found.values()))
        raise UsageError(f"{path} has {', '.join(found)}; expected {path}:KEY")
    what = "nothing" if path == Path() else repr(str(path))
    raise UsageError(
        f"found {what}; expected random, zeros, a number, or a file .npy, .npz, .safetensors"
        f" or an image ({', '.join(_IMAGES)})"
    )


def _read_all(path: Path) -> Mapping[str, Any]:
    if path.suffix not in (".npz", ".safetensors"):
        raise UsageError(
            f"found {str(path)!r}; expected NAME=VALUE, random, zeros, or a file .npz or"
            f" .safetensors"
        )
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    from safetensors.numpy import load_file

    return load_file(path)


def save(path: Path, outputs: Mapping[str, Any]) -> None:
    """Writes outputs; call `check_output` first."""
    arrays = {name: to_numpy(value) for name, value in outputs.items()}
    try:
        _SAVERS[path.suffix](path, arrays)
    except OSError as error:
        raise RuntimeError(f"cannot write {path}: {error.strerror}\ntry:  another path") from error


def _save_one(path: Path, arrays: Mapping[str, Any]) -> None:
    (array,) = arrays.values()
    np.save(path, array)


def _save_safetensors(path: Path, arrays: Mapping[str, Any]) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


_SAVERS: dict[str, Callable[[Path, Mapping[str, Any]], None]] = {
    ".npy": _save_one,
    ".npz": lambda path, arrays: np.savez(path, **arrays),
    ".safetensors": _save_safetensors,
}


def check_output(path: Path, count: int) -> None:
    """UsageError: outputs cannot go to such a file."""
    if path.suffix not in _SAVERS:
        raise UsageError(f"--output: found {path.name!r}; expected a name in {', '.join(_SAVERS)}")
    if path.suffix == ".npy" and count != 1:
        raise UsageError(f"--output: a .npy file holds one array, and there are {count} outputs")
    if path.is_dir():
        raise UsageError(f"--output: {str(path)!r} is a folder; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--output: there is no folder {str(path.parent)!r}")
    if not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(f"--output: the folder {str(path.parent)!r} may not be written to")


def to_numpy(value: Any) -> Any:
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def summary(value: Any) -> dict[str, Any]:
    """A few figures of an output."""
    array = to_numpy(value)
    about: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size and array.dtype.kind in "fiub":
        wide = array.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        if finite.size:
            about.update(min=finite.min(), mean=finite.mean(), max=finite.max())
        if finite.size < wide.size:
            about["not_finite"] = int(wide.size - finite.size)
        about["first"] = [v if math.isfinite(v) else str(v) for v in wide.ravel()[:6].tolist()]
    return about


def _described(about: TensorInfo | ScalarMeta) -> str:
    if isinstance(about, ScalarMeta):
        return about.kind
    bound = "" if about.is_static() else " at most"
    return f"{about.dtype().name}{bound} {list(about.sizes())}"
