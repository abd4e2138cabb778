/* Flash attention, forward, on any CPU: fp32 in, fp32 out.
 *
 * The algorithm is FlashAttention-2's: a block of Br query rows visits the keys in blocks of Bc, keeps each row's running
 * maximum and sum, and rescales its output when the maximum grows. Br and Bc are arguments, so that one build serves
 * every plan. Vectors are the compiler's generic ones: -march=native makes them AVX-512, AVX2 or what there is.
 *
 * Both products are made of one register tile, TILE_ROWS x TILE_COLUMNS: a number of the left operand is broadcast, a
 * packed row of the right one is loaded. K is packed (transposed) and V copied once per block.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 8
#elif defined(__AVX__)
#define LANES 8
#define TILE_ROWS 4
#else
#define LANES 4
#define TILE_ROWS 4
#endif
#define TILE_COLUMNS (2 * LANES)
#define LINE 16 /* floats of a cache line: added to a stride, it keeps rows out of each other's cache sets */
#define MASK_VALUE (-10000.0f)
#define LEAST_EXPONENT (-87.0f) /* exp of less is 0 here; the smallest normal fp32 is exp(-87.3) */

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), may_alias));
typedef int32_t bits __attribute__((vector_size(LANES * sizeof(int32_t)), may_alias));

/* Row-major arrays: q, o (heads, Nq, head_dim), k, v (heads, N, head_dim), mask (heads / heads_per_mask, Nq, N) or NULL,
 * lse (heads, Nq). heads counts the batch too. */
struct attention {
    const float *q, *k, *v, *mask;
    float *o, *lse;
    int64_t heads, heads_per_mask, Nq, N, head_dim, Br, Bc, causal;
    double scale;
};

/* Row blocks from first to end, counted through all heads. */
struct run {
    int64_t first, end;
};

struct scratch {
    float *q, *k, *v, *scores, *o, *peak, *sum, *decay;
    ptrdiff_t q_stride, scores_stride, o_stride;
};

struct worker {
    const struct attention *problem;
    const struct run *runs;
    int64_t run_count;
    struct scratch scratch;
    double cpu_us;
};

static ptrdiff_t round_up(ptrdiff_t count, ptrdiff_t unit) { return (count + unit - 1) / unit * unit; }
static ptrdiff_t least(ptrdiff_t one, ptrdiff_t other) { return one < other ? one : other; }
static vector choose(bits where, vector one, vector other) {
    return (vector)(((bits)one & where) | ((bits)other & ~where));
}
static vector splat(float value) { return value - (vector){0}; }

/* The parts of one thread's scratch; returns the floats that it takes. */
static int64_t lay_out(const struct attention *problem, float *memory, struct scratch *parts) {
    ptrdiff_t rows = round_up(problem->Br, TILE_ROWS);
    ptrdiff_t keys = round_up(problem->Bc, TILE_COLUMNS), columns = round_up(problem->head_dim, TILE_COLUMNS);
    parts->q_stride = round_up(problem->head_dim, LINE) + LINE;
    parts->scores_stride = keys + LINE;
    parts->o_stride = columns + LINE;
    struct {
        float **part;
        ptrdiff_t floats;
    } sizes[] = {
        {&parts->q, rows * parts->q_stride},     {&parts->k, keys * problem->head_dim},
        {&parts->v, columns * problem->Bc},      {&parts->scores, rows * parts->scores_stride},
        {&parts->o, rows * parts->o_stride},     {&parts->peak, rows},
        {&parts->sum, rows},                     {&parts->decay, rows},
    };
    ptrdiff_t used = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *sizes[i].part = memory ? memory + used : NULL;
        used += round_up(sizes[i].floats, LINE) + LINE;
    }
    return used;
}

/* exp(x) for x <= 0 within 2 units in the last place: 2^n times a polynomial on [-ln2/2, ln2/2]. NaN stays NaN. */
static vector exponential(vector x) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
    bits vanishes = x < splat(LEAST_EXPONENT);
    x = choose(vanishes, splat(LEAST_EXPONENT), x);
    vector shifted = x * 1.44269504f + rounder;
    vector n = shifted - rounder;
    vector r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return choose(vanishes, splat(0.0f), (vector)((bits)p + ((bits)shifted << 23)));
}

/* One register tile: c = c * decay + a b, or a b where decay is NULL. b: depth rows of TILE_COLUMNS. */
static void multiply_tile(ptrdiff_t depth, const float *a, ptrdiff_t a_stride, const float *b, float *c,
                          ptrdiff_t c_stride, const float *decay) {
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 8
    for (int row = 0; row < TILE_ROWS; row++) {
        sum[row][0] = sum[row][1] = splat(0.0f);
        if (decay) {
            const vector *old = (const vector *)(c + row * c_stride);
            sum[row][0] = old[0] * decay[row];
            sum[row][1] = old[1] * decay[row];
        }
    }
    for (ptrdiff_t i = 0; i < depth; i++) {
        const vector *right = (const vector *)(b + i * TILE_COLUMNS);
        vector first = right[0], second = right[1];
#pragma GCC unroll 8
        for (int row = 0; row < TILE_ROWS; row++) {
            vector left = splat(a[row * a_stride + i]);
            sum[row][0] += left * first;
            sum[row][1] += left * second;
        }
    }
#pragma GCC unroll 8
    for (int row = 0; row < TILE_ROWS; row++) {
        vector *to = (vector *)(c + row * c_stride);
        to[0] = sum[row][0];
        to[1] = sum[row][1];
    }
}

