/* Flash attention, forward, on any CPU: fp32 or bfloat16 in, fp32 inside and out.
 *
 * The algorithm is FlashAttention-2's: a block of Br query rows visits the keys in blocks of Bc, keeps each row's running
 * maximum and sum, and rescales its output when the maximum grows. Br and Bc are arguments, so that one build serves
 * every plan. Which keys a row sees is an interval, given row by row: causal masks and windows are nothing else, and
 * what no row of a panel sees is not computed.
 *
 * Everything is transposed: a panel is TILE_COLUMNS query rows side by side in the lanes, S^T = K Q^T, O^T = V^T P^T. So
 * K and V are read as they lie, number by number, and nothing of them is packed; the softmax never looks across lanes;
 * and P^T comes out of one product as the other one reads it. Only Q and O are turned over, once a row block. A block's
 * keys and values stay in the second-level cache for all its panels, the scores of one panel in the first.
 *
 * Scores are in units of ln 2, so that the exponential is a power of two.
 */
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

/* Row-major arrays: q, o (heads, Nq, head_dim), k, v (heads, N, head_dim), lse (heads, Nq); mask (heads / heads_per_mask,
 * Nq, N), dropout (heads, Nq, N) and alibi (heads, N), each NULL where there is none. heads counts the batch too.
 * Row i sees the keys from first[i] to end[i]; neither ever falls. narrow: q, k and v are bfloat16 instead of fp32. */
struct attention {
    const void *q, *k, *v;
    const float *mask, *dropout, *alibi;
    const int64_t *first, *end;
    float *o, *lse;
    int64_t heads, heads_per_mask, Nq, N, head_dim, Br, Bc, narrow;
    double scale;
};

/* Row blocks from first to end, counted through all heads. */
struct run {
    int64_t first, end;
};

/* What a thread works in. scores: (Bc, TILE_COLUMNS). rows, keys, values: what is widened of q, k and v. For every panel of a row block q and o (head_dim, TILE_COLUMNS),
 * and peak and sum (TILE_COLUMNS): the largest score and the sum of the probabilities so far. */
struct scratch {
    float *scores, *rows, *keys, *values, *q, *o, *peak, *sum;
};

struct worker {
    const struct attention *problem;
    const struct run *runs;
    int64_t run_count;
    struct scratch scratch;
    double cpu_us;
};

/* TILE_COLUMNS query rows of a head from `query`, fewer where the row block ends, and their part of the scratch. */
struct panel {
    int64_t head;
    ptrdiff_t query, rows;
    float *q, *o;
    vector *peak, *sum;
};

/* The keys of a block that some row of a panel sees, and those of them that all its rows see. */
struct span {
    ptrdiff_t from, to, inner_from, inner_to;
};

static ptrdiff_t round_up(ptrdiff_t count, ptrdiff_t unit) { return (count + unit - 1) / unit * unit; }
static ptrdiff_t least(ptrdiff_t one, ptrdiff_t other) { return one < other ? one : other; }
static ptrdiff_t most(ptrdiff_t one, ptrdiff_t other) { return one > other ? one : other; }

/* The parts of one thread's scratch; returns the floats that it takes. */
static int64_t lay_out(const struct attention *problem, float *memory, struct scratch *parts) {
    ptrdiff_t rows = round_up(problem->Br, TILE_COLUMNS), widened = problem->narrow ? problem->head_dim : 0;
    struct {
        float **part;
        ptrdiff_t floats;
    } sizes[] = {
        {&parts->scores, problem->Bc * TILE_COLUMNS}, {&parts->rows, TILE_COLUMNS * widened},
        {&parts->keys, problem->Bc * widened},        {&parts->values, problem->Bc * widened},
        {&parts->q, rows * problem->head_dim},        {&parts->o, rows * problem->head_dim},
        {&parts->peak, rows},                         {&parts->sum, rows},
    };
    ptrdiff_t used = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *sizes[i].part = memory ? memory + used : NULL;
        used += round_up(sizes[i].floats, LINE);
    }
    return used + LINE; /* no two threads share a line */
}

static struct panel panel_at(const struct attention *problem, const struct scratch *at, int64_t head, ptrdiff_t query,
                             ptrdiff_t row, ptrdiff_t rows) {
    return (struct panel){
        .head = head,
        .query = query + row,
        .rows = least(TILE_COLUMNS, rows - row),
        .q = at->q + row * problem->head_dim,
        .o = at->o + row * problem->head_dim,
        .peak = (vector *)(at->peak + row),
        .sum = (vector *)(at->sum + row),
    };
}

