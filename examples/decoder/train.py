"""Trains the GPT to memorize a text and writes its weights, in seconds."""

import torch
import torch.nn.functional as F
from absl import app, flags
from safetensors.torch import save_file

from examples.decoder.gpt import Gpt

_OUTPUT = flags.DEFINE_string("output", None, "The .safetensors file to write.", required=True)

TEXT = """\
Once there was a program that lived in a file. It had no libraries to speak of and only one wish: \
to be run. A loader came, mapped its pages and asked for nothing. The program counted its tokens, \
one after another, and remembered them all.
"""
_STEPS = 100


def main(argv: list[str]) -> None:
    del argv
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the steps are too small for several threads
    gpt = Gpt().train()
    text = torch.tensor([list(TEXT.encode("ascii"))])
    ids, targets, positions = text[:, :-1], text[:, 1:], torch.arange(text.shape[1] - 1)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-2)
    for _ in range(_STEPS):
        loss = F.cross_entropy(gpt(ids, positions).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if loss.item() > 0.01:
        raise RuntimeError(f"The text was not learned: the loss is {loss.item():.3f}.")
    save_file(gpt.state_dict(), _OUTPUT.value)


if __name__ == "__main__":
    app.run(main)
