"""What needs a C compiler is skipped where there is none."""

import pytest

from autotune.errors import TargetUnavailable
from autotune.kernels.native.build import Compiler, find_compiler
from autotune.kernels.targets.cpu import CpuTarget


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    try:
        return find_compiler()
    except TargetUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cpu(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> CpuTarget:
    return CpuTarget(tmp_path_factory.mktemp("cache"))
