"""The verdict on a claim follows from the numbers, whether they support or refute it."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dragoman.lab.compare.figures import BarChart, LineChart, Table
from studies import block, growth, heads, length, positions, recency, scaling, vocabulary
from studies.finding import Finding, Verdict
from studies.judge import judge
from studies.tasks import Outcome, Tuned

SEEDS = (0.0, 0.01, -0.01)


def tuned(
    right: dict[int, float], course: tuple[float, ...] = (0.5, 1.0), valid: float = 0.9
) -> Tuned:
    """Three seeds that differ by a hundredth."""
    outcomes = []
    for seed in SEEDS:
        shares = {group: share + seed for group, share in right.items()}
        curve = [(10 * (n + 1), share + seed) for n, share in enumerate(course)]
        outcomes.append(Outcome(valid, shares, curve, 0.1))
    return Tuned({1e-3: 0.8, 3e-3: 0.9}, 3e-3, outcomes)


COPY = length.Size(8, 2, (16, 64), 16, 10, (1e-3, 3e-3), 3)


def c1(
    near: float, narrow: float, wide: float, attention: float, text: float = 0.1, short: float = 0.4
) -> Finding:
    """Shares right: of the shortest in all systems, of the longest in each; GLEU of the RNN on long
    text, and on short text."""

    def one(long: float) -> Tuned:
        return tuned({n: near if n <= 4 else long for n in range(2, 9)})

    systems = dict(zip(length.systems(COPY), [narrow, wide, attention, attention], strict=True))
    gleu = {
        "RNN": [short] * 50 + [text] * 50,
        "RNN with attention": [0.5] * 50 + [0.4] * 50,
        "Transformer": [0.6] * 100,
    }
    scores = {name: [20.0, 10.0] for name in gleu}
    on_text = length.OnText("europarl.de", [3] * 50 + [30] * 50, gleu, scores)
    return length.finding(COPY, {name: one(long) for name, long in systems.items()}, on_text)


FIRST = recency.Size((5, 40), 10, (1e-3, 3e-3), 3, gradients=(12, 100))


def c2(near: float, far: float, ratio: float, last: float = 0.99) -> Finding:
    """The RNN's share right with few and many words between, its ratio of gradients, and its share
    right of the last word."""
    ratios = {name: [[1.0] * 3, [1.0] * 3] for name in recency.SYSTEMS}
    ratios["RNN"] = [[ratio**0.1] * 3, [ratio] * 3]
    shares = {"RNN": (near, far)}
    found = {
        f"{name}, {n} between": tuned({n: share})
        for name in recency.SYSTEMS
        for n, share in zip(FIRST.between, shares.get(name, (0.99, 0.99)), strict=True)
    }
    found[recency.LAST] = tuned({40: last})
    return recency.finding(FIRST, ratios, found)


STEPS = growth.Steps((16, 32, 64), 512, 8, 2)


def c3(recurrence: int, attention: int, seconds: float = 8.0) -> Finding:
    """Chains in the longest sentences (in the shortest they are of 10), and the slowest step."""
    names = [name for name, kind in growth.KINDS.items() if kind.architecture]
    chains = {name: [10, 10, attention] for name in names}
    steps = {name: [[1.0, 1.1], [1.0, 1.1], [1.0, 1.1]] for name in names}
    chains["recurrence"] = [10, 20, recurrence]
    steps["recurrence"][-1] = [seconds, 1.1 * seconds]
    return growth.steps_finding(STEPS, chains, steps, dict.fromkeys(names, 1.0))


COST = growth.Cost((4, 8, 16), 16, 8, 2)


def c4(attention: float, recurrence: float, spread: float = 0.0) -> Finding:
    """Exponents of time and memory."""

    def grown(exponent: float) -> growth.Grown:
        values = [float(n) ** exponent for n in COST.lengths]
        times = [[v, v * (1 + spread * n / 16)] for v, n in zip(values, COST.lengths, strict=True)]
        return growth.Grown(COST.lengths, values, times, values)

    return growth.cost_finding(
        COST,
        {
            "attention": grown(attention),
            "fused attention": grown(attention),
            "recurrence": grown(recurrence),
        },
    )


SCALED = scaling.Size(16, 10, (1e-3, 3e-3), 3)


def c5(
    unscaled: float,
    course: tuple[float, ...],
    learned: float = 0.99,
    over_d: tuple[float, ...] = (0.3, 0.9),
) -> Finding:
    """Entropy with unscaled products, how they learn, and how those over d do."""

    def both(entropy: float) -> list[tuple[np.ndarray, np.ndarray]]:
        ends = (
            (np.full(50, 3.0), np.full(50, 0.2)),
            (np.full(50, entropy), np.full(50, entropy / 9)),
        )
        return [ends[0]] * 8 + [ends[1]]

    measured = {"1": both(unscaled), "1/√d": both(3.0), "1/d": both(4.0)}
    found = {
        "q·k": tuned({0: 0.9}, course),
        "q·k/√d": tuned({0: learned}, (0.8, 0.95)),
        "q·k/d": tuned({0: 0.9}, over_d),
    }
    return scaling.finding(SCALED, measured, found)


PLACES = positions.Size(4, 10, 10, (1e-3, 3e-3), 3)


def c6(copied: float, by_place: float, by_distance: float, within: float = 0.98) -> Finding:
    """Shares right beyond the trained length."""

    def one(beyond: float) -> Tuned:
        return tuned({place: within if place <= 4 else beyond for place in range(1, 9)}, (), within)

    tagging = {kind: one(by_place) for kind in positions.VECTORS}
    tagging |= {kind: one(by_distance) for kind in positions.DISTANCES}
    copying = {kind: one(copied) for kind in positions.VECTORS}
    return positions.finding(PLACES, copying, tagging, {"alibi": one(0.9)})


LOOKUPS = heads.Size((1, 4), (1, 4), 10, (1e-3, 3e-3), 3)


def c8(one_head: float, several: float, end: float = 0.97) -> Finding:
    """The middle of the learning curve of four lookups."""
    found = {
        "1 lookup, 1 head": tuned({0: 0.98}, (0.7, 0.98)),
        "1 lookup, 4 heads": tuned({0: 0.98}, (0.7, 0.98)),
        "4 lookups, 1 head": tuned({0: 0.9}, (one_head, 0.9)),
        "4 lookups, 4 heads": tuned({0: end}, (several, end)),
    }
    role = heads.Role("the piece before", "layer 1, head 2", 0.75, 0.1, 0.1)
    return heads.finding(LOOKUPS, found, [role], [])


WORDS = vocabulary.Size(10, (1e-3, 3e-3), 3)


def c10(
    words: float,
    pieces: float,
    no_rule: float = 0.02,
    frequent: float = 0.98,
    text: vocabulary.OnText | None = None,
) -> Finding:
    """Shares right of the words that were never seen."""

    def one(never: float) -> Tuned:
        return tuned({0: never, 1: 0.6, 2: frequent, 3: frequent})

    found = {
        "words": one(words),
        "pieces": one(pieces),
        "characters": one(0.9),
        "pieces, no rule": one(no_rule),
    }
    return vocabulary.finding(WORDS, found, text)


BLOCK = block.Size(3, 6, 3, 4, 5, 8, {}, (1e-3, 3e-3), (1e-3, 1e-2), 3, 3)


def c11(without: float, whole: float = 0.97, post: float = 0.97, fading: float = 1e-4) -> Finding:
    """Shares right of every block that lacks a part, of the stack with the norm after the sum; the
    gradient in the first layer without residual sums."""
    found = {
        "depth": {"3 layers": tuned({0: whole}), "1 layer": tuned({0: without})},
        "feed-forward": {"with": tuned({0: 0.97}), "without": tuned({0: 0.3})},
        "decoder self-attention": {"with": tuned({5: 0.97}), "without": tuned({5: 0.2})},
    }
    names = block._deep(BLOCK)
    deep = {name: {r: tuned({0: 0.3}).outcomes for r in BLOCK.deep_rates} for name in names}
    for norm, share in (("pre-norm", 0.97), ("post-norm", post)):
        deep[norm] = {r: tuned({0: share}).outcomes for r in BLOCK.deep_rates}
    gradients = {name: [fading * s for s in (1.0, 1.1, 0.9)] for name in names}
    gradients |= {norm: [1.0, 1.1, 0.9] for norm in ("pre-norm", "post-norm")}
    return block.finding(BLOCK, found, deep, gradients)


CASES: dict[str, dict[Verdict, Finding]] = {
    "C1": {
        "seen": c1(0.98, 0.3, 0.5, 0.97),
        "not seen": c1(0.98, 0.9, 0.95, 0.97),
        "undecided": c1(0.7, 0.3, 0.5, 0.97),
    },
    "C2": {
        "seen": c2(0.98, 0.2, 1e-8),
        "not seen": c2(0.98, 0.97, 0.9),
        "undecided": c2(0.5, 0.1, 1e-8),
    },
    "C3": {
        "seen": c3(40, 10),
        "not seen": c3(12, 10, 1.0),
        "undecided": c3(40, 10, 2.0),
    },
    "C4": {
        "seen": c4(2.0, 1.0),
        "not seen": c4(1.0, 1.0),
        "undecided": c4(1.501, 1.0, spread=-0.3),
    },
    "C5": {
        "seen": c5(0.1, (0.2, 0.9)),
        "not seen": c5(3.0, (0.8, 0.95)),
        "undecided": c5(0.1, (0.2, 0.9), learned=0.5),
    },
    "C6": {
        "seen": c6(0.2, 0.2, 0.9),
        "not seen": c6(0.97, 0.9, 0.9),
        "undecided": c6(0.2, 0.2, 0.9, within=0.6),
    },
    "C8": {
        "seen": c8(0.3, 0.8),
        "not seen": c8(0.6, 0.4),
        "undecided": c8(0.3, 0.8, end=0.6),
    },
    "C10": {
        "seen": c10(0.01, 0.95),
        "not seen": c10(0.9, 0.95),
        "undecided": c10(0.01, 0.95, frequent=0.7),
    },
    "C11": {
        "seen": c11(0.4),
        "not seen": c11(0.95),
        "undecided": c11(0.3, whole=0.6),
    },
}  # fmt: skip


@pytest.mark.parametrize("verdict", ["seen", "not seen", "undecided"])
@pytest.mark.parametrize("claim", CASES)
def test_a_verdict_follows_from_the_numbers(claim: str, verdict: Verdict) -> None:
    found = CASES[claim][verdict]
    assert found.verdict == verdict, found.conditions
    others = [other for name, other in CASES[claim].items() if name != verdict]
    assert all(found.sentences != other.sentences for other in others)


@pytest.mark.parametrize("claim", CASES)
def test_a_finding_names_its_conditions_and_survives_json(claim: str) -> None:
    found = CASES[claim]["seen"]
    assert re.search(r"Seen if", found.conditions)
    assert "nan" not in " ".join([*found.sentences, found.conditions])
    again = Finding.from_json(found.to_json())
    assert again.to_json() == found.to_json()


def test_an_rnn_that_forgets_the_last_word_too_has_no_recency() -> None:
    found = c2(0.98, 0.2, 1e-8, last=0.2)
    assert found.verdict == "not seen"
    assert dict(found.parts) == {
        "the first word is lost": "seen",
        "the last one is kept": "not seen",
        "the gradient vanishes": "seen",
    }


def test_products_over_d_that_learn_as_well_refute_a_part_of_c5() -> None:
    found = c5(0.1, (0.2, 0.9), over_d=(0.8, 0.95))
    assert found.verdict == "not seen"
    assert dict(found.parts)["so do those over d"] == "not seen"
    assert dict(found.parts)["and learn later"] == "seen"


def test_what_holds_for_one_place_of_the_norm_alone_is_said_of_that_one_alone() -> None:
    parts = dict(c11(0.4, post=0.3).parts)
    assert parts["normalisation, pre-norm"] == "seen"
    assert parts["normalisation, post-norm"] == "undecided"  # that stack learns nothing at all
    assert dict(c11(0.4, fading=0.5).parts)["gradients: residual connections, pre-norm"] == (
        "not seen"
    )


def test_a_norm_keeps_the_gradient_in_range_through_twelve_layers() -> None:
    """And without it, sums of sums let it grow on the way down."""
    with_norm, without = (
        block.gradient_of_first_layer(block.Stack({"norm_type": kind}, 12, 0))
        for kind in ("layer", "none")
    )
    assert 0.1 < with_norm < 10
    assert without > 10


def test_restricted_attention_looks_at_no_more_than_there_is() -> None:
    attention, restricted = (growth.KINDS[n] for n in ("attention", "restricted attention"))
    assert restricted.multiplications(16, 8) == attention.multiplications(16, 8)
    assert restricted.multiplications(1024, 8) < attention.multiplications(1024, 8)


def test_what_text_leaves_open_is_said_beside_what_copying_shows() -> None:
    assert c1(0.98, 0.3, 0.5, 0.97, text=0.1).verdict == "seen"
    poor = c1(0.98, 0.3, 0.5, 0.97, text=0.1, short=0.01)
    assert poor.verdict == "undecided"
    assert poor.parts == [("copying", "seen"), ("europarl.de", "undecided")]
    refuted = c1(0.98, 0.3, 0.5, 0.97, text=0.35)
    assert refuted.verdict == "not seen"
    assert "loses no more" in refuted.sentences[1]
    without = length.finding(COPY, {n: tuned(dict.fromkeys(range(2, 9), 0.98)) for n in
                                    length.systems(COPY)}, None)  # fmt: skip
    assert without.verdict == "not seen"


def test_a_vector_that_cannot_hold_the_shortest_is_not_judged() -> None:
    size = replace(COPY, widths=(16, 32, 64))
    long = dict(zip(length.systems(size), (0.3, 0.4, 0.6, 0.98, 0.98), strict=True))

    def found(*able: str) -> Finding:
        return length.finding(
            size,
            {
                name: tuned(
                    {n: (0.98 if name in able else 0.8) if n <= 4 else share for n in range(2, 9)}
                )
                for name, share in long.items()
            },
            None,
        )

    narrow, middle, wide, *attention = long
    assert found(narrow, middle, wide, *attention).verdict == "seen"
    without = found(middle, wide, *attention)
    assert without.verdict == "seen"
    assert f"(not {narrow})" in without.conditions
    assert found(wide, *attention).verdict == "undecided"
    assert found(middle, wide, attention[0]).verdict == "undecided"


def test_pieces_that_know_unseen_words_without_a_rule_refute_c10() -> None:
    assert c10(0.01, 0.95, no_rule=0.94).verdict == "not seen"


def test_real_text_can_refute_what_the_dictionary_shows_and_adds_its_figures() -> None:
    recall = {"words": [0.0, 0.1, *[0.5] * 4], "BPE": [0.3, 0.3, *[0.5] * 4]}
    scores = {"words": [20.0, 20.5], "BPE": [22.0, 22.5]}
    for rare, verdict in (
        (judge([0.3, 0.4, 0.5], [0.1, 0.1, 0.1]), "seen"),
        (judge([0.1, 0.1, 0.1], [0.4, 0.45, 0.5]), "not seen"),
        (judge([0.3]), "seen"),  # undecided: one measurement
    ):
        text = vocabulary.on_text(scores, recall, rare, [5, 5, 0, 9, 9, 9])
        found = c10(0.01, 0.95, text=text)
        assert found.verdict == verdict
        assert rare.interval("+.1%") in found.sentences[1]
        shown = found.figures[2]
        assert isinstance(shown, Table)
        assert "6-20" not in [row[0] for row in shown.rows]  # no such word: nothing to show


def test_one_part_that_brings_nothing_is_named() -> None:
    found = CASES["C11"]["not seen"]
    assert "Not seen: depth" in " ".join(found.sentences) or "not seen: depth" in " ".join(
        found.sentences
    )


def test_groups_by_length_hold_every_sentence_once_and_grow() -> None:
    words = [1 + n % 17 for n in range(200)]
    rows = length.groups_by_length(words)
    assert sorted(np.concatenate(rows).tolist()) == list(range(200))
    means = [np.asarray(words)[group].mean() for group in rows]
    assert means == sorted(means)
    assert len(rows) == len(length.SHARES) + 1


def test_groups_of_copied_lengths_cover_all_of_them_once() -> None:
    size = length.SIZES["full"]
    covered = [n for low, high in size.edges for n in range(low, high + 1)]
    assert covered == list(range(2, size.longest + 1))


def test_unscaled_attention_has_the_entropy_and_gradient_of_its_formula() -> None:
    """A scale of 0 gives all keys equal weight: log2 n bits, and a Jacobian known by hand."""
    entropy, gradient = scaling.spread_and_gradient(4, 0.0)
    n = scaling.KEYS
    assert entropy == pytest.approx(np.log2(n))
    assert gradient == pytest.approx(np.linalg.norm(np.eye(n) / n - np.ones((n, n)) / n**2))


@pytest.mark.parametrize("kernel", [3, 7])
@pytest.mark.parametrize("dilated", [False, True])
def test_a_path_through_convolutions_is_as_long_as_a_gradient_needs(
    kernel: int, dilated: bool
) -> None:
    """Layers are added until the last output depends on the first input."""
    n = 30
    layers, reached = 0, False
    while not reached:
        layers += 1
        x = torch.zeros(1, 1, n, requires_grad=True)
        y = x
        for number in range(layers):
            apart = 2**number if dilated else 1
            weight = torch.ones(1, 1, kernel)
            y = F.conv1d(y, weight, padding=apart * (kernel - 1) // 2, dilation=apart)
        (gradient,) = torch.autograd.grad(y[0, 0, -1], x)
        reached = bool(gradient[0, 0, 0])
    assert growth.Kind(kernel=kernel, dilated=dilated).path(n) == layers


def test_multiplications_counted_by_formula_match_our_layers() -> None:
    config = recency_config(width=8, heads=2)
    for kind, name in (("attention", "attention"), ("recurrence", "recurrence")):
        layer = growth.Layer(kind, config)
        assert growth.KINDS[name].multiplications(10, 8) == layer.multiplications(10)


def recency_config(**settings: object):
    from dragoman.config import make_config

    return make_config("tiny", settings={f"model.{k}": v for k, v in settings.items()}).model


def test_a_head_that_looks_back_is_found_by_its_role() -> None:
    pieces = ["▁tag", "▁a", "▁b", "▁c", "</s>"]
    back = np.eye(5, k=-1)
    back[0, 0] = 1
    even = np.full((5, 5), 0.2)
    weights = np.stack([back, even])[None]  # (1, 2, 5, 5)
    given, spread = heads.role_weights(weights, pieces, heads.ROLES["the piece before"])
    assert given[0].tolist() == pytest.approx([1.0, 0.2])
    assert spread == pytest.approx(0.2)
    given, _ = heads.role_weights(weights, pieces, heads.ROLES["the piece after"])
    assert given[0].tolist() == pytest.approx([0.0, 0.2])


def test_a_recurrent_gradient_fades_before_training_and_attentions_does_not() -> None:
    ratios = {
        name: recency.gradient_ratio(recency.Untrained(name, 40, 16, 0)) for name in recency.SYSTEMS
    }
    assert ratios["RNN"] < 0.01
    assert 0.1 < ratios["Transformer"] < 10
    assert math.isfinite(ratios["RNN with attention"])


def drawn(found: Finding) -> list[float]:
    """Every number in the figures; percentages as shares."""
    numbers: list[float] = []
    for figure in found.figures:
        if isinstance(figure, LineChart):
            numbers += [value for series in figure.series for value in series.y]
        elif isinstance(figure, BarChart):
            numbers += figure.values
        elif isinstance(figure, Table):
            cells = [cell for row in figure.rows for cell in row]
            numbers += [float(cell[:-1]) / 100 for cell in cells if re.fullmatch(r"\d+%", cell)]
    return numbers


@pytest.mark.parametrize("claim", ["C1", "C2", "C6", "C8", "C10", "C11"])
def test_shares_in_the_sentences_match_the_figures(claim: str) -> None:
    for found in CASES[claim].values():
        told = re.findall(r"(\d+)%", " ".join(found.sentences))
        assert told
        for number in told:
            near = [value for value in drawn(found) if abs(value - int(number) / 100) <= 0.00501]
            # "train to 90%" names a threshold, not a measurement
            assert near or (claim == "C11" and number == "90"), (number, found.sentences)
