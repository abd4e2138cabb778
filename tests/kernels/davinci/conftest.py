"""Installs the emulated toolkit before programs import it, and puts this folder on the path of its shared modules."""

import sys
from pathlib import Path

from autotune.kernels import davinci

sys.path.insert(0, str(Path(__file__).parent))
davinci.install()
