"""Profiles go to files and back, and anything else is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.kernels.davinci import profiles, soc
from autotune.kernels.davinci.costs import Profile, version

RATES = soc.get("Ascend910A").rates
PROFILE = Profile("lab", {"issue": 3, "scalar_read": 44}, {"vexp": (4.5, 2.25)}, RATES)


@pytest.mark.parametrize("profile", [PROFILE, Profile("bare")])
def test_a_profile_comes_back_as_it_was(tmp_path: Path, profile: Profile) -> None:
    profiles.write(profile, tmp_path / "lab.json")
    found = profiles.read(tmp_path / "lab.json")
    assert (found.name, found.constants, found.slopes, found.rates) == (
        profile.name, profile.constants, profile.slopes, profile.rates,
    )  # fmt: skip
    assert version(found) == version(profile)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 2}, "no profile of format 1"),
        ({"constants": {"warp": 9}}, "constants name warp"),
        ({"constants": {"issue": -1}}, "say -1 for issue"),
        ({"constants": {"issue": 1.5}}, "say 1.5 for issue"),
        ({"constants": {"issue": True}}, "say True for issue"),
        ({"constants": [1]}, "constants are no object"),
        ({"slopes": {"vwarp": [1, 1]}}, "slopes name vwarp"),
        ({"slopes": {"vexp": [1]}}, "two numbers"),
        ({"slopes": {"vexp": 1}}, "two numbers"),
        ({"slopes": {"vexp": ["1", 2]}}, "two numbers"),
        ({"rates": {"ddr_read": 32}}, "rates lack"),
        ({"rates": {"ddr_read": 0}}, "rates lack"),
        ({"rates": 3}, "rates are no object"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "lab.json"
    profiles.write(PROFILE, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=sentence):
        profiles.read(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"3"])
def test_what_is_no_json_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lab.json").write_bytes(content)
    with pytest.raises(ValueError, match="it is no"):
        profiles.read(tmp_path / "lab.json")


def test_a_rate_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab.json"
    profiles.write(PROFILE, path)
    value = json.loads(path.read_text())
    value["rates"]["ddr_read"] = 0
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match="say 0 for ddr_read"):
        profiles.read(path)
