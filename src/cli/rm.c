/* rm.c - palimpsest rm: purges a title, a revision or a render. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"

enum cli_exit verb_rm(struct cli_call *call)
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
    client_path_render(&c, &path, STR("all"), str_of(call->operands[0]), name);
    bool ok = client_order(&c, &(struct client_request){ .method = "DELETE",
                                                         .path = client_path(&path) });
    if (ok && c.json) {
        json_t *doc = json_pack("{s:s, s:b}", "title", call->operands[0], "purged", 1);
        out_json(stdout, doc);
        json_decref(doc);
    }
    buf_fini(&path);
    client_close(&c);
    return ok ? CLI_OK : c.failed;
}
