"""Windows of lines by several processes: the same bits, and nothing left behind."""

import errno
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from dragoman.bundle.folder import PRETRAINED, read_bundle
from dragoman.config import DecodingConfig, replace
from dragoman.decode import processes
from dragoman.decode import translator as translating
from dragoman.decode.packed import PackedHypotheses
from dragoman.decode.query import Query, Search, SearchOptions
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.table import RecordedSearch
from dragoman.decode.search.task import Sampling
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator, Window, numbered
from dragoman.engine.factory import make_engine
from dragoman.engine.gpus import DeviceSlot, LazyEngine
from dragoman.errors import TranslationError
from dragoman.text.subword import Flat

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forks")

LINES = ["Ja.", "", "Wo ist der Bahnhof?", "Ich habe 3 Katzen.", "Ja.", "Das ist gut.", "Nein!"]
TO_ENGLISH = Request(to="en", source_language="de")
_LONGEST_S = 60  # far more than a busy machine takes


@pytest.fixture(scope="module")
def translator() -> Translator:
    loaded = Translator.load()
    config = replace(loaded.config, {"decoding.beam_size": 2})
    return Translator(loaded.engine, loaded.codec, config, loaded.bundle)


@pytest.fixture(autouse=True)
def however_small(monkeypatch) -> None:
    """Windows of any size are worth a process."""
    monkeypatch.setattr(translating, "_LEAST_LINES", 1)
    monkeypatch.setattr(translating, "_LEAST_ON_GPU", 1)


@pytest.fixture
def no_forks(monkeypatch) -> None:
    monkeypatch.setattr(processes, "Forks", None)


def facts(translation: Translation) -> tuple[object, ...]:
    return translation.source, translation.candidates, translation.note


def test_processes_find_the_same_bits_in_the_same_order(translator) -> None:
    expected = [facts(one) for one in translator(LINES, TO_ENGLISH)]
    for ahead in (0, 2):
        windows = numbered([LINES[:3], LINES[3:5], LINES[5:]])
        found = translator.windows(windows, TO_ENGLISH, facts, 2, ahead)
        assert [*found] == [expected[:3], expected[3:5], expected[5:]]


@pytest.fixture
def as_on_a_gpu(translator, monkeypatch) -> Translator:
    """One whose engine stays with the first process; it is an ordinary one."""
    engine = make_engine(read_bundle(PRETRAINED / "pentaglot"), "cpu", "torch")
    monkeypatch.setattr(type(engine), "searches_on_device", True)
    monkeypatch.setattr(RecordedSearch, "fits", lambda *_: False)
    return Translator(engine, translator.codec, translator.config)


def test_processes_ask_for_searches_where_the_engine_stays(as_on_a_gpu) -> None:
    # Here a neighbour in a batch may change the last bits, so only texts are compared.
    expected = [one.text for one in as_on_a_gpu(LINES, TO_ENGLISH)]
    found = as_on_a_gpu.windows(numbered([LINES] * 5), TO_ENGLISH, lambda one: one.text, 2)
    assert [*found] == [expected] * 5
    assert multiprocessing.active_children() == []


def test_so_it_is_without_being_asked(as_on_a_gpu, monkeypatch) -> None:
    started = []
    forks = processes.Forks.started

    def watched(translate, count, *rest) -> AbstractContextManager[processes.Forks]:
        started.append(count)
        return forks(translate, count, *rest)

    monkeypatch.setattr(processes.Forks, "started", watched)
    monkeypatch.setattr(translating, "usable_cores", lambda: 1)
    monkeypatch.setattr(translating, "_LEAST_LINES", 1000)  # each takes a window, however small
    expected = [one.text for one in as_on_a_gpu(LINES, TO_ENGLISH)]
    found = as_on_a_gpu.windows(numbered([LINES] * 5), TO_ENGLISH, lambda one: one.text)
    assert [*found] == [expected] * 5
    assert started == [8]


def test_what_fails_in_a_search_that_was_asked_for_is_told(as_on_a_gpu, monkeypatch) -> None:
    def search(options: SearchOptions, sources: Flat) -> None:
        raise TranslationError("the GPU has no memory left.")

    monkeypatch.setattr(as_on_a_gpu.searcher, "packed", search)
    with pytest.raises(TranslationError, match="no memory left"):
        [*as_on_a_gpu.windows(numbered([LINES] * 5), TO_ENGLISH, facts, 2)]
    assert multiprocessing.active_children() == []


