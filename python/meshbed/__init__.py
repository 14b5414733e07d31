"""Simulated RDMA clusters that run the real files: load a scenario, change it, run it, read its result.

    import meshbed
    scenario = meshbed.load("scenarios/pair.toml")
    scenario["workload.bytes"] = "64M"
    result = scenario.run()
    print(result.busbw, result.digest)

Runs are processes of their own: any number at one time, from any thread. See docs/library.md.
"""

from ._errors import InvalidScenario, RunCancelled, RunError
from ._meshbed import (
    Comparison,
    FailedRank,
    Finding,
    Prediction,
    Proof,
    RunResult,
    Scenario,
    compare,
    load,
    parse,
    predict,
    profiles,
)

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "FailedRank",
    "Finding",
    "InvalidScenario",
    "Prediction",
    "Proof",
    "RunCancelled",
    "RunError",
    "RunResult",
    "Scenario",
    "compare",
    "load",
    "parse",
    "predict",
    "profiles",
]
