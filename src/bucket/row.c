/* row.c - encodes and decodes the values of renders, titles and fences. Invariant: one value has
 * one encoding; what decodes encodes to the same bytes (fuzz_page_row.c). */
#include "bucket/row.h"

#include "base/buf.h"

#include <string.h>

enum { ROW_VERSION = 1 };
/* Bits of a row's flags byte: which of the optional times follow. NEVER, ZERO and CURRENT are
 * not stored. */
enum {
    HAS_SUPERSEDED = 1,
    HAS_OUT = 2,
    HAS_REQUESTED = 4,
    HAS_STASH = 8,
    HAS_HOLD = 16,
    HAS_DUE = 32,
    HAS_HIDDEN = 64,
    HAS_MADE = 128,
    HAS_ALL = 255
};

static char *time_put(char *at, store_time t)
{
    put_be64(at, (uint64_t)t.ns);
    return at + 8;
}

static store_time time_get(struct cursor *c)
{
    return (store_time){ .ns = (int64_t)cursor_be64(c) };
}

static char *tid_put(char *at, struct tid t)
{
    tid_key(t, (unsigned char *)at);
    return at + TID_KEY_BYTES;
}

static struct tid tid_get(struct cursor *c)
{
    struct tid t = { .ticks = cursor_be64(c) };
    t.low = cursor_be64(c);
    return t;
}

static bool is_never(store_time t)
{
    return t.ns == INT64_MAX;
}

static int row_flags(const struct page_render *r)
{
    return (is_never(r->superseded_at) ? 0 : HAS_SUPERSEDED) | (is_never(r->out_at) ? 0 : HAS_OUT) |
           (r->requested_until.ns == 0 ? 0 : HAS_REQUESTED) |
           (r->stash_until.ns == 0 ? 0 : HAS_STASH) | (r->hold_until.ns == 0 ? 0 : HAS_HOLD) |
           (is_never(r->due_at) ? 0 : HAS_DUE) | (r->hidden == PAGE_CURRENT ? 0 : HAS_HIDDEN) |
           (r->made.said == 0 ? 0 : HAS_MADE);
}

/* times_get reads in this order. */
static char *times_put(char *at, const struct page_render *r, int flags)
{
    at = time_put(at, r->stored_at);
    if (flags & HAS_SUPERSEDED) {
        at = time_put(at, r->superseded_at);
        at = varint_put(at, r->superseded_by.rev);
        at = tid_put(at, r->superseded_by.tid);
    }
    if (flags & HAS_OUT)
        at = time_put(at, r->out_at);
    if (flags & HAS_REQUESTED)
        at = time_put(at, r->requested_until);
    if (flags & HAS_STASH)
        at = time_put(at, r->stash_until);
    if (flags & HAS_HOLD)
        at = time_put(at, r->hold_until);
    if (flags & HAS_DUE)
        at = time_put(at, r->due_at);
    if (flags & HAS_HIDDEN) {
        *at++ = (char)r->hidden;
        at = time_put(at, r->hidden_at);
    }
    if (flags & HAS_MADE) {
        put_be64(at, (uint64_t)r->made.touched);
        put_be64(at + 8, (uint64_t)r->made.said);
        at = time_put(at + 16, r->made.asked_at);
    }
    return at;
}

/* What is not stored keeps the value that page_row_decode set before. */
static void times_get(struct cursor *c, struct page_render *r, int flags)
{
    r->stored_at = time_get(c);
    if (flags & HAS_SUPERSEDED) {
        r->superseded_at = time_get(c);
        r->superseded_by.rev = varint_get(c);
        r->superseded_by.tid = tid_get(c);
    }
    if (flags & HAS_OUT)
        r->out_at = time_get(c);
    if (flags & HAS_REQUESTED)
        r->requested_until = time_get(c);
    if (flags & HAS_STASH)
        r->stash_until = time_get(c);
    if (flags & HAS_HOLD)
        r->hold_until = time_get(c);
    if (flags & HAS_DUE)
        r->due_at = time_get(c);
    if (flags & HAS_HIDDEN) {
        r->hidden = cursor_u8(c);
        /* Any byte may be there: only two states hide. */
        c->failed |= r->hidden != PAGE_SUPPRESSED && r->hidden != PAGE_DELETED;
        r->hidden_at = time_get(c);
    }
    if (flags & HAS_MADE) {
        r->made.touched = (int64_t)cursor_be64(c);
        r->made.said = (int64_t)cursor_be64(c);
        r->made.asked_at = time_get(c);
    }
}

