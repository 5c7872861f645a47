"""Marian's binary files, written from their layout (`dragoman/convert/marian_packed.py`), and
Bergamot's own engine to read them.

DRAGOMAN_BERGAMOT names a folder with `node_modules/@browsermt/bergamot-translator` (0.4.9), as `npm
install @browsermt/bergamot-translator@0.4.9` makes it there.
"""

import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dragoman.convert.marian_packed import FLOAT32, INT8, INTGEMM8, MAGIC
from dragoman.text.subword import pieces_of_model

BERGAMOT = os.environ.get("DRAGOMAN_BERGAMOT", "")
_MULTIPLIED = re.compile(r"_W.?$|Wemb")

# settings that Marian expects in every model
ALWAYS: dict[str, Any] = {
    "bert-train-type-embeddings": True, "bert-type-vocab-size": 2, "dec-cell-base-depth": 2,
    "dec-cell-high-depth": 1, "dim-rnn": 1024, "enc-cell": "gru", "enc-cell-depth": 1,
    "enc-type": "bidirectional", "factors-combine": "sum", "factors-dim-emb": 0,
    "input-types": [], "layer-normalization": False, "lemma-dim-emb": 0, "right-left": False,
    "output-omit-bias": False, "skip": False, "tied-embeddings": False,
    "tied-embeddings-all": True, "tied-embeddings-src": False,
    "transformer-aan-activation": "swish", "transformer-aan-depth": 2,
    "transformer-aan-nogate": False, "transformer-dim-aan": 2048, "transformer-ffn-depth": 2,
    "transformer-guided-alignment-layer": "last", "transformer-no-projection": False,
    "transformer-pool": False, "transformer-postprocess-emb": "d",
    "transformer-rnn-projection": False, "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False, "ulr": False, "ulr-dim-emb": 0,
    "ulr-trainable-transformation": False, "version": "v1.9.56",
}  # fmt: skip
NODE = """
import {Worker} from 'node:worker_threads';
import {readFileSync, writeFileSync} from 'node:fs';
const [folder, job] = process.argv.slice(2);
const {model, shortlist, vocabs, config, texts, at_once, out} = JSON.parse(readFileSync(job));
const worker = new Worker(folder + '/worker/translator-worker.js');
let calls = 0;
const call = (name, ...args) => new Promise((resolve, reject) => {
  const id = ++calls;
  const listen = (message) => {
    if (message.id !== id) return;
    worker.off('message', listen);
    message.error ? reject(new Error(JSON.stringify(message.error))) : resolve(message.result);
  };
  worker.on('message', listen);
  worker.postMessage({id, name, args});
});
const read = (path) => new Uint8Array(readFileSync(path)).buffer;
await call('initialize', {cacheSize: 0});
const pair = {from: 'de', to: 'en'};
await call('loadTranslationModel', pair, {
  model: read(model), shortlist: read(shortlist), vocabs: vocabs.map(read), config});
const work = (texts) => call('translate', {
  models: [pair], texts: texts.map((text) => ({text, html: false, qualityScores: false}))});
await work(texts.slice(0, 3));
const start = process.cpuUsage();
const answers = [];
for (let i = 0; i < texts.length; i += at_once)
  answers.push(...await work(texts.slice(i, i + at_once)));
const {user, system} = process.cpuUsage(start);
const seconds = (user + system) / 1e6;
writeFileSync(out, JSON.stringify({texts: answers.map((a) => a.target.text), seconds}));
process.exit(0);
"""

