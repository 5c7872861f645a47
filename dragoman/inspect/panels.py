"""The twelve panels of `dragoman explain`: what each shows, its formula, and the code that computes
it.

Formulas follow the model's settings, so that a variant shows its own. They are MathML, which
browsers typeset by themselves. Code is read from the source when a page is made, so it is never out
of date. A panel that does not apply to a model has a sentence that says why.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from dragoman.config import ModelConfig

_ROOT = Path(__file__).parents[1]
_OPERATORS = {"=", "+", "−", "·", "/", "(", ")", "[", "]", ";", ",", "…", "←", "∑", "−∞", "→", "⊤"}


Code = tuple[Callable[..., Any], str]
"""A function, and words of one statement in it."""


@dataclass(frozen=True)
class Formula:
    """`math` is MathML, `spoken` the same for whoever cannot see it."""

    math: str
    spoken: str


@dataclass(frozen=True)
class Panel:
    """`tour`: two sentences of the guided tour. `left_out`: why a model does not have this."""

    name: str
    title: str
    lead: str
    tour: str
    formulas: tuple[Formula, ...] = ()
    code: tuple[
        tuple[Callable[..., Any], str], ...
    ] = ()  # a function, words of one statement in it
    left_out: str = ""


def panels(config: ModelConfig) -> list[Panel]:
    """All twelve, in the order of a forward pass."""
    return [
        _subwords(),
        _embedding(config),
        _queries(config),
        _scores(config),
        _weights(config),
        _heads(config),
        _norm(config),
        _feed_forward(config),
        _cross(config),
        _next_word(config),
        _cache(config),
        _beam(),
    ]


@cache
def statement(function: Callable[..., Any], words: str) -> tuple[str, str]:
    """The smallest statement of a function that holds these words, and where it stands."""
    function = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(function)
    source = textwrap.dedent("".join(lines))
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and words in (ast.get_source_segment(source, node) or "")
    ]
    if not found:
        raise LookupError(f"{function.__qualname__} does not say {words!r}.")
    best = min(found, key=lambda node: len(ast.get_source_segment(source, node) or ""))
    shown = source.splitlines()[best.lineno - 1 : best.end_lineno]
    file = Path(inspect.getsourcefile(function) or "")
    # a variant of a user's own stands outside the package
    name = file.relative_to(_ROOT.parent).as_posix() if _ROOT in file.parents else file.name
    return textwrap.dedent("\n".join(shown)), f"{name}:{first + best.lineno - 1}"


def _subwords() -> Panel:
    from dragoman.text.subword import BytePairs

    return Panel(
        "subwords",
        "Text becomes pieces",
        "Byte-pair encoding starts from single characters and joins the pair of neighbours that "
        "was learned first, again and again. Frequent words end as one piece, rare ones as "
        "several, and no word is unknown.",
        "Choose a word and read its merges from top to bottom. The number beside each piece is its "
        "row in the table of vectors.",
        (
            Formula(
                _math(
                    _line(
                        _sup("a", "∗"), _sup("b", "∗"), "=", _under("argmin", "ab"), "rank", "(",
                        "a", "b", ")",
                    )
                ),
                "the pair a b with the lowest rank is joined",
            ),
        ),
        ((BytePairs.merge, "parts[place : place + 2] ="),),
    )  # fmt: skip


def _embedding(config: ModelConfig) -> Panel:
    from dragoman.bundle.plain_weights import sinusoids
    from dragoman.model.interface import Words
    from dragoman.model.positions import Learned, Sinusoidal, SinusoidalFromOne
    from dragoman.model.transformer import Embedding

    title = "Pieces become vectors, with their places"
    if config.architecture == "lexical":
        return Panel(
            "embedding", title, "", "", left_out="This model counts words: it has no vectors."
        )
    kind = "learned" if config.architecture == "convs2s" else config.positions.kind
    recurrent = config.architecture in ("rnn", "rnn-attention", "gnmt")
    word = _line(_root("D"), "·", _sub("E", "w"))
    position = _sub("p", "t")
    tour = (
        "Three strips, one above the other: the word, its position, and their sum, feature by "
        "feature. Move the two sliders below and see how each feature turns at its own speed."
    )
    if recurrent or kind not in ("sinusoidal", "sinusoidal-from-1", "learned", "index"):
        why = (
            "This model reads its words one after the other, so it adds no positions."
            if recurrent
            else "Nothing is added for the position."
            if kind == "none"
            else f"Positions act inside attention here (model.positions.kind={kind})."
        )
        return Panel(
            "embedding",
            title,
            f"Each piece has a row of the table E, made √D times as large. {why}",
            "The strip is the vector of the chosen piece, a colour for each feature. " + why,
            (Formula(_math(_line(_sub("x", "t"), "=", word)), "x = root of D times E of w"),),
            (
                (Words.forward, "self.words(ids)")
                if recurrent
                else (Embedding.forward, "self.positions(self.words"),
            ),
        )
    if config.positions.join == "concat":
        joined = _line("W", "[", word, ";", position, "]")
        spoken = "x = W times root of D times E of w beside p"
    else:
        joined = _line(word, "+", position)
        spoken = "x = root of D times E of w, plus p"
    formulas = [Formula(_math(_line(_sub("x", "t"), "=", joined)), spoken)]
    code: list[Code] = [(Embedding.forward, "self.positions(self.words")]
    if kind.startswith("sinusoidal"):
        angle = _line(
            "t", "/", _sup(f"{config.positions.base:g}", _line("2", "i", "/", "D"))
        )  # fmt: skip
        features = ("2i", "2i+1") if kind == "sinusoidal" else ("2i−2", "2i−1")
        for feature, wave in zip(features, ("sin", "cos"), strict=True):
            formulas.append(
                Formula(
                    _math(_line(_sub("p", f"t,{feature}"), "=", wave, "(", angle, ")")),
                    f"p of t and {feature} = {wave} of t over "
                    f"{config.positions.base:g} to the 2i over D",
                )
            )
        if kind == "sinusoidal":
            code += [(sinusoids, "angles ="), (sinusoids, "np.sin(angles)")]
            code += [(Sinusoidal.vectors, "self.waves.rows")]
        else:
            code += [(SinusoidalFromOne.vectors, "angles =")]
    elif kind == "learned":
        code += [(Learned.vectors, "self.rows")]
    return Panel(
        "embedding",
        title,
        "Each piece has a row of the table E. Attention does not see order, so a vector for the "
        "position joins the word's.",
        tour,
        tuple(formulas),
        tuple(code),
    )


def _no_attention(config: ModelConfig) -> str:
    return {
        "rnn": "This model has no attention: one vector stands for the whole sentence.",
        "lexical": "This model has no attention: it walks along the source word by word.",
    }.get(config.architecture, "")


def _queries(config: ModelConfig) -> Panel:
    from dragoman.model.convolutional import ConvolutionalDecoderLayer, ConvS2S
    from dragoman.model.heads import HEADS, BareHeads

    title = "Each word asks, and each word answers"
    if why := _no_attention(config):
        return Panel("queries", title, "", "", left_out=why)
    tour = (
        "The query is what the chosen word looks for, the key is what a word offers, the value "
        "is what it gives. All three come from the same vector, by three matrices."
    )
    if config.architecture == "convs2s":
        return Panel(
            "queries",
            title,
            "The query is made of the decoder's convolution and of the word itself. Keys are the "
            "encoder's outputs, values are these outputs with the words behind them.",
            "The query is what the decoder looks for, the key is what a source word offers. The "
            "value is what it gives, its own vector included.",
            (
                Formula(
                    _math(
                        _line(_sub("q", "i"), "=", "W", _sub("h", "i"), "+", _sub("g", "i")),
                        _line(_sub("k", "j"), "=", _sub("z", "j")),
                        _line(
                            _sub("v", "j"), "=", "(", _sub("z", "j"), "+", _sub("e", "j"), ")",
                            _root(_frac("1", "2")),
                        ),
                    ),
                    "q = W h + g, k = z, v = z + e, times the root of a half",
                ),
            ),
            (
                (ConvolutionalDecoderLayer.forward, "context ="),
                (ConvS2S.begin, "return [window]"),
            ),
        )  # fmt: skip
    bare = not config.attention.projections
    layout = BareHeads if bare else HEADS[config.attention.heads_layout]
    one_sequence = config.architecture in ("transformer", "decoder-only")
    key_of = _sub("x", "j") if one_sequence else _sub("m", "j")
    lines = []
    for letter, of, index in (("q", _sub("x", "i"), "i"), ("k", key_of, "j"), ("v", key_of, "j")):
        result = of if bare else _line(_sub("W", letter), of, "+", _sub("b", letter))
        lines.append(_line(_sub(letter, index), "=", result))
    code: tuple[Code, ...]
    if one_sequence:
        code = (
            ((layout.queries_keys_values, "return self.queries(x)"),)
            if layout.queries_keys_values is BareHeads.queries_keys_values
            else ((layout.queries_keys_values, "q, k, v ="),)
        )
    else:
        code = ((layout.queries, "return"), (layout.keys_values, "return"))
    return Panel(
        "queries",
        title,
        "A query is compared with every key, and the values are what is passed on. "
        + (
            "This model takes the vectors as they are."
            if bare
            else "Three matrices make them, and each head has its own."
        ),
        tour,
        (Formula(_math(*lines), "q = W q x + b q, k = W k x + b k, v = W v x + b v"),),
        code,
    )


def _scores(config: ModelConfig) -> Panel:
    from dragoman.model.attention import plain_attention
    from dragoman.model.distances import DISTANCES, NoDistances
    from dragoman.model.similarities import (
        SIMILARITIES,
        Additive,
        Concat,
        Cosine,
        General,
        MeanDot,
        NormalisedQueriesKeys,
        PlainCosine,
        scaled_dot,
    )
    from dragoman.model.spans import causal_mask

    title = "Every query meets every key"
    if why := _no_attention(config):
        return Panel("scores", title, "", "", left_out=why)
    kind = "scaled-dot" if config.architecture == "convs2s" else config.attention.similarity
    q, k, e = _sub("q", "i"), _sub("k", "j"), _sub("e", "ij")
    unlisted = (_line(q, "·", k), "q times k", (SIMILARITIES[kind].compare, "return"))
    similar, spoken, code = {
        "scaled-dot": (
            _frac(_line(q, "·", k), _root("d")), "q times k over the root of d",
            (scaled_dot, "return"),
        ),
        "mean-dot": (_frac(_line(q, "·", k), "d"), "q times k over d", (MeanDot.compare, "return")),
        "plain-cosine": (
            _frac(_line(q, "·", k), "‖q‖ ‖k‖"), "the cosine of q and k",
            (PlainCosine.queries, "return"),
        ),
        "general": (
            _line(_sup(q, "⊤"), "W", k), "q times W times k", (General.queries, "return"),
        ),
        "qk-norm": (
            _frac(_line("norm", "(", q, ")", "·", "norm", "(", k, ")"), _root("d")),
            "the norms of q and k multiplied, over the root of d",
            (NormalisedQueriesKeys.queries, "return"),
        ),
        "cosine": (
            _line(_sup("exp", "c"), _frac(_line(q, "·", k), "‖q‖ ‖k‖")),
            "e to the c times the cosine of q and k", (Cosine.queries, "return"),
        ),
        "additive": (
            _line(_sup("u", "⊤"), "tanh", "(", q, "+", k, ")"),
            "u times the hyperbolic tangent of q + k", (Additive._block, "pairs ="),
        ),
        "concat": (_line(q, "+", k), "q + k", (Concat.compare, "return")),
    }.get(kind, unlisted)  # fmt: skip
    lines = [_line(e, "=", similar)]
    codes: list[Code] = [cast(Code, code)]
    distances = DISTANCES.get(config.positions.kind)
    if distances is not None and config.architecture in ("transformer", "decoder-only"):
        if distances.turn is not NoDistances.turn:
            codes.append((distances.turn, "return"))
        if distances.bias is not NoDistances.bias:
            lines = [_line(e, "=", similar, "+", _sub("b", "i−j"))]
            spoken += ", plus b of the distance"
            codes.append((distances.bias, "return"))
    # recurrent and convolutional models look at a finished source and mask nothing but padding
    masked = config.architecture in ("transformer", "decoder-only")
    if masked:
        lines.append(_line(e, "←", "−∞", "if", "j", ">", "i"))
        codes += [(plain_attention, "masked_fill"), (causal_mask, "return")]
    return Panel(
        "scores",
        title,
        "How well a key fits a query is one number. "
        + (
            "The decoder must not see words that it has not said yet: their scores become −∞."
            if masked
            else "No word is masked here: the source is known from the beginning."
        ),
        "Follow one pair: its features are multiplied and added up, and the sum is divided. In the "
        "map each row is a query, and hatched cells may not be seen.",
        (Formula(_math(*lines), spoken + (", minus infinity if j is after i" if masked else "")),),
        tuple(codes),
    )  # fmt: skip


def _weights(config: ModelConfig) -> Panel:
    from dragoman.model.attention import plain_attention
    from dragoman.model.spans import straight_through

    title = "Scores become weights, weights gather values"
    if why := _no_attention(config):
        return Panel("weights", title, "", "", left_out=why)
    e, ek, a = _sub("e", "ij"), _sub("e", "ik"), _sub("α", "ij")
    hard = config.attention.span == "hard" and config.architecture != "convs2s"
    code = [(plain_attention, "weights ="), (plain_attention, "y = ")]
    return Panel(
        "weights",
        title,
        "The softmax turns the scores of a row into shares that sum to one. The output is the "
        + ("value of the best key alone." if hard else "sum of the values, each by its share."),
        "Read a line of the table from left to right: score, exponential, weight, value. The last "
        "line is their sum, which the chosen word takes along.",
        (
            Formula(
                _math(
                    _line(
                        a, "=", _frac(_line("exp", e), _line(_under("∑", "k"), "exp", ek))
                    ),
                    _line(_sub("y", "i"), "=", _under("∑", "j"), a, _sub("v", "j")),
                ),
                "alpha = softmax of e, y = the sum of alpha times v",
            ),
        ),
        (*code, (straight_through, "best =")) if hard else tuple(code),
    )  # fmt: skip


def _heads(config: ModelConfig) -> Panel:
    from dragoman.model.heads import HEADS, BareHeads

    title = "The heads are joined"
    if why := _no_attention(config):
        return Panel("heads", title, "", "", left_out=why)
    if config.architecture in ("rnn-attention", "gnmt", "convs2s") or config.heads == 1:
        return Panel(
            "heads", title, "", "", left_out="Attention has one head here: there is nothing to "
            "join."
        )  # fmt: skip
    bare = not config.attention.projections
    layout = BareHeads if bare else HEADS[config.attention.heads_layout]
    parts = ["[", _sup("y", "1"), ";", "…", ";", _sup("y", "H"), "]"]
    if not bare:
        parts = [_sub("W", "O"), *parts, "+", _sub("b", "O")]
    return Panel(
        "heads",
        title,
        "One head can look at one thing, several heads at several. Their outputs stand side by "
        "side" + ("." if bare else ", and one more matrix mixes them."),
        "Each line is a head: where the chosen word looks most, and what it brings back. Choose "
        "another head and see the panels above change.",
        (
            Formula(
                _math(_line(_sub("f", "i"), "=", *parts)),
                "f = W O times the heads side by side",
            ),
        ),
        (
            (layout.join, "return y.transpose" if bare else "self.to_out"),
            *(((BareHeads.join, "return y.transpose"),) if not bare else ()),
        ),
    )


def _not_a_block(config: ModelConfig) -> str:
    """Why a model has neither residual sums around attention nor feed-forward networks."""
    if why := _no_attention(config):
        return why.replace("attention", "attention, and no Transformer block")
    return {
        "rnn-attention": "Layers here are recurrent: the gates of a cell do this work.",
        "gnmt": "Layers here are LSTMs: each adds its input to its output, and has no norm.",
        "convs2s": "Layers here are gated convolutions: sums are scaled by √½ in place of a norm.",
    }.get(config.architecture, "")


def _norm(config: ModelConfig) -> Panel:
    from dragoman.model.layers import PLACEMENTS, BatchNorm, LayerNorm, RMSNorm

    title = "Added to what was there, and normalised"
    if why := _not_a_block(config):
        return Panel("norm", title, "", "", left_out=why)
    x, f = "x", _line("f", "(", "x", ")")
    rest = (x, "+") if config.residual else ()
    if config.norm_kind == "none":
        lines = [_line(x, "←", *rest, f)]
        spoken = "x becomes x + f of x"
    elif config.norm == "pre":
        lines = [_line(x, "←", *rest, "f", "(", "norm", "(", "x", ")", ")")]
        spoken = "x becomes x + f of norm of x"
    else:
        lines = [_line(x, "←", "norm", "(", *rest, f, ")")]
        spoken = "x becomes norm of x + f of x"
    code: list[Code] = [(PLACEMENTS[config.norm].forward, "return")]
    if config.norm_kind == "rms":
        root = _root(_line("mean", "(", _sup("x", "2"), ")", "+", "ε"))
        lines.append(_line("norm", "(", "x", ")", "=", "γ", _frac("x", root)))
        spoken += "; the norm is gamma times x over the root of the mean of its squares"
        code.append((RMSNorm.forward, "F.rms_norm"))
    elif config.norm_kind != "none":
        scaled = _frac(_line("x", "−", "μ"), _root(_line(_sup("σ", "2"), "+", "ε")))
        lines.append(_line("norm", "(", "x", ")", "=", "γ", scaled, "+", "β"))
        spoken += "; the norm is gamma times x minus mu over sigma, plus beta"
        norm = LayerNorm.forward if config.norm_kind == "layer" else BatchNorm.forward
        words = "nn.LayerNorm.forward" if config.norm_kind == "layer" else "torch.rsqrt"
        code.append((norm, words))
    over = {
        "layer": "The norm brings the features of each word to mean 0 and spread 1. Then it scales "
        "and shifts each feature by learned numbers, γ and β.",
        "rms": "The norm divides the features of each word by the root of their mean square. Then "
        "it scales each feature by a learned number, γ.",
        "batch": "The norm uses running averages over the words of training.",
        "none": "This model has no norm.",
    }[config.norm_kind]
    residual = (
        "What attention brought is added to the word's own vector, so that nothing is lost on the "
        "way up."
        if config.residual
        else "This model has no residual sums: what attention brought takes the place of the word."
    )
    return Panel(
        "norm",
        title,
        f"{residual} {over}",
        "Compare the strips: the sum still looks like the vector that came in. At the end of a "
        "line, μ is the mean of its features and σ their spread.",
        (Formula(_math(*lines), spoken),),
        tuple(code),
    )


def _feed_forward(config: ModelConfig) -> Panel:
    from dragoman.model.layers import GATES, FeedForward

    title = "Each word by itself: the feed-forward network"
    if why := _not_a_block(config):
        return Panel("feed-forward", title, "", "", left_out=why)
    if not config.feed_forward:
        return Panel(
            "feed-forward", title, "", "",
            left_out="This model has no feed-forward networks (model.feed_forward=false).",
        )  # fmt: skip
    if config.experts > 1:
        return Panel(
            "feed-forward", title, "", "",
            left_out=f"Each word chooses two of {config.experts} networks here: they are not "
            "drawn.",
        )  # fmt: skip
    inner = _line(_sub("W", "1"), "x", "+", _sub("b", "1"))
    active = (
        _line("max", "(", "0", ",", inner, ")")
        if config.activation == "relu"
        else _line(config.activation, "(", inner, ")")
    )
    spoken, words = f"h = {config.activation} of W 1 x + b 1", "self.activation(self.inner(x))"
    if config.activation == "relu":
        words = "self.inner(x, relu=True)"
    if config.activation in GATES:
        gate = GATES[config.activation].__name__
        active = _line(gate, "(", inner, ")", "⊙", "(", "V", "x", "+", "c", ")")
        spoken, words = f"h = {gate} of W 1 x + b 1, times V x + c", "self.activation(gate)"
    return Panel(
        "feed-forward",
        title,
        "Attention only mixes words; here each one is changed, by the same two matrices at every "
        "place. A unit fires if its row of W₁ fits the word.",
        "Every cell is a hidden unit, and bright ones fire for the chosen word. Choose a unit to "
        "see for which words of the sentence it fires.",
        (
            Formula(
                _math(
                    _line("h", "=", active),
                    _line("f", "(", "x", ")", "=", _sub("W", "2"), "h", "+", _sub("b", "2")),
                ),
                f"{spoken}, f = W 2 h + b 2",
            ),
        ),
        (
            (FeedForward.forward, words),
            (FeedForward.forward, "self.outer("),
        ),
    )


def _cross(config: ModelConfig) -> Panel:
    from dragoman.model.blocks import DecoderLayer
    from dragoman.model.convolutional import ConvS2S
    from dragoman.model.recurrent import _Attending
    from dragoman.model.transformer import Transformer

    title = "From the encoder to the decoder"
    if config.architecture == "decoder-only":
        return Panel(
            "cross", title, "", "", left_out="This model has no encoder: source and target are one "
            "sequence, and the target's words look at the source's in the same layer."
        )  # fmt: skip
    if why := _no_attention(config):
        return Panel("cross", title, "", "", left_out=why)
    bare = not config.attention.projections
    lines = []
    for letter, of, index in (("q", "x", "i"), ("k", "m", "j"), ("v", "m", "j")):
        made = _sub(of, index)
        if not bare:
            made = _line(_sub("W", letter), made, "+", _sub("b", letter))
        lines.append(_line(_sub(letter, index), "=", made))
    code: tuple[Code, ...] = {
        "transformer": (
            (Transformer.begin, "given += layer.memory(x)"),
            (DecoderLayer.memory, "return"),
            (DecoderLayer.forward, "x = self.around_cross"),
        ),
        "convs2s": ((ConvS2S.begin, "return [window]"),),
    }.get(config.architecture, ((_Attending.given, "return"), (_Attending.look, "y: Tensor")))
    source = (
        "the encoder layer of the same number"
        if config.attention.memory == "same-layer"
        else "the encoder's last layer"
    )
    if config.architecture == "convs2s":
        spoken = "q from the decoder, k and v from the encoder"
        lines = [
            _line(_sub("k", "j"), "=", _sub("z", "j")),
            _line(
                _sub("v", "j"), "=", "(", _sub("z", "j"), "+", _sub("e", "j"), ")",
                _root(_frac("1", "2")),
            ),
        ]  # fmt: skip
    else:
        spoken = "q is made of x of the decoder, k and v are made of m, which the encoder made"
    return Panel(
        "cross",
        title,
        f"Queries come from the decoder, keys and values from {source}. These keys and values are "
        "computed once for a sentence and serve every step.",
        "The lines go from the word about to be said to the source words that it looks at, the "
        "stronger the more. Step through the translation and see the look travel.",
        (Formula(_math(*lines), spoken),),
        code,
    )


def _next_word(config: ModelConfig) -> Panel:
    from dragoman.decode.search.sampling import _draw
    from dragoman.engine.torch_engine import TorchEngine
    from dragoman.model.interface import Model
    from dragoman.model.lexical import Lexical

    z, zu = _sub("z", "w"), _sub("z", "u")
    share = _frac(
        _line("exp", "(", z, "/", "τ", ")"),
        _line(_under("∑", "u"), "exp", "(", zu, "/", "τ", ")"),
    )
    lexical = config.architecture == "lexical"
    logits = (
        _line("z", "=", "log", "p")
        if lexical
        else _line("z", "=", "W", "h", *(("+", "b") if config.output_bias else ()))
    )
    return Panel(
        "next-word",
        "A number for every piece of the vocabulary",
        (
            "A table says how likely each piece is as the translation of the source word whose "
            "turn it is. "
            if lexical
            else "The last vector is compared with every piece of the vocabulary, and the softmax "
            "makes probabilities of these scores. "
        )
        + "A temperature below 1 sharpens them, one above 1 flattens them.",
        "The list shows the best pieces for the next place, with their scores and probabilities. "
        "Move the temperature: translation uses 1, and sampling may use another.",
        (
            Formula(
                _math(logits, _line("p", "(", "w", ")", "=", share)),
                "z = W h, p of w = softmax of z over tau",
            ),
        ),
        (
            (Lexical.logits if lexical else Model.logits, "return"),
            (TorchEngine.step, "log_probs = torch.log_softmax"),
            (_draw, "scores ="),
        ),
    )


def _cache(config: ModelConfig) -> Panel:
    from dragoman.model.heads import KVCache

    title = "What was said is kept: the KV cache"
    left_out = {
        "rnn": "This model keeps the states of its cells, as many numbers at every step.",
        "rnn-attention": "This model keeps the states of its cells, as many numbers at every step.",
        "gnmt": "This model keeps the states of its cells, as many numbers at every step.",
        "convs2s": "This model keeps a window of each convolution, as many numbers at every step.",
        "lexical": "This model keeps nothing from step to step.",
    }.get(config.architecture, "")
    if left_out:
        return Panel("cache", title, "", "", left_out=left_out)
    return Panel(
        "cache",
        title,
        "A word's key and value never change once it is said, since it cannot see later words. So "
        "they are kept, and each step computes one new line.",
        "Step on: one line is added below, and all the others stay as they are. Without the cache "
        "each step would compute the whole sentence again.",
        (
            Formula(
                _math(
                    _line(
                        _sub("K", "t"), "=", "[", _sub("K", "t−1"), ";", _sub("k", "t"), "]", ",",
                        _sub("V", "t"), "=", "[", _sub("V", "t−1"), ";", _sub("v", "t"), "]",
                    )
                ),
                "K of t = K of t minus 1 with k of t below it, and V likewise",
            ),
        ),
        ((KVCache.append, "torch.cat"),),
    )  # fmt: skip


def _beam() -> Panel:
    from dragoman.decode.search.beam import _pick
    from dragoman.decode.search.hypotheses import Finished

    return Panel(
        "beam",
        "The best sentence, not the best word: beam search",
        "Several beginnings are kept at each step, those with the highest sums of "
        "log-probabilities. A longer sentence has a lower sum, so finished ones are compared "
        "after division by a length penalty.",
        "Each column is a step, each box a beginning, and the chosen one is blue. The table below "
        "the tree shows how the length penalty decides between finished sentences.",
        (
            Formula(
                _math(
                    _line(
                        "score", "=",
                        _frac(
                            _line(
                                _under("∑", "t"), "log", "p", "(", _sub("w", "t"), ")"
                            ),
                            _line("lp", "(", "n", ")"),
                        ),
                    )
                ),
                "score = the sum of log p over the length penalty of n",
            ),
        ),
        ((_pick, "totals ="), (Finished.take, "score = total")),
    )  # fmt: skip


def _tag(part: str) -> str:
    """MathML of a word, a number, an operator, or what is MathML already."""
    if part.startswith("<"):
        return part
    if part in _OPERATORS or part in (">", "<"):
        return f"<mo>{part.replace('<', '&lt;').replace('>', '&gt;')}</mo>"
    if part.replace(".", "").isdigit():
        return f"<mn>{part}</mn>"
    if len(part) > 1 and part.isalpha():
        space = "<mspace width='.25em'/>"
        return f"{space if part == 'if' else ''}<mi mathvariant='normal'>{part}</mi>{space}"
    return f"<mi>{part}</mi>"


def _letters(index: str) -> str:
    """An index, letter by letter: ij is i and j."""
    return _line(*index) if len(index) > 1 else _tag(index)


def _line(*parts: str) -> str:
    return f"<mrow>{''.join(map(_tag, parts))}</mrow>"


def _sub(base: str, below: str) -> str:
    return f"<msub>{_tag(base)}{_letters(below)}</msub>"


def _sup(base: str, above: str) -> str:
    return f"<msup>{_tag(base)}{_tag(above)}</msup>"


def _frac(above: str, below: str) -> str:
    return f"<mfrac>{_tag(above)}{_tag(below)}</mfrac>"


def _root(inside: str) -> str:
    return f"<msqrt>{_tag(inside)}</msqrt>"


def _under(operator: str, below: str) -> str:
    return f"<munder>{_line(operator)}{_letters(below)}</munder>"


def _math(*lines: str) -> str:
    rows = "".join(f"<mtr><mtd>{line}</mtd></mtr>" for line in lines)
    return (
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        f"<mtable columnalign='left' displaystyle='true'>{rows}</mtable></math>"
    )
