/* json.c - writes renders, traces and titles as JSON, for the answers of the API. Each function
 * appends to a buffer, which keeps its own failure. */
#include "page/json.h"

#include "base/date.h"
#include "codec/json_text.h"

#include <inttypes.h>

void pagejson_time(struct buf *b, const char *name, store_time t)
{
    char text[DATE_RFC3339_BYTES + 1];
    if (t.ns == STORE_TIME_NEVER.ns || t.ns == STORE_TIME_ZERO.ns) {
        buf_printf(b, ",\"%s\":null", name);
        return;
    }
    date_format_ms(t.ns, text);
    buf_printf(b, ",\"%s\":\"%s\"", name, text);
}

/* Writes rev and tid, with null for what is not known. */
static void put_name(struct buf *b, struct page_name n, bool has_rev, bool has_tid)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(n.tid, tid);
    if (has_rev)
        buf_printf(b, "\"rev\":%" PRIu64, n.rev);
    else
        buf_put(b, STR("\"rev\":null"));
    if (has_tid)
        buf_printf(b, ",\"tid\":\"%s\"", tid);
    else
        buf_put(b, STR(",\"tid\":null"));
}

void pagejson_name(struct buf *b, struct page_name n)
{
    put_name(b, n, true, true);
}

/* The members that a render and a trace share. */
static void put_born(struct buf *b, struct page_name n, enum page_state state)
{
    char text[DATE_RFC3339_BYTES + 1];
    date_format_ms(tid_time(n.tid).ns, text); /* a real instant, also when it is 1970 */
    pagejson_name(b, n);
    buf_printf(b, ",\"rendered_at\":\"%s\",\"state\":\"%s\"", text, page_state_name(state));
}

/* Names what superseded a render. A revision of which no render is stored has no tid to name. */
static void put_superseded(struct buf *b, store_time at, bool known, struct page_name by)
{
    pagejson_time(b, "superseded_at", at);
    buf_put(b, known ? STR(",\"superseded_by\":{") : STR(",\"superseded_by\":null"));
    if (!known)
        return;
    put_name(b, by, true, !page_name_is_unmade(by));
    buf_put_c(b, '}');
}

void pagejson_render(struct buf *b, const struct page_render *r)
{
    put_born(b, r->name, r->state);
    put_superseded(b, r->superseded_at, r->superseded_at.ns != STORE_TIME_NEVER.ns,
                   r->superseded_by);
    pagejson_time(b, "due_at", r->due_at);
    buf_put(b, STR(",\"bytes\":{"));
    for (unsigned i = 0; i < r->contents_count; i++)
        buf_printf(b, "%s\"%s\":%" PRIu32, i == 0 ? "" : ",", r->contents[i].name,
                   r->contents[i].raw_bytes);
    buf_put_c(b, '}');
}

/* A trace as a render without bytes: clients read both alike. */
static void put_trace(struct buf *b, const struct page_trace *t)
{
    put_born(b, t->name, t->state);
    pagejson_time(b, "at", t->at);
    put_superseded(b, t->superseded_at, t->superseded_by.rev != 0, t->superseded_by);
    pagejson_time(b, "due_at", STORE_TIME_NEVER);
    buf_put(b, STR(",\"bytes\":{}"));
}

void pagejson_damaged(struct buf *b, struct arena *a, str title, const struct page_name *name)
{
    bool named = name != NULL && name->rev != 0;
    buf_put(b, STR("{\"title\":"));
    buf_put(b, title.n > 0 ? json_text_quote(a, title) : STR("null"));
    buf_put_c(b, ',');
    put_name(b, named ? *name : (struct page_name){ .rev = 0 }, named, named);
    buf_put_c(b, '}');
}

/* What keeps the render longer than policy does; one that is over is left out. */
static void put_holds(struct buf *b, const struct page_explanation *e)
{
    const struct {
        const char *kind;
        bool holds;
        store_time until;
    } all[] = { { "stash", e->stashed, e->render.stash_until },
                { "hold", e->held, e->render.hold_until },
                { "request", e->requested, e->render.requested_until } };
    bool first = true;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (!all[i].holds || all[i].until.ns == STORE_TIME_ZERO.ns)
            continue;
        buf_printf(b, "%s{\"kind\":\"%s\"", first ? "" : ",", all[i].kind);
        pagejson_time(b, "until", all[i].until);
        buf_put_c(b, '}');
        first = false;
    }
}

