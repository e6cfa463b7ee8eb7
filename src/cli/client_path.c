/* client_path.c - the paths of requests, of words that people give: each is encoded, so none can
 * lead elsewhere. */
#include "cli/client.h"

#include "base/tid.h"

void client_path_text(struct buf *out, str text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.n; i++) {
        unsigned char ch = (unsigned char)text.p[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                     (ch >= '0' && ch <= '9') || ch == '-' || ch == '.' || ch == '_' || ch == '~';
        if (plain) {
            buf_put_c(out, (char)ch);
            continue;
        }
        buf_put_c(out, '%');
        buf_put_c(out, hex[ch >> 4]);
        buf_put_c(out, hex[ch & 15]);
    }
}

void client_path_segment(struct buf *out, str segment)
{
    buf_put_c(out, '/');
    client_path_text(out, segment);
}

str client_path(const struct buf *path)
{
    return buf_status(path) == ERR_OK ? buf_str(path) : STR("");
}

void client_path_bucket(const struct client *c, struct buf *out)
{
    client_path_segment(out, str_of(c->domain));
    buf_put(out, STR("/v1"));
    client_path_segment(out, str_of(c->bucket));
}

void client_path_render(const struct client *c, struct buf *out, str what, str title,
                        const char *const *name)
{
    client_path_bucket(c, out);
    client_path_segment(out, what);
    client_path_segment(out, title);
    for (unsigned i = 0; i < 2 && name != NULL && name[i] != NULL; i++)
        client_path_segment(out, str_of(name[i]));
}

bool client_check_name(const struct cli_call *call, unsigned operand)
{
    uint64_t rev;
    struct tid tid;
    const char *name[2] = { call->operands[operand], call->operands[operand + 1] };
    if (name[0] != NULL && (!str_to_u64(str_of(name[0]), &rev) || rev == 0 || rev > INT64_MAX)) {
        (void)cli_fail(call, CLI_USAGE, "%s: REV is a whole number from 1 on, not \"%s\"",
                       call->verb->name, name[0]);
        return false;
    }
    if (name[0] != NULL && name[1] != NULL && !tid_parse(str_of(name[1]), &tid)) {
        (void)cli_fail(call, CLI_USAGE,
                       "%s: TID is a time UUID such as 3f6c1e80-0000-11ee-8000-000000000000, not "
                       "\"%s\"",
                       call->verb->name, name[1]);
        return false;
    }
    return true;
}
