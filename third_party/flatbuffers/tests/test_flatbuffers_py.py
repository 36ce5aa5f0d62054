"""The generated module and the Python runtime: a round trip through the object API."""

from __future__ import annotations

import flatbuffers
import pytest

import third_party.flatbuffers.tests.monster_generated as schema


def serialize_orc() -> bytes:
    axe = schema.WeaponT()
    axe.name, axe.damage = "axe", 5
    orc = schema.MonsterT()
    orc.name, orc.weapons, orc.inventory = "orc", [axe], [1, 2, 3]
    builder = flatbuffers.Builder()
    builder.Finish(orc.Pack(builder), file_identifier=b"MON1")
    return bytes(builder.Output())


def test_round_trip() -> None:
    data = serialize_orc()
    assert schema.Monster.MonsterBufferHasIdentifier(data, 0)
    orc = schema.MonsterT.InitFromPackedBuf(data)
    assert orc.name == b"orc"
    assert (orc.hp, orc.kind) == (100, schema.Kind.Large)
    assert [(weapon.name, weapon.damage) for weapon in orc.weapons] == [(b"axe", 5)]
    assert list(orc.inventory) == [1, 2, 3]


def test_another_file_identifier_is_told_apart() -> None:
    data = bytearray(serialize_orc())
    data[4:8] = b"MON2"
    assert not schema.Monster.MonsterBufferHasIdentifier(bytes(data), 0)


def test_out_of_range_value_is_refused() -> None:
    orc = schema.MonsterT()
    orc.hp = 1 << 15
    with pytest.raises(TypeError):
        orc.Pack(flatbuffers.Builder())
