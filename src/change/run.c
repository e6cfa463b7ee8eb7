/* run.c - one item is run: loaded, its effect done, and what became of it written down.
 *
 *   LOADING (a job on the pool: the row, its event, is it still wanted?, what is to be sent)
 *     -> CALLING (http, job, purge), PRODUCING, NOTING, or at once (look; nothing to do)
 *     -> SETTLING (an update) -> over
 *   Whoever only waits for a target goes from LOADING or CALLING to over: the row stays as it was.
 *
 * Invariants: 1. An item that runs has its row in state READY; nobody else moves it. 2. What was
 * done and cannot be written down for now, because the disk is full, is tried again, and not done
 * again. */
#include "change/run.h"
#include "change/change_impl.h"

#include "page/look.h"
#include "page/title.h"
#include "rule/edge.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

enum {
    RUN_MAGIC = 0x2fb1c6d4,
    RUN_PRODUCE_MS = 10000,
    RUN_CROWDED_MS = 10000, /* until a target with as many calls as it takes is asked for again, if
                               no call there ends before: limits may have changed */
};

/* ---- loading, on the pool ---- */

static bool domain_has(void *ctx, str domain)
{
    const struct page_service *page = ctx;
    for (unsigned i = 0; i < page->domains_count; i++)
        if (str_eq(page->domains[i].name, domain))
            return true;
    return false;
}

static void result_say(struct change_result *r, const char *text)
{
    (void)snprintf(r->text, sizeof r->text, "%.*s", CHANGE_ERROR_BYTES_MAX, text);
}

static void run_hopeless(struct change_run *run, const char *text)
{
    run->found = RUN_OVER;
    run->result = (struct change_result){ .fate = CHANGE_HOPELESS };
    result_say(&run->result, text);
}

static err run_read(struct change_run *run)
{
    struct change_item_kept item;
    struct engine_view *v = engine_view_begin(run->c->opts.engine);
    err why = change_item_get(v, run->runner->number, run->item.id, &item);
    char *p = NULL;
    if (why == ERR_OK) {
        run->seq = item.row.seq;
        run->taken = item.row.taken;
        run->attempts = item.row.attempts;
        run->hops = change_item_hops(&item.row) + 1;
        run->rooted =
            (item.row.flags & CHANGE_ITEM_ROOTED) != 0 && run->rule->collapse == RULE_COLLAPSE_SHA1;
        run->item.target = item.row.target;
        run->stream = arena_copy(&run->arena, item.row.stream);
        run->domain = arena_copy(&run->arena, item.row.domain);
        p = arena_alloc(&run->arena, item.blob.n + 1);
        if (item.lost)
            why = ERR_CORRUPT;
        else if (p == NULL || run->stream.p == NULL || run->domain.p == NULL)
            why = ERR_LIMIT;
    }
    if (why == ERR_OK && item.blob.n > 0)
        why = engine_blob_read(run->c->opts.engine, &item.blob, 0, item.blob.n, p);
    if (why == ERR_OK && item.blob.n > 0 && XXH3_64bits(p, item.blob.n) != item.blob.hash)
        why = ERR_CORRUPT;
    engine_view_end(&v);
    run->bytes = (str){ .p = p, .n = why == ERR_OK ? item.blob.n : 0 };
    if (why == ERR_OK && item.row.state != CHANGE_READY)
        why = ERR_NOT_FOUND;
    return why;
}

/* The target of a purge: that of the rule's which has the item's hash. */
static bool run_find_target(struct change_run *run)
{
    const struct rule_strs *t = &run->rule->targets;
    for (unsigned i = 0; i < t->count; i++) {
        if (change_target_hash(t->p[i]) != run->item.target)
            continue;
        (void)str_to_cstr(t->p[i], run->target_url, sizeof run->target_url);
        return true;
    }
    return false;
}

static void run_prepare_call(struct change_run *run, struct rule_event *e,
                             const struct rule_given *given, const struct rule_verdict *v)
{
    const struct rule_domains domains = { .has = domain_has, .ctx = unconst(run->c->opts.page) };
    const struct change_making m = { .rule = run->rule,
                                     .given = given,
                                     .event = e,
                                     .verdict = v,
                                     .domains = &domains,
                                     .hops = run->hops,
                                     .target = str_of(run->target_url) };
    struct err_note note;
    err why = change_requests_make(&m, &run->arena, &run->requests, &note);
    run->found = run->requests.count == 0 ? RUN_OVER : RUN_CALLS;
    if (why == ERR_OK && run->found == RUN_OVER)
        run->result = (struct change_result){ .fate = CHANGE_IGNORED };
    if (why != ERR_OK)
        run_hopeless(run, why == ERR_LIMIT ? "its requests take too much memory" : note.text);
}

