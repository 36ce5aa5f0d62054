"""Results of lowering partitions, kept in the object cache by what they were made of.

    key = key_of(program, settings)       # None: it has something that the key does not know
    kept = KeptResults(cache, key, program)
    result = kept.find(True, boundaries)  # the payload of an equal partition, or None
    kept.put(result, recipe, ...)         # after lowering

The key has the graph, the layouts of its constants, what lowering was told, and all versions. It
has values only of constants that are no weights, and of scalars: weights take the way to the
payload that was recorded (`weight_recipe`), so others of the same model find it, too. A recipe that
does not hold for them is passed over; a key has several results, then.

A wrong hit would be a wrong program. So the key lists what it knows, and what it does not know is
not kept; and only what gives the same payload again is.
"""

import contextlib
import functools
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sympy
import torch
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._sympy.value_ranges import ValueRanges

from pteron.backends.aoti import inductor, payload, recipe_replay, weight_recipe
from pteron.backends.aoti.inductor.patches import REPAIRS
from pteron.backends.aoti.object_cache import ObjectCache, digest
from pteron.exir.backend.backend_details import PreprocessResult
from pteron.exir.backend.partition_boundary import BOUNDARIES
from pteron.exir.graph.export_guards import guards_of
from pteron.exir.graph.exported_program import (
    CONSTANT_KINDS,
    constant_tensor,
    input_specs_by_name,
    module_path,
    source_line,
)

_LOG = logging.getLogger(__name__)

_SUFFIX, _FACTS = ".lowered", ".facts"
#: Results for one key: of weights for which code differs.
_RESULTS = 4
#: Weights of a partition whose result is kept: it is made twice then, and compared.
_MOST_BYTES = 4 << 30
#: Operators whose meaning torch's version and our sources define.
_NAMESPACES = ("aten", "prims", "pteron", "quantized_decomposed")
_HIGHER_ORDER = ("cond", "while_loop", "map_impl", "scan", "associative_scan")
_MODULES = ("_operator", "math", "torch", "builtins")
#: Of a node's meta: what neither Inductor nor passes read in an inference graph.
_UNREAD_META = frozenset(
    "tensor_meta from_node seq_nr desc torch_fn source_fn_stack delegation_tag left_out_reason "
    "is_gradient_acc autograd_backward no_copy custom_stack_trace".split()
)
_UNREAD_GRAPH_META = {
    *(BOUNDARIES, "dynamo_compile_id", "dynamo_flat_name_to_original_fqn", "module_call_specs"),
}
#: Of a ShapeEnv: what simplifications and decisions depend on.
_ENVIRONMENT = (
    "settings axioms backed_var_to_val var_to_range var_to_hint_override "
    "unbacked_inputs replacements unbacked_renamings divisible exclusion_constraints size_like "
    "unbacked_symint_counter unbacked_symfloat_counter guards deferred_runtime_asserts"
).split()
#: Environment variables that torch and Triton read, but for places of their caches.
_VARIABLES = re.compile(r"(?!\w*CACHE_DIR$)(TORCH|TRITON|INDUCTOR|PYTORCH)\w*")


def _is_empty(value: Any) -> bool:
    return type(value) in (str, tuple, list, dict, set) and not value


class Unknown(Exception):
    """A program has something that the key does not know."""


def key_of(program: ExportedProgram, settings: Iterable[str]) -> str | None:
    """The key of a partition that was not changed yet; None if its result cannot be kept.

    Args:
        program: the partition.
        settings: what it is lowered with, besides `process_settings`.
    """
    try:
        return digest([*process_settings(), *settings, *_Description(program).lines()])
    except Unknown as unknown:
        _LOG.debug("a partition's result is not kept: %s", unknown)
        return None


