/* The kernels, for one kind of CPU: included once for each, with NAMED, TARGET and ARM or AVX512 and
   VNNI set. They are written with names for what vector instructions do to 16, 8 or 4 numbers.

       R rows of the input, K its columns, N columns of the result.

   No sum depends on how many rows there are or which stand beside it: a row's numbers are the same
   bits in every batch. Multiplication and addition are fused only where it says so.
*/

#if ARM
#include "neon.h"
#elif AVX512
#define LANES 16
#define VF __m512
#define VI __m512i
#define V(name) _mm512_##name
#define load_bytes(p) _mm512_loadu_si512(p)
#define any_int(p) _mm512_loadu_si512(p)
#define four_bytes(p) _mm512_set1_epi32(*(const int32_t *)(p))
#define round_to_int _mm512_cvtps_epi32
#define any_greater(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ)
#define as_floats _mm512_castsi512_ps
#define store_bytes(p, z) _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8(z))
#else
#define LANES 8
#define VF __m256
#define VI __m256i
#define V(name) _mm256_##name
#define load_bytes(p) _mm256_loadu_si256((const __m256i *)(p))
#define any_int(p) _mm256_loadu_si256((const __m256i *)(p))
#define four_bytes(p) _mm256_set1_epi32(*(const int32_t *)(p))
#define round_to_int _mm256_cvtps_epi32
#define any_greater(a, b) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ))
#define as_floats _mm256_castsi256_ps
#define store_bytes(p, z)                                                                        \
  _mm_storel_epi64((__m128i *)(p),                                                               \
                   _mm_packus_epi16(_mm_packus_epi32(_mm256_castsi256_si128(z),                  \
                                                     _mm256_extracti128_si256(z, 1)),            \
                                    _mm_setzero_si128()))
#endif
#if !ARM
#define VALUES 4 /* vectors that an attention sums at a time */
#define FOUR __m128
#define store_four _mm_storeu_ps
#define times_four(a, b) _mm_mul_ps(a, _mm_set1_ps(b))
#endif

/* 24 of 32 registers are sums, or 12 of 16. On Arm 16, since some hold columns of four rows. */
#if ARM
#define TILE_ROWS 4
#define TILE_VECTORS 4
#elif AVX512 || !VNNI
#define TILE_ROWS (AVX512 ? 6 : 3)
#define TILE_VECTORS 4
#else
#define TILE_ROWS 6
#define TILE_VECTORS 2
#endif

/* sums += four products of neighbouring bytes each, unsigned by signed */
#if ARM
#define DOT(sums, a, b) \
  sums = vdotq_s32(sums, vreinterpretq_s8_s32(b), vreinterpretq_s8_s32(a))
#elif VNNI
/* As an instruction of its own: with the intrinsic, GCC 12 copies each sum at every step. */
#define DOT(sums, a, b) __asm__(VPDPBUSD " %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b))
#else
/* Pairs are added in 16 bits: weights whose neighbours add up to 128 at most cannot overflow. */
#define DOT(sums, a, b) \
  sums = V(add_epi32)(sums, V(madd_epi16)(V(maddubs_epi16)(a, b), V(set1_epi16)(1)))
#endif

