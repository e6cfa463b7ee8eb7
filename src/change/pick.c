/* pick.c - a runner looks for items that it may run next, a few from each lane.
 *
 * Ready items stand in the order of their lanes, and within a lane in the order of their events.
 * The look begins behind the lane that had its turn last, takes one item of each lane, and goes
 * round until it has enough, or until a whole round gives nothing. So what one lane has does not
 * matter for the others. Lanes that wait for a target, and those of a type or domain of which as
 * many run as may, are passed over: so it costs one row to pass a lane, however long.
 *   Invariant: what it finds neither runs nor is in sight: the ids of those are handed to it. */
#include "change/change_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { KEY_KIND_SHIFT = 62 };

/* ---- limits by type and domain ---- */

static uint64_t key_of(enum change_limit_by by, str name)
{
    uint64_t mask = ((uint64_t)1 << KEY_KIND_SHIFT) - 1;
    return (XXH3_64bits(name.p, name.n) & mask) | ((uint64_t)by + 1) << KEY_KIND_SHIFT;
}

static int64_t limit_of_type(const struct change_pick *p, str type)
{
    for (unsigned i = 0; i < p->types_count; i++)
        if (str_eq(str_of(p->types[i].type), type))
            return p->types[i].concurrency;
    return change_limit_of(p->rule, RULE_BY_TYPE, type, type);
}

static struct change_taken *taken_of(struct change_pick *p, uint64_t key)
{
    for (unsigned i = 0; i < p->taken_count; i++)
        if (p->taken[i].key == key)
            return &p->taken[i];
    if (p->taken_count == p->taken_size) {
        p->taken_size = 2 * p->taken_size + 16;
        p->taken = realloc(p->taken, p->taken_size * sizeof *p->taken);
        INVARIANT(p->taken != NULL);
    }
    p->taken[p->taken_count] = (struct change_taken){ .key = key };
    return &p->taken[p->taken_count++];
}

/* Counts it, if its limits leave room for it. */
static bool pick_counts(struct change_pick *p, const struct change_candidate *c)
{
    for (unsigned by = 0; by < CHANGE_BYS; by++)
        if (c->limits[by] > 0 && taken_of(p, c->keys[by])->count >= c->limits[by])
            return false;
    for (unsigned by = 0; by < CHANGE_BYS; by++)
        if (c->limits[by] > 0)
            taken_of(p, c->keys[by])->count++;
    return true;
}

/* ---- the look, on the pool ---- */

static int id_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_known(const struct change_pick *p, uint64_t id)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->found[i].id == id)
            return true;
    return bsearch(&id, p->known, p->known_count, sizeof id, id_cmp) != NULL;
}

static bool is_blocked(const struct change_pick *p, const struct change_digest *lane)
{
    for (unsigned i = 0; i < p->blocked_count; i++)
        if (memcmp(&p->blocked[i], lane, sizeof *lane) == 0)
            return true;
    return false;
}

struct picking {
    struct change_pick *pick;
    struct engine_view *view;
    struct engine_cursor *cursor;
    unsigned looks;
};

static err picking_next(struct picking *g, struct change_digest *lane, uint64_t *id)
{
    struct engine_row row;
    g->looks++;
    err why = change_rows_next(g->cursor, &row);
    if (why == ERR_OK && !change_key_ready_parse(row.key, lane, id))
        return ERR_CORRUPT;
    return why;
}

static void picking_seek(struct picking *g, const struct change_digest *lane, uint64_t id)
{
    struct change_key key;
    change_key_ready(&key, g->pick->number, lane, id);
    engine_cursor_seek(g->cursor, change_key_str(&key));
}

/* Takes this item, if it may run. ERR_NOT_FOUND, ERR_CORRUPT: it is lost or damaged. */
static err picking_take(struct picking *g, const struct change_digest *lane, uint64_t id)
{
    struct change_pick *p = g->pick;
    struct change_item_kept item;
    err why = change_item_get(g->view, p->number, id, &item);
    if (why != ERR_OK)
        return why;
    if (change_target_is_closed(p->closed, p->closed_count, item.row.target)) {
        p->closed_lanes++;
        return ERR_OK;
    }
    struct change_candidate *c = &p->found[p->count];
    *c = (struct change_candidate){
        .id = id,
        .target = item.row.target,
        .bytes = item.blob.n,
        .lane = *lane,
        .keys = { key_of(CHANGE_BY_TYPE, item.row.type),
                  key_of(CHANGE_BY_DOMAIN, item.row.domain) },
        .limits = { limit_of_type(p, item.row.type),
                    change_limit_of(p->rule, RULE_BY_DOMAIN, item.row.domain, item.row.domain) }
    };
    if (pick_counts(p, c))
        p->count++;
    else
        p->limited = true;
    return ERR_OK;
}

/* One round of the lanes from here to the end. */
static err picking_round(struct picking *g)
{
    struct change_pick *p = g->pick;
    struct change_digest lane, last;
    uint64_t id;
    bool passed = false; /* the first unknown one of `last` was looked at */
    bool began = false;
    err why = ERR_OK;
    while (p->count < p->wanted && g->looks < CHANGE_LOOKS_MAX &&
           (why = picking_next(g, &lane, &id)) == ERR_OK) {
        bool same = began && memcmp(&lane, &last, sizeof lane) == 0;
        passed = same && passed;
        began = true;
        last = lane;
        if (!passed && !is_blocked(p, &lane)) {
            if (is_known(p, id))
                continue;
            why = picking_take(g, &lane, id);
            if (why == ERR_NOT_FOUND || why == ERR_CORRUPT)
                continue; /* palimpsest check tells of it; the next of its lane has the turn */
            if (why != ERR_OK)
                return why;
        }
        p->lane = lane;
        picking_seek(g, &lane, UINT64_MAX);
        passed = true;
    }
    return p->count == p->wanted || g->looks >= CHANGE_LOOKS_MAX ? ERR_OK : why;
}

