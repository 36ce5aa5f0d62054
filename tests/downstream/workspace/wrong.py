"""A model that cannot be built."""


def build() -> object:
    raise FileNotFoundError("weights.safetensors")