class FarEngine:
    """A searcher that tells where it is: the process, and the GPU that it was sent to."""

    def load_on(self, place: DeviceSlot) -> None:
        os.environ["CUDA_VISIBLE_DEVICES"] = place.gpu

    def packed(self, options: SearchOptions, sources: Flat) -> PackedHypotheses:
        if [9] in sources.lists():
            os.kill(os.getpid(), signal.SIGKILL)
        here = Hypothesis((os.getpid(), int(os.environ["CUDA_VISIBLE_DEVICES"])), 0.0, (), True)
        return PackedHypotheses.of([[here]] * len(sources.lengths))


def _whereabouts(lines: list[str], search: Search) -> list[tuple[int, ...]]:
    queries = [Query([int(line)], SearchOptions(DecodingConfig(beam_size=1))) for line in lines]
    return [answer[0].tokens for answer in search(queries)]


def assert_gone(pids: Iterable[int]) -> None:
    """Soon: nobody waits for an engine."""
    for pid in pids:
        for _ in range(1000):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.01)
        else:
            pytest.fail(f"process {pid} lives on")


def test_engines_may_have_processes_and_gpus_of_their_own() -> None:
    places = [DeviceSlot("3", 0.5), DeviceSlot("5", 0.5)]
    with processes.Forks.started(_whereabouts, 4, [["1"]] * 4, FarEngine(), places) as forks:
        found = [future.result() for future in forks.begun]
        found.append(forks.submit(["2", "1"]).result())
        workers = {worker.process.pid for worker in forks._workers}
    whereabouts = [one for of_chunk in found for one in of_chunk]
    assert len(whereabouts) == 6
    pids = {pid for pid, _ in whereabouts}
    assert len(pids) == 2
    assert not pids & {os.getpid(), *workers}
    assert {gpu for _, gpu in whereabouts} == {3, 5}
    assert multiprocessing.active_children() == []
    assert_gone(pids)


def test_engines_of_before_are_gone_when_others_begin(monkeypatch) -> None:
    """Nobody waits at the end of a file, but the next one needs their memory."""
    places = [DeviceSlot("0", 1)]
    waitpid, freed = os.waitpid, threading.Event()

    def slowly(process: int, options: int) -> tuple[int, int]:
        if process in before:
            freed.wait(_LONGEST_S)
        return waitpid(process, options)

    monkeypatch.setattr(os, "waitpid", slowly)
    with processes.Forks.started(_whereabouts, 1, [["1"]], FarEngine(), places) as forks:
        before = forks._engines
    assert_lives(before)
    threading.Timer(0.2, freed.set).start()
    with (
        processes.Forks.started(_whereabouts, 1, [["1"]], FarEngine(), places),
        pytest.raises(ProcessLookupError),
    ):
        assert_lives(before)


def assert_lives(pids: Iterable[int]) -> None:
    for pid in pids:
        os.kill(pid, 0)


def test_there_are_no_more_engines_than_processes_that_ask() -> None:
    places = [DeviceSlot(str(number), 1) for number in range(3)]
    with processes.Forks.started(_whereabouts, 1, [["1"]], FarEngine(), places) as forks:
        (((_, gpu),),) = [future.result() for future in forks.begun]
        assert gpu == 0
        assert len(forks._engines) == 1


@pytest.mark.parametrize("most", [1, 2])  # one engine of two; both, and nobody who asks
def test_engines_that_cannot_be_forked_leave_nothing_behind(most: int, monkeypatch) -> None:
    fork = os.fork
    allowed = iter(range(most))

    forked = []

    def sometimes() -> int:
        if next(allowed, None) is None:
            raise OSError(errno.EAGAIN, "too many processes")
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", sometimes)
    with pytest.raises(OSError, match="too many processes"):
        processes.Forks(_whereabouts, 2, [["1"]], FarEngine(), [DeviceSlot("0", 1)] * 2)
    assert multiprocessing.active_children() == []
    assert len(forked) == most
    assert_gone(forked)


def test_the_death_of_an_engine_is_told() -> None:
    chunks = [["1"], ["9"]]
    started = processes.Forks.started(_whereabouts, 2, chunks, FarEngine(), [DeviceSlot("0", 1)])
    died = pytest.raises(TranslationError, match="the process that runs the model has died")
    with started as forks, died:
        [future.result() for future in forks.begun]
    assert multiprocessing.active_children() == []


def test_an_engine_that_is_made_stays_where_it_is(translator, monkeypatch) -> None:
    monkeypatch.setattr(
        translating, "plan_device_slots", lambda cores: [DeviceSlot("0", 1)] * cores
    )
    monkeypatch.setattr(translating, "usable_cores", lambda: 2)
    assert translator._places() == []
    deferred = LazyEngine(translator.bundle, lambda bundle: translator.engine)
    later = Translator(deferred, translator.codec, translator.config)
    assert later._places() == [DeviceSlot("0", 1)] * 2
    assert deferred.ready is translator.engine
    assert later._places() == []


