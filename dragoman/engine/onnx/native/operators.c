/* Operators for ONNX Runtime that do in one pass over memory what its own do in several, for x86
   with AVX2 or AVX-512 and for Arm with dot products. `__init__.py` lists them;
   `tests/agree/test_native.py` holds each to a plain computation, and the engine made of them to
   the one without.

       R rows, N sentences' words end to end, D width, B sentences, H heads, K features of a head,
       S places of the longest source, M room for positions */

#if !defined(__GNUC__) || !(defined(__x86_64__) || defined(__aarch64__))
int dragoman_use(const char *kind) { return (void)kind, 0; }
#else

#if defined(__aarch64__)
#define ARM 1
#define QUERIES 8 /* that share a pass over keys and values */
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#else
#define ARM 0
#define QUERIES 4
#include <cpuid.h>
#include <immintrin.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"

/* Of compilers that know AMX and AVX-VNNI. */
#define IS_NEW (__GNUC__ >= 11 || __clang_major__ >= 12)

/* Where the system has to be asked for tiles. */
#if defined(__linux__) && IS_NEW && !ARM
#define AMX 1
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define PANEL 64              /* columns of a matrix that lie together */
#define AHEAD 2048            /* bytes that weights are fetched ahead of their use */
#define LINE 64               /* bytes of the cache */
#define TINY 1e-20f           /* the least number that a row is divided by */
#define EPSILON 1e-5f         /* of a norm */
#define ZERO 128              /* the byte that stands for 0 */
#define MOST_LANES 16         /* of a vector */
#define ROWS_AT_ONCE 64       /* of a feed-forward network: its inner layer stays in the cache */
#define WORK_OF_A_TASK 131072 /* multiplications: fewer are not worth a thread */
#define MOST_TASKS 8          /* more than there are threads, as some cores are slower */
#define UNROLL _Pragma("GCC unroll 8")

/* Columns of bytes: 4 numbers of each of PANEL columns, then the next 4 of each. */
struct Matrix {
  const int8_t *packed;
  const int32_t *offsets;           /* what the zero of the activations adds to each sum */
  const float *scales, *bias;       /* bias: NULL for none */
  size_t k, n;
};

struct Kernels {
  void (*product)(const struct Matrix *, const uint8_t *, size_t, const float *, float *, size_t,
                  size_t, size_t);
  void (*bytes)(const float *, size_t, float, int, uint8_t *);
  float (*positive_bytes)(const float *, size_t, uint8_t *);
  void (*attention)(const float *, const float *, const float *, float *, size_t, size_t, size_t,
                    float *, float *);
  void (*norm)(const float *, const float *, size_t, const float *, const float *, float *,
               float *);
  void (*attend)(const float *, size_t, size_t, const float *, const float *, size_t, size_t,
                 float *, float *, float *);
  float (*best)(const float *, const float *, size_t, size_t, float *, int64_t *);
};

/* Puts a number among the k largest, sorted, of which there are `have`; how many there are then. */
static inline size_t insert(float x, size_t place, size_t k, size_t have, float *largest,
                            int64_t *places) {
  size_t at = have;
  while (at > 0 && x > largest[at - 1]) at--;
  if (at == k) return have;
  have += have < k;
  for (size_t i = have - 1; i > at; i--) {
    largest[i] = largest[i - 1];
    places[i] = places[i - 1];
  }
  largest[at] = x;
  places[at] = place;
  return have;
}

#if ARM
#define NAMED(name) name##_dotprod
#if defined(__ARM_FEATURE_DOTPROD) /* everywhere, as on macOS */
#define TARGET
#else
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#include "kernels.h"
#else
#define AVX512 1
#define VNNI 1
#define VPDPBUSD "vpdpbusd"
#define NAMED(name) name##_vnni
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vnni")))
#include "kernels.h"
#undef VNNI
#undef VPDPBUSD
#undef NAMED
#undef TARGET

#if AMX
#include "tiles.h"
#endif

#define VNNI 0
#define NAMED(name) name##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw")))
#include "kernels.h"
#undef AVX512
#undef NAMED
#undef TARGET

#define AVX512 0
#define NAMED(name) name##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#include "kernels.h"
#undef VNNI
#undef NAMED

/* Laptops' CPUs have VNNI without AVX-512, where its instruction is encoded as those of AVX2. */
#if IS_NEW
#define VNNI 1
#ifndef ENCODING
#define ENCODING "%{vex%} "
#endif
#define VPDPBUSD ENCODING "vpdpbusd"
#define NAMED(name) name##_avxvnni
#include "kernels.h"

