/* sweep.c - upkeep of all titles (sweep.h): two jobs that take leases, read pages of titles and
 * cull them. On the client's loop, by ticks of store.c. A job is
 *
 *   IDLE -> LOOKS -> TAKES -> READS -> CULLS -> KEEPS -> READS ...
 *     ^       |        |        |        |        |
 *     |<------+<-------+<-------+<-------|<-------+    nothing to do, or it failed, or was lost
 *     \<----------- GIVES <--------------/             the part is done, or the sweep closes
 *
 * Invariants:
 *   1 a job asks one thing at a time (asking);
 *   2 all titles before the place of a lease's row were culled: the row is written once a page is;
 *   3 after a failure the lease ends by its time; the holder may take it again at once.
 * A request that fails is tried again after look_ns. */
#include "cassandra/sweep_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_MAGIC 0xca555eedu
#define CULL_WAIT_MS 10000
#define DUE_BACK_HOURS 24 /* in which a shard begins that nobody ever worked on */

static void job_idle(struct job *j, int64_t wait_ns);
static void job_read(struct job *j);
static void job_cull(struct job *j);

/* ---- the whole ---- */

struct cassandra_sweep *cassandra_sweep_new(const struct cassandra_sweep_opts *o)
{
    static const char *const names[] = { [SWEEP_DUE] = "due", [SWEEP_RING] = "sweep" };
    struct cassandra_sweep *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->magic = SWEEP_MAGIC;
    s->opts = *o;
    s->opts.dc = o->dc == NULL ? "" : o->dc;
    s->opts.ranges = o->ranges == 0 ? 256 : o->ranges;
    s->opts.period_ns = o->period_ns == 0 ? 86400 * NS_PER_S : o->period_ns;
    s->opts.lease_ns = o->lease_ns == 0 ? 60 * NS_PER_S : o->lease_ns;
    s->opts.look_ns = o->look_ns == 0 ? 60 * NS_PER_S : o->look_ns;
    s->opts.titles_per_s = o->titles_per_s == 0 ? 100 : o->titles_per_s;
    INVARIANT(s->opts.ranges <= SWEEP_RANGES_MAX);
    rng_init(&s->rng, o->seed);
    for (unsigned i = 0; i < SWEEP_KINDS; i++) {
        struct job *j = &s->jobs[i];
        j->sweep = s;
        j->kind = i;
        j->parts = i == SWEEP_DUE ? DUE_SHARDS : s->opts.ranges;
        /* Leases are of one data centre, so its name is in that of the job. */
        (void)snprintf(j->name, sizeof j->name, "%s %.64s", names[i], s->opts.dc);
        j->leases = calloc(j->parts, sizeof *j->leases);
        j->page = calloc(SWEEP_PAGE_TITLES, sizeof *j->page);
        INVARIANT(j->leases != NULL && j->page != NULL);
        for (unsigned k = 0; k < SWEEP_CULLS_MAX; k++)
            j->culls[k].job = j;
        /* Servers that start together do not look together. */
        job_idle(j, (int64_t)rng_below(&s->rng, (uint64_t)s->opts.look_ns));
    }
    return s;
}

void cassandra_sweep_free(struct cassandra_sweep **sp)
{
    struct cassandra_sweep *s = *sp;
    *sp = NULL;
    if (s == NULL)
        return;
    MAGIC_CHECK(s, SWEEP_MAGIC);
    for (unsigned i = 0; i < SWEEP_KINDS; i++) {
        INVARIANT(!s->jobs[i].asking);
        INVARIANT(s->jobs[i].under_way == 0);
        free(s->jobs[i].leases);
        free(s->jobs[i].page);
        free(s->jobs[i].page_state);
    }
    s->magic = 0;
    free(s);
}

