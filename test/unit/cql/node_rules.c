/* node_rules.c - the test's rules, what the clients sent, and waiting for it. */
#include "unit/cql/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

unsigned node_cells(str cells)
{
    struct cursor in = { .rest = cells };
    unsigned count = 0;
    while (in.rest.n > 0 && !in.failed) {
        int32_t n = (int32_t)cursor_be32(&in);
        if (n > 0)
            (void)cursor_bytes(&in, (size_t)n);
        count++;
    }
    INVARIANT(!in.failed);
    return count;
}

str node_value(const struct node_request *r, unsigned index)
{
    struct cursor in = { .rest = r->values };
    str value = STR_NONE;
    INVARIANT(index < r->values_count);
    for (unsigned i = 0; i <= index; i++) {
        int32_t n = (int32_t)cursor_be32(&in);
        value = n < 0 ? STR_NONE : cursor_bytes(&in, (size_t)n);
        if (n == 0)
            value = STR("");
    }
    INVARIANT(!in.failed);
    return value;
}

/* ---- rules ---- */

static bool match_fits(const struct node_match *m, int node, const struct node_request *r,
                       bool registered)
{
    if (node != NODE_ANY && (unsigned)node != r->node)
        return false;
    if (m == NULL)
        return true;
    if (m->ops != 0 && (m->ops & BIT(r->op)) == 0)
        return false;
    if (m->connection != 0 && m->connection != r->connection)
        return false;
    if (m->registered && !registered)
        return false;
    return m->text == NULL || str_find_str(r->text, str_of(m->text)) < r->text.n;
}

static const char *keep_cstr(struct node_cluster *c, const char *s)
{
    return s == NULL ? NULL : node_keep(c, str_of(s)).p;
}

static void rule_keep(struct node_cluster *c, struct node_rule *rule)
{
    struct node_action *a = &rule->action;
    rule->match.text = keep_cstr(c, rule->match.text);
    rule->has_columns = a->columns != NULL;
    if (rule->has_columns)
        rule->columns = node_shape_of(c, a->columns);
    if (a->rows != NULL)
        rule->cells = node_keep(c, buf_str(&a->rows->bytes));
    a->columns = NULL;
    a->rows = NULL;
    a->body = node_keep(c, a->body);
    a->error.message = node_keep(c, a->error.message);
    a->error.id = node_keep(c, a->error.id);
    a->error.keyspace = node_keep(c, a->error.keyspace);
    a->error.table = node_keep(c, a->error.table);
    a->payload.name = node_keep(c, a->payload.name);
    a->payload.value = node_keep(c, a->payload.value);
    for (unsigned i = 0; i < NODE_WARNINGS_MAX; i++)
        a->warnings[i] = keep_cstr(c, a->warnings[i]);
}

/* Rules for some times stand before those for ever; these are in the order of age, newest first. */
static void rule_insert(struct node_cluster *c, struct node_rule *rule)
{
    struct node_rule **at = &c->rules;
    while (*at != NULL && (*at)->match.times > 0)
        at = &(*at)->next;
    rule->next = *at;
    *at = rule;
}

unsigned node_say(struct node_cluster *c, int node, const struct node_match *match,
                  const struct node_action *action)
{
    node_lock(c);
    INVARIANT(node == NODE_ANY || node_of(c, node) != NULL);
    struct node_rule *rule = arena_calloc(&c->arena, 1, sizeof *rule);
    INVARIANT(rule != NULL);
    *rule = (struct node_rule){ .number = ++c->rules_made, .node = node, .action = *action };
    if (match != NULL)
        rule->match = *match;
    rule_keep(c, rule);
    rule_insert(c, rule);
    unsigned number = rule->number;
    node_unlock(c);
    return number;
}

void node_unsay(struct node_cluster *c, unsigned rule)
{
    node_lock(c);
    for (struct node_rule *r = c->rules; r != NULL; r = r->next)
        if (rule == 0 || r->number == rule)
            r->gone = true;
    node_unlock(c);
}

unsigned node_said(struct node_cluster *c, unsigned rule)
{
    unsigned used = 0;
    node_lock(c);
    for (const struct node_rule *r = c->rules; r != NULL; r = r->next)
        if (r->number == rule)
            used = r->used;
    node_unlock(c);
    return used;
}

