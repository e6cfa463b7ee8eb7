/* values_update.c - one put or delete of a value: reads the rows that it judges, decides, and
 * writes if the key has not changed since. values_write.c decides and writes.
 *
 *   FIND the bucket -> LOAD -> JUDGE -> CHUNKS -> KEY -> DECIDE --applied--> ERR_OK
 *     DECIDE: somebody else was first, or the answer was lost: LOAD at SERIAL, which says so
 *
 * LOAD reads the key's rows from the greatest on, with its version. Then it reads the rows of the
 * revision that is written, unless they were among the first.
 * Invariants:
 *   1 the version is read first, and the write depends on it, so rows that were read later cannot
 *     be older than it unseen;
 *   2 chunks are written once, under the id of the write: no later try needs others;
 *   3 the key is listed before its first row is there;
 *   4 an update ends once: values_update_end frees it. */
#include "cassandra/values_update.h"

#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>

/* WORK_BYTES_MAX: rows of one try, and a value that a condition looks at. */
enum { PAUSE_MS = 50, ROWS_AT_FIRST = 32, KEY_BYTES_MAX = 4096, WORK_BYTES_MAX = 96 << 20 };

void values_update_end(struct values_update *u, err why)
{
    struct table_update *out = u->update;
    values_ask_clear(&u->ask);
    arena_fini(&u->work);
    if (why == ERR_OK)
        atomic_fetch_add(u->write->is_delete ? &u->values->deletes : &u->values->puts, 1);
    free(u);
    store_call_end(&out->call, why);
}

void values_update_fail(struct values_update *u, err why, const struct err_note *note)
{
    u->update->note = *note;
    values_update_end(u, why);
}

/* The cluster failed. Where a write was lost the caller is told that it may have happened. */
void values_update_lost(struct values_update *u, err why, const struct err_note *note)
{
    u->update->note = *note;
    values_update_end(u, values_blame(u->values, &u->update->call, why, u->lost, u->key.key,
                                      &u->update->note));
}

static void update_load(struct values_update *u, bool serial);

/* Another try, from LOAD on. Ends the update when tries or time are used up. */
void values_update_again(struct values_update *u, bool serial)
{
    bool last = ++u->tries == VALUES_TRIES_MAX;
    bool over = clock_mono(u->values->opts.clock).ns >= u->deadline.ns;
    struct err_note note;
    /* A write that was lost may have happened: the caller must hear that first. */
    if (u->lost && (last || over)) {
        err_note_set(&note, "no answer to %u conditional writes of a value", u->tries);
        values_update_lost(u, ERR_TIMEOUT, &note);
    } else if (last) {
        err_note_set(&note, "others write the same key without end");
        values_update_fail(u, ERR_UNAVAILABLE, &note);
    } else if (over) {
        err_note_set(&note, "the time was over before it could be written");
        values_update_fail(u, ERR_TIMEOUT, &note);
    } else {
        update_load(u, serial);
    }
}

/* ---- loading ---- */

bool values_update_room(struct values_update *u)
{
    if (u->count < u->size)
        return true;
    size_t size = u->size == 0 ? ROWS_AT_FIRST : 2 * u->size;
    /* one more than asked for: the row that is put */
    struct values_row *rows = arena_calloc(&u->work, size + 1, sizeof *rows);
    if (rows == NULL)
        return false;
    if (u->count > 0)
        memcpy(rows, u->rows, u->count * sizeof *rows);
    u->rows = rows;
    u->size = size;
    return true;
}

/* Keeps a row, with what it borrows from the answer where its value may be judged. */
static err row_add(struct values_update *u, const struct values_row *r, bool full)
{
    /* The second reading asked for one revision. */
    if (u->second && r->rev != u->target.rev)
        return ERR_CORRUPT;
    if (!values_update_room(u))
        return ERR_LIMIT;
    struct values_row *to = &u->rows[u->count];
    *to = *r;
    to->head = full ? arena_copy(&u->work, r->head) : STR_NONE;
    to->bytes = full && r->bytes.p != NULL ? arena_copy(&u->work, r->bytes) : STR_NONE;
    if (full && (to->head.p == NULL || (r->bytes.p != NULL && to->bytes.p == NULL)))
        return ERR_LIMIT;
    u->count++;
    return ERR_OK;
}

static err rows_take(struct values_update *u, bool full)
{
    struct cql_rows rows = u->ask.request.out.rows;
    struct cql_cell cells[VALUES_FULL_COLUMNS];
    err e = ERR_OK;
    while (e == ERR_OK && cql_rows_next(&rows, cells)) {
        struct values_got got;
        e = values_row_get(cells, full, &got);
        /* The version is a static column: the first row has it, and each other row the same. */
        if (e == ERR_OK && !u->has_version) {
            u->has_version = true;
            u->version.n = got.version.n;
            if (got.version.n > 0)
                memcpy(u->version.bytes, got.version.p, got.version.n);
        }
        if (e == ERR_OK && got.has_row)
            e = row_add(u, &got.row, full);
    }
    return e == ERR_OK && rows.rest.failed ? ERR_CORRUPT : e;
}

