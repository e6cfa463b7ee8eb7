/* key_json.c - keys with a user of their own, as operators read and write them. */
#include "auth/auth.h"
#include "base/date.h"
#include "base/units.h"
#include "codec/json_list.h"
#include "codec/json_text.h"

str auth_key_json(struct arena *arena, const struct auth_key *k)
{
    char created[DATE_RFC3339_BYTES + 1], at[DATE_RFC3339_BYTES + 1];
    str user = json_text_quote(arena, str_of(k->user)),
        space = json_text_quote(arena, str_of(k->space)),
        roles = json_text_quote(arena, str_of(k->roles)), expires = STR("null");
    date_format_ms(k->created_at.ns, created);
    if (k->expires_at.ns != STORE_TIME_NEVER.ns) {
        date_format_ms(k->expires_at.ns, at);
        expires = json_text_quote(arena, str_of(at));
    }
    if (user.p == NULL || space.p == NULL || roles.p == NULL || expires.p == NULL)
        return STR_NONE;
    return arena_printf(
        arena,
        "\"id\":\"%s\",\"prefix\":\"%s\",\"name\":%.*s,\"namespace\":%.*s,\"roles\":%.*s,"
        "\"created_at\":\"%s\",\"expires_at\":%.*s",
        k->id, k->prefix, STR_ARG(user), STR_ARG(space), STR_ARG(roles), created, STR_ARG(expires));
}

struct keys {
    struct arena *arena;
    struct json_list text;
    size_t bytes_max;
    str next; /* the place of the first key that is left out */
    bool full;
};

static bool keys_each(void *ctx, const struct auth_key *k)
{
    struct keys *l = ctx;
    str members = auth_key_json(l->arena, k);
    if (members.p != NULL && l->text.count > 0 && l->text.items.n + members.n > l->bytes_max) {
        l->next = arena_copy(l->arena, (str){ .p = (const char *)k->place, .n = AUTH_PLACE_BYTES });
        l->full = l->next.p == NULL;
        return false;
    }
    l->full = members.p == NULL;
    if (l->full)
        return false;
    buf_printf(json_list_item(&l->text), "{%.*s}", STR_ARG(members));
    return !l->text.items.failed;
}

err auth_keys_json(struct auth *a, str from, size_t bytes_max, struct arena *arena, str *out)
{
    struct keys l = { .arena = arena, .bytes_max = bytes_max };
    json_list_init(&l.text, SIZE_MAX);
    err why = auth_key_list(a, from, keys_each, &l);
    str text = json_list_end(&l.text, arena, l.next, JSON_LIST_LINE);
    if (why == ERR_OK && (l.full || text.p == NULL))
        why = ERR_LIMIT;
    if (why == ERR_OK)
        *out = text;
    return why;
}

static err roles_read(const json_t *json, struct auth_key_new *out, struct err_note *note)
{
    const json_t *roles;
    err why = json_body_array(json, "roles", &roles, note);
    if (why == ERR_NOT_FOUND)
        return err_bad(note, "roles: a list of names is wanted");
    if (why != ERR_OK)
        return ERR_BAD;
    size_t count = json_array_size(roles);
    for (size_t i = 0; i < count && i < AUTH_ROLES_OF_KEY_MAX; i++)
        out->roles[i] = json_body_text(json_array_get(roles, i));
    out->roles_count = count > AUTH_ROLES_OF_KEY_MAX ? AUTH_ROLES_OF_KEY_MAX + 1 : (unsigned)count;
    return ERR_OK;
}

err auth_key_new_read(const json_t *json, store_time now, struct auth_key_new *out,
                      struct err_note *note)
{
    static const char *const known[] = { "name", "roles", "domain", "tag", "expires", NULL };
    struct auth_key_new n = { .expires_at = STORE_TIME_NEVER };
    str expires = STR_NONE;
    struct {
        const char *name;
        str *to;
    } texts[] = {
        { "name", &n.name }, { "domain", &n.space }, { "tag", &n.tag }, { "expires", &expires }
    };
    int64_t ns = 0;
    err why = json_body_only(json, known, note);
    if (why == ERR_OK)
        why = roles_read(json, &n, note);
    for (size_t i = 0; why == ERR_OK && i < COUNT_OF(texts); i++) {
        why = json_body_str(json, texts[i].name, texts[i].to, note);
        why = why == ERR_NOT_FOUND ? ERR_OK : why;
    }
    if (why == ERR_OK && expires.p != NULL && (!units_parse_duration(expires, &ns) || ns <= 0))
        why = err_bad(note, "expires: a duration over 0, such as 30d, is wanted");
    if (why != ERR_OK)
        return why;
    if (expires.p != NULL)
        n.expires_at = store_time_add(now, ns);
    *out = n;
    return ERR_OK;
}
