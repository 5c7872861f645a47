import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dragoman.decode.bulk import run
from dragoman.decode.bulk.job import Job
from dragoman.decode.bulk.run import translate_file
from dragoman.decode.bulk.shards import Parts, Shard, cut
from dragoman.decode.bulk.synthetic import PairLine
from dragoman.decode.request import Request
from dragoman.decode.search.task import Sampling
from dragoman.decode.translation import Candidate, Translation
from dragoman.errors import ConfigError, CorpusError, RunError
from tests.conftest import toy_pairs


class Text:
    """Writes only the best translation."""

    def __call__(self, translation: Translation) -> str:
        return f"{translation.text}\n"

    def __repr__(self) -> str:
        return "Text()"


class Once(Text):
    """Raises on a given call."""

    def __init__(self, calls: int):
        self.calls = calls

    def __call__(self, translation: Translation) -> str:
        self.calls -= 1
        if not self.calls:
            raise KeyboardInterrupt
        return super().__call__(translation)


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.de"
    path.write_text("".join(f"{source}\n" for source, _ in toy_pairs(45, seed=6)))
    return path


def names(path: Path, size: int = 10, fingerprint: str = "x") -> list[str]:
    return [shard.name for shard in cut(str(path), size, fingerprint)]


def test_shards_hold_every_line_once_and_in_order(numbers: Path) -> None:
    shards = list(cut(str(numbers), 10, "x"))
    assert [line for shard in shards for line in shard.lines] == numbers.read_text().splitlines()
    assert [(shard.first, len(shard.lines)) for shard in shards] == [
        (0, 10),
        (10, 10),
        (20, 10),
        (30, 10),
        (40, 5),
    ]


def test_a_shards_name_depends_on_text_size_and_fingerprint(numbers: Path) -> None:
    before = names(numbers)
    lines = numbers.read_text().splitlines()
    assert sorted(before) == before == names(numbers)
    assert not set(before) & set(names(numbers, fingerprint="y"))
    assert not set(before) & set(names(numbers, size=9))
    lines[12] += " eins"
    numbers.write_text("".join(f"{line}\n" for line in lines))
    assert [
        i for i, (old, new) in enumerate(zip(before, names(numbers), strict=True)) if old != new
    ] == [1]


def test_a_jobs_fingerprint_depends_on_model_and_settings(trained: Path) -> None:
    kept = Path(__file__).parents[3] / "kept" / "format-1"
    requests = [
        Request(),
        Request(nbest=2),
        Request(sampling=Sampling()),
        Request(sampling=Sampling(seed=2)),
    ]
    jobs = [Job(str(model), request, Text()) for model in (trained, kept) for request in requests]
    jobs += [
        Job(f"{trained},{kept}", Request(), Text()),
        Job(str(trained), Request(), PairLine("back")),
    ]
    assert len({job.fingerprint() for job in jobs}) == len(jobs)
    assert Job(str(trained), Request(), Text()).fingerprint() == jobs[0].fingerprint()


def test_an_interrupted_run_resumes(numbers: Path, trained: Path, tmp_path: Path, capsys) -> None:
    whole, broken = tmp_path / "whole.en", tmp_path / "broken.en"
    # what is drawn for a line depends on its number
    model = (str(trained), Request(sampling=Sampling()))
    translate_file(str(numbers), str(whole), Job(*model, Text(), "cpu"), shard_lines=10)
    with pytest.raises(KeyboardInterrupt):
        translate_file(str(numbers), str(broken), Job(*model, Once(32), "cpu"), shard_lines=10)
    assert not broken.exists()
    capsys.readouterr()
    assert (
        translate_file(str(numbers), str(broken), Job(*model, Text(), "cpu"), shard_lines=10) == 45
    )
    assert "45 lines; shards done before: 3 of 5" in capsys.readouterr().err
    assert broken.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broken.en",
        "numbers.de",
        "whole.en",
    ]


