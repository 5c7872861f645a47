"""One HTML file with every claim, made for reading.

First a list of the claims with their verdicts. Then a section for each: the question, the verdict
with its conditions, the figure and what to see in it, what would have refuted the claim, and how to
run it again.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.lab.compare.figures import Figure, Table
from dragoman.lab.compare.html_report import definition_list, draw, page
from studies.finding import Finding, Verdict


@dataclass(frozen=True)
class Chapter:
    """A claim and what came out."""

    id: str
    title: str
    claim: str
    question: str
    refuted_by: str
    command: str  # that runs this claim alone
    finding: Finding


_MEANING: dict[Verdict, str] = {
    "seen": "the whole interval lies on the claim's side of the margin",
    "not seen": "the whole interval lies on the other side",
    "undecided": "the interval holds the margin, or a condition failed",
}


def write_report(chapters: Sequence[Chapter], facts: Mapping[str, str]) -> str:
    """`facts`: what the whole comparison was run on, by name."""
    body = "\n".join(map(_section, chapters))
    return page(
        "What the lectures claim, put to the test",
        f"""<p class="lead">{_summary(chapters)} Every figure and every number on this page was
computed by <code>dragoman compare</code>; none was typed.</p>
<nav aria-label="Claims"><ol class="contents">
{"".join(map(_entry, chapters))}</ol></nav>
<details class="how"><summary>How verdicts are reached, and what this was run on</summary>
<p>Measurements are repeated: over seeds, or over sentences. The 95% t-interval of their mean
(Student's: wide where they are few) is held against a margin, the smallest difference worth
speaking of.
{"; ".join(f"<b>{name}</b>: {meaning}" for name, meaning in _MEANING.items())}. A claim of several
parts is seen if all of them are. Each system gets the learning rate that is best for it in
validation, out of the same number of rates; the tables of what was tried are folded below each
figure. Error bars are the same 95% t-intervals.</p>
{definition_list(facts)}</details>
{body}""",
    )


def _summary(chapters: Sequence[Chapter]) -> str:
    verdicts = [chapter.finding.verdict for chapter in chapters]
    decided = len(verdicts) - verdicts.count("undecided")
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in _MEANING)
    return f"{decided} of {len(verdicts)} claims are decided: {counts}."


def _chip(verdict: Verdict) -> str:
    return f'<span class="chip {verdict.replace(" ", "-")}">{verdict}</span>'


def _parts(finding: Finding) -> str:
    """The verdict of each region or part, where a claim has several."""
    named = "".join(f"<li>{html.escape(name)} {_chip(v)}</li>" for name, v in finding.parts)
    return f'<ul class="parts">{named}</ul>' if named else ""


def _entry(chapter: Chapter) -> str:
    return (
        f'<li><a href="#{chapter.id}"><span class="id">{chapter.id}</span>'
        f'<span class="name">{html.escape(chapter.title)}</span></a>'
        f"{_chip(chapter.finding.verdict)}{_parts(chapter.finding)}</li>\n"
    )


def _section(chapter: Chapter) -> str:
    finding = chapter.finding
    shown = [figure for figure in finding.figures if not _is_folded(figure)]
    folded = [figure for figure in finding.figures if _is_folded(figure)]
    rest = "\n".join(map(draw, shown[1:]))
    more = f'<div class="figures">\n{rest}\n</div>' if rest else ""
    tables = "\n".join(map(_folded, folded))
    return f"""<section id="{chapter.id}" aria-labelledby="{chapter.id}-title">
<header class="claim"><span class="id">{chapter.id}</span>
<h2 id="{chapter.id}-title">{html.escape(chapter.title)}</h2>
{_chip(finding.verdict)}</header>
{_parts(finding)}
<blockquote>{html.escape(chapter.claim)}</blockquote>
<p class="question">{html.escape(chapter.question)}</p>
<div class="figure main">
{"".join(map(draw, shown[:1]))}
</div>
<h3>What to see</h3>
<p>{html.escape(" ".join(finding.sentences))}</p>
{more}
<h3>Conditions of the verdict</h3>
<p>{html.escape(finding.conditions)}</p>
<h3>What would have refuted it</h3>
<p>{html.escape(chapter.refuted_by)}</p>
{tables}
<p class="again">Run it again: <code>{html.escape(chapter.command)}</code></p>
</section>"""


def _is_folded(figure: Figure) -> bool:
    return isinstance(figure, Table) and figure.folded


def _folded(figure: Figure) -> str:
    return (
        f"<details><summary>{html.escape(figure.title)}</summary>\n{draw(figure, titled=False)}\n"
        "</details>"
    )
