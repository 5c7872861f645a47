"""Schemas of requests and answers, as in the OpenAPI document."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from dragoman.text.languages import AUTO

# Unicode category Cc without tab and line ends.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LANGUAGE = r"^[A-Za-z][A-Za-z0-9_-]{0,19}$"


def _no_control_characters(text: str) -> str:
    if match := _CONTROL.search(text):
        raise ValueError(
            f"it contains the control character U+{ord(match[0]):04X} at {match.start()}: remove it"
        )
    return text


Text = Annotated[str, AfterValidator(_no_control_characters)]
Language = Annotated[str, Field(pattern=_LANGUAGE)]
# Tagged, so that an error names the field and not each alternative of the union.
Texts = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[list[Text], Tag("list"), Field(min_length=1, max_length=128)],
    Discriminator(lambda given: "list" if isinstance(given, list) else "text"),
]


Terms = Annotated[list[tuple[Text, Text]], Field(max_length=1000)]


class Error(BaseModel):
    error: str = Field(description="The mistake and its remedy.")


class TranslateRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"text": "Wo ist der Bahnhof?", "source": "de", "target": "en"}]
        },
    )

    text: Texts = Field(description="One text, or a list of texts.")
    source: Language = Field(AUTO, description="The language of the texts; auto: detected.")
    target: Language | None = Field(
        None, description="The target language; without it, the model's first choice."
    )
    beam: int | None = Field(
        None, ge=1, le=16, description="Hypotheses that the search keeps; 1 is greedy."
    )
    nbest: int = Field(
        1, ge=1, le=10, description="Translations of each text at most, all different, best first."
    )
    alignments: bool = Field(False, description="Also link words and give their probabilities.")
    confidence: bool = Field(
        False, description="Also estimate the probability that a translation is good."
    )
    glossary: Terms = Field([], description="Terms: source and target, or target|target.")


class DetectedLanguage(BaseModel):
    language: str
    confidence: float = Field(description="In percent.")


class Word(BaseModel):
    text: str
    probability: float = Field(
        description="The model's probability, given the source and the words before it."
    )
    confidence: float | None = Field(
        None, description="The estimated probability that it is right, with `confidence`."
    )


class Alternative(BaseModel):
    text: str
    score: float = Field(description="The log-probability, divided by the length penalty.")
    words: list[Word] | None = Field(None, description="Only with `alignments`.")
    alignment: list[tuple[int, int]] | None = Field(
        None, description="Pairs of word numbers, source and target, from 0."
    )


class Sentence(BaseModel):
    source: str
    text: str
    confidence: float | None = Field(
        None, description="The estimated probability that it is good, with `confidence`."
    )
    chrf: float | None = Field(None, description="The expected chrF, with `confidence`.")


class Use(BaseModel):
    source: str = Field(description="The term as it is written in the text.")
    target: str
    words: str = Field(description="The words of the translation for it.")
    state: Literal["placed", "inflected", "refused"]


class Translated(BaseModel):
    text: str
    source: str
    target: str
    model: str
    detected: DetectedLanguage | None = Field(None, description="Only if the source was auto.")
    source_words: list[str] | None = Field(None, description="Only with `alignments`.")
    sentences: list[Sentence] | None = Field(
        None, description="The units of translation, with `alignments` or `confidence`."
    )
    confidence: float | None = Field(None, description="The lowest confidence of a sentence.")
    note: str | None = Field(None, description="Why the text was not translated, if it was not.")
    warning: str | None = Field(None, description="An obvious fault of the translation.")
    terms: list[Use] | None = Field(default=None, description="Only with a glossary.")
    candidates: list[Alternative]


class TranslateResponse(BaseModel):
    translations: list[Translated] = Field(description="In the order of the texts.")


class ModelInfo(BaseModel):
    name: str
    sources: list[str]
    targets: list[str]
    architecture: str
    attention: bool = Field(description="Whether it can show its attention.")
    alignments: bool = Field(description="Whether it can link words.")


class Health(BaseModel):
    status: Literal["ok"]


class OpenaiModel(BaseModel):
    id: str = Field(description="Names the languages: dragoman-en-de, dragoman-auto-fr.")
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    models: list[ModelInfo]
    names: dict[str, str] = Field(description="The languages' names in English.")
    object: Literal["list"] = Field(description="This and `data` are for OpenAI's clients.")
    data: list[OpenaiModel]


class OpenaiMistake(BaseModel):
    message: str
    type: str
    code: int


class OpenaiError(BaseModel):
    error: OpenaiMistake


class ContentPart(BaseModel):
    type: Literal["text"]
    text: Text


class Message(BaseModel):
    role: str = Field(max_length=99)
    content: Text | Annotated[list[ContentPart], Field(max_length=100)] | None = None


class ChatRequest(BaseModel):
    """OpenAI's request. Fields that this service does not know are ignored."""

    model: str = Field(max_length=99, description="Names the languages: dragoman-en-de.")
    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream: bool = False
    n: int = Field(1, ge=1, le=10, description="Translations at most, all different.")
    glossary: Terms = Field([], description="Terms: source and target. OpenAI has no such field.")

    def text(self) -> str:
        """Return the text to translate: the user's last message."""
        texts = [message.content for message in self.messages if message.role == "user"]
        content = texts[-1] if texts else self.messages[-1].content
        if isinstance(content, list):
            return "".join(part.text for part in content)
        return content or ""


