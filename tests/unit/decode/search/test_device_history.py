"""Reading the hypotheses of a GPU search on the host, from a history written by hand."""

import numpy as np
import torch

from dragoman.config import DecodingConfig
from dragoman.decode.search.device import Beams, Room
from dragoman.model.build import build_model
from tests.conftest import small_config, vocabulary

END = 3


def test_hypotheses_are_read_from_last_token_to_first() -> None:
    pieces = vocabulary(20)
    model = build_model(small_config().model, pieces, pieces, shared=True).eval()
    beams = Beams(model, pieces, DecodingConfig(beam_size=2), 2, Room(2, 32, 32))
    beams.decoder.steps.fill_(3)
    # One sentence. Step by step: the words of both hypotheses, and whose children they are.
    beams.tokens[0, :, :3] = torch.tensor([[5, 7, 9], [6, 8, 10]])
    beams.parents[0, :, :3] = torch.tensor([[0, 1, 0], [0, 0, 0]])
    beams.log_probs[0, :, :3] = torch.tensor([[-1.0, -3.0, -5.0], [-2.0, -4.0, -6.0]])
    beams.scores.fill_(-torch.inf)
    # One ended after hypothesis 0 of step 2; the other was cut off after hypothesis 1 of step 1.
    beams.scores[0, :2] = torch.tensor([-0.5, -0.25])
    beams.ends[0, :2] = torch.tensor([[2, 0, END], [1, 1, 11]])
    beams.end_log_probs[0, :2] = torch.tensor([-7.0, -8.0])

    (cut, ended), nothing = beams.hypotheses(np.array([0, 1])).unpacked()

    assert (cut.tokens, cut.log_probs, cut.complete) == ((6, 11), (-2.0, -8.0), False)
    assert (ended.tokens, ended.log_probs) == ((6, 7), (-2.0, -3.0, -7.0))
    assert ended.complete
    assert ended.score == -0.5
    assert [h.tokens for h in nothing] == [()]
