"""Convert models to and from other systems."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bundle.folder import Bundle, read_bundle, write_bundle
from dragoman.cli.arguments import argument, option
from dragoman.cli.options import FROM, TO
from dragoman.convert.hub import model_folder
from dragoman.errors import ConversionError, CorpusError, needs_torch
from dragoman.text.languages import Languages
from dragoman.text.parallel import language_of, read_pairs

if TYPE_CHECKING:
    from dragoman.convert.learn_shortlist import ShortlistCorpus

MOST_MEASURED = 1000  # pairs of each file

IN: str = argument("IN", "Folder of the model.")
OUT: str = argument("OUT", "Folder to write.")
ONNX: bool = option(True, "For the ONNX engine, as by to-onnx.")
INT8: bool = option(False, "Weights in 8 bits.")


def to_web(
    model: str = IN,
    out: str = OUT,
    runtime: str = option(
        "node_modules/onnxruntime-web/dist",
        "The folder dist of npm's package onnxruntime-web (npm install onnxruntime-web).",
        metavar="FOLDER",
    ),
) -> None:
    """Write a page that translates in the browser: no server, also from disk.

    Example: `dragoman convert to-web runs/demo runs/page`
    """
    from dragoman.convert.to_web import to_web

    size = to_web(read_bundle(model_folder(model)), Path(out), Path(runtime))
    print(f"wrote {Path(out) / 'index.html'}, {size / 1e6:.1f} MB in all", file=sys.stderr)


def to_onnx(
    model: str = IN,
    out: str = OUT,
    int8: bool = option(False, "Store weights in 8 bits: a quarter of the size, and faster."),
    shortlist: tuple[str, str] | None = option(
        None,
        "Parallel text from which to learn a lexical shortlist: faster. Commas join "
        "several files; a multilingual model learns both directions of each pair.",
        metavar="SRC TGT",
    ),
    calibrate: tuple[str, str] | None = option(
        None,
        "With --int8: parallel text on which to measure how large numbers become: faster. "
        "Some hundred pairs will do; commas join several files.",
        metavar="SRC TGT",
    ),
) -> None:
    """Write a bundle for ONNX Runtime: fast on CPUs, without PyTorch.

    Example: `dragoman convert to-onnx runs/demo runs/demo.int8 --int8`
    """
    from dragoman.convert.learn_shortlist import learn_shortlist
    from dragoman.convert.to_onnx import to_onnx

    folder = _new(model, out)
    bundle = read_bundle(model_folder(model))
    if shortlist is not None:
        learned = learn_shortlist(bundle.codec, list(_corpora(*shortlist)))
        bundle = replace(bundle, shortlist=learned)
    bundle = to_onnx(bundle, int8)
    if calibrate is not None:
        if not int8:
            raise ConversionError("--calibrate is for weights in 8 bits: add --int8.")
        bundle = replace(bundle, ranges=_measured(bundle, *calibrate))
    write_bundle(folder, bundle)
    _tell(out, f"dragoman translate --model {out}")


def to_ctranslate2(model: str = IN, out: str = OUT) -> None:
    """Write a folder for `ctranslate2.Translator`.

    Example: `dragoman convert to-ctranslate2 runs/demo runs/demo.ct2`
    """
    from dragoman.convert.to_ctranslate2 import to_ctranslate2

    to_ctranslate2(read_bundle(model_folder(model)), _new(model, out))
    _tell(out, f"ctranslate2.Translator({out!r}), sources as dragoman tokenize shows them")


def to_huggingface(model: str = IN, out: str = OUT) -> None:
    """Write a folder for `transformers`: MarianMT, or Pegasus for a pre-norm model.

    Example: `dragoman convert to-huggingface runs/demo runs/demo.hf`
    """
    with needs_torch():
        from dragoman.convert.to_huggingface import to_huggingface
    to_huggingface(read_bundle(model_folder(model)), _new(model, out))
    _tell(
        out,
        f"AutoModelForSeq2SeqLM.from_pretrained({out!r}) and "
        f"MarianTokenizer.from_pretrained({out!r})",
    )


def from_huggingface(model: str = IN, out: str = OUT, onnx: bool = ONNX, int8: bool = INT8) -> None:
    """Make a bundle of a MarianMT folder (OPUS-MT), of M2M-100 or NLLB, or of our own export.

    Example: `dragoman convert from-huggingface opus-mt-de-en runs/opus-mt-de-en --int8`
    """
    from dragoman.convert.from_huggingface import from_huggingface

    _write(model, out, from_huggingface(Path(model)), onnx, int8)


def from_ctranslate2(
    model: str = IN,
    out: str = OUT,
    pieces: str = option("", "SentencePiece models, where IN holds none.", metavar="SPM[,SPM]"),
    from_: str = FROM,
    to: str = TO,
    source_end: bool = option(False, "Sources end with </s>, although config.json says no."),
    onnx: bool = ONNX,
    int8: bool = INT8,
) -> None:
    """Make a bundle of a CTranslate2 folder; in float32, float16, bfloat16, int8 or int16.

    Example: `dragoman convert from-ctranslate2 opus.ct2 runs/opus --pieces source.spm,target.spm`
    """
    from dragoman.convert.from_ctranslate2 import from_ctranslate2

    named = [name for name in pieces.split(",") if name]
    languages = Languages((from_,) if from_ else (), (to,) if to else ())
    _write(model, out, from_ctranslate2(Path(model), named, languages, source_end), onnx, int8)


def from_argos(model: str = IN, out: str = OUT, onnx: bool = ONNX, int8: bool = INT8) -> None:
    """Make a bundle of an Argos package, an .argosmodel or the folder that it was unpacked to.

    Example: `dragoman convert from-argos translate-de_en.argosmodel runs/de-en --int8`
    """
    from dragoman.convert.from_ctranslate2 import from_argos

    _write(model, out, from_argos(Path(model)), onnx, int8)


def from_marian(
    model: str = IN,
    out: str = OUT,
    from_: str = FROM,
    to: str = TO,
    onnx: bool = ONNX,
    int8: bool = INT8,
) -> None:
    """Make a bundle of a Marian model: a folder with decoder.yml, model.npz and vocabularies.

    Example: `dragoman convert from-marian opus-2020 runs/opus-2020 --from de --to en --int8`
    """
    from dragoman.convert.from_marian import from_marian

    bundle = from_marian(Path(model), from_, to)
    _write(model, out, bundle, onnx, int8)


commands = {
    "to-web": to_web,
    "to-onnx": to_onnx,
    "to-ctranslate2": to_ctranslate2,
    "to-huggingface": to_huggingface,
    "from-huggingface": from_huggingface,
    "from-ctranslate2": from_ctranslate2,
    "from-argos": from_argos,
    "from-marian": from_marian,
}


def _write(model: str, out: str, bundle: Bundle, onnx: bool, int8: bool) -> None:
    """Write the bundle of another system's model, for the ONNX engine on request."""
    # 8 bits exist only in the ONNX engine's form.
    if onnx or int8:
        from dragoman.convert.to_onnx import to_onnx

        bundle = to_onnx(bundle, int8)
    write_bundle(_new(model, out), bundle)
    _tell(out, f"dragoman translate --model {out}")


