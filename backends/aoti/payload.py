"""The payload of one partition: processed bytes, named blobs, metadata.

Keys are derived from content, so equal code and weights of all partitions and methods are stored
once::

    processed bytes   "<so_key>\\n<weights_key>"; of code in several variants these two lines for
                      each, in ascending ISA level
    so_key            "<sha256 of the shared object>_<start of that of the metadata>_so_blob"
    weights_key       "<sha256 of the packed constants>_weights_blob"
    each big constant "<sha256 of its bytes>_weight"
    metadata          "<so_key>/<weights_key>/metadata", a FlatBuffer of schema/metadata.fbs
    recipe            "<so_key>/<weights_key>/recipe", see weight_recipe.py; optional

Keys are unique among all files loaded together, so keys of weights in a .ptd file also have its tag
after the digest.
"""

import collections
import ctypes
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import flatbuffers
import torch
from torch.export import ExportedProgram

import pteron.backends.aoti.schema.metadata_generated as schema
from pteron.backends.aoti import recipe_replay, workers
from pteron.backends.aoti.contract import Contract, TensorContract
from pteron.backends.aoti.inductor import Constant, Kernel
from pteron.backends.aoti.ops.attention.attention import WAYS
from pteron.exir._serialize.named_data_store import NamedDataStore, NamedDataStoreOutput
from pteron.exir.backend.backend_details import PreprocessResult
from pteron.exir.graph.scalar_types import scalar_type

#: Incremented when a bug in generated code that affects results is fixed. `lowering_faults.cpp`
#: describes the bugs of earlier versions, and the runtime warns about them.
LOWERING_VERSION = 3
#: Constants of at least this size are separate blobs.
OWN_BLOB_BYTES = 4096
#: Alignment of every blob, and of every constant in the packed blob.
ALIGNMENT = 64
_FILE_IDENTIFIER = b"PTM1"

#: Digests of parts of storages, by address, start and end, while these storages live.
Digests: TypeAlias = dict[tuple[int, int, int], bytes]


@dataclasses.dataclass(frozen=True)
class SharedObjectInfo:
    """What options decide about the shared object; see schema/metadata.fbs for the fields."""

    device: str
    isa: str = ""
    num_threads: int = 0
    cuda_archs: tuple[str, ...] = ()
    weights_layout: str = "packed"
    platform: str = ""


@dataclasses.dataclass(frozen=True)
class _StoredConstant:
    """A constant and the location of its bytes."""

    constant: Constant
    storage_offset: int
    blob_key: str
    offset: int
    data: memoryview
    digest: bytes


def build(
    shared_object: bytes,
    info: SharedObjectInfo,
    contract: Contract,
    constants: Sequence[Constant],
    *,
    shims: Sequence[str],
    shim_list_version: int,
    op_counts: Mapping[str, int],
    kernels: Sequence[Kernel] = (),
    boundaries: Sequence[str] = (),
    own_blobs: bool = True,
    weights_tag: str | None = None,
    recipe: bytes = b"",
    digests: Digests | None = None,
) -> PreprocessResult:
    """Collects blobs and metadata of one compiled partition.

    Args:
        shared_object: the linked shared library.
        info: target of the shared object.
        contract: inputs and outputs of the partition.
        constants: what it reads.
        shims: functions of the runtime that it imports, sorted.
        shim_list_version: the first version of the shim list that has them all.
        op_counts: what the partition was made of; see `count_operators`.
        kernels: the calls in the code that a profile records, by their numbers.
        boundaries: its partition boundaries and why they are there; see
            `pteron.exir.backend.partition_boundary`.
        own_blobs: store large constants as separate blobs and sort small ones by digest, so that
            partitions share them. Otherwise the weights blob has AOTInductor's own layout: whole
            storages in the given order.
        weights_tag: name of the external file for weights; None keeps them in the program.
        recipe: of the constants; see `weight_recipe`. Empty: there is none.
        digests: known ones; what is found is added.
    """
    inputs, outputs, conditions = contract
    table = _filled(
        schema.ModelMetadataT(),
        device=info.device,
        torchVersion=torch.__version__,
        shimListVersion=shim_list_version,
        shims=list(shims),
        isa=info.isa,
        cpuFeatures=[],
        numThreads=info.num_threads,
        cudaArchs=list(info.cuda_archs),
        inputs=[_tensor_table(item) for item in inputs],
        outputs=[_tensor_table(item) for item in outputs],
        conditions=[_filled(schema.ConditionT(), **vars(item)) for item in conditions],
        weightsLayout=info.weights_layout,
        opCounts=[
            _filled(schema.OpCountT(), op=op, count=count) for op, count in op_counts.items()
        ],
        boundaries=list(boundaries),
        loweringVersion=LOWERING_VERSION,
        platform=info.platform,
        kernels=[_filled(schema.KernelT(), **vars(item)) for item in kernels],
    )
    return _stored(shared_object, table, constants, own_blobs, weights_tag, recipe, digests)


