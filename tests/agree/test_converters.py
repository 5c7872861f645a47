"""Models that leave for CTranslate2 and Hugging Face, and come from there, say the same on both
sides.

`transformers` is imported where it is used: that takes seconds, and every process collects all
tests.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman.bundle.folder import Bundle, read_bundle, write_bundle
from dragoman.config import DecodingConfig, TextConfig, make_config
from dragoman.convert.from_huggingface import from_huggingface
from dragoman.convert.to_ctranslate2 import to_ctranslate2
from dragoman.convert.to_huggingface import to_huggingface
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import ConfigError, ConversionError
from dragoman.model.build import build_model, get_weights
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages
from dragoman.text.subword import BytePairs
from tests.conftest import SMALL, toy_pairs, train_the_toy_language

LINES = [source for source, _ in toy_pairs(60, seed=31, longest=9)]
LONGEST = 20
BEAMS = [1, 4]


def decoding(beam: int) -> DecodingConfig:
    """Search as CTranslate2 and `transformers` score it: by the mean log-probability."""
    return DecodingConfig(
        beam_size=beam,
        length_penalty="power",
        length_penalty_alpha=1.0,
        max_length_ratio=0,
        max_length_extra=LONGEST,
    )


def random_bundle(seed: int = 3, **settings: object) -> Bundle:
    """Post-norm by default, on real pieces, with weights large enough to matter."""
    sides = [list(side) for side in zip(*toy_pairs(500), strict=True)]
    codec = Codec.learn(sides[0], sides[1], TextConfig(vocab_size=300), Languages(("de",), ("en",)))
    named = {name.replace("__", "."): value for name, value in settings.items()}
    config = make_config(
        "tiny",
        settings={**SMALL, "model.norm_position": "post", "model.output_bias": True, **named},
    )
    model = build_model(config.model, codec.source, codec.target, codec.shared, seed=seed)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=draw))
    return Bundle(
        config, codec, {name: tensor.numpy() for name, tensor in get_weights(model).items()}, {}
    )


def assert_lengths_vary(found: list[tuple[str, ...]]) -> None:
    """Check that sentences end after some words; otherwise a test of search would test nothing."""
    assert len({len(pieces) for pieces in found}) > 2
    assert sum(0 < len(pieces) < LONGEST for pieces in found) > len(found) / 3


def pieces_of(folder: Path, beam: int) -> list[tuple[str, ...]]:
    translator = dragoman.load(folder, device="cpu")
    return [
        t.candidates[0].pieces
        for t in translator.translate(LINES, Request(decoding=decoding(beam)))
    ]


@pytest.fixture(scope="module")
def post_norm(shared: Callable[..., Path]) -> Path:
    """Train a post-norm model that has learned to end sentences."""

    def make(folder: Path) -> None:
        train_the_toy_language(
            folder, model__norm_position="post", model__output_bias=True, training__max_steps=60,
            training__validate_every=0,
        )  # fmt: skip

    return shared("post_norm", make) / "run"


VARIANTS = [
    {},
    {"model__norm_position": "pre"},
    {"model__positions__kind": "learned"},
    {"model__share_embeddings": "none"},
    {"model__activation": "gelu"},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_ctranslate2_agrees_on_every_model(tmp_path: Path, settings: dict) -> None:
    bundle = random_bundle(**settings)
    write_bundle(tmp_path / "ours", bundle)
    assert by_ctranslate2(bundle, tmp_path / "theirs", beam=1) == pieces_of(
        tmp_path / "ours", beam=1
    )


@pytest.mark.parametrize("beam", BEAMS)
def test_ctranslate2_searches_as_we_do(trained: Path, tmp_path: Path, beam: int) -> None:
    ours = pieces_of(trained, beam)
    assert by_ctranslate2(read_bundle(trained), tmp_path, beam) == ours
    assert_lengths_vary(ours)


def by_ctranslate2(bundle: Bundle, folder: Path, beam: int) -> list[tuple[str, ...]]:
    to_ctranslate2(bundle, folder)
    pieces, target = bundle.codec.source.pieces, bundle.codec.target
    found = ctranslate2.Translator(str(folder), compute_type="float32").translate_batch(
        [[pieces[i] for i in ids] for ids in bundle.codec.encode_source(LINES)],
        beam_size=beam, length_penalty=1.0, max_decoding_length=LONGEST, min_decoding_length=0,
        suppress_sequences=[[target.pieces[i]] for i in target.never],
    )  # fmt: skip
    return [tuple(result.hypotheses[0]) for result in found]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("beam", BEAMS)
def test_hugging_face_searches_as_we_do(
    trained: Path, post_norm: Path, tmp_path: Path, beam: int, norm: str
) -> None:
    model = trained if norm == "pre" else post_norm
    assert read_bundle(model).config.model.norm_position == norm
    to_huggingface(read_bundle(model), tmp_path / "theirs")
    texts, pieces = generated(tmp_path / "theirs", beam)
    assert pieces == pieces_of(model, beam)
    assert texts == dragoman.load(model, device="cpu")(LINES, Request(decoding=decoding(beam)))
    assert_lengths_vary(pieces)


def generated(
    folder: Path, beam: int, lines: list[str] = LINES, **options: object
) -> tuple[list[str], list[tuple[str, ...]]]:
    """What `transformers` makes of the lines: texts, and pieces without special ones."""
    from transformers import AutoModelForSeq2SeqLM, MarianTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = MarianTokenizer.from_pretrained(folder)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    search = {"num_beams": beam, "early_stopping": True, "length_penalty": 1.0, "do_sample": False}
    ids = model.generate(
        **batch, **search, max_new_tokens=LONGEST, forced_eos_token_id=None, **options
    )
    vocabulary = {
        number: piece for piece, number in json.loads((folder / "vocab.json").read_text()).items()
    }
    special = {
        model.config.pad_token_id,
        model.config.eos_token_id,
        model.config.decoder_start_token_id,
    }
    pieces = [tuple(vocabulary[i] for i in row if i not in special) for row in ids.tolist()]
    texts = [tokenizer.spm_target.decode_pieces(list(row)) for row in pieces]
    return texts, pieces


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    return opus_folder(tmp_path / "opus-mt-de-en")


def opus_folder(folder: Path) -> Path:
    """A MarianMT folder as OPUS-MT's are: two SentencePiece models, one vocabulary, tags, a bias of
    the logits."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir()
    names = []
    for side, sentences in zip(
        ("source", "target"), zip(*toy_pairs(500), strict=True), strict=True
    ):
        segmenter = BytePairs.learn(sentences, TextConfig(vocab_size=290))
        (folder / f"{side}.spm").write_bytes(segmenter.to_bytes())
        names += [piece for piece in segmenter.vocabulary.pieces[4:] if piece not in names]
    # one piece is unknown to the vocabulary
    pieces = ["</s>", "<unk>", *names[:-1], ">>eng<<", ">>fra<<", "<pad>"]
    (folder / "vocab.json").write_text(
        json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8"
    )
    torch.manual_seed(4)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=len(pieces), d_model=32, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
            activation_function="swish",
            scale_embedding=True, pad_token_id=len(pieces) - 1, eos_token_id=0,
            decoder_start_token_id=len(pieces) - 1,
            max_position_embeddings=128, init_std=0.2,
        )
    )  # fmt: skip
    with torch.no_grad():
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += 7  # else such a model never ends a sentence
        for layer in model.modules():
            if isinstance(layer, torch.nn.LayerNorm):
                layer.weight.uniform_(0.5, 1.5)
                layer.bias.normal_(std=0.1)
    model.generation_config.bad_words_ids = [[len(pieces) - 1]]
    model.generation_config.num_beams = 6
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "de", "target_lang": "en"})
    )
    return folder


