"""The forms of verbs, from their infinitives.

A glossary has a verb in the infinitive, a text has any of its forms. Most forms are the
infinitive's stem with an ending of its class. Spelling keeps the sound of a stem: *buscar*,
*busque*; *gérer*, *gère*. Irregular forms are listed, as other stems of a verb with the endings
that they take, and as whole forms. A listed verb covers every verb that ends with it: *tener*
covers *obtener*, *schreiben* covers *beschreiben*.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

# French nouns end in -re and -ier as often as verbs do, so longer endings are listed.
_FRENCH_RE = (
    "endre|andre|ondre|erdre|mordre|tordre|indre|soudre|ettre|battre|faire|plaire|taire|traire|"
    "[dl]ire|crire|rire|uire|croire|boire|suivre|vivre|aître|ompre|vaincre|être|clure"
)
_FRENCH_IER = r"(?:fi|copi|publi|oubli|pli|reli|étudi|pédi|vari|\b(?:tri|li|pri|cri))er"
INFINITIVES = {
    "de": re.compile(r"[a-zäöüß]{2,}(?:en|eln|ern)|tun"),
    "fr": re.compile(
        rf"[a-zà-ÿœ]+(?<!i)er|[a-zà-ÿœ]*{_FRENCH_IER}|[a-zà-ÿœ]{{2,}}[iï]r|[a-zà-ÿœ]*(?:{_FRENCH_RE})"
    ),
    "es": re.compile(r"[a-zà-ÿ]{2,}(?:[aei]r|ír)(?:se)?"),
    "pt": re.compile(r"(?:[a-zà-ÿ]{2,}[aei]r|pôr|(?:com|dis|ex|im|pro|re|su|trans)por)(?:-se)?"),
}
_NO_VERBS_LISTED = {
    "de": "offen eigen selten trocken verschieden golden eben außen innen oben unten hinten gegen "
    "neben zwischen extern intern modern bisschen wegen vollkommen angemessen gelassen erwachsen "
    "bescheiden zufrieden betrunken besonnen entschlossen verlegen morgen gestern sondern "
    "inzwischen willkommen ihnen deren denen ihren seinen allen vielen",
    "fr": "hier cher fier amer hiver enfer fer mer ver atelier soir noir avenir plaisir loisir "
    "désir souvenir tir cuir air clair chair pair éclair",
    "es": "lugar hogar taller alquiler mujer placer militar celular popular familiar similar "
    "particular nuclear escolar titular pilar collar dólar azúcar ayer cualquier líder carácter "
    "chófer néctar primer tercer",
    "pt": "lugar mulher prazer celular popular familiar similar particular nuclear escolar titular "
    "pilar colar dólar açúcar talher qualquer líder caráter militar sequer",
}
_OF = {"fr": ("de", "du", "des"), "es": ("de", "del"), "pt": ("de", "do", "da", "dos", "das")}
_NO_VERBS = {language: frozenset(words.split()) for language, words in _NO_VERBS_LISTED.items()}


def looks_like_a_verb(term: str, language: str) -> bool:
    """Check if a term looks like a verb: German ones end with an infinitive, others begin with one.

    >>> looks_like_a_verb("teilen", "de"), looks_like_a_verb("Teile", "de")
    (True, False)
    """
    words = term.split()
    word = words[-1] if language == "de" else words[0]
    pattern = INFINITIVES.get(language)
    if pattern is None or pattern.fullmatch(word) is None or word in _NO_VERBS[language]:
        return False
    # *iniciar sesión*, but *taller de coches*.
    return language == "de" or words[1:2] == [] or words[1] not in _OF[language]


@lru_cache(5_000)
def verb_forms(verb: str, language: str) -> tuple[str, ...]:
    """The forms of a verb, its infinitive first.

    >>> "muestran" in verb_forms("mostrar", "es"), "zeigt" in verb_forms("zeigen", "de")
    (True, True)
    """
    if language == "de":
        forms = _german(verb)
    elif language in _ENDINGS:
        forms = _romance(verb, language)
    else:
        forms = iter([verb])
    return tuple(dict.fromkeys(forms))


def unlike_forms(word: str) -> Iterator[str]:
    """Forms of a verb of any of the languages that may begin with other letters than it does.

    >>> {"wrote", "written"} <= {*unlike_forms("write")}, "ging" in unlike_forms("gehen")
    (True, True)
    """
    yield from _irregular_english().get(word, ())
    if looks_like_a_verb(word, "de"):
        yield from _german(word)
    for language in _IRREGULAR:
        yield from _listed(word, language)


# -- German ----------------------------------------------------------------------------------------

ADJECTIVE_ENDINGS = ("e", "en", "er", "es", "em")
_SEPARABLE_LISTED = (
    "zurück zusammen heraus herein hervor herunter hinaus hinein hinzu weiter wieder bereit fest "
    "frei durch nach voraus vorbei vor auf aus ein mit her hin los weg bei dar fern fort hoch "
    "nieder sicher statt teil ab an um zu"
)
SEPARABLE = _SEPARABLE_LISTED.split()
# They only seem to have such a prefix.
_IN_ONE_LISTED = (
    "abonnieren abstrahieren analysieren animieren annullieren anonymisieren antizipieren "
    "antworten einigen umarmen"
)
_IN_ONE = frozenset(_IN_ONE_LISTED.split())
_INSEPARABLE = ("be", "er", "ent", "ver", "zer", "ge", "miss", "über", "unter")
# Infinitive, present, past, participle.
_STRONG_LISTED = (
    "beginnen beginnt begann begonnen,bergen birgt barg geborgen,biegen biegt bog gebogen,"
    "bieten bietet bot geboten,binden bindet band gebunden,"
    "bitten bittet bat gebeten,bleiben bleibt blieb geblieben,brechen bricht brach gebrochen,"
    "brennen brennt brannte gebrannt,dringen dringt drang gedrungen,"
    "empfangen empfängt empfing empfangen,empfehlen empfiehlt empfahl empfohlen,"
    "empfinden empfindet empfand empfunden,fliehen flieht floh geflohen,"
    "gelingen gelingt gelang gelungen,genießen genießt genoss genossen,"
    "gleiten gleitet glitt geglitten,kriechen kriecht kroch gekrochen,"
    "reiben reibt rieb gerieben,schleifen schleift schliff geschliffen,"
    "schmelzen schmilzt schmolz geschmolzen,schreiten schreitet schritt geschritten,"
    "verzeihen verzeiht verzieh verziehen,winden windet wand gewunden,"
    "bringen bringt brachte gebracht,denken denkt dachte gedacht,dürfen darf durfte gedurft,"
    "essen isst aß gegessen,fahren fährt fuhr gefahren,fallen fällt fiel gefallen,"
    "fangen fängt fing gefangen,finden findet fand gefunden,fliegen fliegt flog geflogen,"
    "fließen fließt floss geflossen,frieren friert fror gefroren,geben gibt gab gegeben,"
    "gehen geht ging gegangen,gelten gilt galt gegolten,gewinnen gewinnt gewann gewonnen,"
    "gießen gießt goss gegossen,gleichen gleicht glich geglichen,graben gräbt grub gegraben,"
    "greifen greift griff gegriffen,haben hat hatte gehabt,halten hält hielt gehalten,"
    "hängen hängt hing gehangen,heben hebt hob gehoben,heißen heißt hieß geheißen,"
    "helfen hilft half geholfen,kennen kennt kannte gekannt,klingen klingt klang geklungen,"
    "kommen kommt kam gekommen,können kann konnte gekonnt,laden lädt lud geladen,"
    "lassen lässt ließ gelassen,laufen läuft lief gelaufen,leiden leidet litt gelitten,"
    "leihen leiht lieh geliehen,lesen liest las gelesen,liegen liegt lag gelegen,"
    "lügen lügt log gelogen,meiden meidet mied gemieden,messen misst maß gemessen,"
    "mögen mag mochte gemocht,müssen muss musste gemusst,nehmen nimmt nahm genommen,"
    "nennen nennt nannte genannt,pfeifen pfeift pfiff gepfiffen,raten rät riet geraten,"
    "reißen reißt riss gerissen,reiten reitet ritt geritten,rennen rennt rannte gerannt,"
    "riechen riecht roch gerochen,rufen ruft rief gerufen,schaffen schafft schuf geschaffen,"
    "scheiden scheidet schied geschieden,scheinen scheint schien geschienen,"
    "schieben schiebt schob geschoben,schießen schießt schoss geschossen,"
    "schlafen schläft schlief geschlafen,schlagen schlägt schlug geschlagen,"
    "schließen schließt schloss geschlossen,schneiden schneidet schnitt geschnitten,"
    "schreiben schreibt schrieb geschrieben,schreien schreit schrie geschrien,"
    "schweigen schweigt schwieg geschwiegen,schwimmen schwimmt schwamm geschwommen,"
    "schwinden schwindet schwand geschwunden,schwingen schwingt schwang geschwungen,"
    "sehen sieht sah gesehen,senden sendet sandte gesandt,singen singt sang gesungen,"
    "sinken sinkt sank gesunken,sitzen sitzt saß gesessen,sprechen spricht sprach gesprochen,"
    "springen springt sprang gesprungen,stechen sticht stach gestochen,"
    "stehen steht stand gestanden,stehlen stiehlt stahl gestohlen,"
    "steigen steigt stieg gestiegen,sterben stirbt starb gestorben,stoßen stößt stieß gestoßen,"
    "streichen streicht strich gestrichen,streiten streitet stritt gestritten,"
    "tragen trägt trug getragen,treffen trifft traf getroffen,treiben treibt trieb getrieben,"
    "treten tritt trat getreten,trinken trinkt trank getrunken,tun tut tat getan,"
    "verderben verdirbt verdarb verdorben,vergessen vergisst vergaß vergessen,"
    "verlieren verliert verlor verloren,wachsen wächst wuchs gewachsen,"
    "waschen wäscht wusch gewaschen,weichen weicht wich gewichen,"
    "weisen weist wies gewiesen,wenden wendet wandte gewandt,werben wirbt warb geworben,"
    "werden wird wurde geworden,werfen wirft warf geworfen,wiegen wiegt wog gewogen,"
    "wissen weiß wusste gewusst,ziehen zieht zog gezogen,zwingen zwingt zwang gezwungen"
)


_ALSO_WEAK = ("senden", "wenden", "schaffen", "hängen", "wiegen")


@cache
def _strong() -> dict[str, list[str]]:
    rows = [row.split() for row in _STRONG_LISTED.split(",")]
    return {row[0]: row[1:] for row in rows}


def separable(verb: str) -> tuple[str, str]:
    """
    >>> separable("anzeigen"), separable("teilen")
    (('an', 'zeigen'), ('', 'teilen'))
    """
    for prefix in SEPARABLE:
        if verb.startswith(prefix) and len(verb) - len(prefix) >= 5 and verb not in _IN_ONE:
            return prefix, verb[len(prefix) :]
    return "", verb


def finite_forms(verb: str) -> list[str]:
    """List the finite forms of a German verb without separable prefix.

    For strong verbs, the second person is omitted.

    >>> [form for form in finite_forms("schreiben") if form.startswith("schrie")]
    ['schrieb', 'schrieben']
    """
    stem, e = _weak_stem(verb)
    forms = [verb, *(stem + ending for ending in ("e", f"{e}t"))]
    weak = [f"{stem}{e}st", *(stem + e + ending for ending in ("te", "ten", "test", "tet"))]
    for prefix, base in _without_prefix(verb):
        present, past, _ = _strong()[base]
        plural = past + ("n" if past.endswith("e") else "en")
        forms += [prefix + present, prefix + past, prefix + plural]
        return [*forms, *weak] if base in _ALSO_WEAK else forms
    return [*forms, *weak]


def _weak_stem(verb: str) -> tuple[str, str]:
    """Return a German stem, and the e that it has before some endings: *arbeit-e-t*, *öffn-e-t*."""
    stem = verb[:-2] if verb.endswith("en") else verb[:-1]
    return stem, "e" * bool(re.search(r"[td]$|[^aeiouäöühlrmn][mn]$", stem))


def _without_prefix(verb: str) -> Iterator[tuple[str, str]]:
    """Split a strong verb into an inseparable prefix, perhaps empty, and the listed verb."""
    # *beschreiben* is conjugated like *schreiben*, which is listed.
    for prefix in ("", *_INSEPARABLE):
        if verb.startswith(prefix) and verb[len(prefix) :] in _strong():
            yield prefix, verb[len(prefix) :]
            return


def _participles(verb: str) -> Iterator[str]:
    """Generate the past participles of a verb without separable prefix.

    >>> [next(_participles(verb)) for verb in ("teilen", "erweitern", "beschreiben", "kopieren")]
    ['geteilt', 'erweitert', 'beschrieben', 'kopiert']
    """
    for prefix, base in _without_prefix(verb):
        participle = _strong()[base][2]
        yield prefix + participle.removeprefix("ge") if prefix else participle
        if base not in _ALSO_WEAK:
            return
    stem, e = _weak_stem(verb)
    # These have no *ge-*: *kopiert*, *erweitert*.
    plain = verb.endswith("ieren") or verb.startswith(_INSEPARABLE)
    yield f"{'' if plain else 'ge'}{stem}{e}t"


def _german(verb: str) -> Iterator[str]:
    yield verb
    prefix, base = separable(verb)
    for participle in _participles(base):
        yield from (prefix + participle + ending for ending in ("", *ADJECTIVE_ENDINGS))
    if prefix:
        yield f"{prefix}zu{base}"
    yield from (prefix + form for form in finite_forms(base))
    # The present participle: *schreibend*.
    yield from (f"{verb}d{ending}" for ending in ("", *ADJECTIVE_ENDINGS))
    # The infinitive as a noun: *das Schreiben*.
    yield verb[:1].upper() + verb[1:]


# -- French, Spanish, Portuguese -------------------------------------------------------------------

# The endings of each class. Endings before the bar may change the stem, and listed verbs have other
# stems for them.
_ENDINGS = {
    "es": {
        "ar": "o as a an e es en|ar amos áis é aste ó asteis aron aba abas ábamos abais aban aré "
        "arás ará aremos aréis arán aría arías aríamos aríais arían emos éis ara aras áramos arais "
        "aran ase asen ado ada ados adas ando ad",
        "er": "o es e en a as an|er emos éis í iste ió imos isteis ieron ía ías íamos íais ían eré "
        "erás erá eremos eréis erán ería erías eríamos eríais erían amos áis iera ieras iéramos "
        "ierais ieran iese iesen ido ida idos idas iendo ed",
        "ir": "o es e en a as an|ir imos ís í iste ió isteis ieron ía ías íamos íais ían iré irás "
        "irá iremos iréis irán iría irías iríamos iríais irían amos áis iera ieras iéramos ierais "
        "ieran iese iesen ido ida idos idas iendo id",
    },
    "pt": {
        "ar": "o as a am e es em|ar amos ais ei aste ou aram ava avas ávamos avam arei arás ará "
        "aremos arão aria arias aríamos ariam emos asse asses ássemos assem ares armos arem ado "
        "ada ados adas ando",
        "er": "o es e em a as am|er emos eis i este eu eram ia ias íamos iam erei erás erá eremos "
        "erão eria erias eríamos eriam amos esse esses êssemos essem eres ermos erem ido ida idos "
        "idas endo",
        "ir": "o es e em a as am|ir imos is i iste iu iram ia ias íamos iam irei irás irá iremos "
        "irão iria irias iríamos iriam amos isse isses íssemos issem ires irmos irem ido ida idos "
        "idas indo",
    },
    "fr": {
        "er": "e es ent era eras erai erons erez eront erais erait erions eriez eraient|er ons ez "
        "ais ait ions iez aient ai as a âmes âtes èrent é ée és ées ant",
        "ir": "|ir is it issons issez issent issais issait issions issiez issaient irai iras ira "
        "irons irez iront irais irait iraient irent isse isses i ie ies issant",
        "re": "|re s  ons ez ent ais ait ions iez aient rai ras ra rons rez ront rais rait raient "
        "is it irent e es u ue us ues ant",
    },
}  # fmt: skip
# The endings that listed stems take, by group.
_GROUPS = {
    "es": {
        "A": "o a as amos áis an",  # tengo, tenga
        "E": "es e en",  # tienes
        "P": "e iste o imos isteis ieron iera ieras iéramos ierais ieran",  # tuve
        "J": "e iste o imos isteis eron era eras éramos erais eran",  # dije
        "F": "é ás á emos éis án ía ías íamos íais ían",  # tendré
        "S": "o as a an e es en",  # muestro
        "I": "ió ieron iendo amos áis iera ieras iéramos ierais ieran",  # pidió
        "B": "a as amos an",  # haya
        "O": "o a os as",  # participles
    },
    "pt": {
        "A": "o a as amos am",
        "E": "es e em",
        "P": "e este emos eram esse essem er erem",  # tive
        "F": "ei ás á emos ão ia ias íamos iam",
        "B": "a as amos am",  # queira
        "S": "o a as amos am",
        "O": "o a os as",
    },
    "fr": {
        "S": "s t",  # prends, reçoit
        "P": "ons ez ais ait ions iez aient ant",  # prenons
        "E": "e es ent",  # prennent
        "F": "ai as a ons ez ont ais ait ions iez aient",  # viendrai
        "O": " e s es",  # participles
        "T": "s t rent",  # prit
    },
}
# The regular endings that an irregular past does not use.
_REGULAR_PAST = "í iste ió isteis ieron iera ieras iéramos ierais ieran"
_PAST = {
    "P": {"es": _REGULAR_PAST, "pt": "i este eu eram esse essem"},
    "J": {"es": _REGULAR_PAST},
}
# A verb, other stems with the group of their endings, and whole forms.
_IRREGULAR = {
    "es": (
        "mostrar muestr:S,contar cuent:S,encontrar encuentr:S,probar prueb:S,recordar recuerd:S,"
        "acordar acuerd:S,costar cuest:S,soltar suelt:S,rodar rued:S,renovar renuev:S,"
        "volar vuel:S,soñar sueñ:S,apostar apuest:S,colgar cuelg:S,forzar fuerz:S,"
        "mover muev:S,doler duel:S,llover lluev:S,morder muerd:S,volver vuelv:S vuelt:O,"
        "solver suelv:S suelt:O,torcer tuerc:E tuerz:A,cocer cuec:E cuez:A,"
        "dormir duerm:S durm:I,morir muer:S mur:I muert:O,jugar jueg:S,"
        "cerrar cierr:S,empezar empiez:S,comenzar comienz:S,pensar piens:S,sentar sient:S,"
        "pertar piert:S,calentar calient:S,comendar comiend:S,gobernar gobiern:S,negar nieg:S,"
        "regar rieg:S,temblar tiembl:S,confesar confies:S,atravesar atravies:S,apretar apriet:S,"
        "perder pierd:S,entender entiend:S,tender tiend:S,fender fiend:S,cender ciend:S,"
        "querer quier:S quis:P querr:F,sentir sient:S sint:I,ferir fier:S fir:I,"
        "gerir gier:S gir:I,mentir mient:S mint:I,vertir viert:S virt:I,querir quier:S quir:I,"
        "hervir hierv:S hirv:I,pedir pid:S pid:I,medir mid:S mid:I,servir sirv:S sirv:I,"
        "seguir sigu:E sig:A sigu:I,repetir repit:S repit:I,elegir elig:E elij:A elig:I,"
        "corregir corrig:E corrij:A corrig:I,vestir vist:S vist:I,petir pit:S pit:I,"
        "tener teng:A tien:E tuv:P tendr:F ten,venir veng:A vien:E vin:P vendr:F viniendo ven,"
        "poner pong:A pus:P pondr:F puest:O pon,hacer hag:A hic:P har:F hech:O hizo haz,"
        "decir dig:A dic:E dij:J dir:F dich:O diciendo di,salir salg:A saldr:F sal,"
        "valer valg:A valdr:F,poder pued:S pud:P podr:F pudiendo,saber sep:A sup:P sabr:F sé,"
        "traer traig:A traj:J trayendo,caer caig:A,ducir duzc:A duj:J,oír oig:A oy:E oyó oyendo,"
        "escribir escrit:O,abrir abiert:O,cubrir cubiert:O,romper rot:O,"
        "ver ve:A vist:O vio vi veía veían,imprimir impres:O,dar doy dio di dé den diera dieron,"
        "andar anduv:P,haber he has ha hemos han hay hub:P habr:F hay:B,"
        "estar estoy está estás están estuv:P esté estén,"
        "ser soy eres es somos son fue fueron era eran sea sean sido siendo fuera fueran será serán"
    ),
    "pt": (
        "ter tenh:A tem têm tém tiv:P teve tinha tinham,vir venh:A vem vêm vém vinh:O veio vier,"
        "por ponh:A põe põem pus:P pôs post:O punha punham pondo,"
        "pôr ponh:A põe põem pus:P pôs post:O punha punham pondo,"
        "fazer faç:A faz fiz:P fez far:F feit:O,dizer dig:A diz diss:P disse dir:F dit:O,"
        "trazer trag:A traz troux:P trouxe trar:F,poder poss:A pod:E pud:P pôde,"
        "querer quer quis:P quis queir:B,saber saib:B sei soub:P soube,ver vej:A vê veem vist:O "
        "viu viram,ler lei:A lê leem,crer crei:A crê creem,dar dou dá dão deu deram dê deem,"
        "perder perc:A,medir meç:A,pedir peç:A,ouvir ouç:A,dormir durm:A,cobrir cubr:A cobert:O,"
        "abrir abert:O,escrever escrit:O,servir sirv:A,seguir sig:A,sentir sint:A,ferir fir:A,"
        "gerir gir:A,mentir mint:A,vestir vist:A,petir pit:A,vertir virt:A,preferir prefir:A,"
        "subir sob:E,consumir consom:E,fugir fog:E fuj:A,sair sai:A sai sais saem saí saiu saíram,"
        "cair cai:A cai cais caem caí caiu caíram,trair trai:A trai traem traiu,"
        "duzir duz,construir constrói constroem,destruir destrói destroem,"
        "estar estou está estão estava estavam estiv:P esteve esteja estejam,"
        "ser sou é são era eram foi foram seja sejam sido sendo será serão fosse fossem,"
        "haver há hav:E houv:P houve haja,ir vou vai vamos vão foi foram vá ido indo,"
        "ganhar ganh:O,gastar gast:O,pagar pag:O,aceitar aceit:O,"
        "odiar odei:E odei:A"
    ),
    "fr": (
        "venir vien:S ven:P vienn:E viendr:F venu:O,tenir tien:S ten:P tienn:E tiendr:F tenu:O,"
        "prendre prend prends pren:P prenn:E pri:T pris:O,mettre met mets mett:P mett:E mis:O mi:T,"
        "faire fai:S fais:P font fer:F fait:O fass:E faites fi:T,"
        "voir voi:S voy:P voi:E verr:F vu:O vi:T,pouvoir peu:S peux peuv:E pourr:F pu:O puiss:E,"
        "vouloir veu:S veux veul:E voudr:F voulu:O veuill:E,savoir sai:S sach:E saur:F su:O,"
        "devoir doi:S doiv:E dev:P devr:F dû due dus dues,recevoir reçoi:S reçoiv:E recev:P "
        "recevr:F reçu:O,cevoir çoi:S çoiv:E cev:P cevr:F çu:O,"
        "dire di:S dis:P dis:E dit:O,lire li:S lis:P lis:E lu:O,écrire écri:S écriv:P écriv:E "
        "écrit:O,crire cri:S criv:P criv:E crit:O,duire dui:S duis:P duis:E duit:O,"
        "truire trui:S truis:P truis:E truit:O,suivre sui:S suivi:O,vivre vi:S vécu:O,"
        "battre bat:S bat,boire boi:S buv:P boiv:E bu:O,croire croi:S croy:P croi:E cru:O,"
        "connaître connai:S connaît connaiss:P connaiss:E connu:O,"
        "paraître parai:S paraît paraiss:P paraiss:E paru:O,naître nai:S naît naiss:P né:O,"
        "rire ri:S ri:E ri,suffire suffi:S suffis:P suffis:E suffi,plaire plai:S plaît plais:P plu,"
        "craindre crain:S craign:P craign:E craint:O,peindre pein:S peign:P peign:E peint:O,"
        "teindre tein:S teign:P teign:E teint:O,treindre trein:S treign:P treign:E treint:O,"
        "joindre join:S joign:P joign:E joint:O,soudre sou:S solv:P solv:E sous,"
        "ouvrir ouvr:E ouvr:P ouvert:O,couvrir couvr:E couvr:P couvert:O,offrir offr:E offr:P "
        "offert:O,souffrir souffr:E souffr:P souffert:O,partir par:S part:P part:E,"
        "sortir sor:S sort:P sort:E,sentir sen:S sent:P sent:E,servir ser:S serv:P serv:E,"
        "dormir dor:S dorm:P dorm:E,courir cour:S cour:P cour:E courr:F couru:O,"
        "mourir meur:S mour:P meur:E mourr:F mort:O,quérir quier:S quér:P quièr:E querr:F quis:O,"
        "être suis es est sommes êtes sont était étaient sera seront soit soient été étant fut,"
        "avoir ai as a avons avez ont avait avaient aura auront ait aient eu ayant,"
        "aller vais vas va allons vont ir:F aill:E,asseoir assied:S assoi:S assis:O,"
        "valoir vau:S vaut val:P valu:O vaudr:F,falloir faut fallait faudra fallu,"
        "vaincre vainc vainqu:P vainqu:E"
    ),
}
_CLITICS = {"es": "se lo la los las le les me te nos", "pt": "-se -lhe -lhes -me -nos"}
_BEFORE_LO = {"ar": "á", "er": "ê", "ir": "i", "or": "ô", "ôr": "ô"}  # mostrá-lo


@cache
def _irregular(language: str) -> dict[str, list[str]]:
    rows = [row.split() for row in _IRREGULAR[language].split(",")]
    return {row[0]: row[1:] for row in rows}


def _romance(verb: str, language: str) -> Iterator[str]:
    yield verb
    base = re.sub(r"-?se$", "", verb) if language in ("es", "pt") else verb
    # *oír* and *haïr* belong to the verbs in -ir.
    kind = base[-2:].replace("í", "i").replace("ï", "i")
    listed = [*_listed(base, language)]
    yield from listed
    if listed and language == "fr":
        if all(group != "F" for _, group in _entry(base, language)[1]):
            yield from (base.removesuffix("e") + ending for ending in _GROUPS["fr"]["F"].split())
        return
    stem, endings = base[:-2], _ENDINGS[language].get(kind, "|")
    # Endings that a listed stem has must not be added to the regular one: *tengo*, not *teno*.
    taken = _taken(base, kind, language)
    for ending in endings[: endings.index("|")].split():
        if ending not in taken:
            yield from _stressed(stem, ending, kind, language)
    for ending in endings[endings.index("|") + 1 :].split(" "):
        if ending not in taken:
            yield _before(stem, ending, kind, language)
    for clitic in _CLITICS.get(language, "").split():
        yield base + clitic
    if language == "pt":
        yield from (f"{stem}{_BEFORE_LO.get(kind, '')}-{one}" for one in ("lo", "la", "los", "las"))


def _stressed(stem: str, ending: str, kind: str, language: str) -> Iterator[str]:
    """Generate forms whose ending changes some stems: *gère*, *incluye*, *passeia*."""
    opened = [*_open_stems(stem)] if language == "fr" else []
    yield from (one + ending for one in opened)
    glides = re.search(r"(?<![gq])u$", stem) is not None and kind == "ir"
    if language == "es" and glides:
        yield stem + "y" + ending
    elif language == "pt" and glides and ending in ("e", "es"):
        yield stem + ending.replace("e", "i")
    elif language == "pt" and kind == "ar" and stem.endswith("e"):
        yield stem + "i" + ending
    elif not opened or ("é" in stem[-3:] and ending.startswith("er")):
        yield _before(stem, ending, kind, language)


def _before(stem: str, ending: str, kind: str, language: str) -> str:
    """Join a stem and an ending, spelled so that the stem's last sound stays the same.

    >>> _before("busc", "e", "ar", "es"), _before("le", "ió", "er", "es")
    ('busque', 'leyó')
    """
    first = ending[:1]
    if language == "fr":
        if kind == "er" and first in ("a", "â", "o"):
            stem = re.sub("c$", "ç", stem)
            stem = re.sub("g$", "ge", stem)
        return stem + ending
    if kind == "ar":
        if first in ("e", "é"):
            soft = {"c": "qu", "g": "gu", "ç": "c"} | ({"z": "c"} if language == "es" else {})
            stem = stem[:-1] + soft.get(stem[-1:], stem[-1:])
        return stem + ending
    if first in ("a", "á", "o"):
        if stem.endswith("c"):
            hissed = "zc" if re.search("[aeiou]c$", stem) else "z"  # conozco, venzo
            stem = stem[:-1] + (hissed if language == "es" else "ç")
        stem = stem[:-1] if stem.endswith("gu") else re.sub("g$", "j", stem)
        return stem + ending
    if re.search("[aeo]$|(?<![gq])u$", stem):
        # Between vowels: *leyó*, *incluyendo*; *leído*, *incluíram*.
        if language == "es":
            ending = re.sub("^i(?=[eéó])", "y", ending)
        # The accent separates the vowels: *leído*, not a diphthong.
        with_accent = "^i(?=st|mos|d)" if language == "es" else "^i(?=a|d|mos|ram$|st|ss)"
        if language == "pt" or not stem.endswith("u"):
            ending = re.sub(with_accent, "í", ending)
    return stem + ending


def _open_stems(stem: str) -> Iterator[str]:
    """Generate the French stems before a silent ending.

    >>> [*_open_stems("gér")], [*_open_stems("appel")], [*_open_stems("envoy")]
    (['gèr'], ['appell', 'appèl'], ['envoi'])
    """
    found = re.search(r"[eé](?!y)([bcdfglmnprstv]|ch|gn|qu|tr|br|gr|vr|cr)$", stem)
    if found:
        # *appeler* doubles the consonant, *acheter* does not: both are made.
        if stem[found.start()] == "e" and found[1] in "lt":
            yield stem + found[1]
        yield stem[: found.start()] + "è" + found[1]
    if re.search("[aou]y$", stem):
        yield stem[:-1] + "i"


def _entry(verb: str, language: str) -> tuple[str, list[tuple[str, str]]]:
    """Find the longest listed verb that a verb ends with.

    Return the letters before it, and its stems with their groups; whole forms have an empty group.
    """
    known = _irregular(language)
    for start in range(len(verb) - 1):
        tail = verb[start:]
        # Most short listed verbs cover no longer ones.
        if tail in known and (start == 0 or len(tail) > 3 or tail in ("ter", "por", "ver")):
            return verb[:start], [one.partition(":")[::2] for one in known[tail]]
    return "", []


def _listed(verb: str, language: str) -> Iterator[str]:
    before, stems = _entry(verb, language)
    for stem, group in stems:
        if not group:
            yield before + stem
            continue
        for ending in _GROUPS[language][group].split(" "):
            if group == "O" and ending == "s" and stem.endswith("s"):
                continue  # *soumis* is its own plural
            # *cuelgue*, *fuerce*; other stems are listed in their final spelling.
            kind = "ar" if group == "S" and verb.endswith("ar") else ""
            yield _before(before + stem, ending, kind, language) if kind else before + stem + ending


def _taken(verb: str, kind: str, language: str) -> set[str]:
    """Return the endings that a verb has after other stems than the infinitive's."""
    taken: set[str] = set()
    for _, group in _entry(verb, language)[1]:
        if group in _PAST:
            taken.update(_PAST[group][language].split())
        elif group == "F":
            taken.update(kind + ending for ending in _GROUPS[language]["F"].split())
        elif group == "O" and kind != "ar":
            taken.update(("ido", "ida", "idos", "idas"))
        elif group and group != "O":
            taken.update(_GROUPS[language][group].split())
    return taken


