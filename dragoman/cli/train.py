"""`dragoman train`"""

from dragoman.cli.arguments import UsageError, argument, option
from dragoman.cli.options import DEVICE, FROM, SET, TO
from dragoman.config import Corpus, parse_set
from dragoman.config.presets import PRESETS
from dragoman.errors import needs_torch

Files = tuple[str, str]


def command(
    source: str = argument(
        "SRC", "Source sentences, one per line (.gz, .bz2), or one .tsv file, or - for stdin.", ""
    ),
    target: str = argument("TGT", "Their translations, line by line.", ""),
    out: str = option("", "Folder for the run and the finished model."),
    valid: Files | None = option(None, "Validation set; otherwise held out.", metavar="SRC TGT"),
    test: Files | None = option(None, "Test set, scored once, at the end.", metavar="SRC TGT"),
    from_: str = FROM,
    to: str = TO,
    preset: str | None = option(None, f"Sizes: {', '.join(PRESETS)}. Without --config: small."),
    config: str | None = option(None, "Settings from a file.", metavar="F.toml"),
    set_: list[str] | None = SET,
    prepared: str | None = option(None, "Folder made by dragoman prepare.", metavar="DIR"),
    init: str | None = option(None, "Start from a trained model's weights.", metavar="BUNDLE"),
    device: str = DEVICE,
    resume: bool = option(False, "Continue the run in --out."),
    watch: bool = option(False, "Log example translations to TensorBoard."),
) -> None:
    """Train a translator from two text files.

    Example: `dragoman train examples/tatoeba.de.gz examples/tatoeba.en.gz --out runs/demo --preset
    tiny`
    """
    with needs_torch():
        from dragoman.training.run import train

    if not out:
        raise UsageError("--out: give a folder for the run.")

    def corpus(files: Files | None) -> tuple[Corpus, ...]:
        return (Corpus(files[0], files[1], from_, to),) if files and files[0] else ()

    train(
        out,
        corpora=corpus((source, target)),
        valid=corpus(valid),
        test=corpus(test),
        preset=preset,
        config_file=config,
        settings=parse_set(set_ or []),
        prepared=prepared,
        init=init,
        device=device,
        resume=resume,
        watch=watch,
    )
