"""Compare models of one's own with LLMs and APIs on one's own text: quality, promises, time, cost.

All are judged alike: the checks that a text engine's answers pass (`decode/text_engine/checks.py`)
also count what a model's translations break.
"""

import html
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.cli.loading import load_model
from dragoman.decode.request import Request
from dragoman.decode.text_engine.checks import Fault, faults
from dragoman.decode.text_engine.engine import TextEngine, segment_of
from dragoman.decode.text_engine.forms import PLAIN, read
from dragoman.errors import CorpusError
from dragoman.lab.compare.html_report import page
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text import metrics
from dragoman.text.glossary import Glossary
from dragoman.text.parallel import read_lines

_SHOWN = 20  # texts with a broken promise, of each engine
_HEAD = (
    "engine", "BLEU", "chrF", "p (chrF)", "texts kept", "broken", "came back broken", "marked",
    "seconds", "calls", "tokens", "price",
)  # fmt: skip


class _Row(NamedTuple):
    name: str
    texts: list[str]
    seconds: float
    wrong: list[list[Fault]]
    engine: TextEngine | None


def compare_engines(
    out: str,
    names: Sequence[str],
    source: str,
    reference: str = "",
    from_: str = "",
    to: str = "",
    glossary: str = "",
    device: str = "auto",
) -> str:
    """Translate a file with each engine, write OUT/engines.html, and return the table as text."""
    lines = [*read_lines(source)]
    references = [*read_lines(reference)] if reference else []
    if not lines or (references and len(references) != len(lines)):
        raise CorpusError(
            f"{source} has {len(lines)} lines and {reference} has {len(references)}: they must "
            "match line by line."
        )
    terms = Glossary()
    if glossary:
        terms = Glossary.parse("\n".join(read_lines(glossary)), glossary, from_, to)
    rows = [_translated(name, lines, Request(to, from_, glossary=terms), device) for name in names]
    chance = [""] * len(rows)
    if references and len(rows) > 1:
        systems = [(f"{number} {row.name}", row.texts) for number, row in enumerate(rows)]
        compared = metrics.compare(systems, [references])
        chance = ["", *(f"{one.p_values['chrF2']:.4f}" for one in compared[1:])]
    cells = [_cells(row, references, p) for row, p in zip(rows, chance, strict=True)]
    with storage_errors(f"writing {out}"):
        Path(out).mkdir(parents=True, exist_ok=True)
        whole = _table(cells) + "".join(_broken(row, lines) for row in rows)
        write_atomically(Path(out) / "engines.html", page("Engines compared", whole).encode())
    return "\n".join("\t".join(row) for row in [_HEAD, *cells])


def _translated(name: str, lines: Sequence[str], request: Request, device: str) -> _Row:
    translator = load_model(name, device, "auto", request.source_language, request.to)
    began = time.perf_counter()
    found = translator(lines, request)
    seconds = time.perf_counter() - began
    wrong = []
    for line, text in zip(lines, found, strict=True):
        segment = segment_of(line, request.source_language, request.to, request.glossary)
        wrong.append(faults(segment, read(text, segment.text, segment.kept, PLAIN)))
    return _Row(name, [*map(str, found)], seconds, wrong, getattr(translator, "text_engine", None))


def _cells(row: _Row, references: Sequence[str], chance: str) -> list[str]:
    scores = {"BLEU": "", "chrF2": ""}
    if references:
        found = metrics.score(row.texts, [references])
        scores = {score.name: f"{score.value:.1f}" for score in found}
    kept = sum(not some for some in row.wrong) / len(row.wrong)
    kinds = Counter(fault.kind for some in row.wrong for fault in some)
    broken = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    use = [""] * 5
    if row.engine is not None:
        engine, usage = row.engine, row.engine.client.usage
        price = f"{usage.tokens / 1e6 * engine.settings.price:.4f}" if engine.settings.price else ""
        use = [str(engine.broken), str(engine.marked), str(usage.calls), str(usage.tokens), price]
    came, marked, *rest = use
    quality = [scores["BLEU"], scores["chrF2"], chance]
    return [row.name, *quality, f"{kept:.1%}", broken, came, marked, f"{row.seconds:.1f}", *rest]


def _table(cells: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _HEAD)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _broken(row: _Row, lines: Sequence[str]) -> str:
    """Show translations that break a promise."""
    pairs = zip(lines, row.texts, row.wrong, strict=True)
    some = [(line, text, wrong) for line, text, wrong in pairs if wrong][:_SHOWN]
    shown = "".join(
        f"<tr><td>{html.escape(line)}</td><td>{html.escape(text)}</td>"
        f"<td>{html.escape(' '.join(fault.words for fault in wrong))}</td></tr>"
        for line, text, wrong in some
    )
    return f"<h2>{html.escape(row.name)}: broken promises</h2><table>{shown}</table>"
