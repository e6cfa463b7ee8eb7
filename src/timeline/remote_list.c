/* remote_list.c - pages of entries from a timeline in Redis. A page is some questions, one after
 * another: of a domain's set, or of a title's two. Each asks for members behind the last one seen
 * (the edge): by its score, and of those with the same score by their bytes. */
#include "timeline/remote_impl.h"

#include <string.h>

static err set_ask(struct timeline_remote_list *l);

static bool is_by_title(const struct timeline_remote_list *l)
{
    return l->listing->title.n > 0;
}

/* ---- the end ---- */

static void list_over(struct timeline_remote_list *l, err why, const struct err_note *note)
{
    struct timeline_listing *t = l->listing;
    if (why == ERR_OK && l->full) {
        memcpy(t->next, l->last, l->last_n);
        t->next_n = l->last_n;
    }
    l->done(l, why, note);
}

static void set_begin(struct timeline_remote_list *l)
{
    l->edge_us = -1;
    l->edge_n = 0;
    l->offset = 0;
}

/* False: there is no other set. */
static bool set_next(struct timeline_remote_list *l)
{
    const struct timeline_listing *t = l->listing;
    set_begin(l);
    if (is_by_title(l)) {
        bool more = l->kind == TIMELINE_REVISION && t->kind < 0;
        l->kind = TIMELINE_RENDER;
        return more;
    }
    l->domain++;
    return !t->has_domain && l->domain < l->domains_count;
}

/* ---- one member ---- */

static bool is_behind_edge(const struct timeline_remote_list *l, int64_t us, str member)
{
    int order = str_cmp(member, (str){ .p = l->edge, .n = l->edge_n });
    if (l->edge_n == 0 || us != l->edge_us)
        return true;
    return is_by_title(l) ? order < 0 : order > 0;
}

/* The key that it would have in a store is the place where a page ends. */
static void last_keep(struct timeline_remote_list *l, const struct timeline_where *w,
                      const struct timeline_entry *e)
{
    struct timeline_key key;
    if (!is_by_title(l)) {
        timeline_key_time(&key, w, e);
    } else {
        err fine = timeline_key_prefix(&key, w);
        INVARIANT(fine == ERR_OK); /* that title was asked for */
        timeline_key_tail(&key, e);
    }
    memcpy(l->last, key.p, key.n);
    l->last_n = key.n;
}

static bool member_parse(const struct timeline_remote_list *l, str member, int64_t us,
                         struct timeline_where *w, struct timeline_entry *e)
{
    *w = (struct timeline_where){ .kind = l->kind, .title = l->listing->title };
    bool fits = is_by_title(l) ? timeline_remote_tail_parse(member, w, e)
                               : timeline_remote_member_parse(member, w, e);
    w->domain = l->domains[l->domain].number;
    e->at.ns = us * NS_PER_US;
    return fits;
}

static void member_take(struct timeline_remote_list *l, str member, str score)
{
    struct timeline_listing *t = l->listing;
    struct timeline_where w;
    struct timeline_entry e;
    int64_t us;
    l->looks++;
    if (member.n > 0 && member.n <= sizeof l->edge && timeline_remote_score_parse(score, &us) &&
        us <= INT64_MAX / NS_PER_US && is_behind_edge(l, us, member)) {
        memcpy(l->edge, member.p, member.n);
        l->edge_n = member.n;
        l->edge_us = us;
        if (member_parse(l, member, us, &w, &e)) {
            last_keep(l, &w, &e);
            bool wanted = t->kind < 0 || (int)w.kind == t->kind;
            l->taken += wanted;
            l->full |= wanted && !t->take(t->ctx, &w, &e);
        }
    }
    l->full |= l->looks >= TIMELINE_LOOKS_MAX || l->taken >= t->limit;
}

/* ---- questions ---- */

static void set_told(void *ctx, err why, const struct redis_reply *reply,
                     const struct err_note *note)
{
    struct timeline_remote_list *l = ctx;
    struct err_note own = { .text = "Redis takes nothing now" };
    int64_t asked_us = l->edge_us;
    if (why != ERR_OK) {
        list_over(l, why, note);
        return;
    }
    unsigned count = redis_count(reply) / 2;
    for (unsigned i = 0; i < count && !l->full; i++)
        member_take(l, redis_text(redis_at(reply, 2 * i)), redis_text(redis_at(reply, 2 * i + 1)));
    l->offset = l->edge_us == asked_us ? l->offset + count : 0;
    if (l->full || (count < TIMELINE_REMOTE_BATCH && !set_next(l))) {
        list_over(l, ERR_OK, NULL);
        return;
    }
    why = set_ask(l);
    if (why != ERR_OK)
        list_over(l, why, &own);
}

