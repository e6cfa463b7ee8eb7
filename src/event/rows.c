/* rows.c - the rows of the event log as bytes. What is read here was checked by the engine's sums
 * before; another version, or lengths that do not fit, are damage all the same. */
#include "event/rows.h"

#include "codec/sha256.h"

#include <string.h>

enum { HEAD_VERSION = 1, ROW_VERSION = 1, ROW_VERSION_HOPS = 2, ROW_VERSION_SEVERAL = 3 };

#define NOT_USED 0 /* a number that the head had once */

void event_key_head(struct event_key *k)
{
    k->p[0] = 'h';
    k->n = 1;
}

void event_key_event(struct event_key *k, uint64_t seq)
{
    k->p[0] = 'e';
    put_be64(k->p + 1, seq);
    k->n = 1 + sizeof seq;
}

bool event_key_parse(str key, uint64_t *seq)
{
    if (key.n != 1 + sizeof *seq || key.p[0] != 'e')
        return false;
    *seq = get_be64(key.p + 1);
    return true;
}

void event_digest(str stream, str id, unsigned char out[EVENT_DIGEST_BYTES])
{
    unsigned char whole[SHA256_BYTES];
    memset(out, 0, EVENT_DIGEST_BYTES);
    if (id.n == 0)
        return;
    struct evp_md_ctx_st *h = sha256_begin();
    sha256_add(h, stream);
    sha256_add(h, (str){ .p = "", .n = 1 });
    sha256_add(h, id);
    sha256_end(h, whole);
    memcpy(out, whole, EVENT_DIGEST_BYTES);
}

bool event_has_id(const unsigned char digest[EVENT_DIGEST_BYTES])
{
    static const unsigned char none[EVENT_DIGEST_BYTES];
    return memcmp(digest, none, EVENT_DIGEST_BYTES) != 0;
}

str event_head_encode(const struct event_head *h, char out[EVENT_HEAD_BYTES])
{
    const uint64_t numbers[] = { h->log,          h->last,   h->count,
                                 h->bytes,        h->culled, h->culled_count,
                                 h->culled_bytes, NOT_USED,  (uint64_t)h->newest.ns };
    out[0] = HEAD_VERSION;
    for (unsigned i = 0; i < COUNT_OF(numbers); i++)
        put_be64(out + 1 + 8 * i, numbers[i]);
    return (str){ .p = out, .n = EVENT_HEAD_BYTES };
}

err event_head_decode(str value, struct event_head *out)
{
    struct cursor c = { .rest = value };
    struct event_head h;
    uint64_t unused;
    uint64_t *const numbers[] = { &h.log,    &h.last,         &h.count,        &h.bytes,
                                  &h.culled, &h.culled_count, &h.culled_bytes, &unused };
    uint8_t version = cursor_u8(&c);
    for (unsigned i = 0; i < COUNT_OF(numbers); i++)
        *numbers[i] = cursor_be64(&c);
    h.newest.ns = (int64_t)cursor_be64(&c);
    if (!cursor_done(&c) || version != HEAD_VERSION)
        return ERR_CORRUPT;
    if (h.culled > h.last || h.culled_count > h.count || h.culled_bytes > h.bytes)
        return ERR_CORRUPT;
    *out = h;
    return ERR_OK;
}

static char *name_put(char *at, str name)
{
    *at++ = (char)(unsigned char)name.n;
    if (name.n > 0)
        memcpy(at, name.p, name.n);
    return at + name.n;
}

static char *several_encode(const struct event_row *r, char *at)
{
    INVARIANT(r->events <= EVENT_ROW_EVENTS_MAX);
    put_be16(at, (uint16_t)r->events);
    return at + 2;
}

static char *one_encode(const struct event_row *r, char *at)
{
    INVARIANT(r->stream.n <= EVENT_NAME_BYTES_MAX);
    INVARIANT(r->domain.n <= EVENT_NAME_BYTES_MAX);
    memcpy(at, r->digest, EVENT_DIGEST_BYTES);
    at = name_put(at + EVENT_DIGEST_BYTES, r->stream);
    at = name_put(at, r->domain);
    if (r->hops > 0)
        *at++ = (char)r->hops;
    return at;
}

