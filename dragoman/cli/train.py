"""`dragoman train`"""

from typing import Annotated

from dragoman.cli.arguments import Argument, Option, UsageError
from dragoman.cli.options import Device, From, Set, To
from dragoman.config import Corpus, parse_set
from dragoman.config.presets import PRESETS
from dragoman.errors import needs_torch

Files = tuple[str, str]


def command(
    source: Annotated[
        str,
        Argument(
            metavar="SRC",
            help="Source sentences, one per line (.gz, .bz2), or one .tsv file, or - for stdin.",
        ),
    ] = "",
    target: Annotated[str, Argument(metavar="TGT", help="Their translations, line by line.")] = "",
    out: Annotated[str, Option(help="Folder for the run and the finished model.")] = "",
    valid: Annotated[
        Files | None, Option(metavar="SRC TGT", help="Validation set; otherwise held out.")
    ] = None,
    test: Annotated[
        Files | None, Option(metavar="SRC TGT", help="Test set, scored once, at the end.")
    ] = None,
    from_: From = "",
    to: To = "",
    preset: Annotated[
        str | None, Option(help=f"Sizes: {', '.join(PRESETS)}. Without --config: small.")
    ] = None,
    config: Annotated[str | None, Option(metavar="F.toml", help="Settings from a file.")] = None,
    set_: Set = None,
    prepared: Annotated[
        str | None, Option(metavar="DIR", help="Folder made by dragoman prepare.")
    ] = None,
    init: Annotated[
        str | None, Option(metavar="BUNDLE", help="Start from a trained model's weights.")
    ] = None,
    device: Device = "auto",
    resume: Annotated[bool, Option("--resume", help="Continue the run in --out.")] = False,
    watch: Annotated[
        bool, Option("--watch", help="Serve a page on this machine that shows the training.")
    ] = False,
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
