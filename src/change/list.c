/* list.c - items are looked at, brought back, and dropped, by hand. For operators; thread: pool. */
#include "change/change_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { LIST_BATCH = 256, LIST_BYTES_MAX = 16 << 20, LIST_LOOKS_MAX = 100 * 1000 };

/* A rule that is gone and has items still has its row. */
err change_rule_number(struct change *c, str rule, uint32_t *number, struct err_note *note)
{
    struct change_rule_row row = { .number = 0 };
    struct engine_view *v = engine_view_begin(c->opts.engine);
    err why = rule.n == 0 || rule.n > RULE_NAME_BYTES_MAX ? ERR_NOT_FOUND
                                                          : change_rule_get(v, rule, &row);
    engine_view_end(&v);
    *number = row.number;
    if (why == ERR_NOT_FOUND)
        err_note_set(note, "there is no rule named '%.*s'", STR_ARG(rule));
    else if (why != ERR_OK)
        err_note_set(note, "the rule cannot be read: %s", err_name(why));
    return why;
}

/* ---- one item, for people ---- */

/* ERR_CORRUPT: the event is damaged; all else of the item can be told. */
static err bytes_read(struct change *c, const struct change_item_kept *k, struct arena *a, str *out)
{
    const struct engine_blob *b = &k->blob;
    if (k->lost)
        return ERR_CORRUPT;
    char *p = arena_alloc(a, b->n + 1);
    if (p == NULL)
        return ERR_LIMIT;
    err why = b->n == 0 ? ERR_OK : engine_blob_read(c->opts.engine, b, 0, b->n, p);
    if (why == ERR_OK && b->n > 0 && XXH3_64bits(p, b->n) != b->hash)
        why = ERR_CORRUPT;
    *out = (str){ .p = p, .n = b->n };
    return why;
}

static err item_fill(struct change *c, str rule, uint64_t id, const struct change_item_kept *k,
                     struct arena *a, struct change_item *out)
{
    *out = (struct change_item){ .id = id,
                                 .seq = k->row.seq,
                                 .state = k->row.state,
                                 .attempts = k->row.attempts,
                                 .taken = k->row.taken,
                                 .due = k->row.due,
                                 .stream = arena_copy(a, k->row.stream),
                                 .domain = arena_copy(a, k->row.domain),
                                 .type = arena_copy(a, k->row.type),
                                 .error = arena_copy(a, k->row.error),
                                 .target = STR(""),
                                 .title = STR("") };
    /* Targets and runs may change behind: what is told is of this moment. */
    change_lock(c);
    struct change_runner *r = change_runner_find(c, rule);
    out->running = r != NULL && change_run_is_of(r, id);
    out->why = out->running ? STR("") : change_why(c, r, &k->row, a);
    if (r != NULL && r->rule != NULL)
        for (unsigned i = 0; i < r->rule->targets.count; i++)
            if (change_target_hash(r->rule->targets.p[i]) == k->row.target)
                out->target = arena_copy(a, r->rule->targets.p[i]);
    change_unlock(c);
    bool full = out->stream.p == NULL || out->domain.p == NULL || out->type.p == NULL ||
                out->error.p == NULL || out->why.p == NULL || out->target.p == NULL;
    return full ? ERR_LIMIT : ERR_OK;
}

