"""Building: which compiler, what is kept, what a compiler's failure becomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import CompileFailed, TargetUnavailable
from autotune.kernels.native import build as building
from autotune.kernels.native.build import Compiler, build, find_compiler, source_hash


def fake(folder: Path, name: str, script: str) -> Compiler:
    """A program that pretends to be a compiler."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Compiler(str(path), "pretended 1.0")


COPIES = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"'


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetUnavailable, match=r"no C compiler here \(gcc, clang, cc .* apt-get install gcc"):
        find_compiler()


def test_the_first_that_runs_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "gcc", "exit 1")
    fake(tmp_path, "clang", "echo clang version 99; echo more")
    monkeypatch.setenv("PATH", f"{tmp_path}")
    assert find_compiler() == Compiler(str(tmp_path / "clang"), "clang version 99")


def test_a_build_is_kept(tmp_path: Path) -> None:
    compiler = fake(tmp_path, "cc", f"echo once >> {tmp_path}/calls; {COPIES}")
    cache = tmp_path / "deep" / "cache"
    library = build(compiler, "m", cache)
    assert build(compiler, "m", cache) == library and library.read_text() == "built\n"
    assert (tmp_path / "calls").read_text() == "once\n"
    assert [path.name for path in cache.iterdir()] == [library.name]


def test_everything_that_matters_is_another_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler, source = Compiler("cc", "1.0"), tmp_path / "a.c"
    source.write_text("int a;")
    found = [source_hash(compiler, "m", source), source_hash(compiler, "n", source)]
    found.append(source_hash(replace(compiler, version="1.1"), "m", source))
    monkeypatch.setattr(building, "FLAGS", ("-O1",))
    found.append(source_hash(compiler, "m", source))
    source.write_text("int b;")
    found.append(source_hash(compiler, "m", source))
    assert len(set(found)) == 5
    assert source_hash(replace(compiler, path="/elsewhere/cc"), "m", source) == found[-1]


def test_a_compiler_s_complaint_is_kept(compiler: Compiler, tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text("int f(void) { return missing; }")
    with pytest.raises(CompileFailed, match="missing"):
        build(compiler, "m", tmp_path / "cache", source)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_compiler_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building, "COMPILE_SECONDS", 0.2)
    with pytest.raises(CompileFailed, match="not done after"):
        build(fake(tmp_path, "cc", "exec sleep 20"), "m", tmp_path / "cache")


def test_a_cache_that_cannot_be_made_is_no_candidate_s_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TargetUnavailable, match="cannot keep built kernels"):
        build(fake(tmp_path, "cc", COPIES), "m", tmp_path / "file" / "cache")