# -- English ---------------------------------------------------------------------------------------

_ENGLISH_LISTED = (
    "be am is are was were been being,become became,begin began begun,bend bent,bind bound,"
    "bite bit bitten,blow blew blown,break broke broken,bring brought,build built,burn burnt,"
    "buy bought,catch caught,choose chose chosen,come came,deal dealt,dig dug,do does did done,"
    "draw drew drawn,drink drank drunk,drive drove driven,eat ate eaten,fall fell fallen,feed fed,"
    "feel felt,fight fought,find found,fly flew flown,forget forgot forgotten,freeze froze frozen,"
    "get got gotten,give gave given,go goes went gone,grow grew grown,hang hung,have has had,"
    "hear heard,hide hid hidden,hold held,keep kept,know knew known,lay laid,lead led,"
    "leave left,lend lent,lie lay lain lying,light lit,lose lost,make made,mean meant,meet met,"
    "overwrite overwrote overwritten,pay paid,ride rode ridden,ring rang rung,rise rose risen,"
    "run ran,say said,see saw seen,seek sought,sell sold,send sent,shake shook shaken,"
    "shine shone,shoot shot,show showed shown,shrink shrank shrunk,sing sang sung,sink sank sunk,"
    "sit sat,sleep slept,slide slid,speak spoke spoken,spend spent,spin spun,stand stood,"
    "steal stole stolen,stick stuck,strike struck,swear swore sworn,swim swam swum,swing swung,"
    "take took taken,teach taught,tear tore torn,tell told,think thought,throw threw thrown,"
    "understand understood,wake woke woken,wear wore worn,weave wove woven,win won,wind wound,"
    "withdraw withdrew withdrawn,write wrote written"
)


