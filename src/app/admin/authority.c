/* authority.c - Querator's calls on namespaces, users, keys, roles and bindings.
 *
 * Model. A call is a row of a list. Its handler checks its words, then whether who
 * asks may do that in the namespace its message names; the change waits for the disk, so it runs on
 * the pool. Order and sentences are the peer's: its words first, then 403, the same whether the
 * namespace is there or not, then what is stored. */
#include "auth/authority.h"

#include "app/pooled.h"
#include "app/rpc.h"
#include "codec/wire_map.h"
#include "queue/queue.h"

#include <openssl/crypto.h>

enum {
    AUTHORITY_BODY_BYTES_MAX = 256000,
    CODE_BAD = 400,
    CODE_UNAUTHORIZED = 401,
    CODE_FAILED = 453,
    PERMISSIONS_MAX = 1024 /* in one request; some may be there twice */
};

/* One call on its way. Lives in the arena of its exchange. */
struct authority_call {
    struct pooled pooled;
    const struct authority_kind *kind;
    struct arena *arena;
    struct auth *auth;
    str giver; /* the Authorization field of who asks */
    union {
        struct auth_space space;
        struct auth_user user;
        struct auth_apikey key;
        struct auth_role role;
        struct auth_binding_new binding;
    }; /* the words of the request */
    struct auth_page page;
    /* set by run: of a list its items, else what was made */
    union {
        void *items;
        struct auth_space *spaces;
        struct auth_user *users;
        struct auth_apikey *keys;
        struct auth_role *roles;
        struct auth_binding *bindings;
    };
    unsigned count;
    struct auth_secret made;
    str answer; /* encoded; p NULL: nothing to say but that it was done */
    err why;
    struct err_note note;
};

struct authority_kind {
    const char *permission;
    const ProtobufCMessageDescriptor *type;
    const struct wire_row *words; /* of its struct in the union above */
    err (*check)(const struct authority_call *c, struct err_note *note); /* of the words; or NULL */
    err (*run)(struct authority_call *c);                                /* pool thread */
    const ProtobufCMessageDescriptor *reply;                             /* NULL: there is none */
    const struct wire_row *item; /* of a list, whose reply has items; else NULL */
};

/* ---- which field of a message is which member ---- */

#define TEXT(field, type, member)                                                                  \
    {                                                                                              \
        field, offsetof(struct type, member), WIRE_TEXT, 0                                         \
    }
#define SHOWN(field, type, member)                                                                 \
    {                                                                                              \
        field, offsetof(struct type, member), WIRE_TIME_OUT, 0                                     \
    }
#define END(type)                                                                                  \
    {                                                                                              \
        NULL, sizeof(struct type), WIRE_TEXT, 0                                                    \
    }
static const struct wire_row
    spaces[] = { TEXT("name", auth_space, name), TEXT("description", auth_space, description),
                 TEXT("api_key_tag", auth_space, tag), SHOWN("created_at", auth_space, created_at),
                 END(auth_space) },
    users[] = { TEXT("id", auth_user, id),
                TEXT("username", auth_user, name),
                TEXT("external_id", auth_user, external_id),
                TEXT("email", auth_user, email),
                SHOWN("created_at", auth_user, created_at),
                SHOWN("updated_at", auth_user, updated_at),
                END(auth_user) },
    apikeys[] = { TEXT("id", auth_apikey, id),
                  TEXT("user_id", auth_apikey, user_id),
                  TEXT("namespace_scope", auth_apikey, scope),
                  TEXT("name", auth_apikey, name),
                  TEXT("prefix", auth_apikey, prefix),
                  TEXT("key_tag", auth_apikey, tag),
                  SHOWN("created_at", auth_apikey, created_at),
                  { "expires_at", offsetof(struct auth_apikey, expires_at), WIRE_INSTANT, 0 },
                  END(auth_apikey) },
    roles[] = { TEXT("id", auth_role, id),
                TEXT("namespace", auth_role, space),
                TEXT("name", auth_role, name),
                { "permissions", offsetof(struct auth_role, permissions), WIRE_TEXTS,
                  offsetof(struct auth_role, permissions_count) },
                SHOWN("created_at", auth_role, created_at),
                END(auth_role) },
    new_bindings[] = { TEXT("namespace", auth_binding_new, space),
                       TEXT("role_name", auth_binding_new, role_name),
                       TEXT("user_id", auth_binding_new, user_id),
                       TEXT("user_id_filter", auth_binding_new, user_id), END(auth_binding_new) },
    bindings[] = { TEXT("id", auth_binding, id),
                   TEXT("namespace", auth_binding, space),
                   TEXT("user_id", auth_binding, user_id),
                   TEXT("role_id", auth_binding, role_id),
                   SHOWN("created_at", auth_binding, created_at),
                   END(auth_binding) };
