"""Follow one sentence through a model, step by step, with the model's own numbers.

    S source subwords, T target subwords (with the end), D features, H heads, K features per head.

All vectors come from one forward pass over the sentence and its translation (`trace.py`). The pass
runs on PyTorch in float32, even if another engine translated. The beam comes from the
search. The page itself computes simple consequences of these numbers, such as a sum, a norm, or a
softmax at another temperature.

The page stores vectors as 16-bit floats. For a long sentence, which would make a page of many
megabytes, it stores them in 8 bits with a scale for each block of features; scores and weights keep
16 bits.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import LENGTH_PENALTIES, OnStep
from dragoman.errors import TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.inspect.words import Axis, piece_label
from dragoman.lab.explain.html_page import (
    SCRIPTS,
    STYLES,
    axis_payload,
    beam_payload,
    fill_template,
)
from dragoman.lab.explain.interventions import (
    Intervention,
    clone_engine,
    gradient_step,
    head_importance,
    intervened,
    logit_lens,
    regenerate,
    swap_words,
)
from dragoman.lab.explain.panel import statement
from dragoman.lab.explain.panels import panels
from dragoman.lab.explain.sentence_inspection import BeamNode, observed_search
from dragoman.lab.explain.trace import trace_pair
from dragoman.text.codec import Codec

if TYPE_CHECKING:
    from dragoman.engine.torch_engine import TorchEngine
    from dragoman.lab.explain.trace import Trace
    from dragoman.model.attention import AttentionTrace

LISTED = 12  # subwords of the vocabulary shown at each step
TEMPERATURES = tuple(round(0.1 * i, 1) for i in range(1, 21))
POSITIONS = 64  # rows of the position table, at least
MAX_BYTES = 3_000_000  # of vectors in 16 bits; larger pages use 8 bits
BLOCK = 64  # features that share a scale in 8 bits
NOT_VECTORS = ("scores", "weights")
LEARNING_RATE = 0.01  # of the gradient step


class _AttentionKind(NamedTuple):
    """One kind of attention: its queries, its keys, and its place in the trace."""

    title: str
    rows: str
    columns: str
    recorded: str  # its name in `Trace.attention`
    stack: str
    sublayer: str = "attention"
    pass_: int = 0


_IN_TWO_STACKS = (
    _AttentionKind("Encoder", "source", "source", "encoder", "encoder"),
    _AttentionKind("Decoder", "target", "said", "decoder", "decoder"),
    _AttentionKind("Cross", "target", "source", "cross", "decoder", "cross"),
)
_IN_ONE_STACK = (
    _AttentionKind("Source", "source", "source", "encoder", "decoder"),
    _AttentionKind("Translation", "target", "both", "decoder", "decoder", pass_=1),
)


def explain(
    translator: InspectableTranslator,
    text: str,
    translation: str | None = None,
    request: Request = Request(),
    change: Intervention = Intervention(),
) -> dict[str, Any]:
    """Return the content of the page, with NumPy arrays in it.

    If a translation is given, the forward pass predicts that one. Otherwise, with an intervention,
    the changed model translates the sentence again, subword by subword.
    """
    if translator.inspector is None:
        raise TranslationError("an ensemble cannot be explained: load a single model.")
    request, candidate, beam = observed_search(translator, text, request)
    chosen = candidate.pieces if translation is None else translation
    source, target = translator.encode_pair(text, chosen, request)
    # Only the torch engine is an inspector.
    engine = cast("TorchEngine", translator.inspector_of(source))
    codec, config = translator.codec, translator.config
    if change:
        # Hooks on the service's model would change other requests too.
        engine = clone_engine(engine)
    with intervened(engine.model, change):
        if change.swap is not None:
            source = swap_words([codec.source.pieces[i] for i in source], source, change.swap)
        # A given translation is explained as given, also by a changed model.
        if change and translation is None:
            start = codec.forced_start(translator.pipeline.splitter.target(text, request))
            settings = request.decoding or config.decoding
            most = int(settings.max_length_ratio * len(source) + settings.max_length_extra)
            first = [*start, *_ids(codec, change.say)]
            target = regenerate(engine, source, first, change, most, request.on_step)
        trace = trace_pair(engine, source, target)
        study = _touched(engine, trace, source, target, change, config.model, request.on_step)
    with_end = [*target, codec.target.eos]
    new_translation = (
        codec.decode_target(target) if change and translation is None else candidate.text
    )
    return {
        "text": text,
        "translation": new_translation if translation is None else translation,
        "searched": candidate.text,
        "touch": study,
        "model": _facts(engine, codec, config.model),
        "panels": _panels(config.model),
        "axes": _axes(codec, source, with_end),
        "merges": _merges(codec, text),
        "embedding": _embedding(engine, trace, config.model, len(source) + len(with_end)),
        "parts": _parts(engine, trace, config.model),
        "feedForward": _feed_forward(engine, trace, config.model),
        "memory": [_array(call.result) for call in trace.calls.get("encoder_norm", [])],
        "output": _output(trace, codec, with_end),
        "beam": beam_payload(beam),
        "finished": _finished(beam, request.decoding or config.decoding),
    }


def _ids(codec: Codec, pieces: Sequence[str]) -> list[int]:
    for piece in pieces:
        if piece not in codec.target.ids:
            raise TranslationError(f"{piece!r} is not in the model's vocabulary.")
    return [codec.target.ids[piece] for piece in pieces]


def _touched(
    engine: "TorchEngine",
    trace: "Trace",
    source: list[int],
    target: list[int],
    change: Intervention,
    config: ModelConfig,
    on_step: OnStep | None,
) -> dict[str, Any]:
    """Return the intervention, the logit lens and, if wanted, importances and a gradient step."""
    if config.architecture != "transformer":
        return {}
    study = {
        "change": asdict(change),
        "lens": logit_lens(engine, trace, [*target, engine.target.eos]),
    }
    if change.study:
        study["learning"] = gradient_step(engine, source, target, LEARNING_RATE, on_step)
        if config.attention.projections:
            study["worth"] = head_importance(engine, source, target, on_step)
    return study


def payload(explained: dict[str, Any]) -> dict[str, Any]:
    """Return the content as JSON values."""
    size = sum(2 * array.size for name, array in _arrays(explained) if name not in NOT_VECTORS)
    packed: dict[str, Any] = _packed(explained, "", 8 if size > MAX_BYTES else 16)
    return packed


def page(explained: dict[str, Any]) -> str:
    """Return the HTML page, which needs no network."""
    styles = (*STYLES, "explain.css")
    scripts = (*SCRIPTS, "explain.js", "explain-panels.js", "interventions.js")
    return fill_template(payload(explained), styles, scripts, "openExplanation")


def _facts(engine: "TorchEngine", codec: Codec, config: ModelConfig) -> dict[str, Any]:
    from dragoman.model.build import parameter_count

    # Show what an architecture does, not the value of a setting that it does not read.
    convolutional = config.architecture == "convs2s"
    one_stack = config.architecture == "decoder-only"
    transformer = config.architecture in ("transformer", "decoder-only")
    return {
        "architecture": config.architecture,
        "parameters": parameter_count(engine.model),
        "width": config.d_model,
        "heads": config.num_heads if transformer else 1,
        "encoderLayers": 0 if one_stack else config.num_encoder_layers,
        "decoderLayers": config.num_decoder_layers,
        "vocabulary": len(codec.target),
        "norm": config.norm_position,
        "residual": config.residual,
        "activation": config.activation,
        "similarity": "scaled-dot" if convolutional else config.attention.similarity,
        "positions": "learned" if convolutional else config.positions.kind,
        "join": config.positions.join,
        "base": config.positions.base,
        "everyLayer": config.positions.every_layer,
    }


def _panels(config: ModelConfig) -> list[dict[str, Any]]:
    return [
        {
            "name": panel.name,
            "title": panel.title,
            "lead": panel.lead,
            "tour": panel.tour,
            "leftOut": panel.left_out,
            "formulas": [{"math": f.math, "spoken": f.spoken} for f in panel.formulas],
            "code": [
                dict(zip(("text", "where"), statement(function, words), strict=True))
                for function, words in panel.code
            ],
        }
        for panel in panels(config)
    ]


def _axes(codec: Codec, source: list[int], target_ids: list[int]) -> dict[str, Any]:
    """Return the labels of all axes.

    Row t of the decoder predicts target subword t from the subwords "said" up to t. A decoder-only
    model attends to "both", the source and the shifted target.
    """
    left = [codec.source.pieces[i] for i in source]
    right = [codec.target.pieces[i] for i in target_ids]
    # The input of each step is the subword before; the first step gets <s>.
    shifted = [codec.target.pieces[codec.target.bos], *right[:-1]]
    axes = {"source": left, "target": right, "said": shifted, "both": [*left, *shifted]}
    shown = {name: axis_payload(Axis.of(pieces)) for name, pieces in axes.items()}
    shown["source"]["ids"] = source
    shown["target"]["ids"] = target_ids
    return shown


def _merges(codec: Codec, text: str) -> list[list[list[str]]]:
    """Return the BPE merges of each word, or nothing for other tokenizers."""
    merges = getattr(codec.source_segmenter, "merges", None)
    merges_of_words: list[list[list[str]]] = merges(text) if merges is not None else []
    return merges_of_words


def _embedding(
    engine: "TorchEngine", trace: "Trace", config: ModelConfig, pieces: int
) -> dict[str, Any]:
    """Return, for each side, √D E[w] and the input of the first layer; also the position table."""
    shown: dict[str, Any] = {}
    for side in ("source", "target"):
        # The lexical model has no embeddings.
        if not (calls := trace.calls.get(f"{side}_embedding.words")):
            return {}
        scale = float(getattr(engine.model, f"{side}_embedding").scale)
        x = trace.calls[f"{side}_embedding"][0].result
        shown[side] = {"words": _array(calls[0].result) * scale, "x": _array(x)}
    if config.architecture == "convs2s" or config.positions.kind in ("sinusoidal", "learned"):
        rows = min(max(POSITIONS, pieces), engine.max_length or max(POSITIONS, pieces))
        # Only a vector that is added can be shown by itself.
        if config.positions.join == "add":
            shown["positions"] = engine.position_vectors(rows)
    return shown


def _parts(engine: "TorchEngine", trace: "Trace", config: ModelConfig) -> list[dict[str, Any]]:
    """Return every attention of every layer."""
    parts = []
    for kind in _IN_ONE_STACK if config.architecture == "decoder-only" else _IN_TWO_STACKS:
        layers = []
        for number, recorded in enumerate(trace.attention[kind.recorded]):
            shown = _attention_arrays(recorded)
            if kind.columns == "both":
                # One softmax covers both sides, but the trace stores the parts separately.
                to_source = _array(trace.attention["cross"][number].weights)
                shown["weights"] = np.concatenate([to_source, shown["weights"]], axis=-1)
            around = _around(engine, trace, f"{kind.stack}.{number}.", kind.sublayer, kind.pass_)
            layers.append(shown | around)
        if layers:
            named = {"title": kind.title, "rows": kind.rows, "columns": kind.columns}
            parts.append({**named, "layers": layers})
    return parts


def _attention_arrays(recorded: "AttentionTrace") -> dict[str, Any]:
    shown = {name: _array(getattr(recorded, name)) for name in ("q", "k", "v", "scores", "weights")}
    mask = None
    if recorded.mask is not None and not bool(recorded.mask.all()):
        mask = recorded.mask.expand(recorded.scores.shape)[0, 0].cpu().numpy()
    return {**shown, "mask": mask}


def _around(
    engine: "TorchEngine", trace: "Trace", prefix: str, sublayer: str, pass_: int
) -> dict[str, Any]:
    """Return a sublayer's input, output and norm, or nothing if layers have another form."""
    calls = trace.calls.get(f"{prefix}around_{sublayer}")
    if not calls:
        return {}
    module = engine.model.get_submodule(f"{prefix}around_{sublayer}.norm")
    norm = {
        name: value.detach().cpu().numpy()
        for name in ("weight", "bias", "mean", "variance")
        if (value := getattr(module, name, None)) is not None
    }
    shown = {
        "f": _array(trace.calls[f"{prefix}{sublayer}"][pass_].result),
        "norm": {**norm, "eps": float(getattr(module, "eps", 0.0))} if norm else None,
    }
    # The page computes the inputs of the later sublayers from the first one.
    return {"x": _array(calls[pass_].given), **shown} if sublayer == "attention" else shown


