"""Articles and adjectives that agree with a noun.

    lead     what stands before a noun and changes with it: "den neuen " before "Auftrag"

A noun that takes the place of another may have another gender, so its lead changes: *die neue
Bestellung*, *der neue Auftrag*. There are several leads for a noun where its case is not known; the
model says which of them a sentence needs.
"""

import itertools
import re
from collections.abc import Container, Iterator
from functools import cache

from dragoman.text.forms import CASES, MANY, ONE, Form, german_adjective, plural
from dragoman.text.inflection import classified

_VOWEL = re.compile(r"[aeiouàâæéèêëîïôœùûü]", re.IGNORECASE)


def leads(
    lead: str, form: Form, language: str, cases: Container[str] = CASES
) -> list[tuple[str, str]]:
    """What may stand before a form of a noun in the place of a lead, what changes least first; and
    the gender that it goes with, where that matters. `cases`: those that a German noun may have.

    >>> leads("die neue ", Form("Auftrag", "singular", "m", ("nominative",)), "de")
    [('der neue ', '')]
    >>> leads("la ", Form("eau", "singular", "f"), "fr")
    [("l'", 'f')]
    """
    if language == "de":
        ways = [(way, "") for way in _german(lead, form, cases)]
    elif language in _ROWS:
        ways = [*_romance(lead, form, language)]
    elif language == "en":
        article = r"\1n " if _VOWEL.match(form.text) else r"\1 "
        ways = [(re.sub(r"(?i)\b(a)n? $", article, lead), "")]
    else:
        ways = []
    words = lead.lower().split()

    def changes(way: tuple[str, str]) -> int:
        return sum(a != b for a, b in zip(words, way[0].lower().split(), strict=False))

    ways.sort(key=changes)
    same_case = [(_with_case_of(lead, way), kind) for way, kind in ways]
    return [*dict.fromkeys(same_case)] or [(lead, "")]


def _with_case_of(lead: str, way: str) -> str:
    return way[:1].upper() + way[1:] if lead[:1].isupper() else way


# -- German ----------------------------------------------------------------------------------------

_GENDERS = {"m": 0, "f": 1, "n": 2}  # columns; the plural is the fourth


def _columns(*rows: str) -> dict[str, list[str]]:
    """By case, for masculine, feminine, neuter and plural: endings, - for none."""
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
    """By spelling: stem, endings, endings of adjectives behind it."""
    known = {word: ("", _THE, _AFTER_THE) for row in _THE.values() for word in row}
    for stem in _DIESER.split():
        known |= {stem + e: (stem, _STRONG, _AFTER_THE) for row in _STRONG.values() for e in row}
    for stem in _EIN.split():
        known |= {stem + e: (stem, _OF_EIN, _AFTER_EIN) for row in _OF_EIN.values() for e in row}
    return known


def _german(lead: str, form: Form, cases: Container[str]) -> Iterator[str]:
    preposition, determiner, words = _german_parts(lead)
    stem, endings, of_adjectives = "", None, _ALONE
    if determiner:
        stem, endings, of_adjectives = _german_determiners()[determiner]
    if form.number == MANY and stem == "ein":
        endings, of_adjectives = None, _ALONE
    # The table is right more often than the model, which prefers the gender of the noun that it
    # would have said.
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
    """An adjective with another ending, or what stands between two.

    >>> _with_ending("alte", "en"), _with_ending("alte,", "en"), _with_ending("und", "en")
    ('alten', 'alten,', 'und')
    """
    if word in _AND:
        return word
    bare = word.rstrip(",")
    return german_adjective(bare) + ending + word[len(bare) :]


def _german_parts(lead: str) -> tuple[str, str, list[str]]:
    """Preposition, determiner and adjectives.

    >>> _german_parts("zum neuen ")
    ('zu', 'dem', ['neuen'])
    """
    words = lead.split()
    first = words[0].lower() if words else ""
    if first in _CONTRACTED:
        words[:1] = _CONTRACTED[first].split()
    with_preposition = bool(words) and words[0].lower() in ("in", "an", "zu", "von", "bei")
    preposition = words.pop(0) if with_preposition else ""
    with_determiner = bool(words) and words[0].lower() in _german_determiners()
    determiner = words.pop(0).lower() if with_determiner else ""
    return preposition, determiner, words


