/* route.c - what each rule wants done about one event, as items to be.
 *
 * Pure but for the clock it is handed. The lane of an item says whose turn it takes; its order says
 * what it follows, or what it is collapsed with. Both are digests of their parts, with a word of
 * their own before them. */
#include "change/change_impl.h"

#include "base/date.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ROUTES_MAX = 512 }; /* of a batch, before its last event */
_Static_assert((int)CHANGE_TARGETS_MAX *(int)CHANGE_OWN_BYTES_MAX <= (int)EVENT_BYTES_MAX,
               "items that keep a small event write less than a large one that they share");
_Static_assert((ROUTES_MAX + (int)CHANGE_TARGETS_MAX) * 6 < (int)ENGINE_UPDATE_ROWS_MAX,
               "the rows of a batch go into an update");

static str job_type(str stream)
{
    str prefix = STR("mediawiki.job.");
    return str_starts(stream, prefix) ? str_skip(stream, prefix.n) : stream;
}

static uint64_t target_hash(str target)
{
    uint64_t h = XXH3_64bits(target.p, target.n);
    return h == 0 ? 1 : h; /* 0 is none */
}

uint64_t change_target_hash(str target)
{
    return target_hash(target);
}

/* ---- one item ---- */

static struct change_route *route_add(struct change_batch *b)
{
    if (b->count == b->size) {
        b->size = b->size == 0 ? 64 : 2 * b->size;
        b->routes = realloc(b->routes, b->size * sizeof *b->routes);
        INVARIANT(b->routes != NULL);
    }
    return &b->routes[b->count++];
}

static void noted_add(struct change_batch *b, const struct change_noted *n)
{
    if (b->noted_count == b->noted_size) {
        b->noted_size = b->noted_size == 0 ? 64 : 2 * b->noted_size;
        b->noted = realloc(b->noted, b->noted_size * sizeof *b->noted);
        INVARIANT(b->noted != NULL);
    }
    b->noted[b->noted_count++] = *n;
}

struct routing {
    struct change_batch *batch;
    const struct event_seen *seen;
    const struct rule *rule;
    str stream, domain, title, bytes; /* kept with the batch */
};

/* What all items of a rule and event have. */
static struct change_route *route_begin(const struct routing *g, unsigned sub)
{
    struct change_route *r = route_add(g->batch);
    *r = (struct change_route){ .index = g->rule->index,
                                .rule = g->batch->ruled->rules[g->rule->index].number,
                                .id = g->seen->seq * CHANGE_SUBS + sub,
                                .seq = g->seen->seq,
                                .taken = g->seen->at,
                                .due = store_time_add(g->seen->at, g->rule->delay_ns),
                                .stream = g->stream,
                                .domain = g->domain,
                                .type = STR(""),
                                .bytes = g->bytes,
                                .hops = g->seen->hops < CHANGE_HOPS_MAX ? g->seen->hops
                                                                        : CHANGE_HOPS_MAX };
    return r;
}

static void lane_set(struct change_route *r, str what, str target)
{
    const str parts[] = { STR("lane"), r->domain, what, target };
    r->lane = change_digest_of(parts, COUNT_OF(parts));
}

static void order_set(struct change_route *r, const char *kind, str what, str target)
{
    const str parts[] = { str_of(kind), r->domain, what, target };
    r->order = change_digest_of(parts, COUNT_OF(parts));
}

/* ---- by effect ---- */

/* One item for each title; false: the event names none. */
static bool route_look(const struct routing *g)
{
    if (g->title.n == 0)
        return false;
    struct change_route *r = route_begin(g, 0);
    r->collapses = true;
    order_set(r, "title", g->title, STR(""));
    lane_set(r, STR(""), STR(""));
    return true;
}

