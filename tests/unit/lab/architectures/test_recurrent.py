import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.lab.architectures.recurrent import CELLS, Gnmt, Recurrence, Rnn, RnnAttention
from tests.conftest import small_model

SOURCE = torch.tensor([[5, 9, 11, 6, 3], [7, 8, 4, 10, 3]])
TARGET = torch.tensor([[2, 7, 12, 5], [2, 8, 4, 9]])


def torchs(cell: str, layers: list[Recurrence], bidirectional: bool = False) -> nn.LSTM | nn.GRU:
    """Return torch's own stack with the weights of these layers."""
    first = layers[0].rnn
    whole = CELLS[cell](
        first.input_size,
        first.hidden_size,
        len(layers),
        batch_first=True,
        bidirectional=bidirectional,
        dtype=torch.float64,
    )
    with torch.no_grad():
        for number, layer in enumerate(layers):
            for name, weight in layer.rnn.named_parameters():
                getattr(whole, name.replace("_l0", f"_l{number}")).copy_(weight)
    return whole


@pytest.mark.parametrize("cell", CELLS)
def test_the_rnn_equals_torchs_with_the_encoders_last_state_at_every_word(cell: str) -> None:
    model: Rnn = small_model(model__architecture="rnn", model__cell=cell).double()
    memory, last = torchs(cell, model.encoder)(model.source_embedding(SOURCE))
    vector = (last[0] if cell == "lstm" else last)[-1]  # of the top layer: (B, D)
    torch.testing.assert_close(model.encoder_states(SOURCE)[0], memory)
    words = torch.cat([model.target_embedding(TARGET), vector[:, None].expand(-1, 4, -1)], dim=-1)
    torch.testing.assert_close(model(SOURCE, TARGET), torchs(cell, model.decoder)(words)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_the_rnn_with_attention_equals_torchs_in_both_directions(cell: str) -> None:
    model: RnnAttention = small_model(
        model__architecture="rnn-attention", model__cell=cell
    ).double()
    memory, _ = torchs(cell, model.encoder, bidirectional=True)(model.source_embedding(SOURCE))
    torch.testing.assert_close(model.encoder_states(SOURCE)[0], memory)
    # (layers, B, D)
    first = torch.tanh(model.bridge(memory.mean(dim=1))).view(2, 2, 32).transpose(0, 1).contiguous()
    start = (first, torch.zeros_like(first)) if cell == "lstm" else first
    h, _ = torchs(cell, model.decoder)(model.target_embedding(TARGET), start)
    context = model.attention(h, model.attention.keys_values(memory))
    torch.testing.assert_close(
        model(SOURCE, TARGET), torch.tanh(model.join(torch.cat([h, context], dim=-1)))
    )


def test_gnmt_has_residual_layers_that_all_get_the_context() -> None:
    model: Gnmt = small_model(
        model__architecture="gnmt", model__num_encoder_layers=3, model__num_decoder_layers=3
    ).double()  # fmt: skip
    memory = model.encoder[0].rnn(model.source_embedding(SOURCE))[0]
    for layer in model.encoder[1:]:
        memory = memory + layer.rnn(memory)[0]
    x = model.decoder[0].rnn(model.target_embedding(TARGET))[0]
    context = model.attention(x, model.attention.keys_values(memory))
    for layer in model.decoder[1:]:
        x = x + layer.rnn(torch.cat([x, context], dim=-1))[0]
    torch.testing.assert_close(model(SOURCE, TARGET), x)


def test_the_rnns_decoder_sees_one_vector_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise in the encoder's states before the last one leaves the outputs unchanged."""
    model: Rnn = small_model(model__architecture="rnn")
    _, given = model.encode(SOURCE)
    assert [tuple(tensor.shape) for tensor in given] == [(2, 32)]
    before = model(SOURCE, TARGET)
    (memory, mask) = model.encoder_states(SOURCE)
    noise = torch.randn_like(memory)
    noise[:, -1] = 0
    monkeypatch.setattr(model, "encoder_states", lambda source: (memory + noise, mask))
    assert torch.equal(model(SOURCE, TARGET), before)
    noise[:, -1] = 1
    assert not torch.allclose(model(SOURCE, TARGET), before)


def test_an_lstm_starts_with_open_forget_gates() -> None:
    biases = dict(Recurrence("lstm", 8, 8).rnn.named_parameters())
    # torch's order of gates: input, forget, ...
    assert torch.equal(biases["bias_ih_l0"].chunk(4)[1], torch.ones(8))


def packed(layer: Recurrence, x: Tensor, real: Tensor) -> Tensor:
    """Read sentences as packed sequences, for which torch needs the lengths on the host."""
    lengths = real.sum(dim=1).cpu()
    sequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, _ = pad_packed_sequence(layer.rnn(sequence)[0], batch_first=True, total_length=x.shape[1])
    return y


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_reading_sentences_equals_torchs_packed_sequences(cell: str, bidirectional: bool) -> None:
    """The outputs are equal, and so are the gradients of inputs and weights."""
    torch.manual_seed(1)
    layer = Recurrence(cell, 24, 32, bidirectional)
    real = torch.arange(9) < torch.tensor([3, 9, 1, 7])[:, None]
    x = torch.randn(4, 9, 24, requires_grad=True)
    direction = torch.randn(4, 9, 32)
    ours = layer.read(x, real)
    theirs = packed(layer, x, real)
    torch.testing.assert_close(ours, theirs)
    leaves = [x, *layer.parameters()]
    for a, b in zip(
        torch.autograd.grad(ours, leaves, direction),
        torch.autograd.grad(theirs, leaves, direction),
        strict=True,
    ):
        torch.testing.assert_close(a, b)
