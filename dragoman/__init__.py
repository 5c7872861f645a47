"""dragoman: trains a translator from two text files, shows what it attends to, and ships it.

    import dragoman

    translator = dragoman.load()  # the model that comes with the package
    translator("Wo ist der Bahnhof?", to="en")  # "Where is the station?"
    translator(["Guten Morgen.", "Danke!"], to="fr", beam=8)
    found = translator("Das ist gut.", to="en", nbest=3, alignments=True)
    found.score, found.tokens, found.alignment, found.alternatives

    translator = dragoman.train("train.de", "train.en", "runs/de-en", preset="tiny")
    translator = dragoman.load("runs/de-en")

docs/python.md says more.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.storage.version import __version__

if TYPE_CHECKING:
    from dragoman.decode.request import Request
    from dragoman.decode.search.task import Sampling
    from dragoman.decode.together import AsyncTranslator
    from dragoman.decode.translation import Candidate, Translation
    from dragoman.inspect.translator import InspectableTranslator as Translator
    from dragoman.text.glossary import Glossary

__all__ = [
    "AsyncTranslator", "Candidate", "DragomanError", "Glossary", "Request", "Sampling",
    "Translation", "Translator", "__version__", "load", "train",
]  # fmt: skip
_WHERE = {  # imported on use: `import dragoman` stays light
    "AsyncTranslator": ("dragoman.decode.together", "AsyncTranslator"),
    "Candidate": ("dragoman.decode.translation", "Candidate"),
    "Glossary": ("dragoman.text.glossary", "Glossary"),
    "Request": ("dragoman.decode.request", "Request"),
    "Sampling": ("dragoman.decode.search.task", "Sampling"),
    "Translation": ("dragoman.decode.translation", "Translation"),
    "Translator": ("dragoman.inspect.translator", "InspectableTranslator"),
    "load_ipython_extension": ("dragoman.inspect.notebook", "load_ipython_extension"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    module, attribute = _WHERE[name]
    return getattr(importlib.import_module(module), attribute)


def load(
    model: str | Path = "",
    device: str = "auto",
    engine: str = "auto",
    *,
    source: str = "",
    target: str = "",
) -> "Translator":
    """A translator from a bundle's folder, which may be an adapted one, or from a name of the hub;
    folders joined by commas make an ensemble.

    From a folder of several models, the first that translates from the source into the target
    language. Without a model, the first such one of those that come with the package.

        dragoman.load()
        dragoman.load("runs/de-en", device="cuda")
        dragoman.load("models", source="de", target="en")

        with dragoman.load("runs/de-en") as translator:  # frees its engine at the end
            translator("Guten Tag.")

    `device` is auto, cpu, cuda or mps; `engine` is auto, onnx or torch.
    """
    from dragoman.inspect.translator import InspectableTranslator

    return InspectableTranslator.load(model, device, engine, source=source, target=target)


def train(
    source: str | Path = "",
    target: str | Path = "",
    out: str | Path = "",
    *,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    valid: tuple[str | Path, str | Path] | None = None,
    test: tuple[str | Path, str | Path] | None = None,
    source_language: str = "",
    target_language: str = "",
    config: str | Path | None = None,
    init: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
) -> "Translator":
    """Train on two text files, or on one `.tsv` file, and return the translator.

    Args:
        source: File of source sentences, one per line.
        target: File of their translations, line by line.
        out: Folder for the run. The finished model stays there.
        preset: Sizes to start from, such as "tiny" or "base".
        settings: Settings by dotted name or in tables: `{"model.norm_position": "pre"}`,
            `{"model": {"norm_position": "pre"}}`.
        valid: Validation set; without one, pairs are held out.
        test: Test set, scored once, at the end.
        source_language: Needed only if the file's suffix does not name it.
        target_language: Likewise.
        config: TOML file with settings and corpora.
        init: Model whose weights to start from.
        device: "auto", "cpu", "cuda" or "mps".
        resume: Continue the run in `out`.
    """
    from dragoman.config import Corpus
    from dragoman.errors import ConfigError, RunError, needs_torch

    with needs_torch():
        from dragoman.training.run import train

    if not out:
        raise ConfigError("train needs `out`, a folder for the run.")

    def corpus(sides: tuple[str | Path, str | Path] | None) -> tuple[Corpus, ...]:
        named = sides is not None and str(sides[0])
        return (
            (Corpus(str(sides[0]), str(sides[1]), source_language, target_language),)
            if sides and named
            else ()
        )

    outcome = train(
        out,
        corpora=corpus((source, target)),
        valid=corpus(valid),
        test=corpus(test),
        preset=preset,
        config_file=config,
        settings=settings,
        init=init,
        device=device,
        resume=resume,
    )
    if not outcome.finished:
        raise RunError(f"the run in {out} was interrupted: continue with resume=True.")
    return load(out, device)
