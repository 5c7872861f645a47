"""Read a translator from Hugging Face as a bundle: MarianMT (the OPUS-MT models), M2M-100, NLLB.

Folders written by `to_huggingface` are read back too: MarianMT, or Pegasus if norms precede
sublayers.

A folder has `config.json`, SentencePiece models, a vocabulary, and weights in `model.safetensors`,
in the several files that `model.safetensors.index.json` names, or in `pytorch_model.bin`. That is
the only pickle that dragoman ever reads, and only tensors are read from it. Without it, no torch is
needed.

MarianMT normalizes after each sublayer and adds sinusoids; its source may begin with `>>fra<<`.
M2M-100 and NLLB normalize before. Their positions are sinusoids of other wavelengths that begin at
2, so they are stored as a table. Source and target begin with the name of their language.

The folder is untrusted: sizes in `config.json` are compared with the weights before anything of
these sizes is allocated.
"""

import io
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.bundle.folder import Bundle, read_tensors
from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import Config, make_config, replace
from dragoman.convert.marian import interleaved, layers_from_marian, layers_of_marian
from dragoman.convert.source_folder import SourceFolder
from dragoman.errors import BundleError, ConfigError, ConversionError, needs_torch
from dragoman.text.codec import M2M, MARIAN, NLLB, UNUSED, Codec, Framing
from dragoman.text.languages import LANGUAGES_FILE, Languages
from dragoman.text.subword import BytePairs

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# Settings of older folders that would change the model, with the only values supported.
MUST_BE = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
_MOST_NAMES = 4  # of a tensor on average; embeddings have three
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
INDEX = "model.safetensors.index.json"  # of weights in several files
# File names in the index must not leave the folder.
_SHARD = re.compile(r"[\w-][\w.-]*\.safetensors")
_MOST_SHARDS = 1000
CONFIG, SEARCH, VOCABULARY = "config.json", "generation_config.json", "vocab.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
SPECIAL_TOKENS, SHARED_SPM = "special_tokens_map.json", "sentencepiece.bpe.model"
SMALL_FILES = (
    CONFIG, SEARCH, VOCABULARY, TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS,
    SHARED_SPM, "source.spm", "target.spm", LANGUAGES_FILE,
)  # fmt: skip
EMBEDDINGS, OUTPUT, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
_LARGEST_LANGUAGES = 2**16  # bytes
FIRST_POSITION = 2  # of M2M-100, whose first two rows belong to <s> and <pad>
FAMILIES = (
    "mul aav afa alv art bat bnt cau ccs cel cpf cpp cus dra euq fiu gem gmq gmw grk iir inc ine "
    "itc jpx map mkh nic phi poz roa sal sem sit sla sqp taw trk urj zle zls zlw"
)
"""Codes of ISO 639-5, each for a family of languages."""
_NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_M2M_TAG = re.compile(r"__([a-z]{2,3})__")
M2M_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr "
    "ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk "
    "ur uz vi wo xh yi yo zh zu"
)
"""The languages of M2M-100 in the order of their ids, for folders that do not list them."""


class ModelFamily(NamedTuple):
    """How to read models of one `model_type`."""

    name: str
    settings: dict[str, Any]  # ours
    codec: Callable[[SourceFolder, dict[str, Any], int], Codec]
    order: Callable[[int], np.ndarray]  # our feature i is their feature order[i]


def from_huggingface(folder: Path) -> Bundle:
    theirs = SourceFolder(folder)
    try:
        return _read_folder(theirs)
    except (ConfigError, BundleError) as error:
        raise ConversionError(f"{folder}: {error}") from None


def check_settings(theirs: SourceFolder) -> dict[str, Any]:
    """Return the settings of a folder; raise a ConversionError if its model is not supported."""
    # Newer folders keep the settings of search in a file of their own.
    settings = theirs.settings(SEARCH) | theirs.read_json(CONFIG)
    if settings.get("model_type") not in list(KINDS):
        raise ConversionError(
            f"{theirs.path} has a model of type {settings.get('model_type')!r}; dragoman reads "
            f"{', '.join(KINDS)}."
        )
    kind = KINDS[settings["model_type"]]
    if kind.name != "Pegasus":
        theirs.require(settings, MUST_BE)
    # Our settings have one number for both sides.
    for name in ("attention_heads", "ffn_dim"):
        both = settings.get(f"encoder_{name}"), settings.get(f"decoder_{name}")
        if both[0] != both[1]:
            raise ConversionError(
                f"{theirs.path}: encoder and decoder differ in {name}, {both[0]} and {both[1]}."
            )
    if settings.get("activation_function") not in list(ACTIVATIONS):
        raise ConversionError(
            f"{theirs.path}: activation {settings.get('activation_function')!r} is unknown."
        )
    return settings


