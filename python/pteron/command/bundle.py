"""Bundles of sigstore and of OpenSSF's model signing, read offline.

A bundle has a DSSE envelope over a statement of SHA-256 digests, and what its key is known by: a
certificate of sigstore, with the entry of its log; certificates up to a root of one's own; nothing,
for a key that the reader has.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pteron.command.usage import UsageError
from pteron.runtime import LoadPolicy
from pteron.runtime.python import load_policy
from pteron.runtime.python.load_policy import refused

_MODEL_SIGNING = "https://model_signing/signature/v1.0"


def check(
    files: Sequence[Path],
    bundle: Path,
    policy: LoadPolicy,
    root: Path | None,
    identity: str | None,
    issuer: str | None,
) -> None:
    """Returns if the bundle names the digests of all files.

    Args:
      policy: the keys that are trusted without certificates, and the least version.
      root: sigstore's trusted_root.json, or certificates in PEM.
      identity: a name in the certificate, such as a mail address; None: any of the root's.
      issuer: who authenticated the identity, a URL; for sigstore only.

    Raises:
      AccessError: says what is refused.
    """
    text = bundle.read_bytes()
    if root is None:
        payload = load_policy.open_envelope(
            _envelope(bundle, text), [load_policy.read_key(key) for key in policy.trusted_keys]
        )
    elif root.read_bytes().lstrip().startswith(b"{"):
        payload = _by_sigstore(bundle, text, root, identity, issuer)
    else:
        payload = _by_certificates(bundle, text, root, identity)
    digests = _digests(bundle, payload, policy)
    for file in files:
        with file.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if digests.get(file.name) != found:
            known = "is of other bytes" if file.name in digests else "does not name it"
            raise refused(f"{bundle}: it {known}: {file} has SHA-256 {found}")


def _envelope(bundle: Path, text: bytes) -> bytes:
    try:
        return json.dumps(json.loads(text)["dsseEnvelope"]).encode()
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise refused(f"{bundle}: it is no bundle with a DSSE envelope") from error


def _by_certificates(bundle: Path, text: bytes, root: Path, identity: str | None) -> bytes:
    """The payload, signed by a key whose certificates, valid today, end at one of the roots."""
    from cryptography import x509
    from cryptography.x509 import verification

    try:
        roots = x509.load_pem_x509_certificates(root.read_bytes())
    except ValueError as error:
        raise UsageError(f"--root: {root} has no certificates in PEM ({error})") from error
    any_usage = (x509.ExtendedKeyUsage, verification.Criticality.AGNOSTIC, None)
    policies = verification.ExtensionPolicy
    ca = policies.webpki_defaults_ca().may_be_present(*any_usage)
    ee = policies.webpki_defaults_ee().may_be_present(*any_usage)
    builder = verification.PolicyBuilder().store(verification.Store(roots))
    verifier = builder.extension_policies(ca_policy=ca, ee_policy=ee).build_client_verifier()
    envelope = _envelope(bundle, text)
    try:
        material = json.loads(text)["verificationMaterial"]
        raw = material.get("x509CertificateChain", {}).get("certificates") or [
            material["certificate"]
        ]
        own, *others = [
            x509.load_der_x509_certificate(base64.b64decode(each["rawBytes"])) for each in raw
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise refused(f"{bundle}: it has no certificate") from error
    try:
        subjects = verifier.verify(own, others).subjects or []
        usages = [e.value for e in own.extensions if isinstance(e.value, x509.ExtendedKeyUsage)]
    except (verification.VerificationError, x509.UnsupportedGeneralNameType) as error:
        raise refused(f"{bundle}: its certificate is not of a root in {root}: {error}") from error
    if not any(x509.oid.ExtendedKeyUsageOID.CODE_SIGNING in usage for usage in usages):
        raise refused(f"{bundle}: its certificate is not for signing code")
    names = [str(name.value) for name in subjects]
    if identity is not None and identity not in names:
        raise refused(f"{bundle}: its certificate is of {names}, not of {identity}")
    return load_policy.open_envelope(envelope, [load_policy.of_known_kind(own.public_key())])


def _by_sigstore(
    bundle: Path, text: bytes, root: Path, identity: str | None, issuer: str | None
) -> bytes:
    """The payload, as sigstore's own verifier takes it: certificate, logs, and the time in them."""
    if identity is None or issuer is None:
        raise UsageError("with sigstore's trusted root, add --identity and --issuer")
    try:
        from sigstore import errors, models, verify
        from sigstore.verify import policy
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sigstore":
            raise
        raise ImportError(
            "this needs sigstore; try: pip install sigstore", name="sigstore"
        ) from error
    try:
        verifier = verify.Verifier(trusted_root=models.TrustedRoot.from_file(str(root)))
        expected = policy.Identity(identity=identity, issuer=issuer)
        kind, payload = verifier.verify_dsse(models.Bundle.from_json(text), expected)
    except (errors.Error, ValueError) as error:
        raise refused(f"{bundle}: {error}") from error
    if kind != load_policy.PAYLOAD_TYPE:
        raise refused(f"{bundle}: it signs a {kind}, expected {load_policy.PAYLOAD_TYPE}")
    return payload


def _digests(bundle: Path, payload: bytes, policy: LoadPolicy) -> dict[str, Any]:
    """SHA-256 by name of file, of a statement that is signed."""
    try:
        statement = json.loads(payload)
        if statement["_type"] != load_policy.STATEMENT_TYPE:
            raise ValueError(statement["_type"])
        predicate = statement["predicate"]
        if statement["predicateType"] == load_policy.PREDICATE_TYPE:
            policy.check_predicate(predicate)
        elif policy.minimum_version > 0:
            raise refused(f"{bundle}: what it signs has no version, and --minimum_version is set")
        if statement["predicateType"] == _MODEL_SIGNING:
            return {
                file["name"]: file["digest"]
                for file in predicate["resources"]
                if file["algorithm"] == "sha256"
            }
        return {file["name"]: file["digest"]["sha256"] for file in statement["subject"]}
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise refused(f"{bundle}: what it signs is no statement of SHA-256 digests") from error
