/* rows.c - the rows of what is to be done as bytes. The engine has checked their sums before;
 * another version, or lengths that do not fit, are damage all the same. */
#include "change/rows.h"

#include "base/buf.h"
#include "codec/sha256.h"
#include "event/log.h"

#include <string.h>

enum {
    HEAD_VERSION_DATELESS = 1,
    HEAD_VERSION = 2,
    RULE_VERSION = 1,
    ITEM_VERSION = 1,
    BYTES_VERSION = 1
};

/* ---- digests ---- */

struct change_digest change_digest_of(const str *parts, unsigned count)
{
    unsigned char whole[SHA256_BYTES];
    struct change_digest d;
    struct evp_md_ctx_st *h = sha256_begin();
    for (unsigned i = 0; i < count; i++) {
        char size[8];
        put_be64(size, parts[i].n);
        sha256_add(h, (str){ .p = size, .n = sizeof size });
        sha256_add(h, parts[i]);
    }
    sha256_end(h, whole);
    memcpy(d.p, whole, sizeof d.p);
    return d;
}

bool change_digest_is_none(const struct change_digest *d)
{
    static const struct change_digest none;
    return memcmp(d, &none, sizeof none) == 0;
}

/* ---- keys ---- */

static void key_begin(struct change_key *k, char kind)
{
    k->p[0] = kind;
    k->n = 1;
}

static void key_put(struct change_key *k, const void *p, size_t n)
{
    INVARIANT(k->n + n <= sizeof k->p);
    if (n > 0)
        memcpy(k->p + k->n, p, n);
    k->n += n;
}

static void key_be32(struct change_key *k, uint32_t v)
{
    char p[8];
    put_be64(p, v);
    key_put(k, p + 4, 4);
}

static void key_be64(struct change_key *k, uint64_t v)
{
    char p[8];
    put_be64(p, v);
    key_put(k, p, sizeof p);
}

void change_key_head(struct change_key *k)
{
    key_begin(k, 'h');
}

void change_key_next(struct change_key *k)
{
    key_begin(k, 'N');
}

void change_key_rule(struct change_key *k, str name)
{
    key_begin(k, 'n');
    key_put(k, name.p, name.n);
}

void change_key_counts(struct change_key *k, uint32_t rule)
{
    key_begin(k, 'c');
    key_be32(k, rule);
}

void change_key_item(struct change_key *k, uint32_t rule, uint64_t id)
{
    key_begin(k, 'i');
    key_be32(k, rule);
    key_be64(k, id);
}

void change_key_bytes(struct change_key *k, uint64_t seq)
{
    key_begin(k, 'b');
    key_be64(k, seq);
}

void change_key_dead(struct change_key *k, uint32_t rule, uint64_t id)
{
    key_begin(k, 'd');
    key_be32(k, rule);
    key_be64(k, id);
}

static void key_digest(struct change_key *k, char kind, uint32_t rule,
                       const struct change_digest *d, uint64_t id)
{
    key_begin(k, kind);
    key_be32(k, rule);
    key_put(k, d->p, sizeof d->p);
    key_be64(k, id);
}

void change_key_ready(struct change_key *k, uint32_t rule, const struct change_digest *lane,
                      uint64_t id)
{
    key_digest(k, 'r', rule, lane, id);
}

void change_key_order(struct change_key *k, uint32_t rule, const struct change_digest *order,
                      uint64_t id)
{
    key_digest(k, 'o', rule, order, id);
}

void change_key_due(struct change_key *k, store_time due, uint32_t rule, uint64_t id)
{
    key_begin(k, 's');
    key_be64(k, (uint64_t)due.ns);
    key_be32(k, rule);
    key_be64(k, id);
}

bool change_key_state(struct change_key *k, uint32_t rule, uint64_t id,
                      const struct change_item_row *r)
{
    switch (r->state) {
    case CHANGE_READY:
        change_key_ready(k, rule, &r->lane, id);
        return true;
    case CHANGE_SCHEDULED:
        change_key_due(k, r->due, rule, id);
        return true;
    case CHANGE_DEAD:
        change_key_dead(k, rule, id);
        return true;
    case CHANGE_WAITING:
    case CHANGE_STATES:
        break;
    }
    return false;
}

bool change_key_item_parse(str key, uint32_t *rule, uint64_t *id)
{
    struct cursor c = { .rest = str_skip(key, 1) };
    *rule = cursor_be32(&c);
    *id = cursor_be64(&c);
    return cursor_done(&c);
}

