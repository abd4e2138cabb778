"""Under which conditions a launch is timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """What a program and its chip leave open.

    warm: the launch before left its tensors in L2, where they fit, as when a benchmark repeats a kernel. host: the time
    is what the host sees of a launch, instead of what the device spends on it. address_reuse: a tensor has to wait for
    the users of another that died before and lay at the same address (davinci_timing.md 2.9, StorageRewriteCCE).
    """

    warm: bool = False
    host: bool = False
    address_reuse: bool = False


USUAL = Conditions()