static err picking_run(struct picking *g)
{
    struct change_pick *p = g->pick;
    struct change_key prefix, from;
    change_key_counts(&prefix, p->number);
    prefix.p[0] = 'r';
    change_key_ready(&from, p->number, &p->lane, UINT64_MAX);
    g->cursor = change_rows_open(g->view, change_key_str(&prefix), change_key_str(&from));
    err why = picking_round(g);
    bool whole = false; /* the round that ended went over all lanes */
    unsigned before = 0;
    while (why == ERR_NOT_FOUND && !(whole && p->count == before)) {
        before = p->count;
        engine_cursor_close(&g->cursor);
        g->cursor = change_rows_open(g->view, change_key_str(&prefix), STR_NONE);
        why = picking_round(g);
        whole = true;
    }
    engine_cursor_close(&g->cursor);
    p->more = why == ERR_OK;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static void pick_run(struct loop_job *j)
{
    struct change_pick *p = CONTAINER_OF(j, struct change_pick, job);
    struct picking g = { .pick = p, .view = engine_view_begin(p->c->opts.engine) };
    qsort(p->known, p->known_count, sizeof *p->known, id_cmp);
    p->failed = picking_run(&g) != ERR_OK;
    engine_view_end(&g.view);
}

/* ---- on the loop ---- */

static void pick_free(struct change_pick *p)
{
    change_ruled_unref(&p->ruled);
    free(p->known);
    free(p->taken);
    free(p);
}

/* A look that saw a part of the lanes, and found nothing, goes on where it was; but not for ever.
 */
static void pick_goes_on(struct change_runner *r, const struct change_pick *p)
{
    r->barren = p->more && p->count == 0 ? r->barren + 1 : 0;
    if (r->barren < CHANGE_BARREN_MAX) {
        r->more = r->more || p->more;
        return;
    }
    r->barren = 0;
    r->limited = true;
    r->rests_until = mono_add_ms(clock_mono(r->change->opts.clock), CHANGE_AGAIN_MS);
}

static void pick_done(struct loop_job *j, bool canceled)
{
    struct change_pick *p = CONTAINER_OF(j, struct change_pick, job);
    struct change *c = p->c;
    change_lock(c);
    struct change_runner *r = p->runner;
    r->pick = NULL;
    if (!canceled && r->rule == p->rule && r->choices == p->choices) {
        for (unsigned i = 0; i < p->count && r->window_count < CHANGE_WINDOW; i++)
            r->window[r->window_count++] = p->found[i];
        r->lane = p->lane;
        r->limited = p->limited;
        pick_goes_on(r, p);
        if (p->closed_lanes > CHANGE_BLOCKED_MAX)
            r->look_after = mono_add_ms(clock_mono(c->opts.clock), CHANGE_LOOK_REST_MS);
    } else {
        r->more = true;
    }
    if (p->failed) {
        change_runner_error(r, STR("the rows of its items cannot be read"));
        r->more = true;
        r->wake_at = mono_add_ms(clock_mono(c->opts.clock), CHANGE_AGAIN_MS);
        change_arm(c, r->wake_at);
    } else {
        change_runner_fill(r);
    }
    pick_free(p);
    change_busy(c, -1);
    change_unlock(c);
}

static void pick_know(struct change_pick *p, const struct change_candidate *c)
{
    p->known[p->known_count++] = c->id;
    for (unsigned by = 0; by < CHANGE_BYS; by++)
        if (c->limits[by] > 0)
            taken_of(p, c->keys[by])->count++;
}

void change_pick_start(struct change_runner *r)
{
    struct change *c = r->change;
    struct change_pick *p = calloc(1, sizeof *p);
    INVARIANT(p != NULL);
    p->job = (struct loop_job){ .run = pick_run, .done = pick_done };
    p->c = c;
    p->runner = r;
    p->ruled = change_ruled_ref(c->ruled);
    p->rule = r->rule;
    p->number = r->number;
    p->wanted = CHANGE_WINDOW - r->window_count;
    p->choices = r->choices;
    p->lane = r->lane;
    p->known = calloc(r->window_count + r->running + 1, sizeof *p->known);
    INVARIANT(p->known != NULL);
    for (unsigned i = 0; i < r->window_count; i++)
        pick_know(p, &r->window[i]);
    change_runs_each(r, pick_know, p);
    mono now = clock_mono(c->opts.clock);
    for (unsigned i = 0; i < r->blocked_count; i++)
        if (r->blocked[i].until.ns > now.ns)
            p->blocked[p->blocked_count++] = r->blocked[i].lane;
    memcpy(p->closed, r->closed, sizeof p->closed);
    p->closed_count = r->closed_count;
    memcpy(p->types, r->types, sizeof p->types);
    p->types_count = r->types_count;
    r->pick = p;
    r->more = false;
    r->limited = false;
    change_busy(c, 1);
    loop_job_start(c->opts.loop, &p->job);
}
