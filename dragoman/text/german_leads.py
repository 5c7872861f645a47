"""German articles and adjectives before a noun, and the cases that a noun may have.

A lead (see `agreement`) changes with the gender, the number and the case of its noun. The case is
known in part: from a preposition, from the endings of the lead, and from another subject.
"""

import re
from collections.abc import Container, Iterator
from functools import cache

from dragoman.text.forms import CASES, MANY, ONE, Form, german_adjective
from dragoman.text.inflection import classified

_GENDERS = {"m": 0, "f": 1, "n": 2}  # columns; the plural is the fourth


def _columns(*rows: str) -> dict[str, list[str]]:
    """Map each case to its endings: masculine, feminine, neuter, plural; "-" is no ending."""
    return {
        case: [ending.strip("-") for ending in row.split()]
        for case, row in zip(CASES, rows, strict=True)
    }


_THE = _columns("der die das die", "des der des der", "dem der dem den", "den die das die")
_STRONG = _columns("er e es e", "es er es er", "em er em en", "en e es e")
_OF_EIN = _columns("- e - e", "es er es er", "em er em en", "en e - e")
_AFTER_THE = _columns("e e e en", "en en en en", "en en en en", "en e e en")
_AFTER_EIN = _columns("er e es en", "en en en en", "en en en en", "en e es en")
_ALONE = _columns("er e es e", "en er en er", "em er em en", "en e es e")
_EIN = "ein kein mein dein sein ihr unser euer"
_DIESER = "dies jed jen welch manch solch all"
_CONTRACTED = {
    "im": "in dem", "ins": "in das", "am": "an dem", "ans": "an das", "zum": "zu dem",
    "zur": "zu der", "vom": "von dem", "beim": "bei dem",
}  # fmt: skip
_NO_ADJECTIVES_LISTED = (
    "oder aber unter über hinter neben wegen gegen zwischen ohne bitte heute immer wieder "
    "sowie werden haben können müssen sollen wollen dürfen wurden waren hatten sind einer "
    "eines einem deren dessen welche welcher alle aller allen viele vieler vielen keine "
    "keiner wenn dann denn ihnen uns euch seiner ihrer unserer wurde werde habe hatte konnte "
    "sollte wollte musste durfte sehr mehr hier dort jeder jede jedes diese dieser dieses "
    "diesen jetzt später früher alles eure ihre seine meine deine unsere unseren ihren "
    "seinen meinen deinen ihrem seinem meinem ihres seines meines unserem unseres"
)
_NO_ADJECTIVES = frozenset(_NO_ADJECTIVES_LISTED.split())

_GERMAN_ADJECTIVE = r"[a-zäöüß-]{2,40}(?:e[mnrs]?)"


@cache
def _german_determiners() -> dict[str, tuple[str, dict[str, list[str]], dict[str, list[str]]]]:
    """Map each determiner to its stem, its endings and the endings of adjectives after it."""
    known = {word: ("", _THE, _AFTER_THE) for row in _THE.values() for word in row}
    for stem in _DIESER.split():
        known |= {stem + e: (stem, _STRONG, _AFTER_THE) for row in _STRONG.values() for e in row}
    for stem in _EIN.split():
        known |= {stem + e: (stem, _OF_EIN, _AFTER_EIN) for row in _OF_EIN.values() for e in row}
    return known


def german_leads(lead: str, form: Form, cases: Container[str]) -> Iterator[str]:
    """Generate the leads that can replace this one before a form of a noun."""
    preposition, determiner, words = _german_parts(lead)
    stem, endings, of_adjectives = "", None, _ALONE
    if determiner:
        stem, endings, of_adjectives = _german_determiners()[determiner]
    # There is no plural of *ein*: its adjectives take the endings without an article.
    if form.number == MANY and stem == "ein":
        endings, of_adjectives = None, _ALONE
    # The table is right more often than the model, which prefers the gender of the noun that it
    # had chosen itself.
    genders = [form.gender] if form.gender else ["m", "f", "n"]
    if form.cases == ("genitive",) and not form.gender:
        genders = ["m", "n"]
    columns = [_GENDERS[gender] for gender in genders] if form.number != MANY else []
    columns += [3] * (form.number != ONE)
    for column in columns:
        for case in form.cases or CASES:
            if case not in cases:
                continue
            article = "" if endings is None else stem + endings[case][column]
            adjectives = [_with_ending(word, of_adjectives[case][column]) for word in words]
            yield _joined([preposition, article, *adjectives])


