"""A Transformer from scratch: learns to translate from two text files, and translates with a beam.

It follows "Attention Is All You Need" (Vaswani et al. 2017), whose sections are named below. One
change: the layer norm comes before each sublayer, not after the residual sum (Xiong et al. 2020),
so that a short warm-up is enough. Read from top to bottom:

    1  Attention                   sections 3.2.1 and 3.2.2
    2  Layers                      sections 3.1 and 3.3
    3  Embeddings and positions    sections 3.4 and 3.5
    4  The model                   section 3.1
    5  Subwords                    section 5.1; Sennrich et al. 2016
    6  Batches                     section 5.1
    7  Loss                        section 5.4; Szegedy et al. 2016
    8  Training                    sections 5.3 and 6.1
    9  Beam search                 section 6.1; Wu et al. 2016
    Appendix                       random orders that follow from a key

Shapes, batch first:

    B  sentences of a batch, or hypotheses of a search    D  features of a word, D = H K
    S  source positions     T  target positions           H  heads, with K features each
    N  target tokens        V  subwords                   F  inner features of a layer

A mask is true where a position may look. Left out is a KV cache: each step of search computes the
earlier words again.

    python examples/transformer_from_scratch.py examples/tatoeba.de.gz examples/tatoeba.en.gz \\
        --translate "Ich bin müde."

It needs PyTorch and SentencePiece. `dragoman train` with the same files, settings and seed has the
same losses and makes the same translations. tests/agree/test_transformer_from_scratch.py compares
them, and lists the settings by both names.
"""

import argparse
import gzip
import io
import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, count, islice
from typing import Any

import torch
import torch.nn.functional as F
from sentencepiece import SentencePieceNormalizer, SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor, nn


def setting(default: float, description: str) -> Any:
    return field(default=default, metadata={"help": description})


@dataclass(frozen=True)
class Settings:
    """All settings. Each is an option of the command line, too."""

    seed: int = setting(1, "seed of all randomness")
    steps: int = setting(2000, "optimizer steps")
    vocab_size: int = setting(2000, "subwords to learn, shared by both languages (V)")
    d_model: int = setting(128, "features of a word (D)")
    num_heads: int = setting(4, "attention heads (H)")
    d_ff: int = setting(512, "inner features of the feed-forward network (F)")
    num_layers: int = setting(2, "layers of the encoder, and of the decoder")
    dropout: float = setting(0.1, "share of features that training sets to zero")
    batch_tokens: int = setting(500, "target tokens in a batch, at most")
    max_length: int = setting(256, "leave out pairs with more subwords than this on a side")
    label_smoothing: float = setting(0.1, "probability that the loss spreads over all subwords")
    learning_rate: float = setting(0.5, "factor on the paper's learning rate")
    warmup_steps: int = setting(400, "steps until the learning rate peaks")
    clip_norm: float = setting(1.0, "largest norm of a step's gradient")
    checkpoint_every: int = setting(50, "steps between checkpoints")
    average: int = setting(5, "last checkpoints to average at the end")
    beam_size: int = setting(4, "hypotheses that search keeps; 1 is greedy search")
    length_penalty: float = setting(0.6, "alpha of the length penalty ((5 + n) / 6)^alpha")


# 1  Attention ------------------------------------------------------------------------------------
#
#     Attention(Q, K, V) = softmax(Q Kᵀ / √K) V
#
# A query asks, each key answers how well it fits, and the output is the mean of the values,
# weighted by the fit. Every position reaches every other in one step, however far away it is.


