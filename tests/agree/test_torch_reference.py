"""Our encoder-decoder equals torch.nn.Transformer with the same weights."""

import pytest
import torch
from torch import nn

from tests.conftest import small_model


def reference(model) -> nn.Transformer:
    """torch's Transformer with our weights in it."""
    config = model.config
    pre = config.norm_position == "pre"
    options = {
        "d_model": config.d_model, "nhead": config.num_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0, "activation": config.activation, "batch_first": True, "norm_first": pre,
    }  # fmt: skip
    norms = [nn.LayerNorm(config.d_model) if pre else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**options),
        config.num_encoder_layers,
        norms[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**options), config.num_decoder_layers, norms[1]
    )
    weights = {}
    for name, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(layers):
            into = f"{name}.layers.{number}"
            attentions = {"self_attn": layer.attention} | (
                {"multihead_attn": layer.cross} if name == "decoder" else {}
            )
            for part, attention in attentions.items():
                heads = attention.project
                weights[f"{into}.{part}.in_proj_weight"] = heads.to_qkv.weight
                weights[f"{into}.{part}.in_proj_bias"] = heads.to_qkv.bias
                weights[f"{into}.{part}.out_proj.weight"] = heads.to_out.weight
                weights[f"{into}.{part}.out_proj.bias"] = heads.to_out.bias
            for part, linear in (
                ("linear1", layer.feed_forward.inner),
                ("linear2", layer.feed_forward.outer),
            ):
                weights[f"{into}.{part}.weight"] = linear.weight
                weights[f"{into}.{part}.bias"] = linear.bias
            arounds = [
                layer.around_attention,
                *([layer.around_cross] if name == "decoder" else []),
                layer.around_feed_forward,
            ]
            for place, around in enumerate(arounds, start=1):
                weights[f"{into}.norm{place}.weight"] = around.norm.weight
                weights[f"{into}.norm{place}.bias"] = around.norm.bias
    if pre:
        for name, norm in (("encoder", model.encoder_norm), ("decoder", model.decoder_norm)):
            weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"] = norm.weight, norm.bias
    result = nn.Transformer(**options, custom_encoder=encoder, custom_decoder=decoder)
    result.load_state_dict(weights)
    return result.eval()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_our_transformer_is_torchs(norm: str, activation: str) -> None:
    model = small_model(model__norm_position=norm, model__activation=activation).double()
    theirs = reference(model).double()
    source = torch.tensor([[5, 9, 11, 7, 3], [6, 3, 0, 0, 0], [8, 8, 3, 0, 0]])
    target = torch.tensor([[2, 7, 7, 12], [2, 14, 5, 0], [2, 9, 0, 0]])
    padding = source == 0
    expected = theirs(
        model.source_embedding(source),
        model.target_embedding(target),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    real = target != 0
    torch.testing.assert_close(model(source, target)[real], expected[real], atol=1e-9, rtol=1e-9)
