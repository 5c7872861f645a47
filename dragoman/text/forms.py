"""The inflected forms of a term, in a translation and in a source.

A term is one word or several, usually a noun. In a term of several words, the head noun and its
adjectives are inflected: *orden de trabajo*, *órdenes de trabajo*; *offene Rechnung*, *offenen
Rechnungen*. A term that looks like a verb or an adjective gets the endings of one. A form that does
not exist does little harm, since the model chooses among them.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from dragoman.text import verbs
from dragoman.text.inflection import LANGUAGES, Noun, applied, classified, known_letters
from dragoman.text.verbs import (
    ADJECTIVE_ENDINGS,
    looks_like_a_verb,
    of_one_english_verb,
    verb_forms,
)

ONE, MANY = "singular", "plural"
ADJECTIVE = ("adjective",)  # in place of cases: a form that never follows an article
CASES = ("nominative", "genitive", "dative", "accusative")


class Form(NamedTuple):
    """A form of a term. An empty field is unknown or does not matter.

    `cases` are the cases that this form of a German noun may have.
    """

    text: str
    number: str = ""
    gender: str = ""
    cases: tuple[str, ...] = ()


@lru_cache(5000)
def term_forms(term: str, language: str) -> tuple[Form, ...]:
    """List the distinct forms of a term, starting with the form that the glossary has.

    >>> [form.text for form in term_forms("orden de trabajo", "es")]
    ['orden de trabajo', 'órdenes de trabajo']
    >>> sorted({form.text for form in term_forms("Kunde", "de")})
    ['Kunde', 'Kunden']
    """
    words = term.split()
    head = _head(words, language)
    if _is_phrase(words, head, language):
        forms = []
    elif _ACRONYM.fullmatch(words[head]) and language in LANGUAGES:
        # The letters of an acronym determine neither its gender nor its plural.
        many = words[head].removesuffix("s") + "s"
        forms = [_with_head(words, head, many, MANY)]
        if words[head] != many:
            forms.insert(0, _with_head(words, head, words[head], ONE))
    elif _is_plural(words[head], language):
        return plural_forms(term, language)
    elif language == "en":
        one, many = words[head], english_plural(words[head])
        forms = [_with_head(words, head, one, ONE), _with_head(words, head, many, MANY)]
    elif language not in LANGUAGES or not words[head][-1:].isalpha():
        forms = []
    elif language == "de" and looks_like_a_verb(term, language):
        forms = [Form(" ".join([*words[:-1], text])) for text in verb_forms(words[-1], language)]
    elif language == "de":
        forms = _german(words, head)
    else:
        forms = _romance(words, head, language)
        if looks_like_a_verb(term, language):  # and may be a noun all the same: atelier, alquiler
            texts = verb_forms(words[0], language)
            forms += [Form(" ".join([text, *words[1:]])) for text in texts]
    given = [form for form in forms if form.text == term] or [Form(term)]
    return tuple(dict.fromkeys([*given, *forms]))


_ACRONYM = re.compile(r"(?:\w+-)*[A-ZÄÖÜ][A-ZÄÖÜ\d]+s?")  # URL, APIs, REST-API


def _with_head(words: list[str], head: int, text: str, number: str) -> Form:
    return Form(" ".join([*words[:head], text, *words[head + 1 :]]), number)


# From these words on, a term only qualifies its noun.
_AFTER_HEAD = {
    "de": "für von der des den dem zum zur vom im in mit auf an am aus bei beim nach ohne über "
    "unter und oder sowie gegen durch um vor zwischen als wegen während seit per pro",
    "fr": "de du des d' à au aux en pour sur sans par et dans",
    "es": "de del al a en para por sin con y sobre",
    "pt": "de do da dos das a ao à em no na para por sem com e sobre",
    "en": "of for in on to with and per by from",
}


def _head(words: list[str], language: str) -> int:
    """Return the index of the head noun of a term."""
    behind = _AFTER_HEAD.get(language, "").split()
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
    """Check if a term is a fixed phrase: *zum Beispiel*, *wie auch immer*, *por cierto*."""
    fixed = _NEVER_INFLECTED.get(language, "").split()
    # A single word is fixed only if it is listed; a longer term if it begins with such a word.
    if len(words) < 2:
        return words[0] in fixed
    if words[0] in fixed:
        return not looks_like_a_verb(" ".join(words), language)
    # German nouns are capitalized, so this is a verb, or an adjective without a noun.
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


def plural_forms(term: str, language: str) -> tuple[Form, ...]:
    """List the forms of a term that is given in the plural; just the term if it is not a plural.

    >>> [(form.text, form.gender) for form in plural_forms("Verträge", "de")]
    [('Verträge', 'm'), ('Verträgen', 'm')]
    >>> plural_forms("copias de seguridad", "es")[0][1:3], plural_forms("ropa", "es")[0].number
    (('plural', 'f'), '')
    """
    words = term.split()
    head = _head(words, language)
    one = singular(words[head], language)
    if one == words[head]:
        return (Form(term),)
    kind, _ = classified(one, language)
    gender = kind.gender if kind and not _ACRONYM.fullmatch(one) else ""
    texts: list[tuple[str, tuple[str, ...]]] = [(words[head], ())]
    if language == "de":
        texts = [(text, cases) for _, cases, text in _german_plurals(words[head])]
    return tuple(
        Form(" ".join([*words[:head], text, *words[head + 1 :]]), MANY, gender, cases)
        for text, cases in texts
    )


_PLURAL_ENDINGS = {
    "de": re.compile(r"\w+(?:ung|heit|keit|ion|schaft|tät|os|ik|inn|ei|enz|stanz|tur|thod)en"),
    "es": re.compile(r"\w{2,}(?:[oa]s|iones|dades)"),
    "pt": re.compile(r"\w{2,}(?:[oa]s|ões|dades)"),
}


def _is_plural(word: str, language: str) -> bool:
    """Check if a noun is a plural, which its source may not show: *noticias* for *news*."""
    ending = _PLURAL_ENDINGS.get(language)
    return bool(ending and ending.fullmatch(word)) and singular(word, language) != word


def singular(word: str, language: str) -> str:
    """Return the singular of a plural; any other word is returned unchanged.

    >>> [singular(word, "de") for word in ("Rechnungen", "Verträge", "Konto")]
    ['Rechnung', 'Vertrag', 'Konto']
    >>> singular("luces", "es"), singular("canais", "pt"), singular("journaux", "fr")
    ('luz', 'canal', 'journal')
    """
    # Undo each ending, and keep the result if its own plural is the word: one table serves both
    # ways.
    for ending, one in _SINGULARS.get(language, ()):
        stem = word[: len(word) - len(ending)] if word.endswith(ending) else ""
        for candidate in (stem + one, stem.translate(_NO_UMLAUTS) + one) if stem else ():
            if plural(candidate, language) == word != candidate and (
                language != "de" or _is_german_plural(word, candidate)
            ):
                return candidate
    return word


def _is_german_plural(word: str, one: str) -> bool:
    """Check if this is the plural of a known noun. *Analyse* only looks like that of *Analys*."""
    if re.search(r"(?:ung|heit|keit|ion|schaft|tät|ei|inn)en$", word):
        return True
    return known_letters(one, "de") >= _KNOWN


_KNOWN = 3  # last letters that must match the table


# Endings of plurals, and what replaces each in the singular.
_SINGULARS = {
    "de": [("en", ""), ("n", ""), ("e", ""), ("er", ""), ("s", ""), ("nen", ""), ("en", "um")],
    "fr": [("aux", "al"), ("s", ""), ("x", "")],
    "es": [("ces", "z"), ("ones", "ón"), ("es", ""), ("s", "")],
    "pt": [("ões", "ão"), ("ns", "m"), ("is", "l"), ("es", ""), ("s", "")],
}
_NO_UMLAUTS = str.maketrans("äöüÄÖÜ", "aouAOU")


# -- German ----------------------------------------------------------------------------------------

_WEAK: dict[tuple[str, str, str], str] = {
    (number, gender, case): "en"
    for number in (ONE, MANY)
    for gender in "mfn"
    for case in CASES
}  # fmt: skip
_WEAK |= {(ONE, gender, "nominative"): "e" for gender in "mfn"}
_WEAK |= {(ONE, "f", "accusative"): "e", (ONE, "n", "accusative"): "e"}


def german_adjective(word: str) -> str:
    """Remove the ending of an adjective: *offener* becomes *offen*.

    >>> german_adjective("neuen"), german_adjective("offener"), german_adjective("verfügbar")
    ('neu', 'offen', 'verfügbar')
    """
    found = re.fullmatch(r"([\w-]{2,}?)(?:e[mnrs]?)", word)
    return found[1] if found else word


_OF_NAMES = re.compile(
    r"[A-ZÄÖÜ][a-zäöüß]+(?:ig|lich|isch|igt|iert|end|bar|sam|haft|iv|al|ell|är|ös)e[mnrs]?"
)


def is_german_adjective(word: str) -> bool:
    """Check if a word before the noun of a term is inflected with it, which may be part of a name.

    >>> [is_german_adjective(word) for word in ("offene", "Vereinigte", "Server", "sich")]
    [True, True, False, False]
    """
    # Small letters before a noun are adjectives; capitals only if the ending is one that adjectives
    # have.
    small = word[:1].islower() and re.search(r"e[mnrs]?$", word) is not None
    return small or _OF_NAMES.fullmatch(word) is not None


def is_nominalised(word: str) -> bool:
    """Check if a German noun is inflected like an adjective.

    >>> is_nominalised("Angestellter"), is_nominalised("Mitarbeiter")
    (True, False)
    """
    # Other masculine nouns in -er have a genitive in -s.
    noun, _ = classified(word.rsplit("-", 1)[-1], "de")
    is_unlike_others = noun is not None and noun.gender == "m" and noun.genitive == "0"
    return is_unlike_others and word[:1].isupper() and word.endswith("er")


def _german(words: list[str], head: int) -> list[Form]:
    word = words[head]
    if not word[:1].isupper():
        # A German term in small letters that is no verb: an adjective.
        endings = ("", *ADJECTIVE_ENDINGS)
        return [Form(" ".join([*words[:-1], word + ending])) for ending in endings]
    # Only the part after the last hyphen is inflected: *Web-Server*, *Web-Servern*.
    before = word[: len(word) - len(word.rsplit("-", 1)[-1])]
    last = word[len(before) :]
    noun, sure = classified(last, "de")
    if noun is None:
        return []
    if is_nominalised(word):
        stem = " ".join([*words[:head], german_adjective(word)])
        return [Form(stem + ending) for ending in ADJECTIVE_ENDINGS]
    spelled = _german_noun(last, noun)
    if not sure:
        usual = _USUAL_PLURALS.get(last[-2:]) or _USUAL_PLURALS.get(last[-1:])
        # A second plural by the usual rule: the learned class may be wrong, and both can be tried.
        spelled += _german_plurals(applied(usual, last)) if usual else []
    forms = []
    for number, cases, text in spelled:
        for ending, of_ending in _by_ending(words[:head], number, noun.gender, cases).items():
            adjectives = [
                german_adjective(one) + ending if is_german_adjective(one) else one
                for one in words[:head]
            ]
            whole = " ".join([*adjectives, before + text, *words[head + 1 :]])
            forms.append(Form(whole, number, noun.gender, of_ending))
    return forms


_USUAL_PLURALS = {"er": "0", "el": "0", "en": "0", "e": "0n", "in": "0nen", "um": "2en", "o": "0s"}
_WEAK_NOUN = re.compile(r"(?:ant|ent|ist|at|et|ot|nom|graf|log|[^ä]e)$")
_Spelled = tuple[str, tuple[str, ...], str]


def _german_noun(word: str, noun: Noun) -> list[_Spelled]:
    """List number, cases and spelling of each form of a German noun."""
    genitive = applied(noun.genitive, word) or word
    # Weak nouns: *des Kunden*, *dem Studenten*.
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
        # *des Vertrags* or *des Vertrages*: both genitives exist.
        if not re.search(r"(?:e[lnrm]|[aeiouh])$", word):
            other = word + ("es" if noun.genitive == "0s" else "s")
            forms += [(ONE, ("genitive",), other)] * (other[-2:] != "ss")
    return forms + _german_plurals(applied(noun.plural, word) or word)


def _german_plurals(word: str) -> list[_Spelled]:
    if not re.search("e[lr]?$", word):  # *Kunden*, *Autos*, *Kommata*
        return [(MANY, CASES, word)]
    return [(MANY, ("nominative", "genitive", "accusative"), word), (MANY, ("dative",), word + "n")]


def _by_ending(
    adjectives: list[str], number: str, gender: str, cases: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Map each ending that the adjectives of a term may have to the cases that it occurs in."""
    if not any(map(is_german_adjective, adjectives)):
        return {"": cases}
    # The strong endings occur without an article, which is not known here.
    strong = dict.fromkeys(("e", "er", "es"), cases)
    weak: dict[str, tuple[str, ...]] = {}
    for case in cases:
        ending = _WEAK[number, gender, case]
        weak[ending] = (*weak.get(ending, ()), case)
    return {**strong, **weak}


