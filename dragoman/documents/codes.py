"""Find the values of message files that a program reads: classes, icons, colors, paths, options.

A value is a code

1. by its shape: fa-leaf, img/logo.png, #ffcc00, en-US, text/html, isOpen, 1px solid #ccc;
2. by the name of its key, such as `icon` or `align`, if it does not look like prose;
3. by repetition: the same few lower-case words recur under its key, or it is the key of an object.

Shapes have no words that could be translated. What the other rules leave is a guess, so the report
names it, and `--only-keys` and `--skip-keys` decide otherwise.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.segment import plain_text, word_set

BY_NAME = "its key looks like a code's; see --only-keys"
BY_LOOK = "it looks like a path or a command; see --only-keys"
BY_REFERENCE = "it is the name of another key; see --only-keys"
BY_REPETITION = "the same few words recur under its key; see --only-keys"

# Values of style sheets and of `class` attributes may have several of these.
_STYLE = re.compile(
    r"#[0-9A-Fa-f]{3,8}|-?[\d.]+(?:px|em|rem|vh|vw|pt|ms|deg|fr|%)"
    r"|(?:bg|bi|btn|col|fa|fas|far|fab|glyphicon|icon|ion|mdi|ri|row|text|ti)-[a-z0-9-]+"
    r"|(?:rgba?|hsla?|var|url|calc|env|theme|[a-z]+-gradient|translate\w?)\([^()]*\)"
)
_SHAPE = re.compile(
    _STYLE.pattern + r"|[#@$~/\\]\S*|\.[\w-]\S*"  # @scope/name, $variable, .class, /path
    r"|[\w$-]*[A-Za-z]_+\w[\w-]*|_\w+"  # snake_case
    r"|[a-z]+[A-Z]\w*|[A-Za-z]+[a-z][A-Z]\w*"  # camelCase
    r"|[A-Za-z][\w-]*(?:\.[A-Za-z_][\w-]*)+"  # app.title, logo.png, example.com
    r"|(?:[\w.@{}$*-]+/){2,}[\w.@{}$*-]*|[\w./@-]+/[\w@-]*\.\w+"  # a path
    r"|(?:application|audio|font|image|message|multipart|text|video)/[\w.+*-]+"
    r"|[a-z]{2,3}[-_](?:[A-Z]{2}|[A-Z][a-z]{3})(?:[-_][A-Z]{2})?"  # a locale
    r"|[a-z]+(?:-[a-z]+)*-?\d[\w.-]*"  # h2, utf-8
    r"|true|false|null|undefined|string|str|integer|int|boolean|bool|float|void"
    r"|[\w.+-]+@[\w-]+\.[\w.]+"
    r"|\^.*\$|<[^<>]*>|[a-z][a-z0-9+.-]*:\S+|\w+(?:::\w+)+"
    r"|(?!\d+[a-z]+\Z)(?=\S*\d)(?=\S*[A-Za-z])[^\s.,:;!?()]\S{2,}[^\s.,:;!?)]"  # 17d58.2ab8, T201
)
# Requirements, classifiers of packages
_PHRASE = re.compile(r".*[<>=~!]=\s*v?\d.*|\S+ =\d.*|.* :: .*")
# Commands, paths and names of repositories, which prose may look like.
_PROBABLE = re.compile(
    r"[a-z][\w./-]*(?: \S+)* --?[A-Za-z][\w-]*(?: .*)?"
    r"|(?![A-Z][a-z]+/[A-Z])[\w.*@-]*/[\w.*@/-]*"
)
_DATE_FORMAT = re.compile(
    r"(?=.*(?:MM|mm|dd|DD|yy|YY|HH))(?=.*[-/:., ])(?:([aAdDEhHmMsSyYzZ])\1*+[\W_]*+){2,}"
)
_TOKEN = re.compile(r"[a-z][\w-]*+|[A-Z][A-Z\d]++")
_KEBAB = re.compile(r"[a-z]\w*+(?:-\w++)++")
_PROSE = re.compile(r"[A-Z](?:[a-z]|\Z|[^ ]* )")  # begins like a sentence or a title
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_LONGEST = 300  # characters of a code
_MOST_WORDS = 3  # of a value that is a code by the name of its key
_LEAST_VALUES = 4  # under a key, to tell an enumeration
_NAMES = word_set(
    "action adapter alias align alignment anchor backend background border charset class "
    "classname code codec color colour command component css currency cursor dialect dir "
    "direction display driver easing effect encoding endpoint engine entry entrypoint enum env "
    "event exec extension file filename folder font fontfamily format function handler hash "
    "height hook host hostname href icon id if image img import justify kind lang layout level "
    "license locale logo method mime mode module namespace operator orientation os overflow "
    "path pattern permalink placement platform plugin policy position protocol provider ref "
    "regex regexp rel repo role route run schema scheme scope script selector severity shape "
    "shell size slug source src state status strategy style target template theme timezone "
    "transition trigger type uid uri url uses uuid valign variant version visibility weight "
    "widget width"
)
_FONTS = word_set("font fontfamily typeface")
_COMMANDS = word_set("command entrypoint exec if run script shell")
# Keys of objects and lists that have only codes in them.
_HOLDERS = word_set(
    "aliases classes colors colours dependencies devdependencies engines env environment files "
    "fonts icons imports paths peerdependencies permissions plugins ports urls volumes"
)


class Value(NamedTuple):
    """A string of a message file, and the keys and indices that lead to it."""

    path: tuple[str | int, ...]
    span: Span

    @property
    def text(self) -> str:
        return plain_text(self.span.segment).strip()

    @property
    def keys(self) -> list[str]:
        return [step for step in self.path if isinstance(step, str)]


def without_codes(values: Iterable[Value], options: ReadOptions) -> Iterator[Span]:
    """Yield the spans of values; a code's span has the reason to leave it."""
    if options.only_keys:
        yield from (value.span for value in values if _matches(value, options.only_keys))
        return
    texts = [value for value in values if not _matches(value, options.skip_keys)]
    of_key: dict[str, list[str]] = defaultdict(list)
    for value in texts:
        of_key[_key(value)].append(value.text)
    holders = {key for value in texts for key in value.keys[:-1]}  # of objects and lists
    enumerations = {key for key, own in of_key.items() if key and _is_enumeration(own)}
    for value in texts:
        why = None
        if is_code(value.text):
            why = ""
        elif _is_named_as_code(value):
            why = BY_NAME
        elif len(value.text) <= _LONGEST and _PROBABLE.fullmatch(value.text):
            why = BY_LOOK
        elif _key(value) in enumerations and _TOKEN.fullmatch(value.text):
            why = BY_REPETITION
        elif value.text in holders and value.text.islower() and value.text != _key(value):
            why = BY_REFERENCE
        yield value.span._replace(left=why)


