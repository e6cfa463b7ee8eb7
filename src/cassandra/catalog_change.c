/* catalog_change.c - one change: a conditional batch, and how it is known whether it happened.
 *
 *   SEND --applied--> ERR_OK
 *     |--not applied, or the answer was lost--> LOOK for the note of this change, at SERIAL
 *          there:                      ERR_OK, it had happened
 *          not there, was not applied: ERR_CONFLICT. What it depends on has changed and never comes
 *                                      back, so it can happen no more
 *          not there, answer lost:     SEND again, the same with the same id, while there is time
 *          no answer:                  LOOK again, while there is time
 *     |--not sent in time, as with a PREPARE that is lost--> SEND again, while there is time
 * Before it looks or sends again after an error it waits a little. All of it runs on the loop; the
 * end is posted to the call's home.
 * A node that says "not applied" may have applied a try before, or even this one. The next write or
 * reading finishes a proposal that was cut off. So the note is looked for then, too. */
#include "cassandra/catalog_impl.h"

#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>

/* TRY_MS: of one exchange, so that a lost answer leaves time to look. CELLS_OF_ANSWER_MAX: columns
 * of an answer, which are [applied] and, when it is refused, those of the conditions. */
enum { TRY_MS = 3000, PAUSE_MS_MIN = 20, PAUSE_MS_MAX = 640, CELLS_OF_ANSWER_MAX = 16 };
enum { BESIDE = 2 }; /* parts: generation, note */
enum { PARTS_MAX = CATALOG_CHANGE_MAX + BESIDE };

/* One change under way. It frees itself in change_end, on the loop. */
struct change {
    struct catalog *catalog;
    struct catalog_change *change;
    struct cql_request request; /* the send or the look, never both */
    mono deadline;
    /* sent again as they are: the same id, the same conditions */
    struct cql_part parts[PARTS_MAX];
    struct cql_values values[PARTS_MAX];
    unsigned parts_count;
    /* the statement that asks for this change's note */
    /* the look */
    struct cql_part look;
    struct cql_values look_values;
    err why; /* how the last try ended: ERR_CONFLICT is "not applied", and nothing else */
    struct loop_timer *timer; /* NULL: it never paused */
    int64_t pause_ms;
    void (*next)(struct change *c); /* behind the pause */
};

/* Frees the change first: the caller may free its request as soon as it is told. */
static void change_end(struct change *c, err why)
{
    struct catalog_change *out = c->change;
    for (unsigned i = 0; i < c->parts_count; i++)
        cql_values_fini(&c->values[i]);
    cql_values_fini(&c->look_values);
    if (c->timer != NULL)
        loop_timer_free(&c->timer);
    free(c);
    store_call_end(&out->call, why);
}

/* ---- what is sent ---- */

/* One more statement of the batch. Its values stay until the end, for sends to come. */
static struct cql_values *part_add(struct change *c, enum catalog_statement statement)
{
    enum { BESIDE_BYTES = 256 };
    struct cql_values *v = &c->values[c->parts_count];
    cql_values_init(v, CATALOG_VALUE_BYTES_MAX + CATALOG_KEY_BYTES_MAX + BESIDE_BYTES);
    c->parts[c->parts_count++] =
        (struct cql_part){ .statement = c->catalog->statements[statement], .values = v };
    return v;
}

static str id_str(const struct catalog_id *id)
{
    return (str){ .p = (const char *)id->bytes, .n = CATALOG_ID_BYTES };
}

/* A cell. A deletion says no version, because the cell will have none. */
static void put_add(struct change *c, const struct catalog_put *p)
{
    bool deletes = p->value.p == NULL, conditional = p->if_version != NULL;
    enum catalog_statement statement = deletes ? conditional ? CATALOG_DELETE_IF : CATALOG_DELETE
                                       : conditional ? CATALOG_PUT_IF
                                                     : CATALOG_PUT;
    struct cql_values *v = part_add(c, statement);
    if (!deletes) {
        cql_put_bytes(v, id_str(&c->change->id));
        cql_put_bytes(v, p->value);
    }
    cql_put_bytes(v, c->change->scope);
    cql_put_bytes(v, p->key);
    if (conditional)
        catalog_put_id(v, p->if_version);
}

