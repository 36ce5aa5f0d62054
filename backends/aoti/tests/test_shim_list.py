"""The lists of shims, as Python reads them."""

import re
from pathlib import Path

import pytest

from pteron.backends.aoti.ops import shim_list


def test_entries_are_read_and_comments_are_not() -> None:
    text = """
    // AOTI_COMMON_SHIM(name, first version)
    AOTI_COMMON_SHIM(zero_, 1, (AtenTensorHandle self))
    AOTI_SHIM(topk, 4, Tensor(self), IntList(k),
              Result(values))
      SLEEF_SHIM( Sleef_expf8_u10 , 3 )
    OPENMP_SHIM(GOMP_parallel, 2)
    // AOTI_SHIM(gone, 1)
    """
    found = shim_list.parse(text, "x.inc", "cuda")
    assert {name: shim.version for name, shim in found.items()} == {
        "aoti_torch_zero_": 1,
        "aoti_torch_cuda_topk": 4,
        "Sleef_expf8_u10": 3,
        "GOMP_parallel": 2,
    }
    assert found["aoti_torch_cuda_topk"].declaration == (
        "AOTITorchError aoti_torch_cuda_topk(AtenTensorHandle self, const int64_t* k, "
        "int64_t k_len_, AtenTensorHandle* values)"
    )


def test_included_lists_are_read() -> None:
    shims = shim_list.load("cpu")
    assert "aoti_torch_cpu_topk" in shims.declarations
    assert "aoti_torch_empty_strided" not in shims.declarations


def test_a_name_that_stands_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"x\.inc: aoti_torch_zero_ is listed twice"):
        shim_list.parse("SLEEF_SHIM(aoti_torch_zero_, 1)\nSLEEF_SHIM(aoti_torch_zero_, 2)", "x.inc")


def test_the_cpu_list_has_common_shims_operators_and_vector_mathematics() -> None:
    shims = shim_list.load("cpu")
    assert {"aoti_torch_empty_strided", "aoti_torch_cpu_mm_out", "Sleef_expf8_u10"} <= shims.names
    assert {"GOMP_parallel", "omp_get_thread_num"} <= shims.names
    assert shims.version >= 1


def test_the_version_for_some_names_is_the_newest_of_theirs() -> None:
    shims = shim_list.ShimList({n: shim_list.Shim(n, v) for n, v in (("a", 1), ("b", 4), ("c", 7))})
    assert shims.version_for(["a", "b"]) == 4
    assert shims.version_for([]) == 0
    assert shims.version == 7


def test_the_runtime_has_the_newest_version_of_the_lists() -> None:
    header = Path(shim_list.__file__).parents[1] / "shims/shim_library.h"
    version = re.search(r"kShimListVersion = (\d+);", header.read_text())
    assert version is not None
    newest = max(shim_list.load("cpu").version, shim_list.load("cuda").version)
    assert int(version[1]) == newest


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'tpu'; known: .*'cpu', 'cuda', 'mps'"):
        shim_list.load("tpu")