/* Panels of the right operand are visited in the outer loop: one stays in L1 for all rows. */
static void multiply(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const float *a, ptrdiff_t a_stride,
                     const float *b, float *c, ptrdiff_t c_stride, const float *decay) {
    for (ptrdiff_t column = 0; column < columns; column += TILE_COLUMNS)
        for (ptrdiff_t row = 0; row < rows; row += TILE_ROWS)
            multiply_tile(depth, a + row * a_stride, a_stride, b + column * depth, c + row * c_stride + column,
                          c_stride, decay ? decay + row : NULL);
}

/* Query rows times scale; rows up to a whole register tile are zeros. */
static void load_queries(const float *q, ptrdiff_t rows, ptrdiff_t head_dim, double scale, const struct scratch *at) {
    for (ptrdiff_t row = 0; row < round_up(rows, TILE_ROWS); row++)
        for (ptrdiff_t i = 0; i < head_dim; i++)
            at->q[row * at->q_stride + i] = row < rows ? (float)(q[row * head_dim + i] * scale) : 0.0f;
}

/* K^T in panels of TILE_COLUMNS keys: [panel][head_dim][key]; keys beyond the last are zeros. */
static void pack_keys(const float *k, ptrdiff_t keys, ptrdiff_t head_dim, float *packed) {
    for (ptrdiff_t first = 0; first < keys; first += TILE_COLUMNS, packed += head_dim * TILE_COLUMNS) {
        ptrdiff_t count = least(keys - first, TILE_COLUMNS);
        if (count < TILE_COLUMNS)
            memset(packed, 0, head_dim * TILE_COLUMNS * sizeof(float));
        for (ptrdiff_t key = 0; key < count; key++)
            for (ptrdiff_t i = 0; i < head_dim; i++)
                packed[i * TILE_COLUMNS + key] = k[(first + key) * head_dim + i];
    }
}

/* V in panels of TILE_COLUMNS columns: [panel][key][column]; columns beyond the last are zeros. */
static void pack_values(const float *v, ptrdiff_t keys, ptrdiff_t head_dim, float *packed) {
    for (ptrdiff_t first = 0; first < head_dim; first += TILE_COLUMNS) {
        ptrdiff_t count = least(head_dim - first, TILE_COLUMNS);
        for (ptrdiff_t key = 0; key < keys; key++, packed += TILE_COLUMNS) {
            memcpy(packed, v + key * head_dim + first, count * sizeof(float));
            memset(packed + count, 0, (TILE_COLUMNS - count) * sizeof(float));
        }
    }
}

/* Adds what masks the scores of query rows from `query` and keys from `key`. Padding counts as minus infinity. */
static void apply_masks(const struct attention *problem, int64_t head, ptrdiff_t query, ptrdiff_t rows, ptrdiff_t key,
                        ptrdiff_t keys, const struct scratch *at) {
    for (ptrdiff_t row = 0; row < round_up(rows, TILE_ROWS); row++) {
        float *scores = at->scores + row * at->scores_stride;
        for (ptrdiff_t i = keys; i < round_up(keys, TILE_COLUMNS); i++)
            scores[i] = -INFINITY;
        if (problem->mask && row < rows) {
            ptrdiff_t mask_row = (head / problem->heads_per_mask) * problem->Nq + query + row;
            const float *mask = problem->mask + mask_row * problem->N + key;
            for (ptrdiff_t i = 0; i < keys; i++)
                scores[i] += MASK_VALUE * mask[i];
        }
        if (problem->causal)
            for (ptrdiff_t i = query + row + 1 > key ? query + row + 1 - key : 0; i < keys; i++)
                scores[i] += MASK_VALUE;
    }
}

/* Scores become exp(score - the row's maximum so far); `decay` is what shrinks everything summed before. */
static void soften(ptrdiff_t rows, ptrdiff_t keys, const struct scratch *at) {
    ptrdiff_t vectors = round_up(keys, TILE_COLUMNS) / LANES;
    for (ptrdiff_t row = 0; row < round_up(rows, TILE_ROWS); row++) {
        vector *scores = (vector *)(at->scores + row * at->scores_stride);
        vector highest = scores[0], total = splat(0.0f);
        for (ptrdiff_t i = 1; i < vectors; i++)
            highest = choose(scores[i] > highest, scores[i], highest);
        float peak = at->peak[row], sum = 0.0f;
        for (int lane = 0; lane < LANES; lane++)
            peak = highest[lane] > peak ? highest[lane] : peak;
        for (ptrdiff_t i = 0; i < vectors; i++) {
            scores[i] = exponential(scores[i] - peak);
            total += scores[i];
        }
        for (int lane = 0; lane < LANES; lane++)
            sum += total[lane];
        at->decay[row] = expf(at->peak[row] - peak);
        at->sum[row] = at->sum[row] * at->decay[row] + sum;
        at->peak[row] = peak;
    }
}