def attention_by_formula(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """The formula, line by line, for queries (B, H, T, K), keys and values (B, H, S, K)."""
    # Without the root, the products grow with K; the softmax saturates and its gradient vanishes.
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()  # (T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)  # e^-∞ = 0: no weight where none may look
    weights = torch.softmax(scores, dim=-1)  # (B, H, T, S), each row sums to one
    return weights @ v  # (B, H, T, K)


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """The same in one kernel, which never writes the (B, H, T, S) weights to memory."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


attention = fused_attention  # attention_by_formula gives the same, up to rounding


class MultiHeadAttention(nn.Module):
    """MultiHead(x, y) = [head_1; ...; head_H] Wo,  head_h = Attention(x Wq_h, y Wk_h, y Wv_h).

    In self-attention, y is x. In cross-attention, x is the target and y the encoded source.
    """

    def __init__(self, settings: Settings):
        super().__init__()
        self.d_model, self.num_heads = settings.d_model, settings.num_heads
        # Wq, Wk and Wv of all heads form one matrix: self-attention needs all three of the same x,
        # and one large product is faster than many small ones.
        self.to_qkv = nn.Linear(self.d_model, 3 * self.d_model)
        self.to_out = nn.Linear(self.d_model, self.d_model)
        # The range of the first weights depends on a matrix's sides (Glorot and Bengio 2010), so
        # each of the three is drawn by itself.
        for matrix in (*self.to_qkv.weight.split(self.d_model), self.to_out.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.to_qkv, self.to_out):
            nn.init.zeros_(linear.bias)

    def forward(
        self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Each position of x (B, T, D) looks at y (B, S, D), or at x itself. (B, T, D)"""
        d, weight, bias = self.d_model, self.to_qkv.weight, self.to_qkv.bias
        if y is None:
            q, k, v = self.to_qkv(x).split(d, dim=-1)  # (B, T, D) each
        else:
            q = F.linear(x, weight[:d], bias[:d])  # (B, T, D)
            k, v = F.linear(y, weight[d:], bias[d:]).split(d, dim=-1)  # (B, S, D) each
        heads = [z.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for z in (q, k, v)]
        z = attention(*heads, mask, causal)  # (B, H, T, K)
        return self.to_out(z.transpose(1, 2).flatten(2))  # (B, T, D)


# 2  Layers ---------------------------------------------------------------------------------------
#
#     FFN(x) = W2 max(0, W1 x + b1) + b2
#     x + Dropout(Sublayer(LayerNorm(x)))
#
# The sum is a way back for the gradient that no sublayer can block.


class FeedForward(nn.Module):
    """FFN(x), the same at every position. It holds most of a layer's weights."""

    def __init__(self, settings: Settings):
        super().__init__()
        self.inner = nn.Linear(settings.d_model, settings.d_ff)
        self.outer = nn.Linear(settings.d_ff, settings.d_model)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.relu(self.inner(x)))  # (B, T, D) to (B, T, F) to (B, T, D)


class EncoderLayer(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.attention = MultiHeadAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.norm1, self.norm2 = (nn.LayerNorm(settings.d_model) for _ in range(2))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        x = x + self.dropout(self.feed_forward(self.norm2(x)))
        return x  # (B, S, D)


class DecoderLayer(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.attention = MultiHeadAttention(settings)
        self.cross = MultiHeadAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(settings.d_model) for _ in range(3))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        # Causal: no word sees the words after it, which the model is to predict.
        x = x + self.dropout(self.attention(self.norm1(x), causal=True))
        x = x + self.dropout(self.cross(self.norm2(x), memory, mask))
        x = x + self.dropout(self.feed_forward(self.norm3(x)))
        return x  # (B, T, D)


# 3  Embeddings and positions ---------------------------------------------------------------------
#
#     PE(pos, 2i) = sin(pos / 10000^(2i/D)),    PE(pos, 2i + 1) = cos(pos / 10000^(2i/D))
#
# Attention does not see order. Without positions, "dog bites man" would be "man bites dog".


def sinusoids(length: int, d_model: int) -> Tensor:
    """The vector of each position. (T, D)"""
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model  # (D/2,)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000**exponents  # (T, D/2)
    # Stacked and flattened, sines and cosines take turns.
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()  # (T, D)


class Embedding(nn.Module):
    """Dropout(√D E[word] + PE[position])."""

    def __init__(self, vocab_size: int, settings: Settings):
        super().__init__()
        self.words = nn.Embedding(vocab_size, settings.d_model)
        # E is the output matrix, too, and needs small rows there. The root of D brings them back to
        # the size of the sines that are added.
        nn.init.normal_(self.words.weight, std=settings.d_model**-0.5)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) * math.sqrt(self.words.embedding_dim)  # (B, T) to (B, T, D)
        return self.dropout(x + sinusoids(x.shape[1], x.shape[2]))