def _stored(
    shared_object: bytes | memoryview,
    table: Any,
    constants: Sequence[Constant],
    own_blobs: bool,
    weights_tag: str | None,
    recipe: bytes | memoryview,
    digests: Digests | None,
) -> PreprocessResult:
    """The blobs of one variant. Fills in the constants of its metadata, `table`."""
    store = NamedDataStore()
    so_digest = hashlib.sha256(shared_object).digest()
    if own_blobs:
        stored, packed = _pack(constants, weights_tag, {} if digests is None else digests)
    else:
        stored, packed = _pack_as_aotinductor(constants, 1 if table.device == "cuda" else ALIGNMENT)
    packed_digest = hashlib.sha256(packed).digest()
    weights_key = _weight_key(packed_digest, "weights_blob", weights_tag)
    store.add_named_data(weights_key, packed, ALIGNMENT, weights_tag, digest=packed_digest)
    stored = [dataclasses.replace(item, blob_key=item.blob_key or weights_key) for item in stored]
    for item in stored:
        if item.blob_key != weights_key:
            store.add_named_data(
                item.blob_key, item.data, ALIGNMENT, weights_tag, digest=item.digest
            )

    table.soDigest = list(so_digest)
    table.constants = [_constant_table(item) for item in stored]
    # The key of the metadata is made of the other two, and equal code has several of them.
    builder = flatbuffers.Builder(4096)
    builder.Finish(table.Pack(builder), file_identifier=_FILE_IDENTIFIER)
    metadata = bytes(builder.Output())
    so_key = f"{so_digest.hex()}_{hashlib.sha256(metadata).hexdigest()[:16]}_so_blob"
    store.add_named_data(so_key, shared_object, alignment=4096, digest=so_digest)
    store.add_named_data(f"{so_key}/{weights_key}/metadata", metadata, ALIGNMENT)
    if recipe:
        store.add_named_data(f"{so_key}/{weights_key}/recipe", recipe, ALIGNMENT)
    return PreprocessResult(
        f"{so_key}\n{weights_key}".encode(), data_store_output=store.get_named_data_store_output()
    )


def weights_of(
    processed_bytes: bytes, named_data: Mapping[str, memoryview]
) -> dict[str, tuple[torch.dtype, tuple[int, ...]]] | None:
    """See `BackendDetails.weights_of`."""
    found: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    for so_key, weights_key in _variants(processed_bytes):
        key = f"{so_key}/{weights_key}"
        if f"{key}/recipe" in named_data:
            found |= recipe_replay.weights_of(named_data[f"{key}/recipe"])
        elif schema.ModelMetadata.GetRootAs(bytes(named_data[f"{key}/metadata"])).ConstantsLength():
            return None
    return found


def with_weights(
    processed_bytes: bytes,
    named_data: Mapping[str, memoryview],
    weights: Mapping[str, torch.Tensor],
) -> PreprocessResult:
    """See `BackendDetails.with_weights`."""
    made: dict[bytes, list[torch.Tensor]] = {}
    variants = []
    for so_key, weights_key in _variants(processed_bytes):
        recipe = bytes(named_data.get(f"{so_key}/{weights_key}/recipe", b""))
        if recipe not in made:
            made[recipe] = recipe_replay.replay(recipe, weights) if recipe else []
        variants.append(made[recipe])
    return with_tensors(processed_bytes, named_data, variants)


def with_tensors(
    processed_bytes: bytes,
    named_data: Mapping[str, memoryview],
    variants: Sequence[Sequence[torch.Tensor]],
    own_blobs: bool = True,
    boundaries: Sequence[str] | None = None,
    digests: Digests | None = None,
) -> PreprocessResult:
    """The same code with the constants `variants`, in the order in which each variant of the code
    has them; and with other boundaries, if given. `named_data` need not have the old constants."""
    digests = {} if digests is None else digests
    results = []
    for (so_key, weights_key), tensors in zip(_variants(processed_bytes), variants, strict=True):
        key = f"{so_key}/{weights_key}"
        metadata = schema.ModelMetadata.GetRootAs(bytes(named_data[f"{key}/metadata"]))
        table = schema.ModelMetadataT.InitFromObj(metadata)
        constants = [
            Constant(index, item.name.decode(), item.fqn.decode(), tensor)
            for index, (item, tensor) in enumerate(zip(table.constants or (), tensors, strict=True))
        ]
        if boundaries is not None:
            table.boundaries = list(boundaries)
        tag = weights_key.partition("_")[2].removesuffix("weights_blob").removesuffix("_")
        recipe = named_data.get(f"{key}/recipe", b"")
        results.append(
            _stored(named_data[so_key], table, constants, own_blobs, tag or None, recipe, digests)
        )
    return join(results)


