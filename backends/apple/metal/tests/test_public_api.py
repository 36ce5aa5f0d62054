"""Finding the native library imports no torch; options come back from their specs."""

import subprocess
import sys

import pytest

import pteron.backends.apple.metal as metal
from pteron.backends.apple.metal import MetalBackend, MetalOptions
from pteron.exir.backend.compile_spec_schema import CompileSpec


def test_the_public_api_does_not_import_torch() -> None:
    program = (
        "import sys, pteron.backends.apple.metal as metal, pteron.backends.apple.metal.native as n;"
        "assert n.BACKEND_ID == 'MetalBackend' and n.LIBRARY.endswith('.so');"
        "assert 'torch' not in sys.modules, 'torch is imported';"
        "assert 'MetalPartitioner' in dir(metal)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_names_are_loaded_when_they_are_used() -> None:
    assert metal.MetalOptions is MetalOptions
    with pytest.raises(AttributeError, match="no attribute 'GpuOptions'"):
        _ = metal.GpuOptions


@pytest.mark.parametrize(
    "options",
    [MetalOptions(), MetalOptions(True, "host"), MetalOptions(sign="codesign -f -s 'A B'")],
    ids=str,
)
def test_options_come_back_from_their_specs(options: MetalOptions) -> None:
    assert MetalOptions.from_compile_specs(options.to_compile_specs()) == options


def test_code_is_for_the_platform_of_the_options() -> None:
    for options in (MetalOptions(), MetalOptions(platform="host")):
        found = MetalBackend.get_platform(options.to_compile_specs())
        assert found.startswith({"macos-arm64": "macos-arm64", "host": "linux-"}[options.platform])


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="expected True or False"):
        MetalOptions(save_data_externally="yes")
    with pytest.raises(ValueError, match="platform is 'ios'; expected macos-arm64 or host"):
        MetalOptions(platform="ios")
    with pytest.raises(ValueError, match="sign is for code of platform 'macos-arm64'"):
        MetalOptions(platform="host", sign="codesign")
    with pytest.raises(ValueError, match="known: platform, save_data_externally, sign"):
        MetalOptions.from_compile_specs([CompileSpec("threads", b"1")])