#undef TEXT
#undef SHOWN
#undef END

/* ---- namespaces ---- */

static err space_check(const struct authority_call *c, struct err_note *note)
{
    return auth_space_check(&c->space, note);
}

static err space_name_check(const struct authority_call *c, struct err_note *note)
{
    return auth_space_name_check(c->space.name, note);
}

static err space_create(struct authority_call *c)
{
    return auth_space_create(c->auth, &c->space, &c->note);
}

static err space_update(struct authority_call *c)
{
    return auth_space_update(c->auth, &c->space, &c->note);
}

static err space_list(struct authority_call *c)
{
    return auth_space_list(c->auth, &c->page, c->arena, &c->spaces, &c->count);
}

/* Of a queue made at this very moment nothing is known yet: it stays without a namespace, and can
 * be deleted. */
static err space_delete(struct authority_call *c)
{
    struct queues_page page = { .space = c->space.name, .limit = 1 };
    err why = queues_list(c->pooled.app->queues, &page, c->arena);
    return why != ERR_OK ? why
                         : auth_space_delete(c->auth, c->space.name, page.count > 0, &c->note);
}

/* ---- users and their keys ---- */

static err user_check(const struct authority_call *c, struct err_note *note)
{
    return auth_user_check(&c->user, note);
}

static err user_create(struct authority_call *c)
{
    return auth_user_create(c->auth, &c->user, c->made.id, &c->note);
}

static err user_list(struct authority_call *c)
{
    return auth_user_list(c->auth, &c->page, c->arena, &c->users, &c->count);
}

static err user_delete(struct authority_call *c)
{
    return auth_user_delete(c->auth, c->user.id, &c->note);
}

static err apikey_check(const struct authority_call *c, struct err_note *note)
{
    return auth_apikey_check(&c->key, note);
}

static err apikey_create(struct authority_call *c)
{
    err why = auth_may_give_key(c->auth, c->giver, c->key.user_id, c->key.scope, &c->note);
    return why != ERR_OK ? why : auth_apikey_create(c->auth, &c->key, &c->made, &c->note);
}

static err apikey_list(struct authority_call *c)
{
    return auth_apikey_list(c->auth, c->key.user_id, &c->page, c->arena, &c->keys, &c->count);
}

static err apikey_delete(struct authority_call *c)
{
    return auth_apikey_delete(c->auth, c->key.id, &c->note);
}

/* ---- roles and bindings ---- */

static err role_check(const struct authority_call *c, struct err_note *note)
{
    return c->role.permissions_count > PERMISSIONS_MAX
               ? err_bad(note, "permissions is invalid; cannot be more than %d", PERMISSIONS_MAX)
               : auth_role_check(&c->role, note);
}

static err role_may_hold(struct authority_call *c)
{
    const struct auth_role *r = &c->role;
    return auth_may_give_permissions(c->auth, c->giver, r->space, r->permissions,
                                     r->permissions_count, &c->note);
}

static err role_create(struct authority_call *c)
{
    err why = role_may_hold(c);
    return why != ERR_OK ? why : auth_role_create(c->auth, &c->role, c->made.id, &c->note);
}

static err role_update(struct authority_call *c)
{
    err why = role_may_hold(c);
    return why != ERR_OK ? why : auth_role_update(c->auth, &c->role, &c->note);
}

static err role_list(struct authority_call *c)
{
    return auth_role_list(c->auth, c->role.space, &c->page, c->arena, &c->roles, &c->count);
}

static err role_delete(struct authority_call *c)
{
    return auth_role_delete(c->auth, c->role.space, c->role.name, &c->note);
}

static err binding_check(const struct authority_call *c, struct err_note *note)
{
    return auth_binding_check(&c->binding, note);
}

static err binding_user_check(const struct authority_call *c, struct err_note *note)
{
    return auth_binding_user_check(c->binding.user_id, note);
}

static err binding_create(struct authority_call *c)
{
    c->binding.giver = &c->giver;
    return auth_binding_create(c->auth, &c->binding, c->made.id, &c->note);
}

static err binding_list(struct authority_call *c)
{
    struct auth_binding_list list = { .space = c->binding.space,
                                      .user_id = c->binding.user_id,
                                      .page = &c->page };
    err why = auth_binding_list(c->auth, &list, c->arena);
    c->bindings = list.bindings;
    c->count = list.count;
    return why;
}

static err binding_delete(struct authority_call *c)
{
    return auth_binding_delete(c->auth, &c->binding, &c->note);
}

/* ---- the list ---- */

