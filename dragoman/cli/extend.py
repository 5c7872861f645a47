"""`dragoman extend`"""

import sys
from pathlib import Path

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.cli.arguments import UsageError, argument, option
from dragoman.cli.loading import load_model, one_folder
from dragoman.cli.options import DEVICE, FROM, ONE_MODEL, SET, TO
from dragoman.config import Corpus, parse_set
from dragoman.decode.request import Request
from dragoman.errors import ConfigError, needs_torch
from dragoman.storage.files import storage_errors, writing
from dragoman.text.detect import detect
from dragoman.text.languages import Languages
from dragoman.text.parallel import language_of, read_lines, read_pairs

# A new language needs a higher rate than words of a field; replay keeps the old directions.
TRAINING = {
    "training.optimizer": "muon", "training.learning_rate": 2e-3, "training.schedule": "linear",
    "training.warmup_steps": 100, "training.max_steps": 3000, "training.batch_tokens": 8000,
    "training.validate_every": 1000,
}  # fmt: skip


def command(
    source: str = argument("SRC", "Source sentences."),
    target: str = argument("TGT", "Their translations."),
    general: str = option("", "Sentences that the model translates now, to be kept.", metavar="F"),
    model: str = ONE_MODEL,
    out: str = option("", "Folder for the run and the finished model."),
    from_: str = FROM,
    to: str = TO,
    pieces: int = option(2000, "Pieces to add, at most.", min=0),
    set_: list[str] | None = SET,
    device: str = DEVICE,
) -> None:
    """Add a language to a model: new pieces, new tags, old directions kept by replay.

    Example: `dragoman extend train.fr train.en --model runs/de-en --general old.de --out runs/fr`
    """
    with needs_torch():
        from dragoman.training.extend import extend
        from dragoman.training.run import train
    if not out:
        raise UsageError("--out: give a folder for the run.")
    if not general:
        raise ConfigError("name sentences that the model translates now, to be kept: --general F.")
    from_, to = from_ or language_of(source), to or language_of(target)
    if not from_ or not to:
        raise ConfigError("name the languages of the new pairs: --from fr --to en.")
    folder = one_folder(model)
    bundle = read_bundle(folder)
    pairs = list(read_pairs(source, target))
    new = [pair.source for pair in pairs], [pair.target for pair in pairs]
    old = [line for line in read_lines(general) if line.strip()]
    extended = extend(bundle, new, from_, to, old, pieces)
    known = bundle.codec.languages
    print(f"{extended.pieces:,} pieces and {len(extended.tags)} tags were added", file=sys.stderr)
    # The run itself wants an empty folder, so what it starts from goes next to it.
    beside = Path(f"{out}.extended")
    write_bundle(beside / "model", extended.bundle)
    # The new model is trained to keep the old one's translations.
    translator = load_model(folder, device, "auto")
    corpora = [Corpus(source, target, from_, to)]
    with storage_errors(f"writing into {beside}"):
        for into in known.targets or ("",):
            kept = beside / f"replay-{into or 'all'}.tsv"
            with writing(str(kept)) as file:
                for translation in translator.stream(_others(old, into, known), Request(to=into)):
                    line = (
                        translation.source.replace("\t", " "),
                        translation.text.replace("\t", " "),
                    )
                    print(*line, sep="\t", file=file)
            first = known.sources[0] if known.sources else ""
            corpora.append(Corpus(str(kept), "", first, into))
    settings = TRAINING | parse_set(set_ or [])
    train(out, corpora=tuple(corpora), init=beside / "model", settings=settings, device=device)


def _others(sentences: list[str], into: str, known: Languages) -> list[str]:
    """Return sentences that are not in their target language already."""
    if not known.tagged:
        return sentences
    return [text for text in sentences if detect(text, known.sources)[0].language != into]
