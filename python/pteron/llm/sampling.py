"""The choice of a token from logits, as one graph for all settings, without a sort.

Each of the settings is a tensor [batch], so that rows may differ.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F

SETTINGS: dict[str, float] = {
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "seed": 0,
}
"""The settings in the order of `choose`, with their defaults."""

_ROUNDS, _PARTS = 9, 8
"""Of the search for a threshold: it is found to 8^-9 of the range of logits."""

_PART = 512
"""Logits among which the likeliest is searched first."""

_NEVER = -104.0
"""A logit relative to the largest one whose probability is 0 in float32."""


def choose(
    logits: torch.Tensor,
    seen: torch.Tensor,
    position: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    repetition_penalty: torch.Tensor,
    seed: torch.Tensor,
    *,
    greedy: bool | None = None,
) -> torch.Tensor:
    """Tokens, int64 [batch].

    The settings apply in the order of `transformers`: penalty, temperature, top_k, top_p, min_p.
    The random numbers are a function of seed, position and token: the same in every batch and on
    every device.

    Args:
      logits: [batch, vocabulary], of any float dtype.
      seen: bool [batch, vocabulary], the tokens that `repetition_penalty` applies to.
      position: int64 [batch], of the token that is chosen.
      temperature: float32; 0 takes the largest logit.
      top_k: int64; 0 is no limit.
      top_p: float32, the share of probability that the likeliest tokens need; 1 is all.
      min_p: float32, relative to the likeliest token.
      repetition_penalty: float32; 1 is none.
      seed: int64, not negative.
      greedy: whether all temperatures are 0; None decides in each call, for which a device other
        than the CPU would wait.
    """
    logits = logits.float()
    penalty = repetition_penalty[:, None]
    penalized = torch.where(logits < 0, logits * penalty, logits / penalty)
    logits = torch.where(seen, penalized, logits)
    operands = (logits, position, temperature, top_k, top_p, min_p, seed)
    if greedy is None:
        return torch.cond((temperature == 0).all(), _likeliest, _sampled, operands)
    return _likeliest(logits) if greedy else _sampled(*operands)


def _likeliest(logits: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    # Inductor does not split an argmax: on a GPU one block would search all of a row.
    size = logits.shape[-1]
    parts = F.pad(logits, (0, -size % _PART), value=-torch.inf).unflatten(-1, (-1, _PART))
    most, places = parts.max(-1)
    part = most.argmax(-1, keepdim=True)
    return (part * _PART + places.gather(-1, part))[:, 0]


def _sampled(
    logits: torch.Tensor,
    position: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seed: torch.Tensor,
) -> torch.Tensor:
    greedy = (temperature == 0)[:, None]
    # Relative to the maximum, for the precision of probabilities and thresholds near it; so no
    # temperature makes infinities of logits.
    x = logits - logits.amax(-1, keepdim=True)
    x = x / torch.where(greedy, 1.0, temperature[:, None])
    low = x.amin(-1).clamp(min=_NEVER)
    count = torch.where(top_k > 0, top_k, x.shape[-1])[:, None]
    by_k = _largest(low, lambda t: (x[:, None] >= t).float().sum(-1) >= count)  # exact to 2^24
    weights = torch.where(x >= by_k[:, None], x.exp(), 0.0)
    share = (top_p * weights.sum(-1))[:, None]
    by_p = _largest(
        by_k, lambda t: torch.where(x[:, None] >= t, weights[:, None], 0.0).sum(-1) >= share
    )
    threshold = torch.maximum(by_p, min_p.log())
    # The largest of logits with Gumbel noise is a sample of their softmax.
    noise = -_exponential(seed, position, x.shape[-1]).log()
    sampled = torch.where(x >= threshold[:, None], x + noise, -torch.inf)
    return _likeliest(torch.where(greedy, logits, sampled))


def _largest(low: torch.Tensor, holds: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The largest threshold [batch] from `low` to 0 for which `holds`, which is monotonic.

    `holds` takes thresholds [batch, some, 1] and returns bool [batch, some].
    """
    parts = torch.arange(1, _PARTS, device=low.device)
    step = -low
    for _ in range(_ROUNDS):
        step = step / _PARTS
        holding = holds((low[:, None] + step[:, None] * parts)[:, :, None])
        low = low + step * holding.sum(-1)
    return low


def _exponential(seed: torch.Tensor, position: torch.Tensor, count: int) -> torch.Tensor:
    """Independent samples of the exponential distribution, float32 [batch, count]."""
    key = _mixed(_mixed(_mixed(seed & 0xFFFFFFFF) ^ (seed >> 32)) ^ position)
    tokens = torch.arange(count, device=seed.device)
    bits = _mixed(_mixed(tokens) ^ key[:, None])
    # Small samples, which win, have the most precise uniform numbers.
    return -torch.log1p(-((bits.double() + 0.5) * 2.0**-32).float())


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """A hash of 32-bit integers in int64. The factors are below 2^31, so that nothing overflows."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)