class _Description:
    """All of a program that lowering depends on, as text."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._environments: dict[int, Any] = {}
        self._storages: dict[int, int] = {}

    def lines(self) -> Iterator[str]:
        program = self._program
        yield from self._graph(program.graph_module)
        used = {node.name for node in program.graph.nodes if node.users}
        targets = set()
        for name, spec in input_specs_by_name(program).items():
            yield f"input {name} {spec.kind.name} {spec.target!r} {spec.persistent} {spec.arg}"
            if spec.kind in CONSTANT_KINDS:
                yield self._constant(program, spec, name in used)
                if spec.target in targets:
                    raise Unknown(f"two constants {spec.target}")
                targets.add(spec.target)
            elif spec.kind is not InputKind.USER_INPUT:
                raise Unknown(f"input of kind {spec.kind}")
        for output in program.graph_signature.output_specs:
            yield f"output {output.kind.name} {output.target!r} {output.arg}"
        yield f"calls {program.call_spec.in_spec} {program.call_spec.out_spec}"
        yield f"ranges {self._value(program.range_constraints)}"
        yield f"guards {self._value(guards_of(program))}"
        for environment in self._environments.values():
            for name in _ENVIRONMENT:
                yield f"{name} {self._value(getattr(environment, name, None))}"
            if not hasattr(environment, "backed_var_to_val"):  # torch 2.11
                yield f"hints {self._value(environment.var_to_val)}"

    def _graph(self, module: torch.fx.GraphModule) -> Iterator[str]:
        yield "graph"
        for name in sorted(module.meta.keys() - _UNREAD_GRAPH_META):
            if name != "inline_constraints":
                raise Unknown(f"a graph's meta {name}")
            yield f"constraints {self._value(module.meta[name])}"
        for node in module.graph.nodes:
            yield f"{node.op} {node.name} {self._target(node)}"
            yield self._value((node.args, node.kwargs))
            yield from self._meta(node)
            if node.op == "get_attr":
                value: Any = module
                for part in node.target.split("."):
                    value = getattr(value, part)
                if not isinstance(value, torch.fx.GraphModule):
                    raise Unknown(f"an attribute that is a {type(value).__name__}")
                yield from self._graph(value)
        yield "end"

    def _target(self, node: torch.fx.Node) -> str:
        target = node.target
        if isinstance(target, str):
            return target
        if isinstance(target, torch._ops.HigherOrderOperator):
            if target.name() in _HIGHER_ORDER and type(target).__module__.startswith("torch."):
                return target.name()
        elif isinstance(target, torch._ops.OpOverload):
            return self._value(target)
        else:
            module, name = getattr(target, "__module__", ""), getattr(target, "__name__", "")
            if module in _MODULES and getattr(sys.modules[module], name, None) is target:
                return f"{module}.{name}"
        raise Unknown(f"the function {target}")

    def _meta(self, node: torch.fx.Node) -> Iterator[str]:
        for name in sorted(node.meta.keys() - _UNREAD_META):
            value = node.meta[name]
            if name == "stack_trace":
                yield f"line {source_line(node)}"
            elif name == "nn_module_stack":
                yield f"module {module_path(node)}"
            elif name == "original_aten":
                yield f"original {value}"
            elif name in ("val", "example_value", "custom"):
                yield f"{name} {self._value(value)}"
            elif name == "unbacked_bindings":
                yield f"bindings {[(self._value(s), str(p)) for s, p in (value or {}).items()]}"
            elif value is not None and value is not False and not _is_empty(value):
                raise Unknown(f"meta {name!r} of {node.name}")

    def _constant(self, program: ExportedProgram, spec: Any, is_used: bool) -> str:
        tensor = constant_tensor(program, spec)
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
            raise Unknown(f"a constant that is a {type(tensor).__name__} on {tensor.device}")
        described = self._tensor(tensor.detach())
        storage = tensor.untyped_storage()
        index = self._storages.setdefault(storage._cdata, len(self._storages))
        value = ""
        if is_used and (tensor.numel() <= 1 or not weight_recipe.is_weight(spec)):
            value = recipe_replay.digest_of(tensor)
        return f"constant {described} {index} {storage.nbytes()} {value}"

    def _tensor(self, tensor: torch.Tensor) -> str:
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
            raise Unknown(f"a tensor of layout {tensor.layout}")
        constant = getattr(tensor, "constant", None)
        value = "" if constant is None else recipe_replay.digest_of(constant)
        sizes = self._value([tensor.shape, tensor.stride(), tensor.storage_offset()])
        return f"{tensor.dtype} {tensor.device} {tensor.requires_grad} {sizes} {value}"

    def _value(self, value: Any) -> str:
        kind = type(value)
        if value is None or kind in (bool, int, str, complex):
            return f"{kind.__name__} {value!r}"
        if kind is float:
            return f"float {value.hex()}"
        if kind in (torch.dtype, torch.layout, torch.memory_format, torch.device):
            return f"{kind.__name__} {value}"
        if isinstance(value, torch.fx.Node):
            return f"%{value.name}"
        if isinstance(value, FakeTensor):
            return f"tensor {self._tensor(value)}"
        if kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
            node = value.node
            if not isinstance(node, torch.fx.experimental.sym_node.SymNode):
                raise Unknown(f"a {type(node).__name__}")
            self._environments.setdefault(id(node.shape_env), node.shape_env)
            return f"{kind.__name__} {sympy.srepr(node.expr)}"
        if isinstance(value, sympy.Basic):
            return f"sympy {sympy.srepr(value)}"
        if kind is ValueRanges:
            return f"range {self._value((value.lower, value.upper, value.is_bool))}"
        if isinstance(value, torch._ops.OpOverload):
            if value.namespace not in _NAMESPACES:
                raise Unknown(f"the operator {value}")
            return f"operator {value} {value._schema}"
        if kind.__name__ in ("ShapeGuard", "RuntimeAssert"):
            return self._value(value.expr)
        if kind.__name__ == "ShapeEnvSettings":
            return repr(value)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            items = ", ".join(map(self._value, value))
            return f"{'list' if isinstance(value, list) else 'tuple'} [{items}]"
        if isinstance(value, set | frozenset) or kind.__name__ == "OrderedSet":
            return f"set [{', '.join(sorted(map(self._value, list(value))))}]"
        if isinstance(value, dict):
            # At once: partitions share symbols, and another thread may learn more of them.
            pairs = (f"{self._value(k)}: {self._value(v)}" for k, v in list(value.items()))
            return f"dict [{', '.join(pairs)}]"
        if kind is slice:
            return f"slice {self._value((value.start, value.stop, value.step))}"
        raise Unknown(f"a value of {kind.__module__}.{kind.__qualname__}")


def process_settings() -> list[str]:
    """What results depend on besides the program and its options."""
    import torch._functorch.config
    import torch._inductor.config
    import torch.fx.experimental._config

    backends: Any = torch.backends
    utils: Any = torch.utils
    of_inductor: Any = torch._inductor.config
    configs = (of_inductor, torch._functorch.config, torch.fx.experimental._config)
    if any("custom" in name and value for name, value in of_inductor.get_config_copy().items()):
        raise Unknown("a pass that Inductor was given")
    return [
        f"{torch.__version__} {torch.version.git_version} {sys.version} {sympy.__version__}",
        f"{sys.platform} {sources_digest()} {sorted(REPAIRS)}",
        *(config.get_hash().hex() for config in configs),
        repr([(k, os.environ[k]) for k in sorted(os.environ) if _VARIABLES.fullmatch(k)]),
        f"{torch.get_default_dtype()} {torch.get_default_device()}",
        f"{torch.are_deterministic_algorithms_enabled()} "
        f"{utils.deterministic.fill_uninitialized_memory}",
        f"{torch._C._get_float32_matmul_precision()} {backends.mkldnn.matmul.fp32_precision}",
    ]


def source_files() -> list[Path]:
    """All modules that lowering consists of: without tests, which are there or not."""
    backends = Path(__file__).parents[1]
    roots = (backends, backends.parent / "exir")
    found = (file for root in roots for file in root.rglob("*.py"))
    return sorted(file for file in found if file.parent.name != "tests")


@functools.cache
def sources_digest() -> str:
    """Of `source_files`."""
    return digest(part for path in source_files() for part in (path.name, path.read_bytes()))


class KeptResults:
    """The results that the cache has for one key. Without a key there are none."""

    def __init__(self, cache: ObjectCache, key: str | None, program: ExportedProgram) -> None:
        self._cache = cache
        self._key = key
        self._tensors = {
            str(spec.target): constant_tensor(program, spec).detach()
            for spec in program.graph_signature.input_specs
            if spec.kind in CONSTANT_KINDS and key is not None
        }

    @contextlib.contextmanager
    def being_made(self) -> Iterator[None]:
        """Other threads with the same key wait, to find its result."""
        with (
            _LOCKS.setdefault(self._key, threading.Lock())
            if self._key
            else contextlib.nullcontext()
        ):
            yield

    def find(self, own_blobs: bool, boundaries: Sequence[str]) -> PreprocessResult | None:
        """The payload of the partition, with its own boundaries; None if it is to be lowered."""
        for entry in self._entries():
            data = self._cache.find(entry, _SUFFIX)
            if data is not None and (made := self._rebuilt(data, own_blobs, boundaries)):
                for name, level, message in _header(data)["messages"]:
                    logging.getLogger(name).log(level, "%s", message)
                return made
        return None

    def put(
        self,
        result: PreprocessResult,
        recipe: bytes,
        constants: Sequence[Sequence[torch.Tensor]],
        own_blobs: bool,
        boundaries: Sequence[str],
        messages: Sequence[tuple[str, int, str]],
        digests: payload.Digests,
    ) -> None:
        """Keeps a result, if it comes out equal.

        Args:
            result: the payload.
            recipe: of the constants of all variants of the code.
            constants: of each variant.
            own_blobs, boundaries, digests: as in `payload.build`.
            messages: what lowering logged: logger, level, text.
        """
        if self._key is None or sum(x.nbytes for x in self._tensors.values()) > _MOST_BYTES:
            return
        named = payload.code_of(result)
        header = {
            "processed": result.processed_bytes.decode(),
            "named": [[name, len(data)] for name, data in named.items()],
            "counts": list(map(len, constants)),
            "messages": list(messages),
        }
        text = json.dumps(header).encode()
        data = b"".join((len(text).to_bytes(8, "little"), text, *named.values(), recipe))
        known = [tensor for each in constants for tensor in each]
        made = self._rebuilt(data, own_blobs, boundaries, known, digests)
        if made is None or payload.names_of(made) != payload.names_of(result):
            _LOG.debug("a partition's result is not kept: it came out different again")
            return
        entries = list(self._entries())
        free = (entry for entry in entries if self._cache.find(entry, _SUFFIX) is None)
        self._cache.put(next(free, entries[-1]), _SUFFIX, data)

    def _entries(self) -> list[str]:
        return [digest((self._key, str(i))) for i in range(_RESULTS)] if self._key else []

    def _rebuilt(
        self,
        data: bytes,
        own_blobs: bool,
        boundaries: Sequence[str],
        known: Sequence[torch.Tensor] = (),
        digests: payload.Digests | None = None,
    ) -> PreprocessResult | None:
        header = _header(data)
        offset = 8 + int.from_bytes(data[:8], "little")
        named = {}
        for name, nbytes in header["named"]:
            named[name] = memoryview(data)[offset : offset + nbytes]
            offset += nbytes
        try:
            with inductor.LOCK, _without_mkldnn():
                tensors = recipe_replay.reuse(memoryview(data)[offset:], self._tensors)
        except Exception as error:  # of an operator
            _LOG.debug("the recipe of a kept result fails", exc_info=error)
            return None
        if tensors is None:
            return None
        rest = iter(_known_where_equal(tensors, known) if known else tensors)
        variants = [[next(rest) for _ in range(count)] for count in header["counts"]]
        return payload.with_tensors(
            header["processed"].encode(), named, variants, own_blobs, boundaries, digests
        )


_LOCKS: dict[str, threading.Lock] = {}


def _known_where_equal(
    tensors: Sequence[torch.Tensor], known: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Of each pair the known tensor if its layout and all bytes of its storage are the same."""
    same: dict[tuple[int, int], bool] = {}
    chosen = []
    for new, old in zip(tensors, known, strict=True):
        storages = [x.untyped_storage() for x in (new, old)]
        whole = [torch.empty(0, dtype=torch.uint8).set_(storage) for storage in storages]
        pair = (storages[0].data_ptr(), storages[1].data_ptr())
        if pair not in same:
            same[pair] = pair[0] == pair[1] or torch.equal(*whole)
        layouts = [(x.dtype, x.shape, x.stride(), x.storage_offset()) for x in (new, old)]
        chosen.append(old if same[pair] and layouts[0] == layouts[1] else new)
    return chosen


