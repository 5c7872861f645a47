"""A report on a translated document: each text next to its translation, doubtful ones first."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from dragoman.documents.document import NO_WARNING, Document, QualityWarning
from dragoman.documents.segment import Kind, Segment, has_words, plain_text
from dragoman.text.verbatim import reason_for_doubt

DOUBTFUL, LEFT, COPIED, TRANSLATED = "doubtful", "left", "copied", "translated"
STATES = (DOUBTFUL, LEFT, TRANSLATED, COPIED)  # in the order of the report
_DIGIT = re.compile(r"\d")
# A report of a large file shows its first rows: of 5,000 characters of "&" each, 70,000 rows would
# make a page of 700 MB.
_MOST_ROWS, _MOST_CHARACTERS, _LONGEST_TEXT = 5_000, 1_000_000, 1_000
_EXAMPLES, _LONGEST_EXAMPLE = 3, 40  # texts of a summary, and their characters
_SHORT = 20  # characters: ratios of shorter lengths say nothing
_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%;table-layout:fixed}"
    "td,th{border-bottom:1px solid #ccc;padding:.4rem .6rem;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}"
    "td:first-child,th:first-child{width:9rem}.doubtful td{background:#fff3d6}"
    ".left td{background:#f3f3f3}small{color:#666;display:block}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#eee}"
    ".doubtful td{background:#4a3a10}.left td{background:#2a2a2a}}"
)


# An occurrence of a glossary term: source, target, words of the translation, and its state. The
# process that reads files must not import `text/glossary.py` for a proper class.
Term = tuple[str, str, str, str]


class ReportRow(NamedTuple):
    state: str
    source: str
    target: str
    why: str = ""
    terms: Sequence[Term] = ()
    confidence: float = 1.0
    place: str = ""


class Report(NamedTuple):
    """The rows to show, in the document's order, and how many more there are in each state."""

    rows: list[ReportRow]
    others: dict[str, int] = {}  # noqa: RUF012  (a NamedTuple's default is never changed)

    @classmethod
    def of(cls, rows: Iterable[ReportRow]) -> "Report":
        """Keep the rows that a page has room for: doubtful ones first."""
        rows = list(rows)
        kept: dict[int, ReportRow] = {}
        characters = 0
        for number in sorted(range(len(rows)), key=lambda number: _urgency(rows[number])):
            row = rows[number]
            row = row._replace(source=_shortened(row.source), target=_shortened(row.target))
            characters += len(row.source) + len(row.target)
            if characters > _MOST_CHARACTERS or len(kept) == _MOST_ROWS:
                break
            kept[number] = row
        others = Counter(row.state for number, row in enumerate(rows) if number not in kept)
        return cls([kept[number] for number in sorted(kept)], dict(others))

    @property
    def findings(self) -> list[ReportRow]:
        """Return the texts that need a look: doubtful ones, and those left for a reason."""
        return [row for row in self.rows if row.why]

    def summary(self, name: str) -> list[str]:
        """Describe the findings in one line for each reason, with examples."""
        of_reason: dict[tuple[str, str], list[ReportRow]] = {}
        for row in self.findings:
            # Without details such as "(12%)".
            of_reason.setdefault((row.state, row.why.partition(" (")[0]), []).append(row)
        lines = []
        for (state, why), rows in of_reason.items():
            distinct = list({row.source: row for row in rows}.values())
            examples = ", ".join(_example(row) for row in distinct[:_EXAMPLES])
            more = ", …" if len(distinct) > _EXAMPLES else ""
            texts = "text" if len(rows) == 1 else "texts"
            lines.append(f"{name}: {len(rows)} {texts} {state}: {why}: {examples}{more}")
        return lines

    def with_terms(
        self, uses: Callable[[str, str], Sequence[Term]], most: int = 100_000
    ) -> "Report":
        """Return the report with the terms of each text, which `uses` finds in text and
        translation; of `most` occurrences in all.
        """
        of_pair: dict[tuple[str, str], Sequence[Term]] = {}
        rows = []
        left = most
        for row in self.rows:
            pair = row.source, row.target
            if pair not in of_pair and left > 0:
                of_pair[pair] = uses(*pair)
            terms = of_pair.get(pair, ())[: max(0, left)]
            left -= len(terms)
            rows.append(row._replace(terms=terms))
        return self._replace(rows=rows)

    @property
    def terms(self) -> dict[str, int]:
        """Count the terms of the rows that were placed, inflected and refused."""
        return dict(Counter(state for row in self.rows for *_, state in row.terms))

    @property
    def counts(self) -> dict[str, int]:
        """Count the texts that were translated, copied, left, and doubtful."""
        counted = Counter(row.state for row in self.rows) + Counter(self.others)
        return {state: counted[state] for state in STATES}

    def as_page(self, name: str) -> str:
        """Return the report as one HTML page that loads nothing else."""
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        terms = self.terms
        if terms:
            counts += ". Terms: " + ", ".join(f"{n} {state}" for state, n in terms.items())
        more = sum(self.others.values())
        rest = f"<p>… and {more:,} more texts.</p>" if more else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>{html.escape(name)}</title><style>{_STYLE}</style></head>\n<body>"
            f"<h1>{html.escape(name)}</h1><p>{len(self.rows) + more} texts: {counts}.</p>\n<table>"
            "<tr><th>state</th><th>source</th><th>translation</th>"
            f"{'<th>terms</th>' if terms else ''}</tr>\n"
            + "\n".join(_as_html(row, bool(terms)) for row in sorted(self.rows, key=_urgency))
            + f"\n</table>{rest}</body></html>\n"
        )


