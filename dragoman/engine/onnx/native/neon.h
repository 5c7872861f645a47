/* Arm's vectors of four numbers under the names that kernels.h has for x86's. */

#define LANES 4
#define VF float32x4_t
#define VI int32x4_t
#define FOUR float32x4_t
#define VALUES 8 /* two multiplications begin in each cycle and take four: so many at least */

/* There is no product of unsigned by signed bytes: those of activations are taken around ZERO, and
   the offsets say so (library.py). */
#define around_zero(bytes) vreinterpretq_s8_u8(veorq_u8(bytes, vdupq_n_u8(ZERO)))
#define four_bytes(p) \
  vreinterpretq_s32_s8(around_zero(vreinterpretq_u8_s32(vld1q_dup_s32((const int32_t *)(p)))))
#define load_bytes(p) vreinterpretq_s32_s8(vld1q_s8(p))
#define any_int vld1q_s32
#define round_to_int vcvtnq_s32_f32
#define any_greater(a, b) vmaxvq_u32(vcgtq_f32(a, b))
#define as_floats vreinterpretq_f32_s32
#define store_bytes(p, z)                                                                   \
  vst1_lane_u32((uint32_t *)(p),                                                            \
                vreinterpret_u32_u8(vqmovun_s16(vcombine_s16(vqmovn_s32(z), vdup_n_s16(0)))), 0)
#define store_four vst1q_f32
#define times_four vmulq_n_f32

/* The products of four of the sixteen columns of `a` that are at hand. */
#define FOUR_COLUMNS(which)                                                                 \
  do {                                                                                      \
    int8x16_t b[TILE_VECTORS];                                                              \
    UNROLL for (int j = 0; j < TILE_VECTORS; j++)                                           \
      b[j] = vld1q_s8(w + which * 4 * PANEL + j * 4 * LANES);                               \
    __builtin_prefetch(w + which * 4 * PANEL + AHEAD);                                      \
    UNROLL for (int r = 0; r < rows; r++)                                                   \
      UNROLL for (int j = 0; j < TILE_VECTORS; j++)                                         \
        sums[r][j] = vdotq_laneq_s32(sums[r][j], b[j], a[r], which);                        \
    __asm__("" ::: "memory"); /* else GCC loads the weights of all columns: no room for sums */ \
  } while (0)

#define V(name) neon_##name
#define neon_set1_ps vdupq_n_f32
#define neon_loadu_ps vld1q_f32
#define neon_storeu_ps vst1q_f32
#define neon_add_ps vaddq_f32
#define neon_sub_ps vsubq_f32
#define neon_mul_ps vmulq_f32
#define neon_max_ps vmaxnmq_f32
#define neon_min_ps vminnmq_f32
#define neon_fmadd_ps(a, b, c) vfmaq_f32(c, a, b)
#define neon_fnmadd_ps(a, b, c) vfmsq_f32(c, a, b)
#define neon_cvtepi32_ps vcvtq_f32_s32
#define neon_set1_epi32 vdupq_n_s32
#define neon_add_epi32 vaddq_s32
#define neon_min_epi32 vminq_s32
#define neon_max_epi32 vmaxq_s32
#define neon_slli_epi32 vshlq_n_s32
