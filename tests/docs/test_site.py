"""The built site has no broken links, its formulas are typeset, and its pages work from disk."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("material", reason="no MkDocs: pip install dragoman[docs]")

ROOT = Path(__file__).parents[2]
NOT_FOUND = "404.html"  # a server's page, for any address: its links begin at the root
CHROMIUM = (
    os.environ.get("DRAGOMAN_BROWSER")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True, timeout=600,
    )  # fmt: skip
    return folder


@dataclass
class Found(HTMLParser):
    """Collects the links of a page, and the names that other pages can link to."""

    links: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            if (name == "id" or (tag, name) == ("a", "name")) and value:
                self.names.add(value)


def dead_links(site: Path) -> list[str]:
    """Return the links inside the site that lead nowhere."""
    pages = {path: Found() for path in site.rglob("*.html") if path.name != NOT_FOUND}
    for path, page in pages.items():
        page.feed(path.read_text(encoding="utf-8"))
    dead = []
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = path
            if address.path:
                target = Path(os.path.normpath(path.parent / unquote(address.path)))
            inside = target.is_relative_to(site) and target.is_file()
            name = unquote(address.fragment)
            if not inside or (name and target in pages and name not in pages[target].names):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    assert dead_links(site) == []


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">1</a><a href="c.html">2</a>')
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="a.html">3</a><a href="/">4</a>')
    assert sorted(dead_links(tmp_path)) == [
        "a.html: b.html#here", "a.html: c.html", "b.html: /",
    ]  # fmt: skip


def test_each_lesson_is_one_click_from_its_notebook_and_has_folded_answers(site: Path) -> None:
    lessons = sorted((site / "lessons").glob("[0-9]*.html"))
    assert len(lessons) == 11
    index = (site / "lessons" / "index.html").read_text(encoding="utf-8")
    for page in lessons:
        text = page.read_text(encoding="utf-8")
        notebook = page.with_suffix(".ipynb")
        assert notebook.exists()
        assert f'href="{notebook.name}"' in text
        assert f'href="{notebook.name}"' in index
        assert len(re.findall(r"<details>\s*<summary>Answer \d</summary>\s*<p>", text)) == 2, page
        assert "<math" in text, page
        assert not re.search(r"\$[^$<]*\\[a-z]+", text), page  # LaTeX that was not typeset


@pytest.fixture(scope="module")
def chromium():
    driving = pytest.importorskip("playwright.sync_api", reason="no Playwright")
    if not CHROMIUM:
        pytest.skip("no browser: apt-get install chromium, or name one in DRAGOMAN_BROWSER")
    with driving.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


LONGEST_MS = 300_000  # that a page is waited for: cores may be busy


def test_search_finds_pages_from_disk(site: Path, chromium) -> None:
    page = chromium.new_page()
    page.set_default_timeout(LONGEST_MS)
    page.goto(f"file://{site}/index.html")
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").press_sequentially("coverage penalty")
    page.locator(".md-search-result__item a").first.wait_for()
    links = page.locator(".md-search-result__link")
    assert any("lectures.html" in link.get_attribute("href") for link in links.all())


def test_no_table_or_figure_of_the_claims_is_cut_off(site: Path, chromium) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(LONGEST_MS)
    page.goto(f"file://{site}/claims.html")
    wider = page.evaluate(
        """() => {
          document.querySelectorAll("details").forEach((box) => (box.open = true));
          const outside = [];
          for (const table of document.querySelectorAll(".table"))
            if (table.scrollWidth > table.clientWidth) outside.push(table.textContent);
          for (const text of document.querySelectorAll("svg text")) {
            const own = text.getBoundingClientRect();
            const room = text.closest("section").getBoundingClientRect();
            if (own.left < room.left || own.right > room.right) outside.push(text.textContent);
          }
          return outside;
        }"""
    )
    assert wider == []


def test_the_figures_of_a_lesson_have_no_background(site: Path, chromium) -> None:
    page = chromium.new_page(color_scheme="dark")
    page.set_default_timeout(LONGEST_MS)
    page.goto(f"file://{site}/lessons/01-attention.html")
    assert page.locator(".picture svg").count() >= 4
    ink = page.locator(".picture svg text").first.evaluate("(text) => getComputedStyle(text).fill")
    assert min(map(float, re.findall(r"[\d.]+", ink)[:3])) > 128  # light letters on a dark page
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(".picture rect")].filter(
          (box) => box.getAttribute("width") === "100%" || box.getAttribute("fill") === "white"
        ).length"""
    )
    assert boxes == 0