bool values_update_alive(const struct values_update *u, const struct values_row *r)
{
    return store_time_before(clock_store(u->values->opts.clock), r->expires);
}

/* Is the first row of the key that is alive needed? A condition on the key alone needs it, and a
 * policy that keeps the first revision. Such a load goes on past dead rows. */
static bool wants_first(const struct values_update *u)
{
    bool by_key = u->write->predicates_count == 1 && u->write->condition == IF_ALLOWED;
    return by_key || (!u->write->is_delete && u->find.bucket.keep.kind == KEEP_LATEST_HASH);
}

bool values_update_any(const struct values_update *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (values_update_alive(u, &u->rows[i]))
            return true;
    return false;
}

static void update_judge(struct values_update *u);
static void load_done(struct cql_request *q);

/* The rows of the key, or those of the revision that is written. QUORUM, over all data centres: a
 * write elsewhere was acknowledged by that. */
static void load_send(struct values_update *u, enum values_statement s)
{
    values_ask_clear(&u->ask);
    struct cql_values *v = values_ask_key(&u->ask, s, &u->key, 64);
    if (s == VALUES_META_REV)
        cql_put_i64(v, u->target.rev);
    values_ask_set(&u->ask, u->update->call.home, u->deadline, load_done);
    u->ask.request.params.consistency = u->serial ? CQL_SERIAL : CQL_QUORUM;
    u->ask.request.params.page_rows = VALUES_PAGE_ROWS;
    u->ask.request.speculative = !u->serial;
    cql_start(u->values->opts.client, &u->ask.request);
}

/* Reads all rows of the revision, since the page may lack some. Rows that were read already are
 * dropped first: each is there once. */
static void load_revision(struct values_update *u)
{
    while (u->count > 0 && u->rows[u->count - 1].rev == u->target.rev)
        u->count--;
    u->second = true;
    load_send(u, VALUES_META_REV);
}

static bool version_has(const struct values_update *u, const char *mark)
{
    for (size_t i = 0; i < u->version.n; i += VALUES_MARK_BYTES)
        if (memcmp(u->version.bytes + i, mark, VALUES_MARK_BYTES) == 0)
            return true;
    return false;
}

/* After a try that was refused, or whose answer was lost: did it happen? Its mark would stand right
 * before the mark that was the newest. True: the update is over. */
static bool tried_before(struct values_update *u)
{
    /* The version had no mark before the try. */
    bool was_empty = u->wanted.n == VALUES_MARK_BYTES;
    /* Only a reading at SERIAL is final: what it does not show never happens. */
    if (!u->serial || u->wanted.n == 0)
        return false;
    u->lost = false;
    if (version_has(u, u->wanted.bytes)) {
        values_update_wrote(u);
        return true;
    }
    u->wanted.n = 0;
    /* The mark from before is there, and ours is not: the try did not happen. When neither is
     * there, so many others have written that both were pushed out. */
    if (was_empty ? u->version.n < sizeof u->version.bytes
                  : u->version.n == 0 || version_has(u, u->wanted.bytes + VALUES_MARK_BYTES))
        return false;
    err_note_set(&u->update->note,
                 "whether it was written is not known: others have written it since");
    values_update_end(u, ERR_TIMEOUT);
    return true;
}

/* ---- a look that fails is made again while there is time: a write may have happened ---- */

static void pause_over(void *ctx)
{
    struct values_update *u = ctx;
    loop_timer_free(&u->timer);
    update_load(u, true);
}

/* On the loop, which owns timers. A look that fails is made again: a pause lets the cluster come
 * back. */
static void pause_begin(void *ctx)
{
    struct values_update *u = ctx;
    u->timer = loop_timer_new(u->values->opts.loop, pause_over, u);
    loop_timer_start(u->timer, PAUSE_MS, 0);
}

/* Worth a pause only while a write may have happened: all other failures can be told at once. */
static bool pause_fits(const struct values_update *u, err why)
{
    mono after = mono_add_ms(clock_mono(u->values->opts.clock), PAUSE_MS);
    return u->serial && u->wanted.n > 0 && why != ERR_SHUTDOWN && after.ns < u->deadline.ns;
}

