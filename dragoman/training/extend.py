"""A new language for a model that is there: further pieces, tags where they are needed, and old
directions that stay.

Pieces are learned from the new language alone. One is kept only if it leaves the cuts of the old
languages' sentences as they are. It begins as the mean of the old pieces that it takes the place
of. A model of a single target gets tags when a second one comes; until then its sources have none.

Training is ordinary training from the extended model, on the new pairs and on replay: sentences of
the old languages with the model's own translations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dragoman.bundle.folder import OUTPUT_BIAS, OUTPUT_MATRICES, Bundle
from dragoman.errors import ConfigError
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages
from dragoman.text.subword import BytePairs, count_words
from dragoman.text.vocabulary import language_tag


@dataclass(frozen=True)
class Extension:
    bundle: Bundle
    pieces: int  # that were added
    tags: tuple[str, ...]


def extend(
    bundle: Bundle,
    new: tuple[Sequence[str], Sequence[str]],
    source: str,
    target: str,
    old: Sequence[str],
    size: int = 2000,
) -> Extension:
    """The bundle with room for a language. `new`: the sides of the new pairs; `old`: sentences of
    the old languages, whose cuts must not change; `size`: pieces to add at most."""
    codec, config = bundle.codec, bundle.config
    if not isinstance(codec.source_segmenter, BytePairs) or not codec.shared:
        raise ConfigError("extend takes models with one byte-pair vocabulary for both sides.")
    known = codec.languages
    fresh = [
        side
        for side, language in zip(new, (source, target), strict=True)
        if language not in known.sources + known.targets
    ]
    if not fresh:
        raise ConfigError(f"the model knows {source} and {target} already: use dragoman adapt.")
    languages = Languages(
        tuple(dict.fromkeys((*known.sources, source))),
        tuple(dict.fromkeys((*known.targets, target))),
    )
    tags = [language_tag(code) for code in languages.targets] if languages.tagged else []
    tags = [tag for tag in tags if tag not in codec.source.ids]
    segmenter = codec.source_segmenter
    pieces = _new_pieces(bundle, segmenter, [text for side in fresh for text in side], old, size)
    longer = segmenter.extended(pieces, tags)
    weights = _longer_weights(bundle.float_weights(), segmenter, pieces, tags)
    return Extension(
        replace(
            bundle,
            codec=Codec(longer, longer, languages),
            config=config,
            weights=weights,
            card={"from": list(languages.sources), "to": list(languages.targets)},
            shortlist=None,
            adapter=None,  # it is in the weights
            ranges={},
            engine="auto",
        ),
        len(pieces),
        tuple(tags),
    )


def _new_pieces(
    bundle: Bundle, segmenter: BytePairs, texts: Sequence[str], old: Sequence[str], size: int
) -> list[str]:
    """Pieces of the new texts that no old sentence would be cut into."""
    settings = replace(bundle.config.text, vocab_size=size + 4 + 256 + 200)
    words = count_words(texts, settings.normalization)
    learned = type(segmenter).learn_from_words(words, settings).vocabulary.pieces
    candidates = [
        piece
        for piece in learned[4:]
        if piece not in segmenter.vocabulary.ids and not piece.startswith("<")
    ][:size]
    tried = segmenter.extended(candidates)
    first = len(segmenter.vocabulary)
    harmful = {number for ids in tried.encode(list(old)) for number in ids if number >= first}
    return [piece for i, piece in enumerate(candidates) if first + i not in harmful]


def _longer_weights(
    weights: dict[str, np.ndarray],
    segmenter: BytePairs,
    pieces: Sequence[str],
    tags: Sequence[str],
) -> dict[str, np.ndarray]:
    """New rows for embeddings and the output: of a piece the mean of what its text was cut into,
    of a tag the mean of all."""
    rows = [segmenter.ids_of_pieces(piece) for piece in pieces]
    longer = dict(weights)
    for name in (*OUTPUT_MATRICES, OUTPUT_BIAS):
        if name not in weights:
            continue
        old = weights[name]
        of_pieces = [old[ids].mean(axis=0) for ids in rows]
        of_tags = [old.mean(axis=0)] * len(tags)
        added = np.array([*of_pieces, *of_tags], dtype=np.float32).reshape(-1, *old.shape[1:])
        longer[name] = np.concatenate([old, added])
    return longer
