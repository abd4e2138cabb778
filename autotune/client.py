"""Asks for the best known tiling of an attention problem, from inside a kernel build.

One file, standard library only, Python 3.8: copy it next to a kernel, or import it as ``autotune.client``.

::

    plan = best((2, 16, 1024, 1024, 64), attn_mask="causal")  # asks the service at AUTOTUNE_URL
    register(TilingStrategy, batch=2, heads=16)  # and build a public kernel with tiling_stgy_name="tuned"

``best`` never stops a build: without a usable answer in ``timeout_s`` seconds it warns and returns the default tiling.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

OP, DEVICE = "flash_attention", "Ascend910A"
DEFAULT_BLOCK = 128
"""Rows of a block of the default strategy, ``sparse``, where the sequence has as many."""
TILE = 16
"""Block heights are multiples of this, or the whole sequence."""
MAX_ANSWER_BYTES = 1 << 20


class TuningWarning(UserWarning):
    """A tiling that is not the tuned one is used; the text says which, and why."""


class NoTunedPlan(RuntimeError):
    """No usable tuned plan, and ``strict`` was asked for."""


class Tiling(NamedTuple):
    """Block heights, tails and block counts, as the public kernels read them (rows and blocks)."""

    Br: int
    last_Br: int
    Bc: int
    last_Bc: int
    Tr: int
    Tc: int


class CoreSplit(NamedTuple):
    """A named rule that deals the row blocks to cores, and how many cores it uses."""

    rule: str
    block_num: int


class TunedPlan(NamedTuple):
    """A tiling and where it comes from.

    core_split: None leaves the split to the kernel. source: service, file or default. match: the rung of the ladder
    that answered (exact, nearest, default, ...). answer: the whole answer as it came, empty for the default.
    """

    Br: int
    last_Br: int
    Bc: int
    last_Bc: int
    Tr: int
    Tc: int
    core_split: Optional[CoreSplit]
    source: str
    match: str
    double_buffer: bool = False
    answer: Mapping[str, Any] = {}

    @property
    def tiling(self) -> Tiling:
        """The six numbers that the public kernels read."""
        return Tiling(*self[:6])


class _NoAnswer(Exception):
    """A source gave no usable plan; the text says why, to stand inside a sentence."""


_Problem = Mapping[str, Any]
"""A problem as the service writes it: op, shape (B, H, Nq, N, D), and the names of _DEFAULTS."""
_Source = Tuple[str, Callable[[], Any]]
"""A source's name and how to ask it; asking raises _NoAnswer."""
_DEFAULTS: _Problem = {
    "dtype": "float16", "attn_mask": "none", "dropout": False, "alibi": False, "window": None, "block_window": None,
    "high_precision": False,
}  # fmt: skip


def best(
    shape: Sequence[int],
    op: str = OP,
    device: str = DEVICE,
    url: Optional[str] = None,
    file: Optional[str] = None,
    timeout_s: float = 0.2,
    strict: bool = False,
    allow: Optional[str] = None,
    dtype: str = "float16",
    attn_mask: str = "none",
    dropout: bool = False,
    alibi: bool = False,
    window: Optional[Sequence[int]] = None,
    block_window: Optional[Sequence[int]] = None,
    high_precision: bool = False,
) -> TunedPlan:
    """The best known tiling of one attention problem.

    shape: (B, H, Nq, N, D), or (B, H, N, D) where Nq = N. url: the service, for example http://host:8321. file: a JSON
    document with one answer of the service, a list of them, or {"answers": [...]}; one for this very problem and device
    is used. The service is asked first, then the file; with neither given, the service at AUTOTUNE_URL.
    timeout_s: seconds for the whole question to the service, name look-up included.
    allow: the rungs the service may answer from, for example "exact,nearest".

    Without a usable answer: TuningWarning and the next source, in the end 128 x 128 blocks with real tails; with
    ``strict`` NoTunedPlan instead of those blocks. Raises ValueError for a shape that is none.
    """
    problem: _Problem = {
        "op": op, "shape": _shape(shape), "dtype": dtype, "attn_mask": attn_mask, "dropout": dropout, "alibi": alibi,
        "window": _numbers(window), "block_window": _numbers(block_window), "high_precision": high_precision,
    }  # fmt: skip
    failures: List[str] = []
    plan = _first_answer(_sources(problem, device, url, file, timeout_s, allow), problem, failures)
    if plan and not failures:
        return plan
    why = f"{op} {_text(problem['shape'])} on {device} ({'; '.join(failures)})"
    if plan is None and strict:
        raise NoTunedPlan(f"no tuned plan for {why}")
    plan = plan or _default(problem)
    text = f"using the {plan.source} blocks of {plan.Br} x {plan.Bc} for {why}"
    warnings.warn(text, TuningWarning, stacklevel=2)
    return plan


