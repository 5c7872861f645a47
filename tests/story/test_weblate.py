"""Weblate 5.14.3, unmodified, against our service. It has an environment of its own.

`make clients` makes that environment; DRAGOMAN_WEBLATE names the Python of another one.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from dragoman.bundle.folder import bundled_models
from dragoman.serve.service import Service
from tests.serving import running

# Weblate draws its badges with cairo and gi, which few machines have.
SCRIPT = r'''
import json
import os
import sys
import types
from unittest.mock import MagicMock

for drawing in ("cairo", "gi", "gi.repository"):  # Weblate draws its badges with these
    sys.modules[drawing] = MagicMock()

from weblate import settings_example

own = types.ModuleType("own_settings")
vars(own).update({name: value for name, value in vars(settings_example).items() if name.isupper()})
own.DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
own.CACHES = {
    name: {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": name}
    for name in ("default", "avatar")
}
sys.modules["own_settings"] = own
os.environ["DJANGO_SETTINGS_MODULE"] = "own_settings"

import django

django.setup()

from weblate.machinery.apertium import ApertiumAPYTranslation
from weblate.machinery.deepl import DeepLTranslation
from weblate.machinery.libretranslate import LibreTranslateTranslation
from weblate.machinery.openai import OpenAITranslation

address, key = sys.argv[1:]


def said(machinery, source, target, texts):
    """The first translation of each text."""
    answers = machinery.download_multiple_translations(
        source, target, [(text, None) for text in texts]
    )
    return [next(iter(answers[text]))["text"] for text in texts]


shown = {}
libre = LibreTranslateTranslation({"url": address, "key": key})
shown["libre languages"] = sorted(libre.download_languages())
shown["libre"] = said(libre, "de", "en", ["Mein Hund schläft.", "Wo ist [X5X]?"])

deepl = DeepLTranslation({"url": f"{address}/v2", "key": key, "formality": "default"})
shown["deepl languages"] = sorted(deepl.download_languages())
shown["deepl"] = said(deepl, "DE", "EN-GB", ['Wo ist <x id="7"></x>?', "Danke &amp; bitte."])
shown["deepl glossaries"] = deepl.is_glossary_supported("DE", "EN-GB")
deepl.create_glossary("DE", "EN-GB", "animals", "Hund\thound\nHaus\thouse")
names = deepl.list_glossaries()
shown["deepl glossary"] = list(names)
deepl.get_glossary_id = lambda *languages: names["animals"]  # by projects, which need a database
shown["deepl with glossary"] = said(deepl, "DE", "EN-GB", ["Mein Hund schläft."])
deepl.delete_oldest_glossary()
shown["deepl no glossary"] = list(deepl.list_glossaries())

chat = OpenAITranslation(
    {
        "key": key, "base_url": f"{address}/v1", "model": "custom",
        "custom_model": "dragoman-de-en", "persona": "", "style": "",
    }
)  # fmt: skip
shown["openai"] = said(chat, "de", "en", ["Mein Hund schläft.", "Danke.", "Ja.\nNein."])

apertium = ApertiumAPYTranslation({"url": address, "key": ""})
shown["apertium languages"] = apertium.download_languages()
print(json.dumps(shown))
'''
PYTHON = Path(os.environ.get("DRAGOMAN_WEBLATE", "build/weblate/bin/python")).absolute()


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason="make clients")
def test_weblates_own_classes_translate_unmodified() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with running(Service(bundled_models(), api_key="sesam", device="cpu")) as address:
        run = subprocess.run(
            [PYTHON, "-c", SCRIPT, address, "sesam"], capture_output=True, text=True, check=False,
            env=environment,
        )  # fmt: skip
    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)
    assert shown["libre languages"] == ["de", "en", "es", "fr", "pt"]
    assert shown["libre"][0] == "My dog is sleeping."
    assert re.fullmatch(r"Where(?: is|'s) \[X5X\]\?", shown["libre"][1])
    for pair in (["DE", "EN-GB"], ["DE", "EN-US"], ["EN", "PT-PT"], ["EN", "PT-BR"]):
        assert pair in shown["deepl languages"]
    assert re.fullmatch(r"Where(?: is|'s) <x id=\"7\"></x>\?", shown["deepl"][0])
    assert "&amp;" in shown["deepl"][1]
    assert shown["deepl glossaries"] is True
    assert shown["deepl glossary"] == ["animals"]
    assert "hound" in shown["deepl with glossary"][0]
    assert shown["deepl no glossary"] == []
    assert shown["openai"][0] == "My dog is sleeping."
    assert len(shown["openai"]) == 3
    assert shown["openai"][2].count("\n") == 1
    assert ["de", "en"] in shown["apertium languages"]