/* What caches still have of a page so long ago has ended there by itself. */
static bool run_is_late(const struct change_run *run, const struct rule_given *given)
{
    store_time newest = { .ns = (int64_t)run->seq * NS_PER_US };
    return store_time_before(store_time_add(newest, rule_purge_ttl_ns(run->rule)), given->now);
}

static void run_prepare(struct change_run *run, struct rule_event *e,
                        const struct rule_given *given)
{
    struct rule_verdict v = { .answer = RULE_MATCHES };
    bool relay = run->rule->effect == RULE_PURGE && str_eq(run->stream, STR(CHANGE_PURGES));
    if (run->rule->effect == RULE_PURGE && run_is_late(run, given)) {
        run->found = RUN_UNWANTED;
        return;
    }
    if (rule_event_begin(e, given) != ERR_OK) {
        run_hopeless(run, "its event is no JSON object");
        return;
    }
    if (!relay)
        rule_match(e, run->rule, &v);
    if (!relay && v.answer != RULE_MATCHES) {
        run->found = RUN_UNWANTED;
        return;
    }
    run->title = arena_copy(&run->arena, rule_event_title(e));
    if (run->rooted && change_root_is_old(run->c->opts.engine, run->runner->number, e, given))
        run->found = RUN_UNWANTED;
    else if (run->rule->effect == RULE_LOOK)
        run->found = RUN_LOOKS;
    else if (run->rule->effect == RULE_PRODUCE)
        run->found = RUN_PRODUCES;
    else if (run->rule->effect == RULE_TIMELINE)
        run->found = change_run_note_read(run, e) ? RUN_NOTES : RUN_UNWANTED;
    else if (run->rule->effect == RULE_DROP ||
             (run->rule->effect == RULE_PURGE && !run_find_target(run)))
        run->found = RUN_UNWANTED; /* it was made by a rule with another effect, or target */
    else
        run_prepare_call(run, e, given, &v);
}

static void run_load(struct loop_job *j)
{
    struct change_run *run = CONTAINER_OF(j, struct change_run, job);
    MAGIC_CHECK(run, RUN_MAGIC);
    run->why = run_read(run);
    run->found = RUN_OVER;
    if (run->why == ERR_NOT_FOUND)
        run->found = RUN_GONE;
    if (run->why == ERR_CORRUPT || run->why == ERR_LIMIT)
        run_hopeless(run, run->why == ERR_LIMIT ? "its event takes too much memory"
                                                : "its event is damaged in the store");
    if (run->why != ERR_OK)
        return;
    struct rule_event *e = change_event_take(run->ruled);
    const struct rule_given given = { .stream = run->stream,
                                      .domain = run->domain,
                                      .bytes = run->bytes,
                                      .at = run->taken,
                                      .now = clock_store(run->c->opts.clock) };
    run_prepare(run, e, &given);
    change_event_give(run->ruled, e);
}

/* ---- the end ---- */

static void run_free(struct change_run *run)
{
    queue_unref(&run->queue);
    change_ruled_unref(&run->ruled);
    arena_fini(&run->arena);
    loop_timer_free(&run->again);
    run->magic = 0;
    free(run);
}

/* Under the lock: the run is over, whether or not its row is. */
static void run_over(struct change_run *run)
{
    struct change *c = run->c;
    struct change_runner *r = run->runner;
    list_remove(&run->node);
    r->running--;
    c->running--;
    c->run_bytes -= run->item.bytes;
    for (unsigned by = 0; by < CHANGE_BYS; by++)
        change_running_count(r, run->item.keys[by], -1);
    if (run->target != NULL) {
        static const struct change_result untold = { .fate = CHANGE_STOPPED };
        change_target_end(c, run->target, run->pauses, run->called ? &run->result : &untold);
    }
    change_busy(c, -1);
    run_free(run);
    if (r->limited || r->pick != NULL) /* a look that is under way takes it for running */
        r->more = true;
    change_runner_fill(r);
    if (c->crowded || c->lacking)
        change_crowd_end(c);
}

