"""The report on a translated document, and the edges of its segments."""

import pytest
from test_document_segments import drive, identical

from dragoman.documents.document import Document, QualityWarning
from dragoman.documents.formats import format_of, read
from dragoman.documents.inline import SentenceResult
from dragoman.documents.report import Report, ReportRow, report_of
from dragoman.documents.rounds import SentenceRequest, UniqueSegments, translate_segments
from dragoman.documents.segment import Code, Kind, serialize, strip_edges
from dragoman.text.glossary import Glossary


def turned(sentence: SentenceRequest) -> SentenceResult:
    """The words from last to first, in capitals."""
    words = sentence.text.upper().split()
    links = tuple((i, len(words) - 1 - i) for i in range(len(words)))
    return SentenceResult(" ".join(reversed(words)), links)


@pytest.mark.parametrize(
    "text",
    ["1. Big dogs", "2.3 Big dogs", "(a) Big dogs", "IV. Big dogs", "- Big dogs", "• Big dogs",
     "1.2.3. Big dogs", "a) Big dogs"],
)  # fmt: skip
def test_the_number_before_an_item_never_moves(text: str) -> None:
    number = text[: text.index("Big")]
    assert serialize(drive([(text,)], turned)[0]) == f"{number}DOGS BIG"


@pytest.mark.parametrize("text", ["3 big dogs", "2.5 million dogs", "3. Mai 2020", "A dog"])
def test_text_that_only_looks_like_numbering_is_translated(text: str) -> None:
    assert strip_edges((text,))[0] == ()


def test_dots_and_page_numbers_stay_at_the_end() -> None:
    assert serialize(drive([("1. Big dogs ........ 17",)], turned)[0]) == "1. DOGS BIG ........ 17"


def test_a_colon_at_the_end_stays_there() -> None:
    said = drive([("Big dogs:",)], lambda sentence: SentenceResult("Große Hunde."))
    assert serialize(said[0]) == "Große Hunde:"


def test_a_link_in_an_element_with_a_line_break_follows_its_words() -> None:
    b = Code("<b>", Kind.OPEN, "b"), Code("</b>", Kind.CLOSE, "b")
    a = Code("<a>", Kind.OPEN, "a"), Code("</a>", Kind.CLOSE, "a")
    segment = (b[0], "One ", a[0], "two", a[1], Code("<br>", Kind.BREAK), "three", b[1])
    assert serialize(drive([segment], turned)[0]) == "<b><a>TWO</a> ONE<br>THREE</b>"


def test_repeated_segments_are_translated_once() -> None:
    segments = [("A dog.",), ("A cat.",), ("A dog.",), ("A dog.",)]
    unique = UniqueSegments(segments)
    asked, done = [], []
    for window in unique.windows(1):
        asked += window
        done.append(unique.add(window, [(f"{window[0][0]} {len(asked)}",)]))
    assert asked == [("A dog.",), ("A cat.",)]
    assert done == [3, 1]
    assert unique.translated() == [("A dog. 1",), ("A cat. 2",), ("A dog. 1",), ("A dog. 1",)]


def test_a_report_shows_doubtful_texts_first_and_escapes_them() -> None:
    segments = [("One <b> dog.",), ("In 1999 it was.",), ("Berlin",), ("Hard words.",)]
    document = Document(
        segments,
        lambda said: b"",
        {("Hard words.",): QualityWarning("the model is unsure (12%)", 0.12)},
    )
    said = [("Ein <b> Hund.",), ("Es war 1998.",), ("Berlin",), ("Harte Worte.",)]
    report = report_of(document, said)
    assert report.counts == {"doubtful": 2, "left": 1, "translated": 1, "copied": 0}
    page = report.as_page("<i>.html")
    assert page.index("Hard words") < page.index("Berlin") < page.index("dog")
    assert "unsure (12%)" in page
    assert "other numbers" in page
    assert "<b>" not in page
    assert "<i>" not in page


