/* fact.c - the order of facts, and their bytes.
 *
 * An encoding is version, what, server, count, time, name, and then the fields of the kind, in a
 * fixed order. All numbers are big-endian and of fixed width.
 * Invariant: one fact has one encoding. A new field needs a new FACT_VERSION. */
#include "title/fact.h"

#include "base/buf.h"

#include <string.h>

enum { FACT_VERSION = 1 };
/* A table has revisions as bigint, which has a sign. */
#define FACT_REV_MAX ((uint64_t)INT64_MAX)

const char *fact_name(enum fact_what what)
{
    static const char *const names[FACT_WHATS] = {
        [FACT_WORD] = "word",
        [FACT_SHOWN] = "shown",
        [FACT_SUPPRESSED] = "suppressed",
        [FACT_DELETED] = "deleted",
        [FACT_PURGE] = "purge",
        [FACT_PURGE_ELSEWHERE] = "purge_elsewhere",
        [FACT_FENCE] = "fence",
        [FACT_PUT] = "put",
        [FACT_REQUEST] = "request",
        [FACT_STASH] = "stash",
        [FACT_HOLD] = "hold",
        [FACT_UNSTASH] = "unstash",
        [FACT_DROP] = "drop",
        [FACT_RELEASE] = "release",
        [FACT_MADE] = "made",
        [FACT_FORGOTTEN] = "forgotten",
    };
    INVARIANT(what >= FACT_WORD);
    INVARIANT(what < FACT_WHATS);
    return names[what];
}

/* ---- order ---- */

/* By arrival, then by the count within that instant. */
static int time_cmp(const struct fact *a, const struct fact *b)
{
    int64_t x = fact_arrived(a).ns, y = fact_arrived(b).ns;
    if (x != y)
        return x < y ? -1 : 1;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return 0;
}

bool fact_before(const struct fact *a, const struct fact *b)
{
    return time_cmp(a, b) < 0;
}

/* Facts of several servers at one time: the kind decides (fact.h), then the server. The name makes
 * the order total. */
int fact_cmp(const struct fact *a, const struct fact *b)
{
    int by_time = time_cmp(a, b);
    if (by_time != 0)
        return by_time;
    if (a->what != b->what)
        return a->what < b->what ? -1 : 1;
    if (a->srv != b->srv)
        return a->srv < b->srv ? -1 : 1;
    return page_name_cmp(a->name, b->name);
}

/* ---- bytes ---- */

static char *fact_put_time(char *at, store_time t)
{
    put_be64(at, (uint64_t)t.ns);
    return at + 8;
}

static store_time fact_get_time(struct cursor *c)
{
    return (store_time){ .ns = (int64_t)cursor_be64(c) };
}

static char *fact_put_made(char *at, struct title_under made)
{
    put_be64(at, (uint64_t)made.touched);
    put_be64(at + 8, (uint64_t)made.said);
    return fact_put_time(at + 16, made.asked_at);
}

static struct title_under fact_get_made(struct cursor *c)
{
    struct title_under made = { .touched = (int64_t)cursor_be64(c) };
    made.said = (int64_t)cursor_be64(c);
    made.asked_at = fact_get_time(c);
    return made;
}

/* Contents as they lie in the blob, one behind the other: so an offset need not be stored. */
static char *fact_put_contents(char *at, const struct fact *f)
{
    *at++ = (char)f->contents_count;
    for (unsigned i = 0; i < f->contents_count; i++) {
        const struct page_content *c = &f->contents[i];
        size_t n = strlen(c->name);
        INVARIANT(n >= 1 && n <= PAGE_CONTENT_NAME_BYTES_MAX);
        *at++ = (char)n;
        memcpy(at, c->name, n);
        at += n;
        *at++ = (char)c->codec;
        put_be32(at, c->headers_bytes);
        put_be32(at + 4, c->stored_bytes);
        put_be32(at + 8, c->raw_bytes);
        put_be64(at + 12, c->sum);
        at += 20;
    }
    return at;
}

static char *fact_put_put(char *at, const struct fact *f)
{
    INVARIANT(f->contents_count <= PAGE_CONTENTS_MAX);
    at = fact_put_time(at, f->until);
    at = fact_put_time(at, f->stash_until);
    at = fact_put_time(at, f->said_at);
    put_be64(at, f->behind);
    at = fact_put_made(at + 8, f->made);
    memcpy(at, f->digest, PAGE_DIGEST_BYTES);
    memcpy(at + PAGE_DIGEST_BYTES, f->plain_digest, PAGE_DIGEST_BYTES);
    return fact_put_contents(at + 2 * (size_t)PAGE_DIGEST_BYTES, f);
}

