"""kernel_meta/<name>.json: what the toolkit's launchers read about a kernel (tik_api.md 6.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotune.kernels.davinci.program import Program
from autotune.kernels.davinci.tensor import Scalar, Tensor

MAGIC = "RT_DEV_BINARY_MAGIC_ELF"
WORKSPACE_MARGIN = 32
"""Bytes that launchers leave behind a workspace; its size here is rounded up to them."""


def description(program: Program) -> dict[str, Any]:
    """The fields of the file, as far as a kernel without its binary has them."""
    workspaces = [buffer for buffer in program.global_buffers if buffer.workspace]
    arguments = [one.buffer for one in (*program.inputs, *program.outputs) if isinstance(one, Tensor)]
    fields: dict[str, Any] = {
        "magic": MAGIC,
        "blockDim": program.block_num,
        "kernelName": f"{program.kernel_name}__kernel0",
        "binFileName": program.kernel_name,
        "binFileSuffix": ".o",
        "parameters": [int(buffer.atomic) for buffer in (*arguments, *workspaces)],
    }
    if workspaces:
        sizes = [-(-buffer.nbytes // WORKSPACE_MARGIN) * WORKSPACE_MARGIN for buffer in workspaces]
        fields["workspace"] = {"num": len(sizes), "size": sizes}
    scalars = sum(isinstance(one, Scalar) for one in program.inputs)
    if scalars:
        fields["opParaSize"] = 8 * scalars
    return fields


def write_description(program: Program, folder: str) -> Path:
    """Writes the file under ``folder``/kernel_meta and returns its path."""
    path = Path(folder, "kernel_meta", f"{program.kernel_name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(description(program), indent=4) + "\n", encoding="utf-8")
    return path
