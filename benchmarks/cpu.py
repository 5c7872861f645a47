"""Translation speed on a CPU: dragoman's ONNX engine beside CTranslate2 and Hugging Face Marian, on
the same weights.

    python benchmarks/cpu.py [--model runs/demo] [--peers ctranslate2,huggingface] [--repeat 2]
    python benchmarks/cpu.py --presets base,base-fast,small,small-fast

Without --model: the base shape with random weights and 16,000 pieces, 64 sentences of 12-40 tokens,
30 target tokens each. With --model: that bundle on the validation sentences of the examples, as
long as their translations are, and, if it has a shortlist, with and without that. --presets:
dragoman alone, on the shapes of these presets. Target tokens per second, the best of some tries;
"at once" is batches of 32 on a core each, for whoever can do that.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from dragoman.bundle import Bundle, read_bundle, write_bundle
from dragoman.config import DecodingConfig, TextConfig, make_config
from dragoman.convert.ctranslate2 import to_ctranslate2
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.parallel import search_batches
from dragoman.decode.search import beam_search
from dragoman.engine.onnx_engine import OnnxEngine
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages
from dragoman.text.parallel import read_lines

EXAMPLES = Path(__file__).parent.parent / "examples"
CELLS = [
    ("greedy, batch 32", 1, 32),
    ("beam 4, batch 32", 4, 32),
    ("greedy, one", 1, 1),
    ("beam 4, one", 4, 1),
]
TOKENS = 30
FIXED = DecodingConfig(max_length_ratio=0, max_length_extra=TOKENS, min_length_ratio=1000)
CORES = len(os.sched_getaffinity(0))
Item = TypeVar("Item")
Run = Callable[[list[list[int]], int, int], int]
"""Sources, beam and batch size to the number of target tokens made."""


def random_bundle(preset: str = "base", size: int = 16_000) -> Bundle:
    """A preset's shape with random weights; the pieces are learned from the examples and filled
    up."""
    import torch

    from dragoman.model.build import build_model
    from dragoman.model.weights import get_weights
    from dragoman.text.vocabulary import Vocabulary

    config = make_config(preset, settings={"text.size": size})
    sides = [list(read_lines(str(EXAMPLES / f"tatoeba.{side}.gz"))) for side in ("de", "en")]
    codec = Codec.learn(*sides, TextConfig(size=size), Languages(("de",), ("en",)))
    missing = size - len(codec.source)
    pieces = Vocabulary((*codec.source.pieces, *(f"<{i}>" for i in range(missing))))
    codec.source_segmenter.vocabulary = pieces  # type: ignore[misc]
    with torch.no_grad():
        model = build_model(config.model, pieces, pieces, shared=True, seed=1)
    return Bundle(
        config, codec, {name: tensor.numpy() for name, tensor in get_weights(model).items()}, {}
    )


def cut(sources: list[Item], batch: int, at_once: bool) -> list[list[Item]]:
    """Batches; where each core has one alone, long and short sentences for each, so that all end
    together."""
    count = -(-len(sources) // batch)
    if at_once and count == CORES:
        return [sources[i::count] for i in range(count)]
    return [sources[i * batch : (i + 1) * batch] for i in range(count)]


def dragoman_run(
    bundle: Bundle, decoding: DecodingConfig, parallel: bool, shortlist: bool = False
) -> Run:
    engine = OnnxEngine(bundle) if shortlist else OnnxEngine(bundle).without_shortlist

    def run(sources: list[list[int]], beam: int, batch: int) -> int:
        settings = replace(decoding, beam=beam)
        batches = cut(sources, batch, parallel)
        in_order = batch == 1 or not parallel
        found = search_batches(
            engine, batches, lambda e, sources: beam_search(e, sources, settings), in_order
        )
        return sum(len(hypotheses[0].log_probs) for group in found for hypotheses in group)

    return run


def ctranslate2_run(folder: Path, bundle: Bundle, fixed: bool, kind: str, parallel: bool) -> Run:
    import ctranslate2

    threads = {"inter_threads": CORES, "intra_threads": 1} if parallel else {"intra_threads": CORES}
    peer = ctranslate2.Translator(str(folder), device="cpu", compute_type=kind, **threads)
    limits = {"min_decoding_length": TOKENS, "max_decoding_length": TOKENS} if fixed else {}

    def run(sources: list[list[int]], beam: int, batch: int) -> int:
        pieces = [[bundle.codec.source.pieces[i] for i in source] for source in sources]
        if batch == 1:  # one after the other
            done = [
                peer.translate_batch([source], beam_size=beam, **limits)[0] for source in pieces
            ]
        elif parallel:
            given = [
                peer.translate_batch(g, beam_size=beam, asynchronous=True, **limits)
                for g in cut(pieces, batch, True)
            ]
            done = [waited.result() for group in given for waited in group]
        else:
            done = peer.translate_batch(pieces, beam_size=beam, max_batch_size=batch, **limits)
        return sum(len(result.hypotheses[0]) + (not fixed) for result in done)

    return run


def huggingface_run(folder: Path, pad: int, fixed: bool) -> Run:
    import torch
    from transformers import MarianMTModel, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = MarianMTModel.from_pretrained(folder).eval()
    limits = (
        {"min_new_tokens": TOKENS, "max_new_tokens": TOKENS} if fixed else {"max_new_tokens": 200}
    )

    def run(sources: list[list[int]], beam: int, batch: int) -> int:
        made = 0
        for i in range(0, len(sources), batch):
            group = sources[i : i + batch]
            ids = torch.full((len(group), max(map(len, group))), pad)
            for row, source in zip(ids, group, strict=True):
                row[: len(source)] = torch.tensor(source)
            with torch.inference_mode():
                out = model.generate(
                    input_ids=ids, attention_mask=(ids != pad).long(), num_beams=beam,
                    bad_words_ids=None,
                    forced_eos_token_id=None, **limits,
                )  # fmt: skip
            made += int((out[:, 1:] != pad).sum())
        return made

    return run


def measure(run: Run, sources: list[list[int]], repeat: int) -> list[float]:
    """Target tokens per second in each cell."""
    speeds = []
    for _, beam, batch in CELLS:
        given = sources if batch > 1 else sources[::8]
        run(given[:batch], beam, batch)
        best = 0.0
        for _ in range(repeat):
            start = time.perf_counter()
            best = max(best, run(given, beam, batch) / (time.perf_counter() - start))
        speeds.append(best)
    return speeds


def random_sources(bundle: Bundle) -> list[list[int]]:
    draw = np.random.default_rng(0)
    lengths = draw.integers(12, 40, size=64)
    sources = [
        [*draw.integers(300, 8000, size=n).tolist(), bundle.codec.source.eos] for n in lengths
    ]
    return sorted(sources, key=len, reverse=True)


def head(title: str) -> None:
    print(
        f"{title}, {CORES} cores\n\n| target tokens/s (ratio) |",
        " | ".join(name for name, *_ in CELLS),
        "|",
    )
    print("|---|" + "---|" * len(CELLS))


def compare_presets(presets: list[str], repeat: int) -> None:
    """The first of them is what the others are measured against; 16,000 pieces for all."""
    head("int8, random weights")
    first = None
    for preset in presets:
        bundle = random_bundle(preset)
        model = bundle.config.model
        speeds = measure(
            dragoman_run(to_onnx(bundle, int8=True), FIXED, True), random_sources(bundle), repeat
        )
        first = first or speeds
        show(f"`{preset}`, {model.encoder_layers}+{model.decoder_layers}", speeds, first)


def show(name: str, speeds: Sequence[float], beside: Sequence[float] | None = None) -> None:
    ratios = beside or [0.0] * len(speeds)
    cells = [
        f"{v:,.0f}" + (f" ({v / b:.2f})" if b else "") for v, b in zip(speeds, ratios, strict=True)
    ]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def start_times(folder: Path) -> None:
    program = (
        "import time; a = time.perf_counter(); import dragoman; b = time.perf_counter(); "
        f"dragoman.load({str(folder)!r})('Wo ist der Bahnhof?'); print(b - a, time.perf_counter() "
        f"- b)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    print(
        f"import dragoman: {float(done[0]):.2f} s; load and first translation: "
        f"{float(done[1]):.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a trained bundle instead of the base shape")
    parser.add_argument("--peers", default="ctranslate2,huggingface")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--presets", help="compare these shapes instead, joined by commas")
    arguments = parser.parse_args()
    if arguments.presets:
        compare_presets(arguments.presets.split(","), arguments.repeat)
        return
    fixed = arguments.model is None
    peers = arguments.peers.split(",")
    bundle = random_bundle() if fixed else read_bundle(arguments.model)
    decoding = FIXED if fixed else bundle.config.decoding
    if fixed:
        sources = random_sources(bundle)
    else:
        to = bundle.codec.languages.default_target("de")
        sources = bundle.codec.encode_source(list(read_lines(str(EXAMPLES / "valid.de.gz"))), to)
        sources.sort(key=len, reverse=True)
    head(f"{'base shape, random weights' if fixed else arguments.model}, {len(sources)} sentences")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        to_ctranslate2(bundle, folder / "ct2")
        against = None
        if "ctranslate2" in peers:
            against = measure(
                ctranslate2_run(folder / "ct2", bundle, fixed, "int8", False),
                sources,
                arguments.repeat,
            )
        int8 = to_onnx(bundle, int8=True)
        show(
            "dragoman int8",
            measure(dragoman_run(int8, decoding, True), sources, arguments.repeat),
            against,
        )
        if int8.shortlist is not None:
            listed = measure(
                dragoman_run(int8, decoding, True, shortlist=True), sources, arguments.repeat
            )
            show("dragoman int8, shortlist", listed, against)
        show(
            "dragoman int8, one batch",
            measure(dragoman_run(int8, decoding, False), sources, arguments.repeat),
            against,
        )
        float32 = to_onnx(replace(bundle, weights=bundle.float_weights()))
        show(
            "dragoman float32", measure(dragoman_run(float32, decoding, True), sources, 1), against
        )
        if against:
            show("CTranslate2 int8", against, against)
            at_once = measure(
                ctranslate2_run(folder / "ct2", bundle, fixed, "int8", True),
                sources,
                arguments.repeat,
            )
            show("CTranslate2 int8, at once", at_once, against)
            slow = measure(
                ctranslate2_run(folder / "ct2", bundle, fixed, "float32", False), sources, 1
            )
            show("CTranslate2 float32", slow, against)
        if "huggingface" in peers and bundle.config.model.norm == "post":
            from dragoman.convert.to_huggingface import to_huggingface

            to_huggingface(bundle, folder / "hf")
            hugging = huggingface_run(folder / "hf", bundle.codec.source.pad, fixed)
            show("Hugging Face Marian float32", measure(hugging, sources, 1), against)
        elif "huggingface" in peers:
            print(
                "\n(Hugging Face's Marian has no norms before the sublayers: it cannot hold this "
                "model.)"
            )
        if not fixed:
            write_bundle(folder / "int8", int8)
            start_times(folder / "int8")


if __name__ == "__main__":
    main()
