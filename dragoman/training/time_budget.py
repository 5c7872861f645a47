"""The time that was promised for a piece of work, and what of it is spoken for."""

import time

QUIET = 5.0  # seconds without a line, after which one is due


class Clock:
    def __init__(self, seconds: float, started: float | None = None):
        """`started`: when the work began, by `now()`; else it begins here."""
        self._started = now() if started is None else started
        self._seconds = max(seconds, 1e-9)
        self._reserved = 0.0
        self._last_line = self._started

    @property
    def passed(self) -> float:
        return now() - self._started

    @property
    def left(self) -> float:
        """Seconds until what the rest is reserved for must begin."""
        return self._seconds - self._reserved - self.passed

    @property
    def share(self) -> float:
        """Of the time until then, what has passed."""
        return self.passed / max(self._seconds - self._reserved, 1e-9)

    def reserve(self, seconds: float) -> None:
        self._reserved += seconds

    def needed(self, seconds: float) -> float:
        """As many in all as would leave so many for the work, as things have gone so far."""
        return self.passed + self._reserved + seconds

    def is_past(self, share: float) -> bool:
        """Whether this share of all the time is over."""
        return self.passed > share * self._seconds

    def line_is_due(self) -> bool:
        """Whether nothing has been said for a while; whoever asks will say something."""
        if now() - self._last_line < QUIET:
            return False
        self._last_line = now()
        return True


def now() -> float:
    return time.monotonic()
