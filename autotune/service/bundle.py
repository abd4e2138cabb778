"""Plans as a file: canonical JSON that a kernel build reads by itself and another database can take in.

``{"answers": [...], "format": 1, "revision": "..."}``: each answer has what ``autotune/client.py`` reads and what a
database keeps. The revision is a hash of the answers, so that equal plans are an equal file, wherever they come from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import Any

from autotune.db.store import Store
from autotune.errors import InvalidInput, PlanRejected
from autotune.outcome import EMULATED, MEASURED, BestPlan, Timing
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.service.device import Devices
from autotune.service.ladder import EXACT, PINNED

FORMAT = 1
MAX_BYTES = 64 << 20
MAX_TEXT = 200
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_PROVENANCE = ("target", "fingerprint", "sweep", "measured_at", "trials")


def dump(store: Store, device: str | None = None, target: str | None = None) -> bytes:
    """Every plan that is served, pinned ones in place of those they outrank; by device, problem and target.

    Of the same problem the measured plan comes before the emulated one: a reader takes the first.
    """
    found = sorted(_served(store, device, target), key=_place)
    answers = [{name: value for name, value in answer.items() if name != "key"} for answer in found]
    return _canonical({"answers": answers, "format": FORMAT, "revision": _revision(answers)}) + b"\n"


@dataclass(frozen=True)
class Loaded:
    """What became of a file. rejected: one sentence for each answer that was not even offered to the database."""

    accepted: int
    kept: int
    rejected: list[str]
    dry_run: bool

    def to_json(self) -> dict[str, Any]:
        """Field names to values."""
        return {
            "accepted": self.accepted,
            "kept": self.kept,
            "rejected": self.rejected,
            "dry_run": self.dry_run,
        }


def load(store: Store, content: bytes, devices: Devices, dry_run: bool = True) -> Loaded:
    """Offers a file's plans to the database, by the rule of every publication. Raises InvalidInput for no such file."""
    bests, rejected = [], []
    for number, answer in enumerate(_answers(content)):
        try:
            bests.append(_checked(_best(answer), devices))
        except (InvalidInput, PlanRejected) as error:
            rejected.append(f"answer {number}: {error}")
    won = store.publish_all(bests, dry_run)
    return Loaded(sum(won), len(won) - sum(won), rejected, dry_run)


def _served(store: Store, device: str | None, target: str | None) -> Iterator[dict[str, Any]]:
    after: int | None = 0
    while after is not None:
        page = store.plans(after, 500, device, target)
        for listed in page.listed:
            best, match = listed.best, EXACT
            if listed.pinned is not None:
                best, match = store.pinned(best.problem, best.device, best.target) or best, PINNED
            yield _entry(best, match)
        after = page.next


def _entry(best: BestPlan, match: str) -> dict[str, Any]:
    return {
        "key": best.problem.key,
        "problem": best.problem.to_json(),
        "device": best.device,
        "plan": best.plan.tiling(best.problem)._asdict() | best.plan.to_json(),
        "time_us": best.timing.time_us,
        "timing": best.timing.to_json(),
        "error": best.error,
        "default_time_us": best.default_time_us,
        "match": match,
        "provenance": {name: getattr(best, name) for name in _PROVENANCE},
    }


def _place(answer: dict[str, Any]) -> tuple[str, str, bool, str]:
    emulated = answer["timing"]["kind"] != MEASURED
    return answer["device"], answer["key"], emulated, answer["provenance"]["target"]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _revision(answers: list[Any]) -> str:
    return sha256(_canonical(answers)).hexdigest()


def _answers(content: bytes) -> list[Any]:
    if len(content) > MAX_BYTES:
        raise InvalidInput(f"the file is longer than {MAX_BYTES} bytes", "file")
    try:
        document = json.loads(
            content.decode(), object_pairs_hook=_distinct, parse_constant=_finite, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the file is no JSON of ours: {str(error)[:100]}", "file") from error
    if not isinstance(document, dict) or not isinstance(document.get("answers"), list):
        raise InvalidInput('the file is no export: it has no list "answers"', "file")
    if document.get("format") != FORMAT:
        raise InvalidInput(f"the file's format is {str(document.get('format'))[:20]}; this version reads 1", "file")
    answers: list[Any] = document["answers"]
    if document.get("revision") != _revision(answers):
        raise InvalidInput("the file's revision is not that of its answers: it was cut or changed", "file")
    return answers


def _distinct(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name[:40]!r} is there twice")
        found[name] = value
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:40]} is no number")
    return number


def _best(answer: Any) -> BestPlan:
    """One answer of a file. Raises InvalidInput."""
    try:
        best = BestPlan(
            AttentionProblem.from_json(answer["problem"]),
            answer["device"],
            plan=TilingPlan.from_json(answer["plan"]),
            timing=Timing.from_json(answer["timing"]),
            error=answer["error"],
            default_time_us=answer["default_time_us"],
            **{name: answer["provenance"][name] for name in _PROVENANCE},
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(f"it lacks or misuses {str(error)[:100]}") from error
    for name, fault in _faults(best):
        if fault:
            raise InvalidInput(f"its {name} makes no sense", name)
    return best


def _faults(best: BestPlan) -> Iterator[tuple[str, bool]]:
    for name in ("device", "target", "fingerprint", "sweep"):
        yield name, not _is_name(getattr(best, name))
    yield "measured_at", not (_is_name(best.measured_at) and INSTANT.fullmatch(best.measured_at))
    yield "trials", isinstance(best.trials, bool) or not isinstance(best.trials, int) or not 0 <= best.trials < 1 << 31
    yield "time_us", not _is_time(best.timing.time_us)
    yield "kind", best.timing.kind not in (EMULATED, MEASURED)
    yield "clock", not _is_name(best.timing.clock)
    yield "default_time_us", best.default_time_us is not None and not _is_time(best.default_time_us)
    yield "error", not isinstance(best.error, float) or not isfinite(best.error) or best.error < 0
    yield "target", (best.target.partition(":")[0] == EMULATED) != (best.timing.kind == EMULATED)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable()


def _is_time(value: object) -> bool:
    return isinstance(value, float) and isfinite(value) and value > 0


def _checked(best: BestPlan, devices: Devices) -> BestPlan:
    """Raises PlanRejected for a plan that its kernel cannot execute; of a chip that is not here, nobody can tell."""
    if best.device in devices:
        devices[best.device].check(best.problem, best.plan)
    return best
