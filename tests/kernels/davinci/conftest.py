"""Puts this folder on the path: running.py is shared by the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
