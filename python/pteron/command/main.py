"""Exports, runs, inspects and benchmarks programs.

pteron COMMAND ARGUMENTS...
pteron COMMAND --help
pteron --version

"""

import importlib
import importlib.metadata
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence

from absl import flags

import pteron
from pteron.command.usage import CannotRunHere, UsageError, help_of, nearest

#: Commands, in order of typical use.
COMMANDS = {
    "export": "lower a model to a program file",
    "export-lm": "lower a language model of a checkpoint of transformers",
    "generate": "continue a text with a language model",
    "serve": "answer OpenAI's HTTP requests with a language model",
    "export-asr": "lower a Whisper model of a checkpoint of transformers",
    "transcribe": "write what is said in an audio file",
    "inspect": "show the contents of a program file",
    "run": "run a method once, on files",
    "bench": "benchmark a program, optionally against others",
    "compare": "compare a program file with eager",
    "update-weights": "write a program with the same code and other weights",
    "sign": "sign a program with a private key",
    "verify": "check the signature of a program, and all its bytes",
    "cache": "show, shrink or clear the cache of compiled code",
}

EXIT_CODES = """
exit codes
  0  done
  1  it could not be done: what was found, expected and what to try is on stderr
  2  the command line is wrong
  3  outputs differ from eager
  4  nothing was compared: the program does not run on this machine
  130, 143  it was ended by Ctrl-C, or by SIGTERM
"""
#: Packages whose errors say how to install them.
_EXTRAS = (
    "cryptography jinja2 ray sigstore soundfile soxr starlette tokenizers torchao transformers"
    " uvicorn"
).split()
_DONE, _FAILED, _USAGE, _DIFFERS, NOT_RUN = range(5)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line, of this process by default; returns the exit code."""
    if argv is None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _leave)  # runs cleanup handlers
    argv = list(sys.argv if argv is None else argv)
    if argv[1:2] == ["help"] and argv[2:]:
        argv = [argv[0], argv[2], "--help"]  # like git
    name = argv[1] if len(argv) > 1 else "--help"
    try:
        code = _run(name, argv[2:])
        if sys.stdout is not None:
            sys.stdout.flush()  # raises here what it would when the interpreter ends
        return code
    except KeyboardInterrupt:
        print(f"pteron {name}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except (flags.Error, UsageError) as error:
        print(f"pteron {name}: {error}\nhelp: pteron {name} --help", file=sys.stderr)
        return _USAGE
    except BrokenPipeError:  # of `pteron inspect model.pte | head`
        _drop_output()
        return _DONE
    except ImportError as error:
        if error.name in _EXTRAS:
            print(f"pteron {name}: {error}", file=sys.stderr)
            return _FAILED
        if (error.name or "").partition(".")[0] != "torch":
            raise
        hint = pteron._how_to_install_torch()
        print(
            f"pteron {name}: it needs torch, which is not installed.\ntry:  {hint}", file=sys.stderr
        )
        return _FAILED
    except CannotRunHere as error:
        print(f"pteron {name}: {error}", file=sys.stderr)
        return NOT_RUN
    except (MemoryError, OSError, RuntimeError, ValueError) as error:
        if "--traceback" in argv:
            traceback.print_exc()
        print(f"pteron {name}: {error or 'out of memory'}", file=sys.stderr)
        if isinstance(error, OSError):
            _drop_output()  # which may be what failed
        return _DIFFERS if type(error).__name__ == "VerificationError" else _FAILED


def _run(name: str, arguments: list[str]) -> int:
    if name in ("--help", "-h", "help"):
        print(_help())
        return _DONE
    if name in ("--version", "version"):
        print(_version())
        return _DONE
    if name not in COMMANDS:
        print(f"pteron: {nearest('command', name, COMMANDS)}", file=sys.stderr)
        return _USAGE
    # Warnings for maintainers of our dependencies, which users cannot act on.
    warnings.simplefilter("ignore", FutureWarning)
    warnings.simplefilter("ignore", DeprecationWarning)
    command = importlib.import_module(f"pteron.command.{name.replace('-', '_')}")
    command.FLAGS.set_gnu_getopt()
    positional = command.FLAGS(["pteron", *arguments])[1:]
    if command.FLAGS.help:
        print(help_of(command))
        return _DONE
    return _DONE if command.run(positional) else _DIFFERS


def _drop_output() -> None:
    """What stdout still holds and cannot write is no error of the interpreter's end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _version() -> str:
    try:
        return f"pteron {importlib.metadata.version('pteron')}"
    except importlib.metadata.PackageNotFoundError:
        return "pteron, of a checkout"


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"{__doc__.rstrip()}\n\ncommands\n{commands}\n{EXIT_CODES.rstrip()}"


if __name__ == "__main__":
    sys.exit(main())
