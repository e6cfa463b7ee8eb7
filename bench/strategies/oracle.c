/* oracle.c - see oracle.h. A title has few hundred renders, so all of them are looked at each time.
 */
#include "strategies/oracle.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN_NS (2 * NS_PER_S)

struct oracle_render {
    struct page_name name;
    store_time superseded_at; /* NEVER: it is the latest */
    store_time read_until;    /* TTL from the last lookup that found it */
    bool late, asked;
};

static const char *const duty_names[DUTIES] = { "latest", "recent", "late",
                                                "asked",  "corner", "none" };

const char *duty_name(enum duty d)
{
    return duty_names[d];
}

void head_make(struct page_name name, char out[HEAD_BYTES])
{
    put_be64(out, name.rev);
    tid_key(name.tid, (unsigned char *)out + 8);
}

void oracle_init(struct oracle_title *t, int64_t ttl_ns)
{
    *t = (struct oracle_title){ .ttl_ns = ttl_ns };
}

void oracle_fini(struct oracle_title *t)
{
    free(t->renders);
    t->renders = NULL;
}

void oracle_put(struct oracle_title *t, struct page_name name, bool asked, store_time now)
{
    t->renders = realloc(t->renders, (t->count + 1) * sizeof *t->renders);
    INVARIANT(t->renders != NULL);
    struct oracle_render *r = &t->renders[t->count];
    *r = (struct oracle_render){ .name = name,
                                 .superseded_at = STORE_TIME_NEVER,
                                 .read_until = STORE_TIME_ZERO,
                                 .asked = asked };
    if (t->count == 0) {
        t->latest = 0;
    } else if (page_name_cmp(name, t->renders[t->latest].name) > 0) {
        t->renders[t->latest].superseded_at = now;
        t->latest = t->count;
    } else {
        r->superseded_at = now;
        r->late = !asked;
    }
    t->count++;
}

static struct oracle_render *find(struct oracle_title *t, struct page_name name)
{
    for (unsigned i = 0; i < t->count; i++)
        if (page_name_cmp(t->renders[i].name, name) == 0)
            return &t->renders[i];
    return NULL;
}

/* The newest of a revision. */
static struct oracle_render *find_rev(struct oracle_title *t, uint64_t rev)
{
    struct oracle_render *newest = NULL;
    for (unsigned i = 0; i < t->count; i++) {
        struct oracle_render *r = &t->renders[i];
        if (r->name.rev == rev && (newest == NULL || page_name_cmp(r->name, newest->name) > 0))
            newest = r;
    }
    return newest;
}

static bool within(const struct oracle_title *t, store_time since, store_time now)
{
    return now.ns <= store_time_add(since, t->ttl_ns - MARGIN_NS).ns;
}

static enum duty duty_of(const struct oracle_title *t, const struct oracle_render *r,
                         store_time now)
{
    if (r == NULL)
        return DUTY_NONE;
    if (within(t, r->superseded_at, now))
        return r->asked ? DUTY_ASKED : r->late ? DUTY_LATE : DUTY_RECENT;
    return now.ns <= r->read_until.ns - MARGIN_NS ? DUTY_CORNER : DUTY_NONE;
}

void oracle_judge(struct oracle_title *t, const struct lookup *l, bool found, store_time now,
                  struct tally *out)
{
    struct oracle_render *wanted = NULL;
    enum duty duty;
    if (l->select == SELECT_LATEST) {
        wanted = t->count == 0 ? NULL : &t->renders[t->latest];
        duty = wanted == NULL ? DUTY_NONE : DUTY_LATEST;
    } else {
        wanted = l->select == SELECT_REV ? find_rev(t, l->name.rev) : find(t, l->name);
        duty = duty_of(t, wanted, now);
    }
    out->asked[duty]++;
    if (!found) {
        out->missing[duty] += duty != DUTY_NONE;
        return;
    }
    char head[HEAD_BYTES];
    head_make(l->got, head);
    out->mixed += memcmp(head, l->head, sizeof head) != 0;
    out->other[duty] += duty != DUTY_NONE && page_name_cmp(l->got, wanted->name) != 0;
    struct oracle_render *got = find(t, l->got);
    if (got != NULL)
        got->read_until = store_time_max(got->read_until, store_time_add(now, t->ttl_ns));
}

unsigned oracle_needed(const struct oracle_title *t, store_time now)
{
    unsigned needed = 0;
    for (unsigned i = 0; i < t->count; i++)
        needed += duty_of(t, &t->renders[i], now) != DUTY_NONE;
    return needed;
}
