/* Names for what vector instructions do, 16 or 8 numbers at a time: `kernels.h` is written with
   them once, and compiled for each kind of CPU. Included again and again, with AVX512 defined to
   1 or 0. */

#undef LANES
#undef VF
#undef VI
#undef V
#if AVX512
#define LANES 16
#define VF __m512
#define VI __m512i
#define V(name) _mm512_##name
#else
#define LANES 8
#define VF __m256
#define VI __m256i
#define V(name) _mm256_##name
#endif
