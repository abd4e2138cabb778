"""The programs that the timing model is measured with compute what they should, and the bars hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.kernels.davinci import soc
from benchmarks import matmul_910b, model_accuracy
from benchmarks.matmul_910b import Product, Tiling


@pytest.fixture(autouse=True)
def _chip() -> Any:
    before = soc.Current.soc
    yield
    soc.Current.soc = before


def _columns_first(array: np.ndarray) -> np.ndarray:
    """[batch, rows, columns] as [batch, columns / 16, rows, 16]."""
    batch, rows, columns = array.shape
    return np.ascontiguousarray(array.reshape(batch, rows, columns // 16, 16).transpose(0, 2, 1, 3))


@pytest.mark.parametrize(
    ("product", "tiling"),
    [
        (Product(1, 64, 64, 32), Tiling(32, 16, (1, 2, 2))),
        (Product(2, 128, 512, 64), Tiling(64, 32, (2, 1, 1))),
        (Product(3, 32, 768, 256), Tiling(16, 128, (1, 1, 2))),
        (Product(1, 128, 128, 256), Tiling(128, 256, (1, 1, 1))),
    ],
)
def test_the_tiled_product_is_the_product(product: Product, tiling: Tiling) -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((product.batch, product.m, product.k)).astype(np.float16)
    b = random.standard_normal((product.batch, product.k, product.n)).astype(np.float16)
    tik = matmul_910b.kernel(product, tiling, "Ascend910B2")
    feed = {"a": _columns_first(a), "b": _columns_first(b.transpose(0, 2, 1))}
    (c,) = tik.tikdb.start_debug(feed_dict=feed, interactive=False)
    found = c.transpose(0, 2, 1, 3).reshape(product.batch, product.m, product.n)
    np.testing.assert_allclose(found, a.astype(float) @ b.astype(float), rtol=2e-3, atol=2e-2)


def test_work_is_split_by_divisors() -> None:
    """4096 rows keep 16 of 24 cores busy, 6144 keep all (davinci_timing.md 3.3)."""
    tilings = {
        rows: next(
            t
            for t in matmul_910b.tilings(Product(1, rows, 4096, 4096), soc.get("Ascend910B2"))
            if (t.rows, t.columns) == (128, 256)
        )
        for rows in (4096, 6144)
    }
    assert {rows: np.prod(tiling.parts) for rows, tiling in tilings.items()} == {4096: 16, 6144: 24}


def test_peak_rates_and_tik_matmul_hold_their_bars() -> None:
    rows = [*model_accuracy.peaks(), *model_accuracy.tik_products()]
    assert [row.what for row in rows if abs(row.ratio - 1) > 0.05] == []
    assert len(rows) == 22


def test_some_products_of_attention_hold_their_bar() -> None:
    rows = [row for row in model_accuracy.products(quick=True) if row.group == "product, attention"]
    assert 0.8 < model_accuracy.mean([row.ratio for row in rows]) < 1.25


def test_the_page_has_every_number_of_the_model() -> None:
    page = (Path(__file__).parents[1] / "docs" / "timing.md").read_text(encoding="utf-8")
    assert "\n".join(model_accuracy.numbers()) in page