# -- French, Spanish, Portuguese -------------------------------------------------------------------


# Verbs and prefixes: with one of these before a hyphen, the last part is inflected.
_BEFORE_HYPHEN_LISTED = (
    "abat aide anti après arrière auto avant brise cache chasse chauffe co contre coupe couvre ex "
    "extra garde grille guarda hiper hyper infra inter lava lave lança macro maxi mega meia micro "
    "mini multi nord non não ouvre para pare passe porta porte pre presse protège pré pós quebra "
    "sala salva semi sous sub sud sul super sur tele tira tire toca trans tri télé ultra vice"
)
_BEFORE_HYPHEN = frozenset(_BEFORE_HYPHEN_LISTED.split())


def _led_by_first(word: str) -> bool:
    """Check if the first part of a hyphenated word is the noun: *palavra-passe*, *mot-clé*."""
    first = word.split("-")[0]
    return "-" in word and len(first) > 2 and first.lower() not in _BEFORE_HYPHEN


# Adjectives before a noun that do not show its gender: *gran empresa*, *libre accès*.
_BEFORE_NOUN_LISTED = {
    "fr": "autre double jeune juste libre même multiple propre quadruple simple triple vaste",
    "es": "buen doble gran libre mal mayor mejor menor peor posible primer simple tercer triple",
    "pt": "grande livre maior melhor menor pior possível simples",
}
_SHORT_BEFORE_NOUN = {
    "buen": "buenos", "gran": "grandes", "mal": "malos", "primer": "primeros", "tercer": "terceros",
}  # fmt: skip


