"""Signatures under each policy, in Python; test_load_policy.cpp takes the same cases in C++."""

import importlib
import json
import re
from pathlib import Path

import pytest
from absl.testing import flagsaver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pteron
from pteron.command.main import main
from pteron.runtime import LoadPolicy, PteronError, Runtime
from tests.trust import cases, keys, model


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A program and its data file."""
    folder = tmp_path_factory.mktemp("model")
    module, inputs = model.build()
    options = {"cpu.save_data_externally": True}
    written = pteron.export(module, inputs, folder / "model.pte", options=options).files
    return sorted(map(Path, written), key=lambda file: file.suffix == ".ptd")


def _load(files: list[Path], case: cases.Case) -> str:
    """What loading says: the error's code."""
    contents = [bytearray(file.read_bytes()) for file in files]
    for which, offset, mask in case.changes:
        if offset == -1:
            contents[which].pop()
        elif offset == -2:
            contents[which].append(0)
        else:
            contents[which][offset] ^= mask
    policy = LoadPolicy(case.keys, case.required, case.minimum_version, case.allowed_backends)
    signature = None if case.signature is None else case.signature.encode()
    try:
        Runtime.get().load_program(
            contents[0], data_path=contents[1], policy=policy, signature=signature
        )
    except PteronError as error:
        return "any" if case.outcome == "any" else error.code
    return "Ok"


def test_every_case(files: list[Path]) -> None:
    wrong = []
    everything = list(cases.make(files))
    assert len(everything) > 120
    for case in everything:
        found = _load(files, case)
        if found != case.outcome:
            wrong.append(f"{case.name}: {found}, expected {case.outcome}")
    assert not wrong, "\n".join(wrong)


def _executable_mappings() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line for line in lines if "x" in line.split()[1]}


def test_nothing_is_mapped_executable_when_it_is_refused(files: list[Path]) -> None:
    """And a program that is taken maps its code."""
    inputs = model.build()[1]
    taken, *others = list(cases.make(files))
    policy = LoadPolicy(taken.keys)
    assert taken.signature is not None
    before_any = _executable_mappings()
    for case in others:
        if case.outcome == "Ok":
            continue
        assert _load(files, case) != "Ok"
    assert _executable_mappings() == before_any
    program = Runtime.get().load_program(
        files[0], data_path=files[1], policy=policy, signature=taken.signature.encode()
    )
    method = program.load_method("forward")
    assert any("pteron_model" in line for line in _executable_mappings() - before_any)
    assert len(method.execute(list(inputs))) == 2


@given(data=st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_almost_a_signature_is_refused(files: list[Path], data: st.DataObject) -> None:
    """Whatever is edited: an error, or what was signed."""
    statement = cases.statement_of(files)
    text = cases.signed(statement).encode()
    policy = LoadPolicy([keys.public_pem(keys.ED25519)])
    expected = policy.allowed_files(text)
    edits = st.tuples(st.integers(0, len(text)), st.integers(0, 40), st.binary(max_size=12))
    edited = bytearray(text)
    for at, count, put in data.draw(st.lists(edits, min_size=1, max_size=4)):
        edited[at : at + count] = put
    try:
        assert policy.allowed_files(bytes(edited)) == expected
    except PteronError as error:
        assert error.code == cases.REFUSED


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    where=st.sampled_from(["_type", "subject", "predicateType", "predicate", "digest", "version"]),
    value=json_values,
)
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_a_trusted_key_signed_is_no_crash(
    files: list[Path], where: str, value: object
) -> None:
    statement = cases.statement_of(files[:1])
    holder = statement
    if where == "digest":
        holder = statement["subject"][0]
    elif where == "version":
        holder = statement["predicate"]
    holder[where] = value
    policy = LoadPolicy([keys.public_pem(keys.ED25519)])
    try:
        assert policy.allowed_files(cases.signed(statement).encode())
        assert where in ("version", "predicate")
    except PteronError as error:
        assert error.code == cases.NOT_OURS