const struct node_rule *node_rule_take(struct node_conn *conn, const struct node_request *r)
{
    for (struct node_rule *rule = conn->cluster->rules; rule != NULL; rule = rule->next) {
        const struct node_match *m = &rule->match;
        if (rule->gone || (m->times > 0 && rule->used == m->times) ||
            !match_fits(m, rule->node, r, conn->registered != 0))
            continue;
        if (rule->passed < m->skip) {
            rule->passed++;
            continue;
        }
        rule->used++;
        return rule;
    }
    return NULL;
}

/* ---- what came ---- */

void node_record(struct node_conn *conn, const struct node_request *r)
{
    struct node_cluster *c = conn->cluster;
    if (c->records_count == c->records_size) {
        c->records_size = c->records_size == 0 ? 64 : c->records_size * 2;
        c->records = realloc(c->records, c->records_size * sizeof *c->records);
        INVARIANT(c->records != NULL);
    }
    struct node_record kept = { .request = *r, .registered = conn->registered != 0 };
    struct node_request *k = &kept.request;
    str *slices[] = { &k->text,     &k->id,     &k->columns_id, &k->page_state,
                      &k->keyspace, &k->values, &k->payload };
    for (size_t i = 0; i < COUNT_OF(slices); i++)
        if (slices[i]->n > 0)
            *slices[i] = node_keep(c, *slices[i]);
        else
            *slices[i] = STR_NONE;
    c->records[c->records_count++] = kept;
}

bool node_request(struct node_cluster *c, int node, const struct node_match *match, unsigned index,
                  struct node_request *out)
{
    bool found = false;
    node_lock(c);
    for (size_t i = c->records_first; i < c->records_count && !found; i++) {
        const struct node_record *r = &c->records[i];
        if (!match_fits(match, node, &r->request, r->registered))
            continue;
        found = index-- == 0;
        if (found)
            *out = r->request;
    }
    node_unlock(c);
    return found;
}

unsigned node_requests(struct node_cluster *c, int node, const struct node_match *match)
{
    unsigned count = 0;
    node_lock(c);
    for (size_t i = c->records_first; i < c->records_count; i++)
        count += match_fits(match, node, &c->records[i].request, c->records[i].registered);
    node_unlock(c);
    return count;
}

void node_clear(struct node_cluster *c)
{
    node_lock(c);
    c->records_first = c->records_count;
    node_unlock(c);
}

struct node_counts node_counts(struct node_cluster *c, int node)
{
    struct node_counts counts = { .accepted = 0 };
    node_lock(c);
    for (unsigned i = 0; i < c->count; i++) {
        if (node != NODE_ANY && (unsigned)node != i)
            continue;
        counts.accepted += c->nodes[i].accepted;
        counts.in_flight += c->nodes[i].in_flight;
        counts.in_flight_max = c->nodes[i].in_flight_max;
    }
    if (node == NODE_ANY)
        counts.in_flight_max = c->in_flight_max;
    for (const struct node_conn *conn = c->conns; conn != NULL; conn = conn->next) {
        if ((node != NODE_ANY && (unsigned)node != conn->node) || conn->ended || conn->dead)
            continue;
        counts.open++;
        counts.ready += conn->stage == STAGE_READY;
        counts.registered += conn->registered != 0;
    }
    node_unlock(c);
    return counts;
}

const char *node_complaint(struct node_cluster *c)
{
    node_lock(c);
    const char *first = c->complaint[0] == '\0' ? NULL : c->complaint; /* written once */
    node_unlock(c);
    return first;
}

/* ---- waiting ---- */

bool node_wait_for(struct node_cluster *c, node_look_fn *look, void *ctx, int64_t timeout_ms)
{
    int64_t end_ms = node_now_ms() + timeout_ms;
    struct timespec end = { .tv_sec = (time_t)(end_ms / 1000),
                            .tv_nsec = (long)(end_ms % 1000) * 1000000 };
    int why = 0;
    node_lock(c);
    bool seen = look(c, ctx);
    while (!seen && why == 0) {
        why = pthread_cond_timedwait(&c->changed, &c->lock, &end);
        INVARIANT(why == 0 || why == ETIMEDOUT);
        seen = look(c, ctx);
    }
    node_unlock(c);
    return seen;
}

struct wanted {
    int node;
    const struct node_match *match;
    unsigned count;
};

static bool wanted_came(struct node_cluster *c, void *ctx)
{
    const struct wanted *w = ctx;
    return node_requests(c, w->node, w->match) >= w->count;
}

bool node_wait(struct node_cluster *c, int node, const struct node_match *match, unsigned count,
               int64_t timeout_ms)
{
    struct wanted w = { .node = node, .match = match, .count = count };
    return node_wait_for(c, wanted_came, &w, timeout_ms);
}