def _tell(out: str, loaded_by: str) -> None:
    """Print the files that were written, and how to use them."""
    sizes = {path.name: path.stat().st_size for path in sorted(Path(out).iterdir())}
    total = sum(sizes.values()) / 2**20
    print(f"wrote {out}: {', '.join(sizes)} ({total:.1f} MiB)", file=sys.stderr)
    print(f"use it: {loaded_by}", file=sys.stderr)


def _measured(bundle: Bundle, sources: str, targets: str) -> dict[str, float]:
    with needs_torch():
        from dragoman.convert.ranges import measure_ranges

    codec = bundle.codec
    pairs: list[tuple[list[int], list[int]]] = []
    for corpus in _corpora(sources, targets):
        some = (pair for pair in corpus.pairs if pair.source.strip() and pair.target.strip())
        read = list(islice(some, MOST_MEASURED))
        ids = codec.encode_source([pair.source for pair in read], corpus.to, corpus.source)
        pairs += zip(ids, codec.encode_target([pair.target for pair in read]), strict=True)
    if not pairs:
        raise CorpusError("there are no pairs to calibrate with.")
    return measure_ranges(replace(bundle, adapter=None), pairs)


def _corpora(sources: str, targets: str) -> "Iterator[ShortlistCorpus]":
    """Read the pairs of files that are joined by commas, with their languages."""
    from dragoman.convert.learn_shortlist import ShortlistCorpus

    names = sources.split(","), targets.split(",")
    if len(names[0]) != len(names[1]):
        raise ConversionError(
            f"there are {len(names[0])} source files and {len(names[1])} target files: "
            f"each needs its partner."
        )
    for source, target in zip(*names, strict=True):
        yield ShortlistCorpus(read_pairs(source, target), language_of(source), language_of(target))


def _new(model: str, out: str) -> Path:
    if Path(out).resolve() == Path(model).resolve():
        raise ConversionError(f"{out} is the model itself: choose another folder.")
    if Path(out).is_dir() and any(Path(out).iterdir()):
        raise ConversionError(f"{out} is not empty: choose a new folder.")
    return Path(out)
