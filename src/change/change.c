/* change.c - the life of it all: rules come and go, one timer, one end. For the server.
 *   Invariants:
 *   1. busy counts the jobs, updates and runs that are under way; when it is 0 nobody touches
 *      this any more but who calls.
 *   2. The timer is armed for the first of: items that fall due, the end of a pause or of a
 *      rate's wait, another try after the store refused.
 *   3. Rules that were wanted come into force, one after another, and none is left out: a job
 *      may have been answered by them (app/change/events.c). */
#include "change/change_impl.h"

#include <stdlib.h>
#include <string.h>

void change_lock(struct change *c)
{
    INVARIANT(pthread_mutex_lock(&c->lock) == 0);
}

void change_unlock(struct change *c)
{
    INVARIANT(pthread_mutex_unlock(&c->lock) == 0);
}

/* Under the lock; below zero for an end. */
void change_busy(struct change *c, int n)
{
    c->busy += (unsigned)n;
}

/* Under the lock. A runner whose name is empty is forgotten, and found by its number alone. */
struct change_runner *change_runner_find(struct change *c, str name)
{
    for (unsigned i = 0; i < c->runners_count; i++)
        if (str_eq(str_of(c->runners[i]->name), name))
            return c->runners[i];
    return NULL;
}

struct change_runner *change_runner_numbered(struct change *c, uint32_t number)
{
    for (unsigned i = 0; i < c->runners_count; i++)
        if (c->runners[i]->number == number)
            return c->runners[i];
    return NULL;
}

/* The caller may go on without the lock: a set of rules never changes. */
struct change_ruled *change_ruled_now(struct change *c)
{
    change_lock(c);
    struct change_ruled *r = change_ruled_ref(c->ruled);
    change_unlock(c);
    return r;
}

/* ---- the timer ---- */

void change_arm(struct change *c, mono at)
{
    mono now = clock_mono(c->opts.clock);
    /* A timer that goes off earlier does: each look arms it anew. */
    if (c->timer == NULL || c->draining || at.ns >= c->armed.ns)
        return;
    c->armed = at;
    /* Rounded up: a timer that is too early would find nothing to do. */
    int64_t ms = at.ns <= now.ns ? 0 : (at.ns - now.ns + NS_PER_MS - 1) / NS_PER_MS;
    loop_timer_start(c->timer, ms, 0);
}

/* Loop. Everything that waits for time is asked: each part knows its own instant. */
static void timer_fired(void *ctx)
{
    struct change *c = ctx;
    change_lock(c);
    mono now = clock_mono(c->opts.clock);
    c->armed.ns = INT64_MAX;
    change_take_begin(c);
    change_due_kick(c);
    change_aside_kick(c);
    change_timelines_kick(c);
    for (unsigned i = 0; i < c->runners_count; i++) {
        struct change_runner *r = c->runners[i];
        if (r->wake_at.ns <= now.ns)
            change_runner_fill(r);
        else if (r->wake_at.ns != INT64_MAX)
            change_arm(c, r->wake_at);
    }
    if (c->router.again_at.ns > now.ns)
        change_arm(c, c->router.again_at);
    else
        change_router_kick(c);
    /* While an update wakes items, its end arms the timer. */
    if (!c->waking)
        change_due_at(c, c->next_due);
    change_unlock(c);
}

/* ---- rules ---- */

/* Runners are by number: a rule that comes back under its number keeps its figures. */
static struct change_runner *runner_of(struct change *c, const struct change_known *n)
{
    struct change_runner *r = change_runner_numbered(c, n->row.number);
    if (r != NULL)
        return r;
    c->runners = realloc(c->runners, (c->runners_count + 1) * sizeof *c->runners);
    INVARIANT(c->runners != NULL);
    r = change_runner_new(c, str_of(n->name), n->row.number);
    c->runners[c->runners_count++] = r;
    return r;
}

/* A rule is in force for this runner, or none is (NULL). Items in sight were chosen by the rule
 * as it was, so the window is emptied. */
static void runner_take(struct change_runner *r, const struct change_known *n,
                        const struct rule *rule)
{
    if (!r->taken) { /* later ones are told in memory, too, and the row may be of before */
        r->paused = (n->row.flags & CHANGE_FLAG_PAUSED) != 0;
        r->paused_by = r->change->take.steered;
        r->replay_after = n->row.replay_after;
        r->replay_until = n->row.replay_until;
    }
    r->taken = rule != NULL;
    r->rule = rule;
    /* A look under way finds another number, and is for nothing. */
    r->choices++;
    r->window_count = 0;
    r->blocked_count = r->closed_count = 0;
    r->more = true;
    memset(&r->shares, 0, sizeof r->shares); /* it may have other targets */
}

