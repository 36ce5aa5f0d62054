"""What one can choose when a model is lowered for an Apple GPU.

MetalOptions(save_data_externally=True).to_compile_specs()
"""

import dataclasses

from pteron.backends.aoti.aoti_options import AotiOptions


@dataclasses.dataclass(frozen=True)
class MetalOptions(AotiOptions):
    """Options of `MetalBackend`.

    Attributes:
        save_data_externally: weights go to a .ptd file of the tag `aoti_metal_blob`.
    """

    save_data_externally: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.save_data_externally, bool):
            raise ValueError(
                f"save_data_externally is {self.save_data_externally!r}; expected True or False"
            )
