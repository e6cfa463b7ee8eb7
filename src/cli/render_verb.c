/* render_verb.c - palimpsest render: has the server ask the origin for a render now. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "codec/json.h"
#include "loop/sysclock.h"

#include <stdlib.h>
#include <string.h>

/* The tid of the newest stored render; false: there is none. */
static bool ask_stored(struct client *c, str title, const char *rev,
                       char tid[CLIENT_FIELD_BYTES_MAX])
{
    struct buf path;
    buf_init(&path, 8192);
    client_path_render(c, &path, STR("explain"), title, (const char *const[]){ rev, NULL });
    struct client_answer a;
    struct err_note note;
    bool found = false;
    if (client_send(c,
                    &(struct client_request){
                        .method = "GET", .path = client_path(&path), .follow = true },
                    &a, &note) == ERR_OK &&
        a.status == 200) {
        json_t *doc = json_body_read(buf_str(&a.body));
        const char *text = json_string_value(json_object_get(doc, "tid"));
        found = text != NULL && str_to_cstr(str_of(text), tid, CLIENT_FIELD_BYTES_MAX);
        json_decref(doc);
    }
    client_answer_fini(&a);
    buf_fini(&path);
    return found;
}

static void print_render(const struct client *c, str title, const struct client_answer *a,
                         bool changed, int64_t ms)
{
    uint64_t rev;
    str tid;
    (void)client_etag_read(a->etag, &rev, &tid); /* a server without an origin answers 404 */
    if (c->json) {
        json_t *doc =
            json_pack("{s:s%, s:I, s:s%, s:b, s:s, s:I, s:I}", "title", title.p, title.n, "rev",
                      (json_int_t)rev, "tid", tid.p, tid.n, "changed", changed, "content_type",
                      a->content_type, "bytes", (json_int_t)a->body.n, "ms", (json_int_t)ms);
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    out_text(stdout, title);
    printf(" revision %llu render ", (unsigned long long)rev);
    out_text(stdout, tid);
    printf(": %s, %zu bytes, %lld ms\n", changed ? "new" : "the same as the stored one", a->body.n,
           (long long)ms);
}

enum cli_exit verb_render(struct cli_call *call)
{
    struct client c;
    if (!client_check_name(call, 1))
        return CLI_USAGE;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct sysclock *sysclock = sysclock_new();
    str title = str_of(call->operands[0]);
    const char *rev = call->operands[1];
    char stored[CLIENT_FIELD_BYTES_MAX];
    bool was_stored = ask_stored(&c, title, rev, stored);
    struct buf path;
    buf_init(&path, 8192);
    client_path_render(&c, &path, STR("html"), title, (const char *const[]){ rev, NULL });
    buf_put(&path, STR("?redirect=false"));
    mono began = clock_mono(sysclock_clock(sysclock));
    struct client_answer a;
    bool ok = client_ask(&c,
                         &(struct client_request){ .method = "GET",
                                                   .path = client_path(&path),
                                                   .follow = true,
                                                   .render = true,
                                                   .header = "Cache-Control: no-cache" },
                         &a);
    if (ok) {
        uint64_t number;
        str tid;
        bool changed =
            !client_etag_read(a.etag, &number, &tid) || !was_stored || !str_eq(tid, str_of(stored));
        print_render(&c, title, &a, changed,
                     (clock_mono(sysclock_clock(sysclock)).ns - began.ns) / NS_PER_MS);
    }
    client_answer_fini(&a);
    buf_fini(&path);
    sysclock_free(&sysclock);
    client_close(&c);
    return ok ? CLI_OK : c.failed;
}
