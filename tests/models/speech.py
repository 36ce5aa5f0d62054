"""Small Whisper checkpoints, as transformers saves them, and sounds."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

RATE = 16_000
#: Of the feature extractor; a window has `SECONDS`.
SECONDS = 2

_SPECIAL = [
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|de|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startofprev|>",
    "<|notimestamps|>",
]


def tokenizer() -> tuple[Tokenizer, dict[str, int]]:
    """Of bytes, with special tokens and timestamps after them; and the ids of the special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL])
    return made, {token: made.token_to_id(token) for token in _SPECIAL}


def whisper(seconds: int = SECONDS, **sizes: Any) -> Any:
    """A model with random weights whose tokens, timestamps among them, depend on the sound."""
    ids = tokenizer()[1]
    frames = 50 * seconds
    options = {
        "vocab_size": max(ids.values()) + 1 + frames + 1,
        "num_mel_bins": 80,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_source_positions": frames,
        "max_target_positions": 48,
        "init_std": 0.5,
        **sizes,
    }
    known = {
        "eos_token_id": ids["<|endoftext|>"],
        "bos_token_id": ids["<|endoftext|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "decoder_start_token_id": ids["<|startoftranscript|>"],
    }
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(**options, **known)
    )
    model.generation_config = transformers.GenerationConfig(
        **known,
        suppress_tokens=[1, 2, ids["<|startofprev|>"], ids["<|startoftranscript|>"]],
        begin_suppress_tokens=[3, ids["<|endoftext|>"]],
        is_multilingual=True,
        lang_to_id={"<|en|>": ids["<|en|>"], "<|de|>": ids["<|de|>"]},
        task_to_id={task: ids[f"<|{task}|>"] for task in ("translate", "transcribe")},
        no_timestamps_token_id=ids["<|notimestamps|>"],
        max_initial_timestamp_index=20,
        max_length=options["max_target_positions"],
    )
    return model.eval()


def save(model: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer()[0].save(str(folder / "tokenizer.json"))
    extractor(model).save_pretrained(folder)


def extractor(model: Any) -> Any:
    seconds = model.config.max_source_positions // 50
    return transformers.WhisperFeatureExtractor(
        feature_size=model.config.num_mel_bins, chunk_length=seconds
    )


def sound(seconds: float, seed: int = 0) -> np.ndarray[Any, Any]:
    """float32 samples: tones that change, and noise."""
    random = np.random.default_rng(seed)
    count = int(seconds * RATE)
    pitches = np.repeat(random.uniform(100, 4000, count // 3200 + 1), 3200)[:count]
    loudness = np.repeat(random.uniform(0, 1, count // 2000 + 1), 2000)[:count]
    tones = np.sin(2 * np.pi * np.cumsum(pitches) / RATE) * loudness
    return (0.5 * tones + 0.01 * random.standard_normal(count)).astype(np.float32)


LETTERS = "abcdefgh"


def beeps(text: str, random: Any) -> np.ndarray[Any, Any]:
    """A window of audio with a tone for each of at most five letters, somewhere, and noise."""
    samples = 0.01 * random.standard_normal(SECONDS * RATE)
    at = random.integers(0, RATE // 10)
    for letter in text:
        count = random.integers(RATE // 6, RATE // 5)
        pitch = 400 * 1.3 ** LETTERS.index(letter)
        samples[at : at + count] += 0.3 * np.sin(2 * np.pi * pitch * np.arange(count) / RATE)
        at += count + random.integers(RATE // 10, RATE // 7)
    return samples.astype(np.float32)


def trained(steps: int = 600) -> Any:
    """A model that writes the letters of `beeps`, with timestamps of the window or without."""
    model, ids = whisper(init_std=0.02, d_model=64), tokenizer()[1]
    text_of, first_time = tokenizer()[0], ids["<|notimestamps|>"] + 1
    random, extract = np.random.default_rng(1), extractor(model)
    torch.set_num_threads(1)  # the steps are too small for several threads
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    end = ids["<|endoftext|>"]
    for _ in range(steps):
        texts = ["".join(random.choice(list(LETTERS), random.integers(1, 6))) for _ in range(16)]
        audio = [beeps(text, random) for text in texts]
        features = extract(audio, sampling_rate=RATE, return_tensors="pt").input_features
        rows = []
        for i, text in enumerate(texts):
            row = [ids["<|startoftranscript|>"], ids["<|en|>"], ids["<|transcribe|>"]]
            words = text_of.encode(text).ids
            if i % 2:
                row += [first_time, *words, first_time + 50 * SECONDS, end]
            else:
                row += [ids["<|notimestamps|>"], *words, end]
            rows.append(torch.tensor(row))
        tokens = torch.nn.utils.rnn.pad_sequence(rows, True, end)
        lengths = torch.tensor([len(row) for row in rows])[:, None]
        labels = tokens.masked_fill(torch.arange(tokens.shape[1]) >= lengths, -100)[:, 1:]
        logits = model(input_features=features, decoder_input_ids=tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    assert loss.item() < 0.3
    return model.eval()
