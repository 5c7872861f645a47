"""Models of CTranslate2, Argos and Marian become bundles that say the same. CTranslate2 itself is
the reference, with its own converters."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import yaml

from dragoman.bundle.folder import Bundle, read_bundle, write_bundle
from dragoman.convert.from_ctranslate2 import from_argos, from_ctranslate2
from dragoman.convert.from_marian import from_marian, marian_names
from dragoman.convert.marian import interleaved, layers_to_marian, weight_maps
from dragoman.convert.to_ctranslate2 import to_ctranslate2
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.codec import ZEROS
from dragoman.text.languages import Languages
from dragoman.text.metrics import bleu
from tests.agree.test_converters import (
    LINES,
    LONGEST,
    assert_lengths_vary,
    decoding,
    random_bundle,
)
from tests.conftest import toy_pairs


def said_by_ctranslate2(
    folder: Path, bundle: Bundle, beam: int, compute: str = "float32", **options: object
) -> list[tuple[str, ...]]:
    pieces = bundle.codec.source.pieces
    never = [bundle.codec.target.pieces[i] for i in bundle.codec.target.never]
    vocabulary = [json.loads(path.read_text()) for path in folder.glob("*_vocabulary.json")]
    known = {piece for side in vocabulary for piece in side}
    found = ctranslate2.Translator(str(folder), compute_type=compute).translate_batch(
        [[pieces[i] for i in ids] for ids in bundle.codec.encode_source(LINES)],
        beam_size=beam, length_penalty=1.0, max_decoding_length=LONGEST, min_decoding_length=0,
        suppress_sequences=[[piece] for piece in never if piece in known], **options,
    )  # fmt: skip
    return [tuple(result.hypotheses[0]) for result in found]


def said_by_us(folder: Path, beam: int, engine: str = "auto") -> list[tuple[str, ...]]:
    found = Translator.load(folder, "cpu", engine).translate(
        LINES, Request(decoding=decoding(beam))
    )
    return [translation.candidates[0].pieces for translation in found]


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_a_beam_finds_what_ctranslate2_finds(tmp_path: Path, seed: int) -> None:
    """If no piece is forbidden. CTranslate2 takes a forbidden piece's probability and shares it out
    among the others, which changes scores; we and `transformers` only never choose it."""
    bundle = random_bundle(seed)
    bias = bundle.weights["output.bias"]
    bias[list(bundle.codec.target.never)] = -1000.0
    bias[bundle.codec.target.eos] += 3.0  # else such a model never ends a sentence
    write_bundle(tmp_path / "ours", bundle)
    to_ctranslate2(bundle, tmp_path / "theirs")
    theirs = said_by_ctranslate2(tmp_path / "theirs", bundle, beam=4)
    assert said_by_us(tmp_path / "ours", beam=4) == theirs
    assert sum(len(pieces) < LONGEST for pieces in theirs) > 5


VARIANTS = [
    {},
    {"model__norm_position": "pre"},
    {"model__positions__kind": "learned"},
    {"model__share_embeddings": "none"},
    {"model__activation": "gelu"},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_a_model_survives_a_round_trip_through_ctranslate2(tmp_path: Path, settings: dict) -> None:
    bundle = random_bundle(**settings)
    to_ctranslate2(bundle, tmp_path / "theirs")
    again = from_ctranslate2(tmp_path / "theirs", source_end=True)
    assert again.weights.keys() == bundle.weights.keys()
    for name, array in bundle.weights.items():
        np.testing.assert_allclose(again.weights[name], array, atol=1e-6)
    assert again.codec.encode_source(LINES) == bundle.codec.encode_source(LINES)


def stored_as(kind: str, bundle: Bundle, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CTranslate2 folder with weights of a type, quantized by CTranslate2's own code."""
    from ctranslate2.specs import TransformerSpec

    optimise = TransformerSpec.optimize
    # it multiplies weights in place
    copied = {name: array.copy() for name, array in bundle.weights.items()}
    bundle = replace(bundle, weights=copied)
    with monkeypatch.context() as patched:
        patched.setattr(TransformerSpec, "optimize", lambda self: optimise(self, kind))
        to_ctranslate2(bundle, folder)
    return folder


