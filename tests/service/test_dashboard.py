"""The pages for people: what they show, and what they say when there is nothing to show."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from autotune.db.pins import Decision
from autotune.db.store import Store
from autotune.errors import PlanRejected
from autotune.outcome import MEASURED, BestPlan, Failed, Outcome, Rejected, Timed, Trial
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.service.bodies import TrialsBody
from autotune.service.pages import heatmap, links
from autotune.service.pages.render import age

Ask = Callable[..., Any]
SHAPE = "2,16,1024,1024,64"


class Parsed(HTMLParser):
    """The words of a page, its tags, and the rows of its tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words, self.rows, self._in_cell = "", list[list[str]](), False
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.words = " ".join(self.words.split())
        self.rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        self.words += data
        if self._in_cell:
            self.rows[-1][-1] += data

    def links(self, start: str) -> list[str]:
        found = [attributes.get("href") or "" for tag, attributes in self.tags if tag == "a"]
        return [link for link in found if link.startswith(start)]


def parsed(reply: Any, status: int = 200) -> Parsed:
    assert reply.status == status
    assert reply.headers["content-type"].startswith("text/html")
    assert "unsafe" not in reply.headers["content-security-policy"]
    return Parsed(reply.body.decode())


def tried(best: BestPlan, plan: TilingPlan, outcome: Outcome | float) -> Trial:
    found = Timed(replace(best.timing, time_us=outcome), 1e-4) if isinstance(outcome, float) else outcome
    return Trial(best.problem, best.device, best.target, best.fingerprint, plan, found, "sweep-1", best.measured_at)


@pytest.fixture
def trials(best: BestPlan) -> list[Trial]:
    """Two settings of the other knobs; the fastest of 64 x 64 is of the second."""
    return [
        tried(best, TilingPlan(128, 256), 200.0),
        tried(best, TilingPlan(64, 64), 250.0),
        tried(best, TilingPlan(64, 64, double_buffer=True), 220.0),
        tried(best, TilingPlan(16, 64), Failed("verify", "error 0.5")),
        tried(best, TilingPlan(16, 128), Failed("verify", "error 0.7")),
        tried(best, TilingPlan(256, 256), Rejected("UB needs 300000 bytes")),
    ]


class TestCoverage:
    def test_an_empty_database_says_how_to_begin(self, ask: Ask) -> None:
        assert f"autotune sweep --shape {SHAPE}" in parsed(ask("/")).words

    def test_problems_by_chips(self, ask: Ask, store: Store, best: BestPlan, at_shape: Callable[..., BestPlan]) -> None:
        store.publish(at_shape(best, 1, 1, 64, 64, 64, fingerprint="f0"))
        store.publish(best)
        store.publish(replace(best, device="Elsewhere", target="cann:0", timing=replace(best.timing, kind=MEASURED)))
        store.pin(2, Decision("me", "because", best.measured_at))
        head, first, second = parsed(ask("/")).rows
        assert head == ["problem", "Ascend910A", "Elsewhere"]
        assert first[0] == SHAPE
        assert first[1].startswith("200 us 1.25 x emulated, ")
        assert first[1].endswith("pinned")
        assert first[2].startswith("200 us 1.25 x measured, ")
        assert second[1].endswith("stale")
        assert second[2] == "\N{EN DASH}"

    def test_every_cell_leads_to_its_problem(self, ask: Ask, store: Store, best: BestPlan) -> None:
        causal = AttentionProblem.of((2, 16, 1024, 1024, 64), attn_mask="causal", window=(511, 0), alibi=True)
        store.publish(replace(best, problem=causal))
        (link,) = parsed(ask("/")).links("problem?")
        assert (
            f"{SHAPE} alibi=true attn_mask=causal window=511,0".split()[0]
            in parsed(ask("/" + link.split("?")[0], link.split("?")[1])).words
        )
        assert "exact" in parsed(ask("/problem", link.partition("?")[2])).words

    def test_pages(self, ask: Ask, store: Store, best: BestPlan, at_shape: Callable[..., BestPlan]) -> None:
        store.publish_all([at_shape(best, 1, 1, 16 * k, 64, 64) for k in range(1, 251)])
        seen: list[str] = []
        query = ""
        while True:
            page = parsed(ask("/", query))
            seen += [row[0] for row in page.rows[1:]]
            following = page.links("?before=")
            if not following:
                break
            query = following[0].removeprefix("?").partition("#")[0]
        assert seen == [f"1,1,{16 * k},64,64" for k in range(250, 0, -1)]
        assert "Nothing earlier" in parsed(ask("/", "before=1")).words

    @pytest.mark.parametrize("query", ["before=0", "before=x", "colour=red", "before=1&before=2"])
    def test_refusals(self, ask: Ask, query: str) -> None:
        assert query.partition("=")[0] in parsed(ask("/", query), 422).words