@cache
def _irregular_english() -> dict[str, list[str]]:
    rows = [row.split() for row in _ENGLISH_LISTED.split(",")]
    return {row[0]: row[1:] for row in rows}


@lru_cache(5_000)
def english_verb(word: str) -> frozenset[str]:
    """Return the inflected forms of an English verb.

    >>> sorted(english_verb("write"))
    ['writes', 'writing', 'written', 'wrote']
    >>> sorted(english_verb("agree"))
    ['agreed', 'agreeing', 'agrees']
    """
    stem = word[:-1] if word.endswith("e") and not word.endswith(("ee", "oe")) else word
    forms = {stem + "ing", word + "s"}
    past = {stem + "ed" if stem == word and not word.endswith("e") else word + "d"}
    if re.search(r"(?:s|x|z|ch|sh|o)$", word):
        forms.add(word + "es")
    if re.search(r"(?:[^aeiou]|qu)[aeiou][bdgklmnprtv]$", word):
        forms.add(word + word[-1] + "ing")
        past.add(word + word[-1] + "ed")
    if re.search(r"[^aeiou]y$", word):
        forms = {word + "ing", word[:-1] + "ies"}
        past = {word[:-1] + "ied"}
    if word.endswith("ie"):
        forms.add(word[:-2] + "ying")
    return frozenset(forms | {*(_irregular_english().get(word) or past)})


def of_one_english_verb(word: str, other: str) -> bool:
    """Check if two words are forms of one verb.

    >>> of_one_english_verb("shared", "sharing"), of_one_english_verb("is", "be")
    (True, True)
    """
    endings = [("", ""), ("s", ""), ("es", ""), ("ed", ""), ("d", ""), ("ing", ""), ("ing", "e")]
    bases = {
        other.removesuffix(ending) + added for ending, added in endings if other.endswith(ending)
    }
    for base in bases:
        forms = {base, *english_verb(base)}
        # A base of one or two letters would match by accident.
        if (base == other or len(base) > 2) and {word, other} <= forms:
            return True
    return False
