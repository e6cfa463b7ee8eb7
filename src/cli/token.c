/* token.c - palimpsest token: keys made, listed and deleted; in a data directory whose server is
 * stopped (--data), in the cluster that servers share (--config), else through the admin routes of
 * a running one. */
#include "auth/auth.h"
#include "base/date.h"
#include "base/disk.h"
#include "base/units.h"
#include "cli/client.h"
#include "cli/keys.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "loop/entropy.h"
#include "server/offline.h"

#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES_MAX = 4096, KEY_JSON_BYTES_MAX = 64 << 10 };

/* An opened authority, of a data directory or of a cluster. */
struct token_store {
    struct offline offline;
    struct keys *keys; /* NULL: of a directory */
    struct clock *clock;
    struct auth *auth;
};

/* Without a server, then. */
static bool is_offline(const struct cli_call *call)
{
    return cli_value(call, "data") != NULL || cli_value(call, "config") != NULL;
}

static enum cli_exit cluster_store_open(const struct cli_call *call, struct token_store *s)
{
    if (cli_value(call, "data") != NULL)
        return cli_fail(call, CLI_USAGE, "%s: --data and --config name two stores",
                        call->verb->name);
    enum cli_exit code = keys_open(call, &s->keys);
    if (code == CLI_OK) {
        s->auth = keys_auth(s->keys);
        s->clock = keys_clock(s->keys);
    }
    return code;
}

/* What cannot be looked at counts as one: opening it says why. */
static bool has_store(const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/STORE", dir);
    return n > 0 && n < PATH_MAX && (access(path, F_OK) == 0 || errno == EACCES);
}

/* Unless --new says so no store is made: the key of a mistyped folder would open nothing. */
static enum cli_exit store_open(const struct cli_call *call, struct token_store *s)
{
    enum server_exit status = SERVER_FAILED;
    struct err_note note;
    const char *dir = cli_value(call, "data");
    *s = (struct token_store){ .keys = NULL };
    if (cli_value(call, "config") != NULL)
        return cluster_store_open(call, s);
    if (!cli_flag(call, "new") && !has_store(dir))
        return cli_fail(call, CLI_FAILED, "%s: there is no store at %s%s", call->verb->name, dir,
                        strcmp(call->verb->name, "token create") == 0 ? "; --new makes one" : "");
    if (offline_open(&s->offline, dir, &status, &note) != ERR_OK)
        return cli_fail(call, (enum cli_exit)status, "token: %s", note.text);
    if (s->offline.leap)
        cli_warn(call, "token: the machine's clock is far ahead of the last stored time and is not "
                       "followed: --expires "
                       "counts from the stored one (clock.leap)");
    s->clock = s->offline.clock;
    struct auth_opts opts = { .engine = s->offline.engine,
                              .clock = s->clock,
                              .entropy = entropy_bytes };
    err why = auth_new(&opts, &s->auth, &note);
    disk_note_full(&note, why, dir);
    if (why != ERR_OK) {
        offline_close(&s->offline);
        return cli_fail(call, CLI_FAILED, "token: %s", note.text);
    }
    return CLI_OK;
}

static void store_close(struct token_store *s)
{
    if (s->keys != NULL) {
        keys_close(&s->keys); /* and its authority */
        return;
    }
    auth_free(&s->auth);
    offline_close(&s->offline);
}

/* ---- what is printed: the same document, whether it came from a store or a server ---- */

static json_t *key_json(const struct auth_key *k)
{
    struct arena a;
    arena_init(&a, KEY_JSON_BYTES_MAX);
    str members = auth_key_json(&a, k);
    json_t *json = json_body_read(arena_printf(&a, "{%.*s}", STR_ARG(members)));
    arena_fini(&a);
    return json;
}

static str member(const json_t *key, const char *name)
{
    const json_t *v = json_object_get(key, name);
    return json_is_string(v) ? (str){ .p = json_string_value(v), .n = json_string_length(v) }
                             : STR("-");
}

/* The key alone on stdout, so that a script can keep it; the rest is for people. False: it did not
 * get there. */
static bool print_created(const json_t *key, bool as_json)
{
    if (as_json) {
        out_json(stdout, key);
        return fflush(stdout) == 0 && !ferror(stdout);
    }
    str secret = member(key, "key"), id = member(key, "id"), roles = member(key, "roles"),
        space = member(key, "namespace"), expires = member(key, "expires_at");
    out_text(stdout, secret);
    putchar('\n');
    if (fflush(stdout) != 0 || ferror(stdout))
        return false;
    char line[PATH_BYTES_MAX];
    (void)snprintf(line, sizeof line,
                   "id %.*s, roles %.*s, namespace %.*s, expires %.*s; it is not shown again",
                   STR_ARG(id), STR_ARG(roles), STR_ARG(space),
                   STR_ARG(expires)); /* what is longer is cut */
    out_text(stderr, str_of(line));
    fputc('\n', stderr);
    return true;
}

