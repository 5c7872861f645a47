"""The report: one file, nothing outside it, every claim with its words and its verdict."""

import html
import re
from html.parser import HTMLParser

from dragoman.lab.compare.figures import BarChart, HeatMap, LineChart, Series, Table
from studies.claims import CLAIMS
from studies.finding import Finding, Verdict
from studies.report import Chapter, write_report

FIGURES = [
    LineChart("Curves", "x", "y", [Series("one", [1, 2], [1, 2])]),
    BarChart("Bars", "unit", ["a<b"], [1.0]),
    HeatMap("Map", ["r"], ["c"], [[1.0]]),
    Table("Table", ["name", "BLEU"], [["x&y", "12.3"]]),
    Table("Rates", ["name", "0.001"], [["z", "0.987"]], folded=True),
]


VERDICTS: dict[str, Verdict] = {"C5": "not seen", "C6": "undecided"}


def report() -> str:
    chapters = [
        Chapter(
            name,
            claim.title,
            claim.words,
            claim.question,
            claim.refuted_by,
            f"dragoman compare --claims {name} --out DIR",
            Finding(FIGURES, (f"First of {name}.", "Second."), VERDICTS.get(name, "seen"), "Tiny."),
        )
        for name, claim in CLAIMS.items()
    ]
    return write_report(chapters, {"machine": "two <cores>"})


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_well_formed_and_refers_to_nothing_outside_itself() -> None:
    page = report()
    tags = _Tags()
    tags.feed(page)
    assert not tags.open
    links = [
        value
        for name, value in tags.attributes
        if name in ("href", "src", "srcset", "data", "action")
    ]
    assert links
    assert all(link is not None and link.startswith("#") for link in links)
    assert not re.search(r"https?:|@import|url\(|<script|<link", page)


def test_the_report_contains_every_claim_with_all_its_parts() -> None:
    page = report()
    for name, claim in CLAIMS.items():
        section = page.split(f'<section id="{name}"')[1].split("</section>")[0]
        assert f"First of {name}. Second." in section
        assert f">{VERDICTS.get(name, 'seen')}</span>" in section
        for words in (claim.question, claim.refuted_by, claim.words, "Tiny."):
            assert html.escape(words) in section
        assert f"dragoman compare --claims {name} --out DIR" in section
        assert section.count("<svg") == 3


def test_the_list_at_the_top_has_every_claim_with_its_verdict() -> None:
    page = report()
    contents = page.split("<nav")[1].split("</nav>")[0]
    entries = contents.split("<li>")[1:]
    assert len(entries) == len(CLAIMS)
    for (name, claim), entry in zip(CLAIMS.items(), entries, strict=True):
        assert f'href="#{name}"' in entry
        assert html.escape(claim.title) in entry
        assert f">{VERDICTS.get(name, 'seen')}</span>" in entry
    decided = len(CLAIMS) - 1
    assert f"{decided} of {len(CLAIMS)} claims are decided" in page


def test_the_report_folds_the_tuning_away() -> None:
    section = report().split('<section id="C1"')[1].split("</section>")[0]
    folded = section.split("<details>")[1].split("</details>")[0]
    assert "<summary>Rates</summary>" in folded
    assert "0.987" in folded
    assert "12.3" not in folded


def test_markup_in_texts_cannot_break_the_page() -> None:
    page = report()
    assert "two &lt;cores&gt;" in page
    assert "a&lt;b" in page
    assert "x&amp;y" in page


def test_a_finding_survives_a_round_trip_through_json() -> None:
    bars = BarChart("b", "u", ["a"], [1.5])
    table = Table("t", ["x"], [["1"]])
    attention = HeatMap("m", ["r"], ["c"], [[0.5]])
    lines = LineChart("l", "x", "y", [Series("s", [1.0], [2.0], [1.5], [2.5])])
    finding = Finding([lines, bars, attention, table], ("One.", "Two."), "undecided", "Two seeds.")
    assert Finding.from_json(finding.to_json()) == finding
