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


@pytest.mark.parametrize("name", _SMALL)
def test_architecture(name: str) -> None:
    outcome = examine((name, "cpu"))
    assert not outcome.failed_step, outcome.reason
    assert not outcome.warnings, outcome.warnings


def test_what_transformers_has_not_is_absent() -> None:
    outcome = examine(("nothing", "cpu"))
    assert outcome.absent and outcome.failed_step == "builds"


def test_what_eager_refuses_does_not_build() -> None:
    outcome = examine(("timm_wrapper", "cpu"))
    assert outcome.failed_step == "builds" and "no configuration runs" in outcome.reason
