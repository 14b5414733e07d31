from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

Value = str | bool | int | float | Sequence["Value"]

class InvalidScenario(ValueError):
    findings: list[Finding]

class RunError(RuntimeError): ...
class RunCancelled(RunError): ...

class Finding:
    severity: str
    """"error": a run is refused; "warning"; "note"."""
    code: str
    place: str
    cause: str
    fix: str

class Proof:
    name: str
    ok: bool
    detail: str

class FailedRank:
    rank: int
    text: str

class Scenario:
    """A scenario. Methods that change it return it, so that they can be chained; ``copy`` makes another one."""

    name: str
    path: str
    seed: int
    ranks: int
    overrides: list[str]
    def copy(self) -> Scenario: ...
    def __setitem__(self, key: str, value: Value) -> None:
        """As ``--set KEY=VALUE``. If it raises InvalidScenario, nothing is changed."""
    def __getitem__(self, key: str) -> str:
        """The value of the key, from a change or the file. Raises KeyError if neither has it."""
    def set(self, values: Mapping[str, Value]) -> Scenario:
        """Sets several keys at once, for keys that are valid only together."""
    def fault(self, text: str) -> Scenario:
        """As ``--fault KIND,target=TARGET,at=TIME,...``."""
    def fail(self, target: str) -> Scenario:
        """Makes a cable, NIC or node fail from the start of the run."""
    def check(self) -> list[Finding]: ...
    def run(
        self,
        *,
        messages: bool = True,
        time_limit: float | None = None,
        progress: Callable[[int, int], bool] | None = None,
    ) -> RunResult:
        """Runs it in virtual time. ``messages``: keep them, about 110 bytes each. ``time_limit``: wall-clock seconds.

        ``progress(done, total)`` is called about ten times a second; False ends the run (RunCancelled). Raises
        InvalidScenario, RunError. Other Python threads continue meanwhile.
        """

class RunResult:
    passed: bool
    failure: str
    digest: str
    time_s: float
    algbw: float
    """10^9 bytes a second, as nccl-tests."""
    busbw: float
    bound_s: float
    over_bound: float
    wrong: int
    checked: int
    message_count: int
    proofs: list[Proof]
    expectations: list[Proof]
    errors: list[FailedRank]
    output: str
    json: str
    summary: dict[str, Any]
    """The keys of summary.json."""
    messages: dict[str, numpy.ndarray]
    """One read-only array a column of messages.csv, over the run's own memory."""
    def frame(self) -> Any:
        """The messages as a pandas.DataFrame; Raises ImportError if pandas is not installed."""

class Comparison:
    identical: bool
    """Whether the digests are equal: every message, datum and error."""
    same_data: bool
    """Whether every rank received the same bytes, in any time."""
    time_ratio: float
    """Right divided by left; 0: one of them has no time."""
    busbw_ratio: float
    differences: list[str]

class Prediction:
    time_s: float
    algorithm: str
    protocol: str
    ranks: int
    nodes: int
    parts: dict[str, float]
    """By name, in seconds; time_s is their sum."""
    error_p90: float | None
    """The relative error of 9 of 10 similar measured points was at most this; None: the profile has no such figure."""
    low_s: float
    high_s: float
    basis: str

def compare(left: RunResult, right: RunResult) -> Comparison: ...
def profiles() -> list[str]: ...
def predict(profile: str, collective: str, bytes: int, ranks: int | None = None) -> Prediction:
    """The time of a collective on a measured class of machines. ValueError lists the existing profiles."""

def load(path: str) -> Scenario: ...
def parse(text: str, path: str = "scenario.toml") -> Scenario: ...
