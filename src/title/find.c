/* find.c - answers reads of one title: the render that is asked for, or the trace of it. Pure.
 *
 * Invariant: a gone render counts as its trace, whether or not a cull came by. So an answer depends
 * on the time alone, and not on upkeep. */
#include "title/find.h"

/* ---- traces ---- */

/* The newest trace that is stored and still to be known. */
static err newest_kept(const struct title *t, struct page_name low, struct page_name high,
                       struct page_trace_row *out)
{
    struct title_trace_walk w;
    title_traces_open(&w, t, low, high, false);
    err e = title_traces_alive(&w, out);
    title_traces_close(&w);
    return e;
}

/* The newest trace of a row that is past due, and that no cull has taken yet. */
static err newest_gone(const struct title *t, struct page_name low, struct page_name high,
                       struct page_trace_row *out)
{
    struct title_walk w;
    struct page_row row;
    title_walk_open(&w, t, low, high, false);
    err e;
    while ((e = title_walk_next(&w, &row)) == ERR_OK) {
        if (title_alive(t, &row))
            continue;
        title_trace_of(t, &row, out);
        if (title_trace_alive(t, out))
            break;
    }
    title_walk_close(&w);
    return e;
}

/* The newest trace between two names, of culled rows and of rows past due. */
static err newest_trace(const struct title *t, struct page_name low, struct page_name high,
                        struct page_trace_row *out)
{
    struct page_trace_row gone;
    err e = newest_kept(t, low, high, out);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    err e2 = newest_gone(t, low, high, &gone);
    if (e2 != ERR_OK)
        return e2 == ERR_NOT_FOUND ? e : e2;
    if (e == ERR_NOT_FOUND || page_name_cmp(gone.trace.name, out->trace.name) > 0)
        *out = gone;
    return ERR_OK;
}

/* ERR_GONE with the newest trace there is; ERR_NOT_FOUND: there never was one, or it is forgotten.
 */
static err gone_or_never(const struct title *t, struct page_name low, struct page_name high,
                         struct page_trace *trace)
{
    struct page_trace_row found;
    err e = newest_trace(t, low, high, &found);
    if (e != ERR_OK)
        return e;
    if (trace != NULL)
        *trace = found.trace;
    return ERR_GONE;
}

/* A render that is hidden is told as a trace: the client learns when, and not what. */
static err find_hidden(const struct page_row *row, struct page_trace *trace)
{
    if (trace != NULL)
        *trace = (struct page_trace){ .name = row->r.name,
                                      .state = row->r.hidden,
                                      .at = row->r.hidden_at,
                                      .policy = row->policy,
                                      .superseded_at = row->r.superseded_at,
                                      .superseded_by = row->r.superseded_by };
    return ERR_GONE;
}

/* The latest that is shown. A title whose newest is hidden tells that, rather than the render
 * below. */
static err find_latest(const struct title *t, struct page_row *out, struct page_trace *trace)
{
    struct page_row newest;
    err e = title_newest_shown(t, page_name_first, page_name_last, out);
    bool passed = t->passed != NULL && *t->passed > 0; /* the latest may be one of those */
    if (e == ERR_OK && (passed || title_is_latest(&out->r)))
        return ERR_OK;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    /* When rows could not be read, the newest of them may be the latest: better an older render
     * than none. */
    if (!passed && title_newest_alive(t, page_name_first, page_name_last, &newest) == ERR_OK &&
        newest.r.hidden != PAGE_CURRENT)
        return find_hidden(&newest, trace);
    return gone_or_never(t, page_name_first, page_name_last, trace);
}

static err find_rev(const struct title *t, uint64_t rev, struct page_row *out,
                    struct page_trace *trace)
{
    err e = title_newest_alive(t, page_name_low(rev), page_name_high(rev), out);
    return e == ERR_NOT_FOUND ? gone_or_never(t, page_name_low(rev), page_name_high(rev), trace)
                              : e;
}

static err find_exact(const struct title *t, struct page_name name, struct page_row *out,
                      struct page_trace *trace)
{
    err e = title_get(t, name, out);
    if (e == ERR_OK && !title_alive(t, out))
        e = ERR_NOT_FOUND;
    return e == ERR_NOT_FOUND ? gone_or_never(t, name, name, trace) : e;
}

/* ---- what was served at an instant ---- */

/* Counts one row or revision that was looked at: a question about an instant has a limit. */
static err find_step(unsigned *steps, err e)
{
    return e == ERR_OK && ++*steps > PAGE_AT_STEPS_MAX ? ERR_LIMIT : e;
}

/* Was a render the latest at that instant, by the times that its row or trace has? */
static bool served_at(store_time stored, store_time superseded, store_time at)
{
    return !store_time_before(at, stored) && store_time_before(at, superseded);
}

/* The trace of the render that was served then, in rows past due and in stored traces; the newer
 * name wins. */
static err served_trace(const struct title *t, store_time at, struct page_trace *trace)
{
    struct page_trace_row found, gone;
    struct page_row row;
    struct title_walk w;
    struct title_trace_walk traces;
    bool has_gone = false;
    unsigned steps = 0;
    err e;
    title_walk_open(&w, t, page_name_first, page_name_last, false);
    while (!has_gone && (e = find_step(&steps, title_walk_next(&w, &row))) == ERR_OK) {
        if (title_alive(t, &row) || !served_at(row.r.stored_at, row.r.superseded_at, at))
            continue;
        title_trace_of(t, &row, &gone);
        has_gone = title_trace_alive(t, &gone);
    }
    title_walk_close(&w);
    if (!has_gone && e != ERR_NOT_FOUND)
        return e;
    title_traces_open(&traces, t, page_name_first, page_name_last, false);
    do
        e = title_traces_alive(&traces, &found);
    while (e == ERR_OK && !served_at(found.stored_at, found.trace.superseded_at, at));
    title_traces_close(&traces);
    if (e != ERR_OK && (e != ERR_NOT_FOUND || !has_gone))
        return e;
    if (e == ERR_NOT_FOUND || (has_gone && page_name_cmp(gone.trace.name, found.trace.name) > 0))
        found = gone;
    if (trace != NULL)
        *trace = found.trace;
    return ERR_GONE;
}

