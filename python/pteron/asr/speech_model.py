"""A Whisper model of `transformers` with its caches, as methods of a program."""

import inspect
from typing import Any

import torch
import transformers
from torch import nn

from pteron.llm.language_model import ATTENTION, BatchCache
from pteron.llm.language_model import attention as attend

TEXT, TIMES, LANGUAGES = range(3)
"""Values of `rules`: text, text with timestamps, or one token for the language."""


class SpeechCache(BatchCache):
    """Rows of each buffer: `length` positions of the text, one of no text, those of the audio.

    `decode` changes the buffer whose other rows it reads, so that its method sees what `encode`
    wrote.
    """

    def __init__(self, owner: nn.Module, length: int, audio: int) -> None:
        super().__init__(owner, 1, length + 1 + audio)
        self._text = length + 1

    def _stored(self, name: str, new: torch.Tensor) -> torch.Tensor:
        return super()._stored(name, new)[:, :, : self._text]

    def of_audio(self, name: str) -> torch.Tensor:
        """[1, positions, heads, width]."""
        return getattr(self._owner, name)[:, self._text :]


class CrossCache(transformers.Cache):  # type: ignore[misc]
    """Keys and values of the audio, which are not computed again."""

    def __init__(self, cache: SpeechCache, layers: int) -> None:
        super().__init__(layers=[CrossLayer(cache, i) for i in range(layers)])

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 1  # so that it counts as filled


class CrossLayer:
    def __init__(self, cache: SpeechCache, layer: int) -> None:
        self._cache, self._layer = cache, layer

    @property
    def keys(self) -> torch.Tensor:
        return self._cache.of_audio(f"keys_{self._layer}").transpose(1, 2)

    @property
    def values(self) -> torch.Tensor:
        return self._cache.of_audio(f"values_{self._layer}").transpose(1, 2)


