"""Speed of an imported model of OPUS-MT's shape: dragoman, CTranslate2 and Hugging Face.

    taskset -c 0,1 python benchmarks/opus.py [--repeat 3]

The model has 6+6 layers, width 512 and 58,101 pieces, like Helsinki-NLP/opus-mt-de-en. It is
random, so it never ends a sentence: sources of 12-40 tokens are translated into 30 tokens each.
`transformers` makes and saves it, dragoman imports that folder, and CTranslate2 runs the same
weights in int8. Speeds are target tokens per second, the best of some tries, and in brackets the
ratio to the better of CTranslate2's two modes: all cores on one batch, or one batch per core.
Without the `ctranslate2` package its rows are missing.
"""

import argparse
import copy
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from cpu import (
    CELLS,
    CORES,
    FIXED,
    PEER,
    TOKENS,
    Cell,
    Run,
    ctranslate2_run,
    cut,
    dragoman_run,
    measure_cells,
    random_bundle,
    random_sources,
    table,
)
from transformers import MarianConfig, MarianMTModel

from dragoman.convert.from_huggingface import from_huggingface
from dragoman.convert.to_ctranslate2 import to_ctranslate2
from dragoman.convert.to_onnx import to_onnx

PIECES = 58_101


def opus_folder(folder: Path, layers: int = 6, width: int = 512) -> MarianMTModel:
    """A random MarianMT model, saved with pieces that the examples gave and made-up ones."""
    segmenter = random_bundle("tiny").codec.source_segmenter
    known = [piece for piece in segmenter.vocabulary.pieces[4:] if not piece.startswith("<")]
    made_up = [f"<{i}>" for i in range(PIECES - len(known) - 3)]
    pieces = ["</s>", "<unk>", *known, *made_up, "<pad>"]
    folder.mkdir(parents=True)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(segmenter.to_bytes())
    ids = {piece: i for i, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    told = {"source_lang": "de", "target_lang": "en"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    pad = PIECES - 1
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=PIECES, d_model=width, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width, activation_function="swish", scale_embedding=True,
        pad_token_id=pad, eos_token_id=0, forced_eos_token_id=None, decoder_start_token_id=pad,
        max_position_embeddings=512,
    )  # fmt: skip
    model = MarianMTModel(config).eval()
    model.save_pretrained(folder)
    return model


def huggingface_run(model: MarianMTModel) -> Run:
    pad = model.config.pad_token_id

    def run(sources: list[list[int]], beam: int, batch: int) -> int:
        made = 0
        for group in cut(sources, batch, at_once=False):
            rows = [torch.tensor(source) for source in group]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
            with torch.inference_mode():
                found = model.generate(
                    ids, attention_mask=(ids != pad).long(), num_beams=beam, do_sample=False,
                    min_new_tokens=TOKENS, max_new_tokens=TOKENS,
                )  # fmt: skip
            made += len(found) * (found.shape[1] - 1)
        return made

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=0, help="of each cell, at least")
    options = parser.parse_args()
    torch.set_num_threads(CORES)
    theirs = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        peer = opus_folder(work / "opus", options.layers, options.width)
        int8 = to_onnx(from_huggingface(work / "opus"), int8=True)
        sources = random_sources(int8)
        systems: dict[str, tuple[Run, Sequence[Cell]]] = {
            "dragoman int8": (dragoman_run(int8, FIXED, True), CELLS)
        }
        if PEER:
            to_ctranslate2(int8, work / "ctranslate2")
            for parallel in (False, True)[: 1 + (CORES > 1)]:
                theirs.append(f"CTranslate2 int8{', one batch per core' * parallel}")
                run = ctranslate2_run(work / "ctranslate2", int8, True, parallel)
                systems[theirs[-1]] = run, CELLS
        half = copy.deepcopy(peer).to(torch.bfloat16)
        systems["Hugging Face float32"] = huggingface_run(peer), CELLS
        systems["Hugging Face bfloat16"] = huggingface_run(half), CELLS
        shown = measure_cells(systems, sources, theirs, options)
    shape = f"{options.layers}+{options.layers} layers, width {options.width}, {PIECES:,} pieces"
    columns = [name for name, *_ in CELLS]
    table(f"{shape}, {len(sources)} sentences, target tokens/s (ratio)", columns, shown)


if __name__ == "__main__":
    main()
