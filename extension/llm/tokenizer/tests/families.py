"""Small tokenizers with the parts that those of known families of models have."""

import pydoc_data.topics
from collections.abc import Callable

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SENTENCES = (
    "The quick brown fox can't jump over 12345 lazy dogs; they're faster than it'll ever be.\n",
    "Größere Straßenbäume überragen die Fußgängerzone – täglich 3,75 Meter!\n\n",
    "À l'été, l'œuvre naïve coûtait 50 € ; où êtes-vous ?\r\n",
    "Съешь ещё этих мягких французских булок, да выпей же чаю 2026 года.\n",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από τον τεμπέλη σκύλο.\n",
    "敏捷的棕色狐狸跳过了懒狗。一二三四五,共12345元。\n",
    "素早い茶色の狐はのろまな犬を飛び越える。カタカナとひらがな。\n",
    "날쌘 갈색 여우가 게으른 개를 뛰어넘는다. 한국어 문장입니다.\n",
    "الثعلب البني السريع يقفز فوق الكلب الكسول ٠١٢٣٤٥.\n",
    "तेज भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। १२३४५\n",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ\n",
    "\tdef f(x):\n\t\treturn  [x**2 for _ in range(0x1F)]  # ünï 🌍👩‍🚀🇩🇪\n",
)
CORPUS = [*SENTENCES * 40, *list(pydoc_data.topics.topics.values())[:12]]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN3 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"\s\p{L}", r"\s\p{L}\p{M}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
POSSESSIVE = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


def _split(*patterns: str) -> pre_tokenizers.PreTokenizer:
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*splits, last])


def _byte_level(
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    special: list[str],
    *,
    ignore_merges: bool = False,
    normalizer: normalizers.Normalizer | None = None,
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, initial_alphabet=alphabet, show_progress=False, special_tokens=[]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(special)
    return tokenizer


def _bytes_too(
    normalizer: normalizers.Normalizer | None,
    pre_tokenizer: pre_tokenizers.PreTokenizer | None,
    decoder: decoders.Decoder,
) -> Tokenizer:
    """As sentencepiece's BPE becomes one: unknown characters are bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    # Trained on words, else merges go across spaces and training takes long.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=tokens, show_progress=False, limit_alphabet=400
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.pre_tokenizer = pre_tokenizer
    model = tokenizer.model
    model.byte_fallback, model.fuse_unk = True, True
    tokenizer.decoder = decoder
    return tokenizer


def _template(tokenizer: Tokenizer, single: str, names: list[str]) -> Tokenizer:
    ids = [(name, tokenizer.token_to_id(name)) for name in names]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=f"{single} $B", special_tokens=ids
    )
    return tokenizer


def gpt2() -> Tokenizer:
    return _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def roberta() -> Tokenizer:
    tokenizer = _byte_level(pre_tokenizers.ByteLevel(), ["<s>", "</s>"])
    end, begin = ((name, tokenizer.get_vocab()[name]) for name in ("</s>", "<s>"))
    tokenizer.post_processor = processors.RobertaProcessing(end, begin)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return tokenizer


def llama3() -> Tokenizer:
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tokenizer = _byte_level(_split(LLAMA3), special, ignore_merges=True)
    template = _template(tokenizer, "<|begin_of_text|> $A", special[:1]).post_processor
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    return tokenizer


def qwen2() -> Tokenizer:
    tokenizer = _byte_level(
        _split(QWEN2), ["<|endoftext|>", "<|im_start|>"], normalizer=normalizers.NFC()
    )
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), "<think>"])
    return tokenizer


def qwen3() -> Tokenizer:
    return _byte_level(_split(QWEN3), ["<|im_end|>"], normalizer=normalizers.NFC())


def o200k() -> Tokenizer:
    return _byte_level(_split(O200K), ["<|endoftext|>"], ignore_merges=True)


def possessive() -> Tokenizer:
    return _byte_level(_split(POSSESSIVE), ["<|endoftext|>"])


def deepseek() -> Tokenizer:
    patterns = "[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}{1,3}"
    return _byte_level(_split(*patterns), ["<｜begin▁of▁sentence｜>"])


def smollm() -> Tokenizer:
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    return _byte_level(pre_tokenizers.Sequence(steps), ["<|im_start|>"])


def whisper() -> Tokenizer:
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|notimestamps|>", "<|0.00|>"]
    tokenizer = _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), special)
    single = "<|startoftranscript|> <|notimestamps|> $A <|endoftext|>"
    return _template(tokenizer, single, special)


def llama2() -> Tokenizer:
    normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _template(_bytes_too(normalizer, None, decoder), "<s> $A", ["<s>"])


def gemma() -> Tokenizer:
    decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    splitter = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer = _bytes_too(normalizers.Replace(" ", "▁"), splitter, decoder)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("\n\n", "\n\n\n", "▁▁")])
    tokenizer.add_tokens([AddedToken("<start_of_turn>"), AddedToken("\t\t", normalized=True)])
    return tokenizer


def mistral() -> Tokenizer:
    steps = [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    first = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return _bytes_too(None, first, decoders.Sequence(steps))


def _unigram(byte_fallback: bool, *steps: pre_tokenizers.PreTokenizer) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip(False)]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=1500,
        special_tokens=["<pad>", "</s>", "<unk>", *(f"<0x{i:02X}>" for i in range(256))],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if byte_fallback:
        vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
        tokenizer.model = models.Unigram(
            [(piece, -2.0 - i / 100) for i, piece in enumerate(vocabulary)], 2, byte_fallback=True
        )
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return _template(tokenizer, "$A </s>", ["</s>"])


def t5() -> Tokenizer:
    return _unigram(False)


def xlm_roberta() -> Tokenizer:
    return _unigram(False, pre_tokenizers.WhitespaceSplit())


def unigram_with_bytes() -> Tokenizer:
    return _unigram(True)


def clip() -> Tokenizer:
    """Suffixes of words, unknown characters, no decoder."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.NFKD()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("merged_with_next")]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=["<unk>"],
        end_of_word_suffix="</w>",
        show_progress=False,
        limit_alphabet=90,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def prefixed() -> Tokenizer:
    """Prefixes of what continues a word, unknown characters that are fused."""
    model = models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFD()
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=["<unk>"],
        continuing_subword_prefix="##",
        show_progress=False,
        limit_alphabet=60,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def words() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(
        [
            AddedToken("fox", single_word=True),
            AddedToken("dog", lstrip=True, rstrip=True),
            AddedToken("the lazy", rstrip=True),
            AddedToken("é", normalized=True),
        ]
    )
    return tokenizer


FAMILIES: dict[str, Callable[[], Tokenizer]] = {
    family.__name__: family
    for family in (
        *(gpt2, roberta, llama3, qwen2, qwen3, o200k, possessive, deepseek, smollm, whisper),
        *(llama2, gemma, mistral, t5, xlm_roberta, unigram_with_bytes, clip, prefixed, words),
    )
}
