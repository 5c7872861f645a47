"""The forms of a term: what a translation may say for it, and what a source may.

A term is a word or several, a noun as a rule. Of several words the noun is inflected that the
others belong to, with its adjectives: *orden de trabajo*, *órdenes de trabajo*; *offene Rechnung*,
*offenen Rechnungen*. What looks like a verb or an adjective gets the endings of such. A form that
does not exist does little harm: the model chooses among them in a sentence.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from dragoman.text.inflection import LANGUAGES, Noun, applied, classified

ONE, MANY = "singular", "plural"
ADJECTIVE = ("adjective",)  # in the place of cases: a form that no article stands before
CASES = ("nominative", "genitive", "dative", "accusative")


class Form(NamedTuple):
    """A form of a term. What is empty is not known, or does not matter.

    `cases`: which a German noun may stand in; `sure`: whether its gender is beyond doubt.
    """

    text: str
    number: str = ""
    gender: str = ""
    cases: tuple[str, ...] = ()
    sure: bool = False


@lru_cache(20_000)
def term_forms(term: str, language: str) -> tuple[Form, ...]:
    """The forms of a term, as it is given first; no text twice with the same number and cases.

    >>> [form.text for form in term_forms("orden de trabajo", "es")]
    ['orden de trabajo', 'órdenes de trabajo']
    >>> sorted({form.text for form in term_forms("Kunde", "de")})
    ['Kunde', 'Kunden']
    """
    words = term.split()
    head = _head(words, language)
    if _is_phrase(words, head, language):
        forms = []
    elif language == "en":
        forms = [_with_head(words, head, text, number) for text, number in _english(words[head])]
    elif language not in LANGUAGES or not words[head][-1:].isalpha():
        forms = []
    elif language == "de" and looks_like_a_verb(term, language):
        forms = [Form(" ".join([*words[:-1], text])) for text in _verb_forms(words[-1], language)]
    elif language == "de":
        forms = _german(words, head)
    else:
        forms = _romance(words, head, language)
        if looks_like_a_verb(term, language):  # and may be a noun all the same: atelier, alquiler
            forms += [Form(text) for text in _verb_forms(term, language)]
    return tuple(dict.fromkeys([*_given_first(term, forms), *forms]))


def _given_first(term: str, forms: list[Form]) -> list[Form]:
    same = [form for form in forms if form.text == term]
    return same or [Form(term)]


def _with_head(words: list[str], head: int, text: str, number: str) -> Form:
    return Form(" ".join([*words[:head], text, *words[head + 1 :]]), number)


# Words behind which a term only says more about its noun.
_BEHIND_HEAD = {
    "de": "für von der des den zum zur im in mit auf an aus bei nach ohne über unter und",
    "fr": "de du des d' à au aux en pour sur sans par et dans",
    "es": "de del al a en para por sin con y sobre",
    "pt": "de do da dos das a ao à em no na para por sem com e sobre",
    "en": "of for in on to with and per by from",
}


def _head(words: list[str], language: str) -> int:
    """Which word of a term the others belong to."""
    behind = _BEHIND_HEAD.get(language, "").split()
    for place, word in enumerate(words[1:], 1):
        if word.lower() in behind or re.match(r"(?i)d['’]", word):
            last = place - 1
            break
    else:
        last = len(words) - 1
    return last if language in ("de", "en") else 0


_NEVER_INFLECTED = {
    "de": "ab als am an auch auf aus bei bis durch für gegen im immer in ins mit nach nicht noch "
    "nur ohne pro seit sich so um unter vom von vor wegen wenn wie zu zum zur über",
    "fr": "à au aux avec chez comme contre d' dans de depuis des dès du en jusqu' par pour sans "
    "sous sur vers y",
    "es": "a al así ante bajo cada como con contra de del desde en entre hacia hasta no para por "
    "pro sin sobre tras",
    "pt": "a à ao até cada com como contra da de do desde em entre na nas no nos não para pela "
    "pelo por sem sob sobre",
    "en": "a about an as at by for from in not of on out per so the to with without",
}


def _is_phrase(words: list[str], head: int, language: str) -> bool:
    """Whether a term is a fixed phrase: *zum Beispiel*, *wie auch immer*, *por cierto*."""
    fixed = _NEVER_INFLECTED.get(language, "").split()
    if len(words) < 2:
        return words[0] in fixed
    if words[0] in fixed:
        return not looks_like_a_verb(" ".join(words), language)
    # Where nouns have capitals, what has none is a verb, or an adjective that stands alone.
    small = language == "de" and not words[head][:1].isupper()
    return small and not looks_like_a_verb(" ".join(words), language)


def plural(word: str, language: str) -> str:
    """
    >>> plural("Auftrag", "de"), plural("canal", "pt"), plural("order", "en")
    ('Aufträge', 'canais', 'orders')
    """
    if language == "en":
        return english_plural(word)
    noun, _ = classified(word, language)
    return (applied(noun.plural, word) if noun else "") or word


# -- German ----------------------------------------------------------------------------------------

_ADJECTIVE_ENDINGS = ("e", "en", "er", "es", "em")
_WEAK: dict[tuple[str, str, str], str] = {
    (number, gender, case): "en"
    for number in (ONE, MANY)
    for gender in "mfn"
    for case in CASES
}  # fmt: skip
_WEAK |= {(ONE, gender, "nominative"): "e" for gender in "mfn"}
_WEAK |= {(ONE, "f", "accusative"): "e", (ONE, "n", "accusative"): "e"}


def german_adjective(word: str) -> str:
    """An adjective without its ending: *offen* of *offener*.

    >>> german_adjective("neuen"), german_adjective("offener"), german_adjective("verfügbar")
    ('neu', 'offen', 'verfügbar')
    """
    found = re.fullmatch(r"(\w{2,}?)(?:e[mnrs]?)", word)
    return found[1] if found else word


_OF_NAMES = re.compile(
    r"[A-ZÄÖÜ][a-zäöüß]+(?:ig|lich|isch|igt|iert|end|bar|sam|haft|iv|al|ell|är|ös)e[mnrs]?"
)


def is_german_adjective(word: str) -> bool:
    """Whether what stands before a noun of a term is inflected with it, as parts of names are.

    >>> [is_german_adjective(word) for word in ("offene", "Vereinigte", "Server", "sich")]
    [True, True, False, False]
    """
    small = word[:1].islower() and re.search(r"e[mnrs]?$", word) is not None
    return small or _OF_NAMES.fullmatch(word) is not None


def _german(words: list[str], head: int) -> list[Form]:
    word = words[head]
    if not word[:1].isupper():
        endings = ("", *_ADJECTIVE_ENDINGS)
        return [Form(" ".join([*words[:-1], word + ending])) for ending in endings]
    before = word[: len(word) - len(word.rsplit("-", 1)[-1])]
    last = word[len(before) :]
    noun, sure = classified(last, "de")
    if noun is None:
        return []
    spelled = _german_noun(last, noun)
    if not sure:
        usual = _USUAL_PLURALS.get(last[-2:]) or _USUAL_PLURALS.get(last[-1:])
        spelled += _german_plurals(applied(usual, last)) if usual else []
    forms = []
    for number, cases, text in spelled:
        for ending, of_ending in _by_ending(words[:head], number, noun.gender, cases).items():
            adjectives = [
                german_adjective(one) + ending if is_german_adjective(one) else one
                for one in words[:head]
            ]
            whole = " ".join([*adjectives, before + text, *words[head + 1 :]])
            forms.append(Form(whole, number, noun.gender, of_ending, sure))
            if not sure and number == ONE and text == last and noun.gender != "f":
                forms.append(Form(whole, number, "f", CASES, True))  # without a genitive
    return forms


_USUAL_PLURALS = {"er": "0", "el": "0", "en": "0", "e": "0n", "in": "0nen", "um": "2en", "o": "0s"}
_WEAK_NOUN = re.compile(r"(?:ant|ent|ist|at|et|ot|nom|graf|log|[^ä]e)$")
_Spelled = tuple[str, tuple[str, ...], str]


def _german_noun(word: str, noun: Noun) -> list[_Spelled]:
    """Number, cases and spelling of each form of a German noun."""
    genitive = applied(noun.genitive, word) or word
    if noun.gender == "m" and noun.plural in ("0en", "0n") and _WEAK_NOUN.search(word):
        genitive = applied(noun.plural, word)
    weak = genitive.endswith("n") and genitive != word
    forms: list[_Spelled]
    if noun.gender == "f" or genitive == word:
        forms = [(ONE, CASES, word)]
    elif weak:
        forms = [
            (ONE, ("nominative",), word),
            (ONE, ("genitive", "dative", "accusative"), genitive),
        ]
    else:
        forms = [
            (ONE, ("nominative", "dative", "accusative"), word),
            (ONE, ("genitive",), genitive),
        ]
        if not re.search(r"(?:e[lnrm]|[aeiouh])$", word):
            other = word + ("es" if noun.genitive == "0s" else "s")
            forms += [(ONE, ("genitive",), other)] * (other[-2:] != "ss")
    return forms + _german_plurals(applied(noun.plural, word) or word)


def _german_plurals(word: str) -> list[_Spelled]:
    if word[-1] in "ns":
        return [(MANY, CASES, word)]
    return [(MANY, ("nominative", "genitive", "accusative"), word), (MANY, ("dative",), word + "n")]


def _by_ending(
    adjectives: list[str], number: str, gender: str, cases: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """The endings that adjectives inside a term may have, and the cases in which they do."""
    if not any(map(is_german_adjective, adjectives)):
        return {"": cases}
    strong = dict.fromkeys(("e", "er", "es"), cases)
    weak: dict[str, tuple[str, ...]] = {}
    for case in cases:
        ending = _WEAK[number, gender, case]
        weak[ending] = (*weak.get(ending, ()), case)
    return {**strong, **weak}


# -- French, Spanish, Portuguese -------------------------------------------------------------------


def _romance(words: list[str], head: int, language: str) -> list[Form]:
    noun, sure = classified(words[head], language)
    if noun is None:
        return []
    behind = {*_BEHIND_HEAD[language].split()}
    last = head + 1
    while last < len(words) and words[last].lower() not in behind and "'" not in words[last]:
        last += 1
    inflected = [plural(word, language) for word in words[head:last]]
    many = " ".join([*words[:head], *inflected, *words[last:]])
    forms = [
        Form(" ".join(words), ONE, noun.gender, (), sure),
        Form(many, MANY, noun.gender, (), sure),
    ]
    if len(words) == 1 and re.search(r"[^ã]o$", words[0]) and language != "fr":
        # It may be an adjective, for all that anybody can see.
        forms += [
            Form(words[0][:-1] + "a", ONE, "f", ADJECTIVE),
            Form(words[0][:-1] + "as", MANY, "f", ADJECTIVE),
        ]
    return forms


# -- verbs -----------------------------------------------------------------------------------------

_INFINITIVES = {
    "de": re.compile(r"[a-zäöüß]{2,}(?:en|eln|ern)"),
    "fr": re.compile(r"[a-zà-ÿœ]{2,}(?:er|ir|re)"),
    "es": re.compile(r"[a-zà-ÿ]{2,}(?:[aei]r|ír)(?:se)?"),
    "pt": re.compile(r"[a-zà-ÿ]{2,}(?:[aei]r|ôr)(?:-se)?"),
}
_NO_VERBS_LISTED = (
    "offen eigen selten trocken verschieden golden eben außen innen oben unten hinten gegen "
    "neben zwischen extern intern modern bisschen wegen"
)
_NO_VERBS = _NO_VERBS_LISTED.split()
_VERB_ENDINGS = {
    "de": {"": "en e t te ten st et end ende enden"},
    "fr": {
        "er": "er e ent ez es é ée és ées ant ons era eront ait",
        "ir": "ir it issent issez i ie is ies issant",
        "re": "re d ent ez u ue us ues ant",
    },
    "es": {
        "ar": "ar a an e en ando ado ada ados adas ó aron ará arán amos",
        "er": "er e en a an iendo ido ida idos idas ió ieron erá erán emos",
        "ir": "ir e en a an iendo ido ida idos idas ió ieron irá irán imos",
    },
    "pt": {
        "ar": "ar a am e em ando ado ada ados adas ou aram ará arão amos",
        "er": "er e em a am endo ido ida idos idas eu eram erá erão emos",
        "ir": "ir e em a am indo ido ida idos idas iu iram irá irão imos",
    },
}  # fmt: skip
_SEPARABLE_LISTED = (
    "zurück zusammen heraus herunter hinzu weiter wieder fest frei durch nach vor auf aus "
    "ein mit her hin los weg bei ab an um zu"
)
SEPARABLE = _SEPARABLE_LISTED.split()
_INSEPARABLE = ("be", "er", "ent", "ver", "zer", "ge", "miss", "über", "unter")


def looks_like_a_verb(term: str, language: str) -> bool:
    """Whether a term ends as an infinitive does.

    >>> looks_like_a_verb("teilen", "de"), looks_like_a_verb("Teile", "de")
    (True, False)
    """
    word = term.split()[-1] if language == "de" else term.split()[0]
    pattern = _INFINITIVES.get(language)
    if pattern is None or pattern.fullmatch(word) is None:
        return False
    return word not in _NO_VERBS and not (language != "de" and " " in term)


def separable(verb: str) -> tuple[str, str]:
    """
    >>> separable("anzeigen"), separable("teilen")
    (('an', 'zeigen'), ('', 'teilen'))
    """
    for prefix in SEPARABLE:
        if verb.startswith(prefix) and len(verb) - len(prefix) >= 5:
            return prefix, verb[len(prefix) :]
    return "", verb


def _verb_forms(verb: str, language: str) -> list[str]:
    if language != "de":
        reflexive = re.sub(r"-?se$", "", verb) if language in ("es", "pt") else verb
        stem = reflexive[:-2]
        by_class = _VERB_ENDINGS[language]
        endings = by_class.get(reflexive[-2:].replace("í", "i"), "").split()
        return [verb, *(stem + ending for ending in endings)]
    prefix, base = separable(verb)
    stem = base[:-2] if base.endswith("en") else base[:-1]
    plain = base.endswith("ieren") or base.startswith(_INSEPARABLE)
    ge = "" if plain else "ge"
    joined = "" if stem[-1:] not in "td" else "e"
    participles = [prefix + ge + stem + joined + "t", prefix + ge + stem + "en"]
    participles += [participles[0] + ending for ending in _ADJECTIVE_ENDINGS]
    forms = [verb, *participles]
    if prefix:
        forms += [f"{prefix}zu{base}"]
    forms += [prefix + stem + ending for ending in _VERB_ENDINGS["de"][""].split()]
    return [*dict.fromkeys(forms), verb[:1].upper() + verb[1:]]


# -- English, and sources --------------------------------------------------------------------------

_IRREGULAR = {
    "man": "men", "woman": "women", "child": "children", "person": "people", "foot": "feet",
    "tooth": "teeth", "mouse": "mice", "goose": "geese", "index": "indices", "matrix": "matrices",
    "criterion": "criteria", "medium": "media", "knife": "knives", "life": "lives",
    "leaf": "leaves", "shelf": "shelves", "half": "halves", "wife": "wives", "wolf": "wolves",
}  # fmt: skip


def english_plural(word: str) -> str:
    """
    >>> english_plural("policy"), english_plural("switch"), english_plural("workwoman")
    ('policies', 'switches', 'workwomen')
    """
    for one, many in _IRREGULAR.items():
        if word.lower() == one or (one in ("man", "woman") and word.lower().endswith(one)):
            return word[: len(word) - len(one)] + many
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    if re.search(r"(?:s|x|z|ch|sh)$", word):
        return word[:-2] + "es" if word.endswith("sis") else word + "es"
    return word + "s"


def _english(word: str) -> list[tuple[str, str]]:
    return [(word, ONE), (english_plural(word), MANY)]


def _english_verb(word: str) -> set[str]:
    stem = word[:-1] if word.endswith("e") else word
    forms = {stem + "ed", stem + "ing", english_plural(word), word + "s", word + "es"}
    if re.search(r"[^aeiou][aeiou][bdgklmnprtv]$", word):
        forms |= {word + word[-1] + "ed", word + word[-1] + "ing"}
    if re.search(r"[^aeiou]y$", word):
        forms.add(word[:-1] + "ied")
    return forms


def same_word(word: str, entry: str, language: str, verb: bool = False) -> str | None:
    """How a word of a text is a form of a glossary's word: its number, where that is told; nothing
    else than `None` means that it is one.

    `verb`: the target is a verb, so the source may be.

    >>> same_word("orders", "order", "en"), same_word("order", "order", "en")
    ('plural', '')
    >>> same_word("ordered", "order", "en") is None, same_word("shared", "share", "en", verb=True)
    (True, '')
    """
    if word == entry:
        return ""
    if len(entry) < 2 or not entry[-1].isalpha():
        return None
    if language == "en":
        if word in (english_plural(entry), entry + "s", entry + "es"):
            return MANY
        return "" if verb and word in _english_verb(entry) else None
    if language in LANGUAGES:
        return _same_in_table(word, entry, language)
    ending = len(word) - len(entry)
    return "" if len(entry) >= 4 and word.startswith(entry) and ending <= 2 else None


def _same_in_table(word: str, entry: str, language: str) -> str | None:
    numbers = set()
    # The table knows nouns with capitals; a text that is compared has none.
    for given in (entry, entry[:1].upper() + entry[1:]):
        for form in term_forms(given, language):
            if form.text.lower() == word:
                numbers.add(form.number)
    if not numbers:
        return None
    return MANY if numbers == {MANY} else ""
