"""The service's routes that show the inside of a model: /v1/attention and /v1/explain."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from dragoman.config import ModelConfig
from dragoman.decode.request import Request as TranslateRequest
from dragoman.inspect.translator import InspectableTranslator
from dragoman.lab.explain.explanation import explain
from dragoman.lab.explain.explanation import payload as explanation_payload
from dragoman.lab.explain.html_page import payload
from dragoman.lab.explain.interventions import Intervention
from dragoman.lab.explain.sentence_inspection import inspect_sentence
from dragoman.serve.door import MeteredRoute, costs, paying, read_json
from dragoman.serve.inspection import Inspection
from dragoman.serve.requests import body_of, refusals, service_of
from dragoman.serve.schemas import Language, Text
from dragoman.text.languages import AUTO

router = APIRouter(tags=["dragoman"], route_class=MeteredRoute)
_MAX_WEIGHTS = 8_000_000  # attention weights, two bytes each in the response
_MAX_NUMBERS = 16_000_000  # numbers in vectors, one byte each in the response


class AttentionRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "Der Hund schläft."}]}
    )

    text: Text = Field(min_length=1, max_length=2000)
    source: Language = AUTO
    target: Language | None = None
    translation: Text | None = Field(
        None,
        max_length=2000,
        description="Inspect this translation instead of the model's own.",
    )


# Moving a subword computes the vectors of all positions up to the new one, hence the limit.
Place = Annotated[int, Field(ge=0, lt=4096)]


class ChangeRequest(BaseModel):
    """An intervention in the model or its input. Positions count from 0."""

    model_config = ConfigDict(extra="forbid")

    off: list[str] = Field(
        [], max_length=200, description="Parts to switch off: `encoder.0.head.2`, `decoder.1`."
    )
    swap: tuple[Place, Place] | None = Field(None, description="Two words of the source to swap.")
    places: dict[Place, Place] = Field(
        {}, max_length=200, description="Subwords of the source, and their new positions."
    )
    say: list[str] = Field(
        [], max_length=500, description="Subwords that the translation must begin with."
    )
    temperature: float = Field(0.0, ge=0.0, le=5.0, description="0: the most likely subword.")
    top_k: int = Field(0, ge=0, le=1000, description="Subwords to sample from; 0: all.")
    seed: int = Field(1, ge=0, le=2**31)
    study: bool = Field(
        False, description="Also the importance of each head, and one gradient step."
    )

    def intervention(self) -> Intervention:
        fields = self.model_dump()
        # Tuples, since a list would not equal the empty tuple of an intervention without changes.
        return Intervention(**{**fields, "off": tuple(self.off), "say": tuple(self.say)})


class ExplanationRequest(AttentionRequest):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "Der Hund schläft.", "change": {"off": ["cross.0.head.0"]}}]
        },
    )

    change: ChangeRequest | None = Field(None, description="An intervention in the model.")


class AttentionResponse(BaseModel):
    """The data of the attention viewer.

    Weights are 16-bit fractions of 65535, little-endian, in base64.
    """

    text: str
    translation: str
    searched: str
    axes: dict[str, Any]
    maps: list[dict[str, Any]]
    beam: list[dict[str, Any]]
    base: float | None
    positions: dict[str, Any] | None


class ExplanationResponse(BaseModel):
    """The numbers of one forward pass.

    An array is its shape and base64: 16-bit floats ("halves"), or bytes with a float32 scale for
    each block of them ("bytes", "scales", "block").
    """

    text: str
    translation: str
    model: dict[str, Any]
    panels: list[dict[str, Any]]
    axes: dict[str, Any]
    merges: list[list[list[str]]]
    embedding: dict[str, Any]
    parts: list[dict[str, Any]]
    feedForward: dict[str, Any]  # noqa: N815
    memory: list[dict[str, Any]]
    output: dict[str, Any]
    beam: list[dict[str, Any]]
    finished: list[dict[str, Any]]


@router.post(
    "/v1/attention",
    response_model=AttentionResponse,
    responses=refusals(400, 401, 422),
    openapi_extra=costs("work") | body_of(AttentionRequest),
)
async def attention(request: Request) -> Response:
    """Return all attention weights for one text, its beam and its position vectors."""
    body = await read_json(request, AttentionRequest)
    return await _inspected(request, body, Inspection(_attention, _check_weights))


@router.post(
    "/v1/explain",
    response_model=ExplanationResponse,
    responses=refusals(400, 401, 422),
    openapi_extra=costs("work") | body_of(ExplanationRequest),
)
async def explanation(request: Request) -> Response:
    """Return the numbers of one forward pass over a text, step by step."""
    body = await read_json(request, ExplanationRequest)
    change = body.change.intervention() if body.change else Intervention()

    def passes(model: ModelConfig) -> int:
        if not change.study:
            return 1
        heads = model.num_heads * (model.num_encoder_layers + 2 * model.num_decoder_layers)
        return 4 + heads  # a pass without each head, and four for the gradient step

    # The number of passes is charged in advance, before any of them runs.
    inspection = Inspection(partial(_explanation, change), _check_numbers, passes)
    return await _inspected(request, body, inspection)


async def _inspected(request: Request, body: AttentionRequest, inspection: Inspection) -> Response:
    content = await service_of(request).inspect(
        inspection,
        body.text,
        body.source,
        body.target or "",
        body.translation,
        paying(request),
    )
    return Response(content, media_type="application/json")


def _attention(
    translator: InspectableTranslator,
    text: str,
    translation: str | None,
    request: TranslateRequest,
) -> dict[str, Any]:
    return payload(inspect_sentence(translator, text, translation, request))


def _explanation(
    change: Intervention,
    translator: InspectableTranslator,
    text: str,
    translation: str | None,
    request: TranslateRequest,
) -> dict[str, Any]:
    return explanation_payload(explain(translator, text, translation, request, change))


def _check_weights(model: ModelConfig, source: int, target: int) -> None:
    """Refuse sentences with too many attention weights, given their lengths in subwords."""
    # Encoder, decoder and cross-attention; a decoder layer looks at both sides.
    weights = model.num_heads * (
        model.num_encoder_layers * source**2 + model.num_decoder_layers * target * (target + source)
    )
    if weights > _MAX_WEIGHTS:
        raise HTTPException(
            413,
            f"the text has up to {weights:,} attention weights, the limit is {_MAX_WEIGHTS:,}: "
            "send a shorter one.",
        )


def _check_numbers(model: ModelConfig, source: int, target: int) -> None:
    """Refuse sentences with too many numbers in vectors, or too many attention weights."""
    # Each position has up to twelve vectors per layer, and the hidden units.
    numbers = (model.num_encoder_layers * source + model.num_decoder_layers * target) * (
        12 * model.d_model + model.d_ff
    )
    if numbers > _MAX_NUMBERS:
        raise HTTPException(
            413,
            f"the text has up to {numbers:,} numbers in vectors, the limit is {_MAX_NUMBERS:,}: "
            "send a shorter one.",
        )
    _check_weights(model, source, target)
