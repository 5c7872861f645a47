"""The twelve panels of `dragoman explain`, each with its text, its formula and its code.

Formulas depend on the model's settings, so that a variant shows its own formula. The code is read
from the source files, so it is always up to date. A panel that does not apply says why.
"""

from dragoman.config import ModelConfig
from dragoman.lab.explain.attention_panels import (
    cache,
    cross,
    heads,
    no_attention,
    queries,
    scores,
    weights,
)
from dragoman.lab.explain.mathml import formula
from dragoman.lab.explain.panel import Code, Panel


def panels(config: ModelConfig) -> list[Panel]:
    """Return the panels in the order of a forward pass."""
    return [
        _subwords(),
        _embedding(config),
        queries(config),
        scores(config),
        weights(config),
        heads(config),
        _norm(config),
        _feed_forward(config),
        cross(config),
        _next_word(config),
        cache(config),
        _beam(),
    ]


def _subwords() -> Panel:
    from dragoman.text.subword import BytePairs

    return Panel(
        "subwords",
        "Text becomes pieces",
        "Byte-pair encoding starts from single characters and joins the pair of neighbours that "
        "was learned first, again and again. Frequent words end as one piece, rare ones as "
        "several, and no word is unknown.",
        "Choose a word and read its merges from top to bottom. The number next to each piece is "
        "its row in the table of vectors.",
        (
            formula(
                "the pair a b with the lowest rank is joined",
                "a^∗ b^∗ = argmin_{ab} rank ( a b )",
            ),
        ),
        ((BytePairs.merge, "parts[place : place + 2] ="),),
    )


def _embedding(config: ModelConfig) -> Panel:
    from dragoman.bundle.plain_weights import sinusoids
    from dragoman.lab.transformer_variants import SinusoidalFromOne
    from dragoman.model.base import WordEmbedding
    from dragoman.model.positions import Learned, Sinusoidal
    from dragoman.model.transformer import Embedding

    title = "Pieces become vectors, with their places"
    if config.architecture == "lexical":
        return Panel(
            "embedding", title, "", "", left_out="This model counts words: it has no vectors."
        )
    # ConvS2S always learns its positions and does not read the setting.
    kind = "learned" if config.architecture == "convs2s" else config.positions.kind
    recurrent = config.architecture in ("rnn", "rnn-attention", "gnmt")
    word = "√D · E_w"
    tour = (
        "Three strips, one above the other: the word, its position, and their sum, feature by "
        "feature. Move the two sliders below and see how each feature turns at its own speed."
    )
    # Positions inside attention are shown with the scores.
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
            (formula("x = root of D times E of w", f"x_t = {word}"),),
            (
                (WordEmbedding.forward, "self.words(ids)")
                if recurrent
                else (Embedding.forward, "self.positions(self.words"),
            ),
        )
    if config.positions.join == "concat":
        joined = f"W [ {word} ; p_t ]"
        spoken = "x = W times root of D times E of w, then p"
    else:
        joined = f"{word} + p_t"
        spoken = "x = root of D times E of w, plus p"
    formulas = [formula(spoken, f"x_t = {joined}")]
    code: list[Code] = [(Embedding.forward, "self.positions(self.words")]
    if kind.startswith("sinusoidal"):
        base = f"{config.positions.base:g}"
        # The variant counts i from 1.
        features = ("2i", "2i+1") if kind == "sinusoidal" else ("2i−2", "2i−1")
        for feature, wave in zip(features, ("sin", "cos"), strict=True):
            formulas.append(
                formula(
                    f"p of t and {feature} = {wave} of t over {base} to the 2i over D",
                    f"p_{{t,{feature}}} = {wave} ( t / {base}^{{2 i / D}} )",
                )
            )
        if kind == "sinusoidal":
            # The page quotes these lines from the source files; a test fails if the words no longer
            # occur.
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


