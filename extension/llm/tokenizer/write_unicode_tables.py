"""Writes what Unicode's normalization forms need, from Python's own tables, as C++."""

import sys
import unicodedata
from collections.abc import Sequence

_HANGUL = range(0xAC00, 0xD7A4)  # normalize.cpp computes them
_SURROGATES = range(0xD800, 0xE000)
# Newer than Unicode 9, whose forms the package tokenizers has. Compared with Unicode 18.
_NEWER = """
    0558 058B-058C 05C8-05C9 07FD 0897-089F 08CA-08D3 09FE 0C3C 0D3B-0D3C 0EBA 1715 1ABF-1AF0
    1DF6-1DFA 209D-209F 32FF A7F1-A7F4 A82C AB69 105C9 105E4 10781-10785 10787-107B0 107B2-107BF
    10D24-10D27 10D69-10D6D 10EAB-10EAC 10ECB-10ECF 10EF0-10EFB 10EFD-10EFF 10F46-10F50 10F82-10F85
    11070 1133B 11383 11385 1138E 11391 113C5 113C7-113C8 113CE-113D0 1145E 11839-1183A 11938
    1193D-1193E 11943 119E0 11A34 11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42 16121-16128 1612F
    16D68-16D6A 16FF0-16FF1 1B123-1B126 1CCD6-1CCF9 1D127-1D128 1D250-1D252 1D25B-1D25C 1D25F
    1D280-1D281 1D6A6 1DF95 1DFCD-1DFFF 1E030-1E06D 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF
    1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1F16C 1FBF0-1FBF9
"""


def tables() -> str:
    ranges = [[int(end, 16) for end in word.split("-")] for word in _NEWER.split()]
    skipped = {*_HANGUL, *_SURROGATES}
    skipped.update(*(range(ends[0], ends[-1] + 1) for ends in ranges))
    points: list[int] = []
    decompositions, classes, compositions = [], [], []
    for point in range(sys.maxunicode + 1):
        if point in skipped:
            continue
        character = chr(point)
        if combining_class := unicodedata.combining(character):
            classes.append((point, combining_class))
        canonical = unicodedata.normalize("NFD", character)
        compatibility = unicodedata.normalize("NFKD", character)
        if compatibility != character:
            decompositions.append((point, len(points), len(canonical), len(compatibility)))
            points += map(ord, canonical + compatibility)
        pair = unicodedata.decomposition(character).split()
        # Else the composition is excluded.
        if len(pair) == 2 and unicodedata.normalize("NFC", character) == character:
            if not pair[0].startswith("<"):
                compositions.append((int(pair[0], 16), int(pair[1], 16), point))
    return "".join(
        [
            f"// Unicode {unicodedata.unidata_version}.\n",
            f"constexpr uint32_t kPoints[] = {{{', '.join(map(str, points))}}};\n",
            _rows("Decomposition", decompositions),
            _rows("Class", classes, "kClasses"),
            _rows("Composition", sorted(compositions)),
        ]
    )


def _rows(kind: str, rows: Sequence[tuple[int, ...]], name: str = "") -> str:
    lines = "".join(f"    {{{', '.join(map(str, row))}}},\n" for row in rows)
    return f"constexpr {kind} {name or f'k{kind}s'}[] = {{\n{lines}}};\n"


if __name__ == "__main__":
    sys.stdout.write(tables())
