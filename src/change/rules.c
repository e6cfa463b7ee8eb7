/* rules.c - rules are taken over: each gets its number, and its place in the log, by what the store
 * knows of it.
 *
 * Invariants: 1. A number is given once. Items go by it, so the rows of a rule that was removed and
 * came back are still its own. 2. While no rule was in force the head did not move: the first rule
 * moves it to the end of the log. 3. A rule begins where those before it end, so one that has got
 * another name misses no event: where the router stands, or at a start where it stood. */
#include "change/change_impl.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

/* ---- rules in force ---- */

struct change_ruled *change_ruled_new(struct rule_set *set)
{
    unsigned count = rule_set_count(set);
    struct change_ruled *r = calloc(1, sizeof *r + count * sizeof r->rules[0]);
    INVARIANT(r != NULL);
    atomic_init(&r->refs, 1);
    atomic_init(&r->generation, 0);
    r->set = rule_set_ref(set);
    INVARIANT(pthread_mutex_init(&r->lock, NULL) == 0);
    return r;
}

struct change_ruled *change_ruled_ref(struct change_ruled *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void change_ruled_unref(struct change_ruled **rp)
{
    struct change_ruled *r = *rp;
    *rp = NULL;
    if (r == NULL || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    while (r->events_count > 0)
        rule_event_free(&r->events[--r->events_count]);
    INVARIANT(pthread_mutex_destroy(&r->lock) == 0);
    rule_set_unref(&r->set);
    free(r);
}

struct rule_event *change_event_take(struct change_ruled *r)
{
    struct rule_event *e = NULL;
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    if (r->events_count > 0)
        e = r->events[--r->events_count];
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
    return e != NULL ? e : rule_event_new(r->set);
}

void change_event_give(struct change_ruled *r, struct rule_event *e)
{
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    bool kept = r->events_count < COUNT_OF(r->events);
    if (kept)
        r->events[r->events_count++] = e;
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
    if (!kept)
        rule_event_free(&e);
}

/* ---- what the store knows ---- */

void change_take_fini(struct change_take *t)
{
    free(t->known);
    t->known = NULL;
    change_ruled_unref(&t->ruled);
}

static void known_add(struct change_take *k, str name, const struct change_rule_row *row)
{
    k->known = realloc(k->known, (k->known_count + 1) * sizeof *k->known);
    INVARIANT(k->known != NULL);
    struct change_known *n = &k->known[k->known_count++];
    *n = (struct change_known){ .row = *row };
    INVARIANT(str_to_cstr(name, n->name, sizeof n->name));
}

static err known_read(struct change_take *k, struct engine_txn *t)
{
    struct engine_cursor *c = change_rows_open(engine_txn_view(t), STR("n"), STR_NONE);
    struct engine_row row;
    err why;
    k->known_count = 0;
    while ((why = engine_cursor_next(c, &row)) == ERR_OK) {
        struct change_rule_row rule;
        why = row.key.n > RULE_NAME_BYTES_MAX + 1 ? ERR_CORRUPT
                                                  : change_rule_decode(row.value, &rule);
        if (why != ERR_OK)
            break;
        known_add(k, str_skip(row.key, 1), &rule);
    }
    engine_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static struct change_known *known_find(struct change_take *k, str name)
{
    for (unsigned i = 0; i < k->known_count; i++)
        if (str_eq(str_of(k->known[i].name), name))
            return &k->known[i];
    return NULL;
}

static err number_next(struct engine_txn *t, uint32_t *out)
{
    struct change_key key;
    struct engine_row row;
    char value[8];
    uint64_t next = 1;
    change_key_next(&key);
    err why = engine_get(engine_txn_view(t), SPACE_CHANGE, change_key_str(&key), &row);
    if (why == ERR_OK && row.value.n == sizeof value)
        next = get_be64(row.value.p);
    else if (why != ERR_NOT_FOUND)
        return why == ERR_OK ? ERR_CORRUPT : why;
    *out = (uint32_t)next;
    put_be64(value, next + 1);
    return engine_txn_put(t, SPACE_CHANGE, change_key_str(&key),
                          (str){ .p = value, .n = sizeof value }, STR_NONE);
}

err change_rule_put(struct engine_txn *t, str name, const struct change_rule_row *row)
{
    struct change_key key;
    char value[CHANGE_RULE_BYTES];
    change_key_rule(&key, name);
    return engine_txn_put(t, SPACE_CHANGE, change_key_str(&key), change_rule_encode(row, value),
                          STR_NONE);
}

/* ---- taking over ---- */

static err rule_take(struct change_take *k, struct engine_txn *t, const struct rule *rule)
{
    struct change_known *n = known_find(k, rule->name);
    bool knew = n != NULL && (n->row.flags & CHANGE_FLAG_REMOVED) == 0;
    err why = ERR_OK;
    if (n == NULL) {
        struct change_rule_row fresh = { .number = 0 };
        why = number_next(t, &fresh.number);
        if (why != ERR_OK)
            return why;
        known_add(k, rule->name, &fresh);
        n = &k->known[k->known_count - 1];
    }
    struct change_rule_row before = n->row;
    n->row.flags &= ~(unsigned)CHANGE_FLAG_REMOVED;
    n->row.hash = rule->hash;
    if (!knew)
        n->row.from = k->routed > k->head.cursor ? k->routed : k->head.cursor;
    k->ruled->rules[rule->index] =
        (struct change_ruled_rule){ .number = n->row.number, .from = n->row.from };
    bool same = knew && before.hash == n->row.hash;
    return same ? ERR_OK : change_rule_put(t, rule->name, &n->row);
}

/* A rule that the set lacks: its row stays as long as it has items. */
static err rule_leave(struct change_take *k, struct engine_txn *t, unsigned at)
{
    struct change_known *n = &k->known[at];
    struct change_counts counts;
    struct change_key key;
    uint64_t items = 0;
    err why = change_counts_get(engine_txn_view(t), n->row.number, &counts);
    if (why != ERR_OK && why != ERR_CORRUPT)
        return why;
    if (why == ERR_CORRUPT) /* it may have some */
        items = 1;
    for (unsigned s = 0; s < CHANGE_STATES && why == ERR_OK; s++)
        items += counts.of[s];
    if (items > 0) {
        n->row.flags |= CHANGE_FLAG_REMOVED;
        n->row.replay_after = n->row.replay_until = 0;
        return change_rule_put(t, str_of(n->name), &n->row);
    }
    change_key_rule(&key, str_of(n->name));
    why = engine_txn_delete(t, SPACE_CHANGE, change_key_str(&key));
    change_key_counts(&key, n->row.number);
    n->row.number = 0; /* it is known no more */
    return why == ERR_OK ? engine_txn_delete(t, SPACE_CHANGE, change_key_str(&key)) : why;
}

static bool any_in_force(const struct change_take *k)
{
    for (unsigned i = 0; i < k->known_count; i++)
        if ((k->known[i].row.flags & CHANGE_FLAG_REMOVED) == 0)
            return true;
    return false;
}

/* Where first rules begin: what came since they were to be taken over is for them. */
static uint64_t log_end(const struct change_take *k)
{
    bool came_since = k->until > 0 && k->last > k->until;
    return came_since ? k->until : k->last;
}

/* The head goes to the end of the log when it stood still. */
static err head_take(struct change_take *k, struct engine_txn *t)
{
    struct change_key key;
    char value[CHANGE_HEAD_BYTES];
    err why = change_head_get(engine_txn_view(t), &k->head);
    if (why == ERR_OK && any_in_force(k))
        return ERR_OK;
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    if (why == ERR_NOT_FOUND)
        k->head = (struct change_head){ .missed = 0 };
    k->head.cursor = log_end(k);
    k->head.count = k->count;
    k->head.at = engine_txn_now(t);
    change_key_head(&key);
    return engine_txn_put(t, SPACE_CHANGE, change_key_str(&key),
                          change_head_encode(&k->head, value), STR_NONE);
}

static err take_decide(struct engine_txn *t, void *take)
{
    struct change_take *k = take;
    const struct rule_set *set = k->ruled->set;
    err why = known_read(k, t);
    k->steered = atomic_load(k->steerings);
    atomic_store(&k->ruled->generation, atomic_load(k->generations));
    if (why != ERR_OK || (k->known_count == 0 && rule_set_count(set) == 0))
        return why;
    why = head_take(k, t);
    unsigned known = k->known_count;
    for (unsigned i = 0; i < known && why == ERR_OK; i++)
        if (rule_set_find(set, str_of(k->known[i].name)) == NULL)
            why = rule_leave(k, t, i);
    for (unsigned i = 0; i < rule_set_count(set) && why == ERR_OK; i++)
        why = rule_take(k, t, rule_set_at(set, i));
    /* What was routed by the rules before, and is not written, has to be routed anew. */
    atomic_store(&k->ruled->generation, atomic_fetch_add(k->generations, 1) + 1);
    return why;
}

err change_take_run(struct change *c, struct change_take *t)
{
    struct event_figures f;
    err why = event_log_figures(c->opts.events, &f);
    if (why != ERR_OK)
        return why;
    t->generations = &c->generations;
    t->steerings = &c->steerings;
    t->last = f.last;
    t->count = f.taken;
    /* On a full disk, too: without their rules no items come to their end. */
    const struct engine_update update = { .decide = take_decide, .ctx = t, .frees = true };
    return engine_submit_wait(c->opts.engine, &update);
}
