/* client_load.c - many requests at once, for a time, and a ledger of what was acknowledged.
 *
 *   load SECONDS WRITERS READERS MS LEDGER WRITE READ SPECULATIVE
 *
 * Each writer inserts (key bigint, value text "v<key>") by the statement WRITE, one request after
 * the other, with a key of its own each time and its timestamp; each reader reads a key of the
 * ledger by READ and expects that value. MS: deadline of a request. SPECULATIVE: 1 or 0, of reads.
 * A write that was acknowledged is in the ledger, on the disk, before its key is read. A write of
 * unknown outcome is sent again with its timestamp until it is acknowledged.
 * At the end (`finish`: before its time), and for `look`, a line: how many, how many failed and by
 * what, latencies of reads in microseconds, what was not found although acknowledged. INVARIANT:
 * the end is said when no request is under way any more. */
#include "client.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS_MAX = 256, VALUE_BYTES = 32, LATENCIES_MAX = 1 << 21, KEYS_MAX = 1 << 22 };

struct worker {
    struct load *load;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    struct loop_timer *pause;
    int64_t key;
    mono began;
    bool writes, again;
};
struct load {
    struct client *client;
    char id[ID_BYTES];
    struct worker workers[WORKERS_MAX];
    unsigned workers_count, at_work;
    bool speculative;
    int64_t deadline_ms;
    mono end;
    const struct cql_statement *write, *read;
    int ledger;
    struct loop_job sync;
    bool syncing;
    struct buf fresh, at_sync; /* lines of the ledger: to come, and on their way */
    /* acknowledged keys: the first `kept` of them are on the disk */
    int64_t keys[KEYS_MAX];
    unsigned keys_count, syncing_to, kept;
    int64_t next_key;
    uint64_t random;
    /* since the last look */
    uint32_t latencies[LATENCIES_MAX];
    unsigned reads, writes, missing, wrong, unknown;
    unsigned failed[2][ERR_CODES];
    int64_t late_ns_max; /* behind its deadline */
    char note[ERR_NOTE_BYTES];
};