def _feed_forward(
    engine: "TorchEngine", trace: "Trace", config: ModelConfig
) -> dict[str, list[dict[str, Any]]]:
    """Return the feed-forward networks of each side's layers."""
    sides = {"source": ("encoder", 0), "target": ("decoder", 0)}
    if config.architecture == "decoder-only":
        sides = {"source": ("decoder", 0), "target": ("decoder", 1)}
    shown: dict[str, list[dict[str, Any]]] = {}
    for side, (stack, pass_) in sides.items():
        names = [
            f"{stack}.{n}." for n in range(config.num_encoder_layers + config.num_decoder_layers)
        ]
        shown[side] = [
            {
                **_around(engine, trace, name, "feed_forward", pass_),
                "hidden": _array(trace.calls[f"{name}feed_forward.outer"][pass_].given),
            }
            for name in names
            if f"{name}feed_forward.outer" in trace.calls
        ]
    return shown


def _output(trace: "Trace", codec: Codec, target_ids: list[int]) -> dict[str, Any]:
    """Return the best subwords at each step, and log Σ exp(z/τ) for each temperature τ."""
    logits = _array(trace.logits).astype(np.float64)  # (T, V)
    steps = []
    for row, chosen in zip(logits, target_ids, strict=True):
        best = np.argsort(-row, kind="stable")[:LISTED].tolist()
        # A beam may choose an unlikely subword; show it in the last line.
        if chosen not in best:
            best[-1] = chosen
        steps.append(
            {
                "pieces": [piece_label(codec.target.pieces[i]) for i in best],
                "raw": [codec.target.pieces[i] for i in best],
                "logits": [round(float(row[i]), 4) for i in best],
                "chosen": best.index(chosen),
                "rank": int((row > row[chosen]).sum()) + 1,
                "normalisers": [_log_sum_exp(row / t) for t in TEMPERATURES],
            }
        )
    return {"temperatures": TEMPERATURES, "steps": steps}


