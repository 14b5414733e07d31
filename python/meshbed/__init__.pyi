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
        """As ``--set KEY=VALUE``. Raises InvalidScenario, and then changes nothing."""
    def __getitem__(self, key: str) -> str:
        """What the file or a change gives for the key; KeyError where neither does."""
    def set(self, values: Mapping[str, Value]) -> Scenario:
        """Several keys at once, for those that only fit together."""
    def fault(self, text: str) -> Scenario:
        """As ``--fault KIND,target=TARGET,at=TIME,...``."""
    def fail(self, target: str) -> Scenario:
        """A cable, NIC or node is out of order from the start of the run."""
    def check(self) -> list[Finding]: ...
    def run(
        self,
        *,
        messages: bool = True,
        time_limit: float | None = None,
        progress: Callable[[int, int], bool] | None = None,
    ) -> RunResult:
        """Runs it in virtual time. ``messages``: keep them, about 110 bytes each. ``time_limit``: seconds on the wall.

        ``progress(done, total)`` is called about ten times a second; False ends the run (RunCancelled). Raises
        InvalidScenario, RunError. Other threads of Python go on meanwhile.
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
        """The messages as a pandas.DataFrame; ImportError where pandas is not installed."""

class Comparison:
    identical: bool
    """The same digest: every message, datum and error."""
    same_data: bool
    """Every rank got the same bytes, in however much time."""
    time_ratio: float
    """Right over left; 0: one of them has no time."""
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
    low_s: float
    high_s: float
    basis: str
    """9 of 10 measured points like it were off by this part at most; None: the profile has no such figure."""

def compare(left: RunResult, right: RunResult) -> Comparison: ...
def profiles() -> list[str]: ...
def predict(profile: str, collective: str, bytes: int, ranks: int | None = None) -> Prediction:
    """What a collective takes on a class of machines that was measured. ValueError names the profiles there are."""

def load(path: str) -> Scenario: ...
def parse(text: str, path: str = "scenario.toml") -> Scenario: ...
