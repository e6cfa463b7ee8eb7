/* keys.c - keys of the authority over HTTP, on admin listeners: made, listed, deleted.
 *
 *   POST   /v1/admin.tokens        {"name":, "roles":[...], "domain":, "tag":, "expires":"30d"}
 *          201, the key once
 *   GET    /v1/admin.tokens        {"items":[...], "next"}: as many as have room, from ?page= on
 *   DELETE /v1/admin.tokens/{id}   204
 *   POST   /v1/admin.door          {"open": bool}: does anonymous hold Admin?
 * The authority waits for the disk, so each runs on the pool. */
#include "app/answer.h"
#include "app/call.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "auth/auth.h"

#include <openssl/crypto.h>

enum {
    KEYS_BODY_BYTES_MAX = 16384,
    /* beyond a request's memory, for the answer that names a new key */
    KEYS_ANSWER_ROOM = 64 << 10,
    /* a list ends before the key that passes them, after at least one */
    KEYS_ANSWER_BYTES_MAX = 4 << 20,
    KEYS_MEMORY = 8, /* an answer may have so small a part of a request's memory */
};

/* One call on its way over the pool. */
struct key_call {
    struct pooled pooled;
    json_t *body;               /* or NULL */
    struct auth_key_new wanted; /* texts borrowed from body */
    str giver;                  /* its */
    str from;                   /* of a list: the place of its first key */
    bool open;                  /* of the door */
    err why;
    int status; /* when why is ERR_OK */
    str answer;
    struct err_note note;
};

/* ---- on the pool ---- */

static void create_run(struct pooled *p)
{
    struct key_call *c = CONTAINER_OF(p, struct key_call, pooled);
    struct arena *a = http_arena(p->x);
    struct auth_key k;
    char secret[AUTH_KEY_BYTES_MAX + 1];
    c->wanted.giver = &c->giver;
    c->why = auth_key_create(p->app->auth, &c->wanted, &k, secret, &c->note);
    if (c->why == ERR_OK) {
        arena_raise(a, KEYS_ANSWER_ROOM); /* the key stands, and only this answer has its secret */
        str members = auth_key_json(a, &k);
        c->answer = members.p == NULL
                        ? STR_NONE
                        : arena_printf(a, "{\"key\":\"%s\",%.*s}\n", secret, STR_ARG(members));
        c->status = 201;
        log_event(p->app->log, LOG_INFO, "auth.key_made", LOG_CSTR("id", k.id),
                  LOG_CSTR("name", k.user), LOG_CSTR("roles", k.roles),
                  LOG_CSTR("namespace", k.space), LOG_STR("request_id", http_request_id(p->x)));
    }
    OPENSSL_cleanse(secret, sizeof secret);
}

static void list_run(struct pooled *p)
{
    struct key_call *c = CONTAINER_OF(p, struct key_call, pooled);
    size_t most = p->app->config->http.arena_bytes_max / KEYS_MEMORY;
    c->why = auth_keys_json(p->app->auth, c->from,
                            most < KEYS_ANSWER_BYTES_MAX ? most : KEYS_ANSWER_BYTES_MAX,
                            http_arena(p->x), &c->answer);
    c->status = 200;
}

static void delete_run(struct pooled *p)
{
    struct key_call *c = CONTAINER_OF(p, struct key_call, pooled);
    str id = http_param(p->x, "id");
    c->why = auth_key_delete(p->app->auth, id, &c->note);
    if (c->why == ERR_OK)
        log_event(p->app->log, LOG_INFO, "auth.key_deleted", LOG_STR("id", id),
                  LOG_STR("request_id", http_request_id(p->x)));
    c->status = 204;
    c->answer = STR("");
}

