"""Compare the browser's translator with the Python engine: the same pieces in, the same out?

    npm install --prefix build/web onnxruntime-web@1.30.0
    python benchmarks/web.py --runtime build/web/node_modules/onnxruntime-web/dist

Writes the page of a model, opens it from disk in chromium, and lets both translate the same
sentences greedily. Counts sentences that are cut alike and translated alike, and measures the
page's size, the time until it can translate, its first answer and its speed.
"""

import argparse
import gzip
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.bundle.folder import Bundle, read_bundle
from dragoman.convert.to_web import to_web
from dragoman.engine.onnx_engine import OnnxEngine

ROOT = Path(__file__).parents[1]


def greedy(engine: OnnxEngine, bundle: Bundle, ids: Sequence[int]) -> list[int]:
    """Greedy search by the Python engine."""
    decoding, target = bundle.config.decoding, bundle.codec.target
    most = int(decoding.max_length_ratio * len(ids) + decoding.max_length_extra)
    state, token = engine.start([ids]), target.bos
    said: list[int] = []
    while len(said) < most:
        step = engine.step(state, np.zeros(1, np.int64), np.array([token]), 1)
        assert step.tokens is not None
        state, token = step.state, int(step.tokens[0, 0])
        if token == target.eos:
            break
        said.append(token)
    return said


@contextmanager
def opened(folder: Path) -> Iterator[Any]:
    """The page in chromium, from disk, when it can translate."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.goto(f"file://{folder}/index.html")
        page.wait_for_function("document.documentElement.dataset.ready", timeout=120_000)
        yield page
        browser.close()


def in_browser(page: Any, texts: Sequence[str], to: str) -> list[dict[str, Any]]:
    """Return the input ids, the output ids and the milliseconds of each text."""
    found: list[dict[str, Any]] = page.evaluate(
        """async ([texts, to]) => {
            const results = [];
            for (const text of texts) {
                const began = performance.now(), ids = translator.sourceIds(text, to);
                const said = await translator.search(ids);
                results.push({ids, said, took: performance.now() - began});
            }
            return results;
        }""",
        [list(texts), to],
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    packaged = ROOT / "dragoman" / "pretrained" / "pentaglot"
    parser.add_argument("--model", default=str(packaged))
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--texts", default=str(ROOT / "examples" / "valid.de.gz"))
    parser.add_argument("--to", default="en")
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    bundle = read_bundle(Path(options.model))
    with gzip.open(options.texts, "rt", encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in file][: options.count]
    with tempfile.TemporaryDirectory() as folder:
        size = to_web(bundle, Path(folder), Path(options.runtime))
        began = time.monotonic()
        with opened(Path(folder)) as page:
            loaded = time.monotonic() - began
            results = in_browser(page, texts, options.to)
    engine = OnnxEngine(replace(bundle, shortlist=None), 1)
    ids = bundle.codec.encode_source(texts, options.to)
    cut = [result["ids"] == source for result, source in zip(results, ids, strict=True)]
    said = [
        result["said"] == greedy(engine, bundle, own)
        for result, own in zip(results, ids, strict=True)
    ]
    pieces = sum(len(result["said"]) for result in results)
    seconds = sum(result["took"] for result in results) / 1000
    print(f"sentences               {len(texts)}")
    print(f"cut alike               {sum(cut)}")
    print(f"translated alike        {sum(said)}")
    print(f"size of the page        {size / 1e6:.1f} MB")
    print(f"until it can translate  {loaded:.1f} s")
    print(f"first answer            {results[0]['took']:.0f} ms")
    print(f"speed                   {pieces / seconds:.0f} pieces/s, one thread")


if __name__ == "__main__":
    main()
