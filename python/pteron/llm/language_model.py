"""A causal model of `transformers` with a KV cache, as two methods of a program.

Attention, masks and positions are transformers' own: `BatchCache` tells them where the tokens of
each row are.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
import transformers
from torch import nn

from pteron.llm.sampling import choose

ATTENTION = "pteron"
"""Name of `attention` and `_mask` in transformers' registries."""


class BatchCache(transformers.Cache):  # type: ignore[misc]
    """Keys and values of `length` positions of each row, and one more for tokens of no row.

    Layers appear with the first call of the model; then the buffers are of the module `owner`,
    each [batch, length + 1, heads, width].

    Attributes:
      slots: int64 [batch, time], where the tokens of the call are stored.
      positions: int64 [batch, 1, time, 1], of the tokens of the call.
    """

    slots: torch.Tensor
    positions: torch.Tensor

    def __init__(self, owner: nn.Module, length: int) -> None:
        super().__init__(layers=[])
        self._owner, self._length = owner, length

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys = self._stored(f"keys_{layer_idx}", key_states)
        return keys, self._stored(f"values_{layer_idx}", value_states)

    def _stored(self, name: str, new: torch.Tensor) -> torch.Tensor:
        """Writes [batch, heads, time, width] at `slots`; returns [batch, heads, slots, width]."""
        if not hasattr(self._owner, name):
            batch, heads, _, width = new.shape
            shape = (batch, self._length + 1, heads, width)
            self._owner.register_buffer(name, new.new_zeros(shape), persistent=False)
        buffer: torch.Tensor = getattr(self._owner, name)
        new = new.transpose(1, 2)
        if new.shape[0] == 1:
            buffer.index_copy_(1, self.slots[0], new)
        else:
            rows = torch.arange(new.shape[0], device=new.device)[:, None]
            buffer.index_put_((rows, self.slots), new)
        return buffer.transpose(1, 2)

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self._length + 1, 0

    def get_query_offset(self, layer_idx: int = 0) -> Any:
        return self.positions

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        return self.positions[:, 0, 0, 0]

    @property
    def is_sliding(self) -> list[bool]:
        return [False]  # all layers store all positions; masks have the windows


def _mask(
    *, kv_length: int, q_offset: Any, mask_function: Any, device: Any, **kwargs: Any
) -> torch.Tensor:
    """bool [batch, 1, time, slots]: what the model's rule allows at the positions of each row."""
    slots = torch.arange(kv_length, device=device)
    mask: torch.Tensor = mask_function(0, 0, q_offset, slots)
    return mask


def attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention that reads grouped keys and values where they are, without repeating them."""
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        bias = torch.where(attention_mask, 0.0, torch.finfo(query.dtype).min).to(query.dtype)
        eager = sys.modules[type(module).__module__].eager_attention_forward
        output, _ = eager(module, query, key, value, bias, scaling=scaling, **kwargs)
        return output, None
    attended = nn.functional.scaled_dot_product_attention(
        query, key, value, attention_mask, scale=scaling, enable_gqa=True
    )
    return attended.transpose(1, 2).contiguous(), None


class LanguageModel(nn.Module):
    """`prefill` and `decode` of a model, whose state (`keys_*`, `values_*`, `seen`) they share.

    Args:
      model: a causal model of transformers, in eval mode, of which this becomes the owner.
      batch: rows, texts that are generated at the same time.
      length: tokens of each row, prompt and answer together.
    """

    seen: torch.Tensor

    def __init__(self, model: Any, batch: int, length: int) -> None:
        super().__init__()
        transformers.AttentionInterface.register(ATTENTION, attention)
        transformers.AttentionMaskInterface.register(ATTENTION, _mask)
        model.set_attn_implementation(ATTENTION)
        self.model = model
        self._cache = BatchCache(self, length)
        takes = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in takes else "past_key_values"
        self._length, vocabulary = length, model.config.get_text_config().vocab_size
        # Of each row, the tokens so far; the last column is of tokens of no row.
        seen = torch.zeros(batch, vocabulary + 1, dtype=torch.bool, device=model.device)
        self.register_buffer("seen", seen, persistent=False)
        zeros = torch.zeros(batch, dtype=torch.int64, device=model.device)
        with torch.no_grad():
            self.prefill(zeros[:, None], zeros, zeros)  # makes the buffers
        if not any(name.startswith("keys_") for name in self._buffers):
            raise ValueError("it stores none")

    def prefill(
        self, tokens: torch.Tensor, position: torch.Tensor, lengths: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Reads tokens of prompts, without a token as the result.

        Args:
          tokens: int64 [batch, time].
          position: int64 [batch], of the first token of each row; 0 begins a text.
          lengths: int64 [batch], how many tokens of each row count; 0 leaves the row as it is.

        Returns:
          `position`, int64 [batch], of the next token.
        """
        self._states(tokens, position, lengths, logits=False)
        return {"position": position + lengths}

    def decode(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        temperature: torch.Tensor,
        top_k: torch.Tensor,
        top_p: torch.Tensor,
        min_p: torch.Tensor,
        repetition_penalty: torch.Tensor,
        seed: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Reads one token of each row and chooses the next one; `choose` has the settings.

        Args:
          tokens: int64 [batch, 1].
          position: int64 [batch], of the tokens. Rows at the end of the cache are left as they are.

        Returns:
          `tokens`, int64 [batch, 1], and `position`, int64 [batch]: inputs of the next call.
        """
        lengths = torch.ones_like(position)
        logits = self._states(tokens, position, lengths, logits=True)[:, -1]
        following = position + 1
        chosen = choose(
            logits,
            self.seen[:, :-1],
            following,
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
        )
        return {"tokens": chosen[:, None], "position": following.clamp(max=self._length)}

    def _states(
        self, tokens: torch.Tensor, position: torch.Tensor, lengths: torch.Tensor, *, logits: bool
    ) -> torch.Tensor:
        """Logits of the last token, or hidden states, after the state is updated."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        positions = position[:, None] + steps
        counts = (steps < lengths[:, None]) & (positions < self._length)
        begins = (position == 0) & (lengths > 0)
        self.seen.logical_and_(~begins[:, None])
        columns = torch.where(counts, tokens, self.seen.shape[1] - 1)
        self.seen.scatter_(1, columns, True)
        self._cache.slots = torch.where(counts, positions, self._length)
        positions = torch.where(counts, positions, 0)  # scaled embeddings depend on the largest
        self._cache.positions = positions[:, None, :, None]
        model = self.model if logits else self.model.base_model
        arguments = {"logits_to_keep": 1} if logits else {}
        outputs = model(
            input_ids=tokens,
            position_ids=positions,
            use_cache=True,
            **{self._cache_argument: self._cache},
            **arguments,
        )
        result: torch.Tensor = outputs.logits if logits else outputs.last_hidden_state
        return result