def test_a_marian_folder_becomes_a_bundle_with_the_same_logits(marian: Path) -> None:
    from transformers import MarianMTModel

    bundle = from_huggingface(marian)
    model = MarianMTModel.from_pretrained(marian).eval()
    ours = TorchEngine.from_bundle(bundle, "cpu")
    source, target = torch.randint(2, 200, (3, 9)), torch.randint(2, 200, (3, 7))
    with torch.no_grad():
        theirs = model(input_ids=source, decoder_input_ids=target).logits
        hidden = ours.model(source, target)
    torch.testing.assert_close(ours.model.logits(hidden).detach(), theirs, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("engine", ["torch", "onnx"])
@pytest.mark.parametrize("beam", BEAMS)
def test_a_marian_folder_translates_as_before(
    marian: Path, tmp_path: Path, engine: str, beam: int
) -> None:
    tagged = [f">>fra<< {line}" for line in LINES]
    # unknown and tags: we never say them
    never = [[i] for i in from_huggingface(marian).codec.target.never]
    texts, pieces = generated(marian, beam, tagged, bad_words_ids=never)
    assert_lengths_vary(pieces)
    write_bundle(tmp_path / "ours", to_onnx(from_huggingface(marian)))
    translator = dragoman.load(tmp_path / "ours", engine=engine, device="cpu")
    found = translator.translate(LINES, Request(to="fra", decoding=decoding(beam)))
    assert [t.candidates[0].pieces for t in found] == pieces
    assert [t.text for t in found] == texts
    assert translator.config.decoding.beam_size == 6


def test_weights_may_come_as_safetensors_or_as_a_pickle_of_tensors(marian: Path) -> None:
    first = from_huggingface(marian)
    torch.save(load_file(marian / "model.safetensors"), marian / "pytorch_model.bin")
    (marian / "model.safetensors").unlink()
    second = from_huggingface(marian)
    assert all(np.array_equal(second.weights[name], array) for name, array in first.weights.items())
    torch.save({"model": Path("anything else")}, marian / "pytorch_model.bin")
    with pytest.raises(ConversionError, match="cannot be read"):
        from_huggingface(marian)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_there_and_back_again(tmp_path: Path, norm: str) -> None:
    """Our model, sent to Hugging Face and fetched, is our model."""
    bundle = random_bundle(model__norm_position=norm)
    to_huggingface(bundle, tmp_path / "theirs")
    again = from_huggingface(tmp_path / "theirs")
    assert again.codec.to_files() == bundle.codec.to_files()
    assert again.config.model.norm_position == norm
    assert again.weights.keys() == bundle.weights.keys()
    for name, array in bundle.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)


