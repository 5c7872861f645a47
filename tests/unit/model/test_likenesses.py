"""Parts of the Transformer equal the methods that the notes compare them to."""

import torch
import torch.nn.functional as F

from dragoman.lab.transformer_variants import NarrowHeads
from dragoman.model.layers import FeedForward
from tests.conftest import small_config


def test_the_feed_forward_network_is_two_convolutions_of_width_one() -> None:
    network = FeedForward(small_config().model).double()
    x = torch.randn(2, 7, 32, dtype=torch.float64)
    y = x.transpose(1, 2)  # features first, as convolutions have it
    for layer, after in ((network.inner, F.relu), (network.outer, lambda y: y)):
        y = after(F.conv1d(y, layer.weight[:, :, None], layer.bias))
    torch.testing.assert_close(network(x), y.transpose(1, 2))


def test_narrow_heads_project_by_a_grouped_convolution() -> None:
    heads, features = 4, 8
    narrow = NarrowHeads(heads * features, heads).double()
    torch.nn.init.normal_(narrow.bias)
    x = torch.randn(2, 7, 32, dtype=torch.float64)
    kernel = narrow.weight[0].transpose(1, 2).flatten(0, 1)[:, :, None]  # (H*K, K, 1)
    y = F.conv1d(x.transpose(1, 2), kernel, narrow.bias[0].flatten(), groups=heads)
    torch.testing.assert_close(narrow.queries(x).transpose(1, 2).flatten(2), y.transpose(1, 2))