def _header(data: bytes) -> Mapping[str, Any]:
    header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    """As where Inductor folded constants."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class Facts:
    """What was found out of operators, by text, kept for processes with equal settings::

    facts = Facts(cache, [repr(target)])
    facts.of("aten.mm.default may be a fallback", lambda: ...)  # plain JSON, None included
    facts.save()
    """

    def __init__(self, cache: ObjectCache, settings: Iterable[str]) -> None:
        self._cache = cache
        self._key = digest(["facts", *process_settings(), *settings])
        data = cache.find(self._key, _FACTS)
        self._known: dict[str, Any] = {} if data is None else json.loads(data)
        self._are_new = False

    def of(self, text: str, find: Callable[[], Any]) -> Any:
        """The fact, found at the first time."""
        if text not in self._known:
            self._known[text] = find()
            self._are_new = True
        return self._known[text]

    def save(self) -> None:
        if self._are_new:
            text = json.dumps(self._known, sort_keys=True)
            self._cache.put(self._key, _FACTS, text.encode())
            self._are_new = False


@contextlib.contextmanager
def logged(name: str) -> Iterator[list[tuple[str, int, str]]]:
    """What this thread logs with loggers below `name`."""
    messages: list[tuple[str, int, str]] = []
    thread = threading.get_ident()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if threading.get_ident() == thread:
                messages.append((record.name, record.levelno, record.getMessage()))

    handler = Handler(logging.WARNING)
    logging.getLogger(name).addHandler(handler)
    try:
        yield messages
    finally:
        logging.getLogger(name).removeHandler(handler)
