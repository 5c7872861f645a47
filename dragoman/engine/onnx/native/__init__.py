"""Our own operators for ONNX Runtime, in C: for x86 with AVX2 or AVX-512, and for Arm with dot
products.

They need one pass over memory where ONNX Runtime's operators need several, and their products are
faster. They are compiled when the package is installed. `library` loads them and packs weights for
them; `native_blocks` builds graphs with them. Without a compiler, or on another CPU, graphs use the
operators of ONNX Runtime.

    Product             x W + b for x and W in bytes; the result is in float
    FeedForward         two products with ReLU between them
    SumNorm             a residual sum, its layer norm, and the norm in bytes
    PackedAttention     self-attention of sentences laid end to end, without padding
    AttentionToPast     attention of one position to earlier ones; it is appended to the cache
    AttentionToSource   attention of the hypotheses of a sentence to its source
    Best                the largest log-probabilities of each row

Products in bytes are exact, so they equal ONNX Runtime's to the last bit. Sums in float differ in
their last bits.
"""