/* Makes all parts, and those of the look. The note goes in only once (IF NOT EXISTS), so every
 * change is conditional, and none happens twice. */
static void parts_make(struct change *c)
{
    const struct catalog_change *q = c->change;
    bool on_generation = q->if_generation != NULL;
    struct cql_values *v = part_add(c, on_generation ? CATALOG_MARK_IF : CATALOG_MARK);
    cql_put_bytes(v, id_str(&q->id));
    cql_put_bytes(v, q->scope);
    if (on_generation)
        catalog_put_id(v, q->if_generation);
    v = part_add(c, CATALOG_NOTE);
    cql_put_bytes(v, q->scope);
    cql_put_bytes(v, id_str(&q->id));
    cql_put_bytes(v, id_str(&q->id));
    cql_put_i32(v, CATALOG_NOTE_TTL_S);
    for (unsigned i = 0; i < q->puts_count; i++)
        put_add(c, &q->puts[i]);
    cql_values_init(&c->look_values, CATALOG_SCOPE_BYTES_MAX + CATALOG_ID_BYTES + 16);
    cql_put_bytes(&c->look_values, q->scope);
    cql_put_bytes(&c->look_values, id_str(&q->id));
    c->look = (struct cql_part){ .statement = c->catalog->statements[CATALOG_NOTED],
                                 .values = &c->look_values };
}

/* ---- sending and looking ---- */

static void sent(struct cql_request *q);
static void catalog_change_looked(struct cql_request *q);

/* Is there time for a pause and another try? A client that stops has none. */
static bool has_time(const struct change *c, err e)
{
    mono until = mono_add_ms(clock_mono(c->catalog->clock), c->pause_ms);
    return e != ERR_SHUTDOWN && until.ns < c->deadline.ns;
}

static void pause_over(void *ctx)
{
    struct change *c = ctx;
    c->next(c);
}

/* Waits before the next try. Pauses double, so that servers that race for one scope fall apart. */
static void change_pause(struct change *c, void (*next)(struct change *c))
{
    if (c->timer == NULL)
        c->timer = loop_timer_new(c->catalog->loop, pause_over, c);
    c->next = next;
    loop_timer_start(c->timer, c->pause_ms, 0);
    if (c->pause_ms < PAUSE_MS_MAX)
        c->pause_ms *= 2;
}

/* Sets the request for one exchange of at most TRY_MS. Its done runs on the loop (home NULL). */
static void change_ask(struct change *c, void (*done)(struct cql_request *q))
{
    mono until = mono_add_ms(clock_mono(c->catalog->clock), TRY_MS);
    if (c->deadline.ns < until.ns)
        until = c->deadline;
    c->request = catalog_request(NULL, until, done);
}

static void change_send(struct change *c)
{
    change_ask(c, sent);
    c->request.way = CQL_WAY_BATCH;
    c->request.batch = CQL_UNLOGGED; /* of one partition */
    c->request.parts = c->parts;
    c->request.parts_count = c->parts_count;
    /* Readers ask a LOCAL_QUORUM, in any data centre; so the write waits for a quorum of each. */
    c->request.params.consistency = CQL_EACH_QUORUM;
    c->request.params.serial = CQL_SERIAL;
    cql_start(c->catalog->client, &c->request);
}

/* Reads the note at SERIAL: that finishes a proposal which was cut off, so the answer is final. */
static void change_look(struct change *c)
{
    change_ask(c, catalog_change_looked);
    c->request.parts = &c->look;
    c->request.params.consistency = CQL_SERIAL;
    cql_start(c->catalog->client, &c->request);
}

/* The first column of a conditional write's answer is [applied]. */
static err applied(struct cql_rows rows, bool *out)
{
    struct cql_cell cells[CELLS_OF_ANSWER_MAX];
    bool fine = rows.columns != NULL && rows.columns->count > 0 &&
                rows.columns->count <= COUNT_OF(cells) && cql_rows_next(&rows, cells) &&
                cql_get_bool(&cells[0], out);
    return fine ? ERR_OK : ERR_CORRUPT;
}

