/* load.c - what a request to Cassandra costs the client: so many requests, so many at a time, and
 * the processor time that they took, as one line of JSON. bench/cql/peer.py and peer.go do the same
 * with the drivers that Debian has; bench/cql.py runs all beside each other.
 *
 * usage: cql_load HOST:PORT DC write|read COUNT AT_A_TIME BYTES [v4] [lz4] [quorum] */
#include "base/log.h"
#include "cql/cql.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { AT_A_TIME_MAX = 2048, KEYS = 1000, BODY_BYTES_MAX = 1 << 20 };

struct load;
struct slot {
    struct load *load;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    mono began;
};
struct load {
    struct loop *loop;
    struct clock *clock;
    struct cql *client;
    const struct cql_statement *statement;
    bool writes, quorum;
    unsigned count, at_a_time, begun, done, failed;
    size_t bytes;
    char *body;
    int64_t *took_ns;
    struct slot *slots;
    mono start, end;
    double cpu_before, cpu_after;
    char why[ERR_NOTE_BYTES];
};

static double cpu_s(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u); /* cannot fail */
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void on_stopped(void *ctx)
{
    struct load *l = ctx;
    cql_free(&l->client);
    loop_stop(l->loop);
}

static void slot_next(struct slot *s);

static void slot_done(struct cql_request *q)
{
    struct slot *s = CONTAINER_OF(q, struct slot, request);
    struct load *l = s->load;
    mono now = clock_mono(l->clock);
    bool fine = q->out.why == ERR_OK;
    if (fine && !l->writes) {
        struct cql_cell cell;
        str body;
        fine =
            cql_rows_next(&q->out.rows, &cell) && cql_get_bytes(&cell, &body) && body.n == l->bytes;
    }
    if (!fine && l->failed++ == 0)
        (void)snprintf(l->why, sizeof l->why, "%s",
                       q->out.why != ERR_OK ? q->out.note.text : "a row is not what was written");
    cql_outcome_fini(&q->out);
    l->took_ns[l->done++] = now.ns - s->began.ns;
    if (l->begun < l->count) {
        slot_next(s);
    } else if (l->done == l->count) {
        l->end = now;
        l->cpu_after = cpu_s();
        cql_stop(l->client, mono_add_ms(now, 1000), on_stopped, l);
    }
}

static void slot_next(struct slot *s)
{
    struct load *l = s->load;
    struct cql_request *q = &s->request;
    unsigned n = l->begun++;
    cql_values_clear(&s->values);
    char key[32];
    int digits = snprintf(key, sizeof key, "page-%u", n % KEYS);
    cql_put_bytes(&s->values, (str){ .p = key, .n = (size_t)digits });
    cql_put_i64(&s->values, n / KEYS % 4);
    if (l->writes)
        cql_put_bytes(&s->values, (str){ .p = l->body, .n = l->bytes });
    s->part = (struct cql_part){ .statement = l->statement, .values = &s->values };
    s->began = clock_mono(l->clock);
    q->way = CQL_WAY_EXECUTE;
    q->parts = &s->part;
    q->parts_count = 1;
    q->params.consistency = l->quorum || l->writes ? CQL_LOCAL_QUORUM : CQL_LOCAL_ONE;
    q->params.timestamp_us = l->writes ? clock_wall(l->clock).ns / NS_PER_US : CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    q->deadline = mono_add_ms(s->began, 20000);
    q->done = slot_done;
    cql_start(l->client, q);
}

static void on_ready(void *ctx, bool ready)
{
    struct load *l = ctx;
    if (!ready || l->begun > 0)
        return;
    l->start = clock_mono(l->clock);
    l->cpu_before = cpu_s();
    for (unsigned i = 0; i < l->at_a_time && l->begun < l->count; i++)
        slot_next(&l->slots[i]);
}