str event_row_encode(const struct event_row *r, char out[EVENT_VALUE_BYTES])
{
    char *at = out;
    *at++ = r->events > 1 ? ROW_VERSION_SEVERAL : r->hops == 0 ? ROW_VERSION : ROW_VERSION_HOPS;
    put_be64(at, (uint64_t)r->at.ns);
    put_be64(at + 8, r->count);
    put_be64(at + 16, r->bytes);
    at = r->events > 1 ? several_encode(r, at + 24) : one_encode(r, at + 24);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

static bool several_decode(struct cursor *c, struct event_row *r)
{
    r->events = cursor_be16(c);
    return r->events > 1 && r->events <= EVENT_ROW_EVENTS_MAX && r->events <= r->count;
}

static bool one_decode(struct cursor *c, uint8_t version, struct event_row *r)
{
    str digest = cursor_bytes(c, EVENT_DIGEST_BYTES);
    r->events = 1;
    r->stream = cursor_bytes(c, cursor_u8(c));
    r->domain = cursor_bytes(c, cursor_u8(c));
    r->hops = version == ROW_VERSION_HOPS ? cursor_u8(c) : 0;
    if (!c->failed)
        memcpy(r->digest, digest.p, EVENT_DIGEST_BYTES);
    return version == ROW_VERSION || (version == ROW_VERSION_HOPS && r->hops > 0);
}

err event_row_decode(str value, struct event_row *out)
{
    struct cursor c = { .rest = value };
    struct event_row r = { .events = 0 };
    uint8_t version = cursor_u8(&c);
    r.at.ns = (int64_t)cursor_be64(&c);
    r.count = cursor_be64(&c);
    r.bytes = cursor_be64(&c);
    bool known =
        version == ROW_VERSION_SEVERAL ? several_decode(&c, &r) : one_decode(&c, version, &r);
    if (!cursor_done(&c) || !known)
        return ERR_CORRUPT;
    *out = r;
    return ERR_OK;
}

/* ---- events of a row ---- */

size_t event_frame_bytes(const struct event *e)
{
    return 1 + 1 + e->stream.n + 1 + e->domain.n + sizeof(uint32_t) + e->bytes.n;
}

char *event_frame_put(char *at, const struct event *e)
{
    *at++ = (char)e->hops;
    at = name_put(at, e->stream);
    at = name_put(at, e->domain);
    put_be32(at, (uint32_t)e->bytes.n);
    at += sizeof(uint32_t);
    if (e->bytes.n > 0)
        memcpy(at, e->bytes.p, e->bytes.n);
    return at + e->bytes.n;
}

static bool frame_take(struct cursor *c, struct event_one *out)
{
    out->hops = cursor_u8(c);
    out->stream = cursor_bytes(c, cursor_u8(c));
    out->domain = cursor_bytes(c, cursor_u8(c));
    out->text = cursor_bytes(c, cursor_be32(c));
    return !c->failed;
}

err event_walk_begin(struct event_walk *w, uint64_t seq, const struct event_row *row, str blob)
{
    const size_t digests = (size_t)row->events * EVENT_DIGEST_BYTES;
    *w = (struct event_walk){ .row = row, .seq = seq - row->events, .left = row->events };
    w->frames.rest = blob;
    if (row->events == 1)
        return ERR_OK;
    if (seq < row->events || blob.n < digests)
        return ERR_CORRUPT;
    struct cursor c = { .rest = str_take(blob, blob.n - digests) };
    struct event_one one;
    w->frames = c;
    w->digests.rest = str_skip(blob, blob.n - digests);
    for (unsigned i = 0; i < row->events; i++)
        if (!frame_take(&c, &one))
            return ERR_CORRUPT;
    return cursor_done(&c) ? ERR_OK : ERR_CORRUPT;
}

bool event_walk_next(struct event_walk *w, struct event_one *out)
{
    const struct event_row *row = w->row;
    if (w->left == 0)
        return false;
    *out = (struct event_one){ .digest = row->digest,
                               .stream = row->stream,
                               .domain = row->domain,
                               .text = w->frames.rest,
                               .hops = row->hops };
    if (row->events > 1) {
        INVARIANT(frame_take(&w->frames, out)); /* begin has seen them all */
        out->digest = (const unsigned char *)cursor_bytes(&w->digests, EVENT_DIGEST_BYTES).p;
    }
    out->seq = ++w->seq;
    out->count = row->count - --w->left;
    return true;
}

err event_head_get(struct engine_view *v, struct event_head *out)
{
    struct event_key key;
    struct engine_row row;
    event_key_head(&key);
    err why = engine_get(v, SPACE_EVENT, event_key_str(&key), &row);
    return why != ERR_OK ? why : event_head_decode(row.value, out);
}

err event_head_put(struct engine_txn *t, const struct event_head *h)
{
    struct event_key key;
    char value[EVENT_HEAD_BYTES];
    event_key_head(&key);
    return engine_txn_put(t, SPACE_EVENT, event_key_str(&key), event_head_encode(h, value),
                          STR_NONE);
}

struct engine_cursor *event_rows_open(struct engine_view *v, uint64_t after)
{
    struct event_key from;
    event_key_event(&from, after == UINT64_MAX ? after : after + 1);
    const struct engine_range range = { .space = SPACE_EVENT,
                                        .from = event_key_str(&from),
                                        .until = STR("f") }; /* behind 'e' */
    return engine_cursor_open(v, &range);
}
