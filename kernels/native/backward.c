/* Gradients of flash attention on any CPU: fp32 or bfloat16 in, fp32 inside and out.
 *
 * A thread takes a block of Bc keys and all queries that see them, in blocks of Br rows: P is computed anew from the
 * forward kernel's log-sum-exp, dV = (P M)^T dO, dP = (dO V^T) M, dS = P (dP - delta), dK = scale dS^T Q,
 * dQ = scale dS K, with M the dropout mask and delta the row sums of O dO (FlashAttention-2, algorithm 2). dK and dV of the
 * block stay in the thread's scratch until they are done; a row block's dQ is added to that of other key blocks under a
 * lock. As in forward.c all scores are transposed, so that K and V are read as they lie. A row block is prepared once for a
 * key block, which then meets it in parts of PART keys, whose P^T and dS^T stay in the first-level cache.
 */
#include "attention.h"

#define PART 64 /* keys; twice or three times this many rows of TILE_COLUMNS floats are in use at a time */

/* What a thread works in. p, ds, kept: (PART, TILE_COLUMNS). rows, keys, values: what is widened of q, k and v. dk, dv:
 * (columns / TILE_COLUMNS, Bc, TILE_COLUMNS). For every panel of a row block q, d_o, dq (head_dim, TILE_COLUMNS), their rows
 * (columns / TILE_COLUMNS, TILE_COLUMNS, TILE_COLUMNS), and delta and lse (TILE_COLUMNS). */
struct backward_scratch {
    float *p, *ds, *kept, *rows, *keys, *values, *dk, *dv, *q, *d_o, *dq, *q_rows, *d_o_rows, *delta, *lse;
    ptrdiff_t columns;
};

/* The query rows of a panel, and their part of the scratch. */
struct backward_panel {
    struct rows rows;
    float *q, *d_o, *dq, *q_rows, *d_o_rows;
    vector *delta, *lse;
};

static int64_t backward_layout(const struct attention *problem, float *memory, struct backward_scratch *at) {
    ptrdiff_t rows = round_up(problem->Br, TILE_COLUMNS), widened = problem->narrow ? problem->head_dim : 0;
    at->columns = round_up(problem->head_dim, TILE_COLUMNS);
    const struct part parts[] = {
        {&at->p, PART * TILE_COLUMNS},         {&at->ds, PART * TILE_COLUMNS},
        {&at->kept, PART * TILE_COLUMNS},      {&at->rows, TILE_COLUMNS * widened},
        {&at->keys, problem->Bc * widened},    {&at->values, problem->Bc * widened},
        {&at->dk, problem->Bc * at->columns},  {&at->dv, problem->Bc * at->columns},
        {&at->q, rows * problem->head_dim},    {&at->d_o, rows * problem->head_dim},
        {&at->dq, rows * problem->head_dim},   {&at->q_rows, rows * at->columns},
        {&at->d_o_rows, rows * at->columns},   {&at->delta, rows},
        {&at->lse, rows},
    };
    return lay_out(parts, sizeof parts / sizeof *parts, memory);
}

static struct backward_panel backward_panel_at(const struct attention *problem, const struct backward_scratch *at,
                                               int64_t head, ptrdiff_t query, ptrdiff_t row, ptrdiff_t rows) {
    return (struct backward_panel){
        .rows = {head, query + row, least(TILE_COLUMNS, rows - row)},
        .q = at->q + row * problem->head_dim,
        .d_o = at->d_o + row * problem->head_dim,
        .dq = at->dq + row * problem->head_dim,
        .q_rows = at->q_rows + row * at->columns,
        .d_o_rows = at->d_o_rows + row * at->columns,
        .delta = (vector *)(at->delta + row),
        .lse = (vector *)(at->lse + row),
    };
}

/* Rows in pieces of TILE_COLUMNS numbers, a piece of all rows after the other; zeros beyond rows and columns. */
static void pack_rows(const float *from, ptrdiff_t rows, ptrdiff_t head_dim, ptrdiff_t columns, float *to) {
    memset(to, 0, columns * TILE_COLUMNS * sizeof(float));
    for (ptrdiff_t i = 0; i < head_dim; i += LANES)
        for (ptrdiff_t row = 0; row < rows; row++)
            copy(to + (i / TILE_COLUMNS * TILE_COLUMNS + row) * TILE_COLUMNS + i % TILE_COLUMNS,
                 from + row * head_dim + i, head_dim - i);
}

