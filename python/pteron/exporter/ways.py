"""The ways in which torch.export takes a module."""

import contextlib
import functools
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.backends.opt_einsum as opt_einsum
from torch._C import _functorch as functorch
from torch._functorch import predispatch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.autograd import forward_ad
from torch.export import ExportedProgram
from torch.export._trace import _export
from torch.fx.experimental import _config as sizes_config
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.modules import transformer

from pteron.exir.graph.exported_program import check_constants
from pteron.exir.operators.library_operators import any_number_of_kept_boxes
from pteron.exir.operators.recurrent_layers import whole_recurrent_layers
from pteron.exporter.differences import is_right
from pteron.exporter.errors import ExportError
from pteron.exporter.fixed_buffers import FixedBuffers
from pteron.exporter.functions_of_sizes import DynamicSizes
from pteron.exporter.functions_of_values import Covariances
from pteron.exporter.indexed_writes import IndexedWrites
from pteron.exporter.inputs import check_tensors
from pteron.exporter.modules import (
    as_exported,
    returning_detached,
    run_module,
    storages_of,
    writing_buffers,
)
from pteron.exporter.packed_sequences import padded_sequences
from pteron.exporter.proofs_of_sizes import tried_sizes
from pteron.exporter.refusals import first_line, places_of_constants, quiet, refusal
from pteron.exporter.sizes import (
    ComparedSizes,
    all_are_dims,
    check_derived,
    noted_conversions,
    symbolic_conversions,
)


def export_first_way(
    name: str,
    module: torch.nn.Module,
    forward: Callable[..., Any],
    given: tuple[tuple[Any, ...], dict[str, Any]],
    inputs: inspect.BoundArguments,
    shapes: Any,
    strict: bool | None,
    shared: set[int],
    notes: list[str],
) -> ExportedProgram:
    """The program of the first way that takes the module.

    Args:
      given: arguments, as torch.export gets them, which `inputs` has by name.
      strict: the only value that torch.export may get, if any.
      notes: gets what the program does not do.
    """
    positional, named = given
    program, refused = None, dict[str, Exception]()
    converted: dict[str, dict[str, Any]] = {}
    # The last way traces below autograd, not above: what forward() differentiates is in the graph.
    # Two do not let comparisons and conversions of sizes make these constant, and come before
    # strict=True, with which torch relies on more sizes being as in the example inputs.
    for way, fixes, below, otherwise in (
        (False, False, False, None),
        (False, True, False, None),
        (False, False, False, False),
        (False, False, False, True),
        (True, False, False, None),
        (False, True, True, None),
    ):
        if strict not in (None, way):
            continue
        before = refused.get("strict=False")
        reads = isinstance(before, GuardOnDataDependentSymNode | DataDependentOutputException)
        if fixes and reads is below:
            continue
        sizes = "Constraints violated" in str(before) and all_are_dims(shapes)
        if otherwise is not None and not sizes:
            continue
        has_state = not way and any(True for _ in module.buffers())
        entered = writing_buffers(module, forward) if has_state else forward
        entered = returning_detached(entered) if below else entered
        compared = None if otherwise is None else ComparedSizes(otherwise)
        with as_exported(module, entered, shared):
            fixed = FixedBuffers(module) if fixes else None
            printed = io.StringIO()  # a graph, where it fails
            try:
                redirected = contextlib.redirect_stderr(printed)
                with (
                    in_any_way(),
                    redirected,
                    # It makes ints of sizes.
                    opt_einsum.flags(enabled=False)
                    if shapes and opt_einsum.enabled
                    else contextlib.nullcontext(),
                    masks_of_values() if fixes else contextlib.nullcontext(),
                    padded_sequences(all_steps=fixes) as packed,
                    noted_conversions(converted),
                    symbolic_conversions(converted) if compared else contextlib.nullcontext(),
                    compared.followed() if compared else contextlib.nullcontext(),
                    # Without it torch guards on whether tensors are contiguous.
                    mock.patch.object(sizes_config, "backed_size_oblivious", bool(compared)),
                    tried_sizes(compared.numbers if compared else None)
                    if shapes
                    else contextlib.nullcontext(),
                    contextlib.nullcontext() if way or not shapes else DynamicSizes(),
                    contextlib.nullcontext() if way else followed_functions(),
                    fixed or contextlib.nullcontext(),
                ):
                    export = _export if below else torch.export.export
                    program = export(module, positional, named, dynamic_shapes=shapes, strict=way)
                check_derived(program)
                check_constants(program)
                check_transforms(program)
                check_tensors(name, "weight", program.constants.items())
                if fixed:
                    fixed.check(program)
                if compared and (
                    not compared.can_be_tried()
                    or not is_right(program, module, forward, compared.candidates(inputs, shapes))
                ):
                    program = None
                    continue
                break
            except ExportError:
                raise
            except Exception as error:
                program = None
                # Values that Python reads may not be all that torch.export does not take.
                if not below and not compared:
                    refused[f"strict={way}"] = error
                elif below and "Constraints violated" in str(error):
                    refused = {f"strict={way}": error}  # it went further
    if program is None:
        first, *others = refused.items()
        run = functools.partial(run_module, module, forward, given, storages_of(module))
        what = "torch.export does not take the model"
        raise refusal(name, first[1], what, run, dict(others)) from first[1]
    if fixed:
        values = ", ".join(f"{buffer} ({value})" for buffer, value in fixed.read.items())
        if values:
            notes.append(
                f"method {name!r} reads buffers in Python: the program is for these values of"
                f" {values}"
            )
        if fixed.passed:
            notes.append(
                f"method {name!r} checks values in Python, and the program does not:"
                f" {', '.join(fixed.passed)}"
            )
        if fixed.equal:
            notes.append(
                f"method {name!r} compares tensors that are computed alike, at"
                f" {', '.join(fixed.equal)}: the program takes them for equal, also where they are"
                f" NaN"
            )
        if any("longest" in vars(lengths) for lengths in packed):
            notes.append(
                f"method {name!r} packs sequences, and takes only lengths of which the largest is"
                f" the padded length"
            )
    elif compared:
        places = ", ".join({**compared.places, **converted}) or "lines of torch's"
        notes.append(
            f"method {name!r} compares sizes that may change, at {places}, or makes numbers of"
            f" them: the program does not, and was compared with the model for sizes near all that"
            f" these are compared with"
        )
    elif refused:
        notes.append(
            f"method {name!r} was exported with strict=True; with strict=False torch.export raises"
            f" {first_line(refused['strict=False'])}"
        )
    sys.stderr.write(printed.getvalue())
    return program


