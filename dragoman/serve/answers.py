"""The translation of a text in the API's form, joined from those of its sentences."""

from dragoman.decode.translation import Candidate, Translation, word_probabilities
from dragoman.inspect.words import Axis
from dragoman.serve import schemas
from dragoman.serve.served_models import Route


def translated(
    route: Route,
    found: list[Translation],
    gaps: list[str],
    alignments: bool,
    confidence: bool = False,
) -> schemas.Translated:
    """Join the best candidates of all sentences, then the second ones, and so on.

    Candidates of different subwords may read the same; only the best of those is kept.
    """
    source_words = (
        [_source_words(route, sentence.source) for sentence in found] if alignments else []
    )
    # A sentence with fewer candidates repeats its last one.
    count = max(len(sentence.candidates) for sentence in found)
    distinct: dict[str, schemas.Alternative] = {}
    for rank in range(count):
        parts = [s.candidates[min(rank, len(s.candidates) - 1)] for s in found]
        candidate = _candidate(parts, gaps, source_words)
        distinct.setdefault(candidate.text, candidate)
    candidates = [*distinct.values()]
    estimates = [sentence.estimate if confidence else None for sentence in found]
    # Sentences without a search, such as copied ones, have no estimate.
    known = [estimate for estimate in estimates if estimate]
    sure = [word for estimate in known for word in estimate.words]
    # Estimates are per word of each sentence; they fit only if every sentence has them.
    if alignments and known and len(sure) == len(candidates[0].words or ()):
        for word, chance in zip(candidates[0].words or (), sure, strict=True):
            word.confidence = round(chance, 4)
    return schemas.Translated(
        text=candidates[0].text,
        source=route.source,
        target=route.target,
        model=route.model.name,
        detected=schemas.DetectedLanguage(**route.detected._asdict()) if route.detected else None,
        source_words=[word for words in source_words for word in words] if alignments else None,
        sentences=[
            schemas.Sentence(
                source=sentence.source,
                text=sentence.text,
                confidence=round(estimate.good, 4) if estimate else None,
                chrf=round(estimate.chrf, 2) if estimate else None,
            )
            for sentence, estimate in zip(found, estimates, strict=True)
        ]
        if alignments or confidence
        else None,
        confidence=round(min(estimate.good for estimate in known), 4) if known else None,
        note=route.note or None,
        warning=None if route.note else next(filter(None, (one.warning for one in found)), None),
        terms=None,
        candidates=candidates,
    )


def _source_words(route: Route, sentence: str) -> tuple[str, ...]:
    """Return the words that the alignment counts: without the language tag and the end."""
    codec = route.model.translator.codec
    ids = codec.encode_sides([sentence]).lists()[0]
    return Axis.of([codec.source.pieces[i] for i in ids]).labels


def _candidate(
    parts: list[Candidate], gaps: list[str], source_words: list[tuple[str, ...]]
) -> schemas.Alternative:
    """Join one candidate of each sentence; word numbers count through the whole text."""
    text = "".join(part.text + gap for part, gap in zip(parts, [*gaps, ""], strict=True))
    score = sum(part.score for part in parts)
    if not source_words:
        return schemas.Alternative(text=text, score=score, words=None, alignment=None)
    words: list[schemas.Word] = []
    links: list[tuple[int, int]] = []
    before = 0
    for part, sources in zip(parts, source_words, strict=True):
        links += [(s + before, t + len(words)) for s, t in part.alignment]
        labels = Axis.of(part.pieces).labels
        probabilities = word_probabilities(part.pieces, part.log_probs)
        words += [
            schemas.Word(text=w, probability=p, confidence=None)
            for w, p in zip(labels, probabilities, strict=True)
        ]
        before += len(sources)
    return schemas.Alternative(text=text, score=score, words=words, alignment=links)
