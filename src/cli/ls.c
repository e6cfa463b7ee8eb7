/* ls.c - palimpsest ls: the titles of a bucket, page by page of the server's listing. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <string.h>

enum { LS_PAGE = 500 };

/* Titles may come as text or as objects with a title; borrowed from item. */
static str title_of(const json_t *item)
{
    const json_t *t = json_is_string(item) ? item : json_object_get(item, "title");
    return (str){ .p = json_string_value(t), .n = json_string_length(t) };
}

static void print_items(const struct client *c, const json_t *items, str prefix)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        str title = title_of(item);
        if (title.p == NULL || !str_starts(title, prefix))
            continue;
        if (c->json)
            out_json(stdout, item);
        else if (out_is_terminal(stdout))
            out_text(stdout, title);
        else
            fwrite(title.p, 1, title.n, stdout);
        if (!c->json)
            fputc('\n', stdout);
    }
}

/* Past the prefix in key order: nothing more can match. */
static bool past(const json_t *items, str prefix)
{
    size_t n = json_array_size(items);
    if (n == 0 || prefix.n == 0)
        return false;
    str last = str_take(title_of(json_array_get(items, n - 1)), prefix.n);
    return str_cmp(last, prefix) > 0;
}

static void list_path(const struct client *c, struct buf *path, const char *next)
{
    client_path_bucket(c, path);
    buf_printf(path, "/title/?limit=%d", LS_PAGE);
    if (next == NULL)
        return;
    buf_put(path, STR("&page="));
    client_path_text(path, str_of(next));
}

enum cli_exit verb_ls(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    str prefix = call->operands_count > 0 ? str_of(call->operands[0]) : STR("");
    json_t *doc = NULL;
    bool more = true;
    bool asked = true;
    while (asked && more) {
        struct buf path;
        buf_init(&path, 16384);
        list_path(&c, &path, json_string_value(json_object_get(doc, "next")));
        json_t *page = client_ask_json(&c, &(struct client_request){ .method = "GET",
                                                                     .path = client_path(&path),
                                                                     .member = "items" });
        buf_fini(&path);
        json_decref(doc);
        doc = page;
        asked = doc != NULL;
        if (!asked)
            code = c.failed;
        const json_t *items = json_object_get(doc, "items");
        print_items(&c, items, prefix);
        if (out_damaged(call, doc))
            code = CLI_FAILED; /* at the end: what is whole is listed */
        more = json_object_get(doc, "next") != NULL && !past(items, prefix);
    }
    json_decref(doc);
    client_close(&c);
    return code;
}