static void store(const struct attention *problem, int64_t head, ptrdiff_t query, ptrdiff_t rows,
                  const struct scratch *at) {
    for (ptrdiff_t row = 0; row < rows; row++) {
        ptrdiff_t to = head * problem->Nq + query + row;
        float factor = 1.0f / at->sum[row];
        for (ptrdiff_t i = 0; i < problem->head_dim; i++)
            problem->o[to * problem->head_dim + i] = at->o[row * at->o_stride + i] * factor;
        problem->lse[to] = at->peak[row] + logf(at->sum[row]);
    }
}

static void attend(const struct attention *problem, int64_t head, int64_t row_block, const struct scratch *at) {
    ptrdiff_t head_dim = problem->head_dim, query = row_block * problem->Br;
    ptrdiff_t rows = least(problem->Br, problem->Nq - query), tile_rows = round_up(rows, TILE_ROWS);
    ptrdiff_t seen = problem->causal ? least(problem->N, query + rows) : problem->N;
    load_queries(problem->q + (head * problem->Nq + query) * head_dim, rows, head_dim, problem->scale, at);
    for (ptrdiff_t row = 0; row < tile_rows; row++) {
        at->peak[row] = -INFINITY;
        at->sum[row] = 0.0f;
    }
    for (ptrdiff_t key = 0; key < seen; key += problem->Bc) {
        ptrdiff_t keys = least(problem->Bc, problem->N - key), from = (head * problem->N + key) * head_dim;
        pack_keys(problem->k + from, keys, head_dim, at->k);
        multiply(tile_rows, round_up(keys, TILE_COLUMNS), head_dim, at->q, at->q_stride, at->k, at->scores,
                 at->scores_stride, NULL);
        if (problem->mask || keys % TILE_COLUMNS || (problem->causal && key + keys > query + 1))
            apply_masks(problem, head, query, rows, key, keys, at);
        soften(rows, keys, at);
        pack_values(problem->v + from, keys, head_dim, at->v);
        multiply(tile_rows, round_up(head_dim, TILE_COLUMNS), keys, at->scores, at->scores_stride, at->v, at->o,
                 at->o_stride, key ? at->decay : NULL);
    }
    store(problem, head, query, rows, at);
}

static double now_us(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

static void *work(void *argument) {
    struct worker *own = argument;
    double start = now_us(CLOCK_THREAD_CPUTIME_ID);
    int64_t per_head = (own->problem->Nq + own->problem->Br - 1) / own->problem->Br;
    for (int64_t i = 0; i < own->run_count; i++)
        for (int64_t row_block = own->runs[i].first; row_block < own->runs[i].end; row_block++)
            attend(own->problem, row_block / per_head, row_block % per_head, &own->scratch);
    own->cpu_us = now_us(CLOCK_THREAD_CPUTIME_ID) - start;
    return NULL;
}

/* Floats of scratch that one thread needs. */
int64_t flash_attention_scratch(const struct attention *problem) {
    struct scratch parts;
    return lay_out(problem, NULL, &parts);
}

/* Computes o and lse. Thread i does runs[run_ends[i - 1]] to runs[run_ends[i]]; the calling thread is the first.
 * scratch: threads times flash_attention_scratch floats, 64-byte aligned. cpu_us: per thread, its CPU time; wall_us: from
 * the first thread's start to the last one's end. Returns 0, or 1 where memory or a thread could not be had. */
int flash_attention_forward(const struct attention *problem, const struct run *runs, const int64_t *run_ends,
                            int64_t threads, float *scratch, double *cpu_us, double *wall_us) {
    struct worker *workers = calloc(threads, sizeof *workers);
    pthread_t *handles = calloc(threads, sizeof *handles);
    int64_t started = 1, floats = flash_attention_scratch(problem);
    int failed = !workers || !handles;
    double start = now_us(CLOCK_MONOTONIC);
    for (int64_t i = 0; !failed && i < threads; i++) {
        int64_t first = i ? run_ends[i - 1] : 0;
        workers[i] = (struct worker){problem, runs + first, run_ends[i] - first, {0}, 0.0};
        lay_out(problem, scratch + i * floats, &workers[i].scratch);
    }
    for (; !failed && started < threads; started += !failed)
        failed = pthread_create(handles + started, NULL, work, workers + started) != 0;
    if (!failed)
        work(workers);
    for (int64_t i = 1; workers && handles && i < started; i++)
        pthread_join(handles[i], NULL);
    *wall_us = now_us(CLOCK_MONOTONIC) - start;
    for (int64_t i = 0; !failed && i < threads; i++)
        cpu_us[i] = workers[i].cpu_us;
    free(workers);
    free(handles);
    return failed;
}
