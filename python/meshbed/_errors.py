"""The exceptions of meshbed."""


class InvalidScenario(ValueError):
    """A scenario that cannot be read or run; ``findings`` has one entry for each error, with its place."""

    def __init__(self, text, findings=()):
        super().__init__(text)
        self.findings = list(findings)


class RunError(RuntimeError):
    """A run that could not take place or was cut off. A run that went wrong is a RunResult that did not pass."""


class RunCancelled(RunError):
    """``progress`` returned False, or the time limit passed."""