_AND = ("und", "oder")


def _with_ending(word: str, ending: str) -> str:
    """Give an adjective another ending; leave a conjunction between two of them unchanged.

    >>> _with_ending("alte", "en"), _with_ending("alte,", "en"), _with_ending("und", "en")
    ('alten', 'alten,', 'und')
    """
    if word in _AND:
        return word
    bare = word.rstrip(",")
    return german_adjective(bare) + ending + word[len(bare) :]


def _german_parts(lead: str) -> tuple[str, str, list[str]]:
    """Split a lead into preposition, determiner and adjectives.

    >>> _german_parts("zum neuen ")
    ('zu', 'dem', ['neuen'])
    """
    words = lead.split()
    first = words[0].lower() if words else ""
    # Written out, so that the article can be declined: *zum* is *zu dem*.
    if first in _CONTRACTED:
        words[:1] = _CONTRACTED[first].split()
    with_preposition = bool(words) and words[0].lower() in ("in", "an", "zu", "von", "bei")
    preposition = words.pop(0) if with_preposition else ""
    with_determiner = bool(words) and words[0].lower() in _german_determiners()
    determiner = words.pop(0).lower() if with_determiner else ""
    return preposition, determiner, words


# The cases that a preposition takes; others than these allow every case.
_GOVERNED = {
    "mit von zu bei nach aus seit gegenüber samt entgegen": ("dative",),
    "für durch gegen ohne um": ("accusative",),
    "in an auf über unter vor hinter neben zwischen": ("dative", "accusative"),
    "innerhalb außerhalb aufgrund anhand mithilfe anstelle bezüglich hinsichtlich angesichts "
    "wegen während trotz statt anstatt": ("genitive", "dative"),
}


# Pronouns that are always the subject, and verbs that allow a second nominative.
_SUBJECT = re.compile(r"(?i)(?<!\w)(?:ich|du|er|wir|man)(?!\w)")
_COPULA = re.compile(
    r"(?i)(?<!\w)(?:bin|bist|ist|sind|seid|war(?:en|st)?|wäre?n?|wird|werden?|wurden?|würden?|"
    r"worden|geworden|gewesen|sein|sei|bleib\w*|blieb\w*|heiß\w*|als|wie)(?!\w)"
)
_CLAUSE_END = re.compile(r"[.,;:!?–„“»«\"()]")
# A predicate follows, so no accusative: *Das ist nicht der Hund*, *wie ein Hund*.
_BEFORE_PREDICATE = re.compile(
    r"(?i)(?<!\w)(?:bin|bist|ist|sind|seid|war|waren|wäre|wären|sei|wie|als)"
    r"(?: (?:nicht|nur|auch|noch|doch|schon|immer|wirklich))?$"
)
_PARTICIPLE = re.compile(r"(?<!\w)(?:\w{2,4})?ge[a-zäöüß]+(?:t|en) *$")
_OF_SUBJECTS = (
    "der|die|das|dieser|diese|dieses|jeder|jede|jedes|alle|viele|k?eine?|meine?|deine?|seine?|"
    "ihre?|unsere?|zwei|drei"
)
_DETERMINER = rf"(?:(?i:{_OF_SUBJECTS}) (?:[a-zäöüß]+e[nrs]? )?)?"
_NAME = r"[A-ZÄÖÜ][\w-]+"
# A noun at the beginning of a clause, followed by a finite verb: probably the subject.
_FIRST_NOUN = re.compile(rf"({_DETERMINER}{_NAME}(?: {_NAME}| und {_NAME})?) [a-zäöüß]{{2,}}(?!\w)")
_CONJUNCTION = "dass|weil|wenn|ob|als|nachdem|bevor|damit|obwohl|während|da|bis"
_SECOND_NOUN = re.compile(rf"(?:{_CONJUNCTION}) {_DETERMINER}{_NAME}(?!\w)")
_NO_SUBJECTS_LISTED = (
    "ab als am an auch auf aus außerdem bald bei beim bis da dabei dadurch dafür daher damals "
    "damit danach dann daran darauf darin darum davon dazu deshalb dich dir doch dort durch "
    "eben einmal endlich euch früher für gegen gern gestern gibt hat hast hatte haben heute "
    "hier hin hinter ihm ihn ihnen im immer in ins ist ja jetzt kann leider manchmal mich mir "
    "mit mithilfe morgen muss nach nachdem natürlich neben nie niemals noch nun nur ob oben oft "
    "ohne plötzlich schließlich schon seit sich sind so sogar soll sollte später trotz trotzdem "
    "um unten uns unter vielleicht vom von vor wahrscheinlich wann war warum was weil welche "
    "welchen welches wem wen wenn wer wie wieder will wird wo wurde während zu zuerst zum zur "
    "zwischen über übrigens"
)
_NO_SUBJECTS = frozenset(_NO_SUBJECTS_LISTED.split())


