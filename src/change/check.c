/* check.c - what the rows of items must hold among each other: items.h says it.
 *
 * All of it is looked at in one view, for counts and items have to be of one instant. The timelines
 * that rules keep are looked at, too: timeline/timeline.h says what they must hold. */
#include "change/change.h"
#include "change/rows.h"

#include "base/buf.h"
#include "timeline/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts of damages; the size of a row of 'N'. */
enum { CHECK_TEXT_BYTES = 256, CHECK_NEXT_BYTES = 8 };

/* A rule by its number, with the counts that its row says and those that were found. */
struct checked_rule {
    uint32_t number;
    char name[RULE_NAME_BYTES_MAX + 1]; /* empty: it has rows, and no name */
    struct change_counts said, found;
};
/* One check, on the stack of change_check. */
struct checking {
    void (*found)(void *ctx, const char *what);
    void *ctx;
    struct engine_view *view;
    struct checked_rule *rules;
    unsigned rules_count;
    uint64_t *shared; /* sequence numbers of events that items share, one for each item */
    size_t shared_count, shared_size, shared_at;
    uint64_t next;        /* number of a rule; 0: unknown */
    struct change_key at; /* the row that is looked at */
    str value;
    /* the items of one order so far */
    struct change_key order; /* without an id; n 0: none */
    unsigned open;           /* that do not wait */
    bool spoilt;             /* one of them cannot be read */
    uint64_t damages;
};

/* ---- telling ---- */

/* Every damage is told, and the check goes on. */
static void damage_say(struct checking *c, const char *what)
{
    c->damages++;
    c->found(c->ctx, what);
}

static void check_damage(struct checking *c, const char *what)
{
    char text[CHECK_TEXT_BYTES];
    (void)snprintf(text, sizeof text, "rules: %s", what); /* it fits */
    damage_say(c, text);
}

/* Found, or added: rows of a rule may come before its name. Linear: rules are few. */
static struct checked_rule *rule_of(struct checking *c, uint32_t number)
{
    for (unsigned i = 0; i < c->rules_count; i++)
        if (c->rules[i].number == number)
            return &c->rules[i];
    c->rules = realloc(c->rules, (c->rules_count + 1) * sizeof *c->rules);
    INVARIANT(c->rules != NULL);
    c->rules[c->rules_count] = (struct checked_rule){ .number = number };
    return &c->rules[c->rules_count++];
}

/* A damage of an item. id 0: of the rule itself. */
static void damage_of(struct checking *c, uint32_t rule, uint64_t id, const char *what)
{
    char text[CHECK_TEXT_BYTES], name[RULE_NAME_BYTES_MAX + 1], item[32] = "";
    (void)str_to_cstr(str_of(rule_of(c, rule)->name), name, sizeof name); /* all of these fit */
    if (name[0] == '\0')
        (void)snprintf(name, sizeof name, "number %" PRIu32, rule);
    if (id != 0)
        (void)snprintf(item, sizeof item, ", item %" PRIu64, id);
    (void)snprintf(text, sizeof text, "rule %s%s: %s", name, item, what);
    damage_say(c, text);
}

/* ---- rules ---- */

/* One row of 'n', before all items. */
static void check_name(struct checking *c)
{
    struct change_rule_row row;
    str name = str_skip(change_key_str(&c->at), 1);
    if (name.n == 0 || name.n > RULE_NAME_BYTES_MAX ||
        change_rule_decode(c->value, &row) != ERR_OK) {
        check_damage(c, "the row of a rule makes no sense");
        return;
    }
    struct checked_rule *r = rule_of(c, row.number);
    /* Numbers are never used again. */
    if (r->name[0] != '\0')
        check_damage(c, "two rules have the same number");
    (void)str_to_cstr(name, r->name, sizeof r->name); /* it fits */
    if (c->next != 0 && row.number >= c->next)
        check_damage(c, "a rule has a number that is given to the next one");
}

static void check_next(struct checking *c)
{
    if (c->at.n != 1 || c->value.n != CHECK_NEXT_BYTES)
        check_damage(c, "the next number of a rule makes no sense");
    else
        c->next = get_be64(c->value.p);
}

