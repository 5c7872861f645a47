"""The claims by their number."""

from dragoman.compare import (
    block,
    corpus_size,
    growth,
    heads,
    length,
    positions,
    recency,
    scaling,
    table,
    vocabulary,
)
from dragoman.compare.claim import Claim

CLAIMS: dict[str, Claim] = {
    "C1": length.CLAIM,
    "C2": recency.CLAIM,
    "C3": growth.STEPS,
    "C4": growth.COST,
    "C5": scaling.CLAIM,
    "C6": positions.CLAIM,
    "C7": table.CLAIM,
    "C8": heads.CLAIM,
    "C9": corpus_size.CLAIM,
    "C10": vocabulary.CLAIM,
    "C11": block.CLAIM,
}
