"""``autotune calibrate``: the numbers of the timing model, measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from autotune.cli import options
from autotune.cli.commands import app
from autotune.cli.explain import Profile, writing
from autotune.settings import DEVICE

if TYPE_CHECKING:
    from autotune.kernels.davinci.calibration import Calibration

Target: TypeAlias = Annotated[
    str | None,
    typer.Option("--target", "--device", metavar="KIND:NAME", help="What to measure.", show_default=False),
]
Output: TypeAlias = Annotated[
    Path, typer.Option("--output", metavar="FILE", help="The profile to write; its name is the file's.")
]


@app.command()
def calibrate(
    output: Output = Path("profile.json"),
    target: Target = None,
    profile: Profile = None,
    as_json: options.AsJson = False,
) -> int:
    """Measures a device with micro-kernels and writes a profile of the timing model.

    Moves by size, vector instructions by repeats, products by tiles, scalar reads and launches are timed, and the
    numbers of the model follow from the times alone. `autotune explain --profile FILE` uses them. With --profile an
    emulated device has other numbers than usual, to try this out without a chip.

    \b
    Examples:
      autotune calibrate --target emulated:Ascend910A --output lab.json
      autotune calibrate --profile lab.json --output again.json --json
    """
    from autotune.cli import composition, explained
    from autotune.kernels.davinci import calibration, profiles

    measured = composition.open_target(options.chosen(DEVICE, target), profile)
    timer, chip = composition.micro_timer(measured)
    found = calibration.calibrate(timer, chip, output.stem)
    with writing("output", output):
        profiles.write(found.profile, output)
    if as_json:
        sys.stdout.write(json.dumps(_to_json(found, measured.name, output), indent=2) + "\n")
    else:
        explained.show_calibration(found, chip, output)
    return 0


def _to_json(found: Calibration, target: str, output: Path) -> dict[str, Any]:
    return {
        "target": target,
        "file": str(output),
        "name": found.profile.name,
        "constants": dict(found.profile.constants),
        "measured": sorted(found.measured),
    }
