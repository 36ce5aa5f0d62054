"""Signatures, policies and files, and what loading says to them, in C++ and in Python.

cases.py model.pte model.ptd OUTPUT.json
"""

import base64
import copy
import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pteron.command import sign
from pteron.exir._serialize import schema
from pteron.exir._serialize.container import PROGRAM, TENSOR_DATA, open_container
from pteron.exir._serialize.flatbuffer import from_flatbuffer
from pteron.runtime.python import load_policy
from tests.trust.keys import ED25519, OTHERS, P256, private_pem, public_pem

Envelope = dict[str, Any]

REFUSED = "AccessFailed"
NOT_OURS = "InvalidProgram"


@dataclasses.dataclass
class Case:
    """One load.

    Attributes:
      outcome: the error's code, "Ok", or "any" error.
      signature: contents of the signature's file; None: there is none.
      changes: of files before they are loaded: (program 0 or data 1, offset, XOR mask); an offset
        of -1 removes the last byte, of -2 appends one.
    """

    name: str
    outcome: str
    signature: str | None
    keys: list[str]
    required: bool = True
    minimum_version: int = 0
    allowed_backends: list[str] | None = None
    changes: tuple[tuple[int, int, int], ...] = ()


def statement_of(files: list[Path], **predicate: Any) -> dict[str, Any]:
    return {
        "_type": load_policy.STATEMENT_TYPE,
        "subject": [{"name": file.name, "digest": sign.digests_of(file)} for file in files],
        "predicateType": load_policy.PREDICATE_TYPE,
        "predicate": {"version": 3, **predicate},
    }


def signed(statement: Any, key: Any = ED25519) -> str:
    payload = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    return json.dumps(sign.sign(payload, key))