# What a preposition is followed by; others than these leave every case.
_GOVERNED = {
    "mit von zu bei nach aus seit gegenüber samt entgegen": ("dative",),
    "für durch gegen ohne um": ("accusative",),
    "in an auf über unter vor hinter neben zwischen": ("dative", "accusative"),
    "innerhalb außerhalb aufgrund anhand mithilfe anstelle bezüglich hinsichtlich angesichts "
    "wegen während trotz statt anstatt": ("genitive", "dative"),
}


# Whoever is the subject; and verbs beside which there may be another nominative.
_SUBJECT = re.compile(r"(?i)(?<!\w)(?:ich|du|er|wir|man)(?!\w)")
_COPULA = re.compile(
    r"(?i)(?<!\w)(?:bin|bist|ist|sind|seid|war(?:en|st)?|wäre?n?|wird|werden?|wurden?|würden?|"
    r"worden|geworden|gewesen|sein|sei|bleib\w*|blieb\w*|heiß\w*|als|wie)(?!\w)"
)
_CLAUSE_END = re.compile(r"[.,;:!?–„“»«\"()]")
# Directly before a predicate, which is no accusative: *Das ist nicht der Hund*, *wie ein Hund*.
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
# What a clause begins with if it is its subject, and the finite verb behind it.
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


def _has_subject(before: str, behind: str) -> bool:
    """Whether there is a subject in a clause beside a noun between these."""
    first = before.strip(" \t-'’‚‘")
    if _SUBJECT.search(f"{before} {behind}") or first in ("der", "wer", "jemand", "niemand"):
        return True
    if _SECOND_NOUN.match(first):
        return True
    begins = _FIRST_NOUN.match(first)
    return begins is not None and first.split()[0].lower() not in _NO_SUBJECTS


