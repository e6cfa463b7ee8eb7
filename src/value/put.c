/* put.c - writes and deletes values, if what was asked of the stored one holds.
 *
 * A stored value in gzip is undone only to be compared, and never in the update that decides. A
 * value whose tail speaks of the same bytes is read and undone before, and the update asked again.
 * What was found out counts for that very frame alone. */
#include "base/utf8.h"
#include "codec/frame.h"
#include "page/headers.h"
#include "store/page_read.h"
#include "value/value_impl.h"

#include <string.h>

enum { SAME_KEPT_BYTES_MAX = 2 * PAGE_HEADERS_BYTES_MAX, LOOKS_MAX = 8 };

/* For a put with `unlike`: what the update that decides compares with. In the arena of the
 * request. */
struct value_same {
    struct frame_sum sum; /* of what is written */
    str known;       /* a frame of gzip that was undone; borrowed from the arena, behind mark */
    bool known_same; /* it holds the same bytes */
    bool is_open;    /* another frame may: nothing was written */
    unsigned looks;
    struct arena_mark mark;
    char *kept; /* a copy of the stored headers, then of the stored etag */
};

static struct value_put *put_of(struct value_call *c)
{
    return CONTAINER_OF(c, struct value_put, of);
}

/* ---- judging, in the update that decides ---- */

/* A put without a content-type does not change the stored one. */
static bool same_type(const struct value_put *p, str stored)
{
    str is = STR_NONE, was = STR_NONE;
    if (!headers_find(p->headers, STR("content-type"), &is))
        return true;                                       /* it says nothing of it */
    (void)headers_find(stored, STR("content-type"), &was); /* none: compared as empty */
    return str_eq(is, was);
}

/* Do both hold the same bytes? Each may have been sent in a coding of its own. */
static bool same_value(struct value_put *p, const struct table_row *stored)
{
    struct value_same *s = p->same;
    str value = table_row_value(stored, STR("value")),
        coding = table_row_value(stored, STR("coding"));
    if (str_eq(value, p->body) && str_eq(coding, p->coding))
        return true;
    if (coding.n == 0)
        return str_eq(value, p->raw);
    /* Length and checksum of the frame differ: no need to undo it. */
    if (!frame_gzip_says(value, s->sum))
        return false;
    s->is_open = s->known.p == NULL || !str_eq(value, s->known);
    return s->known_same;
}

/* Is the stored value another, so that the put is to write? The same one's headers and tag are
 * copied out, as the row is borrowed. */
static bool is_other(struct value_put *p, const struct table_row *stored)
{
    if (stored == NULL)
        return true;
    struct value_same *s = p->same;
    str headers = table_row_value(stored, STR("headers")),
        etag = table_row_value(stored, STR("etag"));
    bool same = same_type(p, headers) && same_value(p, stored);
    if (s->is_open)
        return false;
    if (!same || headers.n + etag.n > SAME_KEPT_BYTES_MAX)
        return !same;
    if (headers.n > 0)
        memcpy(s->kept, headers.p, headers.n);
    if (etag.n > 0)
        memcpy(s->kept + headers.n, etag.p, etag.n);
    p->same_headers = (str){ .p = s->kept, .n = headers.n };
    p->same_etag = (str){ .p = s->kept + headers.n, .n = etag.n };
    return false;
}

/* Inside the update, perhaps more than once: all that it says is set anew. */
static bool put_allow(void *ctx, const struct table_row *stored)
{
    struct value_put *p = ctx;
    p->same_headers = p->same_etag = STR("");
    p->unmet = !value_condition_holds(&p->condition, p->of.target.kind, stored);
    if (p->same != NULL)
        p->same->is_open = false;
    return !p->unmet && (p->same == NULL || is_other(p, stored));
}

/* ---- a put ---- */

static value_next_fn put_written, put_looked;

static enum store_start put_update(struct value_put *p)
{
    struct value_call *c = &p->of;
    c->step.update = (struct table_update){ .call = value_step(c, put_written),
                                            .domain = c->target.domain_number,
                                            .writes = &p->write,
                                            .writes_count = 1,
                                            .random = p->random,
                                            .arena = c->arena };
    return value_go(c, table_store_update(c->service->store, &c->step.update));
}

/* Reads the stored frame, to be compared. LOOKS_MAX times at most: a writer who stores a frame of
 * its own each time is not waited for without end. */
static enum store_start put_look(struct value_put *p)
{
    struct value_call *c = &p->of;
    struct value_same *s = p->same;
    if (s->looks++ == LOOKS_MAX)
        return value_over(c, ERR_AGAIN, NULL);
    if (s->looks == 1)
        s->mark = arena_mark(c->arena);
    else
        arena_release(c->arena, s->mark); /* what was known, and what its update took */
    s->known = STR_NONE;
    return value_find(c, true, put_looked);
}

/* At home. The frame is undone here, where it may take long. */
static enum store_start put_looked(struct value_call *c, err why)
{
    struct value_put *p = put_of(c);
    struct value_same *s = p->same;
    if (why == ERR_OK && frame_gzip_says(c->row.body, s->sum)) { /* else it is another by now */
        s->known = c->row.body;
        why = frame_gzip_holds(s->known, p->raw, &s->known_same);
    }
    return why == ERR_OK ? put_update(p) : value_over(c, why, NULL);
}

/* The update has decided: nothing is written where another frame has to be looked at first. */
static enum store_start put_written(struct value_call *c, err why)
{
    struct value_put *p = put_of(c);
    if (why == ERR_OK && !p->unmet && p->same != NULL && p->same->is_open)
        return put_look(p);
    p->outcome = p->unmet ? VALUE_UNMET : c->step.update.applied ? VALUE_WRITTEN : VALUE_SAME;
    return value_over(c, why, &c->step.update.note);
}

