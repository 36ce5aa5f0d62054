"""A cluster of two nodes of this machine, and programs, for all tests."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pteron.ray.tests.programs import export

# What Ray's processes inherit: they find what this one finds, and call nobody.
_ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """A cluster of two nodes, whose processes and files are gone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        # The paths of Unix sockets have at most 107 bytes.
        folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
        for name, value in {**_ENVIRONMENT, "RAY_TMPDIR": folder}.items():
            patch.setenv(name, value)
        patch.delenv("OMP_NUM_THREADS", raising=False)
        (Path(folder) / "ray").mkdir()
        import ray
        from ray.cluster_utils import Cluster

        node: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 100 << 20}
        node["include_dashboard"] = False
        often = {"metrics_report_interval_ms": 500}
        nodes = Cluster(initialize_head=True, head_node_args={**node, "_system_config": often})
        try:
            nodes.add_node(**node)
            ray.init(address=nodes.address, log_to_driver=False)
            ray.data.DataContext.get_current().enable_progress_bars = False
            yield
        finally:
            ray.shutdown()
            nodes.shutdown()
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs: `first` and `second` of a static batch, `several` with the other methods."""
    folder = tmp_path_factory.mktemp("programs of a test")
    export(folder)
    return folder
