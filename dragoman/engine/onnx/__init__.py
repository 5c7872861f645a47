"""Build ONNX graphs of the Transformer in memory, from settings and weights; none is read from a
file.
"""
