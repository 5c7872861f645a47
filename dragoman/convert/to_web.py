"""Write a model as a page that translates in the browser, without a server and from disk.

    FOLDER/index.html page.js translator.js     the page, SentencePiece and search
    FOLDER/model.js                             settings, pieces, graphs and weights, in base64
    FOLDER/runtime.js                           onnxruntime-web, from npm's package

The ONNX engine builds the graphs. A browser lets a page from disk run scripts but not read files,
so everything is a script.
"""

import base64
import json
from importlib import resources
from pathlib import Path
from typing import Any

from dragoman.bundle.folder import Bundle
from dragoman.bundle.int8 import all_in_bytes
from dragoman.engine.onnx.graphs import beyond_graphs, encoder_graph, step_graph
from dragoman.engine.onnx.kernels import Factors
from dragoman.errors import ConversionError
from dragoman.text.codec import Codec, Framing
from dragoman.text.subword import BytePairs, Segmenter
from dragoman.text.vocabulary import language_tag

RUNTIME = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
_FILES = ("translator.js", "page.js")


def to_web(bundle: Bundle, folder: Path, runtime: Path) -> int:
    """Write the page and return its size in bytes. `runtime` is the folder `dist` of npm's
    onnxruntime-web.
    """
    if reasons := beyond_graphs(bundle.config.model):
        raise ConversionError(
            f"the browser runs only the plain Transformer; this model has {', '.join(reasons)}."
        )
    codec = bundle.codec
    # translator.js implements only this kind of tokenization.
    if not isinstance(codec.source_segmenter, BytePairs) or codec.framing != Framing():
        raise ConversionError(
            "the browser supports only the byte-pair encoding of dragoman train; this model "
            "tokenizes text in another way."
        )
    missing = [name for name in RUNTIME if not (runtime / name).exists()]
    if missing:
        raise ConversionError(
            f"{runtime} lacks {missing[0]}: run npm install onnxruntime-web, and name its folder "
            "with --runtime node_modules/onnxruntime-web/dist."
        )
    folder.mkdir(parents=True, exist_ok=True)
    ours = resources.files("dragoman.convert") / "web"
    script, module, wasm = ((runtime / name).read_bytes() for name in RUNTIME)
    model = _model(bundle) | {"runtime": {"mjs": _text(module), "wasm": _text(wasm)}}
    files = {name: (ours / name).read_bytes() for name in _FILES}
    files["index.html"] = (ours / "page.html").read_bytes()
    files["runtime.js"] = script
    files["model.js"] = f"const MODEL = {json.dumps(model, ensure_ascii=False)};\n".encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return sum(map(len, files.values()))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _model(bundle: Bundle) -> dict[str, Any]:
    config, codec = bundle.config.model, bundle.codec
    weights = dict(bundle.weights)
    if all_in_bytes(weights):
        # The bytes and ranges of the package's engine, so that both round numbers alike.
        weights = Factors.SIGNED.of(weights)
    packed, index, offset = [], [], 0
    for name, array in weights.items():
        # Weights are one block of bytes; the index has the place of each.
        index.append({"name": name, "offset": offset, "length": array.nbytes})
        packed.append(array.tobytes())
        offset += array.nbytes
    tables = {
        side: weights.get(f"{side}_embedding.positions.table") for side in ("source", "target")
    }
    return {
        "model": _settings(bundle),
        "source": _pieces(codec.source_segmenter),
        "target": None if codec.shared else _pieces(codec.target_segmenter),
        "positions": {
            side: None if table is None else _text(table.tobytes())
            for side, table in tables.items()
        },
        "encoder": _text(encoder_graph(config, weights, bundle.ranges)),
        "step": _text(step_graph(config, weights, codec.target, bundle.ranges)),
        "index": index,
        "weights": _text(b"".join(packed)),
    }


def _settings(bundle: Bundle) -> dict[str, Any]:
    config, codec, decoding = bundle.config.model, bundle.codec, bundle.config.decoding
    return {
        "width": config.d_model,
        "heads": config.num_heads,
        "layers": config.num_decoder_layers,
        "base": config.positions.base,
        "end": codec.source.eos,
        "start": codec.target.bos,
        "targetEnd": codec.target.eos,
        "tags": _tags(codec),
        "ratio": decoding.max_length_ratio,
        "extra": decoding.max_length_extra,
    }


def _tags(codec: Codec) -> dict[str, int]:
    """Return the id of each target language's tag, if sources begin with one."""
    if not codec.languages.tagged:
        return {}
    return {code: codec.source.ids[language_tag(code)] for code in codec.languages.targets}


def _pieces(segmenter: Segmenter) -> dict[str, Any]:
    """Return the pieces in the order of their merges, and the ids of control pieces."""
    assert isinstance(segmenter, BytePairs)
    pieces = segmenter.vocabulary.pieces
    return {
        "pieces": list(pieces),
        "special": [i for i in range(len(pieces)) if not segmenter.is_text(i)],
        "unknown": segmenter.vocabulary.unk,
    }