/* The stored render that was the latest then. Times of latestness of stored renders follow each
 * other as their names do. So the walk ends at the first render below which nothing can match. */
static err find_served_at(const struct title *t, store_time at, struct page_row *out,
                          struct page_trace *trace)
{
    struct title_walk w;
    bool found = false;
    unsigned steps = 0;
    err e;
    title_walk_open(&w, t, page_name_first, page_name_last, false);
    while ((e = find_step(&steps, title_walk_alive(&w, out))) == ERR_OK) {
        /* A late put was never the latest: its times say nothing of the renders below. */
        bool was_latest = store_time_before(out->r.stored_at, out->r.superseded_at);
        found = served_at(out->r.stored_at, out->r.superseded_at, at);
        if (found || (was_latest && !store_time_before(at, out->r.stored_at)))
            break;
    }
    title_walk_close(&w);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    return found ? ERR_OK : served_trace(t, at, trace);
}

/* ---- the revision current at an instant ---- */

/* The greatest revision known below `below`, stored or traced. ERR_NOT_FOUND. */
static err next_rev(const struct title *t, uint64_t below, uint64_t *rev)
{
    struct page_name name;
    err e = below == 0
                ? ERR_NOT_FOUND
                : t->ops->greatest_known(t, page_name_first, page_name_high(below - 1), &name);
    if (e == ERR_OK)
        *rev = name.rev;
    return e;
}

/* The time of the oldest render that is known of a revision, stored or traced; NEVER: there is
 * none. */
static err oldest_known(const struct title *t, uint64_t rev, store_time *out)
{
    struct title_walk w;
    struct title_trace_walk traces;
    struct page_row row;
    struct page_trace_row trace;
    store_time oldest = STORE_TIME_NEVER;
    err e;
    title_walk_open(&w, t, page_name_low(rev), page_name_high(rev), true);
    while ((e = title_walk_next(&w, &row)) == ERR_OK) {
        title_trace_of(t, &row, &trace);
        if (title_alive(t, &row) || title_trace_alive(t, &trace)) {
            oldest = tid_time(row.r.name.tid);
            break;
        }
    }
    title_walk_close(&w);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    title_traces_open(&traces, t, page_name_low(rev), page_name_high(rev), true);
    e = title_traces_alive(&traces, &trace);
    title_traces_close(&traces);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK && store_time_before(tid_time(trace.trace.name.tid), oldest))
        oldest = tid_time(trace.trace.name.tid);
    *out = oldest;
    return ERR_OK;
}

/* Goes down the revisions until one has a render that is not newer than the instant: that revision
 * was current. */
static err find_current_at(const struct title *t, store_time at, struct page_row *out,
                           struct page_trace *trace)
{
    /* Above all revisions. */
    uint64_t rev = (uint64_t)PAGE_REV_MAX + 1;
    store_time oldest;
    unsigned steps = 0;
    for (;;) {
        err e = find_step(&steps, next_rev(t, rev, &rev));
        if (e == ERR_OK)
            e = oldest_known(t, rev, &oldest);
        if (e != ERR_OK)
            return e;
        if (oldest.ns != INT64_MAX && !store_time_before(at, oldest))
            return find_rev(t, rev, out, trace);
    }
}

static err find_any(const struct title *t, const struct title_which *w, struct page_row *out,
                    struct page_trace *trace)
{
    switch (w->select) {
    case SELECT_LATEST:
        return find_latest(t, out, trace);
    case SELECT_REV:
        return find_rev(t, w->name.rev, out, trace);
    case SELECT_EXACT:
        return find_exact(t, w->name, out, trace);
    case SELECT_SERVED_AT:
        return find_served_at(t, w->at, out, trace);
    case SELECT_CURRENT_AT:
        break;
    }
    return find_current_at(t, w->at, out, trace);
}

err title_find(const struct title *t, const struct title_which *w, struct page_row *out,
               struct page_trace *trace)
{
    err e = find_any(t, w, out, trace);
    /* A hidden render is only given to a reader who asks for its exact name, and for deleted
     * renders, too. */
    if (e != ERR_OK || out->r.hidden == PAGE_CURRENT ||
        (w->deleted_too && out->r.hidden == PAGE_DELETED))
        return e;
    return find_hidden(out, trace);
}

err title_explain(const struct title *t, const struct title_which *w, struct page_explanation *out)
{
    struct page_row row;
    *out = (struct page_explanation){ .state = PAGE_UNKNOWN, .policy = t->plan->policy.kind };
    err e = title_find(t, w, &row, &out->trace);
    if (e != ERR_OK && e != ERR_GONE && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_GONE)
        out->state = out->trace.state;
    if (e == ERR_OK) {
        out->render = row.r;
        out->state = row.r.state;
        out->stashed = store_time_before(t->now, row.r.stash_until);
        out->held = store_time_before(t->now, row.r.hold_until);
        out->requested = store_time_before(t->now, row.r.requested_until);
    }
    out->reason = retention_reason(&t->plan->policy, out->state);
    return ERR_OK;
}