def _log_sum_exp(values: np.ndarray) -> float:
    # Factor the maximum out, because exp overflows beyond 709.
    most = float(values.max())
    return round(most + float(np.log(np.exp(values - most).sum())), 5)


def _finished(nodes: Sequence[BeamNode], settings: DecodingConfig) -> list[dict[str, Any]]:
    """Return the complete hypotheses, best first, with the divisor of the length penalty."""
    penalty = LENGTH_PENALTIES[settings.length_penalty]
    ended = []
    for number, node in enumerate(nodes):
        if node.fate == "ended":
            # Steps count from 0, and the last one is the end.
            length = node.step + 1
            divisor = penalty(length, settings.length_penalty_alpha)
            ended.append(
                {
                    "node": number,
                    "length": length,
                    "divisor": round(divisor, 4),
                    "score": round(node.total / divisor, 4),
                }
            )
    return sorted(ended, key=lambda entry: -entry["score"])


def _array(tensor: Any) -> np.ndarray:
    """Return the only sentence of a batch as an array."""
    array: np.ndarray = tensor[0].float().cpu().numpy()
    return array


def _arrays(tree: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(tree, np.ndarray):
        yield name, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _arrays(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _arrays(value, name)


def _packed(tree: Any, name: str, bits: int) -> Any:
    if isinstance(tree, dict):
        return {key: _packed(value, key, bits) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_packed(value, name, bits) for value in tree]
    if not isinstance(tree, np.ndarray):
        return tree
    packed: dict[str, Any] = {"shape": tree.shape}
    if tree.dtype == bool:
        return packed | {"bits": _base64(tree.astype("u1"))}
    if bits == 16 or name in NOT_VECTORS:
        # the largest 16-bit float is 65504
        return packed | {"halves": _base64(np.clip(tree, -65504, 65504).astype("<f2"))}
    # A width that is no multiple of the block gets one scale per vector.
    width = BLOCK if tree.shape[-1] % BLOCK == 0 else tree.shape[-1]
    blocks = tree.reshape(-1, width)
    # The floor keeps a block of zeros from dividing by zero.
    scales = np.maximum(np.abs(blocks).max(axis=1, keepdims=True), 1e-12) / 127
    rounded = np.rint(blocks / scales).astype("i1")
    scales = scales.astype("<f4")
    return packed | {"bytes": _base64(rounded), "scales": _base64(scales), "block": width}


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
