/* edge.c - how long a cache in front may keep a page, and which rules are likely slips.
 *
 * A cache has to be purged whenever the page changes. Events of the store tell of that: those of
 * `changes`. For one page such events are made up here, and the rules are asked about each.
 *   1. A member that is another one in each event, such as rev_id, stands in them twice. So no
 *      condition on it is decided, and a rule that matches here matches them all.
 *   2. A cache obeys the page's s-maxage, whichever rule purges it. So a target that is purged of
 *      some of the changes has to be purged of all.
 *   3. A purge that is late is as good as none. So the target of a rule whose purges are late has
 *      to be purged by other rules, too.
 * Events of kind culled are not among them: what was culled is old, not wrong. */
#include "rule/edge.h"

#include "base/list.h"
#include "codec/json_text.h"
#include "rule/rule_impl.h"

#include <string.h>

enum { PURGE_TTL_S = 24 * 3600 }; /* of a rule without edge_ttl and claim_ttl */

#define LAST ",\"last_rev_id\":0,\"last_rev_id\":0"
#define SUPERSEDED ",\"superseded\":{},\"superseded\":{}"
/* A member that some events of a kind have: there is one with it, and one without. */
static const struct change_told {
    const char *stream, *kind, *more;
} changes[] = {
    { "palimpsest.render", NULL, "" },
    { "palimpsest.render", NULL, SUPERSEDED },
    { "palimpsest.gone", "hidden", "" },
    { "palimpsest.gone", "deleted", "" },
    { "palimpsest.gone", "purged", "" },
    { "palimpsest.dated", "revision", LAST },
    { "palimpsest.dated", "revision", LAST SUPERSEDED },
    { "palimpsest.dated", "touched", LAST },
    { "palimpsest.dated", "shown", "" },
};
#undef LAST
#undef SUPERSEDED
enum { ALL_CHANGES = (1 << COUNT_OF(changes)) - 1 };

/* Which changes each rule of a set purges, as bits. */
struct purged {
    const struct rule_set *set;
    uint16_t of[RULE_RULES_MAX];
    struct rule_held late;
};

int64_t rule_purge_ttl_ns(const struct rule *r)
{
    return r->claim_ttl_ns != DURATION_NEVER ? r->claim_ttl_ns
           : r->edge_ttl_ns > 0              ? r->edge_ttl_ns
                                             : PURGE_TTL_S * NS_PER_S;
}

/* ---- events ---- */

static void event_put(struct buf *b, const struct change_told *c, const struct rule_page *p)
{
    buf_clear(b);
    buf_printf(b, "{\"meta\":{\"stream\":\"%s\",\"id\":\"\",\"id\":\"\",\"dt\":\"\",\"dt\":\"\"",
               c->stream);
    buf_put(b, STR(",\"domain\":"));
    json_text_append(b, p->domain);
    buf_put(b, STR("},\"bucket\":"));
    json_text_append(b, p->bucket);
    buf_put(b, STR(",\"page_title\":"));
    json_text_append(b, p->title);
    if (c->kind != NULL)
        buf_printf(b, ",\"kind\":\"%s\"", c->kind);
    buf_printf(b, ",\"rev_id\":0,\"rev_id\":0,\"tid\":\"\",\"tid\":\"\"%s}", c->more);
}

/* bytes: they stay as they are while e has the event. False: there is no memory for it. */
static bool event_begin(struct rule_event *e, struct buf *bytes, const struct change_told *c,
                        const struct rule_page *p)
{
    const struct rule_given given = { .stream = str_of(c->stream), .domain = p->domain };
    struct rule_given whole = given;
    event_put(bytes, c, p);
    whole.bytes = buf_str(bytes);
    return buf_status(bytes) == ERR_OK && rule_event_begin(e, &whole) == ERR_OK;
}

/* ---- URLs ---- */

static bool is_configured(void *ctx, str domain)
{
    const struct rule_page *p = ctx;
    return str_eq(domain, p->domain);
}

static bool differs_by_event(struct rule_event *e, const struct rule_verdict *v,
                             const struct rule_template *t)
{
    str text;
    for (unsigned i = 0; i < t->pieces_count; i++)
        if (t->pieces[i].is_placeholder &&
            rule_subject_text(e, v, t->pieces[i].subject, &text) == RULE_FOUND_TWICE)
            return true;
    return false;
}

/* What is behind the authority, if there is one. */
static str path_of(str url)
{
    if (str_starts(url, STR("/")))
        return url;
    str rest = str_skip(url, str_find_str(url, STR("://")) + 3);
    return str_skip(rest, str_find(rest, '/'));
}

