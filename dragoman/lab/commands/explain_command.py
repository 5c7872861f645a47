"""The command `dragoman explain`."""

from dragoman.cli.arguments import argument, option
from dragoman.cli.loading import decoding_settings, load_model, one_model
from dragoman.cli.options import BEAM, DEVICE, ENGINE, FROM, ONE_MODEL, SET, TO, show_result
from dragoman.decode.request import Request
from dragoman.errors import ConfigError, needs_torch


def command(
    text: str = argument("", "A sentence to follow through the model."),
    model: str = ONE_MODEL,
    out: str = option("", "The page to write, for a browser."),
    translation: str | None = option(None, "Follow this translation instead of the model's own."),
    off: list[str] | None = option(
        None,
        "Switch a part off: encoder.0.head.2, cross.1.head.0, decoder.1, "
        "encoder.0.network (repeatable; numbers start at 0).",
        metavar="PART",
    ),
    swap: tuple[int, int] | None = option(None, "Swap two words of the source.", metavar="I J"),
    place: list[str] | None = option(
        None, "Move a subword of the source (repeatable).", metavar="PIECE=POSITION"
    ),
    begin: str = option("", "Text that the translation must begin with.", metavar="TEXT"),
    temperature: float = option(0.0, "Sample the translation at this temperature.", min=0.0),
    top_k: int = option(0, "Subwords to sample from; 0: all.", min=0),
    seed: int = option(1, "Seed of the samples.", min=0),
    from_: str = FROM,
    to: str = TO,
    beam: int | None = BEAM,
    engine: str = ENGINE,
    device: str = DEVICE,
    set_: list[str] | None = SET,
) -> None:
    """Follow a sentence through the model, step by step, on one page with the model's own numbers.

    With a part switched off, words swapped or another beginning, the changed model translates the
    sentence again, one subword at a time.

    Example: `dragoman explain "The dog sleeps." --to de --out runs/explained.html`

    Example: `dragoman explain "The dog sleeps." --to de --off cross.0.head.1 --out runs/off.html`
    """
    with needs_torch():
        from dragoman.lab.explain.explanation import explain, page
        from dragoman.lab.explain.interventions import Intervention

    if not out:
        raise ConfigError("nothing to write: give --out page.html.")
    translator = load_model(one_model(model), device, engine, from_, to, text)
    request = Request(
        to=to, source_language=from_, decoding=decoding_settings(translator.config, set_, beam)
    )
    codec = translator.codec
    prefix = [codec.target.pieces[i] for i in codec.encode_target([begin])[0]] if begin else []
    change = Intervention(
        tuple(off or ()), swap, dict(map(_place, place or ())), tuple(prefix), temperature, top_k,
        seed, study=True,
    )  # fmt: skip
    # `study` adds the heads' importance and a gradient step, which the page shows.
    explained = explain(translator, text, translation, request, change)
    files = {out: page(explained).encode("utf-8", "replace")}
    show_result(explained["translation"], files)


def _place(argument: str) -> tuple[int, int]:
    piece, _, position = argument.partition("=")
    if not (piece.isdecimal() and position.isdecimal()):
        raise ConfigError(f"--place {argument}: expected PIECE=POSITION, such as 2=7.")
    return int(piece), int(position)
