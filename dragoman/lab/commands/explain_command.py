"""The command `dragoman explain`."""

from typing import Annotated

from dragoman.cli.arguments import Argument, Option
from dragoman.cli.loading import decoding_settings, load_model, one_model
from dragoman.cli.options import Beam, Device, EngineName, From, OneModel, Set, To, show_result
from dragoman.decode.request import Request
from dragoman.errors import ConfigError, needs_torch


def command(
    text: Annotated[str, Argument(help="A sentence to follow through the model.")],
    model: OneModel = "",
    out: Annotated[str, Option(help="The page to write, for a browser.")] = "",
    translation: Annotated[
        str | None, Option(help="Follow this translation instead of the model's own.")
    ] = None,
    off: Annotated[
        list[str] | None,
        Option(
            metavar="PART",
            help="Switch a part off: encoder.0.head.2, cross.1.head.0, decoder.1, "
            "encoder.0.network (repeatable; numbers start at 0).",
        ),
    ] = None,
    swap: Annotated[
        tuple[int, int] | None, Option(metavar="I J", help="Swap two words of the source.")
    ] = None,
    place: Annotated[
        list[str] | None,
        Option(metavar="PIECE=POSITION", help="Move a subword of the source (repeatable)."),
    ] = None,
    begin: Annotated[
        str, Option(metavar="TEXT", help="Text that the translation must begin with.")
    ] = "",
    temperature: Annotated[
        float, Option(min=0.0, help="Sample the translation at this temperature.")
    ] = 0.0,
    top_k: Annotated[int, Option(min=0, help="Subwords to sample from; 0: all.")] = 0,
    seed: Annotated[int, Option(min=0, help="Seed of the samples.")] = 1,
    from_: From = "",
    to: To = "",
    beam: Beam = None,
    engine: EngineName = "auto",
    device: Device = "auto",
    set_: Set = None,
) -> None:
    """Follow a sentence through the model, step by step, on one page with the model's own numbers.

    With a part switched off, words swapped or another beginning, the changed model translates the
    sentence again, one subword at a time.

    Example: `dragoman explain "The dog sleeps." --to de --out runs/explained.html`

    Example: `dragoman explain "The dog sleeps." --to de --off cross.0.head.1 --out runs/off.html`
    """
    from dragoman.lab.explain.explanation import explain, page
    from dragoman.lab.explain.interventions import Intervention

    if not out:
        raise ConfigError("nothing to write: give --out page.html.")
    translator = load_model(one_model(model), device, engine, from_, to, text)
    request = Request(
        to=to, source_language=from_, decoding=decoding_settings(translator.config, set_, beam)
    )
    codec = translator.codec
    said = [codec.target.pieces[i] for i in codec.encode_target([begin])[0]] if begin else []
    change = Intervention(
        tuple(off or ()), swap, dict(map(_place, place or ())), tuple(said), temperature, top_k,
        seed, study=True,
    )  # fmt: skip
    with needs_torch():
        explained = explain(translator, text, translation, request, change)
    files = {out: page(explained).encode("utf-8", "replace")}
    show_result(explained["translation"], files)


def _place(given: str) -> tuple[int, int]:
    piece, _, position = given.partition("=")
    if not (piece.isdecimal() and position.isdecimal()):
        raise ConfigError(f"--place {given}: expected PIECE=POSITION, such as 2=7.")
    return int(piece), int(position)