void cassandra_sweep_figures(const struct cassandra_sweep *s, struct cassandra_sweep_figures *out)
{
    *out = (struct cassandra_sweep_figures){ .ranges = atomic_load(&s->ranges),
                                             .hours = atomic_load(&s->hours),
                                             .titles = atomic_load(&s->titles),
                                             .failed = atomic_load(&s->failed),
                                             .bytes_ranges = atomic_load(&s->bytes_ranges),
                                             .facts = atomic_load(&s->facts),
                                             .unlisted = atomic_load(&s->unlisted),
                                             .leases = atomic_load(&s->leases),
                                             .leases_lost = atomic_load(&s->leases_lost),
                                             .unanswered = atomic_load(&s->unanswered),
                                             .filed = atomic_load(&s->opts.titles->filed),
                                             .unfiled = atomic_load(&s->opts.titles->unfiled),
                                             .oldest_at.ns = atomic_load(&s->oldest_ns),
                                             .never = atomic_load(&s->never) };
}

static store_time sweep_now(const struct cassandra_sweep *s)
{
    return clock_store(s->opts.clock);
}

/* A time between half of it and all of it, so that servers do not stay in step. */
static int64_t sweep_jitter(struct cassandra_sweep *s, int64_t ns)
{
    return ns / 2 + (int64_t)rng_below(&s->rng, (uint64_t)(ns / 2) + 1);
}

/* ---- requests of a job ---- */

void sweep_ask(struct job *j, enum titles_statement statement, void (*done)(struct cql_request *q))
{
    const struct titles *t = j->sweep->opts.titles;
    /* No call: titles_request gives its own deadline, and done runs on the client's loop. */
    const struct store_call none = { .home = NULL };
    INVARIANT(!j->asking);
    j->asking = true;
    j->cql_part = (struct cql_part){ .statement = t->statements[statement], .values = &j->values };
    j->request = titles_request(t, &none, done);
    j->request.parts = &j->cql_part;
    j->request.class = CQL_BACKGROUND;
    if (statement == TITLES_LEASE_SET)
        j->request.params.serial = CQL_LOCAL_SERIAL;
    else
        /* Leases are read at LOCAL_SERIAL, which sees those just taken. Titles that one replica
         * does not show are found by a later lap. */
        j->request.params.consistency =
            statement == TITLES_LEASES ? CQL_LOCAL_SERIAL : CQL_LOCAL_ONE;
    /* Due hours are read by page states; ranges by tokens, so that a lap can go on anywhere. */
    if (statement == TITLES_DUE) {
        j->request.params.page_rows = SWEEP_PAGE_TITLES;
        j->request.params.page_state = (str){ .p = j->page_state, .n = j->page_state_bytes };
    }
    cql_start(t->client, &j->request);
}

/* Each done of a job calls it first: the job may ask again from then on. */
err sweep_answered(struct job *j)
{
    err why = j->request.out.why;
    j->asking = false;
    cql_values_fini(&j->values);
    if (why != ERR_OK)
        atomic_fetch_add(&j->sweep->unanswered, 1);
    return why;
}

static void job_idle(struct job *j, int64_t wait_ns)
{
    j->state = JOB_IDLE;
    j->again_at = store_time_add(sweep_now(j->sweep), wait_ns);
}

static void page_state_clear(struct job *j)
{
    free(j->page_state);
    j->page_state = NULL;
    j->page_state_bytes = 0;
}

static void values_begin(struct job *j)
{
    cql_values_init(&j->values, TITLES_KEY_BYTES_MAX + 256);
}

/* ---- leases ---- */

/* Is the hour's end behind the horizon? Then all titles that the hour names can be culled, and no
 * more come. */
static bool hour_is_past(const struct job *j, int64_t hour)
{
    return (hour + 1) * DUE_HOUR_S * NS_PER_S <= pages_horizon(j->sweep->opts.pages).ns;
}

/* Where a part begins: an hour, or the token before the first one of a range. */
static int64_t place_first(const struct job *j, unsigned part)
{
    uint64_t step = UINT64_MAX / j->parts;
    if (j->kind == SWEEP_DUE)
        return due_hour(sweep_now(j->sweep)) - DUE_BACK_HOURS;
    return (int64_t)((uint64_t)INT64_MIN + part * step);
}

/* The last token of a range; it belongs to the range. */
static int64_t place_last(const struct job *j, unsigned part)
{
    return part + 1 == j->parts ? INT64_MAX : place_first(j, part + 1);
}

