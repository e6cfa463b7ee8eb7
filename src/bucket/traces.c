/* traces.c - encodes and decodes a row of traces. Times that follow from the neighbours are left
 * out. Invariant: the same traces have one encoding. */
#include "bucket/traces.h"

#include "bucket/key.h"

#include <string.h>

/* TRACE_VERSION_ALONE: a row of stores before, which is read and never written. */
enum { TRACE_VERSION_ALONE = 1, TRACES_VERSION = 2 };
/* Flags of a trace: which of its times follow from its neighbours and are not stored. */
enum {
    TRACE_SUPERSEDED = 1,
    TRACE_BY_NEXT = 2,     /* by the next one of the row */
    TRACE_AT_NEXT = 4,     /* at the arrival of the next one */
    TRACE_GONE_SAME = 8,   /* gone as long after as the one before was */
    TRACE_KNOWN_SAME = 16, /* known as long as the one before */
    TRACE_KNOWN_EVER = 32,
};
/* State and policy share a byte. */
enum { TRACE_STATE_SHIFT = 3, TRACE_POLICY_MASK = 7 };
_Static_assert((int)POLICY_KINDS <= TRACE_POLICY_MASK + 1, "a policy fits its bits");
_Static_assert((int)PAGE_TRACES_BYTES_MAX <= (int)ENGINE_VALUE_BYTES_MAX,
               "a full row fits the engine's");

static bool is_never(store_time t)
{
    return t.ns == INT64_MAX;
}

/* Differences wrap: any two times have one, also those of a damaged row. */
static uint64_t since(store_time t, store_time from)
{
    return (uint64_t)t.ns - (uint64_t)from.ns;
}

static store_time later(store_time from, uint64_t by)
{
    return (store_time){ .ns = (int64_t)((uint64_t)from.ns + by) };
}

/* The time in a name. tid_time takes valid ticks alone; a damaged key may hold any. */
static store_time name_time(struct page_name name)
{
    return (store_time){ .ns = (int64_t)((name.tid.ticks - tid_ticks(STORE_TIME_ZERO)) * 100) };
}

/* Zigzag: small differences of either sign become small numbers, and so short varints. */
static char *signed_put(char *at, uint64_t v)
{
    return varint_put(at, v << 1 ^ (v >> 63 ? UINT64_MAX : 0));
}

static uint64_t signed_get(struct cursor *c)
{
    uint64_t v = varint_get(c);
    return v >> 1 ^ (v & 1 ? UINT64_MAX : 0);
}

/* The instant from which policy counts, as a rule: a fixed policy then makes gone_after the same
 * for many traces. */
static store_time out_at(const struct page_trace_row *t)
{
    return is_never(t->trace.superseded_at) ? t->stored_at : t->trace.superseded_at;
}

static uint64_t gone_after(const struct page_trace_row *t)
{
    return since(t->trace.at, out_at(t));
}

static uint64_t known_for(const struct page_trace_row *t)
{
    return since(t->forget_at, t->trace.at);
}

/* Does what superseded this trace's render follow from the next trace of the row? */
static int flags_to_next(const struct page_trace_row *t, const struct page_trace_row *next)
{
    bool by = page_name_cmp(t->trace.superseded_by, next->trace.name) == 0;
    bool at = t->trace.superseded_at.ns == next->stored_at.ns;
    return (by ? TRACE_BY_NEXT : 0) | (at ? TRACE_AT_NEXT : 0);
}

/* The flags follow from the traces: a writer has no choice, so the same traces have one
 * encoding. */
static int flags_of(const struct page_traces *row, unsigned i)
{
    const struct page_trace_row *t = &row->trace[i], *before = i > 0 ? t - 1 : NULL;
    int flags = is_never(t->trace.superseded_at) ? 0 : TRACE_SUPERSEDED;
    if (flags != 0 && i + 1 < row->count)
        flags |= flags_to_next(t, t + 1);
    if (before != NULL && gone_after(t) == gone_after(before))
        flags |= TRACE_GONE_SAME;
    if (is_never(t->forget_at))
        flags |= TRACE_KNOWN_EVER;
    /* Two traces that are known for ever say so each for itself. */
    else if (before != NULL && !is_never(before->forget_at) && known_for(t) == known_for(before))
        flags |= TRACE_KNOWN_SAME;
    return flags;
}

