"""Judge the report of a full run again, by newer rules.

    python -m studies.rejudge docs/claims.html

That run kept means and the lowest and highest of two or three seeds, called 95% intervals. Three
such numbers determine the seeds, and these give t-intervals. Anything that the run did not measure
stays undecided. Prints each part's verdict and writes them into the page as badges.
"""

import html
import re
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from dragoman.lab.compare.runs import Result
from studies.finding import Verdict
from studies.growth import KINDS
from studies.judge import Judgement, all_of, judge
from studies.table import crossing

_NUMBERS = r"\s*([-+]?[\d.]+) \[([-+]?[\d.]+), ([-+]?[\d.]+)\]"
_MARK = "<!-- judged again -->"
# C3 counted 32 keys of 16, and keys beyond the ends of a sequence.
_MISCOUNTED = {
    f"<td>{wrong:,}</td>": f"<td>{KINDS['restricted attention'].multiplications(n, 256):,}</td>"
    for n, wrong in ((16, 4_456_448), (1024, 285_212_672))
}


@dataclass(frozen=True)
class Part:
    """`before`: the words before the printed numbers; none: the run did not measure it."""

    claim: str
    name: str
    before: str = ""
    margin: float = 0.0
    seeds: int = 3
    below: bool = False  # the claim says that it is below the margin


PARTS = [
    Part(
        "C1", "copying: attention keeps what a vector loses", "by more than 20% (measured", 0.2, 2
    ),
    Part("C1", "copying: a wider vector holds more", "by more than 5% (", 0.05, 2),
    Part("C1", "tatoeba.de: the RNN translates nothing"),
    Part("C2", "the first word is lost", "more than 30% (measured", 0.3, 2),
    Part("C2", "the last one is kept (not asked)"),
    Part("C2", "the gradient vanishes", "in powers of ten:", 1.0, 2),
    Part("C3", "recurrence waits", "beyond the others: measured", 1.0),
    Part("C4", "attention's time grows as a square", "above 1.5 (measured", 1.5),
    Part("C4", "recurrence's does not", "below it (", 1.5, below=True),
    Part("C5", "unscaled products saturate the softmax", "of entropy more (measured", 1.0, 0),
    Part("C5", "and learn later", "by more than 0.05 (", 0.05),
    Part("C5", "so do those over d (not trained)"),
    Part("C6", "copying fails beyond the trained length", "places 19 to 24 (measured", 0.3),
    Part("C6", "distances carry over", "by more than 20% there (", 0.2),
    Part("C8", "several heads learn it sooner", "by more than 0.05 (measured", 0.05),
    Part("C8", "more so with more lookups", "1 lookup (difference", 0.0),
    Part("C9", "the lead grows with the corpus (the interval holds 0)"),
    Part("C10", "pieces say words never seen", "by more than 20% (measured", 0.2),
    Part("C10", "not without a rule", "pieces without a rule (", 0.2),
    Part("C11", "depth", "20%: depth", 0.2),
    Part("C11", "feed-forward network", "feed-forward", 0.2),
    Part("C11", "decoder self-attention", "decoder self-attention", 0.2),
    Part("C11", "residual connections, pre-norm", "residual connections", 0.2, 2),
    Part("C11", "normalisation, pre-norm", "and normalisation", 0.2, 2),
    Part("C11", "both, post-norm: such a stack trained at 0 of 5 rates"),
]


def seeds_of(mean: float, low: float, high: float, count: int) -> list[float]:
    """Recover the averaged values: two are the ends, and a third one follows from the mean.

    >>> seeds_of(2.0, 1.0, 3.5, 3)
    [1.0, 1.5, 3.5]
    """
    return sorted([low, high] if count == 2 else [low, 3 * mean - low - high, high])


def judged(part: Part, conditions: str) -> tuple[Verdict, str]:
    """The verdict, and the numbers that it rests on."""
    if not part.before:
        return "undecided", ""
    found = re.search(re.escape(part.before) + _NUMBERS, conditions)
    if found is None:
        raise LookupError(f"{part.claim}: no numbers behind {part.before!r}.")
    mean, low, high = map(float, found.groups())
    sign = -1 if part.below else 1
    if part.seeds == 0:  # over many sentences or queries: as printed
        return ("seen" if low > part.margin else "undecided"), f"{mean:g} [{low:g}, {high:g}]"
    values = [sign * value for value in seeds_of(mean, low, high, part.seeds)]
    one: Judgement = judge(values, margin=sign * part.margin)
    ends = sorted((sign * one.low, sign * one.high))
    return one.verdict, f"{mean:g} [{ends[0]:.2f}, {ends[1]:.2f}], {part.seeds} seeds"


