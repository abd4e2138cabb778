"""Builds the C kernel with the compiler that is there; a build is kept by everything that it depends on."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import CompileFailed, TargetUnavailable

SOURCE = Path(__file__).with_name("forward.c")
HEADER = "vectors.h"
"""Lies beside the source that includes it."""
COMPILERS = ("gcc", "clang", "cc")
"""Tried in this order: on the kernel's register tiles gcc was the better one."""
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread")
LIBRARIES = ("-lm",)
COMPILE_SECONDS = 120.0
"""A build takes a second or two on an idle machine."""
MOST_TEXT = 2000
"""Characters of a compiler's complaint that are kept."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler. version: the first line of what ``--version`` says."""

    path: str
    version: str


def find_compiler() -> Compiler:
    """The first compiler there is. Raises TargetUnavailable where there is none."""
    for name in COMPILERS:
        path = shutil.which(name)
        version = _version(path) if path else ""
        if path and version:
            return Compiler(path, version)
    raise TargetUnavailable(
        f"no C compiler here ({', '.join(COMPILERS)} were looked for), which the kernel for CPUs is built with; "
        "install one, for example: apt-get install gcc libc6-dev"
    )


def build(compiler: Compiler, machine: str, cache: Path, source: Path = SOURCE) -> Path:
    """The shared library, built where the folder ``cache`` does not have it yet.

    machine: whatever else ``-march=native`` depends on; a folder may be shared by different machines.
    Raises CompileFailed with the compiler's text, TargetUnavailable where the folder cannot be written.
    """
    library = cache / f"forward-{source_hash(compiler, machine, source)}.so"
    if library.exists():
        return library
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / library.name
            _compile(compiler, source, made)
            # At once or not at all: another process may be looking for the same file.
            os.replace(made, library)
    except OSError as error:
        raise TargetUnavailable(f"cannot keep built kernels in {cache}: {error.strerror}; make it writable") from error
    return library


def source_hash(compiler: Compiler, machine: str, source: Path = SOURCE) -> str:
    """Changes with the source, the compiler, its flags and the machine."""
    digest = hashlib.sha256(source.read_bytes())
    header = source.with_name(HEADER)
    digest.update(header.read_bytes() if header.exists() else b"")
    digest.update("\0".join((compiler.version, *FLAGS, *LIBRARIES, machine)).encode())
    return digest.hexdigest()[:16]


def _compile(compiler: Compiler, source: Path, library: Path) -> None:
    command = [compiler.path, *FLAGS, str(source), "-o", str(library), *LIBRARIES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CompileFailed(f"{compiler.path} was not done after {COMPILE_SECONDS:g} seconds") from error
    if done.returncode:
        said = done.stderr.strip()[:MOST_TEXT]
        raise CompileFailed(f"{compiler.path} ended with {done.returncode}: {said or 'and said nothing'}")


def _version(path: str) -> str:
    """Empty where the program does not run."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.partition("\n")[0].strip()