# 4  The model ------------------------------------------------------------------------------------

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3


class Transformer(nn.Module):
    """p(y_t | y_1 ... y_(t-1), x): the encoder reads the source, the decoder writes the target."""

    def __init__(self, vocab_size: int, settings: Settings):
        super().__init__()
        self.source_embedding = Embedding(vocab_size, settings)
        self.target_embedding = Embedding(vocab_size, settings)
        self.output = nn.Linear(settings.d_model, vocab_size, bias=False)
        nn.init.normal_(self.output.weight, std=settings.d_model**-0.5)
        # Section 3.4: one matrix serves both embeddings and the output. Many subwords occur in both
        # languages, and the model learns each from three sides. (The two matrices that this line
        # drops were drawn to spend as many random numbers as `dragoman train`.)
        self.source_embedding.words.weight = self.output.weight = self.target_embedding.words.weight
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.num_layers))
        # Each sublayer normalizes its input, so the last sum of a stack still needs a norm.
        self.encoder_norm = nn.LayerNorm(settings.d_model)
        self.decoder_norm = nn.LayerNorm(settings.d_model)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a source (B, S) as memory (B, S, D), with a mask that hides padding."""
        mask = (source != PAD)[:, None, None, :]  # (B, 1, 1, S), the same for all heads and queries
        x = self.source_embedding(source)  # (B, S, D)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Turn each target word (B, T) into a vector that predicts the next word. (B, T, D)"""
        x = self.target_embedding(target)  # (B, T, D)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return self.decoder_norm(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, *self.encode(source))


# 5  Subwords -------------------------------------------------------------------------------------
#
# Byte-pair encoding starts from characters and joins the most frequent pair of neighbors, over and
# over, until there are V subwords. A frequent word becomes one subword, a rare one several.


def learn_subwords(lines: Sequence[str], vocab_size: int) -> SentencePieceProcessor:
    # No subword crosses a space, so words and their counts are all that learning needs.
    normalizer = SentencePieceNormalizer(rule_name="nmt_nfkc")
    words = Counter(w for line in lines for w in normalizer.normalize(line).split("▁") if w)
    table, model = (f"{word}\t{times}" for word, times in words.items()), io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=table, input_format="tsv", model_writer=model, model_type="bpe",
        vocab_size=vocab_size, hard_vocab_limit=False,  # a small text has fewer
        byte_fallback=True, character_coverage=0.9999,  # bytes spell the rarest characters
        pad_id=PAD, unk_id=UNKNOWN, bos_id=BEGIN, eos_id=END, minloglevel=2,
    )  # fmt: skip
    return SentencePieceProcessor(model_proto=model.getvalue())


# 6  Batches --------------------------------------------------------------------------------------

Pair = tuple[list[int], list[int]]  # subwords of a source and its end; subwords of its target
WINDOW = 2**18  # pairs that are sorted by length together


def read_lines(path: str) -> list[str]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]


