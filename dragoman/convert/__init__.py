"""Converters: the fast ONNX engine for CPUs, CTranslate2, Hugging Face."""
