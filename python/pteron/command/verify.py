"""Checks the signature of a program, and every byte of its files.

pteron verify model.pte --key=pub.pem

Takes what `pteron sign` wrote, and says what the runtime says with the same LoadPolicy. Nothing of
the program runs.
"""

from __future__ import annotations

import json
from pathlib import Path

from absl import flags

from pteron.command import program_file
from pteron.command.usage import UsageError, command_flags, only
from pteron.runtime import LoadPolicy, Runtime

FLAGS = command_flags()
flags.DEFINE_multi_string(
    "key", [], "A trusted public key, in PEM; may be repeated: one is enough.", flag_values=FLAGS
)
flags.DEFINE_multi_string(
    "weights",
    [],
    "A .ptd file of the program; may be repeated. By default those beside it.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "signature", None, "The signature; by default beside the program.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "minimum_version", 0, "The least version to take.", lower_bound=0, flag_values=FLAGS
)


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte")
    if not FLAGS.key:
        raise UsageError("no key; add --key=pub.pem")
    files = program_file.files_of(name, FLAGS.weights)
    policy = LoadPolicy(
        trusted_keys=[Path(key) for key in FLAGS.key], minimum_version=FLAGS.minimum_version
    )
    Runtime.get().load_program(
        files[0], data_path=files[1:], policy=policy, signature=FLAGS.signature
    )
    if FLAGS.json:
        print(json.dumps({"verified": [str(file) for file in files]}, indent=2))
    else:
        print(f"verified  {', '.join(map(str, files))}")
    return True