/* All URLs of a rule are purged, or none: those that cannot be filled in end the request. */
static bool urls_have(struct rule_event *e, const struct rule *r, const struct rule_verdict *v,
                      const struct rule_page *page)
{
    const struct rule_domains domains = { .has = is_configured, .ctx = unconst(page) };
    struct err_note note;
    struct buf url;
    bool has = false, fine = true;
    buf_init(&url, RULE_EXPANDED_BYTES_MAX);
    for (unsigned i = 0; i < r->urls_count && fine; i++) {
        if (differs_by_event(e, v, r->urls[i]))
            continue;
        buf_clear(&url);
        fine = rule_expand(e, v, r->urls[i], &domains, &url, &note) == ERR_OK;
        has = has || str_eq(path_of(buf_str(&url)), page->path);
    }
    buf_fini(&url);
    return has && fine;
}

/* ---- targets ---- */

static bool rule_has_target(const struct rule *r, str target)
{
    for (unsigned i = 0; i < r->targets.count; i++)
        if (str_eq(r->targets.p[i], target))
            return true;
    return false;
}

/* However little there is to purge. */
static bool rule_is_late(const struct rule *r)
{
    return r->delay_ns > RULE_EDGE_WAIT_NS ||
           (r->rate_count > 0 && r->rate_per_ns / r->rate_count > RULE_EDGE_WAIT_NS);
}

/* held NULL: none. */
static struct purged purged_of_none(const struct rule_set *s, const struct rule_held *held)
{
    struct purged p = { .set = s };
    for (unsigned i = 0; i < rule_set_count(s); i++)
        p.late.of[i] = rule_is_late(rule_set_at(s, i)) || (held != NULL && held->of[i]);
    return p;
}

static unsigned in_time(const struct purged *p, unsigned rule)
{
    return p->late.of[rule] ? 0 : p->of[rule];
}

/* By all rules together, in time. */
static unsigned target_is_purged_of(const struct purged *p, str target)
{
    unsigned of = 0;
    for (unsigned i = 0; i < rule_set_count(p->set); i++)
        if (in_time(p, i) != 0 && rule_has_target(rule_set_at(p->set, i), target))
            of |= p->of[i];
    return of;
}

/* NULL: each target of the rule is purged of all changes. Else one that is not, and of what. */
static const str *target_that_lacks(const struct purged *p, const struct rule *r, unsigned *of)
{
    *of = in_time(p, r->index);
    for (unsigned i = 0; i < r->targets.count && in_time(p, r->index) != ALL_CHANGES; i++) {
        *of = target_is_purged_of(p, r->targets.p[i]);
        if (*of != ALL_CHANGES)
            return &r->targets.p[i];
    }
    return NULL;
}

/* ---- one page ---- */

static void purged_by(struct purged *p, struct rule_event *e, const struct rule_page *page,
                      unsigned change)
{
    for (unsigned i = 0; i < rule_set_count(p->set); i++) {
        const struct rule *r = rule_set_at(p->set, i);
        struct rule_verdict v;
        if (r->effect != RULE_PURGE || r->urls_count == 0)
            continue;
        rule_match(e, r, &v);
        if (v.answer == RULE_MATCHES && urls_have(e, r, &v, page))
            p->of[i] |= (uint16_t)BIT(change);
    }
}

static int64_t ttl_of(const struct purged *p)
{
    int64_t edge = INT64_MAX, purge = INT64_MAX;
    unsigned of;
    for (unsigned i = 0; i < rule_set_count(p->set); i++) {
        const struct rule *r = rule_set_at(p->set, i);
        if (p->of[i] == 0)
            continue;
        if (target_that_lacks(p, r, &of) != NULL)
            return 0;
        int64_t ttl = rule_purge_ttl_ns(r);
        purge = ttl < purge ? ttl : purge;
        edge = r->edge_ttl_ns > 0 && r->edge_ttl_ns < edge ? r->edge_ttl_ns : edge;
    }
    return edge == INT64_MAX ? 0 : edge < purge ? edge : purge;
}

int64_t rule_edge_ttl_ns(struct rule_event *e, const struct rule_page *page,
                         const struct rule_held *held)
{
    struct buf bytes;
    bool fine = true;
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    struct purged p = purged_of_none(e->set, held);
    buf_init(&bytes, 16 * RULE_VALUE_BYTES_MAX);
    for (unsigned i = 0; i < COUNT_OF(changes) && fine; i++) {
        fine = event_begin(e, &bytes, &changes[i], page);
        if (fine)
            purged_by(&p, e, page, i);
    }
    e->given.bytes = STR_NONE;
    buf_fini(&bytes);
    return fine ? ttl_of(&p) : 0;
}

/* ---- slips ---- */

