"""Attention on this machine with the best plan that is known: numpy in, numpy out, as ``autotune.attention``.

The shortest way from a stored plan to a running kernel. A problem's plan is looked up and its kernel loaded once a
process.
"""

from __future__ import annotations

import logging
import warnings
from contextlib import closing
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune import client
from autotune.db.store import Store
from autotune.errors import ProblemError, StoreError
from autotune.kernels.native.plans import check
from autotune.kernels.targets.cpu import CpuKernel, CpuTarget
from autotune.plan import CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.service.device import Device
from autotune.service.ladder import DEFAULT, DEFAULT_STRATEGY, OWN, answer
from autotune.settings import DB, cache_folder
from autotune.strategies.core_split import complete
from autotune.strategies.registry import TilingStrategy

Array = NDArray[Any]

FLOATS = (np.float16, np.float32)
"""What q, k and v may be; all is computed in fp32."""
LOG = logging.getLogger(__name__)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    attn_mask: Array | None = None,
    window: tuple[int, int] | None = None,
    db: str | None = None,
    url: str | None = None,
) -> Array:
    """softmax(q k^T / sqrt(D)) v on this machine's cores, computed in fp32.

    q: (B, H, Nq, D); k, v: (B, H, N, D), float16 or float32. attn_mask: (B, Nq, N), or (1, Nq, N) for all batches, 1
    where a query does not see a key. causal: query i sees the keys 0 to i. window: (prev, next), query i
    sees the keys i - prev to i + next; a query without keys gives zeros. Returns (B, H, Nq, D) of q's type.

    The plan is the best one that the service at ``url`` or else the database ``db`` knows, AUTOTUNE_DB by default; the
    first call of a problem says which rung of the ladder it came from: a line of the log for a plan of this very
    problem, a ``TuningWarning`` for any other. It never fails for want of a plan.

    Raises ProblemError for arrays that are no attention problem, TargetUnavailable without a C compiler, CompileFailed.
    """
    problem = _problem(q, k, v, causal, attn_mask, window)
    inputs = {"q": q, "k": k, "v": v}
    if attn_mask is not None:
        inputs["attn_mask"] = attn_mask
    return _kernel(problem, DB.value() if db is None else db, url).exactly(inputs)["o"].astype(q.dtype, copy=False)


def _problem(
    q: Array, k: Array, v: Array, causal: bool, attn_mask: Array | None, window: tuple[int, int] | None
) -> AttentionProblem:
    """What the arrays ask for. Raises ProblemError."""
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != 4 or array.dtype not in FLOATS:
            raise ProblemError(
                f"{name} is {array.dtype} of shape {array.shape}; it must be float16 or float32 of four dimensions, "
                "batch, heads, length and head dimension",
                field=name,
            )
    batch, heads, nq, head_dim = q.shape
    n = k.shape[2]
    if k.shape != (batch, heads, n, head_dim) or v.shape != k.shape:
        raise ProblemError(
            f"k {k.shape} and v {v.shape} must both be (B, H, N, D) with the batch, heads and head dimension of q "
            f"{q.shape}",
            field="k",
        )
    return AttentionProblem.of(
        (batch, heads, nq, n, head_dim), attn_mask=_mask_kind(causal, attn_mask, (batch, nq, n)), window=window
    )


def _mask_kind(causal: bool, attn_mask: Array | None, shape: tuple[int, int, int]) -> str:
    """shape: (B, Nq, N), that of a full mask. Raises ProblemError."""
    if attn_mask is None:
        return "causal" if causal else "none"
    if causal:
        raise ProblemError("causal and attn_mask exclude each other: put the diagonal into the mask", field="causal")
    shared = (1, *shape[1:])
    if attn_mask.shape not in (shape, shared):
        raise ProblemError(
            f"attn_mask has shape {attn_mask.shape}; it must be {shape}, or {shared} for all batches", field="attn_mask"
        )
    return "shared" if attn_mask.shape == shared else "full"


@lru_cache(maxsize=1)
def _target() -> CpuTarget:
    return CpuTarget(cache_folder())


@lru_cache(maxsize=1024)
def _kernel(problem: AttentionProblem, db: str, url: str | None) -> CpuKernel:
    """The kernel with the plan that is found once; says where it was found."""
    target = _target()
    plan, rung, place = _from_service(problem, target, url) if url else _from_database(problem, target, db)
    text = (
        f"blocks of {plan.Br} x {plan.Bc} from the rung {rung} of {place} for {problem.key} on {target.hardware.name}"
    )
    if rung in OWN:
        LOG.info(text)
    else:
        warnings.warn(f"using {text}; `autotune sweep --device cpu` finds its own", client.TuningWarning, stacklevel=3)
    return target.compile(problem, complete(plan, problem, target.hardware))


def _from_service(problem: AttentionProblem, target: CpuTarget, url: str) -> tuple[TilingPlan, str, str]:
    """Plan, rung and where it is from; what the client does when the service is away or answers nonsense is its own."""
    asked = problem.to_json()
    served = client.best(asked.pop("shape"), device=target.hardware.name, url=url, **asked)
    split = CoreSplit(*served.core_split) if served.core_split else CoreSplit()
    return TilingPlan(pad(served.Br), pad(served.Bc), split), served.match, url


def _from_database(problem: AttentionProblem, target: CpuTarget, db: str) -> tuple[TilingPlan, str, str]:
    """Plan, rung and where it is from; the default's where the database cannot be read."""
    device = Device(target.hardware, {target.name: target.fingerprint}, check)
    try:
        with closing(Store.open(db, create=False)) as store:
            found = answer(problem, device, store, target=target.name)
    except StoreError as error:
        return _default(problem, target), DEFAULT, f"the ladder ({error})"
    return (found.plan, found.match, db) if found else (_default(problem, target), DEFAULT, db)


def _default(problem: AttentionProblem, target: CpuTarget) -> TilingPlan:
    return next(iter(TilingStrategy.from_strategy_name(DEFAULT_STRATEGY).plans(problem, target.hardware)))
