"""The regular expressions of the package, and how their steps grow with the length of a text.

    python tools/patterns.py > docs/patterns.md

Every call of `re` with a pattern is found in the syntax tree. A pattern that is put together from
constants of its module is evaluated there; for one that is made from arguments, `MADE` has an
example. A new pattern is found, and tested, without being named anywhere.
"""

import argparse
import ast
import functools
import importlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from steps import Counter, TooManyError, attacks

PACKAGE = Path(__file__).parent.parent / "dragoman"
MOST_GROWTH = 2.2  # when a text becomes twice as long
MOST_STEPS = 1000  # for each character of a text
_METHODS = frozenset(["compile", "search", "match", "fullmatch", "split", "findall", "finditer"])
_CALLS = _METHODS | {"sub", "subn"}
_AT_ONE_PLACE = frozenset(["match", "fullmatch"])
_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_ENOUGH = 300_000  # steps
# Patterns that are made from arguments: an expression for each, in the names of its module.
MADE = {
    "decode/text_engine/forms.py _with_words_marked": r"r'(?<!\w)a\.py(?!\w)|(?<!\w)b\.py(?!\w)'",
    "text/term_matching.py _pattern": "[_pattern('anzeigen', True, 'de', False),"
    " _pattern('Haus', True, 'de', False)]",
    "text/numbers.py _spelled_out": "[_spelled_out(19, 'de'), _spelled_out(80, 'fr')]",
    "text/numbers.py _twin": "[_twin(one) for one in quantities('1234567 and 31.12.2027')]",
    "text/numbers.py _unit": "_unit('km').pattern",
    "text/numbers.py value": r"r'\d{1,3}(?:\.\d{3})+(?:\,\d+)?'",
    "decode/repairs/placing.py _article": "_article('fr').pattern",
    "documents/archive.py _reader": r"r'(?:.*/)?content\.xml|ppt/(?:slides|notes)/[^/]+\.xml'",
    "documents/inline.py restore": r"r'(?<!\w)X47(?!\w)'",
    "documents/inline.py _unchanged_words": r"r'(?<!\w)word(?!\w)'",
    "documents/inline.py _verbatim": r"r'(?<!\w)inner(?!\w)'",
    "documents/line_markup.py __init__": "[import_module(f'dragoman.documents.{name}')"
    ".MARKUP._pattern for name in ('rst', 'adoc')]",
    "documents/mail.py _part": r"r'(?:\r?\n|^)--edge(--)?[ \t]*+(?=\r?\n|\Z)'",
    "documents/rst_tables.py table_span": r"r'(?<![=-])[=-]'",
    "documents/rst_tables.py _rows": r"r'(?<![=-])[=-]'",
    "documents/tables.py _cell": "_cell(',').pattern",
    "documents/tagged.py read": r"r'(<(?:x|keep)(?:\s[^<>]*)?>[^<>]*</(?:x|keep)>)'",
    "text/masks.py _forms_of": "[_forms_of('no.')[1], _forms_of('approx.')[1]]",
    "text/masks.py _is_in": r"r'(?<!\w)N\s?r\s?\.\s?1\s?2(?!\w)'",
    "text/masks.py pattern": r"[r'(?i)(?<!\w)X47(?!\w)', '\ue000']",
    "text/tails.py _is_adjective": "[*_ADJECTIVE_ENDINGS.values()]",
    "text/german_leads.py _joined": r"r'(?i)^in das\b'",
    "text/german_leads.py _german_lead": "_german_lead()",
    "text/agreement.py _romance_lead": "_romance_lead('fr')",
    "text/tails.py tail_of": r"r'(?: (?!(?:es|son)\b)[^\W\d_]{4,}(?!\w))?(?: es)?'",
    "text/verbs.py _before": "'^i(?=a|d|mos|ram$|st|ss)'",
    "storage/files.py is_partial": r"r'final\.[0-9a-f]{16}\.partial'",
}
# Made in a list or a table, and matched with whole words or names of files.
_WHOLE = frozenset(
    ["documents/archive.py patterns", "text/forms.py _PLURAL_ENDINGS", "text/verbs.py INFINITIVES"]
)


class Pattern(NamedTuple):
    """`everywhere`: it is searched for, and not only matched at one place."""

    place: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    everywhere: bool


class Growth(NamedTuple):
    """How many times as many steps a text of twice the length takes, the steps for a character of
    the longest text, and the text that was worst: its beginning, what is repeated, its end."""

    ratio: float
    steps: float
    attack: tuple[str, str, str]


