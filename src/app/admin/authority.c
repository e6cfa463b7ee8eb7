#include "app/admin/authority.h"

#include <string.h>

enum {
    AUTHORITY_BODY_BYTES_MAX = 256000,
    CODE_FAILED = 453,
    CODE_UNAUTHORIZED = 401,
    CODE_BAD = 400
};

/* path, message, permission, check of the words beside a limit, change */
#define AUTHORITY_CALLS(X)                                                                         \
    X("namespaces.create", namespace_info, "namespace.create", space_check, space_create_run)      \
    X("namespaces.update", namespace_info, "namespace.update", space_check, space_update_run)      \
    X("namespaces.list", namespaces_list_request, "namespace.list", NULL, space_list_run)          \
    X("namespaces.delete", namespaces_delete_request, "namespace.delete", space_name_check,        \
      space_delete_run)                                                                            \
    X("users.create", user_create_request, "user.create", user_check, user_create_run)             \
    X("users.list", users_list_request, "user.list", NULL, user_list_run)                          \
    X("users.delete", users_delete_request, "user.delete", NULL, user_delete_run)                  \
    X("apikeys.create", apikey_create_request, "apikey.create", apikey_check, apikey_create_run)   \
    X("apikeys.list", apikeys_list_request, "apikey.list", NULL, apikey_list_run)                  \
    X("apikeys.delete", apikeys_delete_request, "apikey.delete", NULL, apikey_delete_run)          \
    X("roles.create", role_create_request, "role.create", role_check, role_create_run)             \
    X("roles.list", roles_list_request, "role.list", NULL, role_list_run)                          \
    X("roles.update", role_update_request, "role.update", role_update_check, role_update_run)      \
    X("roles.delete", roles_delete_request, "role.delete", NULL, role_delete_run)                  \
    X("rolebindings.create", role_binding_create_request, "rolebinding.create", binding_check,     \
      binding_create_run)                                                                          \
    X("rolebindings.list", role_bindings_list_request, "rolebinding.list", NULL, binding_list_run) \
    X("rolebindings.delete", role_binding_delete_request, "rolebinding.delete",                    \
      binding_delete_check, binding_delete_run)

#define KIND(path, message, permission, check, run)                                                \
    { &wire__##message##__descriptor, permission, check, run },
static const struct authority_kind kinds[] = { AUTHORITY_CALLS(KIND) };
#undef KIND

/* ---- on the pool ---- */

static void call_run(struct pooled *p)
{
    struct authority_call *c = CONTAINER_OF(p, struct authority_call, pooled);
    c->why = c->kind->run(c);
    if (c->why == ERR_OK && c->reply != NULL)
        c->why = rpc_encode(c->pooled.x, c->reply, &c->answer);
}

/* ---- on the worker ---- */

/* What is not there is a request that failed; a key that is not there says nothing of who else has
 * one. */
static void refuse(struct authority_call *c)
{
    bool told = c->note.text[0] != '\0', limit = c->why == ERR_LIMIT && told;
    if (c->why == ERR_NOT_FOUND)
        rpc_error(c->pooled.x, c->kind->run == apikey_delete_run ? CODE_UNAUTHORIZED : CODE_FAILED,
                  str_of(c->note.text));
    else if (limit) /* one of ours; asking again does not help */
        rpc_error(c->pooled.x, CODE_BAD, str_of(c->note.text));
    else if (c->why == ERR_BAD || c->why == ERR_CONFLICT || c->why == ERR_DENIED)
        rpc_fail(c->pooled.x, c->why, &c->note);
    else
        rpc_fail(c->pooled.x, c->why, NULL);
}

static void log_change(const struct authority_call *c)
{
    char by[AUTH_PREFIX_BYTES_MAX + 1];
    auth_shown(http_common(c->pooled.x)->authorization, by);
    log_event(c->pooled.app->log, LOG_INFO, "auth.changed",
              LOG_CSTR("call", http_route(c->pooled.x)->label), LOG_CSTR("by", by),
              LOG_STR("peer", http_peer(c->pooled.x)),
              LOG_STR("request_id", http_request_id(c->pooled.x)));
}

static void call_answer(struct pooled *p)
{
    struct authority_call *c = CONTAINER_OF(p, struct authority_call, pooled);
    if (c->why == ERR_OK && !str_ends(str_of(c->kind->permission), STR(".list")))
        log_change(c);
    if (c->why == ERR_SHUTDOWN)
        rpc_error(c->pooled.x, CODE_FAILED, STR("service is shutting down"));
    else if (c->why != ERR_OK)
        refuse(c);
    else if (c->reply != NULL)
        rpc_send(c->pooled.x, c->answer);
    else
        rpc_ok(c->pooled.x, c->pooled.app);
}

static void call_begin(struct http_exchange *x, void *app);

#define ROUTE(path, message, permission_unused, check, run)                                        \
    { HTTP_POST, "/v1/" path, call_begin, .body_bytes_max = AUTHORITY_BODY_BYTES_MAX,              \
      .label = path },
const struct http_route app_authority_routes[] = { AUTHORITY_CALLS(ROUTE){ .pattern = NULL } };
#undef ROUTE
#undef AUTHORITY_CALLS

static err limit_check(const int32_t *limit, struct err_note *note)
{
    if (limit == NULL || (*limit >= 0 && *limit <= AUTH_PAGE_MAX))
        return ERR_OK;
    if (*limit < 0)
        err_note_set(note, "limit is invalid; limit cannot be negative");
    else
        err_note_set(note, "limit is invalid; cannot be greater than %d", AUTH_PAGE_MAX);
    return ERR_BAD;
}

/* The peer's own order: the words, then who asks, then what is stored. */
static bool may_begin(struct authority_call *c)
{
    const struct authority_kind *kind = c->kind;
    struct http_exchange *x = c->pooled.x;
    c->m = rpc_read(x, kind->type);
    if (c->m == NULL)
        return false;
    err why = limit_check(wire_field(c->m, "limit"), &c->note);
    if (why == ERR_OK && kind->check != NULL)
        why = kind->check(c->m, &c->note);
    if (why != ERR_OK) {
        rpc_fail(x, why, &c->note);
        return false;
    }
    const ProtobufCBinaryData *space = wire_field(c->m, "namespace");
    return app_may(x, kind->permission, space == NULL ? STR(AUTH_SYSTEM) : wire_str(*space),
                   c->pooled.app);
}

static void call_begin(struct http_exchange *x, void *app)
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
                                  .auth = a->auth };
    if (may_begin(c))
        pooled_start(&c->pooled, call_run, call_answer);
}

/* ---- for the calls ---- */

void *authority_reply(struct authority_call *c, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *reply = arena_calloc(c->arena, 1, type->sizeof_message);
    if (reply != NULL)
        protobuf_c_message_init(type, reply);
    c->reply = reply;
    return reply;
}

void *authority_list(struct authority_call *c, const ProtobufCMessageDescriptor *type,
                     unsigned count)
{
    ProtobufCMessage *reply = authority_reply(c, type);
    return reply == NULL ? NULL : wire_list(c->arena, reply, "items", count);
}

ProtobufCBinaryData authority_id(struct authority_call *c, const char *id)
{
    return wire_bytes(arena_copy(c->arena, str_of(id)));
}

str authority_giver(const struct authority_call *c)
{
    return http_common(c->pooled.x)->authorization;
}
