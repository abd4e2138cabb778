"""The emulated Da Vinci core: runs TIK programs on any machine. It knows nothing of attention.

``install()`` makes ``from tbe import tik`` and its siblings resolve to the emulation;
``python -m autotune.kernels.davinci SCRIPT ARGS`` runs a script that way.
"""

from autotune.kernels.davinci.options import shuffled_cores, strict, traced
from autotune.kernels.davinci.shim import install, set_current_compile_soc_info

__all__ = ["install", "set_current_compile_soc_info", "shuffled_cores", "strict", "traced"]
