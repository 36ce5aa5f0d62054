"""Bundles with certificates: what `pteron verify` takes offline, against a given root."""

import base64
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from absl.testing import flagsaver
from model_signing import verifying

import pteron
from pteron.command import sign
from pteron.command.main import main
from pteron.runtime.python import load_policy
from tests.trust import cases, keys, model
from tests.trust.authority import IDENTITY, ISSUER, Authority, pem


def _pteron(*arguments: object) -> int:
    """The exit code; flags are then what they were."""
    values = importlib.import_module(f"pteron.command.{arguments[0]}").FLAGS
    saved = flagsaver.save_flag_values(values)
    try:
        return main(["pteron", *map(str, arguments)])
    finally:
        flagsaver.restore_flag_values(saved, values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program and its data file; keys and roots beside the folder."""
    folder = tmp_path_factory.mktemp("files") / "model"
    folder.mkdir()
    module, inputs = model.build()
    options = {"cpu.save_data_externally": True}
    pteron.export(module, inputs, folder / "model.pte", options=options)
    (folder.parent / "key.pem").write_bytes(keys.private_pem(keys.P256))
    (folder.parent / "pub.pem").write_text(keys.public_pem(keys.P256))
    return folder


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    made = Authority()
    (folder.parent / "root.pem").write_bytes(pem(made.root))
    (folder.parent / "trusted_root.json").write_text(json.dumps(made.trusted_root()))
    return made


def _sign(folder: Path, name: str, certificates: bytes | None = None) -> Path:
    """A bundle by `pteron sign`."""
    bundle = folder / "model.sig"
    flags = []
    if certificates is not None:
        (folder.parent / f"{name}.pem").write_bytes(certificates)
        flags = [f"--certificate={folder.parent / name}.pem"]
    key = folder.parent / "key.pem"
    assert _pteron("sign", folder / "model.pte", f"--key={key}", f"--bundle={bundle}", *flags) == 0
    return bundle


def _verify(folder: Path, bundle: Path, *flags: str) -> int:
    return _pteron("verify", folder / "model.pte", f"--bundle={bundle}", *flags)


def _with_altered_files(folder: Path, verify: Any) -> None:
    """`verify` fails for each of the files with another byte."""
    for file in sorted(folder.glob("model.pt?")):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        try:
            assert verify() == 1
        finally:
            file.write_bytes(whole)
    assert verify() == 0


def test_a_bundle_of_a_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = _sign(folder, "none")
    key = f"--key={folder.parent / 'pub.pem'}"
    _with_altered_files(folder, lambda: _verify(folder, bundle, key))
    other = folder.parent / "other.pem"
    other.write_text(keys.public_pem(keys.OTHERS[1]))
    capsys.readouterr()
    assert _verify(folder, bundle, f"--key={other}") == 1
    assert "by none of the 1 trusted keys" in capsys.readouterr().err
    assert _verify(folder, bundle, key, "--minimum_version=1") == 1
    assert "has no version" in capsys.readouterr().err


def test_certificates_of_a_root_of_ones_own(
    folder: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    root = folder.parent / "root.pem"
    own = authority.certificate(keys.P256)
    bundle = _sign(folder, "own", pem(own))
    verifier = verifying.Config().use_certificate_verifier(certificate_chain=[root])
    verifier.verify(folder, bundle)  # OpenSSF's own
    of_us = [f"--root={root}", f"--identity={IDENTITY}"]
    _with_altered_files(folder, lambda: _verify(folder, bundle, *of_us))
    assert _verify(folder, bundle, f"--root={root}") == 0

    foreign = folder.parent / "foreign.pem"
    foreign.write_bytes(pem(Authority().root))
    capsys.readouterr()
    for flags, says in (
        ([f"--root={root}", "--identity=other@example.com"], "not of other@example.com"),
        ([f"--root={foreign}"], "is not of a root in"),
    ):
        assert _verify(folder, bundle, *flags) == 1
        assert says in capsys.readouterr().err
    for name, certificate, says in (
        ("expired", authority.certificate(keys.P256, begins=-3, ends=-2), "not of a root in"),
        ("early", authority.certificate(keys.P256, begins=2, ends=3), "not of a root in"),
        ("client", authority.certificate(keys.P256, signs_code=False), "not for signing code"),
    ):
        assert _verify(folder, _sign(folder, name, pem(certificate)), *of_us) == 1
        assert says in capsys.readouterr().err, name

    # Another's certificate beside our signature.
    fields = json.loads(_sign(folder, "own", pem(own)).read_text())
    others = authority.certificate(keys.OTHERS[1])
    der = base64.b64encode(keys_der(others)).decode()
    fields["verificationMaterial"]["x509CertificateChain"]["certificates"] = [{"rawBytes": der}]
    bundle.write_text(json.dumps(fields))
    assert _verify(folder, bundle, *of_us) == 1
    assert "was altered" in capsys.readouterr().err


def keys_der(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    der: bytes = certificate.public_bytes(Encoding.DER)
    return der


def test_bundles_of_sigstore(
    folder: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [folder / "model.pte", *folder.glob("*.ptd")]
    root = f"--root={folder.parent / 'trusted_root.json'}"
    of_us = [root, f"--identity={IDENTITY}", f"--issuer={ISSUER}"]
    certificate = authority.certificate(keys.P256)
    bundle = folder / "model.sigstore.json"

    def write(statement: dict[str, Any], hours: float = 0, of: Any = certificate) -> dict[str, Any]:
        made = authority.logged(sign.sign(statement, keys.P256), of, hours)
        bundle.write_text(json.dumps(made))
        return made

    statement = cases.statement_of(files)
    whole = write(statement)
    _with_altered_files(folder, lambda: _verify(folder, bundle, *of_us))
    assert _verify(folder, bundle, *of_us, "--minimum_version=3") == 0
    # A certificate that was valid when the log has it, and is not any more.
    old = authority.certificate(keys.P256, begins=-3, ends=-2)
    write(statement, hours=-2.5, of=old)
    assert _verify(folder, bundle, *of_us) == 0
    # Another predicate, as attestations of builds have.
    write({**statement, "predicateType": "https://slsa.dev/provenance/v1", "predicate": {}})
    assert _verify(folder, bundle, *of_us) == 0

    capsys.readouterr()

    def refused(says: str, *flags: str) -> None:
        assert _verify(folder, bundle, *(flags or of_us)) == 1
        assert says in capsys.readouterr().err

    write(statement, hours=-1.5, of=old)
    refused("not valid at validation time")
    write(cases.statement_of(files[:1]))
    refused("does not name it")
    write({**statement, "_type": "https://in-toto.io/Statement/v2"})
    refused("no statement of SHA-256 digests")
    write(cases.statement_of(files, expires="2020-01-01T00:00:00Z"))
    refused("expired")
    write(statement)
    refused("the policy's minimum is 4", *of_us, "--minimum_version=4")
    refused("other@example.com", root, "--identity=other@example.com", f"--issuer={ISSUER}")
    refused("Issuer", root, f"--identity={IDENTITY}", "--issuer=https://example.com")
    foreign = folder.parent / "foreign.json"
    foreign.write_text(json.dumps(Authority().trusted_root()))
    refused("", f"--root={foreign}", *of_us[1:])

    def edited(edit: Any) -> None:
        fields = json.loads(json.dumps(whole))
        edit(fields["verificationMaterial"]["tlogEntries"][0], fields)
        bundle.write_text(json.dumps(fields))
        refused("")

    edited(lambda entry, _: entry.update(integratedTime=str(int(entry["integratedTime"]) - 60)))
    edited(lambda entry, _: entry["inclusionProof"].update(treeSize="2"))
    edited(lambda entry, _: entry.pop("inclusionProof"))
    edited(lambda _, fields: fields["verificationMaterial"].update(tlogEntries=[]))
    edited(lambda _, fields: fields["dsseEnvelope"].update(payload="e30="))
    assert load_policy.PAYLOAD_TYPE == whole["dsseEnvelope"]["payloadType"]


def test_the_command_line_is_checked(
    folder: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = _sign(folder, "own", pem(authority.certificate(keys.P256)))
    root, key = f"--root={folder.parent / 'root.pem'}", f"--key={folder.parent / 'key.pem'}"
    public = folder.parent / "pub.pem"
    program = folder / "model.pte"
    capsys.readouterr()
    for arguments, code, says in (
        (["verify", program, root], 2, "add --bundle=model.sig"),
        (["verify", program, root, f"--key={public}", f"--bundle={bundle}"], 2, "--key or with"),
        (["verify", program, f"--bundle={bundle}"], 2, "no key"),
        (["verify", program, f"--bundle={bundle}", f"--root={public}"], 2, "no certificates"),
        (["verify", program, f"--bundle={program}", root], 1, "no bundle"),
        (["verify", program, f"--bundle={folder / 'none'}", root], 1, "none"),
        (
            ["verify", program, f"--bundle={bundle}", f"--root={folder.parent}/trusted_root.json"],
            2,
            "add --identity and --issuer",
        ),
        (["sign", program, key, f"--certificate={public}"], 2, "add --bundle=model.sig"),
        (
            ["sign", program, key, f"--bundle={bundle}", f"--certificate={public}"],
            1,
            "no certificates in PEM",
        ),
        (
            [
                *("sign", program, key, f"--bundle={bundle}"),
                f"--certificate={folder.parent / 'foreign.pem'}",
            ],
            1,
            "of another key",
        ),
    ):
        assert _pteron(*arguments) == code, arguments
        assert says in capsys.readouterr().err, arguments