/* path, permission, message, words, check of the words beside a limit, change, reply, items */
#define CALLS(X)                                                                                   \
    X("namespaces.create", "namespace.create", namespace_info, spaces, space_check, space_create,  \
      NULL, NULL)                                                                                  \
    X("namespaces.update", "namespace.update", namespace_info, spaces, space_check, space_update,  \
      NULL, NULL)                                                                                  \
    X("namespaces.list", "namespace.list", namespaces_list_request, spaces, NULL, space_list,      \
      REPLY(namespaces_list_response), spaces)                                                     \
    X("namespaces.delete", "namespace.delete", namespaces_delete_request, spaces,                  \
      space_name_check, space_delete, NULL, NULL)                                                  \
    X("users.create", "user.create", user_create_request, users, user_check, user_create,          \
      REPLY(user_create_response), NULL)                                                           \
    X("users.list", "user.list", users_list_request, users, NULL, user_list,                       \
      REPLY(users_list_response), users)                                                           \
    X("users.delete", "user.delete", users_delete_request, users, NULL, user_delete, NULL, NULL)   \
    X("apikeys.create", "apikey.create", apikey_create_request, apikeys, apikey_check,             \
      apikey_create, REPLY(apikey_create_response), NULL)                                          \
    X("apikeys.list", "apikey.list", apikeys_list_request, apikeys, NULL, apikey_list,             \
      REPLY(apikeys_list_response), apikeys)                                                       \
    X("apikeys.delete", "apikey.delete", apikeys_delete_request, apikeys, NULL, apikey_delete,     \
      NULL, NULL)                                                                                  \
    X("roles.create", "role.create", role_create_request, roles, role_check, role_create,          \
      REPLY(role_create_response), NULL)                                                           \
    X("roles.list", "role.list", roles_list_request, roles, NULL, role_list,                       \
      REPLY(roles_list_response), roles)                                                           \
    X("roles.update", "role.update", role_update_request, roles, role_check, role_update, NULL,    \
      NULL)                                                                                        \
    X("roles.delete", "role.delete", roles_delete_request, roles, NULL, role_delete, NULL, NULL)   \
    X("rolebindings.create", "rolebinding.create", role_binding_create_request, new_bindings,      \
      binding_check, binding_create, REPLY(role_binding_create_response), NULL)                    \
    X("rolebindings.list", "rolebinding.list", role_bindings_list_request, new_bindings, NULL,     \
      binding_list, REPLY(role_bindings_list_response), bindings)                                  \
    X("rolebindings.delete", "rolebinding.delete", role_binding_delete_request, new_bindings,      \
      binding_user_check, binding_delete, NULL, NULL)

#define REPLY(message) &wire__##message##__descriptor
#define KIND(path, permission, message, words, check, run, reply, items)                           \
    { permission, &wire__##message##__descriptor, words, check, run, reply, items },
static const struct authority_kind kinds[] = { CALLS(KIND) };
#undef KIND

static void call_handle(struct http_exchange *x, void *app);

#define ROUTE(path, permission_unused, message, words, check, run, reply, items)                   \
    { HTTP_POST, "/v1/" path, call_handle, .body_bytes_max = AUTHORITY_BODY_BYTES_MAX,             \
      .label = path },
const struct http_route app_authority_routes[] = { CALLS(ROUTE){ .pattern = NULL } };
#undef ROUTE
#undef REPLY
#undef CALLS

/* ---- on the pool ---- */

static ProtobufCMessage *message_new(struct arena *a, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = arena_calloc(a, 1, type->sizeof_message);
    if (m != NULL)
        protobuf_c_message_init(type, m);
    return m;
}

static err items_write(struct authority_call *c, ProtobufCMessage *reply)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(reply->descriptor, "items");
    const ProtobufCMessageDescriptor *type = f->descriptor;
    char *all = wire_list(c->arena, reply, "items", c->count);
    err why = all == NULL ? ERR_LIMIT : ERR_OK;
    for (unsigned i = 0; why == ERR_OK && i < c->count; i++)
        why = wire_map_write(c->arena, c->kind->item,
                             (const char *)c->items + i * wire_map_size(c->kind->item),
                             (ProtobufCMessage *)(void *)(all + i * type->sizeof_message));
    return why;
}

/* Ids of what was made: texts that are only in c. */
static void made_write(struct authority_call *c, ProtobufCMessage *reply)
{
    const struct {
        const char *field, *text;
    } made[] = { { "id", c->made.id }, { "key", c->made.key }, { "prefix", c->made.prefix } };
    for (size_t i = 0; i < COUNT_OF(made); i++) {
        ProtobufCBinaryData *field = (void *)(uintptr_t)wire_field(reply, made[i].field);
        if (field != NULL)
            *field = wire_bytes(str_of(made[i].text));
    }
}

