r"""Find what must not change in a translation: addresses, versions, placeholders, file names, ...

    >>> [text[a:b] for text in ["Send %s to ada@example.org."] for a, b in verbatim_spans(text)]
    ['%s', 'ada@example.org']

If a model would lose such a span, it translates the text with a placeholder in its place.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache, lru_cache

_CONVERSION = (
    r"%(?:\d++\$|\([^()\s]{1,99}\)|<[\w.]{1,99}>)?[-+#0]*+(?:\d++|\*)?+(?:\.(?:\d++|\*))?+"
    r"(?:hh|h|ll|l|L|q|z|j|t)?[diouxXeEfFgGcsSaApn@]"
)
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ENDINGS = (
    "avi|bash|bat|bin|bmp|bz2|c|cc|cfg|cmd|com|conf|cpp|crt|cs|css|csv|dat|db|deb|desktop|dll|dmg"
    "|doc|docx|dtd|env|epub|exe|flac|ftl|gem|gif|git|go|gz|h|hpp|htm|html|ico|ics|img|ini|ipynb|iso"
    "|jar|java|jpeg|jpg|js|json|jsx|key|kt|lock|log|lua|m4a|md|mkv|mov|mp3|mp4|msi|odp|ods|odt|ogg"
    "|pdf|pem|php|pl|png|po|pot|ppt|pptx|properties|ps1|py|pyc|rar|rb|rpm|rs|rst|rtf|service|sh|so"
    "|sql|srt|svg|swift|tar|tex|tgz|tif|tiff|toml|ts|tsv|tsx|ttf|txt|vtt|wav|webm|webp|woff|woff2"
    "|xhtml|xlf|xliff|xls|xlsx|xml|xsd|xz|yaml|yml|zip"
)
# At each position, the patterns are tried in order. A false match costs little: a word that looks
# like a file name stays untranslated. A missed match may break a program. Repetitions are bounded
# or possessive (`*+`), because a hostile text would otherwise take quadratic time.
# An address may follow a word without a space ("snake_casehttps://…"); the word is not part of it.
PATTERNS = {
    "url": r"(?:https?|ftp|file|sftp|ssh|git|wss?)://[^\s<>\"'`{}|\\^\[\]]*[\w/#=&+~-]"
    r"|(?:mailto|tel|urn|doi|data):[^\s<>\"'`]*\w"
    rf"|(?<![\w@])www\.{_HOST}(?:\.{_HOST})+(?:/[^\s<>\"'`]*[\w/#=&+~-])?",
    "mail": rf"(?<![\w.+-])[\w.+-]{{1,64}}@{_HOST}(?:\.{_HOST})*\.[A-Za-z]{{2,24}}"
    r"(?![\w@]|://)",
    "template": r"\$t\([^()]{0,200}\)|\{\{\{?[^{}]{0,200}\}\}\}?|[$%#]\{[^{}]{0,200}\}"
    r"|<%.{0,200}?%>|\{%.{0,200}?%\}|\[\[[\w.:-]{1,99}\]\]"
    r"|\[X\d{1,9}X\]",  # Weblate's placeholder for markup
    "brace": r"\{[\w.:!\[\]$@#-]{0,200}\}",
    "percent": rf"%%|(?<!\d)(?<!\d[ \u00a0\u202f]){_CONVERSION}|{_CONVERSION}(?![A-Za-z])"
    r"|%[A-Z][A-Z0-9_]*+%",
    "variable": r"\$[A-Za-z_]\w*(?:\.\w+)*",
    "code": r"`[^`\n]{1,500}`",
    "uuid": r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b",
    "mac": r"\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b",
    "ipv6": r"(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){2,7}(?::?[0-9A-Fa-f]{1,4})?(?![\w:])"
    r"|(?<![\w:])::1(?![\w:])",
    "ipv4": r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2}|:\d{1,5})?(?![\w.]*\d)",
    "isbn": r"\b(?:ISBN(?:-1[03])?:? ?(?:97[89][- ]?)?|97[89][- ]?)(?:\d[- ]?){9}[\dX]\b",
    # At least three digits
    "phone": r"(?<![\w+/.,])\+(?=\d(?:\)?[ \u00a0/.-]?\(?\d){2})\d{1,3}+"
    r"(?:[ \u00a0/.-]?\(?\d{1,5}+\)?){0,6}(?!\w|[.,]\d)"
    # Not 05/11/2020, which is a date
    r"|(?<![\w+/.,:-])(?<!\d[ \u00a0])(?!\d\d[/-]\d\d[/-]\d{2,4}(?![\d/-]))\(?0\d{1,4}\)?"
    r"[ \u00a0/-]\d{2,8}(?:[ \u00a0/-]\d{2,8}){0,4}(?!\w|[.,:]\d)",
    # Neither 14.02.2022, which is a date, nor 3.450.000
    "version": r"(?<![\w.])(?!\d{1,2}\.\d{1,2}\.\d{4}(?![\w.]*\w))"
    r"(?!\d{1,3}(?:\.\d{3})++(?![\w.]*\w))(?:[vV]\d++(?:\.\d++)*+|\d++(?:\.\d++){2,}+)"
    r"(?:[-+.]?(?:alpha|beta|rc|dev|post|a|b)\.?\d*)?(?:[-+][\w.]{0,99}\w)?(?!\w|\.\d)",
    # Without a word near its start, it would be scanned again from each of its slashes.
    "path": r"(?<![\w/.~])(?!/\w{1,9}://)(?:[A-Za-z]:\\|~/|\.{1,2}/|/)(?=[.+@%\\/-]{0,255}\w)"
    r"(?:[\w.+@%-]++[\\/])*[\w.+@%-]{0,255}\w"
    r"(?:/(?!\w))?",
    "file": rf"(?<![\w.-])[\w+-][\w.+-]{{0,99}}\.(?:{_ENDINGS})(?![\w-]|\.\w)",
    "option": r"(?<![\w-])--[A-Za-z][\w-]*+(?!://)(?:=[^\s,;]*\w)?",
    "identifier": r"(?<![\w.])(?:[^\W_]{0,99}_\w++|[A-Za-z]\w{0,99}(?:\.\w{1,99}){0,9}\(\))"
    r"(?!\w|://)",
    "handle": r"(?<![\w@])@[A-Za-z]\w{1,38}\b|(?<![\w&])#[A-Za-z]\w{1,99}\b",
    "hash": r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b|\b0x[0-9A-Fa-f]++\b",
}
# Groups of digits are a phone number if a word before them says so.
_CALLED = re.compile(
    r"(?i:phone|tel[eé]f|tél\.|téléphone|rufnummer|\btel\b)[^\d\n@/]{1,40}?"
    r"(?P<number>\d{2,4}(?:[ \u00a0/-]\d{2,4}){2,4})(?!\w|[.,:]\d)"
)
# Each pattern needs one of these characters. Most lines have no such character, and this check is
# ten times as fast as the patterns.
_SIGN = re.compile(r"[@/\\{\[<%$#`_]|:\S|--|\.\w|\(\)|-\w{2}(?:\w\w)?-")
_DIGIT = re.compile(r"\d")
_SIGN_WITH_DIGIT = re.compile(r"\d[a-f]|[a-fvV]\d|\d[ \u00a0-]\d|\b0\d|\+\d|0x|97[89]\d|ISBN")


@cache
def _any() -> re.Pattern[str]:
    """Compile all patterns as one, when the first text needs them."""
    return re.compile("|".join(PATTERNS.values()))


# Cached: several steps of the pipeline need the spans of the same source.
@lru_cache(maxsize=256)
def verbatim_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return start and end of each span that must not change, in order."""
    if not _has_sign(text):
        return ()
    spans = [match.span() for match in _any().finditer(text)]
    ends = [end for _, end in spans]
    called = []
    for match in _CALLED.finditer(text):
        start, end = match.span("number")
        # Skip a number that overlaps another span: compare it with the first that ends after its
        # start.
        after = bisect_right(ends, start)
        if after == len(spans) or end <= spans[after][0]:
            called.append((start, end))
    return tuple(sorted(spans + called))