def german_cases(
    before: str, lead: str, noun: str, number: str, behind: str = ""
) -> tuple[str, ...]:
    """The cases that a German noun may stand in: what its preposition and its lead tell. Beside
    another subject it is no nominative.

    `before`, `behind`: the text around it; `number`: that of the noun, if it is known.

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
    # A noun may have another number than its source, and another gender than the table says.
    told = _told_cases(determiner, adjectives, columns)
    told = told or _told_cases(determiner, adjectives, [0, 1, 2, 3])
    cases = tuple(case for case in told if case in governed) or told or governed
    ends_so = noun.endswith(("s", "n")) or columns[0] not in (0, 2) or len(columns) > 1
    if governed == CASES and (not _CLAUSE_END.split(before)[-1].strip() or not ends_so):
        # A genitive has a noun before it, and mostly an ending.
        cases = tuple(case for case in cases if case != "genitive") or cases
    return tuple(case for case in cases if case not in _excluded(cases, before, behind)) or cases


def _excluded(cases: Container[str], before: str, behind: str) -> tuple[str, ...]:
    """Nominative or accusative, if what stands around a noun tells that it is the other."""
    if "nominative" not in cases or "accusative" not in cases:
        return ()
    before, behind = _CLAUSE_END.split(before)[-1], _CLAUSE_END.split(behind)[0]
    # *ist die Straße gegangen* may be anything.
    if _BEFORE_PREDICATE.search(before.rstrip()) and not _PARTICIPLE.search(behind):
        return ("accusative",)
    if _has_subject(before, behind):
        # *Wie hast du* is a question.
        others = re.sub(r"(?i)^\W*(?:wie|als) ", "", before)
        return () if _COPULA.search(f"{others} {behind}") else ("nominative",)
    # What a clause begins with is its subject, if nothing else is.
    return ("accusative",) if behind.strip() and not before.strip() else ()


def _told_cases(determiner: str, adjectives: list[str], columns: list[int]) -> tuple[str, ...]:
    """The cases in which a determiner and adjectives have these endings, in one of the columns."""
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
        text = re.sub(rf"(?i)^{long}\b", short, text)
    return f"{text} " if text else ""


# -- French, Spanish, Portuguese -------------------------------------------------------------------

# Masculine, feminine, and the same in the plural; a comma stands between rows.
_ROWS = {
    "fr": "le la les les,un une des des,du de+la des des,au à+la aux aux,ce cette ces ces,"
    "mon ma mes mes,ton ta tes tes,son sa ses ses,notre notre nos nos,votre votre vos vos,"
    "leur leur leurs leurs,quel quelle quels quelles,tout toute tous toutes,"
    "aucun aucune aucuns aucunes,certain certaine certains certaines,tel telle tels telles,"
    "divers diverse divers diverses,différents différentes différents différentes",
    "es": "el la los las,un una unos unas,del de+la de+los de+las,al a+la a+los a+las,"
    "este esta estos estas,ese esa esos esas,aquel aquella aquellos aquellas,"
    "nuestro nuestra nuestros nuestras,vuestro vuestra vuestros vuestras,"
    "mucho mucha muchos muchas,otro otra otros otras,todo toda todos todas,"
    "algún alguna algunos algunas,ningún ninguna ningunos ningunas,"
    "varios varias varios varias,ambos ambas ambos ambas,tanto tanta tantos tantas,"
    "su su sus sus,mi mi mis mis,tu tu tus tus,cada cada cada cada,"
    "cuánto cuánta cuántos cuántas,poco poca pocos pocas,unos+pocos unas+pocas unos+pocos "
    "unas+pocas",
    "pt": "o a os as,um uma uns umas,do da dos das,no na nos nas,ao à aos às,"
    "pelo pela pelos pelas,num numa nuns numas,este esta estes estas,esse essa esses essas,"
    "aquele aquela aqueles aquelas,deste desta destes destas,neste nesta nestes nestas,"
    "desse dessa desses dessas,nesse nessa nesses nessas,meu minha meus minhas,"
    "teu tua teus tuas,seu sua seus suas,nosso nossa nossos nossas,outro outra outros outras,"
    "todo toda todos todas,muito muita muitos muitas,algum alguma alguns algumas,"
    "nenhum nenhuma nenhuns nenhumas,vários várias vários várias,dois duas dois duas,"
    "daquele daquela daqueles daquelas,naquele naquela naqueles naquelas,"
    "dum duma duns dumas,pouco pouca poucos poucas,tanto tanta tantos tantas,"
    "quanto quanta quantos quantas,ambos ambas ambos ambas,cada cada cada cada",
}
# Words that agree and stand before an article or behind it: *tous les*, *o seu*.
_BEFORE_ARTICLE = {
    "fr": "tout toute tous toutes",
    "es": "todo toda todos todas",
    "pt": "todo toda todos todas,ambos ambas ambos ambas",
}
_BEHIND_ARTICLE = {
    "pt": "meu minha meus minhas,teu tua teus tuas,seu sua seus suas,nosso nossa nossos nossas"
}
_WITH_OTHERS = {"fr": 1, "es": 1, "pt": 6}  # rows that these stand beside
_ELIDED = {"l'": "le", "de l'": "du", "à l'": "au", "cet": "ce"}
_NO_ELISION = {"ma": "mon", "ta": "ton", "sa": "son", "ce": "cet", "le": "l'", "la": "l'"}


@cache
def _rows(language: str) -> dict[str, list[str]]:
    """By article: the row of its forms."""
    rows = _split_rows(_ROWS.get(language, ""))
    for article in rows[: _WITH_OTHERS.get(language, 0)]:
        rows += [_side_by_side(one, article) for one in _split_rows(_BEFORE_ARTICLE[language])]
        behind = _split_rows(_BEHIND_ARTICLE.get(language, ""))
        rows += [_side_by_side(article, one) for one in behind]
    return {word: row for row in reversed(rows) for word in row}


def _split_rows(listed: str) -> list[list[str]]:
    rows = [row.split() for row in listed.split(",") if row]
    return [[word.replace("+", " ") for word in row] for row in rows]


def _side_by_side(first: list[str], second: list[str]) -> list[str]:
    return [f"{one} {other}" for one, other in zip(first, second, strict=True)]


# Between an article and an adjective; of these only Portuguese ones change.
_NUMBERS_LISTED = "plus deux trois quatre cinq dos tres cuatro cinco dois duas três quatro"
_NUMBERS = frozenset(_NUMBERS_LISTED.split())
_TWO = {("dois", "f"): "duas", ("duas", "m"): "dois"}
_DE = re.compile(r"(?i)(?:de |d['’])(?!la |l['’])")


def _romance(lead: str, form: Form, language: str) -> Iterator[tuple[str, str]]:
    de = _DE.match(lead) if language == "fr" else None
    if de is None:
        yield from _romance_leads(lead, form, language)
        return
    # What stands behind the preposition agrees: *de cette erreur*, *de petites vis*.
    for way, gender in _romance_leads(lead[de.end() :], form, language):
        yield ("d'" if _VOWEL.match(way + form.text) else "de ") + way, gender


def _romance_leads(lead: str, form: Form, language: str) -> Iterator[tuple[str, str]]:
    article, adjectives = _article(lead, language)
    row = _rows(language).get(article)
    genders = [form.gender] if form.gender else ["m", "f"]
    numbers = [form.number] if form.number else [ONE, MANY]
    for number, gender in itertools.product(numbers, genders):
        column = (gender == "f") + 2 * (number == MANY)
        words = [
            _TWO.get((word, gender), word)
            if word in _NUMBERS
            else agreeing(word, gender, number, language)
            for word in adjectives
        ]
        if words and column < 2:
            words[-1] = _shortened(words[-1], form.text, gender, language)
        if row is None and not adjectives:
            yield _elided(lead, form.text, language), gender
            continue
        start = f"{article if row is None else row[column]} ".lstrip()
        if row and language == "es" and column == 1 and not words:
            start = _before_stressed_a(start, form.text)
        start = _elided(start, (*words, form.text)[0], language)
        yield start + "".join(f"{word} " for word in words), gender


def _shortened(adjective: str, noun: str, gender: str, language: str) -> str:
    """An adjective in the singular as it is before its noun: *vieil ami*, *primer recibo*."""
    if language == "es" and gender == "m":
        return _SHORT.get(adjective, adjective)
    known = _irregular(language).get(adjective, [])
    return known[4] if len(known) == 5 and gender == "m" and _VOWEL.match(noun) else adjective


_SHORT = {
    "primero": "primer", "tercero": "tercer", "bueno": "buen", "malo": "mal", "grande": "gran",
}  # fmt: skip
# Feminine nouns that begin with a stressed a have the other article: *el agua*, *un arma*.
_STRESSED_A_LISTED = (
    "agua águila ala alma alga ama ancla ansia área arma arpa asa aula ave haba hacha hada hambre"
)
_STRESSED_A = frozenset(_STRESSED_A_LISTED.split())
_OTHER_ARTICLE = {"la ": "el ", "una ": "un ", "de la ": "del ", "a la ": "al "}


def _before_stressed_a(article: str, noun: str) -> str:
    """
    >>> _before_stressed_a("la ", "área de trabajo"), _before_stressed_a("la ", "arena")
    ('el ', 'la ')
    """
    stressed = noun.lower().split()[0] in _STRESSED_A
    return _OTHER_ARTICLE.get(article, article) if stressed else article


def _article(lead: str, language: str) -> tuple[str, list[str]]:
    """An article as it is without elision, and the adjectives behind it."""
    small = lead.lower().replace("’", "'").strip()
    for elided, whole in _ELIDED.items():
        # *l'ancien*, but *cet ancien*
        begins = elided if elided.endswith("'") else f"{elided} "
        if language == "fr" and f"{small} ".startswith(begins):
            return whole, small[len(elided) :].split()
    rows = _rows(language)
    for count in (2, 1):
        words = small.split()
        if " ".join(words[:count]) in rows:
            return " ".join(words[:count]), words[count:]
    return "", small.split()


def _elided(lead: str, noun: str, language: str) -> str:
    """French: *le* or *la* before a vowel, and *l'* before none.

    >>> _elided("de la ", "eau", "fr"), _elided("d'", "pièces", "fr")
    ("de l'", 'de ')
    """
    if language != "fr":
        return lead
    vowel = bool(_VOWEL.match(noun))
    small = lead.replace("’", "'")
    if not vowel:
        return re.sub(r"(?i)\bd'$", "de ", small) if noun[:1].lower() not in "hy" else lead
    if re.fullmatch(r"(?i)(du|de la) ", small):
        return "de l'"
    if re.fullmatch(r"(?i)(au|à la) ", small):
        return "à l'"
    small = re.sub(r"(?i)\b(de) $", "d'", small)
    return re.sub(
        r"(?i)\b(ma|ta|sa|ce|le|la) $",
        lambda found: (
            _NO_ELISION[found[1].lower()] + ("" if found[1].lower() in ("le", "la") else " ")
        ),
        small,
    )


_FEMININES = {
    "fr": "eux>euse,if>ive,el>elle,en>enne,er>ère,eau>elle,anc>anche,on>onne,et>ette,al>ale,l>le,"
    "teur>trice,d>de,t>te,n>ne,s>se,r>re,é>ée,i>ie,u>ue",
    "es": "o>a,or>ora,és>esa,ón>ona,án>ana",
    "pt": "o>a,or>ora,ês>esa,ão>ã,eu>eia,ú>ua",
}


# Adjectives in their four forms; some French ones have a fifth before a vowel.
_IRREGULAR = {
    "fr": "vieux vieille vieux vieilles vieil,nouveau nouvelle nouveaux nouvelles nouvel,"
    "beau belle beaux belles bel,neuf neuve neufs neuves,bon bonne bons bonnes,"
    "gros grosse gros grosses,long longue longs longues,blanc blanche blancs blanches,"
    "public publique publics publiques,faux fausse faux fausses,doux douce doux douces,"
    "sec sèche secs sèches,frais fraîche frais fraîches,complet complète complets complètes,"
    "premier première premiers premières,dernier dernière derniers dernières,"
    "épais épaisse épais épaisses,bas basse bas basses,gras grasse gras grasses,"
    "las lasse las lasses,cher chère chers chères,léger légère légers légères",
    "es": "gran gran grandes grandes,mejor mejor mejores mejores,peor peor peores peores,"
    "mayor mayor mayores mayores,menor menor menores menores,mal mala malos malas,"
    "buen buena buenos buenas,primer primera primeros primeras,"
    "tercer tercera terceros terceras",
    "pt": "bom boa bons boas,mau má maus más,melhor melhor melhores melhores,"
    "pior pior piores piores,maior maior maiores maiores,menor menor menores menores",
}


@cache
def _irregular(language: str) -> dict[str, list[str]]:
    rows = _split_rows(_IRREGULAR.get(language, ""))
    return {word: row for row in rows for word in row}


def agreeing(word: str, gender: str, number: str, language: str) -> str:
    """An adjective in the gender and number of a noun.

    >>> agreeing("nuevas", "m", "plural", "es"), agreeing("neuf", "f", "singular", "fr")
    ('nuevos', 'neuve')
    """
    if word in _irregular(language):
        return _irregular(language)[word][(gender == "f") + 2 * (number == MANY)]
    one = _singular(word, language)
    pairs = [pair.split(">") for pair in _FEMININES[language].split(",")]
    if gender == "f":
        for masculine, feminine in pairs:
            if one.endswith(masculine) and not one.endswith("e"):
                one = one[: len(one) - len(masculine)] + feminine
                break
    else:
        for masculine, feminine in pairs:
            if one.endswith(feminine) and len(feminine) > 1 - (language != "fr"):
                one = one[: len(one) - len(feminine)] + masculine
                break
    if number == ONE:
        return one
    return plural(one, language) if one[-1:] not in "sx" or language != "fr" else one


def _singular(word: str, language: str) -> str:
    if language == "fr":
        if word.endswith("aux") and not word.endswith("eaux"):
            return word[:-2] + "l"
        return (
            word[:-1] if re.search(r"(?:[^s]s|eaux)$", word) and not word.endswith("as") else word
        )
    if language == "pt" and re.search(r"[aeou]is$", word):
        return word[:-2] + "l"
    if re.search(r"[aeoã]s$", word):
        return word[:-2] if re.search(r"[rlzdn]es$", word) and language == "es" else word[:-1]
    return word


def lead_of(text: str, end: int, language: str, adjective: bool = False) -> int:
    """Where the lead begins of a noun that begins at `end`. `adjective`: it begins with one, so
    that *alte und* before it belongs to it."""
    begin = max(0, end - _LONGEST_LEAD)
    if language == "de":
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
    pattern = _ENGLISH_LEAD if language == "en" else _romance_lead(language)
    found = pattern.search(text, begin, end)
    return found.start() if found else end


_BEFORE_NOUN = re.compile(rf"(?<!\w)((?:{_GERMAN_ADJECTIVE} ){{0,8}})$")
_BEFORE_ADJECTIVE = re.compile(
    rf"(?<!\w)((?:{_GERMAN_ADJECTIVE} ){{0,8}}(?:{_GERMAN_ADJECTIVE} (?:und|oder) )?)$"
)
# Behind these stands a verb: *ich finde*, *um zu essen*.
_PRONOUN = re.compile(r"(?i)(?<!\w)(?:ich|du|er|sie|es|wir|ihr|man|wer|was|zu) \Z")


def _adjectives(words: str) -> list[str]:
    return [word.rstrip(",") for word in words.split() if word not in _AND]


_LONGEST_LEAD = 80  # letters
_ENGLISH_LEAD = re.compile(r"(?i)(?<!\w)an? $")


@cache
def _german_lead() -> re.Pattern[str]:
    determiners = "|".join(sorted([*_german_determiners(), *_CONTRACTED], key=len, reverse=True))
    article = rf"(?:(?:in|an|zu|von|bei) (?=der |die |das |den |dem ))?(?:{determiners}) "
    adjective = rf"{_GERMAN_ADJECTIVE}(?:,| und| oder)? "
    return re.compile(rf"(?<!\w)(?i:{article})((?:{adjective}){{0,3}})$")


@cache
def _romance_lead(language: str) -> re.Pattern[str]:
    articles = [*_rows(language), *(_ELIDED if language == "fr" else [])]
    articles.sort(key=len, reverse=True)
    parted = [one if one.endswith("'") else f"{one} " for one in articles]
    parted += ["de ", "d'"] if language == "fr" else []
    pattern = "|".join(parted).replace("'", "['’]") or "(?!)"
    numbers = "|".join(sorted(_NUMBERS))
    adjective = rf"(?:[^\W\d_]{{4,}}|{_SHORT_ADJECTIVES}) "
    return re.compile(rf"(?i)(?<!\w)(?:{pattern})(?:(?:{numbers}) )?(?:{adjective})?$")


_SHORT_ADJECTIVES = "bon|bel|bom|boa|mau|má|mal|nul"


# A noun, and behind it an adjective or a predicate that agrees with it.
_COPULAS = {
    "fr": "est|sont|était|étaient|sera|seront|fut|furent|a été|ont été|avait été|avaient été|"
    "reste|restent|doit être|doivent être|semble|semblent",
    "es": "es|son|está|están|era|eran|fue|fueron|será|serán|ha sido|han sido|había sido|"
    "habían sido|estaba|estaban|debe ser|deben ser|parece|parecen|queda|quedan|quedó|quedaron",
    "pt": "é|são|está|estão|era|eram|foi|foram|será|serão|estava|estavam|tinha sido|tinham sido|"
    "deve ser|devem ser|parece|parecem|fica|ficam|ficou|ficaram",
}
_NO_TAILS_LISTED = (
    "para como esta este sobre entre cuando pero hasta contra cada desde antes todo toda "
    "donde pour dans avec sans sous vers mais comme quand depuis avant après selon elle "
    "elles nous vous quando mas até desde onde pela pelo você vocês está este essa esse "
    "muito muita plus mais très ahora nunca cerca fuera encima todavía agora fora ainda embora "
    "encore toute cette notre votre nuestra nuestro nossa nosso demasiado bastante"
)
_NO_TAILS = frozenset(_NO_TAILS_LISTED.split())
_VERY = (
    "muy|más|demasiado|tan|bastante|très|plus|trop|assez|les plus|la plus|le plus|muito|mais|"
    "demasiado|tão|bem"
)


# Behind a preposition a noun is not what the sentence is about: *el conductor del coche está
# dormido*.
_BEHIND_PREPOSITION = re.compile(
    r"(?i)(?<!\w)(?:de|d['’]|du|des|del|à|au|aux|a|al|en|em|dans|sur|sous|par|pour|avec|sans|con|"
    r"com|sin|sem|para|por|sobre|contre|contra|entre|do|da|dos|das|no|na|nos|nas|ao|aos|às|pelo|"
    r"pela|num|numa|deste|desta|desse|dessa|neste|nesta|nesse|nessa) ?$"
)


def is_governed(before: str, lead: str) -> bool:
    """Whether a preposition stands before a noun, or in its lead.

    >>> is_governed("El dueño ", "de la "), is_governed("", "La "), is_governed("dans ", "la ")
    (True, False, True)
    """
    first = lead.split()[0].lower() if lead.split() else ""
    in_lead = first not in ("a", "des") and _BEHIND_PREPOSITION.fullmatch(first)  # articles too
    return bool(in_lead or _BEHIND_PREPOSITION.search(before))


def tail_of(text: str, start: int, language: str, governed: bool = False) -> tuple[int, int]:
    """From where to where there are words behind a noun that may agree with it: an adjective, or
    what it is said to be. *Los perros [grandes son peligrosos].* `governed`: a preposition stands
    before it, so it is not the subject."""
    if language not in _COPULAS:
        return start, start
    word = r"[^\W\d_]{4,}(?!\w)"
    more = f"(?: (?:{_VERY}))?"
    copula = rf"(?: no| não| ne)? (?:n['’])?(?:{_COPULAS[language]})(?: pas)?"
    first = rf"{more} (?!(?:{_COPULAS[language]})\b){word}"
    and_more = rf"(?: (?:y|e|et|ou|o){more} {word}(?=[.,;:!?]|$))?"
    predicate = "" if governed else rf"(?:{copula}{more} {word}{and_more})?"
    found = re.compile(rf"(?:{first})?{predicate}").match(text, start)
    return (found.start(), found.end()) if found else (start, start)


# What directly follows a noun is an adjective if it is listed here, in its masculine, or ends as
# adjectives do and verbs mostly do not.
_ADJECTIVES_LISTED = {
    "fr": "bleu brun clair content court droit fort froid gris haut lourd léger lent noir ouvert "
    "parfait petit grand plein pointu profond prêt rond seul sourd urgent vert vieux vif mort "
    "différent important intéressant suivant précédent récent fréquent évident cher fier entier "
    "étroit gratuit interdit inscrit maudit couvert offert gras épais bas las",
    "es": "nuevo viejo antiguo pequeño bueno malo largo corto alto bajo blanco negro rojo amarillo "
    "rico ancho estrecho claro oscuro limpio sucio lleno vacío seco húmedo frío abierto roto "
    "muerto vivo caro barato raro serio falso cierto mismo propio otro solo único último primero "
    "segundo tercero derecho izquierdo interno externo moderno entero completo perfecto correcto "
    "exacto directo concreto distinto justo gratuito bonito feo gordo flaco sano enfermo loco "
    "tonto listo sabio tranquilo amplio grueso delgado fino duro blando lento rápido cómodo "
    "sencillo complejo maduro seguro puro extraño plano redondo profundo ajeno previo medio mínimo "
    "máximo bello hermoso cubierto resuelto escrito",
    "pt": "novo velho antigo pequeno bom mau longo curto alto baixo branco preto vermelho amarelo "
    "rico largo estreito claro escuro limpo sujo cheio vazio seco úmido frio aberto roto morto "
    "vivo caro barato raro sério falso certo mesmo próprio outro único último primeiro segundo "
    "terceiro direito esquerdo interno externo moderno inteiro completo perfeito correto exato "
    "direto concreto distinto justo gratuito bonito lindo belo feio gordo magro louco tolo pronto "
    "sábio tranquilo amplo grosso fino duro lento rápido complexo maduro seguro puro estranho "
    "plano redondo profundo alheio prévio médio mínimo máximo coberto escrito feito",
}
_ACCENTED = r"\w*[áéíóúâêô][^\W\daeiouáéíóú]\w{0,4}[oa]s?"  # eléctrica, pública
_ADJECTIVE_ENDINGS = {
    "fr": r"\w{2,}(?:ée?|eux|euse|ive|[ao]ise?|aine?|ien|ienne|ier|ière|ale?|elle?|trice)s?",
    "es": rf"\w{{2,}}(?:[ai]d|os|iv|ari|ori|an|eñ)[oa]s?|{_ACCENTED}",
    "pt": rf"\w{{2,}}(?:[ai]d|os|iv|ári|óri|an)[oa]s?|{_ACCENTED}",
}
_LIKE_ADJECTIVES = ("arrive", "dérive", "prive", "appelle", "rappelle", "signale", "avale", "égale")


def is_known_adjective(word: str, language: str) -> bool:
    """Whether a French, Spanish or Portuguese adjective is listed."""
    if language not in _ADJECTIVES_LISTED:
        return False
    masculine = agreeing(word, "m", ONE, language)
    return masculine in _ADJECTIVES_LISTED[language].split() or word in _irregular(language)


def _is_adjective(word: str, language: str) -> bool:
    """Whether a word behind a noun is an adjective: *casa vacía*, not *casa cuesta*."""
    if is_known_adjective(word, language):
        return True
    ends_so = re.fullmatch(_ADJECTIVE_ENDINGS[language], word) is not None
    return ends_so and word not in _LIKE_ADJECTIVES


_MORE_FRENCH_ADJECTIVES = re.compile(
    r"\w{2,}el|\w{3,}[ae]nt|allemand|latin|voisin|(?:mascul|fémin)in"
)


def feminines(word: str, language: str) -> list[str]:
    """The feminine forms of a French word that may be an adjective.

    >>> feminines("ancien", "fr"), feminines("port", "fr")
    (['ancienne', 'anciennes'], [])
    """
    if language != "fr":
        return []
    known = _is_adjective(word, "fr") or _MORE_FRENCH_ADJECTIVES.fullmatch(word)
    return [agreeing(word, "f", number, "fr") for number in (ONE, MANY)] if known else []


def gender_of(lead: str, noun: str, language: str) -> str:
    """The gender of a noun as its article tells it, or else its ending."""
    row = _rows(language).get(article := _article(lead, language)[0], [])
    columns = {place % 2 for place, word in enumerate(row) if word == article}
    if len(columns) == 1 and not re.search("['’]", lead):
        return "mf"[columns.pop()]
    kind, _ = classified(_singular(noun.split()[0], language), language) if noun else (None, False)
    return kind.gender if kind else ""


def tails(tail: str, old: str, form: Form, language: str) -> dict[str, str]:
    """By gender: words behind a noun that had the gender `old`, made to agree.

    Only what agreed before can be an adjective.

    >>> tails(" grandes son peligrosos", "m", Form("bestias", "plural", "f"), "es")["f"]
    ' grandes son peligrosas'
    """
    if not old or not tail:
        return {}

    copulas = {*re.split(r"[| ]", _COPULAS[language])}

    def changed(word: str, gender: str, said: bool) -> str:
        if len(word) < 4 or not word.islower() or word in _NO_TAILS:
            return word
        if not said and not _is_adjective(word, language):
            return word
        number = form.number or ONE
        agrees = agreeing(word, old, number, language) == word
        return agreeing(word, gender, number, language) if agrees else word

    words = tail.split(" ")
    plain = [re.sub("^n['’]", "", word) for word in words]  # n'est
    first = next((n for n, word in enumerate(plain) if word in copulas), len(words))
    return {
        gender: " ".join(changed(word, gender, n > first) for n, word in enumerate(words))
        for gender in "mf"
    }
