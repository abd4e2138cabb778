"""The unit and the container are what docs/operations.md says they are."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.settings import SETTINGS

ROOT = Path(__file__).parents[1]
UNIT = (ROOT / "deploy/autotune.service").read_text(encoding="utf-8")
CONTAINER = (ROOT / "Containerfile").read_text(encoding="utf-8")
VARIABLES = {setting.variable for setting in SETTINGS}


@pytest.mark.parametrize("text", [UNIT, CONTAINER], ids=["unit", "container"])
def test_its_settings_are_settings(text: str) -> None:
    named = set(re.findall(r"AUTOTUNE_[A-Z]+", text))
    assert "AUTOTUNE_DB" in named
    assert named <= VARIABLES


def test_the_container_holds_the_whole_product() -> None:
    copied = set(re.findall(r"^COPY (\w+) \1$", CONTAINER, re.MULTILINE))
    links = {path.name for path in (ROOT / "autotune").iterdir() if path.is_symlink()}
    assert copied == {"autotune", *links}
    assert "/readyz" in CONTAINER and "USER autotune" in CONTAINER


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_can_read_the_unit(tmp_path: Path) -> None:
    (tmp_path / "autotune.service").write_text(UNIT.replace("/opt/autotune/bin/autotune", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "autotune.service")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