/* Those whose rule the store has forgotten: another rule may have the name. */
static void runners_forget(struct change *c)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < c->runners_count; i++) {
        struct change_runner *r = c->runners[i];
        bool known = false;
        for (unsigned n = 0; n < c->take.known_count && !known; n++)
            known = c->take.known[n].row.number == r->number;
        /* Runs and looks point at their runner: it stays until they are over. */
        if (!known && r->pick == NULL && list_empty(&r->runs)) {
            change_runner_free(&r);
            continue;
        }
        /* Found by nobody who asks for the name. */
        if (!known)
            r->name[0] = '\0';
        c->runners[kept++] = r;
    }
    c->runners_count = kept;
}

/* The rules are in force in the store; here they are from now on. Under the lock. */
static void rules_took(struct change *c)
{
    struct change_take *t = &c->take;
    bool was_empty = rule_set_count(c->ruled->set) == 0;
    struct change_ruled *old = c->ruled;
    c->ruled = change_ruled_ref(t->ruled);
    /* Rules of before end with their set. */
    for (unsigned i = 0; i < c->runners_count; i++)
        c->runners[i]->rule = NULL;
    runners_forget(c);
    for (unsigned i = 0; i < t->known_count; i++) {
        const struct change_known *n = &t->known[i];
        if (n->row.number != 0)
            runner_take(runner_of(c, n), n, rule_set_find(c->ruled->set, str_of(n->name)));
    }
    /* Without rules the router does not follow the log: it begins where the store says. */
    if (was_empty && c->router.state == ROUTER_IDLE)
        c->router.head = c->router.written = t->head;
    c->router.told = true;
    change_ruled_unref(&old);
}

/* Those that have just come are asked about all events from now on. Who stores a job reads how many
 * there were, asks them, stores, and reads again: so the number goes first, and then the line. */
static void wanted_add(struct change *c)
{
    /* c->later waits for a place; wanted_shift comes back to it. */
    if (c->later == NULL || c->wanted_count == CHANGE_WANTED_MAX)
        return;
    atomic_fetch_add(&c->reloads, 1);
    c->wanted[c->wanted_count++] = (struct change_wanted){ .ruled = change_ruled_new(c->later),
                                                           .until = event_log_cut(c->opts.events) };
    rule_set_unref(&c->later);
}

/* The first are in force. */
static void wanted_shift(struct change *c)
{
    change_ruled_unref(&c->wanted[0].ruled);
    c->wanted_count--;
    memmove(&c->wanted[0], &c->wanted[1], c->wanted_count * sizeof c->wanted[0]);
    wanted_add(c);
}

static void take_job_run(struct loop_job *j)
{
    struct change *c = CONTAINER_OF(j, struct change, take_job);
    c->take_why = change_take_run(c, &c->take);
}

/* A rule was paused or replayed since, and its row of then does not know. */
static bool take_is_stale(const struct change *c)
{
    return c->take.steered != atomic_load(&c->steerings) && !c->draining;
}

/* An update that could begin long after somebody asked for it would surprise him. */
mono change_update_deadline(const struct change *c)
{
    return mono_add_ms(clock_mono(c->opts.clock), CHANGE_UPDATE_MS);
}

/* Under the lock. what says in words what does not happen. */
void change_failed(struct change *c, struct change_failure *f, const char *event, const char *what,
                   err why)
{
    mono now = clock_mono(c->opts.clock);
    f->times++;
    if (now.ns < f->silent_until.ns)
        return;
    log_event(c->opts.log, LOG_ERROR, event, LOG_CSTR("why", err_name(why)),
              LOG_INT("times", f->times), LOG_CSTR("what", what),
              LOG_CSTR("then", "it is tried again"));
    f->times = 0;
    f->silent_until = mono_add_ms(now, CHANGE_SILENT_MS);
}

/* The rules of before stay in force until the store takes the others. */
static void take_failed(struct change *c)
{
    /* The store may have counted a taking that failed: those in force hold in it all the same. */
    if (!c->ahead)
        atomic_store(&c->ruled->generation, atomic_load(&c->generations));
    else
        /* The store is ahead: nothing may be routed by the rules of before any more. */
        c->router.caught = c->wanted[0].until; /* these can do no more */
    change_failed(c, &c->fails_take, "change.rules_wait",
                  "the store does not take the new rules: those before stay in force until it does",
                  c->take_why);
    change_arm(c, mono_add_ms(clock_mono(c->opts.clock), CHANGE_AGAIN_MS));
}

