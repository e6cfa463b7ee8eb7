/* path.c - members of events by path, and what an event has there.
 *
 * The paths of a rule set are one tree: "meta.dt" and "meta.stream" share "meta". An object of an
 * event is gone through when a path below it is first asked for, and then all paths of the tree
 * right below it are known.
 *   1. What stands right below an object is known once that object was gone through.
 *   2. Nothing is there below what is no object. */
#include "codec/json.h"
#include "rule/rule_impl.h"

/* ---- the tree ---- */

static const char *const known_paths[RULE_KNOWNS] = {
    [RULE_KNOWN_PAGE_TITLE] = "page_title",
    [RULE_KNOWN_PAGE_PAGE_TITLE] = "page.page_title",
    [RULE_KNOWN_REV_ID] = "rev_id",
    [RULE_KNOWN_REVISION_REV_ID] = "revision.rev_id",
    [RULE_KNOWN_KIND] = "kind",
    [RULE_KNOWN_PAGE_CHANGE_KIND] = "page_change_kind",
    [RULE_KNOWN_TID] = "tid",
    [RULE_KNOWN_META_DT] = "meta.dt",
    [RULE_KNOWN_ROOT_DT] = "root_event.dt",
    [RULE_KNOWN_ROOT_SIGNATURE] = "root_event.signature",
    [RULE_KNOWN_SHA1] = "sha1",
    [RULE_KNOWN_DELAY_UNTIL] = "delay_until",
    [RULE_KNOWN_DATABASE] = "database",
    [RULE_KNOWN_URI] = "uri",
    [RULE_KNOWN_LAST_REV_ID] = "last_rev_id",
    [RULE_KNOWN_SUPERSEDED_REV] = "superseded.rev_id",
    [RULE_KNOWN_SUPERSEDED_TID] = "superseded.tid",
};

void rule_paths_init(struct rule_paths *p)
{
    p->at[0] = (struct rule_path){ .name = STR("") };
    p->count = 1;
    for (unsigned i = 0; i < RULE_KNOWNS; i++)
        INVARIANT(rule_paths_add(p, str_of(known_paths[i]), &p->known[i]) == NULL);
}

static bool is_name(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= 'A' && s.p[i] <= 'Z') &&
            !(s.p[i] >= '0' && s.p[i] <= '9') && s.p[i] != '_' && s.p[i] != '-' && s.p[i] != '$')
            return false;
    return s.n > 0;
}

static unsigned child_of(const struct rule_paths *p, unsigned parent, str name)
{
    unsigned i = p->at[parent].first_child;
    while (i != 0 && !str_eq(p->at[i].name, name))
        i = p->at[i].next;
    return i;
}

const char *rule_paths_add(struct rule_paths *p, str text, unsigned *out)
{
    unsigned at = 0, parts = 0;
    str rest = text;
    do {
        str name = str_split(&rest, '.');
        if (!is_name(name))
            return "is no name of a member: letters, digits, _, - and $, parted by dots";
        if (++parts > RULE_PATH_PARTS_MAX)
            return "has too many dots";
        unsigned child = child_of(p, at, name);
        if (child == 0) {
            if (p->count == RULE_PATHS_MAX)
                return "is one member more than rules may name";
            child = p->count++;
            p->at[child] =
                (struct rule_path){ .name = name, .parent = at, .next = p->at[at].first_child };
            p->at[at].first_child = child;
        }
        at = child;
    } while (rest.p != NULL);
    *out = at;
    return NULL;
}

/* ---- what an event has ---- */

static void member_read(struct rule_event *e, struct rule_seen *s, str value)
{
    s->raw = value;
    s->text = value;
    s->found = RULE_FOUND_TEXT;
    if (value.p[0] == '{' || value.p[0] == '[')
        s->found = RULE_FOUND_OTHER;
    else if (str_eq(value, STR("null")))
        s->found = RULE_FOUND_NONE;
    else if (value.p[0] == '"' && json_slice_string(&e->arena, value, &s->text) != ERR_OK)
        s->found = RULE_FOUND_OTHER; /* half a character, or more text than an event may have */
}

static void object_go_through(struct rule_event *e, unsigned path)
{
    struct rule_seen *object = &e->seen[path];
    const struct rule_paths *paths = &e->set->paths;
    str rest = object->raw, quoted, value, name;
    if (object->is_gone_through)
        return;
    object->is_gone_through = true;
    if (object->found == RULE_FOUND_TWICE) /* so are its members */
        for (unsigned i = paths->at[path].first_child; i != 0; i = paths->at[i].next)
            e->seen[i].found = RULE_FOUND_TWICE;
    if (object->found != RULE_FOUND_OTHER || object->raw.p[0] != '{')
        return;
    while (json_slice_pair(&rest, &quoted, &value)) {
        struct arena_mark before = arena_mark(&e->arena);
        bool is_text = json_slice_string(&e->arena, quoted, &name) == ERR_OK;
        unsigned child = is_text ? child_of(paths, path, name) : 0;
        arena_release(&e->arena, before); /* so that names with escapes take no memory */
        if (child != 0 && e->seen[child].raw.p == NULL)
            member_read(e, &e->seen[child], value);
        else if (child != 0)
            e->seen[child].found = RULE_FOUND_TWICE;
    }
}

const struct rule_seen *rule_event_member(struct rule_event *e, unsigned path)
{
    unsigned up[RULE_PATH_PARTS_MAX], count = 0;
    for (unsigned i = path; i != 0; i = e->set->paths.at[i].parent)
        up[count++] = e->set->paths.at[i].parent;
    while (count > 0)
        object_go_through(e, up[--count]);
    return &e->seen[path];
}