str page_row_encode(const struct page_row *row, char *out)
{
    const struct page_render *r = &row->r;
    char *at = out;
    int flags = row_flags(r);
    INVARIANT(r->contents_count >= 1);
    INVARIANT(r->contents_count <= PAGE_CONTENTS_MAX);
    *at++ = ROW_VERSION;
    *at++ = (char)flags;
    at = varint_put(at, row->plan);
    *at++ = (char)row->policy;
    at = times_put(at, r, flags);
    memcpy(at, row->digest, PAGE_DIGEST_BYTES);
    memcpy(at + PAGE_DIGEST_BYTES, row->plain_digest, PAGE_DIGEST_BYTES);
    at += 2 * PAGE_DIGEST_BYTES;
    *at++ = (char)r->contents_count;
    /* Offsets are not stored: each content begins where the one before ends. */
    for (unsigned i = 0; i < r->contents_count; i++) {
        const struct page_content *c = &r->contents[i];
        size_t n = strnlen(c->name, PAGE_CONTENT_NAME_BYTES_MAX + 1);
        INVARIANT(n >= 1 && n <= PAGE_CONTENT_NAME_BYTES_MAX);
        *at++ = (char)n;
        memcpy(at, c->name, n);
        at += n;
        *at++ = (char)c->codec;
        at = varint_put(at, c->headers_bytes);
        at = varint_put(at, c->stored_bytes);
        at = varint_put(at, c->raw_bytes);
        put_be64(at, c->sum);
        at += 8;
    }
    INVARIANT(at - out <= ENGINE_VALUE_BYTES_MAX);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

/* A number that does not fit makes the cursor fail, as one that is cut off does. */
static uint32_t varint_get_u32(struct cursor *c)
{
    uint64_t v = varint_get(c);
    if (v > UINT32_MAX)
        c->failed = true;
    return (uint32_t)v;
}

/* Reads one content, and checks what later code relies on: a name, a codec, and sizes within
 * their limits. *offset: where its bytes begin; moved on to their end. */
static bool content_get(struct cursor *c, struct page_content *out, uint64_t *offset)
{
    size_t n = cursor_u8(c);
    str name = cursor_bytes(c, n);
    uint8_t codec = cursor_u8(c);
    *out = (struct page_content){ .codec = (enum page_codec)codec };
    out->headers_bytes = varint_get_u32(c);
    out->stored_bytes = varint_get_u32(c);
    out->raw_bytes = varint_get_u32(c);
    out->sum = cursor_be64(c);
    if (c->failed || n < 1 || codec > PAGE_ZSTD)
        return false;
    if (!str_to_cstr(name, out->name, sizeof(out->name)))
        return false;
    if (out->headers_bytes > PAGE_HEADERS_BYTES_MAX || out->raw_bytes > ENGINE_BLOB_BYTES_MAX)
        return false;
    /* What is stored as it is has the size of its plain bytes. */
    if (out->codec == PAGE_IDENTITY && out->raw_bytes != out->stored_bytes)
        return false;
    out->offset = (uint32_t)*offset;
    *offset += (uint64_t)out->headers_bytes + out->stored_bytes;
    return *offset <= ENGINE_BLOB_BYTES_MAX;
}

/* False: a time is stored though its flag could have said it. One value must have one encoding. */
static bool times_are_shortest(const struct page_render *r, int flags)
{
    return row_flags(r) == flags;
}

err page_row_decode(str value, struct page_row *out)
{
    struct cursor c = { .rest = value };
    uint8_t version = cursor_u8(&c);
    int flags = cursor_u8(&c);
    if (c.failed || version != ROW_VERSION || (flags & ~HAS_ALL) != 0)
        return ERR_CORRUPT;
    /* Values of times whose flags are not set; all others start as zero. */
    *out = (struct page_row){ .r = { .superseded_at = STORE_TIME_NEVER,
                                     .out_at = STORE_TIME_NEVER,
                                     .due_at = STORE_TIME_NEVER } };
    out->plan = varint_get_u32(&c);
    uint8_t policy = cursor_u8(&c);
    out->policy = (enum page_policy_kind)policy;
    times_get(&c, &out->r, flags);
    /* Rows do not keep when the origin was asked: the instant of storing stands for it. */
    out->said_at = out->r.stored_at;
    str digests = cursor_bytes(&c, 2 * (size_t)PAGE_DIGEST_BYTES);
    out->r.contents_count = cursor_u8(&c);
    if (c.failed || policy >= POLICY_KINDS || !times_are_shortest(&out->r, flags))
        return ERR_CORRUPT;
    if (out->r.contents_count < 1 || out->r.contents_count > PAGE_CONTENTS_MAX)
        return ERR_CORRUPT;
    memcpy(out->digest, digests.p, PAGE_DIGEST_BYTES);
    memcpy(out->plain_digest, digests.p + PAGE_DIGEST_BYTES, PAGE_DIGEST_BYTES);
    uint64_t offset = 0;
    for (unsigned i = 0; i < out->r.contents_count; i++)
        if (!content_get(&c, &out->r.contents[i], &offset))
            return ERR_CORRUPT;
    out->due_stored = out->r.due_at;
    return cursor_done(&c) ? ERR_OK : ERR_CORRUPT;
}

str page_title_encode(const struct page_title_row *t, char *out)
{
    char *at = out;
    *at++ = ROW_VERSION;
    *at++ = t->fenced ? 1 : 0;
    at = varint_put(at, t->ledger_count);
    at = varint_put(at, t->fence_count);
    if (t->fenced)
        at = time_put(at, t->fence_at);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

err page_title_decode(str value, struct page_title_row *out)
{
    struct cursor c = { .rest = value };
    uint8_t version = cursor_u8(&c), flags = cursor_u8(&c);
    /* fenced is the only flag. */
    struct page_title_row t = { .fenced = flags == 1 };
    t.ledger_count = varint_get(&c);
    t.fence_count = varint_get(&c);
    if (t.fenced)
        t.fence_at = time_get(&c);
    if (!cursor_done(&c) || version != ROW_VERSION || flags > 1)
        return ERR_CORRUPT;
    *out = t;
    return ERR_OK;
}

str page_fence_encode(store_time at, char *out)
{
    out[0] = ROW_VERSION;
    (void)time_put(out + 1, at);
    return (str){ .p = out, .n = PAGE_FENCE_ROW_BYTES };
}

err page_fence_decode(str value, store_time *at)
{
    if (value.n != PAGE_FENCE_ROW_BYTES || value.p[0] != ROW_VERSION)
        return ERR_CORRUPT;
    at->ns = (int64_t)get_be64(value.p + 1);
    return ERR_OK;
}
