"""Export and import: equal plans are an equal file, a kernel build can read it, and nothing odd gets in."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune import client
from autotune.db.pins import Decision
from autotune.db.store import Store
from autotune.errors import InvalidInput
from autotune.outcome import MEASURED, BestPlan
from autotune.plan import TilingPlan
from autotune.service import bundle
from autotune.service.device import Device

DECISION = Decision("me", "because", "2026-12-01T02:13:44Z")


@pytest.fixture
def devices(device: Device) -> dict[str, Device]:
    return {"Ascend910A": device}


@pytest.fixture
def bests(best: BestPlan, at_shape: Callable[..., BestPlan]) -> list[BestPlan]:
    return [best, at_shape(best, 1, 1, 64, 64, 64, plan=TilingPlan(64, 64)), at_shape(best, 4, 8, 512, 512, 64)]


@pytest.fixture
def other(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path}/other.db")


def sealed(answers: Any) -> bytes:
    """A file with these answers and the hash that they ought to have."""
    text = json.dumps(answers, sort_keys=True, separators=(",", ":"))
    return json.dumps({"answers": answers, "format": 1, "revision": sha256(text.encode()).hexdigest()}).encode()


def test_there_and_back(store: Store, other: Store, bests: list[BestPlan], devices: dict[str, Device]) -> None:
    for best in bests:
        store.publish(best)
    content = bundle.dump(store)
    tried = bundle.load(other, content, devices)
    assert (tried.accepted, tried.kept, tried.rejected, tried.dry_run) == (3, 0, [], True)
    assert other.plans().listed == []
    assert bundle.load(other, content, devices, dry_run=False).accepted == 3
    assert [replace(each.best, revision=0) for each in other.plans().listed] == sorted(
        bests, key=lambda best: best.problem.key
    )
    assert bundle.dump(other) == content  # whatever the order and the revisions there
    assert bundle.load(other, content, devices, dry_run=False).kept == 3


def test_it_is_canonical(store: Store, bests: list[BestPlan]) -> None:
    for best in bests:
        store.publish(best)
    content = bundle.dump(store)
    document = json.loads(content)
    assert content == json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    assert (
        content.strip()
        == json.dumps(json.loads(sealed(document["answers"])), sort_keys=True, separators=(",", ":")).encode()
    )


def test_a_kernel_build_reads_it(store: Store, best: BestPlan, tmp_path: Path) -> None:
    store.publish(best)
    measured = replace(best.timing, kind=MEASURED)
    store.publish(replace(best, target="zz:0", timing=measured, plan=TilingPlan(64, 64)))
    (tmp_path / "plans.json").write_bytes(bundle.dump(store))
    for device, Br in (("Ascend910A", 64), ("emulated:Ascend910A", 128)):
        plan = client.best((2, 16, 1024, 1024, 64), file=str(tmp_path / "plans.json"), device=device, strict=True)
        assert (plan.Br, plan.match, plan.source) == (Br, "exact", "file")


def test_a_pinned_plan_is_what_is_exported(store: Store, best: BestPlan) -> None:
    store.publish(replace(best, plan=TilingPlan(64, 64)))
    store.publish(replace(best, timing=replace(best.timing, time_us=100.0)))
    store.pin(1, DECISION)
    (answer,) = json.loads(bundle.dump(store))["answers"]
    assert (answer["match"], answer["plan"]["Br"], answer["time_us"]) == ("pinned", 64, 200.0)


def test_an_illegal_plan_is_refused(store: Store, other: Store, best: BestPlan, devices: dict[str, Device]) -> None:
    store.publish(replace(best, plan=TilingPlan(512, 512)))
    loaded = bundle.load(other, bundle.dump(store), devices, dry_run=False)
    assert (loaded.accepted, loaded.kept) == (0, 0)
    assert "answer 0: UB needs" in loaded.rejected[0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe{",
        b"\xef\xbb\xbf" + sealed([]),
        b'{"answers": []}',
        b'{"answers": {}, "format": 1}',
        b'{"answers": [], "format": 2}',
        b'{"answers": [], "answers": [], "format": 1}',
        b'{"answers": [NaN], "format": 1}',
        b'{"answers": [1e999], "format": 1, "revision": ""}',
        b'{"answers": ' + b"[" * 100_000,
        b'{"answers": [' + b"9" * 5000 + b"]}",
        sealed([1]).replace(b"[1]", b"[2]"),
    ],
)
def test_a_file_that_is_none(other: Store, devices: dict[str, Device], content: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        bundle.load(other, content, devices, dry_run=False)
    assert caught.value.field == "file"


def entry(store: Store, best: BestPlan) -> Any:
    store.publish(best)
    return json.loads(bundle.dump(store))["answers"][0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("problem", "shape"), [0, 1, 1, 1, 1]),
        (("problem", "swizzle"), 1),
        (("problem",), 7),
        (("device",), ""),
        (("device",), "x" * 201),
        (("device",), ["Ascend910A"]),
        (("plan", "Br"), 17),
        (("plan",), None),
        (("timing", "time_us"), -1.0),
        (("timing", "time_us"), "fast"),
        (("timing", "time_us"), True),
        (("timing", "kind"), "guessed"),
        (("timing", "kind"), "measured"),
        (("timing", "clock"), None),
        (("timing",), []),
        (("error",), -1.0),
        (("default_time_us",), 0.0),
        (("provenance", "target"), "\ud800"),
        (("provenance", "measured_at"), "yesterday"),
        (("provenance", "trials"), 1 << 40),
        (("provenance",), {}),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused_alone(
    store: Store, other: Store, best: BestPlan, devices: dict[str, Device], path: tuple[str, ...], value: Any
) -> None:
    good = entry(store, best)
    bad = json.loads(json.dumps(good))
    inner = bad
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    loaded = bundle.load(other, sealed([bad, good]), devices, dry_run=False)
    assert (loaded.accepted, len(loaded.rejected)) == (1, 1)
    assert [each.best.plan for each in other.plans().listed] == [best.plan]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["problem", "plan", "device"]), inner),
    max_leaves=8,
)


@given(answers=st.lists(json_values, max_size=3))
def test_no_answer_raises(answers: list[Any]) -> None:
    for answer in answers:
        try:
            bundle._best(answer)
        except InvalidInput:
            continue
        raise AssertionError("it cannot have been complete")