/* Q, dO, delta and the log-sum-exp of a panel; no dQ yet. Lanes beyond the last row have zeros, which add nothing. */
static void prepare(const struct attention *problem, const struct backward_panel *panel,
                    const struct backward_scratch *at) {
    ptrdiff_t head_dim = problem->head_dim, count = panel->rows.count;
    ptrdiff_t row = panel->rows.head * problem->Nq + panel->rows.query, from = row * head_dim;
    const float *q = single(problem, problem->q, from, count * head_dim, at->rows);
    turn_panel(q, count, head_dim, (float)(problem->scale * M_LOG2E), panel->q);
    turn_panel(problem->d_o + from, count, head_dim, 1.0f, panel->d_o);
    turn_panel(problem->o + from, count, head_dim, 1.0f, panel->dq);
    pack_rows(q, count, head_dim, at->columns, panel->q_rows);
    pack_rows(problem->d_o + from, count, head_dim, at->columns, panel->d_o_rows);
    for (int j = 0; j < TILE_VECTORS; j++) {
        panel->delta[j] = splat(0.0f);
        for (ptrdiff_t i = 0; i < head_dim; i++)
            panel->delta[j] += ((vector *)panel->d_o)[i * TILE_VECTORS + j] * ((vector *)panel->dq)[i * TILE_VECTORS + j];
    }
    for (ptrdiff_t i = 0; i < TILE_COLUMNS; i++) {
        float lse = i < count ? problem->lse[row + i] * (float)M_LOG2E : 0.0f;
        /* Of a row without keys it is -inf, and -inf minus -inf is no number. */
        ((float *)panel->lse)[i] = lse == -INFINITY ? 0.0f : lse;
    }
    memset(panel->dq, 0, head_dim * TILE_COLUMNS * sizeof(float));
}

/* c += a^T b for the keys of a span and all columns: a is (keys, TILE_COLUMNS), b and c are in pieces of columns. */
static void add_to_keys(const struct backward_scratch *at, ptrdiff_t Bc, ptrdiff_t key, ptrdiff_t keys, const float *a,
                        const float *b, float *c) {
    vector once[TILE_VECTORS];
    for (int j = 0; j < TILE_VECTORS; j++)
        once[j] = splat(1.0f);
    for (ptrdiff_t column = 0; column < at->columns; column += TILE_COLUMNS)
        for (ptrdiff_t i = 0; i < keys; i += TILE_ROWS)
            multiply(least(TILE_ROWS, keys - i), TILE_COLUMNS, a + i * TILE_COLUMNS, TILE_COLUMNS, 1,
                     b + column * TILE_COLUMNS, c + column * Bc + (key + i) * TILE_COLUMNS, once);
}

/* One panel meets a part of the key block, from its key `part` on. */
static void meet(const struct attention *problem, const struct backward_panel *panel, ptrdiff_t key, ptrdiff_t part,
                 struct span span, const float *k, const float *v, const struct backward_scratch *at) {
    ptrdiff_t head_dim = problem->head_dim, keys = span.to - span.from, first = part + span.from;
    float *p = at->p + span.from * TILE_COLUMNS, *ds = at->ds, *kept = p;
    vector once[TILE_VECTORS];
    for (int j = 0; j < TILE_VECTORS; j++)
        once[j] = splat(1.0f);
    score(problem, &panel->rows, key + part, span, k + part * head_dim, panel->q, at->p);
    for (ptrdiff_t i = 0; i < keys; i += TILE_ROWS)
        multiply(least(TILE_ROWS, keys - i), head_dim, v + (first + i) * head_dim, head_dim, 1, panel->d_o,
                 ds + i * TILE_COLUMNS, NULL);
    for (ptrdiff_t i = 0; i < keys * TILE_VECTORS; i++)
        ((vector *)p)[i] = power_of_two(((vector *)p)[i] - panel->lse[i % TILE_VECTORS]);
    if (problem->dropout) {
        const float *mask = part_of(problem, problem->dropout, panel->rows.head, &panel->rows, key + first);
        kept = memcpy(at->kept, p, keys * TILE_COLUMNS * sizeof(float));
        change(MULTIPLY, problem, &panel->rows, mask, 1.0f, keys, kept);
        change(MULTIPLY, problem, &panel->rows, mask, 1.0f, keys, ds);
    }
    for (ptrdiff_t i = 0; i < keys * TILE_VECTORS; i++)
        ((vector *)ds)[i] = ((vector *)p)[i] * (((vector *)ds)[i] - panel->delta[i % TILE_VECTORS]);
    add_to_keys(at, problem->Bc, first, keys, kept, panel->d_o_rows, at->dv);
    add_to_keys(at, problem->Bc, first, keys, ds, panel->q_rows, at->dk);
    for (ptrdiff_t i = 0; i < head_dim; i += TILE_ROWS)
        multiply(least(TILE_ROWS, head_dim - i), keys, k + first * head_dim + i, 1, head_dim, ds,
                 panel->dq + i * TILE_COLUMNS, once);
}

