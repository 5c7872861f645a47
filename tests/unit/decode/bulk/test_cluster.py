import doctest
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import how_to_install
from tests.conftest import Answer

NODES = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), min_size=1, max_size=4)


@given(NODES, st.integers(1, 12))
def test_workers_get_as_many_threads_as_fit(nodes: list[tuple[int, int]], workers: int) -> None:
    from dragoman.decode.bulk.cluster import threads_per_worker
    from dragoman.errors import ConfigError

    def fit(threads: int) -> bool:
        """Places workers one by one, as Ray does, wherever cores and a GPU are free."""
        left = [list(node) for node in nodes]
        for _ in range(workers):
            place = next((node for node in left if node[0] >= threads and node[1] >= 1), None)
            if place is None:
                return False
            place[0], place[1] = place[0] - threads, place[1] - 1
        return True

    if fit(1):
        threads = threads_per_worker(nodes, workers)
        assert fit(threads)
        assert not fit(threads + 1)
    else:
        with pytest.raises(ConfigError, match=f"--workers {workers}: there is room for only "):
            threads_per_worker(nodes, workers)


def test_the_docstring_example_holds() -> None:
    """Runs it here, since collecting doctests from that module would import Ray."""
    from dragoman.decode.bulk import cluster

    outcome = doctest.testmod(cluster)
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_without_ray_one_line_says_what_to_install(
    dragoman, trained: Path, tmp_path: Path, monkeypatch
) -> None:
    for name in ("ray", "dragoman.decode.bulk.cluster"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "a.de").write_text("eins\n")
    files = ("--input", tmp_path / "a.de", "--output", tmp_path / "a.en")
    answer: Answer = dragoman("translate", "--model", trained, *files, "--workers", 2)
    assert (answer.code, answer.err) == (
        1,
        f"dragoman: this needs ray: {how_to_install('ray')}.\n",
    )


def test_workers_require_files(dragoman, trained: Path) -> None:
    answer: Answer = dragoman("translate", "eins", "--model", trained, "--workers", 2)
    assert answer.code == 1
    assert "give --input F and --output F" in answer.err