@pytest.mark.parametrize(
    "kind", ["float32", "float16", "bfloat16", "int8", "int8_float16", "int16"]
)
def test_every_type_of_weights_is_read(
    trained: Path, tmp_path: Path, kind: str, monkeypatch
) -> None:
    bundle = read_bundle(trained)
    folder = stored_as(kind, bundle, tmp_path / "theirs", monkeypatch)
    again = from_ctranslate2(folder, source_end=True)
    for name, array in bundle.weights.items():
        error = np.abs(again.weights[name] - array).max() / np.abs(array).max()
        assert error <= {"float32": 1e-7, "float16": 1e-3}.get(kind, 1e-2), name
    write_bundle(tmp_path / "ours", again)
    # computed in float32, so that only what is stored counts
    theirs = said_by_ctranslate2(folder, bundle, beam=1)
    assert said_by_us(tmp_path / "ours", beam=1) == theirs
    assert_lengths_vary(theirs)


def argos_package(path: Path, model: Path, spm_file: Path, **metadata: str) -> Path:
    told = {"from_code": "de", "to_code": "en", "package_version": "1.0"} | metadata
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("translate-de_en/metadata.json", json.dumps(told))
        archive.writestr("translate-de_en/README.md", "# de to en")
        archive.write(spm_file, "translate-de_en/sentencepiece.model")
        for file in model.iterdir():
            if not file.name.endswith(".spm"):
                archive.write(file, f"translate-de_en/model/{file.name}")
    return path


def test_an_argos_package_says_what_ctranslate2_says(trained: Path, tmp_path: Path) -> None:
    """OpenNMT trains with sources that have no end token and targets that begin with <s>."""
    bundle = read_bundle(trained)
    to_ctranslate2(bundle, tmp_path / "theirs")
    package = argos_package(
        tmp_path / "de_en.argosmodel", tmp_path / "theirs", tmp_path / "theirs" / "shared.spm"
    )
    ours = from_argos(package)
    assert ours.codec.languages == Languages(("de",), ("en",))
    assert ours.codec.encode_source(LINES)[0] == bundle.codec.encode_source(LINES)[0][:-1]
    write_bundle(tmp_path / "ours", to_onnx(ours))
    theirs = said_by_ctranslate2(tmp_path / "theirs", ours, 1)
    assert said_by_us(tmp_path / "ours", 1) == theirs
    assert_lengths_vary(theirs)
    # the folder that it was unpacked to
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path / "unpacked")
    again = from_argos(tmp_path / "unpacked" / "translate-de_en")
    assert all((again.weights[n] == array).all() for n, array in ours.weights.items())


def test_an_argos_package_may_name_what_targets_begin_with(trained: Path, tmp_path: Path) -> None:
    to_ctranslate2(read_bundle(trained), tmp_path / "theirs")
    shared = tmp_path / "theirs" / "shared.spm"
    package = argos_package(
        tmp_path / "a.argosmodel", tmp_path / "theirs", shared, target_prefix="▁nine"
    )
    ours = from_argos(package)
    write_bundle(tmp_path / "ours", to_onnx(ours))
    theirs = said_by_ctranslate2(
        tmp_path / "theirs", ours, 1, target_prefix=[["▁nine"]] * len(LINES)
    )
    assert all(said[0] == "▁nine" for said in theirs)
    # our output does not include the prefix
    assert said_by_us(tmp_path / "ours", 1) == [said[1:] for said in theirs]


def test_positions_that_ctranslate2_computes_itself_are_the_same_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.model_spec import OPTIONAL

    validate = TransformerSpec.validate

    def without_positions(self: TransformerSpec) -> None:
        for side in (self.encoder, self.decoder):
            side.position_encodings.encodings = OPTIONAL
        validate(self)

    bundle = random_bundle()
    with monkeypatch.context() as patched:
        patched.setattr(TransformerSpec, "validate", without_positions)
        to_ctranslate2(bundle, tmp_path / "theirs")
    write_bundle(tmp_path / "ours", from_ctranslate2(tmp_path / "theirs", source_end=True))
    assert said_by_us(tmp_path / "ours", 1) == said_by_ctranslate2(tmp_path / "theirs", bundle, 1)