static void load_done(struct cql_request *q)
{
    struct values_update *u = CONTAINER_OF(q, struct values_update, ask.request);
    bool full = u->ask.parts[0].statement == u->values->statements[VALUES_FULL];
    err e = q->out.why;
    struct err_note note = q->out.note;
    if (e == ERR_OK)
        e = rows_take(u, full);
    struct arena *a = &u->work;
    bool more = values_ask_more(&u->ask, a, &e);
    cql_outcome_fini(&q->out);
    if (e != ERR_OK && pause_fits(u, e)) {
        loop_post(u->values->opts.loop, pause_begin, u);
        return;
    }
    if (e != ERR_OK) {
        values_update_lost(u, e, &note);
        return;
    }
    /* Rows that are dead do not answer the question; so more are read, up to a limit. */
    bool dead = more && wants_first(u) && !values_update_any(u);
    if (dead && u->count >= VALUES_DEAD_ROWS_MAX && !u->second)
        u->dead = ERR_UNAVAILABLE;
    if (more && (u->second || (dead && u->dead == ERR_OK))) {
        cql_start(u->values->opts.client, q);
        return;
    }
    if (tried_before(u))
        return;
    /* The rows that were read end before the revision does, so some of its rows may be missing. */
    bool behind = more && u->count > 0 && u->rows[u->count - 1].rev >= u->target.rev;
    u->more |= more;
    if (!u->second && behind && u->has_rev)
        load_revision(u);
    else
        update_judge(u);
}

/* Begins a try, and forgets the rows that were read before. */
static void update_load(struct values_update *u, bool serial)
{
    const struct table_write *w = u->write;
    arena_reset(&u->work);
    u->rows = NULL;
    u->count = u->size = 0;
    u->version.n = 0;
    u->has_version = u->more = u->second = false;
    u->dead = ERR_OK;
    u->serial = serial;
    /* A condition on a value needs the value; values of revisions are judged by their names alone.
     */
    bool full = !u->find.bucket.revs && w->condition == IF_ALLOWED && !w->allow_by_key;
    load_send(u, full ? VALUES_FULL : VALUES_META);
}

/* ---- judging ---- */

/* The row that the condition is judged on: the first live row that the predicates name. Of a put
 * without predicates, the row of its own name. NULL: there is none. */
static const struct values_row *judged_row(const struct values_update *u)
{
    bool own = u->write->predicates_count == 0;
    for (size_t i = 0; i < u->count; i++) {
        const struct values_row *r = &u->rows[i];
        /* Three predicates name one row, one names the key, two name a revision. */
        bool named = own || u->write->predicates_count == 3
                         ? values_row_cmp(r, &u->target) == 0
                         : u->write->predicates_count == 1 || r->rev == u->target.rev;
        if (named && values_update_alive(u, r))
            return r;
    }
    return NULL;
}

/* Judges the condition. h NULL: by the name of the row alone. A condition that does not hold is no
 * error: applied tells. */
static void judge_row(struct values_update *u, const struct values_row *r,
                      const struct values_head *h, str value)
{
    const struct values_shown shown = {
        .revs = u->find.bucket.revs, .key = u->key.key, .row = r, .head = h, .value = value
    };
    struct table_row row;
    if (r != NULL && !values_row_table(&u->work, &shown, &row)) {
        values_update_end(u, ERR_LIMIT);
    } else if (u->write->allow(u->write->allow_ctx, r == NULL ? NULL : &row)) {
        values_update_decide(u);
    } else {
        u->update->applied = false;
        values_update_end(u, ERR_OK);
    }
}

static void judge_bytes(struct store_call *c)
{
    struct values_update *u = CONTAINER_OF(c, struct values_update, body.call);
    struct values_head h;
    if (c->why == ERR_NOT_FOUND)
        /* another write has taken the row's place meanwhile, and its chunks are gone */
        values_update_again(u, false);
    else if (c->why != ERR_OK)
        values_update_fail(u, c->why, &u->body.note);
    else if (!values_head_read(u->body.row.head, &h))
        values_update_end(u, ERR_CORRUPT);
    else
        judge_row(u, &u->body.row, &h, u->body.bytes);
}

/* All is read. Without a condition it is decided at once; else the row that is judged may need its
 * bytes first. */
static void update_judge(struct values_update *u)
{
    const struct table_write *w = u->write;
    if (u->dead != ERR_OK) {
        values_update_end(u, u->dead);
        return;
    }
    if (w->condition == IF_ALWAYS) {
        values_update_decide(u);
        return;
    }
    const struct values_row *r = judged_row(u);
    if (r == NULL || w->allow_by_key || u->find.bucket.revs) {
        judge_row(u, r, NULL, STR_NONE);
        return;
    }
    u->body = (struct values_body){
        .call = { .home = u->update->call.home, .deadline = u->deadline, .done = judge_bytes },
        .values = u->values,
        .key = u->key,
        .row = *r,
        .arena = &u->work
    };
    store_call_then(values_body(&u->body), &u->body.call);
}

