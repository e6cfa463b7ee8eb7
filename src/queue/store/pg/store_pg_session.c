/* store_pg_session.c - making connections to a store's server; what it said; SQL of a
 * partition's tables. For all of store/pg. */
#include "queue/store/pg/store_pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct store_pg *store_pg_of(struct queue_store *q)
{
    struct store_pg *s = CONTAINER_OF(q, struct store_pg, store);
    MAGIC_CHECK(s, STORE_PG_MAGIC);
    return s;
}

/* For one unit, from now on. */
mono store_pg_deadline(const struct store_pg *s)
{
    return mono_add_ms(clock_mono(s->clock), s->timeout_ms);
}

/* ---- connections ---- */

/* By key alone, whatever the tables' statistics say: they count what lives, not what a held
 * snapshot keeps. */
static const char SETTINGS[] =
    "-c enable_seqscan=off -c enable_mergejoin=off -c enable_hashjoin=off";

/* What is acknowledged is committed as durably as the cluster can. Any other setting of a role or
 * database stands, but for a limit that later servers know, and that a walk would meet. Last: did
 * the session begin as it was to? */
static const struct pg_statement SESSION[PG_SESSION_STATEMENTS] = {
    { .sql = "SELECT set_config('synchronous_commit', 'on', false)"
             " WHERE current_setting('synchronous_commit') = 'off'" },
    { .sql = "SELECT set_config('transaction_timeout', '0', false)"
             " WHERE current_setting('transaction_timeout', true) IS NOT NULL" },
    { .sql = "SELECT (current_setting('client_min_messages') = 'error')::int4" },
};

/* The link's owner hears of it once; conn is the owner's on ERR_OK. */
static void link_end(struct pg_link *l, err why)
{
    if (why != ERR_OK)
        pg_close(&l->conn);
    l->done(l, why);
}

/* ERR_BAD: what the session was to begin with did not reach it, so that no limit of time holds. */
static void session_begun(struct pg_unit *u)
{
    struct pg_link *l = CONTAINER_OF(u, struct pg_link, unit);
    if (u->out.why != ERR_OK) {
        err_note_set(&l->note, "%s", u->out.note.text);
        link_end(l, ERR_UNAVAILABLE);
        return;
    }
    /* The row of the last statement. */
    bool is_ours = pg_i64(l->rows[COUNT_OF(SESSION) - 1], 0, 0) == 1;
    for (size_t i = 0; i < COUNT_OF(SESSION); i++)
        pg_rows_free(&l->rows[i]);
    if (!is_ours)
        err_note_set(
            &l->note,
            "something before PostgreSQL, a pooler perhaps, drops the options of its sessions; each"
            " has to be ours alone, with these options");
    link_end(l, is_ours ? ERR_OK : ERR_BAD);
}

/* Loop: the connection stands; its session is set up before anybody has it. */
static void link_opened(struct pg_opening *o, err why)
{
    struct pg_link *l = CONTAINER_OF(o, struct pg_link, opening);
    if (why != ERR_OK) {
        l->note = o->note;
        link_end(l, why);
        return;
    }
    l->conn = o->conn;
    l->unit = (struct pg_unit){ .list = SESSION,
                                .count = COUNT_OF(SESSION),
                                .deadline = l->deadline,
                                .rows = l->rows,
                                .done = session_begun };
    pg_start(l->conn, &l->unit);
}

void pg_link_start(struct pg_link *l)
{
    struct store_pg *s = l->s;
    l->conn = NULL;
    l->note = (struct err_note){ .text = "" };
    l->deadline = store_pg_deadline(s);
    l->opening = (struct pg_opening){
        .opts = { .url = s->url,
                  .application = s->name,
                  .settings = SETTINGS,
                  .loop = s->loop,
                  .clock = s->clock,
                  .address = &s->address,
                  /* before we give it up: then nothing of it is there */
                  .statement_timeout_ms = s->timeout_ms / 4 * 3 },
        .deadline = l->deadline,
        .done = link_opened,
    };
    pg_opening_start(&l->opening);
}

/* done is not called. */
void pg_link_cancel(struct pg_link *l)
{
    pg_opening_cancel(&l->opening);
    pg_close(&l->conn);
}

/* ---- what it said ---- */

/* For the log (stores.c), from whichever connection failed. */
void store_pg_keep(struct store_pg *s, const struct pg_outcome *o)
{
    if (o->why == ERR_OK)
        return;
    pthread_mutex_lock(&s->lock);
    s->said = o->note;
    pthread_mutex_unlock(&s->lock);
}

bool store_pg_failed(struct store_pg *s)
{
    pthread_mutex_lock(&s->lock);
    bool failed = s->failed;
    pthread_mutex_unlock(&s->lock);
    return failed;
}

void store_pg_fail(struct store_pg *s)
{
    pthread_mutex_lock(&s->lock);
    s->failed = true;
    pthread_mutex_unlock(&s->lock);
}

void store_pg_said(struct queue_store *q, struct err_note *note)
{
    struct store_pg *s = store_pg_of(q);
    pthread_mutex_lock(&s->lock);
    *note = s->said;
    pthread_mutex_unlock(&s->lock);
}

/* ---- SQL ---- */

/* Room for the prefix at each brace. The braces are left out. */
const char *store_pg_sql(struct arena *a, struct queue_part p, const char *format)
{
    char family[32];
    int n =
        snprintf(family, sizeof(family), "queue_%u_%u_", (unsigned)p.queue, (unsigned)p.partition);
    size_t count = 0;
    for (const char *at = strchr(format, '{'); at != NULL; at = strchr(at + 1, '{'))
        count++;
    char *sql = arena_alloc(a, strlen(format) + count * (size_t)n + 1);
    if (sql == NULL)
        return NULL;
    char *to = sql;
    for (const char *from = format; *from != '\0'; from++) {
        if (*from == '{') {
            memcpy(to, family, (size_t)n);
            to += n;
        } else if (*from != '}') {
            *to++ = *from;
        }
    }
    *to = '\0';
    return sql;
}

void pg_put_id(struct pg_params *p, struct ksuid id)
{
    unsigned char bytes[KSUID_BYTES];
    ksuid_key(id, bytes);
    pg_put_bytes(p, (str){ .p = (const char *)bytes, .n = sizeof(bytes) });
}

bool pg_id(const struct pg_rows *r, unsigned row, unsigned column, struct ksuid *out)
{
    str s = pg_bytes(r, row, column);
    if (s.n != KSUID_BYTES)
        return false;
    *out = ksuid_from_key((const unsigned char *)s.p);
    return true;
}