static int has_avx_vnni(void) {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif
#endif

/* Those in use; NULL: none. */
static const struct Kernels *best;

static const struct Kernels *of_this_cpu(const char *kind) {
#if ARM
#if defined(__linux__)
  const int has_dotprod = getauxval(AT_HWCAP) >> 20 & 1;
#else
  const int has_dotprod = 1; /* macOS: all of Apple's have */
#endif
  if (!strcmp(kind, "dotprod")) return has_dotprod ? &kernels_dotprod : NULL;
#else
  __builtin_cpu_init();
  const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  const int vnni = avx512 && __builtin_cpu_supports("avx512vnni");
#if AMX
  if (!strcmp(kind, "amx")) return vnni && may_use_tiles() ? &kernels_amx : NULL;
#endif
  if (!strcmp(kind, "vnni")) return vnni ? &kernels_vnni : NULL;
#if IS_NEW
  if (!strcmp(kind, "avxvnni")) return avx2 && has_avx_vnni() ? &kernels_avxvnni : NULL;
#endif
  if (!strcmp(kind, "avx512")) return avx512 ? &kernels_avx512 : NULL;
  if (!strcmp(kind, "avx2")) return avx2 ? &kernels_avx2 : NULL;
#endif
  return NULL;
}

/* ---- What a call of an operator has ---- */

#define TRY(call)                      \
  do {                                 \
    Status *status_ = (call);          \
    if (status_) return status_;       \
  } while (0)

struct Tensor {
  void *data; /* NULL: left out */
  int64_t shape[4];
  size_t rank;
};

static Status *input(Api api, const Context *context, size_t place, struct Tensor *t) {
  const Value *value;
  Shape *shape;
  t->data = NULL;
  TRY(get_input(context, place, &value));
  if (!value) return NULL;
  TRY(get_data((Value *)value, &t->data));
  TRY(get_shape(value, &shape));
  Status *status = get_rank(shape, &t->rank);
  if (!status && t->rank > 4) status = create_status(FAILED, "more dimensions than expected");
  if (!status) status = get_dimensions(shape, t->shape, t->rank);
  release_shape(shape);
  return status;
}

/* An output's numbers; NULL where nobody takes them. */
static Status *output(Api api, Context *context, size_t place, const int64_t *shape, size_t rank,
                      void *data) {
  Value *value = NULL;
  *(void **)data = NULL;
  TRY(get_output(context, place, shape, rank, &value));
  return value ? get_data(value, data) : NULL;
}

static Status *matrix_output(Api api, Context *context, size_t place, size_t rows, size_t columns,
                             void *data) {
  const int64_t shape[] = {(int64_t)rows, (int64_t)columns};
  return output(api, context, place, shape, 2, data);
}

/* The five inputs of a matrix from a place on: packed, offsets, scales, count of columns, bias. */
static Status *matrix(Api api, const Context *context, size_t place, struct Matrix *m) {
  struct Tensor t[5];
  for (size_t i = 0; i < 5; i++) TRY(input(api, context, place + i, &t[i]));
  *m = (struct Matrix){t[0].data, t[1].data, t[2].data, t[4].data, (size_t)t[0].shape[1] * 4,
                       (size_t) * (int64_t *)t[3].data};
  return NULL;
}

static size_t panels(const struct Matrix *m) { return (m->n + PANEL - 1) / PANEL; }

/* A product shared out among threads by columns. */
struct Shared {
  const struct Matrix *m;
  const uint8_t *x;
  const float *steps;
  float *y;
  size_t rows, stride, tasks;
};

static void one_task(void *work, size_t task) {
  const struct Shared *s = work;
  const size_t all = panels(s->m);
  best->product(s->m, s->x, s->rows, s->steps, s->y, s->stride, all * task / s->tasks,
                all * (task + 1) / s->tasks);
}

static Status *multiply(Api api, const Context *context, const struct Matrix *m, const uint8_t *x,
                        size_t rows, const float *steps, float *y, size_t stride) {
  struct Shared shared = {m, x, steps, y, rows, stride, rows * m->n * m->k / WORK_OF_A_TASK};
  if (shared.tasks > panels(m)) shared.tasks = panels(m);
  if (shared.tasks > MOST_TASKS) shared.tasks = MOST_TASKS;
  if (shared.tasks > 1) return parallel_for(context, one_task, shared.tasks, 0, &shared);
  shared.tasks = 1;
  one_task(&shared, 0);
  return NULL;
}

/* ---- The operators ---- */

/* Bytes (R, K), a matrix, what to multiply each row with (R) or nothing -> (R, N). */
static Status *run_product(Api api, Context *context) {
  struct Tensor x, steps;
  struct Matrix m;
  float *y;
  TRY(input(api, context, 0, &x));
  TRY(matrix(api, context, 1, &m));
  TRY(input(api, context, 6, &steps));
  TRY(matrix_output(api, context, 0, x.shape[0], m.n, &y));
  return multiply(api, context, &m, x.data, x.shape[0], steps.data, y, m.n);
}

/* Bytes (R, D), two matrices, what to multiply each row with or nothing -> (R, D). Some rows at a
   time, so that what is between the matrices stays in the cache. */
static Status *run_feed_forward(Api api, Context *context) {
  struct Tensor x, steps;
  struct Matrix inner, outer;
  float *y;
  TRY(input(api, context, 0, &x));
  TRY(matrix(api, context, 1, &inner));
  TRY(matrix(api, context, 6, &outer));
  TRY(input(api, context, 11, &steps));
  const size_t rows = x.shape[0], most = rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE;
  TRY(matrix_output(api, context, 0, rows, outer.n, &y));
  float *between = malloc(most * inner.n * sizeof *between);
  uint8_t *bytes = malloc(most * inner.n);
  Status *status = NULL;
  if (!between || !bytes) status = create_status(FAILED, "out of memory");
  for (size_t r = 0; !status && r < rows; r += ROWS_AT_ONCE) {
    const size_t some = rows - r < ROWS_AT_ONCE ? rows - r : ROWS_AT_ONCE;
    float of_bytes[ROWS_AT_ONCE];
    status = multiply(api, context, &inner, (uint8_t *)x.data + r * inner.k, some,
                      steps.data ? (float *)steps.data + r : NULL, between, inner.n);
    if (status) break;
    for (size_t i = 0; i < some; i++)
      of_bytes[i] = best->positive_bytes(between + i * inner.n, inner.n, bytes + i * inner.n);
    status = multiply(api, context, &outer, bytes, some, of_bytes, y + r * outer.n, outer.n);
  }
  free(between);
  free(bytes);
  return status;
}

/* x (R, D), what is added to it or nothing, gain, bias, what a byte counts or nothing -> their sum,
   its norm, this in bytes; whichever are wanted. */
static Status *run_sum_norm(Api api, Context *context) {
  struct Tensor x, y, gain, bias, step;
  float *total, *normal;
  uint8_t *bytes;
  TRY(input(api, context, 0, &x));
  TRY(input(api, context, 1, &y));
  TRY(input(api, context, 2, &gain));
  TRY(input(api, context, 3, &bias));
  TRY(input(api, context, 4, &step));
  const size_t n = x.shape[1];
  TRY(output(api, context, 0, x.shape, 2, &total));
  TRY(output(api, context, 1, x.shape, 2, &normal));
  TRY(output(api, context, 2, x.shape, 2, &bytes));
  float *room = malloc(2 * n * sizeof *room);
  if (!room) return create_status(FAILED, "out of memory");
  for (int64_t r = 0; r < x.shape[0]; r++) {
    const size_t at = r * n;
    float *sum = total ? total + at : room, *norm = normal ? normal + at : room + n;
    best->norm((float *)x.data + at, y.data ? (float *)y.data + at : NULL, n, gain.data, bias.data,
               sum, norm);
    if (bytes) best->bytes(norm, n, *(float *)step.data, ZERO, bytes + at);
  }
  free(room);
  return NULL;
}

/* Where an attention puts its rows: in float or, if it is known what a byte counts, in bytes. */
struct Rows {
  float *numbers, *room;
  uint8_t *bytes;
  float step;
};

static Status *rows_output(Api api, Context *context, size_t step_at, size_t rows, size_t width,
                           struct Rows *y) {
  struct Tensor step;
  y->room = NULL;
  TRY(input(api, context, step_at, &step));
  TRY(matrix_output(api, context, 0, rows, width, &y->numbers));
  TRY(matrix_output(api, context, 1, rows, width, &y->bytes));
  if (step.data) y->step = *(float *)step.data;
  if (y->numbers) return NULL;
  y->numbers = y->room = malloc(rows * width * sizeof(float));
  return y->room ? NULL : create_status(FAILED, "out of memory");
}

static void finish(struct Rows *y, size_t rows, size_t width) {
  for (size_t r = 0; y->bytes && r < rows; r++)
    best->bytes(y->numbers + r * width, width, y->step, ZERO, y->bytes + r * width);
  free(y->room);
}

/* Queries, keys, values (N, D) of sentences that lie end to end, their lengths (B), the number of
   heads, what a byte counts or nothing -> (N, D) in float, in bytes. */
static Status *run_packed_attention(Api api, Context *context) {
  struct Tensor q, k, v, lengths, heads;
  struct Rows y;
  TRY(input(api, context, 0, &q));
  TRY(input(api, context, 1, &k));
  TRY(input(api, context, 2, &v));
  TRY(input(api, context, 3, &lengths));
  TRY(input(api, context, 4, &heads));
  const size_t width = q.shape[1], features = width / *(int64_t *)heads.data;
  TRY(rows_output(api, context, 5, q.shape[0], width, &y));
  const int64_t *length = lengths.data;
  int64_t longest = 0;
  for (int64_t s = 0; s < lengths.shape[0]; s++)
    if (length[s] > longest) longest = length[s];
  const size_t room = longest + MOST_LANES;
  float *keys = malloc((features + QUERIES) * room * sizeof *keys);
  Status *status = keys ? NULL : create_status(FAILED, "out of memory");
  size_t first = 0;
  for (int64_t s = 0; !status && s < lengths.shape[0]; first += length[s++])
    for (size_t at = first * width; at < (first + 1) * width; at += features)
      best->attention((float *)q.data + at, (float *)k.data + at, (float *)v.data + at,
                      y.numbers + at, length[s], features, width, keys, keys + features * room);
  free(keys);
  finish(&y, status ? 0 : q.shape[0], width);
  return status;
}

/* Queries, keys, values of one position (R, 3D), the caches of those before it (R, H, M, K), how
   many these are (R), what a byte counts or nothing -> (R, D) in float, in bytes, and both caches
   with this position, in place where they are given so. */
static Status *run_attention_to_past(Api api, Context *context) {
  struct Tensor qkv, caches[2], past;
  struct Rows y;
  float *longer[2];
  TRY(input(api, context, 0, &qkv));
  TRY(input(api, context, 1, &caches[0]));
  TRY(input(api, context, 2, &caches[1]));
  TRY(input(api, context, 3, &past));
  const int64_t *shape = caches[0].shape;
  const size_t rows = qkv.shape[0], heads = shape[1], most = shape[2], features = shape[3],
               width = heads * features;
  TRY(rows_output(api, context, 4, rows, width, &y));
  Status *status = NULL;
  for (size_t i = 0; !status && i < 2; i++) {
    status = output(api, context, 2 + i, shape, 4, &longer[i]);
    if (!status && longer[i] != caches[i].data)
      memcpy(longer[i], caches[i].data, rows * most * width * sizeof(float));
  }
  float *scores = malloc((most + MOST_LANES) * sizeof *scores);
  if (!status && !scores) status = create_status(FAILED, "out of memory");
  for (size_t r = 0; !status && r < rows; r++)
    for (size_t h = 0; h < heads; h++) {
      const float *q = (float *)qkv.data + r * 3 * width + h * features;
      const size_t length = ((int32_t *)past.data)[r], at = (r * heads + h) * most * features;
      for (size_t i = 0; i < 2; i++)
        memcpy(longer[i] + at + length * features, q + (1 + i) * width, features * sizeof *q);
      best->attend(q, 1, width, longer[0] + at, longer[1] + at, length + 1, features,
                   y.numbers + r * width + h * features, scores, NULL);
    }
  free(scores);
  finish(&y, status ? 0 : rows, width);
  return status;
}

/* Queries (R, D), R / B of each sentence, keys and values of the sources (B, H, S, K), the lengths
   of these (B), what a byte counts or nothing -> (R, D) in float, in bytes, and how much each query
   looks at each place, mean of the heads (B, R / B, S). */
static Status *run_attention_to_source(Api api, Context *context) {
  struct Tensor q, keys, values, lengths;
  struct Rows y;
  float *seen;
  TRY(input(api, context, 0, &q));
  TRY(input(api, context, 1, &keys));
  TRY(input(api, context, 2, &values));
  TRY(input(api, context, 3, &lengths));
  const size_t rows = q.shape[0], sentences = keys.shape[0], heads = keys.shape[1],
               most = keys.shape[2], features = keys.shape[3], width = heads * features,
               each = sentences ? rows / sentences : 0;
  TRY(rows_output(api, context, 4, rows, width, &y));
  const int64_t shape[] = {(int64_t)sentences, (int64_t)each, (int64_t)most};
  Status *status = output(api, context, 2, shape, 3, &seen);
  float *scores = malloc((1 + each) * (most + MOST_LANES) * sizeof *scores);
  if (!status && !scores) status = create_status(FAILED, "out of memory");
  for (size_t s = 0; !status && s < sentences; s++) {
    const size_t length = ((int32_t *)lengths.data)[s];
    float *sums = seen ? scores + most + MOST_LANES : NULL;
    if (seen) memset(sums, 0, each * length * sizeof *sums);
    for (size_t h = 0; h < heads; h++) {
      const size_t row = s * each * width + h * features, at = (s * heads + h) * most * features;
      best->attend((float *)q.data + row, each, width, (float *)keys.data + at,
                   (float *)values.data + at, length, features, y.numbers + row, scores, sums);
    }
    for (size_t r = 0; seen && r < each; r++)
      for (size_t j = 0; j < most; j++)
        seen[(s * each + r) * most + j] = j < length ? sums[r * length + j] / heads : 0;
  }
  free(scores);
  finish(&y, status ? 0 : rows, width);
  return status;
}

/* Logits (R, N), what is added to them after the softmax (N) or nothing, k, whether all
   log-probabilities are wanted -> the k best log-probabilities (R, k), their places, all (R, N or
   0). */
static Status *run_best(Api api, Context *context) {
  struct Tensor x, added, k, whole;
  float *largest, *all;
  int64_t *places;
  TRY(input(api, context, 0, &x));
  TRY(input(api, context, 1, &added));
  TRY(input(api, context, 2, &k));
  TRY(input(api, context, 3, &whole));
  const size_t rows = x.shape[0], n = x.shape[1], count = *(int64_t *)k.data;
  TRY(matrix_output(api, context, 0, rows, count, &largest));
  TRY(matrix_output(api, context, 1, rows, count, &places));
  TRY(matrix_output(api, context, 2, rows, *(int64_t *)whole.data ? n : 0, &all));
  if (count < 1 || count > n) return create_status(FAILED, "k is none of the places");
  for (size_t r = 0; r < rows; r++) {
    const float *row = (float *)x.data + r * n;
    const float total = best->best(row, added.data, n, count, largest + r * count,
                                   places + r * count);
    for (size_t i = 0; i < count; i++) largest[r * count + i] -= total;
    if (!*(int64_t *)whole.data || !all) continue;
    for (size_t i = 0; i < n; i++)
      all[r * n + i] = (added.data ? row[i] + ((float *)added.data)[i] : row[i]) - total;
  }
  return NULL;
}

#define OF_MATRIX INT8, INT32, FLOAT, INT64, FLOAT
static const unsigned char of_product[] = {UINT8, OF_MATRIX, FLOAT, FLOAT};
static const unsigned char of_feed_forward[] = {UINT8, OF_MATRIX, OF_MATRIX, FLOAT, FLOAT};
static const unsigned char of_sum_norm[] = {FLOAT, FLOAT, FLOAT, FLOAT, FLOAT,
                                            FLOAT, FLOAT, UINT8};
static const unsigned char of_packed[] = {FLOAT, FLOAT, FLOAT, INT64, INT64, FLOAT, FLOAT, UINT8};
static const unsigned char of_past[] = {FLOAT, FLOAT, FLOAT, INT32, FLOAT,
                                        FLOAT, UINT8, FLOAT, FLOAT};
static const unsigned char of_source[] = {FLOAT, FLOAT, FLOAT, INT32, FLOAT, FLOAT, UINT8, FLOAT};
static const unsigned char of_best[] = {FLOAT, FLOAT, INT64, INT64, FLOAT, INT64, FLOAT};

/* ---- What ONNX Runtime asks ---- */

struct Kernel {
  const struct Operator *op;
  Api api;
};

static void *create(const struct Operator *op, Api api, const Info *info) {
  (void)info;
  struct Kernel *kernel = malloc(sizeof *kernel);
  if (kernel) *kernel = (struct Kernel){op, api};
  return kernel;
}
static Status *compute(void *kernel, Context *context) {
  const struct Kernel *k = kernel;
  return k->op->run(k->api, context);
}
static const char *name_of(const struct Operator *op) { return op->name; }
static const char *provider(const struct Operator *op) { return (void)op, NULL; }
static int input_kind(const struct Operator *op, size_t i) { return op->kinds[i]; }
static size_t count_inputs(const struct Operator *op) { return op->inputs; }
static int output_kind(const struct Operator *op, size_t i) { return op->kinds[op->inputs + i]; }
static size_t count_outputs(const struct Operator *op) { return op->outputs; }
static int input_presence(const struct Operator *op, size_t i) {
  return op->optional >> i & 1 ? OPTIONAL : REQUIRED;
}
static int output_presence(const struct Operator *op, size_t i) {
  return op->outputs > 1 ? (void)i, OPTIONAL : REQUIRED;
}
static int input_memory(const struct Operator *op, size_t i) { return (void)op, (void)i, 0; }
static Status *create_with_status(const struct Operator *op, Api api, const Info *info, void **kernel) {
  *kernel = create(op, api, info);
  return *kernel ? NULL : create_status(FAILED, "out of memory");
}

#define OPERATOR(its_name, its_kinds, its_outputs, its_optional, its_run)                      \
  {.version = ORT_VERSION, .name_of = name_of, .provider = provider, .input_kind = input_kind, \
   .count_inputs = count_inputs, .output_kind = output_kind, .count_outputs = count_outputs,   \
   .destroy = free, .input_presence = input_presence, .output_presence = output_presence,      \
   .input_memory = input_memory, .create_with_status = create_with_status, .compute = compute, \
   .name = its_name, .inputs = sizeof its_kinds - its_outputs, .outputs = its_outputs,         \
   .kinds = its_kinds, .optional = its_optional, .run = its_run}

static const struct Operator operators[] = {
    OPERATOR("Product", of_product, 1, 1 << 5 | 1 << 6, run_product),
    OPERATOR("FeedForward", of_feed_forward, 1, 1 << 11, run_feed_forward),
    OPERATOR("SumNorm", of_sum_norm, 3, 1 << 1 | 1 << 4, run_sum_norm),
    OPERATOR("PackedAttention", of_packed, 2, 1 << 5, run_packed_attention),
    OPERATOR("AttentionToPast", of_past, 4, 1 << 4, run_attention_to_past),
    OPERATOR("AttentionToSource", of_source, 3, 1 << 4, run_attention_to_source),
    OPERATOR("Best", of_best, 3, 1 << 1, run_best),
};

/* Called by ONNX Runtime when a session's options name this library. */
Status *RegisterCustomOps(SessionOptions *options, const ApiBase *base) {
  static Domain *domain; /* kept for as long as the process lives */
  if (!best) return NULL; /* and the graph's operators are unknown */
  Api api = base->get_api(ORT_VERSION);
  if (!domain) {
    Domain *ours;
    TRY(create_domain("dragoman", &ours));
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
      TRY(add_operator(ours, &operators[i]));
    domain = ours;
  }
  return add_domain(options, domain);
}

/* ---- What Python asks ---- */

/* Kernels of this kind are used from now on, if this CPU has them; whether it has. */
int dragoman_use(const char *kind) {
  const struct Kernels *kernels = of_this_cpu(kind);
  if (kernels) best = kernels;
  return kernels != NULL;
}

/* Rows of bytes (N, K) in the order of a Matrix: whole panels, zero where a row is missing; and what
   the numbers of each row add up to. `flip` makes bytes around 128 signed. */
#if !ARM
__attribute__((target("avx2")))
#endif
__attribute__((optimize("O3"))) void dragoman_pack(const int8_t *rows, size_t n, size_t k, int flip,
                                                   int8_t *packed, int32_t *sums) {
  memset(sums, 0, n * sizeof *sums);
  if (n % PANEL) memset(packed + n / PANEL * PANEL * k, 0, PANEL * k);
  for (size_t first = 0; first < n; first += PANEL, packed += PANEL * k)
    /* A line of the cache of each row, then the next one: whole rows would drive each other out. */
    for (size_t i = 0; i < k; i += LINE)
      for (size_t row = first; row < first + PANEL && row < n; row++) {
        int8_t line[LINE];
        const size_t some = k - i < LINE ? k - i : LINE;
        memcpy(line, rows + row * k + i, some);
        for (size_t j = 0; j < LINE; j++) line[j] ^= (int8_t)(flip ? ZERO : 0);
        for (size_t j = 0; j < some; j += 4)
          memcpy(packed + (i + j) * PANEL + (row - first) * 4, line + j, 4);
        int32_t sum = 0;
        for (size_t j = 0; j < some; j++) sum += line[j];
        sums[row] += sum;
      }
}
#endif