def code_of(result: PreprocessResult) -> dict[str, memoryview]:
    """Of the named data of a payload, what `with_tensors` needs."""
    data = result.data_store_output
    assert data is not None
    keys = [
        (so_key, f"{so_key}/{key}/metadata") for so_key, key in _variants(result.processed_bytes)
    ]
    return {
        name: data.buffers[data.pte_data[name].buffer_index].data for pair in keys for name in pair
    }


def names_of(result: PreprocessResult) -> set[tuple[str, str | None]]:
    """The names of a payload's data, which have digests of all that is in it, and their files."""
    data = result.data_store_output
    assert data is not None
    return {(key, tag) for key, _, tag in data.entries()}


def _variants(processed_bytes: bytes) -> list[tuple[str, str]]:
    """Keys of code and weights."""
    keys = processed_bytes.decode().split("\n")
    return list(zip(keys[::2], keys[1::2], strict=True))


def join(variants: Sequence[PreprocessResult]) -> PreprocessResult:
    """Merges the results of all code variants of a partition, in ascending ISA level. Shared blobs
    are stored once."""
    if len(variants) == 1:
        return variants[0]
    store = NamedDataStore()
    for variant in variants:
        if variant.data_store_output is not None:
            store.merge_named_data_store(variant.data_store_output)
    return PreprocessResult(
        b"\n".join(variant.processed_bytes for variant in variants),
        data_store_output=store.get_named_data_store_output(),
    )


# --- constants -------------------------------------------------------------------------------


def _weight_key(digest: bytes, kind: str, tag: str | None) -> str:
    return "_".join(filter(None, (digest.hex(), tag, kind)))


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The byte range of its storage that `tensor` covers, end exclusive."""
    if tensor.numel() == 0:
        return 0, 0
    first = tensor.storage_offset()
    last = first + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return int(first) * tensor.element_size(), int(last + 1) * tensor.element_size()


def _storage_view(tensor: torch.Tensor, start: int = 0, end: int | None = None) -> memoryview:
    """These bytes of the tensor's storage; copied only if they are on a device."""
    storage = tensor.untyped_storage()
    nbytes = (storage.nbytes() if end is None else end) - start
    if nbytes == 0:
        return memoryview(b"")
    part = torch.empty(0, dtype=torch.uint8, device=storage.device)
    part.set_(storage, start, (nbytes,))  # type: ignore[call-overload]  # torch's stub is wrong
    part = part.cpu()
    raw = (ctypes.c_ubyte * nbytes).from_address(part.data_ptr())
    raw._owner = part  # type: ignore[attr-defined]  # the view keeps the memory alive
    return memoryview(raw).cast("B").toreadonly()


def _shared_extents(constants: Iterable[Constant]) -> dict[int, list[tuple[int, int]]]:
    """Per storage, the byte ranges of its constants, merged if they overlap.

    A merged range starts at an aligned byte, to preserve alignment in the storage.
    """
    ranges: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
    for constant in constants:
        ranges[constant.tensor.untyped_storage().data_ptr()].append(_extent(constant.tensor))
    for storage, extents in ranges.items():
        joined: list[tuple[int, int]] = []
        for start, end in sorted(set(extents)):
            if joined and start < joined[-1][1]:
                first, last = joined[-1]
                joined[-1] = (first - first % ALIGNMENT, max(last, end))
            else:
                joined.append((start, end))
        ranges[storage] = joined
    return ranges


