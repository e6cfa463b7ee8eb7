/* Goal: through an index a get gives what it would if it looked at every row. Method: random puts,
 * upserts, deletes, batches, expiries, upkeep and migrations on a real engine and on a table in
 * memory (the naive reference, which knows no index); after each step a random query through one of
 * two indexes is asked of both, and in pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "table/table.h"
#include "tabletest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 3, TIDS = 4, TAGS = 3, NUMBERS = 3, NONE = -1, STEPS = 400, SEEDS = 3, TEXT = 4096 };

/* The reference. tag and number: NONE is null. Seconds of the test's clock; until 0: no end. */
struct cell {
    bool there;
    int tag, number;
    int64_t until;
};
struct model {
    struct tabletest *t;
    uint64_t seed;
    struct cell cells[KEYS][TIDS];
    int64_t now;
    int version;
    bool by_tag, by_number; /* is it there? */
    char step[TEXT];        /* the last ones, for a failure's text */
};

static unsigned pick(struct model *m, unsigned below)
{
    m->seed ^= m->seed << 13;
    m->seed ^= m->seed >> 7;
    m->seed ^= m->seed << 17;
    return (unsigned)(m->seed >> 33) % below;
}

static bool alive(const struct model *m, int key, int tid)
{
    const struct cell *c = &m->cells[key][tid];
    return c->there && (c->until == 0 || m->now < c->until);
}

static const char *tid_text(int tid, char out[40])
{
    (void)snprintf(out, 40, "%08d-6c31-11e4-b6d0-0f67e29867e0", tid);
    return out;
}

/* ---- steps ---- */

static void migrate(struct model *m)
{
    char json[TEXT];
    m->by_tag = pick(m, 5) > 0;
    m->by_number = pick(m, 5) > 0;
    (void)snprintf(
        json, sizeof json,
        "{'version':%d,'attributes':{'key':'string','tid':'timeuuid','tag':'string','number':'int',"
        "'body':"
        "'string'},'index':[{'attribute':'key','type':'hash'},"
        "{'attribute':'tid','type':'range','order':'desc'}],'secondaryIndexes':{%s%s%s}}",
        ++m->version,
        m->by_tag
            ? "'by_tag':[{'attribute':'tag','type':'hash'},{'attribute':'number','type':'range',"
              "'order':'desc'}]"
            : "",
        m->by_tag && m->by_number ? "," : "",
        m->by_number ? "'by_number':[{'attribute':'number','type':'hash'},"
                       "{'attribute':'tid','type':'range'}]"
                     : "");
    must_create(m->t, "m", json);
    store_time next;
    tabletest_upkeep(m->t, &next);
}

/* The members of a put, and the same done to the model: named attributes change, null clears. */
static void put_text(struct model *m, int key, char *out, size_t size)
{
    char tid[40], tag[40] = "", number[40] = "", body[600] = "", ttl[40] = "";
    int at = (int)pick(m, TIDS);
    struct cell *c = &m->cells[key][at];
    if (!alive(m, key, at))
        *c = (struct cell){ .there = true, .tag = NONE, .number = NONE };
    c->until = 0;
    if (pick(m, 3) > 0) {
        c->tag = (int)pick(m, TAGS + 1) - 1;
        (void)snprintf(tag, sizeof tag, c->tag == NONE ? ",'tag':null" : ",'tag':'t%d'", c->tag);
    }
    if (pick(m, 3) > 0) {
        c->number = (int)pick(m, NUMBERS + 1) - 1;
        (void)snprintf(number, sizeof number, c->number == NONE ? ",'number':null" : ",'number':%d",
                       c->number);
    }
    if (pick(m, 4) == 0)
        (void)snprintf(body, sizeof body, ",'body':'%0500d'", (int)pick(m, 100));
    if (pick(m, 6) == 0) {
        int seconds = 1 + (int)pick(m, 20);
        c->until = m->now + seconds;
        (void)snprintf(ttl, sizeof ttl, ",'_ttl':%d", seconds);
    }
    (void)snprintf(out, size, "'attributes':{'key':'k%d','tid':'%s'%s%s%s%s}", key,
                   tid_text(at, tid), tag, number, body, ttl);
}