static bool part_is_due(const struct job *j, unsigned part)
{
    const struct cassandra_sweep *s = j->sweep;
    const struct lease *l = &j->leases[part];
    store_time now = sweep_now(s);
    int64_t skew_ns = s->opts.pages->opts.max_skew_ns;
    if (!l->known)
        return true;
    /* Another server's lease is taken only when it has ended by that server's clock, too. */
    if (l->holder != s->opts.srv && now.ns < store_time_add(l->until, skew_ns).ns)
        return false;
    if (j->kind == SWEEP_DUE)
        return hour_is_past(j, l->place);
    return l->done_at.ns == 0 || now.ns - l->done_at.ns >= s->opts.period_ns ||
           l->place != place_first(j, part); /* a server broke off in the middle */
}

/* A part that is due, beginning anywhere, so that servers do not all reach for the same; parts:
 * none is due. */
static unsigned part_choose(struct job *j)
{
    unsigned from = (unsigned)rng_below(&j->sweep->rng, j->parts);
    for (unsigned i = 0; i < j->parts; i++)
        if (part_is_due(j, (from + i) % j->parts))
            return (from + i) % j->parts;
    return j->parts;
}

static void job_give(struct job *j, bool finished);

/* The lease was asked for. The row as it was read is good only if the write was applied. */
static void job_taken(struct cql_request *q)
{
    struct job *j = CONTAINER_OF(q, struct job, request);
    struct cassandra_sweep *s = j->sweep;
    bool mine = sweep_answered(j) == ERR_OK && sweep_lease_was_set(j);
    cql_outcome_fini(&q->out);
    if (!mine) { /* another was sooner, or nobody knows: the next look tells */
        job_idle(j, sweep_jitter(s, s->opts.look_ns) / 16);
        return;
    }
    atomic_fetch_add(&s->leases, 1);
    /* How long the part takes is judged from here (job_given). */
    j->began = sweep_now(s);
    if (s->closing)
        job_give(j, false);
    else
        job_read(j);
}

/* Takes the lease of a part, from where its row says that the last holder came. */
static void job_take(struct job *j)
{
    struct cassandra_sweep *s = j->sweep;
    const struct lease *was = &j->leases[j->part];
    int64_t first = place_first(j, j->part);
    /* -1: there is no row, and none must come in between. */
    int64_t epoch = was->known ? was->epoch : -1;
    /* Rows of `due` are gone by then: a place so far back has nothing to read. */
    bool back = j->kind == SWEEP_DUE && was->place < first - DUE_KEPT_S / DUE_HOUR_S;
    j->state = JOB_TAKES;
    j->mine = (struct lease){ .known = true,
                              .holder = s->opts.srv,
                              .epoch = epoch + 1,
                              .until = store_time_add(sweep_now(s), s->opts.lease_ns),
                              .place = was->known && !back ? was->place : first,
                              .done_at = was->done_at };
    if (j->kind == SWEEP_RING && (j->mine.place < first || j->mine.place > place_last(j, j->part)))
        j->mine.place = first; /* the number of ranges was another one when it was written */
    page_state_clear(j);
    values_begin(j);
    sweep_lease_set(j, epoch, job_taken);
}

/* Figures for operators: how far the sweep of all servers is behind. */
static void ring_measure(struct job *j)
{
    int64_t oldest_ns = 0;
    unsigned never = 0;
    for (unsigned i = 0; i < j->parts; i++) {
        int64_t at_ns = j->leases[i].done_at.ns;
        never += at_ns == 0;
        if (at_ns != 0 && (oldest_ns == 0 || at_ns < oldest_ns))
            oldest_ns = at_ns;
    }
    atomic_store(&j->sweep->oldest_ns, oldest_ns);
    atomic_store(&j->sweep->never, never);
}

static void job_looked(struct cql_request *q)
{
    struct job *j = CONTAINER_OF(q, struct job, request);
    struct cassandra_sweep *s = j->sweep;
    bool fine = sweep_answered(j) == ERR_OK && sweep_lease_rows(j);
    cql_outcome_fini(&q->out);
    if (fine && j->kind == SWEEP_RING)
        ring_measure(j);
    /* A closing sweep takes no more leases. */
    j->part = fine && !s->closing ? part_choose(j) : j->parts;
    if (j->part == j->parts)
        job_idle(j, sweep_jitter(s, s->opts.look_ns));
    else
        job_take(j);
}