def _noun_of(words: list[str], head: int, language: str) -> str:
    """Return the noun of a term: its first word, or its second after an adjective."""
    adjectives = _BEFORE_NOUN_LISTED[language].split()
    behind = words[head + 1 : head + 2]
    if words[head].lower() in adjectives and behind and behind[0][-1:].isalpha():
        return words[head] if behind[0].lower() in _AFTER_HEAD[language].split() else behind[0]
    return words[head]


def _romance(words: list[str], head: int, language: str) -> list[Form]:
    led = _led_by_first(words[head])
    of_head = words[head].split("-")[0] if led else _noun_of(words, head, language)
    noun, _ = classified(of_head, language)
    if noun is None:
        return []
    behind = {*_AFTER_HEAD[language].split()}
    last = head + 1
    # Adjectives after the noun agree with it, up to a preposition.
    while last < len(words) and words[last].lower() not in behind and "'" not in words[last]:
        last += 1
    many = []
    short = _SHORT_BEFORE_NOUN.get(words[head].lower(), "") if last > head + 1 else ""
    one_way = [short if language == "es" and short else plural(words[head], language)]
    for inflected in _many(words[head], language) if led else one_way:
        others = [plural(word, language) for word in words[head + 1 : last]]
        many.append(" ".join([*words[:head], inflected, *others, *words[last:]]))
    forms = [Form(" ".join(words), ONE, noun.gender)]
    forms += [Form(text, MANY, noun.gender) for text in many]
    may_be_adjective = re.search(r"[^ã]o$", words[0]) and words[0].lower() not in _NOUNS_IN_O
    if len(words) == 1 and may_be_adjective and language != "fr":
        # Nothing rules out that it is an adjective.
        forms += [
            Form(words[0][:-1] + "a", ONE, "f", ADJECTIVE),
            Form(words[0][:-1] + "as", MANY, "f", ADJECTIVE),
        ]
    return forms


