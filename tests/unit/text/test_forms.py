"""Forms of terms, and articles and adjectives that agree with them."""

import pytest

from dragoman.text.agreement import agreeing, lead_of, leads
from dragoman.text.forms import MANY, ONE, Form, plural, plural_forms, same_word, term_forms
from dragoman.text.german_leads import german_cases
from dragoman.text.inflection import applied, classified
from dragoman.text.tails import tail_of, tails


@pytest.mark.parametrize(
    ("language", "one", "many"),
    [
        ("de", "Arbeitsauftrag", "Arbeitsaufträge"),
        ("de", "Rechnung", "Rechnungen"),
        ("de", "Kunde", "Kunden"),
        ("de", "Leuchte", "Leuchten"),
        ("de", "Schalter", "Schalter"),
        ("fr", "journal", "journaux"),
        ("fr", "tuyau", "tuyaux"),
        ("fr", "prix", "prix"),
        ("es", "función", "funciones"),
        ("es", "luz", "luces"),
        ("es", "orden", "órdenes"),
        ("pt", "canal", "canais"),
        ("pt", "função", "funções"),
        ("pt", "ordem", "ordens"),
        ("en", "box", "boxes"),
    ],
)
def test_plurals(language: str, one: str, many: str) -> None:
    assert plural(one, language) == many
    assert same_word(many.lower(), one.lower(), language) in (MANY, "")


@pytest.mark.parametrize(
    ("language", "term", "many"),
    [
        ("fr", "pièce de rechange", "pièces de rechange"),
        ("es", "disco duro", "discos duros"),
        ("pt", "ordem de serviço", "ordens de serviço"),
        ("de", "Datum der Rechnung", "Daten der Rechnung"),
        ("en", "point of sale", "points of sale"),
        ("pt", "palavra-passe", "palavras-passe"),
        ("pt", "guarda-chuva", "guarda-chuvas"),
        ("fr", "mot-clé", "mots-clés"),
        ("fr", "sous-titre", "sous-titres"),
    ],
)
def test_of_several_words_the_noun_is_inflected_that_the_others_belong_to(
    language: str, term: str, many: str
) -> None:
    assert many in [form.text for form in term_forms(term, language)]


@pytest.mark.parametrize("language", ["de", "fr", "es", "pt"])
def test_the_letters_of_an_acronym_tell_neither_gender_nor_plural(language: str) -> None:
    for term in ("URL", "REST-API"):
        assert term_forms(term, language) == (Form(term, ONE), Form(f"{term}s", MANY))
    assert term_forms("VPNs", language) == (Form("VPNs", MANY),)
    assert not plural_forms("VPNs", language)[0].gender


def test_only_some_german_plurals_have_another_dative() -> None:
    for term, dative in (("Vertrag", "Verträgen"), ("Schalter", "Schaltern")):
        assert dative in {form.text for form in term_forms(term, "de")}
    assert {form.text for form in term_forms("Diagnostik", "de")} == {"Diagnostik"}


def test_a_nominalised_adjective_has_an_adjectives_endings() -> None:
    forms = {form.text for form in term_forms("Angestellter", "de")}
    assert forms == {f"Angestellt{ending}" for ending in ("e", "en", "er", "es", "em")}
    assert "Mitarbeiters" in {form.text for form in term_forms("Mitarbeiter", "de")}


def test_of_several_words_a_verb_is_inflected() -> None:
    forms = {form.text for form in term_forms("iniciar sesión", "es")}
    assert {"inicia sesión", "inició sesión", "iniciando sesión"} <= forms


def test_the_first_part_of_a_word_with_a_hyphen_tells_its_gender() -> None:
    assert {form.gender for form in term_forms("palavra-passe", "pt")} == {"f"}
    assert {form.gender for form in term_forms("mot-clé", "fr")} == {"m"}