static void job_look(struct job *j)
{
    j->state = JOB_LOOKS;
    values_begin(j);
    sweep_lease_look(j, job_looked);
}

/* Ends a write of the lease. True: it is still held. Another epoch in the row means that another
 * server has taken it. */
static bool lease_kept(struct job *j)
{
    struct cassandra_sweep *s = j->sweep;
    if (sweep_answered(j) != ERR_OK) {
        job_idle(j, sweep_jitter(s, s->opts.look_ns));
        return false;
    }
    if (sweep_lease_was_set(j))
        return true;
    atomic_fetch_add(&s->leases_lost, 1);
    /* The row tells which server works there; the next look chooses another part. */
    job_idle(j, sweep_jitter(s, s->opts.look_ns) / 16);
    return false;
}

static void job_kept(struct cql_request *q)
{
    struct job *j = CONTAINER_OF(q, struct job, request);
    bool kept = lease_kept(j);
    cql_outcome_fini(&q->out);
    if (kept && j->sweep->closing)
        job_give(j, false);
    else if (kept)
        job_read(j);
}

/* Renews the lease and writes how far the job came, in one write. */
static void job_keep(struct job *j)
{
    j->state = JOB_KEEPS;
    j->mine.until = store_time_add(sweep_now(j->sweep), j->sweep->opts.lease_ns);
    values_begin(j);
    sweep_lease_set(j, j->mine.epoch, job_kept);
}

static void job_given(struct cql_request *q)
{
    struct job *j = CONTAINER_OF(q, struct job, request);
    struct cassandra_sweep *s = j->sweep;
    bool kept = lease_kept(j);
    cql_outcome_fini(&q->out);
    if (!kept)
        return;
    if (j->finished && j->kind == SWEEP_RING)
        atomic_fetch_add(&s->ranges, 1);
    /* Ranges are spread over the period: a range that took less than its share is followed by a
     * pause. Shards of due hours follow each other. */
    int64_t wait_ns = j->kind == SWEEP_RING ? sweep_jitter(s, s->opts.period_ns / j->parts) : 0;
    int64_t spent_ns = sweep_now(s).ns - j->began.ns;
    job_idle(j, wait_ns > spent_ns ? wait_ns - spent_ns : 0);
}

static void job_give(struct job *j, bool finished)
{
    j->state = JOB_GIVES;
    j->finished = finished;
    /* A lease that ends at once: another server need not wait. */
    j->mine.until = STORE_TIME_ZERO;
    if (finished) {
        j->mine.done_at = sweep_now(j->sweep);
        /* A lap is over: the next one begins at the range's beginning. */
        if (j->kind == SWEEP_RING)
            j->mine.place = place_first(j, j->part);
    }
    values_begin(j);
    sweep_lease_set(j, j->mine.epoch, job_given);
}

/* ---- pages ---- */

/* Adds a title to the page. A bucket that this server does not know is passed over: only the file
 * of another server has it. */
static void found_add(struct job *j, str bucket, str domain, str title)
{
    struct cassandra_pages *p = j->sweep->opts.pages;
    struct found *f = &j->page[j->count];
    f->bucket = cassandra_pages_bucket(p, bucket);
    bool fine = f->bucket != NULL && title.n > 0 && title.n <= sizeof f->title &&
                cassandra_pages_domain(p, domain, &f->domain) == ERR_OK;
    if (!fine || j->count == SWEEP_PAGE_TITLES)
        return;
    memcpy(f->title, title.p, title.n);
    f->title_bytes = title.n;
    j->count++;
}

