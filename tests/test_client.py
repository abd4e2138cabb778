"""The client: an answer is used only when it can be right, and nothing that goes wrong stops a kernel build."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune import client
from autotune.client import NoTunedPlan, TuningWarning, best

SHAPE = (2, 16, 1024, 1024, 64)
DEFAULT = (128, 128, 128, 128, 8, 8)


def answer(shape: tuple[int, ...] = SHAPE, **changes: Any) -> dict[str, Any]:
    """What the service answers; ``changes`` go to the plan, or to the answer where it has that name."""
    body: dict[str, Any] = {
        "problem": {
            "op": "flash_attention", "shape": list(shape), "dtype": "float16", "attn_mask": "none", "dropout": False,
            "alibi": False, "window": None, "block_window": None, "high_precision": False,
        },
        "device": "Ascend910A",
        "plan": {
            "Br": 128, "last_Br": 128, "Bc": 256, "last_Bc": 256, "Tr": 8, "Tc": 4,
            "core_split": {"rule": "balanced", "block_num": 32}, "double_buffer": True, "strategy": "lattice",
        },
        "match": "exact",
        "provenance": {"target": "emulated:Ascend910A"},
    }  # fmt: skip
    for name, value in changes.items():
        (body if name in body else body["plan"])[name] = value
    return body


class QuietServer(ThreadingHTTPServer):
    """A client that hangs up is part of these tests."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing."""


class Service:
    """A service on this machine that answers every question with ``reply``'s (status, body)."""

    def __init__(self) -> None:
        self.questions: list[dict[str, list[str]]] = []
        self.reply: Callable[[], tuple[int, bytes]] = lambda: (200, json.dumps(answer()).encode())
        self.server = QuietServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def says(self, body: object, status: int = 200) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.reply = lambda: (status, content)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.questions.append({"path": [urlsplit(self.path).path], **parse_qs(urlsplit(self.path).query)})
                status, body = service.reply()
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        return Handler


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOTUNE_URL", raising=False)


def quietly(shape: Any, **options: Any) -> client.TunedPlan:
    """``best`` where a warning would be a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return best(shape, timeout_s=5.0, **options)


def fallback(reason: str, *args: Any, **options: Any) -> client.TunedPlan:
    """``best`` where exactly one warning with ``reason`` must come."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = best(*args, **options)
    (warning,) = caught
    assert warning.category is TuningWarning and warning.filename == __file__
    assert reason in str(warning.message)
    return plan


# --- the service -----------------------------------------------------------------------------------------------------


def test_an_exact_answer(service: Service) -> None:
    plan = quietly(SHAPE, url=service.url)
    assert plan.tiling == (128, 128, 256, 256, 8, 4)
    assert (plan.Br, plan.last_Br, plan.Bc, plan.last_Bc, plan.Tr, plan.Tc) == plan.tiling
    assert plan.core_split == ("balanced", 32) and plan.double_buffer
    assert (plan.source, plan.match) == ("service", "exact") and plan.answer == answer()


def test_the_rung_of_the_ladder_is_passed_on(service: Service) -> None:
    service.says(answer(match="nearest"))
    assert quietly(SHAPE, url=service.url).match == "nearest"


def test_the_question_holds_what_is_not_at_its_default(service: Service) -> None:
    problem = {**answer()["problem"], "attn_mask": "causal", "window": [511, 0], "dropout": True}
    service.says(answer(problem=problem))
    quietly(SHAPE, url=f"{service.url}/", attn_mask="causal", window=(511, 0), dropout=True, allow="exact,nearest")
    assert service.questions == [
        {
            "path": ["/best"], "shape": ["2,16,1024,1024,64"], "op": ["flash_attention"], "device": ["Ascend910A"],
            "attn_mask": ["causal"], "window": ["511,0"], "dropout": ["true"], "allow": ["exact,nearest"],
        }
    ]  # fmt: skip


def test_four_numbers_mean_as_many_queries_as_keys(service: Service) -> None:
    assert quietly((2, 16, 1024, 64), url=service.url).source == "service"
    assert service.questions[0]["shape"] == ["2,16,1024,1024,64"]


def test_the_address_comes_from_the_environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_URL", service.url)
    assert quietly(SHAPE).source == "service"


@pytest.mark.parametrize("unknown", [None, False])
def test_a_later_service_may_know_more_fields(service: Service, unknown: object) -> None:
    later = answer()
    later["problem"]["paged"] = unknown
    later["plan"]["prefetch"] = 3
    service.says(later)
    assert quietly(SHAPE, url=service.url).source == "service"


