"""Articles and adjectives that agree with a noun.

    lead     the article and adjectives before a noun: "den neuen " before "Auftrag"

When a term replaces another noun, the gender may change, and the lead with it: *die neue
Bestellung*, *der neue Auftrag*. Where the case of a noun is unknown, several leads are possible,
and the model chooses among them.
"""

import itertools
import re
from collections.abc import Container, Iterator
from functools import cache

from dragoman.text.forms import CASES, MANY, ONE, Form, plural
from dragoman.text.german_leads import german_lead_of, german_leads
from dragoman.text.inflection import classified

_VOWEL = re.compile(r"[aeiouàâæéèêëîïôœùûü]", re.IGNORECASE)


def leads(
    lead: str, form: Form, language: str, cases: Container[str] = CASES
) -> list[tuple[str, str]]:
    """List the leads that can replace this one before a form of a noun, the closest first.

    Each comes with the gender that it implies, where that matters. `cases` are the cases that a
    German noun may have here.

    >>> leads("die neue ", Form("Auftrag", "singular", "m", ("nominative",)), "de")
    [('der neue ', '')]
    >>> leads("la ", Form("eau", "singular", "f"), "fr")
    [("l'", 'f')]
    """
    if language == "de":
        ways = [(way, "") for way in german_leads(lead, form, cases)]
    elif language in _ROWS:
        ways = [*_romance(lead, form, language)]
    elif language == "en":
        # By spelling, so *an hour* and *a user* come out wrong.
        article = r"\1n " if _VOWEL.match(form.text) else r"\1 "
        ways = [(re.sub(r"(?i)\b(a)n? $", article, lead), "")]
    else:
        ways = []
    words = lead.lower().split()

    def changes(way: tuple[str, str]) -> int:
        # Fewer changes first: they keep the model's own choice of words.
        return sum(a != b for a, b in zip(words, way[0].lower().split(), strict=False))

    ways.sort(key=changes)
    same_case = [(_with_case_of(lead, way), kind) for way, kind in ways]
    return [*dict.fromkeys(same_case)] or [(lead, "")]


def _with_case_of(lead: str, way: str) -> str:
    return way[:1].upper() + way[1:] if lead[:1].isupper() else way


# Rows of masculine, feminine and both plurals, separated by commas.
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
# Words next to an article that agree with the noun too: *tous les*, *o seu*.
_BEFORE_ARTICLE = {
    "fr": "tout toute tous toutes",
    "es": "todo toda todos todas",
    "pt": "todo toda todos todas,ambos ambas ambos ambas",
}
_AFTER_ARTICLE = {
    "pt": "meu minha meus minhas,teu tua teus tuas,seu sua seus suas,nosso nossa nossos nossas"
}
_WITH_OTHERS = {"fr": 1, "es": 1, "pt": 6}  # how many rows of articles combine with them
_ELIDED = {"l'": "le", "de l'": "du", "à l'": "au", "cet": "ce"}
_NO_ELISION = {"ma": "mon", "ta": "ton", "sa": "son", "ce": "cet", "le": "l'", "la": "l'"}


@cache
def _rows(language: str) -> dict[str, list[str]]:
    """Map each article to the row of its forms."""
    rows = _split_rows(_ROWS.get(language, ""))
    for article in rows[: _WITH_OTHERS.get(language, 0)]:
        rows += [_side_by_side(one, article) for one in _split_rows(_BEFORE_ARTICLE[language])]
        after = _split_rows(_AFTER_ARTICLE.get(language, ""))
        rows += [_side_by_side(article, one) for one in after]
    # Reversed, so that the first row with a word wins: *des* is the plural of *un* rather than of
    # *du*.
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
    # The words after the preposition agree: *de cette erreur*, *de petites vis*.
    for way, gender in _romance_leads(lead[de.end() :], form, language):
        yield ("d'" if _VOWEL.match(way + form.text) else "de ") + way, gender


