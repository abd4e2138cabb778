"""Problems from files, a model's config, and what the service was asked for."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.options import ProblemOptions, seconds_until
from autotune.cli.workload import read_config, read_problems
from autotune.db.store import Store
from autotune.errors import InvalidInput
from autotune.problem import AttentionProblem

OPTIONS = ProblemOptions("flash_attention", "causal", False, False, None, None, False, "float16")
PROBLEMS = [
    AttentionProblem("flash_attention", 2, 16, 1024, 1024, 64, attn_mask="causal"),
    AttentionProblem("flash_attention", 1, 8, 512, 2048, 128, attn_mask="none", dropout=True),
]
ENTRIES = [{"shape": "2,16,1024,64"}, {"shape": [1, 8, 512, 2048, 128], "attn_mask": "none", "dropout": True}]
FILES = {
    "a.yaml": "- shape: 2,16,1024,64\n- {shape: [1, 8, 512, 2048, 128], attn_mask: none, dropout: true}\n",
    "a.yml": "- shape: 2,16,1024,64\n- {shape: [1, 8, 512, 2048, 128], attn_mask: none, dropout: true}\n",
    "a.json": json.dumps(ENTRIES),
    "a.csv": 'shape,attn_mask,dropout\n"2,16,1024,64",,\n"1,8,512,2048,128",none,true\n',
    "columns.csv": "B,H,Nq,N,D,attn_mask,dropout\n2,16,1024,1024,64,,\n1,8,512,2048,128,none,True\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_problems(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    assert read_problems(tmp_path / name, OPTIONS) == PROBLEMS


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.yaml", "", "must be a list of problems"),
        ("a.yaml", "shape: 1,1,64,64,64", "must be a list of problems"),
        ("a.yaml", "- [1, 2", "cannot be read"),
        ("a.yaml", "- !!python/object/apply:os.getpid []", "cannot be read"),
        ("a.json", "[" * 100_000, "cannot be read"),
        ("a.json", "[{}]", "problem 1: shape has 0 numbers"),
        ("a.json", '[{"shape": "1,1,8,8"}, {"shape": "1,1,8,8", "mask": 1}]', "problem 2: unknown problem fields"),
        ("a.json", '[{"shape": "1,1,64,64", "dropout": "yes"}]', "problem 1: dropout is 'yes'"),
        ("a.json", '[{"shape": "1,1,64,64", "op": []}]', "problem 1: op is []"),
        ("a.csv", "shape\n1,1,64,64\n", "more cells than the first; a shape with commas needs quotes"),
        ("a.csv", "B,H,N\n1,1,64\n", "problem 1: shape '1,1,64' has 3 number(s)"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_by_its_entry(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidInput) as refused:
        read_problems(tmp_path / name, OPTIONS)
    assert sentence in str(refused.value) and name in str(refused.value)


@pytest.mark.parametrize(
    ("config", "heads", "head_dim"),
    [
        ({"num_attention_heads": 32, "hidden_size": 4096, "num_key_value_heads": 8}, 32, 128),
        ({"num_attention_heads": 16, "hidden_size": 3072, "head_dim": 256}, 16, 256),
        ({"n_head": 12, "n_embd": 768}, 12, 64),
        ({"num_heads": 6, "d_model": 512, "d_kv": 64}, 6, 64),
        ({"hidden_size": 1, "text_config": {"num_attention_heads": 8, "hidden_size": 512}}, 8, 64),
    ],
)
def test_the_attention_of_a_model(tmp_path: Path, config: Any, heads: int, head_dim: int) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found = read_config(path, "512, 2048", "1,8", OPTIONS)
    shapes = [(1, heads, 512), (1, heads, 2048), (8, heads, 512), (8, heads, 2048)]
    assert [problem.shape for problem in found] == [(b, h, n, n, head_dim) for b, h, n in shapes]
    assert {problem.attn_mask for problem in found} == {"causal"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is no JSON"),
        ("[]", "must be one JSON object"),
        ("{}", "must have num_attention_heads"),
        ('{"num_attention_heads": 0, "hidden_size": 64}', "must have num_attention_heads"),
        ('{"num_attention_heads": 7, "hidden_size": 64}', "width 64 is not a multiple of 7 heads"),
        ('{"num_attention_heads": 1, "hidden_size": 512}', "the head dimension is at most 256"),
    ],
)
def test_a_config_without_attention(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=sentence):
        read_config(path, "512", "1", OPTIONS)


@pytest.mark.parametrize(
    ("until", "hours"), [("23:30", 0.5), ("23:00", 24.0), ("22:00", 23.0), ("07:00", 8.0), ("00:00", 1.0)]
)
def test_until_is_the_next_such_time(until: str, hours: float) -> None:
    assert seconds_until(until, datetime(2026, 12, 31, 23, 0)) == hours * 3600


def test_every_source_is_tuned_and_each_problem_once(run: Callable[..., Any], folder: Path) -> None:
    asked = AttentionProblem.of((1, 1, 48, 48, 16))
    impossible = AttentionProblem.of((1, 1, 64, 64, 16), dtype="bfloat16")
    elsewhere = AttentionProblem.of((1, 1, 80, 80, 16))
    store = Store.open("sqlite:///plans.db")
    for problem, device in [(asked, "Ascend910A"), (impossible, "Ascend910A"), (elsewhere, "cpu-elsewhere")]:
        store.want(problem, device, "2026-12-01T00:00:00Z")
    store.close()
    (folder / "w.csv").write_text('shape\n"1,1,32,32,16"\n"1,1,16,16,16"\n')
    (folder / "config.json").write_text('{"num_attention_heads": 1, "hidden_size": 16}')
    command = ("sweep", "--shape", "1,1,16,16,16", "--workload", "w.csv", "--from-config", "config.json", "--lengths",
               "32,64", "--wanted", "--trials", "1", "--db", "sqlite:///plans.db", "--json")  # fmt: skip
    ran = run(*command)
    lengths = [result["problem"]["shape"][2] for result in json.loads(ran.out)["results"]]
    assert (ran.code, lengths) == (0, [16, 32, 64, 48])
    assert "warning: wanted, and left out: flash_attention;1,1,64,64,16;dtype=bfloat16" in ran.err
    again = json.loads(run(*command).out)["results"]
    assert [result["new_trials"] for result in again] == [0, 0, 0], "what has a plan is wanted no more"


def test_nothing_wanted_is_done_at_once(run: Callable[..., Any]) -> None:
    ran = run("sweep", "--wanted", "--db", "sqlite:///plans.db", "--json")
    assert (ran.code, json.loads(ran.out)["results"]) == (0, [])
