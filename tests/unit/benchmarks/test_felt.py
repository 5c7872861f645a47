"""`benchmarks/felt.py`: its sentences are balanced, its sheets are blind, its shares add up."""

import gzip
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import felt
import pytest

from dragoman.config import DecodingConfig

EXAMPLES = Path(__file__).parents[3] / "examples"
OTHERS = ("de", "fr", "es", "pt")
DIRECTIONS = {("en", other) for other in OTHERS} | {(other, "en") for other in OTHERS}


@pytest.fixture(scope="module")
def sentences() -> list[felt.Row]:
    return felt.read_table(felt.LINES, (*felt.SENTENCE, "part"))


def test_each_kind_has_twenty_sentences_half_of_them_unseen(sentences) -> None:
    counts = Counter((sentence["kind"], sentence["part"]) for sentence in sentences)
    kinds = {sentence["kind"] for sentence in sentences}
    assert len(kinds) == 20
    assert counts == {(kind, part): 10 for kind in kinds for part in ("dev", "unseen")}


def test_each_direction_has_fifty_sentences_half_of_them_unseen(sentences) -> None:
    counts = Counter((sentence["from"], sentence["to"], sentence["part"]) for sentence in sentences)
    assert counts == {(*pair, part): 25 for pair in DIRECTIONS for part in ("dev", "unseen")}


def test_directions_share_each_kind_and_each_half_of_it(sentences) -> None:
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    halves = set()
    for sentence in sentences:
        direction = sentence["from"], sentence["to"]
        counts[sentence["kind"]][direction] += 1
        halves.add((sentence["kind"], direction, sentence["part"]))
    assert {count for of_kind in counts.values() for count in of_kind.values()} == {2, 3}
    assert len(halves) == 20 * 8 * 2


