import math

import torch

from dragoman.lab.architectures.convolutional import ConvS2S
from tests.conftest import small_model

SOURCE = torch.tensor([[5, 9, 11, 6, 3], [7, 8, 4, 10, 3]])
TARGET = torch.tensor([[2, 7, 12, 5], [2, 8, 4, 9]])
HALF = math.sqrt(0.5)


def convolved(x: torch.Tensor, layer: torch.nn.Conv1d, before: int) -> torch.Tensor:
    """Compute GLU(Σi W_i x_(t+i-before)) position by position."""
    _, time, width = x.shape
    outputs = []
    for t in range(time):
        total = layer.bias.expand(len(x), -1)
        for i in range(layer.kernel_size[0]):
            if 0 <= t + i - before < time:
                total = total + x[:, t + i - before] @ layer.weight[:, :, i].T
        outputs.append(total[:, :width] * torch.sigmoid(total[:, width:]))
    return torch.stack(outputs, dim=1)


def test_convs2s_equals_its_formula() -> None:
    model: ConvS2S = small_model(model__architecture="convs2s", model__kernel_width=3).double()
    e = model.source_embedding(SOURCE)
    g = model.target_embedding(TARGET)
    z = e
    for layer in model.encoder:
        z = (z + convolved(z, layer.conv, before=1)) * HALF
    torch.testing.assert_close(model.encoder_states(SOURCE)[0], z)
    x = g
    for layer in model.decoder:
        h = convolved(x, layer.convolution.conv, before=2)
        weights = torch.softmax((layer.to_query(h) + g) @ z.transpose(1, 2) / math.sqrt(32), dim=-1)
        context = layer.to_out(math.sqrt(5) * weights @ ((z + e) * HALF))
        x = (x + (h + context) * HALF) * HALF
    torch.testing.assert_close(model(SOURCE, TARGET), x)


def test_a_word_reaches_as_far_as_the_kernels_of_all_layers() -> None:
    """Two encoder layers of width 3 reach two positions to either side."""
    model: ConvS2S = small_model(model__architecture="convs2s", model__kernel_width=3)
    source = torch.arange(4, 15)[None]
    changed = source.clone()
    changed[0, 5] = 20
    differs = (model.encoder_states(source)[0] - model.encoder_states(changed)[0])[0].abs().amax(
        dim=-1
    ) > 1e-6
    assert torch.nonzero(differs)[:, 0].tolist() == [3, 4, 5, 6, 7]


def test_convs2s_learns_as_many_positions_as_the_settings_say() -> None:
    model = small_model(model__architecture="convs2s", model__positions__max_length=300)
    assert model.max_length == 300
    assert model.source_embedding.positions.table.requires_grad
