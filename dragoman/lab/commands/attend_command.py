"""The command `dragoman attend`."""

from typing import Annotated

from dragoman.cli.arguments import Argument, Option
from dragoman.cli.loading import decoding_settings, load_model, one_model
from dragoman.cli.options import Beam, Device, EngineName, From, OneModel, Set, To, show_result
from dragoman.decode.request import Request
from dragoman.errors import ConfigError


def command(
    text: Annotated[str, Argument(help="A sentence to translate and inspect.")],
    model: OneModel = "",
    out: Annotated[
        str, Option(help="Page to write, for a browser: attention, beam, positions.")
    ] = "",
    svg: Annotated[str, Option(help="Figure to write: the heads of one layer, as SVG.")] = "",
    png: Annotated[str, Option(help="The same figure as PNG.")] = "",
    kind: Annotated[
        str, Option("--attention", help="In figures: encoder, decoder or cross.")
    ] = "cross",
    layer: Annotated[int, Option(help="In figures: the layer, from 1; -1 is the last.")] = -1,
    head: Annotated[int | None, Option(min=1, help="In figures: only this head, from 1.")] = None,
    pieces: Annotated[
        bool, Option("--pieces", help="In figures: show pieces instead of words.")
    ] = False,
    translation: Annotated[
        str | None,
        Option(help="Show attention for this translation instead of the model's own."),
    ] = None,
    from_: From = "",
    to: To = "",
    beam: Beam = None,
    engine: EngineName = "auto",
    device: Device = "auto",
    set_: Set = None,
) -> None:
    """Translate a sentence and show its attention, its beam and its positions.

    Example: `dragoman attend "Der Hund schläft." --model runs/demo --out runs/attention.html`
    """
    from dragoman.lab.explain.attention_figure import draw, to_png, to_svg
    from dragoman.lab.explain.html_page import page
    from dragoman.lab.explain.sentence_inspection import inspect_sentence

    if not (out or svg or png):
        raise ConfigError("nothing to write: give --out page.html, --svg or --png.")
    translator = load_model(one_model(model), device, engine, from_, to, text)
    request = Request(
        to=to, source_language=from_, decoding=decoding_settings(translator.config, set_, beam)
    )
    seen = inspect_sentence(translator, text, translation, request)
    files: dict[str, bytes] = {}
    if out:
        files[out] = page(seen).encode("utf-8", "replace")
    if svg or png:
        figure = draw(seen, kind, layer, head, pieces)
        files |= {svg: to_svg(figure).encode("utf-8", "replace")} if svg else {}
        files |= {png: to_png(figure)} if png else {}
    show_result(seen.translation, files)