static void add_queries(const struct attention *problem, const struct backward_panel *panel) {
    ptrdiff_t head_dim = problem->head_dim;
    float *dq = problem->dq + (panel->rows.head * problem->Nq + panel->rows.query) * head_dim;
    for (ptrdiff_t row = 0; row < panel->rows.count; row += LANES)
        for (ptrdiff_t i = 0; i < head_dim; i += LANES) {
            vector block[LANES], sum = splat(0.0f);
            for (ptrdiff_t j = 0; j < LANES; j++)
                block[j] = *(vector *)(panel->dq + least(i + j, head_dim - 1) * TILE_COLUMNS + row);
            turn_over(block);
            for (ptrdiff_t j = 0; j < least(LANES, panel->rows.count - row); j++) {
                float *to = dq + (row + j) * head_dim + i;
                copy(&sum, to, head_dim - i);
                sum += block[j] * (float)problem->scale;
                copy(to, &sum, head_dim - i);
            }
        }
}

static void store_keys(const struct attention *problem, const struct backward_scratch *at, int64_t row, ptrdiff_t keys) {
    const struct {
        const float *from;
        float *to, factor;
    } gradients[] = {{at->dk, problem->dk, (float)problem->scale}, {at->dv, problem->dv, 1.0f}};
    for (int which = 0; which < 2; which++)
        for (ptrdiff_t key = 0; key < keys; key++)
            for (ptrdiff_t i = 0; i < problem->head_dim; i += LANES) {
                const float *from = gradients[which].from + i / TILE_COLUMNS * TILE_COLUMNS * problem->Bc;
                vector numbers = *(const vector *)(from + key * TILE_COLUMNS + i % TILE_COLUMNS);
                numbers *= gradients[which].factor;
                copy(gradients[which].to + (row + key) * problem->head_dim + i, &numbers, problem->head_dim - i);
            }
}

static void attend_backward(const struct attention *problem, int64_t head, int64_t key_block, float *memory) {
    struct backward_scratch parts, *at = &parts;
    backward_layout(problem, memory, at);
    ptrdiff_t key = key_block * problem->Bc, keys = least(problem->Bc, problem->N - key), head_dim = problem->head_dim;
    int64_t row_of_keys = head * problem->N + key;
    const float *k = single(problem, problem->k, row_of_keys * head_dim, keys * head_dim, at->keys);
    const float *v = single(problem, problem->v, row_of_keys * head_dim, keys * head_dim, at->values);
    memset(at->dk, 0, problem->Bc * at->columns * sizeof(float));
    memset(at->dv, 0, problem->Bc * at->columns * sizeof(float));
    for (ptrdiff_t query = 0; query < problem->Nq; query += problem->Br) {
        ptrdiff_t rows = least(problem->Br, problem->Nq - query);
        if (problem->end[query + rows - 1] <= key || problem->first[query] >= key + keys)
            continue;
        for (ptrdiff_t row = 0; row < rows; row += TILE_COLUMNS) {
            struct backward_panel panel = backward_panel_at(problem, at, head, query, row, rows);
            prepare(problem, &panel, at);
        }
        for (ptrdiff_t part = 0; part < keys; part += PART)
            for (ptrdiff_t row = 0; row < rows; row += TILE_COLUMNS) {
                struct backward_panel panel = backward_panel_at(problem, at, head, query, row, rows);
                struct span span = seen(problem, &panel.rows, key + part, least(PART, keys - part));
                if (span.from < span.to)
                    meet(problem, &panel, key, part, span, k, v, at);
            }
        pthread_mutex_lock(problem->locks + head);
        for (ptrdiff_t row = 0; row < rows; row += TILE_COLUMNS) {
            struct backward_panel panel = backward_panel_at(problem, at, head, query, row, rows);
            add_queries(problem, &panel);
        }
        pthread_mutex_unlock(problem->locks + head);
    }
    store_keys(problem, at, row_of_keys, keys);
}

/* Floats of scratch that one thread needs. */
int64_t flash_attention_backward_scratch(const struct attention *problem) {
    struct backward_scratch parts;
    return backward_layout(problem, NULL, &parts);
}

/* Computes dq, dk and dv; runs are of key blocks. See run_threads. */
int flash_attention_backward_run(const struct attention *problem, const struct run *runs, const int64_t *run_ends,
                             int64_t threads, float *scratch, double *cpu_us, double *wall_us) {
    struct attention own = *problem;
    own.locks = calloc(problem->heads, sizeof *own.locks);
    if (!own.locks)
        return 1;
    for (int64_t head = 0; head < problem->heads; head++)
        pthread_mutex_init(own.locks + head, NULL);
    memset(problem->dq, 0, problem->heads * problem->Nq * problem->head_dim * sizeof(float));
    int failed = run_threads(&own, attend_backward, (problem->N + problem->Bc - 1) / problem->Bc, runs, run_ends, threads,
                             scratch, flash_attention_backward_scratch(problem), cpu_us, wall_us);
    for (int64_t head = 0; head < problem->heads; head++)
        pthread_mutex_destroy(own.locks + head);
    free(own.locks);
    return failed;
}
