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
 */
#include "attention.h"

/* What a thread works in. scores: (Bc, TILE_COLUMNS). rows, keys, values: what is widened of q, k and v. For every panel
 * of a row block q and o (head_dim, TILE_COLUMNS), and peak and sum (TILE_COLUMNS): the largest score and the sum of the
 * probabilities so far. */
struct scratch {
    float *scores, *rows, *keys, *values, *q, *o, *peak, *sum;
};

/* The query rows of a panel, and their part of the scratch. */
struct panel {
    struct rows rows;
    float *q, *o;
    vector *peak, *sum;
};

static int64_t forward_scratch(const struct attention *problem, float *memory, struct scratch *at) {
    ptrdiff_t rows = round_up(problem->Br, TILE_COLUMNS), widened = problem->narrow ? problem->head_dim : 0;
    const struct part parts[] = {
        {&at->scores, problem->Bc * TILE_COLUMNS}, {&at->rows, TILE_COLUMNS * widened},
        {&at->keys, problem->Bc * widened},        {&at->values, problem->Bc * widened},
        {&at->q, rows * problem->head_dim},        {&at->o, rows * problem->head_dim},
        {&at->peak, rows},                         {&at->sum, rows},
    };
    return lay_out(parts, sizeof parts / sizeof *parts, memory);
}

static struct panel panel_at(const struct attention *problem, const struct scratch *at, int64_t head, ptrdiff_t query,
                             ptrdiff_t row, ptrdiff_t rows) {
    return (struct panel){
        .rows = {head, query + row, least(TILE_COLUMNS, rows - row)},
        .q = at->q + row * problem->head_dim,
        .o = at->o + row * problem->head_dim,
        .peak = (vector *)(at->peak + row),
        .sum = (vector *)(at->sum + row),
    };
}

/* Q^T in units of ln 2, times scale. Nothing is summed yet. */
static void begin(const struct attention *problem, const struct panel *panel, float *room) {
    ptrdiff_t head_dim = problem->head_dim, count = panel->rows.count * head_dim;
    ptrdiff_t from = (panel->rows.head * problem->Nq + panel->rows.query) * head_dim;
    const float *q = single(problem, problem->q, from, count, room);
    turn_panel(q, panel->rows.count, head_dim, (float)(problem->scale * M_LOG2E), panel->q);
    for (ptrdiff_t i = 0; i < count; i += LINE)
        __builtin_prefetch(problem->o + from + i, 1); /* the lines are there when the rows are finished */
    memset(panel->o, 0, head_dim * TILE_COLUMNS * sizeof(float));
    for (int i = 0; i < TILE_VECTORS; i++) {
        panel->peak[i] = splat(-INFINITY);
        panel->sum[i] = splat(0.0f);
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
    ptrdiff_t head_dim = problem->head_dim, keys = span.to - span.from;
    float *first = scores + span.from * TILE_COLUMNS;
    vector decay[TILE_VECTORS];
    score(problem, &panel->rows, key, span, k, panel->q, scores);
    soften(panel, span, scores, decay);
    if (problem->dropout)
        change(MULTIPLY, problem, &panel->rows,
               part_of(problem, problem->dropout, panel->rows.head, &panel->rows, key + span.from), 1.0f, keys, first);
    for (ptrdiff_t i = 0; i < head_dim; i += TILE_ROWS)
        multiply(least(TILE_ROWS, head_dim - i), keys, v + span.from * head_dim + i, 1, head_dim, first,
                 panel->o + i * TILE_COLUMNS, decay);
}

/* A row without keys gets zeros and -inf: nothing was summed, where others have summed 2^0 at least. */
static void finish(const struct attention *problem, const struct panel *panel) {
    ptrdiff_t head_dim = problem->head_dim, to = panel->rows.head * problem->Nq + panel->rows.query;
    for (ptrdiff_t row = 0; row < panel->rows.count; row++)
        problem->lse[to + row] = (((float *)panel->peak)[row] + log2f(((float *)panel->sum)[row])) * (float)M_LN2;
    for (ptrdiff_t row = 0; row < panel->rows.count; row += LANES) {
        vector factor = 1.0f / larger(splat(FLT_MIN), panel->sum[row / LANES]);
        for (ptrdiff_t i = 0; i < head_dim; i += LANES) {
            vector block[LANES];
            for (ptrdiff_t j = 0; j < LANES; j++)
                block[j] = *(vector *)(panel->o + least(i + j, head_dim - 1) * TILE_COLUMNS + row) * factor;
            turn_over(block);
            for (ptrdiff_t j = 0; j < least(LANES, panel->rows.count - row); j++)
                copy(problem->o + (to + row + j) * head_dim + i, block + j, head_dim - i);
        }
    }
}

static void attend(const struct attention *problem, int64_t head, int64_t row_block, float *memory) {
    struct scratch parts, *at = &parts;
    forward_scratch(problem, memory, at);
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
            struct span span = seen(problem, &panel.rows, key, keys);
            if (span.from < span.to)
                visit(problem, &panel, key, span, k, v, at->scores);
        }
    }
    for (ptrdiff_t row = 0; row < rows; row += TILE_COLUMNS) {
        struct panel panel = panel_at(problem, at, head, query, row, rows);
        finish(problem, &panel);
    }
}

/* Floats of scratch that one thread needs. */
int64_t flash_attention_forward_scratch(const struct attention *problem) {
    struct scratch parts;
    return forward_scratch(problem, NULL, &parts);
}

/* Computes o and lse; runs are of row blocks. See run_threads. */
int flash_attention_forward_run(const struct attention *problem, const struct run *runs, const int64_t *run_ends,
                            int64_t threads, float *scratch, double *cpu_us, double *wall_us) {
    return run_threads(problem, attend, (problem->Nq + problem->Br - 1) / problem->Br, runs, run_ends, threads, scratch,
                       flash_attention_forward_scratch(problem), cpu_us, wall_us);
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
