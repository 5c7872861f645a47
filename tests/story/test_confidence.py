"""Confidence on the command line and over HTTP, from the estimate to what is done about it."""

import json
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

import dragoman as package
from dragoman.serve.app import create_app
from dragoman.serve.service import Service
from tests.serving import running

LINES = ["eins zwei drei", "vier", "fünf sechs"]
SAID = ["one two three", "four", "five six"]


@pytest.fixture
def files(tmp_path):
    source, target = tmp_path / "a.de", tmp_path / "a.en"
    source.write_text("\n".join(LINES) + "\n")
    target.write_text("\n".join(SAID) + "\n")
    return source, target


def test_a_column_or_an_object_tells_the_confidence(dragoman, trained) -> None:
    plain = dragoman("translate", *LINES, "--model", trained, "--confidence")
    rows = [line.split("\t") for line in plain.out.splitlines()]
    assert [row[0] for row in rows] == SAID
    expected = [one.confidence for one in package.load(trained).translate(LINES)]
    assert [float(row[1]) for row in rows] == pytest.approx(expected, abs=6e-4)
    found = json.loads(
        dragoman("translate", LINES[0], "--model", trained, "--confidence", "--json").out
    )
    assert found["confidence"] == pytest.approx(expected[0], abs=1e-4)
    assert 0 <= found["chrf"] <= 100
    assert len(found["words"]) == 3
    assert found["errors"] == []
    assert "confidence" not in json.loads(
        dragoman("translate", "eins", "--model", trained, "--json").out
    )


def test_a_file_and_standard_output_have_the_same_columns(dragoman, trained, files) -> None:
    source, _ = files
    out = source.with_suffix(".out")
    ask = ("translate", "--model", trained, "--confidence", "--input", source)
    dragoman(*ask, "--output", out)
    assert out.read_text() == dragoman(*ask).out


def test_doubtful_lines_go_to_a_second_model_and_say_so(dragoman, trained, files, tmp_path) -> None:
    source, _ = files
    ask = ("translate", "--model", trained, "--from", "de", "--to", "en", "--input", source)
    cache = tmp_path / "cache.jsonl"
    all_ = dragoman(*ask, "--defer-below", 1, "--defer-to", trained, "--defer-cache", cache)
    assert all_.out.splitlines() == [f"{said}\t{trained}" for said in SAID]
    assert "3 doubtful texts" in all_.err
    assert len(cache.read_text().splitlines()) == 3
    with running(Service([str(trained)], device="cpu")) as address:
        second = f"{address}/v1#dragoman-{{from}}-{{to}}"
        over = dragoman(*ask, "--defer-below", 1, "--defer-to", second, "--defer-budget", 4)
    assert [bool(line.split("\t")[1]) for line in over.out.splitlines()] == [False, True, False]
    share = dragoman(*ask, "--defer-share", 0.34, "--defer-to", trained)
    assert [bool(line.split("\t")[1]) for line in share.out.splitlines()].count(True) == 1
    unreachable = dragoman(
        *ask, "--defer-below", 1, "--defer-to", "http://127.0.0.1:1/v2", "--defer-timeout", 1
    )
    assert unreachable.out.splitlines() == [f"{said}\t" for said in SAID]
    assert "3 without an answer" in unreachable.err


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--defer-below", 0.5], "give both"),
        (["--defer-to", "x"], "give both"),
        (["--defer-share", 0.5], "give both"),
        (["--defer-share", 0.5, "--defer-below", 0.5, "--defer-to", "x"], "one of them"),
        (["--defer-below", 0.5, "--defer-to", "x"], "--to"),
        (["--defer-below", 0.5, "--defer-to", "x", "--to", "en", "--nbest", 2], "--nbest"),
        (["--defer-below", 0.5, "--defer-to", "http://x/v1", "--to", "en"], "#MODEL"),
    ],
)
def test_incomplete_or_conflicting_options_are_refused(dragoman, trained, options, remedy) -> None:
    answer = dragoman("translate", "eins", "--model", trained, *options)
    assert answer.code == 1
    assert remedy in answer.err


def test_evaluation_says_how_far_confidences_can_be_trusted(dragoman, trained, files) -> None:
    source, target = files
    picture = source.with_suffix(".svg")
    ask = ("evaluate", source, target, "--model", trained, "--confidence", picture)
    assert "ece" in dragoman(*ask).out
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    *_, last = dragoman(*ask, "--json").out.splitlines()
    figures = json.loads(last)["confidence"]
    assert figures["share_good"] == 1.0
    assert figures["ece"] == pytest.approx(1 - figures["mean_confidence"], abs=1e-6)
    assert dragoman("evaluate", source, target, "--hyp", target, "--confidence", picture).code == 1


def test_a_cascade_shows_quality_against_the_share_deferred(dragoman, trained, files) -> None:
    source, target = files
    picture = source.with_suffix(".svg")
    ask = ("cascade", source, target, "--model", trained, "--defer-to", trained)
    points = [
        json.loads(line) for line in dragoman(*ask, "--json", "--plot", picture).out.splitlines()
    ]
    assert [point["share"] for point in points] == sorted(point["share"] for point in points)
    assert points[-1]["bleu"] == pytest.approx(points[0]["bleu"])
    assert all("gain_by_share" in point for point in points)
    assert picture.exists()
    assert "30% deferred" in dragoman(*ask).out
    target.write_text("one\n")
    assert dragoman(*ask).code == 1


def test_sentences_worth_translating_by_hand_are_listed(dragoman, trained, files) -> None:
    source, _ = files
    answer = dragoman("adapt", source, "--model", trained, "--active", 2, "--to", "en")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert len(rows) == 2
    assert all(LINES[int(number) - 1] == text for number, _, text in rows)


def test_given_translations_are_looked_at_for_errors(dragoman, trained, files) -> None:
    source, target = files
    target.write_text("one two three\nfour 44\nfünf sechs sechs sechs\n")
    answer = dragoman("score", source, target, "--model", trained, "--errors", "--to", "en")
    assert answer.out.splitlines() == ["", "number", "untranslated repetition"]


def test_the_service_returns_confidences_on_request(trained) -> None:
    with TestClient(create_app(Service([str(trained)], device="cpu"))) as client:
        question = {"text": "eins zwei. drei.", "source": "de", "target": "en"}
        (plain,) = client.post("/v1/translate", json=question).json()["translations"]
        assert "confidence" not in plain
        question |= {"confidence": True, "alignments": True}
        (found,) = client.post("/v1/translate", json=question).json()["translations"]
    sure = [sentence["confidence"] for sentence in found["sentences"]]
    assert found["confidence"] == min(sure)
    words = found["candidates"][0]["words"]
    assert all(0 <= word["confidence"] <= 1 for word in words)