def test_a_term_in_the_plural_has_no_singular() -> None:
    for term, language in (("Neuigkeiten", "de"), ("noticias", "es"), ("notícias", "pt")):
        assert {form.number for form in term_forms(term, language)} == {MANY}
    assert ONE in {form.number for form in term_forms("crisis", "es")}


def test_a_german_genitive_and_dative_are_forms() -> None:
    forms = {form.text for form in term_forms("Vertrag", "de")}
    assert {"Vertrag", "Vertrags", "Vertrages", "Verträge", "Verträgen"} <= forms


def test_a_lead_changes_with_gender_case_and_number() -> None:
    rechnung = Form("Rechnung", ONE, "f", ("dative",))
    assert leads("in dem neuen ", rechnung, "de") == [("in der neuen ", "")]
    vertrag = Form("Vertrag", ONE, "m", ("dative",))
    assert leads("in der neuen ", vertrag, "de") == [("im neuen ", "")]
    assert leads("Ein altes ", Form("Vertrag", ONE, "m", ("accusative",)), "de") == [
        ("Einen alten ", "")
    ]
    assert leads("el nuevo ", Form("órdenes", MANY, "f"), "es") == [("las nuevas ", "f")]
    assert leads("la vieille ", Form("appareil", ONE, "m"), "fr") == [("le vieil ", "m")]


@pytest.mark.parametrize(
    ("before", "lead", "noun", "number", "cases"),
    [
        ("Er kam mit", "den alten ", "Bestellungen", MANY, ["dative"]),
        ("Heute hat", "die alte ", "Bestellung", ONE, ["nominative", "accusative"]),
        ("Wir sehen", "den ", "Vertrag", ONE, ["accusative"]),
        ("", "zur ", "Bestellung", ONE, ["dative"]),
        ("der Preis", "der ", "Bestellung", ONE, ["genitive", "dative"]),
        ("für", "", "Bestellung", ONE, ["accusative"]),
        ("Hier ist", "dieses ", "Auto", ONE, ["nominative"]),
        # A source in the plural may have become a singular.
        ("Hier ist", "das beste ", "Land", MANY, ["nominative"]),
        # A preposition counts less than an article that cannot follow it.
        ("weil sie zu", "die ", "Bestellung", ONE, ["nominative", "accusative"]),
        ("", "", "Bestellung", ONE, ["nominative", "dative", "accusative"]),
        ("Der Preis", "", "Bestellung", ONE, ["nominative", "genitive", "dative", "accusative"]),
    ],
)
def test_preposition_and_article_tell_the_case(before, lead, noun, number, cases) -> None:
    assert [*german_cases(before, lead, noun, number)] == cases


def test_a_clause_does_not_begin_with_a_genitive() -> None:
    assert german_cases("", "Dieses ", "Haus", ONE, " ist alt.") == ("nominative",)
    assert "genitive" in german_cases("Der Preis ", "dieses ", "Autos", ONE, " ist hoch.")


def test_a_noun_with_another_subject_is_not_nominative() -> None:
    cases = german_cases("Ich habe gestern ", "ein weißes ", "Boot", ONE, " gesehen.")
    assert cases == ("accusative",)
    cases = german_cases("Wenn er kommt, steht ", "die ", "Bestellung", ONE, " da.")
    assert cases == ("nominative", "accusative")
    cases = german_cases("Das ", "", "Boot", ONE, " sah er.")
    assert "nominative" not in cases
    assert "nominative" in german_cases("Er ist ", "ein guter ", "Lehrer", ONE, ".")


