"""Read a model of Marian as a bundle: a folder with `decoder.yml`, an `.npz` with weights and
settings, and vocabularies; or a model of Firefox and Bergamot, a `.bin` of 8-bit matrices,
vocabularies and a shortlist.

`decoder.yml` names the files; Firefox's files are recognized by name. Marian multiplies from the
right, so its matrices are transposed here. Its decoder starts from a vector of zeros, which becomes
a piece of its own. Its layers have MarianMT's parts under other names. The folder is untrusted.
"""

import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dragoman.bundle.folder import Bundle
from dragoman.bundle.int8 import SCALES, ZERO, quantize
from dragoman.config import Config, make_config
from dragoman.convert.from_huggingface import marian_languages, numbered
from dragoman.convert.marian import (
    WeightMap,
    interleaved,
    layers_from_marian,
    layers_of_marian,
    weight_maps,
)
from dragoman.convert.marian_packed import read_lexical_shortlist, read_packed
from dragoman.convert.source_folder import SourceFolder
from dragoman.errors import BundleError, ConfigError, ConversionError, needs_package
from dragoman.text.codec import ZEROS, Codec, Framing
from dragoman.text.shortlist import Shortlist
from dragoman.text.subword import pieces_of_model

DECODER, SETTINGS = "decoder.yml", "special:model.yml"
# The search settings of Firefox.
FIREFOX: dict[str, Any] = {"beam-size": 1, "normalize": 1.0, "max-length-factor": 2.0}
_LANGUAGES = re.compile(r"model\.([a-z]{2})([a-z]{2})\.")
ACTIVATIONS = ("relu", "swish")  # Marian's gelu is another function than ours
# Settings that would change the model, with the only values supported.
MUST_BE: dict[str, Any] = {
    "type": "transformer",
    "transformer-rnn-projection": False,
    "transformer-no-projection": False,
    "transformer-train-position-embeddings": False,
    "transformer-tied-layers": [],
    "transformer-aan-depth": 2,
    "transformer-ffn-depth": 2,
    "transformer-no-bias": False,
    "transformer-no-affine": False,
    "transformer-disable-position-embeddings": False,
    "transformer-attention-mask": "default",
    "output-omit-bias": False,
    "lemma-dim-emb": 0,
}
SUBLAYERS = {"self-attention": "attention", "rnn": "ssru"}
# Steps before a sublayer, after it, and after the stack: dropout, add, normalize.
NORMS = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}
# Marian's names of the weight and bias of each module of MarianMT (`marian.weight_maps`).
_NAMES = {
    **{
        f"{module}.{theirs}_proj": (f"{ours}_W{letter}", f"{ours}_b{letter}")
        for module, ours in (("self_attn", "self"), ("encoder_attn", "context"))
        for theirs, letter in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o"))
    },
    "self_attn_layer_norm": ("self_Wo_ln_scale", "self_Wo_ln_bias"),
    "encoder_attn_layer_norm": ("context_Wo_ln_scale", "context_Wo_ln_bias"),
    "fc1": ("ffn_W1", "ffn_b1"),
    "fc2": ("ffn_W2", "ffn_b2"),
    "final_layer_norm": ("ffn_ffn_ln_scale", "ffn_ffn_ln_bias"),
    "layer_norm": ("top_ln_scale", "top_ln_bias"),
}