def marian_folder(folder: Path, bundle: Bundle, tied: str = "all") -> Path:
    """A trained model as Marian would leave it: OPUS-MT's before they were converted."""
    folder.mkdir()
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(bundle.codec.to_files()["shared.spm"])
    pieces = bundle.codec.target.pieces
    lines = [f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for i, piece in enumerate(pieces)]
    (folder / "vocab.yml").write_text("".join(lines))
    config, weights = bundle.config.model, bundle.float_weights()
    pre = config.norm_position == "pre"
    settings = {
        "type": "transformer", "dim-emb": config.d_model, "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff, "enc-depth": config.num_encoder_layers,
        "dec-depth": config.num_decoder_layers, "transformer-ffn-activation": config.activation,
        "transformer-preprocess": "n" if pre else "",
        "transformer-postprocess": "da" if pre else "dan",
        "transformer-postprocess-top": "n" if pre else "",
        "transformer-postprocess-emb": "d", "transformer-decoder-autoreg": "self-attention",
        "transformer-no-projection": False, "transformer-guided-alignment-layer": "last",
    }  # fmt: skip
    arrays = {"special:model.yml": np.frombuffer(yaml.dump(settings).encode() + b"\0", np.int8)}
    layers = layers_to_marian(weights, config)
    for part in weight_maps(config):
        for end, name in zip(("weight", "bias"), marian_names(part), strict=True):
            inside = pre and "_ln_" in name and "_top_" not in name
            array = layers[f"{part.theirs}.{end}"]
            arrays[name + "_pre" * inside] = array.T if array.ndim == 2 else array[None]
    words = weights["source_embedding.words.weight"][:, np.argsort(interleaved(config.d_model))]
    sides = ("encoder_", "decoder_") if tied == "target" else ("",)
    arrays |= {f"{side}Wemb": words for side in sides}
    if tied == "none":
        arrays["decoder_ff_logit_out_W"] = words.T
    bias = np.random.default_rng(1).normal(0, 0.1, (1, len(pieces)))
    arrays["decoder_ff_logit_out_b"] = bias.astype(np.float32)
    np.savez(folder / "model.npz", **arrays)
    named = {"models": ["model.npz"], "vocabs": ["vocab.yml", "vocab.yml"], "beam-size": 6}
    (folder / "decoder.yml").write_text(yaml.dump(named | {"normalize": 1.0}))
    return folder


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_marians_own_files_say_what_ctranslate2_makes_of_them(
    trained: Path, tmp_path: Path, tied: str
) -> None:
    original = read_bundle(trained)
    folder = marian_folder(tmp_path / "marian", original, tied)
    vocabulary = str(folder / "vocab.yml")
    converter = ctranslate2.converters.MarianConverter(
        str(folder / "model.npz"), [vocabulary, vocabulary]
    )
    converter.convert(str(tmp_path / "theirs"))
    bundle = from_marian(folder, "de", "en")
    assert (bundle.config.decoding.beam_size, bundle.config.model.norm_position) == (6, "pre")
    assert bundle.config.model.share_embeddings == tied
    write_bundle(tmp_path / "ours", to_onnx(bundle))
    pieces = bundle.codec.source.pieces
    never = [bundle.codec.target.pieces[i] for i in bundle.codec.target.never]
    found = ctranslate2.Translator(str(tmp_path / "theirs")).translate_batch(
        [[pieces[i] for i in ids[:-1]] for ids in bundle.codec.encode_source(LINES)],
        beam_size=1, max_decoding_length=LONGEST, min_decoding_length=0,
        suppress_sequences=[[piece] for piece in never if piece != ZEROS],
    )  # fmt: skip
    theirs = [tuple(result.hypotheses[0]) for result in found]
    assert said_by_us(tmp_path / "ours", 1) == theirs
    assert_lengths_vary(theirs)
    # CTranslate2's folder of it becomes the same bundle
    for name in ("source.spm", "target.spm"):
        shutil.copy(folder / name, tmp_path / "theirs" / name)
    again = from_ctranslate2(tmp_path / "theirs")
    assert again.codec.encode_source(LINES) == bundle.codec.encode_source(LINES)
    write_bundle(tmp_path / "again", again)
    assert said_by_us(tmp_path / "again", 1) == theirs


def test_int8_says_nearly_the_same(trained: Path, tmp_path: Path, monkeypatch) -> None:
    """CTranslate2's int8 weights and ours are at most 0.3 BLEU apart."""
    sources, references = (list(side) for side in zip(*toy_pairs(300, seed=5), strict=True))
    folder = stored_as("int8", read_bundle(trained), tmp_path / "theirs", monkeypatch)
    again = from_ctranslate2(folder, source_end=True)
    write_bundle(tmp_path / "int8", to_onnx(again, int8=True))
    before, after = (
        Translator.load(where, "cpu")(sources) for where in (trained, tmp_path / "int8")
    )
    assert abs(bleu(after, references) - bleu(before, references)) <= 0.3