@pytest.mark.parametrize(
    ("before", "behind", "case"),
    [
        ("Jemand hat ", " genommen.", "accusative"),
        ("Wie hast du ", " genommen?", "accusative"),
        ("Die Wellen trafen ", " gestern.", "accusative"),
        ("Unser alter Nachbar sah ", ".", "accusative"),
        ("Ich glaube, dass Tom ", " gestohlen hat.", "accusative"),
        ("Es war Tom, der ", " gestohlen hat.", "accusative"),
        ("", " wurde gestohlen.", "nominative"),
        ("", " gefällt mir.", "nominative"),
        ("Das ist nicht ", ".", "nominative"),
        ("Tom aß wie ", ".", "nominative"),
        ("Gestern kam ", " zu uns.", ""),
        ("Tom ist ", " gegangen.", ""),
    ],
)
def test_the_words_around_a_german_noun_show_its_case(before, behind, case) -> None:
    cases = german_cases(before, "die ", "Bestellung", ONE, behind)
    assert cases == ((case,) if case else ("nominative", "accusative"))


@pytest.mark.parametrize("phrase", ["zum Beispiel", "zu Hause", "wie auch immer", "ein bisschen"])
def test_a_fixed_phrase_has_one_form(phrase: str) -> None:
    assert [form.text for form in term_forms(phrase, "de")] == [phrase]


@pytest.mark.parametrize(
    ("noun", "gender", "plural"),
    [("Kahn", "m", "Kähne"), ("Beutel", "m", "Beutel"), ("Indiz", "n", "Indizien")],
)
def test_the_table_knows_short_german_nouns(noun: str, gender: str, plural: str) -> None:
    kind, sure = classified(noun, "de")
    assert (kind.gender, sure, applied(kind.plural, noun)) == (gender, True, plural)


@pytest.mark.parametrize(
    ("term", "language", "forms"),
    [
        ("primer ministro", "es", [("primer ministro", "m"), ("primeros ministros", "m")]),
        ("gran empresa", "es", [("gran empresa", "f"), ("grandes empresas", "f")]),
        ("libre mercado", "es", [("libre mercado", "m"), ("libres mercados", "m")]),
        ("mayor de edad", "es", [("mayor de edad", "m"), ("mayores de edad", "m")]),
        ("jeune pousse", "fr", [("jeune pousse", "f"), ("jeunes pousses", "f")]),
        ("sud-américain", "fr", [("sud-américain", "m"), ("sud-américains", "m")]),
    ],
)
def test_an_adjective_before_a_noun_has_the_gender_of_the_noun(term, language, forms) -> None:
    assert [(form.text, form.gender) for form in term_forms(term, language)] == forms


@pytest.mark.parametrize(("noun", "language"), [("cargo", "es"), ("fruto", "es"), ("prato", "pt")])
def test_another_noun_in_a_is_no_form_of_a_noun_in_o(noun: str, language: str) -> None:
    assert [form.text for form in term_forms(noun, language)] == [noun, noun + "s"]


def test_a_participle_in_s_is_its_own_plural() -> None:
    texts = [form.text for form in term_forms("soumettre", "fr")]
    assert {"soumis", "soumises"} <= {*texts}
    assert "soumiss" not in texts


def test_what_a_noun_is_not_agrees_with_it_too() -> None:
    text = "Ce couteau n'est pas aiguisé."
    start, end = tail_of(text, len("Ce couteau"), "fr")
    tail = tails(text[start:end], "m", Form("lame", ONE, "f"), "fr")
    assert tail["f"] == " n'est pas aiguisée"


@pytest.mark.parametrize(
    ("noun", "language", "gender"),
    [
        ("jument", "fr", "f"),
        ("sacoche", "fr", "f"),
        ("bourrasque", "fr", "f"),
        ("paix", "fr", "f"),  # without a plural of its own
        ("beurre", "fr", "m"),
        ("drame", "fr", "m"),
        ("rame", "fr", "f"),
        ("leche", "es", "f"),
        ("agua", "es", "f"),  # whose article is el
        ("planeta", "es", "m"),
        ("trama", "pt", "f"),
    ],
)
def test_the_table_knows_genders_that_endings_do_not_tell(noun, language, gender) -> None:
    kind, _ = classified(noun, language)
    assert kind.gender == gender