/* Takes the rows out of the answer. False: they make no sense. */
static bool page_take(struct job *j)
{
    struct cql_rows rows = j->request.out.rows;
    bool ring = j->kind == SWEEP_RING;
    struct cql_cell cells[4];
    str bucket, domain, title;
    unsigned seen = 0;
    j->count = j->at = 0;
    if (rows.columns == NULL || rows.columns->count != (ring ? 4 : 3))
        return false;
    /* The token of the last title that was read is where the next page begins, whether this server
     * knows the title or not. */
    for (; seen < SWEEP_PAGE_TITLES && cql_rows_next(&rows, cells); seen++) {
        if (!cql_get_bytes(&cells[0], &bucket) || !cql_get_bytes(&cells[1], &domain) ||
            !cql_get_bytes(&cells[2], &title) || (ring && !cql_get_i64(&cells[3], &j->page_place)))
            return false;
        found_add(j, bucket, domain, title);
    }
    /* A page of a range is asked for by LIMIT: fewer rows than that are the last ones. */
    j->last = ring ? seen < SWEEP_PAGE_TITLES : !rows.more;
    page_state_clear(j);
    if (!ring && rows.more) {
        j->page_state = malloc(rows.page_state.n);
        INVARIANT(j->page_state != NULL);
        memcpy(j->page_state, rows.page_state.p, rows.page_state.n);
        j->page_state_bytes = rows.page_state.n;
    }
    return !rows.rest.failed;
}

static void job_paged(struct cql_request *q)
{
    struct job *j = CONTAINER_OF(q, struct job, request);
    struct cassandra_sweep *s = j->sweep;
    bool fine = sweep_answered(j) == ERR_OK && page_take(j);
    cql_outcome_fini(&q->out);
    if (!fine) {
        job_idle(j, sweep_jitter(s, s->opts.look_ns));
    } else {
        j->state = JOB_CULLS;
        job_cull(j);
    }
}

/* Asks for the next page of the part: the range from its place on, or the hour at its place. */
static void job_read(struct job *j)
{
    struct cassandra_sweep *s = j->sweep;
    j->state = JOB_READS;
    values_begin(j);
    if (j->kind == SWEEP_RING) {
        cql_put_i64(&j->values, j->mine.place);
        cql_put_i64(&j->values, place_last(j, j->part));
        cql_put_i32(&j->values, SWEEP_PAGE_TITLES);
        sweep_ask(j, TITLES_SWEPT, job_paged);
        return;
    }
    cql_put_bytes(&j->values, str_of(s->opts.dc));
    cql_put_i32(&j->values, (int32_t)j->mine.place);
    cql_put_i8(&j->values, (int8_t)j->part);
    sweep_ask(j, TITLES_DUE, job_paged);
}

/* All of the page was culled: the place moves behind it. Then another page, a renewed lease, or the
 * end of the part. */
static void page_end(struct job *j)
{
    struct cassandra_sweep *s = j->sweep;
    bool over = j->last && j->kind == SWEEP_RING;
    if (!j->last && j->kind == SWEEP_RING)
        j->mine.place = j->page_place;
    if (j->last && j->kind == SWEEP_DUE) {
        atomic_fetch_add(&s->hours, 1);
        j->mine.place++;
        /* The hour that follows may not be past yet; then the shard is done for now. */
        over = !hour_is_past(j, j->mine.place);
    }
    if (over || s->closing)
        job_give(j, over);
    /* The lease is renewed when a third of it is over, so that a page finds it held. */
    else if (j->mine.until.ns - sweep_now(s).ns < s->opts.lease_ns * 2 / 3)
        job_keep(j);
    else
        job_read(j);
}

/* ---- culls ---- */

/* A title is culled, or could not be: the sweep finds it again either way. Runs on the client's
 * loop. */
static void cull_done(struct store_call *c)
{
    struct sweep_cull *one =
        CONTAINER_OF(CONTAINER_OF(c, struct cassandra_cull, call), struct sweep_cull, cull);
    struct job *j = one->job;
    struct cassandra_sweep *s = j->sweep;
    const struct cassandra_cull *cull = &one->cull;
    bool did = cull->ranges > 0 || cull->forgotten > 0 || cull->unlisted;
    atomic_fetch_add(c->why == ERR_OK ? &s->titles : &s->failed, 1);
    atomic_fetch_add(&s->bytes_ranges, cull->ranges);
    atomic_fetch_add(&s->facts, cull->forgotten);
    atomic_fetch_add(&s->unlisted, cull->unlisted);
    /* A title of the ring where nothing was done is filed already, or will be by its next write.
     * One from `due` has used its row up. */
    if (c->why == ERR_OK && cull->next.ns != INT64_MAX && (did || j->kind == SWEEP_DUE)) {
        const struct titles_key key = { .bucket = str_of(cull->bucket->opts.name),
                                        .domain = pages_domain_name(s->opts.pages, cull->domain),
                                        .title = cull->title };
        dues_file(s->opts.pages, &key, cull->next);
    }
    /* cull->title lies in the page, which may be read again once its last cull is over. */
    one->found = NULL;
    j->under_way--;
    job_cull(j);
    cql_release(s->opts.titles->client);
}