static void call_run(struct pooled *p)
{
    struct authority_call *c = CONTAINER_OF(p, struct authority_call, pooled);
    const struct authority_kind *kind = c->kind;
    ProtobufCMessage *reply = kind->reply == NULL ? NULL : message_new(c->arena, kind->reply);
    c->why = kind->reply != NULL && reply == NULL ? ERR_LIMIT : kind->run(c);
    if (c->why != ERR_OK || reply == NULL)
        return;
    if (kind->item != NULL)
        c->why = items_write(c, reply);
    else
        made_write(c, reply);
    if (c->why == ERR_OK)
        c->why = rpc_encode(p->x, reply, &c->answer);
    OPENSSL_cleanse(&c->made, sizeof c->made);
}

/* ---- at its home ---- */

static void call_refuse(struct authority_call *c)
{
    struct http_exchange *x = c->pooled.x;
    bool limit = c->why == ERR_LIMIT && c->note.text[0] != '\0';
    if (c->why == ERR_SHUTDOWN)
        rpc_error(x, CODE_FAILED, STR("service is shutting down"));
    else if (c->why == ERR_NOT_FOUND)
        rpc_error(x, c->kind->run == apikey_delete ? CODE_UNAUTHORIZED : CODE_FAILED,
                  str_of(c->note.text));
    else if (limit) /* one of ours; asking again does not help */
        rpc_error(x, CODE_BAD, str_of(c->note.text));
    else if (c->why == ERR_BAD || c->why == ERR_CONFLICT || c->why == ERR_DENIED)
        rpc_fail(x, c->why, &c->note);
    else
        rpc_fail(x, c->why, NULL);
}

static void call_answer(struct pooled *p)
{
    struct authority_call *c = CONTAINER_OF(p, struct authority_call, pooled);
    if (c->why == ERR_OK && c->kind->item == NULL) {
        char by[AUTH_PREFIX_BYTES_MAX + 1];
        auth_shown(c->giver, by);
        log_event(p->app->log, LOG_INFO, "auth.changed", LOG_CSTR("call", http_route(p->x)->label),
                  LOG_CSTR("by", by), LOG_STR("peer", http_peer(p->x)),
                  LOG_STR("request_id", http_request_id(p->x)));
    }
    if (c->why != ERR_OK)
        call_refuse(c);
    else if (c->kind->reply != NULL)
        rpc_send(p->x, c->answer);
    else
        rpc_ok(p->x, p->app);
}

/* What the request says, but for its words. */
static err page_read(struct authority_call *c, const ProtobufCMessage *m)
{
    const int32_t *limit = wire_field(m, "limit");
    const ProtobufCBinaryData *pivot = wire_field(m, "pivot");
    if (limit == NULL || pivot == NULL)
        return ERR_OK;
    c->page = (struct auth_page){ .pivot = wire_str(*pivot), .limit = (unsigned)*limit };
    if (*limit >= 0 && *limit <= AUTH_PAGE_MAX)
        return ERR_OK;
    return *limit < 0
               ? err_bad(&c->note, "limit is invalid; limit cannot be negative")
               : err_bad(&c->note, "limit is invalid; cannot be greater than %d", AUTH_PAGE_MAX);
}

/* The peer's own order: the words, then who asks, then what is stored. */
static bool may_begin(struct authority_call *c)
{
    const struct authority_kind *kind = c->kind;
    struct http_exchange *x = c->pooled.x;
    const ProtobufCMessage *m = rpc_read(x, kind->type);
    if (m == NULL)
        return false;
    err why = page_read(c, m);
    if (why == ERR_OK)
        why = wire_map_read(c->arena, m, kind->words, &c->space);
    if (why == ERR_OK && kind->check != NULL)
        why = kind->check(c, &c->note);
    if (why != ERR_OK) {
        rpc_fail(x, why, &c->note);
        return false;
    }
    const ProtobufCBinaryData *space = wire_field(m, "namespace");
    return app_may(x, kind->permission, space == NULL ? STR(AUTH_SYSTEM) : wire_str(*space),
                   c->pooled.app);
}

static void call_handle(struct http_exchange *x, void *app)
{
    struct app *a = app;
    struct authority_call *c = arena_calloc(http_arena(x), 1, sizeof *c);
    if (c == NULL || http_draining(x)) {
        rpc_error(x, c == NULL ? CODE_BAD : CODE_FAILED,
                  c == NULL ? STR("the request needs too much memory")
                            : STR("service is shutting down"));
        return;
    }
    ptrdiff_t index = http_route(x) - app_authority_routes;
    INVARIANT(index >= 0 && (size_t)index < COUNT_OF(kinds));
    *c = (struct authority_call){ .pooled = { .x = x, .app = a },
                                  .kind = &kinds[index],
                                  .arena = http_arena(x),
                                  .auth = a->auth,
                                  .giver = http_common(x)->authorization };
    if (may_begin(c))
        pooled_start(&c->pooled, call_run, call_answer);
}
