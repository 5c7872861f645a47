"""`benchmarks/soak.py` in a tiny form: all of it runs, and honest requests do not fail."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_short_soak_tells_all_and_loses_no_request(trained):
    command = [sys.executable, ROOT / "benchmarks" / "soak.py", "--model", trained]
    command += ["--clients", "20", "--seconds", "24"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT)
    assert "Traceback" not in done.stderr, done.stderr
    for line in ("capacity:", "minute  requests  failed", "handover:", "SIGTERM:"):
        assert line in done.stdout, done.stdout
    assert re.search(r"honest requests, 0 failed", done.stdout), done.stdout
