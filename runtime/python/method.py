"""A loaded method."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from pteron.runtime.python.method_meta import MethodMeta
    from pteron.runtime.python.profile import Profile
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
        self._trees: tuple[Tree, Tree, list[str]] | None = None

    @property
    def metadata(self) -> MethodMeta:
        """Its inputs and outputs."""
        from pteron.runtime.python.method_meta import MethodMeta

        return MethodMeta(self._native.meta())

    def execute(
        self,
        inputs: Sequence[Any] | dict[str, Any],
        *,
        out: Any = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """Runs on flat `inputs`, in the order of the exported program, and returns flat outputs.

        Inputs may also be a dict by the names in `metadata.input_names()`.

        Tensors are used in place if their layout is the method's, otherwise they are copied once.
        An input that the method changes in place shows the change in the caller's memory, whatever
        its strides; memory that cannot is refused: read-only arrays, elements that are one
        place in memory (after `expand()`), and what shares memory with another input. If a run
        fails, what was copied for it is as before, and what was used in place may be changed in
        part. Tensors with torch's negative bit are resolved.

        Outputs own their memory. They are of the library of the first input tensor (NumPy arrays
        for the buffer protocol); without input tensors, torch tensors if torch is loaded, else
        NumPy arrays.

        `out` has the caller's tensors for outputs, which are returned instead: a list with a tensor
        or None for each, a dict by the names in `metadata.output_names()`, or one tensor for one
        output. They have the outputs' dtypes, sizes and devices, any strides, and share no memory
        with inputs or each other. The method writes into them where it can (large outputs of
        fixed sizes, in the program's layout), else there is one copy. If a run fails they may be
        written in part.

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
          InvalidArgumentError: lists all invalid inputs, or an invalid `out`; nothing has run,
            unless an `out` has other sizes than a dynamic output, which is known afterwards.
          TimedOutError, CancelledError: see above.
          ResourceError: it exceeded `Limits.instructions`.
        """
        if inputs.__class__ is dict:
            inputs = self._in_order(inputs)
        if timeout is None and out is None:
            return self._native.execute(inputs)
        return self._native.execute_with((inputs, timeout, self._outputs(out)))

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

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Calls it, and returns where the time went.

        The result is in `outputs` of the profile. Of a call that fails, the exception has the
        profile as its attribute `profile`. The first call of a method is slower than later ones.
        CUDA graphs of `prepare()` are not used.
        """
        made: list[Profile] = []

        def execute(flat: Sequence[Any]) -> list[Any]:
            made.append(self.profile_flat(flat))
            return made[0].outputs

        outputs = self._call(execute, args, kwargs)
        made[0].outputs = outputs
        return made[0]

    def profile_flat(self, inputs: Sequence[Any] | dict[str, Any]) -> Profile:
        """The same for `execute()`: of flat `inputs`."""
        from pteron.runtime.python.errors import PteronError
        from pteron.runtime.python.profile import Profile

        if inputs.__class__ is dict:
            inputs = self._in_order(inputs)
        texts: list[str] = []
        try:
            outputs = self._native.profile((inputs, texts))
        except PteronError as error:
            if texts:
                error.profile = Profile(texts[0])
            raise
        return Profile(texts[0], outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs on the arguments of the exported module and returns what its `forward` returned.

        Arguments that were exported by position may be given by name. Of a class with fields that
        `forward` returns, as transformers' ModelOutput, there is a dict with attributes
        (`out.logits`, `out["logits"]`, `out[0]`).
        """
        return self._call(self.execute, args, kwargs)

    def _call(self, execute: Callable[[Sequence[Any]], list[Any]], args: Any, kwargs: Any) -> Any:
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
        results = execute(flat)
        return pytree.unflatten(outputs, results)

    def _in_order(self, inputs: Any) -> list[Any]:
        from pteron.runtime.python.errors import InvalidArgumentError

        names = self.metadata.input_names()
        if inputs.keys() != set(names):
            raise InvalidArgumentError(
                f"found inputs {', '.join(map(str, inputs))}; expected all of {', '.join(names)}"
            )
        return [inputs[name] for name in names]

    def _outputs(self, out: Any) -> list[Any] | None:
        if isinstance(out, dict):
            from pteron.runtime.python.errors import InvalidArgumentError

            names = self.metadata.output_names()
            unknown = [str(name) for name in out if name not in names]
            if unknown:
                raise InvalidArgumentError(
                    f"found {', '.join(unknown)} in `out`; the outputs are {', '.join(names)}"
                )
            return [out.get(name) for name in names]
        return list(out) if isinstance(out, list | tuple) else None if out is None else [out]

    def session(self) -> Session:
        """The session of its mutable buffers."""
        return self._session

    def reset_state(self) -> None:
        """Resets its mutable buffers to their initial values, for all methods of its session."""
        self._native.reset_state()

    def __reduce__(self) -> str:
        raise TypeError(
            "a Method holds memory and code of this process and cannot be pickled; pickle its name"
            " and the path of its program, and load it there"
        )

    def __repr__(self) -> str:
        return f"Method({self.metadata!r})"
