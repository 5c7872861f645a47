"""Which engine runs a bundle. Engines are imported on use: importing this imports neither torch nor ONNX Runtime."""

from dragoman.bundle import Bundle
from dragoman.engine.interface import Engine
from dragoman.errors import ConfigError, needs_torch

ENGINES = ("auto", "onnx", "torch")


def make_engine(bundle: Bundle, device: str, engine: str = "auto", threads: int = 0) -> Engine:
    """With "auto": ONNX Runtime where the bundle has graphs for it and nobody asked for a GPU, else torch."""
    if engine not in ENGINES:
        raise ConfigError(f"engine {engine!r} is unknown; it can be {', '.join(ENGINES)}.")
    if engine == "onnx" or (engine == "auto" and bundle.graphs and device in ("auto", "cpu")):
        if device not in ("auto", "cpu"):
            raise ConfigError(f"the ONNX engine runs on the CPU, not on {device}: leave out --engine or --device.")
        from dragoman.engine.onnx_engine import OnnxEngine

        return OnnxEngine(bundle, threads)
    with needs_torch():
        import torch

        from dragoman.engine.torch_engine import TorchEngine
    if threads:
        torch.set_num_threads(threads)
    return TorchEngine.from_bundle(bundle, device)
