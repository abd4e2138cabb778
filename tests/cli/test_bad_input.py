"""Every bad input is one sentence on stderr and exit code 2, and nothing is left behind."""

import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

GOOD = "--shape 1,1,64,64,64"
BAD_PROBLEMS = [
    ("--shape 2,16", "shape '2,16' has 2 number(s); write it as B,H,Nq,N,D"),
    ("--shape 0,1,64,64,64", "shape: B is 0; every dimension must be at least 1"),
    ("--shape 1,1,64,64,300", "shape: D is 300; the head dimension is at most 256"),
    ("--shape 1,1,64,64,x", "shape: 'x' is no whole number"),
    (f"{GOOD} --op attention", "op is 'attention'; it must be one of flash_attention, flash_attention_grad"),
    (f"{GOOD} --attn-mask sideways", "attn_mask is 'sideways'; it must be one of"),
    (f"{GOOD} --device cpu --op flash_attention_grad", "only the kernels for NPUs compute op flash_attention_grad yet"),
    (f"{GOOD} --window 511", "window '511' has 1 number(s)"),
    (f"{GOOD} --block-window 7,-1", "block_window: '-1' is no whole number"),
    (f"{GOOD} --dtype bfloat16", "no kernel for NPUs computes data types other than float16 yet"),
    (f"{GOOD} --nonsense", "No such option: --nonsense"),
]
BAD_SWEEPS = [
    (f"{GOOD} --device nowhere:Ascend910A", "known: emulated:Ascend310,"),
    (f"{GOOD} --device Ascend910A", "--device 'Ascend910A' is no kind:name; known: emulated:Ascend310,"),
    (f"{GOOD} --device emulated:Ascend910a", "did you mean emulated:Ascend910A?"),
    (f"{GOOD} --strategy sprase", "--strategy 'sprase' is unknown; did you mean sparse? known: sparse,"),
    (f"{GOOD} --trials 0", "--trials is '0'; it must be a whole number from 1"),
    (f"{GOOD} --trials many", "--trials is 'many'; it must be a whole number from 1"),
    (f"{GOOD} --budget 8", "--budget is '8'; write a time as 8h, 90m or 30s"),
    (f"{GOOD} --budget 0h", "--budget is '0h'; write a time as 8h, 90m or 30s"),
    ("", "nothing to tune: give --shape, --workload, --from-config or --wanted"),
    (f"{GOOD} --until 7", "--until is '7'; write a time of day as 07:00"),
    (f"{GOOD} --until 24:00", "--until is '24:00'; write a time of day as 07:00"),
    (f"{GOOD} --until 07:00 --budget 8h", "--budget and --until exclude each other"),
    (f"{GOOD} --lengths 512", "--lengths belongs to --from-config"),
    ("--workload none.yaml", "autotune: --workload: cannot read none.yaml: No such file or directory"),
    ("--workload shapes.txt", "its name must end with .yaml, .yml, .json, .csv"),
    ("--from-config config.json", "--from-config needs --lengths"),
    ("--from-config config.json --lengths 5x", "--lengths is '5x'; write whole numbers with commas"),
    (
        "--from-config none.json --lengths 512",
        "autotune: --from-config: cannot read none.json: No such file or directory",
    ),
    (f"{GOOD} --workers many", "--workers is 'many'; it must be auto or a whole number from 0"),
    (f"{GOOD} --device cpu --workers 2", "--workers 2: trials on cpu would disturb each other; it takes 1"),
    (f"{GOOD} --seed -1", "--seed is '-1'; it must be a whole number from 0"),
]
BAD_QUESTIONS = [
    ("", "Missing option '--shape'."),
    (f"{GOOD} --device Ascend999", "device 'Ascend999' is unknown; the known ones are"),
    (f"{GOOD} --allow exact,perfect", "--allow 'perfect' is unknown; known: pinned, exact, nearest, default"),
    (f"{GOOD} --url http://127.0.0.1:8321", "--db and --url exclude each other"),
]
BAD_SERVICES = [
    ("--port 0", "--port is '0'; it must be a whole number from 1 to 65535"),
    ("--port web", "--port is 'web'; it must be a whole number from 1 to 65535"),
    ("--host 192.0.2.1 --port 8321", "cannot listen on 192.0.2.1 port 8321: Cannot assign requested address"),
    ("--host no.such.host.invalid", "cannot listen on no.such.host.invalid port 8321: "),
]
CASES = [
    *(("sweep", *case) for case in BAD_PROBLEMS + BAD_SWEEPS),
    *(("best", *case) for case in BAD_PROBLEMS + BAD_QUESTIONS),
    *(("serve", *case) for case in BAD_SERVICES),
]


@pytest.mark.parametrize(("command", "options", "sentence"), CASES)
def test_one_sentence_and_exit_code_2(run: Run, folder: Path, command: str, options: str, sentence: str) -> None:
    ran = run(command, *shlex.split(options), "--db", "sqlite:///new.db")
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.startswith("autotune: ")
    assert ran.err.count("\n") == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["sweep", "best", "serve"])
@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("plans.db", "the database URL cannot be read; write it as sqlite:///FILE"),
        ("mysql://host/plans", "'mysql' databases are not supported"),
        ("sqlite:///no/such/folder/plans.db", "there is no folder"),
        ("sqlite:///.", "is a folder; name a file in it"),
        ("sqlite:////proc/plans.db", "cannot be opened or created; look at the permissions"),
        ("sqlite:///corrupt.db", "corrupt.db is not a database; name another file with --db"),
    ],
)
def test_a_database_that_cannot_be_used(run: Run, folder: Path, command: str, url: str, sentence: str) -> None:
    (folder / "corrupt.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    where = ("--port", str(free_port())) if command == "serve" else ("--shape", "1,1,64,64,64")
    if command == "best" and "/proc/" in url:
        sentence = "there is no database /proc/plans.db"
    ran = run(command, *where, "--db", url)
    assert ran.code == 2
    assert sentence in ran.err
    assert ran.err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["corrupt.db"]


def test_a_port_in_use(run: Run, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", "--port", str(port), "--db", "sqlite:///new.db")
    assert ran.code == 2
    assert ran.err == (
        f"autotune: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port\n"
    )
    assert list(folder.iterdir()) == []


def test_a_database_that_is_not_there(run: Run, folder: Path) -> None:
    ran = run("best", "--shape", "1,1,64,64,64", "--db", "sqlite:///new.db")
    assert ran.code == 2
    assert "there is no database" in ran.err
    assert list(folder.iterdir()) == []


def test_a_variable_that_makes_no_sense(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_TRIALS", "zero")
    ran = run("sweep", "--shape", "1,1,64,64,64")
    assert (ran.code, ran.err) == (
        2,
        "autotune: AUTOTUNE_TRIALS is 'zero'; it must be a whole number from 1 to 1000000\n",
    )


def test_an_unknown_command(run: Run) -> None:
    ran = run("sweeep")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("autotune: No such command 'sweeep'.")


def test_a_chip_that_no_kernel_runs_on_is_no_fault_of_the_input(run: Run, folder: Path) -> None:
    ran = run("sweep", "--shape", "1,1,64,64,64", "--device", "emulated:Ascend910B1")
    assert ran.code == 1
    assert "no kernel here runs on those yet" in ran.err
    assert list(folder.iterdir()) == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
