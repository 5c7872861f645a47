"""Metrics in Prometheus' text format."""

from collections import Counter
from collections.abc import Mapping, Sequence

_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts requests by path and status, their durations, texts and characters."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.texts = self.characters = 0
        self.characters_of: Counter[str] = Counter()  # by name of key
        self.cached = 0  # texts answered from the cache
        self._buckets = [0] * len(_BUCKETS_S)
        self._seconds = 0.0

    def count(self, texts: Sequence[str], key: str = "") -> None:
        """Count texts that a client sent."""
        self.texts += len(texts)
        self.count_characters(sum(map(len, texts)), key)

    def count_characters(self, characters: int, key: str = "") -> None:
        self.characters += characters
        self.characters_of[key] += characters

    def answered(self, path: str, status: int, seconds: float) -> None:
        self.requests[path, status] += 1
        self._seconds += seconds
        # Prometheus' buckets are cumulative: each counts all requests up to its bound.
        for i, bound in enumerate(_BUCKETS_S):
            self._buckets[i] += seconds <= bound

    def text(self, gauges: Mapping[str, float]) -> str:
        """Format all metrics, with `gauges`, which the caller has measured."""
        total = sum(self.requests.values())
        lines = ["# TYPE dragoman_requests_total counter"]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'dragoman_requests_total{{path="{path}",status="{status}"}} {count}')
        lines.append("# TYPE dragoman_request_seconds histogram")
        for bound, count in zip(_BUCKETS_S, self._buckets, strict=True):
            lines.append(f'dragoman_request_seconds_bucket{{le="{bound}"}} {count}')
        lines.append(f'dragoman_request_seconds_bucket{{le="+Inf"}} {total}')
        lines += [
            f"dragoman_request_seconds_sum {self._seconds:.6f}",
            f"dragoman_request_seconds_count {total}",
        ]
        for name, value in {
            "texts_total": self.texts,
            "characters_total": self.characters,
            "cached_texts_total": self.cached,
            **gauges,
        }.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE dragoman_{name} {kind}", f"dragoman_{name} {value}"]
        return "\n".join(lines) + "\n"
