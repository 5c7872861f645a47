"""Extend a trained model by a language: new pieces, and language tags if they are needed.

New pieces are learned from text in the new language only. A piece is dropped if it would change how
a sentence of the old languages is segmented. Its embedding starts as the mean of the old pieces
that it replaces. A model with a single target language has no tags; it gets them with the second.

The extended model is then trained as usual, on the new pairs and on replay: sentences of the old
languages with the model's own translations.
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
    pieces: int  # number of new pieces
    tags: tuple[str, ...]  # new tags


def extend(
    bundle: Bundle,
    new: tuple[Sequence[str], Sequence[str]],
    source: str,
    target: str,
    old: Sequence[str],
    size: int = 2000,
) -> Extension:
    """Return a bundle with pieces and tags for a new language.

    `new`: both sides of the new pairs. `old`: sentences of the old languages, whose segmentation
    must not change. `size`: largest number of new pieces.
    """
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
    # A multilingual model already has the tags of its own targets.
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
            # Learned for the old pieces
            shortlist=None,
            adapter=None,  # float_weights() contains it already
            ranges={},
            engine="auto",
        ),
        len(pieces),
        tuple(tags),
    )


def _new_pieces(
    bundle: Bundle, segmenter: BytePairs, texts: Sequence[str], old: Sequence[str], size: int
) -> list[str]:
    """Learn pieces from the new texts that occur in no old sentence."""
    # The vocabulary also gets 4 special pieces and 256 bytes, and some of its pieces (such as
    # letters) will be known already: 200 more make up for these.
    settings = replace(bundle.config.text, vocab_size=size + 4 + 256 + 200)
    words = count_words(texts, settings.normalization)
    learned = type(segmenter).learn_from_words(words, settings).vocabulary.pieces
    candidates = [
        piece
        for piece in learned[4:]
        if piece not in segmenter.vocabulary.ids and not piece.startswith("<")
    ][:size]
    # Segment the old sentences with all candidates: one that occurs would change them.
    extended = segmenter.extended(candidates)
    first = len(segmenter.vocabulary)
    harmful = {number for ids in extended.encode(list(old)) for number in ids if number >= first}
    return [piece for i, piece in enumerate(candidates) if first + i not in harmful]


def _longer_weights(
    weights: dict[str, np.ndarray], segmenter: BytePairs, pieces: Sequence[str], tags: Sequence[str]
) -> dict[str, np.ndarray]:
    """Append rows to the embeddings and the output: for a piece, the mean of the old pieces that
    spell it; for a tag, the mean of all rows.
    """
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