/* trace_get reads in this order. The first name of a row is in its key. */
static char *trace_put(char *at, const struct page_traces *row, unsigned i)
{
    const struct page_trace_row *t = &row->trace[i];
    const struct page_name name = t->trace.name, by = t->trace.superseded_by;
    int flags = flags_of(row, i);
    *at++ = (char)flags;
    *at++ = (char)((int)t->trace.state << TRACE_STATE_SHIFT | (int)t->trace.policy);
    if (i > 0) {
        at = varint_put(at, name.rev - t[-1].trace.name.rev);
        at = signed_put(at, name.tid.ticks - t[-1].trace.name.tid.ticks);
        put_be64(at, name.tid.low);
        at += 8;
    }
    at = signed_put(at, since(t->stored_at, name_time(name)));
    if ((flags & TRACE_SUPERSEDED) != 0 && (flags & TRACE_AT_NEXT) == 0)
        at = signed_put(at, since(t->trace.superseded_at, t->stored_at));
    if ((flags & TRACE_SUPERSEDED) != 0 && (flags & TRACE_BY_NEXT) == 0) {
        at = signed_put(at, by.rev - name.rev);
        tid_key(by.tid, (unsigned char *)at);
        at += TID_KEY_BYTES;
    }
    if ((flags & TRACE_GONE_SAME) == 0)
        at = signed_put(at, gone_after(t));
    if ((flags & (TRACE_KNOWN_SAME | TRACE_KNOWN_EVER)) == 0)
        at = signed_put(at, known_for(t));
    return at;
}

