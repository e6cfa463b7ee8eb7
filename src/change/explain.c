/* explain.c - what rules say to events that the log has, without doing anything about it. Pool
 * threads. */
#include "change/explain.h"

#include "change/change_impl.h"

#include <stdlib.h>
#include <string.h>

/* An event, and what is said about it. */
enum { EXPLAIN_ARENA_BYTES_MAX = EVENT_BYTES_MAX + (1 << 20) };

/* ---- one event ---- */

/* One explanation under way. */
struct explaining {
    struct change *c;
    struct arena *a;
    struct change_explanation *out;
    uint64_t seq;
    bool found, full;
    struct change_ruled *ruled;
    struct event_seen seen; /* its texts are in out */
};

/* The log hands over one event at most; it may be another one, when that number is gone. */
static void explain_take(void *ctx, const struct event_seen *e, str bytes)
{
    struct explaining *g = ctx;
    if (g->found || e->seq != g->seq)
        return;
    g->found = true;
    g->out->stream = arena_copy(g->a, e->stream);
    g->out->domain = arena_copy(g->a, e->domain);
    g->out->bytes = arena_copy(g->a, bytes);
    g->out->taken = e->at;
    g->seen = *e;
    g->seen.stream = g->out->stream;
    g->seen.domain = g->out->domain;
    /* The reading cannot fail here: change_explain looks. */
    g->full = g->out->stream.p == NULL || g->out->domain.p == NULL || g->out->bytes.p == NULL;
}

/* The item that a route of the event led to, or was collapsed with; ERR_NOT_FOUND: it is done, or
 * was dropped. *into: the newer event that it is for; 0: none. */
static err route_item(struct engine_view *v, const struct change_route *r, uint64_t *id,
                      uint64_t *into)
{
    struct change_item_kept item;
    err why = ERR_OK;
    *id = r->id;
    if (r->collapses)
        why = change_order_first(v, r->rule, &r->order, id);
    if (why == ERR_OK)
        why = change_item_get(v, r->rule, *id, &item);
    if (why == ERR_OK && item.row.seq < r->seq)
        return ERR_NOT_FOUND; /* it was made for an older one, in a replay */
    *into = why == ERR_OK && item.row.seq > r->seq ? item.row.seq : 0;
    return why;
}

static err routes_look(struct explaining *g, const struct change_batch *b, uint64_t *id,
                       uint64_t *into)
{
    /* The rows as they are now; the item may end a moment later. */
    struct engine_view *v = engine_view_begin(g->c->opts.engine);
    err why = ERR_NOT_FOUND;
    for (unsigned i = 0; i < b->count && why == ERR_NOT_FOUND; i++)
        why = route_item(v, &b->routes[i], id, into);
    engine_view_end(&v);
    return why;
}

/* What the router would make of the event for that rule is looked for. */
static err explain_find(struct explaining *g, struct rule_event *e, const struct rule *r,
                        uint64_t *id, uint64_t *into)
{
    /* As a replay of one rule: nothing is written, and no figure of the router changes. */
    struct change_batch b = {
        .ruled = g->ruled, .change = g->c, .event = e, .is_replay = true, .rule = r->index
    };
    arena_init(&b.arena, EXPLAIN_ARENA_BYTES_MAX);
    b.by = calloc(rule_set_count(g->ruled->set) + 1, sizeof *b.by);
    INVARIANT(b.by != NULL);
    err why = change_route_event(&b, &g->seen, g->out->bytes);
    if (why == ERR_OK)
        why = routes_look(g, &b, id, into);
    arena_fini(&b.arena);
    free(b.by);
    free(b.routes);
    return why;
}

