"""What the service answers: the names in the bodies of its replies, for its OpenAPI description and for tests."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from autotune.service.ladder import RUNGS


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
    match: str = Field(json_schema_extra={"enum": list(RUNGS)})
    distance: float | None = Field(description="doublings between the problem and the matched one; 0 when exact")
    matched_shape: list[int] | None
    matched_time_us: float | None = Field(description="time of the stored plan on the matched shape")
    stale: bool = Field(description="the result is of another toolchain, kernel or timing model than the present one")
    provenance: ProvenanceBody | None
    revision: int | None


class ReadyBody(Body):
    """The service can read its database, and the database is at this version's schema."""

    status: str
    schema_revision: str


class LiveBody(Body):
    """The process answers."""

    status: str


class RecordBody(Body):
    """A stored result, of whatever age: what was found, where and when. Times are microseconds."""

    problem: ProblemBody
    device: str
    plan: PlanBody
    time_us: float
    kind: str = Field(description="emulated or measured: what the times are")
    clock: str = Field(description="the timing model with its version, or the measuring protocol")
    default_time_us: float | None = Field(description="time of the sparse default on this problem")
    speedup_over_default: float | None
    error: float = Field(description="relative L2 distance of the result to a float64 reference")
    stale: bool = Field(description="the result is of another toolchain, kernel or timing model than the present one")
    provenance: ProvenanceBody
    revision: int = Field(description="counts the publications of the whole database")


class ListedBody(RecordBody):
    """A plan that is served."""

    id: int = Field(description="of the problem on the device and kind of target; a faster plan keeps it")
    key: str = Field(description="of the problem")
    pinned: int | None = Field(description="the revision that is served instead because somebody pinned it")


class TrialBody(Body):
    """A plan that was tried. Times are microseconds, null where the plan was not timed."""

    device: str
    target: str
    fingerprint: str
    plan: PlanBody
    status: str = Field(description="timed, rejected (it breaks a limit and was never run) or failed")
    time_us: float | None
    kind: str | None
    error: float | None = Field(description="relative L2 distance of the result to a float64 reference")
    stage: str | None = Field(description="where it failed: compile, run, verify or time")
    reason: str | None = Field(description="why it was rejected or failed")
    sweep: str
    at: str


class TrialsBody(Body):
    """A page of trials, in the order they were made."""

    trials: list[TrialBody]
    next: str | None = Field(description="the cursor of the next page; null on the last")


class PlansBody(Body):
    """A page of plans, in the order of their ids."""

    plans: list[ListedBody]
    next: str | None = Field(description="the cursor of the next page; null on the last")


class DecisionBody(Body):
    """A pin that somebody set or took off."""

    action: str = Field(description="pin or unpin")
    revision: int
    actor: str
    reason: str
    at: str


class ImportBody(Body):
    """What became of a file."""

    accepted: int = Field(description="plans that won")
    kept: int = Field(description="plans that are no better than what is there")
    rejected: list[str] = Field(description="a sentence for each answer that makes no sense or is illegal")
    dry_run: bool = Field(description="nothing was changed")


class HistoryBody(Body):
    """Every plan that was published and won, and what people decided about them; oldest first."""

    history: list[RecordBody]
    decisions: list[DecisionBody]


class WantedItem(Body):
    """A problem that was asked for and has no plan of its own."""

    problem: ProblemBody
    device: str
    count: int = Field(description="how often")
    last_at: str = Field(description="when last, UTC")


class WantedBody(Body):
    """The most asked first."""

    wanted: list[WantedItem]


class SweepBody(Body):
    """A sweep in numbers."""

    name: str
    target: str
    state: str = Field(
        description="running, done, nothing found, stopped or failed; elsewhere where another process began it"
    )
    problems: int = Field(description="that have a trial of this sweep")
    trials: dict[str, int] = Field(description="how many were timed, rejected and failed")
    first_at: str | None = Field(description="of the first trial, UTC")
    last_at: str | None = Field(description="of the last trial, UTC")
    log: list[str] = Field(description="the last lines of a sweep that this service began")


class SweepsBody(Body):
    """The latest first."""

    sweeps: list[SweepBody]


class TargetBody(Body):
    """Something that times a chip."""

    name: str
    fingerprint: str = Field(description="a result with another one is stale")


class DeviceBody(Body):
    """A chip that plans are served for. Sizes are bytes of a core."""

    name: str
    targets: list[TargetBody]
    hardware: dict[str, int | str]


class DevicesBody(Body):
    """The first is the one that a question without a device means."""

    devices: list[DeviceBody]


class StrategyBody(Body):
    """Somebody who proposes plans."""

    name: str
    role: str
    origin: str = Field(description="built-in, or the package that brought it")
    summary: str


class StrategiesBody(Body):
    """By name."""

    strategies: list[StrategyBody]


class ErrorBody(Body):
    """RFC 9457 problem details."""

    title: str
    status: int
    detail: str = Field(description="one sentence: what was wrong and what to do")
    field: str | None = Field(description="the parameter that was wrong")


class BatchReply(Body):
    """What became of one question: an answer with status 200, or an error with the status it would have alone."""

    status: int
    answer: AnswerBody | None
    error: ErrorBody | None


class BatchBody(Body):
    """In the order of the questions."""

    items: list[BatchReply]