def test_a_report_shows_the_state_of_each_term() -> None:
    segments = [("All <b> orders.",), ("An order.",), ("A dog.",)]
    said = [("Alle <b> Aufträge.",), ("Ein Befehl.",), ("Ein Hund.",)]
    plain = report_of(Document(segments, lambda said: b""), said)
    assert plain.terms == {}
    assert "<th>terms</th>" not in plain.as_page("x")
    glossary = Glossary.of([("order", "Auftrag")])
    report = plain.with_terms(lambda s, t: glossary.uses(s, t, "en", "de"))
    assert report.terms == {"inflected": 1, "refused": 1}
    page = report.as_page("x")
    assert "Terms: 1 inflected, 1 refused." in page
    assert "<td>orders → Aufträge<small>inflected</small></td>" in page
    assert "<td>order → Auftrag<small>refused</small></td>" in page


def test_unsure_translations_get_a_warning() -> None:
    warnings: dict = {}
    segments = [("Sure words.",), ("Unsure words.",)]

    def say(sentences: list[SentenceRequest]) -> list[SentenceResult]:
        return [SentenceResult("x", (), 0.9 if "Sure" in one.text else 0.2) for one in sentences]

    translate_segments(segments, say, warnings)
    assert warnings == {("Unsure words.",): QualityWarning("the model is unsure (20%)", 0.2)}


def test_doubtful_texts_are_sorted_by_confidence() -> None:
    segments = [("One.",), ("Two.",), ("Three.",)]
    warnings = {
        ("One.",): QualityWarning("unsure", 0.4),
        ("Three.",): QualityWarning("unsure", 0.1),
    }
    report = report_of(Document(segments, lambda said: b"", warnings), [("A.",), ("B.",), ("C.",)])
    page = report.as_page("a.md")
    assert page.index("Three.") < page.index("One.") < page.index("Two.")


def test_a_report_marks_a_file_that_came_back_unchanged() -> None:
    document = read("a.md", b"# One\n\nTwo `x`\n\n42\n", format_of("a.md"))
    said = drive(document.segments, identical)
    assert report_of(document, said).counts["left"] == 2


def test_a_report_marks_texts_that_came_back_empty_or_unchanged() -> None:
    segments = [("Open the file.",), ("Close the file.",), ("Berlin",)]
    said = [("",), ("Close the file.",), ("Berlin",)]
    report = report_of(Document(segments, lambda said: b""), said)
    assert [(row.state, row.why) for row in report.rows] == [
        ("doubtful", "the translation is empty"),
        ("left", "the translation is the source again"),
        ("left", ""),
    ]


def test_a_report_marks_translations_of_very_different_length() -> None:
    before = "A text of thirty letters, this"
    said = [(before[:10],), (before[:11],), (before * 2,), (before * 3,)]
    document = Document([(before,)] * len(said), lambda said: b"")
    odd = "much longer or shorter"
    assert [row.why for row in report_of(document, said).rows] == [odd, "", "", odd]


def test_a_report_page_counts_each_term_once(monkeypatch) -> None:
    """Counting reads every row, and a report may have a hundred thousand."""
    counted = []
    count = Report.terms.fget

    def counting(report: Report) -> object:
        counted.append(report)
        return count(report)

    monkeypatch.setattr(Report, "terms", property(counting))
    Report([ReportRow("translated", "a", "b")] * 50).as_page("name")
    assert len(counted) == 1


def test_a_report_of_a_large_file_shows_its_first_rows_and_counts_the_others() -> None:
    rows = [ReportRow("translated", f"{n} " + "&" * 199, "&" * 199) for n in range(70_000)]
    rows.append(ReportRow("doubtful", "Hard words.", "?" * 100_000, "unsure"))
    report = Report.of(rows)
    assert report.rows[-1].source == "Hard words."
    assert len(report.rows[-1].target) < 2000
    assert report.counts == {"doubtful": 1, "left": 0, "translated": 70_000, "copied": 0}
    page = report.as_page("large.json")
    assert len(page) < 10_000_000
    assert "70001 texts: 1 doubtful" in page
    assert page.index("Hard words.") < page.index("&amp;")
    assert f"… and {70_001 - len(report.rows):,} more texts." in page


def test_equal_texts_of_a_report_are_searched_for_terms_once_and_up_to_a_limit() -> None:
    asked = []

    def uses(source: str, target: str) -> list[tuple[str, str, str, str]]:
        asked.append(source)
        return [("order", "Auftrag", "Auftrag", "placed")] * 3

    rows = [ReportRow("translated", text, "x") for text in ("a", "a", "b", "c", "d")]
    report = Report.of(rows).with_terms(uses, most=8)
    assert asked == ["a", "b"]
    assert report.terms == {"placed": 8}