/* A tile of `rows` by TILE_VECTORS vectors of sums. `rows` is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) TARGET void NAMED(tile)(
    const int rows, const uint8_t *x, size_t k, const int8_t *w, const int32_t *offsets,
    const float *scales, const float *bias, const float *steps, float *y, size_t stride) {
  VI sums[TILE_ROWS][TILE_VECTORS];
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int j = 0; j < TILE_VECTORS; j++) sums[r][j] = any_int(offsets + j * LANES);
  size_t i = 0;
#if ARM
  for (; i + 16 <= k; i += 16, w += 16 * PANEL) {
    int8x16_t a[TILE_ROWS];
    UNROLL for (int r = 0; r < rows; r++) a[r] = around_zero(vld1q_u8(x + r * k + i));
    FOUR_COLUMNS(0);
    FOUR_COLUMNS(1);
    FOUR_COLUMNS(2);
    FOUR_COLUMNS(3);
  }
#endif
  for (; i < k; i += 4, w += 4 * PANEL) {
    VI b[TILE_VECTORS];
    UNROLL for (int j = 0; j < TILE_VECTORS; j++) {
      b[j] = load_bytes(w + j * 4 * LANES);
      __builtin_prefetch(w + AHEAD + j * 4 * LANES);
    }
    UNROLL for (int r = 0; r < rows; r++) {
      VI a = four_bytes(x + r * k + i);
      UNROLL for (int j = 0; j < TILE_VECTORS; j++) DOT(sums[r][j], a, b[j]);
    }
  }
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int j = 0; j < TILE_VECTORS; j++) {
      VF z = V(mul_ps)(V(cvtepi32_ps)(sums[r][j]), V(loadu_ps)(scales + j * LANES));
      if (steps) z = V(mul_ps)(z, V(set1_ps)(steps[r]));
      if (bias) z = V(add_ps)(z, V(loadu_ps)(bias + j * LANES));
      V(storeu_ps)(y + r * stride + j * LANES, z);
    }
}

/* Panels [first, last) of a product's columns: y = (x w + offsets) scales [steps] [+ bias], in that
   order. The result's rows are `stride` apart. */
TARGET static void NAMED(product)(const struct Matrix *m, const uint8_t *x, size_t rows,
                                  const float *steps, float *y, size_t stride, size_t first,
                                  size_t last) {
  const size_t k = m->k;
  float edge[TILE_ROWS * PANEL]; /* for a panel that is wider than what is left of the result */
  for (size_t n = first * PANEL; n < last * PANEL; n += TILE_VECTORS * LANES) {
    if (n >= m->n) break;
    const size_t wide = m->n - n < TILE_VECTORS * LANES ? m->n - n : TILE_VECTORS * LANES;
    const int whole = wide == TILE_VECTORS * LANES;
    const int8_t *w = m->packed + n / PANEL * PANEL * k + n % PANEL * 4;
    const float *bias = m->bias ? m->bias + n : NULL;
    for (size_t r = 0; r < rows; r += TILE_ROWS) {
      const size_t some = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
      float *to = whole ? y + r * stride + n : edge;
#define TILE(count)                                                                      \
  case count:                                                                            \
    NAMED(tile)(count, x + r * k, k, w, m->offsets + n, m->scales + n, bias,             \
                steps ? steps + r : NULL, to, whole ? stride : PANEL);                   \
    break
      switch (some) {
        TILE(1);
        TILE(2);
        TILE(3);
#if TILE_ROWS > 3
        TILE(4);
#endif
#if TILE_ROWS > 4
        TILE(5);
        TILE(6);
#endif
      }
#undef TILE
      for (size_t i = 0; !whole && i < some; i++)
        memcpy(y + (r + i) * stride + n, edge + i * PANEL, wide * sizeof *y);
    }
  }
}

/* x / step, rounded, above `zero`; what does not fit a byte is cut off. */
TARGET static void NAMED(bytes)(const float *x, size_t n, float step, int zero, uint8_t *bytes) {
  const float per_step = 1 / step; /* to divide takes several times as long as to multiply */
  const VF by = V(set1_ps)(per_step);
  const VI above = V(set1_epi32)(zero), least = V(set1_epi32)(0), most = V(set1_epi32)(255);
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    /* far beyond a byte and yet an integer, so that nothing overflows */
    VF q = V(min_ps)(V(mul_ps)(V(loadu_ps)(x + i), by), V(set1_ps)(1e6f));
    VI z = V(add_epi32)(round_to_int(q), above);
    z = V(max_epi32)(V(min_epi32)(z, most), least);
    store_bytes(bytes + i, z);
  }
  for (; i < n; i++) {
    float q = x[i] * per_step;
    long z = lrintf(q < 1e6f ? (q > -1e6f ? q : -1e6f) : 1e6f) + zero;
    bytes[i] = (uint8_t)(z < 0 ? 0 : z > 255 ? 255 : z);
  }
}

static inline __attribute__((always_inline)) TARGET float NAMED(largest)(VF x) {
#if ARM
  return vmaxnmvq_f32(x);
#elif AVX512
  return _mm512_reduce_max_ps(x);
#else
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
#endif
}

