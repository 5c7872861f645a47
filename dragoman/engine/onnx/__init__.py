"""The Transformer as ONNX graphs, built in memory from settings and weights: no graph is ever read
from a file."""
