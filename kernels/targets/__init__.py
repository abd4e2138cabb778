"""Where a candidate kernel is compiled, run and timed."""
