"""A translator from Hugging Face as a bundle: MarianMT (the OPUS-MT models), M2M-100, NLLB.

What `to_huggingface` wrote is read back too: MarianMT, or Pegasus if norms stand before sublayers.

Such a folder holds `config.json`, SentencePiece models, a vocabulary, and weights in
`model.safetensors`, in the several files that `model.safetensors.index.json` names, or in
`pytorch_model.bin`. The latter is the one pickle that dragoman ever reads, and of it tensors alone.
Without it, no torch is needed.

MarianMT normalises after the sublayer and adds sinusoids; its source may begin with `>>fra<<`.
M2M-100 and NLLB normalise before it. Their positions are sinusoids of other wavelengths that begin
at 2, so they are kept as a table. Source and target begin with the name of their language.

Anybody may have written such a folder. Sizes that `config.json` names are compared with the weights
before anything of these sizes is made.
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
MUST_BE = {  # settings of older folders that change the model
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
INDEX = "model.safetensors.index.json"  # of weights in several files
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
FIRST_POSITION = 2  # of M2M-100: those before it belong to <s> and <pad>
FAMILIES = (
    "mul aav afa alv art bat bnt cau ccs cel cpf cpp cus dra euq fiu gem gmq gmw grk iir inc ine "
    "itc jpx map mkh nic phi poz roa sal sem sit sla sqp taw trk urj zle zls zlw"
)
"""Codes of ISO 639-5, which name many languages at once."""
_NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_M2M_TAG = re.compile(r"__([a-z]{2,3})__")
M2M_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr "
    "ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk "
    "ur uz vi wo xh yi yo zh zu"
)
"""The languages of M2M-100, in the order of their ids; its folders need not name them."""


class ModelFamily(NamedTuple):
    """A kind of model, by `model_type`."""

    name: str  # as people say it
    settings: dict[str, Any]  # of ours
    codec: Callable[[SourceFolder, dict[str, Any], int], Codec]
    order: Callable[[int], np.ndarray]  # our feature i is theirs of number order[i]


def from_huggingface(folder: Path) -> Bundle:
    theirs = SourceFolder(folder)
    try:
        return _read_folder(theirs)
    except (ConfigError, BundleError) as error:
        raise ConversionError(f"{folder}: {error}") from None


def check_settings(theirs: SourceFolder) -> dict[str, Any]:
    """The settings of a folder, refused unless they are those of a model that we have."""
    # newer folders keep what concerns search in a file of its own
    settings = theirs.settings(SEARCH) | theirs.read_json(CONFIG)
    if settings.get("model_type") not in list(KINDS):
        raise ConversionError(
            f"{theirs.path} holds a model of type {settings.get('model_type')!r}; dragoman reads "
            f"{', '.join(KINDS)}."
        )
    kind = KINDS[settings["model_type"]]
    for name, wanted in MUST_BE.items() if kind.name != "Pegasus" else ():
        if settings.get(name, wanted) != wanted:
            raise ConversionError(
                f"{theirs.path}: dragoman does not support a {kind.name} with "
                f"{name}={settings[name]}."
            )
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
    scaled = bool(settings.get("scale_embedding"))
    named = kind.settings | {"model.share_embeddings": "all" if scaled else "none"}
    config = _config(settings, named)
    found = _weights(theirs, config)
    count = len(found[EMBEDDINGS])
    if settings.get("vocab_size") != count:
        raise ConversionError(
            f"{theirs.path}: vocab_size is {settings.get('vocab_size')}, but there are {count} "
            f"embeddings."
        )
    codec = kind.codec(theirs, settings, count)
    order = kind.order(config.model.d_model)
    weights = layers_from_marian(found, config.model, order)
    words = found[EMBEDDINGS][:, order]
    weights["source_embedding.words.weight"] = words
    if not scaled:  # we always multiply by √D
        smaller = words / np.float32(config.model.d_model**0.5)
        weights |= {f"{side}_embedding.words.weight": smaller for side in ("source", "target")}
        weights["output.weight"] = words
    if config.model.positions.kind == "learned":
        table = shifted_sinusoids(config.model.positions.max_length, config.model.d_model)
        weights |= {f"{side}_embedding.positions.table": table for side in ("source", "target")}
    if BIAS in found and found[BIAS].any():
        weights["output.bias"] = found[BIAS][0]
        config = _config(settings, named | {"model.output_bias": True})
    if isinstance(codec.source_segmenter, BytePairs):
        config = replace(config, {"text.tokenizer": "bpe", "text.vocab_size": count})
    contiguous = {
        name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()
    }
    return theirs.converted(kind.name, config, codec, contiguous)


def _config(settings: dict[str, Any], named: dict[str, Any]) -> Config:
    longest = settings.get("max_position_embeddings", 512)
    if type(longest) is int and longest > 1:  # a table of positions must reach beyond training
        named = {"data.max_length": min(256, longest - 1)} | named
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
            **named,
        },
    )


def shifted_sinusoids(length: int, width: int) -> np.ndarray:
    """The positions of M2M-100: all sines, then all cosines, of wavelengths up to exactly 10000.
    (length, D)"""
    half = width // 2
    rates = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1)))
    places = np.arange(FIRST_POSITION, FIRST_POSITION + length, dtype=np.float32)
    angles = places[:, None] * rates.astype(np.float32)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _marian_codec(theirs: SourceFolder, settings: dict[str, Any], count: int) -> Codec:
    """Targets begin with `<pad>` in MarianMT, and with `<s>` in what we exported ourselves.

    There both sides have one SentencePiece model, and ids are its own numbers.
    """
    pieces = numbered(theirs, theirs.read_json(VOCABULARY), count)
    spm = theirs.read("source.spm"), theirs.read("target.spm")
    if theirs.has(LANGUAGES_FILE):  # our own export
        languages = Languages.from_bytes(theirs.read(LANGUAGES_FILE, _LARGEST_LANGUAGES))
    else:
        told = theirs.settings(TOKENIZER_CONFIG)
        source, target = (told.get(key) or "" for key in ("source_lang", "target_lang"))
        languages = marian_languages(pieces, source, target)
    start = settings.get("decoder_start_token_id")
    if start == settings.get("pad_token_id"):
        return Codec.of_another_system(spm, (pieces, pieces), MARIAN, languages)
    ours = BytePairs(spm[0])
    same = spm[0] == spm[1] and ours.vocabulary.pieces == tuple(pieces)
    if not same or start != ours.vocabulary.bos:
        raise ConversionError(f"{theirs.path}: targets do not begin with <pad>, as MarianMT's do.")
    return Codec(ours, ours, languages)


def marian_languages(pieces: Sequence[str], source: str, target: str) -> Languages:
    """From the tags, where a model has several targets; else what was told, which may be nothing,
    or the name of a family."""
    tags = tuple(piece[2:-2] for piece in pieces if piece.startswith(">>") and piece.endswith("<<"))
    sources, targets = (
        (code,) if code and code not in FAMILIES.split() else () for code in (source, target)
    )
    return Languages(sources, tags if len(tags) > 1 else targets)


def _m2m_codec(theirs: SourceFolder, settings: dict[str, Any], count: int) -> Codec:
    """M2M-100 has a vocabulary, and languages behind it. That of NLLB is SentencePiece's, with
    other special pieces, languages behind it, and a list of all in `tokenizer.json`."""
    if settings.get("decoder_start_token_id") != settings.get("eos_token_id"):
        raise ConversionError(f"{theirs.path}: targets do not begin with </s>, as M2M-100's do.")
    spm = theirs.read(SHARED_SPM)
    told = theirs.settings(SPECIAL_TOKENS, TOKENIZER_CONFIG)
    tags = told.get("additional_special_tokens", told.get("extra_special_tokens", []))
    names = [tag.get("content") if isinstance(tag, dict) else tag for tag in tags]
    if theirs.has(VOCABULARY):
        ids = theirs.read_json(VOCABULARY)
        listed = [name for name in names if isinstance(name, str) and _M2M_TAG.fullmatch(name)]
        for tag in listed or [f"__{code}__" for code in M2M_LANGUAGES.split()]:
            ids.setdefault(tag, len(ids))
    elif theirs.has(TOKENIZER):
        ids = _numbers_of_tokenizer(theirs)
    else:
        raise ConversionError(f"{theirs.path} holds neither {VOCABULARY} nor {TOKENIZER}.")
    pieces = numbered(theirs, ids, count)
    framing, codes = named_languages(pieces)
    if told.get("legacy_behaviour"):  # the language of a source stood behind it once
        framing = Framing((), (*framing.after, *framing.before), framing.start)
    languages = Languages(codes, codes)
    return Codec.of_another_system((spm, spm), (pieces, pieces), framing, languages)


def named_languages(pieces: Sequence[str]) -> tuple[Framing, tuple[str, ...]]:
    """Whether the languages of a vocabulary are named as in M2M-100 or in NLLB, and their codes;
    no code if neither."""
    found = tuple(match[1] for piece in pieces if (match := _M2M_TAG.fullmatch(piece)))
    if found:
        return M2M, found
    return NLLB, tuple(piece for piece in pieces if _NLLB_CODE.fullmatch(piece))


def _numbers_of_tokenizer(theirs: SourceFolder) -> dict[str, Any]:
    """The ids that `tokenizer.json` gives to pieces."""
    told = theirs.read_json(TOKENIZER)
    try:
        ids = dict(told["model"]["vocab"])
        return ids | {token["content"]: token["id"] for token in told["added_tokens"]}
    except (KeyError, TypeError, ValueError) as error:
        raise ConversionError(
            f"{theirs.path / TOKENIZER} lists no pieces ({type(error).__name__})."
        ) from None


def numbered(theirs: SourceFolder, ids: dict[str, Any], count: int) -> list[str]:
    """The pieces in the order of their ids; numbers that no piece has are kept free. `count`: how
    many have an embedding."""
    pieces = [f"{UNUSED}{i}>" for i in range(count)]
    for piece, number in ids.items():
        if type(number) is not int or not 0 <= number < count:
            raise ConversionError(
                f"{theirs.path}: in its vocabulary, a piece has a number outside 0 to {count - 1}."
            )
        pieces[number] = piece
    return pieces


def _weights(theirs: SourceFolder, config: Config) -> dict[str, np.ndarray]:
    """Those of a model of these sizes, in float32; any others are left in the file."""
    name = theirs.first(SAFETENSORS, INDEX, PICKLE)
    if name is None:
        raise ConversionError(f"{theirs.path} holds neither {SAFETENSORS} nor {PICKLE}.")
    found = dict[str, np.ndarray]()
    size = 0
    for file in shards(theirs) if name == INDEX else [name]:
        raw = theirs.read_weights(file)
        found |= _unpickled(theirs.path, raw) if name == PICKLE else read_tensors(raw)
        size += len(raw)
    words = found.get(EMBEDDINGS, found.get(OUTPUT))
    if words is None:
        raise ConversionError(f"{theirs.path}: weight {EMBEDDINGS} is missing.")
    wanted = {
        EMBEDDINGS: (len(words), config.model.d_model),
        BIAS: (1, len(words)),
        **layers_of_marian(config.model),
    }
    # A pickle may hold one small tensor under many names. Twice for half precision, thrice for
    # embeddings.
    if 4 * sum(map(math.prod, wanted.values())) > 6 * size:
        raise ConversionError(
            f"{theirs.path}: {name} is too small for a model of the sizes that {CONFIG} names."
        )
    found = {EMBEDDINGS: words, **found}
    weights = {
        name: theirs.of_shape(name, found.get(name), shape)
        for name, shape in wanted.items()
        if name != BIAS
    }
    if BIAS in found:
        weights[BIAS] = theirs.of_shape(BIAS, found[BIAS], wanted[BIAS])
    if config.model.positions.kind == "sinusoidal":
        for side in ("encoder", "decoder"):
            table = found.get(f"model.{side}.embed_positions.weight")
            _check_positions(theirs.path, table, config.model.d_model)
    return weights


def shards(theirs: SourceFolder) -> list[str]:
    """The files that hold the weights together, by their index."""
    told = theirs.read_json(INDEX).get("weight_map")
    named = list(told.values()) if isinstance(told, dict) else []
    files = {file for file in named if isinstance(file, str) and _SHARD.fullmatch(file)}
    if not named or not files.issuperset(map(str, named)) or len(files) > _MOST_SHARDS:
        raise ConversionError(f"{theirs.path / INDEX} does not say which files hold the weights.")
    return sorted(files)


def _unpickled(folder: Path, raw: bytes) -> dict[str, np.ndarray]:
    """The tensors of a pickle. Nothing else is made of it, and no tensor is larger than the
    file."""
    with needs_torch():
        import torch
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ConversionError(
                    f"{folder / PICKLE} is compressed, which PyTorch's files are not."
                )
    except zipfile.BadZipFile:  # as PyTorch wrote it before 1.6
        pass
    try:
        # of pickles that PyTorch did not write; what counts is said below
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensors = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
        plain = {
            str(name): tensor
            for name, tensor in tensors.items()
            if isinstance(tensor, torch.Tensor)
        }
    # Unpickling fails in as many ways as there are files. What PyTorch says is left out: it advises
    # to load the file without the check.
    except Exception:
        raise ConversionError(
            f"{folder / PICKLE} cannot be read: it is cut off, or it holds more than tensors."
        ) from None
    for name, tensor in plain.items():
        # One number, repeated by strides of 0, can pretend to be a matrix of any size.
        if tensor.layout != torch.strided or not tensor.is_contiguous() or tensor.nbytes > len(raw):
            raise ConversionError(f"{folder}: weight {name} is larger than its stored data.")
    return {name: tensor.float().numpy() for name, tensor in plain.items()}


def _check_positions(folder: Path, table: np.ndarray | None, width: int) -> None:
    """Some folders store them; they must be the sinusoids that everybody computes."""
    if table is None:
        return
    if table.ndim != 2 or table.shape[1] != width:
        raise ConversionError(
            f"{folder}: its positions have shape {table.shape}, but the model has width {width}."
        )
    ours = sinusoids(len(table), width)
    # half precision is coarse
    if not np.abs(table[:, interleaved(width)] - ours).max(initial=0) <= 1e-2:
        raise ConversionError(f"{folder}: its positions are not sinusoidal.")


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
