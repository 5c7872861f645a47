"""A model's page translates in a real browser, from disk, as the Python engine does."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.web import greedy, in_browser, opened
from dragoman.bundle.folder import read_bundle
from dragoman.convert.to_web import to_web
from dragoman.engine.onnx_engine import OnnxEngine
from dragoman.errors import ConversionError

ROOT = Path(__file__).parents[2]
SENTENCES = [
    "eins zwei drei", "vier", "neun acht sieben sechs fünf", "  null   eins ", "drei drei drei",
    "eins, zwei!", "sieben Katzen", "Über ﬁnf Äpfel – 12 €", "日本語 und 🙂", "zwei\tdrei",
]  # fmt: skip


@pytest.fixture(scope="module")
def runtime() -> Path:
    """npm's package, as `make web` installs it."""
    folder = ROOT / "build/web/node_modules/onnxruntime-web/dist"
    if not folder.exists() or shutil.which("chromium") is None:
        pytest.skip("needs onnxruntime-web (make web) and chromium")
    return folder


def test_ten_sentences_are_cut_and_translated_alike_in_the_browser(
    trained: Path, runtime: Path, tmp_path: Path
) -> None:
    bundle = read_bundle(trained)
    to_web(bundle, tmp_path / "page", runtime)
    with opened(tmp_path / "page") as page:
        results = in_browser(page, SENTENCES, "")
        page.fill("#text", SENTENCES[0])
        said = bundle.codec.decode_target(results[0]["said"])
        same = "text => document.getElementById('said').textContent === text"
        page.wait_for_function(same, arg=said)
    engine = OnnxEngine(replace(bundle, shortlist=None), 1)
    sources = bundle.codec.encode_source(SENTENCES)
    assert [result["ids"] for result in results] == sources
    expected = [greedy(engine, bundle, source) for source in sources]
    assert [result["said"] for result in results] == expected


def test_without_the_runtime_one_line_says_how_to_get_it(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="npm install onnxruntime-web"):
        to_web(read_bundle(trained), tmp_path / "page", tmp_path)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_scripts_are_scripts() -> None:
    for name in ("translator.js", "page.js"):
        script = ROOT / "dragoman/convert/web" / name
        subprocess.run(["node", "--check", str(script)], check=True)
