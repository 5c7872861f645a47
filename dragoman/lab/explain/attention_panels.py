"""The panels of `dragoman explain` about attention: from queries and keys to the KV cache."""

from typing import cast

from dragoman.config import ModelConfig
from dragoman.lab.explain.mathml import formula
from dragoman.lab.explain.panel import Code, Panel


def no_attention(config: ModelConfig) -> str:
    return {
        "rnn": "This model has no attention: the decoder sees the whole sentence as one vector.",
        "lexical": "This model has no attention: it walks along the source word by word.",
    }.get(config.architecture, "")


_CONVOLUTIONAL_MEMORY = ("k_j = z_j", "v_j = ( z_j + e_j ) √{frac{1}{2}}")


def _projected(memory: str, bare: bool) -> tuple[str, ...]:
    """Return the formulas of queries, keys and values; `memory` names the vector of a key."""
    if bare:
        return "q_i = x_i", f"k_j = {memory}_j", f"v_j = {memory}_j"
    return (
        "q_i = W_q x_i + b_q",
        f"k_j = W_k {memory}_j + b_k",
        f"v_j = W_v {memory}_j + b_v",
    )


def queries(config: ModelConfig) -> Panel:
    from dragoman.lab.architectures.convolutional import ConvolutionalDecoderLayer, ConvS2S
    from dragoman.model.heads import HEADS, BareHeads

    title = "Each word asks, and every word answers"
    if why := no_attention(config):
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
            "encoder's outputs; values are these outputs plus the word embeddings.",
            "The query is what the decoder looks for, the key is what a source word offers. The "
            "value is what it gives, its own vector included.",
            (
                formula(
                    "q = W h + g, k = z, v = z + e, times the root of a half",
                    "q_i = W h_i + g_i",
                    *_CONVOLUTIONAL_MEMORY,
                ),
            ),
            (
                (ConvolutionalDecoderLayer.forward, "context ="),
                (ConvS2S.encode, "return [window]"),
            ),
        )
    bare = not config.attention.projections
    layout = BareHeads if bare else HEADS[config.attention.heads_layout]
    # Other architectures have only attention from the decoder to the encoder.
    one_sequence = config.architecture in ("transformer", "decoder-only")
    lines = _projected("x" if one_sequence else "m", bare)
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
            "This model compares the vectors themselves."
            if bare
            else "Three matrices make them, and each head has its own."
        ),
        tour,
        (formula("q = W q x + b q, k = W k x + b k, v = W v x + b v", *lines),),
        code,
    )


def scores(config: ModelConfig) -> Panel:
    from dragoman.lab.transformer_variants import (
        Additive,
        Concat,
        Cosine,
        General,
        MeanDot,
        NormalizedQueriesKeys,
        PlainCosine,
    )
    from dragoman.model.attention import SIMILARITIES, causal_mask, plain_attention, scaled_dot
    from dragoman.model.positions import DISTANCES, NoDistances

    title = "Every query meets every key"
    if why := no_attention(config):
        return Panel("scores", title, "", "", left_out=why)
    # ConvS2S does not read the setting.
    kind = "scaled-dot" if config.architecture == "convs2s" else config.attention.similarity
    # A user's own similarity has no formula here; its code shows what it computes.
    unlisted = ("q_i · k_j", "q times k", (SIMILARITIES[kind].compare, "return"))
    similar, spoken, code = {
        "scaled-dot": (
            "frac{q_i · k_j}{√d}", "q times k over the root of d", (scaled_dot, "return"),
        ),
        "mean-dot": ("frac{q_i · k_j}{d}", "q times k over d", (MeanDot.compare, "return")),
        "plain-cosine": (
            "frac{q_i · k_j}{‖q‖ ‖k‖}", "the cosine of q and k", (PlainCosine.queries, "return"),
        ),
        "general": ("q_i^⊤ W k_j", "q times W times k", (General.queries, "return")),
        "qk-norm": (
            "frac{norm ( q_i ) · norm ( k_j )}{√d}",
            "the norms of q and k multiplied, over the root of d",
            (NormalizedQueriesKeys.queries, "return"),
        ),
        "cosine": (
            "exp^c frac{q_i · k_j}{‖q‖ ‖k‖}",
            "e to the c times the cosine of q and k", (Cosine.queries, "return"),
        ),
        "additive": (
            "u^⊤ tanh ( q_i + k_j )",
            "u times the hyperbolic tangent of q + k", (Additive._block, "pairs ="),
        ),
        "concat": ("q_i + k_j", "q + k", (Concat.compare, "return")),
    }.get(kind, unlisted)  # fmt: skip
    lines = [f"e_{{ij}} = {similar}"]
    codes: list[Code] = [cast(Code, code)]
    # Rotary positions turn queries and keys, ALiBi and relative positions add a bias.
    distances = DISTANCES.get(config.positions.kind)
    if distances is not None and config.architecture in ("transformer", "decoder-only"):
        if distances.turn is not NoDistances.turn:
            codes.append((distances.turn, "return"))
        if distances.bias is not NoDistances.bias:
            lines[0] += " + b_{i−j}"
            spoken += ", plus b of the distance"
            codes.append((distances.bias, "return"))
    # Recurrent and convolutional models attend to a complete source and mask only its padding.
    masked = config.architecture in ("transformer", "decoder-only")
    if masked:
        lines.append("e_{ij} ← −∞ if j > i")
        codes += [(plain_attention, "masked_fill"), (causal_mask, "return")]
    return Panel(
        "scores",
        title,
        "How well a key fits a query is one number. "
        + (
            "The decoder must not see later words of the translation: their scores become −∞."
            if masked
            else "No word is masked here, because the whole source is known."
        ),
        "Follow one pair: its features are multiplied and added up, and the sum is divided. In the "
        "map each row is a query, and hatched cells may not be seen.",
        (formula(spoken + (", minus infinity if j is after i" if masked else ""), *lines),),
        tuple(codes),
    )


