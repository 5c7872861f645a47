"""The peers that dragoman's training and decoding are compared with, written as in their
documentation."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig
from dragoman.convert.marian import interleaved, layers_to_marian
from dragoman.model.base import Model
from dragoman.model.build import get_weights


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, sinusoids and a tied output layer; padding is id 0."""

    positions: Tensor

    def __init__(self, model: ModelConfig, size: int):
        super().__init__()
        self.embedding = nn.Embedding(size, model.d_model)
        nn.init.normal_(self.embedding.weight, std=model.d_model**-0.5)
        self.transformer = nn.Transformer(
            model.d_model, model.num_heads, model.num_encoder_layers, model.num_decoder_layers,
            model.d_ff,
            model.dropout, batch_first=True, norm_first=model.norm_position == "pre",
        )  # fmt: skip
        self.drop = nn.Dropout(model.dropout)
        self.register_buffer("positions", torch.from_numpy(sinusoids(512, model.d_model)))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of every position. (B, T, V)"""
        padding = source == 0
        future = nn.Transformer.generate_square_subsequent_mask(
            target.shape[1], device=source.device
        )
        hidden = self.transformer(
            self._embed(source), self._embed(target), tgt_mask=future, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        logits: Tensor = hidden @ self.embedding.weight.T
        return logits

    def _embed(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        dropped: Tensor = self.drop(words + self.positions[: ids.shape[1]])
        return dropped


class HuggingFaceMarian(nn.Module):
    """transformers' MarianMTModel of the same shape, with torch's fused attention."""

    def __init__(self, model: ModelConfig, size: int):
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        config = MarianConfig(
            vocab_size=size, d_model=model.d_model, encoder_layers=model.num_encoder_layers,
            decoder_layers=model.num_decoder_layers, encoder_attention_heads=model.num_heads,
            decoder_attention_heads=model.num_heads, encoder_ffn_dim=model.d_ff,
            decoder_ffn_dim=model.d_ff, dropout=model.dropout,
            activation_function="relu",
            scale_embedding=True, pad_token_id=0, eos_token_id=3, forced_eos_token_id=None,
            decoder_start_token_id=2, max_position_embeddings=512,
        )  # fmt: skip
        config._attn_implementation = "sdpa"
        self.model = MarianMTModel(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        logits: Tensor = self.model(
            input_ids=source,
            attention_mask=(source != 0).long(),
            decoder_input_ids=target,
            use_cache=False,
        ).logits
        return logits


TRAINING_PEERS = {
    "torch.nn.Transformer": TorchTransformer,
    "Hugging Face Marian": HuggingFaceMarian,
}


def peer_step(
    peer: nn.Module, optimizer: torch.optim.Optimizer, source: Tensor, target_in: Tensor,
    target_out: Tensor,
    smoothing: float, clip_norm: float = 1.0,
) -> Tensor:  # fmt: skip
    """One whole training step; padding (id 0) is ignored by the loss."""
    logits = peer(source, target_in)
    loss = nn.functional.cross_entropy(
        logits.flatten(0, 1), target_out.flatten(), ignore_index=0, label_smoothing=smoothing
    )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(peer.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


def marian_with_weights_of(model: Model, size: int) -> Any:
    """transformers' MarianMTModel with the weights of our post-norm Transformer, all embeddings
    tied."""
    marian, config = HuggingFaceMarian(model.config, size).model, model.config
    ours = {name: tensor.cpu().numpy() for name, tensor in get_weights(model).items()}
    theirs = layers_to_marian(ours, config)
    marian.load_state_dict(
        {name: torch.from_numpy(array) for name, array in theirs.items()}, strict=False
    )
    words = ours["source_embedding.words.weight"][:, np.argsort(interleaved(config.d_model))]
    with torch.no_grad():
        marian.get_input_embeddings().weight.copy_(torch.from_numpy(words))
    return marian.eval()