def _has_subject(before: str, after: str) -> bool:
    """Check if a clause has another subject than the noun between `before` and `after`."""
    first = before.strip(" \t-'’‚‘")
    if _SUBJECT.search(f"{before} {after}") or first in ("der", "wer", "jemand", "niemand"):
        return True
    if _SECOND_NOUN.match(first):
        return True
    begins = _FIRST_NOUN.match(first)
    return begins is not None and first.split()[0].lower() not in _NO_SUBJECTS


def german_cases(
    before: str, lead: str, noun: str, number: str, after: str = ""
) -> tuple[str, ...]:
    """List the cases that a German noun may have, judging by its preposition and its lead.

    If the clause has another subject, the nominative is excluded. `before` and `after` are the
    text around the noun; `number` is its grammatical number, if known.

    >>> german_cases("Er spricht mit", "der ", "Kundin", "singular")
    ('dative',)
    >>> german_cases("", "Die ", "Bestellung", "singular")
    ('nominative', 'accusative')
    """
    preposition, determiner, adjectives = _german_parts(lead)
    last = re.search(r"(?<!\w)(\w++) \Z", f"{before.rstrip(' ')} ")
    preposition = preposition or (last[1] if last else "")
    governed = next(
        (cases for words, cases in _GOVERNED.items() if preposition.lower() in words.split()), CASES
    )
    kind, sure = classified(noun.split()[-1].rsplit("-", 1)[-1], "de") if noun else (None, False)
    columns = [_GENDERS[kind.gender]] if kind and sure else [0, 1, 2]
    columns = {ONE: columns, MANY: [3]}.get(number, [*columns, 3])
    # The translation may use another number than the source, and the table may have a wrong gender.
    told = _told_cases(determiner, adjectives, columns)
    told = told or _told_cases(determiner, adjectives, [0, 1, 2, 3])
    cases = tuple(case for case in told if case in governed) or told or governed
    ends_so = noun.endswith(("s", "n")) or columns[0] not in (0, 2) or len(columns) > 1
    if governed == CASES and (not _CLAUSE_END.split(before)[-1].strip() or not ends_so):
        # A genitive follows a noun, and mostly has an ending.
        cases = tuple(case for case in cases if case != "genitive") or cases
    return tuple(case for case in cases if case not in _excluded(cases, before, after)) or cases


