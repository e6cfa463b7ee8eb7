#include "model.h"
#include "engine/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void model_init(struct model *m, uint64_t seed)
{
    *m = (struct model){ .versions = 0 };
    rng_init(&m->rng, seed);
}

static str key_of(uint64_t i, char *buf)
{
    int n = snprintf(buf, 32, "key-%03u", (unsigned)i);
    return (str){ .p = buf, .n = (size_t)n };
}

static str value_of(uint64_t version, char *buf)
{
    int n = snprintf(buf, 32, "v%llu", (unsigned long long)version);
    return (str){ .p = buf, .n = (size_t)n };
}

size_t model_bytes(uint64_t version, char *out)
{
    struct rng r;
    rng_init(&r, version);
    static const size_t sizes[] = { 0, 1, 100, 512, 513, 700, 3000, 5000, 9000, 20000, 39000 };
    size_t n = sizes[rng_below(&r, COUNT_OF(sizes))];
    if (n > 0)
        n += rng_below(&r, n < 1000 ? 2 : 1000);
    scratch_bytes(version, out, n);
    return n;
}

struct write {
    uint64_t key, version; /* version 0: delete */
    bool value_only;
    char bytes[MODEL_VALUE_BYTES_MAX];
    size_t n;
};
struct step {
    struct write writes[4];
    unsigned count;
    bool fails;
};

static err step_decide(struct engine_txn *t, void *ctx)
{
    struct step *s = ctx;
    for (unsigned i = 0; i < s->count; i++) {
        struct write *w = &s->writes[i];
        char key[32], value[32];
        err why;
        if (w->version == 0)
            why = engine_txn_delete(t, SPACE_ROW, key_of(w->key, key));
        else if (w->value_only)
            why = engine_txn_put_value(t, SPACE_ROW, key_of(w->key, key),
                                       value_of(w->version, value));
        else
            why = engine_txn_put(t, SPACE_ROW, key_of(w->key, key), value_of(w->version, value),
                                 (str){ .p = w->bytes, .n = w->n });
        if (why != ERR_OK)
            return why;
    }
    return s->fails ? ERR_BAD : ERR_OK;
}

static void apply(struct model *m, const struct step *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        const struct write *w = &s->writes[i];
        m->version[w->key] = w->version;
        if (!w->value_only)
            m->blob_version[w->key] = w->version;
    }
}

void model_step(struct model *m, struct scratch *s)
{
    static struct step step;
    uint64_t have[MODEL_KEYS];
    memcpy(have, m->version, sizeof(have));
    step.count = 1 + (unsigned)rng_below(&m->rng, 4);
    step.fails = rng_below(&m->rng, 8) == 0;
    for (unsigned i = 0; i < step.count; i++) {
        struct write *w = &step.writes[i];
        w->key = rng_below(&m->rng, MODEL_KEYS);
        w->version = rng_below(&m->rng, 4) == 0 ? 0 : ++m->versions;
        w->value_only = w->version != 0 && have[w->key] != 0 && rng_below(&m->rng, 4) == 0;
        w->n = w->version == 0 || w->value_only ? 0 : model_bytes(w->version, w->bytes);
        have[w->key] = w->version;
    }
    assert_int_equal(engine_update_wait(s->engine, step_decide, &step),
                     step.fails ? ERR_BAD : ERR_OK);
    if (!step.fails)
        apply(m, &step);
}

static void compare_key(const struct model *m, struct scratch *s, uint64_t i)
{
    static char bytes[MODEL_VALUE_BYTES_MAX];
    char key[32], value[32];
    struct scratch_row r;
    err why = scratch_get(s, SPACE_ROW, key_of(i, key), &r);
    if (m->version[i] == 0) {
        assert_int_equal(why, ERR_NOT_FOUND);
        return;
    }
    assert_int_equal(why, ERR_OK);
    str expect = value_of(m->version[i], value);
    assert_int_equal(r.value_n, expect.n);
    assert_memory_equal(r.value, expect.p, expect.n);
    size_t n = model_bytes(m->blob_version[i], bytes);
    assert_int_equal(r.bytes_n, n);
    assert_memory_equal(r.bytes, bytes, n);
    scratch_row_free(&r);
}

static void compare_walk(const struct model *m, struct scratch *s, bool reversed)
{
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_range range = { .space = SPACE_ROW, .reversed = reversed };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    struct engine_row row;
    for (uint64_t i = 0; i < MODEL_KEYS; i++) {
        uint64_t at = reversed ? MODEL_KEYS - 1 - i : i;
        char key[32];
        if (m->version[at] == 0)
            continue;
        assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
        assert_true(str_eq(row.key, key_of(at, key)));
    }
    assert_int_equal(engine_cursor_next(c, &row), ERR_NOT_FOUND);
    engine_view_end(&v);
}

void model_compare(const struct model *m, struct scratch *s)
{
    for (uint64_t i = 0; i < MODEL_KEYS; i++)
        compare_key(m, s, i);
    compare_walk(m, s, false);
    compare_walk(m, s, true);
}

static void print_found(void *ctx, const char *what)
{
    (void)ctx;
    print_error("check: %s\n", what);
}

void expect_sound(struct engine *e)
{
    struct engine_check_opts opts = { .found = print_found };
    assert_int_equal(engine_check(e, &opts), ERR_OK);
}