static void check_head(struct checking *c)
{
    struct change_head head;
    if (c->at.n != 1 || change_head_decode(c->value, &head) != ERR_OK)
        check_damage(c, "the place in the event log makes no sense");
}

static void check_counts(struct checking *c)
{
    struct cursor key = { .rest = str_skip(change_key_str(&c->at), 1) };
    struct cursor value = { .rest = c->value };
    struct change_counts said;
    uint32_t rule = cursor_be32(&key);
    for (unsigned i = 0; i < CHANGE_STATES; i++)
        said.of[i] = cursor_be64(&value);
    if (!cursor_done(&key) || !cursor_done(&value))
        check_damage(c, "the counts of a rule make no sense");
    else
        rule_of(c, rule)->said = said;
}

/* ---- items ---- */

/* A row that is there and damaged is told of as itself. */
static bool has(struct checking *c, const struct change_key *k)
{
    struct engine_row row;
    return engine_get(c->view, SPACE_CHANGE, change_key_str(k), &row) != ERR_NOT_FOUND;
}

static void shared_note(struct checking *c, uint64_t seq)
{
    if (c->shared_count == c->shared_size) {
        c->shared_size = 2 * c->shared_size + 64;
        c->shared = realloc(c->shared, c->shared_size * sizeof *c->shared);
        INVARIANT(c->shared != NULL);
    }
    c->shared[c->shared_count++] = seq;
}

/* One row of 'i': its index rows have to be there. */
static void check_item(struct checking *c)
{
    struct change_item_row row;
    struct change_key key;
    uint32_t rule;
    uint64_t id;
    if (!change_key_item_parse(change_key_str(&c->at), &rule, &id) ||
        change_item_decode(c->value, &row) != ERR_OK) {
        check_damage(c, "the row of an item makes no sense");
        return;
    }
    rule_of(c, rule)->found.of[row.state]++;
    if ((row.flags & CHANGE_ITEM_SHARES) != 0)
        shared_note(c, row.seq);
    if (change_key_state(&key, rule, id, &row) && !has(c, &key))
        damage_of(c, rule, id, "it is missing among those that are ready, scheduled or dead");
    change_key_order(&key, rule, &row.order, id);
    if (!change_digest_is_none(&row.order) && !has(c, &key))
        damage_of(c, rule, id, "it has no place among the items of its title");
    /* Numbers of events only grow: an item is for the event it was made for, or a newer one. */
    if (row.seq < id / CHANGE_SUBS)
        damage_of(c, rule, id, "its event is older than the one it was made for");
}

/* The item that an index row is of. False: there is none that can be read, and that is told. */
static bool indexed(struct checking *c, uint32_t rule, uint64_t id, struct change_item_kept *out)
{
    err why = change_item_get(c->view, rule, id, out);
    if (why == ERR_NOT_FOUND)
        damage_of(c, rule, id, "it has a place in a list, and is not there");
    return why == ERR_OK;
}

/* One of 'r', 's' and 'd'. */
static void check_state(struct checking *c)
{
    struct change_item_kept item;
    struct change_digest lane;
    struct change_key key;
    str at = change_key_str(&c->at);
    uint32_t rule = 0;
    uint64_t id = 0;
    store_time due;
    char kind = at.p[0];
    bool fits = kind == 'd'   ? change_key_item_parse(at, &rule, &id)
                : kind == 's' ? change_key_due_parse(at, &due, &rule, &id)
                              : change_key_ready_parse(at, &lane, &id);
    /* The rule of a ready row stands behind the kind; the parser does not give it. */
    struct cursor ready = { .rest = str_skip(at, 1) };
    if (kind == 'r')
        rule = cursor_be32(&ready);
    if (!fits)
        check_damage(c, "a row of a list of items makes no sense");
    else if (indexed(c, rule, id, &item) &&
             (!change_key_state(&key, rule, id, &item.row) || !str_eq(change_key_str(&key), at)))
        damage_of(c, rule, id, "it stands in a list that its state does not belong to");
}