# Spanish and Portuguese nouns with a different noun in -a: *cargo*, *carga*.
_NOUNS_IN_O_LISTED = (
    "acto anillo ato banco barco bolso cargo caso cesto conto copo cuadro cubo cuchillo cuento "
    "fallo foco fondo fruto fundo giro grado grupo horto huerto libro mango manto marco modo pago "
    "palo partido paso peso plato plazo ponto porto prato prazo puerto punto quadro raio ramo rato "
    "rayo seto suelo tipo tramo troco velo"
)
_NOUNS_IN_O = frozenset(_NOUNS_IN_O_LISTED.split())


def _many(word: str, language: str) -> list[str]:
    """List the plurals of a hyphenated word: *palavras-passe*, *mots-clés*."""
    first, *rest = word.split("-")
    both = "-".join([plural(first, language), *(plural(part, language) for part in rest)])
    only_first = "-".join([plural(first, language), *rest])
    return [both] if language == "fr" else [only_first, both]


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


# Plurals whose singular means something else.
_ONLY_PLURALS_LISTED = (
    "arms clothes contents customs damages earnings glasses goods graphics means minutes premises "
    "proceeds savings terms thanks works"
)
_ONLY_PLURALS = frozenset(_ONLY_PLURALS_LISTED.split())


def is_english_plural(word: str, one: str) -> bool:
    """Check if a word is the plural of another one.

    >>> is_english_plural("days", "day"), is_english_plural("news", "new")
    (True, False)
    """
    known = word not in _ONLY_PLURALS and english_number(word) == MANY
    return known and word in (english_plural(one), one + "s")


