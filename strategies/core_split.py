"""Core splits: named rules that deal the row blocks of all heads to the cores; in the backward op, the key blocks.

Row blocks are numbered head by head. ``even``, ``balanced`` and ``head_major`` give each core one contiguous run of
them, so that a core reads one head's keys again and again rather than many heads' once; ``causal`` and
``longest_first`` give it a few. Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heapreplace
from typing import Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

from autotune.errors import UnknownName
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, TilingPlan, ceil_div
from autotune.problem import AttentionProblem
from autotune.strategies.row_blocks import RowBlocks, count_of, row_blocks

Runs = List[Tuple[int, int]]
"""A core's row blocks as (start, end), counted through all heads, in rising order."""

PIECES = 8
"""Runs for each core that ``longest_first`` deals, about: every run is a branch of the kernel's program."""
WORTHWHILE = 0.02
"""Share of the busiest core's key blocks that a rule has to save to be tried; less is noise."""


def even(blocks: RowBlocks, cores: int) -> List[Runs]:
    """As many row blocks for one core as for another, give or take one."""
    return _contiguous(_even_ends(blocks, cores))


def balanced(blocks: RowBlocks, cores: int) -> List[Runs]:
    """The busiest core has as few key blocks as any contiguous split can give it; ``even`` where that is as good."""
    return _contiguous(_balanced_ends(blocks, cores))


def causal(blocks: RowBlocks, cores: int) -> List[Runs]:
    """Row blocks in pairs, a head's first with its last, so that every pair has the same part of a causal triangle.

    The pairs are dealt as ``balanced`` deals row blocks; where there are fewer pairs than cores, it is ``balanced``.
    """
    pairs = blocks.folded()
    if pairs.count < cores:
        return balanced(blocks, cores)
    return [_joined(_unfolded(run, blocks)) for [run] in balanced(pairs, cores)]


