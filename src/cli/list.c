/* list.c - palimpsest list get: a list of a display, or one position of it, and in what state it
 * is. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "codec/json.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES_MAX = 64 << 10 };

/* name=value as query text. False: it was said. */
static bool add_param(const struct cli_call *call, struct buf *path, const char *given, bool first)
{
    str value = str_of(given);
    if (str_find(value, '=') == value.n) {
        (void)cli_fail(call, CLI_USAGE, "list get: --param wants NAME=VALUE, not \"%s\"", given);
        return false;
    }
    str name = str_split(&value, '=');
    buf_put_c(path, first ? '?' : '&');
    client_path_text(path, name);
    buf_put_c(path, '=');
    client_path_text(path, value);
    return true;
}

static bool make_path(const struct client *c, const struct cli_call *call, struct buf *path)
{
    bool first = true;
    client_path_segment(path, str_of(c->domain));
    buf_put(path, STR("/v1/lists"));
    client_path_segment(path, str_of(call->operands[0]));
    if (strcmp(call->operands[1], "*") == 0)
        buf_put(path, STR("/*"));
    else
        client_path_segment(path, str_of(call->operands[1]));
    if (call->operands_count > 2)
        client_path_segment(path, str_of(call->operands[2]));
    for (unsigned i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "param") != 0)
            continue;
        if (!add_param(call, path, call->given[i].value, first))
            return false;
        first = false;
    }
    return true;
}

/* A member of Cache-Status or Cache-Control: "detail" of "...; fwd=miss; detail=leader". Empty: it
 * has none. */
static str member_of(const char *field, const char *name)
{
    str rest = str_of(field);
    size_t n = strlen(name);
    while (rest.n > 0) {
        size_t at =
            str_find(rest, ';') < str_find(rest, ',') ? str_find(rest, ';') : str_find(rest, ',');
        str word = str_trim(str_take(rest, at));
        rest = str_skip(rest, at < rest.n ? at + 1 : at);
        if (word.n > n && str_starts(word, str_of(name)) && word.p[n] == '=')
            return str_skip(word, n + 1);
    }
    return STR("");
}

/* fresh, or stale: past its time, while the next is made or because it cannot be. */
static const char *state_of(const struct client_answer *a)
{
    bool stale = str_eq(member_of(a->cache_status, "detail"), STR("stale"));
    return stale || str_starts(member_of(a->cache_status, "ttl"), STR("-")) ? "stale" : "fresh";
}

/* How it was had: hit, leader, waiter, remote, degraded, stale. */
static str how_of(const struct client_answer *a)
{
    str detail = member_of(a->cache_status, "detail");
    return detail.n > 0 ? detail : client_was_stored(a->cache_status) ? STR("hit") : STR("miss");
}

static int64_t number_of(str text)
{
    uint64_t n = 0;
    return str_to_u64(text, &n) && n <= INT64_MAX ? (int64_t)n : 0;
}

/* One document: what both the whole list and one position have, and items or item. */
static json_t *document(const struct cli_call *call, const struct client_answer *a, json_t *body)
{
    bool whole = call->operands_count < 3;
    str how = how_of(a);
    json_t *doc =
        json_pack("{s:s, s:s, s:s, s:s, s:s%, s:I, s:I, s:I}", "list", call->operands[0], "display",
                  call->operands[1], "version", a->list_version, "state", state_of(a), "how", how.p,
                  how.n, "size", (json_int_t)number_of(str_of(a->list_size)), "age_s",
                  (json_int_t)number_of(str_of(a->age)), "fresh_s",
                  (json_int_t)number_of(member_of(a->cache_control, "max-age")));
    INVARIANT(doc != NULL);
    json_t *part = whole ? json_object_get(body, "items") : body;
    INVARIANT(json_object_set(doc, whole ? "items" : "item", part != NULL ? part : json_null()) ==
              0);
    return doc;
}

static void print_item(json_t *item)
{
    char position[24];
    (void)snprintf(position, sizeof position, "%lld",
                   (long long)json_integer_value(json_object_get(item, "position"))); /* fits */
    (void)json_object_del(item, "position");
    char *text = json_dumps(item, JSON_COMPACT);
    INVARIANT(text != NULL);
    printf("%s\t", position);
    out_text(stdout, str_of(text));
    printf("\n");
    free(text);
}

/* Items alone go to a pipe; who looks at a terminal sees what list it is as well. */
static void print_human(const struct client_answer *a, json_t *doc)
{
    json_t *items = json_object_get(doc, "items"), *item;
    if (out_is_terminal(stdout)) {
        char age[64];
        (void)snprintf(age, sizeof age, "%lld s, fresh for %lld s more",
                       (long long)json_integer_value(json_object_get(doc, "age_s")),
                       (long long)json_integer_value(json_object_get(doc, "fresh_s"))); /* fits */
        out_pair(stdout, "version", str_of(a->list_version));
        out_pair(stdout, "state", str_of(state_of(a)));
        out_pair(stdout, "how", how_of(a));
        out_pair(stdout, "size", str_of(a->list_size));
        out_pair(stdout, "age", str_of(age));
        printf("\n");
    }
    size_t i;
    json_array_foreach(items, i, item) print_item(item);
    if (items == NULL)
        print_item(json_object_get(doc, "item"));
}

static bool get(struct client *c, const struct cli_call *call, str path)
{
    const char *wish = cli_flag(call, "cached") ? "Cache-Control: only-if-cached" : NULL;
    struct client_answer a;
    bool fine =
        client_ask(c,
                   &(struct client_request){
                       .method = "GET", .path = path, .header = wish, .only_stored = wish != NULL },
                   &a);
    str text = buf_str(&a.body);
    json_t *body = fine ? json_body_read(text) : NULL;
    if (fine && (!json_is_object(body) || a.list_version[0] == '\0')) {
        c->failed = cli_fail(call, CLI_NO_SERVER,
                             "the answer of %s is not JSON as a Palimpsest sends it: is this "
                             "its URL? --server or $PALIMPSEST_SERVER names it",
                             c->server);
        json_decref(body);
        body = NULL;
    }
    if (body != NULL) {
        json_t *doc = document(call, &a, body);
        if (c->json)
            out_json(stdout, doc);
        else
            print_human(&a, doc);
        json_decref(doc);
    }
    fine = body != NULL;
    json_decref(body);
    client_answer_fini(&a);
    return fine;
}

enum cli_exit verb_list_get(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct buf path;
    buf_init(&path, PATH_BYTES_MAX);
    if (!make_path(&c, call, &path))
        code = CLI_USAGE;
    else if (buf_status(&path) != ERR_OK)
        code = cli_fail(call, CLI_REFUSED,
                        "list get: its name and parameters are too long for a request");
    else if (!get(&c, call, buf_str(&path)))
        code = c.failed;
    buf_fini(&path);
    client_close(&c);
    return code;
}