def _example(row: ReportRow) -> str:
    source = row.source.strip()
    short = f"{source[:_LONGEST_EXAMPLE]}…" if len(source) > _LONGEST_EXAMPLE else source
    return f'"{short}" ({row.place})' if row.place else f'"{short}"'


def _as_html(row: ReportRow, with_terms: bool) -> str:
    why = "".join(f"<small>{html.escape(one)}</small>" for one in (row.why, row.place) if one)
    terms = "".join(
        f"{html.escape(source)} → {html.escape(words or target)}<small>{state}</small>"
        for source, target, words, state in row.terms
    )
    return (
        f'<tr class="{row.state}"><td>{row.state}{why}</td><td>{html.escape(row.source)}</td>'
        f"<td>{html.escape(row.target)}</td>{f'<td>{terms}</td>' if with_terms else ''}</tr>"
    )


def report_of(document: Document, translated: Sequence[Segment]) -> Report:
    """Return the report on a document: on its segments, then on the texts that its reader left."""
    rows = []
    for source, target, place in zip_longest(document.segments, translated, document.places):
        row = _row(source, target, document.warnings.get(source, NO_WARNING))
        rows.append(row._replace(place=place or ""))
    for text, why, place in document.left:
        rows.append(ReportRow(LEFT if why else COPIED, text, text, why, place=place))
    return Report.of(rows)


def _urgency(row: ReportRow) -> tuple[int, bool, float]:
    return STATES.index(row.state), not row.why, row.confidence


def _shortened(text: str) -> str:
    return f"{text[:_LONGEST_TEXT]}…" if len(text) > _LONGEST_TEXT else text


def _row(source: Segment, target: Segment, warning: QualityWarning) -> ReportRow:
    before, after = _readable(source), _readable(target)
    doubt = reason_for_doubt(plain_text(source), plain_text(target))
    # An unchanged text was either left untranslated, or has nothing to translate.
    if before == after:
        state = LEFT if has_words(source) else COPIED
        return ReportRow(state, before, after, doubt or warning.why)
    why = doubt or warning.why or _suspicion(plain_text(source), plain_text(target))
    return ReportRow(
        DOUBTFUL if why else TRANSLATED, before, after, why, confidence=warning.confidence
    )


def _suspicion(before: str, after: str) -> str:
    """Return what looks wrong about a translation, or an empty text.

    >>> _suspicion("Open the window, please.", "Bitte."), _suspicion("Room 2", "Zimmer 3")
    ('much longer or shorter', 'other numbers')
    >>> _suspicion("Open the window, please.", "Bitte das Fenster öffnen.")
    ''
    """
    if sorted(_DIGIT.findall(before)) != sorted(_DIGIT.findall(after)):
        return "other numbers"
    if len(before) >= _SHORT and not 1 / 3 < len(after) / len(before) < 3:
        return "much longer or shorter"
    return ""


def _readable(segment: Segment) -> str:
    """Return the text with the codes that are read as words."""
    return "".join(
        item if isinstance(item, str) else item.raw if item.kind is Kind.WORD else ""
        for item in segment
    )