def batches(pairs: Sequence[Pair], settings: Settings) -> Iterator[list[Pair]]:
    """Batches without end, of sentences of similar lengths, so that there is little padding.

    Each epoch shuffles the pairs, sorts them by length, cuts the row into batches and shuffles the
    batches. Sorting keeps pairs of equal length shuffled, so batches differ from epoch to epoch.
    """
    size = len(pairs)
    windows = math.ceil(size / WINDOW)
    for epoch in count():
        keys = list(islice(random_words(settings.seed, epoch), 2 * ROUNDS))
        for window in range(windows):
            places = range(size * window // windows, size * (window + 1) // windows)
            order = [shuffled(i, size, keys[:ROUNDS]) for i in places]
            order = [shuffled(i, size, keys[ROUNDS:]) for i in order]
            order.sort(key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
            cut = cut_by_tokens([pairs[i] for i in order], settings.batch_tokens)
            yield from (cut[i] for i in permutation(len(cut), settings.seed, epoch, window))


def cut_by_tokens(pairs: Sequence[Pair], budget: int) -> list[list[Pair]]:
    """Neighbors in batches of at most `budget` target tokens; a longer pair is a batch itself."""
    cut: list[list[Pair]] = []
    room = 0
    for pair in pairs:
        tokens = len(pair[1]) + 1  # the end is predicted, too
        if tokens > room or not cut:
            cut.append([])
            room = budget
        cut[-1].append(pair)
        room -= tokens
    return cut


def padded(rows: Sequence[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])  # (B, longest)


# 7  Loss -----------------------------------------------------------------------------------------
#
#     loss = (1 - ε) (-log p_y) + ε (1/V) Σ_v (-log p_v)
#
# With ε = 0, this is the negative log-likelihood of the right word y. Label smoothing pulls a
# little towards all words, so that the model never gives one of them the probability 1.


def summed_loss(model: Transformer, batch: Sequence[Pair], smoothing: float) -> Tensor:
    """The loss of a batch, summed over its target tokens."""
    # Teacher forcing: the decoder reads the right words, shifted by one place, and predicts the
    # next word at all places in one pass.
    source = padded([source for source, _ in batch])  # (B, S)
    read = padded([[BEGIN, *target] for _, target in batch])  # (B, T)  <s> y1 ... yn
    right = padded([[*target, END] for _, target in batch])  # (B, T)  y1 ... yn </s>
    real = right != PAD  # (B, T)
    # Padding never meets the output matrix, the largest product of a small model.
    logits = model.output(model(source, read)[real])  # (N, V)
    log_probs = torch.log_softmax(logits, dim=-1)
    nll = -log_probs.gather(1, right[real][:, None])[:, 0]  # (N,)
    return ((1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1)).sum()


# 8  Training -------------------------------------------------------------------------------------
#
#     rate(step) = factor · D^-½ · min(step^-½, step · warmup^-1½)
#
# Up in a line during the warm-up, then down with the root of the step.


def learning_rate(step: int, settings: Settings) -> float:
    slope = min(step**-0.5, step * settings.warmup_steps**-1.5)
    return settings.learning_rate * settings.d_model**-0.5 * slope


def train(
    pairs: Sequence[Pair],
    vocab_size: int,
    settings: Settings,
    report: Callable[[int, float], None],
) -> Transformer:
    """Take the steps, `report` the loss per token of each, and return the averaged model."""
    torch.manual_seed(settings.seed)
    model = Transformer(vocab_size, settings)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    checkpoints = deque[list[Tensor]](maxlen=settings.average)
    for step, batch in enumerate(islice(batches(pairs, settings), settings.steps), start=1):
        # Dropout follows from the seed and the step. (0 is the first part of a step; dragoman cuts
        # a step that is too large for memory into several.)
        torch.manual_seed(seed_words((settings.seed, step, 0), 1)[0])
        tokens = sum(len(target) + 1 for _, target in batch)
        loss = summed_loss(model, batch, settings.label_smoothing)
        optimizer.zero_grad()
        (loss / tokens).backward()
        # One odd batch must not throw the weights far off.
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, settings)
        optimizer.step()
        report(step, loss.item() / tokens)
        if step % settings.checkpoint_every == 0 or step == settings.steps:
            checkpoints.append([weight.detach().double() for weight in model.parameters()])
    # Section 6.1: steps overshoot to all sides, and the mean of the last weights evens that out.
    with torch.no_grad():
        for weight, *last in zip(model.parameters(), *checkpoints, strict=True):
            weight.copy_(sum(last) / len(last))
    return model.eval()


def learn(
    sources: Sequence[str],
    targets: Sequence[str],
    settings: Settings,
    report: Callable[[int, float], None],
) -> tuple[Transformer, SentencePieceProcessor]:
    """A model and its subwords, from lines and their translations."""
    lines = [(s, t) for s, t in zip(sources, targets, strict=True) if s.strip() and t.strip()]
    subwords = learn_subwords([s for s, _ in lines] + [t for _, t in lines], settings.vocab_size)
    pairs = [([*subwords.encode(s), END], subwords.encode(t)) for s, t in lines]
    pairs = [pair for pair in pairs if max(map(len, pair)) <= settings.max_length]
    return train(pairs, subwords.get_piece_size(), settings, report), subwords


# 9  Beam search ----------------------------------------------------------------------------------
#
#     score(y) = log p(y | x) / ((5 + n) / 6)^α,    n subwords with the end
#
# The likeliest sentence need not begin with the likeliest word, so a beam keeps several hypotheses.
# Each further word makes a sentence less likely; the divisor keeps short ones from always winning.


@torch.inference_mode()
def translate(
    text: str, model: Transformer, subwords: SentencePieceProcessor, settings: Settings
) -> tuple[str, float]:
    """The best translation that the beam finds, and its score."""
    beam, source = settings.beam_size, [*subwords.encode(text), END]
    longest = 2 * len(source) + 20
    # Control characters, spelled in bytes, would break a line.
    control = [subwords.piece_to_id(f"<0x{byte:02X}>") for byte in (*range(32), 127)]
    never = [PAD, UNKNOWN, BEGIN, *control]

    def score(log_prob: float, length: int) -> float:
        return log_prob / ((5 + length) / 6) ** settings.length_penalty

    memory, mask = model.encode(torch.tensor([source]))  # (1, S, D)
    alive: list[tuple[float, list[int]]] = [(0.0, [])]  # log-probabilities and subwords, best first
    finished: list[tuple[float, list[int]]] = []  # scores and subwords
    for length in range(1, longest + 1):
        target = torch.tensor([[BEGIN, *words] for _, words in alive])  # (B, T)
        hidden = model.decode(target, memory.expand(len(alive), -1, -1), mask)[:, -1]  # (B, D)
        log_probs = torch.log_softmax(model.output(hidden), dim=-1)  # (B, V)
        log_probs[:, never] = -math.inf
        # One more than the beam: the end may be among them.
        values, ids = (best.tolist() for best in log_probs.topk(beam + 1, dim=-1))
        candidates = [
            (total + value, [*words, word])
            for (total, words), row, row_ids in zip(alive, values, ids, strict=True)
            for value, word in zip(row, row_ids, strict=True)
        ]
        candidates.sort(key=lambda candidate: -candidate[0])
        ended = [(p, words) for p, words in candidates[:beam] if words[-1] == END]
        finished += [(score(p, length), words[:-1]) for p, words in ended]
        alive = [(p, words) for p, words in candidates if words[-1] != END][:beam]
        # A log-probability can only fall, and the divisor is largest for the longest sentence: no
        # living hypothesis can come to more than this.
        hope = score(alive[0][0], longest)
        if len(finished) >= beam or any(reached >= hope for reached, _ in finished):
            break
    else:  # at the largest length, unfinished hypotheses count, too
        finished += [(score(p, longest), words) for p, words in alive]
    best_score, words = max(finished, key=lambda one: one[0])
    return subwords.decode(words), best_score


# The command line --------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train a Transformer on two text files, and translate with a beam.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("source", help="file with source sentences, one per line (plain or .gz)")
    parser.add_argument("target", help="file with their translations, line by line")
    parser.add_argument(
        "--translate", nargs="+", metavar="TEXT", default=argparse.SUPPRESS,
        help="sentences to translate at the end",
    )  # fmt: skip
    for one in fields(Settings):
        parser.add_argument(
            "--" + one.name.replace("_", "-"), metavar="N",
            type=one.type, default=one.default, help=one.metadata["help"],
        )  # fmt: skip
    options = vars(parser.parse_args())
    files, texts = (options.pop("source"), options.pop("target")), options.pop("translate", ())
    sources, targets = map(read_lines, files)
    if len(sources) != len(targets):
        counts = f"{files[0]} has {len(sources)} lines, {files[1]} has {len(targets)}"
        parser.error(f"{counts}: each line needs its translation in the other file")
    settings, started = Settings(**options), time.monotonic()
    losses = deque[float](maxlen=100)

    def report(step: int, loss: float) -> None:
        losses.append(loss)
        if step % 100 == 0 or step == settings.steps:
            mean, seconds = sum(losses) / len(losses), time.monotonic() - started
            print(f"step {step:5}   loss {mean:.3f}   {seconds:.0f} s", file=sys.stderr)

    model, subwords = learn(sources, targets, settings, report)
    for text in texts:
        print(translate(text, model, subwords, settings)[0])


# Appendix ----------------------------------------------------------------------------------------
#
# Order and dropout depend on (seed, epoch, step), not on what was drawn before: each batch can be
# made again, in any process. The random numbers are NumPy's (Philox and SeedSequence).

ROUNDS = 6
BITS_32, BITS_64 = 2**32 - 1, 2**64 - 1


def shuffled(number: int, size: int, keys: Sequence[int]) -> int:
    """The number at this place when all numbers below `size` are shuffled.

    A Feistel network (Luby and Rackoff 1988) permutes the numbers of 2h bits: each round adds (by
    XOR) a hash of one half to the other. If the result is not below `size`, it goes through again.
    """
    half = max(1, math.ceil((size - 1).bit_length() / 2))
    while True:
        left, right = number >> half, number & 2**half - 1
        for key in keys:
            mixed = right ^ key
            for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):  # of MurmurHash3, Appleby 2011
                mixed = (mixed ^ mixed >> 33) * factor & BITS_64
            left, right = right, left ^ (mixed ^ mixed >> 33) & 2**half - 1
        number = left << half | right
        if number < size:
            return number


