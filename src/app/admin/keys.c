/* keys.c - keys of the authority over HTTP, on admin listeners: made, listed, deleted.
 *
 *   POST   /v1/admin.tokens        {"name":, "roles":[...], "domain":, "tag":, "expires":"30d"}
 *          201, the key once
 *   GET    /v1/admin.tokens        {"items":[...], "next"}: as many as have room, from ?page= on
 *   DELETE /v1/admin.tokens/{id}   204
 *   POST   /v1/admin.door          {"open": bool}: does anonymous hold Admin?
 * The authority waits for the disk, so each runs on the pool. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "app/token.h"
#include "auth/auth.h"
#include "base/date.h"
#include "base/units.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "codec/json_text.h"

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
    struct auth_key_new wanted; /* texts borrowed from body */
    str from;                   /* of a list: the place of its first key */
    str giver;                  /* its */
    json_t *body;               /* or NULL */
    bool open;                  /* of the door */
    err why;
    int status; /* when why is ERR_OK */
    str answer;
    struct err_note note;
};

static str key_json(struct arena *a, const struct auth_key *k)
{
    char created[DATE_RFC3339_BYTES + 1], expires[DATE_RFC3339_BYTES + 3] = "null";
    date_format_ms(k->created_at.ns, created);
    if (k->expires_at.ns != INT64_MAX) {
        char at[DATE_RFC3339_BYTES + 1];
        date_format_ms(k->expires_at.ns, at);
        struct err_note text;
        err_note_set(&text, "\"%s\"", at);
        INVARIANT(str_to_cstr(str_of(text.text), expires, sizeof expires));
    }
    str user = json_text_quote(a, str_of(k->user)), space = json_text_quote(a, str_of(k->space)),
        roles = json_text_quote(a, str_of(k->roles));
    if (user.p == NULL || space.p == NULL || roles.p == NULL)
        return STR_NONE;
    return arena_printf(
        a,
        "\"id\":\"%s\",\"prefix\":\"%s\",\"name\":%.*s,\"namespace\":%.*s,\"roles\":%.*s,"
        "\"created_at\":\"%s\",\"expires_at\":%s",
        k->id, k->prefix, STR_ARG(user), STR_ARG(space), STR_ARG(roles), created, expires);
}

/* ---- on the pool ---- */

static str giver(const struct key_call *c)
{
    str authorization = http_common(c->pooled.x)->authorization;
    return auth_is_bearer(authorization) ? authorization
                                         : STR_NONE; /* as when its route was asked for */
}

