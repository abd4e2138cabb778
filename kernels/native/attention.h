/* What the forward and the backward kernel share: the problem, which keys a row sees, scores, and the threads.
 *
 * Scores are in units of ln 2, so that the exponential is a power of two. A panel is TILE_COLUMNS query rows side by side
 * in the lanes; see forward.c.
 */
#pragma once
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vectors.h"

#define LINE 16 /* floats of a cache line */
#define MASK_VALUE (-10000.0f)

/* Row-major arrays: q, o, d_o, dq (heads, Nq, head_dim), k, v, dk, dv (heads, N, head_dim), lse (heads, Nq); mask (heads /
 * heads_per_mask, Nq, N), dropout (heads, Nq, N) and alibi (heads, N), each NULL where there is none. heads counts the
 * batch too. Row i sees the keys from first[i] to end[i]; neither ever falls. narrow: q, k and v are bfloat16 instead of
 * fp32. o and lse are results of the forward kernel and inputs of the backward one; locks: one for each head of dq. */
struct attention {
    const void *q, *k, *v;
    const float *mask, *dropout, *alibi, *d_o;
    const int64_t *first, *end;
    float *o, *lse, *dq, *dk, *dv;
    pthread_mutex_t *locks;
    int64_t heads, heads_per_mask, Nq, N, head_dim, Br, Bc, narrow;
    double scale;
};

/* Blocks from first to end, counted through all heads: of query rows, or of keys in the backward kernel. */
struct run {
    int64_t first, end;
};

/* What computes one block of a head, in scratch of its thread's own. */
typedef void block_kernel(const struct attention *problem, int64_t head, int64_t block, float *scratch);

struct worker {
    const struct attention *problem;
    const struct run *runs;
    int64_t run_count, per_head;
    block_kernel *kernel;
    float *scratch;
    double cpu_us;
};

/* A part of a thread's scratch. */
struct part {
    float **part;
    ptrdiff_t floats;
};

/* TILE_COLUMNS query rows of a head from `query`, fewer where the row block ends. */
struct rows {
    int64_t head;
    ptrdiff_t query, count;
};

/* The keys of a block that some row of a panel sees, and those of them that all its rows see. */
struct span {
    ptrdiff_t from, to, inner_from, inner_to;
};

static inline ptrdiff_t round_up(ptrdiff_t count, ptrdiff_t unit) { return (count + unit - 1) / unit * unit; }
static inline ptrdiff_t least(ptrdiff_t one, ptrdiff_t other) { return one < other ? one : other; }
static inline ptrdiff_t most(ptrdiff_t one, ptrdiff_t other) { return one > other ? one : other; }

/* Points the parts into memory where there is some; returns the floats that they take, no two threads sharing a line. */
static inline int64_t lay_out(const struct part *parts, size_t count, float *memory) {
    ptrdiff_t used = 0;
    for (size_t i = 0; i < count; i++) {
        *parts[i].part = memory ? memory + used : NULL;
        used += round_up(parts[i].floats, LINE);
    }
    return used + LINE;
}

/* Numbers of q, k or v as fp32: where they lie, or widened into `room`. A bfloat16 is the upper half of an fp32. */
static inline const float *single(const struct attention *problem, const void *array, ptrdiff_t from, ptrdiff_t count,
                           float *room) {
    if (!problem->narrow)
        return (const float *)array + from;
    const uint16_t *narrow = (const uint16_t *)array + from;
    for (ptrdiff_t i = 0; i < count; i++) {
        uint32_t wide = (uint32_t)narrow[i] << 16;
        memcpy(room + i, &wide, sizeof wide);
    }
    return room;
}

/* A panel of numbers turned over, times a factor; lanes beyond the last row are zeros. */
static inline void turn_panel(const float *from, ptrdiff_t rows, ptrdiff_t head_dim, float factor, float *to) {
    vector block[LANES];
    for (ptrdiff_t row = 0; row < TILE_COLUMNS; row += LANES)
        for (ptrdiff_t i = 0; i < head_dim; i += LANES) {
            load_turned(from + row * head_dim + i, head_dim, rows - row, head_dim - i, block);
            for (ptrdiff_t j = 0; j < least(LANES, head_dim - i); j++)
                *(vector *)(to + (i + j) * TILE_COLUMNS + row) = block[j] * factor;
        }
}

static inline struct span seen(const struct attention *problem, const struct rows *panel, ptrdiff_t key, ptrdiff_t keys) {
    ptrdiff_t top = panel->query, last = top + panel->count - 1;
    return (struct span){
        .from = most(problem->first[top] - key, 0),
        .to = least(problem->end[last] - key, keys),
        .inner_from = problem->first[last] - key,
        .inner_to = problem->end[top] - key,
    };
}