/* Loop. Taken, stale or failed. */
static void take_job_done(struct loop_job *j, bool canceled)
{
    struct change *c = CONTAINER_OF(j, struct change, take_job);
    bool took = !canceled && c->take_why == ERR_OK;
    change_lock(c);
    if (took && take_is_stale(c)) {
        c->ahead = true;
        /* Once more, with what the store knows by then. */
        loop_job_start(c->opts.loop, &c->take_job);
        change_unlock(c);
        return;
    }
    c->taking = false;
    if (took) {
        rules_took(c);
        wanted_shift(c);
    } else {
        take_failed(c);
    }
    c->ahead = c->ahead && !took;
    change_take_fini(&c->take);
    if (took) {
        /* Under other rules dead items may have to step aside. */
        change_aside_want(c);
        change_take_begin(c);
    }
    change_router_kick(c);
    for (unsigned i = 0; i < c->runners_count; i++)
        change_runner_fill(c->runners[i]);
    change_busy(c, -1);
    change_unlock(c);
    /* Without the lock: whoever is told may ask the rules. */
    if (took && c->opts.took != NULL)
        c->opts.took(c->opts.ctx);
}

void change_take_begin(struct change *c)
{
    /* The router may have to read up to where these rules begin. */
    if (c->taking || c->wanted_count == 0 || c->draining || !change_router_ends(c))
        return;
    c->take = (struct change_take){ .ruled = change_ruled_ref(c->wanted[0].ruled),
                                    .routed = c->router.head.cursor,
                                    .until = c->wanted[0].until };
    c->taking = true;
    c->take_job = (struct loop_job){ .run = take_job_run, .done = take_job_done };
    change_busy(c, 1);
    loop_job_start(c->opts.loop, &c->take_job);
}

/* A set without rules instead of none: nobody has to ask for NULL. */
static struct rule_set *set_or_none(struct rule_set *rules)
{
    if (rules != NULL)
        return rule_set_ref(rules);
    struct rule_set *none = NULL;
    INVARIANT(rule_set_read(STR("rules: {}"), NULL, NULL, &none) == ERR_OK);
    return none;
}

void change_rules_take(struct change *c, struct rule_set *rules)
{
    MAGIC_CHECK(c, CHANGE_MAGIC);
    change_lock(c);
    /* Rules that came and found no place are replaced by newer ones: they were asked about
     * nothing. */
    rule_set_unref(&c->later);
    c->later = set_or_none(rules);
    wanted_add(c);
    change_take_begin(c);
    change_unlock(c);
}

/* ---- beginning and end ---- */

static struct http_client *client_new(const struct change_opts *o)
{
    const struct http_client_opts opts = { .loop = o->loop,
                                           .clock = o->clock,
                                           .per_host_max = CHANGE_CONNECTIONS_MAX,
                                           .connections_max = CHANGE_CONNECTIONS_MAX,
                                           /* Each run has one request at a time: more than may
                                            * run never wait. */
                                           .waiting_max = RULE_RULES_MAX * 10000,
                                           .connect_timeout_ms = 3000,
                                           .dns_ttl_ms = 30000,
                                           .user_agent = "palimpsest" };
    return http_client_new(&opts);
}

err change_new(const struct change_opts *opts, struct change **out, struct err_note *note)
{
    struct change *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = CHANGE_MAGIC;
    c->opts = *opts;
    c->seed = opts->seed;
    c->armed.ns = INT64_MAX;
    /* The zero instant has the store looked at once. */
    c->next_due = STORE_TIME_ZERO; /* look */
    INVARIANT(pthread_mutex_init(&c->lock, NULL) == 0);
    c->targets = map_new(c->seed);
    c->client = client_new(opts);
    struct rule_set *set = set_or_none(opts->rules), *none = set_or_none(NULL);
    c->take = (struct change_take){ .ruled = change_ruled_new(set) };
    c->ruled = change_ruled_new(none);
    rule_set_unref(&set);
    rule_set_unref(&none);
    /* Before the loop runs: it may wait for the engine. */
    err why = change_take_run(c, &c->take);
    if (why == ERR_OK) {
        rules_took(c);
        change_router_open(c, &c->take.head);
        c->timer = loop_timer_new(opts->loop, timer_fired, c);
    }
    change_take_fini(&c->take);
    if (why != ERR_OK) {
        err_note_set(note, "the rules cannot be taken over: %s", err_name(why));
        /* What was made so far ends on the way of all others. */
        change_stop(c);
        change_free(&c);
    }
    *out = c;
    return why;
}

