/* lanes.c - how many items of a rule are in which state, for each domain and type. For
 * operators; thread: pool.
 *   The rows of all its items are gone over: nothing counts them by lane, for two counts more
 * would be written with each item. So there are limits, and `cut` says when one of them was
 * met. */
#include "change/lanes.h"

#include "base/map.h"
#include "change/change_impl.h"

#include <stdlib.h>
#include <string.h>

/* One count under way, on the stack of change_lanes_get. */
struct laning {
    struct change *c;
    struct change_lanes *l;
    struct arena *a;
    uint32_t number;
    uint64_t from;
    uint64_t looks;
    uint64_t *running; /* ids, sorted */
    size_t running_count;
    struct map *by; /* of domain, NUL, type */
    bool more;
};

static int id_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* What runs is READY in its row: the runner knows. Taken once, so counts may be a moment old. */
static void running_take(struct laning *g)
{
    change_lock(g->c);
    const struct change_runner *r = change_runner_numbered(g->c, g->number);
    g->running_count = r == NULL ? 0 : r->running;
    g->running = calloc(g->running_count + 1, sizeof *g->running);
    INVARIANT(g->running != NULL);
    if (r != NULL)
        change_runs_ids(r, g->running);
    change_unlock(g->c);
    qsort(g->running, g->running_count, sizeof *g->running, id_cmp);
}

/* NULL: there are too many already, or no memory. */
static struct change_lane *lane_of(struct laning *g, const struct change_item_row *row)
{
    /* NUL between them: names have none. */
    char key[2 * (EVENT_NAME_BYTES_MAX + 1)];
    size_t n = row->domain.n;
    memcpy(key, row->domain.p, n);
    key[n++] = '\0';
    memcpy(key + n, row->type.p, row->type.n);
    n += row->type.n;
    struct change_lane *lane = map_get(g->by, (str){ .p = key, .n = n });
    if (lane != NULL || g->l->count == CHANGE_LANES_MAX)
        return lane;
    lane = &g->l->lanes[g->l->count];
    *lane = (struct change_lane){ .domain = arena_copy(g->a, row->domain),
                                  .type = arena_copy(g->a, row->type),
                                  .oldest = row->taken };
    if (lane->domain.p == NULL || lane->type.p == NULL)
        return NULL;
    g->l->count++;
    (void)map_put(g->by, (str){ .p = key, .n = n }, lane);
    return lane;
}

static void item_count(struct laning *g, uint64_t id, const struct change_item_row *row)
{
    struct change_lane *lane = lane_of(g, row);
    if (lane == NULL) {
        g->l->cut = true;
        return;
    }
    lane->oldest = store_time_min(lane->oldest, row->taken);
    if (bsearch(&id, g->running, g->running_count, sizeof id, id_cmp) != NULL)
        lane->running++;
    else
        lane->counts[row->state]++;
}

/* Some rows, in one view. A view is held for moments: the store frees nothing while it is. */
static err laning_look(struct laning *g)
{
    struct change_key from, prefix;
    struct change_item_row item;
    struct engine_row row;
    uint32_t rule;
    uint64_t id;
    err why = ERR_OK;
    change_key_item(&from, g->number, g->from);
    change_key_item(&prefix, g->number, 0);
    struct engine_view *v = engine_view_begin(g->c->opts.engine);
    struct engine_cursor *c =
        change_rows_open(v, str_take(change_key_str(&prefix), prefix.n - sizeof id),
                         change_key_str(&from));
    for (unsigned i = 0; i < CHANGE_LOOKS_MAX && (why = change_rows_next(c, &row)) == ERR_OK; i++) {
        if (!change_key_item_parse(row.key, &rule, &id))
            continue;
        g->from = id + 1;
        g->looks++;
        if (change_item_decode(row.value, &item) == ERR_OK) /* palimpsest check tells of damage */
            item_count(g, id, &item);
    }
    engine_cursor_close(&c);
    engine_view_end(&v);
    g->more = why == ERR_OK;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static int lane_cmp(const void *a, const void *b)
{
    const struct change_lane *x = a, *y = b;
    int order = str_cmp(x->domain, y->domain);
    return order != 0 ? order : str_cmp(x->type, y->type);
}

err change_lanes_get(struct change *c, struct change_lanes *l, struct arena *a,
                     struct err_note *note)
{
    struct laning g = { .c = c, .l = l, .a = a, .more = true };
    l->count = 0;
    l->cut = false;
    l->lanes = arena_calloc(a, CHANGE_LANES_MAX, sizeof *l->lanes);
    err why = l->lanes == NULL ? ERR_LIMIT : change_rule_number(c, l->rule, &g.number, note);
    if (why != ERR_OK)
        return why;
    g.by = map_new(c->seed);
    /* Before the rows: what ends meanwhile counts once, as one or the other. */
    running_take(&g);
    while (why == ERR_OK && g.more && g.looks < CHANGE_LANE_LOOKS_MAX)
        why = laning_look(&g);
    l->cut = l->cut || g.more;
    qsort(l->lanes, l->count, sizeof *l->lanes, lane_cmp);
    map_free(&g.by);
    free(g.running);
    if (why != ERR_OK)
        err_note_set(note, "the items cannot be read: %s", err_name(why));
    return why;
}
