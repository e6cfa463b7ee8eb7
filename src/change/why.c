/* why.c - which targets a rule has, and why an item does not run, for people.
 *
 * Nothing here decides: it looks at what runner.c goes by. */
#include "change/change_impl.h"

#include "codec/goduration.h"
#include "page/page.h"

#include <string.h>

enum { NAMED_MAX = 64 }; /* of a rule whose URL has the domain of the event */

/* ---- targets ---- */

struct naming {
    change_named_fn *named;
    void *ctx;
};

static void name_tell(const struct naming *n, str url)
{
    char name[HTTP_ORIGIN_BYTES_MAX];
    if (http_client_origin(url, name) == ERR_OK)
        n->named(n->ctx, name);
}

/* Where the URL of a rule leads for an event of that domain: before its path a template has no
 * placeholder but {domain}. */
static void name_tell_url(const struct naming *n, const struct rule *r, str domain)
{
    const str holder = STR("{domain}");
    str source = rule_template_source(r->url);
    size_t scheme = str_find_str(source, STR("://")) + 3;
    str rest = str_skip(source, scheme);
    size_t slash = str_find(rest, '/'), query = str_find(rest, '?');
    str whole = str_take(source, scheme + (slash < query ? slash : query));
    struct buf url;
    buf_init(&url, RULE_EXPANDED_BYTES_MAX);
    for (;;) {
        size_t at = str_find_str(whole, holder);
        buf_put(&url, str_take(whole, at));
        if (at >= whole.n)
            break;
        buf_put(&url, domain);
        whole = str_skip(whole, at + holder.n);
    }
    if (buf_status(&url) == ERR_OK)
        name_tell(n, buf_str(&url));
    buf_fini(&url);
}

struct known {
    const struct change *change;
    change_named_fn *named;
    void *ctx;
    unsigned count;
};

static void known_tell(void *ctx, const char *name)
{
    struct known *k = ctx;
    if (map_get(k->change->targets, str_of(name)) == NULL)
        return;
    k->count++;
    k->named(k->ctx, name);
}

static bool names_domains(const struct rule *r)
{
    str source = rule_template_source(r->url);
    return str_find_str(source, STR("{domain}")) < source.n;
}

void change_rule_targets(const struct change *c, const struct rule *r, change_named_fn *named,
                         void *ctx)
{
    const struct naming n = { named, ctx };
    for (unsigned i = 0; i < r->targets.count; i++)
        name_tell(&n, r->targets.p[i]);
    if (r->effect != RULE_HTTP)
        return;
    if (!names_domains(r)) {
        name_tell_url(&n, r, STR(""));
        return;
    }
    struct known known = { .change = c, .named = named, .ctx = ctx };
    const struct naming each = { known_tell, &known };
    for (unsigned i = 0; i < c->opts.page->domains_count && known.count < NAMED_MAX; i++)
        name_tell_url(&each, r, c->opts.page->domains[i].name);
}

/* ---- one item ---- */

struct waiting {
    struct change *c;
    const struct change_target *found; /* the one that opens first */
    bool free;                         /* one of them takes calls */
};

static bool opens_before(const struct change_target *a, const struct change_target *b)
{
    if (a->drained != b->drained)
        return !a->drained;
    return a->paused_until.ns < b->paused_until.ns;
}

static void waiting_look(void *ctx, const char *name)
{
    struct waiting *w = ctx;
    const struct change_target *t = map_get(w->c->targets, str_of(name));
    if (t == NULL || (!t->drained && t->paused_until.ns == 0))
        w->free = true;
    else if (w->found == NULL || opens_before(t, w->found))
        w->found = t;
}

/* What an item waits for of its targets; NULL: for none. */
static const struct change_target *target_of(struct change *c, const struct rule *r,
                                             const struct change_item_row *row)
{
    struct waiting w = { .c = c };
    const struct naming n = { waiting_look, &w };
    if (r->effect == RULE_JOB)
        change_rule_targets(c, r, waiting_look, &w);
    else if (r->effect == RULE_HTTP)
        name_tell_url(&n, r, row->domain);
    for (unsigned i = 0; r->effect == RULE_PURGE && i < r->targets.count; i++)
        if (change_target_hash(r->targets.p[i]) == row->target)
            name_tell(&n, r->targets.p[i]);
    return w.free ? NULL : w.found;
}

/* "59m58s", "2.5s": of a short time ms are told. */
static void left_print(int64_t ns, char out[GODURATION_BYTES_MAX + 1])
{
    int64_t unit = ns < 10 * NS_PER_S ? NS_PER_MS : NS_PER_S;
    goduration_format(ns > 0 ? ns - ns % unit : 0, out);
}

static str why_target(struct change *c, const struct change_target *t, struct arena *a)
{
    char left[GODURATION_BYTES_MAX + 1];
    left_print(t->paused_until.ns - clock_mono(c->opts.clock).ns, left);
    if (t->drained)
        return arena_printf(a, "its target %s is drained", t->name);
    return arena_printf(a, "its target %s is left alone for %s more: %s", t->name, left,
                        t->error[0] == '\0' ? "-" : t->error);
}

static str why_scheduled(struct change *c, const struct change_item_row *row, struct arena *a)
{
    char left[GODURATION_BYTES_MAX + 1];
    left_print(row->due.ns - clock_store(c->opts.clock).ns, left);
    return row->attempts > 0
               ? arena_printf(a, "attempt %u failed; it is tried again in %s", row->attempts, left)
               : arena_printf(a, "its delay is over in %s", left);
}

static str why_ready(struct change *c, const struct change_runner *r,
                     const struct change_item_row *row, struct arena *a)
{
    mono until;
    const struct change_target *t = target_of(c, r->rule, row);
    if (t != NULL)
        return why_target(c, t, a);
    bool blocked = change_lane_is_blocked(unconst(r), &row->lane, &until);
    if (blocked && r->rule->effect == RULE_TIMELINE)
        return arena_printf(a, "its entry was not taken, and it is tried again: %s", r->last_error);
    if (blocked)
        return STR("its target has as many calls as it takes, or the store did not answer");
    if (r->running >= change_runner_concurrency(r))
        return arena_printf(a, "as many of its rule run as may: %u", r->running);
    return STR("its turn comes: others are before it, or a limit of its type, domain, target or "
               "rate holds it");
}

str change_why(struct change *c, const struct change_runner *r, const struct change_item_row *row,
               struct arena *a)
{
    switch (row->state) {
    case CHANGE_WAITING:
        return STR("an earlier item of its title is not done yet");
    case CHANGE_SCHEDULED:
        return why_scheduled(c, row, a);
    case CHANGE_DEAD:
        return STR("it failed for good; change retry brings it back, change drop deletes it");
    case CHANGE_READY:
    case CHANGE_STATES:
        break;
    }
    if (r == NULL || r->rule == NULL)
        return STR("its rule is not in the configuration");
    return r->paused ? STR("its rule is paused") : why_ready(c, r, row, a);
}
