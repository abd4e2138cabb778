"""Writes docs/conformance.md: every case of the suite with the errors measured by running it now."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tests.real import public_kernels, rounding_model
from tests.real.public_cases import BACKWARD, BOTH, FORWARD, inputs, relative_error, truth
from tests.real.public_faults import FAULTS

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"

TOP = """\
# Conformance: kernels we did not write

The PyPI package `flash-attention` 1.0.0 holds the public attention kernels for the Ascend 910A. They run unmodified on
the emulated core (`kernels/davinci`), and this page says how close their results come to attention in float64
(`kernels/flash_attention/reference.py`). It is written by `python -m tests.real.table`; do not edit it by hand.

Shapes are B x H x Nq x N x D. `blocks` are Br x Bc where they are not those of the strategy `sparse`; `cores` is the
number of cores the kernel is told of where it is not 32; `padding` fills head_dim's padding with 60 instead of 0.
Masks: `full` is one per batch, `shared` one for all, `causal` a whole matrix, `tile` one causal tile of 128 x 128 with
next_block_num = 0. Inputs are standard normal, q and k scaled by D ** -0.25 each.

Errors are relative L2 against float64. `ulp` is the share of O that lies more than one fp16 number away from a numpy
model with the kernel's own rounding points. Held to by the tests: O and log-sum-exp 2e-3, gradients 4e-3, ulp 0.1 %.
"""

FAULTS_TOP = """
## Where the kernels are wrong by themselves

The emulated core reproduces each fault; it does not hide it. The first figure is the relative L2 distance from
attention as defined, the second from what the fault makes of it (only the part that the fault leaves predictable).
Two more faults raise when the kernel is built: 5 (`wukong` with 77 keys: negative stride) and 11 (backward with dropout
and a tail that is no multiple of 16: the mask cannot be reshaped).

| fault | | from the definition | from the fault's prediction |
|---|---|---|---|
"""


def forward_rows() -> Iterator[str]:
    """One table row per forward case."""
    yield "\n## Forward\n\n| case | O | log-sum-exp | ulp | build + run, ms |\n|---|---|---|---|---|"
    for case in BOTH + FORWARD:
        given = inputs(case)
        start = time.perf_counter()
        o, lse = public_kernels.forward(case, given)
        elapsed = time.perf_counter() - start
        right = truth(case, given)
        far = np.mean(rounding_model.ulp_distance(o, rounding_model.forward(case, given)[0]) > 1)
        errors = f"{relative_error(o, right.o):.1e} | {relative_error(lse, right.lse):.1e} | {far:.3%}"
        yield f"| {case.name} | {errors} | {elapsed * 1e3:.0f} |"


def backward_rows() -> Iterator[str]:
    """One table row per backward case."""
    yield "\n## Backward\n\n| case | dQ | dK | dV | build + run, ms |\n|---|---|---|---|---|"
    for case in BOTH + BACKWARD:
        given = inputs(case)
        right = truth(case, given)
        start = time.perf_counter()
        found = public_kernels.gradients(case, given, right.o, right.lse)
        elapsed = time.perf_counter() - start
        errors = [relative_error(f, r) for f, r in zip(found, (right.dq, right.dk, right.dv), strict=True)]
        yield f"| {case.name} | {' | '.join(f'{error:.1e}' for error in errors)} | {elapsed * 1e3:.0f} |"


def fault_rows() -> Iterator[str]:
    """One table row per fault."""
    yield FAULTS_TOP.rstrip("\n")
    for fault in FAULTS:
        shown = fault.show()
        yield f"| {fault.number} | {fault.title} | {shown.from_definition:.1e} | {shown.from_fault:.1e} |"


def missing() -> list[str]:
    """Names of cases and faults that the page does not list."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    names = [case.name for case in BOTH + FORWARD + BACKWARD] + [fault.title for fault in FAULTS]
    return [name for name in names if f"| {name} |" not in page]


if __name__ == "__main__":
    lines = [TOP.rstrip("\n"), *forward_rows(), *backward_rows(), *fault_rows()]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")