/* ---- orders ---- */

/* All rows of one order were seen: exactly one of its items does not wait. */
static void order_end(struct checking *c)
{
    struct cursor key = { .rest = str_skip(change_key_str(&c->order), 1) };
    /* An item that cannot be read may have been the one. */
    bool judged = c->order.n > 0 && !c->spoilt && c->open != 1;
    if (judged)
        damage_of(c, cursor_be32(&key), 0,
                  c->open == 0 ? "all items of a title wait"
                               : "more than one item of a title may run");
    c->order.n = 0;
    c->open = 0;
    c->spoilt = false;
}

/* One row of 'o'. Rows of one order follow each other; another group ends the one before. */
static void check_order(struct checking *c)
{
    struct change_item_kept item;
    struct change_digest order;
    uint64_t id;
    str at = change_key_str(&c->at);
    struct cursor key = { .rest = str_skip(at, 1) };
    uint32_t rule = cursor_be32(&key);
    if (!change_key_ready_parse(at, &order, &id)) {
        check_damage(c, "the place of an item in its title makes no sense");
        return;
    }
    str group = str_take(at, at.n - sizeof id);
    if (!str_eq(group, change_key_str(&c->order))) {
        order_end(c);
        memcpy(c->order.p, group.p, group.n);
        c->order.n = group.n;
    }
    bool there = indexed(c, rule, id, &item);
    c->spoilt |= !there;
    if (there && memcmp(&item.row.order, &order, sizeof order) != 0)
        damage_of(c, rule, id, "it stands among the items of a title that is not its own");
    c->open += there && item.row.state != CHANGE_WAITING;
}

/* ---- what is remembered ---- */

static void check_memory(struct checking *c)
{
    struct cursor key = { .rest = str_skip(change_key_str(&c->at), 1) };
    struct change_key other;
    struct change_digest what;
    store_time at, until;
    uint32_t rule = cursor_be32(&key);
    str digest = cursor_bytes(&key, sizeof what.p);
    if (cursor_done(&key))
        memcpy(what.p, digest.p, sizeof what.p);
    if (!cursor_done(&key) || change_memory_get(c->view, rule, &what, &at, &until) != ERR_OK) {
        check_damage(c, "what is remembered of a job makes no sense");
        return;
    }
    change_key_forget(&other, until, rule, &what);
    if (!has(c, &other))
        check_damage(c, "what is remembered of a job is never forgotten");
}

/* One row of 'x': what it forgets has to be there, until that instant. */
static void check_forget(struct checking *c)
{
    struct change_digest what;
    store_time at, until, said;
    uint32_t rule;
    if (!change_key_forget_parse(change_key_str(&c->at), &until, &rule, &what) ||
        change_memory_get(c->view, rule, &what, &at, &said) != ERR_OK || said.ns != until.ns)
        check_damage(c, "something is to be forgotten of a job that is not remembered");
}

/* ---- the whole ---- */

static void check_row(struct checking *c)
{
    switch (c->at.p[0]) {
    case 'N':
    case 'n':
        break; /* they come first */
    case 'b':
        break; /* and these last */
    case 'c':
        check_counts(c);
        break;
    case 'h':
        check_head(c);
        break;
    case 'i':
        check_item(c);
        break;
    case 'd':
    case 'r':
    case 's':
        check_state(c);
        break;
    case 'o':
        check_order(c);
        break;
    case 'm':
        check_memory(c);
        break;
    case 'x':
        check_forget(c);
        break;
    default:
        check_damage(c, "there is a row that belongs to nothing");
    }
}

/* Keeps the row where it is looked at from: what is borrowed ends with the next read. */
static void row_keep(struct checking *c, const struct engine_row *row, char *value)
{
    memcpy(c->at.p, row->key.p, row->key.n);
    c->at.n = row->key.n;
    if (row->value.n > 0)
        memcpy(value, row->value.p, row->value.n);
    c->value = (str){ .p = value, .n = row->value.n };
}