def singular_term(term: str, language: str) -> str:
    """Return the singular of a term; an empty string if it does not look like a plural.

    >>> singular_term("copias diarias de datos", "es"), singular_term("Ware", "de")
    ('copia diaria de datos', '')
    """
    words = term.split()
    head = _head(words, language)
    last = head + 1
    if language not in ("de", "en"):  # adjectives follow the noun
        behind = _AFTER_HEAD.get(language, "").split()
        while last < len(words) and words[last].lower() not in behind:
            last += 1
    changed = [singular(word, language) for word in words[head:last]]
    return " ".join([*words[:head], *changed, *words[last:]]) if changed[0] != words[head] else ""


def unlike_forms(word: str) -> set[str]:
    """Return forms of a word that may begin with other letters: *mice*, *wrote*, *ging*."""
    small = word.lower()
    return {*verbs.unlike_forms(small), *([_IRREGULAR[small]] if small in _IRREGULAR else [])}


def same_word(word: str, entry: str, language: str, verb: bool = False) -> str | None:
    """Return the number of a word that is a form of an entry's word; `None` if it is not a form.

    The number is empty if the form does not show it. `verb`: the target is a verb, so the source
    may be one, too.

    >>> same_word("orders", "order", "en"), same_word("order", "order", "en")
    ('plural', '')
    >>> same_word("ordered", "order", "en") is None, same_word("shared", "share", "en", verb=True)
    (True, '')
    >>> same_word("kotami", "kota", "pl"), same_word("kotamiz", "kota", "pl")
    ('', None)
    """
    if word == entry:
        return ""
    if len(entry) < 2 or not entry[-1].isalpha():
        return None
    if language == "en":
        if word in (english_plural(entry), entry + "s", entry + "es"):
            return MANY
        return "" if verb and of_one_english_verb(word, entry) else None
    if language in LANGUAGES:
        return _same_in_table(word, entry, language)
    # A language whose grammar is unknown: the same word with up to two letters more.
    ending = len(word) - len(entry)
    return "" if len(entry) >= 4 and word.startswith(entry) and ending <= 2 else None


def _same_in_table(word: str, entry: str, language: str) -> str | None:
    numbers = set()
    # The table has nouns with capitals, but the text is compared in small letters.
    for given in (entry, entry[:1].upper() + entry[1:]):
        for form in term_forms(given, language):
            if form.text.lower() == word:
                numbers.add(form.number)
    return _told(numbers) if numbers else None


def number_in_source(text: str, entry: str, language: str) -> str:
    """Return the number of an occurrence of an entry, if its form shows it.

    >>> number_in_source("hunde", "Hund", "de"), number_in_source("orden de pago", "orden de pago",
    ... "es"), number_in_source("lehrer", "Lehrer", "de")
    ('plural', 'singular', '')
    """
    small = text.lower()
    forms = [form for form in term_forms(entry, language) if form.text.lower() == small]
    return _told({form.number for form in forms if form.cases != ADJECTIVE})


def _told(numbers: set[str]) -> str:
    return numbers.pop() if len(numbers) == 1 else ""


def english_number(noun: str) -> str:
    """Judge by its last word if a noun is a singular or a plural.

    >>> english_number("old dogs"), english_number("bus"), english_number("women")
    ('plural', 'singular', 'plural')
    """
    last = noun.lower().split()[-1] if noun.split() else ""
    ends = re.search(r"[^sui]s$|(?<!i)men$", last) or last in _IRREGULAR.values()
    return MANY if ends and last not in _SINGULARS_IN_S else ONE


_SINGULARS_IN_S = frozenset(
    ["alias", "atlas", "bias", "canvas", "chaos", "cosmos", "gas", "lens", "news", "physics"]
)