class Answer(BaseModel):
    role: Literal["assistant"]
    content: str
    refusal: str | None = None


class Choice(BaseModel):
    index: int
    message: Answer
    finish_reason: Literal["stop"]


class Completion(BaseModel):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]


class Keyed(BaseModel):
    api_key: str = ""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """Drop fields that are null: some clients send null for a missing field."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class LibreRequest(Keyed):
    """LibreTranslate's request.

    Fields that this service does not know are ignored.
    """

    q: Texts = Field(description="One text, or a list of texts.")
    source: Language = AUTO
    target: Language
    format: Literal["text", "html"] = Field("text", description="The format of the texts.")
    alternatives: int = Field(0, ge=0, le=9)


class LibreDetectRequest(Keyed):
    q: Text = Field(min_length=1)


class DocumentStatus(BaseModel):
    id: str
    state: Literal["waiting", "translating", "done", "failed"]
    done: int = Field(description="Segments (paragraphs, messages) that are translated.")
    total: int
    name: str | None = Field(None, description="Of the translated file.")
    error: str | None = None
    report: dict[str, int] | None = Field(
        None, description="How many segments are translated, copied, left, doubtful."
    )
    terms: dict[str, int] | None = Field(
        None, description="How many terms of a glossary are placed, inflected, refused."
    )


class LibreFile(BaseModel):
    translatedFileUrl: str  # noqa: N815


class DocumentRequest(BaseModel):
    """A form with a file; the end of its name tells the format."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    source: str = Field(AUTO, description="The language of the file; auto: detected.")
    target: str = Field("", description="Without it, the model's first choice.")
    prefer: str = Field("", description="Instead of a target: only for files in other languages.")
    glossary: str = Field("", description="Lines of source TAB target.")


class LibreFileRequest(Keyed):
    file: bytes = Field(json_schema_extra={"format": "binary"})
    source: str = AUTO
    target: str = ""


class LibreSuggestRequest(Keyed):
    q: Text = Field(min_length=1)
    s: Text = Field(min_length=1, description="A better translation.")
    source: Language
    target: Language


class LibreResponse(BaseModel):
    translatedText: str  # noqa: N815
    detectedLanguage: DetectedLanguage | None = None  # noqa: N815
    alternatives: list[str] | None = None


class LibreResponses(BaseModel):
    translatedText: list[str]  # noqa: N815
    detectedLanguage: list[DetectedLanguage] | None = None  # noqa: N815
    alternatives: list[list[str]] | None = None


class LibreSuggested(BaseModel):
    success: bool


class LibreSettings(BaseModel):
    """What LibreTranslate tells its own page."""

    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    charLimit: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    suggestions: bool
    frontendTimeout: int  # noqa: N815
    language: dict[str, dict[str, str]]


class LibreLanguage(BaseModel):
    code: str
    name: str
    targets: list[str]


class ApertiumText(BaseModel):
    translatedText: str  # noqa: N815


class ApertiumResponse(BaseModel):
    responseData: ApertiumText  # noqa: N815
    responseDetails: str | None  # noqa: N815
    responseStatus: Literal[200]  # noqa: N815


class ApertiumPair(BaseModel):
    sourceLanguage: str  # noqa: N815
    targetLanguage: str  # noqa: N815


class ApertiumPairs(BaseModel):
    responseData: list[ApertiumPair]  # noqa: N815
    responseDetails: str | None  # noqa: N815
    responseStatus: Literal[200]  # noqa: N815


class DeeplError(Error):
    message: str = Field(description="The same.")


class DeeplRequest(BaseModel):
    """DeepL's request. Fields that this service does not know are named in the answer."""

    text: str | Annotated[list[str], Field(min_length=1, max_length=50)]
    target_lang: str
    source_lang: str = Field("", description="The language of the texts; empty: detected.")
    glossary_id: str = ""
    tag_handling: Literal["", "html", "xml"] = ""
    ignore_tags: str | list[str] = Field([], description="Names; a text has commas between them.")


class DeeplText(BaseModel):
    detected_source_language: str
    text: str
    billed_characters: int


class DeeplResponse(BaseModel):
    translations: list[DeeplText]
    ignored: list[str] | None = Field(None, description="Fields of the request that did nothing.")


class DeeplLanguage(BaseModel):
    language: str
    name: str
    supports_formality: bool


class DeeplUsage(BaseModel):
    character_count: int
    character_limit: int


class DeeplGlossaryRequest(BaseModel):
    name: str = ""
    source_lang: str
    target_lang: str
    entries: str = Field(description="Lines of source and target.")
    entries_format: Literal["tsv", "csv"] = "tsv"


class DeeplGlossary(BaseModel):
    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class DeeplGlossaries(BaseModel):
    glossaries: list[DeeplGlossary]


class DeeplPair(BaseModel):
    source_lang: str
    target_lang: str


class DeeplPairs(BaseModel):
    supported_languages: list[DeeplPair]


class DeeplUpload(BaseModel):
    """A form with a file."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    target_lang: str
    source_lang: str = ""
    filename: str = Field("", description="Its end tells the format; default: the file's name.")
    glossary_id: str = ""


class DeeplDocument(BaseModel):
    document_id: str
    document_key: str


class DeeplKey(BaseModel):
    document_key: str


class DeeplStatus(BaseModel):
    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    billed_characters: int | None = None
    message: str | None = None
    error_message: str | None = None