str fact_encode(const struct fact *f, char *out)
{
    char *at = out;
    *at++ = FACT_VERSION;
    *at++ = (char)f->what;
    put_be32(at, f->srv);
    put_be32(at + 4, f->n);
    at = fact_put_time(at + 8, f->at);
    put_be64(at, f->name.rev);
    tid_key(f->name.tid, (unsigned char *)at + 8);
    at += 8 + TID_KEY_BYTES;
    if (f->what == FACT_PUT)
        at = fact_put_put(at, f);
    if (fact_is_pin(f))
        at = fact_put_time(at, f->until);
    if (f->what == FACT_MADE)
        at = fact_put_made(at, f->made);
    if (f->what == FACT_WORD || fact_is_mark(f))
        at = fact_put_time(at, f->said_at);
    if (fact_is_joined(f))
        at = fact_put_time(at, f->joined_at);
    if (fact_is_mark(f)) {
        put_be64(at, f->rev_last);
        at += 8;
    }
    /* The caller's bytes have exactly this bound (fact.h). */
    INVARIANT(at - out <= FACT_BYTES_MAX);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

/* False: a content that no put could have had. Offsets follow from the sizes. */
static bool fact_get_contents(struct cursor *c, struct fact *out, struct page_content *contents)
{
    uint64_t offset = 0;
    out->contents = contents;
    out->contents_count = cursor_u8(c);
    if (out->contents_count > PAGE_CONTENTS_MAX)
        return false;
    for (unsigned i = 0; i < out->contents_count && !c->failed; i++) {
        str name = cursor_bytes(c, cursor_u8(c));
        uint8_t codec = cursor_u8(c);
        contents[i] = (struct page_content){ .codec = (enum page_codec)codec };
        contents[i].offset = (uint32_t)offset;
        contents[i].headers_bytes = cursor_be32(c);
        contents[i].stored_bytes = cursor_be32(c);
        contents[i].raw_bytes = cursor_be32(c);
        contents[i].sum = cursor_be64(c);
        offset += (uint64_t)contents[i].headers_bytes + contents[i].stored_bytes;
        if (name.n < 1 || codec > PAGE_ZSTD || offset > UINT32_MAX ||
            !str_to_cstr(name, contents[i].name, sizeof(contents[i].name)))
            return false;
    }
    return true;
}

/* The fields of a put. A put names a render, so its tid is not zero. */
static bool fact_get_put(struct cursor *c, struct fact *out, struct page_content *contents)
{
    out->until = fact_get_time(c);
    out->stash_until = fact_get_time(c);
    out->said_at = fact_get_time(c);
    out->behind = cursor_be64(c);
    out->made = fact_get_made(c);
    str digests = cursor_bytes(c, 2 * (size_t)PAGE_DIGEST_BYTES);
    if (c->failed || out->behind > FACT_REV_MAX || page_name_is_unmade(out->name))
        return false;
    memcpy(out->digest, digests.p, PAGE_DIGEST_BYTES);
    memcpy(out->plain_digest, digests.p + PAGE_DIGEST_BYTES, PAGE_DIGEST_BYTES);
    return fact_get_contents(c, out, contents);
}

/* Does the name say what a fact of this kind is of: the title, a revision, or one render? */
static bool fact_name_is_right(const struct fact *f)
{
    bool unmade = page_name_is_unmade(f->name), none = f->name.rev == 0;
    if (f->name.rev > FACT_REV_MAX || f->name.tid.ticks > TID_TICKS_MAX || (none && !unmade))
        return false;
    if (f->what == FACT_FENCE) /* of the whole title */
        return none;
    if (fact_is_mark(f))
        return unmade;
    if (f->what == FACT_WORD)
        return unmade && !none;
    /* A purge is of a title, a revision or a render, and a release of a revision or a render. All
     * other facts are of one render. */
    return fact_is_purge(f) || (f->what == FACT_RELEASE && !none) || !unmade;
}

/* All bytes have to be used: what is left over was written by nobody. */
err fact_decode(str value, struct fact *out, struct page_content *contents)
{
    struct cursor c = { .rest = value };
    uint8_t version = cursor_u8(&c), what = cursor_u8(&c);
    /* An unknown version is damage: all servers must read a new version before one writes it. */
    if (version != FACT_VERSION || what < FACT_WORD || what >= FACT_WHATS)
        return ERR_CORRUPT;
    *out = (struct fact){ .what = (enum fact_what)what };
    out->srv = cursor_be32(&c);
    out->n = cursor_be32(&c);
    out->at = fact_get_time(&c);
    out->name.rev = cursor_be64(&c);
    str tid = cursor_bytes(&c, TID_KEY_BYTES);
    if (c.failed)
        return ERR_CORRUPT;
    out->name.tid = tid_from_key((const unsigned char *)tid.p);
    if (!fact_name_is_right(out))
        return ERR_CORRUPT;
    if (out->what == FACT_PUT && !fact_get_put(&c, out, contents))
        return ERR_CORRUPT;
    if (fact_is_pin(out))
        out->until = fact_get_time(&c);
    if (out->what == FACT_MADE)
        out->made = fact_get_made(&c);
    if (out->what == FACT_WORD || fact_is_mark(out))
        out->said_at = fact_get_time(&c);
    if (fact_is_joined(out))
        out->joined_at = fact_get_time(&c);
    if (fact_is_mark(out))
        out->rev_last = cursor_be64(&c);
    /* A mark is of the revisions from name.rev to rev_last. */
    bool right = !fact_is_mark(out) || out->rev_last >= out->name.rev;
    return right && cursor_done(&c) ? ERR_OK : ERR_CORRUPT;
}
