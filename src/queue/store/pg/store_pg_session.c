/* store_pg_session.c - connections to a store's server, what it said, SQL of a partition's tables.
 */
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
static const struct pg_statement SESSION[] = {
    { .sql = "SELECT set_config('synchronous_commit', 'on', false)"
             " WHERE current_setting('synchronous_commit') = 'off'" },
    { .sql = "SELECT set_config('transaction_timeout', '0', false)"
             " WHERE current_setting('transaction_timeout', true) IS NOT NULL" },
    { .sql = "SELECT (current_setting('client_min_messages') = 'error')::int4" },
};

/* What a session needs. ERR_BAD: what it was to begin with did not reach it, so that no limit of
 * time holds. */
static err session_begin(struct pg *c, mono deadline, struct err_note *note)
{
    struct pg_rows *rows[COUNT_OF(SESSION)];
    struct pg_outcome o;
    pg_run(c, SESSION, COUNT_OF(SESSION), deadline, rows, &o);
    if (o.why != ERR_OK) {
        err_note_set(note, "%s", o.note.text);
        return ERR_UNAVAILABLE;
    }
    bool is_ours = pg_i64(rows[COUNT_OF(SESSION) - 1], 0, 0) == 1;
    for (size_t i = 0; i < COUNT_OF(SESSION); i++)
        pg_rows_free(&rows[i]);
    if (!is_ours)
        err_note_set(
            note,
            "something before PostgreSQL, a pooler perhaps, drops the options of its sessions; each"
            " has to be ours alone, with these options");
    return is_ours ? ERR_OK : ERR_BAD;
}

err store_pg_connect(struct store_pg *s, struct pg **out, struct err_note *note)
{
    struct pg_opts opts = {
        .url = s->url,
        .application = s->name,
        .settings = SETTINGS,
        .clock = s->clock,
        .address = &s->address,
        .ended = &s->ended,
        .statement_timeout_ms =
            s->timeout_ms / 4 * 3, /* before we give it up: then nothing of it is there */
    };
    struct pg *c = NULL;
    mono deadline = store_pg_deadline(s);
    err why = pg_open(&opts, deadline, &c, note);
    if (why == ERR_OK)
        why = session_begin(c, deadline, note);
    if (why != ERR_OK) {
        pg_close(&c);
        return why;
    }
    *out = c;
    return ERR_OK;
}

static uint64_t missed(struct store_pg *s, unsigned more)
{
    pthread_mutex_lock(&s->lock);
    s->missed += more;
    uint64_t count = s->missed;
    pthread_mutex_unlock(&s->lock);
    return count;
}

err store_pg_reader(struct store_pg *s, struct pg_reader **out)
{
    unsigned i = 0;
    uint64_t before = missed(s, 0);
    while (i < PG_READERS && pthread_mutex_trylock(&s->readers[i].lock) != 0)
        i++;
    struct pg_reader *r = &s->readers[i % PG_READERS];
    if (i == PG_READERS)
        pthread_mutex_lock(&r->lock); /* each ends at its deadline */
    pthread_mutex_lock(&s->lock);
    bool failed = s->failed || (i == PG_READERS &&
                                s->missed != before); /* else who waits waits that long once more */
    pthread_mutex_unlock(&s->lock);
    err why = failed ? ERR_UNAVAILABLE : ERR_OK;
    if (why == ERR_OK && r->conn == NULL)
        why = store_pg_connect(s, &r->conn, NULL);
    if (why != ERR_OK) {
        (void)missed(s, failed ? 0 : 1);
        pthread_mutex_unlock(&r->lock);
        return ERR_UNAVAILABLE;
    }
    r->store = s;
    *out = r;
    return ERR_OK;
}

void store_pg_reader_back(struct pg_reader **rp)
{
    struct pg_reader *r = *rp;
    *rp = NULL;
    if (r->conn != NULL && pg_broken(r->conn)) {
        pg_close(&r->conn);
        (void)missed(r->store, 1);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- what it said ---- */

void store_pg_keep(struct store_pg *s, const struct pg_outcome *o)
{
    if (o->why == ERR_OK)
        return;
    pthread_mutex_lock(&s->lock);
    s->said = o->note;
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