/* It stays as it is, and its lane waits for the target: until then, or, if that is crowded, until a
 * call there ends. Under the lock. */
static void run_put_off(struct change_run *run, mono until, const struct change_target *crowded)
{
    struct change_runner *r = run->runner;
    if (!run->called)
        change_rate_return(r);
    change_lane_block(r, &run->item.lane, until);
    if (crowded != NULL)
        change_lane_crowd(r, &run->item.lane, crowded);
    change_runner_wake(r);
    if (run->target == NULL)
        run->result = (struct change_result){ .fate = CHANGE_STOPPED };
    run_over(run);
}

/* ---- settling ---- */

static err settle_decide(struct engine_txn *t, void *ctx)
{
    struct change_run *run = ctx;
    change_edit_begin(&run->edit, t);
    err why = change_item_settle(&run->edit, &run->settle, &run->died);
    if (why == ERR_OK && run->found == RUN_NOTES)
        why = change_run_note_here(run, t);
    return why == ERR_OK ? change_edit_end(&run->edit) : why;
}

static void settle_done(void *ctx, err why)
{
    struct change_run *run = ctx;
    run->why = why;
    home_post(loop_home(run->c->opts.loop), &run->task);
}

static void settle_submit(struct change_run *run)
{
    run->update = (struct engine_update){
        .decide = settle_decide, .done = settle_done, .ctx = run, .frees = true
    };
    engine_submit(run->c->opts.engine, &run->update);
}

static void settle_again(void *ctx)
{
    settle_submit(ctx);
}

static void run_settled(struct task *t)
{
    struct change_run *run = CONTAINER_OF(t, struct change_run, task);
    struct change *c = run->c;
    change_lock(c);
    struct change_runner *r = run->runner;
    bool ends = c->draining && run->why == ERR_FULL; /* it is done again after the next start */
    if (run->why != ERR_OK && run->why != ERR_SHUTDOWN && run->why != ERR_CORRUPT && !ends) {
        if (run->again == NULL)
            run->again = loop_timer_new(c->opts.loop, settle_again, run);
        loop_timer_start(run->again, CHANGE_AGAIN_MS, 0);
        change_unlock(c);
        return;
    }
    if (run->why == ERR_CORRUPT)
        change_runner_error(r, STR("the rows of an item are damaged"));
    r->died += run->died;
    change_due_at(c, run->edit.next_due);
    bool woke = run->edit.woke;
    if (run->target == NULL) /* it was let in, maybe, and has left the place to another */
        change_lane_admit(r, NULL);
    if (run->died && run->ruled != c->ruled)
        change_aside_want(c); /* it may hold up others, and the rule does not want that any more */
    run_over(run); /* first: a look passes over what runs, and it may be this one that is ready */
    if (woke)
        change_runner_wake(r);
    change_unlock(c);
}

/* A cache may have fetched the old page between the change and the purge, or its own backend's
 * copy: so it is told again. Not of a render that is stored: then there is nothing old any more. */
static enum change_settled settled_well(const struct change_run *run)
{
    bool again = run->rule->effect == RULE_PURGE && run->called && run->rule->rebound_ns > 0 &&
                 !str_eq(run->stream, STR("palimpsest.render"));
    return again ? SETTLED_AGAIN : SETTLED_DONE;
}

static void figures_count(struct change_runner *r, const struct change_run *run)
{
    switch (run->result.fate) {
    case CHANGE_DONE:
        r->done += run->found != RUN_UNWANTED && !run->note.had;
        r->collapsed += run->note.had;
        r->dropped += run->found == RUN_UNWANTED;
        break;
    case CHANGE_IGNORED:
        r->ignored++;
        break;
    case CHANGE_FAILED:
    case CHANGE_HOPELESS:
        r->failed++;
        change_runner_error(r, str_of(run->result.text));
        break;
    case CHANGE_PAUSED:
    case CHANGE_STOPPED:
    case CHANGE_FATES:
        break;
    }
}