/* Numbers of q, k or v as fp32: where they lie, or widened into `room`. A bfloat16 is the upper half of an fp32. */
static const float *single(const struct attention *problem, const void *array, ptrdiff_t from, ptrdiff_t count,
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

/* Q^T in units of ln 2, times scale; lanes beyond the last row are zeros. Nothing is summed yet. */
static void begin(const struct attention *problem, const struct panel *panel, float *room) {
    ptrdiff_t head_dim = problem->head_dim, from = (panel->head * problem->Nq + panel->query) * head_dim;
    const float *q = single(problem, problem->q, from, panel->rows * head_dim, room);
    vector block[LANES], factor = splat((float)(problem->scale * M_LOG2E));
    for (ptrdiff_t row = 0; row < TILE_COLUMNS; row += LANES)
        for (ptrdiff_t i = 0; i < head_dim; i += LANES) {
            load_turned(q + row * head_dim + i, head_dim, panel->rows - row, head_dim - i, block);
            for (ptrdiff_t j = 0; j < least(LANES, head_dim - i); j++)
                *(vector *)(panel->q + (i + j) * TILE_COLUMNS + row) = block[j] * factor;
        }
    for (ptrdiff_t i = 0; i < panel->rows * head_dim; i += LINE)
        __builtin_prefetch(problem->o + from + i, 1); /* the lines are there when the rows are finished */
    memset(panel->o, 0, head_dim * TILE_COLUMNS * sizeof(float));
    for (int i = 0; i < TILE_VECTORS; i++) {
        panel->peak[i] = splat(-INFINITY);
        panel->sum[i] = splat(0.0f);
    }
}

static struct span seen(const struct attention *problem, const struct panel *panel, ptrdiff_t key, ptrdiff_t keys) {
    ptrdiff_t top = panel->query, last = top + panel->rows - 1;
    return (struct span){
        .from = most(problem->first[top] - key, 0),
        .to = least(problem->end[last] - key, keys),
        .inner_from = problem->first[last] - key,
        .inner_to = problem->end[top] - key,
    };
}

enum change { ADD, MULTIPLY };

/* Changes the panel's scores by its part of an array whose rows are those of the queries; `from` is where the span is. */
static inline void change(enum change how, const struct attention *problem, const struct panel *panel,
                          const float *from, float factor, ptrdiff_t keys, float *scores) {
    vector block[LANES];
    for (ptrdiff_t row = 0; row < panel->rows; row += LANES)
        for (ptrdiff_t i = 0; i < keys; i += LANES) {
            load_turned(from + row * problem->N + i, problem->N, panel->rows - row, keys - i, block);
            for (ptrdiff_t j = 0; j < least(LANES, keys - i); j++) {
                vector *score = (vector *)(scores + (i + j) * TILE_COLUMNS + row);
                *score = how == ADD ? *score + block[j] * factor : *score * (block[j] * factor);
            }
        }
}

/* Adds ALiBi's biases, one for each key of a head. */
static void add_biases(const float *biases, ptrdiff_t keys, float *scores) {
    for (ptrdiff_t i = 0; i < keys; i++)
        for (int j = 0; j < TILE_VECTORS; j++)
            ((vector *)scores)[i * TILE_VECTORS + j] += biases[i] * (float)M_LOG2E;
}

/* Hides the keys of a span from those rows of a panel that do not see them. */
static void hide(const struct attention *problem, const struct panel *panel, ptrdiff_t key, struct span span,
                 float *scores) {
    if (span.inner_from <= span.from && span.to <= span.inner_to)
        return;
    for (ptrdiff_t row = 0; row < panel->rows; row++) {
        ptrdiff_t first = least(problem->first[panel->query + row] - key, span.to);
        for (ptrdiff_t i = span.from; i < first; i++)
            scores[i * TILE_COLUMNS + row] = -INFINITY;
        for (ptrdiff_t i = most(problem->end[panel->query + row] - key, span.from); i < span.to; i++)
            scores[i * TILE_COLUMNS + row] = -INFINITY;
    }
}

/* Scores become 2^(score - the row's maximum so far); `decay` is what shrinks everything summed before. */
static void soften(const struct panel *panel, struct span span, float *scores, vector *decay) {
    for (int i = 0; i < TILE_VECTORS; i++) {
        vector *column = (vector *)scores + i, highest = panel->peak[i];
        vector apart[4] = {highest, highest, highest, highest}; /* four chains, since each step waits for the last */
        ptrdiff_t key = span.from;
        for (; key + 4 <= span.to; key += 4)
            for (int j = 0; j < 4; j++)
                apart[j] = larger(column[(key + j) * TILE_VECTORS], apart[j]);
        for (; key < span.to; key++)
            apart[0] = larger(column[key * TILE_VECTORS], apart[0]);
        highest = larger(larger(apart[0], apart[1]), larger(apart[2], apart[3]));
        /* Of a row that has seen no key yet it is -inf, and -inf minus -inf is no number: any base will do. */
        vector base = larger(highest, splat(-FLT_MAX)), total = splat(0.0f);
        for (key = span.from; key < span.to; key++) {
            vector probability = power_of_two(column[key * TILE_VECTORS] - base);
            column[key * TILE_VECTORS] = probability;
            total += probability;
        }
        decay[i] = power_of_two(panel->peak[i] - base);
        panel->sum[i] = panel->sum[i] * decay[i] + total;
        panel->peak[i] = highest;
    }
}

/* One panel meets one block of keys, whose first is `key`. */
static void visit(const struct attention *problem, const struct panel *panel, ptrdiff_t key, struct span span,
                  const float *k, const float *v, float *scores) {
    ptrdiff_t head_dim = problem->head_dim, keys = span.to - span.from, row_of_scores = panel->query * problem->N + key + span.from;
    ptrdiff_t scores_of_head = problem->Nq * problem->N;
    float *first = scores + span.from * TILE_COLUMNS;
    vector decay[TILE_VECTORS];
    for (ptrdiff_t i = span.from; i < span.to; i += TILE_ROWS)
        multiply(least(TILE_ROWS, span.to - i), head_dim, k + i * head_dim, head_dim, 1, panel->q,
                 scores + i * TILE_COLUMNS, NULL);
    if (problem->alibi)
        add_biases(problem->alibi + panel->head * problem->N + key + span.from, keys, first);
    if (problem->mask)
        change(ADD, problem, panel, problem->mask + panel->head / problem->heads_per_mask * scores_of_head + row_of_scores,
               (float)(MASK_VALUE * M_LOG2E), keys, first);
    hide(problem, panel, key, span, scores);
    soften(panel, span, scores, decay);
    if (problem->dropout)
        change(MULTIPLY, problem, panel, problem->dropout + panel->head * scores_of_head + row_of_scores, 1.0f, keys,
               first);
    for (ptrdiff_t i = 0; i < head_dim; i += TILE_ROWS)
        multiply(least(TILE_ROWS, head_dim - i), keys, v + span.from * head_dim + i, 1, head_dim, first,
                 panel->o + i * TILE_COLUMNS, decay);
}

/* A row without keys gets zeros and -inf: nothing was summed, where others have summed 2^0 at least. */
static void finish(const struct attention *problem, const struct panel *panel) {
    ptrdiff_t head_dim = problem->head_dim, to = panel->head * problem->Nq + panel->query;
    for (ptrdiff_t row = 0; row < panel->rows; row++)
        problem->lse[to + row] = (((float *)panel->peak)[row] + log2f(((float *)panel->sum)[row])) * (float)M_LN2;
    for (ptrdiff_t row = 0; row < panel->rows; row += LANES) {
        vector factor = 1.0f / larger(splat(FLT_MIN), panel->sum[row / LANES]);
        for (ptrdiff_t i = 0; i < head_dim; i += LANES) {
            vector block[LANES];
            for (ptrdiff_t j = 0; j < LANES; j++)
                block[j] = *(vector *)(panel->o + least(i + j, head_dim - 1) * TILE_COLUMNS + row) * factor;
            turn_over(block);
            for (ptrdiff_t j = 0; j < least(LANES, panel->rows - row); j++)
                copy(problem->o + (to + row + j) * head_dim + i, block + j, head_dim - i);
        }
    }
}

static void attend(const struct attention *problem, int64_t head, int64_t row_block, const struct scratch *at) {
    ptrdiff_t query = row_block * problem->Br, rows = least(problem->Br, problem->Nq - query);
    ptrdiff_t end = problem->end[query + rows - 1];
    for (ptrdiff_t row = 0; row < rows; row += TILE_COLUMNS) {
        struct panel panel = panel_at(problem, at, head, query, row, rows);
        begin(problem, &panel, at->rows);
    }
    for (ptrdiff_t key = problem->first[query] / problem->Bc * problem->Bc; key < end; key += problem->Bc) {
        ptrdiff_t keys = least(problem->Bc, problem->N - key), from = (head * problem->N + key) * problem->head_dim;
        const float *k = single(problem, problem->k, from, keys * problem->head_dim, at->keys);
        const float *v = single(problem, problem->v, from, keys * problem->head_dim, at->values);
        for (ptrdiff_t row = 0; row < rows; row += TILE_COLUMNS) {
            struct panel panel = panel_at(problem, at, head, query, row, rows);
            struct span span = seen(problem, &panel, key, keys);
            if (span.from < span.to)
                visit(problem, &panel, key, span, k, v, at->scores);
        }
    }
    for (ptrdiff_t row = 0; row < rows; row += TILE_COLUMNS) {
        struct panel panel = panel_at(problem, at, head, query, row, rows);
        finish(problem, &panel);
    }
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

/* Takes so many bytes out of all caches; returns 1 where this CPU has no instruction for it. */
int flash_attention_flush(const char *from, int64_t bytes) {
#if defined(__SSE2__)
    for (int64_t i = 0; i < bytes; i += LINE * (int64_t)sizeof(float))
        _mm_clflush(from + i);
    _mm_mfence();
    return 0;
#elif defined(__aarch64__)
    for (int64_t i = 0; i < bytes; i += LINE * (int64_t)sizeof(float))
        __asm__ volatile("dc civac, %0" ::"r"(from + i) : "memory");
    __asm__ volatile("dsb ish" ::: "memory");
    return 0;
#else
    return 1;
#endif
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
