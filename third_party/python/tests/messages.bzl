"""Unit tests of what the repository rules and the extension say when they can't go on."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//third_party/python:extensions.bzl", "torch_remedy", "unknown_torch_error")
load("//third_party/python:local_python.bzl", "no_python_error", "unsuitable")

def _facts(**kwargs):
    facts = {
        "has_headers": True,
        "implementation": "cpython",
        "include": "/inc",
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
        "PTERON_TORCH=rocm, but there is no such lock of torch. Choose one of: cpu, cuda.",
        unknown_torch_error("rocm", ["cpu", "cuda"]),
    )
    return unittest.end(env)

_unsuitable_test = unittest.make(_unsuitable_impl)
_no_python_test = unittest.make(_no_python_impl)
_torch_test = unittest.make(_torch_impl)

def messages_test_suite(name):
    """Declares the tests.

    Args:
        name: of the suite.
    """
    unittest.suite(name, _unsuitable_test, _no_python_test, _torch_test)
