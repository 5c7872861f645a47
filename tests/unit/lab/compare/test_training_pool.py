"""Worker processes import the same plug-ins and end with the command that started them."""

import os
import time
from pathlib import Path

import pytest

from dragoman.config.plugins import import_named
from dragoman.config.variants import POSITIONS
from dragoman.lab.compare.training_pool import worker_pool


def _positions() -> list[str]:
    return list(POSITIONS)


def _write_later(path: Path) -> None:
    path.with_suffix(".begun").touch()
    time.sleep(8)
    path.touch()


def test_workers_import_the_plugins_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nearby_words.py").write_text(
        "from dragoman.config.variants import POSITIONS, Position\n"
        "POSITIONS['nearby'] = Position('near')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dragoman.config.plugins._named", [])
    try:
        import_named("nearby_words")
        with worker_pool(1, 1) as pool:
            assert "nearby" in pool.submit(_positions).result()
    finally:
        POSITIONS.pop("nearby", None)


def test_an_interrupted_command_does_not_wait_for_its_runs(tmp_path: Path) -> None:
    late = tmp_path / "late"
    workers = []

    def ended() -> None:
        with worker_pool(1, 1) as pool:
            workers.append(pool.submit(os.getpid).result())
            pool.submit(_write_later, late)
            while not late.with_suffix(".begun").exists():
                time.sleep(0.05)
            raise SystemExit(143)  # as SIGTERM does

    with pytest.raises(SystemExit):
        ended()
    with pytest.raises(ProcessLookupError):
        os.kill(workers[0], 0)
    assert not late.exists()