# --- sources ---------------------------------------------------------------------------------------------------------


def _first_answer(sources: List[_Source], problem: _Problem, failures: List[str]) -> Optional[TunedPlan]:
    for source, ask in sources:
        try:
            return _checked(ask(), problem, source)
        except _NoAnswer as failure:
            failures.append(f"{source}: {failure}")
    return None


def _sources(
    problem: _Problem, device: str, url: Optional[str], file: Optional[str], timeout_s: float, allow: Optional[str]
) -> List[_Source]:
    """What is given outranks the environment."""
    if url is None and file is None:
        url = os.environ.get("AUTOTUNE_URL", "")
    sources: List[_Source] = []
    if url is not None:
        sources.append(("service", partial(_ask_service, url, _query(problem, device, allow), timeout_s)))
    if file is not None:
        sources.append(("file", partial(_look_up, file, problem, device)))
    return sources


def _query(problem: _Problem, device: str, allow: Optional[str]) -> Dict[str, str]:
    """The parameters of GET /best; what is at its default is left out."""
    parameters = {"shape": problem["shape"], "op": problem["op"], "device": device, "allow": allow}
    parameters.update({name: value for name, value in problem.items() if value != _DEFAULTS.get(name)})
    return {name: _text(value) for name, value in parameters.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(number) for number in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ask_service(url: str, query: Mapping[str, str], timeout_s: float) -> Any:
    """The service's answer. The question runs in its own thread, since a name look-up has no time-out of its own."""
    import threading
    from http.client import HTTPException
    from urllib.parse import urlencode, urlsplit

    if not url:
        raise _NoAnswer("set AUTOTUNE_URL, or pass url= or file=")
    outcome: List[Any] = []

    def ask() -> None:
        try:
            outcome.append(_get(urlsplit(url), urlencode(query), timeout_s))
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            outcome.append(_NoAnswer(f"{url} gave no answer ({type(error).__name__}: {error})"))
        except _NoAnswer as failure:
            outcome.append(failure)

    thread = threading.Thread(target=ask, name="autotune-client", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        raise _NoAnswer(f"{url} gave no answer within {timeout_s} s")
    if isinstance(outcome[0], _NoAnswer):
        raise outcome[0]
    return outcome[0]


def _get(address: Any, query: str, timeout_s: float) -> Any:
    """GET /best below ``address``, without proxies or redirects: the service is near, or it is not there."""
    from http.client import HTTPConnection, HTTPSConnection

    connections: Dict[str, Type[HTTPConnection]] = {"http": HTTPConnection, "https": HTTPSConnection}
    if address.scheme not in connections or not address.hostname:
        raise ValueError("the address must look like http://host:8321")
    connection = connections[address.scheme](address.hostname, address.port, timeout=timeout_s)
    try:
        connection.request("GET", f"{address.path.rstrip('/')}/best?{query}", headers={"Accept": "application/json"})
        with connection.getresponse() as response:
            return _decoded(response.status, response.read(MAX_ANSWER_BYTES + 1))
    finally:
        connection.close()


def _decoded(status: int, body: bytes) -> Any:
    import json

    if len(body) > MAX_ANSWER_BYTES:
        raise _NoAnswer(f"it answered more than {MAX_ANSWER_BYTES} bytes")
    if status == 200:
        return json.loads(body.decode())
    try:
        detail = str(json.loads(body.decode())["detail"])
    except (ValueError, RecursionError, KeyError, TypeError):
        detail = "no reason given"
    raise _NoAnswer(f"it answered {status}: {detail[:200]}")


def _look_up(path: str, problem: _Problem, device: str) -> Any:
    """The first answer in a file for exactly this problem and device."""
    import json

    try:
        with open(path, encoding="utf-8") as document:
            content = json.load(document)
    except (OSError, ValueError, RecursionError) as error:
        raise _NoAnswer(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    if isinstance(content, dict):
        content = content.get("answers", [content])
    for answer in content if isinstance(content, list) else []:
        if isinstance(answer, dict) and _is_of(answer, device) and _same(answer.get("problem"), problem):
            return answer
    raise _NoAnswer(f"{path} has no answer for this problem and device")


# --- checks ----------------------------------------------------------------------------------------------------------


def _checked(answer: Any, problem: _Problem, source: str) -> TunedPlan:
    """The answer's plan. A plan is used only if every number of it is possible for the problem."""
    if not isinstance(answer, dict) or not isinstance(answer.get("plan"), dict):
        raise _NoAnswer("the answer has no plan")
    if not _same(answer.get("problem"), problem):
        raise _NoAnswer("the answer is for another problem")
    plan = answer["plan"]
    _, _, Nq, N, _ = problem["shape"]
    tiling = _tiling(_block(plan, "Br", Nq), _block(plan, "Bc", N), problem)
    for name, value in zip(tiling._fields, tiling):
        if not _is_int(plan.get(name, value)) or plan.get(name, value) != value:
            raise _NoAnswer(f"the plan's {name} is {plan[name]!r}, and its blocks make it {value}")
    match, double_buffer = answer.get("match", "exact"), plan.get("double_buffer", False)
    if not isinstance(match, str) or not isinstance(double_buffer, bool):
        raise _NoAnswer(f"match {match!r} or double_buffer {double_buffer!r} is of the wrong kind")
    return TunedPlan(*tiling, _core_split(plan), source, match, double_buffer, answer)


def _block(plan: Mapping[str, Any], name: str, length: int) -> int:
    value: Any = plan.get(name)
    if not _is_int(value) or not 1 <= value <= _pad(length) or (value % TILE and value != length):
        raise _NoAnswer(f"the plan's {name} is {value!r}, no multiple of {TILE} within {_pad(length)} rows")
    return int(value)


def _core_split(plan: Mapping[str, Any]) -> Optional[CoreSplit]:
    split: Any = plan.get("core_split")
    if split is None:
        return None
    rule: Any = split.get("rule") if isinstance(split, dict) else None
    block_num: Any = split.get("block_num") if isinstance(split, dict) else None
    if not isinstance(rule, str) or not _is_int(block_num) or block_num < 1:
        raise _NoAnswer(f"the plan's core_split is {split!r}, no rule with a number of cores")
    return CoreSplit(rule, block_num)


def _is_of(answer: Mapping[str, Any], device: str) -> bool:
    """Whether an answer is for a chip (Ascend910A) or from a target of it (emulated:Ascend910A)."""
    provenance = answer.get("provenance")
    return device in (answer.get("device"), provenance.get("target") if isinstance(provenance, dict) else None)


def _same(theirs: Any, ours: _Problem) -> bool:
    """Whether two problems are the same. A missing name is at its default; so is an unknown one that says no."""
    if not isinstance(theirs, dict):
        return False
    return {**_DEFAULTS, **{name: value for name, value in theirs.items() if name in ours or value}} == ours


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shape(shape: Sequence[int]) -> List[int]:
    sizes = list(shape)
    if len(sizes) not in (4, 5) or not all(_is_int(size) and size > 0 for size in sizes):
        raise ValueError(f"shape {shape!r} must be five whole numbers above 0, B, H, Nq, N, D, or four where Nq = N")
    return sizes if len(sizes) == 5 else [*sizes[:3], *sizes[2:]]


def _numbers(window: Optional[Sequence[int]]) -> Optional[List[int]]:
    return None if window is None else list(window)


def _pad(length: int) -> int:
    return -(-length // TILE) * TILE


def _tiling(Br: int, Bc: int, problem: _Problem) -> Tiling:
    """Tails in real rows and counts, for blocks of Br query rows and Bc keys."""
    _, _, Nq, N, _ = problem["shape"]
    Tr, Tc = -(-Nq // Br), -(-N // Bc)
    return Tiling(Br, Nq - (Tr - 1) * Br, Bc, N - (Tc - 1) * Bc, Tr, Tc)


def _default(problem: _Problem) -> TunedPlan:
    """The ``sparse`` strategy: 128 x 128 blocks, or the whole sequence where it is shorter."""
    _, _, Nq, N, _ = problem["shape"]
    tiling = _tiling(min(DEFAULT_BLOCK, Nq), min(DEFAULT_BLOCK, N), problem)
    return TunedPlan(*tiling, None, "default", "default")


# --- the strategy `tuned` for the public kernels ---------------------------------------------------------------------

PUBLIC_CHIP_BYTES = (262144, 1048576, 65536, 65536)
"""UB, L1, L0A and L0B of the Ascend 910A, the chip of the public kernels."""
PUBLIC_CORES = 32


def register(
    strategies: Type[Any],
    batch: int = 1,
    heads: int = 1,
    head_dim: Optional[int] = None,
    name: str = "tuned",
    strict: bool = False,
    **question: Any,
) -> Type[Any]:
    """Registers the strategy ``tuned`` with a public kernel package and returns it.

    strategies: the package's ``TilingStrategy``, which registers its subclasses. batch, heads: of the kernels to be
    built, since the public interface tells a strategy only Nq, N and the head dimension padded to 16. head_dim: before
    padding. question: everything else that ``best`` takes (device, op, url, file, attn_mask, ...).

    Give ``attn_mask="causal"`` for the causal mask of one 128 x 128 tile; a mask of full size is "shared" or "full".
    The strategy never hands over a tiling that the public kernels compute wrongly or have no room for: it warns and
    takes the largest default block that is right. Only where no tiling is right, it warns and takes the default;
    with ``strict`` it raises NoTunedPlan in both cases.
    """

    def ask(self: Any, Nq: int, N: int, padded_head_dim: int) -> None:
        strategies.__init__(self, Nq, N, padded_head_dim)
        exact = head_dim if head_dim is not None and _pad(head_dim) == padded_head_dim else padded_head_dim
        self.question_shape = (batch, heads, Nq, N, exact)

    def tiling(self: Any) -> Tiling:
        served = best(self.question_shape, strict=strict, **question)
        problem = {**_DEFAULTS, "op": OP, **question, "shape": list(self.question_shape)}
        return _right_for_public_kernels(served.tiling, problem, strict)

    members = {
        "strategy_name": classmethod(lambda cls: name),
        "__init__": ask,
        "tiling": tiling,
        "__doc__": "The served tiling.",
    }
    return type("TunedTiling", (strategies,), members)


def _right_for_public_kernels(served: Tiling, problem: _Problem, strict: bool) -> Tiling:
    fault = _public_fault(served, problem)
    if fault is None:
        return served
    if strict:
        raise NoTunedPlan(f"the public kernels cannot use {served.Br} x {served.Bc} blocks: {fault}")
    fallbacks = [_tiling(Br, Bc, problem) for Br, Bc in _default_blocks(problem)]
    right = [tiling for tiling in fallbacks if _public_fault(tiling, problem) is None]
    chosen = (right or fallbacks)[0]
    choice = f"{'using' if right else 'no tiling is better,'} {chosen.Br} x {chosen.Bc}"
    text = f"the public kernels cannot use {served.Br} x {served.Bc} blocks: {fault}; {choice}"
    warnings.warn(text, TuningWarning, stacklevel=3)
    return chosen


def _default_blocks(problem: _Problem) -> List[Tuple[int, int]]:
    """The default blocks and what may replace them: Bc that divides N, then Br without a tail of more than 64 rows."""
    _, _, Nq, N, _ = problem["shape"]
    Br, Bc = min(DEFAULT_BLOCK, Nq), min(DEFAULT_BLOCK, N)
    divisor = max((rows for rows in range(TILE, DEFAULT_BLOCK + 1, TILE) if N % rows == 0), default=Bc)
    return [(Br, Bc), (Br, divisor), (min(64, Nq), divisor)]


def _public_fault(tiling: Tiling, problem: _Problem) -> Optional[str]:
    """Why the public kernels cannot compute a problem with a tiling; None where they can."""
    return next((sentence for is_wrong, sentence in PUBLIC_FAULTS if is_wrong(tiling, problem)), None)


def _forward(problem: _Problem) -> bool:
    return bool(problem["op"] == "flash_attention")


def _lengths_unaligned(tiling: Tiling, problem: _Problem) -> bool:
    return any(length % TILE for length in problem["shape"][2:4])


def _keys_overwritten(tiling: Tiling, problem: _Problem) -> bool:
    return not _forward(problem) and problem["shape"][2] != problem["shape"][3]


def _key_tail(tiling: Tiling, problem: _Problem) -> bool:
    return _forward(problem) and tiling.last_Bc != tiling.Bc


def _row_tail(tiling: Tiling, problem: _Problem) -> bool:
    return _forward(problem) and any(rows > 64 and rows % 64 for rows in (tiling.Br, tiling.last_Br))


def _ignored(tiling: Tiling, problem: _Problem) -> bool:
    return bool(problem["alibi"] or problem["window"])


def _blocks_counted(tiling: Tiling, problem: _Problem) -> bool:
    """Blocks of 128 tokens that the kernels take for blocks of the tiling: the causal tile and the block window."""
    counted = problem["attn_mask"] == "causal" or problem["block_window"]
    return bool(counted) and set(tiling[:4]) != {DEFAULT_BLOCK}


def _first_block_skipped(tiling: Tiling, problem: _Problem) -> bool:
    window = problem["block_window"]
    return bool(_forward(problem) and window and window[0] + 1 < tiling.Tr)


def _no_room(tiling: Tiling, problem: _Problem) -> bool:
    """Live bytes of the public kernels in UB, L1, L0A and L0B at their widest moments, counted in their source.

    UB forward: S in fp16 and fp32; or S, P*V in fp32, a broadcast scale and up to 8 fp32 slices of O. UB backward,
    where dropout keeps P twice: the score blocks; or P with dV or dQ in fp32, or with dO and O in fp16 and their row
    sums. UB also holds row vectors and a table of each core's share of the heads. They agree with the uses listed in
    public_kernel_faults.md.
    """
    batch, heads, _, _, head_dim = problem["shape"]
    Br, Bc, d = tiling.Br, tiling.Bc, _pad(head_dim)
    scores, operands = Br * Bc, d * (Br + Bc)
    rest: int = 8 * PUBLIC_CORES * (1 + batch * heads) + 16 * Br + 1024
    if _forward(problem):
        update = 2 * scores + 4 * Br * (d + TILE + min(d, 128))
        needs = [rest + max(6 * scores, update), 2 * scores + 6 * operands + 64 * Bc, 0, 0]
    else:
        kept = 4 if problem["dropout"] else 2
        blocks, products = (4 + kept) * scores + 64 * Br, kept * scores + 4 * max(Br, Bc) * (d + TILE)
        needs = [rest + max(blocks, products), 4 * scores + 4 * operands + 32 * d, 2 * scores, 2 * Br * d]
    return any(need > size for need, size in zip(needs, PUBLIC_CHIP_BYTES))


PUBLIC_FAULTS: Tuple[Tuple[Callable[[Tiling, _Problem], bool], str], ...] = (
    (_lengths_unaligned, "they are wrong for lengths that are no multiple of 16; pad the sequences"),
    (_keys_overwritten, "their backward writes dK and dV to wrong rows where N is not Nq"),
    (_ignored, "they ignore ALiBi and windows in tokens"),
    (_first_block_skipped, "a row whose window skips key block 0 starts from garbage"),
    (_blocks_counted, "causal tile and block window are right only in whole blocks of 128 x 128"),
    (_key_tail, "the row sums of a last key block shorter than Bc are garbage"),
    (_row_tail, "rows from 64 on are normalised wrongly in a block of more than 64 rows that is no multiple of 64"),
    (_no_room, "they need more than the Ascend 910A's on-chip memory"),
)
"""Where the public kernels go wrong by themselves (public_kernel_faults.md), and what to tell their user."""
