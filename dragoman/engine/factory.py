"""Choose and create the engine for a bundle.

Engines are imported on use, so importing this module loads neither torch nor ONNX Runtime.
"""

from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from dragoman.bundle.adapter import GATE
from dragoman.bundle.folder import ONNX, Bundle
from dragoman.engine.gpus import LazyEngine, can_load_lazily
from dragoman.engine.protocol import Engine
from dragoman.errors import ConfigError, needs_torch

ENGINES = ("auto", ONNX, "torch")


def make_engine(
    bundle: Bundle, device: str, engine: str = "auto", threads: int = 0, later: bool = False
) -> Engine:
    """Create the engine for a bundle.

    "auto" chooses ONNX Runtime for a bundle made for it, or if torch is missing, but never for a
    GPU. With `later`, an engine on a GPU may be loaded when it is first needed.
    """
    if later and engine != ONNX and can_load_lazily(bundle, device):
        make = partial(make_engine, device=device, engine=engine, threads=threads)
        return LazyEngine(bundle, make)  # type: ignore[abstract]  # search uses its `ready`
    if engine not in ENGINES:
        raise ConfigError(f"engine {engine!r} is unknown; it can be {', '.join(ENGINES)}.")
    if bundle.adapter is None or bundle.gate is None:
        return _engine(bundle.merged(), device, engine, threads)
    # A gated adapter needs both models. If it leaves the encoder alone, they share one.
    model = _engine(replace(bundle, adapter=None), device, engine, threads)
    only_decoder = all(name.startswith("decoder.") for name in bundle.adapter if name != GATE)
    adapted = _engine(bundle.merged(), device, engine, threads, model if only_decoder else None)
    from dragoman.engine.adapter_routing import AdapterRouter  # few bundles have a gate

    return AdapterRouter(model, adapted, bundle.gate)


def _engine(
    bundle: Bundle, device: str, engine: str, threads: int, encoder: Engine | None = None
) -> Engine:
    """Create an engine; `encoder` is an engine whose encoder it can share."""
    if engine == ONNX or (engine == "auto" and device in ("auto", "cpu") and _suits_onnx(bundle)):
        if device not in ("auto", "cpu"):
            raise ConfigError(
                f"the ONNX engine runs on the CPU only, not on {device}: drop --engine or --device."
            )
        from dragoman.engine.onnx_engine import OnnxEngine

        return OnnxEngine(bundle, threads, encoder if isinstance(encoder, OnnxEngine) else None)
    # Importing torch takes seconds, so only do it for this engine.
    with needs_torch():
        import torch

        from dragoman.engine.torch_engine import TorchEngine
    if threads:
        torch.set_num_threads(threads)
    return TorchEngine.from_bundle(bundle, device)


def _suits_onnx(bundle: Bundle) -> bool:
    if bundle.engine == ONNX or find_spec("torch") is not None:
        return bundle.engine == ONNX
    from dragoman.engine.onnx.graphs import beyond_graphs

    return not beyond_graphs(bundle.config.model)
