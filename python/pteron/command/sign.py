"""Signs a program, with its weights in other files: who runs it can check whose it is.

pteron sign model.pte --key=key.pem
pteron verify model.pte --key=pub.pem

The signature is a file of its own, model.pte.intoto.json: a DSSE envelope over an in-toto statement
with the digests of all files. Keys are ECDSA P-256 or Ed25519, in PEM:

openssl genpkey -algorithm ed25519 -out key.pem
openssl pkey -in key.pem -pubout -out pub.pem
"""

import base64
import datetime
import hashlib
import json
import mmap
from pathlib import Path
from typing import Any

from pteron.command import program_file
from pteron.command.usage import UsageError, command_flags, only
from pteron.exir._serialize.container import PROGRAM, TENSOR_DATA, Chunks, open_container
from pteron.runtime import Runtime, Verification
from pteron.runtime.python import load_policy

FLAGS = command_flags()
FLAGS.string("key", None, "The private key, in PEM.")
program_file.define_flags(FLAGS, "weights")
FLAGS.string("output", None, "The signature; by default beside the program.", short_name="o")
FLAGS.string(
    "bundle",
    None,
    "Also write this bundle of OpenSSF's model signing, which `model_signing verify key` takes of"
    " the files' folder; ECDSA P-256 only.",
)
FLAGS.string(
    "certificate",
    None,
    "For --bundle: the key's certificate, and those between it and the root, in PEM. It is verified"
    " with the root then: `model_signing verify certificate`, `pteron verify --bundle --root`.",
)
FLAGS.integer("version", 0, "Of the program; who runs it can refuse lower ones.", lower_bound=0)
FLAGS.string(
    "expires", None, "When the signature ends, in UTC: 2027-01-31 or 2027-01-31T12:00:00Z."
)


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte")
    if FLAGS.key is None:
        raise UsageError("no key; add --key=key.pem")
    if FLAGS.certificate is not None and FLAGS.bundle is None:
        raise UsageError("--certificate is for bundles; add --bundle=model.sig")
    files = program_file.files_of(name, FLAGS.weights, "weights")
    predicate: dict[str, Any] = {"version": FLAGS.version}
    if FLAGS.expires is not None:
        predicate["expires"] = _time(FLAGS.expires)
    key = _read_key(Path(FLAGS.key))
    # All bytes, so that nothing is signed that would be refused.
    Runtime.get().load_program(files[0], data_path=files[1:], verification=Verification.Required)
    statement = {
        "_type": load_policy.STATEMENT_TYPE,
        "subject": [{"name": file.name, "digest": digests_of(file)} for file in files],
        "predicateType": load_policy.PREDICATE_TYPE,
        "predicate": predicate,
    }
    output = Path(FLAGS.output or f"{files[0]}{load_policy.SUFFIX}")
    written = {output: sign(statement, key)}
    if FLAGS.bundle is not None:
        bundle = Path(FLAGS.bundle)
        chain = None if FLAGS.certificate is None else Path(FLAGS.certificate).read_bytes()
        written[bundle] = bundle_of(statement, key, [output.name, bundle.name], chain)
    for path, value in written.items():
        Chunks([memoryview(json.dumps(value).encode() + b"\n")]).save(path)
    if FLAGS.json:
        report = {"files": list(map(str, written)), "statement": statement}
        print(json.dumps(report, indent=2))
    else:
        print(f"signed    {', '.join(map(str, files))}\nwrote     {', '.join(map(str, written))}")
    return True


def digests_of(file: Path) -> dict[str, str]:
    """SHA-256 of a program or data file, and the digest that the runtime compares."""
    with file.open("rb") as opened:
        whole = hashlib.file_digest(opened, "sha256").hexdigest()
        view = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    kind = PROGRAM if bytes(view[4:8]) == PROGRAM.identifier else TENSOR_DATA
    container = open_container(kind, view)
    if container.digests is None:
        raise ValueError(f"{file} has no digests; expected a file that pteron export wrote")
    # As it is in the file: the digest in the table is the same for any digests of segments.
    head = hashlib.sha256(container.flatbuffer).hexdigest()
    return {"sha256": whole, load_policy.DIGEST: head}


def bundle_of(
    statement: dict[str, Any], key: Any, beside: list[str], chain: bytes | None = None
) -> dict[str, Any]:
    """The bundle of OpenSSF's model signing for the same files.

    Args:
      beside: names of others in their folder.
      chain: certificates in PEM, the key's first; without them the key itself is named.
    """
    modules = load_policy.crypto()
    if not isinstance(key, modules.ec.EllipticCurvePrivateKey):
        raise ValueError("--bundle: found an Ed25519 key; model signing has ECDSA keys, as P-256")
    resources = [
        {"name": file["name"], "algorithm": "sha256", "digest": file["digest"]["sha256"]}
        for file in sorted(statement["subject"], key=lambda file: file["name"])
    ]
    whole = hashlib.sha256(b"".join(bytes.fromhex(file["digest"]) for file in resources))
    public = key.public_key().public_bytes(modules.serialization.Encoding.PEM, modules.SPKI)
    material: dict[str, Any] = {"publicKey": {"hint": hashlib.sha256(public).hexdigest()}}
    if chain is not None:
        material = {"x509CertificateChain": {"certificates": _certificates(chain, key)}}
    signed = {
        "_type": load_policy.STATEMENT_TYPE,
        "subject": [{"name": resources[0]["name"], "digest": {"sha256": whole.hexdigest()}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": beside,
            },
            "resources": resources,
        },
    }
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {**material, "tlogEntries": []},
        "dsseEnvelope": sign(signed, key),
    }


def _certificates(chain: bytes, key: Any) -> list[dict[str, str]]:
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except ValueError as error:
        raise ValueError(f"--certificate: no certificates in PEM ({error})") from error
    if certificates[0].public_key() != key.public_key():
        raise ValueError("--certificate: the first certificate is of another key than --key")
    der = load_policy.crypto().serialization.Encoding.DER
    return [{"rawBytes": base64.b64encode(c.public_bytes(der)).decode()} for c in certificates]


def sign(statement: Any, key: Any) -> dict[str, Any]:
    """A DSSE envelope; equal statements (or bytes) and keys give equal ones."""
    modules = load_policy.crypto()
    payload = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    message = load_policy.encoding(payload)
    signature = key.sign(message, *([modules.ecdsa] if hasattr(key, "curve") else []))
    public = key.public_key().public_bytes(modules.serialization.Encoding.DER, modules.SPKI)
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": load_policy.PAYLOAD_TYPE,
        "signatures": [
            {
                "keyid": hashlib.sha256(public).hexdigest(),
                "sig": base64.b64encode(signature).decode(),
            }
        ],
    }


def _read_key(path: Path) -> Any:
    modules = load_policy.crypto()
    try:
        key = modules.serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (TypeError, ValueError) as error:  # encrypted; not a key
        raise ValueError(
            f"--key: {path} is no private key in PEM without a password ({error});"
            " expected the contents to begin with -----BEGIN PRIVATE KEY-----"
        ) from error
    load_policy.of_known_kind(key.public_key(), f"--key: {path}")
    return key


def _time(text: str) -> str:
    try:
        parsed = datetime.datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is not None:
        raise UsageError(
            f"--expires: found {text!r}; expected a time in UTC, as 2027-01-31 or"
            " 2027-01-31T12:00:00Z"
        )
    return parsed.strftime("%Y-%m-%dT%H:%M:%SZ")
