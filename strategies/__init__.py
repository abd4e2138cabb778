"""Strategies: pure functions from (problem, hardware) to candidate tiling plans."""

if __name__ != "autotune.strategies":
    raise ImportError("import this package as autotune.strategies: the bare name 'strategies' is not ours to take")