def test_a_stream_takes_the_processes_that_it_is_given(translator) -> None:
    whole = translator.stream(LINES, TO_ENGLISH, processes=3)
    assert [facts(one) for one in whole] == [facts(one) for one in translator(LINES, TO_ENGLISH)]
    assert multiprocessing.active_children() == []


def test_fewer_processes_than_asked_for_do_the_same(translator, monkeypatch) -> None:
    fork = os.fork
    forked: list[int] = []

    def only_one() -> int:
        if forked:
            raise OSError(errno.EAGAIN, "too many processes")
        forked.append(fork())
        return forked[0]

    monkeypatch.setattr(os, "fork", only_one)
    whole = translator.stream(LINES, TO_ENGLISH, processes=3)
    assert [facts(one) for one in whole] == [facts(one) for one in translator(LINES, TO_ENGLISH)]
    assert len(forked) == 1


@pytest.mark.usefixtures("no_forks")
def test_what_gains_nothing_from_processes_is_done_without(translator, monkeypatch) -> None:
    drawn = Request(to="en", source_language="de", sampling=Sampling(seed=3))
    one_by_one = [translator.stream(LINES[:2], drawn, first=i) for i in (0, 2)]
    windows = [Window(0, LINES[:2]), Window(2, LINES[:2])]
    found = translator.windows(windows, drawn, str, 2)
    assert [*found] == [[*map(str, stream)] for stream in one_by_one]
    monkeypatch.setattr(translating, "_LEAST_LINES", 2)
    few = translator.windows([Window(0, LINES[:3])], TO_ENGLISH, str, 2)
    assert len(next(few)) == 3


def test_a_mistake_found_by_a_process_is_told_as_ever(translator) -> None:
    def show(translation: Translation) -> str:
        if translation.source == "Nein!":
            raise TranslationError("this line cannot be shown.")
        return str(translation)

    with pytest.raises(TranslationError, match=r"this line cannot be shown\."):
        [*translator.windows(numbered([LINES] * 4), TO_ENGLISH, show, 2)]
    assert multiprocessing.active_children() == []


def test_a_defect_shows_where_it_is(translator) -> None:
    def show(translation: Translation) -> str:
        return f"{1 / len(translation.source)}"

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        [*translator.windows(numbered([LINES]), TO_ENGLISH, show, 2)]


def test_the_death_of_a_process_is_told_with_its_cause(translator) -> None:
    def show(translation: Translation) -> str:
        if translation.source == "Nein!":
            os.kill(os.getpid(), signal.SIGKILL)
        return str(translation)

    with pytest.raises(TranslationError, match=r"died \(signal 9: was there too little memory"):
        [*translator.windows(numbered([LINES] * 4), TO_ENGLISH, show, 2)]
    assert multiprocessing.active_children() == []


def test_an_interrupt_of_the_terminal_is_left_to_the_first_process(translator) -> None:
    """Ctrl-C reaches all of them, and only the first knows what to do then."""
    expected = [*map(str, translator(LINES, TO_ENGLISH))]
    windows = translator.windows(numbered([LINES] * 9), TO_ENGLISH, str, 2)
    next(windows)
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGINT)
    assert [*windows] == [expected] * 8


def test_processes_end_when_nobody_wants_the_rest(translator) -> None:
    found = translator.windows(numbered([LINES] * 9), TO_ENGLISH, str, 2)
    next(found)
    assert len(multiprocessing.active_children()) == 2
    found.close()
    assert multiprocessing.active_children() == []


def test_processes_end_with_the_one_that_they_work_for(translator, tmp_path) -> None:
    def work(pids: Path) -> None:
        found = translator.windows(numbered([LINES] * 9), TO_ENGLISH, str, 2)
        next(found)
        children = multiprocessing.active_children()
        pids.with_suffix(".new").write_text(" ".join(str(child.pid) for child in children))
        pids.with_suffix(".new").rename(pids)
        time.sleep(_LONGEST_S)

    first = multiprocessing.get_context("fork").Process(target=work, args=(tmp_path / "pids",))
    first.start()
    wait_for((tmp_path / "pids").exists)
    first.kill()
    first.join()
    workers = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(workers) == 2
    try:
        for pid in workers:
            wait_for(lambda pid=pid: has_ended(pid))
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_for(condition) -> None:
    patience = time.monotonic() + _LONGEST_S
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """A zombie that nobody waits for, as in some containers, has ended too."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