def _romance_leads(lead: str, form: Form, language: str) -> Iterator[tuple[str, str]]:
    article, adjectives = _article(lead, language)
    row = _rows(language).get(article)
    genders = [form.gender] if form.gender else ["m", "f"]
    numbers = [form.number] if form.number else [ONE, MANY]
    for number, gender in itertools.product(numbers, genders):
        # The order of a row: m, f, m plural, f plural.
        column = (gender == "f") + 2 * (number == MANY)
        words = [
            _TWO.get((word, gender), word)
            if word in _NUMBERS
            else agreeing(word, gender, number, language)
            for word in adjectives
        ]
        if words and column < 2:
            words[-1] = _shortened(words[-1], form.text, gender, language)
        # Neither an article nor an adjective to change.
        if row is None and not adjectives:
            yield _elided(lead, form.text, language), gender
            continue
        start = f"{article if row is None else row[column]} ".lstrip()
        if row and language == "es" and column == 1 and not words:
            start = _before_stressed_a(start, form.text)
        start = _elided(start, (*words, form.text)[0], language)
        yield start + "".join(f"{word} " for word in words), gender


def _shortened(adjective: str, noun: str, gender: str, language: str) -> str:
    """Shorten a singular adjective that comes before its noun: *vieil ami*, *primer recibo*."""
    if language == "es" and gender == "m":
        return _SHORT.get(adjective, adjective)
    # The fifth form is the one before a vowel.
    known = irregular_adjectives(language).get(adjective, [])
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
    """Split a lead into its article, written without elision, and the adjectives after it."""
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
    """Elide a French lead before a vowel, and undo the elision before a consonant.

    >>> _elided("de la ", "eau", "fr"), _elided("d'", "pièces", "fr")
    ("de l'", 'de ')
    """
    if language != "fr":
        return lead
    vowel = bool(_VOWEL.match(noun))
    small = lead.replace("’", "'")
    if not vowel:
        # A French h or y may be mute or aspirated, which its spelling does not show: leave it.
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
def irregular_adjectives(language: str) -> dict[str, list[str]]:
    rows = _split_rows(_IRREGULAR.get(language, ""))
    return {word: row for row in rows for word in row}


def agreeing(word: str, gender: str, number: str, language: str) -> str:
    """Inflect an adjective for the gender and number of a noun.

    >>> agreeing("nuevas", "m", "plural", "es"), agreeing("neuf", "f", "singular", "fr")
    ('nuevos', 'neuve')
    """
    if word in irregular_adjectives(language):
        return irregular_adjectives(language)[word][(gender == "f") + 2 * (number == MANY)]
    one = _singular(word, language)
    pairs = [pair.split(">") for pair in _FEMININES[language].split(",")]
    if gender == "f":
        for masculine, feminine in pairs:
            # Adjectives in -e have one form for both genders.
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
    """Find the start of the lead of a noun that starts at `end`.

    `adjective`: an adjective comes first there, so a preceding *alte und* is part of the lead.
    """
    # A bounded window: a search over a long text for each noun would take quadratic time.
    begin = max(0, end - _LONGEST_LEAD)
    if language == "de":
        return german_lead_of(text, begin, end, adjective)
    pattern = _ENGLISH_LEAD if language == "en" else _romance_lead(language)
    found = pattern.search(text, begin, end)
    return found.start() if found else end


_LONGEST_LEAD = 80  # letters
_ENGLISH_LEAD = re.compile(r"(?i)(?<!\w)an? $")


@cache
def _romance_lead(language: str) -> re.Pattern[str]:
    articles = [*_rows(language), *(_ELIDED if language == "fr" else [])]
    # Longer ones first: an alternation takes the first match.
    articles.sort(key=len, reverse=True)
    parted = [one if one.endswith("'") else f"{one} " for one in articles]
    parted += ["de ", "d'"] if language == "fr" else []
    pattern = "|".join(parted).replace("'", "['’]") or "(?!)"
    numbers = "|".join(sorted(_NUMBERS))
    adjective = rf"(?:[^\W\d_]{{4,}}|{_SHORT_ADJECTIVES}) "
    return re.compile(rf"(?i)(?<!\w)(?:{pattern})(?:(?:{numbers}) )?(?:{adjective})?$")


_SHORT_ADJECTIVES = "bon|bel|bom|boa|mau|má|mal|nul"


def gender_of(lead: str, noun: str, language: str) -> str:
    """Guess the gender of a noun from its article, or else from its ending."""
    row = _rows(language).get(article := _article(lead, language)[0], [])
    columns = {place % 2 for place, word in enumerate(row) if word == article}
    # An article that is the same for both genders, or elided, proves nothing.
    if len(columns) == 1 and not re.search("['’]", lead):
        return "mf"[columns.pop()]
    kind, _ = classified(_singular(noun.split()[0], language), language) if noun else (None, False)
    return kind.gender if kind else ""
