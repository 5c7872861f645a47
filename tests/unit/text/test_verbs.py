"""Verbs in the forms that a text has them in."""

import pytest

from dragoman.text.verbs import (
    english_verb,
    looks_like_a_verb,
    of_one_english_verb,
    unlike_forms,
    verb_forms,
)


@pytest.mark.parametrize(
    ("language", "verb", "forms", "none"),
    [
        ("de", "speichern", "speichert speicherte gespeichert gespeicherten speichernd", "speicht"),
        ("de", "öffnen", "öffnet öffnete geöffnet", "öffnt"),
        ("de", "kopieren", "kopiert kopierte kopierten", "gekopiert"),
        ("de", "beschreiben", "beschreibt beschrieb beschrieben beschriebene", "beschreibte"),
        ("de", "angeben", "angibt angab angegeben anzugeben", "angebte geangeben"),
        ("de", "senden", "sendet sendete gesendet gesandt", "sand"),
        ("de", "darstellen", "darstellt dargestellt darzustellen", "gedarstellt"),
        ("de", "überschreiten", "überschreitet überschritt überschritten", "überschreitete"),
        ("de", "empfangen", "empfängt empfing empfangen", "geempfangt"),
        ("de", "antworten", "antwortet antwortete geantwortet", "angetwortet"),
        ("fr", "gérer", "gère gèrent gérons géré gérera gèrera", "gére"),
        ("fr", "appeler", "appelle appelons appelé", "appele"),
        ("fr", "changer", "changeons changeait change", "changons"),
        ("fr", "vendre", "vend vends vendu vendez", "vendd"),
        ("fr", "finir", "finit finissent fini", "finent"),
        ("fr", "obtenir", "obtient obtenons obtenu obtiendra", "obtenit"),
        ("es", "mostrar", "muestra muestran mostró mostrarlo mostrado", "mostra"),
        ("es", "buscar", "busque buscó busca", "busce"),
        ("es", "incluir", "incluye incluyó incluido incluyendo", "inclue"),
        ("es", "obtener", "obtiene obtenga obtuvo obtendrá obtenido", "obtene obtenó"),
        ("es", "conducir", "conduce conduzca condujo conducimos", "conduzo"),
        ("es", "escribir", "escribe escrito", "escribido"),
        ("es", "haber", "ha han hay hubo habrá haya habido", "habió"),
        ("pt", "incluir", "inclui incluem incluído incluíram", "inclue"),
        ("pt", "manter", "mantém mantenha manteve mantido mantê-lo", "mantido-lo"),
        ("pt", "ficar", "fique ficou fica", "fice"),
        ("pt", "passear", "passeia passeou", "passea"),
        ("pt", "dispor", "dispõe dispôs disposto", "dispore"),
    ],
)
def test_regular_and_irregular_forms(language: str, verb: str, forms: str, none: str) -> None:
    known = verb_forms(verb, language)
    assert known[0] == verb
    assert {*forms.split()} <= {*known}
    assert not {*none.split()} & {*known}


def test_english_forms_double_letters_and_have_pasts_of_their_own() -> None:
    assert {"stopped", "stopping", "stops"} <= english_verb("stop")
    assert {"copied", "copies", "copying"} == english_verb("copy")
    assert {"chose", "chosen", "choosing"} <= english_verb("choose")
    assert "choosed" not in english_verb("choose")


def test_two_forms_of_one_english_verb() -> None:
    for word, entry in (("goes", "go"), ("is", "be"), ("shared", "sharing"), ("use", "used")):
        assert of_one_english_verb(word, entry)
    for word, entry in (("bed", "be"), ("thing", "this"), ("needle", "need")):
        assert not of_one_english_verb(word, entry)


def test_nouns_are_not_taken_for_verbs() -> None:
    for noun in ("votre", "livre", "fichier", "escalier", "histoire", "mer"):
        assert not looks_like_a_verb(noun, "fr")
    for verb in ("vendre", "publier", "gérer", "écrire", "lire", "finir", "mettre"):
        assert looks_like_a_verb(verb, "fr")
    assert not looks_like_a_verb("vollkommen", "de")
    assert not looks_like_a_verb("propulsor", "pt")
    assert looks_like_a_verb("propor", "pt")
    assert not looks_like_a_verb("offen", "de")


def test_a_verb_may_have_words_after_it() -> None:
    assert looks_like_a_verb("iniciar sesión", "es")
    assert looks_like_a_verb("mettre à jour", "fr")
    assert not looks_like_a_verb("alquiler de coches", "es")
    assert not looks_like_a_verb("router de casa", "es")


def test_forms_that_begin_with_other_letters_are_known() -> None:
    assert "went" in unlike_forms("go")
    assert "geschlossen" in unlike_forms("schließen")
    assert "mueve" in unlike_forms("mover")
