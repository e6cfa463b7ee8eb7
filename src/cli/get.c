/* get.c - palimpsest get: one content of a render. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "cli/whole.h"
#include "loop/signals.h"

#include <string.h>
#include <unistr.h>

static void query_of(const struct client *c, const struct cli_call *call, struct buf *path)
{
    const char *content = cli_value(call, "content");
    const char *name[2] = { call->operands[1], call->operands[2] };
    client_path_render(c, path, content != NULL ? str_of(content) : STR("html"),
                       str_of(call->operands[0]), name);
    const char *at = cli_value(call, "at");
    if (at != NULL) {
        buf_put(path, STR("?at="));
        client_path_text(path, str_of(at));
    }
}

static void print_json(const struct cli_call *call, const struct client_answer *a)
{
    str body = buf_str(&a->body);
    str tid;
    uint64_t number;
    (void)client_etag_read(a->etag, &number, &tid); /* 0 when the server has no revisions to tell */
    json_t *doc = json_pack("{s:s, s:I, s:s%, s:s, s:I}", "title", call->operands[0], "rev",
                            (json_int_t)number, "tid", tid.p, tid.n, "content_type",
                            a->content_type, "bytes", (json_int_t)body.n);
    if (u8_check((const uint8_t *)body.p, body.n) == NULL)
        json_object_set_new(doc, "body", json_stringn(body.p != NULL ? body.p : "", body.n));
    out_json(stdout, doc);
    json_decref(doc);
}

static bool ask_into(struct client *c, str path, FILE *to, const char *name)
{
    struct client_answer a;
    bool ok = client_ask(c,
                         &(struct client_request){ .method = "GET",
                                                   .path = path,
                                                   .to = to,
                                                   .to_name = name,
                                                   .follow = true,
                                                   .render = true },
                         &a);
    client_answer_fini(&a);
    return ok;
}

/* For eyes: what would move the cursor or change colours is shown, not done. */
static bool get_to_terminal(struct client *c, str path)
{
    struct client_answer a;
    bool ok = client_ask(c,
                         &(struct client_request){
                             .method = "GET", .path = path, .follow = true, .render = true },
                         &a);
    if (ok)
        out_shown(stdout, buf_str(&a.body));
    client_answer_fini(&a);
    return ok;
}

static bool get_to_file(struct client *c, str path, const char *file)
{
    struct whole w;
    struct err_note note;
    err e = whole_begin(&w, file, &note);
    bool ok = e == ERR_OK && ask_into(c, path, w.to, w.name);
    if (e == ERR_OK)
        e = whole_end(&w, ok, &note);
    if (e != ERR_OK)
        c->failed = cli_fail(c->call, CLI_FAILED, "get: %s", note.text);
    return ok && e == ERR_OK;
}

static bool get_json(struct client *c, const struct cli_call *call, str path)
{
    struct client_answer a;
    bool ok = client_ask(c,
                         &(struct client_request){
                             .method = "GET", .path = path, .follow = true, .render = true },
                         &a);
    if (ok)
        print_json(call, &a);
    client_answer_fini(&a);
    return ok;
}

enum cli_exit verb_get(struct cli_call *call)
{
    const char *file = cli_value(call, "output");
    if (file != NULL && cli_flag(call, "json"))
        return cli_fail(call, CLI_USAGE, "get: --output and --json exclude each other");
    struct client c;
    if (!client_check_name(call, 1))
        return CLI_USAGE;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct buf path;
    buf_init(&path, 8192);
    query_of(&c, call, &path);
    bool ok;
    if (c.json)
        ok = get_json(&c, call, client_path(&path));
    else if (file != NULL && strcmp(file, "-") != 0)
        ok = get_to_file(&c, client_path(&path), file);
    else if (file == NULL && out_is_terminal(stdout))
        ok = get_to_terminal(&c, client_path(&path));
    else
        ok = ask_into(&c, client_path(&path), stdout, "standard output");
    buf_fini(&path);
    client_close(&c);
    signals_end();
    return ok ? CLI_OK : c.failed;
}
