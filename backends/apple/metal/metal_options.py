"""What one can choose when a model is lowered for an Apple GPU.

MetalOptions(save_data_externally=True).to_compile_specs()
"""

import dataclasses
import shlex

from pteron.backends.aoti.aoti_options import AotiOptions

PLATFORMS = ("macos-arm64", "host")


@dataclasses.dataclass(frozen=True)
class MetalOptions(AotiOptions):
    """Options of `MetalBackend`.

    Attributes:
        save_data_externally: weights go to a .ptd file of the tag `aoti_metal_blob`.
        platform: what the code on the processor is linked for: "macos-arm64", which any machine
            can do (off a Mac with the package `ziglang`), or "host", this one, for the device for
            tests.
        sign: a command that signs the linked library in place; the library's path is its last
            argument. Without it the signature is ad hoc, the linker's.
    """

    save_data_externally: bool = False
    platform: str = "macos-arm64"
    sign: str = ""

    def __post_init__(self) -> None:
        problems = []
        if not isinstance(self.save_data_externally, bool):
            problems.append(
                f"save_data_externally is {self.save_data_externally!r}; expected True or False"
            )
        if self.platform not in PLATFORMS:
            problems.append(f"platform is {self.platform!r}; expected {' or '.join(PLATFORMS)}")
        if not isinstance(self.sign, str):
            problems.append(f"sign is {self.sign!r}; expected a command, as text")
        elif self.sign and self.platform != "macos-arm64":
            problems.append("sign is for code of platform 'macos-arm64' alone")
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def sign_command(self) -> list[str]:
        """`sign` in words."""
        return shlex.split(self.sign)
