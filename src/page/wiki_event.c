/* wiki_event.c - reads events as EventBus makes them, for the API of events. Two generations: pages
 * in members of the event itself (page_title, rev_id, prior_state), and in objects of it
 * (mediawiki.page_change.v1). */
#include "page/wiki_event.h"

#include "base/date.h"
#include "codec/json.h"

#include <inttypes.h>

/* An object of the event, taken apart; in the arena, as it is large. */
struct object {
    unsigned count;
    struct json_member members[EVENT_MEMBERS_MAX];
};

/* What a change leaves that its word can be told by. */
enum leaves { LEAVES_NOTHING, LEAVES_REVISION, LEAVES_NO_PAGE, LEAVES_TOUCHED };

static const struct {
    const char *name;
    enum leaves leaves;
} streams[] = {
    { "mediawiki.page-create", LEAVES_REVISION },
    { "mediawiki.page-move", LEAVES_REVISION },
    { "mediawiki.page-undelete", LEAVES_REVISION },
    { "mediawiki.revision-create", LEAVES_REVISION },
    { "mediawiki.page-delete", LEAVES_NO_PAGE },
    { "mediawiki.page-suppress", LEAVES_NO_PAGE },
    { "mediawiki.revision-visibility-change", LEAVES_TOUCHED },
}, kinds[] = { /* page_change_kind */
    { "create", LEAVES_REVISION },
    { "edit", LEAVES_REVISION },
    { "move", LEAVES_REVISION },
    { "undelete", LEAVES_REVISION },
    { "delete", LEAVES_NO_PAGE },
    { "visibility_change", LEAVES_TOUCHED },
};

/* ---- members ---- */

/* Takes an object apart. ERR_NOT_FOUND: json is no object. */
static err object_read(struct arena *a, str json, struct object **out, struct err_note *note)
{
    if (json.n == 0 || json.p[0] != '{')
        return ERR_NOT_FOUND;
    struct object *o = arena_alloc(a, sizeof *o);
    if (o == NULL)
        return ERR_LIMIT;
    err why = json_slice_members(a, json, o->members, EVENT_MEMBERS_MAX, &o->count);
    /* The arena's end is ours to tell, not a fault of the event. */
    bool full = arena_is_full(a) || arena_is_starved(a);
    if (why == ERR_LIMIT && full)
        return why;
    if (why == ERR_LIMIT)
        err_note_set(note, "an object has more than %d members", EVENT_MEMBERS_MAX);
    else if (why != ERR_OK)
        err_note_set(note, "an object has a member twice, or a name with half a character");
    if (why != ERR_OK)
        return ERR_BAD;
    *out = o;
    return ERR_OK;
}

