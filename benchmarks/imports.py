"""Whether imported models say what the originals say: token for token in float32, nearly in int8.

    PYTHONPATH=. python benchmarks/imports.py [--sentences 500]

The models are small. M2M-100, NLLB and the multilingual OPUS-MT are random, but end their
sentences; the others hold a model that has learned a toy language, written in each system's form.
The originals are run by `transformers` and CTranslate2.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import ctranslate2

import dragoman
from dragoman.bundle.folder import Bundle, read_bundle
from dragoman.convert.from_ctranslate2 import from_argos, from_ctranslate2
from dragoman.convert.from_huggingface import from_huggingface
from dragoman.convert.from_marian import from_marian
from dragoman.convert.to_ctranslate2 import to_ctranslate2
from dragoman.convert.to_huggingface import to_huggingface
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.engine.factory import make_engine
from dragoman.text.codec import ZEROS
from dragoman.text.metrics import bleu
from tests.agree.test_converters import LONGEST, decoding, opus_folder
from tests.agree.test_converters import generated as generated_by_marian
from tests.agree.test_imports import argos_package, marian_folder
from tests.agree.test_multilingual_imports import generated, m2m_folder, nllb_folder
from tests.conftest import SMALL, toy_pairs, write_corpus

Pieces = Sequence[tuple[str, ...]]


def learned(folder: Path, norm: str) -> Bundle:
    settings = {
        **SMALL, "model.norm_position": norm, "text.vocab_size": 400,
        "training.batch_tokens": 1000, "training.max_steps": 180,
        "training.validate_every": 90, "training.warmup_steps": 30, "data.valid_size": 50,
        "training.optimizer": "muon", "training.schedule": "linear",
        "training.learning_rate": 2e-2, "model.dropout": 0.0,
    }  # fmt: skip
    files = write_corpus(folder, "train", toy_pairs(2000))
    dragoman.train(*files, folder / "run", preset="tiny", settings=settings, device="cpu")
    return read_bundle(folder / "run")


def by_ctranslate2(folder: Path, bundle: Bundle, lines: list[str], end: bool = True) -> Pieces:
    codec = bundle.codec
    never = [codec.target.pieces[i] for i in codec.target.never]
    sources = [ids if end else ids[:-1] for ids in codec.encode_source(lines)]
    found = ctranslate2.Translator(str(folder), compute_type="float32").translate_batch(
        [[codec.source.pieces[i] for i in ids] for ids in sources],
        beam_size=1, max_decoding_length=LONGEST, min_decoding_length=0,
        suppress_sequences=[[piece] for piece in never if piece != ZEROS],
    )  # fmt: skip
    return [tuple(result.hypotheses[0]) for result in found]


def report(
    name: str, bundle: Bundle, theirs: Pieces, lines: list[str], references: list[str],
    request: Request = Request(),
) -> None:  # fmt: skip
    request = Request(request.to, request.source_language, decoding(1))
    texts = []
    equal = 0
    for int8 in (False, True):
        made = to_onnx(bundle, int8)
        translator = Translator(make_engine(made, "cpu", "onnx"), made.codec, made.config)
        found = translator.translate(lines, request)
        texts.append([translation.text for translation in found])
        if not int8:
            said = [translation.candidates[0].pieces for translation in found]
            equal = sum(a == tuple(b) for a, b in zip(said, theirs, strict=True))
    if references:
        apart = abs(bleu(texts[0], references) - bleu(texts[1], references))
        told = f"    {apart:.2f} BLEU apart in int8"
    else:
        told = ""
    print(f"{name:<24} {equal:>4} of {len(lines)} equal{told}", flush=True)


def multilingual(name: str, make: Callable[[Path], Path], folder: Path, lines: list[str]) -> None:
    source, target = ("de", "en") if name == "M2M-100" else ("deu_Latn", "eng_Latn")
    folder.mkdir()
    bundle = from_huggingface(make(folder))
    codec = bundle.codec
    ids = codec.encode_source(lines, target, source)
    theirs = generated(folder, ids, codec.forced_start(target)[0], codec.target.never, 1)
    pieces = [tuple(codec.target.pieces[i] for i in row) for row in theirs]
    report(name, bundle, pieces, lines, [], Request(target, source))


def opus(folder: Path, lines: list[str], references: list[str]) -> None:
    """MarianMT as OPUS-MT's models are: of one direction, and with a tag for the target."""
    one = folder / "opus"
    to_huggingface(learned(folder / "post", "post"), one)
    _, pieces = generated_by_marian(one, 1, lines)
    report("OPUS-MT", from_huggingface(one), pieces, lines, references)
    many = opus_folder(folder / "multilingual")
    ours = from_huggingface(many)
    never = [[i] for i in ours.codec.target.never]
    tagged = [f">>fra<< {line}" for line in lines]
    _, pieces = generated_by_marian(many, 1, tagged, bad_words_ids=never)
    report("multilingual OPUS-MT", ours, pieces, lines, [], Request("fra"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=500)
    count = parser.parse_args().sentences
    lines, references = (list(s) for s in zip(*toy_pairs(count, 31, 9), strict=True))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = learned(folder, "pre")
        opus(folder, lines, references)
        multilingual("M2M-100", m2m_folder, folder / "m2m", lines)
        multilingual("NLLB", nllb_folder, folder / "nllb", lines)
        optimise = ctranslate2.specs.TransformerSpec.optimize
        for kind in ("float32", "float16", "int8"):
            where = folder / kind
            copy = read_bundle(folder / "run")  # CTranslate2 changes weights in place
            with mock.patch.object(
                ctranslate2.specs.TransformerSpec, "optimize", lambda s, k=kind: optimise(s, k)
            ):
                to_ctranslate2(copy, where)
            theirs = by_ctranslate2(where, bundle, lines)
            ours = from_ctranslate2(where, source_end=True)
            report(f"CTranslate2 {kind}", ours, theirs, lines, references)
        model = folder / "float32"
        package = argos_package(folder / "a.argosmodel", model, model / "shared.spm")
        ours = from_argos(package)
        report("Argos", ours, by_ctranslate2(model, ours, lines), lines, references)
        marian = marian_folder(folder / "marian", bundle)
        vocabularies = [str(marian / "vocab.yml")] * 2
        ctranslate2.converters.MarianConverter(str(marian / "model.npz"), vocabularies).convert(
            str(folder / "theirs")
        )
        ours = from_marian(marian)
        theirs = by_ctranslate2(folder / "theirs", ours, lines, end=False)
        report("Marian .npz", ours, theirs, lines, references)


if __name__ == "__main__":
    main()