static int by_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void load_print(struct load *l)
{
    double seconds = (double)(l->end.ns - l->start.ns) / 1e9, cpu = l->cpu_after - l->cpu_before;
    qsort(l->took_ns, l->done, sizeof l->took_ns[0], by_ns);
    printf("{\"requests\": %u, \"failed\": %u, \"seconds\": %.3f, \"cpu_s\": %.3f, "
           "\"per_s\": %.0f, \"per_cpu_s\": %.0f, \"p50_us\": %lld, \"p99_us\": %lld}\n",
           l->done, l->failed, seconds, cpu, l->done / seconds, l->done / cpu,
           (long long)l->took_ns[l->done / 2] / 1000,
           (long long)l->took_ns[l->done - 1 - l->done / 100] / 1000);
    if (l->failed > 0)
        fprintf(stderr, "cql_load: %s\n", l->why);
}

static bool has(char **words, const char *word)
{
    while (*words != NULL && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* 0: it is none. */
static uint64_t number(const char *text)
{
    uint64_t n = 0;
    return str_to_u64(str_of(text), &n) ? n : 0;
}

static void load_init(struct load *l, char **argv)
{
    *l = (struct load){ .writes = strcmp(argv[3], "write") == 0 };
    l->quorum = has(argv + 7, "quorum");
    l->count = (unsigned)number(argv[4]);
    l->at_a_time = (unsigned)number(argv[5]);
    l->bytes = number(argv[6]);
    if (l->count == 0 || l->at_a_time == 0 || l->at_a_time > AT_A_TIME_MAX ||
        l->bytes > BODY_BYTES_MAX)
        check_failed(__FILE__, __LINE__, "COUNT, AT_A_TIME or BYTES");
    l->body = malloc(l->bytes + 1);
    l->took_ns = calloc(l->count, sizeof *l->took_ns);
    l->slots = calloc(l->at_a_time, sizeof *l->slots);
    INVARIANT(l->body != NULL && l->took_ns != NULL && l->slots != NULL);
    for (size_t i = 0; i < l->bytes; i++)
        l->body[i] = (char)(i * 2654435761u >> 13);
    for (unsigned i = 0; i < l->at_a_time; i++) {
        l->slots[i].load = l;
        cql_values_init(&l->slots[i].values, BODY_BYTES_MAX + 4096);
    }
}

static void load_fini(struct load *l)
{
    for (unsigned i = 0; i < l->at_a_time; i++)
        cql_values_fini(&l->slots[i].values);
    free(l->slots);
    free(l->took_ns);
    free(l->body);
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr, "usage: cql_load HOST:PORT DC write|read COUNT AT_A_TIME BYTES "
                        "[v4] [lz4] [quorum]\n");
        return 2;
    }
    struct load l;
    struct err_note note = { .text = "" };
    struct sysclock *time = sysclock_new();
    load_init(&l, argv);
    l.loop = loop_new(1);
    l.clock = sysclock_clock(time);
    struct log *log = log_new(2, LOG_WARN, LOG_TEXT, l.clock);
    const struct cql_opts opts = { .loop = l.loop,
                                   .clock = l.clock,
                                   .log = log,
                                   .contact_points = { argv[1] },
                                   .contact_points_count = 1,
                                   .local_dc = argv[2],
                                   .version_max = has(argv + 7, "v4") ? 4 : 5,
                                   .lz4 = has(argv + 7, "lz4"),
                                   .ready = on_ready,
                                   .ctx = &l };
    l.client = cql_new(&opts, &note);
    const struct cql_statement_opts statement = {
        .name = "load",
        .text = l.writes ? "INSERT INTO load.page (title, rev, body) VALUES (?, ?, ?)"
                         : "SELECT body FROM load.page WHERE title = ? AND rev = ?",
        .idempotent = true,
    };
    l.statement = l.client == NULL ? NULL : cql_statement_new(l.client, &statement, &note);
    if (l.statement == NULL) {
        fprintf(stderr, "cql_load: %s\n", note.text);
        return 2;
    }
    loop_run(l.loop);
    load_print(&l);
    loop_free(&l.loop);
    load_fini(&l);
    log_free(&log);
    sysclock_free(&time);
    return l.failed > 0;
}