static int compare_u32(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static unsigned part_of(const struct load *l, unsigned per_mille)
{
    if (l->reads == 0)
        return 0;
    unsigned at = (unsigned)((uint64_t)l->reads * per_mille / 1000);
    return l->latencies[at < l->reads ? at : l->reads - 1];
}

static void load_say(struct load *l, const char *id, bool ended)
{
    struct buf *out = &l->client->out;
    qsort(l->latencies, l->reads, sizeof l->latencies[0], compare_u32);
    buf_put(out, STR("{\"id\":"));
    say_text(out, str_of(id));
    buf_printf(out,
               ",\"ended\":%s,\"reads\":%u,\"writes\":%u,\"missing\":%u,\"wrong\":%u,"
               "\"unknown\":%u,\"p50_us\":%u,\"p99_us\":%u,\"max_us\":%u,\"late_us\":%lld,"
               "\"acknowledged\":%u,\"note\":",
               ended ? "true" : "false", l->reads, l->writes, l->missing, l->wrong, l->unknown,
               part_of(l, 500), part_of(l, 990), part_of(l, 1000),
               (long long)(l->late_ns_max / NS_PER_US), l->keys_count);
    say_text(out, str_of(l->note));
    for (unsigned side = 0; side < 2; side++) {
        buf_printf(out, ",\"failed_%s\":{", side == 1 ? "writes" : "reads");
        bool first = true;
        for (unsigned i = 0; i < ERR_CODES; i++) {
            if (l->failed[side][i] == 0)
                continue;
            buf_printf(out, "%s\"%s\":%u", first ? "" : ",", err_name((err)i), l->failed[side][i]);
            first = false;
        }
        buf_put_c(out, '}');
    }
    buf_put_c(out, '}');
    client_flush(l->client);
    l->reads = l->writes = l->missing = l->wrong = l->unknown = 0;
    l->late_ns_max = 0;
    l->note[0] = '\0';
    memset(l->failed, 0, sizeof l->failed);
}

void load_look(struct client *c, const char *id)
{
    if (c->load == NULL)
        client_refuse(c, id, "no load is under way");
    else
        load_say(c->load, id, false);
}

void load_finish(struct client *c)
{
    if (c->load != NULL)
        c->load->end = clock_mono(c->clock);
}

static void load_end(struct load *l)
{
    if (l->at_work > 0 || l->syncing)
        return;
    load_say(l, l->id, true);
    for (unsigned i = 0; i < l->workers_count; i++) {
        cql_values_fini(&l->workers[i].values);
        loop_timer_free(&l->workers[i].pause);
    }
    buf_fini(&l->fresh);
    buf_fini(&l->at_sync);
    (void)close(l->ledger); /* it is on the disk */
    l->client->load = NULL;
    free(l);
}

/* ---- the ledger: lines gather while the disk is at work */

static void ledger_run(struct loop_job *j)
{
    struct load *l = CONTAINER_OF(j, struct load, sync);
    INVARIANT(write(l->ledger, l->at_sync.p, l->at_sync.n) == (ssize_t)l->at_sync.n);
    INVARIANT(fdatasync(l->ledger) == 0);
}

static void ledger_sync(struct load *l);

static void ledger_done(struct loop_job *j, bool canceled)
{
    struct load *l = CONTAINER_OF(j, struct load, sync);
    INVARIANT(!canceled);
    l->syncing = false;
    l->kept = l->syncing_to;
    ledger_sync(l);
    load_end(l);
}

static void ledger_sync(struct load *l)
{
    if (l->syncing || l->fresh.n == 0)
        return;
    struct buf full = l->fresh;
    l->fresh = l->at_sync;
    l->at_sync = full;
    buf_clear(&l->fresh);
    l->syncing = true;
    l->syncing_to = l->keys_count;
    l->sync = (struct loop_job){ .run = ledger_run, .done = ledger_done };
    loop_job_start(l->client->loop, &l->sync);
}

static void ledger_add(struct load *l, int64_t key)
{
    INVARIANT(l->keys_count < KEYS_MAX);
    l->keys[l->keys_count++] = key;
    buf_printf(&l->fresh, "%lld\n", (long long)key);
    INVARIANT(buf_status(&l->fresh) == ERR_OK);
    ledger_sync(l);
}

/* ---- workers */

static void worker_done(struct cql_request *q);

static void worker_go_on(void *ctx)
{
    struct worker *w = ctx;
    struct load *l = w->load;
    struct client *c = l->client;
    mono now = clock_mono(c->clock);
    if (now.ns >= l->end.ns) {
        l->at_work--;
        load_end(l);
        return;
    }
    if (!w->writes && l->kept == 0) {
        loop_timer_start(w->pause, 20, 0);
        return;
    }
    struct cql_request *q = &w->request;
    if (!w->again) {
        l->random = l->random * 6364136223846793005u + 1442695040888963407u;
        w->key = w->writes ? l->next_key++ : l->keys[(l->random >> 33) % l->kept];
        q->params.timestamp_us = w->writes ? clock_wall(c->clock).ns / NS_PER_US : CQL_NO_TIMESTAMP;
    }
    cql_values_clear(&w->values);
    cql_put_i64(&w->values, w->key);
    if (w->writes) {
        char text[VALUE_BYTES];
        (void)snprintf(text, sizeof text, "v%lld", (long long)w->key);
        cql_put_bytes(&w->values, str_of(text));
    }
    w->part =
        (struct cql_part){ .statement = w->writes ? l->write : l->read, .values = &w->values };
    q->way = CQL_WAY_EXECUTE;
    q->parts = &w->part;
    q->parts_count = 1;
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.now_s = CQL_NO_NOW;
    q->speculative = !w->writes && l->speculative;
    q->deadline = mono_add_ms(now, l->deadline_ms);
    q->done = worker_done;
    w->began = now;
    cql_start(c->cql, q);
}

static void worker_check(struct worker *w)
{
    struct load *l = w->load;
    struct cql_rows rows = w->request.out.rows;
    struct cql_cell cell;
    char want[VALUE_BYTES];
    str got;
    (void)snprintf(want, sizeof want, "v%lld", (long long)w->key);
    if (rows.columns == NULL || rows.columns->count != 1 || !cql_rows_next(&rows, &cell))
        l->missing++;
    else if (!cql_get_bytes(&cell, &got) || !str_eq(got, str_of(want)))
        l->wrong++;
}

static void worker_done(struct cql_request *q)
{
    struct worker *w = CONTAINER_OF(q, struct worker, request);
    struct load *l = w->load;
    mono now = clock_mono(l->client->clock);
    err why = q->out.why;
    if (now.ns - q->deadline.ns > l->late_ns_max)
        l->late_ns_max = now.ns - q->deadline.ns;
    w->again = w->writes && why != ERR_OK;
    if (why != ERR_OK) {
        l->failed[w->writes][why]++;
        l->unknown += q->out.unknown;
        memcpy(l->note, q->out.note.text, sizeof l->note);
    } else if (w->writes) {
        l->writes++;
        ledger_add(l, w->key);
    } else {
        if (l->reads < LATENCIES_MAX)
            l->latencies[l->reads++] = (uint32_t)((now.ns - w->began.ns) / NS_PER_US);
        worker_check(w);
    }
    cql_outcome_fini(&q->out);
    /* A refusal comes at once: no storm of them. */
    loop_timer_start(w->pause, why == ERR_OK ? 0 : 20, 0);
}

void load_begin(struct client *c, const char *id, struct fields *f)
{
    if (f->count != 10 || c->load != NULL) {
        client_refuse(c, id, "load SECONDS WRITERS READERS MS LEDGER WRITE READ SPECULATIVE, once");
        return;
    }
    struct load *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->client = c;
    (void)snprintf(l->id, sizeof l->id, "%s", id);
    l->end = mono_add_ms(clock_mono(c->clock), number_of(f->at[2]) * 1000);
    unsigned writers = (unsigned)number_of(f->at[3]), readers = (unsigned)number_of(f->at[4]);
    l->workers_count = writers + readers;
    l->deadline_ms = number_of(f->at[5]);
    l->ledger = open(f->at[6], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    l->write = client_statement(c, f->at[7]);
    l->read = client_statement(c, f->at[8]);
    l->speculative = number_of(f->at[9]) != 0;
    l->random = 1;
    if (l->ledger < 0 || l->write == NULL || l->read == NULL || l->workers_count == 0 ||
        l->workers_count > WORKERS_MAX) {
        client_refuse(c, id, "no ledger, no such statements, or too many workers");
        free(l);
        return;
    }
    buf_init(&l->fresh, 64 << 20);
    buf_init(&l->at_sync, 64 << 20);
    c->load = l;
    l->at_work = l->workers_count;
    for (unsigned i = 0; i < l->workers_count; i++) {
        struct worker *w = &l->workers[i];
        w->load = l;
        w->writes = i < writers;
        w->pause = loop_timer_new(c->loop, worker_go_on, w);
        cql_values_init(&w->values, 4096);
        loop_timer_start(w->pause, 1, 0);
    }
}
