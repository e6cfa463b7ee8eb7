/* memory.c - the rows of a title in memory (memory.h): struct title_ops over sorted arrays, for
 * titles derived from facts. Pure.
 *
 * Rows are found by halving. They are put in and taken out by moving the rows behind them: titles
 * are small, and a fold puts most rows at the end.
 * Invariants:
 *   1 rows and traces rise strictly by name; no name has both;
 *   2 due_min and forget_min are at or before each due_at and forget_at, so most instants need no
 *     look at the rows. */
#include "title/memory.h"

#include "title/edit.h"

#include <string.h>

static struct title_memory *memory_of(struct title *t)
{
    return CONTAINER_OF(t, struct title_memory, title);
}

/* The same for a title that is only looked at. */
static const struct title_memory *memory_seen(const struct title *t)
{
    return (const struct title_memory *)(const void *)((const char *)t -
                                                       offsetof(struct title_memory, title));
}

/* Room for one more element; NULL: the arena is full. The array doubles, and the old one stays in
 * the arena until its end. */
static void *array_grow(struct title_memory *m, void *array, size_t count, size_t *size,
                        size_t each)
{
    if (count < *size)
        return array;
    size_t more = *size == 0 ? 16 : *size * 2;
    void *bigger = arena_alloc(m->arena, more * each);
    if (bigger == NULL)
        return NULL;
    if (count > 0)
        memcpy(bigger, array, count * each);
    *size = more;
    return bigger;
}

/* ---- renders ---- */

