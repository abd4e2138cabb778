"""What the service is asked: the names in queries and in the bodies of requests. What it answers is in ``bodies``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from autotune.errors import InvalidInput
from autotune.problem import ATTN_MASKS, DTYPES, OPS, SHAPE_FORM, AttentionProblem, parse_shape, parse_window
from autotune.service.ladder import RUNGS


def _one_of(names: tuple[str, ...]) -> dict[str, Any]:
    return {"enum": list(names)}


class _Options(BaseModel):
    """A question without its shape and windows; a name that is not here is refused."""

    model_config = ConfigDict(extra="forbid")

    op: str = Field("flash_attention", json_schema_extra=_one_of(OPS))
    device: str | None = Field(
        None,
        description="a chip (Ascend910A) or a target (emulated:Ascend910A); the service's first when left out",
    )
    dtype: str = Field("float16", json_schema_extra=_one_of(DTYPES))
    attn_mask: str = Field("none", json_schema_extra=_one_of(ATTN_MASKS))
    dropout: bool = False
    alibi: bool = False
    high_precision: bool = False

    def _problem(self, shape: object, window: object, block_window: object) -> AttentionProblem:
        return AttentionProblem.of(
            shape,
            op=self.op,
            dtype=self.dtype,
            attn_mask=self.attn_mask,
            dropout=self.dropout,
            alibi=self.alibi,
            window=window,
            block_window=block_window,
            high_precision=self.high_precision,
        )


class _Question(_Options):
    allow: str = Field(",".join(RUNGS), description="the rungs that may answer, a list with commas")


class BestQuery(_Question):
    """The parameters of GET /best."""

    shape: str = Field(description=f"{SHAPE_FORM}; D is the head dimension", examples=["2,16,1024,1024,64"])
    window: str | None = Field(None, description="prev,next in tokens", examples=["511,0"])
    block_window: str | None = Field(None, description="prev,next in blocks of 128 tokens", examples=["7,0"])

    def problem(self) -> AttentionProblem:
        """The problem that is asked about. Raises ProblemError."""
        return self._problem(
            parse_shape(self.shape),
            None if self.window is None else parse_window("window", self.window),
            None if self.block_window is None else parse_window("block_window", self.block_window),
        )


class BatchItem(_Question):
    """One question of POST /best/batch: the problem as answers spell it, with device and allow."""

    model_config = ConfigDict(extra="forbid", strict=True)

    shape: list[int] = Field(max_length=5, description="B, H, Nq, N, D, or B, H, N, D where Nq = N")
    window: list[int] | None = Field(None, max_length=2, description="prev, next in tokens")
    block_window: list[int] | None = Field(None, max_length=2, description="prev, next in blocks of 128 tokens")

    def problem(self) -> AttentionProblem:
        """The problem that is asked about. Raises ProblemError."""
        return self._problem(self.shape, self.window, self.block_window)


class StartBody(_Options):
    """The body of POST /sweeps: problems that differ in their shape alone, and how much to try."""

    model_config = ConfigDict(extra="forbid", strict=True)

    shapes: list[list[int]] = Field(
        min_length=1, max_length=32, description="each B, H, Nq, N, D, or B, H, N, D where Nq = N"
    )
    window: list[int] | None = Field(None, max_length=2, description="prev, next in tokens")
    block_window: list[int] | None = Field(None, max_length=2, description="prev, next in blocks of 128 tokens")
    trials: int = Field(40, ge=1, le=10_000, description="plans to try for each problem")
    seconds: int | None = Field(None, ge=1, le=86_400, description="for all problems together")

    def problems(self) -> list[AttentionProblem]:
        """What is to be swept. Raises ProblemError."""
        return [self._problem(shape, self.window, self.block_window) for shape in self.shapes]


Asked = BestQuery | BatchItem

MAX_ITEMS = 256
MAX_PAGE = 500


class Batch(BaseModel):
    """The body of POST /best/batch."""

    model_config = ConfigDict(extra="forbid")

    # Each item is read by itself, so that a wrong one does not spoil the others.
    items: list[Any] = Field(
        min_length=1, max_length=MAX_ITEMS, json_schema_extra={"items": BatchItem.model_json_schema()}
    )


class _Which(BaseModel):
    model_config = ConfigDict(extra="forbid")

    device: str | None = Field(None, description="only those of this chip or target")


class PlansQuery(_Which):
    """The parameters of GET /plans."""

    cursor: str | None = Field(None, max_length=40, description="next of the page before; the first page without it")
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="most plans on a page")


class HistoryQuery(_Which):
    """The parameters of GET /plans/{plan}/history."""


class TrialsQuery(PlansQuery):
    """The parameters of GET /plans/{plan}/trials."""


class ExportQuery(_Which):
    """The parameters of GET /export."""


class ImportQuery(BaseModel):
    """The parameters of POST /import."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(True, description="only say what would happen")


class PinBody(BaseModel):
    """The body of PUT /pins/{plan}."""

    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1, le=10**18, description="of the plan's history")
    reason: str = Field(min_length=1, max_length=500, description="why; kept forever")


class UnpinQuery(PinBody):
    """The parameters of DELETE /pins/{plan}; ``revision`` is the one whose pin is meant."""


class WantedQuery(BaseModel):
    """The parameters of GET /wanted."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=MAX_PAGE, description="most problems in the list")


class NoQuery(BaseModel):
    """An address without parameters."""

    model_config = ConfigDict(extra="forbid")


def parse_allow(text: str) -> tuple[str, ...]:
    """``"exact,nearest"`` to its rungs. Raises InvalidInput."""
    names = tuple(text.split(","))
    for name in names:
        if name not in RUNGS:
            raise InvalidInput(f"allow: {name[:30]!r} is no rung; the rungs are {', '.join(RUNGS)}", field="allow")
    return names
