"""The lists of shims, as Python reads them."""

import pytest

from pteron.backends.aoti import shim_list


def test_entries_are_read_and_comments_are_not() -> None:
    text = """
    // AOTI_SHIM(name as models import it, first version)
    AOTI_SHIM(aoti_torch_zero_, 1)
      SLEEF_SHIM( Sleef_expf8_u10 , 3 )
    OPENMP_SHIM(GOMP_parallel, 2)
    // AOTI_SHIM(aoti_torch_gone, 1)
    """
    assert shim_list.parse(text, "x.inc") == {
        "aoti_torch_zero_": 1,
        "Sleef_expf8_u10": 3,
        "GOMP_parallel": 2,
    }


def test_a_name_that_stands_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"x\.inc: aoti_torch_zero_ is listed twice"):
        shim_list.parse("AOTI_SHIM(aoti_torch_zero_, 1)\nAOTI_SHIM(aoti_torch_zero_, 2)", "x.inc")


def test_the_cpu_list_has_common_shims_operators_and_vector_mathematics() -> None:
    shims = shim_list.load("cpu")
    assert {"aoti_torch_empty_strided", "aoti_torch_cpu_mm_out", "Sleef_expf8_u10"} <= shims.names
    assert {"GOMP_parallel", "omp_get_thread_num"} <= shims.names
    assert shims.version >= 1


def test_the_version_for_some_names_is_the_newest_of_theirs() -> None:
    shims = shim_list.ShimList({"a": 1, "b": 4, "c": 7})
    assert shims.version_for(["a", "b"]) == 4
    assert shims.version_for([]) == 0
    assert shims.version == 7


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'tpu'; known: .*'cpu', 'cuda', 'mps'"):
        shim_list.load("tpu")
