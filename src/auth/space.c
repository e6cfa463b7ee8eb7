/* space.c - namespaces. */
#include "auth/list.h"
#include "auth/txn.h"

#include "auth/authority.h"
#include "base/utf8.h"

#include <string.h>

/* ---- words ---- */

static bool has_control(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return true;
    return false;
}

err text_name_check(str name, size_t bytes_max, const char *what, struct err_note *note)
{
    if (name.n > bytes_max)
        err_note_set(note, "%s is invalid; cannot be greater than '%zu' characters", what,
                     bytes_max);
    else if (utf8_is_blank(name))
        err_note_set(note, "%s is invalid; cannot be empty", what);
    else if (has_control(name))
        err_note_set(note, "%s is invalid; cannot contain control characters", what);
    else
        return ERR_OK;
    return ERR_BAD;
}

static err char_check(str name, char c, struct err_note *note)
{
    if (str_find(name, c) == name.n)
        return ERR_OK;
    err_note_set(note, "namespace name is invalid; '%.*s' cannot contain '%c' character",
                 STR_ARG(shown(name)), c);
    return ERR_BAD;
}

err auth_space_name_check(str name, struct err_note *note)
{
    if (name.n <= AUTH_NAME_BYTES_MAX && !utf8_is_blank(name) && utf8_has_space(name)) {
        err_note_set(note, "namespace name is invalid; '%.*s' cannot contain whitespace",
                     STR_ARG(shown(name)));
        return ERR_BAD;
    }
    err why = text_name_check(name, AUTH_NAME_BYTES_MAX, "namespace name", note);
    if (why == ERR_OK)
        why = char_check(name, '~', note);
    return why != ERR_OK ? why : char_check(name, ':', note);
}

err auth_space_check(const struct auth_space *s, struct err_note *note)
{
    err why = auth_space_name_check(s->name, note);
    if (why == ERR_OK)
        why = tag_check(s->tag, "api_key_tag", note);
    if (why == ERR_OK && s->description.n > AUTH_TEXT_BYTES_MAX) {
        err_note_set(note, "description is invalid; cannot be greater than '%d' characters",
                     AUTH_TEXT_BYTES_MAX);
        return ERR_BAD;
    }
    return why;
}

static err check_not_reserved(str name, struct err_note *note)
{
    if (!str_starts(name, STR("_")))
        return ERR_OK;
    err_note_set(note, "namespace name is reserved; '%.*s' names starting with '_' are reserved",
                 STR_ARG(shown(name)));
    return ERR_BAD;
}

/* ---- rows ---- */

err space_tag(struct row_txn *t, str space, char tag[AUTH_TAG_BYTES_MAX + 1])
{
    struct rowkey k;
    struct row row;
    struct row_space found;
    row_key1(&k, 'n', space);
    err why = txn_find(t, &k, &row);
    if (why == ERR_OK)
        why = row_get_space(row.value, &found);
    if (why == ERR_OK && !str_to_cstr(found.tag, tag, AUTH_TAG_BYTES_MAX + 1))
        return ERR_CORRUPT;
    return why;
}

static err put_space(struct row_txn *t, const struct auth_space *s)
{
    struct rowkey k;
    struct buf b;
    row_key1(&k, 'n', s->name);
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_space(&b, &(struct row_space){ .tag = s->tag, .created_at = s->created_at });
    err why = rowkey_status(&k);
    if (why == ERR_OK)
        why = buf_status(&b);
    if (why == ERR_OK)
        why = row_txn_put(t, rowkey_str(&k), buf_str(&b),
                          s->description.n > 0 ? s->description : STR_NONE);
    buf_fini(&b);
    return why;
}

/* A domain is a namespace to whoever asks for its content, and the domain '*' is all of them. */
static err count_new(struct row_txn *t, str space, struct err_note *note)
{
    if (!str_eq(space, STR("*")))
        return txn_count(t, 'n', 1, AUTH_SPACES_MAX, "namespaces", note);
    err_note_set(note, "namespace name is reserved; '*' stands for all domains");
    return ERR_BAD;
}

err space_put_new(struct row_txn *t, str space, struct err_note *note)
{
    err why = count_new(t, space, note);
    return why != ERR_OK
               ? why
               : put_space(t, &(struct auth_space){ .name = space, .created_at = row_txn_now(t) });
}

/* ---- changes ---- */

struct space_change {
    struct change change;
    const struct auth_space *s;
    str name;
    bool in_use;
};

static err decide_create(struct row_txn *t, void *ctx)
{
    const struct space_change *c = ctx;
    char tag[AUTH_TAG_BYTES_MAX + 1];
    err why = space_tag(t, c->s->name, tag);
    if (why == ERR_OK) {
        str name = shown(c->s->name);
        err_note_set(c->change.note, "namespace already exists; '%.*s' already exists",
                     STR_ARG(name));
        return ERR_CONFLICT;
    }
    if (why == ERR_NOT_FOUND)
        why = count_new(t, c->s->name, c->change.note);
    struct auth_space now = *c->s;
    now.created_at = row_txn_now(t);
    return why != ERR_OK ? why : put_space(t, &now);
}

