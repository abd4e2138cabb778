"""Puts this folder on the path: its helper modules are shared by the tests and by the script table.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