def is_code(text: str) -> bool:
    """True if a text is a code by its shape.

    >>> [is_code(text) for text in ["fa-leaf", "btn btn-primary", "Yes/No", "sign-in", "Size: 2px"]]
    [True, True, False, False, False]
    """
    words = text.split()
    if not words or len(text) > _LONGEST:
        return False
    if _DATE_FORMAT.fullmatch(text) or _STYLE.fullmatch(text) or _PHRASE.fullmatch(text):
        return True
    if len(words) == 1:
        return bool(_SHAPE.fullmatch(text))
    styles = sum(bool(_STYLE.fullmatch(word)) for word in words)
    return 2 * styles >= len(words) and all(map(_is_small, words))


def _is_small(word: str) -> bool:
    return word.isascii() and not word[0].isupper() and word[-1] not in ".,:;!?"


def _key(value: Value) -> str:
    """Return the last key that leads to a value."""
    return value.keys[-1] if value.keys else ""


def _words(text: str) -> list[str]:
    """Return the words of a key or a value.

    >>> _words("fontFamily"), _words("text-align"), _words("MIME_type")
    (['font', 'family'], ['text', 'align'], ['mime', 'type'])
    """
    return [word.lower() for word in _WORD.findall(text)]


def _is_named_as_code(value: Value) -> bool:
    keys = value.keys
    words = _words(_key(value))
    if not words or not value.text:
        return False
    # Elsewhere, scripts may be writing systems.
    if keys[0] == "scripts" or any("".join(_words(key)) in _HOLDERS for key in keys[:-1]):
        names = _NAMES
    else:
        last = words[-1]
        names = _NAMES & {last, last.removesuffix("s"), last.removesuffix("es"), "".join(words)}
    said = _words(value.text)
    # In a list of messages, the key "color" has the text "Color".
    if not names or set(words) & set(said):
        return False
    if names & _FONTS and names is not _NAMES:
        return True
    if not value.text.isascii() or _PROSE.match(value.text) or value.text[-1] in ".!?:":
        return False
    return len(value.text.split()) <= _MOST_WORDS or bool(names & _COMMANDS)


def _is_enumeration(texts: Sequence[str]) -> bool:
    """True if texts under the same key are the options of a program.

    >>> _is_enumeration(["easy", "hard", "easy", "easy"]), _is_enumeration(["star", "fa-leaf"])
    (True, True)
    >>> _is_enumeration(["Easy", "Hard", "Easy", "Easy"]), _is_enumeration(["dog", "cat"])
    (False, False)
    """
    small = [text for text in texts if _TOKEN.fullmatch(text)]
    codes = sum(is_code(text) or bool(_KEBAB.fullmatch(text)) for text in texts)
    if len(texts) > 1 and 2 * codes >= len(texts):
        return True
    return len(small) == len(texts) >= _LEAST_VALUES and 2 * len(set(texts)) <= len(texts)


def _matches(value: Value, patterns: Sequence[str]) -> bool:
    """True if a key, or the path of keys, matches one of the patterns."""
    keys = value.keys
    path = ".".join(keys)
    return any(
        fnmatchcase(path, pattern) or any(fnmatchcase(key, pattern) for key in keys)
        for pattern in patterns
    )
