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
    """A loaded method of a program.

    May be called from any thread. Calls of one method, and of methods in one session, are
    serialized; load the method again to run concurrently (weights and code are shared).
    """

    __slots__ = ("_native", "_session", "_trees")

    def __init__(self, native: Any, session: Session) -> None:
        self._native = native
        self._session = session
        self._trees: tuple[Tree, Tree] | None = None

    @property
    def metadata(self) -> MethodMeta:
        """Its inputs and outputs."""
        from pteron.runtime.python.method_meta import MethodMeta

        return MethodMeta(self._native.meta())

    def execute(self, inputs: Sequence[Any], *, timeout: float | None = None) -> list[Any]:
        """Runs on flat `inputs`, in the order of the exported program, and returns flat outputs.

        Tensors are used in place if their strides match the method's, otherwise copied once. Inputs
        that the method mutates are updated in the caller's memory, for any strides; an error if
        that is impossible: read-only arrays, overlapping elements (after `expand()`), or memory
        shared with another input. If a run fails, copied inputs are unchanged, and inputs used in
        place may be partially updated. torch's negative bit is resolved.

        Outputs own their memory. They are of the library of the first input tensor (NumPy arrays
        for the buffer protocol); without input tensors, torch tensors if torch is loaded, else
        NumPy arrays.

        With inputs or outputs on a GPU, a call is queued like a torch operator: on
        torch's current stream of the calling thread, on which its outputs are valid, without
        blocking the host. (Without torch it is the default stream, and `__dlpack__` of an output
        synchronizes the consumer's stream.) Keep an output alive while another stream uses it.

        A run ends early, at its next poll, after `timeout` seconds (including the wait for another
        thread's call), after `Limits.run_time`, after `cancel()`, and, on the main thread, if a
        signal handler raises (Ctrl-C). It polls between instructions and, in CpuBackend, at each
        parallel region and each of its parts. The method remains usable; its mutable buffers may be
        partially updated (`reset_state()`).

        Raises:
          InvalidArgumentError: lists all invalid inputs; nothing has run.
          TimedOutError, CancelledError: see above.
          ResourceError: it exceeded `Limits.instructions`.
        """
        if timeout is None:
            return self._native.execute(inputs)
        return self._native.execute_within((inputs, timeout))

    def cancel(self) -> bool:
        """Makes the current call on another thread raise `CancelledError`, and returns True.

        Returns False if none is running; later and waiting calls are not affected. Does not block.
        """
        return self._native.cancel()

    def prepare(self, inputs: Sequence[Any]) -> None:
        """Makes later calls with the sizes and scalars of flat `inputs` faster.

        On CUDA, captures CUDA graphs (a bounded number: see the option `max_graphs`), which are
        launched for the same sizes and scalars, with tensors at any address. Runs the method once
        and restores its mutable buffers and inputs. Does nothing if there is nothing to prepare.
        Meanwhile no thread may synchronize the device (`torch.cuda.synchronize()`), as during any
        stream capture; synchronizing streams and events is allowed.

        Raises:
          InvalidArgumentError: lists all invalid inputs; nothing has run.
          PteronError: some parts cannot be prepared, with reasons; they run as before.
        """
        self._native.prepare(inputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it with the arguments of the exported module; returns the nested result of its
        `forward`."""
        from pteron.runtime.python import pytree

        if self._trees is None:
            meta = self._native.meta()
            self._trees = (
                pytree.parse(meta["input_tree"], "inputs"),
                pytree.parse(meta["output_tree"], "outputs"),
            )
        inputs, outputs = self._trees
        flat = pytree.flatten_call(inputs, args, kwargs)
        results = self.execute(flat)
        return pytree.unflatten(outputs, results)

    def session(self) -> Session:
        """The session of its mutable buffers."""
        return self._session

    def reset_state(self) -> None:
        """Resets its mutable buffers to their initial values, for all methods of its session."""
        self._native.reset_state()

    def __repr__(self) -> str:
        return f"Method({self.metadata!r})"
