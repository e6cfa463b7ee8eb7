/* timeline.c - palimpsest timeline: what was superseded before an instant, as a rule keeps it. */
#include "cli/change_call.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <string.h>

enum { TIMELINE_PAGE = 1000, TIMELINE_LIMIT = 1000, TIMELINE_LIMIT_MAX = 1000 * 1000 * 1000 };

static void set_option(json_t *body, const struct cli_call *call, const char *name)
{
    if (cli_value(call, name) != NULL)
        (void)json_object_set_new(body, name, json_string(cli_value(call, name)));
}

/* next NULL: the first page. */
static json_t *page_ask(struct client *c, const json_t *next, int64_t limit)
{
    json_t *body = json_object();
    set_option(body, c->call, "before");
    set_option(body, c->call, "domain");
    set_option(body, c->call, "title");
    set_option(body, c->call, "kind");
    set_option(body, c->call, "keep");
    if (cli_value(c->call, "title") != NULL && cli_value(c->call, "domain") == NULL)
        (void)json_object_set_new(body, "domain", json_string("localhost"));
    (void)json_object_set_new(body, "limit",
                              json_integer(limit < TIMELINE_PAGE ? limit : TIMELINE_PAGE));
    if (next != NULL)
        (void)json_object_set(body, "pivot", (json_t *)(uintptr_t)next);
    return change_post(c, "timeline", body, "entries");
}

static void entry_print(struct client *c, struct out_table *t, json_t *entry)
{
    char rev[QUEUE_CELL_BYTES];
    if (c->json) {
        out_json(stdout, entry);
        return;
    }
    queue_number_cell(queue_count(entry, "rev"), rev);
    out_table_row(t,
                  (const str[]){ change_text(entry, "at"), change_text(entry, "domain"),
                                 change_text(entry, "kind"), str_of(rev), change_text(entry, "tid"),
                                 change_text(entry, "title") },
                  NULL);
}

/* left: so many entries at most. *more: there are others. */
static enum cli_exit pages_print(struct client *c, struct out_table *t, int64_t left, bool *more)
{
    json_t *page = NULL;
    const json_t *next = NULL;
    for (*more = true; *more && left > 0;) {
        json_t *entry, *last = page;
        size_t i;
        page = page_ask(c, next, left);
        json_decref(last);
        if (page == NULL)
            return c->failed;
        json_array_foreach(json_object_get(page, "entries"), i, entry) entry_print(c, t, entry);
        left -= (int64_t)i;
        next = json_object_get(page, "next");
        *more = json_is_string(next);
    }
    json_decref(page);
    return CLI_OK;
}

enum cli_exit verb_timeline_ls(struct cli_call *call)
{
    static const struct out_column columns[] = { { "AT", false },   { "DOMAIN", false },
                                                 { "KIND", false }, { "REV", true },
                                                 { "TID", false },  { "TITLE", false } };
    struct client c;
    int64_t limit = TIMELINE_LIMIT;
    bool more;
    if (!queue_number(call, "limit", 1, TIMELINE_LIMIT_MAX, &limit))
        return CLI_USAGE;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct out_table *t = c.json ? NULL : out_table_new(stdout, columns, COUNT_OF(columns));
    code = pages_print(&c, t, limit, &more);
    if (t != NULL)
        out_table_end(&t);
    if (code == CLI_OK && more && !c.json)
        printf("there are more: --limit says how many are shown\n");
    client_close(&c);
    return code;
}
