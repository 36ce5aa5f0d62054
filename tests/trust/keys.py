"""Keys of tests, and as a program: keys.py PRIVATE.pem PUBLIC.pem"""

import sys
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
P256 = ec.derive_private_key(0x1234567, ec.SECP256R1())
OTHERS = (
    ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)),
    ec.derive_private_key(0x7654321, ec.SECP256R1()),
)


def private_pem(key: Any) -> bytes:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem


def public_pem(key: Any) -> str:
    pem: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem.decode()


if __name__ == "__main__":
    private, public = map(Path, sys.argv[1:])
    private.write_bytes(private_pem(P256))
    public.write_text(public_pem(P256), encoding="utf-8")