/* ---- the start ---- */

static void update_found(struct store_call *c)
{
    struct values_update *u = CONTAINER_OF(c, struct values_update, find.call);
    if (c->why != ERR_OK) {
        values_update_fail(u, c->why, &u->find.note);
        return;
    }
    u->key.domain = u->find.domain_name;
    u->key.made = u->find.bucket.made;
    update_load(u, false);
}

static bool tid_take(struct values_row *r, str tid)
{
    if (tid.n != sizeof r->tid)
        return false;
    memcpy(r->tid, tid.p, tid.n);
    return true;
}

/* Takes a put apart into its row, head and value. False: an attribute that tables of values do not
 * have. */
static bool attrs_take(struct values_update *u)
{
    const struct table_write *w = u->write;
    bool fine = w->equal_count == 0 && w->attrs_count > 0;
    for (unsigned i = 0; fine && i < w->attrs_count; i++) {
        str name = w->attrs[i].name, value = w->attrs[i].value;
        if (str_eq(name, STR("key"))) {
            u->key.key = value;
        } else if (str_eq(name, STR("rev"))) {
            u->has_rev = fine = value.n == 8;
            u->target.rev = table_long(value);
        } else if (str_eq(name, STR("tid"))) {
            u->has_tid = fine = tid_take(&u->target, value);
        } else if (str_eq(name, STR("value"))) {
            u->value = value;
        } else if (str_eq(name, STR("headers"))) {
            u->head.headers = value;
        } else if (str_eq(name, STR("etag"))) {
            u->head.etag = value;
        } else if (str_eq(name, STR("coding"))) {
            u->head.coding = value;
        } else {
            fine = false;
        }
    }
    return fine;
}

static bool predicates_take(struct values_update *u)
{
    const struct table_write *w = u->write;
    bool fine = true;
    for (unsigned i = 0; fine && i < w->predicates_count; i++) {
        const struct table_predicate *p = &w->predicates[i];
        fine = p->op == OP_EQ;
        if (str_eq(p->name, STR("key"))) {
            u->key.key = p->value;
        } else if (str_eq(p->name, STR("rev"))) {
            u->has_rev = fine &= p->value.n == 8;
            u->target.rev = table_long(p->value);
        } else {
            u->has_tid = fine &= str_eq(p->name, STR("tid")) && tid_take(&u->target, p->value);
        }
    }
    return fine;
}

/* Is it a write that the value service makes: one put of all attributes, or one delete by key, rev
 * and tid? */
static bool update_plan(struct values_update *u)
{
    const struct table_write *w = u->write;
    return u->update->writes_count == 1 && !u->update->one_step &&
           (w->condition == IF_ALWAYS || w->condition == IF_ALLOWED) &&
           (w->is_delete ? predicates_take(u) : attrs_take(u)) && u->key.key.p != NULL &&
           (u->has_rev || !u->has_tid);
}

enum store_start values_update(struct table_store *s, struct table_update *out)
{
    struct values *v = CONTAINER_OF(s, struct values, store);
    struct values_update *u = calloc(1, sizeof *u);
    INVARIANT(u != NULL);
    out->applied = false;
    out->rows_deleted = 0;
    out->note.text[0] = 0;
    u->values = v;
    u->update = out;
    u->write = out->writes;
    u->ask.values = v;
    u->key.bucket = out->writes->table;
    u->deadline = values_deadline(v, &out->call);
    /* The id is taken here, once: retries are the same write. */
    u->id = values_id_new(v);
    err e = update_plan(u) ? ERR_OK : ERR_BAD;
    if (e != ERR_OK)
        err_note_set(&out->note, "only values by key, rev and tid are kept on Cassandra yet");
    if (e == ERR_OK && (u->value.n > VALUES_BODY_BYTES_MAX || u->key.key.n > KEY_BYTES_MAX)) {
        err_note_set(&out->note, "a value has %d bytes at most, and a key %d",
                     VALUES_BODY_BYTES_MAX, KEY_BYTES_MAX);
        e = ERR_LIMIT;
    }
    /* Freed here: nothing of it is under way yet. */
    if (e != ERR_OK) {
        free(u);
        return store_call_done(&out->call, e);
    }
    arena_init(&u->work, WORK_BYTES_MAX);
    u->find = (struct values_find){
        .call = { .home = out->call.home, .deadline = u->deadline, .done = update_found },
        .domain = out->domain,
        .table = out->writes->table
    };
    store_call_then(values_find(v, &u->find), &u->find.call);
    return STORE_LATER;
}