def head_major(blocks: RowBlocks, cores: int) -> List[Runs]:
    """No core crosses from one head to another that it does not own wholly.

    Where there are fewer heads than cores, each head has cores of its own, among which it is ``balanced``; otherwise
    each core has whole heads, as many as another, give or take one.
    """
    height = len(blocks.loads)
    if blocks.heads >= cores:
        return _contiguous([height * (blocks.heads * core // cores) for core in range(1, cores + 1)])
    one = RowBlocks(1, blocks.loads)
    shares = [cores * (head + 1) // blocks.heads - cores * head // blocks.heads for head in range(blocks.heads)]
    ends = {share: _balanced_ends(one, share) for share in set(shares)}
    return _contiguous([height * head + end for head, share in enumerate(shares) for end in ends[share]])


def longest_first(blocks: RowBlocks, cores: int) -> List[Runs]:
    """Whole heads evenly; the heads left over in pieces, the longest first, each to the core with least to do so far.

    The list schedule of Graham (1969).
    """
    height, whole = len(blocks.loads), blocks.heads // cores
    runs: List[Runs] = [[(core * whole * height, (core + 1) * whole * height)] * (whole > 0) for core in range(cores)]
    pieces = list(_pieces(blocks, whole * cores, cores))
    pieces.sort(key=lambda run: _load(blocks, run), reverse=True)
    waiting = [(0, 0, core) for core in range(cores)]
    heapify(waiting)
    for piece in pieces:
        load, count, core = waiting[0]
        runs[core].append(piece)
        heapreplace(waiting, (load + _load(blocks, piece), count + 1, core))
    return [_joined(sorted(own)) for own in runs]


RULES: Dict[str, Callable[[RowBlocks, int], List[Runs]]] = {
    "even": even,
    "balanced": balanced,
    "causal": causal,
    "longest_first": longest_first,
    "head_major": head_major,
}


def busiest(blocks: RowBlocks, shares: Iterable[Runs]) -> int:
    """Key blocks that the busiest core has to visit."""
    return max(sum(_load(blocks, run) for run in runs) for runs in shares)


def block_num(problem: AttentionProblem, Br: int, Bc: int, hardware: Hardware) -> int:
    """Cores that get work: all of them, or one for each row block (backward: key block) where those are fewer."""
    return min(hardware.cores, count_of(problem, Br, Bc))


def complete(plan: TilingPlan, problem: AttentionProblem, hardware: Hardware) -> TilingPlan:
    """The plan with its core split worked out for this problem and chip. Raises UnknownName for an unknown rule."""
    rule = plan.core_split.rule
    if rule not in RULES:
        raise UnknownName(f"no core split {rule!r}; known: {', '.join(sorted(RULES))}", field="core_split")
    blocks = row_blocks(problem, plan.Br, plan.Bc)
    cores = block_num(problem, plan.Br, plan.Bc, hardware)
    work = tuple(
        tuple(piece for run in runs for piece in _by_head(run, len(blocks.loads)))
        for runs in RULES[rule](blocks, cores)
    )
    return replace(plan, core_split=CoreSplit(rule, cores, work))


def distinct_rules(problem: AttentionProblem, Br: int, Bc: int, hardware: Hardware) -> Tuple[str, ...]:
    """The rules worth a trial: ``even``, and the first that no later one beats, if it is better than ``even``.

    Better is less for the busiest core to do. Never ``head_major``: no kernel of ours is slower where a core crosses
    from one head to the next.
    """
    blocks, cores = row_blocks(problem, Br, Bc), block_num(problem, Br, Bc, hardware)
    best, load, enough = "even", busiest(blocks, even(blocks, cores)), (1 + WORTHWHILE) * blocks.least(cores)
    for rule in ("balanced", "causal", "longest_first"):
        if load <= enough:
            break
        lower = busiest(blocks, RULES[rule](blocks, cores))
        if lower < (1 - WORTHWHILE) * load:
            best, load = rule, lower
    return ("even",) if best == "even" else ("even", best)


def public_rule(problem: AttentionProblem, Br: int, Bc: int, hardware: Hardware) -> str:
    """The split by key blocks that the public kernels use: ``balanced``, called ``even`` where it is the same."""
    cores = block_num(problem, Br, Bc, hardware)
    if problem.heads_total % cores == 0:  # whole heads for every core, as many for one as for another
        return "even"
    blocks = row_blocks(problem, Br, Bc)
    ends = _even_ends(blocks, cores)
    return "even" if _balanced_ends(blocks, cores) == ends else "balanced"


def _load(blocks: RowBlocks, run: Tuple[int, int]) -> int:
    return blocks.load_before(run[1]) - blocks.load_before(run[0])


def _contiguous(ends: Sequence[int]) -> List[Runs]:
    return [[run] for run in zip([0, *ends], ends)]


def _even_ends(blocks: RowBlocks, cores: int) -> List[int]:
    return [blocks.count * core // cores for core in range(1, cores + 1)]


def _balanced_ends(blocks: RowBlocks, cores: int) -> List[int]:
    """The least load is found by bisection, a greedy walk telling whether a load suffices."""
    ends = _even_ends(blocks, cores)
    load, least, heaviest = busiest(blocks, _contiguous(ends)), blocks.least(cores), max(blocks.loads)
    if load == least:
        return ends
    enough = min(load, least + heaviest)
    while least < enough:
        limit = (least + enough) // 2
        least, enough = (least, limit) if _walk(blocks, cores, limit)[-1] == blocks.count else (limit + 1, enough)
    return ends if load == enough else _walk(blocks, cores, enough)


def _walk(blocks: RowBlocks, cores: int, limit: int) -> List[int]:
    """Ends of the cores' runs, each as long as ``limit`` allows while every later core keeps one row block."""
    ends = [0]
    for core in range(1, cores + 1):
        ends.append(min(blocks.reach(ends[-1], limit), blocks.count - (cores - core)))
    return ends[1:]


def _unfolded(run: Tuple[int, int], blocks: RowBlocks) -> Iterator[Tuple[int, int]]:
    """The row blocks of a run of pairs."""
    height = len(blocks.loads)
    half = ceil_div(height, 2)
    for head, first, end in _by_head(run, half):
        start = head * height
        if end < half:
            yield start + first, start + end
        yield start + (height - end if end < half else first), start + height - first


def _pieces(blocks: RowBlocks, first_head: int, cores: int) -> Iterator[Tuple[int, int]]:
    """The row blocks of the heads from ``first_head`` in runs of equal height, about PIECES for each core."""
    height = len(blocks.loads)
    size = ceil_div((blocks.heads - first_head) * height, PIECES * cores)
    for start in range(first_head * height, blocks.count, height):
        for piece in range(start, start + height, size):
            yield piece, min(piece + size, start + height)


def _joined(runs: Iterable[Tuple[int, int]]) -> Runs:
    """Runs in rising order, neighbours made one."""
    found: Runs = []
    for start, end in runs:
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return found


def _by_head(run: Tuple[int, int], height: int) -> Iterator[Tuple[int, int, int]]:
    """A run as (batch*head, first q block, end q block), ``height`` to each head."""
    start, end = run
    for head in range(start // height, ceil_div(end, height)):
        yield head, max(start - head * height, 0), min(end - head * height, height)