@pytest.mark.parametrize(("Br", "Bc", "shape"), [(112, 80, (1, 1, 100, 77, 64)), (100, 77, (1, 1, 100, 77, 64))])
def test_a_block_may_be_the_length_or_the_padded_length(service: Service, Br: int, Bc: int, shape: Any) -> None:
    service.says(answer(shape, Br=Br, last_Br=100, Bc=Bc, last_Bc=77, Tr=1, Tc=1))
    assert quietly(shape, url=service.url).tiling == (Br, 100, Bc, 77, 1, 1)


NO_BLOCK: list[Any] = [0, -16, 17, 1040, 10**30, True, "128", 128.0, None, []]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "JSONDecodeError"),
        (b"", "JSONDecodeError"),
        (b"\xff\xfe", "UnicodeDecodeError"),
        (b"[" * 100_000, "gave no answer"),
        (b" " * (client.MAX_ANSWER_BYTES + 1), "more than 1048576 bytes"),
        ([], "the answer has no plan"),
        ({}, "the answer has no plan"),
        (answer(plan=[128, 256]), "the answer has no plan"),
        (answer(problem=None), "another problem"),
        (answer((2, 16, 1024, 2048, 64)), "another problem"),
        (answer(problem={**answer()["problem"], "attn_mask": "causal"}), "another problem"),
        (answer(problem={**answer()["problem"], "paged": True}), "another problem"),
        *((answer(Br=rows), f"the plan's Br is {rows!r}") for rows in NO_BLOCK),
        *((answer(Bc=rows), f"the plan's Bc is {rows!r}") for rows in NO_BLOCK),
        (answer(last_Br=64), "the plan's last_Br is 64, and its blocks make it 128"),
        (answer(last_Bc=None), "the plan's last_Bc is None"),
        (answer(Tc=8), "the plan's Tc is 8, and its blocks make it 4"),
        (answer(Tr=8.0), "the plan's Tr is 8.0"),
        *((answer(core_split=split), "no rule with a number of cores") for split in (
            "even", {}, {"rule": "even"}, {"rule": "even", "block_num": 0}, {"rule": 3, "block_num": 32},
        )),
        (answer(match=3), "wrong kind"),
        (answer(double_buffer="yes"), "wrong kind"),
    ],
)  # fmt: skip
def test_nonsense_leads_to_the_default(service: Service, body: object, reason: str) -> None:
    service.says(body)
    plan = fallback(reason, SHAPE, url=service.url, timeout_s=5.0)
    assert plan.tiling == DEFAULT and (plan.source, plan.match, plan.core_split) == ("default", "default", None)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"Internal Server Error", "it answered 500: no reason given"),
        (404, {"detail": "none of the rungs has a legal plan"}, "it answered 404: none of the rungs has a legal plan"),
        (422, {"detail": ["odd"]}, "it answered 422: ['odd']"),
        (302, answer(), "it answered 302"),
        (503, ["detail"], "it answered 503: no reason given"),
    ],
)
def test_an_error_leads_to_the_default_and_tells_the_reason(
    service: Service, status: int, body: object, reason: str
) -> None:
    service.says(body, status)
    plan = fallback(reason, SHAPE, url=service.url, timeout_s=5.0)
    assert plan.tiling == DEFAULT and len(service.questions) == 1


def test_the_warning_says_what_is_used_for_what_and_why(service: Service) -> None:
    service.says({"detail": "starting"}, 503)
    with pytest.warns(TuningWarning) as caught:
        best((1, 2, 300, 77, 40), op="flash_attention_grad", device="Ascend310P3", url=service.url, timeout_s=5.0)
    assert str(caught[0].message) == (
        "using the default blocks of 128 x 77 for flash_attention_grad 1,2,300,77,40 on Ascend310P3 "
        "(service: it answered 503: starting)"
    )


def test_a_slow_service_costs_no_more_than_the_time_out(service: Service) -> None:
    def reply() -> tuple[int, bytes]:
        time.sleep(1.0)
        return 200, json.dumps(answer()).encode()

    service.reply = reply
    start = time.monotonic()
    plan = fallback("gave no answer", SHAPE, url=service.url)
    assert plan.tiling == DEFAULT and time.monotonic() - start < 0.7


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://host/",
        "http://",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:1",
        "http://[",
        "http://a b/",
    ],
)
def test_a_useless_address_leads_to_the_default(url: str) -> None:
    assert fallback("service: ", SHAPE, url=url).tiling == DEFAULT


