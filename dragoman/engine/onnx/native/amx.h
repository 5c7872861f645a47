/* Products by AMX: a tile of 16 rows by 64 columns, 64 products of each sum at a time. The rest is
   as with VNNI, and so are all results: sums of integers are exact. */

#include <sys/syscall.h>
#include <unistd.h>

#define TILE_BYTES 64 /* of a tile's row */
#define TILE_HEIGHT 16
#define FEW_ROWS 6 /* that VNNI multiplies sooner: it waits for weights anyway */

#define TARGET_AMX __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vnni")))

/* 0 to 3: sums; 4: rows of x; 5, 6: columns of the matrix. All are of full size. */
static const struct __attribute__((packed)) {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16}};

TARGET_AMX static void tile_of_sums(const uint8_t *x, size_t k, const int8_t *w,
                                    int32_t sums[TILE_HEIGHT][PANEL]) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (size_t i = 0; i < k; i += TILE_BYTES, w += TILE_BYTES * PANEL) {
    _tile_loadd(4, x + i, k);
    _tile_loadd(5, w, 4 * PANEL);
    _tile_loadd(6, w + 64, 4 * PANEL);
    _tile_dpbusd(0, 4, 5);
    _tile_dpbusd(1, 4, 6);
    _tile_loadd(5, w + 128, 4 * PANEL);
    _tile_loadd(6, w + 192, 4 * PANEL);
    _tile_dpbusd(2, 4, 5);
    _tile_dpbusd(3, 4, 6);
  }
  _tile_stored(0, sums[0], sizeof sums[0]);
  _tile_stored(1, sums[0] + 16, sizeof sums[0]);
  _tile_stored(2, sums[0] + 32, sizeof sums[0]);
  _tile_stored(3, sums[0] + 48, sizeof sums[0]);
}

TARGET_AMX static void product_amx(const struct Matrix *m, const uint8_t *x, size_t rows,
                                   const float *steps, float *y, size_t stride, size_t first,
                                   size_t last) {
  const size_t k = m->k;
  uint8_t *filled_up = NULL; /* the last rows, if they are fewer than a tile has */
  if (k % TILE_BYTES || rows < FEW_ROWS || m->n < last * PANEL) goto by_vnni;
  const size_t rest = rows % TILE_HEIGHT;
  if (rest) {
    filled_up = calloc(TILE_HEIGHT, k);
    if (!filled_up) goto by_vnni;
    memcpy(filled_up, x + (rows - rest) * k, rest * k);
  }
  _tile_loadconfig(&tiles);
  for (size_t n = first * PANEL; n < last * PANEL; n += PANEL)
    for (size_t r = 0; r < rows; r += TILE_HEIGHT) {
      int32_t sums[TILE_HEIGHT][PANEL];
      const size_t some = rows - r < TILE_HEIGHT ? rows - r : TILE_HEIGHT;
      tile_of_sums(some < TILE_HEIGHT ? filled_up : x + r * k, k, m->packed + n * k, sums);
      for (size_t i = 0; i < some; i++)
        for (size_t j = 0; j < PANEL; j += 16) {
          const __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums[i] + j),
                                               _mm512_loadu_si512(m->offsets + n + j));
          __m512 z = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(m->scales + n + j));
          if (steps) z = _mm512_mul_ps(z, _mm512_set1_ps(steps[r + i]));
          if (m->bias) z = _mm512_add_ps(z, _mm512_loadu_ps(m->bias + n + j));
          _mm512_storeu_ps(y + (r + i) * stride + n + j, z);
        }
    }
  _tile_release();
  free(filled_up);
  return;
by_vnni:
  product_vnni(m, x, rows, steps, y, stride, first, last);
}

static const struct Kernels kernels_amx = {product_amx,    bytes_vnni,  positive_bytes_vnni,
                                           attention_vnni, norm_vnni,   attend_vnni,
                                           best_vnni};

/* Whether the CPU has AMX and Linux lets this process use it. */
static int has_amx(void) {
  unsigned a, b, c, d;
  const unsigned tile = 1 << 24, int8 = 1 << 25;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & tile) || !(d & int8)) return 0;
  return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
}
