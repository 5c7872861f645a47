"""Models that Marian trained (pymarian 1.12.42), translated by Marian and by us: word for word.

pymarian has 600 MB and needs an environment of its own: DRAGOMAN_PYMARIAN names its Python.
"""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dragoman
from dragoman.bundle.folder import write_bundle
from dragoman.convert.from_marian import from_marian
from dragoman.convert.to_onnx import to_onnx
from tests.marian_files import (
    BERGAMOT,
    FLOAT_PRODUCTS,
    bergamot,
    packed_model,
    packed_shortlist,
)

PYTHON = os.environ.get("DRAGOMAN_PYMARIAN", "")
EXAMPLES = Path(__file__).parents[2] / "examples"
SSRU = "--transformer-decoder-autoreg rnn --dec-cell ssru"
OPTIONS = (
    "--type transformer --model model.npz --train-sets train.de train.en"
    " --vocabs de.spm en.spm --dim-vocabs 2000 2000 --dim-emb 64 --enc-depth 2 --dec-depth 2"
    " --transformer-heads 4 --transformer-dim-ffn 128 --transformer-ffn-activation relu"
    " --transformer-postprocess dan --tied-embeddings --cpu-threads 1 --mini-batch 64"
    " --max-length 40 --after-batches 600 --learn-rate 0.003 --lr-warmup 200"
    " --cost-type ce-mean-words --label-smoothing 0.1 --seed 1 --workspace 500 --quiet"
)
SEARCH = (
    "--models model.npz --vocabs de.spm en.spm --beam-size {beam} --normalize 1.0 --cpu-threads 1"
    # one sentence at a time: the longest of a batch would decide how long all others may become
    " --mini-batch 1 --max-length 300 --max-length-factor 3 --quiet"
)


def run(folder: Path, script: str) -> str:
    return subprocess.run(
        [PYTHON, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    for side in ("de", "en"):
        with gzip.open(EXAMPLES / f"tatoeba.{side}.gz", "rt") as lines:
            (folder / f"train.{side}").write_text("".join(lines.readlines()[:20_000]))
    run(folder, f"import pymarian; pymarian.Trainer({f'{OPTIONS} {SSRU}'!r}).train()")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON, reason="DRAGOMAN_PYMARIAN names no Python that has pymarian")
@pytest.mark.parametrize("beam", [1, 4])
def test_an_ssru_model_says_word_for_word_what_marian_says(folder, tmp_path, beam) -> None:
    with gzip.open(EXAMPLES / "valid.de.gz", "rt") as lines:
        sources = lines.read().splitlines()[:500]
    (folder / "source.de").write_text("\n".join(sources))
    (folder / "decoder.yml").write_text(
        f"models: [model.npz]\nvocabs: [de.spm, en.spm]\nbeam-size: {beam}\nnormalize: 1.0\n"
    )
    search = SEARCH.format(beam=beam)
    said = run(
        folder,
        f"import pymarian; print(pymarian.Translator({search!r}).translate("
        "open('source.de').read()))",
    )
    theirs = [line.strip() for line in said.removesuffix("\n").split("\n")]
    write_bundle(tmp_path / "ours", from_marian(folder, "de", "en"))
    translator = dragoman.load(tmp_path / "ours", device="cpu")
    ours = [
        candidate.strip()
        for candidate in map(str, translator.translate(sources, source="de", to="en"))
    ]
    assert len(theirs) == len(ours) == 500
    assert len(set(theirs)) > 250
    differ = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    assert differ == []


@pytest.mark.slow
@pytest.mark.skipif(not (PYTHON and BERGAMOT), reason="needs pymarian and Bergamot's engine")
def test_bergamots_engine_reads_the_same_files(folder, tmp_path) -> None:
    """The same bytes there and here. Only the rounding of what they are multiplied with differs, so
    a weak model, whose next words are close, says some sentences differently: none, where neither
    engine rounds it."""
    stored = np.load(folder / "model.npz")
    arrays = {name: stored[name] for name in stored.files}
    settings = arrays.pop("special:model.yml").tobytes().rstrip(b"\0")
    model, lists = tmp_path / "model.deen.intgemm.alphas.bin", tmp_path / "lex.deen.s2t.bin"
    model.write_bytes(packed_model(arrays, settings))
    lists.write_bytes(packed_shortlist([range(2000)] * 2000))
    vocabularies = []
    for side, name in (("de", "srcvocab.deen.spm"), ("en", "trgvocab.deen.spm")):
        shutil.copy(folder / f"{side}.spm", tmp_path / name)
        vocabularies.append(str(tmp_path / name))
    files = {"model": str(model), "shortlist": str(lists), "vocabs": vocabularies}
    with gzip.open(EXAMPLES / "valid.de.gz", "rt") as lines:
        sources = lines.read().splitlines()[:100]
    # scales of activations from the activations themselves, as ours are
    options = {"config": {"gemm-precision": "int8shiftAll"}}
    theirs, _ = bergamot(tmp_path, files | options, sources)
    write_bundle(tmp_path / "ours", to_onnx(from_marian(tmp_path)))
    ours = dragoman.load(tmp_path / "ours")(sources)
    pairs = zip(theirs, ours, strict=True)
    same = sum(their.strip() == str(our).strip() for their, our in pairs)
    assert same >= 80
    assert len(set(theirs)) > 50
    theirs, _ = bergamot(tmp_path, files | options, sources, products=FLOAT_PRODUCTS)
    write_bundle(tmp_path / "exact", from_marian(tmp_path))
    exact = dragoman.load(tmp_path / "exact", engine="torch", device="cpu")(sources)
    assert [text.strip() for text in theirs] == [str(text).strip() for text in exact]
