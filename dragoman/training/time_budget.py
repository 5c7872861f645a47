"""Keep a time limit: divide the time between the parts of a task."""

import time

QUIET = 5.0  # print a line after this many silent seconds


class Clock:
    def __init__(self, seconds: float, started: float | None = None):
        """Start the clock, or let it start at an earlier time of `now()`."""
        self._started = now() if started is None else started
        self._seconds = max(seconds, 1e-9)
        self._reserved = 0.0
        self._last_line = self._started

    @property
    def passed(self) -> float:
        return now() - self._started

    @property
    def left(self) -> float:
        """Return the seconds left before the reserved time begins."""
        return self._seconds - self._reserved - self.passed

    @property
    def share(self) -> float:
        """Return the share of the unreserved time that has passed."""
        return self.passed / max(self._seconds - self._reserved, 1e-9)

    def reserve(self, seconds: float) -> None:
        self._reserved += seconds

    def needed(self, seconds: float) -> float:
        """Return the total time that would leave this many seconds from here."""
        return self.passed + self._reserved + seconds

    # Unlike `share`, this counts the reserved time too: it limits work that comes before the
    # reservation.
    def is_past(self, share: float) -> bool:
        """True if this share of the whole time has passed."""
        return self.passed > share * self._seconds

    def line_is_due(self) -> bool:
        """True if nothing was printed for a while; the caller then prints something."""
        if now() - self._last_line < QUIET:
            return False
        self._last_line = now()
        return True


def now() -> float:
    return time.monotonic()
