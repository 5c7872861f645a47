"""`dragoman prepare`"""

import sys
import time
from pathlib import Path

from dragoman.cli.arguments import UsageError, argument, option
from dragoman.cli.options import FROM, SET, TO
from dragoman.config import Corpus, make_config, parse_set
from dragoman.config.presets import PRESETS
from dragoman.config.settings import to_tree
from dragoman.errors import ConfigError, RunError, escaped


def command(
    source: str = argument("SRC", "Source sentences, or one .tsv file.", ""),
    target: str = argument("TGT", "Their translations, line by line.", ""),
    out: str = option("", "Folder for the prepared data."),
    valid: tuple[str, str] | None = option(
        None, "Validation set (else held out).", metavar="SRC TGT"
    ),
    from_: str = FROM,
    to: str = TO,
    preset: str | None = option(None, f"Sizes: {', '.join(PRESETS)}. Without --config: small."),
    config: str | None = option(None, "Settings from a file.", metavar="F.toml"),
    set_: list[str] | None = SET,
) -> None:
    """Prepare corpora once for many runs: learn the vocabulary, store the ids on disk.

    The runs start from there with train --prepared DIR.

    Example: `dragoman prepare examples/tatoeba.de.gz examples/tatoeba.en.gz --out runs/data
    --preset tiny`
    """
    from dragoman.bundle.folder import read_bundle
    from dragoman.convert.hub import model_folder
    from dragoman.data.dataset import name_languages
    from dragoman.data.prepare import prepare
    from dragoman.storage.files import storage_errors

    if not out:
        raise UsageError("--out: give a folder for the data.")
    if Path(out).exists():
        raise RunError(f"{out} already exists: choose another --out.")
    overrides = parse_set(set_ or [])
    for name, files in (("corpora", (source, target)), ("valid", valid)):
        if files and files[0]:
            (corpus,) = name_languages([Corpus(*files, from_, to)])
            overrides[f"data.{name}"] = [to_tree(corpus)]
    settings = make_config(preset, config, overrides)
    if not settings.data.corpora:
        raise ConfigError(
            "nothing to prepare: give SRC and TGT, or [[data.corpora]] in the --config file."
        )
    started = time.monotonic()
    codec = (
        read_bundle(model_folder(settings.training.init)).codec if settings.training.init else None
    )
    with storage_errors(f"preparing the data in {out}"):
        data = prepare(settings, Path(out), codec)
    for note in data.notes:
        print(escaped(f"warning: {note}"), file=sys.stderr)
    seconds = time.monotonic() - started
    print(
        f"{out}: {len(data.train):,} pairs, {len(data.codec.source):,} pieces, in {seconds:.0f} s"
    )
