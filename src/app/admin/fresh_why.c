/* fresh_why.c - what a reader of a title would get, and why, in plain words. */
#include "app/admin/fresh.h"

#include "base/date.h"
#include "codec/json_text.h"

#include <inttypes.h>

void fresh_put_time(struct buf *b, int64_t ns)
{
    char text[DATE_RFC3339_BYTES + 1];
    if (ns == 0 || ns == INT64_MAX) {
        buf_put(b, STR("null"));
        return;
    }
    date_format_ms(ns, text);
    buf_printf(b, "\"%s\"", text);
}

/* The wiki's clock has whole seconds, up to DATE_S_MAX. */
static void put_wiki_time(struct buf *b, const char *before, int64_t s)
{
    buf_put(b, str_of(before));
    fresh_put_time(b, (s < DATE_S_MAX ? s : DATE_S_MAX) * NS_PER_S);
}

static void put_word(struct buf *b, const struct page_why *w)
{
    buf_put(b, STR(",\"word\":"));
    if (!w->heard) {
        buf_put(b, STR("null"));
        return;
    }
    buf_printf(b, "{\"missing\":%s,\"redirect\":%s,\"page_id\":%" PRIu64 ",\"rev\":%" PRIu64,
               w->word.missing ? "true" : "false", w->word.redirect ? "true" : "false",
               w->word.page_id, w->word.rev);
    put_wiki_time(b, ",\"touched\":", w->word.touched);
    put_wiki_time(b, ",\"said\":", w->word.said);
    buf_put(b, STR(",\"heard_at\":"));
    fresh_put_time(b, w->word.asked_at.ns);
    buf_put_c(b, '}');
}

/* ---- words ---- */

static const char *first_of(const struct page_why *w)
{
    if (!w->is_checked)
        return "";
    switch (w->need) {
    case TRUST_FINE:
        return "at once: ";
    case TRUST_BEHIND:
        return "at once, and the wiki is asked behind the answer: ";
    case TRUST_FIRST:
        break;
    }
    if (!w->heard)
        return "after the wiki is asked, for the first time: ";
    if (w->doubted_at.ns != 0)
        return "after the wiki is asked, because somebody said that the page changed: ";
    return w->age_ns == TRUST_NEVER
               ? "after the wiki is asked, for the first time since the server started: "
               : "after the wiki is asked, because its last word is too old: ";
}

static bool can_be_made(const struct page_why *w, const struct page_why_bucket *b)
{
    const struct page_target t = {
        .domain = w->domain, .settings = b->settings, .content = STR("html"), .title = w->title
    };
    return page_target_can_be_made(&t);
}

static void put_stored(struct buf *b, const struct page_why *w, const struct page_why_bucket *of)
{
    switch (of->old) {
    case OLD_NEWER:
        buf_printf(b, "a new render, because the wiki has revision %" PRIu64, w->word.rev);
        return;
    case OLD_TOUCHED:
        buf_put(b, STR("a new render, because the page was touched since"));
        return;
    case OLD_TOLD:
        buf_put(b, STR("a new render, because all of the domain is to be made anew"));
        return;
    case OLD_AGED:
        buf_put(b, STR("a new render, because this one is older than rerender_after"));
        return;
    case OLD_NOT:
        break;
    }
    if (!w->is_checked || !w->heard)
        buf_put(b, STR("what is stored"));
    else if (of->dated == DATED_TOUCHED)
        buf_put(b, STR("what is stored, though the page was touched since (rerender: never)"));
    else if (of->dated == DATED_UNSETTLED)
        buf_printf(b,
                   "what is stored, which was made within %" PRId64 " s of the page's last change",
                   w->settle_s);
    else
        buf_put(b, STR("what is stored, which is as the wiki has it"));
}