static void door_run(struct pooled *p)
{
    struct key_call *c = CONTAINER_OF(p, struct key_call, pooled);
    c->why = !c->open ? ERR_OK : auth_may_open_door(p->app->auth, c->giver, &c->note);
    if (c->why == ERR_OK)
        c->why = auth_door_set(p->app->auth, c->open, &c->note);
    if (c->why == ERR_OK)
        log_event(p->app->log, LOG_WARN, c->open ? "auth.door_opened" : "auth.door_closed",
                  LOG_CSTR("what", c->open ? "callers without a key may do everything now"
                                           : "callers without a key have lost their rights"),
                  LOG_STR("request_id", http_request_id(p->x)));
    c->status = 200;
    c->answer = c->open ? STR("{\"open\":true}\n") : STR("{\"open\":false}\n");
}

/* ---- at its home ---- */

static void call_answer(struct pooled *p)
{
    struct key_call *c = CONTAINER_OF(p, struct key_call, pooled);
    json_decref(c->body); /* NULL is fine */
    if (c->why != ERR_OK)
        app_fail(p->x, c->why, c->note.text[0] != '\0' ? &c->note : NULL);
    else if (c->answer.p == NULL)
        app_fail(p->x, ERR_LIMIT, NULL);
    else if (c->status == 204)
        http_answer(p->x, 204, STR_NONE);
    else
        answer_json(p->x, c->status, c->answer, "no-store");
}

static struct key_call *call_new(struct http_exchange *x, struct app *app)
{
    struct key_call *c = pooled_new(x, app, sizeof *c);
    str field = http_common(x)->authorization;
    if (c != NULL) /* as when its route was asked for */
        c->giver = auth_is_bearer(field) ? field : STR_NONE;
    return c;
}

/* Once the body is read; why: so it went. */
static void call_start(struct key_call *c, void (*run)(struct pooled *p), err why)
{
    if (why == ERR_OK) {
        pooled_start(&c->pooled, run, call_answer);
        return;
    }
    json_decref(c->body); /* NULL is fine */
    app_fail(c->pooled.x, why, &c->note);
}

static void keys_create(struct http_exchange *x, void *app)
{
    struct key_call *c = call_new(x, app);
    if (c == NULL)
        return;
    err why = json_body_parse(http_body(x), &c->body, &c->note);
    if (why == ERR_OK)
        why = auth_key_new_read(c->body, clock_store(c->pooled.app->clock), &c->wanted, &c->note);
    call_start(c, create_run, why);
}

static void keys_list(struct http_exchange *x, void *app)
{
    struct key_call *c = call_new(x, app);
    if (c == NULL || !app_token_parse(x, &c->from))
        return;
    if (c->from.n == 0 || c->from.n == AUTH_PLACE_BYTES)
        call_start(c, list_run, ERR_OK);
    else
        app_token_bad(x);
}

static void keys_delete(struct http_exchange *x, void *app)
{
    struct key_call *c = call_new(x, app);
    if (c != NULL)
        call_start(c, delete_run, ERR_OK);
}

static void door_post(struct http_exchange *x, void *app)
{
    struct key_call *c = call_new(x, app);
    if (c == NULL)
        return;
    err why = json_body_parse(http_body(x), &c->body, &c->note);
    if (why == ERR_OK)
        why = json_body_bool(c->body, "open", &c->open, &c->note);
    if (why == ERR_NOT_FOUND)
        why = err_bad(&c->note, "open: true or false is wanted");
    call_start(c, door_run, why);
}

const struct http_route app_key_routes[] = {
    { HTTP_POST, "/v1/admin.tokens", keys_create, .body_bytes_max = KEYS_BODY_BYTES_MAX,
      .permission = "apikey.create", .label = "admin.tokens.create", .urgent = true,
      .admin = true },
    { HTTP_GET, "/v1/admin.tokens", keys_list, .permission = "apikey.list",
      .label = "admin.tokens.list", .urgent = true, .admin = true },
    { HTTP_DELETE, "/v1/admin.tokens/{id}", keys_delete, .permission = "apikey.delete",
      .label = "admin.tokens.delete", .urgent = true, .admin = true },
    { HTTP_POST, "/v1/admin.door", door_post, .body_bytes_max = KEYS_BODY_BYTES_MAX,
      .permission = "admin.write", .label = "admin.door", .urgent = true, .admin = true },
    { .pattern = NULL },
};
