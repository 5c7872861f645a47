/* Products by AMX, which multiplies tiles: 16 rows of 64 bytes by 16 columns of them in one
   instruction. Everything else of this kind of CPU is that of VNNI. */

#define TILE_SIDE 16  /* rows and columns of a tile of sums */
#define TILE_DEPTH 64 /* bytes of a row or column that one instruction multiplies */
#define AMX_LEAST_ROWS 5 /* fewer are multiplied by VNNI as soon as their weights are there */
#define TILED __attribute__((target("avx512f,avx512bw,avx512vnni,amx-tile,amx-int8")))

/* Linux saves tiles for those who have asked for it: whether they can be used. */
static int may_use_tiles(void) {
  enum { ASK = 0x1023, TILES = 18 };
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  return (d >> 24 & 1) && (d >> 25 & 1) && syscall(SYS_arch_prctl, ASK, TILES) == 0;
}

/* Tiles 0 to 3 are sums, 4 and 5 rows of the input, 6 and 7 columns of the matrix. */
struct __attribute__((packed)) TileShapes {
  uint8_t palette, start, unused[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

TILED static void shape_tiles(size_t rows) {
  struct TileShapes shapes = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shapes.row_bytes[i] = TILE_DEPTH;
    shapes.rows[i] = i < 6 ? rows : TILE_SIDE;
  }
  _tile_loadconfig(&shapes);
}

/* y = (sums + offsets) scales [steps] [+ bias] for `rows` by 16 * vectors. */
static inline __attribute__((always_inline)) TILED void out_of_tiles(
    const int32_t *sums, size_t rows, const int vectors, const struct Matrix *m, size_t n,
    const float *steps, float *y, size_t stride) {
  UNROLL for (int j = 0; j < vectors; j++) {
    const size_t left = m->n > n + j * TILE_SIDE ? m->n - n - j * TILE_SIDE : 0;
    const __mmask16 there = left < TILE_SIDE ? (1u << left) - 1 : 0xffff;
    const __m512i offsets = _mm512_loadu_si512(m->offsets + n + j * TILE_SIDE);
    const __m512 scales = _mm512_loadu_ps(m->scales + n + j * TILE_SIDE);
    const __m512 bias = m->bias ? _mm512_loadu_ps(m->bias + n + j * TILE_SIDE) : scales;
    for (size_t r = 0; r < rows; r++) {
      const __m512i sum = _mm512_loadu_si512(sums + (r * vectors + j) * TILE_SIDE);
      __m512 z = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(sum, offsets)), scales);
      if (steps) z = _mm512_mul_ps(z, _mm512_set1_ps(steps[r]));
      if (m->bias) z = _mm512_add_ps(z, bias);
      _mm512_mask_storeu_ps(y + r * stride + j * TILE_SIDE, there, z);
    }
  }
}

/* As NAMED(product). Rows are shared out evenly among tiles; the last one begins earlier where they
   do not go in, and then a few rows are computed twice. */
TILED static void product_amx(const struct Matrix *m, const uint8_t *x, size_t rows,
                              const float *steps, float *y, size_t stride, size_t first,
                              size_t last) {
  const size_t k = m->k;
  if (rows < AMX_LEAST_ROWS || k % TILE_DEPTH) {
    product_vnni(m, x, rows, steps, y, stride, first, last);
    return;
  }
  const size_t tiles = (rows + TILE_SIDE - 1) / TILE_SIDE, high = (rows + tiles - 1) / tiles;
  int32_t sums[4 * TILE_SIDE * TILE_SIDE];
  shape_tiles(high);
#define PLACE(tile) ((tile) * high + high <= rows ? (tile) * high : rows - high)
  for (size_t n = first * PANEL; n < last * PANEL && n < m->n; n += PANEL) {
    const int8_t *w = m->packed + n * k;
    size_t tile = 0;
    /* Two tiles of rows by two of columns: each is loaded for two products. */
    for (; tile + 2 <= tiles; tile += 2)
      for (size_t j = 0; j < PANEL && n + j < m->n; j += 2 * TILE_SIDE) {
        const size_t places[] = {PLACE(tile), PLACE(tile + 1)};
        const uint8_t *upper = x + places[0] * k, *lower = x + places[1] * k;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (size_t i = 0; i < k; i += TILE_DEPTH) {
          const int8_t *b = w + i * PANEL + j * 4;
          _tile_loadd(6, b, PANEL * 4);
          _tile_loadd(4, upper + i, k);
          _tile_dpbusd(0, 4, 6);
          _tile_loadd(5, lower + i, k);
          _tile_dpbusd(2, 5, 6);
          _tile_loadd(7, b + TILE_DEPTH, PANEL * 4);
          _tile_dpbusd(1, 4, 7);
          _tile_dpbusd(3, 5, 7);
        }
        _tile_stored(0, sums, 2 * TILE_DEPTH);
        _tile_stored(1, sums + TILE_SIDE, 2 * TILE_DEPTH);
        out_of_tiles(sums, high, 2, m, n + j, steps ? steps + places[0] : NULL,
                     y + places[0] * stride + n + j, stride);
        _tile_stored(2, sums, 2 * TILE_DEPTH);
        _tile_stored(3, sums + TILE_SIDE, 2 * TILE_DEPTH);
        out_of_tiles(sums, high, 2, m, n + j, steps ? steps + places[1] : NULL,
                     y + places[1] * stride + n + j, stride);
      }
    if (tile == tiles) continue;
    const size_t place = PLACE(tile);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t i = 0; i < k; i += TILE_DEPTH) {
      const int8_t *b = w + i * PANEL;
      _tile_loadd(4, x + place * k + i, k);
      _tile_loadd(6, b, PANEL * 4);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, b + TILE_DEPTH, PANEL * 4);
      _tile_dpbusd(1, 4, 7);
      _tile_loadd(6, b + 2 * TILE_DEPTH, PANEL * 4);
      _tile_dpbusd(2, 4, 6);
      _tile_loadd(7, b + 3 * TILE_DEPTH, PANEL * 4);
      _tile_dpbusd(3, 4, 7);
    }
    _tile_stored(0, sums, 4 * TILE_DEPTH);
    _tile_stored(1, sums + TILE_SIDE, 4 * TILE_DEPTH);
    _tile_stored(2, sums + 2 * TILE_SIDE, 4 * TILE_DEPTH);
    _tile_stored(3, sums + 3 * TILE_SIDE, 4 * TILE_DEPTH);
    out_of_tiles(sums, high, 4, m, n, steps ? steps + place : NULL, y + place * stride + n, stride);
  }
#undef PLACE
  _tile_release();
}

static const struct Kernels kernels_amx = {product_amx, bytes_vnni, positive_bytes_vnni,
                                           attention_vnni, norm_vnni, attend_vnni, best_vnni};