/* The first row whose name is not less. */
static size_t row_place(const struct title_memory *m, struct page_name name)
{
    size_t low = 0, high = m->rows_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (page_name_cmp(m->rows[mid]->r.name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool row_is(const struct title_memory *m, size_t i, struct page_name name)
{
    return i < m->rows_count && page_name_cmp(m->rows[i]->r.name, name) == 0;
}

/* A copy, whose state is as of the title's instant. */
static void row_give(const struct title *t, const struct page_row *row, struct page_row *out)
{
    *out = *row;
    out->r.state = retention_state(&t->plan->policy, &out->r, t->now);
}

static err memory_get(const struct title *t, struct page_name name, struct page_row *out)
{
    const struct title_memory *m = memory_seen(t);
    size_t i = row_place(m, name);
    if (!row_is(m, i, name))
        return ERR_NOT_FOUND;
    row_give(t, m->rows[i], out);
    return ERR_OK;
}

/* at: how many rows are below the next row (rising), or up to and with the next row. */
static void memory_walk_open(struct title_walk *w)
{
    const struct title_memory *m = memory_seen(w->title);
    w->at = row_place(m, w->rising ? w->low : w->high);
    if (!w->rising && row_is(m, w->at, w->high))
        w->at++;
}

/* The bounds are looked at in both directions: rows may have gone or come since the walk began. */
static err memory_walk_next(struct title_walk *w, struct page_row *out)
{
    const struct title_memory *m = memory_seen(w->title);
    if (w->rising ? w->at == m->rows_count : w->at == 0)
        return ERR_NOT_FOUND;
    const struct page_row *row = m->rows[w->rising ? w->at : w->at - 1];
    if (page_name_cmp(row->r.name, w->low) < 0 || page_name_cmp(row->r.name, w->high) > 0)
        return ERR_NOT_FOUND;
    w->at += w->rising ? 1 : (size_t)-1;
    row_give(w->title, row, out);
    return ERR_OK;
}

static void memory_walk_close(struct title_walk *w)
{
    (void)w; /* holds nothing */
}

/* In memory no row is damaged, so names are those of rows. */
static err memory_names(const struct title *t, struct page_name low, struct page_name high,
                        struct title_names *out)
{
    const struct title_memory *m = memory_seen(t);
    out->count = 0;
    for (size_t i = row_place(m, low); i < m->rows_count && out->count < TITLE_NAMES_MAX; i++) {
        if (page_name_cmp(m->rows[i]->r.name, high) > 0)
            break;
        out->names[out->count++] = m->rows[i]->r.name;
    }
    return ERR_OK;
}

/* ---- traces ---- */

/* As row_place. */
static size_t trace_place(const struct title_memory *m, struct page_name name)
{
    size_t low = 0, high = m->traces_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (page_name_cmp(m->traces[mid].trace.name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool trace_is(const struct title_memory *m, size_t i, struct page_name name)
{
    return i < m->traces_count && page_name_cmp(m->traces[i].trace.name, name) == 0;
}

/* The walk's own bytes hold the place, like `at` of a walk over rows. */
static void memory_traces_open(struct title_trace_walk *w)
{
    const struct title_memory *m = memory_seen(w->title);
    size_t at = trace_place(m, w->rising ? w->low : w->high);
    if (!w->rising && trace_is(m, at, w->high))
        at++;
    memcpy(w->own, &at, sizeof(at));
}

static err memory_traces_next(struct title_trace_walk *w, struct page_trace_row *out)
{
    const struct title_memory *m = memory_seen(w->title);
    size_t at;
    memcpy(&at, w->own, sizeof(at));
    if (w->rising ? at == m->traces_count : at == 0)
        return ERR_NOT_FOUND;
    const struct page_trace_row *trace = &m->traces[w->rising ? at : at - 1];
    if (page_name_cmp(trace->trace.name, w->low) < 0 ||
        page_name_cmp(trace->trace.name, w->high) > 0)
        return ERR_NOT_FOUND;
    at += w->rising ? 1 : (size_t)-1;
    memcpy(w->own, &at, sizeof(at));
    *out = *trace;
    return ERR_OK;
}

static void memory_traces_close(struct title_trace_walk *w)
{
    (void)w; /* holds nothing */
}

static void trace_remove(struct title_memory *m, struct page_name name)
{
    size_t i = trace_place(m, name);
    if (!trace_is(m, i, name))
        return;
    m->traces_count--;
    memmove(m->traces + i, m->traces + i + 1, (m->traces_count - i) * sizeof(m->traces[0]));
}

/* A trace of a name that has one replaces it. */
static err trace_put(struct title_memory *m, const struct page_trace_row *trace)
{
    m->forget_min = store_time_min(m->forget_min, trace->forget_at);
    size_t i = trace_place(m, trace->trace.name);
    if (trace_is(m, i, trace->trace.name)) {
        m->traces[i] = *trace;
        return ERR_OK;
    }
    struct page_trace_row *traces =
        array_grow(m, m->traces, m->traces_count, &m->traces_size, sizeof(*traces));
    if (traces == NULL)
        return ERR_LIMIT;
    m->traces = traces;
    memmove(traces + i + 1, traces + i, (m->traces_count - i) * sizeof(*traces));
    traces[i] = *trace;
    m->traces_count++;
    return ERR_OK;
}

/* The greatest name at or below high, of rows and traces; then it must not be below low. */
static err memory_greatest_known(const struct title *t, struct page_name low, struct page_name high,
                                 struct page_name *out)
{
    const struct title_memory *m = memory_seen(t);
    size_t row = row_place(m, high), trace = trace_place(m, high);
    row += row_is(m, row, high);
    trace += trace_is(m, trace, high);
    /* page_name_first stands for none: no render has that name. */
    struct page_name stored = row > 0 ? m->rows[row - 1]->r.name : page_name_first;
    struct page_name traced = trace > 0 ? m->traces[trace - 1].trace.name : page_name_first;
    struct page_name greatest = page_name_cmp(stored, traced) > 0 ? stored : traced;
    if ((row == 0 && trace == 0) || page_name_cmp(greatest, low) < 0)
        return ERR_NOT_FOUND;
    *out = greatest;
    return ERR_OK;
}

/* ---- fences and words ---- */

/* Fences are few: each purge that is not forgotten. The latest one over the name counts. */
static err memory_fence(const struct title *t, uint64_t rev, const struct tid *tid, bool *fenced,
                        store_time *at)
{
    const struct title_memory *m = memory_seen(t);
    *fenced = false;
    for (size_t i = 0; i < m->fences_count; i++) {
        struct page_name of = m->fences[i].range;
        if (of.rev != 0 && of.rev != rev)
            continue;
        /* A fence of one render says nothing of the revision as a whole. */
        if (!page_name_is_unmade(of) && (tid == NULL || tid_cmp(of.tid, *tid) != 0))
            continue;
        *at = *fenced ? store_time_max(*at, m->fences[i].at) : m->fences[i].at;
        *fenced = true;
    }
    return ERR_OK;
}

static err memory_fence_set(struct title *t, struct page_name range, store_time at)
{
    struct title_memory *m = memory_of(t);
    struct title_fence *fences =
        array_grow(m, m->fences, m->fences_count, &m->fences_size, sizeof(*fences));
    if (fences == NULL)
        return ERR_LIMIT;
    m->fences = fences;
    fences[m->fences_count++] = (struct title_fence){ .range = range, .at = at };
    return ERR_OK;
}

/* Replays all marks on a render of this revision, as if the render had been there. The wiki may
 * have been asked for the render before some of the marks. */
static err memory_silenced(const struct title *t, uint64_t rev, store_time said_at,
                           enum page_state *state, store_time *at)
{
    const struct title_memory *m = memory_seen(t);
    *state = PAGE_CURRENT;
    *at = STORE_TIME_ZERO;
    for (size_t i = 0; i < m->marks_count; i++) {
        const struct fact *mark = m->marks[i];
        if (rev < mark->name.rev || rev > mark->rev_last)
            continue;
        /* Showing counts when the wiki was asked for it surely after the hiding. */
        if (mark->what == FACT_SHOWN) {
            if (!store_time_before(mark->said_at, title_said_until(t, *at))) {
                *state = PAGE_CURRENT;
                *at = STORE_TIME_ZERO;
            }
            continue;
        }
        /* The put was asked for surely after the mark. */
        if (!store_time_before(said_at, title_said_until(t, mark->said_at)))
            continue;
        /* SUPPRESSED is stronger than DELETED (step_mark.c). */
        if (mark->what == FACT_SUPPRESSED || *state == PAGE_CURRENT)
            *state = mark->what == FACT_SUPPRESSED ? PAGE_SUPPRESSED : PAGE_DELETED;
        *at = store_time_max(*at, mark->said_at);
    }
    return ERR_OK;
}

/* The mark is borrowed: the facts outlive the title. */
static err memory_heard(struct title *t, const struct fact *mark)
{
    struct title_memory *m = memory_of(t);
    const struct fact **marks =
        array_grow(m, m->marks, m->marks_count, &m->marks_size, sizeof(*marks));
    if (marks == NULL)
        return ERR_LIMIT;
    m->marks = marks;
    marks[m->marks_count++] = mark;
    return ERR_OK;
}

/* ---- editing ---- */

/* Writes a row, as of the plan in force. place may be the row itself. */
static void row_set(struct title_memory *m, struct page_row *place, struct page_row *row)
{
    row->plan = m->title.plan->number;
    row->policy = m->title.plan->policy.kind;
    row->due_stored = row->r.due_at;
    m->due_min = store_time_min(m->due_min, row->r.due_at);
    if (place != row)
        *place = *row;
}

static err memory_insert(struct title *t, struct page_row *row, const struct page_row *replaced)
{
    struct title_memory *m = memory_of(t);
    size_t i = row_place(m, row->r.name);
    /* A name has a row or a trace, and never both. */
    trace_remove(m, row->r.name);
    INVARIANT((replaced != NULL) == row_is(m, i, row->r.name));
    if (replaced != NULL) {
        row_set(m, m->rows[i], row);
        return ERR_OK;
    }
    struct page_row **rows = array_grow(m, m->rows, m->rows_count, &m->rows_size, sizeof(*rows));
    /* Rows are allocated one by one, so moving the array moves pointers alone. */
    struct page_row *place = arena_alloc(m->arena, sizeof(*place));
    if (rows == NULL || place == NULL)
        return ERR_LIMIT;
    m->rows = rows;
    memmove(rows + i + 1, rows + i, (m->rows_count - i) * sizeof(*rows));
    rows[i] = place;
    m->rows_count++;
    row_set(m, place, row);
    return ERR_OK;
}

static err memory_update(struct title *t, struct page_row *row)
{
    struct title_memory *m = memory_of(t);
    size_t i = row_place(m, row->r.name);
    INVARIANT(row_is(m, i, row->r.name));
    row_set(m, m->rows[i], row);
    return ERR_OK;
}

static err memory_drop(struct title *t, struct page_name name)
{
    struct title_memory *m = memory_of(t);
    size_t i = row_place(m, name);
    if (!row_is(m, i, name))
        return ERR_OK;
    m->rows_count--;
    memmove(m->rows + i, m->rows + i + 1, (m->rows_count - i) * sizeof(m->rows[0]));
    return ERR_OK;
}

static err memory_leave(struct title *t, const struct page_trace_row *trace)
{
    return trace_put(memory_of(t), trace);
}

/* trace NULL: by now the trace is forgotten, too. */
static err memory_remove(struct title *t, const struct page_row *row, enum page_state why,
                         const struct page_trace_row *trace)
{
    (void)why; /* nobody follows */
    err e = memory_drop(t, row->r.name);
    if (e != ERR_OK)
        return e;
    if (trace != NULL)
        return memory_leave(t, trace);
    trace_remove(memory_of(t), row->r.name);
    return ERR_OK;
}

static const struct title_ops memory_ops = {
    .get = memory_get,
    .walk_open = memory_walk_open,
    .walk_next = memory_walk_next,
    .walk_close = memory_walk_close,
    .traces_open = memory_traces_open,
    .traces_next = memory_traces_next,
    .traces_close = memory_traces_close,
    .greatest_known = memory_greatest_known,
    .names = memory_names,
    .fence = memory_fence,
    .silenced = memory_silenced,
    .insert = memory_insert,
    .update = memory_update,
    .remove = memory_remove,
    .drop = memory_drop,
    .leave = memory_leave,
    .fence_set = memory_fence_set,
    .heard = memory_heard,
};

void title_memory_init(struct title_memory *m, struct arena *a, const struct page_plan *plan)
{
    m->title = (struct title){ .ops = &memory_ops, .plan = plan, .seen = &m->seen };
    title_seen_init(&m->seen);
    m->arena = a;
    m->rows = NULL;
    m->traces = NULL;
    m->fences = NULL;
    m->marks = NULL;
    m->rows_count = m->rows_size = 0;
    m->traces_count = m->traces_size = 0;
    m->fences_count = m->fences_size = 0;
    m->marks_count = m->marks_size = 0;
    m->due_min = m->forget_min = STORE_TIME_NEVER;
    m->conflicts = 0;
}

/* ---- time and policies ---- */

/* Drops traces that are to be forgotten by now, and finds the next such instant. */
static void traces_expire(struct title_memory *m)
{
    size_t kept = 0;
    if (store_time_before(m->title.now, m->forget_min))
        return;
    m->forget_min = STORE_TIME_NEVER;
    for (size_t i = 0; i < m->traces_count; i++) {
        if (!title_trace_alive(&m->title, &m->traces[i]))
            continue;
        m->forget_min = store_time_min(m->forget_min, m->traces[i].forget_at);
        m->traces[kept++] = m->traces[i];
    }
    m->traces_count = kept;
}

/* Newest first, so that removing a row moves none of the rows to come. */
err title_memory_expire(struct title_memory *m, store_time now)
{
    m->title.now = now;
    traces_expire(m);
    if (store_time_before(now, m->due_min))
        return ERR_OK;
    /* This walk finds due_min again. */
    m->due_min = STORE_TIME_NEVER;
    for (size_t i = m->rows_count; i-- > 0;) {
        const struct page_row *row = m->rows[i];
        if (title_alive(&m->title, row)) {
            m->due_min = store_time_min(m->due_min, row->r.due_at);
            continue;
        }
        err e = title_remove(&m->title, row, PAGE_CULLED);
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

/* Judges all rows by the new policy, newest first, so each row is judged by the rows before it in
 * its group. rank counts those. */
err title_memory_replan(struct title_memory *m, const struct page_plan *plan)
{
    struct page_name low = page_name_last, high = page_name_last;
    uint32_t rank = 0;
    bool anew = plan->number > m->title.plan->number;
    m->title.plan = plan;
    title_unsee(&m->title);
    for (size_t i = m->rows_count; anew && i-- > 0;) {
        struct page_row *row = m->rows[i];
        if (!title_alive(&m->title, row))
            continue;
        /* A name below the group that was walked last begins the next group. */
        if (retention_grouped(&plan->policy) && page_name_cmp(row->r.name, low) < 0) {
            retention_group(&plan->policy, row->r.name, &low, &high);
            rank = 0;
        }
        retention_replan(plan, row->policy, &row->r, rank >= plan->policy.count);
        rank++;
        row_set(m, row, row);
    }
    return ERR_OK;
}
