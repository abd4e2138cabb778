"""The explain page: what the command says, for the plan that /best answers, within bounds."""

from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest

from autotune.cli import composition
from autotune.db.store import Store
from autotune.explain import explain
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.outcome import BestPlan
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.service import explaining
from autotune.service.app import create_app
from autotune.service.device import Device
from autotune.strategies.core_split import complete

SHAPE = "1,2,256,256,64"
Ask = Callable[..., Any]


class Balanced(HTMLParser):
    """Fails at a tag that is closed in the wrong order; keeps the tags."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def real() -> Device:
    return composition.devices("emulated:Ascend910A")["Ascend910A"]


@pytest.fixture
def page(store: Store, real: Device, best: BestPlan, ask_app: Ask) -> Ask:
    known = replace(best, problem=AttentionProblem.of((1, 2, 256, 256, 64)), plan=replace(best.plan, Br=64, Bc=128))
    store.publish(known)
    host = replace(real, hardware=replace(real.hardware, name="Host"), fingerprints={"cpu": "f"}, explain=None)
    ask = ask_app(create_app(store=store, devices={"Ascend910A": real, "Host": host}))

    def get(**given: Any) -> Any:
        return ask("/explain", urlencode(given))

    return get


def test_it_shows_what_the_command_says_of_the_served_plan(page: Ask, best: BestPlan) -> None:
    reply = page(shape=SHAPE)
    assert reply.status == 200
    shown = unescape(reply.body.decode())
    Balanced(reply.body.decode())
    target, problem = EmulatedTarget("Ascend910A"), AttentionProblem.of((1, 2, 256, 256, 64))
    plan = complete(replace(best.plan, Br=64, Bc=128), problem, target.hardware)
    value = explain(target, problem, plan).to_json()
    for text in (
        "64 x 128", "match exact", value["clock"], f"{value['time_us']:.4g} us",
        f"{value['cycles']} cycles", f"{value['roofline']['reached']:.0%} of it",
        *(f"{pipe['busy_share']:.1%}" for pipe in value["pipes"].values()),
        value["stalls"][0]["line"], value["stalls"][0]["cause"], value["stalls"][0]["source"],
        *map(str, value["bytes_moved"].values()),
    ):  # fmt: skip
        assert text in shown


def test_other_blocks_of_the_served_plan(page: Ask) -> None:
    shown = page(shape=SHAPE, Br="32", Bc="", device="Ascend910A", op="flash_attention", attn_mask="none")
    assert shown.status == 200
    assert "32 x 128" in shown.body.decode()
    assert "blocks as given" in shown.body.decode()


def test_without_a_question_it_is_a_form(page: Ask) -> None:
    reply = page()
    names = {attributes.get("name") for tag, attributes in Balanced(reply.body.decode()).tags if tag in FIELDS}
    assert reply.status == 200
    assert {"shape", "device", "op", "attn_mask", "Br", "Bc"} <= names
    assert "Host" not in reply.body.decode()


FIELDS = ("input", "select")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shape": "1,2,3"}, "shape"),
        ({"shape": "<script>alert(1)</script>"}, "shape"),
        ({"Br": "32"}, "shape is missing"),
        ({"shape": SHAPE, "Br": "17"}, "multiple of 16"),
        ({"shape": SHAPE, "Br": "x"}, "Br"),
        ({"shape": SHAPE, "Br": "256", "Bc": "256", "attn_mask": "full"}, "cannot be executed"),
        ({"shape": SHAPE, "device": "Host"}, "Host measures"),
        ({"shape": SHAPE, "device": "nowhere"}, "nowhere"),
        ({"shape": SHAPE, "colour": "red"}, "colour"),
        ({"shape": "1,1,1048576,16,64", "attn_mask": "causal", "Br": "16"}, "more than 512 blocks"),
    ],
)
def test_what_cannot_be_explained_is_said_on_the_page(page: Ask, given: dict[str, str], words: str) -> None:
    reply = page(**given)
    text = reply.body.decode()
    assert reply.status == 422
    assert words in unescape(text)
    assert "<script" not in text
    Balanced(text)


def test_pages_load_one_style_sheet_of_their_own(page: Ask, ask: Ask) -> None:
    for reply in (page(shape=SHAPE), ask("/docs")):
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert "style=" not in reply.body.decode()
        assert "<style" not in reply.body.decode()
    assert ask("/style.css").headers["content-type"].startswith("text/css")


def test_one_explanation_is_made_at_a_time_and_kept(
    store: Store, real: Device, ask_app: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = []

    def explained(problem: AttentionProblem, plan: TilingPlan) -> Any:
        statuses.append(get("1,2,64,64,64"))
        assert real.explain is not None
        return real.explain(problem, plan)

    def get(shape: str) -> int:
        status: int = ask("/explain", urlencode({"shape": shape})).status
        return status

    monkeypatch.setattr(explaining, "WAIT_S", 0.01)
    ask = ask_app(create_app(store=store, devices={"Ascend910A": replace(real, explain=explained)}))
    assert [get(SHAPE), get(SHAPE)] == [200, 200]
    assert statuses == [503]