static void sent(struct cql_request *q)
{
    struct change *c = CONTAINER_OF(q, struct change, request);
    bool done = false;
    c->why = q->out.why;
    bool lost = c->why != ERR_OK && q->out.unknown;
    /* The change was not sent in time, or all nodes were away for a moment (code < 0: the client
     * says so). So it may be sent again. */
    bool passes =
        c->why == ERR_TIMEOUT || c->why == ERR_IO || (c->why == ERR_UNAVAILABLE && q->out.code < 0);
    if (c->why != ERR_OK)
        c->change->note = q->out.note;
    else
        c->why = applied(q->out.rows, &done);
    if (c->why == ERR_CONFLICT)
        c->why = ERR_CORRUPT; /* the table is another one */
    cql_outcome_fini(&q->out);
    if (c->why == ERR_OK && !done)
        c->why = ERR_CONFLICT;
    /* Stays set over later tries: only an answer takes it back. */
    c->change->unknown |= lost;
    if (lost || c->why == ERR_CONFLICT) {
        /* "Not applied" is looked into at once. A lost answer waits: the proposal may still be on
         * its way. Without time for a pause one last look is better than none. */
        if (!lost || !has_time(c, c->why))
            change_look(c);
        else
            change_pause(c, change_look);
        return;
    }
    if (c->why == ERR_OK)
        c->change->unknown = false;
    if (passes && has_time(c, c->why))
        change_pause(c, change_send);
    else
        change_end(c, c->why);
}

/* The note says whether the change happened. See the table at the top of this file. */
static void catalog_change_looked(struct cql_request *q)
{
    struct change *c = CONTAINER_OF(q, struct change, request);
    err e = q->out.why;
    bool there = e == ERR_OK && q->out.rows.count > 0;
    cql_outcome_fini(&q->out);
    if (there) {
        c->change->unknown = false;
        change_end(c, ERR_OK);
    } else if (e == ERR_OK && c->why == ERR_CONFLICT) {
        err_note_set(&c->change->note, "somebody else changed the scope %.*s of the catalogue",
                     STR_ARG(c->change->scope));
        c->change->unknown = false;
        change_end(c, ERR_CONFLICT);
    } else if (!has_time(c, e)) {
        /* Nobody can say. A caller learns that the change may happen yet. */
        c->change->unknown = true;
        change_end(c, c->why == ERR_CONFLICT ? e : c->why);
    } else {
        change_pause(c, e != ERR_OK ? change_look : change_send);
    }
}

/* Limits are judged before anything is sent, so that a refusal is certain. */
static bool change_fits(const struct catalog_change *q)
{
    bool fits = q->puts_count > 0 && q->puts_count <= CATALOG_CHANGE_MAX;
    for (unsigned i = 0; fits && i < q->puts_count; i++)
        fits = q->puts[i].key.n <= CATALOG_KEY_BYTES_MAX &&
               q->puts[i].value.n <= CATALOG_VALUE_BYTES_MAX;
    return fits;
}

enum store_start catalog_change(struct catalog *k, struct catalog_change *out)
{
    MAGIC_CHECK(k, CATALOG_MAGIC);
    INVARIANT(out->scope.n > 0 && out->scope.n <= CATALOG_SCOPE_BYTES_MAX);
    if (!change_fits(out)) {
        err_note_set(&out->note, "a change of the catalogue has 1 to %d cells of at most %d bytes",
                     CATALOG_CHANGE_MAX, CATALOG_VALUE_BYTES_MAX);
        return store_call_done(&out->call, ERR_LIMIT);
    }
    struct change *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->catalog = k;
    c->change = out;
    c->deadline = catalog_deadline(k, &out->call);
    c->pause_ms = PAUSE_MS_MIN;
    out->unknown = false;
    /* A new id for each change, and never for a retry: the note of a retry must be the first one's.
     */
    k->entropy(out->id.bytes, sizeof out->id.bytes);
    parts_make(c);
    change_send(c);
    return STORE_LATER;
}
