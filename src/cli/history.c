/* history.c - palimpsest history and explain: what is stored of a title, and why. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <string.h>

enum { HISTORY_PAGE = 200 };

static str text_of(const json_t *item, const char *name)
{
    const json_t *t = json_object_get(item, name);
    return json_is_string(t) ? (str){ .p = json_string_value(t), .n = json_string_length(t) }
                             : STR("-");
}

static const char *colour_of(str state)
{
    if (str_eq(state, STR("current")))
        return "32";
    if (str_eq(state, STR("recent")))
        return NULL;
    return "2";
}

static void add_row(struct out_table *t, const json_t *item)
{
    char rev[24], size[OUT_SIZE_BYTES];
    snprintf(rev, sizeof rev, "%lld", (long long)json_integer_value(json_object_get(item, "rev")));
    uint64_t bytes = 0;
    const char *name;
    json_t *n;
    json_object_foreach(json_object_get(item, "bytes"), name, n) bytes +=
        (uint64_t)json_integer_value(n);
    out_size(bytes, size);
    str state = text_of(item, "state");
    out_table_row(t,
                  (const str[]){ str_of(rev), text_of(item, "tid"), text_of(item, "rendered_at"),
                                 state, text_of(item, "due_at"), str_of(size) },
                  colour_of(state));
}

static json_t *ask_page(struct client *c, const struct cli_call *call, const char *next)
{
    struct buf path;
    buf_init(&path, 16384);
    client_path_render(c, &path, STR("history"), str_of(call->operands[0]), NULL);
    buf_printf(&path, "?limit=%d", HISTORY_PAGE);
    if (next != NULL) {
        buf_put(&path, STR("&page="));
        client_path_text(&path, str_of(next));
    }
    json_t *page =
        client_ask_json(c, &(struct client_request){
                               .method = "GET", .path = client_path(&path), .member = "items" });
    buf_fini(&path);
    return page;
}

static void take_items(const struct client *c, struct out_table *table, const json_t *items)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        if (c->json)
            out_json(stdout, item);
        else
            add_row(table, item);
    }
}

enum cli_exit verb_history(struct cli_call *call)
{
    static const struct out_column columns[] = {
        { "REV", true },    { "TID", false }, { "RENDERED", false },
        { "STATE", false }, { "DUE", false }, { "BYTES", true },
    };
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct out_table *table = c.json ? NULL : out_table_new(stdout, columns, COUNT_OF(columns));
    json_t *doc = ask_page(&c, call, NULL);
    bool any = doc != NULL;
    while (doc != NULL) {
        take_items(&c, table, json_object_get(doc, "items"));
        if (out_damaged(call, doc))
            code = CLI_FAILED;
        const char *next = json_string_value(json_object_get(doc, "next"));
        json_t *page = next != NULL ? ask_page(&c, call, next) : NULL;
        if (next != NULL && page == NULL)
            code = c.failed;
        json_decref(doc);
        doc = page;
    }
    if (!any)
        code = c.failed;
    if (any)
        out_table_end(&table);
    else
        out_table_drop(&table);
    client_close(&c);
    return code;
}

static void print_value(const char *name, const json_t *value)
{
    if (json_is_string(value)) {
        out_pair(stdout, name,
                 (str){ .p = json_string_value(value), .n = json_string_length(value) });
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text != NULL)
        out_pair(stdout, name, str_of(text));
    free(text);
}

enum cli_exit verb_explain(struct cli_call *call)
{
    struct client c;
    if (!client_check_name(call, 1))
        return CLI_USAGE;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct buf path;
    buf_init(&path, 8192);
    const char *name[2] = { call->operands[1], call->operands[2] };
    client_path_render(&c, &path, STR("explain"), str_of(call->operands[0]), name);
    json_t *doc =
        client_ask_json(&c, &(struct client_request){
                                .method = "GET", .path = client_path(&path), .member = "title" });
    buf_fini(&path);
    client_close(&c);
    if (doc == NULL)
        return c.failed;
    if (c.json) {
        out_json(stdout, doc);
    } else {
        const char *key;
        json_t *value;
        json_object_foreach(doc, key, value) print_value(key, value);
    }
    code = out_damaged(call, doc) ? CLI_FAILED : CLI_OK;
    json_decref(doc);
    return code;
}