class TestProblem:
    def test_without_a_question_it_is_a_form(self, ask: Ask) -> None:
        names = {attributes.get("name") for _, attributes in parsed(ask("/problem")).tags}
        assert {"shape", "device", "op", "attn_mask", "dtype", "dropout", "alibi", "window"} <= names

    def test_the_served_plan(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(best)
        page = parsed(ask("/problem", f"shape={SHAPE}&window=&dropout="))
        for words in (
            "Br 128 \N{MULTIPLICATION SIGN} Bc 256",
            "exact",
            "200 us emulated",
            "1.25 x of 250 us",
            "8 of 128 rows",
            "lattice",
        ):
            assert words in page.words
        (link,) = page.links("best?")
        assert ask("/best", link.partition("?")[2]).json()["match"] == "exact"

    def test_a_plan_of_a_sweep_that_goes_on(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(replace(best, finished=False))
        page = parsed(ask("/problem", f"shape={SHAPE}"))
        assert "unfinished" in page.words
        assert "autotune sweep" in page.words

    def test_a_borrowed_plan_says_so_and_how_to_sweep(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(best)
        page = parsed(ask("/problem", "shape=1,16,1024,1024,64"))
        for words in ("never swept", "1.00 doublings", "autotune sweep --device emulated:Ascend910A --shape 1,16"):
            assert words in page.words
        assert f"problem?shape={SHAPE}&device=Ascend910A" in page.links("problem?")
        assert [each.problem.batch for each in _wanted(ask, store)] == [1]

    def test_the_default_says_so(self, ask: Ask) -> None:
        assert "not tuned" in parsed(ask("/problem", f"shape={SHAPE}")).words

    def test_what_was_tried(self, ask: Ask, store: Store, best: BestPlan, trials: list[Trial]) -> None:
        store.publish(best)
        for trial in trials:
            store.record(trial)
        page = parsed(ask("/problem", f"shape={SHAPE}"))
        assert ["64", "64", "timed", "220 us, 1.10 x the fastest, even, double buffer"] in page.rows
        assert ["16", "64", "failed", "verify: error 0.5"] in page.rows
        assert ["256", "256", "illegal", "rejected: UB needs 300000 bytes"] in page.rows
        assert ["2", "failed to verify: error …", "16 x 64, even over 1 cores"] in page.rows
        assert page.words.count("Br 64, Bc 64: ") == 3  # the large map and two small ones
        (link,) = [link for link in page.links("plans/") if "/trials" in link]
        body = TrialsBody.model_validate_json(
            ask("/" + link.partition("?")[0].replace("%3B", ";").replace("%2C", ","), link.partition("?")[2]).body
        )
        assert [each.status for each in body.trials] == ["timed"] * 3 + ["failed"] * 2 + ["rejected"]

    def test_history_and_decisions(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(best)
        store.publish(replace(best, timing=replace(best.timing, time_us=100.0)))
        store.pin(1, Decision("me", "<2 is wrong>", best.measured_at))
        page = parsed(ask("/problem", f"shape={SHAPE}"))
        assert "pinned" in page.words
        assert [row[:2] for row in page.rows if row[0] in "12"] == [["2", "100 us emulated"], ["1", "200 us emulated"]]
        assert ["2026-12-01T02:13:44Z", "pin 1", "me", "<2 is wrong>"] in page.rows

    @pytest.mark.parametrize(
        ("given", "status", "words"),
        [
            ({"shape": "1,2,3"}, 422, "shape"),
            ({"shape": "<script>alert(1)</script>"}, 422, "has 1 number(s)"),
            ({"op": "flash_attention"}, 422, "shape is missing"),
            ({"shape": SHAPE, "device": "nowhere"}, 422, "nowhere"),
            ({"shape": SHAPE, "colour": "red"}, 422, "colour"),
            ({"shape": SHAPE, "allow": "exact"}, 404, "none of the rungs"),
        ],
    )
    def test_refusals_keep_what_was_typed(self, ask: Ask, given: dict[str, str], status: int, words: str) -> None:
        reply = ask("/problem", urlencode(given))
        assert words in parsed(reply, status).words
        assert "<script" not in reply.body.decode()
        if "shape" in given:
            assert f'value="{given["shape"]}"' in unescape(reply.body.decode())


def _wanted(ask: Ask, store: Store) -> Any:
    ask("/missing")
    return store.wanted()


class TestMissing:
    def test_wanted_problems(self, ask: Ask) -> None:
        assert "Nobody has asked" in parsed(ask("/missing")).words
        for _ in range(3):
            ask(query=f"shape={SHAPE}&alibi=true")
        page = parsed(ask("/missing"))
        assert page.rows[1][:3] == [f"{SHAPE} alibi=true", "Ascend910A", "3"]
        assert page.links("problem?") == [f"problem?shape={SHAPE}&device=Ascend910A&alibi=true"]


class TestCompare:
    def test_two_plans_of_a_problem(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(best)
        store.publish(replace(best, timing=replace(best.timing, time_us=160.0), plan=TilingPlan(64, 256)))
        page = parsed(ask("/compare", "left=1&right=2"))
        assert "Revision 2 is 1.250 x as fast as revision 1." in page.words
        assert ["Br", "128", "64"] in page.rows
        assert ["Bc", "256", "256"] in page.rows
        assert page.words == parsed(ask("/compare", "left=1&right=2")).words

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"problem": AttentionProblem.of((1, 1, 64, 64))}, "different problems"),
            ({"device": "Elsewhere"}, "different problems or chips"),
            ({"target": "cann:0", "kind": MEASURED}, "different clocks"),
            ({"fingerprint": "f2"}, "The same plan, timed twice"),
        ],
    )
    def test_times_that_say_nothing_of_each_other(
        self, ask: Ask, store: Store, best: BestPlan, changes: dict[str, Any], words: str
    ) -> None:
        kind = changes.pop("kind", best.timing.kind)
        store.publish(best)
        store.publish(replace(best, timing=replace(best.timing, kind=kind), **changes))
        assert words in parsed(ask("/compare", "left=1&right=2")).words

    @pytest.mark.parametrize(
        ("query", "status", "words"),
        [
            ("left=1", 422, "right is missing"),
            ("left=1&right=x", 422, "right"),
            ("left=1&right=99", 404, "no revision 99"),
            ("left=0&right=1", 422, "left"),
        ],
    )
    def test_refusals(self, ask: Ask, store: Store, best: BestPlan, query: str, status: int, words: str) -> None:
        store.publish(best)
        assert words in parsed(ask("/compare", query), status).words
        assert parsed(ask("/compare")).rows == []


class TestHeatMap:
    def test_the_large_map_has_the_best_of_each_place(self, best: BestPlan, trials: list[Trial]) -> None:
        def check(_problem: AttentionProblem, plan: TilingPlan) -> None:
            if plan.Br * plan.Bc > 128 * 256:
                raise PlanRejected("UB is too small")

        found = heatmap.large(trials, best.problem, best.plan, check)
        assert found is not None
        cells = {(cell.Br, cell.Bc): cell for cell in found.cells}
        assert set(found.Br) == {16, 32, 64, 128, 256, 512}
        assert set(found.Bc) == {16, 32, 64, 128, 256, 512}
        assert (cells[64, 64].time_us, cells[64, 64].level, cells[128, 256].level) == (220.0, 3, 0)
        assert [cells[place].state for place in ((16, 64), (256, 256), (512, 512), (32, 32))] == [
            "failed", "illegal", "illegal", "untried",
        ]  # fmt: skip
        assert found.fastest == cells[128, 256]
        single, double = heatmap.small(trials, found)
        assert (single.title, double.title) == ("even", "even, double buffer")
        assert {c.time_us for c in double.cells} == {None, 220.0}

    def test_no_trials_no_map(self, best: BestPlan) -> None:
        assert heatmap.large([], best.problem, best.plan, lambda problem, plan: None) is None

    def test_every_level_has_a_colour_and_words(self, ask: Ask) -> None:
        style = ask("/style.css").body.decode()
        assert len(heatmap.levels()) == len(heatmap.LEVELS) + 1
        for level in range(len(heatmap.LEVELS) + 1):
            assert f".q{level} rect" in style

    def test_many_sizes_stay_readable(self, best: BestPlan) -> None:
        trials = [tried(best, TilingPlan(16 * k, 16), 100.0 + k) for k in range(1, 64)]
        found = heatmap.large(trials, best.problem, best.plan, lambda problem, plan: None)
        assert found is not None
        assert len(found.Br) == heatmap.MOST_SIZES


class TestTrials:
    @pytest.mark.parametrize("limit", [1, 4, 6, 500])
    def test_pages(self, ask: Ask, store: Store, trials: list[Trial], limit: int) -> None:
        for trial in trials:
            store.record(trial)
        path, seen, query = f"/plans/{trials[0].problem.key}/trials", [], f"limit={limit}"
        while True:
            reply = ask(path, query)
            body = TrialsBody.model_validate_json(reply.body)
            seen += [(each.plan.Br, each.plan.Bc, each.time_us, each.reason) for each in body.trials]
            assert ("link" in reply.headers) == (body.next is not None)
            if body.next is None:
                break
            query = f"limit={limit}&cursor={body.next}"
        assert seen == [
            (128, 256, 200.0, None), (64, 64, 250.0, None), (64, 64, 220.0, None), (16, 64, None, "error 0.5"),
            (16, 128, None, "error 0.7"), (256, 256, None, "UB needs 300000 bytes"),
        ]  # fmt: skip

    def test_of_nothing(self, ask: Ask) -> None:
        assert ask(f"/plans/{quote('flash_attention;9,9,9,9,9')}/trials").status == 404


def test_commands_and_calls_name_every_option() -> None:
    problem = AttentionProblem.of(
        (1, 2, 64, 64, 32), op="flash_attention_grad", attn_mask="causal", window=(511, 0), dropout=True
    )
    assert links.command(problem, "cpu") == (
        "autotune sweep --device cpu --shape 1,2,64,64,32 --op flash_attention_grad --attn-mask causal --dropout "
        "--window 511,0"
    )
    assert links.call(problem, "Host", "http://h:1") == (
        "plan = best((1, 2, 64, 64, 32), op='flash_attention_grad', attn_mask='causal', dropout=True, "
        "window=(511, 0), device='Host', url='http://h:1')"
    )


def test_ages() -> None:
    now = datetime(2026, 12, 7, 12, tzinfo=UTC)
    instants = ("2026-12-04T11:00:00Z", "2026-12-07T07:00:00Z", "2026-12-07T11:58:00Z", "2026-12-07T11:59:59Z", "once")
    assert [age(instant, now) for instant in instants] == ["3 d", "5 h", "2 min", "now", "once"]