def test_sentences_are_new_and_all_different(sentences) -> None:
    texts = [sentence["text"].casefold() for sentence in sentences]
    assert len(set(texts)) == len({sentence["id"] for sentence in sentences}) == len(texts)
    known = set()
    for path in EXAMPLES.glob("*.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            known |= {line.strip().casefold() for line in file}
    assert known
    assert known.isdisjoint(texts)


def test_sentences_have_one_to_thirty_words_without_stray_blanks(sentences) -> None:
    for sentence in sentences:
        assert sentence["text"] == " ".join(sentence["text"].split())
        assert 1 <= len(sentence["text"].split()) <= 30


def sheet(model: str, outputs: list[str], kinds: str = "chat") -> list[felt.Row]:
    return [
        {
            "id": f"chat-{number:02}",
            "kind": kinds,
            "from": "en",
            "to": "de",
            "text": f"Sentence {number}",
            "output": output,
            "grade": "",
        }
        for number, output in enumerate(outputs)
    ]


SHEETS = {
    "old": sheet("old", [f"alt {number}" for number in range(30)]),
    "new": sheet("new", [f"neu {number}" for number in range(30)]),
}


def test_the_key_leads_each_row_of_a_blind_sheet_to_its_models() -> None:
    rows, key = felt.blind(SHEETS, seed=1)
    by_id = {row["id"]: row for row in rows}
    found = {(entry["model"], by_id[entry["id"]]["text"]): entry for entry in key}
    assert len(rows) == len(key) == len(found) == 60
    for model, made in SHEETS.items():
        for row in made:
            entry = found[model, row["text"]]
            assert by_id[entry["id"]]["output"] == row["output"]


def test_a_blind_sheet_does_not_show_which_model_made_a_row() -> None:
    rows, key = felt.blind(SHEETS, seed=1)
    assert set(rows[0]) == set(felt.SHEET)
    model_of = {entry["id"]: entry["model"] for entry in key}
    places, numbers = defaultdict(list), defaultdict(set)
    for place, row in enumerate(rows):
        model = model_of[row["id"]]
        places[model].append(place)
        numbers[model].add(row["id"].rpartition(".")[2])
    assert numbers == {"old": {"1", "2"}, "new": {"1", "2"}}
    assert abs(sum(places["old"]) - sum(places["new"])) < 30 * 15
    assert [row["id"] for row in rows] != sorted(row["id"] for row in rows)
    again, _ = felt.blind(dict(reversed(SHEETS.items())), seed=1)
    assert [row["output"] for row in again] == [row["output"] for row in rows]
    other, _ = felt.blind(SHEETS, seed=2)
    assert [row["output"] for row in other] != [row["output"] for row in rows]


def test_equal_outputs_are_graded_once_and_count_for_both_models() -> None:
    sheets = {"old": sheet("old", ["Hallo", "alt"]), "new": sheet("new", ["Hallo", "neu"])}
    rows, key = felt.blind(sheets, seed=1)
    assert sorted(row["output"] for row in rows) == ["Hallo", "alt", "neu"]
    for row in rows:
        row["grade"] = {"Hallo": "adequate", "alt": "absurd", "neu": "Minor "}[row["output"]]
    counts = felt.tally(rows, key)
    assert counts["old", "all"] == counts["old", "en-de"] == {"adequate": 1, "absurd": 1}
    assert counts["new", "all"] == counts["new", "chat"] == {"adequate": 1, "minor": 1}


def test_sheets_of_different_sentences_are_refused() -> None:
    with pytest.raises(SystemExit, match="chat-01"):
        felt.blind({"old": sheet("old", ["a", "b"]), "new": sheet("new", ["a"])}, seed=1)


def test_an_unknown_grade_or_a_key_of_another_sheet_is_refused() -> None:
    rows, key = felt.blind(SHEETS, seed=1)
    with pytest.raises(SystemExit, match="different rows"):
        felt.tally(rows[1:], key)
    rows[0]["grade"] = "good"
    with pytest.raises(SystemExit, match="'good'"):
        felt.tally(rows, key)


@pytest.mark.parametrize(("count", "total"), [(0, 7), (3, 10), (200, 400), (50, 50)])
def test_the_ends_of_an_interval_are_the_shares_just_compatible_with_the_count(
    count: int, total: int
) -> None:
    for bound in felt.wilson(count, total):
        distance = abs(count / total - bound)
        assert distance == pytest.approx(1.96 * math.sqrt(bound * (1 - bound) / total), abs=1e-9)


def test_cells_come_through_a_file(tmp_path) -> None:
    rows = sheet("old", ['"Ja", sagte sie.', "“Nein”", "Ende\u2028"])
    felt.write_table(tmp_path / "sheet.tsv", felt.SHEET, rows)
    assert felt.read_table(tmp_path / "sheet.tsv", felt.SHEET) == rows


def test_a_file_with_a_missing_cell_is_refused(tmp_path) -> None:
    path = tmp_path / "key.tsv"
    path.write_text("id\tmodel\nchat-01.1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"key\.tsv:2"):
        felt.read_table(path, felt.KEY)


def test_plain_translation_repairs_nothing_and_searches_as_before() -> None:
    repairs = {"keep_numbers", "keep_names", "short_lines"}
    before = DecodingConfig(beam_size=7, keep_capitals=True, **dict.fromkeys(repairs, True))
    plain = felt.without_repairs(before)
    without = dict.fromkeys(repairs, False)
    assert plain == DecodingConfig(beam_size=7, keep_capitals=True, **without)


class Echo:
    """A translator that says what it was given, in capitals, with a tab."""

    config = SimpleNamespace(decoding=DecodingConfig())

    def translate(self, texts, request, source, to):
        return [f"{source}\t{to}: {text.upper()}" for text in texts]


def test_the_way_from_sentences_to_shares(tmp_path, monkeypatch, capsys) -> None:
    def run(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", ["felt.py", *map(str, arguments)])
        felt.main()

    monkeypatch.setattr("dragoman.load", lambda model: Echo())
    one, two, mixed, key = (tmp_path / f"{name}.tsv" for name in ("one", "two", "mixed", "key"))
    run("--out", one)
    run("--part", "dev", "--seed", 2, "--plain", "--out", two)
    rows = felt.read_table(one, felt.SHEET)
    assert len(rows) == 200
    assert [row["id"] for row in rows] != sorted(row["id"] for row in rows)
    for row in rows:
        assert row["output"] == f"{row['from']} {row['to']}: {row['text'].upper()}"
    run("--blind", one, two, "--out", mixed, "--key", key)
    graded = felt.read_table(mixed, felt.SHEET)
    assert len(graded) == 200
    for row in graded:
        row["grade"] = "wrong" if row["kind"] == "idiom" else "adequate"
    graded[0]["grade"] = ""
    felt.write_table(mixed, felt.SHEET, graded)
    capsys.readouterr()
    run("--score", mixed, "--key", key)
    printed = capsys.readouterr()
    assert "1 of 200 rows" in printed.err
    shares = [line.split("\t") for line in printed.out.splitlines()]
    assert shares[0] == ["model", "group", "rows", *felt.GRADES]
    assert len(shares) == 1 + 2 * (1 + 20 + 8)
    idiom = next(cells for cells in shares if cells[:2] == ["two", "idiom"])
    assert idiom[3].startswith("0.0% (0.0% to ")
    assert idiom[5].startswith("100.0% (")
