"""A plan goes the whole way: store, HTTP, client, the public kernels' own registry, a kernel built and run."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uvicorn

from autotune import client
from autotune.db.store import Store
from autotune.hardware import Hardware
from autotune.kernels.davinci.memory import Buffer
from autotune.kernels.davinci.program import Declare
from autotune.kernels.davinci.steering import inside
from autotune.kernels.flash_attention import reference
from autotune.outcome import EMULATED, BestPlan, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.service.app import create_app
from autotune.service.device import Device
from tests.real.fractal import pack, unpack
from tests.real.public_kernels import TilingStrategy, flash_attention, set_current_compile_soc_info

PROBLEM = AttentionProblem.of((1, 2, 512, 512, 64))
SERVED = TilingPlan(64, 256, CoreSplit("even", 16), strategy="lattice")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A running service with one plan in its database."""
    store = Store.open(f"sqlite:///{tmp_path}/plans.db")
    timing = Timing(100.0, EMULATED, "model-1", cycles=100000)
    store.publish(
        BestPlan(PROBLEM, "Ascend910A", "emulated:Ascend910A", "f", SERVED, timing, 1e-4, 200.0, 40, "s",
                 "2026-12-01T00:00:00Z")
    )  # fmt: skip
    hardware = Hardware("Ascend910A", 32, 1000, 262144, 1 << 20, 65536, 65536, 262144)
    device = Device(hardware, {"emulated:Ascend910A": "f"}, lambda problem, plan: None)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(store, {"Ascend910A": device}), log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    listening.close()
    store.close()


def test_the_built_kernel_uses_the_served_blocks_and_is_right(url: str) -> None:
    set_current_compile_soc_info("Ascend910")
    client.register(TilingStrategy, batch=1, heads=2, name="tuned", url=url, timeout_s=5.0, strict=True)
    draw = np.random.default_rng(7)
    q, k, v = (draw.standard_normal((1, 2, 512, 64)).astype(np.float16) for _ in range(3))
    scale = np.float16(64**-0.25)
    fed = {"Q_gm": pack(q * scale), "K_gm": pack(k * scale), "V_gm": pack(v)}
    described = [{"shape": a.shape, "ori_shape": q.shape, "dtype": "float16"} for a in fed.values()]

    built = flash_attention(*described, *[None] * 5, tiling_stgy_name="tuned", disable_debug=False)

    declared: dict[str, Buffer] = {
        s.buffer.name: s.buffer for s in inside(built.program.body) if isinstance(s, Declare)
    }
    assert declared["Qi_l1_zN"].size == SERVED.Br * 64
    assert declared["KjT_l1_zN"].size == SERVED.Bc * 64
    out, lse = built.tikdb.start_debug(feed_dict=fed, interactive=False)
    expected, expected_lse = reference.forward(q * scale, k * scale, v, PROBLEM, scale=1.0)
    assert np.linalg.norm(unpack(out, 512, 64) - expected) < 2e-3 * np.linalg.norm(expected)
    assert np.linalg.norm(lse - expected_lse) < 2e-3 * np.linalg.norm(expected_lse)


def test_the_default_would_have_been_another_tiling() -> None:
    """Else the test above could pass without anything being served."""
    assert TilingStrategy.from_strategy_name("sparse")(512, 512, 64).tiling().Bc != SERVED.Bc
