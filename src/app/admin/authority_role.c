#include "app/admin/authority.h"
#include "auth/authority.h"

enum { NAMES_MAX = 1024 }; /* of permissions in one request; some may be there twice */

struct role_words {
    struct auth_role role;
    str permissions[NAMES_MAX];
};

static err read_words(ProtobufCBinaryData space, ProtobufCBinaryData name, size_t n,
                      const ProtobufCBinaryData *names, struct role_words *out,
                      struct err_note *note)
{
    if (n > NAMES_MAX) {
        err_note_set(note, "permissions is invalid; cannot be more than %d", NAMES_MAX);
        return ERR_BAD;
    }
    out->role = (struct auth_role){ .space = wire_str(space),
                                    .name = wire_str(name),
                                    .permissions = out->permissions,
                                    .permissions_count = (unsigned)n };
    for (size_t i = 0; i < n; i++)
        out->permissions[i] = wire_str(names[i]);
    return ERR_OK;
}

static err words_of_create(const Wire__RoleCreateRequest *m, struct role_words *out,
                           struct err_note *note)
{
    return read_words(m->namespace_, m->name, m->n_permissions, m->permissions, out, note);
}

static err words_of_update(const Wire__RoleUpdateRequest *m, struct role_words *out,
                           struct err_note *note)
{
    return read_words(m->namespace_, m->name, m->n_permissions, m->permissions, out, note);
}

err role_check(const void *m, struct err_note *note)
{
    struct role_words w;
    err why = words_of_create(m, &w, note);
    return why != ERR_OK ? why : auth_role_check(&w.role, note);
}

err role_update_check(const void *m, struct err_note *note)
{
    struct role_words w;
    err why = words_of_update(m, &w, note);
    return why != ERR_OK ? why : auth_role_check(&w.role, note);
}

static err may_hold(struct authority_call *c, const struct auth_role *r)
{
    return auth_may_give_permissions(c->auth, authority_giver(c), r->space, r->permissions,
                                     r->permissions_count, &c->note);
}

err role_create_run(struct authority_call *c)
{
    struct role_words w;
    char id[AUTH_ID_BYTES + 1];
    Wire__RoleCreateResponse *reply = authority_reply(c, &wire__role_create_response__descriptor);
    err why = reply == NULL ? ERR_LIMIT : words_of_create(c->m, &w, &c->note);
    if (why == ERR_OK)
        why = may_hold(c, &w.role);
    if (why == ERR_OK)
        why = auth_role_create(c->auth, &w.role, id, &c->note);
    if (why == ERR_OK)
        reply->id = authority_id(c, id);
    return why;
}

err role_update_run(struct authority_call *c)
{
    struct role_words w;
    err why = words_of_update(c->m, &w, &c->note);
    if (why == ERR_OK)
        why = may_hold(c, &w.role);
    return why != ERR_OK ? why : auth_role_update(c->auth, &w.role, &c->note);
}

err role_delete_run(struct authority_call *c)
{
    const Wire__RolesDeleteRequest *r = c->m;
    return auth_role_delete(c->auth, wire_str(r->namespace_), wire_str(r->name), &c->note);
}

static err fill_role(struct authority_call *c, const struct auth_role *r, Wire__Role *out)
{
    out->permissions = arena_calloc(c->arena, r->permissions_count, sizeof *out->permissions);
    if (out->permissions == NULL)
        return ERR_LIMIT;
    out->n_permissions = r->permissions_count;
    for (unsigned i = 0; i < r->permissions_count; i++)
        out->permissions[i] = wire_bytes(r->permissions[i]);
    out->id = wire_bytes(r->id);
    out->namespace_ = wire_bytes(r->space);
    out->name = wire_bytes(r->name);
    out->created_at = wire_time(c->arena, r->created_at);
    return ERR_OK;
}

err role_list_run(struct authority_call *c)
{
    const Wire__RolesListRequest *r = c->m;
    struct auth_page page = authority_page(r->pivot, r->limit);
    struct auth_role *roles;
    unsigned count;
    err why = auth_role_list(c->auth, wire_str(r->namespace_), &page, c->arena, &roles, &count);
    if (why != ERR_OK)
        return why;
    Wire__Role *out = authority_list(c, &wire__roles_list_response__descriptor, count);
    why = out == NULL ? ERR_LIMIT : ERR_OK;
    for (unsigned i = 0; why == ERR_OK && i < count; i++)
        why = fill_role(c, &roles[i], &out[i]);
    return why;
}

/* ---- bindings ---- */

static struct auth_binding_new new_of(const Wire__RoleBindingCreateRequest *m)
{
    return (struct auth_binding_new){ .space = wire_str(m->namespace_),
                                      .role_name = wire_str(m->role_name),
                                      .user_id = wire_str(m->user_id) };
}

err binding_check(const void *m, struct err_note *note)
{
    struct auth_binding_new n = new_of(m);
    return auth_binding_check(&n, note);
}

err binding_delete_check(const void *m, struct err_note *note)
{
    return auth_binding_user_check(wire_str(((const Wire__RoleBindingDeleteRequest *)m)->user_id),
                                   note);
}

err binding_create_run(struct authority_call *c)
{
    struct auth_binding_new n = new_of(c->m);
    char id[AUTH_ID_BYTES + 1];
    Wire__RoleBindingCreateResponse *reply =
        authority_reply(c, &wire__role_binding_create_response__descriptor);
    str giver = authority_giver(c);
    n.giver = &giver;
    err why = reply == NULL ? ERR_LIMIT : auth_binding_create(c->auth, &n, id, &c->note);
    if (why == ERR_OK)
        reply->id = authority_id(c, id);
    return why;
}

err binding_delete_run(struct authority_call *c)
{
    const Wire__RoleBindingDeleteRequest *r = c->m;
    struct auth_binding_new n = { .space = wire_str(r->namespace_),
                                  .role_name = wire_str(r->role_name),
                                  .user_id = wire_str(r->user_id) };
    return auth_binding_delete(c->auth, &n, &c->note);
}

err binding_list_run(struct authority_call *c)
{
    const Wire__RoleBindingsListRequest *r = c->m;
    struct auth_page page = authority_page(r->pivot, r->limit);
    struct auth_binding_list list = { .space = wire_str(r->namespace_),
                                      .user_id = wire_str(r->user_id_filter),
                                      .page = &page };
    err why = auth_binding_list(c->auth, &list, c->arena);
    if (why != ERR_OK)
        return why;
    Wire__RoleBinding *out =
        authority_list(c, &wire__role_bindings_list_response__descriptor, list.count);
    if (out == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < list.count; i++) {
        out[i].id = wire_bytes(list.bindings[i].id);
        out[i].namespace_ = wire_bytes(list.bindings[i].space);
        out[i].user_id = wire_bytes(list.bindings[i].user_id);
        out[i].role_id = wire_bytes(list.bindings[i].role_id);
        out[i].created_at = wire_time(c->arena, list.bindings[i].created_at);
    }
    return ERR_OK;
}