def test_nothing_named_says_what_to_set() -> None:
    assert fallback("set AUTOTUNE_URL, or pass url= or file=", SHAPE).source == "default"


def test_strict_raises_instead_of_the_default(service: Service) -> None:
    service.says({"detail": "no plan"}, 404)
    said = r"no tuned plan for flash_attention 2,16,1024,1024,64 on Ascend910A \(service: it answered 404: no plan\)"
    with pytest.raises(NoTunedPlan, match=said):
        best(SHAPE, url=service.url, timeout_s=5.0, strict=True)


@pytest.mark.parametrize("shape", [(2, 16), (0, 1, 64, 64, 64), (1, 1, 64, 64, 64.0), (1, 1, 64, True), "2,16,64,64"])
def test_a_shape_that_is_none_has_no_default(shape: Any) -> None:
    with pytest.raises(ValueError, match="five whole numbers"):
        best(shape)


def test_an_unknown_option_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError):
        best(SHAPE, causal=True)  # type: ignore[call-arg]


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_default_has_real_tails(Nq: int, N: int) -> None:
    with pytest.warns(TuningWarning):
        plan = best((1, 1, Nq, N, 64), url="")
    for block, last, count, length in ((plan.Br, plan.last_Br, plan.Tr, Nq), (plan.Bc, plan.last_Bc, plan.Tc, N)):
        assert block == min(128, length) and 1 <= last <= block and (count - 1) * block + last == length


# --- a file ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plans.json"


OTHERS = [answer((1, 1, 64, 64, 64), Br=64), answer(device="Ascend310P3", Br=64), "noise", None]


@pytest.mark.parametrize(
    "wrap", [lambda a: a, lambda a: [*OTHERS, a], lambda a: {"answers": [*OTHERS, a], "revision": 1}]
)
def test_the_one_answer_for_problem_and_device(file: Path, wrap: Callable[[Any], Any]) -> None:
    file.write_text(json.dumps(wrap(answer())))
    plan = quietly(SHAPE, file=str(file))
    assert plan.tiling == (128, 128, 256, 256, 8, 4) and (plan.source, plan.match) == ("file", "exact")


def test_a_target_names_the_device_too(file: Path) -> None:
    file.write_text(json.dumps(answer()))
    assert quietly(SHAPE, file=str(file), device="emulated:Ascend910A").source == "file"
    assert fallback("no answer for", SHAPE, file=str(file), device="cann:0").source == "default"


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "3", '{"answers": 3}', json.dumps(OTHERS), "[" * 100_000])
def test_a_file_without_the_answer_leads_to_the_default(file: Path, content: str) -> None:
    file.write_text(content)
    assert fallback(f"file: {file}", SHAPE, file=str(file)).tiling == DEFAULT


def test_a_missing_file_leads_to_the_default(file: Path) -> None:
    assert fallback("FileNotFoundError", SHAPE, file=str(file)).tiling == DEFAULT


def test_a_nonsense_plan_in_a_file_leads_to_the_default(file: Path) -> None:
    file.write_text(json.dumps(answer(Br=17)))
    assert fallback("the plan's Br is 17", SHAPE, file=str(file)).tiling == DEFAULT


def test_a_file_that_is_given_outranks_the_environment(
    file: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_URL", service.url)
    file.write_text(json.dumps(answer()))
    assert quietly(SHAPE, file=str(file)).source == "file" and service.questions == []


def test_the_file_stands_in_for_the_service(file: Path, service: Service) -> None:
    file.write_text(json.dumps(answer()))
    assert quietly(SHAPE, file=str(file), url=service.url).source == "service"
    service.says({"detail": "starting"}, 503)
    plan = fallback("using the file blocks of 128 x 256", SHAPE, file=str(file), url=service.url, timeout_s=5.0)
    assert plan.source == "file"


# --- the file by itself ----------------------------------------------------------------------------------------------


def test_it_is_one_file_of_python_3_8_with_the_standard_library_alone(tmp_path: Path) -> None:
    source = Path(client.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    (tmp_path / "tuning_client.py").write_text(source)
    script = "import sys; sys.path.insert(0, sys.argv[1]); import tuning_client; "
    script += "print(tuning_client.best((1, 1, 64, 64), url='').Br)"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "64\n" and "TuningWarning" in ran.stderr


def test_importing_it_is_cheap() -> None:
    slow = {"http", "json", "socket", "urllib", "threading", "dataclasses"}
    script = f"import autotune.client, sys; print(*sorted({slow} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(client.__file__).parents[1],
    )
    assert ran.stdout == "\n"