/* What the item's event says: its title. Without wants_bytes the event leaves the arena again. */
static err item_read(struct change *c, const struct change_item_kept *k, struct rule_event *e,
                     struct arena *a, bool wants_bytes, struct change_item *out)
{
    str bytes;
    struct arena_mark mark = arena_mark(a);
    err why = bytes_read(c, k, a, &bytes);
    if (why == ERR_CORRUPT)
        return ERR_OK; /* the rest of it is told */
    if (why != ERR_OK)
        return why;
    const struct rule_given given = { .stream = out->stream,
                                      .domain = out->domain,
                                      .bytes = bytes,
                                      .at = k->row.taken,
                                      .now = clock_store(c->opts.clock) };
    bool is_event = rule_event_begin(e, &given) == ERR_OK;
    str title = is_event ? rule_event_title(e) : STR("");
    if (wants_bytes) {
        out->bytes = bytes;
        out->title = arena_copy(a, title);
        return out->title.p == NULL ? ERR_LIMIT : ERR_OK;
    }
    /* The title lies in what is released; it is cut to what titles have. */
    char keep[1024];
    size_t n = title.n < sizeof keep ? title.n : sizeof keep;
    if (n > 0)
        memcpy(keep, title.p, n);
    arena_release(a, mark);
    out->title = arena_copy(a, (str){ .p = keep, .n = n });
    return out->title.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- listings ---- */

/* One page under way; v is one state for all of it. */
struct listing {
    struct change *c;
    struct change_listing *l;
    struct arena *a;
    struct rule_event *event;
    struct engine_view *v;
    uint32_t number;
    size_t bytes;
};

static bool is_listed(const struct change_listing *l, const struct change_item_row *r)
{
    return (l->state < 0 || (int)r->state == l->state) &&
           (l->type.n == 0 || str_eq(l->type, r->type)) &&
           (l->domain.n == 0 || str_eq(l->domain, r->domain));
}

/* An item that can be read and is meant, or the end of the page. */
static err listing_add(struct listing *g, uint64_t id, bool *full)
{
    struct change_item_kept k;
    struct change_listing *l = g->l;
    err why = change_item_get(g->v, g->number, id, &k);
    if (why == ERR_NOT_FOUND || why == ERR_CORRUPT) /* palimpsest check tells of it */
        return ERR_OK;
    if (why != ERR_OK || !is_listed(l, &k.row))
        return why;
    *full = l->count == l->limit || (l->count > 0 && g->bytes + k.blob.n > LIST_BYTES_MAX);
    if (*full) {
        l->next = id;
        return ERR_OK;
    }
    g->bytes += l->wants_bytes ? k.blob.n : 0;
    /* Events are read for their title in any case, one at a time. */
    why = item_fill(g->c, l->rule, id, &k, g->a, &l->items[l->count]);
    if (why == ERR_OK)
        why = item_read(g->c, &k, g->event, g->a, l->wants_bytes, &l->items[l->count]);
    l->count++;
    return why;
}

static err listing_run(struct listing *g)
{
    struct change_key from, prefix;
    struct engine_row row;
    bool full = false;
    unsigned looks = 0;
    uint32_t rule;
    uint64_t id;
    err why;
    change_key_item(&from, g->number, g->l->pivot);
    change_key_item(&prefix, g->number, 0);
    if (g->l->state == CHANGE_DEAD)
        from.p[0] = prefix.p[0] = 'd'; /* they have an index of their own */
    struct engine_cursor *c =
        change_rows_open(g->v, str_take(change_key_str(&prefix), prefix.n - sizeof id),
                         change_key_str(&from));
    /* An item behind the last that fits says where the next page begins. */
    while (!full && (why = change_rows_next(c, &row)) == ERR_OK) {
        why = change_key_item_parse(row.key, &rule, &id) ? listing_add(g, id, &full) : ERR_CORRUPT;
        if (why != ERR_OK)
            break;
        full = full || ++looks == LIST_LOOKS_MAX;
        /* So many were looked at, and few were meant: the next page goes on behind. */
        if (full && g->l->next == 0)
            g->l->next = id + 1;
    }
    engine_cursor_close(&c);
    return full || why == ERR_NOT_FOUND ? ERR_OK : why;
}

err change_list(struct change *c, struct change_listing *l, struct arena *a, struct err_note *note)
{
    struct change_ruled *ruled = change_ruled_now(c);
    struct listing g = { .c = c, .l = l, .a = a };
    l->count = 0;
    l->next = 0;
    l->limit = l->limit == 0 || l->limit > CHANGE_LIST_MAX ? CHANGE_LIST_MAX : l->limit;
    l->items = arena_calloc(a, l->limit, sizeof *l->items);
    err why = l->items == NULL ? ERR_LIMIT : change_rule_number(c, l->rule, &g.number, note);
    if (why == ERR_OK) {
        g.event = change_event_take(ruled);
        g.v = engine_view_begin(c->opts.engine);
        why = listing_run(&g);
        engine_view_end(&g.v);
        change_event_give(ruled, g.event);
        if (why != ERR_OK)
            err_note_set(note, "the items cannot be read: %s", err_name(why));
    }
    change_ruled_unref(&ruled);
    return why;
}

err change_find(struct change *c, str rule, uint64_t id, struct arena *a, struct change_item *out,
                struct err_note *note)
{
    struct change_item_kept k;
    uint32_t number;
    err why = change_rule_number(c, rule, &number, note);
    if (why != ERR_OK)
        return why;
    struct change_ruled *ruled = change_ruled_now(c);
    struct rule_event *e = change_event_take(ruled);
    struct engine_view *v = engine_view_begin(c->opts.engine);
    /* The view holds the row and its blob until the event was read. */
    why = change_item_get(v, number, id, &k);
    if (why == ERR_OK)
        why = item_fill(c, rule, id, &k, a, out);
    if (why == ERR_OK)
        why = item_read(c, &k, e, a, true, out);
    engine_view_end(&v);
    change_event_give(ruled, e);
    change_ruled_unref(&ruled);
    if (why != ERR_OK)
        err_note_set(note,
                     why == ERR_NOT_FOUND ? "rule '%.*s' has no such item"
                                          : "an item of rule '%.*s' cannot be read",
                     STR_ARG(rule));
    return why;
}

/* ---- many at once ---- */

/* One order by hand, update after update. ids: those of the update at hand. */
struct handling {
    uint32_t number;
    uint64_t id; /* 0: all */
    int state;   /* -1: each */
    bool drops;
    uint64_t from, next; /* from that id on; out: the next time. UINT64_MAX: there are no more */
    unsigned found;
    uint64_t ids[LIST_BATCH];
    uint64_t *running; /* what runs; of drops */
    unsigned running_count;
    struct change_edit edit;
};

static bool is_running(const struct handling *h, uint64_t id)
{
    for (unsigned i = 0; i < h->running_count; i++)
        if (h->running[i] == id)
            return true;
    return false;
}

/* Retrying means what failed or waits; dropping means what does not run. */
static bool is_handled(const struct handling *h, uint64_t id, const struct change_item_row *r)
{
    if (h->drops)
        return (h->state < 0 || (int)r->state == h->state) && !is_running(h, id);
    return r->state == CHANGE_DEAD || r->state == CHANGE_SCHEDULED;
}

/* On the committer: the next ones that are meant. */
static err handling_find(struct handling *h, uint64_t *last)
{
    struct change_key key, prefix;
    struct engine_row row;
    uint32_t rule;
    uint64_t id;
    err why;
    unsigned looks = 0;
    change_key_item(&key, h->number, h->from);
    change_key_item(&prefix, h->number, 0);
    struct engine_cursor *c =
        change_rows_open(engine_txn_view(h->edit.txn),
                         str_take(change_key_str(&prefix), prefix.n - sizeof id),
                         change_key_str(&key));
    h->found = 0;
    while (h->found < LIST_BATCH && looks++ < CHANGE_LOOKS_MAX &&
           (why = change_rows_next(c, &row)) == ERR_OK) {
        struct change_item_row item;
        if (!change_key_item_parse(row.key, &rule, &id) ||
            change_item_decode(row.value, &item) != ERR_OK) {
            why = ERR_CORRUPT;
            break;
        }
        *last = id;
        if (is_handled(h, id, &item))
            h->ids[h->found++] = id;
    }
    engine_cursor_close(&c);
    /* The last batch was not full, nor were looks: the rows have ended, or are damaged. */
    if (h->found == LIST_BATCH || looks > CHANGE_LOOKS_MAX)
        return ERR_OK;
    *last = UINT64_MAX; /* there are no more */
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err handle_one(struct handling *h, uint64_t id)
{
    return h->drops ? change_item_drop(&h->edit, h->number, id)
                    : change_item_wake(&h->edit, h->number, id, true);
}

/* On the committer; it may be run again, so nothing of h that it reads is changed. */
static err handling_decide(struct engine_txn *t, void *ctx)
{
    struct handling *h = ctx;
    uint64_t last = UINT64_MAX;
    err why = ERR_OK;
    change_edit_begin(&h->edit, t);
    if (h->id != 0 && is_running(h, h->id)) {
        why = ERR_CONFLICT;
    } else if (h->id != 0) {
        struct change_item_kept item;
        why = change_item_get(engine_txn_view(t), h->number, h->id, &item);
        h->ids[0] = h->id;
        h->found = why == ERR_OK && is_handled(h, h->id, &item.row);
    } else {
        why = handling_find(h, &last);
    }
    for (unsigned i = 0; i < h->found && why == ERR_OK; i++)
        why = handle_one(h, h->ids[i]);
    if (why == ERR_OK)
        why = change_edit_end(&h->edit);
    h->next = last == UINT64_MAX ? last : last + 1; /* not from: this may be run again */
    return why;
}

/* Nothing of the rule begins until handling_let_go. */
static void handling_hold(struct change *c, struct handling *h)
{
    change_lock(c);
    struct change_runner *r = change_runner_numbered(c, h->number);
    if (r != NULL) {
        /* Counted: several drops may hold it. */
        r->holds++;
        h->running_count = r->running;
        h->running = realloc(h->running, (r->running + 1) * sizeof *h->running);
        INVARIANT(h->running != NULL);
        change_runs_ids(r, h->running);
    }
    change_unlock(c);
}

static void handling_let_go(struct change *c, const struct handling *h)
{
    change_lock(c);
    struct change_runner *r = change_runner_numbered(c, h->number);
    if (r != NULL && r->holds > 0) /* 0: it was made meanwhile, of a rule that came back */
        r->holds--;
    change_unlock(c);
}

/* The runner begins nothing while the update decides by what ran before it. */
static err handling_update(struct change *c, struct handling *h)
{
    /* a full disk can be emptied by hand, and what is ready is on its way to its end */
    const struct engine_update update = {
        .decide = handling_decide, .ctx = h, .deadline = change_update_deadline(c), .frees = true
    };
    if (!h->drops)
        return engine_submit_wait(c->opts.engine, &update);
    handling_hold(c, h);
    err why = engine_submit_wait(c->opts.engine, &update);
    handling_let_go(c, h);
    return why;
}

/* Loop: what became ready begins. */
static void handled(void *ctx)
{
    struct change *c = ctx;
    change_lock(c);
    change_due_at(c, STORE_TIME_ZERO); /* one that comes next may be due later */
    for (unsigned i = 0; i < c->runners_count; i++)
        change_runner_wake(c->runners[i]);
    change_unlock(c);
}

static err list_handle(struct change *c, struct handling *h, str rule, uint64_t *count,
                       struct err_note *note)
{
    err why = change_rule_number(c, rule, &h->number, note);
    *count = 0;
    if (why != ERR_OK)
        return why;
    do {
        why = handling_update(c, h);
        if (why == ERR_OK)
            *count += h->found;
        h->from = h->next;
        /* One item is one update; of many, the next goes on behind the last that was looked at. */
    } while (why == ERR_OK && h->id == 0 && h->from != UINT64_MAX);
    loop_post(c->opts.loop, handled, c);
    if (why != ERR_OK)
        err_note_set(note,
                     why == ERR_NOT_FOUND  ? "rule '%.*s' has no such item"
                     : why == ERR_CONFLICT ? "the item of rule '%.*s' runs, and comes to its end"
                     : why == ERR_TIMEOUT ? "the store did not come to the items of rule '%.*s' in "
                                            "time; some may be changed"
                                          : "items of rule '%.*s' could not be changed",
                     STR_ARG(rule));
    return why;
}

/* All of it is on the heap: ids of a batch are too many for a stack of the pool. */
err change_retry(struct change *c, str rule, uint64_t id, uint64_t *count, struct err_note *note)
{
    struct handling *h = calloc(1, sizeof *h);
    INVARIANT(h != NULL);
    h->id = id;
    h->state = -1;
    err why = list_handle(c, h, rule, count, note);
    free(h);
    return why;
}

err change_drop(struct change *c, str rule, uint64_t id, int state, uint64_t *count,
                struct err_note *note)
{
    struct handling *h = calloc(1, sizeof *h);
    INVARIANT(h != NULL);
    h->id = id;
    h->state = state;
    h->drops = true;
    err why = list_handle(c, h, rule, count, note);
    free(h->running);
    free(h);
    return why;
}
