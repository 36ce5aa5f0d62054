"""A few other people's architectures: exported as they come, lowered, run, equal to eager.

`run.py` does the same for hundreds.
"""

import pytest

from tests.survey.examine import examine

# Encoders and decoders of text, experts (with rotations as complex numbers in the second), a scan,
# images, images in text, speech, numbers over time.
_SMALL = (
    *("bert", "gpt2", "llama", "t5", "mixtral", "deepseek_v2", "mamba"),
    *("vit", "resnet", "llava", "whisper", "patchtst"),
)

# Of each library that has a lock: any number of nodes, an autoencoder, steps of samplers, one of
# which keeps tensors, volumes, geometry.
_OF_LIBRARIES = (
    *("torch_geometric:GraphSAGE_max", "diffusers:AutoencoderTiny", "diffusers:FlowMatchEuler"),
    *("diffusers:UniPC", "monai:UNet", "kornia:warp_perspective"),
)


@pytest.mark.parametrize("name", _SMALL + _OF_LIBRARIES)
def test_architecture(name: str) -> None:
    outcome = examine((name, "cpu"))
    assert not outcome.failed_step, outcome.reason
    assert not outcome.warnings, outcome.warnings


@pytest.mark.parametrize("name", ["nothing", "monai:nothing", "nowhere:nothing"])
def test_what_a_library_has_not_is_absent(name: str) -> None:
    outcome = examine((name, "cpu"))
    assert outcome.absent and outcome.failed_step == "builds"


def test_what_eager_refuses_does_not_build() -> None:
    outcome = examine(("timm_wrapper", "cpu"))
    assert outcome.failed_step == "builds" and "no configuration runs" in outcome.reason