def permutation(size: int, *key: int) -> list[int]:
    """The numbers below `size`, shuffled (Fisher and Yates 1938)."""
    halves = chain.from_iterable((word & BITS_32, word >> 32) for word in random_words(*key))
    order = list(range(size))
    for i in reversed(range(1, size)):
        mask = 2 ** i.bit_length() - 1
        j = next(half & mask for half in halves if half & mask <= i)
        order[i], order[j] = order[j], order[i]
    return order


def random_words(*key: int) -> Iterator[int]:
    """Numbers of 64 bits without end: Philox (Salmon et al. 2011) scrambles a counter."""
    words = seed_words(key, 4)
    keys = words[0] | words[1] << 32, words[2] | words[3] << 32
    for counter in count(1):
        a, b, c, d = counter, 0, 0, 0
        for i in range(10):
            first, second = keys[0] + i * 0x9E3779B97F4A7C15, keys[1] + i * 0xBB67AE8584CAA73B
            a_high, a_low = divmod(a * 0xD2E7470EE14C6C93, 2**64)
            c_high, c_low = divmod(c * 0xCA5A826395121157, 2**64)
            a, b, c, d = c_high ^ b ^ first & BITS_64, c_low, a_high ^ d ^ second & BITS_64, a_low
        yield from (a, b, c, d)


def seed_words(key: Sequence[int], size: int) -> list[int]:
    """Numbers of 32 bits, each of which depends on all bits of a key (O'Neill 2015)."""
    entropy = list(chain.from_iterable([n & BITS_32, n >> 32][: 1 + (n > BITS_32)] for n in key))
    entropy += [0] * (4 - len(entropy))
    state = 0x43B0D7E5

    def hashed(value: int, factor: int) -> int:
        nonlocal state
        value, state = value ^ state, state * factor & BITS_32
        value = value * state & BITS_32
        return value ^ value >> 16

    pool = [hashed(value, 0x931E8875) for value in entropy[:4]]
    for i in range(len(entropy)):
        for j in range(4):
            if i != j:
                other = hashed(pool[i] if i < 4 else entropy[i], 0x931E8875)
                mixed = 0xCA01F9DD * pool[j] - 0x4973F715 * other & BITS_32
                pool[j] = mixed ^ mixed >> 16
    state = 0x8B51F9DD
    return [hashed(pool[i % 4], 0x58F38DED) for i in range(size)]


if __name__ == "__main__":
    main()
