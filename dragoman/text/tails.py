"""Words after a French, Spanish or Portuguese noun that agree with it.

    tail     an adjective after a noun, or its predicate: " grandes son peligrosos"

When a term replaces another noun, the gender may change, and the tail with it.
"""

import re

from dragoman.text.agreement import agreeing, irregular_adjectives
from dragoman.text.forms import MANY, ONE, Form

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


# A noun after a preposition is not the subject: *el conductor del coche está dormido*.
_AFTER_PREPOSITION = re.compile(
    r"(?i)(?<!\w)(?:de|d['’]|du|des|del|à|au|aux|a|al|en|em|dans|sur|sous|par|pour|avec|sans|con|"
    r"com|sin|sem|para|por|sobre|contre|contra|entre|do|da|dos|das|no|na|nos|nas|ao|aos|às|pelo|"
    r"pela|num|numa|deste|desta|desse|dessa|neste|nesta|nesse|nessa) ?$"
)


def is_governed(before: str, lead: str) -> bool:
    """Check if a noun follows a preposition, which may be a part of its lead.

    >>> is_governed("El dueño ", "de la "), is_governed("", "La "), is_governed("dans ", "la ")
    (True, False, True)
    """
    first = lead.split()[0].lower() if lead.split() else ""
    in_lead = first not in ("a", "des") and _AFTER_PREPOSITION.fullmatch(first)  # articles too
    return bool(in_lead or _AFTER_PREPOSITION.search(before))


def tail_of(text: str, start: int, language: str, governed: bool = False) -> tuple[int, int]:
    """Find the span of words after a noun that may agree with it, which may be empty.

    These are an adjective and a predicate: *Los perros [grandes son peligrosos].* A noun that is
    `governed` by a preposition is not the subject, so it has no predicate.
    """
    if language not in _COPULAS:
        return start, start
    # Four letters or more: shorter words are mostly prepositions and pronouns.
    word = r"[^\W\d_]{4,}(?!\w)"
    more = f"(?: (?:{_VERY}))?"
    copula = rf"(?: no| não| ne)? (?:n['’])?(?:{_COPULAS[language]})(?: pas)?"
    first = rf"{more} (?!(?:{_COPULAS[language]})\b){word}"
    and_more = rf"(?: (?:y|e|et|ou|o){more} {word}(?=[.,;:!?]|$))?"
    predicate = "" if governed else rf"(?:{copula}{more} {word}{and_more})?"
    found = re.compile(rf"(?:{first})?{predicate}").match(text, start)
    return (found.start(), found.end()) if found else (start, start)


# The word directly after a noun counts as an adjective if its masculine is listed here, or if it
# has an ending that adjectives often have and verbs rarely.
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
    """Check if a French, Spanish or Portuguese adjective is listed."""
    if language not in _ADJECTIVES_LISTED:
        return False
    masculine = agreeing(word, "m", ONE, language)
    return masculine in _ADJECTIVES_LISTED[language].split() or word in irregular_adjectives(
        language
    )


def _is_adjective(word: str, language: str) -> bool:
    """Check if the word after a noun is an adjective: *casa vacía*, not *casa cuesta*."""
    if is_known_adjective(word, language):
        return True
    ends_so = re.fullmatch(_ADJECTIVE_ENDINGS[language], word) is not None
    return ends_so and word not in _LIKE_ADJECTIVES


_MORE_FRENCH_ADJECTIVES = re.compile(
    r"\w{2,}el|\w{3,}[ae]nt|allemand|latin|voisin|(?:mascul|fémin)in"
)


def feminines(word: str, language: str) -> list[str]:
    """List the feminine forms of a French word that may be an adjective.

    >>> feminines("ancien", "fr"), feminines("port", "fr")
    (['ancienne', 'anciennes'], [])
    """
    if language != "fr":
        return []
    known = _is_adjective(word, "fr") or _MORE_FRENCH_ADJECTIVES.fullmatch(word)
    return [agreeing(word, "f", number, "fr") for number in (ONE, MANY)] if known else []


def tails(tail: str, old: str, form: Form, language: str) -> dict[str, str]:
    """Make the tail of a noun agree with each gender; the noun had the gender `old`.

    Only a word that agreed with the old gender can be an adjective, so others stay unchanged.

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
        # A word that does not agree with the old gender is no adjective of this noun.
        agrees = agreeing(word, old, number, language) == word
        return agreeing(word, gender, number, language) if agrees else word

    words = tail.split(" ")
    plain = [re.sub("^n['’]", "", word) for word in words]  # n'est
    first = next((n for n, word in enumerate(plain) if word in copulas), len(words))
    return {
        gender: " ".join(changed(word, gender, n > first) for n, word in enumerate(words))
        for gender in "mf"
    }
