"""A pytest plugin that counts the CPU seconds of each test, with the processes that it started.

    python -m pytest -p tests.cpu_times

CPU time, unlike wall time, is nearly the same on a busy machine. A fixture that tests share is
counted with the first test that asks for it, in its column "setup".
"""

import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_NAME = "cpu seconds"
_SHOWN = 40

_seconds: dict[str, dict[str, float]] = defaultdict(dict)  # by test, then by phase
_processes: list[float] = []  # of pytest itself: all that it did, imports and collection included


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children.

    Running children, with their own ended children, count on Linux only.
    """
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    seconds = sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, who))
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            seconds += sum(map(_seconds_of, children.read_text().split()))
    return seconds


def _seconds_of(process: str) -> float:
    try:
        facts = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0  # it has just ended
    # After the name in brackets, the 12th to 15th: user and system time, then the children's.
    ticks = facts.rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from _counted(item, "setup")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from _counted(item, "call")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield from _counted(item, "teardown")


def _counted(item: pytest.Item, phase: str) -> Iterator[None]:
    before = cpu_seconds()
    try:
        return (yield)
    finally:
        # The property travels with the report from an xdist worker to the process that prints.
        item.user_properties.append((_NAME, (phase, cpu_seconds() - before)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties:
        if name == _NAME:
            phase, seconds = value
            _seconds[report.nodeid][phase] = seconds


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is None:
        _processes.append(cpu_seconds())
    else:
        output[_NAME] = cpu_seconds()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of xdist has ended."""
    _processes.append(getattr(node, "workeroutput", {}).get(_NAME, 0.0))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    write = terminalreporter.write_line
    by_total = sorted(_seconds.items(), key=lambda entry: -sum(entry[1].values()))
    write("")
    write("CPU seconds:    all   setup    call")
    for name, phases in by_total[:_SHOWN]:
        setup, call = phases.get("setup", 0.0), phases.get("call", 0.0)
        write(f"           {sum(phases.values()):8.1f}{setup:8.1f}{call:8.1f}  {name}")
    total = sum(sum(phases.values()) for phases in _seconds.values())
    write(f"{len(_seconds)} tests: {total:.0f} CPU seconds; the processes: {sum(_processes):.0f}")