static void doubt_purges(const struct purged *p, const struct rule *r, rule_fault_fn *told,
                         void *ctx)
{
    struct err_note text;
    struct rule_fault fault = { .line = r->line, .rule = r->name, .text = text.text };
    unsigned of, lacks = 0;
    if (r->urls_count == 0) {
        err_note_set(&text, "edge_ttl is of no use: without urls no page is purged");
        told(ctx, &fault);
        return;
    }
    const str *target = target_that_lacks(p, r, &of);
    if (target == NULL)
        return;
    if (rule_is_late(r)) {
        err_note_set(
            &text,
            "edge_ttl is of no use: by delay or rate a purge waits longer than %d s, so no "
            "page may be kept there",
            (int)(RULE_EDGE_WAIT_NS / NS_PER_S));
        told(ctx, &fault);
        return;
    }
    while ((of & BIT(lacks)) != 0)
        lacks++;
    err_note_set(&text,
                 "edge_ttl is of no use: no rule purges %.*s for %s%s%s, so no page may be kept "
                 "there; palimpsest.render, palimpsest.gone and palimpsest.dated are wanted",
                 STR_ARG(str_take(*target, 64)), changes[lacks].stream,
                 changes[lacks].kind == NULL ? "" : " of kind ",
                 changes[lacks].kind == NULL ? "" : changes[lacks].kind);
    told(ctx, &fault);
}

static void doubt_events(const struct rule *r, rule_fault_fn *told, void *ctx)
{
    const struct rule_fault fault = {
        .line = r->line,
        .rule = r->name,
        .text = "url leads to /v1/events: if a rule matches what comes of it, they feed each other"
    };
    told(ctx, &fault);
}

static bool tells_superseded(const struct change_told *c)
{
    str more = str_of(c->more), member = STR("\"superseded\"");
    return str_find_str(more, member) < more.n;
}

/* wanted: the changes that it may want, as bits. */
static void doubt_timeline(unsigned wanted, const struct rule *r, rule_fault_fn *told, void *ctx)
{
    const struct rule_fault fault = {
        .line = r->line,
        .rule = r->name,
        .text = "match takes no event that says what was superseded, so nothing is noted; "
                "palimpsest.render and palimpsest.dated are wanted"
    };
    for (unsigned n = 0; n < COUNT_OF(changes); n++)
        if ((wanted & BIT(n)) != 0 && tells_superseded(&changes[n]))
            return;
    told(ctx, &fault);
}

/* What other systems call jobs may be in any stream; these are known to be none. */
static void doubt_jobs(const struct rule_set *s, const struct rule *r, rule_fault_fn *told,
                       void *ctx)
{
    static const char *const others[] = { "mediawiki.revision-create", "mediawiki.page_change.v1",
                                          "resource-purge", "palimpsest.render" };
    struct err_note text;
    const struct rule_fault fault = { .line = r->line, .rule = r->name, .text = text.text };
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (!rule_may_want_stream(s, r, str_of(others[i])))
            continue;
        err_note_set(&text,
                     "match takes events that are no jobs, such as those of %s, and each is sent "
                     "to a target as a job; MediaWiki's jobs are in streams mediawiki.job.*",
                     others[i]);
        told(ctx, &fault);
        return;
    }
}

void rule_set_doubt(const struct rule_set *s, rule_fault_fn *told, void *ctx)
{
    const struct rule_page none = { STR(""), STR(""), STR(""), STR("") };
    unsigned noted[RULE_RULES_MAX] = { 0 }; /* as p.of, of timelines */
    struct buf bytes;
    if (s == NULL)
        return;
    struct purged p = purged_of_none(s, NULL);
    struct rule_event *e = rule_event_new(s);
    buf_init(&bytes, 16 * RULE_VALUE_BYTES_MAX);
    for (unsigned n = 0; n < COUNT_OF(changes); n++) {
        bool is_event = event_begin(e, &bytes, &changes[n], &none);
        INVARIANT(is_event); /* small, and JSON */
        for (unsigned i = 0; i < s->count; i++) {
            const struct rule *r = &s->rules[i];
            if (r->effect == RULE_PURGE && r->urls_count > 0 && rule_may_want_kind(e, r))
                p.of[i] |= (uint16_t)BIT(n);
            if (r->effect == RULE_TIMELINE && rule_may_want_kind(e, r))
                noted[i] |= BIT(n);
        }
    }
    for (unsigned i = 0; i < s->count; i++)
        if (s->rules[i].effect == RULE_PURGE && s->rules[i].edge_ttl_ns > 0)
            doubt_purges(&p, &s->rules[i], told, ctx);
    for (unsigned i = 0; i < s->count; i++)
        if (rule_feeds_events(&s->rules[i]))
            doubt_events(&s->rules[i], told, ctx);
    for (unsigned i = 0; i < s->count; i++)
        if (s->rules[i].effect == RULE_JOB)
            doubt_jobs(s, &s->rules[i], told, ctx);
    for (unsigned i = 0; i < s->count; i++)
        if (s->rules[i].effect == RULE_TIMELINE)
            doubt_timeline(noted[i], &s->rules[i], told, ctx);
    rule_event_free(&e);
    buf_fini(&bytes);
}
