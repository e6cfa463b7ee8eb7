/* titles.c - the statements of the tables of titles, and what their values have in common. All
 * files of titles.h, lists.h, words.h, due.h and sweep.h use them.
 *
 * A fact's row has kind 0 when the fact is no put, and 1 for puts. So the few other facts come
 * first, and the newest put right behind them. A tid is a blob of TID_KEY_BYTES, whose order is
 * tid_cmp: as a timeuuid it would be ordered otherwise within one tick. */
#include "cassandra/titles_impl.h"

#include "title/row.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 512 };

#define KEY "bucket = ? AND domain = ? AND title = ?"
#define SHARD "bucket = ? AND domain = ? AND shard = ?"

/* The keyspace stands between before and behind. A node's table is checked against takes and gives
 * when it prepares the statement. Without gives the write is conditional: the columns of its answer
 * vary, and nobody may send it twice. */
static const struct {
    const char *name, *before, *behind, *takes, *gives;
} rows[TITLES_STATEMENTS] = {
    /* All facts of a title come with one reading. */
    [TITLES_FACTS] = { "title.facts", "SELECT fact FROM ", ".title WHERE " KEY, "text, text, text",
                       "blob" },
    [TITLES_FACT_PUT] = { "title.fact_put", "INSERT INTO ",
                          ".title (bucket, domain, title, kind, rev, tid, at, n, "
                          "srv, fact) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                          "text, text, text, tinyint, bigint, blob, bigint, int, int, blob", "" },
    [TITLES_FACT_DELETE] = { "title.fact_delete", "DELETE FROM ",
                             ".title WHERE " KEY " AND kind = ? AND rev = ? AND "
                             "tid = ? AND at = ? AND n = ? AND srv = ?",
                             "text, text, text, tinyint, bigint, blob, bigint, int, int", "" },
    /* Bodies: one render's bytes in chunks, and the newest bytes of a content. */
    [TITLES_BODY] = { "body.get", "SELECT chunk, bytes FROM ",
                      ".body WHERE " KEY " AND content = ? AND "
                      "rev = ? AND tid = ? AND digest = ?",
                      "text, text, text, text, bigint, blob, blob", "int, blob" },
    [TITLES_BODY_PUT] = { "body.put", "INSERT INTO ",
                          ".body (bucket, domain, title, content, rev, tid, digest, "
                          "chunk, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                          "text, text, text, text, bigint, blob, blob, int, blob", "" },
    [TITLES_NEWEST] = { "body.newest", "SELECT rev, tid, digest, bytes FROM ",
                        ".body WHERE " KEY " AND content = ? LIMIT 1", "text, text, text, text",
                        "bigint, blob, blob, blob" },
    /* A range of names, so one tombstone covers neighbours that go together. */
    [TITLES_BODY_CULL] = { "body.cull", "DELETE FROM ",
                           ".body WHERE " KEY " AND content = ? AND "
                           "(rev, tid) >= (?, ?) AND (rev, tid) <= (?, ?)",
                           "text, text, text, text, bigint, blob, bigint, blob", "" },
    /* Words belong to the title itself, in whatever bucket: so the key has no bucket. */
    [TITLES_WORDS] = { "word.get", "SELECT at, srv, how, word FROM ",
                       ".word WHERE domain = ? AND title = ? LIMIT ?", "text, text, int",
                       "bigint, int, tinyint, blob" },
    [TITLES_WORD_PUT] = { "word.put", "INSERT INTO ",
                          ".word (domain, title, asked_at, at, srv, how, word) "
                          "VALUES (?, ?, ?, ?, ?, ?, ?)",
                          "text, text, bigint, bigint, int, tinyint, blob", "" },
    [TITLES_WORDS_DROP] = { "word.drop", "DELETE FROM ",
                            ".word WHERE domain = ? AND title = ? AND "
                            "(asked_at, at, srv) < (?, ?, ?)",
                            "text, text, bigint, bigint, int", "" },
    [TITLES_NOTE] = { "note.get", "SELECT bytes FROM ", ".note WHERE domain = ? AND note = ?",
                      "text, text", "blob" },
    [TITLES_NOTE_PUT] = { "note.put", "INSERT INTO ",
                          ".note (domain, note, bytes) VALUES (?, ?, ?)", "text, text, blob", "" },
    /* The list of a bucket's titles, in shards and in the order of titles. */
    [TITLES_LISTED] = { "titles.list", "SELECT title FROM ",
                        ".titles WHERE " SHARD " AND title >= ? LIMIT ?",
                        "text, text, tinyint, text, int", "text" },
    [TITLES_LISTED_PUT] = { "titles.put", "INSERT INTO ",
                            ".titles (bucket, domain, shard, title) VALUES (?, ?, ?, ?)",
                            "text, text, tinyint, text", "" },
    [TITLES_LISTED_GET] = { "titles.get", "SELECT title FROM ",
                            ".titles WHERE " SHARD " AND title = ?", "text, text, tinyint, text",
                            "text" },
    [TITLES_LISTED_DELETE] = { "titles.delete", "DELETE FROM ",
                               ".titles WHERE " SHARD " AND title = ?", "text, text, tinyint, text",
                               "" },
    /* Stashed titles. Of each title the row with the latest end comes first, and stands for all. */
    [TITLES_STASHED] = { "stashes.list", "SELECT title, until FROM ",
                         ".stashes WHERE " SHARD " AND title >= ? "
                         "GROUP BY bucket, domain, shard, title LIMIT ?",
                         "text, text, tinyint, text, int", "text, bigint" },
    [TITLES_STASHED_PUT] = { "stashes.put", "INSERT INTO ",
                             ".stashes (bucket, domain, shard, title, until) "
                             "VALUES (?, ?, ?, ?, ?) USING TTL ?",
                             "text, text, tinyint, text, bigint, int", "" },
    /* A partition is a shard of one hour of a data centre. Rows end by TTL: nobody deletes them. */
    [TITLES_DUE] = { "due.list", "SELECT bucket, domain, title FROM ",
                     ".due WHERE dc = ? AND hour = ? AND shard = ?", "text, int, tinyint",
                     "text, text, text" },
    [TITLES_DUE_PUT] = { "due.put", "INSERT INTO ",
                         ".due (dc, hour, shard, due_at, bucket, domain, title) "
                         "VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?",
                         "text, int, tinyint, bigint, text, text, text, int", "" },
    /* The sweep walks a part of the token ring: each title once, with the token to go on from. */
    [TITLES_SWEPT] = { "title.sweep",
                       "SELECT DISTINCT bucket, domain, title, token(bucket, domain, title) FROM ",
                       ".title WHERE token(bucket, domain, title) > ? "
                       "AND token(bucket, domain, title) <= ? LIMIT ?",
                       "bigint, bigint, int", "text, text, text, bigint" },
    /* Leases: who sweeps a part, until when, and how far. The epoch shuts out an earlier holder. */
    [TITLES_LEASES] = { "lease.list", "SELECT part, holder, epoch, until, place, done_at FROM ",
                        ".lease WHERE job = ?", "text",
                        "int, bigint, bigint, bigint, bigint, bigint" },
    [TITLES_LEASE_SET] = { "lease.set", "UPDATE ",
                           ".lease SET holder = ?, epoch = ?, until = ?, place = ?, done_at = ? "
                           "WHERE job = ? AND part = ? IF epoch = ?",
                           "bigint, bigint, bigint, bigint, bigint, text, int, bigint", NULL },
};

/* The name goes into statements as it is, without quotes: so nothing but small letters, digits and
 * '_'. */
bool titles_keyspace_is_fine(const char *keyspace, struct err_note *note)
{
    size_t n = strlen(keyspace);
    bool fine = n > 0 && n <= TITLES_KEYSPACE_BYTES_MAX && isalpha((unsigned char)keyspace[0]);
    for (size_t i = 0; fine && i < n; i++)
        fine = islower((unsigned char)keyspace[i]) || isdigit((unsigned char)keyspace[i]) ||
               keyspace[i] == '_';
    if (!fine)
        err_note_set(note,
                     "a keyspace is a letter, then letters, digits and '_', all small, at "
                     "most %d",
                     TITLES_KEYSPACE_BYTES_MAX);
    return fine;
}

/* The statement borrows its text, so t keeps the text for its life. */
static bool statement_add(struct titles *t, unsigned i, const char *keyspace, struct err_note *note)
{
    t->texts[i] = malloc(TEXT_BYTES_MAX);
    INVARIANT(t->texts[i] != NULL);
    int n =
        snprintf(t->texts[i], TEXT_BYTES_MAX, "%s%s%s", rows[i].before, keyspace, rows[i].behind);
    INVARIANT(n > 0 && n < TEXT_BYTES_MAX);
    const struct cql_statement_opts o = { .name = rows[i].name,
                                          .text = t->texts[i],
                                          .takes = rows[i].takes,
                                          .gives = rows[i].gives,
                                          .idempotent = rows[i].gives != NULL };
    t->statements[i] = cql_statement_new(t->client, &o, note);
    return t->statements[i] != NULL;
}

struct titles *titles_new(struct cql *client, const char *keyspace, struct clock *clock,
                          struct err_note *note)
{
    if (!titles_keyspace_is_fine(keyspace, note))
        return NULL;
    struct titles *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    *t = (struct titles){ .magic = TITLES_MAGIC, .client = client, .clock = clock };
    for (unsigned i = 0; i < TITLES_STATEMENTS; i++)
        if (!statement_add(t, i, keyspace, note)) {
            titles_free(&t);
            return NULL;
        }
    return t;
}

void titles_free(struct titles **tp)
{
    struct titles *t = *tp;
    *tp = NULL;
    if (t == NULL)
        return;
    MAGIC_CHECK(t, TITLES_MAGIC);
    for (unsigned i = 0; i < TITLES_STATEMENTS; i++)
        free(t->texts[i]);
    t->magic = 0;
    free(t);
}

/* ---- values ---- */

void titles_put_key(struct cql_values *v, const struct titles_key *k)
{
    cql_put_bytes(v, k->bucket);
    cql_put_bytes(v, k->domain);
    cql_put_bytes(v, k->title);
}

void titles_put_tid(struct cql_values *v, struct tid tid)
{
    unsigned char key[TID_KEY_BYTES];
    tid_key(tid, key);
    cql_put_bytes(v, (str){ .p = (const char *)key, .n = sizeof key });
}

void titles_put_fact_name(struct cql_values *v, const struct fact *f)
{
    cql_put_i8(v, f->what == FACT_PUT);
    cql_put_i64(v, (int64_t)f->name.rev);
    titles_put_tid(v, f->name.tid);
    cql_put_i64(v, fact_arrived(f).ns);
    cql_put_i32(v, (int32_t)f->n);
    cql_put_i32(v, (int32_t)f->srv);
}

int64_t titles_write_us(store_time at)
{
    return at.ns / NS_PER_US;
}

/* A deletion takes all cells written in its microsecond. So it names the last microsecond that was
 * over by then. */
int64_t titles_delete_us(store_time at)
{
    return (at.ns + 1) / NS_PER_US - 1;
}

/* Reads and plain writes at LOCAL_QUORUM; writers set their timestamp, and some requests another
 * consistency. */
struct cql_request titles_request(const struct titles *t, const struct store_call *call,
                                  void (*done)(struct cql_request *q))
{
    struct cql_request q = { .way = CQL_WAY_EXECUTE, .parts_count = 1, .home = call->home };
    q.params.consistency = CQL_LOCAL_QUORUM;
    q.params.timestamp_us = CQL_NO_TIMESTAMP;
    q.params.now_s = CQL_NO_NOW;
    q.deadline =
        call->deadline.ns != 0 ? call->deadline : mono_add_ms(clock_mono(t->clock), TITLES_WAIT_MS);
    q.done = done;
    return q;
}