static void create_run(struct pooled *p)
{
    struct key_call *c = CONTAINER_OF(p, struct key_call, pooled);
    struct arena *a = http_arena(p->x);
    struct auth_key k;
    char secret[AUTH_KEY_BYTES_MAX + 1];
    c->giver = giver(c);
    c->wanted.giver = &c->giver;
    c->why = auth_key_create(p->app->auth, &c->wanted, &k, secret, &c->note);
    if (c->why == ERR_OK) {
        arena_raise(a, KEYS_ANSWER_ROOM); /* the key stands, and only this answer has its secret */
        str members = key_json(a, &k);
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

struct key_listing {
    struct arena *arena;
    struct buf text;
    size_t bytes_max;
    unsigned count;
    str next;
};

static bool list_each(void *ctx, const struct auth_key *k)
{
    struct key_listing *l = ctx;
    str members = key_json(l->arena, k);
    if (members.p == NULL) {
        l->text.failed = true;
        return false;
    }
    if (l->count > 0 && l->text.n + members.n > l->bytes_max) {
        l->next = base64_url(l->arena, (str){ .p = (const char *)k->place, .n = AUTH_PLACE_BYTES });
        l->text.failed = l->next.p == NULL;
        return false;
    }
    buf_printf(&l->text, "%s{%.*s}", l->count++ > 0 ? "," : "", STR_ARG(members));
    return !l->text.failed;
}

static void list_run(struct pooled *p)
{
    struct key_call *c = CONTAINER_OF(p, struct key_call, pooled);
    struct key_listing l = { .arena = http_arena(p->x) };
    size_t memory = p->app->config->http.arena_bytes_max;
    l.bytes_max =
        memory / KEYS_MEMORY < KEYS_ANSWER_BYTES_MAX ? memory / KEYS_MEMORY : KEYS_ANSWER_BYTES_MAX;
    buf_init(&l.text, memory);
    buf_put(&l.text, STR("{\"items\":["));
    c->why = auth_key_list(p->app->auth, c->from, list_each, &l);
    buf_put(&l.text, STR("]"));
    if (l.next.n > 0)
        buf_printf(&l.text, ",\"next\":\"%.*s\"", STR_ARG(l.next));
    buf_put(&l.text, STR("}\n"));
    if (c->why == ERR_OK)
        c->why = buf_status(&l.text);
    if (c->why == ERR_OK)
        c->answer = arena_copy(l.arena, buf_str(&l.text));
    c->status = 200;
    buf_fini(&l.text);
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
    c->why = !c->open ? ERR_OK : auth_may_open_door(p->app->auth, giver(c), &c->note);
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

/* ---- on the worker ---- */

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

/* Once the request is read; why: so it went. */
static void call_start(struct key_call *c, void (*run)(struct pooled *p), err why)
{
    if (why == ERR_OK) {
        pooled_start(&c->pooled, run, call_answer);
        return;
    }
    json_decref(c->body); /* NULL is fine */
    app_fail(c->pooled.x, why, &c->note);
}

static err optional(err why)
{
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err read_roles(const json_t *body, struct auth_key_new *out, struct err_note *note)
{
    const json_t *roles;
    err why = json_body_array(body, "roles", &roles, note);
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

static err read_expiry(const json_t *body, struct clock *clock, store_time *out,
                       struct err_note *note)
{
    str text;
    int64_t ns;
    err why = json_body_str(body, "expires", &text, note);
    if (why != ERR_OK)
        return optional(why);
    if (!units_parse_duration(text, &ns) || ns <= 0)
        return err_bad(note, "expires: a duration over 0, such as 30d, is wanted");
    *out = store_time_add(clock_store(clock), ns);
    return ERR_OK;
}

static err read_new(struct key_call *c)
{
    static const char *const known[] = { "name", "roles", "domain", "tag", "expires", NULL };
    struct auth_key_new *n = &c->wanted;
    n->expires_at = STORE_TIME_NEVER;
    err why = json_body_parse(http_body(c->pooled.x), &c->body, &c->note);
    if (why == ERR_OK)
        why = json_body_only(c->body, known, &c->note);
    if (why == ERR_OK)
        why = read_roles(c->body, n, &c->note);
    if (why == ERR_OK)
        why = optional(json_body_str(c->body, "name", &n->name, &c->note));
    if (why == ERR_OK)
        why = optional(json_body_str(c->body, "domain", &n->space, &c->note));
    if (why == ERR_OK)
        why = optional(json_body_str(c->body, "tag", &n->tag, &c->note));
    return why != ERR_OK ? why
                         : read_expiry(c->body, c->pooled.app->clock, &n->expires_at, &c->note);
}

static void keys_create(struct http_exchange *x, void *app)
{
    struct key_call *c = pooled_new(x, app, sizeof *c);
    if (c != NULL)
        call_start(c, create_run, read_new(c));
}

static void keys_list(struct http_exchange *x, void *app)
{
    struct key_call *c = pooled_new(x, app, sizeof *c);
    str page;
    if (c == NULL)
        return;
    bool fine = !http_query(x, "page", &page) ||
                (page.n <= TOKEN_TEXT_BYTES_MAX &&
                 base64_decode(http_arena(x), page, BASE64_TOKEN, &c->from) == ERR_OK &&
                 c->from.n == AUTH_PLACE_BYTES);
    if (fine)
        call_start(c, list_run, ERR_OK);
    else
        app_problem(x, 400, "bad_request#invalid_paging_token", NULL,
                    STR("page is not a token that a listing gave."), STR_NONE);
}

static void keys_delete(struct http_exchange *x, void *app)
{
    struct key_call *c = pooled_new(x, app, sizeof *c);
    if (c != NULL)
        call_start(c, delete_run, ERR_OK);
}

static void door_post(struct http_exchange *x, void *app)
{
    struct key_call *c = pooled_new(x, app, sizeof *c);
    if (c == NULL)
        return;
    err why = json_body_parse(http_body(x), &c->body, &c->note);
    if (why == ERR_OK)
        why = json_body_bool(c->body, "open", &c->open, &c->note);
    if (why == ERR_NOT_FOUND) {
        err_note_set(&c->note, "open: true or false is wanted");
        why = ERR_BAD;
    }
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
