"""`dragoman synthesize`"""

import sys
from typing import Annotated

from dragoman.cli.arguments import Option
from dragoman.cli.loading import config_of, decoding_settings, sampling_settings
from dragoman.cli.options import (
    Address,
    Beam,
    Device,
    EngineName,
    From,
    Model,
    Sample,
    Seed,
    Set,
    ShardLines,
    Temperature,
    To,
    TopK,
    TopP,
    Workers,
)
from dragoman.decode.bulk.job import Job
from dragoman.decode.bulk.synthetic import KINDS, PairLine
from dragoman.decode.request import Request
from dragoman.errors import ConfigError
from dragoman.text.parallel import read_lines


def command(
    model: Model = "",
    input_: Annotated[
        str, Option("--input", "-i", help="Real text, one sentence per line (.gz, .bz2).")
    ] = "",
    output: Annotated[
        str, Option("--output", "-o", help="Corpus to write, source TAB target (.gz, .bz2).")
    ] = "",
    kind: Annotated[
        str,
        Option(
            help="back: the text is the target, and the model makes its source; distil: reverse."
        ),
    ] = "back",
    from_: From = "",
    to: To = "",
    beam: Beam = None,
    sample: Sample = False,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 1,
    engine: EngineName = "auto",
    device: Device = "auto",
    workers: Workers = 0,
    address: Address = "",
    shard_lines: ShardLines = 0,
    set_: Set = None,
) -> None:
    """Make a training corpus from real text and a model: back-translation or distillation.

    Example: `dragoman synthesize --kind distil --model runs/demo --input examples/valid.de.gz
    --output made.de-en.tsv`
    """
    from dragoman.decode.bulk.run import translate_file  # imports rich, which takes long

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
