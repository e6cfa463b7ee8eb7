#include "scratch.h"
#include "engine/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

void scratch_init(struct scratch *s)
{
    *s = (struct scratch){ .engine = NULL };
    folder_make(s->dir);
    fake_clock_init(&s->clock, NS_PER_S);
}

void scratch_fini(struct scratch *s)
{
    scratch_close(s);
    folder_remove(s->dir);
}

err scratch_try(struct scratch *s, bool read_only, struct err_note *note)
{
    struct engine_opts opts = {
        .dir = s->dir,
        .segment_bytes = s->segment_bytes,
        .map_bytes = s->map_bytes == 0 ? (uint64_t)4 << 30 : s->map_bytes,
        .free_bytes_min = s->free_bytes_min == 0 ? 1 : s->free_bytes_min,
        .rest_ms = s->rest_ms,
        .zeros_always = s->zeros_always,
        .read_only = read_only,
        .faults = s->faults,
    };
    store_time greatest;
    err why = engine_open(&opts, &s->engine, &greatest, note);
    if (why != ERR_OK)
        return why;
    if (s->failed != NULL)
        engine_on_failure(s->engine, s->failed, s->failed_ctx);
    if (greatest.ns > atomic_load(&s->clock.now_ns))
        atomic_store(&s->clock.now_ns, greatest.ns);
    return read_only ? ERR_OK : engine_start(s->engine, &s->clock.clock, note);
}

void scratch_open(struct scratch *s)
{
    struct err_note note = { .text = "" };
    err why = scratch_try(s, false, &note);
    if (why != ERR_OK)
        fail_msg("open: %s: %s", err_name(why), note.text);
}

void scratch_close(struct scratch *s)
{
    engine_close(&s->engine);
}

void scratch_path(const struct scratch *s, const char *name, char out[2 * SCRATCH_PATH_BYTES])
{
    assert_true(snprintf(out, 2 * SCRATCH_PATH_BYTES, "%s/%s", s->dir, name) <
                2 * SCRATCH_PATH_BYTES);
}

void scratch_copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    (void)fclose(in);
    assert_int_equal(fclose(out), 0);
}

struct put {
    enum engine_space space;
    str key, value, bytes;
    bool deletes;
};

static err put_decide(struct engine_txn *t, void *ctx)
{
    struct put *p = ctx;
    return p->deletes ? engine_txn_delete(t, p->space, p->key)
                      : engine_txn_put(t, p->space, p->key, p->value, p->bytes);
}

err scratch_put(struct scratch *s, enum engine_space space, str key, str value, str bytes)
{
    struct put p = { .space = space, .key = key, .value = value, .bytes = bytes };
    return engine_update_wait(s->engine, put_decide, &p);
}

err scratch_delete(struct scratch *s, enum engine_space space, str key)
{
    struct put p = { .space = space, .key = key, .deletes = true };
    return engine_update_wait(s->engine, put_decide, &p);
}

err scratch_get(struct scratch *s, enum engine_space space, str key, struct scratch_row *out)
{
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_row row;
    *out = (struct scratch_row){ .bytes = NULL };
    err why = engine_get(v, space, key, &row);
    if (why == ERR_OK) {
        out->value_n = row.value.n;
        memcpy(out->value, row.value.p, row.value.n);
        out->bytes_n = row.blob.n;
        out->bytes = malloc(row.blob.n + 1);
        assert_non_null(out->bytes);
        why = engine_blob_read(s->engine, &row.blob, 0, row.blob.n, out->bytes);
        if (why == ERR_OK && row.blob.n > 0 &&
            XXH3_64bits(out->bytes, out->bytes_n) != row.blob.hash)
            why = ERR_CORRUPT;
    }
    if (why != ERR_OK)
        scratch_row_free(out);
    engine_view_end(&v);
    return why;
}

void scratch_row_free(struct scratch_row *r)
{
    free(r->bytes);
    r->bytes = NULL;
}

void scratch_bytes(uint64_t seed, char *out, size_t n)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = (char)(1 + x % 255);
    }
}

int scratch_setup(void **state)
{
    struct scratch *s = malloc(sizeof(*s));
    assert_non_null(s);
    scratch_init(s);
    scratch_open(s);
    *state = s;
    return 0;
}

int scratch_teardown(void **state)
{
    scratch_fini(*state);
    free(*state);
    return 0;
}
