"""`dragoman check`"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from dragoman.cli.arguments import argument, option
from dragoman.cli.options import FROM, JSON, TO
from dragoman.config import Corpus
from dragoman.data.dataset import name_languages
from dragoman.errors import ConfigError, CorpusError, escaped
from dragoman.storage.files import storage_errors, writing
from dragoman.text.doctor import CorpusReport, HeldOut, examine, fix
from dragoman.text.parallel import Pair, holds_both_sides, read_lines, read_pairs, unpacked_name
from dragoman.text.terms import GlossaryRow, check_glossary, looks_like_terms, rows_of


def command(
    source: str = argument("SRC", "Source sentences, or one .tsv, .tmx, .xliff or .po file."),
    target: str = argument("TGT", "Their translations.", ""),
    against: list[str] | None = option(
        None, "A validation or test set that training must not see (repeatable).", metavar="SRC,TGT"
    ),
    fix_: str = option(
        "", "Write a cleaned copy and a log of changes to this folder.", metavar="OUT"
    ),
    from_: str = FROM,
    to: str = TO,
    strict: bool = option(False, "Exit with 1 at any finding, not only at the worst."),
    glossary: bool | None = option(
        None, "Check the file as a glossary or not; default: as one if all entries are short."
    ),
    json_: bool = JSON,
) -> None:
    """Report what is wrong with a corpus or a glossary and where; --fix writes a cleaned copy.

    Exit with 1 if training on it would be pointless: lines shifted, languages swapped or other
    than those named (by --from and --to, or by the file names), sides of different lengths.

    Example: `dragoman check examples/tatoeba.de.gz examples/tatoeba.en.gz --fix runs/clean`
    """
    # One file may be a glossary: it is, if the user says so or its entries look like terms.
    if not target and not fix_ and not against and glossary is not False:
        rows = _terms(source, from_, to, bool(glossary))
        if rows is not None:
            _check_terms(source, rows, from_, to, strict, json_)
            return
    held_out = HeldOut.of(read_pairs(*_two(files)) for files in against) if against else None
    parts = _Parting(source, target)
    (corpus,) = name_languages([Corpus(source, target, from_, to)])
    report = examine(parts, held_out, corpus.source_language, corpus.target_language)
    _print(report, parts.message, json_)
    if fix_:
        _write_fixed(source, target, report, held_out, Path(fix_))
    if parts.message or report.is_pointless:
        raise CorpusError(f"training on {source} would be pointless: see the findings above.")
    if strict and report.findings:
        raise CorpusError(f"{source} has findings, and --strict allows none.")


def _terms(name: str, source: str, target: str, surely: bool) -> list[GlossaryRow] | None:
    """Return the entries of a glossary, or None if the file is a corpus."""
    ending = Path(unpacked_name(name)).suffix.lower()
    if not surely and ending not in (".tsv", ".csv", ".tbx"):
        return None
    rows = [*rows_of("\n".join(read_lines(name)), unpacked_name(name), source, target)]
    return rows if surely or ending != ".tsv" or looks_like_terms(rows) else None


def _check_terms(
    name: str, rows: list[GlossaryRow], source: str, target: str, strict: bool, as_json: bool
) -> None:
    wrong = check_glossary(rows, source, target)
    if as_json:
        print(json.dumps({"terms": len(rows), "findings": [one._asdict() for one in wrong]}))
    else:
        print(f"{len(rows):,} terms")
        for finding in wrong:
            print(escaped(str(finding)))
    if any(finding.serious for finding in wrong):
        raise CorpusError(
            f"{name} contradicts itself or has wrong columns: see the findings above."
        )
    if strict and wrong:
        raise CorpusError(f"{name} has findings, and --strict allows none.")


class _Parting:
    """Yields pairs up to the end of the shorter side, and keeps the error for the report."""

    def __init__(self, source: str, target: str):
        self._files, self.message = (source, target), ""

    def __iter__(self) -> Iterator[Pair]:
        try:
            yield from read_pairs(*self._files)
        except CorpusError as error:
            # Only the error about unequal lengths belongs into the report; others end the command.
            if "lines" not in str(error):
                raise
            self.message = str(error)


def _two(files: str) -> tuple[str, str]:
    source, comma, target = files.partition(",")
    if not comma and not holds_both_sides(source):
        raise ConfigError(f"--against {files!r} is not of the form SRC,TGT.")
    return source, target


def _print(report: CorpusReport, parting: str, as_json: bool) -> None:
    if as_json:
        findings = {f.kind: {"count": f.count, "first_lines": f.lines} for f in report.findings}
        print(
            json.dumps(
                {
                    "pairs": report.pairs,
                    "alarms": [asdict(alarm) for alarm in report.alarms],
                    "findings": findings,
                    "sides_part": parting or None,
                }
            )
        )
        return
    print(f"{report.pairs:,} pairs")
    if parting:
        print(escaped(parting))
    for finding in [*report.alarms, *report.findings]:
        print(finding)


def _write_fixed(
    source: str, target: str, report: CorpusReport, held_out: HeldOut | None, folder: Path
) -> None:
    """Write both sides cleaned, as plain text, and `changes.tsv` with the line, the action, its
    reasons and the original pair."""
    # One file with both sides becomes two plain ones.
    sides = [source, target] if target else [f"{source}.source", f"{source}.target"]
    names = [Path(unpacked_name(name)).name for name in sides]
    kept = removed = 0
    with storage_errors(f"writing the cleaned copy into {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with (
            writing(str(folder / names[0])) as left,
            writing(str(folder / names[1])) as right,
            writing(str(folder / "changes.tsv")) as log,
        ):
            for pair, reasons, result in fix(_Parting(source, target), report, held_out):
                if result is not None:
                    print(result.source, file=left)
                    print(result.target, file=right)
                    kept += 1
                else:
                    removed += 1
                if reasons:
                    done = "removed" if result is None else "mended"
                    print(
                        pair.line,
                        done,
                        reasons,
                        repr(pair.source),
                        repr(pair.target),
                        sep="\t",
                        file=log,
                    )
    print(f"{kept:,} pairs kept, {removed:,} removed: {folder}", file=sys.stderr)
