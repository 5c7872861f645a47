"""Find errors in translations by kind: the model scores them in both directions."""

from collections.abc import Sequence

from dragoman.decode.confidence.errors import Reading, errors
from dragoman.errors import TranslationError
from dragoman.inspect.translator import InspectableTranslator


def find_errors(
    translator: InspectableTranslator,
    sources: Sequence[str],
    targets: Sequence[str],
    source: str = "",
    to: str = "",
) -> list[list[str]]:
    """Return the kinds of errors in each translation.

    Omissions, additions and wrong names need a model that translates in both directions.
    """
    # Without both directions, only errors that show in the texts themselves can be found.
    forward: list[Reading] | list[None] = [None] * len(sources)
    backward: list[Reading] | list[None] = [None] * len(sources)
    if source and to and source in translator.codec.languages.targets:
        forward = readings(translator, sources, targets, source, to)
        backward = readings(translator, targets, sources, to, source)
    elif not to:
        raise TranslationError("finding errors needs both languages: name source and target.")
    pairs = zip(sources, targets, forward, backward, strict=True)
    return [errors(text, translation, source, to, *both) for text, translation, *both in pairs]


def readings(
    translator: InspectableTranslator,
    sources: Sequence[str],
    targets: Sequence[str],
    source: str,
    to: str,
) -> list[Reading]:
    """Score each target, given its source; return pieces with their log-probabilities."""
    scores = translator.score(sources, targets, to, source)
    codec = translator.codec
    results = []
    for ids, log_probs in zip(codec.encode_target(targets), scores, strict=True):
        pieces = [codec.target.pieces[number] for number in ids]
        results.append(Reading.of(pieces, [float(value) for value in log_probs]))
    return results
