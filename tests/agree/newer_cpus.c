/* The operators of newer CPUs for one with AVX-512 and VNNI: AMX with its tiles in plain C, AVX-VNNI
   with the same instruction as AVX-512 encodes it. */

#include <assert.h>
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENCODING "%{evex%} "

/* The CPU says that it has both, and the system grants tiles. */
#define __get_cpuid_count(leaf, part, a, b, c, d) \
  (*(a) = 1u << 4, *(b) = *(c) = 0, *(d) = 3u << 24, 1)
#define syscall(...) 0

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbusd
#define _tile_loadconfig shape_plain
#define _tile_release release_plain
#define _tile_zero zero_plain
#define _tile_loadd load_plain
#define _tile_stored store_plain
#define _tile_dpbusd multiply_plain

static _Thread_local struct {
  int rows, row_bytes;
  unsigned char bytes[16][64];
} plain[8];

static void shape_plain(const void *shapes) {
  const unsigned char *palette = shapes, *rows = palette + 48;
  unsigned short row_bytes[8];
  memcpy(row_bytes, palette + 16, sizeof row_bytes);
  assert(*palette == 1);
  for (int i = 0; i < 8; i++) {
    assert(rows[i] <= 16 && row_bytes[i] <= 64);
    plain[i].rows = rows[i];
    plain[i].row_bytes = row_bytes[i];
  }
}

static void release_plain(void) { memset(plain, 0, sizeof plain); }

static void zero_plain(int tile) { memset(plain[tile].bytes, 0, sizeof plain[tile].bytes); }

static void load_plain(int tile, const void *from, size_t stride) {
  assert(plain[tile].rows); /* else the CPU would end the program */
  for (int r = 0; r < plain[tile].rows; r++)
    memcpy(plain[tile].bytes[r], (const char *)from + r * stride, plain[tile].row_bytes);
}

static void store_plain(int tile, void *to, size_t stride) {
  assert(plain[tile].rows);
  for (int r = 0; r < plain[tile].rows; r++)
    memcpy((char *)to + r * stride, plain[tile].bytes[r], plain[tile].row_bytes);
}

/* Four bytes of a row of x, without sign, times four of a column of w, with one, at a time. */
static void multiply_plain(int sums, int x, int w) {
  assert(plain[sums].rows == plain[x].rows && plain[sums].row_bytes == plain[w].row_bytes);
  assert(plain[x].row_bytes == 4 * plain[w].rows);
  for (int r = 0; r < plain[sums].rows; r++) {
    int row[16];
    memcpy(row, plain[sums].bytes[r], sizeof row);
    for (int i = 0; i < plain[x].row_bytes; i++)
      for (int c = 0; c < plain[w].row_bytes / 4; c++)
        row[c] += plain[x].bytes[r][i] * (signed char)plain[w].bytes[i / 4][4 * c + i % 4];
    memcpy(plain[sums].bytes[r], row, sizeof row);
  }
}

#include "../../dragoman/engine/onnx/native/operators.c"