def _has_sign(text: str) -> bool:
    return bool(_SIGN.search(text) or (_DIGIT.search(text) and _SIGN_WITH_DIGIT.search(text)))


_WORD = re.compile(r"[^\W\d_]+")
# Fewer words, or fewer words in lower case, may be a name or the same in both languages.
_COPIED_WORDS, _SMALL_WORDS = 3, 2


def reason_for_doubt(source: str, translation: str) -> str:
    """Return an obvious problem of a translation: it is empty, or a copy of the source.

    Names, addresses and single words may be equal in both languages.

    >>> reason_for_doubt("Open the file.", "open the file"), reason_for_doubt("Ja.", " ")
    ('the translation is the source again', 'the translation is empty')
    >>> reason_for_doubt("Florian Höch", "Florian Höch"), reason_for_doubt("Taxi", "Taxi")
    ('', '')
    """
    words = _WORD.findall(source)
    if words and not translation.strip():
        return "the translation is empty"
    if list(map(str.lower, words)) != list(map(str.lower, _WORD.findall(translation))):
        return ""
    for start, end in reversed(verbatim_spans(source)):
        source = source[:start] + source[end:]
    words = _WORD.findall(source)
    small = sum(word.islower() for word in words)
    copied = len(words) >= _COPIED_WORDS and small >= _SMALL_WORDS
    return "the translation is the source again" if copied else ""


# Returns the placeholder of a number, counted from 0
StandIns = Callable[[int], str]


def names(number: int) -> str:
    """Return a placeholder that looks like a name: models copy it, unlike a time or a number.

    >>> names(0), names(1)
    ('X47', 'X60')
    """
    return f"X{47 + 13 * number}"


def numbers(number: int) -> str:
    """Return a placeholder that is a number, for models that translate names."""
    return str(4817 + 137 * number)


STAND_INS: tuple[StandIns, ...] = (names, numbers)  # tried in this order
