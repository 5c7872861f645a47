"""Minimum risk: train on the score of the model's own translations.

(Shen et al. 2016; the second loss of Wu et al. 2016.)

For a source x, translations y1 ... yK are drawn from the model, and the loss is what they lack of
the score on average:

    R = Σ_k Q_k (1 - GLEU(y_k, reference))       Q_k = p(y_k|x)^α / Σ_j p(y_j|x)^α

Its gradient is Σ_k α Q_k (cost_k - R) ∇log p(y_k|x): what is better than the average becomes
likelier. What was drawn twice counts twice, so for a small α (`training.mrt_sharpness`) this is α
times the gradient of the expected cost, with the mean of the draws as its baseline; with a larger α
the likelier ones count more. Likelihood is mixed in to hold the model where it came from, on the
same scale: loss = R + α λ likelihood. A sentence weighs as many tokens as its reference has. GLEU
is taken over pieces.

Any architecture will do: translations are drawn by `start` and `step`, without dropout, and their
probabilities come from `forward`. Attention that is trained straight-through gives its surrogate's
gradient here as well.
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
from dragoman.training.gradients import Gradients


class MinimumRiskGradients(Gradients):
    """Samples K translations for each of B sentences.

    The samples of a sentence are adjacent.
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
        self._flops_of_drawn = 0.0

    def zero(self) -> None:
        super().zero()
        self._flops_of_drawn = 0.0

    def flops(self, batches: Sequence[Batch]) -> float:
        return super().flops(batches) + self._flops_of_drawn

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        likelihood, nll = super().losses(batch)
        weights = torch.from_numpy(batch.target_lengths).to(self._device)
        share = self._training.mrt_sharpness * self._training.mrt_likelihood
        return (self._risk(batch) * weights).sum() + share * likelihood, nll

    def _risk(self, batch: Batch) -> Tensor:
        """(B,)"""
        count, pad_id = self._training.mrt_samples, self._target.pad
        source = torch.from_numpy(batch.source).to(self._device)
        longest = min(2 * batch.target_in.shape[1], self._longest)
        self._model.eval()
        translations = draw(self._model, source, count, longest, self._target)
        self._model.train()
        sources = np.repeat(batch.source, count, axis=0)
        lengths = np.repeat(batch.source_lengths, count)
        drawn = make_batch(
            sources,
            lengths,
            pad(translations, pad_id),
            np.array([*map(len, translations)]),
            self._target,
        )
        # a third for drawing them
        self._flops_of_drawn += training_flops(self._model, drawn) * 4 / 3
        references = [
            row[: n - 1].tolist()
            for row, n in zip(batch.target_out, batch.target_lengths, strict=True)
        ]
        costs = torch.tensor(
            [1 - gleu(y, references[i // count]) for i, y in enumerate(translations)],
            device=self._device,
        )
        scores = self._training.mrt_sharpness * self._log_probs(drawn)
        return expected_cost(scores.view(-1, count), costs.view(-1, count))

    def _log_probs(self, drawn: Batch) -> Tensor:
        """log p of each translation, its end included. (B*K,)"""
        hidden, targets = self.forward(drawn)
        # (N,)
        each = -F.cross_entropy(self._model.logits(hidden).float(), targets, reduction="none")
        places = torch.from_numpy(drawn.real).to(self._device)
        return (
            each.new_zeros(drawn.target_in.size)
            .scatter(0, places, each)
            .view(drawn.target_in.shape)
            .sum(dim=1)
        )


def expected_cost(scores: Tensor, costs: Tensor) -> Tensor:
    """Σ Q cost with Q = softmax of the scores, over the last dimension."""
    return (torch.softmax(scores, dim=-1) * costs).sum(dim=-1)


@torch.no_grad()
def draw(
    model: Model, source: Tensor, count: int, longest: int, target: Vocabulary
) -> list[list[int]]:
    """`count` translations of each source, without their ends.

    Those of one sentence lie one behind the other.
    """
    state = model.start(source)
    parents = np.repeat(np.arange(len(source)), count)
    translations: list[list[int]] = [[] for _ in parents]
    live = np.arange(len(translations))
    tokens = torch.full((len(translations),), target.bos, device=source.device)
    never = torch.tensor(target.never, device=source.device)
    for _ in range(longest):
        state = state.select(parents)
        hidden, _ = model.step(state, tokens, None)
        # (R, V)
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
