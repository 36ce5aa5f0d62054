"""A causal model of `transformers` with a KV cache, as methods of a program.

Attention, masks and positions are transformers' own: `BatchCache` tells them where the tokens of
each row are. All that a step of decoding needs is state, so that steps can be queued on a device,
each as one CUDA graph, without the host in between.
"""

import inspect
import sys
from typing import Any

import torch
import transformers
from torch import nn

from pteron.llm.sampling import SETTINGS, choose

ATTENTION = "pteron"
"""Name of `attention` and `_mask` in transformers' registries."""

RECENT = 16
"""How many of the newest tokens `read` returns."""

_MULTIPLE = 16  # of the positions of the cache, which GPUs read in such pieces


class BatchCache(transformers.Cache):  # type: ignore[misc]
    """Keys and values of rows, with one position at least for tokens of no row.

    Layers appear with the first call of the model; then the buffers are of the module `owner`,
    each [batch, length, heads, width].

    Attributes:
      length: positions of a row.
      row: int64 [rows], those that the call is for; None for all rows.
      slots: int64 [rows, time], where the tokens of the call are stored.
      positions: int64 [rows, 1, time, 1], of the tokens of the call.
    """

    row: torch.Tensor | None = None
    slots: torch.Tensor
    positions: torch.Tensor

    def __init__(self, owner: nn.Module, batch: int, length: int) -> None:
        super().__init__(layers=[])
        self._owner, self._batch, self.length = owner, batch, length

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
        """Writes [rows, heads, time, width] at `slots`; returns [rows, heads, slots, width]."""
        if not hasattr(self._owner, name):
            _, heads, _, width = new.shape
            shape = (self._batch, self.length, heads, width)
            self._owner.register_buffer(name, new.new_zeros(shape), persistent=False)
        buffer: torch.Tensor = getattr(self._owner, name)
        self.write(buffer, new.transpose(1, 2))
        if self.row is not None and self._batch > 1:
            buffer = buffer.index_select(0, self.row)
        return buffer.transpose(1, 2)

    def write(self, buffer: torch.Tensor, new: torch.Tensor) -> None:
        """Stores [rows, time, ...] at `slots` of the rows."""
        if self._batch == 1:
            buffer.index_copy_(1, self.slots[0], new)
        else:
            rows = torch.arange(self._batch, device=new.device) if self.row is None else self.row
            buffer.index_put_((rows[:, None], self.slots), new)

    def clear(self) -> None:
        """Sets keys and values to zeros, which a program file does not store."""
        for name, buffer in self._owner.named_buffers(recurse=False):
            if name.startswith(("keys_", "values_")):
                buffer.zero_()

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.length, 0

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
    """A model with the texts of its rows as state: `ids`, `positions`, keys, values and settings.

    `prefill` and `start` begin a text in a row; then each `decode` adds a token to every row that
    has a text, and `read` returns the newest ones.

    Args:
      model: a causal model of transformers, in eval mode, of which this becomes the owner.
      batch: rows, texts that are generated at the same time.
      length: tokens of each row, prompt and answer together.
      decides: whether `decode` may skip sampling if all rows are greedy.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    recent: torch.Tensor

    def __init__(self, model: Any, batch: int, length: int, *, decides: bool = True) -> None:
        super().__init__()
        self._decides = decides
        transformers.AttentionInterface.register(ATTENTION, attention)
        transformers.AttentionMaskInterface.register(ATTENTION, _mask)
        model.set_attn_implementation(ATTENTION)
        self.model = model
        self._cache = BatchCache(self, batch, -(-(length + 1) // _MULTIPLE) * _MULTIPLE)
        takes = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in takes else "past_key_values"
        self._length = length
        self._vocabulary = model.config.get_text_config().vocab_size

        def state(name: str, value: float, *shape: int) -> None:
            dtype = torch.float32 if isinstance(value, float) else torch.int64
            full = torch.full((batch, *shape), value, dtype=dtype, device=model.device)
            self.register_buffer(name, full, persistent=False)

        state("ids", 0, self._cache.length)
        state("recent", 0, RECENT)
        state("positions", length)  # of the next token to read; `length` where there is no text
        for name, value in SETTINGS.items():
            state(name, value)
        zero = torch.zeros(1, dtype=torch.int64, device=model.device)
        with torch.no_grad():
            self.prefill(zero[:, None], zero, zero, zero)  # makes the buffers
        self._cache.clear()
        if not any(name.startswith("keys_") for name in self._buffers):
            raise ValueError("it stores none")

    def prefill(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        lengths: torch.Tensor,
        row: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Reads tokens of prompts, without a token as the result; ends the rows' texts.

        Args:
          tokens: int64 [rows, time].
          position: int64 [rows], of the first token of each.
          lengths: int64 [rows], how many tokens count.
          row: int64 [rows], different ones.

        Returns:
          `position`, int64 [rows], of the next tokens.
        """
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        positions = position[:, None] + steps
        counts = (steps < lengths[:, None]) & (positions < self._length)
        self.positions.index_copy_(0, row, torch.full_like(row, self._length))
        self._cache.row = row
        self._run(self.model.base_model, tokens, positions, counts)
        self._cache.write(self.ids, tokens)
        return {"position": position + lengths}

    def start(
        self,
        row: torch.Tensor,
        token: torch.Tensor,
        position: torch.Tensor,
        temperature: torch.Tensor,
        top_k: torch.Tensor,
        top_p: torch.Tensor,
        min_p: torch.Tensor,
        repetition_penalty: torch.Tensor,
        seed: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Decoding of rows goes on after `token`, the last one of each prompt.

        Args:
          row, token, position: int64 [rows].
          temperature and others: [rows], as `choose` has them.

        Returns:
          `position`, as given.
        """
        self.ids.index_put_((row, position), token)
        self.positions.index_copy_(0, row, position)
        settings = (temperature, top_k, top_p, min_p, repetition_penalty, seed)
        for name, value in zip(SETTINGS, settings, strict=True):
            getattr(self, name).index_copy_(0, row, value)
        return {"position": position + 0}

    def decode(self) -> dict[str, torch.Tensor]:
        """Reads a token of each row and chooses the next one; `choose` has the settings.

        Returns:
          `position`, int64 [batch], of the chosen tokens, which `read` returns.
        """
        return self._decode(greedy=None if self._decides else False)

    def greedy(self) -> dict[str, torch.Tensor]:
        """`decode` where all temperatures are 0, for devices on which `decode` always samples."""
        return self._decode(greedy=True)

    def _decode(self, *, greedy: bool | None) -> dict[str, torch.Tensor]:
        settings = [getattr(self, name).mul_(1) for name in SETTINGS]  # as in `read`
        position = self.positions
        positions = position[:, None]
        tokens = self.ids.gather(1, positions)
        self._cache.row = None
        outputs = self._run(self.model, tokens, positions, positions < self._length)
        # The tokens so far; the last column is of tokens of no row.
        steps = torch.arange(self._cache.length, device=tokens.device)
        columns = torch.where(steps <= positions, self.ids, self._vocabulary)
        seen = torch.zeros_like(columns[:, :1], dtype=torch.bool)
        seen = seen.repeat(1, self._vocabulary + 1).scatter(1, columns, True)
        following = (position + 1).clamp(max=self._length)
        chosen = choose(
            outputs.logits[:, -1],
            seen[:, :-1],
            position + 1,
            *settings,
            greedy=greedy,
        )[:, None]
        self.ids.scatter_(1, following[:, None], chosen)
        self.recent.copy_(torch.cat([self.recent[:, 1:], chosen], 1))
        self.positions.copy_(following)
        return {"position": following + 0}

    def read(self) -> dict[str, torch.Tensor]:
        """`tokens`, int64 [batch, RECENT]: the newest ones of each row, the last one last."""
        self.recent.mul_(1)  # methods share what they change
        return {"tokens": self.recent + 0}

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        """Copies the tokens of row `source`, int64 [1], with keys and values, to row `target`."""
        for name, buffer in self._buffers.items():
            if buffer is not None and name.startswith(("ids", "keys_", "values_")):
                buffer.index_copy_(0, target, buffer.index_select(0, source))
        return {"row": target + 0}

    def _run(
        self, model: Any, tokens: torch.Tensor, positions: torch.Tensor, counts: torch.Tensor
    ) -> Any:
        """Outputs of the model, after the cache is updated for the tokens that count."""
        self._cache.slots = torch.where(counts, positions, self._length)
        positions = torch.where(counts, positions, 0)  # scaled embeddings depend on the largest
        self._cache.positions = positions[:, None, :, None]
        return model(
            input_ids=tokens,
            position_ids=positions,
            use_cache=True,
            **{self._cache_argument: self._cache},
        )
