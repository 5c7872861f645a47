"""Hooks that add to MkDocs: pages from outside docs/, notebooks as pages, formulas, and the code
next to them.

MkDocs calls the functions whose names begin with `on_` while it builds the site (see mkdocs.yml).
"""

import ast
import html
import json
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

# Pages in the project's root, where people look for them, and their names on the site.
FROM_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
# Files outside docs/ that a page links to.
BESIDE = (
    "deploy/Dockerfile",
    "deploy/dragoman.service",
    "examples/transformer_from_scratch.py",
)
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.S
)
_SHORT_CODE = re.compile(r"<code>([^<]{1,28})</code>")  # such as an option: not to be broken
_FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//[^>]*>')
_CODE = re.compile(r"^Code: `(?P<file>[\w/]+\.py)::(?P<name>[\w.]+)`$", re.M)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in FROM_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    for name in BESIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    # The notebooks stay, too, for readers who want to run them.
    notebooks = [file for file in files if file.src_uri.endswith(".ipynb")]
    for file in notebooks:
        page = file.src_uri.replace(".ipynb", ".md")
        content = as_page(Path(file.src_uri).name, json.loads(file.content_string))
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return with_code(with_links_of_the_site(markdown))


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return _SHORT_CODE.sub(r'<code class="short">\1</code>', with_formulas(content))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Nothing that a browser would fetch from elsewhere while it shows the page."""
    if found := _FETCHED.search(output):
        raise ValueError(f"{page.file.src_uri} would fetch something from elsewhere: {found[0]}")
    return output


def with_links_of_the_site(markdown: str) -> str:
    """Adapt links to the site, where all pages are in one folder.

    >>> with_links_of_the_site("[log](docs/LOG.md), [house](../ARCHITECTURE.md#hinges)")
    '[log](LOG.md), [house](architecture.md#hinges)'
    >>> with_links_of_the_site("[lesson](lessons/01-attention.ipynb)")
    '[lesson](lessons/01-attention.md)'
    """
    markdown = markdown.replace("](docs/", "](")
    markdown = re.sub(r"\]\(\.\./(deploy|examples)/", r"](\1/", markdown)
    markdown = re.sub(r"(\]\([\w./-]+)\.ipynb\)", r"\1.md)", markdown)
    for name, page in FROM_ROOT.items():
        markdown = re.sub(rf"\]\((\.\./)?{re.escape(name)}", f"]({page}", markdown)
    return markdown


def as_page(name: str, notebook: dict[str, Any]) -> str:
    """A notebook as Markdown: its text, its code, and what each cell showed when it last ran."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", [])]
    # MkDocs does not change links in HTML: this one leads to the notebook itself.
    parts.insert(
        1,
        f'<a href="{name}" download>The notebook, to run it yourself</a> '
        '(<a href="lesson.py" download>lesson.py</a> beside it draws the pictures)',
    )
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    """Render the output of a cell: what it printed, drew or returned."""
    data = output.get("data", {})
    if picture := "".join(data.get("image/svg+xml", [])):
        return f'<div class="picture">{picture}</div>'
    text = "".join(output.get("text") or data["text/plain"]).strip("\n")
    return f"``` {{ .text .shown }}\n{text}\n```"


def with_code(markdown: str) -> str:
    """Below each line "Code: `file::name`", the source of that class or function."""

    def block(found: re.Match[str]) -> str:
        source = source_of((ROOT / found["file"]).read_text(encoding="utf-8"), found["name"])
        title = f"{found['file']} · {found['name']}"
        return f'```python title="{title}"\n{source}\n```'

    return _CODE.sub(block, markdown)


def source_of(module: str, name: str) -> str:
    """Return the source of a class, function or table of a module.

    >>> source_of("class Half:\\n    def of(self, x):\\n        return x / 2", "Half.of")
    'def of(self, x):\\n    return x / 2'
    """
    body = ast.parse(module).body
    lines: list[str] = []
    for part in name.split("."):
        node = next((node for node in body if part in _names(node)), None)
        if node is None:
            raise ValueError(f"there is no {name} in the module.")
        lines = module.splitlines()[node.lineno - 1 : node.end_lineno]
        body = getattr(node, "body", [])
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets]
    return []


def with_formulas(content: str) -> str:
    """Formulas as MathML, which browsers typeset without a script or a font of ours.

    >>> "<msup>" in with_formulas('<span class="arithmatex">\\\\(x^2\\\\)</span>')
    True
    """

    def typeset(found: re.Match[str]) -> str:
        display = "block" if found["tag"] == "div" else "inline"
        return convert(html.unescape(found["tex"]).strip(), display=display)

    return _FORMULA.sub(typeset, content)
