"""The numbers of the timing model that the chips' own files do not give, each once, with its source and its range.

Confidence is published (by the vendor), measured (on silicon, by the source), derived (by arithmetic from those) or
assumed. References are to sections of davinci_timing.md. Rates in bytes per cycle are with the chips, in ``soc.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

PUBLISHED, MEASURED, DERIVED, ASSUMED = "published", "measured", "derived", "assumed"


@dataclass(frozen=True)
class Constant:
    """One number of the model. ``unit`` is cycles unless it says otherwise.

    low, high: between which the sources leave it open; both None where they leave nothing open.
    """

    value: int
    source: str
    confidence: str
    unit: str = "cycles"
    low: int | None = None
    high: int | None = None


def _cycles(value: int, source: str, confidence: str, low: int | None = None, high: int | None = None) -> Constant:
    return Constant(value, source, confidence, "cycles", low, high)


CONSTANTS = {
    "issue": _cycles(2, "5.1, c_issue; 2 to 8 more for arithmetic on addresses", ASSUMED, 2, 10),
    "queue_depth": Constant(32, "2.9, size_of_issueQ", PUBLISHED, "entries"),
    "sync_latency": _cycles(15, "2.8, from set to wake-up", ASSUMED, 10, 30),
    "vector_start": _cycles(25, "2.1, first instruction after a barrier or wait, on a 910B", ASSUMED, 20, 40),
    "vector_least": _cycles(3, "2.1, least distance of two instructions, on a 910B", ASSUMED, 3, 6),
    "vector_partial_mask": _cycles(16, "2.1, a partial mask adds this, on a 910B", ASSUMED, 15, 22),
    "mmad_head": _cycles(15, "2.2, get_cube_cycles", PUBLISHED, 12, 20),
    "mmad_latency": _cycles(0, "2.2, no more than its head", PUBLISHED),
    "mmad_odd": Constant(1, "2.2, k - 2 cycles more for an odd number of row or column tiles", PUBLISHED, "yes or no"),
    "load_head": _cycles(10, "2.3, load2d", PUBLISHED),
    "image_load_head": _cycles(15, "2.3, load3d", PUBLISHED),
    "image_load_least": _cycles(43, "2.3, scalar issue of one load3d", PUBLISHED, 25, 43),
    "l1_to_ub_head": _cycles(10, "5.2", ASSUMED, 0, 20),
    "ub_to_l1_head": _cycles(20, "5.2", ASSUMED, 10, 40),
    "fixpipe_head": _cycles(30, "5.2, FIX", PUBLISHED),
    "packet_bytes": Constant(256, "2.5, largest packet between GM and a core", PUBLISHED, "bytes"),
    "short_move_head": _cycles(100, "2.5, one move under 16 KB", PUBLISHED),
    "short_move_bytes": Constant(16384, "2.5", PUBLISHED, "bytes"),
    "read_latency": _cycles(0, "2.5, not apart from the head of a short move", PUBLISHED),
    "write_latency": _cycles(0, "2.5, not apart from the head of a short move", PUBLISHED),
    "scalar_operation": _cycles(1, "2.7, ALU", PUBLISHED),
    "scalar_read": _cycles(30, "2.7, scalar read of a UB element", ASSUMED, 20, 60),
    "scalar_read_global": _cycles(200, "2.7, scalar read of GM, cached or not", ASSUMED, 10, 300),
    "scalar_write": _cycles(2, "2.7, scalar store", ASSUMED, 1, 10),
    "atomic_percent": Constant(115, "5.2, atomic add to plain write", ASSUMED, "percent", 100, 130),
    "ddr_bandwidth": Constant(1200, "1.3, HBM of all cores; 1020 by the platform file", PUBLISHED, "GB/s", 1020, 1200),
    "l2_bandwidth": Constant(0, "1.3, no limit besides the cores' own rates", PUBLISHED, "GB/s"),
    "kernel_floor": Constant(800, "2.8, device-side floor of a launch, on a 910B", ASSUMED, "nanoseconds", 770, 830),
    "block_skew": Constant(50, "5.6, 2 us for 24 blocks, less the floor, on a 910B", ASSUMED, "nanoseconds", 17, 120),
    "launch": Constant(5500, "5.2, a launch as the host sees it", ASSUMED, "nanoseconds", 5500, 21000),
    "launch_per_block": Constant(120, "2.8, and for each block, on a 910B", ASSUMED, "nanoseconds", 50, 120),
}
"""Name to number for the 910A and its relatives (dav-c100)."""

_V200 = {
    "vector_start": replace(CONSTANTS["vector_start"], source="5.2, as on a 910A"),
    "mmad_odd": replace(CONSTANTS["mmad_odd"], value=0, source="2.2, v100 chips only"),
    "ddr_bandwidth": Constant(204, "1.3, nominal; 144 by the platform file", ASSUMED, "GB/s", 144, 205),
}
_C220 = {
    "vector_start": _cycles(26, "2.1, head and tail of an uninterrupted stream", MEASURED, 20, 40),
    "vector_least": _cycles(3, "2.1, least distance of two instructions", MEASURED, 3, 6),
    "vector_partial_mask": _cycles(16, "2.1, a partial mask adds this", MEASURED, 15, 22),
    "mmad_head": _cycles(15, "5.6; 2 by msKPP, 6 by PTO, 20 in the vendor's model of convolutions", DERIVED, 2, 20),
    "mmad_latency": _cycles(8, "2.2, 23 cycles in all for one on its own", MEASURED, 0, 21),
    "mmad_odd": replace(CONSTANTS["mmad_odd"], value=0, source="2.2, v100 chips only"),
    "load_head": _cycles(26, "2.3 and 5.6; 1 by msKPP's repeats of load2d", PUBLISHED, 1, 26),
    "packet_bytes": Constant(512, "2.5, largest packet between GM and a core", PUBLISHED, "bytes"),
    "short_move_head": _cycles(0, "2.5, latency instead", PUBLISHED),
    "read_latency": _cycles(241, "2.5, camodel, a read that finds its line in L2", PUBLISHED, 210, 300),
    "write_latency": _cycles(96, "2.5, camodel", PUBLISHED),
    "ddr_bandwidth": Constant(1550, "1.3, 1540 of 20 cores measured; a 910B4 has less", MEASURED, "GB/s", 1540, 1800),
    "l2_bandwidth": Constant(5200, "1.3, all cores; 7000 in another document", PUBLISHED, "GB/s", 5200, 7000),
    "kernel_floor": Constant(800, "2.8, smallest product with its moves", MEASURED, "nanoseconds", 770, 830),
    "block_skew": Constant(50, "5.6, 2 us for 24 blocks, less the floor", DERIVED, "nanoseconds", 17, 120),
    "launch": Constant(5900, "2.8, 10905 cycles", MEASURED, "nanoseconds", 5500, 21000),
    "launch_per_block": Constant(120, "2.8, block launch skew", MEASURED, "nanoseconds", 50, 120),
}
DIFFERENCES: dict[str, dict[str, Constant]] = {
    "dav-m100": {
        "ddr_bandwidth": Constant(91, "1.3, two cores at their own rate", DERIVED, "GB/s"),
    },
    "dav-m200": _V200,
    "dav-c220": _C220,
}
"""Architecture to what is different there: 310, 310P and 610, 910B1 to B4."""


def constants(arch: str) -> Mapping[str, Constant]:
    """Every number of the model for an architecture, by name."""
    return {**CONSTANTS, **DIFFERENCES.get(arch, {})}
