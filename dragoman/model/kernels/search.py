"""A step of beam search, from logits to the next tokens, as `decode/search/beam.py` defines it.

    N sentences of W hypotheses each, R = N*W rows, V words in chunks of groups, k = W+1 words
    considered of each row, P places.

There are three kernels. The first reads the logits once and finds the maximum of each group of
words. The k best words of a row are in the k groups with the highest maxima, where the second
kernel finds them; of equal words the first wins. The third takes the candidates of a sentence, best
first, until W hypotheses are chosen.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Words that a program of the first kernel reads, and words in a group. The second kernel reads
# k * 64 words instead of all of them.
_CHUNK, _GROUP = 4096, 64


@triton.jit
def _allowed(x, word, row, bias_at, end_from_at, steps_at, words, end, hypotheses: tl.constexpr):
    """Add the bias to the logits, and -inf for the end of a hypothesis that is too short."""
    x += tl.load(bias_at + word, mask=word < words, other=float("-inf"))
    too_early = tl.load(steps_at) < tl.load(end_from_at + row // hypotheses)
    return tl.where((word == end) & too_early, float("-inf"), x)


@triton.jit
def _survey(
    logits_at, bias_at, end_from_at, steps_at, best_at, highest_at, powers_at, words, groups, end,
    hypotheses: tl.constexpr, chunk: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    """Compute the softmax's sum over a chunk of a row, and the maximum of each of its groups."""
    row, number = tl.program_id(0), tl.program_id(1)
    # A chunk is a grid of groups: the sum needs all words, the maxima one row of the grid each.
    part = row * tl.num_programs(1) + number
    group_of = tl.arange(0, chunk // group)
    word = number * chunk + group_of[:, None] * group + tl.arange(0, group)[None, :]
    x = tl.load(
        logits_at + row.to(tl.int64) * words + word, mask=word < words, other=float("-inf")
    ).to(tl.float32)
    # The sum is relative to the chunk's highest logit, so that no power overflows. Banned words
    # count in it, as in the reference: they only cannot be chosen.
    highest = tl.max(x)
    tl.store(highest_at + part, highest)
    tl.store(powers_at + part, tl.sum(tl.exp(x - highest)))
    best = tl.max(_allowed(x, word, row, bias_at, end_from_at, steps_at, words, end, hypotheses), 1)
    group_of += number * (chunk // group)
    tl.store(best_at + row * groups + group_of, best, mask=group_of < groups)


@triton.jit
def _best_words(
    logits_at, bias_at, end_from_at, steps_at, best_at, highest_at, powers_at, words_at,
    log_probs_at, words, groups, chunks, end,
    hypotheses: tl.constexpr, k: tl.constexpr, slots: tl.constexpr, group: tl.constexpr,
    groups_block: tl.constexpr, chunks_block: tl.constexpr,
):  # fmt: skip
    """Find the k best words of a row and their log-probabilities, best first."""
    row = tl.program_id(0)
    part = tl.arange(0, chunks_block)
    highest = tl.load(highest_at + row * chunks + part, mask=part < chunks, other=float("-inf"))
    powers = tl.load(powers_at + row * chunks + part, mask=part < chunks, other=0.0)
    peak = tl.max(highest, 0)
    # The chunks' sums are relative to their own maxima: shift them to the common one before adding.
    log_total = peak + tl.log(tl.sum(powers * tl.exp(highest - peak), 0))
    number = tl.arange(0, groups_block)
    best = tl.load(best_at + row * groups + number, mask=number < groups, other=float("-inf"))
    slot = tl.arange(0, slots)
    chosen = tl.full([slots], 0, tl.int32)
    # Take the maximum k times: k is small, and a sort would need all words in one program.
    for rank in tl.static_range(k):
        place = tl.argmax(best, 0, tie_break_left=True)
        chosen = tl.where(slot == rank, place, chosen)
        best = tl.where(number == place, float("-inf"), best)
    word = chosen[:, None] * group + tl.arange(0, group)[None, :]
    real = (slot < tl.minimum(k, groups))[:, None] & (word < words)
    x = tl.load(logits_at + row.to(tl.int64) * words + word, mask=real, other=float("-inf")).to(
        tl.float32
    )
    x = _allowed(x, word, row, bias_at, end_from_at, steps_at, words, end, hypotheses)
    for rank in tl.static_range(k):
        value = tl.max(x)
        # Of equal words take the first, as a stable sort does.
        first = tl.min(tl.where(x == value, word, words))
        tl.store(words_at + row * slots + rank, first.to(tl.int64))
        tl.store(log_probs_at + row * slots + rank, value - log_total)
        x = tl.where(word == first, float("-inf"), x)


@triton.jit
def _kth_best(scores, nbest: tl.constexpr):
    place = tl.arange(0, scores.shape[0])
    best = tl.max(scores, 0)
    for _ in tl.static_range(nbest - 1):
        first = tl.min(tl.where(scores == best, place, scores.shape[0]), 0)
        scores = tl.where(place == first, float("-inf"), scores)
        best = tl.max(scores, 0)
    return best


@triton.jit
def _advance(
    words_at, log_probs_found_at, steps_at, penalties_at, longest_at, last_at, totals_at, done_at,
    tokens_at, parents_at, log_probs_at, count_at, scores_at, ends_at, end_log_probs_at, origin_at,
    end, enough, places, capacity,
    hypotheses: tl.constexpr, slots: tl.constexpr, k: tl.constexpr, rows_block: tl.constexpr,
    scores_block: tl.constexpr, places_block: tl.constexpr, nbest: tl.constexpr,
):  # fmt: skip
    """Go through a sentence's candidates in order: store the ends, keep W others as hypotheses."""
    sentence = tl.program_id(0)
    steps = tl.load(steps_at)
    candidate = tl.arange(0, rows_block * slots)
    parent, slot = candidate // slots, candidate % slots
    real = (parent < hypotheses) & (slot < k)
    at = (sentence * hypotheses + parent) * slots + slot
    word = tl.load(words_at + at, mask=real, other=0)
    log_prob = tl.load(log_probs_found_at + at, mask=real, other=float("-inf"))
    before = tl.load(totals_at + sentence * hypotheses + parent, mask=real, other=float("-inf"))
    # In float64 as in `beam.py`: sums in float32 would round, and break ties differently.
    total = before + log_prob.to(tl.float64)
    total = tl.where(real, total, float("-inf"))

    score_place = tl.arange(0, scores_block)
    score_row = scores_at + sentence * capacity
    scores = tl.load(score_row + score_place, mask=score_place < capacity, other=float("-inf"))
    count = tl.load(count_at + sentence)
    penalty = tl.load(penalties_at + steps + 1)
    longest = tl.load(longest_at + sentence)
    alive = 0
    index = tl.arange(0, rows_block)
    new_parent, new_word = tl.zeros([rows_block], tl.int32), tl.zeros([rows_block], tl.int64)
    new_total = tl.full([rows_block], float("-inf"), tl.float64)
    new_log_prob = tl.zeros([rows_block], tl.float32)
    # At most W of the first 2W candidates are ends, one for each hypothesis. So at least W are not.
    for rank in range(2 * hypotheses):
        best, place = tl.max(total, 0, return_indices=True, return_indices_tie_break_left=True)
        # Triton cannot index a tensor by a number: a sum over a one-hot mask reads the element.
        picked = candidate == place
        its_word = tl.sum(tl.where(picked, word, 0), 0)
        its_parent = place // slots
        its_log_prob = tl.sum(tl.where(picked, log_prob, 0.0), 0)
        total = tl.where(picked, float("-inf"), total)
        possible = best > float("-inf")
        if possible & (its_word == end) & (rank < hypotheses):
            its_score = best / penalty
            scores = tl.where(score_place == count, its_score, scores)
            slot_at = sentence * capacity + count
            tl.store(scores_at + slot_at, its_score)
            tl.store(ends_at + slot_at * 3, steps.to(tl.int64))
            tl.store(ends_at + slot_at * 3 + 1, its_parent.to(tl.int64))
            tl.store(ends_at + slot_at * 3 + 2, its_word)
            tl.store(end_log_probs_at + slot_at, its_log_prob)
            count += 1
        if possible & (its_word != end) & (alive < hypotheses):
            mine = index == alive
            new_parent = tl.where(mine, its_parent, new_parent)
            new_word = tl.where(mine, its_word, new_word)
            new_total = tl.where(mine, best, new_total)
            new_log_prob = tl.where(mine, its_log_prob, new_log_prob)
            alive += 1
    best_alive = tl.max(new_total, 0)
    over = (count >= enough) | (
        best_alive / tl.load(penalties_at + longest) <= _kth_best(scores, nbest)
    )
    lives = index < alive
    # At the maximum length, unfinished hypotheses count as finished.
    if (steps + 1 >= longest) & (over == 0):
        slot_at = sentence * capacity + count + index
        tl.store(scores_at + slot_at, new_total / penalty, mask=lives)
        tl.store(ends_at + slot_at * 3, (steps + index * 0).to(tl.int64), mask=lives)
        tl.store(ends_at + slot_at * 3 + 1, new_parent.to(tl.int64), mask=lives)
        tl.store(ends_at + slot_at * 3 + 2, new_word, mask=lives)
        tl.store(end_log_probs_at + slot_at, new_log_prob, mask=lives)
        count += alive
        # Always true, as a tensor of the right type: the sentence ends here.
        over = over | (alive >= 0)
    tl.store(count_at + sentence, count)
    # Finished sentences take part in every step until the whole batch is done. Their totals of -inf
    # keep them from choosing anything.
    done = over | (tl.load(done_at + sentence) != 0)
    tl.store(done_at + sentence, done)
    hypothesis_at, valid = sentence * hypotheses + index, index < hypotheses
    tl.store(
        totals_at + hypothesis_at,
        tl.where(lives & (done == 0), new_total, float("-inf")),
        mask=valid,
    )
    tl.store(last_at + hypothesis_at, new_word, mask=valid)
    history_at = hypothesis_at * places + steps
    tl.store(tokens_at + history_at, new_word.to(tl.int32), mask=valid)
    tl.store(parents_at + history_at, new_parent, mask=valid)
    tl.store(log_probs_at + history_at, new_log_prob, mask=valid)

    # `origin` says which hypothesis wrote each position of the KV cache. A child inherits the row
    # of its parent, which wrote the newest position itself. Copying these small numbers replaces
    # copying the cache.
    for start in range(0, steps + 1, places_block):
        place_of = start + tl.arange(0, places_block)
        seen = valid[:, None] & (place_of < steps)[None, :]
        theirs = (sentence * hypotheses + new_parent)[:, None] * places + place_of[None, :]
        origin = tl.load(origin_at + theirs, mask=seen, other=0)
        origin = tl.where((place_of == steps)[None, :], new_parent[:, None], origin)
        # Parents and children share the table: read all rows before writing any.
        tl.debug_barrier()
        ours = hypothesis_at[:, None] * places + place_of[None, :]
        tl.store(origin_at + ours, origin, mask=valid[:, None] & (place_of <= steps)[None, :])


def best_words(
    logits: Tensor, bias: Tensor, end_from: Tensor, steps: Tensor, end: int, k: int
) -> tuple[Tensor, Tensor]:
    """Return the k best words of each row (R, V) and their log-probabilities, (R, k').

    k' is k rounded up; columns from k on are undefined. The choice adds `bias` (V,) and allows the
    end of a sentence from step `end_from` (N,) on.
    """
    rows, words = logits.shape
    chunk = max(_GROUP, min(_CHUNK, triton.next_power_of_2(words)))
    chunks = triton.cdiv(words, chunk)
    groups = triton.cdiv(words, _GROUP)
    slots = triton.next_power_of_2(k)
    best = torch.empty(rows, groups, dtype=torch.float32, device=logits.device)
    highest, powers = torch.empty(2, rows, chunks, dtype=torch.float32, device=logits.device)
    values = torch.empty(rows, slots, dtype=torch.int64, device=logits.device)
    log_probs = torch.empty(rows, slots, dtype=torch.float32, device=logits.device)
    limits = (bias, end_from, steps)
    hypotheses = rows // len(end_from)
    _survey[(rows, chunks)](
        logits,
        *limits,
        best,
        highest,
        powers,
        words,
        groups,
        end,
        hypotheses,
        chunk,
        _GROUP,
        num_warps=4,
    )
    _best_words[(rows,)](
        logits, *limits, best, highest, powers, values, log_probs, words, groups, chunks, end,
        hypotheses, k, slots, _GROUP, triton.next_power_of_2(groups),
        triton.next_power_of_2(chunks), num_warps=1,
    )  # fmt: skip
    return values, log_probs


def choose(
    logits: Tensor,
    *,
    bias: Tensor,
    penalties: Tensor,
    end: int,
    enough: int,
    nbest: int,
    steps: Tensor,
    origin: Tensor,
    last: Tensor,
    totals: Tensor,
    longest: Tensor,
    end_from: Tensor,
    done: Tensor,
    tokens: Tensor,
    parents: Tensor,
    log_probs: Tensor,
    count: Tensor,
    scores: Tensor,
    ends: Tensor,
    end_log_probs: Tensor,
) -> None:
    """Choose the hypotheses after a step with these logits (R, V).

    The tensors from `origin` on are changed in place.
    """
    sentences, hypotheses, places = origin.shape
    k, capacity = hypotheses + 1, scores.shape[1]
    words, values = best_words(logits, bias, end_from, steps, end, k)
    slots = words.shape[1]
    _advance[(sentences,)](
        words, values, steps, penalties, longest, last, totals, done, tokens, parents, log_probs,
        count, scores, ends, end_log_probs, origin, end, enough, places, capacity, hypotheses,
        slots, k, triton.next_power_of_2(hypotheses), triton.next_power_of_2(capacity), 32, nbest,
        num_warps=1,
    )  # fmt: skip