/* Sets up what the update asks: PLAIN by its key, REVS by the first row of its path. False: the
 * arena is full. */
static bool put_judged(struct value_put *p)
{
    struct value_call *c = &p->of;
    bool revs = c->target.kind == VALUE_REVS;
    if (value_condition_is_none(&p->condition) && !p->unlike)
        return true;
    if (p->unlike) {
        p->same = arena_alloc(c->arena, sizeof *p->same);
        char *kept = arena_alloc(c->arena, SAME_KEPT_BYTES_MAX);
        if (p->same == NULL || kept == NULL)
            return false;
        *p->same = (struct value_same){ .sum = frame_sum_of(p->raw), .kept = kept };
    }
    p->write.condition = IF_ALLOWED;
    p->write.allow = put_allow;
    p->write.allow_ctx = p;
    p->write.allow_by_key = revs;
    if (!revs)
        return true;
    p->write.predicates = c->predicates;
    return value_predicates(c);
}

/* The row of the value, and who may write it. */
static enum store_start put_write(struct value_put *p)
{
    struct value_call *c = &p->of;
    unsigned n = 0;
    p->write = (struct table_write){ .table = c->table, .attrs = p->attrs };
    if (!put_judged(p))
        return value_over(c, ERR_LIMIT, NULL);
    if (p->write.predicates != NULL)
        p->write.predicates_count = c->predicates_count;
    p->attrs[n++] = (struct table_attr){ STR("key"), c->target.key };
    p->attrs[n++] = (struct table_attr){ STR("value"), p->body };
    p->attrs[n++] = (struct table_attr){ STR("headers"), p->headers };
    p->attrs[n++] = (struct table_attr){ STR("coding"), p->coding };
    if (c->target.kind == VALUE_PLAIN) {
        p->attrs[n++] = (struct table_attr){ STR("etag"), p->etag };
    } else {
        p->attrs[n++] =
            (struct table_attr){ STR("rev"), table_value_long(c->arena, c->target.rev) };
        p->attrs[n++] = (struct table_attr){ STR("tid"), table_value_tid(c->arena, c->target.tid) };
    }
    p->write.attrs_count = n;
    return put_update(p);
}

/* Makes a tid later than all of the revision, also when the clock stands still. */
static enum store_start put_found(struct value_call *c, err why)
{
    struct value_put *p = put_of(c);
    uint64_t ticks = tid_ticks(clock_store(c->service->clock));
    if (why == ERR_OK && c->row.found && c->row.tid.ticks == TID_TICKS_MAX) {
        p->outcome = VALUE_TID_LAST;
        return value_over(c, ERR_OK, NULL);
    }
    if (why != ERR_OK)
        return value_over(c, why, NULL);
    if (c->row.found && c->row.tid.ticks >= ticks)
        ticks = c->row.tid.ticks + 1;
    c->target.tid = tid_make(ticks, p->random);
    return put_write(p);
}

static enum store_start put_there(struct value_call *c, err why)
{
    bool mints = c->target.kind == VALUE_REVS && !c->target.has_tid;
    if (why != ERR_OK)
        return value_over(c, why, NULL);
    return mints ? value_find(c, false, put_found) : put_write(put_of(c));
}

enum store_start value_put(struct value_service *s, struct value_put *p)
{
    p->unmet = false;
    p->same = NULL;
    p->of.call.fresh = STORE_QUORUM; /* what it reads says what it writes */
    if (!value_begin(&p->of, s))
        return value_over(&p->of, ERR_LIMIT, NULL);
    /* Not every store has a type for keys, and listings are JSON. */
    if (!utf8_valid(p->of.target.key)) {
        struct err_note note;
        err_note_set(&note, "the key is not UTF-8");
        return value_over(&p->of, ERR_BAD, &note);
    }
    return value_there(&p->of, put_there);
}

/* ---- a delete ---- */

/* Inside the update, perhaps more than once. */
static bool delete_allow(void *ctx, const struct table_row *stored)
{
    struct value_delete *d = ctx;
    d->unmet = !value_condition_holds(&d->condition, d->of.target.kind, stored);
    return !d->unmet;
}

/* A configured bucket without a table is empty, not unknown. */
static enum store_start delete_over(struct value_call *c, err why)
{
    struct value_delete *d = CONTAINER_OF(c, struct value_delete, of);
    if (why == ERR_NOT_FOUND && c->target.settings != NULL) { /* nothing was ever stored in it */
        (void)delete_allow(d, NULL);                          /* sets unmet */
        why = ERR_OK;
    }
    d->outcome = d->unmet ? VALUE_UNMET : VALUE_WRITTEN;
    return value_over(c, why, &c->step.update.note);
}

enum store_start value_delete(struct value_service *s, struct value_delete *d)
{
    struct value_call *c = &d->of;
    d->unmet = false;
    if (!value_begin(c, s) || !value_predicates(c))
        return value_over(c, ERR_LIMIT, NULL);
    d->write = (struct table_write){ .is_delete = true,
                                     .table = c->table,
                                     .predicates = c->predicates,
                                     .predicates_count = c->predicates_count };
    if (!value_condition_is_none(&d->condition)) {
        d->write.condition = IF_ALLOWED;
        d->write.allow = delete_allow;
        d->write.allow_ctx = d;
        d->write.allow_by_key = c->target.kind == VALUE_REVS;
    }
    c->step.update = (struct table_update){ .call = value_step(c, delete_over),
                                            .domain = c->target.domain_number,
                                            .writes = &d->write,
                                            .writes_count = 1,
                                            .arena = c->arena };
    return value_go(c, table_store_update(s->store, &c->step.update));
}