@contextlib.contextmanager
def followed_functions() -> Iterator[None]:
    """Inside, torch's functions that read values do not, where these do not matter."""
    with IndexedWrites(), Covariances():
        yield


@contextlib.contextmanager
def in_any_way() -> Iterator[None]:
    """Inside, what each way needs."""
    with contextlib.ExitStack() as stack:
        for each in (
            quiet,
            places_of_constants,
            ended_transforms,
            whole_recurrent_layers,
            any_number_of_kept_boxes,
            unchecked_distributions,
        ):
            stack.enter_context(each())
        yield


@contextlib.contextmanager
def ended_transforms() -> Iterator[None]:
    """Ends what torch.export leaves of torch.func's transforms (jacfwd, hessian) where it fails:
    inside of these, no other way works, nor the model itself."""
    depth = functorch.get_dynamic_layer_stack_depth()
    try:
        yield
    except Exception:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if forward_ad._current_level < 0:
            with contextlib.suppress(RuntimeError):  # there is none
                torch._C._exit_dual_level(level=0)
        raise


def check_transforms(program: ExportedProgram) -> None:
    """Raises ValueError if torch.export left transforms in a program, which no pass of torch's
    removes: those of torch.func that differentiate."""
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", "") == predispatch.__name__:
            if re.search("_grad|_dual|_jvp", name):
                raise ValueError(f"torch.export left {name} of torch.func in the program")


@contextlib.contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Inside, torch.distributions do not look at their parameters, which no graph can decide by."""
    kind = torch.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind.set_default_validate_args(before)


@contextlib.contextmanager
def masks_of_values() -> Iterator[None]:
    """Inside, torch's transformers do not ask whether a mask is the causal one, if that is not
    known: they compute the same with any."""
    detect = transformer._detect_is_causal_mask

    def is_causal(*args: Any) -> bool:
        try:
            return detect(*args)
        except GuardOnDataDependentSymNode:
            return False

    with mock.patch.object(transformer, "_detect_is_causal_mask", is_causal):
        yield