static err find_space(struct row_txn *t, str name, struct row_space *out, struct err_note *note)
{
    struct rowkey k;
    struct row row;
    row_key1(&k, 'n', name);
    err why = txn_find(t, &k, &row);
    if (why == ERR_NOT_FOUND)
        return not_found(note, "namespace", name);
    return why != ERR_OK ? why : row_get_space(row.value, out);
}

static err decide_update(struct row_txn *t, void *ctx)
{
    const struct space_change *c = ctx;
    struct row_space was;
    err why = find_space(t, c->s->name, &was, c->change.note);
    if (why != ERR_OK)
        return why;
    struct auth_space now = *c->s;
    now.created_at = was.created_at;
    return put_space(t, &now);
}

static err check_unused(struct row_txn *t, char kind, str name, const char *what,
                        struct err_note *note)
{
    struct rowkey k;
    bool any;
    row_key1(&k, kind, name);
    err why = rows_any(row_txn_view(t), &k, &any);
    if (why != ERR_OK || !any)
        return why;
    err_note_set(note, "namespace has %s; '%.*s' has %s, delete %s first", what,
                 STR_ARG(shown(name)), what, what);
    return ERR_CONFLICT;
}

static err decide_delete(struct row_txn *t, void *ctx)
{
    const struct space_change *c = ctx;
    err why = check_unused(t, 'B', c->name, "role bindings", c->change.note);
    if (why == ERR_OK)
        why = check_unused(t, 'R', c->name, "roles", c->change.note);
    if (why == ERR_OK && c->in_use) {
        err_note_set(c->change.note, "namespace has queues; '%.*s' has queues, delete queues first",
                     STR_ARG(shown(c->name)));
        return ERR_CONFLICT;
    }
    struct row_space was;
    if (why == ERR_OK)
        why = find_space(t, c->name, &was, c->change.note);
    if (why == ERR_OK)
        why = txn_count(t, 'n', -1, AUTH_SPACES_MAX, "namespaces", c->change.note);
    struct rowkey k;
    row_key1(&k, 'n', c->name);
    return why != ERR_OK ? why : txn_delete(t, &k);
}

static err change_space(struct auth *a, const struct auth_space *s,
                        err (*decide)(struct row_txn *t, void *ctx), struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct space_change c = { .change = { .auth = a, .note = note }, .s = s };
    err why = auth_space_check(s, note);
    if (why == ERR_OK)
        why = check_not_reserved(s->name, note);
    return why != ERR_OK ? why : change_run(&c.change, decide, &c);
}

err auth_space_create(struct auth *a, const struct auth_space *s, struct err_note *note)
{
    return change_space(a, s, decide_create, note);
}

err auth_space_update(struct auth *a, const struct auth_space *s, struct err_note *note)
{
    return change_space(a, s, decide_update, note);
}

err auth_space_delete(struct auth *a, str name, bool in_use, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct space_change c = { .change = { .auth = a, .note = note, .removes = true },
                              .name = name,
                              .in_use = in_use };
    err why = auth_space_name_check(name, note);
    if (why == ERR_OK)
        why = check_not_reserved(name, note);
    return why != ERR_OK ? why : change_run(&c.change, decide_delete, &c);
}

/* ---- reading ---- */

err auth_space_find(struct auth *a, str name, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct rowkey k;
    struct row row;
    struct row_space found;
    struct row_view *v = row_view_begin(a->rows);
    row_key1(&k, 'n', space_meant(name));
    err why = rows_find(v, &k, &row);
    if (why == ERR_OK)
        why = row_get_space(row.value, &found);
    row_view_end(&v);
    return why == ERR_NOT_FOUND ? not_found(note, "namespace", name) : why;
}

static err read_description(struct row_view *v, const struct row *row, struct arena *a, str *out)
{
    *out = STR("");
    if (row->more_n == 0)
        return ERR_OK;
    if (row->more_n > AUTH_TEXT_BYTES_MAX)
        return ERR_CORRUPT;
    char *p = arena_alloc(a, row->more_n);
    if (p == NULL)
        return ERR_LIMIT;
    err why = row_more(v, row, p);
    if (why == ERR_OK)
        *out = (str){ .p = p, .n = row->more_n };
    return why;
}

static err list_space(struct listing *l, const struct row *row)
{
    str name;
    struct row_space r;
    err why = row_key_texts(row->key, 'n', l->arena, &name, 1);
    if (why == ERR_OK)
        why = row_get_space(row->value, &r);
    struct auth_space *s = why == ERR_OK ? listing_add(l) : NULL;
    if (s == NULL)
        return why != ERR_OK ? why : ERR_LIMIT;
    *s = (struct auth_space){ .name = listing_text(l, name),
                              .tag = listing_text(l, r.tag),
                              .created_at = r.created_at };
    why = read_description(l->view, row, l->arena, &s->description);
    l->bytes += s->description.n;
    return why;
}

err auth_space_list(struct auth *a, const struct auth_page *page, struct arena *arena,
                    struct auth_space **out, unsigned *count)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct listing l = {
        .auth = a, .arena = arena, .page = page, .size = sizeof **out, .each = list_space
    };
    row_key_of_all(&l.prefix, 'n');
    err why = listing_run(&l);
    if (why == ERR_OK) {
        *out = l.items;
        *count = l.count;
    }
    return why;
}
