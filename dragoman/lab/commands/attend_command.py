"""The command `dragoman attend`."""

from dragoman.cli.arguments import argument, option
from dragoman.cli.loading import decoding_settings, load_model, one_model
from dragoman.cli.options import BEAM, DEVICE, ENGINE, FROM, ONE_MODEL, SET, TO, show_result
from dragoman.decode.request import Request
from dragoman.errors import ConfigError


def command(
    text: str = argument("", "A sentence to translate and inspect."),
    model: str = ONE_MODEL,
    out: str = option("", "Page to write, for a browser: attention, beam, positions."),
    svg: str = option("", "Figure to write: the heads of one layer, as SVG."),
    png: str = option("", "The same figure as PNG."),
    kind: str = option("cross", "In figures: encoder, decoder or cross.", "--attention"),
    layer: int = option(-1, "In figures: the layer, from 1; -1 is the last."),
    head: int | None = option(None, "In figures: only this head, from 1.", min=1),
    pieces: bool = option(False, "In figures: show pieces instead of words."),
    translation: str | None = option(
        None, "Show attention for this translation instead of the model's own."
    ),
    from_: str = FROM,
    to: str = TO,
    beam: int | None = BEAM,
    engine: str = ENGINE,
    device: str = DEVICE,
    set_: list[str] | None = SET,
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
    inspection = inspect_sentence(translator, text, translation, request)
    files: dict[str, bytes] = {}
    if out:
        files[out] = page(inspection).encode("utf-8", "replace")
    if svg or png:
        figure = draw(inspection, kind, layer, head, pieces)
        files |= {svg: to_svg(figure).encode("utf-8", "replace")} if svg else {}
        files |= {png: to_png(figure)} if png else {}
    show_result(inspection.translation, files)
