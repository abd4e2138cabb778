/* The arithmetic of the kernels on the compiler's generic vectors: -march=native makes them AVX-512, AVX2 or what there
 * is. */
#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE__)
#include <immintrin.h>
#endif

/* Lanes of a vector, and the register tile: TILE_ROWS by TILE_VECTORS sums, as many vectors for a row of the right
 * operand and one for a number of the left one fill the registers (32 with AVX-512, at least 16 otherwise). */
#if defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 14
#elif defined(__AVX__)
#define LANES 8
#define TILE_ROWS 6
#else
#define LANES 4
#define TILE_ROWS 6
#endif
#define TILE_VECTORS 2
#define TILE_COLUMNS (TILE_VECTORS * LANES)
#define LEAST_POWER (-127.0f) /* 2^n of it has the bits of +0 here, and so has all that is less */

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), may_alias));
typedef int32_t bits __attribute__((vector_size(LANES * sizeof(int32_t)), may_alias));

static inline vector splat(float value) { return value - (vector){0}; }

/* The larger number of each lane; `other` where one of them is NaN. One instruction, which no generic form becomes. */
static inline vector larger(vector one, vector other) {
#if defined(__AVX512F__)
    return (vector)_mm512_max_ps((__m512)one, (__m512)other);
#elif defined(__AVX__)
    return (vector)_mm256_max_ps((__m256)one, (__m256)other);
#elif defined(__SSE__)
    return (vector)_mm_max_ps((__m128)one, (__m128)other);
#else
    bits where = one > other;
    return (vector)(((bits)one & where) | ((bits)other & ~where));
#endif
}

/* 2^x for x <= 0 within 2 units in the last place, NaN for NaN: 2^n times a polynomial on [-1/2, 1/2], whose coefficients
 * make the largest relative error least (9.1e-8; weighted least squares, iterated, in float64). */
static inline vector power_of_two(vector x) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
    x = larger(splat(LEAST_POWER), x);
    vector shifted = x + rounder;
    vector f = x - (shifted - rounder);
    vector p = f * 1.326472731e-3f + 9.671512991e-3f;
    p = p * f + 5.550733581e-2f;
    p = p * f + 2.402224243e-1f;
    p = p * f + 6.931470037e-1f;
    p = p * f + 1.0f;
    return (vector)((bits)p + ((bits)shifted << 23));
}

/* Transposes LANES x LANES numbers: blocks off the diagonal change places, large ones first. */
static inline void turn_over(vector block[LANES]) {
#pragma GCC unroll 4
    for (int half = LANES / 2; half; half /= 2) {
        bits low, high;
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++) {
            low[lane] = lane & half ? LANES + lane - half : lane;
            high[lane] = lane & half ? LANES + lane : lane + half;
        }
#pragma GCC unroll 16
        for (int row = 0; row < LANES; row++)
            if (!(row & half)) {
                vector upper = block[row], lower = block[row + half];
                block[row] = __builtin_shuffle(upper, lower, low);
                block[row + half] = __builtin_shuffle(upper, lower, high);
            }
    }
}

/* At most LANES numbers; a whole vector, the usual case, without a call. */
static inline void copy(void *to, const void *from, ptrdiff_t count) {
    if (count >= LANES)
        memcpy(to, from, sizeof(vector));
    else
        memcpy(to, from, count * sizeof(float));
}

/* The transposed of at most LANES rows and columns; zeros beyond. */
static inline void load_turned(const float *from, ptrdiff_t stride, ptrdiff_t rows, ptrdiff_t columns,
                               vector block[LANES]) {
    for (ptrdiff_t row = 0; row < LANES; row++) {
        block[row] = splat(0.0f);
        if (row < rows)
            copy(block + row, from + row * stride, columns);
    }
    turn_over(block);
}

/* One register tile of `rows` rows: c = c * decay + a b, or a b where decay is NULL. Element (row, i) of a is
 * a[row * a_stride + i * a_step]; b has depth rows of TILE_COLUMNS, c has `rows` of them; decay is one row. */
static inline __attribute__((always_inline)) void multiply_rows(const int rows, ptrdiff_t depth, const float *a,
                                                                ptrdiff_t a_stride, ptrdiff_t a_step, const float *b,
                                                                float *c, const vector *decay) {
    vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++)
        for (int j = 0; j < TILE_VECTORS; j++)
            if (decay)
                sum[row][j] = ((const vector *)(c + row * TILE_COLUMNS))[j] * decay[j];
            else
                sum[row][j] = splat(0.0f);
    for (ptrdiff_t i = 0; i < depth; i++) {
        const vector *right = (const vector *)(b + i * TILE_COLUMNS);
        vector columns[TILE_VECTORS];
        for (int j = 0; j < TILE_VECTORS; j++)
            columns[j] = right[j];
#pragma GCC unroll 16
        for (int row = 0; row < rows; row++) {
            vector left = splat(a[row * a_stride + i * a_step]);
            for (int j = 0; j < TILE_VECTORS; j++)
                sum[row][j] += left * columns[j];
        }
    }
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++)
        for (int j = 0; j < TILE_VECTORS; j++)
            ((vector *)(c + row * TILE_COLUMNS))[j] = sum[row][j];
}

/* The same for a number of rows that is known when it runs: a tail has its own code, and reads nothing beyond it. */
static void multiply(ptrdiff_t rows, ptrdiff_t depth, const float *a, ptrdiff_t a_stride, ptrdiff_t a_step,
                     const float *b, float *c, const vector *decay) {
#define ROWS(count) \
    case count: \
        multiply_rows(count, depth, a, a_stride, a_step, b, c, decay); \
        break;
    switch (rows) {
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if TILE_ROWS > 6
        ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
#endif
    }
#undef ROWS
}
