"""Blobs and metadata: keys, sharing, what a reader finds."""

import functools
import hashlib

import torch

import pteron.backends.aoti.schema.metadata_generated as schema
from pteron.backends.aoti import payload
from pteron.backends.aoti.contract import Condition, Dim, TensorContract
from pteron.backends.aoti.inductor import Constant
from pteron.exir._serialize.named_data_store import NamedDataStore

INFO = payload.SharedObjectInfo(device="cpu", isa="x86-64-v3", num_threads=2)
CONTRACT = (
    (TensorContract(torch.float32, (Dim(1, 8, 0, 2, 1), Dim(4, 4)), (4, 1), True),),
    (TensorContract(torch.int64, (), ()),),
    (Condition("<=", (1, 0), (0, 8), "x.size(0) <= 8"),),
)
pack = functools.partial(
    payload.build,
    b"\x7fELF shared object",
    INFO,
    CONTRACT,
    shims=("aoti_torch_zero_",),
    shim_list_version=3,
    op_counts={},
)


def build(*tensors: torch.Tensor, **options):
    constants = [Constant(i, f"c{i}", f"layer.c{i}", t) for i, t in enumerate(tensors)]
    result = pack(
        constants, op_counts={"aten.mm.default": 2}, boundaries=["after %relu"], **options
    )
    blobs = {
        key: (bytes(result.data_store_output.buffers[entry.buffer_index].data), tag)
        for key, entry, tag in result.data_store_output.entries()
    }
    so_key, weights_key = result.processed_bytes.decode().split("\n")
    metadata = blobs[f"{so_key}/{weights_key}/metadata"][0]
    table = schema.ModelMetadataT.InitFromObj(schema.ModelMetadata.GetRootAs(metadata, 0))
    return blobs, so_key, weights_key, table


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


def read(blobs, constant) -> bytes:
    data, _ = blobs[constant.blobKey.decode()]
    return data[constant.offset : constant.offset + constant.nbytes]


def test_keys_are_digests() -> None:
    blobs, so_key, weights_key, _ = build(torch.ones(4096))
    metadata = hashlib.sha256(blobs[f"{so_key}/{weights_key}/metadata"][0]).hexdigest()[:16]
    code = hashlib.sha256(b"\x7fELF shared object").hexdigest()
    assert so_key == f"{code}_{metadata}_so_blob"
    assert weights_key == hashlib.sha256(blobs[weights_key][0]).hexdigest() + "_weights_blob"
    for key, (data, _) in blobs.items():
        if key.endswith("_weight"):
            assert key == hashlib.sha256(data).hexdigest() + "_weight"


def test_big_constants_have_blobs_of_their_own_and_small_ones_are_packed() -> None:
    big, small, tiny = torch.randn(64, 64), torch.randn(5), torch.tensor(3.0)
    blobs, _, weights_key, table = build(big, small, tiny)
    keys = [item.blobKey.decode() for item in table.constants]
    assert keys[0].endswith("_weight") and keys[1:] == [weights_key] * 2
    assert table.constants[0].offset == 0
    assert sorted(item.offset for item in table.constants[1:]) == [0, 64]
    for item, tensor in zip(table.constants, (big, small, tiny), strict=True):
        assert read(blobs, item) == bytes_of(tensor)
        assert bytes(item.digest) == hashlib.sha256(bytes_of(tensor)).digest()


def test_equal_tensors_are_stored_once() -> None:
    big = torch.randn(64, 64)
    blobs, _, _, table = build(big, big.clone(), big.view(-1))
    assert len({item.blobKey for item in table.constants}) == 1
    assert sum(key.endswith("_weight") for key in blobs) == 1


def test_what_partitions_read_in_another_order_is_stored_once() -> None:
    tensors = [torch.randn(64, 64), torch.randn(32, 64), *(torch.randn(n) for n in range(5, 15))]
    first, _, first_key, table = build(*tensors, weights_tag="aoti_cuda_blob")
    again, _, again_key, other = build(*reversed(tensors), weights_tag="aoti_cuda_blob")
    assert first_key == again_key
    weights = {key for key, (_, tag) in first.items() if tag}
    assert weights == {key for key, (_, tag) in again.items() if tag} and len(weights) == 3
    assert sum(len(first[key][0]) for key in weights) < 64 * 64 * 4 + 32 * 64 * 4 + 11 * 64
    for blobs, constants, read_there in (
        (first, table.constants, tensors),
        (again, other.constants, tensors[::-1]),
    ):
        for constant, tensor in zip(constants, read_there, strict=True):
            assert read(blobs, constant) == bytes_of(tensor)


def test_one_weight_may_be_in_two_files() -> None:
    store = NamedDataStore()
    constants = [Constant(0, "c0", "c0", torch.ones(4096))]
    for tag in ("aoti_cuda_blob", None):
        result = pack(constants, weights_tag=tag)
        store.merge_named_data_store(result.data_store_output)
    kept = store.get_named_data_store_output()
    assert len(kept.external_data["aoti_cuda_blob"]) == 2
    assert sum(key.endswith(("_weight", "_weights_blob")) for key in kept.pte_data) == 2