def _read_folder(theirs: SourceFolder) -> Bundle:
    settings = check_settings(theirs)
    kind = KINDS[settings["model_type"]]
    # If embeddings are scaled by √D as in our model, all three matrices are one.
    scaled = bool(settings.get("scale_embedding"))
    own_settings = kind.settings | {"model.share_embeddings": "all" if scaled else "none"}
    config = _config(settings, own_settings)
    stored = _weights(theirs, config)
    count = len(stored[EMBEDDINGS])
    if settings.get("vocab_size") != count:
        raise ConversionError(
            f"{theirs.path}: vocab_size is {settings.get('vocab_size')}, but there are {count} "
            f"embeddings."
        )
    codec = kind.codec(theirs, settings, count)
    order = kind.order(config.model.d_model)
    weights = layers_from_marian(stored, config.model, order)
    words = stored[EMBEDDINGS][:, order]
    weights["source_embedding.words.weight"] = words
    if not scaled:  # our model always multiplies by √D, so divide here
        smaller = words / np.float32(config.model.d_model**0.5)
        weights |= {f"{side}_embedding.words.weight": smaller for side in ("source", "target")}
        weights["output.weight"] = words
    if config.model.positions.kind == "learned":
        table = shifted_sinusoids(config.model.positions.max_length, config.model.d_model)
        weights |= {f"{side}_embedding.positions.table": table for side in ("source", "target")}
    # MarianMT always has this bias; zeros are dropped.
    if BIAS in stored and stored[BIAS].any():
        weights["output.bias"] = stored[BIAS][0]
        config = _config(settings, own_settings | {"model.output_bias": True})
    if isinstance(codec.source_segmenter, BytePairs):
        config = replace(config, {"text.tokenizer": "bpe", "text.vocab_size": count})
    contiguous = {
        name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()
    }
    return theirs.to_bundle(kind.name, config, codec, contiguous)


def _config(settings: dict[str, Any], own_settings: dict[str, Any]) -> Config:
    longest = settings.get("max_position_embeddings", 512)
    # Sentences of a continued training must be shorter than the table of positions.
    if type(longest) is int and longest > 1:
        own_settings = {"data.max_length": min(256, longest - 1)} | own_settings
    return make_config(
        "base",
        settings={
            "text.tokenizer": "marian",
            "model.d_model": settings.get("d_model"),
            "model.num_heads": settings.get("encoder_attention_heads"),
            "model.d_ff": settings.get("encoder_ffn_dim"),
            "model.num_encoder_layers": settings.get("encoder_layers"),
            "model.num_decoder_layers": settings.get("decoder_layers"),
            "model.activation": ACTIVATIONS[settings["activation_function"]],
            "model.dropout": settings.get("dropout", 0.1),
            "model.positions.max_length": longest,
            "decoding.beam_size": settings.get("num_beams", 4),
            "decoding.length_penalty": "power",
            "decoding.length_penalty_alpha": settings.get("length_penalty", 1.0),
            "decoding.max_source_length": longest,
            **own_settings,
        },
    )


def shifted_sinusoids(length: int, width: int) -> np.ndarray:
    """Return the positions of M2M-100. (length, D)

    All sines come first, then all cosines, with wavelengths up to exactly 10000.
    """
    half = width // 2
    # In float32, as transformers computes them.
    rates = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1)))
    places = np.arange(FIRST_POSITION, FIRST_POSITION + length, dtype=np.float32)
    angles = places[:, None] * rates.astype(np.float32)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _marian_codec(theirs: SourceFolder, settings: dict[str, Any], count: int) -> Codec:
    """Return the codec of MarianMT, or of our own export.

    Targets begin with `<pad>` in MarianMT and with `<s>` in our export, where both sides share one
    SentencePiece model whose numbers are the ids.
    """
    pieces = numbered(theirs, theirs.read_json(VOCABULARY), count)
    spm = theirs.read("source.spm"), theirs.read("target.spm")
    if theirs.has(LANGUAGES_FILE):  # our own export
        languages = Languages.from_bytes(theirs.read(LANGUAGES_FILE, _LARGEST_LANGUAGES))
    else:
        settings_of_text = theirs.settings(TOKENIZER_CONFIG)
        source, target = (settings_of_text.get(key) or "" for key in ("source_lang", "target_lang"))
        languages = marian_languages(pieces, source, target)
    start = settings.get("decoder_start_token_id")
    # MarianMT starts targets with <pad>, our export with <s>.
    if start == settings.get("pad_token_id"):
        return Codec.of_another_system(spm, (pieces, pieces), MARIAN, languages)
    ours = BytePairs(spm[0])
    is_export = spm[0] == spm[1] and ours.vocabulary.pieces == tuple(pieces)
    if not is_export or start != ours.vocabulary.bos:
        raise ConversionError(f"{theirs.path}: targets do not begin with <pad>, as MarianMT's do.")
    return Codec(ours, ours, languages)


