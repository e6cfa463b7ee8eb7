/* boot_queue.c - the stores of queues, and the queues on them. Without queue.stores the main store
 * is the only one. */
#include "server/boot.h"

#include "loop/entropy.h"
#include "loop/loop.h"
#include "loop/signals.h"
#include "loop/sysclock.h"
#include "queue/store/open.h"
#include "queue/turn.h"
#include "rule/rule.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPENING_POLL_MS = 5, STORE_UPKEEP_THREADS = 1 /* a disk that does not answer holds it */ };

/* A local store that cannot write is of no more use; the others go on. */
static void store_failed(void *ctx, const char *store, const char *what)
{
    struct server *s = ctx;
    log_event(s->app.log, LOG_ERROR, "queue.store_failed", LOG_CSTR("store", store),
              LOG_CSTR("what", what));
}

static void store_recovered(void *ctx, store_time greatest)
{
    struct server *s = ctx;
    sysclock_start(s->app.sysclock, greatest);
}

/* The name of this deployment: as configured, or made, then in made. */
static err deployment_of(struct server *s, const char *store,
                         char made[QUEUE_DEPLOYMENT_MADE_BYTES], const char **out,
                         struct err_note *note)
{
    *out = s->config->queue.deployment;
    if (*out != NULL && (*out)[0] != '\0')
        return queue_deployment_check(*out, note);
    *out = made;
    err why = queue_deployment(s->app.engine, entropy_u64(), entropy_u64(), made);
    if (why != ERR_OK)
        err_note_set(note, "queue.stores: %s: the name of this deployment cannot be had: %s", store,
                     err_name(why));
    return why;
}

struct local_where {
    const char *dir, *deployment;
    bool used;
}; /* all none: the data directory */

static err local_open(struct server *s, const char *name, struct local_where at,
                      struct queue_store **out, struct err_note *note)
{
    struct queue_local_opts opts = { .name = name,
                                     .engine = at.dir == NULL ? s->app.engine : NULL,
                                     .dir = at.dir,
                                     .deployment = at.deployment,
                                     .used = at.used,
                                     .recovered = store_recovered,
                                     .clock = s->app.clock,
                                     .segment_bytes = s->config->segment_bytes,
                                     .free_bytes_min = s->config->free_bytes_min,
                                     .failed = store_failed,
                                     .ctx = s };
    store_time greatest = STORE_TIME_ZERO;
    err why = queue_local_open(&opts, out, &greatest, note);
    if (why == ERR_OK)
        sysclock_start(s->app.sysclock, greatest); /* never behind what any store holds */
    return why;
}

static err dir_open(struct server *s, const struct config_store *store, struct queue_store **out,
                    struct err_note *note)
{
    char path[PATH_MAX];
    bool absolute = store->path[0] == '/';
    int n = snprintf(path, sizeof path, "%s%s%s", absolute ? "" : s->config->data_dir,
                     absolute ? "" : "/", store->path);
    if (n < 0 || (size_t)n >= sizeof path)
        return err_bad(note, "queue.stores: the path of %s is too long", store->name);
    char made[QUEUE_DEPLOYMENT_MADE_BYTES];
    struct local_where at = { .dir = path };
    err why = deployment_of(s, store->name, made, &at.deployment, note);
    if (why != ERR_OK)
        return why;
    why = queue_store_used(s->app.engine, store->name, &at.used);
    if (why != ERR_OK) {
        err_note_set(note, "queue.stores: %s: what lies there cannot be read: %s", store->name,
                     err_name(why));
        return why;
    }
    if (!at.used && mkdir(path, 0700) != 0 && errno != EEXIST) {
        err_note_set(note, "queue.stores: %s: %s: %s", store->name, path, strerror(errno));
        return ERR_IO;
    }
    return local_open(s, store->name, at, out, note);
}

