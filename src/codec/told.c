/* told.c - messages between servers: each kind is a row, its encode beside its decode. */
#include "codec/told.h"

#include "base/date.h"

static const str states[TOLD_STATES] = { [TOLD_CURRENT] = STR_INIT("current"),
                                         [TOLD_DELETED] = STR_INIT("deleted"),
                                         [TOLD_SUPPRESSED] = STR_INIT("suppressed") };

static bool take_rev(str *rest, uint64_t *out)
{
    return str_to_u64(str_split(rest, ' '), out) && *out <= INT64_MAX;
}

static void put_newest(struct buf *out, const struct wiki_newest *n)
{
    buf_printf(out, "%lld %llu", (long long)n->at_s, (unsigned long long)n->id);
}

static bool take_newest(str *rest, struct wiki_newest *n)
{
    return str_to_i64(str_split(rest, ' '), &n->at_s) && n->at_s > 0 && n->at_s <= DATE_S_MAX &&
           take_rev(rest, &n->id) && n->id != 0;
}

/* ---- purge ---- */

static void purge_encode(struct buf *out, const struct told *t)
{
    char tid[TID_TEXT_BYTES + 1] = "-";
    if (t->purge.has_tid)
        tid_format(t->purge.tid, tid);
    buf_printf(out, "%llu %s", (unsigned long long)t->purge.rev, tid);
}

static bool purge_decode(str *rest, struct told *t)
{
    if (!take_rev(rest, &t->purge.rev))
        return false;
    str tid = str_split(rest, ' ');
    t->purge.has_tid = !str_eq(tid, STR("-"));
    return !t->purge.has_tid || (t->purge.rev != 0 && tid_parse(tid, &t->purge.tid));
}

/* ---- mark ---- */

static void mark_encode(struct buf *out, const struct told *t)
{
    buf_printf(out, "%.*s %llu %llu %lld", STR_ARG(states[t->mark.state]),
               (unsigned long long)t->mark.first, (unsigned long long)t->mark.last,
               (long long)t->mark.said_at.ns);
}

static bool mark_decode(str *rest, struct told *t)
{
    str state = str_split(rest, ' ');
    unsigned i = 0;
    while (i < TOLD_STATES && !str_eq(states[i], state))
        i++;
    t->mark.state = (enum told_state)i;
    return i < TOLD_STATES && take_rev(rest, &t->mark.first) && take_rev(rest, &t->mark.last) &&
           t->mark.first <= t->mark.last && str_to_i64(str_split(rest, ' '), &t->mark.said_at.ns);
}

/* ---- look ---- */

static void look_encode(struct buf *out, const struct told *t)
{
    if (t->look.has_word)
        buf_printf(out, "%llu", (unsigned long long)t->look.word);
    else
        buf_put_c(out, '-');
    buf_printf(out, " %llu %lld", (unsigned long long)t->look.rev, (long long)t->look.touched);
}

static bool look_decode(str *rest, struct told *t)
{
    str word = str_split(rest, ' ');
    t->look.has_word = !str_eq(word, STR("-"));
    return (!t->look.has_word || str_to_u64(word, &t->look.word)) && take_rev(rest, &t->look.rev) &&
           str_to_i64(str_split(rest, ' '), &t->look.touched) && t->look.touched >= 0 &&
           t->look.touched <= DATE_S_MAX;
}

/* ---- word ---- */

static void word_encode(struct buf *out, const struct told *t)
{
    INVARIANT(t->look.has_word);
    look_encode(out, t);
    buf_put_c(out, ' ');
    put_newest(out, &t->look.newest);
}

static bool word_decode(str *rest, struct told *t)
{
    return look_decode(rest, t) && t->look.has_word && take_newest(rest, &t->look.newest);
}

/* ---- made ---- */

static void made_encode(struct buf *out, const struct told *t)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(t->made.tid, tid);
    buf_printf(out, "%llu %llu %s", (unsigned long long)t->made.asked,
               (unsigned long long)t->made.rev, tid);
}

static bool made_decode(str *rest, struct told *t)
{
    return take_rev(rest, &t->made.asked) && take_rev(rest, &t->made.rev) && t->made.rev != 0 &&
           (t->made.asked == 0 || t->made.asked == t->made.rev) &&
           tid_parse(str_split(rest, ' '), &t->made.tid);
}

/* ---- newest ---- */

static void newest_encode(struct buf *out, const struct told *t)
{
    put_newest(out, &t->newest);
}

static bool newest_decode(str *rest, struct told *t)
{
    return take_newest(rest, &t->newest);
}

/* ---- all ---- */

static const struct {
    str name;
    void (*encode)(struct buf *out, const struct told *t);
    bool (*decode)(str *rest, struct told *t);
} kinds[TOLD_KINDS] = {
    [TOLD_PURGE] = { STR_INIT("purge"), purge_encode, purge_decode },
    [TOLD_MARK] = { STR_INIT("mark"), mark_encode, mark_decode },
    [TOLD_LOOK] = { STR_INIT("look"), look_encode, look_decode },
    [TOLD_WORD] = { STR_INIT("word"), word_encode, word_decode },
    [TOLD_MADE] = { STR_INIT("made"), made_encode, made_decode },
    [TOLD_NEWEST] = { STR_INIT("newest"), newest_encode, newest_decode },
};

static bool is_name(str s)
{
    return s.n > 0 && str_find(s, ' ') == s.n;
}

void told_encode(struct buf *out, const struct told *t)
{
    INVARIANT(t->kind < TOLD_KINDS);
    INVARIANT(is_name(t->node));
    INVARIANT(is_name(t->bucket));
    INVARIANT(is_name(t->domain));
    INVARIANT(t->title.n > 0);
    const str parts[] = { kinds[t->kind].name, t->node, t->bucket, t->domain };
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        buf_put(out, parts[i]); /* any bytes, as the reader takes them */
        buf_put_c(out, ' ');
    }
    kinds[t->kind].encode(out, t);
    buf_put_c(out, ' ');
    buf_put(out, t->title);
}

bool told_decode(str text, struct told *out)
{
    str rest = text, name = str_split(&rest, ' ');
    unsigned i = 0;
    while (i < TOLD_KINDS && !str_eq(kinds[i].name, name))
        i++;
    if (i == TOLD_KINDS)
        return false;
    struct told t = { .kind = (enum told_kind)i };
    t.node = str_split(&rest, ' ');
    t.bucket = str_split(&rest, ' ');
    t.domain = str_split(&rest, ' ');
    if (!is_name(t.node) || !is_name(t.bucket) || !is_name(t.domain) ||
        !kinds[i].decode(&rest, &t) || rest.n == 0)
        return false;
    t.title = rest;
    *out = t;
    return true;
}
