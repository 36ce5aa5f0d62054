"""A loaded method."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pteron.runtime.python.method_meta import MethodMeta
    from pteron.runtime.python.pytree import Tree
    from pteron.runtime.python.session import Session


class Method:
    """One method of a program, ready to run.

    May be called from any thread. Calls of one method, and of methods that share a session, take
    turns; load the method again (weights and code are shared) to run at the same time.
    """

    __slots__ = ("_native", "_session", "_trees")

    def __init__(self, native: Any, session: Session) -> None:
        self._native = native
        self._session = session
        self._trees: tuple[Tree, Tree, list[str]] | None = None

    @property
    def metadata(self) -> MethodMeta:
        """What it takes and returns."""
        from pteron.runtime.python.method_meta import MethodMeta

        return MethodMeta(self._native.meta())

    def execute(
        self, inputs: Sequence[Any] | dict[str, Any], *, timeout: float | None = None
    ) -> list[Any]:
        """Runs on flat `inputs`, in the order of the exported program, and returns flat outputs.

        Inputs may also be a dict by the names in `metadata.input_names()`.

        Tensors are used where they lie if their layout is the method's, otherwise they are copied
        once. An input that the method changes in place shows the change in the caller's memory,
        whatever its strides; memory that cannot is refused: read-only arrays, elements that are one
        place in memory (after `expand()`), and what shares memory with another input. If a run
        fails, what was copied for it is as before, and what was used where it lies may be changed
        in part. Tensors with torch's negative bit are resolved.

        Outputs own their memory. They are tensors of the library of the first tensor among the
        inputs (numpy arrays for one that is only a buffer); without any, torch's if torch is
        loaded, else numpy's.

        Where inputs or outputs live on a GPU, a call is queued like an operator of torch: on
        torch's current stream of the calling thread, where its outputs are valid, and the host does
        not wait. (Without torch it is the default stream, and `__dlpack__` of an output orders the
        consumer's stream.) An output that is used on another stream must be kept until that use is
        done.

        A run ends early, at its next look, after `timeout` seconds (waiting for another thread's
        call counts), after those of `Limits.run_time`, after `cancel()`, and, on the main thread,
        where a signal handler raises (Ctrl-C). It looks between instructions and, in CpuBackend, at
        each parallel region and each part of one. The method is as usable as before; its mutable
        buffers may hold a part of what the run wrote (`reset_state()`).

        Raises:
          InvalidArgumentError: all that is wrong with the inputs; nothing has run.
          TimedOutError, CancelledError: see above.
          ResourceError: it has run more instructions than `Limits.instructions`.
        """
        if inputs.__class__ is dict:
            inputs = self._in_order(inputs)
        if timeout is None:
            return self._native.execute(inputs)
        return self._native.execute_within((inputs, timeout))

    def cancel(self) -> bool:
        """Has the call that runs, on another thread, raise `CancelledError`: true.

        False where none runs; that says nothing to the next call, nor to one that waits for its
        turn. Does not wait.
        """
        return self._native.cancel()

    def prepare(self, inputs: Sequence[Any]) -> None:
        """Makes later calls faster whose inputs have the sizes and numbers of flat `inputs`.

        On CUDA, what a call launches becomes a CUDA graph (a bounded number of them is kept: see
        the option `max_graphs`), which is launched whenever the same sizes and numbers come, with
        tensors at any address. The method runs once; its mutable buffers and inputs are as before.
        Does nothing where there is nothing to prepare. While it runs, no thread may wait for the
        whole device (`torch.cuda.synchronize()`), as during any stream capture; streams and events
        may be waited for.

        Raises:
          InvalidArgumentError: all that is wrong with the inputs; nothing has run.
          PteronError: which parts cannot be prepared, and why; they run as before.
        """
        self._native.prepare(inputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs on the arguments of the exported module and returns what its `forward` returned.

        Arguments that were exported by position may be given by name. Of a class with fields that
        `forward` returns, as transformers' ModelOutput, there is a dict with attributes
        (`out.logits`, `out["logits"]`, `out[0]`).
        """
        from pteron.runtime.python import pytree

        if self._trees is None:
            meta = self._native.meta()
            self._trees = (
                pytree.parse(meta["input_tree"], "inputs"),
                pytree.parse(meta["output_tree"], "outputs"),
                self.metadata.input_names(),
            )
        inputs, outputs, names = self._trees
        flat = pytree.flatten_call(inputs, args, kwargs, names)
        results = self.execute(flat)
        return pytree.unflatten(outputs, results)

    def _in_order(self, inputs: Any) -> list[Any]:
        from pteron.runtime.python.errors import InvalidArgumentError

        names = self.metadata.input_names()
        if inputs.keys() != set(names):
            raise InvalidArgumentError(
                f"found inputs {', '.join(map(str, inputs))}; expected all of {', '.join(names)}"
            )
        return [inputs[name] for name in names]

    def session(self) -> Session:
        """Where its mutable buffers live."""
        return self._session

    def reset_state(self) -> None:
        """Puts its mutable buffers back to their initial values, for all methods of its session."""
        self._native.reset_state()

    def __reduce__(self) -> str:
        raise TypeError(
            "a Method holds memory and code of this process and cannot be pickled; pickle its name"
            " and the path of its program, and load it there"
        )

    def __repr__(self) -> str:
        return f"Method({self.metadata!r})"
