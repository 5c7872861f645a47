"""Doors to other systems: ONNX graphs for the fast CPU engine, CTranslate2, Hugging Face."""
