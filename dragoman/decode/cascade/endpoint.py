"""Clients of translators over HTTP: APIs compatible with OpenAI's and with DeepL's.

They use only the standard library, and read their key from the environment: OPENAI_API_KEY or
DEEPL_AUTH_KEY.
"""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urldefrag, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dragoman.errors import ConfigError, DragomanError

MOST_BYTES = 2**24  # of one response, since a broken endpoint might never stop sending
_AT_ONCE = 4  # concurrent requests
_DEEPL_TEXTS = 50  # texts per request that DeepL's API allows
_LANGUAGES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "pt": "Portuguese"}


class EndpointError(DragomanError):
    """Raised when an endpoint does not answer, or gives an invalid answer."""


@dataclass(frozen=True)
class DeeplEndpoint:
    """A DeepL-compatible API; `url` ends before /translate: https://api-free.deepl.com/v2"""

    url: str
    timeout_s: float = 30.0

    @property
    def name(self) -> str:
        return urlsplit(self.url).netloc

    def translate(self, texts: Sequence[str], source: str, to: str) -> list[str | EndpointError]:
        key = os.environ.get("DEEPL_AUTH_KEY", "")
        headers = {"Authorization": f"DeepL-Auth-Key {key}"} if key else {}
        answers: list[str | EndpointError] = []
        for first in range(0, len(texts), _DEEPL_TEXTS):
            batch = list(texts[first : first + _DEEPL_TEXTS])
            body = {"text": batch, "target_lang": to.upper()}
            if source:
                body["source_lang"] = source.upper()
            try:
                answer = _post(f"{self.url}/translate", body, headers, self.timeout_s)
                translated = [str(entry["text"]) for entry in answer["translations"]]
                if len(translated) != len(batch):
                    raise EndpointError(f"{len(translated)} answers to {len(batch)} texts.")
                answers += translated
            except (EndpointError, KeyError, TypeError) as error:
                answers += [_refusal(self.name, error)] * len(batch)
        return answers


@dataclass(frozen=True)
class OpenaiEndpoint:
    """An OpenAI-compatible API; `url` ends before /chat/completions.

    `model` may contain {from} and {to}, for models that are named after their languages.
    """

    url: str
    model: str
    timeout_s: float = 30.0

    @property
    def name(self) -> str:
        return f"{self.model} at {urlsplit(self.url).netloc}"

    def translate(self, texts: Sequence[str], source: str, to: str) -> list[str | EndpointError]:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return [*threads.map(lambda text: self._one(text, source, to), texts)]

    def _one(self, text: str, source: str, to: str) -> str | EndpointError:
        key = os.environ.get("OPENAI_API_KEY", "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        from_ = f" from {_LANGUAGES.get(source, source)}" if source else ""
        task = (
            f"Translate the user's text{from_} into {_LANGUAGES.get(to, to)}. Answer with the "
            "translation alone."
        )
        model = self.model.replace("{from}", source or "auto").replace("{to}", to)
        body = {
            "model": model,
            "messages": [
                {"role": "system", "content": task},
                {"role": "user", "content": text},
            ],
        }
        try:
            answer = _post(f"{self.url}/chat/completions", body, headers, self.timeout_s)
            # Chat models may add line breaks, and a translation must be a single line.
            return " ".join(str(answer["choices"][0]["message"]["content"]).split())
        except (EndpointError, KeyError, IndexError, TypeError) as error:
            return _refusal(self.name, error)


def endpoint_of(address: str, timeout_s: float = 30.0) -> DeeplEndpoint | OpenaiEndpoint:
    """Parse an address as users write it: DeepL's ends in /v2, OpenAI's in /v1#MODEL.

    >>> endpoint_of("https://api.deepl.com/v2").name
    'api.deepl.com'
    >>> endpoint_of("http://localhost:8000/v1#dragoman-{from}-{to}").name
    'dragoman-{from}-{to} at localhost:8000'
    """
    url, model = urldefrag(address)
    url = url.rstrip("/")
    if url.endswith("/v2"):
        return DeeplEndpoint(url, timeout_s)
    if not model:
        raise ConfigError(
            f"{address}: which model? Write .../v1#MODEL for an OpenAI-compatible endpoint, or "
            ".../v2 for a DeepL-compatible one."
        )
    return OpenaiEndpoint(url, model, timeout_s)


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirections, so that texts and keys go only to the address that the user named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(url: str, body: object, headers: dict[str, str], timeout_s: float) -> Any:
    raw = json.dumps(body).encode()
    headers = {**headers, "Content-Type": "application/json"}
    request = Request(url, data=raw, headers=headers)
    try:
        with build_opener(_NoRedirects).open(request, timeout=timeout_s) as answer:
            return json.loads(answer.read(MOST_BYTES))
    except HTTPError as error:
        error.close()
        raise EndpointError(f"status {error.code}.") from None
    except (OSError, HTTPException, ValueError) as error:
        raise EndpointError(f"{error}.") from None


def _refusal(name: str, error: Exception) -> EndpointError:
    if isinstance(error, EndpointError):
        return EndpointError(f"{name}: {error}")
    return EndpointError(f"{name}: the answer is not what this API gives.")
