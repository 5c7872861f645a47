"""What is wrong with translations, by kind: the model reads them in both directions."""

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
    """The kinds of errors in each translation; omissions, additions and wrong names need a model
    that translates both ways."""
    forward: list[Reading] | list[None] = [None] * len(sources)
    backward: list[Reading] | list[None] = [None] * len(sources)
    if source and to and source in translator.codec.languages.targets:
        forward = readings(translator, sources, targets, source, to)
        backward = readings(translator, targets, sources, to, source)
    elif not to:
        raise TranslationError("errors are looked for between two languages: name both.")
    pairs = zip(sources, targets, forward, backward, strict=True)
    return [errors(text, said, source, to, *read) for text, said, *read in pairs]


def readings(
    translator: InspectableTranslator,
    sources: Sequence[str],
    targets: Sequence[str],
    source: str,
    to: str,
) -> list[Reading]:
    """How each target reads, given its source."""
    scored = translator.score(sources, targets, to, source)
    codec = translator.codec
    read = []
    for ids, log_probs in zip(codec.encode_target(targets), scored, strict=True):
        pieces = [codec.target.pieces[number] for number in ids]
        read.append(Reading.of(pieces, [float(value) for value in log_probs]))
    return read