static void cull_start(struct job *j, struct sweep_cull *one)
{
    struct cassandra_sweep *s = j->sweep;
    one->found = &j->page[j->at++];
    j->under_way++;
    cql_hold(s->opts.titles->client); /* behind its end the job goes on */
    one->cull = (struct cassandra_cull){
        .call = { .home = s->opts.home != NULL ? s->opts.home : home_here(),
                  .done = cull_done,
                  .deadline = mono_add_ms(clock_mono(s->opts.titles->clock), CULL_WAIT_MS) },
        .bucket = one->found->bucket,
        .domain = one->found->domain,
        .title = { .p = one->found->title, .n = one->found->title_bytes }
    };
    /* Posted also when it ends at once: cull_done goes on with the job, and must not run inside
     * job_cull. */
    store_call_post(cassandra_pages_cull(s->opts.pages, &one->cull), &one->cull.call);
}

/* May one more title be culled now? Each cull costs a second / titles_per_s of credit. */
static bool pace_take(struct cassandra_sweep *s)
{
    int64_t cost_ns = NS_PER_S / s->opts.titles_per_s;
    if (s->credit_ns < cost_ns)
        return false;
    s->credit_ns -= cost_ns;
    return true;
}

/* Credit grows with time, up to one second's worth: after a pause upkeep does not rush. */
static void pace_refill(struct cassandra_sweep *s)
{
    store_time now = sweep_now(s);
    int64_t passed_ns = now.ns - s->paced_at.ns;
    s->paced_at = now;
    s->credit_ns += passed_ns < 0 ? 0 : passed_ns > NS_PER_S ? NS_PER_S : passed_ns;
    if (s->credit_ns > NS_PER_S)
        s->credit_ns = NS_PER_S;
}

static struct sweep_cull *cull_free(struct job *j)
{
    for (unsigned i = 0; i < SWEEP_CULLS_MAX; i++)
        if (j->culls[i].found == NULL)
            return &j->culls[i];
    return NULL;
}

/* Begins culls of titles of the page, as many as may be at once; goes on behind the page, when all
 * were culled. Called by each tick and behind each cull. */
static void job_cull(struct job *j)
{
    struct cassandra_sweep *s = j->sweep;
    struct sweep_cull *one;
    while (j->state == JOB_CULLS && !s->closing && j->at < j->count &&
           (one = cull_free(j)) != NULL && pace_take(s))
        cull_start(j, one);
    /* Culls that are under way call this again. */
    if (j->state != JOB_CULLS || j->under_way > 0)
        return;
    if (j->at == j->count)
        page_end(j);
    else if (s->closing)
        job_give(j, false);
}

/* ---- ticks ---- */

void cassandra_sweep_tick(struct cassandra_sweep *s)
{
    MAGIC_CHECK(s, SWEEP_MAGIC);
    pace_refill(s);
    for (unsigned i = 0; i < SWEEP_KINDS; i++) {
        struct job *j = &s->jobs[i];
        if (j->state == JOB_CULLS)
            job_cull(j);
        else if (j->state == JOB_IDLE && !s->closing && sweep_now(s).ns >= j->again_at.ns)
            job_look(j);
    }
}

void cassandra_sweep_close(struct cassandra_sweep *s)
{
    MAGIC_CHECK(s, SWEEP_MAGIC);
    s->closing = true;
    /* A job that waits for an answer ends when the answer comes; a job that waits for credit must
     * be woken. */
    for (unsigned i = 0; i < SWEEP_KINDS; i++)
        if (s->jobs[i].state == JOB_CULLS)
            job_cull(&s->jobs[i]);
}

bool cassandra_sweep_is_closed(const struct cassandra_sweep *s)
{
    bool closed = s->closing;
    for (unsigned i = 0; i < SWEEP_KINDS; i++)
        closed = closed && s->jobs[i].state == JOB_IDLE && s->jobs[i].under_way == 0;
    return closed;
}