/* What is above zero of a row, in bytes whose step is a 255th of its largest number; the step. */
TARGET static float NAMED(positive_bytes)(const float *x, size_t n, uint8_t *bytes) {
  VF most = V(set1_ps)(TINY);
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) most = V(max_ps)(most, V(loadu_ps)(x + i));
  float largest = NAMED(largest)(most);
  for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
  const float step = largest * (1.0f / 255);
  NAMED(bytes)(x, n, step, 0, bytes);
  return step;
}

static inline __attribute__((always_inline)) TARGET float NAMED(sum)(VF x) {
#if ARM
  return vaddvq_f32(x);
#elif AVX512
  return _mm512_reduce_add_ps(x);
#else
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
#endif
}

/* The sums of four vectors, in half the time of four sums. */
static inline __attribute__((always_inline)) TARGET FOUR NAMED(four_sums)(VF a, VF b, VF c, VF d) {
#if ARM
  return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
#else
  const VF ab = V(add_ps)(V(unpacklo_ps)(a, b), V(unpackhi_ps)(a, b));
  const VF cd = V(add_ps)(V(unpacklo_ps)(c, d), V(unpackhi_ps)(c, d));
  const VF sums = V(add_ps)(V(shuffle_ps)(ab, cd, 0x44), V(shuffle_ps)(ab, cd, 0xee));
#if AVX512
  const __m256d upper = _mm512_extractf64x4_pd(_mm512_castps_pd(sums), 1);
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(sums), _mm256_castpd_ps(upper));
#else
  const __m256 half = sums;
#endif
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#endif
}

/* e to the power of x, for x up to 0: 2 to a whole number, times a polynomial of what is left. */
static inline __attribute__((always_inline)) TARGET VF NAMED(exponential)(VF x) {
  x = V(max_ps)(x, V(set1_ps)(-87.0f));
  const VI whole = round_to_int(V(mul_ps)(x, V(set1_ps)(1.44269504f)));
  const VF n = V(cvtepi32_ps)(whole);
  VF rest = V(fnmadd_ps)(n, V(set1_ps)(0.693359375f), x);
  rest = V(fnmadd_ps)(n, V(set1_ps)(-2.12194440e-4f), rest);
  VF p = V(set1_ps)(1.0f / 720);
  p = V(fmadd_ps)(p, rest, V(set1_ps)(1.0f / 120));
  p = V(fmadd_ps)(p, rest, V(set1_ps)(1.0f / 24));
  p = V(fmadd_ps)(p, rest, V(set1_ps)(1.0f / 6));
  p = V(fmadd_ps)(p, rest, V(set1_ps)(0.5f));
  p = V(fmadd_ps)(p, rest, V(set1_ps)(1.0f));
  p = V(fmadd_ps)(p, rest, V(set1_ps)(1.0f));
  const VI power = V(slli_epi32)(V(add_epi32)(whole, V(set1_epi32)(127)), 23);
  return V(mul_ps)(p, as_floats(power));
}

/* The exponentials of the first `count` numbers of a row that has room for whole vectors, each
   divided by that of the largest; what makes them a softmax when they are multiplied by it. */
TARGET static float NAMED(exponentials)(float *row, size_t count) {
  const size_t room = (count + LANES - 1) / LANES * LANES;
  for (size_t i = count; i < room; i++) row[i] = -INFINITY;
  VF most = V(loadu_ps)(row);
  for (size_t i = LANES; i < room; i += LANES) most = V(max_ps)(most, V(loadu_ps)(row + i));
  const VF largest = V(set1_ps)(NAMED(largest)(most));
  VF sums = V(set1_ps)(0);
  for (size_t i = 0; i < room; i += LANES) {
    const VF e = NAMED(exponential)(V(sub_ps)(V(loadu_ps)(row + i), largest));
    V(storeu_ps)(row + i, e);
    sums = V(add_ps)(sums, e);
  }
  return 1 / NAMED(sum)(sums);
}

/* One head of one sentence: `length` queries, keys, values of `features` numbers, their rows
   `stride` apart. `keys` and `scores` are room: features x and QUERIES x the length, filled up to
   whole vectors. */