def _pack(
    constants: Sequence[Constant], weights_tag: str | None, digests: Digests
) -> tuple[list[_StoredConstant], bytes]:
    """The location of each constant, and the bytes of the packed blob (whose key is not known
    yet)."""
    extents = _shared_extents(constants)
    views: dict[tuple[int, int, int], memoryview] = {}
    located = []
    for constant in constants:
        tensor = constant.tensor
        storage = tensor.untyped_storage().data_ptr()
        first, last = _extent(tensor)
        start, end = next(r for r in extents[storage] if r[0] <= first and last <= r[1])
        key = (storage, start, end)
        if key not in views:
            views[key] = _storage_view(tensor, start, end)
        located.append((constant, key, (first - start) // tensor.element_size()))

    new = [key for key in views if key not in digests]
    with workers.Workers(len(os.sched_getaffinity(0))) as pool:
        found = pool.map(lambda key: hashlib.sha256(views[key]).digest(), new)
        digests.update(zip(new, found, strict=True))

    packed = bytearray()
    offsets: dict[bytes, int] = {}
    small = {digests[key]: data for key, data in views.items() if data.nbytes < OWN_BLOB_BYTES}
    for digest in sorted(small):
        offsets[digest] = len(packed)
        packed += small[digest]
        packed += bytes(-len(packed) % ALIGNMENT)
    stored = []
    for constant, key, storage_offset in located:
        digest = digests[key]
        blob_key = "" if digest in offsets else _weight_key(digest, "weight", weights_tag)
        offset = offsets.get(digest, 0)
        stored.append(
            _StoredConstant(constant, storage_offset, blob_key, offset, views[key], digest)
        )
    return stored, bytes(packed)


def _pack_as_aotinductor(
    constants: Sequence[Constant], alignment: int
) -> tuple[list[_StoredConstant], bytes]:
    """The layout of AOTInductor's own blob: whole storages, padded unless all are on a GPU."""
    packed = bytearray()
    stored = []
    for constant in constants:
        data = _storage_view(constant.tensor)
        digest = hashlib.sha256(data).digest()
        storage_offset = int(constant.tensor.storage_offset())
        stored.append(_StoredConstant(constant, storage_offset, "", len(packed), data, digest))
        packed += data
        packed += bytes(-len(packed) % alignment)
    return stored, bytes(packed)


# --- metadata --------------------------------------------------------------------------------


def count_operators(program: ExportedProgram) -> dict[str, int]:
    """The number of calls per operator in the partition."""
    counts = collections.Counter(
        str(node.target) for node in program.graph.nodes if node.op == "call_function"
    )
    return dict(sorted(counts.items()))


def _filled(table: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(table, name, value)
    return table


def _tensor_table(contract: TensorContract) -> Any:
    return _filled(
        schema.TensorContractT(),
        scalarType=scalar_type(contract.dtype).number,
        dims=[_filled(schema.DimT(), **vars(dim)) for dim in contract.dims],
        strides=list(contract.strides),
        mutated=contract.mutated,
    )


def _constant_table(item: _StoredConstant) -> Any:
    tensor = item.constant.tensor
    return _filled(
        schema.ConstantT(),
        name=item.constant.name,
        fqn=item.constant.fqn,
        scalarType=scalar_type(tensor.dtype).number,
        sizes=list(tensor.shape),
        strides=list(tensor.stride()),
        storageOffset=item.storage_offset,
        blobKey=item.blob_key,
        offset=item.offset,
        nbytes=item.data.nbytes,
        digest=list(item.digest),
    )


def describe(processed_bytes: bytes, data: NamedDataStoreOutput | None) -> dict[str, str]:
    """What there is to say of a payload in one line each."""
    keys = processed_bytes.decode().split("\n")
    tables, code = [], 0
    for so_key, weights_key in zip(keys[::2], keys[1::2], strict=False):
        entry = data.pte_data.get(f"{so_key}/{weights_key}/metadata") if data is not None else None
        if data is None or entry is None:
            return {}
        metadata = bytes(data.buffers[entry.buffer_index].data)
        tables.append(schema.ModelMetadataT.InitFromObj(schema.ModelMetadata.GetRootAs(metadata)))
        code += data.buffers[data.pte_data[so_key].buffer_index].nbytes
    if not tables:
        return {}
    table = tables[-1]
    sizes = {bytes(c.digest): c.nbytes for each in tables for c in each.constants or ()}
    lines = {
        "device": table.device.decode(),
        "platform": (table.platform or b"").decode(),
        "isa": ", ".join((each.isa or b"").decode() for each in tables),
        "threads": str(table.numThreads) if table.numThreads else "",
        "archs": ", ".join(arch.decode() for arch in table.cudaArchs or ()),
        "attention": ", ".join(
            f"{entry.count} by {WAYS[entry.op.decode()]}"
            for entry in table.opCounts or ()
            if entry.op.decode() in WAYS
        ),
        "torch": table.torchVersion.decode(),
        "code": f"{code} bytes",
        "weights": f"{table.weightsLayout.decode()}, {len(table.constants or ())} constants, "
        f"{sum(sizes.values())} bytes",
        "shims": ", ".join(
            shim.decode() for shim in table.shims or () if b"_cpu_" in shim or b"_cuda_" in shim
        ),
    }
    return {name: text for name, text in lines.items() if text}