/* Three shapes: nothing is known, a trace, or a stored render. The policy is that of the
 * removal, where there was one. */
void pagejson_explanation(struct buf *b, struct arena *a, const struct page_target *t,
                          const struct page_explanation *e)
{
    bool unknown = e->state == PAGE_UNKNOWN,
         gone = e->state == PAGE_CULLED || e->state == PAGE_PURGED || e->state == PAGE_SUPPRESSED ||
                e->state == PAGE_DELETED;
    enum page_policy_kind policy = gone ? e->trace.policy : e->policy;
    if (unknown) {
        put_name(b, t->name, t->has_rev, t->has_tid);
        buf_printf(b, ",\"state\":\"%s\"", page_state_name(PAGE_UNKNOWN));
    } else if (gone) {
        put_trace(b, &e->trace);
    } else {
        pagejson_render(b, &e->render);
    }
    buf_printf(b, ",\"policy\":\"%s\",\"reason\":", page_policy_name(policy));
    json_text_append(b, str_of(e->reason));
    buf_put(b, STR(",\"holds\":["));
    if (!gone && !unknown)
        put_holds(b, e);
    buf_put_c(b, ']');
    /* Only the first damaged row is named: pages_check tells of all. */
    if (e->passed > 0) {
        buf_put(b, STR(",\"damaged\":["));
        pagejson_damaged(b, a, t->title, &e->passed_name);
        buf_put_c(b, ']');
    }
    buf_put_c(b, '}');
}

/* Writes ,"name":"text", or null for an empty text. */
static void put_text(struct buf *b, const char *name, str text)
{
    buf_printf(b, ",\"%s\":", name);
    if (text.n > 0)
        json_text_append(b, text);
    else
        buf_put(b, STR("null"));
}

/* The members that only the wiki knows, as it said them. */
static void put_told(struct buf *b, const struct render_meta *m, struct tid tid)
{
    struct page_name name = { .rev = m->rev, .tid = tid };
    buf_printf(b, "\"page_id\":%" PRIu64 ",", m->page_id);
    put_name(b, name, true, !page_name_is_unmade(name));
    buf_printf(b, ",\"namespace\":%" PRId64, m->namespace_id);
    if (m->user_hidden)
        buf_put(b, STR(",\"user_id\":null"));
    else
        buf_printf(b, ",\"user_id\":%" PRIu64, m->user_id);
    put_text(b, "user_text", m->user_text);
    put_text(b, "timestamp", m->timestamp);
    buf_put(b, STR(",\"comment\":"));
    if (m->comment_hidden)
        buf_put(b, STR("null"));
    else
        json_text_append(b, m->comment); /* many are empty */
    buf_printf(b, ",\"tags\":%.*s,\"restrictions\":%.*s", STR_ARG(m->tags_json),
               STR_ARG(m->restrictions_json));
    put_text(b, "page_language", m->page_language);
    buf_printf(b, ",\"redirect\":%s", m->redirect ? "true" : "false");
}

void pagejson_title(struct buf *b, const struct pagejson_title *t)
{
    buf_put(b, STR("{\"items\":[{\"title\":"));
    json_text_append(b, t->title);
    buf_put_c(b, ',');
    if (t->meta != NULL) {
        put_told(b, t->meta, t->name.tid);
    } else {
        buf_put(b, STR("\"page_id\":null,"));
        pagejson_name(b, t->name);
        buf_put(b, STR(",\"namespace\":null,\"user_id\":null,\"user_text\":null"));
        pagejson_time(b, "timestamp", t->revised_at);
        buf_put(b, STR(",\"comment\":null,\"tags\":[],\"restrictions\":[],\"page_language\":null,"
                       "\"redirect\":null"));
    }
    buf_put(b, STR(",\"page_deleted\":null}],\"count\":1}"));
}
