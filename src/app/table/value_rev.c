/* key_rev_value: values by key, revision and tid; the newest tid of the highest revision is the
 * latest. */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "loop/entropy.h"

#include <inttypes.h>
#include <stdio.h>

void value_rev_tag(int64_t rev, struct tid tid, char text[VALUE_REV_TAG_BYTES])
{
    char tid_text[TID_TEXT_BYTES + 1];
    tid_format(tid, tid_text);
    (void)snprintf(text, VALUE_REV_TAG_BYTES, "%" PRId64 "/%s", rev, tid_text); /* fits */
}

static str etag_of(struct value_request *r, int64_t rev, struct tid tid)
{
    char text[VALUE_REV_TAG_BYTES];
    value_rev_tag(rev, tid, text);
    return arena_printf(http_arena(r->x), "\"%s\"", text);
}

static void get_read(struct value_request *r, err why)
{
    if (why != ERR_OK)
        value_fail(r, why);
    else if (!r->row.found)
        app_problem(r->x, 404, "not_found", NULL, STR("No such value is stored."), STR_NONE);
    else
        value_answer(r, etag_of(r, r->row.rev, r->row.tid));
}

void value_rev_get(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, BUCKET_REVS);
    if (r != NULL)
        value_read(r, true, get_read);
}

static void put_written(struct value_request *r, err why)
{
    if (why != ERR_OK) {
        value_fail(r, why);
        return;
    }
    if (r->unmet) {
        value_unmet(r);
        return;
    }
    char tid[TID_TEXT_BYTES + 1];
    struct answer w = { .status = 201 };
    str type;
    tid_format(r->tid, tid);
    w.body =
        arena_printf(http_arena(r->x),
                     "{\"message\":\"Created.\",\"rev\":%" PRId64 ",\"tid\":\"%s\"}", r->rev, tid);
    if (!headers_find(r->row.headers, STR("content-type"), &type)) {
        type = STR("application/octet-stream");
        answer_add(&w, STR("content-type"), type);
    }
    answer_add_kept(&w, r->row.headers, HEADERS_ALL); /* the peer answers with all it stored */
    answer_add(&w, STR("etag"), etag_of(r, r->rev, r->tid));
    answer_add(&w, STR("cache-control"), str_of(r->access->cache_control));
    answer_add_security(&w, http_arena(r->x), type, STR_NONE);
    answer_send(r->x, &w);
}

static void put_write(struct value_request *r)
{
    struct value_row row = { .found = true };
    if (!value_kept(r, HEADERS_ALL, &row.headers, &row.coding))
        return;
    r->row = row;
    if (value_judge(r))
        value_write(r, &row, put_written);
}

/* A tid of our own is later than what the revision has, also when the clock stands still. */
static void put_read(struct value_request *r, err why)
{
    if (why != ERR_OK) {
        value_fail(r, why);
        return;
    }
    uint64_t ticks = tid_ticks(clock_store(r->app->clock));
    if (r->row.found && r->row.tid.ticks == TID_TICKS_MAX) {
        app_problem(r->x, 409, "conflict", NULL,
                    STR("The newest tid of this revision is the last there can be: name one."),
                    STR_NONE);
        return;
    }
    if (r->row.found && r->row.tid.ticks >= ticks)
        ticks = r->row.tid.ticks + 1;
    r->tid = tid_make(ticks, entropy_u64());
    put_write(r);
}

static void put_start(struct value_request *r)
{
    if (r->has_tid)
        put_write(r);
    else
        value_read(r, false, put_read);
}

void value_rev_put(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, BUCKET_REVS);
    if (r == NULL)
        return;
    if (!r->has_rev)
        app_problem(x, 400, "bad_request#invalid_revision", NULL, STR("A PUT names its revision."),
                    STR_NONE);
    else if (value_take_body(r, HEADERS_ALL))
        value_there(r, put_start);
}

void value_rev_delete(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, BUCKET_REVS);
    if (r != NULL)
        value_delete(r);
}
