"""Interventions: change a model or its input and observe the effect.

    S source subwords, T target subwords (with the end), V vocabulary, L layers, H heads.

Nothing is simulated: hooks change the modules, and the changed model computes every number. A head
that is switched off adds nothing to the sum over the heads; a layer that is switched off returns
its input.

    encoder.0.head.2   decoder.1.head.0   cross.1.head.3      one head
    encoder.3          decoder.1                              a whole layer
    encoder.3.network  decoder.1.network                      its feed-forward network
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.decode.search.hypotheses import OnStep
from dragoman.errors import TranslationError
from dragoman.inspect.words import Axis, piece_label

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from dragoman.engine.torch_engine import TorchEngine
    from dragoman.lab.explain.trace import Trace

_PART = re.compile(r"(encoder|decoder|cross)\.(\d+)(?:\.head\.(\d+)|\.(network))?$")
_LISTED = 5  # subwords shown for each layer of the logit lens


@dataclass(frozen=True)
class Intervention:
    """Describes a change. Positions and words count from 0."""

    off: tuple[str, ...] = ()  # parts to switch off
    swap: tuple[int, int] | None = None  # two words of the source
    places: Mapping[int, int] = field(default_factory=dict)  # source subword to new position
    say: tuple[str, ...] = ()  # subwords that the translation must begin with
    temperature: float = 0.0  # 0: the most likely subword each time
    top_k: int = 0  # subwords to sample from; 0: all
    seed: int = 1
    study: bool = False  # also the importance of each head, and one gradient step

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return replace(self, study=False) != Intervention()


def clone_engine(engine: "TorchEngine", on_step: OnStep | None = None) -> "TorchEngine":
    """Copy an engine, so that changes to its model affect no other user.

    The copy calls `on_step` before each layer; an exception from it ends the work.
    """
    # Hooks belong to a module: on the shared model they would change the answers of other requests.
    model: Any = copy.deepcopy(engine.model)
    if on_step is not None:
        for layer in (*getattr(model, "encoder", ()), *getattr(model, "decoder", ())):
            layer.register_forward_pre_hook(lambda *_: on_step())
    return type(engine)(model, engine.source, engine.target, engine.device)


def parse_part(model: "nn.Module", name: str) -> tuple[str, int, int | None, bool]:
    """Parse the name of a part into stack, layer, head, and whether it is the network."""
    match = _PART.match(name)
    if match is None:
        raise TranslationError(
            f"{name!r} is not a part of a model: expected a name such as encoder.0.head.2, "
            "cross.1.head.0, decoder.1 or encoder.0.network."
        )
    stack, layer = match[1], int(match[2])
    where = "decoder" if stack == "cross" else stack
    layers = getattr(model, where, ())
    if layer >= len(layers):
        raise TranslationError(f"{name}: the {where} has {len(layers)} layers, numbered from 0.")
    head = int(match[3]) if match[3] else None
    config: Any = model.config
    if head is not None and head >= config.num_heads:
        raise TranslationError(f"{name}: a layer has {config.num_heads} heads, numbered from 0.")
    if stack == "cross" and head is None:
        raise TranslationError(
            f"{name}: cross-attention needs a head, such as cross.{layer}.head.0."
        )
    return stack, layer, head, bool(match[4])


@contextmanager
def intervened(model: "nn.Module", change: Intervention) -> Iterator[None]:
    """Apply the change to the model, and undo it on exit."""
    config: Any = model.config
    # Without a change any architecture will do: the page then only shows the forward pass.
    if change and config.architecture != "transformer":
        raise TranslationError("interventions need an encoder-decoder Transformer.")
    handles: list[Any] = []
    try:
        for name in change.off:
            handles.append(_switch_off(model, name))
        if change.places:
            handles.append(_move(model, change.places))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _switch_off(model: "nn.Module", name: str) -> "torch.utils.hooks.RemovableHandle":
    stack, number, head, network = parse_part(model, name)
    layer = getattr(model, "decoder" if stack == "cross" else stack)[number]
    if network:
        if layer.feed_forward is None:
            raise TranslationError(f"{name}: this model has no feed-forward networks.")
        return layer.feed_forward.register_forward_hook(lambda _, x, y: y.new_zeros(y.shape))  # type: ignore[no-any-return]
    if head is None:
        return layer.register_forward_hook(lambda _, given, y: given[0])  # type: ignore[no-any-return]
    return _without_heads(layer, stack, name, [(slice(None), head)])


def _without_heads(
    layer: Any, stack: str, name: str, off: Sequence[tuple[int | slice, int]]
) -> "torch.utils.hooks.RemovableHandle":
    """Switch heads off; `off` pairs rows of a batch with the head to switch off there."""
    project = (layer.cross if stack == "cross" else layer.attention).project
    if not hasattr(project, "to_out"):
        raise TranslationError(f"{name}: a head without projections cannot be switched off.")

    def without(_: object, given: tuple["Tensor"]) -> tuple["Tensor"]:
        # Inputs of a hook may be views of tensors that others read.
        joined = given[0].clone()  # (B, T, H*K)
        for rows, head in off:
            joined[rows, :, head * project.features : (head + 1) * project.features] = 0
        return (joined,)

    # The output projection sums over the heads, so a head's share of its input is the head.
    handle: torch.utils.hooks.RemovableHandle = project.to_out.register_forward_pre_hook(without)
    return handle


def _move(model: "nn.Module", places: Mapping[int, int]) -> "torch.utils.hooks.RemovableHandle":
    """Give some subwords of the source the vectors of other positions."""
    positions: Any = getattr(model, "source_embedding").positions  # noqa: B009
    if not hasattr(positions, "vectors"):
        raise TranslationError("this model adds no position vectors, so none can be moved.")

    def moved(module: Any, given: tuple[Any, ...], result: "Tensor") -> "Tensor":
        x, result = given[0], result.clone()
        for piece, place in places.items():
            if not 0 <= piece < x.shape[1] or place < 0:
                raise TranslationError(
                    f"subword {piece} cannot move to position {place}: the source has "
                    f"{x.shape[1]} subwords, numbered from 0."
                )
            # Call `forward` itself, because calling the module would run this hook again.
            result[:, piece] = module.forward(x[:, piece : piece + 1], place)[:, 0]
        return result

    handle: torch.utils.hooks.RemovableHandle = positions.register_forward_hook(moved)
    return handle


def swap_words(pieces: Sequence[str], ids: Sequence[int], words: tuple[int, int]) -> list[int]:
    """Swap two words of a source, given as ids.

    >>> swap_words(["▁a", "▁b", "c", "▁d"], [5, 6, 7, 8], (0, 1))
    [6, 7, 5, 8]
    """
    # A dict keeps the order of the words, so swapping two values swaps their positions.
    of_word = Axis.of(list(pieces)).words
    groups: dict[int, list[int]] = {}
    for number, piece in zip(of_word, ids, strict=True):
        groups.setdefault(number, []).append(piece)
    first, second = words
    if first not in groups or second not in groups:
        raise TranslationError(
            f"words {first} and {second} cannot be swapped: the source has {len(groups)} words, "
            "numbered from 0."
        )
    # Words of several pieces move as a whole.
    groups[first], groups[second] = groups[second], groups[first]
    return [piece for number in groups for piece in groups[number]]


def regenerate(
    engine: "TorchEngine",
    source: Sequence[int],
    start: Sequence[int],
    change: Intervention,
    most: int,
    on_step: OnStep | None = None,
) -> list[int]:
    """Continue `start` greedily or by sampling, and return the ids without the end.

    `most` limits their number. It calls `on_step` before each of them; an exception from it ends
    the work.
    """
    generator = np.random.default_rng(change.seed)
    vocabulary = engine.target
    state = engine.start([list(source)])
    ids: list[int] = []
    rows, token = np.zeros(1, np.int64), vocabulary.bos
    while len(ids) < most:
        if on_step is not None:
            on_step()
        # Run the model for forced subwords too: later ones depend on its state.
        step = engine.step(state, rows, np.array([token]), None)
        state = step.state
        forced = len(ids) < len(start)
        token = start[len(ids)] if forced else _next(step.log_probs[0], change, generator)
        if token == vocabulary.eos:
            break
        ids.append(token)
    return ids


def _next(log_probs: np.ndarray, change: Intervention, generator: np.random.Generator) -> int:
    if not change.temperature:
        return int(log_probs.argmax())
    # In float64, because the probabilities must add up to 1 closely enough for NumPy.
    scores = log_probs.astype(np.float64) / change.temperature
    if change.top_k:
        # Equal scores at the limit all stay.
        scores[scores < np.sort(scores)[-change.top_k]] = -np.inf
    probabilities = np.exp(scores - scores.max())
    return int(generator.choice(len(probabilities), p=probabilities / probabilities.sum()))


def logit_lens(
    engine: "TorchEngine", trace: "Trace", target_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Decode the output of each decoder layer as if it were the last (nostalgebraist 2020).

    Return, for each layer and step, the best subwords and the probability of the chosen one.
    """
    import torch

    model: Any = engine.model
    layers = []
    with torch.inference_mode():
        for number in range(len(model.decoder)):
            # The final norm belongs to the output layer: its weights expect normalized vectors.
            hidden = model.decoder_norm(trace.calls[f"decoder.{number}"][-1].result)
            probabilities = torch.softmax(model.logits(hidden)[0].float(), dim=-1)  # (T, V)
            best = probabilities.topk(_LISTED, dim=-1)
            layers.append(
                {
                    "pieces": [
                        [piece_label(engine.target.pieces[i]) for i in row]
                        for row in best.indices.tolist()
                    ],
                    "chances": [[round(p, 5) for p in row] for row in best.values.tolist()],
                    "said": [
                        round(float(row[i]), 5)
                        for row, i in zip(probabilities, target_ids, strict=True)
                    ],
                }
            )
    return layers


