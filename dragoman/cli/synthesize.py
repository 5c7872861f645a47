"""`dragoman synthesize`"""

import sys

from dragoman.cli.arguments import option
from dragoman.cli.loading import config_of, decoding_settings, sampling_settings
from dragoman.cli.options import (
    ADDRESS,
    BEAM,
    DEVICE,
    ENGINE,
    FROM,
    MODEL,
    SAMPLE,
    SEED,
    SET,
    SHARD_LINES,
    TEMPERATURE,
    TO,
    TOP_K,
    TOP_P,
    WORKERS,
)
from dragoman.decode.bulk.job import Job
from dragoman.decode.bulk.synthetic import KINDS, PairLine
from dragoman.decode.request import Request
from dragoman.errors import ConfigError
from dragoman.text.parallel import read_lines


def command(
    model: str = MODEL,
    input_: str = option("", "Real text, one sentence per line (.gz, .bz2).", "--input", "-i"),
    output: str = option("", "Corpus to write, source TAB target (.gz, .bz2).", "--output", "-o"),
    kind: str = option(
        "back", "back: the text is the target, and the model makes its source; distil: reverse."
    ),
    from_: str = FROM,
    to: str = TO,
    beam: int | None = BEAM,
    sample: bool = SAMPLE,
    temperature: float = TEMPERATURE,
    top_k: int = TOP_K,
    top_p: float = TOP_P,
    seed: int = SEED,
    engine: str = ENGINE,
    device: str = DEVICE,
    workers: int = WORKERS,
    address: str = ADDRESS,
    shard_lines: int = SHARD_LINES,
    set_: list[str] | None = SET,
) -> None:
    """Make a training corpus from real text and a model: back-translation or distillation.

    Example: `dragoman synthesize --kind distil --model runs/demo --input examples/valid.de.gz
    --output made.de-en.tsv`
    """
    # Imports rich, which takes long.
    from dragoman.decode.bulk.run import translate_file

    if kind not in KINDS:
        raise ConfigError(f"--kind {kind!r} is unknown; it can be {', '.join(KINDS)}.")
    if not (input_ and output):
        raise ConfigError(
            "synthesize needs text to read and a corpus to write: give --input F and --output F."
        )
    sampling = sampling_settings(sample, temperature, top_k, top_p, seed, beam)
    decoding = decoding_settings(config_of(model, from_, to), set_, beam)
    request = Request(to=to, source_language=from_, decoding=decoding, sampling=sampling)
    job = Job(model, request, PairLine(kind), device, engine)
    lines = translate_file(
        input_, output, job, workers=workers, address=address, shard_lines=shard_lines
    )
    pairs = sum(1 for _ in read_lines(output))
    print(
        f"{pairs:,} pairs in {output}; skipped {lines - pairs:,} lines that are empty on one side",
        file=sys.stderr,
    )
