"""C11: the Transformer's block with one part after the other taken out."""

from collections.abc import Mapping

from dragoman.compare.figures import Bars, Finding, listed, named
from dragoman.compare.runs import Claim, Result, Study
from dragoman.compare.systems import Scale, System, variant
from dragoman.compare.table import BASE

_PARTS = {
    "no residual": variant("no-residual", 0.5, model__residual=False),
    "no norm": variant("no-norm", 0.5, model__norm_kind="none"),
    "no feed-forward": variant("no-feed-forward", 0.5, model__feed_forward=False),
    "no decoder self-attention": variant("no-self-attention", 0.5, model__decoder_attention=False),
}
_OTHERS = {
    "batch norm": variant("batch-norm", 0.5, model__norm_kind="batch"),
    "norm after the sum": variant("post-norm", 0.5, model__norm="post"),
}


def _depths(scale: Scale) -> dict[str, System]:
    """One layer, and twice as many as the base has."""
    deep = 2 * int(scale.settings["model.encoder_layers"])
    return {
        "1 layer": variant("layers-1", 0.5, model__encoder_layers=1, model__decoder_layers=1),
        f"{deep} layers": variant(
            f"layers-{deep}", 0.5, model__encoder_layers=deep, model__decoder_layers=deep
        ),
    }


def finding(whole: Result, without: Mapping[str, Result], others: Mapping[str, Result]) -> Finding:
    """BLEU of the whole block, of it without each part, and of other norms and depths."""
    change = {name: result.bleu - whole.bleu for name, result in without.items()}
    useless = [name for name, gained in change.items() if gained >= 0]
    broken = [name for name, result in [*without.items(), *others.items()] if result.failure]
    everything = {"all parts": whole, **without, **others}
    stopped = f" ({listed(broken)} ended in numbers that are not finite)" if broken else ""
    nothing_lost = f"with {listed(useless)} nothing is lost here"
    return Finding(
        [
            Bars(
                "BLEU at the same cost",
                "BLEU",
                list(everything),
                [result.bleu for result in everything.values()],
            )
        ],
        (
            f"The whole block reaches {whole.bleu:.1f} BLEU; taking a part out changes that by "
            f"{named(change, '+.1f')}{stopped}: "
            f"{nothing_lost if useless else 'every part earns its place'}.",
            f"Beside it stand {named({name: result.bleu for name, result in others.items()})}, "
            f"all at {whole.flops:.3g} training FLOPs.",
        ),
        "seen" if not useless else "not seen",
        "",
    )


def show(study: Study) -> Finding:
    others = {**_OTHERS, **_depths(study.scale)}
    return finding(
        study.result(BASE),
        {name: study.result(system) for name, system in _PARTS.items()},
        {name: study.result(system) for name, system in others.items()},
    )


CLAIM = Claim(
    "Every part of the block earns its place",
    "Residual connections keep gradients in range, normalisation makes training faster, the "
    "feed-forward network brings in what is not linear, masked self-attention lets the decoder "
    "see what it said, and depth pays.",
    "Is there a task for each part of the block that the block cannot learn without it?",
    "The block without the part would learn the part's task as well as the whole block does.",
    show,
    lambda scale: [BASE, *_PARTS.values(), *_OTHERS.values(), *_depths(scale).values()],
)