@pytest.mark.parametrize(
    ("lead", "form", "language", "way"),
    [
        ("de ", Form("succursales", MANY, "f"), "fr", "de "),
        ("de cet ", Form("défaillance", ONE, "f"), "fr", "de cette "),
        ("de petites ", Form("boulons", MANY, "m"), "fr", "de petits "),
        ("d'une ", Form("boulon", ONE, "m"), "fr", "d'un "),
        ("de ", Form("instruments", MANY, "m"), "fr", "d'"),
        ("las dos últimas ", Form("recibos", MANY, "m"), "es", "los dos últimos "),
        ("vários ", Form("falhas", MANY, "f"), "pt", "várias "),
        ("os dois últimos ", Form("falhas", MANY, "f"), "pt", "as duas últimas "),
        ("o seu ", Form("casa", ONE, "f"), "pt", "a sua "),
        ("dos nossos ", Form("casas", MANY, "f"), "pt", "das nossas "),
        ("todos os ", Form("casas", MANY, "f"), "pt", "todas as "),
        ("o bom ", Form("casa", ONE, "f"), "pt", "a boa "),
        ("tous les ", Form("vis", MANY, "f"), "fr", "toutes les "),
        ("le plus grand ", Form("vis", ONE, "f"), "fr", "la plus grande "),
        ("l'ancienne ", Form("atelier", ONE, "m"), "fr", "l'ancien "),
        ("l'ancienne ", Form("garage", ONE, "m"), "fr", "l'ancien "),
        ("de l'ancienne ", Form("buffet", ONE, "m"), "fr", "de l'ancien "),
        ("le petit ", Form("usine", ONE, "f"), "fr", "la petite "),
        ("sa première ", Form("discours", ONE, "m"), "fr", "son premier "),
        ("la primera ", Form("recibo", ONE, "m"), "es", "el primer "),
        ("el primer ", Form("nota", ONE, "f"), "es", "la primera "),
        ("una gran ", Form("sobre", ONE, "m"), "es", "un gran "),
        ("su caro ", Form("joya", ONE, "f"), "es", "su cara "),
        ("mi último ", Form("carta", ONE, "f"), "es", "mi última "),
        ("des gros ", Form("lattes", MANY, "f"), "fr", "des grosses "),
        ("el ", Form("área", ONE, "f"), "es", "el "),
        ("del ", Form("arma", ONE, "f"), "es", "del "),
    ],
)
def test_a_romance_lead_has_prepositions_and_numbers(lead, form, language, way) -> None:
    text = f"xx {lead}yy"
    # A preposition may come before it.
    assert text[lead_of(text, text.index("yy"), language) : -2] in (lead, lead[2:], lead[3:])
    assert leads(lead, form, language)[0][0] == way


@pytest.mark.parametrize(
    ("language", "tail", "agreed"),
    [
        ("es", " más valiosas", " más valiosos"),
        ("es", " no son adecuadas", " no son adecuados"),
        ("pt", " não são adequadas", " não são adequados"),
        ("fr", " ne sont pas adaptées", " ne sont pas adaptés"),
        ("fr", " les plus précieuses", " les plus précieux"),
    ],
)
def test_a_tail_has_negations_and_superlatives(language: str, tail: str, agreed: str) -> None:
    start, end = tail_of(f"x{tail}.", 1, language)
    assert f"x{tail}."[start:end] == tail
    assert tails(tail, "f", Form("x", MANY, "m"), language)["m"] == agreed


@pytest.mark.parametrize(
    ("language", "tail"),
    [("es", " cuesta"), ("es", " ahora"), ("fr", " roule"), ("fr", " encore"), ("pt", " custa")],
)
def test_a_verb_after_a_noun_does_not_agree_with_it(language: str, tail: str) -> None:
    assert tails(tail, "f", Form("x", ONE, "m"), language)["m"] == tail