# Products that only round the weights; they replace the imports of Bergamot's engine. A matrix is
# kept as its bytes, transposed; the other factor is not changed.
FLOAT_PRODUCTS = """
const exact = new Map();  // what would have been rounded, by the place of its bytes
const rounded = (x) => Math.max(-127, Math.min(127, Math.round(x)));
const PRODUCTS = {
  int8_prepare_a(input, scale, zero, rows, width, output) {
    exact.set(output, Module.HEAPF32.slice(input / 4, input / 4 + rows * width));
  },
  int8_prepare_b(input, scale, zero, width, columns, output) {
    for (let j = 0; j < columns; j++)
      for (let i = 0; i < width; i++)
        Module.HEAP8[output + j * width + i] =
          rounded(Module.HEAPF32[input / 4 + i * columns + j] * scale);
  },
  int8_prepare_b_from_transposed(input, scale, zero, width, columns, output) {
    for (let i = 0; i < width * columns; i++)
      Module.HEAP8[output + i] = rounded(Module.HEAPF32[input / 4 + i] * scale);
  },
  int8_prepare_b_from_quantized_transposed(input, width, columns, output) {
    Module.HEAP8.copyWithin(output, input, input + width * columns);
  },
  int8_prepare_bias(b, scaleA, zeroA, scaleB, zeroB, width, columns, bias, output) {
    for (let j = 0; j < columns; j++)
      Module.HEAPF32[output / 4 + j] = bias ? Module.HEAPF32[bias / 4 + j] : 0;
  },
  int8_multiply_and_add_bias(
      a, scaleA, zeroA, b, scaleB, zeroB, bias, factor, rows, width, columns, output) {
    const x = exact.get(a);
    for (let row = 0; row < rows; row++)
      for (let j = 0; j < columns; j++) {
        let sum = 0;
        for (let i = 0; i < width; i++) sum += x[row * width + i] * Module.HEAP8[b + j * width + i];
        Module.HEAPF32[output / 4 + row * columns + j] =
          sum * factor / scaleB + Module.HEAPF32[bias / 4 + j];
      }
  },
  int8_select_columns_of_b(b, width, columns, chosen, count, output) {
    for (let j = 0; j < count; j++) {
      const from = b + Module.HEAPU32[chosen / 4 + j] * width;
      Module.HEAP8.copyWithin(output + j * width, from, from + width);
    }
  },
};
"""


def random_arrays(
    pieces: int, settings: Mapping[str, Any], tied: bool = False
) -> dict[str, np.ndarray]:
    """The weights of a Marian model with an SSRU, by Marian's names."""
    width, inner = settings["dim-emb"], settings["transformer-dim-ffn"]
    norm = {"ln_scale": (1, width), "ln_bias": (1, width)}
    shapes: dict[str, tuple[int, ...]] = {"decoder_ff_logit_out_b": (1, pieces)}
    for name in ["Wemb"] if tied else ["encoder_Wemb", "decoder_Wemb"]:
        shapes[name] = pieces, width
    places = [f"encoder_l{i + 1}_self" for i in range(settings["enc-depth"])]
    places += [f"decoder_l{i + 1}_context" for i in range(settings["dec-depth"])]
    for place in places:
        for letter in "qkvo":
            shapes |= {f"{place}_W{letter}": (width, width), f"{place}_b{letter}": (1, width)}
        shapes |= {f"{place}_Wo_{kind}": shape for kind, shape in norm.items()}
        layer = place.rpartition("_")[0]
        shapes |= {f"{layer}_ffn_W1": (width, inner), f"{layer}_ffn_b1": (1, inner)}
        shapes |= {f"{layer}_ffn_W2": (inner, width), f"{layer}_ffn_b2": (1, width)}
        shapes |= {f"{layer}_ffn_ffn_{kind}": shape for kind, shape in norm.items()}
    for i in range(settings["dec-depth"]):
        cell = f"decoder_l{i + 1}_rnn"
        shapes |= {f"{cell}_W": (width, width), f"{cell}_Wf": (width, width)}
        shapes |= {f"{cell}_bf": (1, width)}
        shapes |= {f"{cell}_ffn_{kind}": shape for kind, shape in norm.items()}
    draw = np.random.default_rng(1)
    arrays = {}
    for name, shape in shapes.items():
        array = draw.normal(size=shape).astype(np.float32)
        arrays[name] = np.ones_like(array) if name.endswith("ln_scale") else array / width**0.5
    return arrays


