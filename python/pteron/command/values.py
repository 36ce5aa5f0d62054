"""Reads inputs of a method from the command line, writes outputs to files or a summary."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pteron.command.program_file import Known
from pteron.command.usage import Flags, UsageError, nearest
from pteron.runtime import MethodMeta, ScalarMeta, TensorInfo
from pteron.runtime.python.scalar_type import NUMPY_NAMES

_BOOLS = {"true": True, "false": False}
#: Functions of the text, and what is expected.
_SCALARS: dict[str, tuple[Callable[[str], Any], str]] = {
    "Int": (int, "an integer"),
    "Double": (float, "a number"),
    "Bool": (lambda text: _BOOLS[text.lower()], "true or false"),
}
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_IMAGE = re.compile(rf"(.*?(?:{'|'.join(map(re.escape, _IMAGES))}))(?::(.*))?", re.I | re.S)
_ORDERS = ("RGB", "BGR")


def define_flags(values: Flags) -> None:
    values.multi_string(
        "input",
        [],
        "NAME=VALUE, where NAME is an input or its position and VALUE is `random`, `random:2,16`"
        " (sizes), `zeros`, a number, a file .npy, an image, or FILE.npz:KEY, FILE.safetensors:KEY."
        " A file .npz or .safetensors, `random` or `zeros` without NAME is for all inputs that are"
        " not named. May be repeated. An image is scaled to the input's size; its pixels are from 0"
        " to 1, for uint8 to 255. More of it: `cat.png:mean=0.5,0.5,0.5:std=0.2:size=224,320"
        ":channel_order=BGR`; size is height,width. By default mean, std and channel_order are what"
        " the program's constant methods of these names return (pteron export --constant).",
        short_name="i",
    )


def inputs_of(meta: MethodMeta, texts: Sequence[str], known: Known) -> list[Any]:
    """Flat inputs. UsageError lists all invalid or missing ones."""
    named: dict[int, str] = {}
    rest: list[str] = []
    problems: list[str] = []
    names = names_of(meta)
    for text in texts:
        name, equal, value = text.partition("=")
        if not equal or ":" in name:
            rest.append(text)
        elif name in names:
            named[names.index(name)] = value
        elif name.isdigit() and int(name) < len(names):
            named[int(name)] = value
        else:
            problems.append(nearest("input", name, names))
    if len(names) == len(rest) == 1 and (rest[0].endswith(".npy") or _IMAGE.fullmatch(rest[0])):
        named[0] = rest.pop()  # the input is unambiguous
    shared = _Shared(rest, names)
    source = _Source(known, np.random.default_rng(0))
    values: list[Any] = []
    for index, name in enumerate(names):
        about = meta.input_meta(index)
        try:
            if index in named:
                values.append(source.value(named[index], about, name))
            elif isinstance(about, ScalarMeta) and not about.symbolic:
                values.append(about.value)
            else:
                values.append(shared.value(index, about, source))
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

    def value(self, index: int, about: Any, source: _Source) -> Any:
        for key in (self._names[index], f"input_{index}"):
            if key in self._tensors:
                return self._tensors[key]
        if not self._words:
            raise UsageError(
                f"{_described(about)} is not given; expected --input {self._names[index]}=x.npy,"
                f" or --input random for all"
            )
        return source.value(self._words[-1], about, self._names[index])


class _Source:
    """Values of inputs that are named."""

    def __init__(self, known: Known, generator: np.random.Generator) -> None:
        self._known, self._generator = known, generator

    def value(self, text: str, about: TensorInfo | ScalarMeta, name: str) -> Any:
        word, _, more = text.partition(":")
        if isinstance(about, ScalarMeta):
            if text in ("random", "zeros"):
                return about.value if about.value is not None else 1
            parse, expected = _SCALARS[about.kind]
            try:
                return parse(text)
            except (ValueError, KeyError) as error:
                raise UsageError(f"found {text!r}; expected {expected}") from error
        if word in ("random", "zeros"):
            if more and not all(size.isdigit() for size in more.split(",")):
                raise UsageError(f"found {text!r}; expected sizes, as {word}:2,16")
            sizes = tuple(map(int, more.split(","))) if more else about.sizes()
            drawn = self._random(sizes, about, name) if word == "random" else np.zeros(sizes)
            return _cast(drawn, about)
        if (number := _number(text)) is not None:
            return _filled(number, about)
        if image := _IMAGE.fullmatch(text):
            return _cast(_image(Path(image[1]), image[2] or "", about, self._known.image), about)
        path, _, key = text.rpartition(":")
        if path and not Path(text).exists():
            found = _read_all(Path(path))
            if key not in found:
                raise UsageError(nearest("tensor", key, found))
            return found[key]
        return _read(Path(text))

    def _random(self, sizes: tuple[int, ...], about: TensorInfo, name: str) -> Any:
        dtype = about.dtype().name
        if dtype in ("Float", "Double", "Half", "BFloat16"):
            return self._generator.standard_normal(sizes)
        if dtype in ("ComplexFloat", "ComplexDouble"):
            parts = self._generator.standard_normal((2, *sizes))
            return parts[0] + 1j * parts[1]
        # Without a range 0 and 1: any indexed dimension has at least two.
        least, greatest = self._known.ranges.get(name, (0, 1))
        if dtype in ("Char", "Short", "Int"):  # values of which the model converts
            greatest = min(greatest, int(np.iinfo(NUMPY_NAMES[dtype]).max))
        return self._generator.integers(least, greatest, sizes, endpoint=True)


def _number(text: str) -> bool | int | float | None:
    if text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def _filled(number: float, about: TensorInfo) -> Any:
    """An input whose elements are all one number. UsageError if its dtype has no such one."""
    name = about.dtype().name
    kind = np.dtype(NUMPY_NAMES.get(name, "float32"))
    fits = number in (0, 1)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        fits = limits.min <= number <= limits.max and number == int(number)
    elif kind.kind in "fc":
        size = abs(number)
        fits = not size < math.inf or size <= float(np.finfo(kind).max)
    if not fits:
        raise UsageError(f"found {number}, which {name} does not have; expected another number")
    exact = kind if kind.kind in "iu" else np.float64
    return _cast(np.full(about.sizes(), number, exact), about)


def _cast(array: Any, about: TensorInfo) -> Any:
    name = about.dtype().name
    if name in NUMPY_NAMES:
        return np.asarray(array).astype(NUMPY_NAMES[name])
    import torch  # NumPy lacks the dtype

    return torch.from_numpy(np.array(array, np.float32)).to(getattr(torch, name.lower()))


def _image(path: Path, options: str, about: TensorInfo, known: Mapping[str, Any]) -> Any:
    """Pixels as [..., channels, height, width], or with the channels last, or as [height, width].

    UsageError lists all wrong options.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError("reading images needs the package pillow (pip install pillow)") from error
    sizes = about.sizes()
    last = len(sizes) > 2 and sizes[-1] in (1, 3)
    channels = sizes[-1] if last else sizes[-3] if len(sizes) > 2 else 1
    if channels not in (1, 3) or len(sizes) < 2:
        raise UsageError(
            f"it is {_described(about)}; expected [..., channels, height, width] or [..., height,"
            f" width, channels] for an image, with 1 or 3 channels"
        )
    is_float = about.dtype().name in ("Float", "Double", "Half", "BFloat16")
    found: dict[str, Any] = {"size": sizes[-3:-1] if last else sizes[-2:]}
    given: dict[str, Any] = {}
    problems = [] if path.is_file() else [f"there is no file {str(path)!r}"]
    for part in filter(None, options.split(":")):
        key, _, text = part.partition("=")
        if key not in _OPTIONS:
            problems.append(nearest("option of images", key, _OPTIONS))
        elif key in ("mean", "std") and not is_float:
            problems.append(f"{key}: pixels of {_described(about)} are from 0 to 255")
        else:
            given[key] = text
    for key, value in {**known, **given}.items():
        if key in ("mean", "std") and not is_float:
            continue  # the model's own
        parse, expected = _OPTIONS[key]
        try:
            found[key] = parse(value, channels)
        except (ValueError, TypeError):
            of = "" if key in given else ", which the program's constant method returns"
            problems.append(f"{key}: found {value!r}{of}; expected {expected}")
    if problems:
        raise UsageError("\n".join(problems))
    height, width = found["size"]
    try:
        image = Image.open(path).convert("L" if channels == 1 else "RGB").resize((width, height))
    except OSError:
        raise
    except Exception as error:  # of many kinds, as for a bomb
        raise UsageError(f"{str(path)!r} holds no image that can be read ({error})") from error
    pixels = np.asarray(image, np.float32).reshape(height, width, channels)
    if channels == 3 and found.get("channel_order") == "BGR":
        pixels = pixels[..., ::-1]
    if is_float:
        pixels = (pixels / 255 - found.get("mean", 0)) / found.get("std", 1)
    if len(sizes) < 3:
        return pixels[..., 0]
    pixels = pixels if last else pixels.transpose(2, 0, 1)
    batch = sizes[:-3] if about.is_static() else (1,) * (len(sizes) - 3)
    return np.broadcast_to(pixels, (*batch, *pixels.shape))