def _pteron(*arguments: object) -> int:
    """The exit code; flags are then what they were."""
    values = importlib.import_module(f"pteron.command.{arguments[0]}").FLAGS
    saved = flagsaver.save_flag_values(values)
    try:
        return main(["pteron", *map(str, arguments)])
    finally:
        flagsaver.restore_flag_values(saved, values)


@pytest.fixture(params=[keys.ED25519, keys.P256], ids=["ed25519", "p256"])
def pems(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A private and a public key."""
    private, public = tmp_path / "key.pem", tmp_path / "pub.pem"
    private.write_bytes(keys.private_pem(request.param))
    public.write_text(keys.public_pem(request.param))
    return private, public


def test_sign_and_verify(
    files: list[Path],
    pems: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, weights = tmp_path / "model.pte", tmp_path / "model.ptd"
    program.write_bytes(files[0].read_bytes())
    weights.write_bytes(files[1].read_bytes())
    private, public = pems
    assert _pteron("verify", program, f"--key={public}") == 1
    assert "it has no signature" in capsys.readouterr().err
    assert _pteron("sign", program, f"--key={private}", "--version=7") == 0
    beside = tmp_path / "model.pte.intoto.json"
    first = beside.read_bytes()
    assert str(beside) in capsys.readouterr().out
    assert _pteron("verify", program, f"--key={public}", "--minimum_version=7") == 0
    assert _pteron("verify", program, f"--key={public}", "--minimum_version=8") == 1
    assert "version 7" in capsys.readouterr().err
    # Equal files and keys give equal signatures, for caches of builds.
    assert _pteron("sign", program, f"--key={private}", "--version=7") == 0
    assert beside.read_bytes() == first
    policy = LoadPolicy([public], minimum_version=7)
    loaded = Runtime.get().load_program(program, data_path=weights, policy=policy)
    assert loaded.method_names == {"forward"}
    for file in (program, weights):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert _pteron("verify", program, f"--key={public}") == 1
        assert _pteron("sign", program, f"--key={private}") == 1
        file.write_bytes(whole)
    assert beside.read_bytes() == first
    assert _pteron("sign", program, f"--key={private}", "--expires=2020-01-01") == 0
    assert _pteron("verify", program, f"--key={public}") == 1
    assert "expired at 2020-01-01T00:00:00Z" in capsys.readouterr().err


def test_the_command_line_is_checked(
    files: list[Path],
    pems: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    private, public = pems
    program = files[0]
    output = tmp_path / "signature"
    for arguments, code, says in (
        (["sign", program], 2, "add --key=key.pem"),
        (["verify", program], 2, "add --key=pub.pem"),
        (["sign", program, f"--key={public}"], 1, "is no private key in PEM"),
        (["sign", program, f"--key={private}", "--expires=soon"], 2, "expected a time in UTC"),
        (["sign", program, f"--key={private}", "--version=-1"], 2, "version"),
        (["sign", tmp_path / "none.pte", f"--key={private}"], 2, "there is no file"),
        (["verify", program, f"--key={private}"], 1, "no public key in PEM"),
        (["verify", program, f"--key={tmp_path / 'none.pem'}"], 1, "none.pem"),
    ):
        if arguments[0] == "sign":
            arguments = [*arguments, f"--output={output}"]
        assert _pteron(*arguments) == code, arguments
        assert says in capsys.readouterr().err
        assert not output.exists()


def test_the_statement_is_what_other_tools_read(files: list[Path]) -> None:
    """in-toto's Statement v1 with the SHA-256 of whole files."""
    import hashlib

    statement = cases.statement_of(files)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    for file, subject in zip(files, statement["subject"], strict=True):
        assert subject["name"] == file.name
        assert subject["digest"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert all(re.fullmatch("[a-z0-9_]+", name) for name in subject["digest"])
    envelope = json.loads(cases.signed(statement))
    assert set(envelope) == {"payload", "payloadType", "signatures"}
