"""Operators of our own for ONNX Runtime, in C, for x86 with AVX2 or AVX-512 and for Arm with dot
products.

They do in one pass over memory what ONNX Runtime's do in several, and their products are faster.
`library` loads them and lays weights out for them, `blocks` makes nodes of them. They are compiled
when the package is installed. Where there is no compiler, or on another CPU, graphs are made of
ONNX Runtime's own operators instead.

    Product             x W + b for x and W in bytes, the result in float
    FeedForward         two of them with ReLU between
    SumNorm             a residual sum, its layer norm, and this in bytes
    PackedAttention     of sentences that lie end to end, each to itself, without padding
    AttentionToPast     of one position to those before it, which it joins
    AttentionToSource   of the hypotheses of a sentence to its source
    Best                the largest log-probabilities of each row

Products in bytes are exact, so they equal ONNX Runtime's to the last bit. Sums in float differ in
their last bits.
"""