class SpeechModel(nn.Module):
    """`features`, `encode` and `decode` of a model; the last two share `text` and the caches.

    Args:
      model: a WhisperForConditionalGeneration, in eval mode, of which this becomes the owner.
      extractor: its WhisperFeatureExtractor.
    """

    text: torch.Tensor
    window: torch.Tensor
    filters: torch.Tensor
    suppressed: torch.Tensor
    suppressed_first: torch.Tensor
    languages: torch.Tensor

    def __init__(self, model: Any, extractor: Any) -> None:
        super().__init__()
        transformers.AttentionInterface.register(ATTENTION, attend)
        model.set_attn_implementation(ATTENTION)
        self.encoder, self.decoder, self.head = (
            model.model.encoder,
            model.model.decoder,
            model.proj_out,
        )
        config, rules = model.config, model.generation_config
        device = model.device
        self._fft, self._hop = extractor.n_fft, extractor.hop_length
        self._length = config.max_target_positions
        self._eos = rules.eos_token_id
        self._no_times = getattr(rules, "no_timestamps_token_id", config.vocab_size)
        self._latest_first = getattr(rules, "max_initial_timestamp_index", None)

        def constant(name: str, value: torch.Tensor) -> None:
            self.register_buffer(name, value.to(device), persistent=False)

        constant("window", torch.hann_window(self._fft))
        constant("filters", torch.from_numpy(extractor.mel_filters).float())
        ids = {
            "suppressed": getattr(rules, "suppress_tokens", None),
            "suppressed_first": getattr(rules, "begin_suppress_tokens", None),
            "languages": list(getattr(rules, "lang_to_id", {}).values()),
        }
        for name, tokens in ids.items():
            mask = torch.zeros(config.vocab_size, dtype=torch.bool)
            mask[[token for token in tokens or () if 0 <= token < len(mask)]] = True
            constant(name, mask)
        constant("text", torch.zeros(1, self._length + 1, dtype=torch.int64))
        self._own = SpeechCache(self, self._length, config.max_source_positions)
        cross = CrossCache(self._own, config.decoder_layers)
        self._cache = transformers.EncoderDecoderCache(self._own, cross)
        takes = inspect.signature(self.decoder.forward).parameters
        self._cache_argument = "cache" if "cache" in takes else "past_key_values"
        zero = torch.zeros(1, dtype=torch.int64, device=device)
        with torch.no_grad():
            self.decode(zero[:, None], zero, zero, zero)  # makes the buffers
        self._own.clear()

    def features(self, samples: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logarithms of the power in mel bands, before their range is limited.

        Args:
          samples: float32 [1, samples], with n_fft / 2 of context on both sides.

        Returns:
          `features`, float32 [1, bands, frames].
        """
        spectrum = torch.stft(
            samples, self._fft, self._hop, window=self.window, center=False, return_complex=True
        )
        mel = self.filters.T @ torch.view_as_real(spectrum).square().sum(-1)
        return {"features": mel.clamp(min=1e-10).log10()}

    def encode(
        self, features: torch.Tensor, maximum: torch.Tensor, frames: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Reads a window of audio, of which the calls of `decode` that follow write the text.

        Args:
          features: float32 [1, bands, frames], of `features`.
          maximum: float32 [1], the largest feature of the audio.
          frames: int64 [1], how many of them count.

        Returns:
          `position`, int64 [1], of the text's first token: 0.
        """
        limited = (torch.maximum(features, maximum[:, None, None] - 8.0) + 4.0) / 4.0
        counts = torch.arange(features.shape[-1], device=features.device) < frames
        inputs = torch.where(counts, limited, 0.0)
        states = self.encoder(inputs.to(self.encoder.conv1.weight.dtype)).last_hidden_state
        for i, layer in enumerate(self.decoder.layers):
            attention = layer.encoder_attn
            for name, linear in (("keys", attention.k_proj), ("values", attention.v_proj)):
                rows = self._own.of_audio(f"{name}_{i}")
                rows.copy_(linear(states).unflatten(-1, rows.shape[2:]))
        return {"position": torch.zeros_like(frames)}

    def decode(
        self, tokens: torch.Tensor, position: torch.Tensor, begin: torch.Tensor, rules: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Reads tokens and chooses the next one, the likeliest of those that the rules allow.

        Args:
          tokens: int64 [1, time].
          position: int64 [1], of the first of them; 0 begins a text.
          begin: int64 [1], how many tokens the prompt has.
          rules: int64 [1], TEXT, TIMES or LANGUAGES.

        Returns:
          `tokens`, int64 [1, 1], and `position`, int64 [1]: inputs of the next call.
        """
        positions = position[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        slots = positions.clamp(max=self._length)
        self._own.slots, self._own.positions = slots, positions[:, None, :, None]
        self.text.scatter_(1, slots, tokens)
        stored = torch.arange(self._length + 1, device=tokens.device)
        states = self.decoder(
            input_ids=tokens,
            position_ids=positions.clamp(max=self._length - 1),
            attention_mask=(stored <= positions[:, :, None])[:, None],
            encoder_hidden_states=self.text,  # that there are some; the cache has their keys
            use_cache=True,
            **{self._cache_argument: self._cache},
        ).last_hidden_state
        logits = self.head(states[:, -1]).float()
        last = positions[:, -1]
        chosen = self._allowed(logits, last, begin, rules).argmax(-1, keepdim=True)
        return {"tokens": chosen, "position": last + 1}

    def _allowed(
        self, logits: torch.Tensor, last: torch.Tensor, begin: torch.Tensor, rules: torch.Tensor
    ) -> torch.Tensor:
        """Logits of which those of tokens that must not follow are -inf."""
        ids = torch.arange(logits.shape[-1], device=logits.device)
        first_time = self._no_times + 1
        is_first = last + 1 == begin
        refused = self.suppressed | (self.suppressed_first & is_first)
        # Timestamps: after the prompt, in pairs but for the first and the last, never back.
        stored = torch.arange(self.text.shape[1], device=logits.device)
        is_time = (self.text[0] >= first_time) & (stored >= begin) & (stored <= last)
        after_time = is_time[last]
        after_two = after_time & ((last == begin) | is_time[(last - 1).clamp(min=0)])
        after_one = after_time & ~after_two
        latest = torch.where(is_time, self.text[0], 0).amax()
        earliest = torch.where(latest > 0, latest + torch.where(after_one, 0, 1), first_time)
        is_text = ids < first_time
        wrong = (ids == self._no_times) | (after_two & ~is_text) | (after_one & (ids < self._eos))
        wrong = wrong | (~is_text & (ids < earliest)) | (is_first & is_text)
        if self._latest_first is not None:
            wrong = wrong | (is_first & (ids > first_time + self._latest_first))
        scores = logits.masked_fill(refused | wrong, -torch.inf)
        times = scores.masked_fill(is_text, -torch.inf).logsumexp(-1)
        scores = scores.masked_fill(
            is_text & (times > scores.masked_fill(~is_text, -torch.inf).amax(-1)), -torch.inf
        )
        plain = logits.masked_fill(refused, -torch.inf)
        language = logits.masked_fill(~self.languages, -torch.inf)
        return torch.where(rules == TIMES, scores, torch.where(rules == LANGUAGES, language, plain))