TARGET static void NAMED(attention)(const float *q, const float *k, const float *v, float *y,
                                    size_t length, size_t features, size_t stride, float *keys,
                                    float *scores) {
  const size_t room = (length + LANES - 1) / LANES * LANES;
  const float root = 1 / sqrtf((float)features);
  /* Keys side by side: then a vector holds what one query has to do with several of them. */
  for (size_t d = 0; d < features; d++) {
    for (size_t j = 0; j < length; j++) keys[d * room + j] = k[j * stride + d] * root;
    for (size_t j = length; j < room; j++) keys[d * room + j] = 0;
  }
  for (size_t i = 0; i < length; i += QUERIES) {
    const size_t some = length - i < QUERIES ? length - i : QUERIES;
    /* Beyond the last query, the last one again: computed, and not kept. */
    const float *row[QUERIES];
    for (size_t r = 0; r < QUERIES; r++) row[r] = q + (i + (r < some ? r : some - 1)) * stride;
    for (size_t j = 0; j < room; j += LANES) {
      VF sums[QUERIES];
      UNROLL for (int r = 0; r < QUERIES; r++) sums[r] = V(set1_ps)(0);
      for (size_t d = 0; d < features; d++) {
        const VF key = V(loadu_ps)(keys + d * room + j);
        UNROLL for (int r = 0; r < QUERIES; r++)
          sums[r] = V(fmadd_ps)(V(set1_ps)(row[r][d]), key, sums[r]);
      }
      UNROLL for (int r = 0; r < QUERIES; r++) V(storeu_ps)(scores + r * room + j, sums[r]);
    }
    VF share[QUERIES];
    for (size_t r = 0; r < some; r++)
      share[r] = V(set1_ps)(NAMED(exponentials)(scores + r * room, length));
    for (size_t c = 0; c < features; c += LANES) {
      VF sums[QUERIES];
      UNROLL for (int r = 0; r < QUERIES; r++) sums[r] = V(set1_ps)(0);
      for (size_t j = 0; j < length; j++) {
        const VF value = V(loadu_ps)(v + j * stride + c);
        UNROLL for (int r = 0; r < QUERIES; r++)
          sums[r] = V(fmadd_ps)(V(set1_ps)(scores[r * room + j]), value, sums[r]);
      }
      for (size_t r = 0; r < some; r++)
        V(storeu_ps)(y + (i + r) * stride + c, V(mul_ps)(sums[r], share[r]));
    }
  }
}

/* total = x + y (y may be NULL: x), and what its layer norm puts out. */
TARGET static void NAMED(norm)(const float *x, const float *y, size_t n, const float *gain,
                               const float *bias, float *total, float *normal) {
  VF sums = V(set1_ps)(0), squares = sums;
  for (size_t i = 0; i < n; i += LANES) {
    VF z = V(loadu_ps)(x + i);
    if (y) z = V(add_ps)(z, V(loadu_ps)(y + i));
    V(storeu_ps)(total + i, z);
    sums = V(add_ps)(sums, z);
  }
  const VF mean = V(set1_ps)(NAMED(sum)(sums) / n);
  for (size_t i = 0; i < n; i += LANES) {
    const VF away = V(sub_ps)(V(loadu_ps)(total + i), mean);
    squares = V(fmadd_ps)(away, away, squares);
  }
  const VF by = V(set1_ps)(1 / sqrtf(NAMED(sum)(squares) / n + EPSILON));
  for (size_t i = 0; i < n; i += LANES) {
    const VF away = V(mul_ps)(V(sub_ps)(V(loadu_ps)(total + i), mean), by);
    V(storeu_ps)(normal + i, V(fmadd_ps)(away, V(loadu_ps)(gain + i), V(loadu_ps)(bias + i)));
  }
}

/* One head of `rows` queries, `stride` apart, over the same `length` keys and values, which lie one
   after another. `scores` is room for the length, filled up to whole vectors; what each key is
   worth is added to `seen` (a row for each query, `length` apart) unless that is NULL. */
