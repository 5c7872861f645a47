"""Converters: the ONNX engine for CPUs, CTranslate2, Hugging Face, Marian, and the browser."""