static void print_list(const json_t *items, bool as_json)
{
    static const struct out_column columns[] = { { "id", false },     { "key", false },
                                                 { "name", false },   { "namespace", false },
                                                 { "roles", false },  { "created", false },
                                                 { "expires", false } };
    static const char *const members[COUNT_OF(columns)] = { "id",        "prefix", "name",
                                                            "namespace", "roles",  "created_at",
                                                            "expires_at" };
    struct out_table *t = as_json ? NULL : out_table_new(stdout, columns, COUNT_OF(columns));
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        if (as_json) {
            out_json(stdout, item);
            continue;
        }
        str cells[COUNT_OF(columns)];
        for (size_t k = 0; k < COUNT_OF(columns); k++)
            cells[k] = member(item, members[k]);
        out_table_row(t, cells, NULL);
    }
    if (t != NULL)
        out_table_end(&t);
}

/* ---- create ---- */

static bool read_expiry(const struct cli_call *call, int64_t *ns)
{
    const char *text = cli_value(call, "expires");
    if (text == NULL)
        return true;
    if (units_parse_duration(str_of(text), ns) && *ns > 0)
        return true;
    (void)cli_fail(call, CLI_USAGE,
                   "token create: --expires wants a duration over 0, such as 30d, not \"%s\"",
                   text);
    return false;
}

static bool read_roles(const struct cli_call *call, struct auth_key_new *n)
{
    for (unsigned i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "role") != 0)
            continue;
        if (n->roles_count == AUTH_ROLES_OF_KEY_MAX) {
            (void)cli_fail(call, CLI_USAGE, "token create: at most %d roles",
                           AUTH_ROLES_OF_KEY_MAX);
            return false;
        }
        n->roles[n->roles_count++] = str_of(call->given[i].value);
    }
    if (n->roles_count == 0)
        n->roles[n->roles_count++] = STR("read");
    return true;
}

static enum cli_exit create_offline(const struct cli_call *call, struct auth_key_new *n,
                                    int64_t expires_ns, json_t **key)
{
    struct token_store s;
    enum cli_exit code = store_open(call, &s);
    if (code != CLI_OK)
        return code;
    struct auth_key k;
    char secret[AUTH_KEY_BYTES_MAX + 1];
    struct err_note note;
    n->expires_at = store_time_add(clock_store(s.clock), expires_ns);
    err why = auth_key_create(s.auth, n, &k, secret, &note);
    if (cli_value(call, "data") != NULL)
        disk_note_full(&note, why, cli_value(call, "data"));
    if (why == ERR_OK) {
        *key = key_json(&k);
        (void)json_object_set_new(*key, "key", json_string(secret)); /* dies with its document */
    }
    OPENSSL_cleanse(secret, sizeof secret);
    store_close(&s);
    if (why == ERR_OK)
        return CLI_OK;
    return cli_fail(call, why == ERR_BAD ? CLI_USAGE : cli_exit_of(why), "token: %s", note.text);
}

static enum cli_exit create_online(const struct cli_call *call, const struct auth_key_new *n,
                                   json_t **key)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    static const struct {
        const char *option, *member;
    } texts[] = {
        { "name", "name" }, { "domain", "domain" }, { "tag", "tag" }, { "expires", "expires" }
    };
    json_t *roles = json_array(), *body = json_object();
    for (unsigned i = 0; i < n->roles_count; i++)
        (void)json_array_append_new(
            roles, json_stringn(n->roles[i].p, n->roles[i].n)); /* dies with its document */
    (void)json_object_set_new(body, "roles", roles);
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (cli_value(call, texts[i].option) != NULL)
            (void)json_object_set_new(body, texts[i].member,
                                      json_string(cli_value(call, texts[i].option)));
    char *text = json_dumps(body, JSON_COMPACT);
    *key = client_ask_json(&c, &(struct client_request){ .method = "POST",
                                                         .path = STR("/v1/admin.tokens"),
                                                         .has_body = true,
                                                         .body = str_of(text),
                                                         .content_type = "application/json",
                                                         .member = "key" });
    free(text);
    json_decref(body);
    client_close(&c);
    return *key != NULL ? CLI_OK : c.failed;
}

/* ---- ls ---- */

static bool list_each(void *ctx, const struct auth_key *k)
{
    (void)json_array_append_new(ctx, key_json(k)); /* dies with its document */
    return true;
}

static enum cli_exit list_offline(const struct cli_call *call, json_t **items)
{
    struct token_store s;
    enum cli_exit code = store_open(call, &s);
    if (code != CLI_OK)
        return code;
    *items = json_array();
    err why = auth_key_list(s.auth, STR_NONE, list_each, *items);
    store_close(&s);
    if (why == ERR_OK)
        return CLI_OK;
    return cli_fail(call, CLI_FAILED, "token ls: %s", err_name(why));
}

