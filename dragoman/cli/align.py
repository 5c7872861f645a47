"""`dragoman align`"""

import sys
from pathlib import Path

from dragoman.cli.arguments import argument, option
from dragoman.cli.loading import load_model
from dragoman.cli.options import DEVICE, ENGINE, FROM, MODEL, TO
from dragoman.decode.request import Request
from dragoman.documents.formats import format_of, text_rows
from dragoman.errors import ConfigError, DragomanError
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.storage.limited import limited_rows
from dragoman.text.detect import detect
from dragoman.text.exchange import tmx, tsv
from dragoman.text.segments import split_sentences
from dragoman.text.sentence_alignment import align

_SAMPLED = 5000  # characters, to detect a language
_WRITERS = {".tmx": tmx, ".tsv": tsv}


def command(
    source: str = argument("A", "A document."),
    target: str = argument("B", "Its translation; another format is fine."),
    output: str = option("memory.tmx", "File for the pairs: .tmx or .tsv.", "--output", "-o"),
    model: str = MODEL,
    from_: str = FROM,
    to: str = TO,
    least: float = option(0.0, "Least similarity of a pair that is kept.", min=0.0, max=1.0),
    engine: str = ENGINE,
    device: str = DEVICE,
) -> None:
    """Make a translation memory of two documents: which sentences translate each other.

    Example: `dragoman align report.en.docx report.de.docx --output memory.tmx`
    """
    write = _WRITERS.get(Path(output).suffix.lower())
    if write is None:
        raise ConfigError(f"--output {output}: give a .tmx or .tsv file.")
    left, right = _texts(source), _texts(target)
    translator = load_model(model, device, engine, from_, to, " ".join(left)[:_SAMPLED])
    languages = translator.codec.languages
    from_ = from_ or _language(left, languages.sources)
    to = to or _language(right, languages.targets)
    sources, targets = _sentences(left, from_), _sentences(right, to)
    request = Request(to=to if languages.tagged else "", source_language=from_)
    translated = [str(text) for text in translator.translate(sources, request)]
    beads = [bead for bead in align(translated, targets) if bead.similarity >= least]
    pairs = [
        (" ".join(sources[i] for i in bead.sources), " ".join(targets[i] for i in bead.targets))
        for bead in beads
    ]
    with storage_errors(f"writing {output}"):
        write_atomically(Path(output), write(pairs, from_, to).encode())
    paired = [
        sum(len(side) for side in sides) for sides in zip(*(b[:2] for b in beads), strict=True)
    ]
    one, other = paired or (0, 0)
    print(
        f"{len(pairs):,} pairs: {one:,} of {len(sources):,} sentences of {source}, "
        f"{other:,} of {len(targets):,} of {target}.",
        file=sys.stderr,
    )
    print(output)


def _texts(name: str) -> list[str]:
    format_ = format_of(name)
    try:
        size = Path(name).stat().st_size
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}.") from None
    rows = limited_rows(text_rows, name, size, name, format_.name, error=DragomanError)
    return [text for (text,) in rows]


def _language(texts: list[str], known: tuple[str, ...]) -> str:
    return detect(" ".join(texts)[:_SAMPLED], known)[0].language


def _sentences(texts: list[str], language: str) -> list[str]:
    sentences = (sentence for text in texts for sentence in split_sentences(text, language)[0])
    return [" ".join(sentence.split()) for sentence in sentences if sentence.strip()]