def make(files: list[Path]) -> Iterator[Case]:
    """All cases of a program and its data file."""
    ours = [public_pem(ED25519)]
    statement = statement_of(files)
    good = signed(statement)

    def case(name: str, outcome: str, signature: str | None = good, **rest: Any) -> Case:
        return Case(name, outcome, signature, rest.pop("keys", ours), **rest)

    yield case("signed", "Ok")
    yield case("signed, not required", "Ok", required=False)
    yield case("signed by P-256", "Ok", signed(statement, P256), keys=[public_pem(P256)])
    yield case("by the second key", "Ok", keys=[*map(public_pem, OTHERS), *ours])
    yield case("both alphabets", "Ok", _url_safe(good))
    yield case("two signatures", "Ok", _with(good, lambda e: _prepend(e, signed(b"", OTHERS[0]))))
    yield case("version", "Ok", minimum_version=3)
    yield case("expires later", "Ok", signed(statement_of(files, expires="9999-01-01T00:00:00Z")))
    yield case("backends", "Ok", allowed_backends=["CpuBackend"])
    yield case("unsigned, not required", "Ok", None, required=False)
    yield case("unsigned, not required, no keys", "Ok", None, required=False, keys=[])

    yield case("unsigned", REFUSED, None)
    for key in OTHERS:
        name = type(key).__name__
        yield case(f"trusts another key, {name}", REFUSED, keys=[public_pem(key)])
        yield case(f"signed by another key, {name}", REFUSED, signed(statement, key))
        again = signed(statement, key)
        yield case(f"another key, not required, {name}", REFUSED, again, required=False)
    yield case("P-256 instead of Ed25519", REFUSED, signed(statement, P256))
    yield case("version below", REFUSED, minimum_version=4)
    yield case("version far below", REFUSED, minimum_version=2**64 - 1)
    yield case("version below, not required", REFUSED, minimum_version=4, required=False)
    expired = signed(statement_of(files, expires="2020-01-01T00:00:00Z"))
    yield case("expired", REFUSED, expired)
    yield case("expired, not required", REFUSED, expired, required=False)
    yield case("of the program alone", REFUSED, signed(statement_of(files[:1])))
    yield case("of the data alone", REFUSED, signed(statement_of(files[1:])))
    yield case("backends, none", "NotSupported", allowed_backends=[])
    yield case(
        "backends, none, unsigned", "NotSupported", None, required=False, allowed_backends=[]
    )
    for at, subject in enumerate(statement["subject"]):
        other = copy.deepcopy(statement)
        digest = subject["digest"][load_policy.DIGEST]
        other["subject"][at]["digest"][load_policy.DIGEST] = digest[::-1]
        yield case(f"of another file {at}", REFUSED, signed(other))

    for name, signature in _altered(good):
        yield case(f"altered: {name}", REFUSED, signature)
        yield case(f"altered, not required: {name}", REFUSED, signature, required=False)
    for name, payload in _not_ours(statement):
        yield case(f"signed, but {name}", NOT_OURS, signed(payload))

    rsa_key = rsa.generate_private_key(65537, 2048)
    for name, pem in {
        "RSA": public_pem(rsa_key),
        "P-384": public_pem(ec.derive_private_key(5, ec.SECP384R1())),
        "private": private_pem(ED25519).decode(),
        "no PEM": "ssh-ed25519 AAAA",
        "empty": "",
    }.items():
        yield case(f"key: {name}", "InvalidArgument", keys=[*ours, pem])
    yield case("no keys", "InvalidArgument", keys=[])

    for which, file in enumerate(files):
        nbytes = file.stat().st_size
        offsets = [0, 5, 9, 13, 20, 41, 50, 70, 120, nbytes // 2, nbytes - 1, -1, -2]
        for offset in offsets:
            yield case(f"file {which} changed at {offset}", "any", changes=((which, offset, 1),))
        for name, forged in _forged(file):
            changes = tuple((which, offset, mask) for offset, mask in forged.items())
            yield case(f"file {which}, {name} exchanged", REFUSED, changes=changes)


def _forged(file: Path) -> Iterator[tuple[str, dict[int, int]]]:
    """Another byte in each segment, with the digest of what is then in it: offsets and XOR masks.

    Digests in a file are its writer's, so this is no damage that verification finds.
    """
    data = file.read_bytes()
    is_program = data[4:8] == PROGRAM.identifier
    kind = PROGRAM if is_program else TENSOR_DATA
    opened = open_container(kind, data)
    root = schema.Program if is_program else schema.TensorData
    for index, segment in enumerate(from_flatbuffer(root, bytes(opened.flatbuffer)).segments):
        start = opened.segment_base + segment.offset
        changed = bytearray(data[start : start + segment.size])
        changed[-1] ^= 1
        digest = hashlib.sha256(changed).digest()
        at = kind.table_offset + 8 + 32 * (1 + index)
        masks = {at + i: data[at + i] ^ byte for i, byte in enumerate(digest)}
        yield f"segment {index}", {start + segment.size - 1: 1, **masks}


def _with(envelope: str, change: Callable[[Envelope], None]) -> str:
    fields = json.loads(envelope)
    change(fields)
    return json.dumps(fields)


def _prepend(fields: Envelope, other: str) -> None:
    fields["signatures"] = json.loads(other)["signatures"] + fields["signatures"]


def _url_safe(envelope: str) -> str:
    def change(fields: Envelope) -> None:
        fields["payload"] = fields["payload"].replace("+", "-").replace("/", "_")
        signature = fields["signatures"][0]
        signature["sig"] = signature["sig"].replace("+", "-").replace("/", "_")

    return _with(envelope, change)


def _altered(good: str) -> Iterator[tuple[str, str]]:
    """Envelopes with other bytes than those that were signed, and what is none."""

    def changed(name: str, change: Callable[[Envelope], None]) -> tuple[str, str]:
        return name, _with(good, change)

    def put(**members: Any) -> Callable[[Envelope], None]:
        return lambda fields: fields.update(members)

    payload = base64.b64decode(json.loads(good)["payload"])
    newer = base64.b64encode(payload.replace(b'"version": 3', b'"version": 9')).decode()
    assert newer != json.loads(good)["payload"]
    (first,) = json.loads(good)["signatures"]
    raw = base64.b64decode(first["sig"])
    for at in (0, 31, 32, 63):
        flipped = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        sig = base64.b64encode(flipped).decode()
        yield changed(f"bit of signature byte {at}", put(signatures=[{**first, "sig": sig}]))
    wrong: dict[str, str | None] = {"empty": "", "short": "AAAA", "no base64": "!!!!", "null": None}
    for name, text in wrong.items():
        yield changed(f"signature {name}", put(signatures=[{**first, "sig": text}]))
    yield changed("payload", put(payload=newer))
    yield changed("payload, space", put(payload=base64.b64encode(payload + b" ").decode()))
    yield changed("payload, base64 with a newline", put(payload=json.loads(good)["payload"] + "\n"))
    yield changed("payload, no base64", put(payload="*" * 40))
    yield changed("payload, a number", put(payload=5))
    yield changed("type", put(payloadType="application/vnd.in-toto+jso"))
    yield changed("type, a list", put(payloadType=[load_policy.PAYLOAD_TYPE]))
    yield changed("no signatures", put(signatures=[]))
    yield changed("signatures, an object", put(signatures={"0": first}))
    yield changed("signatures of strings", put(signatures=[first["sig"]]))
    yield changed("signature behind many", put(signatures=[{"sig": "AAAA"}] * 999 + [first]))
    for name in ("payload", "payloadType", "signatures"):
        yield changed(f"without {name}", lambda fields, name=name: fields.pop(name))  # type: ignore[misc]
    yield "empty", ""
    yield "a list", f"[{good}]"
    yield "truncated", good[:-1]
    yield "twice", good + good
    yield "nested", "[" * 200_000
    yield "nested objects", '{"payload":' * 100_000
    yield "too long", good + " " * (1 << 20)


def _not_ours(statement: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Statements that a trusted key signed, which are no program's."""
    yield "no JSON", b"program"
    yield "empty", b""
    yield "no UTF-8", b'{"_type": "\xff"}'
    yield "a list", [statement]
    yield "of a later type", {**statement, "_type": "https://in-toto.io/Statement/v2"}
    yield "of SLSA", {**statement, "predicateType": "https://slsa.dev/provenance/v1"}
    subjects: tuple[Any, ...] = ([], {}, None, "model.pte", [None], [{}], [{"digest": {}}])
    for subject in subjects:
        yield f"of {subject}", {**statement, "subject": subject}
    whole = statement["subject"][0]["digest"]
    for digest in ("", "0" * 63, "g" * 64, "A" * 64, "0" * 63 + "\0", 5, whole["sha256"] + "0"):
        subject = [{"name": "model.pte", "digest": {**whole, load_policy.DIGEST: digest}}]
        yield f"of digest {digest!r}", {**statement, "subject": subject}
    for version in (-1, 1.0, 3.5, "3", True, None, [3], 2**64):
        yield f"of version {version!r}", {**statement, "predicate": {"version": version}}
    yield "without a predicate", {**statement, "predicate": None}
    times: tuple[Any, ...] = (
        "2099",
        "2099-01-01",
        "2099-01-01T00:00:00",
        "2099-01-01T00:00:00Z\n",
        4e9,
        {},
    )
    for expires in times:
        predicate = {"version": 3, "expires": expires}
        yield f"until {expires!r}", {**statement, "predicate": predicate}


def main() -> None:
    *files, output = map(Path, sys.argv[1:])
    cases = [dataclasses.asdict(case) for case in make(files)]
    output.write_text(json.dumps(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