bool change_key_bytes_parse(str key, uint64_t *seq)
{
    struct cursor c = { .rest = str_skip(key, 1) };
    *seq = cursor_be64(&c);
    return cursor_done(&c);
}

bool change_key_ready_parse(str key, struct change_digest *lane, uint64_t *id)
{
    struct cursor c = { .rest = str_skip(key, 1 + 4) };
    str digest = cursor_bytes(&c, sizeof lane->p);
    *id = cursor_be64(&c);
    if (!cursor_done(&c))
        return false;
    memcpy(lane->p, digest.p, sizeof lane->p);
    return true;
}

bool change_key_order_parse(str key, uint64_t *id)
{
    struct change_digest order;
    return change_key_ready_parse(key, &order, id);
}

bool change_key_due_parse(str key, store_time *due, uint32_t *rule, uint64_t *id)
{
    struct cursor c = { .rest = str_skip(key, 1) };
    due->ns = (int64_t)cursor_be64(&c);
    *rule = cursor_be32(&c);
    *id = cursor_be64(&c);
    return cursor_done(&c);
}

void change_key_memory(struct change_key *k, uint32_t rule, const struct change_digest *what)
{
    key_begin(k, 'm');
    key_be32(k, rule);
    key_put(k, what->p, sizeof what->p);
}

void change_key_forget(struct change_key *k, store_time until, uint32_t rule,
                       const struct change_digest *what)
{
    key_begin(k, 'x');
    key_be64(k, (uint64_t)until.ns);
    key_be32(k, rule);
    key_put(k, what->p, sizeof what->p);
}

bool change_key_forget_parse(str key, store_time *until, uint32_t *rule, struct change_digest *what)
{
    struct cursor c = { .rest = str_skip(key, 1) };
    until->ns = (int64_t)cursor_be64(&c);
    *rule = cursor_be32(&c);
    str digest = cursor_bytes(&c, sizeof what->p);
    if (!cursor_done(&c))
        return false;
    memcpy(what->p, digest.p, sizeof what->p);
    return true;
}

/* ---- values ---- */

str change_head_encode(const struct change_head *h, char out[CHANGE_HEAD_BYTES])
{
    bool dated = h->missed_at.ns != 0; /* else a release of before can read it, too */
    out[0] = dated ? HEAD_VERSION : HEAD_VERSION_DATELESS;
    put_be64(out + 1, h->cursor);
    put_be64(out + 9, h->count);
    put_be64(out + 17, (uint64_t)h->at.ns);
    put_be64(out + 25, h->missed);
    put_be64(out + 33, (uint64_t)h->missed_at.ns);
    return (str){ .p = out, .n = dated ? CHANGE_HEAD_BYTES : CHANGE_HEAD_BYTES - 8 };
}

err change_head_decode(str value, struct change_head *out)
{
    struct cursor c = { .rest = value };
    struct change_head h;
    uint8_t version = cursor_u8(&c);
    h.cursor = cursor_be64(&c);
    h.count = cursor_be64(&c);
    h.at.ns = (int64_t)cursor_be64(&c);
    h.missed = cursor_be64(&c);
    h.missed_at.ns = version == HEAD_VERSION ? (int64_t)cursor_be64(&c) : 0;
    bool known = version == HEAD_VERSION || version == HEAD_VERSION_DATELESS;
    if (!cursor_done(&c) || !known)
        return ERR_CORRUPT;
    *out = h;
    return ERR_OK;
}

str change_rule_encode(const struct change_rule_row *r, char out[CHANGE_RULE_BYTES])
{
    char number[8];
    put_be64(number, r->number);
    out[0] = RULE_VERSION;
    memcpy(out + 1, number + 4, 4);
    out[5] = (char)r->flags;
    put_be64(out + 6, r->from);
    put_be64(out + 14, r->hash);
    put_be64(out + 22, r->replay_after);
    put_be64(out + 30, r->replay_until);
    return (str){ .p = out, .n = CHANGE_RULE_BYTES };
}

err change_rule_decode(str value, struct change_rule_row *out)
{
    struct cursor c = { .rest = value };
    struct change_rule_row r;
    uint8_t version = cursor_u8(&c);
    r.number = cursor_be32(&c);
    r.flags = cursor_u8(&c);
    r.from = cursor_be64(&c);
    r.hash = cursor_be64(&c);
    r.replay_after = cursor_be64(&c);
    r.replay_until = cursor_be64(&c);
    if (!cursor_done(&c) || version != RULE_VERSION)
        return ERR_CORRUPT;
    *out = r;
    return ERR_OK;
}

