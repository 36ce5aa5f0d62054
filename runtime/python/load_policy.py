"""Whose programs are loaded: signatures beside program files, as `pteron sign` writes them.

A signature is a DSSE envelope over an in-toto statement; docs/trust.md describes it. The C++ API
has the same in runtime/trust/load_policy.h.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import os
import re
import time
import types
from pathlib import Path

from pteron.runtime.python.errors import error_of_code

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

SUFFIX = ".intoto.json"
"""The signature of `model.pte` is in `model.pte.intoto.json`."""

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:pteron:program:v1"
DIGEST = "pteron_integrity"
"""Of the digest of a file's FlatBuffers part, beside sha256 of the whole file."""

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_MAX_NBYTES = 1 << 20
_MOST_SIGNATURES = 16

refused = functools.partial(error_of_code, 0x22, "AccessFailed")
_invalid = functools.partial(error_of_code, 0x23, "InvalidProgram")
_invalid_argument = functools.partial(error_of_code, 0x12, "InvalidArgument")


@dataclasses.dataclass(frozen=True)
class LoadPolicy:
    """Which programs `Runtime.load_program` takes; needs the package `cryptography`.

    Attributes:
      trusted_keys: public keys in PEM, ECDSA P-256 or Ed25519: the text, or a `pathlib.Path` of it.
        A signature by one is enough.
      required: whether a program without a signature is an error. Otherwise it is loaded
        unverified, so that who removes the signature is not noticed; a wrong one is an error all
        the same.
      minimum_version: of the signature (`pteron sign --version`), against older programs.
      allowed_backends: as of `load_program`; if both are given, what both allow.
    """

    trusted_keys: Sequence[str | bytes | os.PathLike[str]]
    required: bool = True
    minimum_version: int = 0
    allowed_backends: Collection[str] | None = None

    def __post_init__(self) -> None:
        for name in ("trusted_keys", "allowed_backends"):
            if isinstance(getattr(self, name), (str, bytes, os.PathLike)):
                raise TypeError(f"LoadPolicy: {name} is one value, expected a collection of them")

    def allowed_files(self, signature: bytes | None) -> list[bytes] | None:
        """The digests of the files that the signature is of; None without one.

        Raises:
          AccessError: what the policy refuses.
          InvalidProgramError: signed by a trusted key, but not what `pteron sign` writes.
          InvalidArgumentError: there are no keys, or ones of other kinds.
        """
        if self.required and not self.trusted_keys:
            raise _invalid_argument("the policy requires signatures and has no trusted keys")
        keys = [read_key(key) for key in self.trusted_keys]
        if signature is None:
            if self.required:
                raise refused(
                    "it has no signature, which the policy requires; pteron sign writes one"
                )
            return None
        return self._read_statement(open_envelope(signature, keys))

    def _read_statement(self, payload: bytes) -> list[bytes]:
        statement = _parse(payload)
        subjects = _member(statement, "subject")
        if (
            _member(statement, "_type") != STATEMENT_TYPE
            or _member(statement, "predicateType") != PREDICATE_TYPE
            or not isinstance(subjects, list)
            or not subjects
        ):
            raise _invalid(f"what is signed is no in-toto statement of type {PREDICATE_TYPE}")
        self.check_predicate(_member(statement, "predicate"))
        digests = [_member(_member(subject, "digest"), DIGEST) for subject in subjects]
        if not all(isinstance(d, str) and re.fullmatch("[0-9a-f]{64}", d) for d in digests):
            raise _invalid(f"what is signed has a file without digest {DIGEST}")
        return [bytes.fromhex(digest) for digest in digests]

    def check_predicate(self, predicate: Any) -> None:
        """Version and expiry of what is signed, whose errors are those of `allowed_files`."""
        version, expires = _member(predicate, "version"), _member(predicate, "expires")
        if (
            type(version) is not int
            or not 0 <= version < 1 << 64
            or not (expires is None or (isinstance(expires, str) and TIME.fullmatch(expires)))
        ):
            raise _invalid("its version or time of expiry is none that pteron sign writes")
        if version < self.minimum_version:
            raise refused(
                f"the signature is of version {version}, and the policy's minimum is"
                f" {self.minimum_version}"
            )
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if expires is not None and now >= expires:
            raise refused(f"the signature expired at {expires}, and it is {now}")


