"""The pages work in a real browser: Debian's Chromium, driven by Playwright. Skipped where Chromium
is missing."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman.engine.torch_engine import TorchEngine
from dragoman.inspect.translator import InspectableTranslator
from dragoman.lab.explain import explanation as explaining
from dragoman.lab.explain.explanation import explain
from dragoman.lab.explain.html_page import page as attention_page
from dragoman.lab.explain.sentence_inspection import inspect_sentence
from dragoman.lab.explain.trace import trace_pair
from dragoman.model.build import build_model
from dragoman.serve.service import Service
from tests.conftest import NUMBERS, small_config
from tests.serving import running

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="no Playwright: pip install playwright"
)
CHROMIUM = (
    os.environ.get("DRAGOMAN_BROWSER")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)
if not CHROMIUM:
    pytest.skip(
        "no browser: apt-get install chromium, or name one in DRAGOMAN_BROWSER",
        allow_module_level=True,
    )


@pytest.fixture(scope="module")
def address(trained) -> Iterator[str]:
    with running(Service([str(trained)], device="cpu")) as found:
        yield found


_LONGEST_MS = 300_000  # that a page is waited for: cores may be busy


@pytest.fixture(scope="module")
def chromium():
    sync_api.expect.set_options(timeout=_LONGEST_MS)
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium) -> Iterator:
    """Opens pages that must not complain, and remembers what they asked for."""
    contexts, complaints, asked = [], [], []

    def opened(address: str, quiet: bool = True, **options):
        context = chromium.new_context(**options)
        context.set_default_timeout(_LONGEST_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: complaints.append(said.text) if quiet and said.type == "error" else None,
        )
        page.goto(address)
        return page, asked

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def picture(page, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 5000


def test_a_sentence_is_typed_translated_and_looked_into(open_page, address, tmp_path) -> None:
    page, asked = open_page(address)
    page.locator("#source").press_sequentially("eins zwei drei", delay=10)
    sync_api.expect(page.locator("#output")).to_have_text("one two three")
    page.locator("#output .w").nth(1).hover()
    sync_api.expect(page.locator("#backdrop mark")).to_have_text("zwei")
    sync_api.expect(page.locator("#status")).to_contain_text("two ← zwei")
    picture(page, tmp_path, "translator")
    assert page.locator("#alternatives button").count() == 4
    page.locator("#alternatives button").nth(1).click()
    second = page.locator("#alternatives button").nth(1).locator("span").inner_text()
    sync_api.expect(page.locator("#output")).to_have_text(second.strip())
    page.locator("#alternatives button").nth(0).click()
    page.get_by_role("button", name="Show attention").click()
    sync_api.expect(page.get_by_role("tab", name="Attention")).to_be_visible()
    page.locator(".word", has_text="two").first.hover()
    sync_api.expect(page.locator(".readout").first).to_contain_text("two looks at")
    picture(page, tmp_path, "attention")
    page.get_by_role("tab", name="Step by step").click()
    sync_api.expect(page.locator("#panel-scores .sum b")).to_have_text(re.compile(r"\d"))
    assert page.locator(".chapter").count() == 12
    picture(page, tmp_path, "step-by-step")
    page.get_by_role("button", name="Hide attention").click()
    sync_api.expect(page.locator("#viewer")).to_be_hidden()
    page.get_by_role("button", name="Clear").click()
    sync_api.expect(page.locator("#others")).to_be_hidden()
    assert len(asked) > 5
    assert all(url.startswith(address) for url in asked)


def test_a_dropped_file_is_translated_with_the_glossary_and_fetched(open_page, address) -> None:
    page, _ = open_page(address, quiet=False)  # Chromium reports the refusal of the last file
    page.locator("#terms input").nth(0).fill("zwei")
    page.locator("#terms input").nth(1).fill("nine")
    sync_api.expect(page.locator("#terms tbody tr")).to_have_count(2)
    page.locator("#source").fill("eins zwei")
    sync_api.expect(page.locator("#output")).to_contain_text("nine")
    dropped = page.evaluate_handle(
        "() => { const files = new DataTransfer();"
        " files.items.add(new File(['<p>drei <b>vier</b></p>'], 'a.html')); return files; }"
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "a.en.html"
    assert download.value.path().read_text() == "<p>three <b>four</b></p>"
    page.locator("#file").set_input_files(
        [{"name": "a.xyz", "mimeType": "application/octet-stream", "buffer": b"?"}]
    )
    sync_api.expect(page.locator("#documents .wrong")).to_contain_text("no supported format")


def test_the_keyboard_is_enough(open_page, address) -> None:
    page, _ = open_page(address)
    page.keyboard.type("eins zwei")
    page.keyboard.press("Control+Enter")
    sync_api.expect(page.locator("#output")).to_have_text("one two")
    page.locator("#output .w").first.focus()
    page.keyboard.press("ArrowRight")
    sync_api.expect(page.locator("#status")).to_contain_text("two ←")
    page.locator("#source").focus()
    page.keyboard.press("Home")
    sync_api.expect(page.locator("#output .w.here")).to_have_text("one")
    for control in page.locator("button, select, textarea, input").all():
        name = control.evaluate("e => e.ariaLabel || e.labels?.[0]?.textContent || e.textContent")
        assert name.strip(), control


@pytest.mark.parametrize(
    "options", [{"viewport": {"width": 360, "height": 740}}, {"color_scheme": "dark"}]
)
def test_narrow_and_dark_pages_hold_together(open_page, address, tmp_path, options) -> None:
    page, _ = open_page(address, **options)
    page.locator("#source").fill("eins " * 60)
    sync_api.expect(page.locator("#output .w").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((c) => c < 60)"
    )
    assert dark == (options.get("color_scheme") == "dark")
    picture(page, tmp_path, "variant")


def test_markup_is_shown_and_never_run(open_page, address) -> None:
    page, _ = open_page(address)
    page.evaluate("window.harmed = false")
    page.locator("#source").fill(
        "eins <img src=x onerror=harmed=true> <script>harmed=true</script>"
    )
    sync_api.expect(page.locator("#output .w").first).to_be_visible()
    page.get_by_role("button", name="Show attention").click()
    sync_api.expect(page.locator(".word").first).to_be_visible()
    assert page.evaluate("harmed") is False
    assert page.locator("main img, main script").count() == 0


def test_an_ensemble_links_words_and_hides_what_it_cannot_show(open_page, trained) -> None:
    with running(Service([f"{trained},{trained}"], device="cpu")) as address:
        page, _ = open_page(address)
        page.locator("#source").fill("eins zwei")
        sync_api.expect(page.locator("#output")).to_have_text("one two")
        page.locator("#output .w").first.hover()
        sync_api.expect(page.locator("#backdrop mark")).to_have_text("eins")
        sync_api.expect(page.locator("#inside")).to_be_hidden()


def test_the_page_asks_for_a_key_once(open_page, trained) -> None:
    with running(Service([str(trained)], api_key="sesam", device="cpu")) as address:
        page, _ = open_page(address, quiet=False)  # Chromium reports the first refusal
        page.locator("#key").fill("sesam")
        page.keyboard.press("Enter")
        sync_api.expect(page.locator("#from")).to_have_value("de")
        page.locator("#source").fill("acht")
        sync_api.expect(page.locator("#output")).to_have_text("eight")


def test_the_page_of_attend_opens_from_disk_and_stays_quick(open_page, trained, tmp_path) -> None:
    words = list(NUMBERS) * 10
    seen = inspect_sentence(
        dragoman.load(trained, device="cpu"), " ".join(words), " ".join(NUMBERS[w] for w in words)
    )
    file = tmp_path / "page.html"
    file.write_text(attention_page(seen), encoding="utf-8")
    page, asked = open_page(file.as_uri())
    assert page.evaluate("performance.now()") < 10_000
    labels = page.locator(".words").first.locator(".word").all_inner_texts()
    assert labels == [*(NUMBERS[word] for word in words), "</s>"]
    shown = page.evaluate(
        "(() => { const d = JSON.parse(document.getElementById('data').textContent), m = "
        "d.maps.at(-1);"
        " return [...attentionMatrix(d, m, m.layers - 1, -1, true).weights]; })()"
    )
    assert shown == pytest.approx(seen.joined("cross")[-1].mean(axis=0).ravel().tolist(), abs=2e-5)
    slowest = page.evaluate(
        "(() => { let slowest = 0; for (const word of document.querySelectorAll('.word')) {"
        " const t = performance.now(); word.dispatchEvent(new MouseEvent('mouseenter'));"
        " slowest = Math.max(slowest, performance.now() - t); }"
        " return slowest; })()"
    )
    assert slowest < 500  # milliseconds; a few on an idle machine
    page.get_by_role("switch", name=re.compile("Join pieces")).uncheck()
    assert page.locator(".words").first.locator(".word").count() == len(seen.axes["target"].pieces)
    for kind in ("Encoder", "Decoder", "Cross"):
        page.get_by_role("button", name=kind, exact=True).click()
        assert page.locator(".thumb").count() == seen.maps["cross"].shape[0] * (
            seen.maps["cross"].shape[1] + 1
        )
    page.locator(".thumb").first.click()
    sync_api.expect(page.locator(".thumb").first).to_have_attribute("aria-pressed", "true")
    page.get_by_role("tab", name="Beam").click()
    page.locator(".tree .node.best").first.hover()
    sync_api.expect(page.locator(".readout:visible")).to_contain_text("chosen")
    page.get_by_role("tab", name="Positions").click()
    sync_api.expect(page.locator("canvas:visible").first).to_be_visible()
    picture(page, tmp_path, "positions")
    assert asked == [file.as_uri()]


@pytest.mark.parametrize("bits", [16, 8])
def test_the_page_of_explain_computes_what_the_model_computes(
    open_page, trained, tmp_path, monkeypatch, bits
) -> None:
    """Sums, norms, weighted values and temperatures are computed by the page's script."""
    monkeypatch.setattr(explaining, "MAX_BYTES", 0 if bits == 8 else 10**9)
    near = 0.03 if bits == 8 else 0.004  # of the largest number
    translator = dragoman.load(trained, device="cpu")
    explained = explain(translator, "eins zwei drei")
    engine = translator.inspector
    assert isinstance(engine, TorchEngine)
    ids = explained["axes"]["target"]["ids"][:-1]
    trace = trace_pair(engine, explained["axes"]["source"]["ids"], ids)
    file = tmp_path / "page.html"
    file.write_text(explaining.page(explained), encoding="utf-8")
    page, asked = open_page(file.as_uri())
    page.evaluate("data = JSON.parse(document.getElementById('data').textContent)")

    def same(script: str, expected) -> None:
        shown = page.evaluate(f"Array.from({script})")
        largest = float(expected.abs().max())
        assert shown == pytest.approx(expected.tolist(), abs=near * largest), script

    for part, (side, name) in enumerate(
        [("encoder", "attention"), ("decoder", "attention"), ("decoder", "cross")]
    ):
        for layer, look in enumerate(trace.attention[side if name == "attention" else "cross"]):
            stream = f"attentionStream(data, data.parts[{part}], {layer}, 1)"
            around = trace.calls[f"{side}.{layer}.around_{name}"][0]
            same(f"{stream}.x", around.given[0, 1])
            same(f"{stream}.after", around.result[0, 1])
            same(f"{stream}.inner", trace.calls[f"{side}.{layer}.{name}"][0].given[0, 1])
            for head in range(look.y.shape[1]):
                same(f"weightedSum(data.parts[{part}].layers[{layer}], {head}, 1)",
                     look.y[0, head, 1])  # fmt: skip
        for side_name, stack in (("source", "encoder"), ("target", "decoder")):
            network = trace.calls[f"{stack}.0.around_feed_forward"][0]
            same(f"feedForwardStream(data, '{side_name}', 0, 1).after", network.result[0, 1])
    # a score with its terms spelled out, and a probability at another temperature
    page.evaluate("explanation.change({ part: 2, target: 1, layer: 1, head: 1, key: 0 })")
    score = float(trace.attention["cross"][1].scores[0, 1, 1, 0])
    page.locator("#panel-scores").scroll_into_view_if_needed()
    sync_api.expect(page.locator("#panel-scores .sum b")).to_have_text(
        f"{score:.2f}".replace("-", "−")
    )
    page.get_by_role("slider", name="Temperature").fill(
        str(explaining.TEMPERATURES.index(0.5))
    )  # fmt: skip
    best = (trace.logits[0, 1] / 0.5).softmax(-1).max()
    shown = page.locator(".logits tbody .bar span").first.inner_text()
    assert float(shown.rstrip("%")) == pytest.approx(100 * float(best), abs=0.6)
    assert asked == [file.as_uri()]