def _excluded(cases: Container[str], before: str, after: str) -> tuple[str, ...]:
    """Return the nominative or the accusative if the text around a noun rules it out."""
    if "nominative" not in cases or "accusative" not in cases:
        return ()
    before, after = _CLAUSE_END.split(before)[-1], _CLAUSE_END.split(after)[0]
    # *ist die Straße gegangen* may be anything.
    if _BEFORE_PREDICATE.search(before.rstrip()) and not _PARTICIPLE.search(after):
        return ("accusative",)
    if _has_subject(before, after):
        # *Wie hast du* is a question.
        others = re.sub(r"(?i)^\W*(?:wie|als) ", "", before)
        return () if _COPULA.search(f"{others} {after}") else ("nominative",)
    # The noun at the beginning of a clause is its subject, if nothing else is.
    return ("accusative",) if after.strip() and not before.strip() else ()


def _told_cases(determiner: str, adjectives: list[str], columns: list[int]) -> tuple[str, ...]:
    """List the cases whose endings match a determiner and adjectives in one of the columns."""
    stem, endings, of_adjectives = "", None, _ALONE
    if determiner:
        stem, endings, of_adjectives = _german_determiners()[determiner]

    def fits(case: str, column: int) -> bool:
        if endings is not None and stem + endings[case][column] != determiner:
            return False
        ending = of_adjectives[case][column]
        return all(_with_ending(word, ending) == word for word in adjectives)

    return tuple(case for case in CASES if any(fits(case, column) for column in columns))


def _joined(words: list[str]) -> str:
    text = " ".join(word for word in words if word)
    for short, long in _CONTRACTED.items():
        # Contract again: *zu dem* is *zum*.
        text = re.sub(rf"(?i)^{long}\b", short, text)
    return f"{text} " if text else ""


def german_lead_of(text: str, begin: int, end: int, adjective: bool) -> int:
    """Find the start of the lead of a noun at `end`, no earlier than `begin`.

    See `agreement.lead_of`.
    """
    # With an article, everything from it to the noun is the lead; without one, the adjectives are.
    with_article = _german_lead().search(text, begin, end)
    if with_article and not adjective and with_article[1].rstrip().endswith((",", *_AND)):
        with_article = None
    if with_article and not _NO_ADJECTIVES.intersection(_adjectives(with_article[1])):
        return with_article.start()
    bare = (_BEFORE_ADJECTIVE if adjective else _BEFORE_NOUN).search(text, begin, end)
    start = end
    for word in reversed(bare[1].split() if bare else []):
        at = start - len(word) - 1
        if word not in _AND and (word in _NO_ADJECTIVES or _PRONOUN.search(text, 0, at)):
            break
        start = at
    return start


_BEFORE_NOUN = re.compile(rf"(?<!\w)((?:{_GERMAN_ADJECTIVE} ){{0,8}})$")
_BEFORE_ADJECTIVE = re.compile(
    rf"(?<!\w)((?:{_GERMAN_ADJECTIVE} ){{0,8}}(?:{_GERMAN_ADJECTIVE} (?:und|oder) )?)$"
)
# The next word is a verb: *ich finde*, *um zu essen*.
_PRONOUN = re.compile(r"(?i)(?<!\w)(?:ich|du|er|sie|es|wir|ihr|man|wer|was|zu) \Z")


def _adjectives(words: str) -> list[str]:
    return [word.rstrip(",") for word in words.split() if word not in _AND]


@cache
def _german_lead() -> re.Pattern[str]:
    determiners = "|".join(sorted([*_german_determiners(), *_CONTRACTED], key=len, reverse=True))
    article = rf"(?:(?:in|an|zu|von|bei) (?=der |die |das |den |dem ))?(?:{determiners}) "
    adjective = rf"{_GERMAN_ADJECTIVE}(?:,| und| oder)? "
    return re.compile(rf"(?<!\w)(?i:{article})((?:{adjective}){{0,3}})$")