/* Work begins: until now nothing was routed and nothing ran. */
void change_start(struct change *c)
{
    MAGIC_CHECK(c, CHANGE_MAGIC);
    change_lock(c);
    c->begun = true;
    change_aside_want(c);
    change_router_kick(c);
    change_due_at(c, c->next_due);
    change_timelines_kick(c);
    for (unsigned i = 0; i < c->runners_count; i++)
        change_runner_fill(c->runners[i]);
    change_unlock(c);
}

void change_drain(struct change *c)
{
    change_lock(c);
    /* Each part looks at draining before it begins something. */
    c->draining = true;
    change_unlock(c);
    loop_timer_stop(c->timer);
}

bool change_idle(struct change *c)
{
    change_lock(c);
    bool idle = c->busy == 0;
    change_unlock(c);
    return idle;
}

static void target_free(void *ctx, str key, void *value)
{
    struct change_target *t = value;
    (void)ctx, (void)key;
    free(t->name);
    free(t);
}

/* The lock is taken because others may still steer. */
void change_stop(struct change *c)
{
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CHANGE_MAGIC);
    change_lock(c);
    c->draining = true;
    INVARIANT(c->busy == 0);
    loop_timer_free(&c->timer);
    change_unlock(c);
    http_client_free(&c->client);
}

/* The loop is gone: nobody else is left. */
void change_free(struct change **cp)
{
    struct change *c = *cp;
    *cp = NULL;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CHANGE_MAGIC);
    INVARIANT(c->client == NULL);
    for (unsigned i = 0; i < c->runners_count; i++)
        change_runner_free(&c->runners[i]);
    free(c->runners);
    map_each(c->targets, target_free, NULL);
    map_free(&c->targets);
    while (c->wanted_count > 0)
        change_ruled_unref(&c->wanted[--c->wanted_count].ruled);
    rule_set_unref(&c->later);
    change_ruled_unref(&c->ruled);
    change_timelines_fini(c);
    INVARIANT(pthread_mutex_destroy(&c->lock) == 0);
    c->magic = 0;
    free(c);
}

/* ---- what others ask ---- */

/* A rule of effect purge sends on what wikis ask to purge. */
bool change_relays(struct change *c)
{
    struct change_ruled *r = change_ruled_now(c);
    bool relays = false;
    for (unsigned i = 0; i < rule_set_count(r->set); i++)
        relays |= rule_set_at(r->set, i)->effect == RULE_PURGE;
    change_ruled_unref(&r);
    return relays;
}

/* Those that are asked about what comes from now on. */
static struct change_ruled *ruled_newest(struct change *c)
{
    change_lock(c);
    struct change_ruled *r =
        change_ruled_ref(c->wanted_count > 0 ? c->wanted[c->wanted_count - 1].ruled : c->ruled);
    change_unlock(c);
    return r;
}

unsigned change_reloads(struct change *c)
{
    return atomic_load(&c->reloads);
}

/* Rules that are too young to be in force are asked: the event will be theirs. */
bool change_takes_job(struct change *c, str stream, str domain, str bytes)
{
    struct change_ruled *r = ruled_newest(c);
    struct rule_event *e = change_event_take(r);
    store_time now = clock_store(c->opts.clock);
    const struct rule_given given = {
        .stream = stream, .domain = domain, .bytes = bytes, .at = now, .now = now
    };
    bool takes = false, is_event = rule_event_begin(e, &given) == ERR_OK;
    for (unsigned i = 0; is_event && !takes && i < rule_set_count(r->set); i++) {
        const struct rule *rule = rule_set_at(r->set, i);
        struct rule_verdict v;
        if (rule->effect != RULE_JOB)
            continue;
        rule_match(e, rule, &v);
        /* Too old, or not of the sample: the rule has decided about the job, and nobody else is
         * to run it. */
        takes =
            v.answer == RULE_MATCHES || v.answer == RULE_TOO_OLD || v.answer == RULE_NOT_SAMPLED;
    }
    change_event_give(r, e);
    change_ruled_unref(&r);
    return takes;
}