def test_work_starts_before_the_whole_file_is_read(
    numbers: Path, trained: Path, tmp_path: Path, monkeypatch
) -> None:
    read: list[str] = []
    when_begun: list[int] = []

    def told(*arguments) -> Iterator[Shard]:
        for shard in cut(*arguments):
            read.append(shard.name)
            yield shard

    def make(shards: Iterable[Shard]) -> Iterator[tuple[Shard, str]]:
        for shard in shards:
            when_begun.append(len(read))
            yield shard, "".join(f"{line}\n" for line in shard.lines)

    monkeypatch.setattr(run, "cut", told)
    monkeypatch.setattr(run, "_maker", lambda *arguments: make)
    output = tmp_path / "out.en"
    job = Job(str(trained), Request(), Text(), "cpu")
    assert run.translate_file(str(numbers), str(output), job, shard_lines=10) == 45
    assert when_begun == [1, 7, 8, 9, 10]  # five shards, of which each is read twice
    assert output.read_bytes() == numbers.read_bytes()


def test_a_run_that_only_misses_the_join_translates_nothing(
    numbers: Path, trained: Path, tmp_path: Path, monkeypatch
) -> None:
    output = tmp_path / "out.en"
    job = Job(str(trained), Request(), Text(), "cpu")
    parts = Parts(str(output))
    parts.folder.mkdir()
    for shard in cut(str(numbers), 10, job.fingerprint()):
        parts.write(shard.name, "".join(f"{line}\n" for line in shard.lines))

    def make(shards: Iterable[Shard]) -> Iterator[tuple[Shard, str]]:
        raise AssertionError("a model would be loaded")

    monkeypatch.setattr(run, "_maker", lambda *arguments: make)
    assert run.translate_file(str(numbers), str(output), job, shard_lines=10) == 45
    assert output.read_bytes() == numbers.read_bytes()


def test_sharding_changes_no_translation_even_with_sampling(
    numbers: Path, trained: Path, tmp_path: Path
) -> None:
    job = Job(str(trained), Request(sampling=Sampling()), Text(), "cpu")
    for size in (7, 45):
        translate_file(str(numbers), str(tmp_path / f"{size}.en"), job, shard_lines=size)
    assert (tmp_path / "7.en").read_text() == (tmp_path / "45.en").read_text()


def test_compressed_files_are_read_and_written(
    numbers: Path, trained: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "numbers.de.gz"
    job = Job(str(trained), Request(), Text(), "cpu")
    packed.write_bytes(gzip.compress(numbers.read_bytes()))
    translate_file(str(numbers), str(tmp_path / "plain.en"), job)
    translate_file(str(packed), str(tmp_path / "packed.en.gz"), job)
    assert (
        gzip.decompress((tmp_path / "packed.en.gz").read_bytes())
        == (tmp_path / "plain.en").read_bytes()
    )


def test_impossible_jobs_are_rejected_before_any_work(
    numbers: Path, trained: Path, tmp_path: Path
) -> None:
    job = Job(str(trained), Request(), Text(), "cpu")
    output = str(tmp_path / "out.en")
    with numbers.open("ab") as file:
        file.write(b"\xfc\n")
    with pytest.raises(CorpusError, match="line 46 is not UTF-8"):
        translate_file(str(numbers), output, job, shard_lines=10)
    with pytest.raises(ConfigError, match="only once"):
        translate_file("-", output, job)
    with Parts(output).opened(), pytest.raises(RunError, match="another process"):
        translate_file(str(numbers), output, job)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["numbers.de"]


def test_a_synthetic_pair_has_a_tag_both_sides_and_one_line() -> None:
    def line(kind: str, source: str, text: str) -> str:
        return PairLine(kind)(Translation(source, (Candidate(text, 0.0),)))

    assert line("back", "one\ttwo", "eins zwei") == "<BT> eins zwei\tone two\n"
    assert line("distil", "eins", "one") == "eins\tone\n"
    assert line("back", "one", " ") == line("distil", "", "one") == ""