/* Calls check for each row with that prefix. A damaged row is told, and passed over. */
static err check_rows(struct checking *c, str prefix, void (*check)(struct checking *c))
{
    char value[ENGINE_VALUE_BYTES_MAX], end[CHANGE_KEY_BYTES];
    const struct engine_range range = { .space = SPACE_CHANGE,
                                        .from = prefix,
                                        .until = engine_prefix_end(prefix, end) };
    struct engine_cursor *rows = engine_cursor_open(c->view, &range);
    struct engine_row row;
    err why;
    while ((why = engine_cursor_next(rows, &row)) == ERR_OK ||
           /* ERR_CORRUPT with a key is one row; without a key the index itself is damaged. */
           (why == ERR_CORRUPT && row.key.n > 0)) {
        bool fits = row.key.n > 0 && row.key.n <= sizeof c->at.p && row.value.n <= sizeof value;
        if (why == ERR_OK && fits)
            row_keep(c, &row, value);
        if (why == ERR_OK && fits)
            check(c);
        else
            check_damage(c, "a row is damaged");
    }
    engine_cursor_close(&rows);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* ---- events that items share ---- */

static int seq_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* One row of 'b'. It comes behind all items, in the order of numbers, as the numbers of the
 * items are sorted by then. Numbers before this one are of events that are not there. */
static void check_bytes(struct checking *c)
{
    struct engine_blob blob;
    uint64_t seq, count, found = 0;
    if (!change_key_bytes_parse(change_key_str(&c->at), &seq) ||
        change_bytes_get(c->view, seq, &count, &blob) != ERR_OK) {
        check_damage(c, "an event that items share makes no sense");
        return;
    }
    for (; c->shared_at < c->shared_count && c->shared[c->shared_at] < seq; c->shared_at++)
        check_damage(c, "the event of an item is not there");
    for (; c->shared_at < c->shared_count && c->shared[c->shared_at] == seq; c->shared_at++)
        found++;
    if (found != count)
        check_damage(c, "an event says that another number of items share it than do");
}

static err check_shared(struct checking *c)
{
    /* One number for each item that shares: so equal numbers are counted. */
    if (c->shared_count > 0)
        qsort(c->shared, c->shared_count, sizeof *c->shared, seq_cmp);
    err why = check_rows(c, STR("b"), check_bytes);
    for (; why == ERR_OK && c->shared_at < c->shared_count; c->shared_at++)
        check_damage(c, "the event of an item is not there");
    return why;
}

/* ---- totals ---- */

/* Behind all rows: what rules say is held against what was found. */
static void check_totals(struct checking *c)
{
    for (unsigned i = 0; i < c->rules_count; i++) {
        const struct checked_rule *r = &c->rules[i];
        uint64_t items = 0;
        for (unsigned s = 0; s < CHANGE_STATES; s++)
            items += r->found.of[s];
        if (memcmp(&r->said, &r->found, sizeof r->said) != 0)
            damage_of(c, r->number, 0, "its counts are not those of its items");
        if (r->name[0] == '\0' && items > 0)
            damage_of(c, r->number, 0, "there are items of it, and it is not known");
    }
}

err change_check(struct engine *e, void (*found)(void *ctx, const char *what), void *ctx)
{
    struct checking c = { .found = found, .ctx = ctx, .view = engine_view_begin(e) };
    /* The order matters: names are known before items are told of, and the next number before
     * names. */
    err why = check_rows(&c, STR("N"), check_next);
    if (why == ERR_OK)
        why = check_rows(&c, STR("n"), check_name);
    if (why == ERR_OK)
        why = check_rows(&c, STR(""), check_row);
    order_end(&c);
    if (why == ERR_OK)
        why = check_shared(&c);
    if (why == ERR_OK)
        check_totals(&c);
    engine_view_end(&c.view);
    free(c.shared);
    free(c.rules);
    /* In a view of its own: a timeline has no counts that items share. */
    err timelines = why == ERR_OK ? timeline_check(e, found, ctx) : ERR_OK;
    return why == ERR_OK && c.damages > 0 ? ERR_CORRUPT : why != ERR_OK ? why : timelines;
}
