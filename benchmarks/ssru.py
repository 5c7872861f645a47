"""The SSRU on a CPU: SSRU and self-attention, int8 and float32, our engine and Bergamot's

    python benchmarks/ssru.py speed                    random weights in Firefox's tiny shape
    python benchmarks/ssru.py bleu RUN SOURCE TARGET   a trained model, float32 and int8
    python benchmarks/ssru.py bergamot                 needs what tests/marian_files.py says

The time of a step does not depend on the weights, so speed is measured with random ones. Their
hypotheses never end: every sentence is searched up to the same length. One thread; all times are
CPU times, which other programs disturb less than the clock.
"""

import argparse
import gzip
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sentencepiece

import dragoman
from dragoman.bundle.folder import Bundle, read_bundle, write_bundle
from dragoman.bundle.plain_weights import plain_weights
from dragoman.config import DecodingConfig, make_config
from dragoman.convert.from_marian import from_marian
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.search.table import BeamSearch
from dragoman.decode.search.task import Task
from dragoman.decode.translator import Translator
from dragoman.engine.onnx_engine import OnnxEngine
from dragoman.text.codec import Codec
from dragoman.text.metrics import score
from dragoman.text.vocabulary import Vocabulary

PIECES = 500  # of the vocabulary: about what a shortlist leaves
TINY = {
    "model.d_model": 256, "model.num_heads": 8, "model.d_ff": 1536,
    "model.num_encoder_layers": 6, "model.num_decoder_layers": 2, "model.output_bias": True,
}  # fmt: skip
EXAMPLES = Path(__file__).parents[1] / "examples"


class BareCodec(Codec):
    """A codec that only has ids."""

    def __init__(self) -> None:
        words = (f"w{i}" for i in range(PIECES - 4))
        self._vocabulary = Vocabulary(("<pad>", "<unk>", "<s>", "</s>", *words))

    source = target = property(lambda self: self._vocabulary)
    shared = property(lambda self: True)


def random_bundle(sublayer: str) -> Bundle:
    config = make_config("base", settings={**TINY, "model.decoder_self_attention": sublayer})
    draw = np.random.default_rng(1)
    weights = {}
    for name, shape in plain_weights(config.model, PIECES, PIECES, True):
        array = draw.normal(size=shape).astype(np.float32)
        weights[name] = array / shape[-1] ** 0.5 if len(shape) == 2 else 0.1 * array
        if name.endswith("norm.weight"):
            weights[name] = np.ones(shape, dtype=np.float32)
    weights["output.bias"][3] = -100  # the end
    return Bundle(config, BareCodec(), weights, {})


def speed(kinds: str = "float32,int8") -> None:
    print("| search | target pieces | attention, ms a sentence | SSRU | ratio |")
    print("|---|---|---|---|---|")
    for kind in kinds.split(","):
        int8 = kind == "int8"
        engines = [
            OnnxEngine(to_onnx(random_bundle(sublayer), int8), threads=1)
            for sublayer in ("attention", "ssru")
        ]
        for beam, sentences in ((1, 1), (1, 32), (4, 1), (4, 32)):
            for length in (20, 80):
                rows = [_per_sentence(engine, beam, sentences, length) for engine in engines]
                name = f"{kind}, beam {beam}, {sentences} at once"
                times = " | ".join(f"{1000 * row:.1f}" for row in rows)
                print(f"| {name} | {length} | {times} | {rows[0] / rows[1]:.2f} |", flush=True)


def _per_sentence(engine: OnnxEngine, beam: int, sentences: int, length: int) -> float:
    """Seconds, the best of three."""
    draw = np.random.default_rng(2)
    sources = [[*draw.integers(4, PIECES, size=19).tolist(), 3] for _ in range(sentences)]
    settings = DecodingConfig(beam_size=beam, max_length_ratio=0.0, max_length_extra=length)
    search = BeamSearch()
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        found = search(engine, sources, Task(settings))
        best = min(best, time.process_time() - start)
    assert {len(hypotheses[0].tokens) for hypotheses in found} == {length}
    return best / sentences


def bleu(run: str, source: str, target: str) -> None:
    sources, targets = (Path(name).read_text().splitlines() for name in (source, target))
    for int8 in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            write_bundle(Path(folder) / "model", to_onnx(read_bundle(Path(run)), int8))
            translator = dragoman.load(Path(folder) / "model")
            for beam in (1, 4):
                said = [str(text) for text in translator.translate(sources, beam=beam)]
                (figure,) = score(said, [targets], ["BLEU"])
                print(
                    f"{'int8' if int8 else 'float32'}, beam {beam}: BLEU {figure.value:.2f}",
                    flush=True,
                )


def bergamot() -> None:
    from tests import marian_files

    lines = gzip.decompress((EXAMPLES / "tatoeba.de.gz").read_bytes()).decode().splitlines()
    spm = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=spm, vocab_size=6000, eos_id=0, unk_id=1,
        bos_id=-1, minloglevel=2,
    )  # fmt: skip
    settings = {
        "type": "transformer", "dim-emb": 256, "transformer-heads": 8, "transformer-dim-ffn": 1536,
        "enc-depth": 6, "dec-depth": 2, "transformer-ffn-activation": "relu",
        "transformer-preprocess": "", "transformer-postprocess": "dan",
        "transformer-postprocess-top": "", "transformer-decoder-autoreg": "rnn",
        "dec-cell": "ssru", "tied-embeddings-all": True, "version": "v1.9.0",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = marian_files.write_random(folder, spm.getvalue(), settings)
        texts = gzip.decompress((EXAMPLES / "valid.de.gz").read_bytes()).decode().splitlines()[:100]
        bundle = to_onnx(from_marian(folder))
        model = folder / "ours"
        write_bundle(model, bundle)
        codec = bundle.codec
        pieces = sum(2 * len(ids) for ids in codec.encode_source(texts))
        print(f"{len(texts)} sentences, {pieces} target pieces, greedy, one thread")
        for at_once in (1, len(texts)):
            _, seconds = marian_files.bergamot(folder, files, texts, at_once)
            print(f"Bergamot, {at_once} at once: {seconds:.2f} s", flush=True)
            translator = Translator.load(model, threads=1)
            list(translator.translate(texts[:3]))
            start = time.process_time()
            for first in range(0, len(texts), at_once):
                translator.translate(texts[first : first + at_once])
            print(f"dragoman, {at_once} at once: {time.process_time() - start:.2f} s", flush=True)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"speed": speed, "bleu": bleu, "bergamot": bergamot}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*commands])
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    commands[options.what](*options.arguments)