static void delete_text(struct model *m, int key, char *out, size_t size)
{
    char tid[40];
    int at = (int)pick(m, TIDS);
    static const char *const ops[] = { "eq", "lt", "ge" };
    unsigned op = pick(m, COUNT_OF(ops));
    for (int i = 0; i < TIDS; i++)
        if (op == 0 ? i == at : op == 1 ? i < at : i >= at)
            m->cells[key][i].there = false;
    (void)snprintf(out, size, "'attributes':{'key':'k%d','tid':{'%s':'%s'}}", key, ops[op],
                   tid_text(at, tid));
}

static void write_one(struct model *m)
{
    char text[TEXT - 8];
    bool put = pick(m, 6) > 0;
    int key = (int)pick(m, KEYS);
    if (put)
        put_text(m, key, text, sizeof text);
    else
        delete_text(m, key, text, sizeof text);
    (void)snprintf(m->step, sizeof m->step, "{%s}", text);
    if (put)
        must_put(m->t, "m", m->step);
    else
        must_delete(m->t, "m", m->step);
}

static void write_batch(struct model *m)
{
    size_t n = 0;
    int key = (int)pick(m, KEYS);
    unsigned count = 2 + pick(m, 3);
    for (unsigned i = 0; i < count; i++) {
        char text[1024];
        bool put = pick(m, 4) > 0;
        if (put)
            put_text(m, key, text, sizeof text);
        else
            delete_text(m, key, text, sizeof text);
        n += (size_t)snprintf(m->step + n, sizeof m->step - n, "%s{'op':'%s','table':'m',%s}",
                              i == 0 ? "[" : ",", put ? "put" : "delete", text);
    }
    (void)snprintf(m->step + n, sizeof m->step - n, "]");
    assert_int_equal(tabletest_write(m->t, 1, QUERY_BATCH, "", m->step), ERR_OK);
}

static void step(struct model *m)
{
    unsigned which = pick(m, 100);
    store_time next;
    if (which < 70) {
        write_one(m);
    } else if (which < 85) {
        write_batch(m);
    } else if (which < 93) {
        int seconds = 1 + (int)pick(m, 8);
        m->now += seconds;
        tabletest_advance(m->t, seconds);
    } else if (which < 97) {
        tabletest_upkeep(m->t, &next);
    } else if (which < 99) {
        migrate(m);
    } else {
        tabletest_reopen(m->t);
    }
}

/* ---- questions ---- */

struct asked {
    bool by_tag, reversed;
    int tag, number, least, key;
}; /* NONE: any */

/* The newest of a key that is alive; NONE: no row. */
static int newest(const struct model *m, int key)
{
    for (int tid = TIDS - 1; tid >= 0; tid--)
        if (alive(m, key, tid))
            return tid;
    return NONE;
}

struct rows {
    char items[KEYS * TIDS][160];
    unsigned count;
};

static void add(struct rows *r, const struct asked *q, int key, int tid, const struct cell *c)
{
    char text[40];
    if (q->by_tag)
        (void)snprintf(r->items[r->count++], sizeof r->items[0],
                       "{'key':'k%d','tag':'t%d','number':%d}", key, c->tag, c->number);
    else
        (void)snprintf(r->items[r->count++], sizeof r->items[0],
                       "{'key':'k%d','tid':'%s','number':%d}", key, tid_text(tid, text), c->number);
}

/* In the order of by_tag: tag, number descending, key descending; the newest row of a key
 * counts. */
static void tagged(const struct model *m, const struct asked *q, struct rows *out)
{
    for (int tag = 0; tag < TAGS; tag++)
        for (int number = NUMBERS - 1; number >= 0; number--)
            for (int key = KEYS - 1; key >= 0; key--) {
                int tid = newest(m, key);
                const struct cell *c = tid == NONE ? NULL : &m->cells[key][tid];
                if (c != NULL && c->tag == tag && c->number == number &&
                    (q->tag == NONE || q->tag == tag) &&
                    (q->number == NONE || q->number == number) && number >= q->least &&
                    (q->key == NONE || q->key == key))
                    add(out, q, key, tid, c);
            }
}

/* In the order of by_number: number, tid, key descending; every row counts. */
static void numbered(const struct model *m, const struct asked *q, struct rows *out)
{
    for (int number = 0; number < NUMBERS; number++)
        for (int tid = 0; tid < TIDS; tid++)
            for (int key = KEYS - 1; key >= 0; key--)
                if (alive(m, key, tid) && m->cells[key][tid].number == number &&
                    (q->number == NONE || q->number == number) && (q->key == NONE || q->key == key))
                    add(out, q, key, tid, &m->cells[key][tid]);
}

