"""The OpenAI-compatible routes, as far as they need no model."""

import json

from dragoman.serve.app import create_app


class Nothing:
    """A service with limits and keys, and no models."""

    from dragoman.serve.keys import Keys
    from dragoman.serve.prometheus import Metrics
    from dragoman.serve.service import Limits

    limits, keys, metrics = Limits(), Keys({}), Metrics()


def test_the_description_refers_to_nothing_that_it_does_not_hold() -> None:
    """A body with parts of its own, such as the messages of a chat, brings them along."""
    document = create_app(Nothing()).openapi()
    text = json.dumps(document)
    assert '"#/$defs/' not in text
    for part in text.split('"$ref": "#/components/schemas/')[1:]:
        assert part.partition('"')[0] in document["components"]["schemas"]