def from_marian(folder: Path, source: str = "", target: str = "") -> Bundle:
    """Read a folder. `source` and `target` are the languages, which such a folder does not name."""
    with needs_package("yaml", "convert"):
        import yaml
    theirs = SourceFolder(folder)
    try:
        return _read_folder(theirs, source, target)
    except (ConfigError, BundleError) as error:
        raise ConversionError(f"{folder}: {error}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(error).splitlines() or ["it is nested too deeply"]
        raise ConversionError(f"{folder}: its settings cannot be read ({reason[0]}).") from None


def _read_folder(theirs: SourceFolder, source: str, target: str) -> Bundle:
    options = _decoder_options(theirs)
    models, vocabularies = (_names(theirs, options, key) for key in ("models", "vocabs"))
    # Firefox's files name their languages: model.deen.intgemm.alphas.bin.
    if not (source or target) and (pair := _LANGUAGES.match(models[0])):
        source, target = pair.groups()
    arrays, steps = _arrays(theirs, models[0])
    settings = _settings(theirs, arrays)
    count = len(arrays["Wemb"] if "Wemb" in arrays else arrays.get("encoder_Wemb", ()))
    pieces = [_vocabulary(theirs, name, count) for name in (vocabularies[0], vocabularies[-1])]
    config = _config(settings, options, arrays)
    weights = _weights(theirs, arrays, config, [len(side) for side in pieces])
    spm = _spm(theirs, vocabularies)
    languages = marian_languages(pieces[0], source, target)
    codec = Codec.of_another_system(
        spm, ([*pieces[0], ZEROS], [*pieces[1], ZEROS]), Framing(start=(ZEROS,)), languages
    )
    is_shared = vocabularies[0] == vocabularies[-1]
    bundle = theirs.to_bundle("Marian", config, codec, weights)
    bundle = replace(bundle, shortlist=_shortlist(theirs, options, codec, is_shared))
    if not steps:
        return bundle
    # Scales are permuted and renamed like the weights that they belong to.
    counts = _weights(theirs, steps, config, [len(side) for side in pieces])
    return replace(bundle, weights=_same_bytes(weights, counts))


def _shortlist(
    theirs: SourceFolder, options: dict[str, Any], codec: Codec, shared: bool
) -> Shortlist | None:
    """Read a binary shortlist. Without one, or with one in text, all pieces are searched."""
    files = options.get("shortlist")
    if not isinstance(files, list) or not files or not str(files[0]).endswith(".bin"):
        return None
    name = PurePosixPath(str(files[0])).name
    raw = theirs.read(name)
    return read_lexical_shortlist(raw, theirs.path / name, codec.source, codec.target, shared)


def _decoder_options(theirs: SourceFolder) -> dict[str, Any]:
    """Return the options in `decoder.yml`, or what the names of Firefox's files imply."""
    if theirs.has(DECODER):
        return _yaml(theirs.read(DECODER))
    names = sorted(path.name for path in theirs.path.iterdir())
    if settings := [name for name in names if re.fullmatch(r"config.*\.ya?ml", name)]:
        return _yaml(theirs.read(settings[0]))
    models = [name for name in names if name.startswith("model") and name.endswith(".bin")]
    vocabularies = [
        name
        for kind in ("srcvocab", "vocab", "trgvocab")
        for name in names
        if name.startswith(kind) and name.endswith(".spm")
    ]
    if not models or not vocabularies:
        raise ConversionError(
            f"{theirs.path} has neither {DECODER} nor files like model.deen.intgemm.alphas.bin "
            "and vocab.deen.spm (unpack .gz and .zst first)."
        )
    shortlists = [name for name in names if name.startswith("lex") and name.endswith(".bin")]
    return {**FIREFOX, "models": models, "vocabs": vocabularies, "shortlist": shortlists}


def _same_bytes(
    weights: dict[str, np.ndarray], counts: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Quantize weights to the bytes that they came in; weights that came in float are rounded.

    `counts` has the scale of each number of a weight, or 0.
    """
    stored = quantize(weights)
    for name, array in weights.items():
        if name + SCALES not in stored or not counts[name].any():
            continue
        steps = counts[name].max(axis=1)  # (rows,)
        known = steps > 0  # not the row that we added for the start
        numbers = np.rint(array[known] / steps[known, None])
        stored[name][known] = (numbers + ZERO).astype(np.uint8)
        stored[name + SCALES][known] = steps[known]
    return stored


def _yaml(raw: bytes) -> dict[str, Any]:
    """Parse YAML without aliases, since a few lines of them can expand to billions of values."""
    import yaml

    class WithoutAliases(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ConversionError("its settings have aliases, which Marian does not write.")
            return super().compose_node(parent, index)

    settings = yaml.load(raw.decode("utf-8", "replace"), WithoutAliases)
    if not isinstance(settings, dict):
        raise ConversionError("its settings are not a table.")
    return settings


def _names(theirs: SourceFolder, options: dict[str, Any], key: str) -> list[str]:
    """Return files that `decoder.yml` names; only their names count, since they must be in the
    folder.
    """
    names = options.get(key)
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ConversionError(f"{theirs.path / DECODER} names no {key}.")
    return [PurePosixPath(name).name for name in names]


def _arrays(theirs: SourceFolder, name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the weights by name, and if any has 8 bits, the scales of all numbers."""
    raw = theirs.read_weights(name)
    path = theirs.path / name
    if name.endswith(".bin"):
        packed = read_packed(raw, path)
        steps = {
            name: np.broadcast_to(np.float32(packed.steps.get(name, 0.0)), array.shape)
            for name, array in packed.arrays.items()
        }
        return packed.arrays, steps if packed.steps else {}
    return _npz(raw, path), {}


def _npz(raw: bytes, path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            # A compressed archive could expand to any size.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ConversionError(f"{path} is compressed, which Marian's files are not.")
            # Members may overlap: then each is an array of its own.
            if sum(entry.file_size for entry in archive.infolist()) > len(raw):
                raise ConversionError(f"{path} is damaged: its arrays are larger than the file.")
        with np.load(io.BytesIO(raw), allow_pickle=False) as stored:
            return {key: np.asarray(stored[key]) for key in stored.files}
    except ConversionError:
        raise
    # NumPy's reader and its header parser can raise any error.
    except Exception as error:
        raise ConversionError(f"{path} cannot be read ({error}).") from None


def _settings(theirs: SourceFolder, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if SETTINGS not in arrays:
        raise ConversionError(f"{theirs.path}: its weights have no settings ({SETTINGS}).")
    settings = _yaml(arrays[SETTINGS].tobytes().rstrip(b"\0"))
    theirs.require(settings, MUST_BE)
    sublayer = settings.get("transformer-decoder-autoreg", "self-attention")
    if sublayer not in SUBLAYERS or (sublayer == "rnn" and settings.get("dec-cell") != "ssru"):
        raise ConversionError(
            f"{theirs.path}: dragoman does not support "
            f"transformer-decoder-autoreg={sublayer!r} with dec-cell={settings.get('dec-cell')!r}."
        )
    if settings.get("transformer-ffn-activation") not in ACTIVATIONS:
        raise ConversionError(
            f"{theirs.path}: activation {settings.get('transformer-ffn-activation')!r} is unknown."
        )
    # Steps after the embeddings: n is a normalization.
    if "n" in str(settings.get("transformer-postprocess-emb", "")):
        raise ConversionError(f"{theirs.path}: dragoman does not support normalized embeddings.")
    return settings


def _config(
    settings: dict[str, Any], search: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Config:
    steps = tuple(
        settings.get(f"transformer-{name}", "")
        for name in ("preprocess", "postprocess", "postprocess-top")
    )
    if steps not in NORMS:
        raise ConversionError(f"dragoman does not support this order of normalization: {steps}.")
    # Without an output matrix, the output shares the target's embeddings.
    tied = "none"
    if not arrays.keys() & {"decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"}:
        tied = "all" if "Wemb" in arrays else "target"
    # Marian divides the score by length**alpha; 0 turns that off.
    alpha = search.get("normalize", 1.0)
    recurrent = settings.get("transformer-decoder-autoreg") == "rnn"
    half = settings["dim-emb"] / 2 if isinstance(settings.get("dim-emb"), int) else 0
    # Marian's slowest sinusoid has a wavelength of exactly 10000 (times 2π), ours a little less.
    # This was compared with Marian only for SSRU models, so the others keep the usual base.
    base = 10000.0 ** (half / (half - 1)) if recurrent and half > 1 else 10000.0
    return make_config(
        "base",
        settings={
            "text.tokenizer": "marian",
            "model.d_model": settings.get("dim-emb"),
            "model.num_heads": settings.get("transformer-heads"),
            "model.d_ff": settings.get("transformer-dim-ffn"),
            "model.num_encoder_layers": settings.get("enc-depth"),
            "model.num_decoder_layers": settings.get("dec-depth"),
            "model.activation": settings.get("transformer-ffn-activation"),
            "model.norm_position": NORMS[steps],
            "model.positions.base": base,
            "model.decoder_self_attention": SUBLAYERS[
                settings.get("transformer-decoder-autoreg", "self-attention")
            ],
            "model.share_embeddings": tied,
            "model.output_bias": "decoder_ff_logit_out_b" in arrays,
            "decoding.beam_size": search.get("beam-size", 6),
            "decoding.shrink_beam_on_eos": True,
            "decoding.max_length_ratio": search.get("max-length-factor", 3.0),
            "decoding.max_length_extra": 0,
            "decoding.length_penalty": "power" if alpha else "none",
            "decoding.length_penalty_alpha": float(alpha)
            if isinstance(alpha, int | float)
            else alpha,
        },
    )


def _weights(
    theirs: SourceFolder, arrays: dict[str, np.ndarray], config: Config, sizes: list[int]
) -> dict[str, np.ndarray]:
    width = config.model.d_model
    shapes = layers_of_marian(config.model)
    layers = {}
    for part in weight_maps(config.model):
        for end, name in zip(("weight", "bias"), marian_names(part), strict=True):
            if config.model.decoder_self_attention == "ssru" and part.side == "decoder":
                name = name.replace("_self_Wo_", "_rnn_ffn_")
            array = arrays.get(name, arrays.get(f"{name}_pre"))
            shape = shapes[f"{part.theirs}.{end}"]
            if array is not None:
                # Marian multiplies from the right, and keeps vectors as matrices of one row.
                array = array.T if len(shape) == 2 else array.reshape(-1)
            layers[f"{part.theirs}.{end}"] = theirs.checked(name, array, shape)
    order = interleaved(width)
    weights = layers_from_marian(layers, config.model, order)
    if config.model.decoder_self_attention == "ssru":
        for number in range(config.model.num_decoder_layers):
            weights |= _recurrence(theirs, arrays, number, order)
    # One matrix for both sides, or one for each.
    shared = arrays.get("Wemb")
    for side, theirs_side, size in zip(
        ("source", "target"), ("encoder", "decoder"), sizes, strict=True
    ):
        words = arrays.get(f"{theirs_side}_Wemb", shared)
        words = theirs.checked(f"{theirs_side}_Wemb", words, (size, width))
        weights[f"{side}_embedding.words.weight"] = _with_start(words[:, order])
    if config.model.share_embeddings == "all":
        del weights["target_embedding.words.weight"]
    if config.model.share_embeddings == "none":
        output = arrays.get("decoder_ff_logit_out_Wt")
        if output is None:
            output = arrays["decoder_ff_logit_out_W"].T
        output = theirs.checked("decoder_ff_logit_out_W", output, (sizes[1], width))
        weights["output.weight"] = _with_start(output[:, order])
    if config.model.output_bias:
        bias = arrays["decoder_ff_logit_out_b"].reshape(-1)
        bias = theirs.checked("decoder_ff_logit_out_b", bias, (sizes[1],))
        weights["output.bias"] = _with_start(bias)
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()}


def _recurrence(
    theirs: SourceFolder, arrays: dict[str, np.ndarray], number: int, order: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the SSRU of a decoder layer. It reads and writes the residual stream feature by
    feature.
    """
    there, here = f"decoder_l{number + 1}_rnn", f"decoder.{number}.recurrence"
    width = len(order)
    weights = {}
    for their, our in (("W", "value"), ("Wf", "forget")):
        matrix = theirs.checked(f"{there}_{their}", arrays.get(f"{there}_{their}"), (width, width))
        weights[f"{here}.{our}.weight"] = matrix.T[order][:, order]
    bias = arrays.get(f"{there}_bf")
    bias = theirs.checked(f"{there}_bf", None if bias is None else bias.reshape(-1), (width,))
    return {**weights, f"{here}.forget.bias": bias[order]}


def _with_start(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array[:1])])


def marian_names(part: WeightMap) -> tuple[str, str]:
    """Return Marian's names of a part's weight and bias.

    >>> marian_names(WeightMap("decoder", 0, "encoder_attn.q_proj", "", 1))
    ('decoder_l1_context_Wq', 'decoder_l1_context_bq')
    """
    layer = "" if part.layer is None else f"_l{part.layer + 1}"
    weight, bias = _NAMES[part.module]
    return f"{part.side}{layer}_{weight}", f"{part.side}{layer}_{bias}"


def _vocabulary(theirs: SourceFolder, name: str, count: int) -> list[str]:
    """Return the pieces of a `.spm`, or of a `.yml` with a line for each."""
    if name.endswith(".spm"):
        return list(pieces_of_model(theirs.read(name)))
    ids = dict[str, Any]()
    key = None
    # One entry per line: a YAML parser would be far slower.
    for line in theirs.read(name).decode("utf-8", "replace").splitlines():
        if line.startswith("? "):  # YAML's long form: the key on a line of its own
            key = line[2:]
        elif line.strip():
            piece, _, number = line.rpartition(":")
            ids[_scalar(piece if key is None else key)] = (
                int(number) if number.strip().isdecimal() else number
            )
            key = None
    return numbered(theirs, ids, max(count, len(ids)))


def _scalar(text: str) -> str:
    """Parse a YAML scalar; most vocabularies quote it."""
    import yaml

    text = text.strip()
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return str(yaml.safe_load(text))
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


def _spm(theirs: SourceFolder, vocabularies: list[str]) -> tuple[bytes, bytes]:
    """Return the SentencePiece models: the vocabularies themselves, or files next to lists of
    pieces.
    """
    if vocabularies[0].endswith(".spm"):
        return theirs.read(vocabularies[0]), theirs.read(vocabularies[-1])
    for name in ("source.spm", "target.spm"):
        if not theirs.has(name):
            raise ConversionError(f"{theirs.path} lacks {name}, which its vocabulary needs.")
    return theirs.read("source.spm"), theirs.read("target.spm")