def write_random(folder: Path, spm: bytes, settings: Mapping[str, Any]) -> dict[str, object]:
    """A folder like Firefox's with random weights, whose translations never end, and the names of
    its files for `bergamot`."""
    pieces = pieces_of_model(spm)
    count = len(pieces) // 8 * 8  # what Bergamot's products want
    arrays = random_arrays(len(pieces), settings, tied=True)
    arrays["decoder_ff_logit_out_b"][0, list(pieces).index("</s>")] = -100
    draw = np.random.default_rng(2)
    lists = [np.sort(draw.choice(count, 50, replace=False)).tolist() for _ in pieces]
    model, shortlist = folder / "model.deen.intgemm.alphas.bin", folder / "lex.deen.s2t.bin"
    vocabulary = folder / "vocab.deen.spm"
    complete = {**ALWAYS, **settings, "dim-vocabs": [len(pieces)] * 2}
    model.write_bytes(packed_model(arrays, yaml.dump(complete).encode()))
    shortlist.write_bytes(packed_shortlist(lists))
    vocabulary.write_bytes(spm)
    return {
        "model": str(model), "shortlist": str(shortlist), "vocabs": [str(vocabulary)],
        "config": {"gemm-precision": "int8shiftAlphaAll"},
    }  # fmt: skip


def packed_model(
    arrays: Mapping[str, np.ndarray], settings: bytes, alpha: float = 127 / 8
) -> bytes:
    """Weights in Marian's shapes as a `.intgemm.alphas.bin`, its matrices in 8 bits."""
    items: list[tuple[str, int, tuple[int, ...], bytes]] = []
    for name, array in sorted(arrays.items()):
        if _MULTIPLIED.search(name):
            factor = np.float32(127 / np.abs(array).max())
            rounded = np.rint(array * factor).astype(np.int8)
            turned = rounded if "Wemb" in name else rounded.T
            raw = turned.tobytes() + factor.tobytes()
            items.append((name, INTGEMM8, array.shape, raw))
            scale = np.float32(alpha).tobytes()
            items.append((f"{name}_QuantMultA", FLOAT32, (1, 1), scale))
        else:
            items.append((name, FLOAT32, array.shape, array.astype("<f4").tobytes()))
    items.append(("none_QuantMultA", FLOAT32, (1, 1), np.float32(alpha).tobytes()))
    items.append(("special:model.yml", INT8, (len(settings) + 1,), settings + b"\0"))
    padded = [(*rest, raw + bytes(-len(raw) % 256)) for *rest, raw in items]
    head = struct.pack("<2Q", 1, len(padded))
    for name, kind, shape, raw in padded:
        head += struct.pack("<4Q", len(name.encode()) + 1, kind, len(shape), len(raw))
    head += b"".join(name.encode() + b"\0" for name, *_ in padded)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in padded)
    gap = -(len(head) + 8) % 256
    return head + struct.pack("<Q", gap) + bytes(gap) + b"".join(raw for *_, raw in padded)


def packed_shortlist(lists: Sequence[Sequence[int]], first: int = 100) -> bytes:
    """The candidates of each source piece, and so many first pieces in every list."""
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8")
    candidates = np.array([piece for of_one in lists for piece in of_one], dtype="<u4")
    sizes = struct.pack("<4Q", first, 100, len(offsets), len(candidates))
    body = sizes + offsets.tobytes() + candidates.tobytes()
    checksum = 0
    for (number,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        mixed = number + 0x9E3779B9 + (checksum << 6) + (checksum >> 2)
        checksum = (checksum ^ mixed) & (2**64 - 1)
    return struct.pack("<2Q", MAGIC, checksum) + body


def bergamot(
    folder: Path,
    files: Mapping[str, object],
    texts: Sequence[str],
    at_once: int = 1,
    products: str = "",
) -> tuple[list[str], float]:
    """Translate with Bergamot's engine; return its output and the CPU seconds.

    Texts that are translated in one call share one shortlist. `products` replaces its integer
    products.
    """
    script, job, out = folder / "bergamot.mjs", folder / "job.json", folder / "answer.json"
    script.write_text(NODE)
    # A copy, because the package says that its files are modules, and this one calls `require`.
    theirs = Path(BERGAMOT) / "node_modules" / "@browsermt" / "bergamot-translator" / "worker"
    shutil.copytree(theirs, folder / "worker", dirs_exist_ok=True)
    if products:
        worker = folder / "worker" / "translator-worker.js"
        before, link, after = worker.read_text().partition("linkFallbackIntGemm(info) {\n")
        assert link
        worker.write_text(f"{before}{link} return PRODUCTS;\n{after}{products}")
    task = {**files, "texts": list(texts), "at_once": at_once, "out": str(out)}
    job.write_text(json.dumps(task))
    ran = subprocess.run(["node", script, folder, job], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(out.read_text())
    return answer["texts"], answer["seconds"]