static err set_key(const struct timeline_remote_list *l, struct timeline_remote_key *k)
{
    str domain = l->domains[l->domain].name;
    return is_by_title(l) ? timeline_remote_key_title(k, domain, l->kind, l->listing->title)
                          : timeline_remote_key_time(k, domain);
}

/* The newest first. */
static err title_ask(struct timeline_remote_list *l, str key, str offset, str batch)
{
    char edge[TIMELINE_REMOTE_NUMBER_BYTES], before[TIMELINE_REMOTE_NUMBER_BYTES];
    bool has_edge = l->edge_us >= 0 && l->edge_us * NS_PER_US < l->listing->before.ns;
    const str args[] = { STR("ZREVRANGEBYSCORE"),
                         key,
                         has_edge ? timeline_remote_number(edge, "", l->edge_us)
                                  : timeline_remote_before(before, l->listing->before),
                         STR("-inf"),
                         STR("WITHSCORES"),
                         STR("LIMIT"),
                         offset,
                         batch };
    return redis_command(l->remote->redis, args, COUNT_OF(args), set_told, l);
}

static err domain_ask(struct timeline_remote_list *l, str key, str offset, str batch)
{
    char edge[TIMELINE_REMOTE_NUMBER_BYTES], before[TIMELINE_REMOTE_NUMBER_BYTES];
    const str args[] = { STR("ZRANGEBYSCORE"),
                         key,
                         l->edge_us >= 0 ? timeline_remote_number(edge, "", l->edge_us)
                                         : STR("-inf"),
                         timeline_remote_before(before, l->listing->before),
                         STR("WITHSCORES"),
                         STR("LIMIT"),
                         offset,
                         batch };
    return redis_command(l->remote->redis, args, COUNT_OF(args), set_told, l);
}

static err set_ask(struct timeline_remote_list *l)
{
    struct timeline_remote_key k;
    char from[TIMELINE_REMOTE_NUMBER_BYTES], batch[TIMELINE_REMOTE_NUMBER_BYTES];
    err why = set_key(l, &k);
    if (why != ERR_OK)
        return why;
    str key = timeline_remote_key_str(&k), offset = timeline_remote_number(from, "", l->offset);
    str count = timeline_remote_number(batch, "", TIMELINE_REMOTE_BATCH);
    return is_by_title(l) ? title_ask(l, key, offset, count) : domain_ask(l, key, offset, count);
}

/* ---- where it begins ---- */

/* The first domain from that number on. */
static unsigned domain_from(const struct timeline_remote_list *l, uint32_t number)
{
    unsigned i = 0;
    while (i < l->domains_count && l->domains[i].number < number)
        i++;
    return i;
}

static void edge_set(struct timeline_remote_list *l, const struct timeline_where *w,
                     const struct timeline_entry *e)
{
    struct timeline_key member;
    timeline_remote_member(w, e, &member);
    str whole = timeline_key_str(&member);
    str own = is_by_title(l) ? str_skip(whole, whole.n - TIMELINE_REMOTE_TAIL_BYTES) : whole;
    memcpy(l->edge, own.p, own.n);
    l->edge_n = own.n;
    l->edge_us = timeline_remote_us(e->at);
    l->kind = w->kind;
}

err timeline_remote_list(struct timeline_remote *r, struct timeline_remote_list *l)
{
    struct timeline_listing *t = l->listing;
    struct timeline_where w = { .domain = t->has_domain ? t->domain : 0 };
    struct timeline_entry e;
    bool by_time;
    INVARIANT(t->title.n == 0 || t->has_domain);
    INVARIANT(t->limit > 0);
    INVARIANT(t->limit <= TIMELINE_LIST_MAX);
    t->next_n = 0;
    l->remote = r;
    l->looks = l->taken = 0;
    l->full = false;
    l->last_n = 0;
    l->kind = t->kind == TIMELINE_RENDER ? TIMELINE_RENDER : TIMELINE_REVISION;
    set_begin(l);
    if (t->pivot.n > 0 && !timeline_pivot_fits(t))
        return ERR_BAD;
    bool has_pivot = t->pivot.n > 0 && timeline_key_parse(t->pivot, &by_time, &w, &e);
    l->domain = domain_from(l, w.domain);
    bool known = l->domain < l->domains_count;
    bool same = known && l->domains[l->domain].number == w.domain;
    if (!known || (t->has_domain && !same))
        return ERR_NOT_FOUND;
    if (has_pivot && same)
        edge_set(l, &w, &e);
    return set_ask(l);
}
