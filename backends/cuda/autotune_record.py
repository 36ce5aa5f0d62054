"""Tuning records: measurements of a lowering, to lower again with the same choices.

    record = AutotuneRecord.of_program("model.pte")         # programs carry theirs
    options = CudaOptions(gemm="best", autotune_record=record.to_json())
    to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(options)])

Choices follow from measured times, so a record holds the times. It is valid for one torch, Triton
and GPU; what it does not cover is measured again, with a warning.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

#: Suffix of the names of records in programs.
KEY_SUFFIX = "_autotune_record"


@dataclasses.dataclass(frozen=True)
class AutotuneRecord:
    """Measured times.

    Attributes:
        made_with: "torch", "triton" and "gpu", by name and version.
        files: Inductor's tuning files: path in its cache folder to text.
    """

    made_with: Mapping[str, str]
    files: Mapping[str, str]

    @classmethod
    def of_program(cls, path: str | os.PathLike[str]) -> AutotuneRecord:
        """The record in a program file.

        Raises:
            ValueError: the file is no program, or has no record.
        """
        from pteron.exir._serialize.program_file import deserialize_program

        named = deserialize_program(Path(path).read_bytes()).named_data
        records = [
            cls.from_json(bytes(data).decode())
            for key, data in named.items()
            if key.endswith(KEY_SUFFIX)
        ]
        if not records:
            raise ValueError(
                f"{os.fspath(path)} carries no record of tuning: it was lowered for CUDA with "
                'gemm="cublas" and autotune="off", which measures nothing, or not for CUDA'
            )
        return cls.merged(records)

    @classmethod
    def merged(cls, records: Iterable[AutotuneRecord]) -> AutotuneRecord:
        """Merges `records`, which must be of the same software and GPU."""
        made_with: Mapping[str, str] = {}
        files: dict[str, str] = {}
        for record in records:
            if made_with and record.made_with != made_with:
                raise ValueError(f"records of {record.made_with} and of {made_with} do not mix")
            made_with = record.made_with
            files.update(record.files)
        return cls(made_with, files)

    @classmethod
    def from_json(cls, text: str) -> AutotuneRecord:
        """Parses `to_json`; ValueError if invalid."""
        try:
            fields = json.loads(text)
            made_with, files = fields["made_with"], fields["files"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"this is no record of tuning: {error!r}") from error
        for table in (made_with, files):
            if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
                raise ValueError("this is no record of tuning: its tables do not hold texts")
        return cls(made_with, files)

    def to_json(self) -> str:
        """One line; deterministic."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """The record's name in a program."""
        return hashlib.sha256(self.to_json().encode()).hexdigest() + KEY_SUFFIX

    def check_made_here(self) -> None:
        """ValueError unless it is of this torch, Triton and GPU."""
        here = software_and_gpu()
        if self.made_with != here:
            raise ValueError(
                f"the record of tuning was made with {_shown(self.made_with)}; here are "
                f"{_shown(here)}. Its times are not valid here: lower without the record."
            )

    def missing(self, files: Mapping[str, str]) -> list[str]:
        """Files that are missing or different in the record."""
        return sorted(name for name, text in files.items() if self.files.get(name) != text)


def software_and_gpu() -> dict[str, str]:
    """Versions and GPU that measured times depend on. Needs a GPU."""
    import torch
    import triton

    return {
        "torch": torch.__version__,
        "triton": triton.__version__,
        "gpu": torch.cuda.get_device_name(),
    }


def _shown(made_with: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(made_with.items())) or "nothing"