def test_equal_code_with_other_metadata_is_stored_once() -> None:
    store = NamedDataStore()
    results = [
        pack([], boundaries=[boundary])
        for boundary in (
            "after lowered_module_0",
            "after lowered_module_2",
            "after lowered_module_0",
        )
    ]
    for result in results:
        store.merge_named_data_store(result.data_store_output)
    keys = [result.processed_bytes for result in results]
    assert keys[0] == keys[2] != keys[1]
    code, other = (
        store.get_named_data_store_output().pte_data[k.decode().split()[0]] for k in keys[:2]
    )
    assert code.buffer_index == other.buffer_index


def test_views_of_one_tensor_share_its_bytes() -> None:
    table_tensor = torch.randn(128, 64)
    transposed, rows = table_tensor.t(), table_tensor[1:, :]
    blobs, _, _, table = build(table_tensor, transposed, rows)
    assert sum(key.endswith("_weight") for key in blobs) == 1
    assert list(table.constants[1].strides) == [1, 64]
    assert table.constants[2].storageOffset == 64


def test_views_that_overlap_stay_as_aligned_as_they_were() -> None:
    flat = torch.randn(4096)
    parts = [flat[1:2000], flat[16:3000]]
    blobs, _, _, table = build(*parts)
    assert sum(key.endswith("_weight") for key in blobs) == 1
    assert [constant.storageOffset for constant in table.constants] == [1, 16]
    for constant, part in zip(table.constants, parts, strict=True):
        start = constant.storageOffset * 4
        assert read(blobs, constant)[start : start + part.nbytes] == bytes_of(part)


def test_a_part_does_not_drag_the_rest_along() -> None:
    base = torch.randn(1 << 20)
    part = base[4096 : 2 * 4096]
    blobs, _, _, table = build(part)
    (constant,) = table.constants
    assert constant.nbytes == 4 * 4096 and constant.storageOffset == 0
    assert read(blobs, constant) == bytes_of(part)


def test_without_constants_the_weights_blob_is_empty_but_there() -> None:
    blobs, _, weights_key, table = build()
    assert blobs[weights_key][0] == b""
    assert not table.constants


def test_weights_go_to_the_external_file_and_code_does_not() -> None:
    blobs, so_key, weights_key, _ = build(torch.ones(4096), weights_tag="aoti_cpu_blob")
    assert blobs[so_key][1] is None and blobs[f"{so_key}/{weights_key}/metadata"][1] is None
    assert {
        tag for key, (_, tag) in blobs.items() if key.endswith(("_weight", "_weights_blob"))
    } == {"aoti_cpu_blob"}


def test_the_containers_own_layout_keeps_order_and_padding() -> None:
    first, second = torch.randn(5), torch.randn(3, 3)
    blobs, _, weights_key, table = build(first, second, first, own_blobs=False)
    assert [item.offset for item in table.constants] == [0, 64, 128]
    assert all(item.blobKey.decode() == weights_key for item in table.constants)
    assert read(blobs, table.constants[1]) == bytes_of(second)


def test_metadata_says_what_the_shared_object_is() -> None:
    _, _, _, table = build(torch.ones(3, dtype=torch.bfloat16))
    assert (table.device, table.isa, table.numThreads) == (b"cpu", b"x86-64-v3", 2)
    assert table.torchVersion.decode() == torch.__version__
    assert table.shims == [b"aoti_torch_zero_"] and table.shimListVersion == 3
    assert bytes(table.soDigest) == hashlib.sha256(b"\x7fELF shared object").digest()
    (given,), (output,) = table.inputs, table.outputs
    assert given.mutated and given.scalarType == 6 and list(given.strides) == [4, 1]
    dim = given.dims[0]
    assert (dim.min, dim.max, dim.symbol, dim.scale, dim.offset) == (1, 8, 0, 2, 1)
    assert output.scalarType == 4 and not output.dims
    assert table.constants[0].scalarType == 15
    assert [(c.op, c.count) for c in table.opCounts] == [(b"aten.mm.default", 2)]
    assert table.boundaries == [b"after %relu"]
    assert table.loweringVersion == payload.LOWERING_VERSION


def test_a_payload_describes_itself() -> None:
    constants = [
        Constant(0, "c0", "c0", torch.ones(4096)),
        Constant(1, "c1", "c1", torch.ones(4096)),
    ]
    result = pack(constants)
    lines = payload.describe(result.processed_bytes, result.data_store_output)
    assert lines["isa"] == "x86-64-v3" and lines["threads"] == "2"
    assert lines["code"] == "18 bytes"
    assert lines["torch"] == torch.__version__ and "shims" not in lines
    assert lines["weights"] == "packed, 2 constants, 16384 bytes"
    assert payload.describe(b"a\nb", result.data_store_output) == {}


def test_a_payload_names_its_operators_functions() -> None:
    shims = ("aoti_torch_cpu_mm_out", "aoti_torch_zero_")
    result = pack([], shims=shims)
    assert payload.describe(result.processed_bytes, result.data_store_output)["shims"] == shims[0]


def test_what_has_a_known_digest_is_not_hashed_again() -> None:
    weight = torch.randn(64, 64)
    digests: payload.Digests = {}
    _, _, _, first = build(weight, digests=digests)
    (place,) = digests
    assert place == (weight.data_ptr(), 0, weight.nbytes)
    assert digests[place] == bytes(first.constants[0].digest)
    digests[place] = bytes(32)  # as no hash comes out
    _, _, _, second = build(weight, digests=digests)
    assert bytes(second.constants[0].digest) == bytes(32)