/* What became of it is known. Under the lock. */
void change_run_settle(struct change_run *run)
{
    struct change *c = run->c;
    const struct rule *rule = run->rule;
    figures_count(run->runner, run);
    if (run->result.fate == CHANGE_STOPPED) {
        run_over(run);
        return;
    }
    if (run->result.fate == CHANGE_PAUSED) {
        mono until = { .ns = 0 };
        change_runner_error(run->runner, str_of(run->result.text));
        if (run->target != NULL) {
            struct change_target *t = run->target;
            run->target = NULL;
            change_target_end(c, t, run->pauses, &run->result);
            (void)change_target_takes(c, t, &until);
        } else {
            until = mono_add_ms(clock_mono(c->opts.clock), CHANGE_PAUSE_MS);
        }
        run_put_off(run, until, NULL);
        return;
    }
    bool failed = run->result.fate == CHANGE_FAILED || run->result.fate == CHANGE_HOPELESS;
    run->settle = (struct change_settle){
        .rule = run->runner->number,
        .id = run->item.id,
        .seq = run->seq,
        .how = !failed                               ? settled_well(run)
               : run->result.fate == CHANGE_HOPELESS ? SETTLED_DEAD
                                                     : SETTLED_FAILED,
        .holds = rule->on_failure == RULE_FAILURE_HOLD,
        .collapses = rule->collapse != RULE_COLLAPSE_NONE,
        .retries = (unsigned)rule->retries,
        .again_at =
            store_time_add(clock_store(c->opts.clock),
                           failed ? change_backoff_ns(rule, run->attempts) : rule->rebound_ns),
        .remembers = run->called && rule->collapse == RULE_COLLAPSE_SHA1,
        .began = run->began,
        .error = str_of(run->result.text)
    };
    settle_submit(run);
}

/* ---- effects, on the loop ---- */

static void run_at(struct change_run *run, struct change_target *t)
{
    run->target = t;
    change_target_begin(run->c, t);
    run->pauses = t->pauses;
}

static void call_over(struct change_call *call)
{
    struct change_run *run = call->ctx;
    struct change *c = run->c;
    change_lock(c);
    run->result = call->result;
    change_run_settle(run);
    change_unlock(c);
}

static void run_call(struct change_run *run)
{
    struct change *c = run->c;
    mono until;
    if (run->target == NULL) {
        struct change_target *t = change_target_of(c, run->requests.target);
        if (t == NULL || !change_target_takes(c, t, &until)) {
            if (t == NULL)
                until = mono_add_ms(clock_mono(c->opts.clock), CHANGE_PAUSE_MS);
            run_put_off(run, until, NULL);
            return;
        }
        int64_t limit = change_limit_of(run->rule, RULE_BY_TARGET, str_of(run->target_url),
                                        run->requests.target);
        if (limit > 0 && t->running >= limit) {
            run_put_off(run, mono_add_ms(clock_mono(c->opts.clock), RUN_CROWDED_MS), t);
            return;
        }
        run_at(run, t);
    }
    run->call = (struct change_call){ .client = c->client,
                                      .loop = c->opts.loop,
                                      .clock = c->opts.clock,
                                      .rule = run->rule,
                                      .requests = &run->requests,
                                      .arena = &run->arena,
                                      .done = call_over,
                                      .ctx = run };
    run->called = true;
    run->began = clock_store(c->opts.clock);
    change_call_start(&run->call);
}

static void produce_over(struct queue_produce *p, err why)
{
    struct change_run *run = CONTAINER_OF(p, struct change_run, produce);
    struct change *c = run->c;
    bool waits = why == ERR_TIMEOUT || why == ERR_LIMIT || why == ERR_UNAVAILABLE;
    change_lock(c);
    run->result.fate = why == ERR_OK || why == ERR_PRECONDITION ? CHANGE_DONE
                       : why == ERR_SHUTDOWN                    ? CHANGE_STOPPED
                       : waits                                  ? CHANGE_PAUSED
                                                                : CHANGE_FAILED;
    if (run->result.fate != CHANGE_DONE)
        result_say(&run->result, p->note.text);
    change_run_settle(run);
    change_unlock(c);
}

