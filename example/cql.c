/* example/cql.c - a small program on the client for Cassandra (src/cql): writes some rows and reads
 * them back by pages.
 *
 *   ninja -C build example/cql && build/example/cql 127.0.0.1:9042 dc1
 *
 * It makes the keyspace `example` if there is none, with one replica in the data centre. When no node
 * is ready within READY_MS, it starts its first request all the same: the outcome says why none is. */
#include "base/log.h"
#include "cql/cql.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <stdio.h>
#include <string.h>

enum { PAGES = 100, PAGE_ROWS = 40, COLUMNS = 2, READY_MS = 10000, REQUEST_MS = 10000 };

struct program {
    struct loop *loop;
    struct clock *clock;
    struct cql *client;
    struct loop_timer *patience; /* until a node is ready */
    const struct cql_statement *write, *read;
    struct cql_request request; /* one at a time */
    struct cql_values values;
    char text[512]; /* of the schema's statement */
    struct cql_part part;
    char page_state[512];
    unsigned step, written, rows;
    bool failed;
};

static void program_go_on(struct program *p);

static void on_stopped(void *ctx)
{
    struct program *p = ctx;
    cql_free(&p->client);
    loop_timer_free(&p->patience);
    loop_stop(p->loop);
}

static void program_end(struct program *p, const char *why)
{
    if (why != NULL)
        fprintf(stderr, "example: %s\n", why);
    p->failed = why != NULL;
    cql_stop(p->client, mono_add_ms(clock_mono(p->clock), 1000), on_stopped, p);
}

static void rows_print(struct program *p)
{
    struct cql_rows rows = p->request.out.rows;
    struct cql_cell cells[COLUMNS];
    while (rows.columns != NULL && cql_rows_next(&rows, cells)) {
        int64_t page;
        str text;
        if (cql_get_i64(&cells[0], &page) && cql_get_bytes(&cells[1], &text) && p->rows++ < 3)
            printf("%lld %.*s\n", (long long)page, STR_ARG(text));
    }
}

static void on_done(struct cql_request *q)
{
    struct program *p = CONTAINER_OF(q, struct program, request);
    if (q->out.why != ERR_OK) {
        program_end(p, q->out.note.text);
        return;
    }
    if (p->step == 3)
        rows_print(p);
    bool more = q->out.rows.more && q->out.rows.page_state.n < sizeof p->page_state;
    q->params.page_state = STR_NONE;
    if (more) {
        memcpy(p->page_state, q->out.rows.page_state.p, q->out.rows.page_state.n);
        q->params.page_state = (str){ .p = p->page_state, .n = q->out.rows.page_state.n };
    }
    cql_outcome_fini(&q->out);
    if (p->step == 2 ? ++p->written == PAGES : !more)
        p->step++;
    program_go_on(p);
}

static void ask(struct program *p, enum cql_way way, const struct cql_statement *statement)
{
    struct cql_request *q = &p->request;
    p->part = (struct cql_part){ .statement = statement, .values = &p->values };
    q->way = way;
    q->parts = &p->part;
    q->parts_count = 1;
    q->text = str_of(p->text);
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    q->params.page_rows = PAGE_ROWS;
    q->deadline = mono_add_ms(clock_mono(p->clock), REQUEST_MS);
    q->done = on_done;
    if (statement == p->write) /* the same write, however often it is sent */
        q->params.timestamp_us = clock_wall(p->clock).ns / NS_PER_US;
    cql_start(p->client, q);
}

static void program_go_on(struct program *p)
{
    cql_values_clear(&p->values);
    switch (p->step) {
    case 0:
        ask(p, CQL_WAY_TEXT, NULL);
        break;
    case 1:
        (void)snprintf(p->text, sizeof p->text,
                       "CREATE TABLE IF NOT EXISTS example.page (wiki text, page bigint, "
                       "html text, PRIMARY KEY (wiki, page))");
        ask(p, CQL_WAY_TEXT, NULL);
        break;
    case 2:
        cql_put_bytes(&p->values, STR("en.wikipedia.org"));
        cql_put_i64(&p->values, p->written);
        cql_put_bytes(&p->values, STR("<p>a page</p>"));
        ask(p, CQL_WAY_EXECUTE, p->write);
        break;
    case 3:
        cql_put_bytes(&p->values, STR("en.wikipedia.org"));
        ask(p, CQL_WAY_EXECUTE, p->read);
        break;
    default:
        printf("%u written, %u read\n", p->written, p->rows);
        program_end(p, NULL);
    }
}

static void program_begin(struct program *p)
{
    loop_timer_stop(p->patience);
    if (p->request.done == NULL) /* else it has begun: nodes may go and come back */
        program_go_on(p);
}

static void on_ready(void *ctx, bool ready)
{
    if (ready)
        program_begin(ctx);
}

static void on_impatience(void *ctx)
{
    program_begin(ctx);
}

static const struct cql_statement *statement(struct program *p,
                                             const struct cql_statement_opts *opts)
{
    struct err_note note = { .text = "" };
    const struct cql_statement *st = cql_statement_new(p->client, opts, &note);
    if (st == NULL)
        fprintf(stderr, "example: %s\n", note.text);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: cql HOST[:PORT] DATACENTRE\n");
        return 2;
    }
    struct err_note note = { .text = "" };
    struct sysclock *time = sysclock_new();
    struct program p = { .loop = loop_new(1), .clock = sysclock_clock(time) };
    cql_values_init(&p.values, 1 << 20);
    (void)snprintf(p.text, sizeof p.text,
                   "CREATE KEYSPACE IF NOT EXISTS example WITH replication = "
                   "{'class': 'NetworkTopologyStrategy', '%.40s': 1}",
                   argv[2]);
    struct log *log = log_new(2, LOG_WARN, LOG_TEXT, p.clock);
    const struct cql_opts opts = { .loop = p.loop,
                                   .clock = p.clock,
                                   .log = log,
                                   .contact_points = { argv[1] },
                                   .contact_points_count = 1,
                                   .local_dc = argv[2],
                                   .lz4 = true,
                                   .ready = on_ready,
                                   .ctx = &p };
    p.client = cql_new(&opts, &note);
    if (p.client == NULL) {
        fprintf(stderr, "example: %s\n", note.text);
        return 2;
    }
    p.write = statement(&p, &(struct cql_statement_opts){
                                .name = "page.write",
                                .text = "INSERT INTO example.page (wiki, page, html) VALUES (?, ?, ?)",
                                .takes = "text, bigint, text",
                                .idempotent = true });
    p.read = statement(&p, &(struct cql_statement_opts){
                               .name = "page.read",
                               .text = "SELECT page, html FROM example.page WHERE wiki = ?",
                               .takes = "text",
                               .gives = "bigint, text",
                               .idempotent = true });
    if (p.write == NULL || p.read == NULL)
        return 1;
    p.patience = loop_timer_new(p.loop, on_impatience, &p);
    loop_timer_start(p.patience, READY_MS, 0);
    loop_run(p.loop);
    loop_free(&p.loop);
    cql_values_fini(&p.values);
    log_free(&log);
    sysclock_free(&time);
    return p.failed;
}
