"""Unit tests of what the repository rules and the extension say when they can't go on."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//third_party/python:extensions.bzl", "torch_choices", "torch_remedy", "unknown_torch_error")
load("//third_party/python:local_python.bzl", "no_python_error", "unsuitable")
load("//third_party/python:wheels.bzl", "other_python_error")

def _facts(**kwargs):
    facts = {
        "has_headers": True,
        "implementation": "cpython",
        "include": "/inc",
        "is_free_threaded": False,
        "pip": "24.0",
        "version": [3, 12, 1],
    }
    facts.update(kwargs)
    return facts

def _unsuitable_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, [], unsuitable(_facts()))
    asserts.equals(
        env,
        ["it is Python 3.10.2, not 3.11 or newer"],
        unsuitable(_facts(version = [3, 10, 2])),
    )
    asserts.equals(env, ["it is pypy, not CPython"], unsuitable(_facts(implementation = "pypy")))

    asserts.equals(
        env,
        ["it is free-threaded, which the bindings are not made for"],
        unsuitable(_facts(is_free_threaded = True)),
    )

    # All problems at once.
    asserts.equals(
        env,
        [
            "Python.h is not in /inc (Debian: install python3.12-dev)",
            "pip is missing (Debian: install python3-pip)",
        ],
        unsuitable(_facts(has_headers = False, pip = None)),
    )
    return unittest.end(env)

def _no_python_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(
        env,
        """\
No suitable Python. Needed: CPython 3.11 or newer with its headers and pip.
  /a/python3: one; two
  /b/python3: three
Install what is missing, or name an interpreter elsewhere: --repo_env=PTERON_PYTHON=/path/to/python3""",
        no_python_error([("/a/python3", ["one", "two"]), ("/b/python3", ["three"])], None),
    )
    asserts.equals(
        env,
        """\
No suitable Python. Needed: CPython 3.11 or newer with its headers and pip.
  /a: it does not run (no such file)
PTERON_PYTHON=/a was asked for; unset it to search PATH.""",
        no_python_error([("/a", ["it does not run (no such file)"])], "/a"),
    )
    return unittest.end(env)

def _torch_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(
        env,
        "The cpu lock of torch is chosen. If the package index has another build of torch, " +
        "choose its lock with --repo_env=PTERON_TORCH=cuda (on the command line, or in " +
        "user.bazelrc as `common --repo_env=...`).\n",
        torch_remedy("cpu", ["cpu", "cuda"]),
    )
    asserts.equals(
        env,
        "PTERON_TORCH=rocm, but there is no such lock of torch. Choose one of: cpu, cuda; or the " +
        "absolute path of a virtual environment, or of a Python, that has torch installed.",
        unknown_torch_error("rocm", ["cpu", "cuda"]),
    )
    return unittest.end(env)

def _torch_choices_impl(ctx):
    env = unittest.begin(ctx)
    locks = {
        "cpu": {"torch": {"version": "2.99.0+cpu"}},
        "cuda": {"torch": {"version": "2.99.0"}},
        "cuda-3.0.1": {"torch": {"version": "3.0.1"}},
    }
    expected = {
        "cpu": "cpu",
        "cpu-2.99.0": "cpu",
        "cuda": "cuda",
        "cuda-2.99.0": "cuda",
        "cuda-3.0.1": "cuda-3.0.1",
    }
    asserts.equals(env, expected, torch_choices(locks))

    # The order in which messages name them.
    asserts.equals(env, expected.keys(), torch_choices(locks).keys())
    return unittest.end(env)

def _other_python_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, None, other_python_error("/venv", [3, 11], [3, 11, 7]))
    asserts.equals(
        env,
        "PTERON_TORCH=/venv is Python 3.12 and the build's is 3.11. Name the Python that it was " +
        "made of with --repo_env=PTERON_PYTHON=<path>.",
        other_python_error("/venv", [3, 12], [3, 11, 7]),
    )
    return unittest.end(env)

_unsuitable_test = unittest.make(_unsuitable_impl)
_no_python_test = unittest.make(_no_python_impl)
_torch_test = unittest.make(_torch_impl)
_torch_choices_test = unittest.make(_torch_choices_impl)
_other_python_test = unittest.make(_other_python_impl)

def messages_test_suite(name):
    """Declares the tests.

    Args:
        name: of the suite.
    """
    unittest.suite(
        name,
        _unsuitable_test,
        _no_python_test,
        _torch_test,
        _torch_choices_test,
        _other_python_test,
    )