static err store_open(struct server *s, const struct config_store *store, struct queue_store **out,
                      struct err_note *note)
{
    if (store->url == NULL)
        return dir_open(s, store, out, note);
    struct queue_pg_opts opts = { .name = store->name,
                                  .url = store->url,
                                  .loop = s->app.loop,
                                  .clock = s->app.clock,
                                  .write_timeout_ms = s->config->queue.write_timeout_ms,
                                  .later = true };
    char made[QUEUE_DEPLOYMENT_MADE_BYTES];
    err why = deployment_of(s, store->name, made, &opts.deployment, note);
    return why == ERR_OK ? queue_pg_open(&opts, out, note) : why;
}

/* A store in PostgreSQL holds none. */
unsigned server_pool_threads(const struct config *c)
{
    unsigned stores = c->queue.stores_count, disks = 0;
    for (unsigned i = 0; i < stores; i++)
        disks += c->queue.stores[i].url == NULL;
    unsigned calls = stores == 0 ? queue_turn_threads(1, 1) : queue_turn_threads(stores, disks);
    return c->pool_threads + calls + disks * STORE_UPKEEP_THREADS;
}

/* ---- the first connections to PostgreSQL: all at once, while the loop runs ---- */

struct opening {
    struct server *s;
    mono deadline;
};

static bool is_pg(const struct server *s, unsigned i)
{
    return i < s->config->queue.stores_count && s->config->queue.stores[i].url != NULL;
}

static void opening_fired(void *ctx)
{
    struct opening *o = ctx;
    bool over = clock_mono(o->s->app.clock).ns >= o->deadline.ns || (signals_seen() & SIGNALS_END);
    unsigned opening = 0;
    for (unsigned i = 0; i < o->s->stores_count; i++)
        opening += is_pg(o->s, i) && queue_pg_opened(o->s->stores[i], NULL) == ERR_AGAIN;
    if (over || opening == 0)
        loop_stop(o->s->app.loop);
}

/* One that is away is no error: it is told here, and comes when it does. */
static err stores_opened(struct server *s, struct err_note *note)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < s->stores_count && why == ERR_OK; i++) {
        if (!is_pg(s, i))
            continue;
        struct err_note reason = { .text = "" };
        why = queue_pg_opened(s->stores[i], &reason);
        err_note_set(note, "%s", reason.text);
        if (why != ERR_AGAIN && why != ERR_UNAVAILABLE)
            continue;
        log_event(s->app.log, LOG_WARN, "queue.store",
                  LOG_CSTR("store", s->config->queue.stores[i].name), LOG_CSTR("state", "error"),
                  LOG_CSTR("why", reason.text));
        why = ERR_OK;
    }
    return why;
}

/* What is set contradicts what leases are for, where PostgreSQL may die and consumers live on. */
static void leases_warn(struct server *s)
{
    for (unsigned i = 0; i < s->stores_count; i++)
        if (is_pg(s, i) && s->config->queue.lease_durability == QUEUE_LEASE_WRITTEN)
            log_event(
                s->app.log, LOG_WARN, "queue.lease_durability",
                LOG_CSTR("store", s->config->queue.stores[i].name), LOG_CSTR("leases", "written"),
                LOG_CSTR("why", "items leased in a PostgreSQL that dies are given out twice"));
}

/* ERR_SHUTDOWN: a signal asked us to end meanwhile. */
static err stores_await(struct server *s, struct err_note *note)
{
    bool any = false;
    for (unsigned i = 0; i < s->stores_count; i++)
        any = any || is_pg(s, i);
    if (!any)
        return ERR_OK;
    struct opening o = {
        .s = s, .deadline = mono_add_ms(clock_mono(s->app.clock), s->config->queue.start_timeout_ms)
    };
    struct loop_timer *timer = loop_timer_new(s->app.loop, opening_fired, &o);
    signals_watch(SIGNALS_END, SIGNALS_EACH);
    loop_timer_start(timer, 0, OPENING_POLL_MS);
    loop_run(s->app.loop);
    loop_timer_free(&timer);
    if ((signals_seen() & SIGNALS_END) == 0) /* one that comes later is heard once the loop runs */
        return stores_opened(s, note);
    err_note_set(note, "asked to end before the server ran");
    return ERR_SHUTDOWN;
}

