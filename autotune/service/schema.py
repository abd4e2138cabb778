"""The wire format of the service: the only place that knows the names in its queries and bodies."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from autotune.errors import InvalidInput
from autotune.problem import ATTN_MASKS, DTYPES, OPS, SHAPE_FORM, AttentionProblem, parse_shape, parse_window
from autotune.service.ladder import RUNGS


def _one_of(names: tuple[str, ...]) -> dict[str, Any]:
    return {"enum": list(names)}


class BestQuery(BaseModel):
    """The parameters of GET /best; a name that is not here is refused."""

    model_config = ConfigDict(extra="forbid")

    shape: str = Field(description=f"{SHAPE_FORM}; D is the head dimension", examples=["2,16,1024,1024,64"])
    op: str = Field("flash_attention", json_schema_extra=_one_of(OPS))
    device: str | None = Field(
        None,
        description="a chip (Ascend910A) or a target (emulated:Ascend910A); the service's first when left out",
    )
    dtype: str = Field("float16", json_schema_extra=_one_of(DTYPES))
    attn_mask: str = Field("none", json_schema_extra=_one_of(ATTN_MASKS))
    dropout: bool = False
    alibi: bool = False
    window: str | None = Field(None, description="prev,next in tokens", examples=["511,0"])
    block_window: str | None = Field(None, description="prev,next in blocks of 128 tokens", examples=["7,0"])
    high_precision: bool = False
    allow: str = Field(",".join(RUNGS), description="the rungs that may answer, a list with commas")

    def problem(self) -> AttentionProblem:
        """The problem that is asked about. Raises ProblemError."""
        return AttentionProblem.of(
            parse_shape(self.shape),
            op=self.op,
            dtype=self.dtype,
            attn_mask=self.attn_mask,
            dropout=self.dropout,
            alibi=self.alibi,
            window=None if self.window is None else parse_window("window", self.window),
            block_window=None if self.block_window is None else parse_window("block_window", self.block_window),
            high_precision=self.high_precision,
        )


class Body(BaseModel):
    """A part of an answer; ``extra="forbid"`` lets a test find what the models lack."""

    model_config = ConfigDict(extra="forbid")


class ProblemBody(Body):
    """The question as it was understood."""

    op: str
    shape: list[int] = Field(min_length=5, max_length=5, description="B, H, Nq, N, D")
    dtype: str
    attn_mask: str
    dropout: bool
    alibi: bool
    window: list[int] | None
    block_window: list[int] | None
    high_precision: bool


class CoreSplitBody(Body):
    """How row blocks are spread over cores."""

    rule: str
    block_num: int = Field(description="cores that get work")


class PlanBody(Body):
    """The plan for the problem that was asked about, whatever rung it comes from."""

    Br: int = Field(description="query rows of a block")
    last_Br: int = Field(description="query rows of the last block")
    Bc: int = Field(description="key rows of a block")
    last_Bc: int = Field(description="key rows of the last block")
    Tr: int = Field(description="query blocks")
    Tc: int = Field(description="key blocks")
    core_split: CoreSplitBody
    double_buffer: bool
    slice_rows: int = Field(0, description="query rows that the vector unit takes at a time; 0: all of a block")
    exp: str = Field("float32", description="type of the scores on the vector unit and of its exponential")
    strategy: str = Field(description="who proposed the plan")


class ProvenanceBody(Body):
    """Where the matched result comes from."""

    target: str
    fingerprint: str
    trials: int
    sweep: str
    measured_at: str


class AnswerBody(Body):
    """The answer of GET /best. Times are microseconds."""

    problem: ProblemBody
    device: str
    plan: PlanBody
    time_us: float | None = Field(description="time of this plan on this very problem; null when it was never timed")
    kind: str | None = Field(description="emulated or measured: what the times are")
    clock: str | None = Field(description="the timing model with its version, or the measuring protocol")
    stays_best: float | None = Field(
        description="how often the plan stays the fastest when uncertain numbers of the timing model are drawn anew"
    )
    default_time_us: float | None = Field(description="time of the sparse default on this very problem")
    speedup_over_default: float | None
    match: str = Field(json_schema_extra=_one_of(RUNGS))
    distance: float | None = Field(description="doublings between the problem and the matched one; 0 when exact")
    matched_shape: list[int] | None
    matched_time_us: float | None = Field(description="time of the stored plan on the matched shape")
    stale: bool = Field(description="the result is of another toolchain, kernel or timing model than the present one")
    provenance: ProvenanceBody | None
    revision: int | None


class HealthBody(Body):
    """The service can read its database."""

    status: str
    schema_revision: str


class ErrorBody(Body):
    """RFC 9457 problem details."""

    title: str
    status: int
    detail: str = Field(description="one sentence: what was wrong and what to do")
    field: str | None = Field(description="the parameter that was wrong")


def parse_allow(text: str) -> tuple[str, ...]:
    """``"exact,nearest"`` to its rungs. Raises InvalidInput."""
    names = tuple(text.split(","))
    for name in names:
        if name not in RUNGS:
            raise InvalidInput(f"allow: {name[:30]!r} is no rung; the rungs are {', '.join(RUNGS)}", field="allow")
    return names
