/* change_rules.c - palimpsest change rules check: the faults of a file of rules, and what may be a
 * slip, for people and for scripts that check a configuration before it is used. */
#include "base/utf8.h"
#include "cli/change.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <errno.h>
#include <string.h>

enum cli_exit change_read(const struct cli_call *call, const char *path, struct buf *out)
{
    char chunk[16384];
    size_t n;
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *from = is_stdin ? stdin : fopen(path, "rb");
    if (from == NULL)
        return cli_fail(call, CLI_FAILED, "%s: cannot read %s: %s", call->verb->name, path,
                        strerror(errno));
    while (buf_status(out) == ERR_OK && (n = fread(chunk, 1, sizeof chunk, from)) > 0)
        buf_put(out, (str){ .p = chunk, .n = n });
    int failed = ferror(from) ? errno : 0;
    if (!is_stdin)
        fclose(from);
    if (failed != 0)
        return cli_fail(call, CLI_FAILED, "%s: cannot read %s: %s", call->verb->name, path,
                        strerror(failed));
    if (buf_status(out) != ERR_OK)
        return cli_fail(call, CLI_FAILED, "%s: %s has more than %zu bytes", call->verb->name, path,
                        out->bytes_max);
    return CLI_OK;
}

enum { PATH_SHOWN_BYTES = 4096 };
struct teller {
    const char *path;
    FILE *to;
    bool json;
};

static void tell_as(const struct teller *t, const char *what, const struct rule_fault *fault)
{
    if (t->json) {
        char path[PATH_SHOWN_BYTES];
        path[utf8_clean(str_of(t->path), path, sizeof path - 1)] = '\0';
        json_t *doc =
            json_pack("{s:s, s:I, s:s%, s:s}", "file", path, "line", (json_int_t)fault->line,
                      "rule", fault->rule.p, fault->rule.n, what, fault->text);
        out_json(t->to, doc);
        json_decref(doc);
        return;
    }
    out_text(t->to, str_of(t->path));
    if (fault->line > 0)
        fprintf(t->to, ":%u", fault->line);
    fputs(": ", t->to);
    out_text(t->to, fault->rule);
    fputs(fault->rule.n > 0 ? ": " : "", t->to);
    fputs(strcmp(what, "fault") == 0 ? "" : "warning: ", t->to);
    out_text(t->to, str_of(fault->text));
    fputc('\n', t->to);
}

static void change_rules_tell(void *ctx, const struct rule_fault *fault)
{
    tell_as(ctx, "fault", fault);
}

static void warn(void *ctx, const struct rule_fault *fault)
{
    tell_as(ctx, "warning", fault);
}

enum cli_exit change_rules(const struct cli_call *call, const char *path, str text, FILE *to,
                           struct rule_set **out)
{
    struct teller t = { .path = path, .to = to, .json = cli_flag(call, "json") };
    return rule_set_read(text, change_rules_tell, &t, out) == ERR_OK ? CLI_OK : CLI_USAGE;
}

enum cli_exit verb_change_rules_check(struct cli_call *call)
{
    const char *path = call->operands[0];
    struct rule_set *rules = NULL;
    struct buf text;
    buf_init(&text, RULE_TEXT_BYTES_MAX);
    enum cli_exit code = change_read(call, path, &text);
    if (code == CLI_OK)
        code = change_rules(call, path, buf_str(&text), stdout, &rules);
    if (code == CLI_OK) {
        struct teller t = { .path = path, .to = stdout, .json = cli_flag(call, "json") };
        rule_set_doubt(rules, warn, &t);
    }
    if (code == CLI_OK && !cli_flag(call, "json")) {
        unsigned count = rule_set_count(rules);
        out_text(stdout, str_of(path));
        printf(": %u rule%s, no fault\n", count, count == 1 ? "" : "s");
    }
    rule_set_unref(&rules);
    buf_fini(&text);
    return code;
}