@pytest.mark.parametrize(
    ("language", "tail", "agreed"),
    [
        ("es", " eléctrica", " eléctrico"),
        ("es", " vacía está abierta", " vacío está abierto"),
        ("es", " estaban heladas y mojadas", " estaban helados y mojados"),
        ("fr", " fermée", " fermé"),
        ("fr", " nationale", " national"),
        ("pt", " pequena", " pequeno"),
        ("pt", " é muito bonita", " é muito bonito"),
        ("es", " es demasiado larga", " es demasiado largo"),
        ("fr", " épaisses", " épais"),
    ],
)
def test_adjectives_and_predicates_after_a_noun_agree(language, tail, agreed) -> None:
    start, end = tail_of(f"x{tail}.", 1, language)
    assert f"x{tail}."[start:end] == tail
    number = MANY if tail.endswith("s") else ONE
    assert tails(tail, "f", Form("x", number, "m"), language)["m"] == agreed


def test_after_a_preposition_a_predicate_belongs_to_another_noun() -> None:
    text = "El dueño del coche rojo estaba dormido."
    assert text[slice(*tail_of(text, 18, "es", governed=True))] == " rojo"
    assert text[slice(*tail_of(text, 18, "es"))] == " rojo estaba dormido"


def test_a_word_that_is_not_an_adjective_ends_a_lead() -> None:
    text = "Wir werden Bestellungen"
    assert text[lead_of(text, text.index("Best"), "de") :] == "Bestellungen"
    text = "Ich finde Bestellungen gut."
    assert text[lead_of(text, text.index("Best"), "de") :] == "Bestellungen gut."
    text = "mit den alten Bestellungen"
    assert text[lead_of(text, text.index("Best"), "de") :] == "den alten Bestellungen"


@pytest.mark.parametrize(
    ("text", "lead", "way"),
    [
        ("der alte und große Hund", "der alte und große ", "die alte und große "),
        ("mit dem alten, großen Hund", "dem alten, großen ", "der alten, großen "),
        ("der Alte und Hund", "", ""),
    ],
)
def test_a_german_lead_has_several_adjectives(text: str, lead: str, way: str) -> None:
    assert text[lead_of(text, text.index("Hund"), "de") : text.index("Hund")] == lead
    case = "dative" if "dem" in lead else "nominative"
    assert leads(lead, Form("Katze", ONE, "f", (case,)), "de")[0][0] == way


def test_before_an_adjective_the_one_that_is_joined_to_it_is_its_lead() -> None:
    text = "von großen und kleinen Hunden"
    at = text.index("kleinen")
    assert text[lead_of(text, at, "de", adjective=True) : at] == "großen und "
    assert lead_of(text, at, "de") == at


def test_a_term_has_its_noun_before_a_preposition() -> None:
    forms = {form.text for form in term_forms("Antikörper gegen Heparin", "de")}
    assert forms == {f"Antikörper{ending} gegen Heparin" for ending in ("", "s", "n")}
    assert "autosomal-dominanten Erbgang" in {
        form.text for form in term_forms("autosomal-dominanter Erbgang", "de")
    }


def test_adjectives_agree() -> None:
    assert agreeing("blanches", "m", MANY, "fr") == "blancs"
    assert agreeing("nouveau", "f", MANY, "fr") == "nouvelles"
    assert agreeing("abiertos", "f", ONE, "es") == "abierta"
    assert agreeing("antigas", "m", ONE, "pt") == "antigo"


def test_a_predicate_after_a_noun_is_its_tail() -> None:
    text = "Los perros grandes son peligrosos hoy."
    assert text[slice(*tail_of(text, 10, "es"))] == " grandes son peligrosos"


def test_in_a_language_without_a_table_a_form_has_at_most_two_letters_more() -> None:
    assert same_word("koiran", "koira", "fi") == ""
    assert same_word("koirani", "koira", "fi") == ""
    assert same_word("koiranne", "koira", "fi") is None
    assert same_word("maat", "maa", "fi") is None  # too short to tell
