"""Unit tests of the architectures flag."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//third_party/cuda:architectures.bzl", "parse_architectures")

def _options_impl(ctx):
    env = unittest.begin(ctx)
    gencode, error = parse_architectures(["sm_80", "sm_90a", "compute_90"])
    asserts.equals(env, None, error)
    asserts.equals(
        env,
        [
            "-gencode=arch=compute_80,code=sm_80",
            "-gencode=arch=compute_90a,code=sm_90a",
            "-gencode=arch=compute_90,code=compute_90",
        ],
        gencode,
    )
    return unittest.end(env)

def _error_impl(ctx):
    env = unittest.begin(ctx)
    gencode, error = parse_architectures(["sm_80", "70", "sm_70"])
    asserts.equals(env, None, gencode)
    asserts.true(env, error.startswith(
        "CUDA architectures: found \"70\", \"sm_70\". Expected one or more of sm_NN " +
        "(machine code) and compute_NN (PTX), separated by commas, with NN one of 75, 80,",
    ), error)
    asserts.true(env, error.endswith(
        "Example: --@pteron//third_party/cuda:architectures=sm_80,sm_90,compute_90",
    ), error)
    _, error = parse_architectures([])
    asserts.true(env, error.startswith("CUDA architectures: found none."), error)
    return unittest.end(env)

_options_test = unittest.make(_options_impl)
_error_test = unittest.make(_error_impl)

def architectures_test_suite(name):
    """Declares the tests.

    Args:
        name: of the suite.
    """
    unittest.suite(name, _options_test, _error_test)