@functools.cache
def patterns() -> list[Pattern]:
    """All of the package, in the order of its files."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        text = _text(file)
        if re.search(rf"\bre\.(?:{'|'.join(_CALLS)})\b", text):  # most modules are not worth a tree
            found += list(_of_file(file.relative_to(PACKAGE), ast.parse(text)))
    return found


@functools.cache
def _text(file: Path) -> str:
    return file.read_text("utf-8")


def _calls(
    tree: ast.AST, function: str = "", name: str = ""
) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the calls of `re`, the function around each, and the name that it is assigned to."""
    if isinstance(tree, ast.stmt):
        name = ""
    if isinstance(tree, ast.Assign | ast.AnnAssign):
        target = tree.targets[0] if isinstance(tree, ast.Assign) else tree.target
        name = ast.unparse(target)
    for child in ast.iter_child_nodes(tree):
        inside = child.name if isinstance(child, ast.FunctionDef) else function
        if (
            isinstance(child, ast.Call)
            and isinstance(child.func, ast.Attribute)
            and child.func.attr in _CALLS
            and ast.unparse(child.func.value) == "re"
        ):
            yield child, inside, name
        yield from _calls(child, inside, name)


def _of_file(file: Path, tree: ast.Module) -> Iterator[Pattern]:
    module = importlib.import_module(".".join(["dragoman", *file.with_suffix("").parts]))
    # re.compile(…).match(…)
    called = {
        id(node.func.value): node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    for call, function, name in _calls(tree):
        place = f"{file.as_posix()} {name or function}"
        assert isinstance(call.func, ast.Attribute)
        uses = _uses(name, file) if call.func.attr == "compile" and name else {call.func.attr}
        uses = {called[id(call)]} if id(call) in called else uses
        uses = {"fullmatch"} if place in _WHOLE else uses - {"compile"}
        everywhere = not uses or not uses <= _AT_ONE_PLACE
        names: dict[str, Any] = {**vars(module), "import_module": importlib.import_module}
        try:
            source = eval(ast.unparse(call.args[0]), names)
        except NameError:
            made = f"{file.as_posix()} {function}"
            if made not in MADE:
                raise LookupError(f"{made}: MADE needs an example of its pattern.") from None
            source = eval(MADE[made], names)
        flags = [k.value for k in call.keywords if k.arg == "flags"]
        flags += [a for a in call.args[1:] if ast.unparse(a).startswith("re.")]
        for number, one in enumerate(source if isinstance(source, list) else [source]):
            given = one
            if not isinstance(one, re.Pattern):
                given = re.compile(one, eval(ast.unparse(flags[0]), names) if flags else 0)
            which = f" {number + 1}" if number else ""
            yield Pattern(place + which, given, everywhere)


def _uses(name: str, file: Path) -> set[str]:
    """Return how the pattern of a name is used: in its file, or in all if others import it."""
    found: set[str] = set()
    files = PACKAGE.rglob("*.py") if name.isupper() and name[0] != "_" else [PACKAGE / file]
    for text in map(_text, files):
        if f"{name}." in text:
            found |= set(re.findall(rf"(?<!\w){re.escape(name)}\.(\w+)\(", text))
    return found & _CALLS


def growth(pattern: Pattern) -> Growth:
    """The worst of all attacks."""
    counter = Counter(pattern.pattern)
    worst = Growth(0.0, 0.0, ("", "", ""))
    for attack in attacks(counter):
        ratio, steps = _grown(counter, attack, pattern.everywhere)
        # A bound that is not reached yet, and a few steps more or less, tell nothing.
        if (ratio > MOST_GROWTH, steps) > (worst.ratio > MOST_GROWTH, worst.steps):
            worst = Growth(ratio, steps, attack)
        if math.isinf(ratio):
            break
    return worst


def _grown(counter: Counter, attack: tuple[str, str, str], everywhere: bool) -> tuple[float, float]:
    """Texts are doubled until their steps double too, or are too many."""
    beginning, repeated, end = attack
    before, ratio, each = 0, math.inf, 0.0
    for size in _SIZES:
        text = beginning + repeated * (1 + size // len(repeated)) + end
        try:
            counter.run(text, everywhere, _ENOUGH)
        except TooManyError:
            return math.inf, _ENOUGH / (len(text) + 1)
        each = counter.steps / (len(text) + 1)
        if before:
            ratio = counter.steps / before
            if ratio < MOST_GROWTH:
                break
        before = counter.steps
    return ratio, each


def main() -> None:
    argparse.ArgumentParser(
        description="Prints the table of patterns and their growth."
    ).parse_args()
    print("# Regular expressions\n")
    print(
        "A pattern that backtracks can take hours for a text of a few kilobytes. Each pattern of"
        " the package is\nfed with texts made from its own parts, and its steps are counted"
        " (`tools/steps.py`). *Growth* says how many times\nas many steps a text of twice the"
        f" length takes in the worst case: 2 is linear, and {MOST_GROWTH} is the\nlimit of the"
        " test. *Steps* are those for one character of the worst text. `python"
        " tools/patterns.py`\nmakes this page.\n"
    )
    print("| Pattern | Searched | Growth | Steps |\n|---|---|---:|---:|")
    for pattern in patterns():
        ratio, steps, _ = growth(pattern)
        searched = "everywhere" if pattern.everywhere else "at one place"
        file, _, name = pattern.place.partition(" ")
        print(f"| `{file}` `{name or 'module'}` | {searched} | {ratio:.2f} | {steps:.0f} |")


if __name__ == "__main__":
    main()
