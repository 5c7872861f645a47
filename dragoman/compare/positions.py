"""C6: positions beyond the length that was trained, and a phrase that moves within its sentence.

"I walk my dog every day", "every day I walk my dog": what a phrase means hardly changes with its
place. So two sentences A and B are read as "A B" and as "B A", and the vectors that the encoder
gives A's words are compared.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from dragoman.compare.figures import Bars, Finding, Lines, Series, named
from dragoman.compare.length import bleu_by_length, mean_words
from dragoman.compare.probe import model_of
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import architecture, variant
from dragoman.decode.translator import Translator

_KINDS = ("sinusoidal", "learned", "rotary", "relative")
_SYSTEMS = {
    kind: variant(f"positions-{kind}", 0.5, "short", model__positions__kind=kind) for kind in _KINDS
}
_ALL_LENGTHS = architecture("transformer")
_PHRASES = 40


@torch.no_grad()
def _likeness_when_moved(translator: Translator, sentences: Sequence[str]) -> float:
    """Mean cosine between the vectors of A's pieces in "A B" and in "B A".

    A and B are neighbours in a list.
    """
    model, device = model_of(translator)
    eos = translator.codec.source.eos
    encoded = [ids[:-1] for ids in translator.codec.encode_source(sentences)]
    found = []
    for a, b in zip(encoded[::2], encoded[1::2], strict=False):
        before, behind = (torch.tensor([[*ids, eos]], device=device) for ids in (a + b, b + a))
        first = model.encode(before)[0][0, : len(a)]
        last = model.encode(behind)[0][0, len(b) : len(b) + len(a)]
        found.append(float(F.cosine_similarity(first.float(), last.float(), dim=-1).mean()))
    return float(np.mean(found))


def groups(sources: Sequence[str], trained: int) -> list[np.ndarray]:
    """Rows in four groups by length.

    These are the shorter and the longer half within what was trained, and the same beyond it.
    """
    lengths = np.array([len(source.split()) for source in sources])
    rows = []
    for side in (np.flatnonzero(lengths <= trained), np.flatnonzero(lengths > trained)):
        middle = np.median(lengths[side]) if len(side) else 0
        rows += [side[lengths[side] <= middle], side[lengths[side] > middle]]
    return [group for group in rows if len(group)]


def finding(
    trained: int,
    words: Sequence[float],
    scores: Mapping[str, Sequence[float]],
    all_lengths: Sequence[float],
    moved: Mapping[str, float],
) -> Finding:
    """BLEU by length, and likeness when moved.

    The systems are trained up to `trained` words, one of them on all.
    """
    kept = {kind: values[-1] / max(values[0], 1e-9) for kind, values in scores.items()}
    reference = all_lengths[-1] / max(all_lengths[0], 1e-9)
    seen = kept["learned"] < kept["sinusoidal"] < reference
    steadier = min(moved["rotary"], moved["relative"]) > max(moved["sinusoidal"], moved["learned"])
    curves = [Series(kind, words, values) for kind, values in scores.items()]
    return Finding(
        [
            Lines(
                f"BLEU by length; trained up to {trained} words",
                "source words (mean of the group)",
                "BLEU",
                [*curves, Series("sinusoidal, all lengths", words, all_lengths)],
            ),
            Bars(
                "A phrase moved within its sentence",
                "cosine of its vectors before and behind",
                list(moved),
                list(moved.values()),
            ),
        ],
        (
            f"Trained on sources of up to {trained} words, the longest sentences ({words[-1]:.1f} "
            f"words) keep {named(kept, '.0%')} of the BLEU of the shortest ({words[0]:.1f} "
            f"words), where training on all lengths keeps {reference:.0%}: beyond what was "
            "trained learned positions are "
            f"{'worse' if kept['learned'] < kept['sinusoidal'] else 'not worse'} than sinusoids.",
            f"The vectors of a phrase that changes places have a cosine of {named(moved, '.2f')}: "
            f"positions that only tell distances {'keep' if steadier else 'do not keep'} them the "
            "steadiest.",
        ),
        "seen" if seen else "not seen",
        "",
    )


def show(study: Study) -> Finding:
    test = study.texts.test_of("all")
    trained = study.texts.short_length()
    rows = groups(test.sources, trained)
    scores = {
        kind: bleu_by_length(study.result(s).outputs, test, rows) for kind, s in _SYSTEMS.items()
    }
    short = [test.sources[row] for row in np.concatenate(rows[:2])][: 2 * _PHRASES]
    moved = {kind: _likeness_when_moved(study.translator(s), short) for kind, s in _SYSTEMS.items()}
    reference = bleu_by_length(study.result(_ALL_LENGTHS).outputs, test, rows)
    return finding(trained, mean_words(test.sources, rows), scores, reference, moved)


CLAIM = Claim(
    "Positions beyond what was trained",
    "Sinusoids reach any length, though beyond the trained one they do not really work; learned "
    "positions cannot reach there at all. And where a phrase stands matters less than what stands "
    "beside it.",
    "Does a model that was trained on short sequences work at places that it has never seen?",
    "Accuracy would be the same at places beyond the trained ones as within.",
    show,
    lambda scale: [*_SYSTEMS.values(), _ALL_LENGTHS],
)