static enum cli_exit list_online(const struct cli_call *call, json_t **items)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    const char *next = NULL;
    json_t *page = NULL;
    *items = json_array();
    do {
        struct buf path;
        buf_init(&path, PATH_BYTES_MAX);
        buf_put(&path, STR("/v1/admin.tokens"));
        if (next != NULL)
            buf_printf(&path, "?page=%s", next); /* base64url */
        json_decref(page);
        page = client_ask_json(&c, &(struct client_request){ .method = "GET",
                                                             .path = client_path(&path),
                                                             .member = "items" });
        buf_fini(&path);
        (void)json_array_extend(
            *items, json_object_get(page, "items")); /* without items there is nothing to list */
        next = json_string_value(json_object_get(page, "next"));
    } while (next != NULL);
    code = page != NULL ? CLI_OK : c.failed;
    json_decref(page);
    client_close(&c);
    return code;
}

enum cli_exit verb_token_ls(struct cli_call *call)
{
    json_t *items = NULL;
    enum cli_exit code = is_offline(call) ? list_offline(call, &items) : list_online(call, &items);
    if (code == CLI_OK)
        print_list(items, cli_flag(call, "json"));
    json_decref(items);
    return code;
}

/* ---- rm ---- */

static enum cli_exit remove_offline(const struct cli_call *call, str id)
{
    struct token_store s;
    enum cli_exit code = store_open(call, &s);
    if (code != CLI_OK)
        return code;
    struct err_note note;
    err why = auth_key_delete(s.auth, id, &note);
    store_close(&s);
    return why == ERR_OK ? CLI_OK : cli_fail(call, cli_exit_of(why), "token: %s", note.text);
}

static enum cli_exit remove_online(const struct cli_call *call, str id)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct buf path;
    buf_init(&path, PATH_BYTES_MAX);
    buf_put(&path, STR("/v1/admin.tokens"));
    client_path_segment(&path, id);
    if (buf_status(&path) != ERR_OK)
        code = cli_fail(call, CLI_NOT_FOUND, "token rm: no key has so long an id");
    else if (!client_order(&c, &(struct client_request){ .method = "DELETE",
                                                         .path = client_path(&path) }))
        code = c.failed;
    buf_fini(&path);
    client_close(&c);
    return code;
}

enum cli_exit verb_token_rm(struct cli_call *call)
{
    enum cli_exit code = CLI_OK;
    for (unsigned i = 0; i < call->operands_count && code == CLI_OK; i++)
        code = is_offline(call) ? remove_offline(call, str_of(call->operands[i]))
                                : remove_online(call, str_of(call->operands[i]));
    return code;
}

/* A key that nobody has seen must not stay valid. */
static enum cli_exit take_back(const struct cli_call *call, str id)
{
    enum cli_exit removed = is_offline(call) ? remove_offline(call, id) : remove_online(call, id);
    clearerr(stdout); /* told here */
    return cli_fail(call, CLI_FAILED,
                    "token create: cannot write to standard output; the key %.*s is %s",
                    STR_ARG(id),
                    removed == CLI_OK
                        ? "deleted again"
                        : "valid and nobody knows it: palimpsest token rm deletes it");
}

enum cli_exit verb_token_create(struct cli_call *call)
{
    int64_t expires_ns = DURATION_NEVER;
    struct auth_key_new n = { .name = str_of(cli_value(call, "name")),
                              .space = str_of(cli_value(call, "domain")),
                              .tag = str_of(cli_value(call, "tag")),
                              .expires_at = STORE_TIME_NEVER };
    if (!read_expiry(call, &expires_ns) || !read_roles(call, &n))
        return CLI_USAGE;
    json_t *key = NULL;
    enum cli_exit code = is_offline(call) ? create_offline(call, &n, expires_ns, &key)
                                          : create_online(call, &n, &key);
    if (code == CLI_OK && !print_created(key, cli_flag(call, "json")))
        code = take_back(call, member(key, "id"));
    json_decref(key);
    return code;
}

/* ---- the open door ---- */

static enum cli_exit set_door(const struct cli_call *call, bool open)
{
    if (!is_offline(call)) {
        struct client c;
        enum cli_exit code = client_open(&c, call);
        if (code == CLI_OK) {
            str body = open ? STR("{\"open\":true}") : STR("{\"open\":false}");
            json_t *doc =
                client_ask_json(&c, &(struct client_request){ .method = "POST",
                                                              .path = STR("/v1/admin.door"),
                                                              .has_body = true,
                                                              .body = body,
                                                              .member = "open" });
            code = doc != NULL ? CLI_OK : c.failed;
            json_decref(doc);
            client_close(&c);
        }
        return code;
    }
    struct token_store s;
    enum cli_exit code = store_open(call, &s);
    if (code != CLI_OK)
        return code;
    struct err_note note;
    err why = auth_door_set(s.auth, open, &note);
    store_close(&s);
    return why == ERR_OK ? CLI_OK : cli_fail(call, cli_exit_of(why), "token: %s", note.text);
}

enum cli_exit verb_token_lock(struct cli_call *call)
{
    return set_door(call, false);
}

enum cli_exit verb_token_unlock(struct cli_call *call)
{
    return set_door(call, true);
}
