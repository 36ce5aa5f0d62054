"""Numbers from tensors cannot steer memory: each hostile one is refused where eager refuses it.

All inputs end at a page that nobody may touch, then begin behind one: what reads or writes one
element beside them ends the process.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from pteron.backends.cpu import CpuPartitioner
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import InvalidArgumentError, Program, Runtime
from tests.hostile.guarded import Edge, guarded
from tests.hostile.number_cases import CASES
from tests.hostile.together import Case, Together, eager

_PROGRAM = Together(CASES).eval()
#: Of what Python computes with integers of any length, 64 bits hold a part; the rest is refused.
_TOO_LONG = {("rolled", 2**63 - 1), ("number divided", -(2**63))}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    exported = torch.export.export(_PROGRAM, (_PROGRAM.arguments(),))
    program = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()]).to_executorch()
    path: Path = tmp_path_factory.mktemp("numbers") / "model.pte"
    program.save(path)
    return Runtime.get().load_program(path)


@pytest.mark.parametrize("edge", Edge, ids=lambda edge: edge.value)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_eager_or_refused(program: Program, case: Case, edge: Edge) -> None:
    method = program.load_method("forward")
    for arguments in [*case.others, case.arguments]:
        if case.state:
            method = program.load_method("forward")  # whose state nobody has written
        flat = [guarded(value.numpy(), edge) for value in _PROGRAM.arguments(case.name, arguments)]
        expected = eager(case, arguments)
        numbers = arguments[-1].flatten().tolist()
        if isinstance(expected, Exception) or (case.name, numbers[0]) in _TOO_LONG:
            with pytest.raises(InvalidArgumentError) as error:
                method.execute(flat)
            message = str(error.value)
            assert re.search(r"expected .*\([\w.]+, together\.py:\d+\)", message), message
            if case.says:
                assert f"{case.says} is {numbers[0]}, expected" in message
        else:
            found = np.asarray(_PROGRAM.of_case(case.name, method.execute(flat)))
            np.testing.assert_allclose(found, expected.numpy(), 1e-4, 1e-4)
