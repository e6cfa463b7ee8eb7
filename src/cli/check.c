/* check.c - palimpsest check: verifies a store, that of a running server or, with --data, one at
 * rest. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/store.h"
#include "cli/verbs.h"

#include <string.h>
#include <sys/stat.h>

static void print_found(const json_t *found, uint64_t damages)
{
    size_t i;
    json_t *item;
    json_array_foreach(found, i, item)
    {
        out_text(stdout, (str){ .p = json_string_value(item), .n = json_string_length(item) });
        fputc('\n', stdout);
    }
    if (damages == 0)
        puts("no damage found");
    else
        printf("%llu %s found\n", (unsigned long long)damages, damages == 1 ? "damage" : "damages");
}

static enum cli_exit check_offline(const struct cli_call *call, const char *dir)
{
    bool json = cli_flag(call, "json");
    struct stat st;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return cli_fail(call, CLI_FAILED, "check: %s is no directory", dir);
    }
    struct store_check c;
    err e = store_check(dir, !json, &c);
    bool opened = e == ERR_OK || c.damages > 0;
    if (!opened)
        (void)cli_fail(call, store_exit(e), "check: %s: %s", dir, c.note.text);
    else if (!json)
        print_found(c.found, c.damages);
    if (json) {
        json_t *doc = json_pack("{s:b, s:I, s:O}", "ok", e == ERR_OK, "damages",
                                (json_int_t)c.damages, "found", c.found);
        if (!opened)
            json_object_set_new(doc, "detail", json_string(c.note.text));
        out_json(stdout, doc);
        json_decref(doc);
    }
    json_decref(c.found);
    return store_exit(e);
}

static enum cli_exit check_online(const struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *doc = client_ask_json(&c, &(struct client_request){ .method = "POST",
                                                                .path = STR("/v1/admin.check"),
                                                                .has_body = true,
                                                                .body = STR("{}"),
                                                                .patient = true,
                                                                .member = "ok" });
    if (doc == NULL) {
        code = c.failed;
    } else {
        if (c.json)
            out_json(stdout, doc);
        else
            print_found(json_object_get(doc, "found"),
                        (uint64_t)json_integer_value(json_object_get(doc, "damages")));
        if (!c.json)
            store_tell_rest(doc);
        code = json_is_true(json_object_get(doc, "ok")) ? CLI_OK : CLI_DAMAGED;
    }
    json_decref(doc);
    client_close(&c);
    return code;
}

enum cli_exit verb_check(struct cli_call *call)
{
    const char *dir = cli_value(call, "data");
    return dir != NULL ? check_offline(call, dir) : check_online(call);
}