def weights(config: ModelConfig) -> Panel:
    from dragoman.lab.transformer_variants import straight_through
    from dragoman.model.attention import plain_attention

    title = "Scores become weights, weights gather values"
    if why := no_attention(config):
        return Panel("weights", title, "", "", left_out=why)
    # ConvS2S does not read the setting.
    hard = config.attention.pattern == "hard" and config.architecture != "convs2s"
    code = [(plain_attention, "weights ="), (plain_attention, "y = ")]
    return Panel(
        "weights",
        title,
        "The softmax turns the scores of a row into shares that sum to one. The output is the "
        + ("value of the best key." if hard else "sum of the values, each by its share."),
        "Read a line of the table from left to right: score, exponential, weight, value. The last "
        "line is their sum, which the chosen word takes along.",
        (
            formula(
                "alpha = softmax of e, y = the sum of alpha times v",
                "α_{ij} = frac{exp e_{ij}}{∑_k exp e_{ik}}",
                "y_i = ∑_j α_{ij} v_j",
            ),
        ),
        (*code, (straight_through, "best =")) if hard else tuple(code),
    )


def heads(config: ModelConfig) -> Panel:
    from dragoman.model.heads import HEADS, BareHeads

    title = "The heads are joined"
    if why := no_attention(config):
        return Panel("heads", title, "", "", left_out=why)
    if config.architecture in ("rnn-attention", "gnmt", "convs2s") or config.num_heads == 1:
        return Panel(
            "heads", title, "", "", left_out="Attention has one head here, so there is nothing "
            "to join."
        )  # fmt: skip
    bare = not config.attention.projections
    layout = BareHeads if bare else HEADS[config.attention.heads_layout]
    parts = "[ y^1 ; … ; y^H ]" if bare else "W_O [ y^1 ; … ; y^H ] + b_O"
    return Panel(
        "heads",
        title,
        "One head can attend to one thing, several heads to several. Their outputs are "
        "concatenated" + ("." if bare else ", and one more matrix mixes them."),
        "Each line is a head: where the chosen word attends most, and what it brings back. Choose "
        "another head and see the panels above change.",
        (formula("f = W O times the heads side by side", f"f_i = {parts}"),),
        (
            (layout.join, "return y.transpose" if bare else "self.to_out"),
            # Both steps: concatenation, then the output projection.
            *(((BareHeads.join, "return y.transpose"),) if not bare else ()),
        ),
    )


def cross(config: ModelConfig) -> Panel:
    from dragoman.lab.architectures.convolutional import ConvS2S
    from dragoman.lab.architectures.recurrent import _Attending
    from dragoman.model.transformer import DecoderLayer, Transformer

    title = "From the encoder to the decoder"
    if config.architecture == "decoder-only":
        return Panel(
            "cross", title, "", "", left_out="This model has no encoder: source and target are one "
            "sequence, and the target's words look at the source's in the same layer."
        )  # fmt: skip
    if why := no_attention(config):
        return Panel("cross", title, "", "", left_out=why)
    lines = _projected("m", bare=not config.attention.projections)
    code: tuple[Code, ...] = {
        "transformer": (
            (Transformer.encode, "encoder_state += layer.memory(x)"),
            (DecoderLayer.memory, "return"),
            (DecoderLayer.forward, "x = self.around_cross"),
        ),
        "convs2s": ((ConvS2S.encode, "return [window]"),),
    }.get(
        config.architecture,
        ((_Attending.encoder_state, "return"), (_Attending.attend, "y: Tensor")),
    )
    source = (
        "the encoder layer of the same number"
        if config.attention.cross_attention_layer == "same-layer"
        else "the encoder's last layer"
    )
    if config.architecture == "convs2s":
        spoken = "q from the decoder, k and v from the encoder"
        lines = _CONVOLUTIONAL_MEMORY
    else:
        spoken = "q is made of x of the decoder, k and v are made of m, which the encoder made"
    return Panel(
        "cross",
        title,
        f"Queries come from the decoder, keys and values from {source}. These keys and values are "
        "computed once for a sentence and serve every step.",
        "The lines go from the next word to the source words that it attends to; a stronger line "
        "is a larger weight. Step through the translation and see the lines move.",
        (formula(spoken, *lines),),
        code,
    )


def cache(config: ModelConfig) -> Panel:
    from dragoman.model.heads import KVCache

    title = "Keys and values are kept: the KV cache"
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
        "A word's key and value never change, because it cannot see later words. So they are "
        "kept, and each step computes one new line.",
        "Step on: one line is added below, and the others do not change. Without the cache "
        "each step would compute the whole sentence again.",
        (
            formula(
                "K of t = K of t minus 1 with k of t below it, and V likewise",
                "K_t = [ K_{t−1} ; k_t ] , V_t = [ V_{t−1} ; v_t ]",
            ),
        ),
        ((KVCache.append, "torch.cat"),),
    )
