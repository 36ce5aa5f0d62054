"""Continues a text with a program of `pteron export-lm`; needs no torch.

    pteron generate model.pte "Once upon a time" --max-new-tokens=50
    pteron generate model.pte "Why is the sky blue?" --chat --temperature=0.7 --top-p=0.9

The answer goes to stdout as it is made; the number of its tokens and the time they took to stderr.
"""

import json
import sys
import time

from pteron.command import program_file
from pteron.command.usage import UsageError, command_flags, only

FLAGS = command_flags()
program_file.define_flags(FLAGS)
FLAGS.integer("max-new-tokens", None, "By default as many as fit into the cache.")
FLAGS.float("temperature", 0.0, "0 takes the likeliest token.")
FLAGS.integer("top-k", 0, "Likeliest tokens to choose from; 0 is all.")
FLAGS.float("top-p", 1.0, "Probability that these have together.")
FLAGS.float("min-p", 0.0, "Least probability, relative to the most.")
FLAGS.float("repetition-penalty", 1.0, "Of tokens that occurred; 1 is none.")
FLAGS.integer("seed", 0, "The same seed gives the same text.")
FLAGS.multi_string("stop", [], "A text that ends the answer. May be repeated.")
FLAGS.boolean("chat", False, "The prompt is what a user says: use the chat template.")
_SETTINGS = ("temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed")


def run(positional: list[str]) -> bool:
    name, prompt = only(positional, "model.pte", "PROMPT")
    path, *beside = program_file.files_of(name, FLAGS.data)
    from pteron.llm.generator import Generator

    generator = Generator(path, data_path=beside)
    messages = [{"role": "user", "content": prompt}]
    times = [time.monotonic()]
    try:
        texts = generator(
            messages if FLAGS.chat else prompt,
            max_new_tokens=FLAGS["max-new-tokens"].value,
            stop=FLAGS.stop,
            on_token=lambda token: times.append(time.monotonic()),
            **{key.replace("-", "_"): FLAGS[key].value for key in _SETTINGS},
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    answer = []
    for text in texts:
        answer.append(text)
        if not FLAGS.json:
            print(text, end="", flush=True)
    first = times[min(1, len(times) - 1)] - times[0]
    rest, seconds = len(times) - 2, times[-1] - times[0] - first
    rate = rest / seconds if rest > 0 and seconds > 0 else None
    if FLAGS.json:
        figures = {"text": "".join(answer), "tokens": len(times) - 1}
        print(json.dumps({**figures, "first_token_s": first, "tokens_per_s": rate}, indent=2))
        return True
    print()
    after = f", then {rate:.1f} tokens/s" if rate else ""
    print(f"{len(times) - 1} tokens; the first after {first:.3f} s{after}", file=sys.stderr)
    return True