def head_importance(
    engine: "TorchEngine",
    source: Sequence[int],
    target: Sequence[int],
    on_step: OnStep | None = None,
) -> dict[str, list[list[float]]]:
    """Return the log-probability that the translation loses without each head.

    Each kind of attention has a list of layers, each with a number per head. One batch covers the
    heads of a layer: each row runs without one of them.
    """
    engine = clone_engine(engine, on_step)
    model: Any = engine.model
    complete = float(engine.score([source], [target])[0].sum())
    losses: dict[str, list[list[float]]] = {}
    heads = range(model.config.num_heads)
    for kind in ("encoder", "decoder", "cross"):
        losses[kind] = []
        for number, layer in enumerate(model.encoder if kind == "encoder" else model.decoder):
            name = f"{kind}.{number}.head"
            # Row r of the batch runs without head r, so one pass covers a whole layer.
            handle = _without_heads(layer, kind, name, [(head, head) for head in heads])
            try:
                without = engine.score([source] * len(heads), [target] * len(heads))
            finally:
                handle.remove()
            losses[kind].append([round(complete - float(row.sum()), 4) for row in without])
    return losses


def gradient_step(
    engine: "TorchEngine",
    source: Sequence[int],
    target: Sequence[int],
    rate: float,
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """Take one gradient step on this pair, θ ← θ - rate·∇, on a copy of the model.

    The loss is the mean over the subwords of the translation, the end included. Return the norm of
    the gradient for each layer and the log-probabilities before and after the step.
    """
    import torch
    import torch.nn.functional as F

    from dragoman.data.batches import collate

    model: Any = clone_engine(engine, on_step).model.requires_grad_(True)
    batch = collate([source], [target], engine.source, engine.target)
    ids, shifted, targets = (
        torch.from_numpy(array).to(engine.device)
        for array in (batch.source, batch.target_in, batch.target_out)
    )

    def log_probs() -> "Tensor":
        log_softmax = F.log_softmax(model.logits(model(ids, shifted)).float(), dim=-1)
        return log_softmax.gather(2, targets[..., None])[0, :, 0]  # (T,)

    # The caller may run in inference mode, which records no gradients.
    with torch.enable_grad():
        before = log_probs()
        loss = -before.mean()
        loss.backward()  # type: ignore[no-untyped-call]
    norms: dict[str, float] = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.grad is None:
                continue
            layer = re.match(r"(encoder|decoder)\.\d+", name)
            part = layer[0] if layer else name.split(".")[0]
            # Squares add up over the tensors of a layer; the root comes at the end.
            norms[part] = norms.get(part, 0.0) + float(parameter.grad.square().sum())
            parameter -= rate * parameter.grad
        after = log_probs()
    return {
        "rate": rate,
        "loss": [float(loss.detach()), float(-after.mean())],
        "norms": {name: round(square**0.5, 6) for name, square in norms.items()},
        "before": [round(float(value), 5) for value in before.detach()],
        "after": [round(float(value), 5) for value in after],
        "pieces": [piece_label(engine.target.pieces[i]) for i in [*target, engine.target.eos]],
    }