def test_our_export_comes_back_on_the_command_line(dragoman, trained: Path, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    answer = dragoman("convert", "to-huggingface", trained, theirs)
    assert answer.code == 0, answer.err
    assert "wrote" in answer.err
    assert "model.safetensors" in answer.err
    assert "from_pretrained" in answer.err
    assert dragoman("convert", "from-huggingface", theirs, ours).code == 0
    assert dragoman("translate", "eins neun", "--model", ours).out == "one nine\n"
    answer = dragoman("convert", "to-ctranslate2", trained, tmp_path / "ct2")
    assert "model.bin" in answer.err
    assert "ctranslate2.Translator" in answer.err


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"model__positions__kind": "learned"}, "positions.kind=learned"),
     ({"model__share_embeddings": "none"}, "model.share_embeddings=none")],
)  # fmt: skip
def test_models_that_marian_cannot_represent_are_refused_with_the_reason(
    tmp_path: Path, settings: dict, words: str
) -> None:
    with pytest.raises(ConversionError, match=words):
        to_huggingface(random_bundle(**settings), tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"model_type": "t5"}, "type 't5'"), ({"normalize_before": True}, "normalize_before"),
     ({"decoder_ffn_dim": 65}, "ffn_dim"), ({"activation_function": "tanh"}, "tanh")],
)  # fmt: skip
def test_models_that_we_cannot_represent_are_refused_with_the_reason(
    marian: Path, change: dict, words: str
) -> None:
    settings = json.loads((marian / "config.json").read_text())
    (marian / "config.json").write_text(json.dumps({**settings, **change}))
    with pytest.raises(ConversionError, match=words):
        from_huggingface(marian)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_folder_that_lacks_a_file_says_which(marian: Path, name: str) -> None:
    (marian / name).unlink()
    with pytest.raises(ConversionError, match=name):
        from_huggingface(marian)


def test_a_converted_vocabulary_cannot_be_learned() -> None:
    with pytest.raises(ConfigError, match="cannot be learned"):
        Codec.learn(["a"], ["b"], TextConfig(tokenizer="marian"), Languages())


def test_an_architecture_that_others_have_not_is_refused(trained: Path, tmp_path: Path) -> None:
    """Every converter supports only the Transformer, and says so before it writes anything."""
    import dataclasses

    bundle = read_bundle(trained)
    model = dataclasses.replace(bundle.config.model)
    object.__setattr__(model, "architecture", "rnn")
    config = dataclasses.replace(bundle.config)
    object.__setattr__(config, "model", model)
    other = dataclasses.replace(bundle, config=config)
    for convert in (
        to_onnx,
        lambda b: to_ctranslate2(b, tmp_path / "a"),
        lambda b: to_huggingface(b, tmp_path / "b"),
    ):
        with pytest.raises(ConversionError, match="architecture=rnn"):
            convert(other)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("attention.similarity", "cosine"), ("attention.pattern", "local"),
    ("attention.heads_layout", "multi-query"),
     ("attention.projections", False), ("attention.cross_attention_layer", "same-layer"),
     ("positions.kind", "rotary"),
     ("positions.join", "concat"), ("positions.every_layer", True), ("residual", False),
     ("norm_type", "batch"),
     ("feed_forward", False)],
)  # fmt: skip
def test_a_variant_that_others_have_not_is_refused(
    setting: str, value: object, tmp_path: Path
) -> None:
    bundle = random_bundle(**{f"model.{setting}": value})
    for convert in (
        to_onnx,
        lambda b: to_ctranslate2(b, tmp_path / "a"),
        lambda b: to_huggingface(b, tmp_path / "b"),
    ):
        with pytest.raises(ConversionError, match=f"model.{setting}={str(value).lower()}"):
            convert(bundle)