def _by_channel(value: Any, channels: int) -> Any:
    found = np.asarray(value.split(",") if isinstance(value, str) else value, np.float32)
    if found.size not in (1, channels) or not np.isfinite(found).all():
        raise ValueError
    return found.reshape(-1)


def _deviation(value: Any, channels: int) -> Any:
    found = _by_channel(value, channels)
    if (found <= 0).any():
        raise ValueError
    return found


def _height_and_width(text: str, channels: int) -> tuple[int, int]:
    height, width = map(int, text.split(","))
    if min(height, width) < 1:
        raise ValueError
    return height, width


#: Options of images: functions of the text (or what a program gives) and the channels, and what is
#: expected.
_OPTIONS: dict[str, tuple[Callable[[Any, int], Any], str]] = {
    "mean": (_by_channel, "a number for each channel, or one for all, as 0.485,0.456,0.406"),
    "std": (_deviation, "a positive number for each channel, or one for all, as 0.2"),
    "size": (_height_and_width, "height,width, as 224,320"),
    "channel_order": (lambda text, channels: _ORDERS[_ORDERS.index(text)], "RGB or BGR"),
}


def _read(path: Path) -> Any:
    if not path.is_file() and path.suffix in (".npy", ".npz", ".safetensors"):
        raise UsageError(f"there is no file {str(path)!r}")
    if path.suffix == ".npy":
        return _load(path, "no array of numbers; expected what np.save writes")
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
    return _load(path, "no arrays of numbers; expected what np.savez or save_file writes")


def _load(path: Path, problem: str) -> Any:
    from safetensors.numpy import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return dict(archive)
        with path.open("rb") as opened:
            return np.lib.format.read_array(opened, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # of many kinds: zipfile's, zlib's, tokenize's, ...
        raise UsageError(f"{str(path)!r} holds {problem} ({error})") from error


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