/* A member that is an object. *out NULL: there is none. */
static err member_object(struct arena *a, const struct object *o, const char *name,
                         struct object **out, struct err_note *note)
{
    const struct json_member *m = o == NULL ? NULL : json_slice_find(o->members, o->count, name);
    *out = NULL;
    if (m == NULL)
        return ERR_OK;
    err why = object_read(a, m->value, out, note);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* A member that is a text; empty when there is none, or when it has half a character. */
static err member_text(struct arena *a, const struct object *o, const char *name, str *out)
{
    const struct json_member *m = o == NULL ? NULL : json_slice_find(o->members, o->count, name);
    *out = STR("");
    err why = m == NULL ? ERR_BAD : json_slice_string(a, m->value, out);
    return why == ERR_BAD ? ERR_OK : why;
}

/* 0: none. */
static uint64_t member_rev(const struct object *o, const char *name)
{
    uint64_t rev = 0;
    const struct json_member *m = o == NULL ? NULL : json_slice_find(o->members, o->count, name);
    return m != NULL && str_to_u64(m->value, &rev) && rev <= INT64_MAX ? rev : 0;
}

/* ---- titles ---- */

/* One call of wiki_event_parse, on its stack. After the first error the functions below do nothing.
 */
struct reading {
    struct arena *a;
    struct err_note *note;
    struct object *event, *meta;
    struct wiki_event *out;
    err why; /* the first that is wrong */
};

static struct object *part_of(struct reading *r, const struct object *o, const char *name)
{
    struct object *part = NULL;
    if (r->why == ERR_OK)
        r->why = member_object(r->a, o, name, &part, r->note);
    return part;
}

static str text_of(struct reading *r, const struct object *o, const char *name)
{
    str text = STR("");
    if (r->why == ERR_OK)
        r->why = member_text(r->a, o, name, &text);
    return text;
}

/* When it happened, by the wiki's clock; 0: not told. */
static int64_t event_s(struct reading *r)
{
    int64_t ns = 0;
    str dt = text_of(r, r->event, "dt");
    if (dt.n == 0)
        dt = text_of(r, r->meta, "dt");
    return date_parse_rfc3339(dt, &ns) && ns > 0 ? ns / NS_PER_S : 0;
}

static struct title_bound bound_of(struct reading *r, enum leaves leaves, uint64_t rev)
{
    switch (leaves) {
    case LEAVES_REVISION:
        return (struct title_bound){ .rev = rev };
    case LEAVES_NO_PAGE:
        return (struct title_bound){ .touched = event_s(r) };
    case LEAVES_TOUCHED: {
        int64_t s = event_s(r);
        return (struct title_bound){ .touched = s > EVENT_SLACK_S ? s - EVENT_SLACK_S : 0 };
    }
    case LEAVES_NOTHING:
        break;
    }
    return (struct title_bound){ .rev = 0 };
}

static void title_add(struct reading *r, str title, struct title_bound bound)
{
    if (title.n > 0)
        r->out->titles[r->out->titles_count++] =
            (struct wiki_event_title){ .title = title, .bound = bound };
}

/* Adds the old title of a page that was moved: a redirect stands there now, or nothing. page-move
 * names no redirect, although there may be one. */
static void title_before(struct reading *r, str title, str now, const struct object *redirect)
{
    enum leaves leaves = redirect == NULL ? LEAVES_TOUCHED : LEAVES_REVISION;
    if (!str_eq(title, now))
        title_add(r, title, bound_of(r, leaves, member_rev(redirect, "rev_id")));
}

/* The older generation: the stream says what kind of change it is. */
static void titles_read(struct reading *r)
{
    enum leaves leaves = LEAVES_NOTHING;
    str title = text_of(r, r->event, "page_title");
    const struct object *prior = part_of(r, r->event, "prior_state");
    const struct object *redirect = part_of(r, r->event, "new_redirect_page");
    for (size_t i = 0; i < COUNT_OF(streams); i++)
        if (str_eq(r->out->stream, str_of(streams[i].name)))
            leaves = streams[i].leaves;
    if (title.n == 0)
        return;
    title_add(r, title, bound_of(r, leaves, member_rev(r->event, "rev_id")));
    title_before(r, text_of(r, prior, "page_title"), title, redirect);
}

/* As mediawiki.page_change.v1 has it, and what is made of that. */
static void page_change_read(struct reading *r)
{
    enum leaves leaves = LEAVES_NOTHING;
    const struct object *page = part_of(r, r->event, "page");
    const struct object *revision = part_of(r, r->event, "revision");
    const struct object *prior = part_of(r, part_of(r, r->event, "prior_state"), "page");
    const struct object *redirect = part_of(r, r->event, "created_redirect_page");
    str title = text_of(r, page, "page_title"), kind = text_of(r, r->event, "page_change_kind");
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_eq(kind, str_of(kinds[i].name)))
            leaves = kinds[i].leaves;
    if (title.n == 0)
        return;
    title_add(r, title, bound_of(r, leaves, member_rev(revision, "rev_id")));
    title_before(r, text_of(r, prior, "page_title"), title, redirect);
}

/* A job must say when it is to run in a way that can be read: else it would run at once. */
static void delay_check(struct reading *r)
{
    const struct json_member *m =
        json_slice_find(r->event->members, r->event->count, "delay_until");
    int64_t ns;
    if (r->why != ERR_OK || m == NULL || str_eq(m->value, STR("null")))
        return;
    str text = m->value;
    if (text.p[0] == '"')
        text = text_of(r, r->event, "delay_until");
    if (r->why != ERR_OK || date_parse_told(text, &ns))
        return;
    err_note_set(r->note, "delay_until is no instant: ISO 8601 with a zone, or seconds since 1970, "
                          "is wanted");
    r->why = ERR_BAD;
}

err wiki_event_parse(struct arena *a, str json, struct wiki_event *out, struct err_note *note)
{
    struct wiki_event e = { .titles_count = 0 };
    struct reading r = { .a = a, .note = note, .out = &e };
    r.why = object_read(a, json, &r.event, note);
    if (r.why == ERR_NOT_FOUND) {
        err_note_set(note, "an event is an object");
        return ERR_BAD;
    }
    r.meta = part_of(&r, r.event, "meta");
    e.stream = text_of(&r, r.meta, "stream");
    e.domain = text_of(&r, r.meta, "domain");
    e.uri = text_of(&r, r.meta, "uri");
    e.id = text_of(&r, r.meta, "id");
    e.database = text_of(&r, r.event, "database");
    if (e.database.n == 0)
        e.database = text_of(&r, r.event, "wiki_id");
    if (r.why == ERR_OK && e.stream.n == 0) {
        err_note_set(note, "meta.stream is missing");
        return ERR_BAD;
    }
    if (str_starts(e.stream, STR(EVENT_JOBS)))
        delay_check(&r);
    titles_read(&r);
    /* The newer generation, if the older one found no title. */
    if (e.titles_count == 0)
        page_change_read(&r);
    if (r.why == ERR_OK)
        *out = e;
    return r.why;
}