static err stores_open(struct server *s, struct err_note *note)
{
    const struct config_queue *q = &s->config->queue;
    s->stores = calloc(q->stores_count + 1, sizeof(struct queue_store *));
    INVARIANT(s->stores != NULL);
    queue_pg_init();
    err why = ERR_OK;
    if (q->stores_count == 0)
        why = local_open(s, "main", (struct local_where){ .dir = NULL },
                         &s->stores[s->stores_count], note);
    if (q->stores_count == 0 && why == ERR_OK)
        s->stores_count = 1;
    for (unsigned i = 0; i < q->stores_count && why == ERR_OK; i++) {
        why = store_open(s, &q->stores[i], &s->stores[s->stores_count], note);
        s->stores_count += why == ERR_OK ? 1 : 0;
    }
    if (why == ERR_OK)
        leases_warn(s);
    err opened = stores_await(
        s, why == ERR_OK ? note : NULL); /* whatever became of others: it ends those that began */
    return why == ERR_OK ? opened : why;
}

/* The kernel's id of this boot, which tells whether leases were written in it; zero when the kernel
 * does not say. */
static void read_boot(unsigned char out[16])
{
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    memset(out, 0, 16);
    for (size_t i = 0, digits = 0; i < (size_t)(n < 0 ? 0 : n) && digits < 32; i++) {
        int value = str_hex_digit(text[i]);
        if (value < 0)
            continue;
        out[digits / 2] = (unsigned char)(out[digits / 2] << 4 | value);
        digits++;
    }
}

err server_open_queues(struct server *s, enum server_exit *status, struct err_note *note)
{
    const struct config_queue *q = &s->config->queue;
    unsigned affinities[CONFIG_STORES_MAX] = { 1 };
    for (unsigned i = 0; i < q->stores_count; i++)
        affinities[i] = q->stores[i].affinity;
    err why = stores_open(s, note);
    if (why == ERR_OK) {
        struct queues_opts opts = { .engine = s->app.engine,
                                    .stores = s->stores,
                                    .affinities = affinities,
                                    .stores_count = s->stores_count,
                                    .clock = s->app.clock,
                                    .loop = s->app.loop,
                                    .log = s->app.log,
                                    .metrics = s->app.metrics,
                                    .seed = entropy_u64(),
                                    .durability = q->durability,
                                    .lease_durability = q->lease_durability,
                                    .write_timeout_ms = q->write_timeout_ms,
                                    .idempotency_window_ns = q->idempotency_window_ns,
                                    .reply_bytes_max = q->reply_bytes_max,
                                    .partitions_max = q->partitions_max };
        read_boot(opts.boot);
        why = queues_new(&opts, &s->app.queues, note);
    }
    for (unsigned i = 0; i < s->stores_count && why == ERR_OK; i++)
        upkeep_store(s->upkeep, s->stores[i]);
    *status = why == ERR_SHUTDOWN ? SERVER_FINE : server_exit_of(why);
    return why;
}

void server_doubt_queues(struct server *s)
{
    const struct rule_set *set = s->config->change.rules;
    for (unsigned i = 0; set != NULL && i < rule_set_count(set); i++) {
        const struct rule *r = rule_set_at(set, i);
        struct queue *q = NULL;
        struct err_note note;
        if (r->effect == RULE_PRODUCE &&
            queues_find(s->app.queues, r->queue, &q, &note) == ERR_NOT_FOUND)
            log_event(s->app.log, LOG_WARN, "change.no_queue", LOG_STR("rule", r->name),
                      LOG_STR("queue", r->queue));
        queue_unref(&q);
    }
}

void server_close_queues(struct server *s)
{
    queues_free(&s->app.queues);
    for (unsigned i = 0; i < s->stores_count; i++)
        s->stores[i]->ops->close(&s->stores[i]);
    free(s->stores);
    s->stores = NULL;
    s->stores_count = 0;
}