/* One item for each target and title, or URL that is relayed. */
static bool route_purge(const struct routing *g)
{
    str uri = str_eq(g->stream, STR(CHANGE_PURGES))
                  ? rule_event_text(g->batch->event, RULE_TEXT_URI)
                  : STR("");
    for (unsigned i = 0; i < g->rule->targets.count; i++) {
        str target = g->rule->targets.p[i];
        INVARIANT(i < CHANGE_SUBS);
        struct change_route *r = route_begin(g, i);
        r->collapses = true;
        r->target = target_hash(target);
        if (uri.n > 0)
            order_set(r, "uri", uri, target);
        else
            order_set(r, "title", g->title.n > 0 ? g->title : g->bytes, target);
        lane_set(r, STR(""), target);
    }
    return true;
}

/* For the store an entry in the batch, which its update writes: no item. For Redis an item, which
 * waits while that is away. What is sampled away is none. */
static bool route_timeline(const struct routing *g)
{
    struct change_batch *b = g->batch;
    struct change_seen_by *by = &b->by[g->rule->index];
    struct timeline_where w;
    struct timeline_entry e;
    enum change_noting is =
        change_timeline_read(b->change->opts.page, b->event, g->domain, g->seen->at, &w, &e);
    by->ignored += is == NOTING_NOTHING;
    if (is != NOTING_ENTRY)
        return is == NOTING_NOTHING;
    if (!change_sampler_keeps(b->change, b, b->ruled->rules[g->rule->index].number, &w, &e)) {
        by->sampled++;
        return true;
    }
    if (g->rule->keep == RULE_KEEP_REDIS) {
        lane_set(route_begin(g, 0), STR(""), STR(""));
        return true;
    }
    w.title = arena_copy(&b->arena, w.title);
    if (w.title.p == NULL)
        return false;
    noted_add(b, &(struct change_noted){ .index = g->rule->index, .where = w, .entry = e });
    return true;
}

/* One item for each event, in the order of its title. */
static bool route_each(const struct routing *g)
{
    struct change_route *r = route_begin(g, 0);
    if (g->title.n > 0)
        order_set(r, "title", g->title, STR(""));
    lane_set(r, STR(""), STR(""));
    return true;
}

/* Jobs that were made for the same change have the same root; those of an older one are needless.
 * False: it has none. */
static bool root_of(struct rule_event *e, str stream, str domain, struct change_digest *root,
                    store_time *at)
{
    str signature = rule_event_text(e, RULE_TEXT_ROOT_SIGNATURE);
    if (signature.n == 0 || !date_parse_any(rule_event_text(e, RULE_TEXT_ROOT_DT), &at->ns))
        return false;
    const str parts[] = { STR("root"), domain, str_take(job_type(stream), CHANGE_TYPE_BYTES_MAX),
                          signature };
    *root = change_digest_of(parts, COUNT_OF(parts));
    return true;
}

bool change_root_is_old(struct engine *engine, uint32_t rule, struct rule_event *e,
                        const struct rule_given *job)
{
    struct change_digest root;
    store_time at, newest, until;
    if (!root_of(e, job->stream, job->domain, &root, &at))
        return false;
    struct engine_view *v = engine_view_begin(engine);
    err why = change_memory_get(v, rule, &root, &newest, &until);
    engine_view_end(&v);
    return why == ERR_OK && store_time_before(at, newest);
}

static bool route_job(const struct routing *g)
{
    struct rule_event *e = g->batch->event;
    struct change_route *r = route_begin(g, 0);
    str sha1 = rule_event_text(e, RULE_TEXT_SHA1),
        until = rule_event_text(e, RULE_TEXT_DELAY_UNTIL);
    int64_t ns;
    r->type = str_take(job_type(g->stream), CHANGE_TYPE_BYTES_MAX);
    if (g->rule->collapse == RULE_COLLAPSE_SHA1 && sha1.n > 0) {
        r->collapses = true;
        r->made = g->batch->is_replay ? STORE_TIME_ZERO : g->seen->at; /* done anew, if asked so */
        order_set(r, "sha1", r->type, sha1);
    }
    if (g->rule->collapse == RULE_COLLAPSE_SHA1 && !g->batch->is_replay)
        (void)root_of(e, g->stream, r->domain, &r->root, &r->root_at); /* or it stays without */
    if (date_parse_told(until, &ns) && ns > r->due.ns)
        r->due = (store_time){ .ns = ns };
    lane_set(r, r->type, STR(""));
    return true;
}