str change_bytes_encode(uint64_t count, char out[CHANGE_BYTES_BYTES])
{
    out[0] = BYTES_VERSION;
    put_be64(out + 1, count);
    return (str){ .p = out, .n = CHANGE_BYTES_BYTES };
}

static char *text_put(char *at, str text, size_t max)
{
    size_t n = text.n < max ? text.n : max;
    *at++ = (char)(unsigned char)n;
    if (n > 0)
        memcpy(at, text.p, n);
    return at + n;
}

str change_item_encode(const struct change_item_row *r, char out[CHANGE_VALUE_BYTES])
{
    char *at = out, attempts[8];
    INVARIANT(r->stream.n <= EVENT_NAME_BYTES_MAX);
    INVARIANT(r->domain.n <= EVENT_NAME_BYTES_MAX);
    put_be64(attempts, r->attempts);
    *at++ = ITEM_VERSION;
    *at++ = (char)r->state;
    *at++ = (char)r->flags;
    memcpy(at, attempts + 4, 4);
    put_be64(at + 4, r->seq);
    put_be64(at + 12, (uint64_t)r->taken.ns);
    put_be64(at + 20, (uint64_t)r->due.ns);
    memcpy(at + 28, r->lane.p, sizeof r->lane.p);
    memcpy(at + 44, r->order.p, sizeof r->order.p);
    put_be64(at + 60, r->target);
    at = text_put(at + 68, r->stream, EVENT_NAME_BYTES_MAX);
    at = text_put(at, r->domain, EVENT_NAME_BYTES_MAX);
    at = text_put(at, r->type, CHANGE_TYPE_BYTES_MAX);
    at = text_put(at, r->error, CHANGE_ERROR_BYTES_MAX);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

err change_item_decode(str value, struct change_item_row *out)
{
    struct cursor c = { .rest = value };
    struct change_item_row r;
    uint8_t version = cursor_u8(&c), state = cursor_u8(&c);
    r.flags = cursor_u8(&c);
    r.attempts = cursor_be32(&c);
    r.seq = cursor_be64(&c);
    r.taken.ns = (int64_t)cursor_be64(&c);
    r.due.ns = (int64_t)cursor_be64(&c);
    str lane = cursor_bytes(&c, sizeof r.lane.p), order = cursor_bytes(&c, sizeof r.order.p);
    r.target = cursor_be64(&c);
    r.stream = cursor_bytes(&c, cursor_u8(&c));
    r.domain = cursor_bytes(&c, cursor_u8(&c));
    r.type = cursor_bytes(&c, cursor_u8(&c));
    r.error = cursor_bytes(&c, cursor_u8(&c));
    if (!cursor_done(&c) || version != ITEM_VERSION || state >= CHANGE_STATES)
        return ERR_CORRUPT;
    r.state = (enum change_state)state;
    memcpy(r.lane.p, lane.p, sizeof r.lane.p);
    memcpy(r.order.p, order.p, sizeof r.order.p);
    *out = r;
    return ERR_OK;
}

/* ---- reading ---- */

static err row_get(struct engine_view *v, const struct change_key *k, struct engine_row *row)
{
    return engine_get(v, SPACE_CHANGE, change_key_str(k), row);
}

err change_head_get(struct engine_view *v, struct change_head *out)
{
    struct change_key key;
    struct engine_row row;
    change_key_head(&key);
    err why = row_get(v, &key, &row);
    return why != ERR_OK ? why : change_head_decode(row.value, out);
}

err change_rule_get(struct engine_view *v, str name, struct change_rule_row *out)
{
    struct change_key key;
    struct engine_row row;
    change_key_rule(&key, name);
    err why = row_get(v, &key, &row);
    return why != ERR_OK ? why : change_rule_decode(row.value, out);
}

err change_counts_get(struct engine_view *v, uint32_t rule, struct change_counts *out)
{
    struct change_key key;
    struct engine_row row;
    change_key_counts(&key, rule);
    *out = (struct change_counts){ .of = { 0 } };
    err why = row_get(v, &key, &row);
    if (why == ERR_NOT_FOUND)
        return ERR_OK;
    if (why != ERR_OK)
        return why;
    struct cursor c = { .rest = row.value };
    for (unsigned i = 0; i < CHANGE_STATES; i++)
        out->of[i] = cursor_be64(&c);
    return cursor_done(&c) ? ERR_OK : ERR_CORRUPT;
}

err change_bytes_get(struct engine_view *v, uint64_t seq, uint64_t *count, struct engine_blob *blob)
{
    struct change_key key;
    struct engine_row row;
    change_key_bytes(&key, seq);
    err why = row_get(v, &key, &row);
    if (why != ERR_OK)
        return why;
    struct cursor c = { .rest = row.value };
    uint8_t version = cursor_u8(&c);
    *count = cursor_be64(&c);
    *blob = row.blob;
    return cursor_done(&c) && version == BYTES_VERSION && *count > 0 ? ERR_OK : ERR_CORRUPT;
}

static err shared_get(struct engine_view *v, struct change_item_kept *out)
{
    uint64_t count;
    err why = change_bytes_get(v, out->row.seq, &count, &out->blob);
    out->lost = why == ERR_NOT_FOUND || why == ERR_CORRUPT;
    if (out->lost)
        out->blob = (struct engine_blob){ .n = 0 };
    return out->lost ? ERR_OK : why;
}

err change_item_get(struct engine_view *v, uint32_t rule, uint64_t id, struct change_item_kept *out)
{
    struct change_key key;
    struct engine_row row;
    change_key_item(&key, rule, id);
    err why = row_get(v, &key, &row);
    if (why != ERR_OK)
        return why;
    if (row.value.n > sizeof out->value)
        return ERR_CORRUPT;
    memcpy(out->value, row.value.p, row.value.n);
    out->blob = row.blob;
    out->lost = false;
    why = change_item_decode((str){ .p = out->value, .n = row.value.n }, &out->row);
    bool shares = why == ERR_OK && (out->row.flags & CHANGE_ITEM_SHARES) != 0;
    return shares ? shared_get(v, out) : why;
}

err change_memory_get(struct engine_view *v, uint32_t rule, const struct change_digest *what,
                      store_time *at, store_time *until)
{
    struct change_key key;
    struct engine_row row;
    change_key_memory(&key, rule, what);
    err why = row_get(v, &key, &row);
    if (why != ERR_OK)
        return why;
    struct cursor c = { .rest = row.value };
    at->ns = (int64_t)cursor_be64(&c);
    until->ns = (int64_t)cursor_be64(&c);
    return cursor_done(&c) ? ERR_OK : ERR_CORRUPT;
}

struct engine_cursor *change_rows_open(struct engine_view *v, str prefix, str from)
{
    char end[CHANGE_KEY_BYTES];
    INVARIANT(prefix.n <= sizeof end);
    const struct engine_range range = { .space = SPACE_CHANGE,
                                        .from = from.p == NULL ? prefix : from,
                                        .until = engine_prefix_end(prefix, end) };
    return engine_cursor_open(v, &range);
}

err change_rows_next(struct engine_cursor *c, struct engine_row *out)
{
    err why;
    do
        why = engine_cursor_next(c, out);
    while (why == ERR_CORRUPT && out->key.n > 0);
    return why;
}

static struct engine_cursor *order_open(struct engine_view *v, uint32_t rule,
                                        const struct change_digest *order)
{
    struct change_key key;
    change_key_order(&key, rule, order, 0);
    return change_rows_open(v, str_take(change_key_str(&key), key.n - sizeof(uint64_t)), STR_NONE);
}

err change_order_first(struct engine_view *v, uint32_t rule, const struct change_digest *order,
                       uint64_t *id)
{
    struct engine_row row;
    struct engine_cursor *c = order_open(v, rule, order);
    err why = engine_cursor_next(c, &row);
    if (why == ERR_OK && !change_key_order_parse(row.key, id))
        why = ERR_CORRUPT;
    engine_cursor_close(&c);
    return why;
}

err change_order_alone(struct engine_view *v, uint32_t rule, const struct change_digest *order,
                       bool *alone)
{
    struct engine_row row;
    struct engine_cursor *c = order_open(v, rule, order);
    err why = engine_cursor_next(c, &row);
    if (why == ERR_OK)
        why = engine_cursor_next(c, &row);
    engine_cursor_close(&c);
    *alone = why == ERR_NOT_FOUND;
    return *alone ? ERR_OK : why;
}
