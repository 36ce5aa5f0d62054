"""OpenSSF's verifier takes the bundles that `pteron sign --bundle` writes."""

import base64
import json
from pathlib import Path

import pytest
from absl.testing import flagsaver
from cryptography.exceptions import InvalidSignature
from model_signing import verifying

import pteron
from pteron.command import sign
from pteron.command.main import main
from tests.trust import keys, model


def _sign(program: Path, key: Path, *flags: str) -> int:
    saved = flagsaver.save_flag_values(sign.FLAGS)
    try:
        return main(["pteron", "sign", str(program), f"--key={key}", *flags])
    finally:
        flagsaver.restore_flag_values(saved, sign.FLAGS)


def test_the_bundle_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    module, inputs = model.build()
    options = {"cpu.save_data_externally": True}
    pteron.export(module, inputs, folder / "model.pte", options=options)
    program, bundle = folder / "model.pte", folder / "model.sig"
    private, public, other = (tmp_path / name for name in ("key.pem", "pub.pem", "other.pem"))
    private.write_bytes(keys.private_pem(keys.P256))
    public.write_text(keys.public_pem(keys.P256))
    other.write_text(keys.public_pem(keys.OTHERS[1]))

    def verify(key: Path = public) -> None:
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=key)
        verifier.verify(folder, bundle)

    assert _sign(program, private, f"--bundle={bundle}") == 0
    assert (folder / "model.pte.intoto.json").exists()
    verify()
    with pytest.raises(ValueError, match="Key mismatch"):
        verify(other)
    for file in sorted(folder.glob("model.pt?")):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(ValueError, match=rf"Hash mismatch for \W*{file.name}\W"):
            verify()
        file.write_bytes(whole)
    verify()
    (folder / "more").write_text("")
    with pytest.raises(ValueError, match="Extra files"):
        verify()
    (folder / "more").unlink()
    fields = json.loads(bundle.read_text())
    payload = base64.b64decode(fields["dsseEnvelope"]["payload"]).replace(b"files", b"filex")
    fields["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    bundle.write_text(json.dumps(fields))
    with pytest.raises(InvalidSignature):
        verify()

    private.write_bytes(keys.private_pem(keys.ED25519))
    bundle.unlink()
    capsys.readouterr()
    assert _sign(program, private, f"--bundle={bundle}") == 1
    assert "found an Ed25519 key" in capsys.readouterr().err
    assert not bundle.exists()
