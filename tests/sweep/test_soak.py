"""A short soak: faults in the plans, and a kill of the sweep, leave every problem tuned and nothing wrong published."""

from benchmarks import soak


def test_a_sweep_survives_faults_and_a_kill() -> None:
    report = soak.measure(problems=2, trials=16, kills=[0.4])
    assert report["faults"]["crash"] >= 2
    missed = {name: bar for name, bar in report["bars"].items() if not bar["ok"] and name != "memory_growth"}
    assert missed == {}, "memory says nothing in so short a time"
