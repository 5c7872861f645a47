"""Which models other systems can take."""

from dragoman.config import ModelConfig, beyond_plain
from dragoman.errors import ConversionError


def refuse_unknown(config: ModelConfig, system: str) -> None:
    """Let only the plain Transformer through: nobody else has the variants."""
    if reasons := beyond_plain(config):
        raise ConversionError(
            f"{system} knows the plain Transformer alone; this model has {', '.join(reasons)}."
        )