static void query_text(const struct asked *q, char *out, size_t size)
{
    char tag[40] = "", number[40] = "", key[40] = "";
    if (q->tag != NONE)
        (void)snprintf(tag, sizeof tag, ",'tag':'t%d'", q->tag);
    if (q->number != NONE)
        (void)snprintf(number, sizeof number, ",'number':%d", q->number);
    else if (q->least != NONE)
        (void)snprintf(number, sizeof number, ",'number':{'ge':%d}", q->least);
    if (q->key != NONE)
        (void)snprintf(key, sizeof key, ",'key':'k%d'", q->key);
    char all[160];
    (void)snprintf(all, sizeof all, "%s%s%s", tag, number, key);
    (void)snprintf(
        out, size,
        "'index':'%s','proj':['key','%s','number'],'attributes':{%s},'order':{'%s':'%s'}",
        q->by_tag ? "by_tag" : "by_number", q->by_tag ? "tag" : "tid", all[0] == 0 ? "" : all + 1,
        q->by_tag ? "number" : "tid", q->by_tag != q->reversed ? "desc" : "asc");
}

static void paged(struct model *m, const char *query, const struct rows *want, unsigned limit,
                  bool reversed)
{
    char json[TEXT], next[2048] = "";
    for (unsigned seen = 0; seen < want->count || seen == 0;) {
        (void)snprintf(json, sizeof json, "{%s,'limit':%u%s%s%s}", query, limit,
                       next[0] == 0 ? "" : ",'next':'", next, next[0] == 0 ? "" : "'");
        assert_int_equal(tabletest_get(m->t, 1, "m", json), ERR_OK);
        const char *at = strstr(m->t->answer, "'next':'"), *rest = m->t->answer;
        for (unsigned i = 0; i < limit && seen < want->count; i++, seen++) {
            const char *item = want->items[reversed ? want->count - 1 - seen : seen];
            rest = strstr(rest, item);
            if (rest == NULL)
                fail_msg("%s\n  gave %s\n  not %s\n  after %s", json, m->t->answer, item, m->step);
        }
        if ((at == NULL) != (seen == want->count))
            fail_msg("%s\n  gave %s\n  of %u rows, seen %u", json, m->t->answer, want->count, seen);
        next[0] = 0;
        if (at != NULL)
            (void)snprintf(next, sizeof next, "%.*s", (int)strcspn(at + 8, "'"), at + 8);
        if (want->count == 0)
            break;
    }
}

static void ask(struct model *m)
{
    if (!m->by_tag && !m->by_number)
        return;
    struct asked q = { .by_tag = m->by_tag && (!m->by_number || pick(m, 2) == 0),
                       .reversed = pick(m, 2) == 0,
                       .tag = NONE,
                       .number = NONE,
                       .least = NONE,
                       .key = NONE };
    if (q.by_tag && pick(m, 4) > 0)
        q.tag = (int)pick(m, TAGS);
    if (pick(m, 3) == 0)
        q.number = (int)pick(m, NUMBERS);
    else if (q.by_tag && pick(m, 3) == 0)
        q.least = (int)pick(m, NUMBERS);
    if (pick(m, 3) == 0)
        q.key = (int)pick(m, KEYS);
    struct rows want = { .count = 0 };
    if (q.by_tag)
        tagged(m, &q, &want);
    else
        numbered(m, &q, &want);
    char query[TEXT / 2], json[TEXT], all[TEXT] = "[";
    size_t n = 1;
    query_text(&q, query, sizeof query);
    for (unsigned i = 0; i < want.count; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i == 0 ? "" : ",",
                              want.items[q.reversed ? want.count - 1 - i : i]);
    (void)snprintf(all + n, sizeof all - n, "]");
    (void)snprintf(json, sizeof json, "{%s}", query);
    must_get(m->t, "m", json, all);
    if (pick(m, 4) == 0)
        paged(m, query, &want, 1 + pick(m, 3), q.reversed);
}

static void an_index_gives_what_a_look_at_every_row_would(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= SEEDS; i++) {
        struct model *m = calloc(1, sizeof *m);
        m->t = calloc(1, sizeof *m->t);
        m->seed = i * 0x9e3779b97f4a7c15u;
        print_message("seed %u\n", i);
        tabletest_up(m->t);
        migrate(m);
        for (unsigned n = 0; n < STEPS; n++) {
            step(m);
            ask(m);
        }
        tabletest_down(m->t);
        free(m->t);
        free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_gives_what_a_look_at_every_row_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
