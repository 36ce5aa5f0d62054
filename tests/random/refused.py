"""Random modules that lowering refuses."""

_MISSING = (
    # Operators, fused attention among them, that CUDA has no shim for, and complex numbers, which
    # it leaves out.
    "needs aoti_torch_cuda_",
    "not in the shim lists of cuda",
    "a program cannot hold tensors of torch.complex64",
    # What torch does not export: a branch that returns its operand.
    "Encountered aliasing during higher order op tracing",
    "might be aliasing the input or the output",
)
"""Parts of messages about what a release of torch or a device lacks, whatever the seed."""


def is_refused(error: str) -> bool:
    """Whether the error is a refusal that is known."""
    return any(known in error for known in _MISSING)
