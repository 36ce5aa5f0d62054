"""Certificates, and all that sigstore makes of one: a log of certificates, a log of signatures.

authority = Authority()
certificate = authority.certificate(key, "release@example.com")
bundle = authority.logged(envelope, certificate)       # a bundle of sigstore
root = authority.trusted_root()                        # sigstore's trusted_root.json
"""

import base64
import datetime
import hashlib
import json
import struct
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

_ISSUER_OID = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_TIMESTAMPS_OID = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_HOUR = datetime.timedelta(hours=1)
_SHA256 = ec.ECDSA(hashes.SHA256())
_DER = serialization.Encoding.DER

ISSUER = "https://accounts.example.com"
IDENTITY = "release@example.com"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _public(key: Any) -> bytes:
    der: bytes = key.public_key().public_bytes(
        _DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return der


def _log_id(key: Any) -> bytes:
    return hashlib.sha256(_public(key)).digest()


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Authority:
    """A root, and the logs beside it; each has a key of its own."""

    def __init__(self) -> None:
        self.now = datetime.datetime.now(datetime.UTC)
        self._key, self._certificates, self._signatures = (
            ec.generate_private_key(ec.SECP256R1()) for _ in range(3)
        )
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root of tests")])
        self.root = (
            self._builder(name, self._key, self.now - 1000 * _HOUR, self.now + 1000 * _HOUR)
            .subject_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, issuer: x509.Name, key: Any, begin: Any, end: Any) -> Any:
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(own, critical=False)
            .add_extension(by, critical=False)
        )

    def certificate(
        self,
        key: Any,
        identity: str = IDENTITY,
        *,
        begins: float = -1,
        ends: float = 1,
        signs_code: bool = True,
    ) -> x509.Certificate:
        """Of a key, valid between so many hours from now, with the time at which it was logged."""
        usage = ExtendedKeyUsageOID.CODE_SIGNING if signs_code else ExtendedKeyUsageOID.CLIENT_AUTH
        begin, end = self.now + begins * _HOUR, self.now + ends * _HOUR
        builder = (
            self._builder(self.root.subject, key, begin, end)
            .subject_name(x509.Name([]))
            .add_extension(_usage(), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_OID, ISSUER.encode()), critical=False)
        )
        body = builder.sign(self._key, hashes.SHA256()).tbs_certificate_bytes
        timestamp = int(begin.timestamp() * 1000)
        # RFC 6962, 3.2: an entry of a precertificate, and its signature.
        entry = _log_id(self._key) + len(body).to_bytes(3, "big") + body
        signed = struct.pack("!BBQH", 0, 0, timestamp, 1) + entry + struct.pack("!H", 0)
        signature = self._certificates.sign(signed, _SHA256)
        stamp = struct.pack("!B32sQH", 0, _log_id(self._certificates), timestamp, 0)
        stamp += struct.pack("!BBH", 4, 3, len(signature)) + signature
        stamps = struct.pack("!HH", len(stamp) + 2, len(stamp)) + stamp
        der = b"\x04" + (bytes([len(stamps)]) if len(stamps) < 128 else bytes([0x81, len(stamps)]))
        stamped = builder.add_extension(
            x509.UnrecognizedExtension(_TIMESTAMPS_OID, der + stamps), critical=False
        )
        made: x509.Certificate = stamped.sign(self._key, hashes.SHA256())
        return made

    def logged(
        self, envelope: dict[str, Any], certificate: x509.Certificate, hours: float = 0
    ) -> dict[str, Any]:
        """The bundle of an envelope that was logged so many hours from now."""
        payload = base64.b64decode(envelope["payload"])
        signature = {"sig": envelope["signatures"][0]["sig"], "keyid": ""}
        body = {
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(b"").hexdigest()},
                "payloadHash": {
                    "algorithm": "sha256",
                    "value": hashlib.sha256(payload).hexdigest(),
                },
                "signatures": [
                    {"signature": signature["sig"], "verifier": _base64(pem(certificate))}
                ],
            },
        }
        text = json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        time = int((self.now + hours * _HOUR).timestamp())
        log = _log_id(self._signatures)
        promise = json.dumps(
            {"body": _base64(text), "integratedTime": time, "logID": log.hex(), "logIndex": 0},
            separators=(",", ":"),
        )
        root = hashlib.sha256(b"\0" + text).digest()  # of a log with one entry
        note = f"log.example.com\n1\n{_base64(root)}\n"
        signed = log[:4] + self._signatures.sign(note.encode(), _SHA256)
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": _base64(certificate.public_bytes(_DER))},
                "tlogEntries": [
                    {
                        "logIndex": "0",
                        "logId": {"keyId": _base64(log)},
                        "kindVersion": {"kind": "dsse", "version": "0.0.1"},
                        "integratedTime": str(time),
                        "inclusionPromise": {
                            "signedEntryTimestamp": _base64(
                                self._signatures.sign(promise.encode(), _SHA256)
                            )
                        },
                        "inclusionProof": {
                            "logIndex": "0",
                            "rootHash": _base64(root),
                            "treeSize": "1",
                            "hashes": [],
                            "checkpoint": {
                                "envelope": f"{note}\n\u2014 log.example.com {_base64(signed)}\n"
                            },
                        },
                        "canonicalizedBody": _base64(text),
                    }
                ],
            },
            "dsseEnvelope": {**envelope, "signatures": [signature]},
        }

    def trusted_root(self) -> dict[str, Any]:
        """What a verifier knows: the root's certificate and the logs' keys."""
        valid = {"start": (self.now - 1000 * _HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def log(key: Any) -> dict[str, Any]:
            return {
                "baseUrl": "https://log.example.com",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": _base64(_public(key)),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": valid,
                },
                "logId": {"keyId": _base64(_log_id(key))},
            }

        root = {"rawBytes": _base64(self.root.public_bytes(_DER))}
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self._signatures)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "example.com", "commonName": "root of tests"},
                    "uri": "https://ca.example.com",
                    "certChain": {"certificates": [root]},
                    "validFor": valid,
                }
            ],
            "ctlogs": [log(self._certificates)],
            "timestampAuthorities": [],
        }


def _usage(signs_certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
