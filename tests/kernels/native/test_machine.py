"""What is read of /proc/cpuinfo, on x86, on ARM, and where there is none."""

from pathlib import Path

import pytest

from autotune.kernels.native import machine

X86 = """\
processor\t: 0
model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz
cpu MHz\t\t: 2199.998
flags\t\t: avx2

processor\t: 1
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n\n"


@pytest.fixture(autouse=True)
def no_frequency(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "MAX_FREQUENCY", tmp_path / "none")
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")


def test_an_x86_processor(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(X86)
    found = machine.hardware()
    assert (found.name, found.clock_mhz, found.ub_bytes) == ("cpu-intel-xeon-cpu-2-20ghz", 2200, 0)
    assert found.cores >= 1


def test_the_highest_clock_is_preferred(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(X86)
    (tmp_path / "frequency").write_text("3700000\n")
    monkeypatch.setattr(machine, "MAX_FREQUENCY", tmp_path / "frequency")
    assert machine.hardware().clock_mhz == 3700


@pytest.mark.parametrize("text", [ARM, ""])
def test_a_processor_without_a_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    found = machine.hardware()
    assert found.name.startswith("cpu-") and len(found.name) > 4 and found.clock_mhz == 0


def test_the_state_says_load_cpus_and_clock(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(X86 + "cpu MHz\t\t: 3100.4\n\n")
    found = machine.state()
    assert found["mhz"] == 3100 and found["load"] >= 0 and len(found["cpus"]) == machine.hardware().cores
    (tmp_path / "cpuinfo").write_text(ARM)
    assert set(machine.state()) == {"load", "cpus"}


def test_the_instruction_set_is_part_of_the_identity(tmp_path: Path) -> None:
    found = []
    for text in (X86, X86.replace("avx2", "avx2 avx512f"), X86.replace("2199.998", "1000.0"), ARM):
        (tmp_path / "cpuinfo").write_text(text)
        found.append(machine.identity())
    assert found[0] == found[2] and len(set(found)) == 3