/* A repetition after a kill has the key of the first time: the queue knows it for its window. */
static void run_produce(struct change_run *run)
{
    struct change *c = run->c;
    struct queues *qs = *c->opts.queues;
    struct err_note note;
    err why = queues_find(qs, run->rule->queue, &run->queue, &note);
    str key = arena_printf(&run->arena, "change:%u:%llu:%llu", run->runner->number,
                           (unsigned long long)run->item.id, (unsigned long long)run->seq);
    str encoding = run->hops == 1 /* a consumer that sends events passes the others on */
                       ? STR("application/json")
                       : arena_printf(&run->arena, "application/json; hops=%u", run->hops);
    if (why == ERR_OK && (key.p == NULL || encoding.p == NULL))
        why = ERR_LIMIT;
    if (why == ERR_OK) {
        run->produced =
            (struct queue_item_new){ .encoding = encoding,
                                     .kind = run->stream,
                                     .reference = str_take(run->title, QUEUE_FIELD_BYTES_MAX),
                                     .bytes = run->bytes };
        run->produce = (struct queue_produce){ .queue = run->queue,
                                               .items = &run->produced,
                                               .items_count = 1,
                                               .deadline = mono_add_ms(clock_mono(c->opts.clock),
                                                                       RUN_PRODUCE_MS),
                                               .idempotency_key = key,
                                               .arena = &run->arena,
                                               .home = loop_home(c->opts.loop),
                                               .done = produce_over };
        why = queue_produce_start(&run->produce);
        note = run->produce.note;
    }
    if (why == ERR_OK)
        return;
    run->result.fate = why == ERR_SHUTDOWN ? CHANGE_STOPPED
                       : why == ERR_BAD    ? CHANGE_HOPELESS
                                           : CHANGE_PAUSED;
    result_say(&run->result, note.text);
    change_run_settle(run);
}

static void run_look(struct change_run *run)
{
    const struct page_service *page = run->c->opts.page;
    for (unsigned i = 0; i < page->domains_count; i++)
        if (str_eq(page->domains[i].name, run->domain))
            page_look_written(page, &run->arena, &page->domains[i], run->title, NULL);
    change_run_settle(run);
}

static void run_loaded(struct loop_job *j, bool canceled)
{
    struct change_run *run = CONTAINER_OF(j, struct change_run, job);
    struct change *c = run->c;
    change_lock(c);
    if (canceled ||
        (run->why != ERR_OK && run->found == RUN_OVER && run->result.fate != CHANGE_HOPELESS)) {
        /* the store could not be read: later */
        run->result.fate = CHANGE_STOPPED;
        change_lane_block(run->runner, &run->item.lane,
                          mono_add_ms(clock_mono(c->opts.clock), CHANGE_AGAIN_MS));
        change_runner_wake(run->runner);
        run_over(run);
    } else if (run->found == RUN_GONE) {
        run->result.fate = CHANGE_STOPPED;
        run_over(run);
    } else if (run->found == RUN_CALLS) {
        run_call(run);
    } else if (run->found == RUN_PRODUCES) {
        run_produce(run);
    } else if (run->found == RUN_NOTES) {
        change_run_note(run);
    } else if (run->found == RUN_LOOKS) {
        run_look(run);
    } else {
        change_run_settle(run);
    }
    change_unlock(c);
}

void change_run_start(struct change_runner *r, const struct change_candidate *item,
                      struct change_target *target, str target_url)
{
    struct change *c = r->change;
    struct change_run *run = calloc(1, sizeof *run);
    INVARIANT(run != NULL);
    run->magic = RUN_MAGIC;
    run->c = c;
    run->runner = r;
    run->rule = r->rule;
    run->ruled = change_ruled_ref(c->ruled);
    run->item = *item;
    run->task.run = run_settled;
    run->job = (struct loop_job){ .run = run_load, .done = run_loaded };
    (void)str_to_cstr(target_url, run->target_url, sizeof run->target_url);
    arena_init(&run->arena, CHANGE_ARENA_BYTES_MAX);
    list_append(&r->runs, &run->node);
    r->running++;
    c->running++;
    c->run_bytes += item->bytes;
    for (unsigned by = 0; by < CHANGE_BYS; by++)
        change_running_count(r, item->keys[by], 1);
    if (target != NULL)
        run_at(run, target);
    change_busy(c, 1);
    loop_job_start(c->opts.loop, &run->job);
}

void change_runs_look(const struct change_runner *r, change_run_look_fn *look, void *ctx)
{
    for (struct list *n = r->runs.next; n != &r->runs; n = n->next) {
        const struct change_run *run = CONTAINER_OF(n, struct change_run, node);
        look(ctx, run->item.id, run->target);
    }
}

void change_runs_each(const struct change_runner *r,
                      void (*each)(struct change_pick *p, const struct change_candidate *c),
                      struct change_pick *p)
{
    for (struct list *n = r->runs.next; n != &r->runs; n = n->next)
        each(p, &CONTAINER_OF(n, struct change_run, node)->item);
}
