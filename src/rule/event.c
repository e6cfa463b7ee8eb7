/* event.c - the event that rules are asked about, and what conditions and placeholders find in it.
 */
#include "base/utf8.h"
#include "codec/json.h"
#include "rule/rule_impl.h"

#include <stdlib.h>

enum { EVENT_TEXTS_BYTES_MAX = 32 << 20 };

struct rule_event *rule_event_new(const struct rule_set *s)
{
    MAGIC_CHECK(s, RULE_SET_MAGIC);
    struct rule_event *e = calloc(1, sizeof *e);
    INVARIANT(e != NULL);
    e->magic = RULE_EVENT_MAGIC;
    e->set = s;
    arena_init(&e->arena, EVENT_TEXTS_BYTES_MAX);
    e->match = pcre2_match_data_create(RULE_GROUPS_MAX + 1, NULL);
    e->limits = pcre2_match_context_create(NULL);
    INVARIANT(e->match != NULL);
    INVARIANT(e->limits != NULL);
    (void)pcre2_set_match_limit(e->limits, RULE_MATCH_STEPS_MAX); /* these cannot fail */
    (void)pcre2_set_depth_limit(e->limits, RULE_MATCH_DEPTH_MAX);
    (void)pcre2_set_heap_limit(e->limits, RULE_MATCH_HEAP_KIB_MAX);
    return e;
}

void rule_event_free(struct rule_event **ep)
{
    struct rule_event *e = *ep;
    if (e == NULL)
        return;
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    pcre2_match_data_free(e->match);
    pcre2_match_context_free(e->limits);
    arena_fini(&e->arena);
    e->magic = 0;
    free(e);
    *ep = NULL;
}

uint64_t rule_event_open(const struct rule_event *e)
{
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    return e->open;
}

err rule_event_begin(struct rule_event *e, const struct rule_given *given)
{
    str value;
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    e->given.bytes = STR_NONE; /* there is no event, until there is one */
    if (!utf8_valid(given->bytes) || !json_slice_value(given->bytes, &value) || value.p[0] != '{')
        return ERR_BAD;
    arena_reset(&e->arena);
    for (unsigned i = 0; i < e->set->paths.count; i++)
        e->seen[i] = (struct rule_seen){ .found = RULE_FOUND_NONE };
    e->seen[0] = (struct rule_seen){ .found = RULE_FOUND_OTHER, .raw = value };
    e->given = *given;
    return ERR_OK;
}

/* ---- subjects ---- */

static const struct {
    const char *name;
    enum rule_subject_kind kind;
} words[] = {
    { "stream", RULE_SUBJECT_STREAM }, { "meta.stream", RULE_SUBJECT_STREAM },
    { "domain", RULE_SUBJECT_DOMAIN }, { "title", RULE_SUBJECT_TITLE },
    { "rev", RULE_SUBJECT_REV },       { "tid", RULE_SUBJECT_TID },
    { "kind", RULE_SUBJECT_KIND },
};

bool rule_subject_is_word(str name)
{
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_eq(name, str_of(words[i].name)))
            return true;
    return false;
}

const char *rule_subject_find(struct rule_paths *p, str name, struct rule_subject *out)
{
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (str_eq(name, str_of(words[i].name))) {
            *out = (struct rule_subject){ .kind = words[i].kind };
            return NULL;
        }
    }
    *out = (struct rule_subject){ .kind = RULE_SUBJECT_MEMBER };
    return rule_paths_add(p, name, &out->index);
}

/* The first of the two that is there, or the last. */
static const struct rule_seen *known_seen(struct rule_event *e, enum rule_known first,
                                          enum rule_known last)
{
    const struct rule_seen *s = rule_event_member(e, e->set->paths.known[first]);
    return s->found != RULE_FOUND_NONE ? s : rule_event_member(e, e->set->paths.known[last]);
}

const struct rule_seen *rule_subject_seen(struct rule_event *e, struct rule_subject s)
{
    switch (s.kind) {
    case RULE_SUBJECT_STREAM:
    case RULE_SUBJECT_DOMAIN:
    case RULE_SUBJECT_CAPTURE:
        break;
    case RULE_SUBJECT_TITLE:
        return known_seen(e, RULE_KNOWN_PAGE_TITLE, RULE_KNOWN_PAGE_PAGE_TITLE);
    case RULE_SUBJECT_REV:
        return known_seen(e, RULE_KNOWN_REV_ID, RULE_KNOWN_REVISION_REV_ID);
    case RULE_SUBJECT_TID:
        return known_seen(e, RULE_KNOWN_TID, RULE_KNOWN_TID);
    case RULE_SUBJECT_KIND:
        return known_seen(e, RULE_KNOWN_KIND, RULE_KNOWN_PAGE_CHANGE_KIND);
    case RULE_SUBJECT_MEMBER:
        return rule_event_member(e, s.index);
    }
    return NULL;
}

enum rule_found rule_subject_text(struct rule_event *e, const struct rule_verdict *v,
                                  struct rule_subject s, str *text)
{
    const struct rule_seen *seen = rule_subject_seen(e, s);
    if (seen != NULL) {
        if (seen->found == RULE_FOUND_TEXT)
            *text = seen->text;
        return seen->found;
    }
    INVARIANT(s.kind != RULE_SUBJECT_CAPTURE || v != NULL);
    str given = s.kind == RULE_SUBJECT_STREAM   ? e->given.stream
                : s.kind == RULE_SUBJECT_DOMAIN ? e->given.domain
                                                : v->captures[s.index];
    bool there = s.kind == RULE_SUBJECT_CAPTURE ? given.p != NULL : given.n > 0;
    if (there)
        *text = given;
    return there ? RULE_FOUND_TEXT : RULE_FOUND_NONE;
}

str rule_event_text(struct rule_event *e, enum rule_text which)
{
    static const enum rule_known known[RULE_TEXTS] = {
        [RULE_TEXT_ROOT_DT] = RULE_KNOWN_ROOT_DT,
        [RULE_TEXT_ROOT_SIGNATURE] = RULE_KNOWN_ROOT_SIGNATURE,
        [RULE_TEXT_SHA1] = RULE_KNOWN_SHA1,
        [RULE_TEXT_DELAY_UNTIL] = RULE_KNOWN_DELAY_UNTIL,
        [RULE_TEXT_DATABASE] = RULE_KNOWN_DATABASE,
        [RULE_TEXT_URI] = RULE_KNOWN_URI,
        [RULE_TEXT_REV] = RULE_KNOWN_REV_ID,
        [RULE_TEXT_LAST_REV] = RULE_KNOWN_LAST_REV_ID,
        [RULE_TEXT_SUPERSEDED_REV] = RULE_KNOWN_SUPERSEDED_REV,
        [RULE_TEXT_SUPERSEDED_TID] = RULE_KNOWN_SUPERSEDED_TID,
    };
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    const struct rule_seen *s = rule_event_member(e, e->set->paths.known[known[which]]);
    return s->found == RULE_FOUND_TEXT ? s->text : STR("");
}

str rule_event_title(struct rule_event *e)
{
    str title = STR("");
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    enum rule_found how =
        rule_subject_text(e, NULL, (struct rule_subject){ .kind = RULE_SUBJECT_TITLE }, &title);
    return how == RULE_FOUND_TEXT ? title : STR("");
}
