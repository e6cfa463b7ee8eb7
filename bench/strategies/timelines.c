/* timelines.c - "Edits by wiki" of the seed, in revision_timeline on a real Cassandra: an entry for
 * each edit of 30 days, and those that the sampler keeps. All are counted. The last tenth of a day
 * is written, and of the sampled ones the last three days, each to a table of its own. One line of
 * JSON says how many there are; the driver sees what those take on disk.
 *
 * Edits are a Poisson process at the rates that the seed gives. Sampling is src/timeline's, with
 * its figures of the embedded store: 0.02 entries a second of a domain, 60 at once. */
#include "strategies/timelines.h"

#include "strategies/strategies.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TITLES = 5000, DAYS = 30 };
#define ENTRIES_PER_S 0.02
#define BURST 60
#define DAY_NS (86400 * NS_PER_S)

static const struct wiki {
    const char *name;
    double edits_a_day;
} wikis[] = {
    { "mkwikimedia", 1.3 },
    { "cebwiki", 29578 },
    { "commonswiki", 151434 },
    { "enwiki", 186497 },
};

static const char table_text[] = "CREATE TABLE %s.timeline_%u ("
                                 "\"domain\" text, title text, ts timestamp, rev int, "
                                 "PRIMARY KEY ((\"domain\", title), ts)) "
                                 "WITH CLUSTERING ORDER BY (ts DESC) " TIMELINE_OPTIONS;
static const char insert_text[] =
    "INSERT INTO %s.timeline_%u (\"domain\", title, ts, rev) VALUES (?, ?, ?, ?)";

enum { ALL, SAMPLED, TABLES };

struct writer {
    struct database *db;
    const struct cql_statement *inserts[TABLES];
    struct step *step; /* NULL: it is empty */
    unsigned waiting;
    uint64_t entries[COUNT_OF(wikis)][TABLES], rows[TABLES];
    struct rng rng;
};

static void flush(struct writer *w)
{
    if (w->step == NULL)
        return;
    step_run(w->step);
    step_free(&w->step);
    w->waiting = 0;
}

static str title_of(struct writer *w, char out[24])
{
    double u = rng_unit(&w->rng);
    int n = snprintf(out, 24, "Title_%u", (unsigned)(u * u * u * TITLES));
    return (str){ .p = out, .n = (size_t)n };
}

static void entry_add(struct writer *w, unsigned table, unsigned wiki, str title, store_time at)
{
    if (w->step == NULL)
        w->step = step_new(w->db, at);
    struct cql_values *v = step_write(w->step, w->inserts[table]);
    step_written_at(w->step, at.ns / NS_PER_US);
    put_title(v, str_of(wikis[wiki].name), title);
    cql_put_i64(v, at.ns / NS_PER_MS);
    cql_put_i32(v, (int32_t)w->entries[wiki][table]);
    w->rows[table]++;
    if (++w->waiting == STEP_REQUESTS_MAX)
        flush(w);
}

static void wiki_write(struct writer *w, unsigned wiki, store_time end)
{
    const struct timeline_sampler_opts o = { .entries_per_s = ENTRIES_PER_S,
                                             .burst = BURST,
                                             .domains_max = COUNT_OF(wikis) };
    struct timeline_sampler *sampler = timeline_sampler_new(&o);
    double each_ns = (double)DAY_NS / wikis[wiki].edits_a_day;
    store_time at = store_time_add(end, -DAYS * DAY_NS);
    const store_time written[TABLES] = {
        [ALL] = store_time_add(end, -DAY_NS / 10), [SAMPLED] = store_time_add(end, -3 * DAY_NS)
    };
    for (;;) {
        char text[24];
        at = store_time_add(at, (int64_t)(-log(1 - rng_unit(&w->rng)) * each_ns));
        if (!store_time_before(at, end))
            break;
        str title = title_of(w, text);
        w->entries[wiki][ALL]++;
        if (!store_time_before(at, written[ALL]))
            entry_add(w, ALL, wiki, title, at);
        if (!timeline_sample(sampler, wiki, at))
            continue;
        w->entries[wiki][SAMPLED]++;
        if (!store_time_before(at, written[SAMPLED]))
            entry_add(w, SAMPLED, wiki, title, at);
    }
    flush(w);
    timeline_sampler_free(&sampler);
}

int timelines_run(struct databases *ds, char **argv, store_time end)
{
    struct writer w = { .db = database_open(ds, argv[1], argv[2], argv[3]) };
    rng_init(&w.rng, 1);
    for (unsigned i = 0; i < TABLES; i++)
        w.inserts[i] = database_statement(w.db, insert_text, i);
    databases_run(ds);
    database_wait_ready(w.db);
    for (unsigned i = 0; i < TABLES; i++)
        database_ddl(w.db, table_text, i);
    for (unsigned i = 0; i < COUNT_OF(wikis); i++)
        wiki_write(&w, i, end);
    printf("{\"rows_all\": %llu, \"rows_sampled\": %llu", (unsigned long long)w.rows[ALL],
           (unsigned long long)w.rows[SAMPLED]);
    for (unsigned i = 0; i < COUNT_OF(wikis); i++)
        printf(", \"%s\": {\"edits_a_day\": %g, \"all\": %llu, \"sampled\": %llu}", wikis[i].name,
               wikis[i].edits_a_day, (unsigned long long)w.entries[i][ALL],
               (unsigned long long)w.entries[i][SAMPLED]);
    printf("}\n");
    databases_free(&ds);
    return 0;
}
