"""Minimum-risk training: fine-tune on the score of the model's own translations.

(Shen et al. 2016; the second loss of Wu et al. 2016.)

For a source x, sample translations y1 ... yK from the model. The loss is their expected cost:

    R = Σ_k Q_k (1 - GLEU(y_k, reference))       Q_k = p(y_k|x)^α / Σ_j p(y_j|x)^α

Its gradient is Σ_k α Q_k (cost_k - R) ∇log p(y_k|x), so translations that are better than the
average become more likely. A repeated sample counts twice. For a small `training.mrt_sharpness` α
the gradient is therefore α times the gradient of the expected cost, with the mean of all samples as
its baseline; a larger α gives more weight to likely samples. A likelihood term on the same scale
keeps the model close to where it started: loss = R + α λ likelihood. The weight of a sentence is
the number of tokens in its reference. GLEU counts n-grams of subwords.

This works for every architecture: `start` and `step` sample translations without dropout, and
`forward` computes their probabilities. Attention that trains straight-through uses its surrogate
gradient here too.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.config import Config
from dragoman.data.batches import Batch, make_batch, pad
from dragoman.model.build import Model
from dragoman.text.metrics import gleu
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.cost import training_flops
from dragoman.training.distributed import SINGLE, DistContext
from dragoman.training.gradients import GRADIENTS, Gradients


class MinimumRiskGradients(Gradients):
    """The gradients of the risk over K samples for each of B sentences.

    The samples of a sentence are consecutive rows.
    """

    def __init__(
        self,
        model: Model,
        config: Config,
        device: torch.device,
        target: Vocabulary,
        ranks: DistContext = SINGLE,
    ):
        super().__init__(model, config, device, ranks)
        self._training = config.training
        self._longest = config.data.max_length
        self._target = target
        self._sample_flops = 0.0

    def zero(self) -> None:
        super().zero()
        self._sample_flops = 0.0

    def flops(self, batches: Sequence[Batch]) -> float:
        # The base class counts the pass over the references only.
        return super().flops(batches) + self._sample_flops

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        likelihood, nll = super().losses(batch)
        weights = torch.from_numpy(batch.target_lengths).to(self._device)
        # The risk's gradient grows with α, so the likelihood is scaled by α as well.
        share = self._training.mrt_sharpness * self._training.mrt_likelihood
        return (self._risk(batch) * weights).sum() + share * likelihood, nll

    def _risk(self, batch: Batch) -> Tensor:
        """Return the expected cost of each sentence. (B,)"""
        count, pad_id = self._training.mrt_samples, self._target.pad
        source = torch.from_numpy(batch.source).to(self._device)
        max_length = min(2 * batch.target_in.shape[1], self._longest)
        # Sample without dropout: the samples must come from the model that search would use.
        self._model.eval()
        translations = draw(self._model, source, count, max_length, self._target)
        self._model.train()
        sources = np.repeat(batch.source, count, axis=0)
        lengths = np.repeat(batch.source_lengths, count)
        samples = make_batch(
            sources,
            lengths,
            pad(translations, pad_id),
            np.array([*map(len, translations)]),
            self._target,
        )
        # Sampling costs one forward pass, a third of a training pass, and comes on top of it.
        self._sample_flops += training_flops(self._model, samples) * 4 / 3
        references = [
            row[: n - 1].tolist()  # without the end
            for row, n in zip(batch.target_out, batch.target_lengths, strict=True)
        ]
        costs = torch.tensor(
            [1 - gleu(y, references[i // count]) for i, y in enumerate(translations)],
            device=self._device,
        )
        scores = self._training.mrt_sharpness * self._log_probs(samples)
        return expected_cost(scores.view(-1, count), costs.view(-1, count))

    def _log_probs(self, samples: Batch) -> Tensor:
        """Return log p of each translation, the end included. (B*K,)"""
        hidden, targets = self.forward(samples)
        # The hidden states come packed, without padding: one row for each real token. (N,)
        token_log_probs = -F.cross_entropy(
            self._model.logits(hidden).float(), targets, reduction="none"
        )
        positions = torch.from_numpy(samples.real).to(self._device)
        # Scatter them back into rows; padding stays 0 and adds nothing to a row's sum.
        return (
            token_log_probs.new_zeros(samples.target_in.size)
            .scatter(0, positions, token_log_probs)
            .view(samples.target_in.shape)
            .sum(dim=1)
        )


GRADIENTS["mrt"] = MinimumRiskGradients


def expected_cost(scores: Tensor, costs: Tensor) -> Tensor:
    """Return Σ Q cost over the last dimension, with Q = softmax of the scores."""
    return (torch.softmax(scores, dim=-1) * costs).sum(dim=-1)


@torch.no_grad()
def draw(
    model: Model, source: Tensor, count: int, max_length: int, target: Vocabulary
) -> list[list[int]]:
    """Sample `count` translations of each source, in consecutive rows, without their ends."""
    state = model.start(source)
    parents = np.repeat(np.arange(len(source)), count)
    translations: list[list[int]] = [[] for _ in parents]
    live = np.arange(len(translations))
    tokens = torch.full((len(translations),), target.bos, device=source.device)
    never = torch.tensor(target.never, device=source.device)
    for _ in range(max_length):
        # The first selection copies each source `count` times; later ones drop finished rows.
        state = state.select(parents)
        hidden, _ = model.step(state, tokens, None)
        # Renormalize over the tokens that a translation may contain. (R, V)
        probabilities = torch.softmax(
            model.logits(hidden).float().index_fill(1, never, -torch.inf), dim=-1
        )
        tokens = torch.multinomial(probabilities, 1)[:, 0]
        chosen = tokens.cpu().numpy()
        parents = np.flatnonzero(chosen != target.eos)
        if not len(parents):
            break
        live, tokens = live[parents], tokens[torch.from_numpy(parents).to(tokens.device)]
        for row, token in zip(live, chosen[parents], strict=True):
            translations[row].append(int(token))
    return translations