def _not_a_block(config: ModelConfig) -> str:
    """Say why a model has no residual sums around attention and no feed-forward networks."""
    if why := no_attention(config):
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
    rest = "x + " if config.residual else ""
    if config.norm_type == "none":
        lines = [f"x ← {rest}f ( x )"]
        spoken = "x becomes x + f of x"
    elif config.norm_position == "pre":
        lines = [f"x ← {rest}f ( norm ( x ) )"]
        spoken = "x becomes x + f of norm of x"
    else:
        lines = [f"x ← norm ( {rest}f ( x ) )"]
        spoken = "x becomes norm of x + f of x"
    code: list[Code] = [(PLACEMENTS[config.norm_position].forward, "return")]
    if config.norm_type == "rms":
        lines.append("norm ( x ) = γ frac{x}{√{mean ( x^2 ) + ε}}")
        spoken += "; the norm is gamma times x over the root of the mean of its squares"
        code.append((RMSNorm.forward, "F.rms_norm"))
    elif config.norm_type != "none":
        lines.append("norm ( x ) = γ frac{x − μ}{√{σ^2 + ε}} + β")
        spoken += "; the norm is gamma times x minus mu over sigma, plus beta"
        norm = LayerNorm.forward if config.norm_type == "layer" else BatchNorm.forward
        # LayerNorm calls torch's; BatchNorm has a formula of its own to quote.
        words = "nn.LayerNorm.forward" if config.norm_type == "layer" else "torch.rsqrt"
        code.append((norm, words))
    over = {
        "layer": "The norm brings the features of each word to mean 0 and spread 1. Then it scales "
        "and shifts each feature by learned numbers, γ and β.",
        "rms": "The norm divides the features of each word by the root of their mean square. Then "
        "it scales each feature by a learned number, γ.",
        "batch": "The norm uses running averages over the words of training.",
        "none": "This model has no norm.",
    }[config.norm_type]
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
        (formula(spoken, *lines),),
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
    inner = "W_1 x + b_1"
    active = f"{config.activation} ( {inner} )"
    spoken, words = f"h = {config.activation} of W 1 x + b 1", "self.activation(self.inner(x))"
    if config.activation == "relu":
        active, words = f"max ( 0 , {inner} )", "self.inner(x, relu=True)"
    if config.activation in GATES:
        gate = GATES[config.activation].__name__
        active = f"{gate} ( {inner} ) ⊙ ( V x + c )"
        spoken, words = f"h = {gate} of W 1 x + b 1, times V x + c", "self.activation(gate)"
    return Panel(
        "feed-forward",
        title,
        "Attention only mixes words; here each one is changed, by the same two matrices at every "
        "place. A unit fires if its row of W₁ fits the word.",
        "Every cell is a hidden unit, and bright ones fire for the chosen word. Choose a unit to "
        "see for which words of the sentence it fires.",
        (formula(f"{spoken}, f = W 2 h + b 2", f"h = {active}", "f ( x ) = W_2 h + b_2"),),
        ((FeedForward.forward, words), (FeedForward.forward, "self.outer(")),
    )


def _next_word(config: ModelConfig) -> Panel:
    from dragoman.decode.search.sampling import _draw
    from dragoman.engine.torch_engine import TorchEngine
    from dragoman.lab.architectures.lexical import Lexical
    from dragoman.model.base import Model

    lexical = config.architecture == "lexical"
    logits = "z = W h + b" if config.output_bias else "z = W h"
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
            formula(
                "z = W h, p of w = softmax of z over tau",
                "z = log p" if lexical else logits,
                "p ( w ) = frac{exp ( z_w / τ )}{∑_u exp ( z_u / τ )}",
            ),
        ),
        (
            (Lexical.logits if lexical else Model.logits, "return"),
            (TorchEngine.step, "log_probs = torch.log_softmax"),
            (_draw, "scores ="),
        ),
    )


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
            formula(
                "score = the sum of log p over the length penalty of n",
                "score = frac{∑_t log p ( w_t )}{lp ( n )}",
            ),
        ),
        ((_pick, "totals ="), (Finished.take, "score = total")),
    )