def marian_languages(pieces: Sequence[str], source: str, target: str) -> Languages:
    """Return the languages of a model: the tags of its pieces, if there are several, else those
    given.

    A given language may be empty or a family's code, which is dropped.
    """
    tags = tuple(piece[2:-2] for piece in pieces if piece.startswith(">>") and piece.endswith("<<"))
    sources, targets = (
        (code,) if code and code not in FAMILIES.split() else () for code in (source, target)
    )
    return Languages(sources, tags if len(tags) > 1 else targets)


def _m2m_codec(theirs: SourceFolder, settings: dict[str, Any], count: int) -> Codec:
    """Return the codec of M2M-100 or NLLB.

    M2M-100 has a vocabulary followed by the languages. NLLB has SentencePiece's vocabulary with
    other special pieces, then languages; `tokenizer.json` lists all of them.
    """
    if settings.get("decoder_start_token_id") != settings.get("eos_token_id"):
        raise ConversionError(f"{theirs.path}: targets do not begin with </s>, as M2M-100's do.")
    spm = theirs.read(SHARED_SPM)
    tokenizer = theirs.settings(SPECIAL_TOKENS, TOKENIZER_CONFIG)
    tags = tokenizer.get("additional_special_tokens", tokenizer.get("extra_special_tokens", []))
    # A tag is a string, or a table with its content.
    names = [tag.get("content") if isinstance(tag, dict) else tag for tag in tags]
    if theirs.has(VOCABULARY):
        ids = theirs.read_json(VOCABULARY)
        listed = [name for name in names if isinstance(name, str) and _M2M_TAG.fullmatch(name)]
        # Languages have the ids after the vocabulary, in their listed order.
        for tag in listed or [f"__{code}__" for code in M2M_LANGUAGES.split()]:
            ids.setdefault(tag, len(ids))
    elif theirs.has(TOKENIZER):
        ids = _numbers_of_tokenizer(theirs)
    else:
        raise ConversionError(f"{theirs.path} has neither {VOCABULARY} nor {TOKENIZER}.")
    pieces = numbered(theirs, ids, count)
    framing, codes = named_languages(pieces)
    if tokenizer.get("legacy_behaviour"):  # the source's language used to follow it
        framing = Framing((), (*framing.after, *framing.before), framing.start)
    languages = Languages(codes, codes)
    return Codec.of_another_system((spm, spm), (pieces, pieces), framing, languages)


def named_languages(pieces: Sequence[str]) -> tuple[Framing, tuple[str, ...]]:
    """Return the framing and the language codes of a vocabulary, if it names languages as M2M-100
    or NLLB do; else no codes.
    """
    m2m_codes = tuple(match[1] for piece in pieces if (match := _M2M_TAG.fullmatch(piece)))
    if m2m_codes:
        return M2M, m2m_codes
    return NLLB, tuple(piece for piece in pieces if _NLLB_CODE.fullmatch(piece))


def _numbers_of_tokenizer(theirs: SourceFolder) -> dict[str, Any]:
    """Return the ids of the pieces in `tokenizer.json`."""
    tokenizer = theirs.read_json(TOKENIZER)
    try:
        ids = dict(tokenizer["model"]["vocab"])
        return ids | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    except (KeyError, TypeError, ValueError) as error:
        raise ConversionError(
            f"{theirs.path / TOKENIZER} lists no pieces ({type(error).__name__})."
        ) from None


def numbered(theirs: SourceFolder, ids: dict[str, Any], count: int) -> list[str]:
    """Return the pieces in the order of their ids.

    `count` is the number of embeddings; ids without a piece get a name of their own.
    """
    pieces = [f"{UNUSED}{i}>" for i in range(count)]
    for piece, number in ids.items():
        if type(number) is not int or not 0 <= number < count:
            raise ConversionError(
                f"{theirs.path}: in its vocabulary, a piece has a number outside 0 to {count - 1}."
            )
        pieces[number] = piece
    return pieces


