"""HFTokenizer's ids and texts are those of the package tokenizers."""

import json
import os
import random
import subprocess
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from extension.llm.tokenizer.tests.families import FAMILIES, SENTENCES

# Assigned in Python's version of Unicode, which is older than PCRE2's.
_ASSIGNED = [i for i in range(0x110000) if unicodedata.category(chr(i)) not in ("Cn", "Cs")]
_SPACES = "".join(chr(i) for i in _ASSIGNED if chr(i).isspace()) + "\u180e\u200b\u200c\u200d\ufeff"
_DIGITS = "".join(chr(i) for i in _ASSIGNED if unicodedata.category(chr(i))[0] == "N")
_MARKS = "".join(chr(i) for i in _ASSIGNED if unicodedata.category(chr(i))[0] == "M")
_OTHERS = (
    "👩‍👩‍👧‍👦|🇩🇪🇫🇷|e\u0301\u0323|\u1112\u1161\u11ab|ﬁ|Å|ſ|'ſ|K|İ|\x00|\ufffd|'S|'LL|<0x41>"
    "|<unk>|▁|Ġ|\r\n|\n\n\n|\t\t|"
    " fox|foxes| dog |the lazy  |...|—|，|<mask>| <mask>|½²③|_|##"
).split("|")


def _texts(tokenizer: Tokenizer, count: int) -> list[str]:
    generator = random.Random(7)
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    whole = "".join(SENTENCES)

    def part() -> str:
        kind = generator.randrange(9)
        if kind <= 1:
            begin = generator.randrange(len(whole))
            return whole[begin : begin + generator.randrange(40)]
        if kind == 2:
            return "".join(map(chr, generator.choices(_ASSIGNED, k=3)))
        if kind == 3:
            return "".join(chr(generator.randrange(0x20, 0x7F)) for _ in range(8))
        if kind <= 5:
            return generator.choice(special + _OTHERS)
        return "".join(generator.choices((_SPACES, " \n", _DIGITS, _MARKS)[kind - 6], k=3))

    texts = ["".join(part() for _ in range(generator.randrange(8))) for _ in range(count)]
    letters = "".join(generator.choices("abcdeé", k=20000))
    long = ["a" * 20000, letters, " " * 5000 + "x", "\n" * 999]
    return ["", *SENTENCES, *special, *_OTHERS, *_SPACES, whole, *texts, *long]


def _answers(path: Path, requests: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(
        [os.path.abspath(os.environ["TOKENIZE"]), str(path)],
        input=lines.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return map(json.loads, done.stdout.split(b"\n")[:-1])


def _pieces(tokenizer: Tokenizer, ids: list[int], known: int) -> list[str]:
    """What the package's stream passes on, until it refuses bytes that turn out to be none."""
    stream = decoders.DecodeStream(ids=ids[:known], skip_special_tokens=True)
    pieces = []
    for token in ids[known:]:
        try:
            pieces.append(stream.step(tokenizer, token) or "")
        except Exception as error:
            assert "prefix" in str(error).lower()
            break
    return pieces


def _check(tokenizer: Tokenizer, path: Path, count: int) -> None:
    tokenizer.save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    texts = _texts(tokenizer, count)
    answers = list(_answers(path, [{"text": text} for text in texts]))
    assert len(answers) == len(texts)
    for text, answer in zip(texts, answers, strict=True):
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        assert answer == {"ids": expected, "framed": tokenizer.encode(text).ids}, ascii(text)

    generator = random.Random(8)
    known = tokenizer.get_vocab_size() + 5  # the last ones have no token
    lists = [answer["ids"] for answer in answers if len(answer["ids"]) < 500]
    lists += [generator.choices(range(known), k=generator.randrange(12)) for _ in range(count)]
    requests = [{"ids": ids, "known": generator.randrange(len(ids) + 1)} for ids in lists]
    for request, answer in zip(requests, _answers(path, requests), strict=True):
        ids, begin = request["ids"], request["known"]
        assert answer["text"] == tokenizer.decode(ids), ids
        assert answer["all"] == tokenizer.decode(ids, skip_special_tokens=False), ids
        # There the package passes the known text on, too.
        if not tokenizer.decode(ids[:begin]).endswith("\ufffd"):
            pieces = _pieces(tokenizer, ids, begin)
            assert answer["pieces"][: len(pieces)] == pieces, request


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_and_texts_are_equal(family: str, tmp_path: Path) -> None:
    _check(FAMILIES[family](), tmp_path / "tokenizer.json", 2000)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normalization_of_all_characters(form: str, tmp_path: Path) -> None:
    vocabulary = {f"<0x{i:02X}>": i for i in range(256)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True))
    tokenizer.normalizer = getattr(normalizers, form)()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    generator = random.Random(9)
    # Each character by itself, before and after a mark, and next to others.
    texts = [
        "".join(f"{chr(i)}x{chr(i)}\u0301\u0323{chr(i)}" for i in _ASSIGNED[begin : begin + 500])
        for begin in range(0, len(_ASSIGNED), 500)
        if _ASSIGNED[begin] < 0x30000
    ]
    texts += ["".join(generator.choices(_MARKS, k=20)) for _ in range(500)]
    answers = _answers(tmp_path / "tokenizer.json", [{"text": text} for text in texts])
    for text, answer in zip(texts, answers, strict=True):
        assert answer["ids"] == tokenizer.encode(text).ids, ascii(text)


_BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
_PATTERNS = (
    *(r"\d+", r"\s", r"\w+", r"\S+\s?", r"a|(?<=b)c", r"x*", r"(?=\p{Lu})", r"^", r"$"),
    *(r".", r"\A.", r".\z", r"(?>ab|a)c", r"[\p{Han}\p{Hiragana}]+", r"\p{Cyrillic}", r"\P{L}{2}"),
    *(r"[\x{4e00}-\x{9fff}]", r"(a)(b)?", r"(?i)FOX|ß", r"\p{^L}+", r"[\w.]+", r"^\s+|\s+$", r"\."),
)


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_patterns_mean_the_same(pattern: str, tmp_path: Path) -> None:
    alphabet = {chr(i): n for n, i in enumerate(_ASSIGNED) if i < 0x3000}
    for behavior in _BEHAVIORS:
        for invert in (False, True):
            # The model makes a split visible: it knows no text of several characters.
            tokenizer = Tokenizer(models.BPE({**alphabet, "[": 1 << 20}, [], unk_token="["))
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(pattern), behavior, invert),
                    pre_tokenizers.Metaspace("[", "always", split=False),
                ]
            )
            path = tmp_path / "tokenizer.json"
            tokenizer.save(str(path))
            texts = ["abc bc\nc xxax Äx\n", "1२3 \u180e\u0085 \u200d_", *_texts(tokenizer, 20)[:40]]
            answers = _answers(path, [{"text": text} for text in texts])
            for text, answer in zip(texts, answers, strict=True):
                assert answer["ids"] == tokenizer.encode(text).ids, (ascii(text), behavior, invert)