def read_beside(path: str | os.PathLike[str]) -> bytes | None:
    """The signature of a program file; None if there is none."""
    file = Path(os.fsdecode(path) + SUFFIX)
    try:
        with file.open("rb") as opened:
            return opened.read(_MAX_NBYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused(f"{file}: {error.strerror}") from error


def encoding(payload: bytes) -> bytes:
    """What is signed: "DSSEv1", and length and bytes of the type and of the payload."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def crypto() -> Any:
    """The modules of the package cryptography."""
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise ImportError(
            "signatures need the package cryptography, which is not installed;"
            " try: pip install cryptography (in Bazel, add @pypi//cryptography to the deps)",
            name="cryptography",
        ) from error

    return types.SimpleNamespace(
        InvalidSignature=exceptions.InvalidSignature,
        ecdsa=ec.ECDSA(hashes.SHA256(), deterministic_signing=True),
        serialization=serialization,
        SPKI=serialization.PublicFormat.SubjectPublicKeyInfo,
        ec=ec,
        ed25519=ed25519,
    )


def read_key(key: str | bytes | os.PathLike[str]) -> Any:
    """A public key; what `LoadPolicy.trusted_keys` may be."""
    modules = crypto()
    pem = Path(key).read_bytes() if isinstance(key, os.PathLike) else key
    try:
        public = modules.serialization.load_pem_public_key(
            pem.encode() if isinstance(pem, str) else pem
        )
    except Exception as error:  # of several kinds; what the library does not know is among them
        raise _invalid_argument(
            "a trusted key is no public key in PEM; expected the contents of a file that begins"
            " with -----BEGIN PUBLIC KEY-----, or its pathlib.Path"
        ) from error
    return of_known_kind(public)


def of_known_kind(public: Any, whose: str = "a trusted key") -> Any:
    """The public key `public`, if signatures may be by it."""
    modules = crypto()
    if isinstance(public, modules.ed25519.Ed25519PublicKey) or (
        isinstance(public, modules.ec.EllipticCurvePublicKey) and public.curve.name == "secp256r1"
    ):
        return public
    raise _invalid_argument(f"{whose} is of another kind; expected ECDSA P-256 or Ed25519")


def open_envelope(envelope: bytes, keys: list[Any]) -> bytes:
    """The payload of an envelope with a signature by one of the keys."""
    if len(envelope) > _MAX_NBYTES:
        raise refused(f"the signature has more than {_MAX_NBYTES} bytes")
    fields = _parse(envelope)
    payload, signatures = _decode(fields, "payload"), _member(fields, "signatures")
    if (
        payload is None
        or _member(fields, "payloadType") != PAYLOAD_TYPE
        or not isinstance(signatures, list)
    ):
        raise refused(
            f"the signature is no DSSE envelope of type {PAYLOAD_TYPE}; pteron sign writes one"
        )
    message = encoding(payload)
    # An envelope of a signer has one signature; one with many would take long to refuse.
    for entry in signatures[:_MOST_SIGNATURES]:
        signature = _decode(entry, "sig")
        if signature is not None and any(_verifies(key, signature, message) for key in keys):
            return payload
    raise refused(f"the signature is by none of the {len(keys)} trusted keys, or was altered")


def _verifies(key: Any, signature: bytes, message: bytes) -> bool:
    modules = crypto()
    try:
        key.verify(signature, message, *([modules.ecdsa] if hasattr(key, "curve") else []))
    except modules.InvalidSignature:
        return False
    return True


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _decode(value: Any, name: str) -> bytes | None:
    """Base64 of either alphabet, which DSSE leaves to the writer."""
    text = _member(value, name)
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (AttributeError, ValueError):
        return None
