/* remote_rows.c - see remote_rows.h. A member of a domain is what the store's key by time has
 * behind the instant: kind, title, zero byte, revision, tid. */
#include "timeline/remote_rows.h"

#include "base/buf.h"

#include <string.h>

enum { SCORE_DIGITS_MAX = 17, SCORE_EXPONENT_MAX = 30, TIME_HEAD = TIMELINE_DOMAIN_BYTES + 8 };
#define SCORE_MAX ((int64_t)1 << 53)

/* ---- keys ---- */

static void key_add(struct timeline_remote_key *k, str bytes)
{
    memcpy(k->p + k->n, bytes.p, bytes.n);
    k->n += bytes.n;
}

static bool remote_rows_fits(str name, size_t bytes_max)
{
    return name.n > 0 && name.n <= bytes_max && memchr(name.p, 0, name.n) == NULL;
}

static err key_begin(struct timeline_remote_key *k, str domain, str form)
{
    if (!remote_rows_fits(domain, TIMELINE_REMOTE_DOMAIN_BYTES_MAX))
        return ERR_BAD;
    k->n = 0;
    key_add(k, STR("pal:t:{"));
    key_add(k, domain);
    key_add(k, form);
    return ERR_OK;
}

err timeline_remote_key_time(struct timeline_remote_key *k, str domain)
{
    return key_begin(k, domain, STR("}:t"));
}

err timeline_remote_key_title(struct timeline_remote_key *k, str domain, enum timeline_kind kind,
                              str title)
{
    if (!remote_rows_fits(title, TIMELINE_TITLE_BYTES_MAX))
        return ERR_BAD;
    err why = key_begin(k, domain, kind == TIMELINE_RENDER ? STR("}:r:") : STR("}:v:"));
    if (why == ERR_OK)
        key_add(k, title);
    return why;
}

/* ---- members ---- */

void timeline_remote_member(const struct timeline_where *w, const struct timeline_entry *e,
                            struct timeline_key *out)
{
    struct timeline_key key;
    timeline_key_time(&key, w, e);
    out->n = key.n - TIME_HEAD;
    memcpy(out->p, key.p + TIME_HEAD, out->n);
    out->prefix = out->n;
}

bool timeline_remote_tail_parse(str member, struct timeline_where *w, struct timeline_entry *e)
{
    struct cursor c = { .rest = member };
    e->rev = cursor_be64(&c);
    e->tid.ticks = cursor_be64(&c);
    e->tid.low = cursor_be64(&c);
    w->rev = e->rev;
    return cursor_done(&c) && member.n == TIMELINE_REMOTE_TAIL_BYTES;
}

bool timeline_remote_member_parse(str member, struct timeline_where *w, struct timeline_entry *e)
{
    if (member.n <= 2 + TIMELINE_REMOTE_TAIL_BYTES || (unsigned char)member.p[0] >= TIMELINE_KINDS)
        return false;
    size_t title_n = member.n - 2 - TIMELINE_REMOTE_TAIL_BYTES;
    w->kind = member.p[0] == TIMELINE_RENDER ? TIMELINE_RENDER : TIMELINE_REVISION;
    w->title = str_take(str_skip(member, 1), title_n);
    return member.p[1 + title_n] == 0 && remote_rows_fits(w->title, TIMELINE_TITLE_BYTES_MAX) &&
           timeline_remote_tail_parse(str_skip(member, 2 + title_n), w, e);
}

/* ---- scores ---- */

struct score {
    uint64_t digits; /* all of them, as a number */
    unsigned count;  /* of those behind a leading zero */
    int64_t exponent;
};

/* Digits of one part, before or behind the point. False: there are too many. */
static bool digits_take(struct score *s, str *rest, int64_t each)
{
    while (rest->n > 0 && rest->p[0] >= '0' && rest->p[0] <= '9') {
        s->digits = 10 * s->digits + (uint64_t)(rest->p[0] - '0');
        s->count += s->digits > 0;
        s->exponent += each;
        *rest = str_skip(*rest, 1);
        if (s->count > SCORE_DIGITS_MAX || s->exponent < -SCORE_EXPONENT_MAX)
            return false;
    }
    return true;
}

/* e+16, e-3; empty: none. */
static bool exponent_take(struct score *s, str rest)
{
    int64_t n;
    if (rest.n == 0)
        return true;
    if (rest.p[0] != 'e' && rest.p[0] != 'E')
        return false;
    rest = str_skip(rest, 1);
    if (str_starts(rest, STR("+")))
        rest = str_skip(rest, 1);
    if (rest.n > 3 || !str_to_i64(rest, &n) || n > SCORE_EXPONENT_MAX || n < -SCORE_EXPONENT_MAX)
        return false;
    s->exponent += n;
    return true;
}

bool timeline_remote_score_parse(str text, int64_t *us)
{
    struct score s = { .digits = 0 };
    str rest = text;
    if (rest.n == 0 || !digits_take(&s, &rest, 0) || rest.n == text.n)
        return false;
    if (rest.n > 0 && rest.p[0] == '.') {
        rest = str_skip(rest, 1);
        if (!digits_take(&s, &rest, -1))
            return false;
    }
    if (!exponent_take(&s, rest))
        return false;
    for (; s.exponent < 0; s.exponent++) /* what is finer is cut */
        s.digits /= 10;
    for (; s.exponent > 0 && s.digits <= (uint64_t)SCORE_MAX; s.exponent--)
        s.digits *= 10;
    if (s.digits > (uint64_t)SCORE_MAX)
        return false;
    *us = (int64_t)s.digits;
    return true;
}
