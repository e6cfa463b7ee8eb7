/* sweep_lap.c - the pace of a sweep, and its note: values in, values out, for sweep.c and
 * sweep_batch.c. */
#include "page/sweep_lap.h"

#include "base/buf.h"

#include <string.h>

enum { NOTE_VERSION = 1, NOTE_OVER = 1, NOTE_HEAD_BYTES = 2 + 6 * 8 };
_Static_assert((int)NOTE_HEAD_BYTES + (int)PAGE_TITLE_BYTES_MAX <= (int)PAGE_NOTE_BYTES_MAX,
               "a note has room for it");

void sweep_text_set(struct sweep_text *t, str s)
{
    INVARIANT(s.n <= sizeof t->p);
    memcpy(t->p, s.p, s.n);
    t->n = s.n;
}

/* A lap that was cut off leaves `before` as it was: not all titles were asked for in it. */
void lap_begin(struct lap *l, store_time now, uint64_t titles)
{
    if (l->over) {
        l->before = l->began;
        l->said_before = l->said;
    }
    l->over = false;
    l->began = now;
    l->said = 0;
    l->titles = titles;
    l->asked = 0;
    l->at.n = 0;
}

void lap_advance(struct lap *l, const struct sweep_text *at, uint64_t titles, bool over)
{
    l->at = *at;
    l->asked += titles;
    l->over = over;
}

store_time lap_due(const struct lap *l, int64_t period_ns, bool hurries)
{
    bool none = period_ns == 0 || period_ns == INT64_MAX;
    /* A lap that hurries is always due. */
    if (hurries && !l->over)
        return l->began;
    if (none)
        return STORE_TIME_NEVER;
    if (l->began.ns == STORE_TIME_ZERO.ns)
        return STORE_TIME_ZERO;
    if (l->over || l->titles == 0)
        return l->over ? store_time_add(l->began, period_ns) : l->began;
    /* Titles that came since the count must not put the next call past the period. */
    uint64_t asked = l->asked < l->titles ? l->asked : l->titles;
    return store_time_add(l->began, period_ns / (int64_t)l->titles * (int64_t)asked);
}

store_time lap_history_since(const struct lap *l, const struct title_word *word)
{
    bool known = l->said_before != 0 && l->before.ns != STORE_TIME_ZERO.ns;
    /* The copy of the database that answered then may have been behind: the margin covers it. */
    return known && word->touched < l->said_before - SWEEP_MARGIN_S ? l->before : STORE_TIME_ZERO;
}

store_time lap_all_since(const struct lap *l)
{
    store_time since = l->over ? l->began : l->before;
    return since.ns == STORE_TIME_ZERO.ns ? STORE_TIME_NEVER : since;
}

/* ---- notes ---- */

/* lap_decode reads in this order; the title is the rest of the note. */
size_t lap_encode(const struct lap *l, char *out)
{
    const int64_t words[] = { l->began.ns,    l->before.ns,       l->said,
                              l->said_before, (int64_t)l->titles, (int64_t)l->asked };
    char *at = out;
    *at++ = NOTE_VERSION;
    *at++ = l->over ? NOTE_OVER : 0;
    for (unsigned i = 0; i < COUNT_OF(words); i++, at += 8)
        put_be64(at, (uint64_t)words[i]);
    memcpy(at, l->at.p, l->at.n);
    return NOTE_HEAD_BYTES + l->at.n;
}

err lap_decode(str bytes, struct lap *out)
{
    struct cursor c = { .rest = bytes };
    uint8_t version = cursor_u8(&c), flags = cursor_u8(&c);
    struct lap l = { .over = flags == NOTE_OVER };
    int64_t titles, asked;
    int64_t *const words[] = {
        &l.began.ns, &l.before.ns, &l.said, &l.said_before, &titles, &asked
    };
    for (unsigned i = 0; i < COUNT_OF(words); i++)
        *words[i] = (int64_t)cursor_be64(&c);
    /* A title of the wrong length, or an instant before 1970, is damage. */
    if (c.failed || version != NOTE_VERSION || flags > NOTE_OVER || titles < 0 || asked < 0 ||
        c.rest.n > sizeof l.at.p || l.began.ns < 0)
        return ERR_CORRUPT;
    l.titles = (uint64_t)titles;
    l.asked = (uint64_t)asked;
    sweep_text_set(&l.at, c.rest);
    *out = l;
    return ERR_OK;
}