def test_explain_by_keyboard_with_a_tour_of_twelve_steps(open_page, trained, tmp_path) -> None:
    file = tmp_path / "page.html"
    explained = explain(dragoman.load(trained, device="cpu"), "eins zwei drei")
    file.write_text(explaining.page(explained), encoding="utf-8")
    page, _ = open_page(file.as_uri(), viewport={"width": 375, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chosen = page.locator(".control .piece[aria-pressed=true]")
    before = chosen.inner_text()
    page.keyboard.press("ArrowRight")
    sync_api.expect(chosen).not_to_have_text(before)
    page.keyboard.press("l")
    sync_api.expect(page.locator(".stepper").first).to_contain_text("layer 2/2")
    page.keyboard.press("Shift+H")
    sync_api.expect(page.locator(".stepper").nth(1)).to_contain_text("head 2/2")
    page.keyboard.press("a")
    pressed = page.locator(".control .segmented [aria-pressed=true]")
    sync_api.expect(pressed).to_have_text("Decoder")
    asked = page.locator("#panel-scores .card h3").first
    before = asked.inner_text()
    page.keyboard.press("k")
    sync_api.expect(asked).not_to_have_text(before)
    # a button that is drawn again keeps the focus
    page.locator("#panel-heads .heads button").last.focus()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#panel-heads .heads button").last).to_be_focused()
    # one heading for the page, one voice for each step, and nothing that was not computed
    assert page.locator("h1").count() == 1
    assert "Decoder layer 2, head 2" in page.locator(".control [aria-live]").inner_text()
    assert page.locator(".chapters [aria-live]").count() == 1  # the tree, when it has the focus
    assert "undefined" not in page.locator("body").inner_text()
    page.keyboard.press("t")
    sentences = set()
    for step in range(12):
        sync_api.expect(page.locator(".tour")).to_contain_text(f"Step {step + 1} of 12")
        sentences.add(page.locator(".tour p").nth(1).inner_text())
        page.keyboard.press("n")
    sync_api.expect(page.locator(".tour")).to_be_hidden()
    sync_api.expect(page.locator("#panel-beam")).to_be_focused()
    assert len(sentences) == 12
    # a screen reader gets words for every picture
    for picture_ in page.locator("canvas, svg[role=img]").all():
        assert picture_.get_attribute("aria-label")
    for control in page.locator("button, input").all():
        name = control.evaluate("e => e.ariaLabel || e.labels?.[0]?.textContent || e.textContent")
        assert name.strip(), control.evaluate("e => e.outerHTML")
    assert page.locator(".formula[role=math] math").count() >= 12
    height = page.locator(".formula math").first.bounding_box()["height"]
    assert height > 10  # typeset, not a line of markup


@pytest.mark.parametrize("architecture", ["decoder-only", "rnn-attention", "convs2s", "rnn"])
def test_other_architectures_are_explained_without_complaints(
    open_page, trained, tmp_path, architecture
) -> None:
    translator = dragoman.load(trained, device="cpu")
    codec = translator.codec
    config = small_config(model__architecture=architecture)
    model = build_model(config.model, codec.source, codec.target, codec.shared).eval()
    engine = TorchEngine(model, codec.source, codec.target, torch.device("cpu"))
    explained = explain(InspectableTranslator(engine, codec, config), "eins zwei", "one two")
    file = tmp_path / "page.html"
    file.write_text(explaining.page(explained), encoding="utf-8")
    page, _ = open_page(file.as_uri())
    left_out = [panel for panel in explained["panels"] if panel["leftOut"]]
    assert page.locator(".chapter.left-out").count() == len(left_out) > 0
    page.keyboard.press("ArrowRight")
    page.keyboard.press("a")
    sync_api.expect(page.locator("#panel-next-word .logits tbody tr").first).to_be_attached()
    assert "undefined" not in page.locator("body").inner_text()
    # what the settings say of heads and layers is shown only where the architecture has them
    facts = page.locator(".facts").inner_text()
    assert ("1 head" in facts) == (architecture in ("rnn-attention", "convs2s"))
    assert (" + " in facts) == (architecture in ("rnn-attention", "convs2s"))
    assert ("head" in page.locator(".keys").inner_text()) == (architecture != "rnn")
    picture(page, tmp_path, architecture)


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        ((1280, 900), "light"),
        ((360, 780), "dark"),
        pytest.param((1280, 900), "dark", marks=pytest.mark.slow),
        pytest.param((360, 780), "light", marks=pytest.mark.slow),
    ],
)
def test_the_report_of_claims_reads_on_a_screen_and_on_a_phone(
    open_page, tmp_path, size, theme
) -> None:
    """The committed report, with its real figures and tables."""
    page, asked = open_page(
        (Path(__file__).parents[2] / "docs/claims.html").as_uri(),
        viewport={"width": size[0], "height": size[1]},
        color_scheme=theme,
    )
    # only tables may be wider than the page, and they scroll on their own
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    outside = """svg => [...svg.querySelectorAll('text')].filter(text => {
        const own = text.getBoundingClientRect(), all = svg.getBoundingClientRect();
        return own.left < all.left - 2 || own.right > all.right + 2 || own.top < all.top - 2;
    }).map(text => text.textContent)"""
    for figure in page.locator("svg[role=img]").all():
        assert figure.evaluate(outside) == []
    folded = page.locator("section details").first
    assert not folded.locator("table").is_visible()
    folded.locator("summary").click()
    sync_api.expect(folded.locator("table")).to_be_visible()
    page.locator(".contents a").last.click()
    last = page.locator("section").last
    sync_api.expect(last.locator("h2")).to_be_in_viewport()
    assert len(asked) == 1
    picture(page, tmp_path, f"claims-{size[0]}-{theme}")
