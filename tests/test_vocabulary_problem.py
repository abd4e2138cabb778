"""autotune/problem.py: what is a problem, its canonical key, its JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ProblemError
from autotune.problem import AttentionProblem, parse_shape, parse_window

SHAPE = (2, 16, 1024, 512, 64)

shapes = st.tuples(
    st.integers(1, 64), st.integers(1, 64), st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 256)
)
windows = st.none() | st.tuples(st.integers(0, 5000), st.integers(0, 5000))
options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["flash_attention", "flash_attention_grad"]),
        "dtype": st.sampled_from(["float16", "bfloat16"]),
        "attn_mask": st.sampled_from(["none", "full", "shared", "causal"]),
        "dropout": st.booleans(),
        "alibi": st.booleans(),
        "window": windows,
        "block_window": windows,
        "high_precision": st.booleans(),
    },
)
problems = st.builds(lambda shape, chosen: AttentionProblem.of(shape, **chosen), shapes, options)


@given(problems)
def test_json_both_ways(problem: AttentionProblem) -> None:
    assert AttentionProblem.from_json(json.loads(json.dumps(problem.to_json()))) == problem


few = st.builds(
    lambda queries, window, mask: AttentionProblem.of((1, 1, queries, 16, 16), window=window, attn_mask=mask),
    st.integers(15, 16),
    st.sampled_from([None, (1, 0)]),
    st.sampled_from(["none", "causal"]),
)


@given(few | problems, few | problems)
def test_two_problems_have_one_key_exactly_when_they_are_equal(one: AttentionProblem, other: AttentionProblem) -> None:
    assert (one.key == other.key) == (one == other)
    assert (one.key == other.key) == (one.to_json() == other.to_json())


@given(shapes, options)
def test_changing_one_option_changes_the_key(shape: tuple[int, ...], chosen: dict[str, Any]) -> None:
    problem = AttentionProblem.of(shape, **chosen)
    changed = {**chosen, "dropout": not problem.dropout}
    assert AttentionProblem.of(shape, **changed).key != problem.key


def test_the_key_leaves_defaults_out() -> None:
    assert AttentionProblem.of(SHAPE).key == "flash_attention;2,16,1024,512,64"


def test_the_key_names_what_is_not_at_its_default() -> None:
    problem = AttentionProblem.of(
        SHAPE, "flash_attention_grad", attn_mask="causal", dropout=True, window=(511, 0), block_window=(7, 0)
    )
    assert problem.key == (
        "flash_attention_grad;2,16,1024,512,64;attn_mask=causal;dropout=true;window=511,0;block_window=7,0"
    )


def test_the_wire_form() -> None:
    assert AttentionProblem.of(SHAPE, attn_mask="causal", window=(511, 0)).to_json() == {
        "op": "flash_attention",
        "shape": [2, 16, 1024, 512, 64],
        "dtype": "float16",
        "attn_mask": "causal",
        "dropout": False,
        "alibi": False,
        "window": [511, 0],
        "block_window": None,
        "high_precision": False,
    }


def test_four_numbers_mean_as_many_queries_as_keys() -> None:
    assert AttentionProblem.of((2, 16, 1024, 64)) == AttentionProblem.of((2, 16, 1024, 1024, 64))


@given(problems, shapes)
def test_with_shape_changes_the_shape_alone(problem: AttentionProblem, shape: tuple[int, int, int, int, int]) -> None:
    assert problem.with_shape(shape).to_json() == {**problem.to_json(), "shape": list(shape)}


@given(shapes)
def test_counts(shape: tuple[int, int, int, int, int]) -> None:
    problem = AttentionProblem.of(shape)
    assert problem.heads_total == shape[0] * shape[1]
    assert problem.scores == shape[0] * shape[1] * shape[2] * shape[3]


@pytest.mark.parametrize("dimension", range(5), ids=["B", "H", "Nq", "N", "D"])
@pytest.mark.parametrize("size", [0, -1, True, 2.0, "2", None])
def test_refuses_a_dimension_that_is_no_positive_whole_number(dimension: int, size: Any) -> None:
    shape: list[Any] = list(SHAPE)
    shape[dimension] = size
    with pytest.raises(ProblemError, match=rf"^shape: {('B', 'H', 'Nq', 'N', 'D')[dimension]} is ") as caught:
        AttentionProblem.of(shape)
    assert caught.value.field == "shape"


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        ((1, 1, 64, 64, 257), "D is 257; the head dimension is at most 256"),
        ((1, 1, 2**20 + 1, 64, 64), f"Nq is {2**20 + 1}; a sequence is at most {2**20} tokens"),
        ((1, 1, 64, 2**20 + 1, 64), f"N is {2**20 + 1}; a sequence is at most {2**20} tokens"),
        ((129, 128, 64, 64, 64), f"B*H is {129 * 128}; it is at most {128 * 128}"),
        ((16, 1, 2**20, 2**19, 64), f"B*H*Nq*N is {2**43}; it is at most {2**42}"),
    ],
)
def test_refuses_more_work_than_a_host_should_do(shape: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(ProblemError) as caught:
        AttentionProblem.of(shape)
    assert str(caught.value) == f"shape: {complaint}"


@pytest.mark.parametrize("shape", [(1, 1, 64, 64, 256), (1, 1, 2**20, 2**20, 64), (128, 128, 64, 64, 64)])
def test_accepts_the_limits_themselves(shape: tuple[int, ...]) -> None:
    assert AttentionProblem.of(shape).shape == shape


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("op", "attention"),
        ("op", ["flash_attention"]),
        ("attn_mask", "Causal"),
        ("dtype", "float32"),
        ("dropout", 1),
        ("alibi", "yes"),
        ("high_precision", None),
        ("window", (1,)),
        ("window", (1, -1)),
        ("window", (1, 2.0)),
        ("window", (True, 1)),
        ("window", "12"),
        ("block_window", 7),
    ],
)
def test_refuses_an_option_and_names_it(name: str, value: Any) -> None:
    with pytest.raises(ProblemError) as caught:
        AttentionProblem.of(SHAPE, **{name: value})
    assert caught.value.field == name
    assert str(caught.value).startswith(f"{name} is {value!r}; ")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "shape"),
        ({"shape": None}, "shape"),
        ({"shape": 5}, "shape"),
        ({"shape": [2, 16]}, "shape"),
        ({"shape": [1] * 6}, "shape"),
        ({"shape": "2,16,64,64,64"}, "shape"),
        ({"shape": list(SHAPE), "batch": 2}, "batch"),
        ({"shape": list(SHAPE), "mask": "causal"}, "mask"),
    ],
)
def test_refuses_json_that_is_no_problem(value: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as caught:
        AttentionProblem.from_json(value)
    assert caught.value.field == field


@given(st.lists(st.integers(0, 10**12 - 1), min_size=4, max_size=5))
def test_reads_a_shape(numbers: list[int]) -> None:
    assert parse_shape(",".join(map(str, numbers))) == tuple(numbers)
    assert parse_shape(", ".join(map(str, numbers))) == tuple(numbers)


@given(st.text(max_size=30))
def test_a_shape_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        sizes = parse_shape(text)
    except ProblemError as error:
        assert error.field == "shape"
        assert "write it as B,H,Nq,N,D" in str(error)
    else:
        assert len(sizes) == text.count(",") + 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2,16", "shape '2,16' has 2 number(s); "),
        ("", "shape '' has 1 number(s); "),
        ("1,2,3,4,5,6", "shape '1,2,3,4,5,6' has 6 number(s); "),
        ("2,,64,64", "shape: '' is no whole number; "),
        ("2,16,64,-64", "shape: '-64' is no whole number; "),
        ("2,16,64,6_4", "shape: '6_4' is no whole number; "),
        ("2,16,64,+64", "shape: '+64' is no whole number; "),
        ("2,16,64,1e3", "shape: '1e3' is no whole number; "),
        ("2,16,64,\uff16\uff14", "shape: '\uff16\uff14' is no whole number; "),
        (f"2,16,64,{'9' * 5000}", f"shape: '{'9' * 30}' is no whole number; "),
    ],
)
def test_refuses_a_shape_and_quotes_what_was_typed(text: str, complaint: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_shape(text)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize("name", ["window", "block_window"])
def test_reads_a_window(name: str) -> None:
    assert parse_window(name, "511,0") == (511, 0)
    assert parse_window(name, "511, 0") == (511, 0)


@pytest.mark.parametrize("text", ["511", "1,2,3", "-1,0", "a,b", ""])
def test_refuses_a_window_and_names_it(text: str) -> None:
    with pytest.raises(ProblemError, match="write it as two whole numbers prev,next") as caught:
        parse_window("block_window", text)
    assert caught.value.field == "block_window"
