/* stash.c - palimpsest stash: what a server keeps for edits (?stash=true), shown and taken away. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <string.h>

enum { STASH_PAGE = 500, STASH_PATH_BYTES_MAX = 16384 };

static void put_query(struct buf *path, const char *name, const char *value)
{
    buf_printf(path, "&%s=", name);
    client_path_text(path, str_of(value));
}

/* The next part of the listing or of the removal; doc is the one before, or NULL. NULL: it was said
 * why. */
static json_t *stash_ask(struct client *c, const char *method, const char *title, const json_t *doc)
{
    const char *next = json_string_value(json_object_get(doc, "next"));
    struct buf path;
    buf_init(&path, STASH_PATH_BYTES_MAX);
    buf_put(&path, STR("/v1/admin.stash"));
    client_path_segment(&path, str_of(c->domain));
    buf_printf(&path, "?limit=%d", STASH_PAGE);
    if (title != NULL)
        put_query(&path, "title", title);
    if (next != NULL)
        put_query(&path, "page", next);
    json_t *answer = client_ask_json(
        c, &(struct client_request){ .method = method,
                                     .path = client_path(&path),
                                     .member = strcmp(method, "GET") == 0 ? "items" : "removed" });
    buf_fini(&path);
    return answer;
}

/* ---- ls ---- */

static str text_of(const json_t *item, const char *name)
{
    const json_t *t = json_object_get(item, name);
    return json_is_string(t) ? (str){ .p = json_string_value(t), .n = json_string_length(t) }
                             : STR("-");
}

static void print_item(struct out_table *t, const json_t *item)
{
    char rev[OUT_SIZE_BYTES], user[OUT_SIZE_BYTES], bytes[OUT_SIZE_BYTES];
    json_int_t id = json_integer_value(json_object_get(item, "user"));
    (void)snprintf(rev, sizeof rev, "%lld",
                   (long long)json_integer_value(json_object_get(item, "rev"))); /* fits */
    (void)snprintf(user, sizeof user, "%lld", (long long)id);
    out_size((uint64_t)json_integer_value(json_object_get(item, "bytes")), bytes);
    str kind = json_is_string(json_object_get(item, "bucket")) ? text_of(item, "bucket")
                                                               : text_of(item, "kind");
    out_table_row(t,
                  (const str[]){ kind, text_of(item, "title"), str_of(rev), text_of(item, "tid"),
                                 id == 0 ? STR("-") : str_of(user), text_of(item, "until"),
                                 str_of(bytes) },
                  NULL);
}

static const struct out_column columns[] = {
    { "BUCKET", false }, { "TITLE", false }, { "REV", true },   { "TID", false },
    { "USER", true },    { "UNTIL", false }, { "BYTES", true },
};

enum cli_exit verb_stash_ls(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct out_table *t = c.json ? NULL : out_table_new(stdout, columns, COUNT_OF(columns));
    const char *title = call->operands_count > 0 ? call->operands[0] : NULL;
    json_t *doc = NULL;
    size_t printed = 0;
    do {
        json_t *page = stash_ask(&c, "GET", title, doc), *item;
        size_t i;
        json_decref(doc);
        doc = page;
        json_array_foreach(json_object_get(doc, "items"), i, item)
        {
            printed++;
            if (c.json)
                out_json(stdout, item);
            else
                print_item(t, item);
        }
    } while (json_object_get(doc, "next") != NULL);
    if (doc != NULL || printed > 0)
        out_table_end(&t);
    out_table_drop(&t);
    code = doc == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}

/* ---- rm ---- */

static void print_removed(const struct client *c, json_int_t removed, json_int_t bytes)
{
    char size[OUT_SIZE_BYTES];
    if (c->json) {
        json_t *doc = json_pack("{s:I, s:I}", "removed", removed, "bytes", bytes);
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    out_size((uint64_t)bytes, size);
    printf("%lld removed, %s\n", (long long)removed, size);
}

enum cli_exit verb_stash_rm(struct cli_call *call)
{
    const char *title = call->operands_count > 0 ? call->operands[0] : NULL;
    struct client c;
    if ((title == NULL) != cli_flag(call, "all")) {
        return cli_fail(call, CLI_USAGE,
                        "stash rm: name a TITLE, or say --all for all of the domain");
    }
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *doc = NULL;
    json_int_t removed = 0, bytes = 0;
    do {
        json_t *page = stash_ask(&c, "DELETE", title, doc);
        json_decref(doc);
        doc = page;
        removed += json_integer_value(json_object_get(doc, "removed"));
        bytes += json_integer_value(json_object_get(doc, "bytes"));
    } while (json_object_get(doc, "next") != NULL);
    if (doc != NULL || removed > 0)
        print_removed(&c, removed, bytes);
    code = doc == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}
