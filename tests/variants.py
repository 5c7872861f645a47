"""The variants of the Transformer, one setting (or the few that belong together) at a time, and
some at once."""

VARIANTS: dict[str, dict[str, object]] = {
    "the paper's": {},
    "pre-norm": {"model__norm": "pre"},
    "dot": {"model__attention__similarity": "dot"},
    "cosine": {"model__attention__similarity": "cosine"},
    "additive": {"model__attention__similarity": "additive"},
    "concat": {"model__attention__similarity": "concat"},
    "hard": {"model__attention__span": "hard"},
    "local": {"model__attention__span": "local", "model__attention__window": 2},
    "narrow": {"model__attention__heads_layout": "narrow"},
    "wide": {"model__attention__heads_layout": "wide"},
    "multi-query": {"model__attention__heads_layout": "multi-query"},
    "no projections": {"model__attention__projections": False},
    "no projections, one head": {
        "model__attention__projections": False, "model__attention__similarity": "dot",
        "model__heads": 1,
    },
    "same layer": {"model__attention__memory": "same-layer"},
    "same layer, pre-norm": {"model__attention__memory": "same-layer", "model__norm": "pre"},
    "no positions": {"model__positions__kind": "none"},
    "index": {"model__positions__kind": "index", "model__positions__join": "concat"},
    "learned": {"model__positions__kind": "learned"},
    "rotary": {"model__positions__kind": "rotary"},
    "relative": {"model__positions__kind": "relative"},
    "alibi": {"model__positions__kind": "alibi"},
    "sinusoidal beside words": {"model__positions__join": "concat"},
    "learned beside "
    "words": {"model__positions__kind": "learned", "model__positions__join": "concat"},
    "sinusoidal in every layer": {"model__positions__every_layer": True},
    "index in every layer": {
        "model__positions__kind": "index", "model__positions__join": "concat",
        "model__positions__every_layer": True,
    },
    "no residuals": {"model__residual": False},
    "no residuals, pre-norm": {"model__residual": False, "model__norm": "pre"},
    "batch norm": {"model__norm_kind": "batch"},
    "batch norm, pre-norm": {"model__norm_kind": "batch", "model__norm": "pre"},
    "no norm": {"model__norm_kind": "none"},
    "no feed-forward": {"model__feed_forward": False},
    "many at once": {
        "model__attention__similarity": "additive", "model__attention__span": "local",
        "model__attention__window": 3,
        "model__attention__heads_layout": "multi-query", "model__attention__memory": "same-layer",
        "model__positions__kind": "rotary", "model__norm": "pre", "model__norm_kind": "batch",
    },
    "many others at once": {
        "model__attention__similarity": "cosine", "model__attention__span": "hard",
        "model__attention__heads_layout": "wide", "model__positions__kind": "relative",
        "model__feed_forward": False,
    },
}  # fmt: skip