def _weights(theirs: SourceFolder, config: Config) -> dict[str, np.ndarray]:
    """Return the weights of a model of these sizes in float32; others stay in the file."""
    name = theirs.first(SAFETENSORS, INDEX, PICKLE)
    if name is None:
        raise ConversionError(f"{theirs.path} has neither {SAFETENSORS} nor {PICKLE}.")
    stored = dict[str, np.ndarray]()
    size = 0
    for file in shards(theirs) if name == INDEX else [name]:
        raw = theirs.read_weights(file)
        stored |= _unpickled(theirs.path, raw) if name == PICKLE else read_tensors(raw)
        size += len(raw)
    # Some folders have only the output matrix, which is the same.
    words = stored.get(EMBEDDINGS, stored.get(OUTPUT))
    if words is None:
        raise ConversionError(f"{theirs.path}: weight {EMBEDDINGS} is missing.")
    shapes = {
        EMBEDDINGS: (len(words), config.model.d_model),
        BIAS: (1, len(words)),
        **layers_of_marian(config.model),
    }
    # A pickle may repeat one small tensor under many names. The factor 6 allows for half precision
    # (2) and for embeddings that are shared three times (3).
    if 4 * sum(map(math.prod, shapes.values())) > 6 * size:
        raise ConversionError(
            f"{theirs.path}: {name} is too small for a model of the sizes that {CONFIG} names."
        )
    stored = {EMBEDDINGS: words, **stored}
    weights = {
        name: theirs.checked(name, stored.get(name), shape)
        for name, shape in shapes.items()
        if name != BIAS
    }
    if BIAS in stored:
        weights[BIAS] = theirs.checked(BIAS, stored[BIAS], shapes[BIAS])
    # Stored sinusoids are not read but compared with ours.
    if config.model.positions.kind == "sinusoidal":
        for side in ("encoder", "decoder"):
            table = stored.get(f"model.{side}.embed_positions.weight")
            _check_positions(theirs.path, table, config.model.d_model)
    return weights


def shards(theirs: SourceFolder) -> list[str]:
    """Return the files with the weights, which the index lists."""
    weight_map = theirs.read_json(INDEX).get("weight_map")
    values = list(weight_map.values()) if isinstance(weight_map, dict) else []
    # Every value must be a plain file name, or the index is refused.
    files = {file for file in values if isinstance(file, str) and _SHARD.fullmatch(file)}
    if not values or not files.issuperset(map(str, values)) or len(files) > _MOST_SHARDS:
        raise ConversionError(f"{theirs.path / INDEX} does not say which files hold the weights.")
    return sorted(files)


def _unpickled(folder: Path, raw: bytes) -> dict[str, np.ndarray]:
    """Return the tensors of a pickle. Nothing else is unpickled, and no tensor exceeds the file."""
    with needs_torch():
        import torch
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ConversionError(
                    f"{folder / PICKLE} is compressed, which PyTorch's files are not."
                )
    except zipfile.BadZipFile:
        pass  # PyTorch before 1.6 did not write archives
    try:
        # PyTorch warns about pickles of other origin; the errors below are enough.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensors = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
        plain = {
            str(name): tensor
            for name, tensor in tensors.items()
            if isinstance(tensor, torch.Tensor)
        }
    # Unpickling can raise any error. PyTorch's message is dropped: it suggests to load the file
    # without the check.
    except Exception:
        raise ConversionError(
            f"{folder / PICKLE} cannot be read: it is truncated, or contains more than tensors."
        ) from None
    for name, tensor in plain.items():
        # With strides of 0, a single number can pretend to be a matrix of any size.
        if tensor.layout != torch.strided or not tensor.is_contiguous() or tensor.nbytes > len(raw):
            raise ConversionError(f"{folder}: weight {name} is larger than its stored data.")
    # One tensor may have many names, and becomes an array for each.
    if sum(tensor.nbytes for tensor in plain.values()) > _MOST_NAMES * len(raw):
        raise ConversionError(f"{folder}: its weights are larger than their stored data.")
    return {name: tensor.float().numpy() for name, tensor in plain.items()}


def _check_positions(folder: Path, table: np.ndarray | None, width: int) -> None:
    """Check that stored positions are the usual sinusoids."""
    if table is None:
        return
    if table.ndim != 2 or table.shape[1] != width:
        raise ConversionError(
            f"{folder}: its positions have shape {table.shape}, but the model has width {width}."
        )
    ours = sinusoids(len(table), width)
    # The tolerance allows for half precision.
    if not np.abs(table[:, interleaved(width)] - ours).max(initial=0) <= 1e-2:
        raise ConversionError(f"{folder}: its positions are not sinusoidal.")


# By `model_type`; NLLB has the type of M2M-100.
KINDS = {
    "marian": ModelFamily("MarianMT", {"model.norm_position": "post"}, _marian_codec, interleaved),
    "pegasus": ModelFamily("Pegasus", {"model.norm_position": "pre"}, _marian_codec, interleaved),
    "m2m_100": ModelFamily(
        "M2M-100",
        {"model.norm_position": "pre", "model.positions.kind": "learned"},
        _m2m_codec,
        np.arange,
    ),
}