static bool route_rule(const struct routing *g)
{
    switch (g->rule->effect) {
    case RULE_LOOK:
        return route_look(g);
    case RULE_PURGE:
        return route_purge(g);
    case RULE_HTTP:
    case RULE_PRODUCE:
        return route_each(g);
    case RULE_JOB:
        return route_job(g);
    case RULE_TIMELINE:
        return route_timeline(g);
    case RULE_DROP:
    case RULE_EFFECTS:
        break;
    }
    return true;
}

/* ---- one event ---- */

/* Each rule that relays is asked for nothing: a wiki's own PURGE goes to all its targets. */
static bool rule_wants(const struct change_batch *b, const struct rule *r, str stream,
                       struct change_seen_by *by)
{
    struct rule_verdict v;
    if (r->effect == RULE_PURGE && str_eq(stream, STR(CHANGE_PURGES)))
        return true;
    rule_match(b->event, r, &v);
    by->too_old += v.answer == RULE_TOO_OLD;
    by->refused += v.answer == RULE_OPEN;
    return v.answer == RULE_MATCHES;
}

bool change_rule_loops(const struct rule *r, unsigned hops)
{
    return (r->effect == RULE_HTTP || r->effect == RULE_PRODUCE) && hops >= CHANGE_HOPS_MAX;
}

static bool routing_keep(struct routing *g, str bytes)
{
    struct arena *a = &g->batch->arena;
    if (g->bytes.p != NULL)
        return true;
    g->stream = arena_copy(a, g->seen->stream);
    g->domain = arena_copy(a, g->seen->domain);
    g->bytes = arena_copy(a, bytes);
    return g->stream.p != NULL && g->domain.p != NULL && g->bytes.p != NULL;
}

err change_route_event(struct change_batch *b, const struct event_seen *e, str bytes)
{
    struct routing g = { .batch = b, .seen = e, .stream = e->stream, .domain = e->domain };
    const struct rule_given given = { .stream = e->stream,
                                      .domain = e->domain,
                                      .bytes = bytes,
                                      .at = e->at,
                                      .now = clock_store(b->change->opts.clock) };
    if (rule_event_begin(b->event, &given) != ERR_OK)
        return ERR_OK; /* nobody can be asked about it */
    unsigned count = rule_set_count(b->ruled->set), before = b->count;
    for (unsigned i = b->is_replay ? b->rule : 0; i < count; i++) {
        g.rule = rule_set_at(b->ruled->set, i);
        bool asked = b->is_replay ? i == b->rule : e->seq > b->ruled->rules[i].from;
        if (!asked || !rule_wants(b, g.rule, e->stream, &b->by[i]))
            continue;
        if (change_rule_loops(g.rule, e->hops)) {
            b->by[i].looped++;
            continue;
        }
        if (!routing_keep(&g, bytes))
            return ERR_LIMIT;
        g.title = rule_event_title(b->event);
        b->by[i].matched++;
        b->by[i].refused += !route_rule(&g);
    }
    unsigned made = b->count - before;
    if (made > 0)
        b->bytes += change_bytes_shared(bytes) ? bytes.n : made * bytes.n;
    INVARIANT(b->bytes <= CHANGE_UPDATE_BYTES_MAX);
    b->full = b->count >= ROUTES_MAX || b->noted_count >= ROUTES_MAX ||
              b->bytes > CHANGE_UPDATE_BYTES_MAX - EVENT_BYTES_MAX;
    return ERR_OK;
}