/* Where the part of an array (heads, Nq, N) begins that belongs to a panel and the keys from `key`. */
static inline const float *part_of(const struct attention *problem, const float *array, int64_t head,
                                   const struct rows *panel, ptrdiff_t key) {
    return array + (head * problem->Nq + panel->query) * problem->N + key;
}

enum change { ADD, MULTIPLY };

/* Changes the panel's scores by its part of an array whose rows are those of the queries; `from` is where the span is. */
static inline void change(enum change how, const struct attention *problem, const struct rows *panel,
                          const float *from, float factor, ptrdiff_t keys, float *scores) {
    vector block[LANES];
    for (ptrdiff_t row = 0; row < panel->count; row += LANES)
        for (ptrdiff_t i = 0; i < keys; i += LANES) {
            load_turned(from + row * problem->N + i, problem->N, panel->count - row, keys - i, block);
            for (ptrdiff_t j = 0; j < least(LANES, keys - i); j++) {
                vector *score = (vector *)(scores + (i + j) * TILE_COLUMNS + row);
                *score = how == ADD ? *score + block[j] * factor : *score * (block[j] * factor);
            }
        }
}

/* Adds ALiBi's biases, one for each key of a head. */
static inline void add_biases(const float *biases, ptrdiff_t keys, float *scores) {
    for (ptrdiff_t i = 0; i < keys; i++)
        for (int j = 0; j < TILE_VECTORS; j++)
            ((vector *)scores)[i * TILE_VECTORS + j] += biases[i] * (float)M_LOG2E;
}

/* Hides the keys of a span from those rows of a panel that do not see them. */
static inline void hide(const struct attention *problem, const struct rows *panel, ptrdiff_t key, struct span span,
                 float *scores) {
    if (span.inner_from <= span.from && span.to <= span.inner_to)
        return;
    for (ptrdiff_t row = 0; row < panel->count; row++) {
        ptrdiff_t first = least(problem->first[panel->query + row] - key, span.to);
        for (ptrdiff_t i = span.from; i < first; i++)
            scores[i * TILE_COLUMNS + row] = -INFINITY;
        for (ptrdiff_t i = most(problem->end[panel->query + row] - key, span.from); i < span.to; i++)
            scores[i * TILE_COLUMNS + row] = -INFINITY;
    }
}

/* S^T of a panel and a span of keys, whose first block's is `key`: k Q^T with all that is added, -inf where nobody sees. */
static inline void score(const struct attention *problem, const struct rows *panel, ptrdiff_t key, struct span span,
                         const float *k, const float *q, float *scores) {
    ptrdiff_t head_dim = problem->head_dim, keys = span.to - span.from;
    float *first = scores + span.from * TILE_COLUMNS;
    for (ptrdiff_t i = span.from; i < span.to; i += TILE_ROWS)
        multiply(least(TILE_ROWS, span.to - i), head_dim, k + i * head_dim, head_dim, 1, q, scores + i * TILE_COLUMNS,
                 NULL);
    if (problem->alibi)
        add_biases(problem->alibi + panel->head * problem->N + key + span.from, keys, first);
    if (problem->mask)
        change(ADD, problem, panel,
               part_of(problem, problem->mask, panel->head / problem->heads_per_mask, panel, key + span.from),
               (float)(MASK_VALUE * M_LOG2E), keys, first);
    hide(problem, panel, key, span, scores);
}

static inline double now_us(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

static inline void *work(void *argument) {
    struct worker *own = argument;
    double start = now_us(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < own->run_count; i++)
        for (int64_t block = own->runs[i].first; block < own->runs[i].end; block++)
            own->kernel(own->problem, block / own->per_head, block % own->per_head, own->scratch);
    own->cpu_us = now_us(CLOCK_THREAD_CPUTIME_ID) - start;
    return NULL;
}

/* Runs a kernel on threads. Thread i does runs[run_ends[i - 1]] to runs[run_ends[i]]; the calling thread is the first.
 * scratch: so many floats for each, 64-byte aligned. cpu_us: per thread, its CPU time; wall_us: from the first thread's
 * start to the last one's end. Returns 0, or 1 where memory or a thread could not be had. */
static inline int run_threads(const struct attention *problem, block_kernel *kernel, int64_t per_head,
                              const struct run *runs, const int64_t *run_ends, int64_t threads, float *scratch,
                              int64_t floats, double *cpu_us, double *wall_us) {
    struct worker *workers = calloc(threads, sizeof *workers);
    pthread_t *handles = calloc(threads, sizeof *handles);
    int64_t started = 1;
    int failed = !workers || !handles;
    double start = now_us(CLOCK_MONOTONIC);
    for (int64_t i = 0; !failed && i < threads; i++) {
        int64_t first = i ? run_ends[i - 1] : 0, count = run_ends[i] - first;
        workers[i] = (struct worker){problem, runs + first, count, per_head, kernel, scratch + i * floats, 0.0};
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