str page_traces_encode(const struct page_traces *t, char *out)
{
    char *at = out;
    INVARIANT(t->count >= 1);
    INVARIANT(t->count <= PAGE_ROW_TRACES_MAX);
    *at++ = TRACES_VERSION;
    *at++ = (char)t->count;
    for (unsigned i = 0; i < t->count; i++)
        at = trace_put(at, t, i);
    INVARIANT(at - out <= PAGE_TRACES_BYTES_MAX);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

/* What stands in the row of one trace, before its neighbours complete it. */
struct read_trace {
    int flags;
    uint64_t gone_after, known_for;
};

/* Reads what stands in the row. Fields that follow from neighbours are filled in by
 * trace_complete. */
static void trace_get(struct cursor *c, struct page_traces *row, unsigned i,
                      struct read_trace *read)
{
    struct page_trace_row *t = &row->trace[i];
    struct page_name *name = &t->trace.name;
    int flags = cursor_u8(c);
    uint8_t kinds = cursor_u8(c);
    t->trace.state = (enum page_state)(kinds >> TRACE_STATE_SHIFT);
    t->trace.policy = (enum page_policy_kind)(kinds & TRACE_POLICY_MASK);
    t->trace.superseded_at = STORE_TIME_NEVER;
    if (i > 0) {
        name->rev = t[-1].trace.name.rev + varint_get(c);
        name->tid.ticks = t[-1].trace.name.tid.ticks + signed_get(c);
        name->tid.low = cursor_be64(c);
    }
    t->stored_at = later(name_time(*name), signed_get(c));
    if ((flags & TRACE_SUPERSEDED) != 0 && (flags & TRACE_AT_NEXT) == 0)
        t->trace.superseded_at = later(t->stored_at, signed_get(c));
    if ((flags & TRACE_SUPERSEDED) != 0 && (flags & TRACE_BY_NEXT) == 0) {
        t->trace.superseded_by.rev = name->rev + signed_get(c);
        t->trace.superseded_by.tid.ticks = cursor_be64(c);
        t->trace.superseded_by.tid.low = cursor_be64(c);
    }
    *read = (struct read_trace){ .flags = flags };
    if ((flags & TRACE_GONE_SAME) == 0)
        read->gone_after = signed_get(c);
    /* As long as the trace before; without one, a flag that no writer sets: trace_is_right
     * refuses it. */
    else if (i > 0)
        read->gone_after = read[-1].gone_after;
    if ((flags & (TRACE_KNOWN_SAME | TRACE_KNOWN_EVER)) == 0)
        read->known_for = signed_get(c);
    else if (i > 0)
        read->known_for = read[-1].known_for;
}

/* Fills in what follows from the neighbours. superseded_at comes first, as the other times count
 * from it. */
static void trace_complete(struct page_traces *row, unsigned i, const struct read_trace *read)
{
    struct page_trace_row *t = &row->trace[i];
    if (i + 1 < row->count) {
        if ((read->flags & TRACE_AT_NEXT) != 0)
            t->trace.superseded_at = t[1].stored_at;
        if ((read->flags & TRACE_BY_NEXT) != 0)
            t->trace.superseded_by = t[1].trace.name;
    }
    t->trace.at = later(out_at(t), read->gone_after);
    t->forget_at = (read->flags & TRACE_KNOWN_EVER) != 0 ? STORE_TIME_NEVER
                                                         : later(t->trace.at, read->known_for);
}

/* A trace has one of the states of a render that is gone, and a known policy. */
static bool kinds_are_right(const struct page_trace *t)
{
    bool gone = t->state == PAGE_CULLED || t->state == PAGE_PURGED || t->state == PAGE_SUPPRESSED;
    return gone && t->policy < POLICY_KINDS;
}

/* Names rise within a row, and the flags are those that a writer sets. */
static bool trace_is_right(const struct page_traces *row, unsigned i, int flags)
{
    const struct page_trace_row *t = &row->trace[i];
    if (i > 0 && page_name_cmp(t[-1].trace.name, t->trace.name) >= 0)
        return false;
    return kinds_are_right(&t->trace) && flags_of(row, i) == flags;
}

/* A row of a store before, behind its version: one trace, with all of its times. */
static err alone_decode(struct cursor *c, struct page_name name, struct page_traces *out)
{
    uint8_t state = cursor_u8(c), policy = cursor_u8(c);
    struct page_trace_row t = { .trace = { .name = name,
                                           .state = (enum page_state)state,
                                           .policy = (enum page_policy_kind)policy } };
    store_time *const times[] = { &t.trace.at, &t.stored_at, &t.forget_at, &t.trace.superseded_at };
    for (unsigned i = 0; i < COUNT_OF(times); i++)
        times[i]->ns = (int64_t)cursor_be64(c);
    if (!is_never(t.trace.superseded_at)) {
        t.trace.superseded_by.rev = varint_get(c);
        t.trace.superseded_by.tid.ticks = cursor_be64(c);
        t.trace.superseded_by.tid.low = cursor_be64(c);
    }
    if (!cursor_done(c) || !kinds_are_right(&t.trace))
        return ERR_CORRUPT;
    *out = (struct page_traces){ .count = 1, .alone = true, .trace = { t } };
    return ERR_OK;
}

err page_traces_decode(str value, struct page_name lowest, struct page_traces *out)
{
    struct cursor c = { .rest = value };
    struct read_trace read[PAGE_ROW_TRACES_MAX];
    uint8_t version = cursor_u8(&c);
    if (version == TRACE_VERSION_ALONE)
        return alone_decode(&c, lowest, out);
    if (version != TRACES_VERSION)
        return ERR_CORRUPT;
    *out = (struct page_traces){ .count = cursor_u8(&c) };
    if (out->count < 1 || out->count > PAGE_ROW_TRACES_MAX)
        return ERR_CORRUPT;
    out->trace[0].trace.name = lowest;
    for (unsigned i = 0; i < out->count; i++)
        trace_get(&c, out, i, &read[i]);
    if (!cursor_done(&c))
        return ERR_CORRUPT;
    /* From the first to the last: each time counts from one that is complete by then. */
    for (unsigned i = 0; i < out->count; i++)
        trace_complete(out, i, &read[i]);
    for (unsigned i = 0; i < out->count; i++)
        if (!trace_is_right(out, i, read[i].flags))
            return ERR_CORRUPT;
    return ERR_OK;
}