static void put_gets(struct buf *b, const struct page_why *w, const struct page_why_bucket *of)
{
    bool made = can_be_made(w, of);
    bool missing = made && w->is_checked && w->heard && w->word.missing;
    if (missing && (of->why == ERR_NOT_FOUND || of->why == ERR_GONE)) {
        buf_put(b, w->need == TRUST_FINE
                       ? STR("404: the wiki has no such page")
                       : STR("after the wiki is asked: 404, if it has no such page still"));
    } else if (of->why == ERR_NOT_FOUND) {
        buf_put(b, made ? STR("a first render: nothing is stored") : STR("404: nothing is stored"));
    } else if (of->why == ERR_GONE) {
        buf_put(b, made ? STR("what the wiki says when it is asked again: ") : STR("410: "));
        buf_printf(b, "the newest is %s", page_state_name(of->trace.state));
    } else if (of->why != ERR_OK) {
        buf_printf(b, "a failure of the store: %s", err_name(of->why));
    } else {
        buf_put(b, str_of(first_of(w)));
        if (of->old != OLD_NOT && !made)
            buf_put(b, STR("what is stored, because no wiki makes such contents"));
        else
            put_stored(b, w, of);
    }
}

static const char *state_of(const struct page_why *w, const struct page_why_bucket *of)
{
    static const char *const olds[] = {
        [OLD_NEWER] = "newer", [OLD_TOUCHED] = "touched", [OLD_TOLD] = "told", [OLD_AGED] = "aged"
    };
    if (of->why == ERR_NOT_FOUND)
        return "nothing";
    if (of->why != ERR_OK)
        return of->why == ERR_GONE ? page_state_name(of->trace.state) : "failed";
    if (of->old != OLD_NOT)
        return olds[of->old];
    if (!w->heard)
        return "unknown";
    return of->dated == DATED_TOUCHED     ? "touched"
           : of->dated == DATED_UNSETTLED ? "unsettled"
                                          : "fine";
}

/* Is it made anew without a reader, and when? */
static void put_line(struct buf *b, const struct remake_place *p)
{
    if (p->is_made)
        buf_put(b, STR("{\"state\":\"made\"}"));
    else if (p->waits)
        buf_printf(b, "{\"state\":\"waits\",\"place\":%" PRIu64 ",\"of\":%" PRIu64 "}", p->place,
                   p->of);
    else
        buf_put(b, STR("null"));
}

static void put_bucket(struct buf *b, const struct page_why *w, const struct page_why_bucket *of)
{
    const struct page_render *r = &of->render;
    char tid[TID_TEXT_BYTES + 1];
    buf_put(b, STR("{\"bucket\":"));
    json_text_append(b, str_of(of->settings->opts->name));
    if (of->why == ERR_OK) {
        tid_format(r->name.tid, tid);
        buf_printf(b, ",\"rev\":%" PRIu64 ",\"tid\":\"%s\",\"made_at\":", r->name.rev, tid);
        fresh_put_time(b, title_made_at(r).ns);
        buf_put(b, STR(",\"made_under\":"));
        if (r->made.said == 0) {
            buf_put(b, STR("null"));
        } else {
            put_wiki_time(b, "{\"touched\":", r->made.touched);
            put_wiki_time(b, ",\"said\":", r->made.said);
            buf_put_c(b, '}');
        }
    }
    buf_printf(b, ",\"state\":\"%s\",\"reader\":\"", state_of(w, of));
    put_gets(b, w, of);
    buf_put(b, STR("\",\"anew\":"));
    put_line(b, &of->line);
    buf_put_c(b, '}');
}

void fresh_why_json(struct buf *b, const struct page_why *w)
{
    static const char *const needs[] = {
        [TRUST_FINE] = "\"fine\"", [TRUST_BEHIND] = "\"behind\"", [TRUST_FIRST] = "\"first\""
    };
    buf_put(b, STR("\"domain\":"));
    json_text_append(b, w->domain->name);
    buf_put(b, STR(",\"title\":"));
    json_text_append(b, w->title);
    put_word(b, w);
    if (w->age_ns == TRUST_NEVER)
        buf_put(b, STR(",\"age_s\":null"));
    else
        buf_printf(b, ",\"age_s\":%" PRId64, w->age_ns / NS_PER_S);
    buf_put(b, STR(",\"in_doubt_since\":"));
    fresh_put_time(b, w->doubted_at.ns);
    buf_printf(b, ",\"asks\":%s,\"buckets\":[", w->is_checked ? needs[w->need] : "null");
    for (unsigned i = 0; i < w->count; i++) {
        buf_put(b, i == 0 ? STR("") : STR(","));
        put_bucket(b, w, &w->buckets[i]);
    }
    buf_put_c(b, ']');
}