def costs(section: str) -> list[tuple[str, Verdict]]:
    """C7 at each cost: who is ahead, and where curves cross. One seed decides nothing."""
    parts: list[tuple[str, Verdict]] = []
    for title, table in re.findall(r"<h4>Every system at every cost: (.*?)</h4>(.*?)</table>",
                                   section, re.S):  # fmt: skip
        rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
        systems: dict[str, dict[float, list[Result]]] = {}
        for name, flops, bleu, *_ in filter(None, rows):
            cost, score = float(flops), float(bleu.split(" ")[0])
            share = round(cost / 5.98e13 / 4, 0) or 0.25
            systems.setdefault(name, {})[share] = [Result(flops=cost, bleu=score)]
        ours = systems.pop("transformer")
        peers = {n: c for n, c in systems.items() if n not in ("lexical", "ensemble")}
        for share, (result,) in ours.items():
            there = {n: c[share][0].bleu for n, c in peers.items() if share in c}
            best = max(there, key=lambda name: there[name])
            ahead = "Transformer" if result.bleu > there[best] else best
            scores = f"{result.bleu:.1f} against {there[best]:.1f} ({best})"
            parts.append((f"{title}, {result.flops:.2g} FLOPs: {ahead} ahead, {scores}, one seed",
                          "undecided"))  # fmt: skip
        for name, theirs in peers.items():
            if (where := crossing(ours, theirs)) is not None:
                parts.append((f"{title}: overtakes {name} at {where}", "undecided"))
    return parts


def _chip(verdict: Verdict) -> str:
    return f'<span class="chip {verdict.replace(" ", "-")}">{verdict}</span>'


# Measured only for this report, by `studies.block.judge_gradients`, on two CPU cores.
GRADIENTS: list[tuple[str, Verdict]] = [
    ("gradients: residual connections, pre-norm 0.36 [-0.04, 0.76] powers of ten, 5 seeds",
     "not seen"),
    ("gradients: residual connections, post-norm 0.42 [-0.26, 1.10], 5 seeds", "undecided"),
    ("gradients: normalisation, pre-norm 2.95 [2.00, 3.89], 5 seeds", "seen"),
]  # fmt: skip


def main(file: str) -> None:
    path = Path(file)
    page = path.read_text(encoding="utf-8")
    if _MARK in page:
        raise SystemExit(f"{file} was judged again before.")
    changed = []
    for claim in dict.fromkeys([*(part.claim for part in PARTS), "C7"]):
        begin = page.index(f'<section id="{claim}"')
        end = page.index("</section>", begin)
        section = page[begin:end]
        conditions = html.unescape(section)
        parts: list[tuple[str, Verdict]] = []
        for part in (part for part in PARTS if part.claim == claim):
            verdict, numbers = judged(part, conditions)
            parts.append((f"{part.name} {numbers}".strip(), verdict))
        parts += costs(section) if claim == "C7" else GRADIENTS if claim == "C11" else []
        verdict = all_of([Judgement(v, 0, 0, 0) for _, v in parts])
        old = re.search(r'<span class="chip [\w-]+">([\w ]+)</span>', section)
        assert old is not None
        if old[1] != verdict:
            changed.append(f"{claim} {old[1]} → {verdict}")
        print(f"{claim}: {old[1]} → {verdict}")
        rows = "".join(f"<li>{html.escape(name)} {_chip(v)}</li>" for name, v in parts)
        section = section.replace(
            f"{old[0]}</header>",
            f'{_chip(verdict)}</header>\n<ul class="parts">{rows}</ul>', 1)  # fmt: skip
        page = page[:begin] + section + page[end:]
        entry = re.search(rf'<li><a href="#{claim}">.*?</li>', page, re.S)
        assert entry is not None
        page = page.replace(entry[0], entry[0].replace(old[0], _chip(verdict)), 1)
    chips = re.findall(r'</a><span class="chip [\w-]+">([\w ]+)</span>', page)
    counts = ", ".join(f"{chips.count(v)} {v}" for v in ("seen", "not seen", "undecided"))
    note = (
        f'<p class="lead">{_MARK}<b>Judged again.</b> The runs below are older than the rules by '
        "which they are judged now: t-intervals over seeds instead of their lowest and highest, a "
        "verdict for each part, at least five seeds where every seed has to agree. Badges are "
        f"those of the new rules: {counts}. Changed: {'; '.join(changed)}. The sentences under "
        "“What to see” are those of the run. <code>python -m studies.rejudge</code> computed this "
        "from the numbers on this page; what the run did not measure is undecided.</p>\n"
    )
    page = re.sub(r'(<p class="lead">)\d+ of 11 claims are decided:[^.]*\. ', r"\1", page)
    style = (resources.files("dragoman.lab.compare") / "report.css").read_text(encoding="utf-8")
    page = re.sub(r"<style>.*?</style>", lambda _: f"<style>\n{style}</style>", page, flags=re.S)
    for wrong, right in _MISCOUNTED.items():
        page = page.replace(wrong, right)
    page = page.replace("<nav aria-label=", note + "<nav aria-label=", 1)
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