/* One that was made for the event when the rule was another one. */
static err explain_number(struct explaining *g, str rule, struct change_explained *x)
{
    /* Ids of one event follow each other. */
    struct change_listing l = {
        .rule = rule, .state = -1, .pivot = g->seq * CHANGE_SUBS, .limit = 1
    };
    struct err_note note;
    err why = change_list(g->c, &l, g->a, &note);
    if (why == ERR_OK && l.count > 0 && l.items[0].id < (g->seq + 1) * CHANGE_SUBS)
        x->item = &l.items[0];
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* The item of that rule that stands for the event. That of a timeline is found by the event's
 * number: its samplers are the router's, and what is routed takes a token. */
static err explain_item(struct explaining *g, struct rule_event *e, const struct rule *r,
                        struct change_explained *x)
{
    struct err_note note;
    uint64_t id, into = 0;
    err why = r->effect == RULE_TIMELINE ? ERR_NOT_FOUND : explain_find(g, e, r, &id, &into);
    /* Not found by what the rule makes of the event now: by its number, then. */
    if (why == ERR_NOT_FOUND)
        return explain_number(g, r->name, x);
    struct change_item *item = arena_calloc(g->a, 1, sizeof *item);
    if (why == ERR_OK && item == NULL)
        why = ERR_LIMIT;
    if (why == ERR_OK)
        why = change_find(g->c, r->name, id, g->a, item, &note);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why; /* it has just gone */
    item->bytes = STR("");                          /* out has them, or it is of another event */
    x->item = item;
    x->collapsed_into = into;
    return ERR_OK;
}

static str explain_timeline(const struct explaining *g, struct rule_event *e)
{
    struct timeline_where w;
    struct timeline_entry entry;
    switch (change_timeline_read(g->c->opts.page, e, g->out->domain, g->out->taken, &w, &entry)) {
    case NOTING_NOTHING:
        return STR("the event says that nothing was superseded: no entry is noted");
    case NOTING_REFUSED:
        return STR("no entry can be noted: its domain is not configured, or its title, revisions "
                   "or tid make none");
    case NOTING_ENTRY:
        break;
    }
    return g->out->routed ? STR("its effect is timeline: timeline ls shows its entry, if it was "
                                "not sampled away and is not too old")
                          : STR("the rules have not seen it yet");
}

/* Of an event that matches and has no item: what became of it. */
static str explain_gone(const struct explaining *g, struct rule_event *e, const struct rule *r)
{
    if (r->effect == RULE_LOOK && rule_event_title(e).n == 0)
        return STR("the event has no title: nothing is looked at");
    if (r->effect == RULE_DROP)
        return STR("its effect is drop: nothing is done");
    if (r->effect == RULE_TIMELINE)
        return explain_timeline(g, e);
    return g->out->routed ? STR("no item is left: it was done, ignored or dropped")
                          : STR("the rules have not seen it yet");
}

static err explain_rule(struct explaining *g, struct rule_event *e, const struct rule *r,
                        uint64_t from, struct change_explained *x)
{
    struct rule_verdict v;
    struct err_note why_not;
    x->rule = arena_copy(g->a, r->name);
    x->why = STR("");
    /* A relay is for every rule of effect purge: its conditions are not asked. */
    bool relay = r->effect == RULE_PURGE && str_eq(g->out->stream, STR(CHANGE_PURGES));
    if (!relay)
        rule_match(e, r, &v);
    x->matches = relay || v.answer == RULE_MATCHES;
    if (!x->matches) {
        rule_why(e, r, &v, &why_not);
        x->why = arena_copy(g->a, str_of(why_not.text));
    } else if (change_rule_loops(r, g->seen.hops)) {
        x->why = STR("as many effects of rules led to it as may: rules feed each other");
    } else if (g->seq <= from) {
        x->why = STR("the rule is newer than the event: change replay asks it anew");
    }
    if (x->rule.p == NULL || x->why.p == NULL)
        return ERR_LIMIT;
    err why = x->matches ? explain_item(g, e, r, x) : ERR_OK;
    if (why == ERR_OK && x->matches && x->item == NULL && x->why.n == 0)
        x->why = explain_gone(g, e, r);
    return why;
}

static err explain_rules(struct explaining *g, struct change_ruled *ruled)
{
    unsigned count = rule_set_count(ruled->set);
    const struct rule_given given = { .stream = g->out->stream,
                                      .domain = g->out->domain,
                                      .bytes = g->out->bytes,
                                      .at = g->out->taken,
                                      .now = clock_store(g->c->opts.clock) };
    g->out->rules = arena_calloc(g->a, count + 1, sizeof *g->out->rules);
    if (g->out->rules == NULL)
        return ERR_LIMIT;
    struct rule_event *e = change_event_take(ruled);
    err why = ERR_OK;
    /* Bytes that are no event match no rule. */
    bool is_event = rule_event_begin(e, &given) == ERR_OK;
    for (unsigned i = 0; i < count && is_event && why == ERR_OK; i++)
        why = explain_rule(g, e, rule_set_at(ruled->set, i), ruled->rules[i].from,
                           &g->out->rules[g->out->count++]);
    change_event_give(ruled, e);
    return why;
}

err change_explain(struct change *c, uint64_t seq, struct arena *a, struct change_explanation *out,
                   struct err_note *note)
{
    /* All of it is in the arena; count says how far it came. */
    *out = (struct change_explanation){ .count = 0 };
    struct explaining g = { .c = c, .a = a, .out = out, .seq = seq };
    struct event_read read = { .after = seq == 0 ? 0 : seq - 1,
                               .looks_max = 1,
                               .bytes_max = 1,
                               .take = explain_take,
                               .ctx = &g };
    err why = event_log_read(c->opts.events, &read);
    if (why == ERR_OK && !g.found)
        why = ERR_NOT_FOUND;
    if (why == ERR_OK && g.full)
        why = ERR_LIMIT;
    if (why == ERR_OK) {
        struct change_ruled *ruled = change_ruled_now(c);
        change_lock(c);
        /* Whether the rules have seen it decides what is said of a missing item. */
        out->routed = c->router.head.cursor >= seq;
        change_unlock(c);
        g.ruled = ruled;
        why = explain_rules(&g, ruled);
        change_ruled_unref(&ruled);
    }
    if (why == ERR_NOT_FOUND)
        err_note_set(note,
                     "the event log does not have that event: it never had, or has removed it");
    else if (why != ERR_OK)
        err_note_set(note, "it cannot be explained: %s", err_name(why));
    return why;
}

/* ---- a dry run ---- */

/* One dry run, on the stack of its caller. */
struct dry {
    struct change *c;
    struct rule_set *set;
    struct rule_event *event;
    struct change_dry *d;
};

static bool dry_wants(void *ctx, const struct event_seen *e)
{
    struct dry *g = ctx;
    struct change_dry *d = g->d;
    (void)e;
    d->stopped |= d->deadline.ns > 0 && clock_mono(g->c->opts.clock).ns >= d->deadline.ns;
    return !d->stopped;
}

/* What change_route_event would ask, without routes and without the store. */
static void dry_take(void *ctx, const struct event_seen *e, str bytes)
{
    struct dry *g = ctx;
    const struct rule_given given = { .stream = e->stream,
                                      .domain = e->domain,
                                      .bytes = bytes,
                                      .at = e->at,
                                      .now = clock_store(g->c->opts.clock) };
    g->d->looked++;
    if (rule_event_begin(g->event, &given) != ERR_OK)
        return;
    for (unsigned i = 0; i < g->d->count; i++) {
        const struct rule *r = rule_set_at(g->set, i);
        struct change_dry_rule *x = &g->d->rules[i];
        struct rule_verdict v;
        bool relay = r->effect == RULE_PURGE && str_eq(e->stream, STR(CHANGE_PURGES));
        if (!relay)
            rule_match(g->event, r, &v);
        bool matches = relay || v.answer == RULE_MATCHES;
        x->matched += matches;
        x->untitled += matches && r->effect == RULE_LOOK && rule_event_title(g->event).n == 0;
        x->unsampled += !matches && v.answer == RULE_NOT_SAMPLED;
        x->too_old += !matches && v.answer == RULE_TOO_OLD;
        x->open += !matches && v.answer == RULE_OPEN;
        /* The newest: events come in order. */
        if (matches)
            x->example = e->seq;
    }
}

/* The number behind which the last n events stand. Numbers say nothing of how many lie between, so
 * the log's rows are gone over; nothing of them is handed over. Damaged ones are passed over. */
struct dry_seek {
    uint64_t from; /* count */
    uint64_t behind;
    bool past; /* the first of the last n was seen */
};
static bool seek_wants(void *ctx, const struct event_seen *e)
{
    struct dry_seek *s = ctx;
    s->past |= e->count > s->from;
    if (!s->past)
        s->behind = e->seq;
    return false;
}

/* Pages of rows without bytes, until the first of the last n was seen. */
static err dry_seek(struct change *c, unsigned last, uint64_t *behind)
{
    struct event_figures f;
    err why = event_log_figures(c->opts.events, &f);
    struct dry_seek s = { .from = why != ERR_OK || f.taken < last ? 0 : f.taken - last };
    struct event_read read = {
        .more = true, .looks_max = CHANGE_LOOKS_MAX, .wants = seek_wants, .ctx = &s
    };
    while (why == ERR_OK && read.more && !s.past)
        why = event_log_read(c->opts.events, &read);
    *behind = s.behind;
    return why;
}

static err dry_go(struct dry *g, uint64_t behind)
{
    struct event_read read = {
        .after = behind, .more = true, .wants = dry_wants, .take = dry_take, .ctx = g
    };
    err why = ERR_OK;
    /* The time is looked at for each event (dry_wants). */
    while (why == ERR_OK && read.more && !g->d->stopped && g->d->looked < g->d->last) {
        uint64_t left = g->d->last - g->d->looked;
        read.looks_max = left < CHANGE_LOOKS_MAX ? (unsigned)left : CHANGE_LOOKS_MAX;
        read.bytes_max = 4 << 20;
        why = event_log_read(g->c->opts.events, &read);
    }
    return why;
}

/* rules that are not in force have no numbers: a dry run needs none. */
err change_dry_run(struct change *c, struct rule_set *rules, struct change_dry *d, struct arena *a,
                   struct err_note *note)
{
    struct change_ruled *ruled = change_ruled_now(c);
    struct dry g = { .c = c, .set = rules != NULL ? rules : ruled->set, .d = d };
    uint64_t behind = 0;
    d->looked = 0;
    d->stopped = false;
    d->last = d->last > CHANGE_DRY_MAX ? CHANGE_DRY_MAX : d->last;
    d->count = rule_set_count(g.set);
    d->rules = arena_calloc(a, d->count + 1, sizeof *d->rules);
    err why = d->rules == NULL ? ERR_LIMIT : dry_seek(c, d->last, &behind);
    for (unsigned i = 0; i < d->count && why == ERR_OK; i++) {
        const struct rule *r = rule_set_at(g.set, i);
        d->rules[i] =
            (struct change_dry_rule){ .rule = arena_copy(a, r->name), .effect = r->effect };
        if (d->rules[i].rule.p == NULL)
            why = ERR_LIMIT;
    }
    if (why == ERR_OK) {
        g.event = rule_event_new(g.set);
        why = dry_go(&g, behind);
        rule_event_free(&g.event);
    }
    change_ruled_unref(&ruled);
    if (why != ERR_OK)
        err_note_set(note, "the event log cannot be read: %s", err_name(why));
    return why;
}
