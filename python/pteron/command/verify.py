"""Checks the signature of a program, and every byte of its files.

pteron verify model.pte --key=pub.pem

Takes what `pteron sign` wrote, and says what the runtime says with the same LoadPolicy. Nothing of
the program runs.

A bundle is of OpenSSF's model signing or of sigstore; the root is sigstore's trusted_root.json, or
certificates in PEM. Nothing is asked on a network:

pteron verify model.pte --bundle=model.sig --root=root.pem --identity=release@example.com
"""

import json
from pathlib import Path
from typing import Any

from pteron.command import bundle, program_file
from pteron.command.usage import UsageError, command_flags, only
from pteron.runtime import LoadPolicy, Runtime, Verification

FLAGS = command_flags()
FLAGS.multi_string("key", [], "A trusted public key, in PEM; may be repeated: one is enough.")
program_file.define_flags(FLAGS, "weights")
FLAGS.string("signature", None, "The signature; by default beside the program.")
FLAGS.integer("minimum_version", 0, "The least version to take.", lower_bound=0)
FLAGS.string("bundle", None, "A bundle instead of the signature; with --key or --root.")
FLAGS.string(
    "root",
    None,
    "Whom certificates in the bundle are from: sigstore's trusted_root.json, or certificates, PEM.",
)
FLAGS.string("identity", None, "Whose the certificate must be, as a mail address.")
FLAGS.string("issuer", None, "With sigstore's root: who authenticated the identity, a URL.")


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte")
    root = None if FLAGS.root is None else Path(FLAGS.root)
    if not FLAGS.key and root is None:
        raise UsageError("no key; add --key=pub.pem, or --bundle and --root")
    if FLAGS.bundle is None and (root or FLAGS.identity or FLAGS.issuer):
        raise UsageError("--root, --identity and --issuer are of bundles; add --bundle=model.sig")
    if FLAGS.bundle is not None and bool(FLAGS.key) == (root is not None):
        raise UsageError("a bundle is verified with --key or with --root")
    files = program_file.files_of(name, FLAGS.weights, "weights")
    policy = LoadPolicy(
        trusted_keys=[Path(key) for key in FLAGS.key], minimum_version=FLAGS.minimum_version
    )
    checks: dict[str, Any] = {"policy": policy, "signature": FLAGS.signature}
    if FLAGS.bundle is not None:
        bundle.check(files, Path(FLAGS.bundle), policy, root, FLAGS.identity, FLAGS.issuer)
        checks = {"verification": Verification.Required}
    Runtime.get().load_program(files[0], data_path=files[1:], **checks)
    if FLAGS.json:
        print(json.dumps({"verified": [str(file) for file in files]}, indent=2))
    else:
        print(f"verified  {', '.join(map(str, files))}")
    return True
