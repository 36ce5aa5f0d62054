"""Small functions run on hostile inputs: as in eager, or refused where eager refuses.

All inputs end at a page that nobody may touch, then begin behind one: what reads or writes one
element beside them ends the process.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from pteron.runtime import InvalidArgumentError, Program
from tests.e2e.lowering import lower_to_file
from tests.hostile.guarded import Edge, guarded
from tests.hostile.together import Case, Together, eager


def lowered(together: Together, path: Path) -> Program:
    """The program of all cases, written to `path`."""
    exported = torch.export.export(together.eval(), (together.arguments(),))
    return lower_to_file(exported, path)


def check(program: Program, together: Together, case: Case, edge: Edge) -> None:
    """Runs a case with each of its arguments."""
    method = program.load_method("forward")
    for arguments in [*case.others, case.arguments]:
        if case.state:
            method = program.load_method("forward")  # whose state nobody has written
        flat = [guarded(value.numpy(), edge) for value in together.arguments(case.name, arguments)]
        refused = bool(case.refuses(*arguments))
        expected = None if refused else eager(case, arguments)
        if refused or isinstance(expected, Exception):
            with pytest.raises(InvalidArgumentError) as error:
                method.execute(flat)
            if case.says:
                number = arguments[-1].flatten()[0].item()
                found = rf"{case.says} is {number}, expected .* \([\w.]+, together\.py:\d+\)"
                assert re.search(found, str(error.value))
        else:
            assert expected is not None
            result = np.asarray(together.of_case(case.name, method.execute(flat)))
            np.testing.assert_allclose(result, expected.numpy(), 1e-4, 1e-4)
