"""Devices by name."""

import pytest

from autotune.errors import UnknownName
from autotune.hardware import Hardware
from autotune.service.device import Device, find_device


@pytest.fixture
def devices() -> dict[str, Device]:
    def chip(name: str, **fingerprints: str) -> Device:
        targets = {kind.replace("_", ":"): value for kind, value in fingerprints.items()}
        return Device(Hardware(name, 8, 1000), targets, lambda problem, plan: None)

    return {"Chip1": chip("Chip1", emulated_Chip1="f1", cann_0="c1"), "Chip2": chip("Chip2", emulated_Chip2="f2")}


def test_a_chip_means_all_its_targets_and_a_target_means_itself(devices: dict[str, Device]) -> None:
    assert find_device(devices, "Chip1") == (devices["Chip1"], None)
    assert find_device(devices, "cann:0") == (devices["Chip1"], "cann:0")
    assert find_device(devices, "emulated:Chip2") == (devices["Chip2"], "emulated:Chip2")
    assert devices["Chip1"].targets == ("emulated:Chip1", "cann:0")


@pytest.mark.parametrize("name", ["", "chip1", "emulated:Chip3", "Chip1 ", "x" * 10_000])
def test_an_unknown_name_lists_the_known_ones(devices: dict[str, Device], name: str) -> None:
    with pytest.raises(UnknownName, match="Chip1, Chip2, emulated:Chip1, cann:0, emulated:Chip2") as caught:
        find_device(devices, name)
    assert caught.value.field == "device"
    assert len(str(caught.value)) < 250