TARGET static void NAMED(attend)(const float *q, size_t rows, size_t stride, const float *keys,
                                 const float *values, size_t length, size_t features, float *y,
                                 float *scores, float *seen) {
  const float root = 1 / sqrtf((float)features);
  for (size_t r = 0; r < rows; r++, q += stride, y += stride) {
    for (size_t j = 0; j < length; j += 4) {
      /* Beyond the last key, the last one again: what it gets there is overwritten. */
      const float *key[4];
      VF sums[4];
      UNROLL for (int i = 0; i < 4; i++) {
        key[i] = keys + (j + i < length ? j + i : length - 1) * features;
        sums[i] = V(set1_ps)(0);
      }
      for (size_t c = 0; c < features; c += LANES) {
        const VF part = V(loadu_ps)(q + c);
        UNROLL for (int i = 0; i < 4; i++)
          sums[i] = V(fmadd_ps)(part, V(loadu_ps)(key[i] + c), sums[i]);
      }
      const FOUR four = NAMED(four_sums)(sums[0], sums[1], sums[2], sums[3]);
      store_four(scores + j, times_four(four, root));
    }
    const float share = NAMED(exponentials)(scores, length);
    for (size_t j = 0; seen && j < length; j++) seen[r * length + j] += scores[j] * share;
    size_t c = 0;
    for (; c + VALUES * LANES <= features; c += VALUES * LANES) {
      VF sums[VALUES];
      UNROLL for (int i = 0; i < VALUES; i++) sums[i] = V(set1_ps)(0);
      for (size_t j = 0; j < length; j++) {
        const VF weight = V(set1_ps)(scores[j]);
        UNROLL for (int i = 0; i < VALUES; i++) sums[i] = V(fmadd_ps)(
            weight, V(loadu_ps)(values + j * features + c + i * LANES), sums[i]);
      }
      UNROLL for (int i = 0; i < VALUES; i++)
        V(storeu_ps)(y + c + i * LANES, V(mul_ps)(sums[i], V(set1_ps)(share)));
    }
    for (; c < features; c += LANES) {
      VF sums = V(set1_ps)(0);
      for (size_t j = 0; j < length; j++)
        sums = V(fmadd_ps)(V(set1_ps)(scores[j]), V(loadu_ps)(values + j * features + c), sums);
      V(storeu_ps)(y + c, V(mul_ps)(sums, V(set1_ps)(share)));
    }
  }
}

/* The k largest of a row, the largest first and of equal ones the first, and the logarithm of the
   sum of all their exponentials. Barred ones (`added` to, unless it is NULL) count in that sum. */
TARGET static float NAMED(best)(const float *x, const float *added, size_t n, size_t k,
                                float *largest, int64_t *places) {
  size_t have = 0, i = 0;
  float least = -INFINITY, top = -INFINITY;
  VF most = V(set1_ps)(-INFINITY);
  for (; i + LANES <= n; i += LANES) {
    VF z = V(loadu_ps)(x + i);
    most = V(max_ps)(most, z);
    if (added) z = V(add_ps)(z, V(loadu_ps)(added + i));
    if (have == k && !any_greater(z, V(set1_ps)(least))) continue;
    float each[LANES];
    V(storeu_ps)(each, z);
    for (size_t j = 0; j < LANES; j++) have = insert(each[j], i + j, k, have, largest, places);
    if (have == k) least = largest[k - 1];
  }
  for (; i < n; i++) {
    top = x[i] > top ? x[i] : top;
    have = insert(added ? x[i] + added[i] : x[i], i, k, have, largest, places);
  }
  const float largest_of_vectors = NAMED(largest)(most);
  top = largest_of_vectors > top ? largest_of_vectors : top;
  VF sums = V(set1_ps)(0);
  for (i = 0; i + LANES <= n; i += LANES)
    sums = V(add_ps)(sums, NAMED(exponential)(V(sub_ps)(V(loadu_ps)(x + i), V(set1_ps)(top))));
  float total = NAMED(sum)(sums);
  for (; i < n; i++) total += expf(x[i] - top);
  return top + logf(total);
}

static const struct Kernels NAMED(kernels) = {NAMED(product), NAMED(bytes), NAMED(positive_bytes),
                                              NAMED(attention), NAMED(norm),  NAMED(attend),
                                              NAMED(best)};

#undef LANES
#undef VF
#undef VI
#undef V
#undef TILE_ROWS
#undef TILE_VECTORS
#undef load_bytes
#undef any_int
#undef four_bytes
#undef round_to_int
#undef any_greater
#undef as_floats
#undef store_bytes
#undef VALUES
#undef FOUR
#undef store_four
#undef times_four
#undef DOT
