"""A model that reads what is not among the data of its target."""

from pathlib import Path


def build() -> object:
    return Path(__file__).with_name("weights.bin").read_bytes()
