"""Multilingual models from Hugging Face (M2M-100, NLLB, OPUS-MT with tags) say the same here.

`transformers` is imported where it is used: that takes seconds, and every process collects all
tests.
"""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import sentencepiece
import torch

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.convert.from_huggingface import from_huggingface, marian_languages
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.errors import ConversionError, TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.languages import Languages
from tests.agree.test_converters import LINES, LONGEST, assert_lengths_vary, decoding
from tests.conftest import toy_pairs

SIZES = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "dropout": 0.0,
}  # fmt: skip
NLLB_CODES = ["deu_Latn", "eng_Latn", "fra_Latn"]


def spm(**special: object) -> bytes:
    """SentencePiece with the special pieces of fairseq: <unk> is 0, <s> is 1, </s> is 2."""
    words = [side for pair in toy_pairs(500) for side in pair]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_writer=model, model_type="bpe", vocab_size=80,
        hard_vocab_limit=False, minloglevel=2, **special,
    )  # fmt: skip
    return model.getvalue()


def pieces_of_spm(raw: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(raw)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def random_model(size: int, end: float, seed: int = 4) -> torch.nn.Module:
    """Weights large enough that outputs differ; `end` is added to the logit of the end, which such
    a model would never reach."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    torch.manual_seed(seed)
    config = M2M100Config(vocab_size=size, scale_embedding=True, init_std=0.2, **SIZES)
    model = M2M100ForConditionalGeneration(config)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, torch.nn.LayerNorm):
                layer.weight.uniform_(0.5, 1.5)
                layer.bias.normal_(std=0.1)
            if isinstance(layer, torch.nn.Linear) and layer is not model.lm_head:
                layer.weight.mul_(2)  # otherwise the model repeats each piece forever
        direction = model.get_input_embeddings().weight[2]
        model.model.decoder.layer_norm.bias += end * direction / direction.square().sum()
    return model


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return m2m_folder(tmp_path_factory.mktemp("m2m"))


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nllb_folder(tmp_path_factory.mktemp("nllb"))


def m2m_folder(folder: Path) -> Path:
    from transformers import M2M100Tokenizer

    raw = spm()
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of_spm(raw)[3:]]
    (folder / "sentencepiece.bpe.model").write_bytes(raw)
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(vocabulary)}))
    files = [str(folder / name) for name in ("vocab.json", "sentencepiece.bpe.model")]
    M2M100Tokenizer(*files, src_lang="de", tgt_lang="en").save_pretrained(folder)
    random_model(len(vocabulary) + 108, end=2, seed=3).save_pretrained(folder)
    return folder


def nllb_folder(folder: Path) -> Path:
    from transformers import NllbTokenizer

    raw = spm()
    (folder / "sentencepiece.bpe.model").write_bytes(raw)
    settings = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": NLLB_CODES}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = NllbTokenizer.from_pretrained(folder, src_lang="deu_Latn", tgt_lang="eng_Latn")
    tokenizer.save_pretrained(folder)
    random_model(len(tokenizer), end=1.5).save_pretrained(folder)
    return folder


def generated(
    folder: Path, ids: list[list[int]], first: int, never: Sequence[int], beam: int
) -> list[list[int]]:
    """Translate the sources with `transformers`; return the ids after the language token."""
    from transformers import M2M100ForConditionalGeneration

    model = M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    longest = max(map(len, ids))
    padded = torch.tensor([row + [1] * (longest - len(row)) for row in ids])
    out = model.generate(
        padded, attention_mask=(padded != 1).long(), num_beams=beam, max_new_tokens=LONGEST,
        forced_bos_token_id=first, length_penalty=1.0, early_stopping=True, do_sample=False,
        forced_eos_token_id=None, pad_token_id=1,
        bad_words_ids=[[i] for i in never],
    )  # fmt: skip
    found = []
    for row in out.tolist():
        said = row[2:]  # </s>, the language
        found.append(said[: said.index(2)] if 2 in said else said)
    return found


@pytest.mark.parametrize("engine", ["torch", "onnx"])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("kind", ["m2m", "nllb"])
def test_they_search_as_we_do(
    kind: str, beam: int, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    source, target = ("de", "en") if kind == "m2m" else ("deu_Latn", "eng_Latn")
    bundle = from_huggingface(folder)
    write_bundle(tmp_path / "ours", bundle)
    bundle = read_bundle(tmp_path / "ours")
    ids = bundle.codec.encode_source(LINES, target, source)
    first = bundle.codec.forced_start(target)[0]
    theirs = generated(folder, ids, first, bundle.codec.target.never, beam)
    translator = Translator.load(tmp_path / "ours", "cpu", engine)
    wanted = Request(to=target, source_language=source, decoding=decoding(beam))
    ours = [t.candidates[0].pieces for t in translator.translate(LINES, wanted)]
    assert ours == [tuple(bundle.codec.target.pieces[i] for i in row) for row in theirs]
    assert_lengths_vary(ours)


def test_m2m_sources_are_framed_as_its_tokenizer_does(m2m: Path) -> None:
    from transformers import M2M100Tokenizer

    codec = from_huggingface(m2m).codec
    tokenizer = M2M100Tokenizer.from_pretrained(m2m, src_lang="de", tgt_lang="fr")
    assert codec.encode_source(LINES, "fr", "de") == tokenizer(LINES).input_ids
    assert codec.forced_start("fr") == [tokenizer.get_lang_id("fr")]
    assert len(codec.languages.targets) == 100


def test_nllb_sources_are_framed_as_its_tokenizer_does(nllb: Path) -> None:
    from transformers import NllbTokenizer

    codec = from_huggingface(nllb).codec
    tokenizer = NllbTokenizer.from_pretrained(nllb, src_lang="fra_Latn", tgt_lang="deu_Latn")
    assert codec.encode_source(LINES, "deu_Latn", "fra_Latn") == tokenizer(LINES).input_ids
    assert codec.languages.targets == tuple(NLLB_CODES)


def test_the_language_of_a_text_is_guessed_or_asked_for(m2m: Path, nllb: Path, tmp_path) -> None:
    for name, folder in (("m2m", m2m), ("nllb", nllb)):
        write_bundle(tmp_path / name, to_onnx(from_huggingface(folder)))
    guessing = Translator.load(tmp_path / "m2m", "cpu")
    told = Request(to="en", source_language="de")
    text = "das ist nicht die Stadt"
    assert guessing(text, Request(to="en")) == guessing(text, told)
    with pytest.raises(TranslationError, match="needs the language of the text"):
        Translator.load(tmp_path / "nllb", "cpu")("eins", Request(to="eng_Latn"))


def test_scores_alignments_and_attention_leave_the_language_out(m2m: Path, tmp_path) -> None:
    write_bundle(tmp_path / "ours", from_huggingface(m2m))
    translator = InspectableTranslator.load(tmp_path / "ours", "cpu")
    wanted = Request(to="en", source_language="de", alignments=True, decoding=decoding(1))
    (found,) = translator.translate(["eins zwei drei"], wanted)
    best = found.candidates[0]
    assert not any(piece.startswith("__") for piece in best.pieces)
    (scored,) = translator.score(["eins zwei drei"], [best.text], "en", "de")
    if len(scored) == len(best.log_probs):
        assert scored == pytest.approx(best.log_probs, abs=1e-3)
    shown = translator.attention("eins zwei drei", best.pieces, wanted)
    assert shown["target"][0] == "__en__"


def test_families_are_no_languages_of_opus_models() -> None:
    pieces = ["</s>", ">>deu<<", ">>fra<<"]
    assert marian_languages(pieces, "gem", "mul") == Languages((), ("deu", "fra"))
    assert marian_languages(pieces[:1], "de", "roa") == Languages(("de",), ())


def test_a_vocabulary_that_is_too_large_is_refused(m2m: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(m2m, tmp_path / "forged"))
    ids = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(ids | {f"more {i}": 200 + i for i in range(99)}))
    with pytest.raises(ConversionError, match="a number outside"):
        from_huggingface(folder)
