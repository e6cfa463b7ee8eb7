/* about.c - palimpsest version, completion and man: what the program says of itself. */
#include "cli/args.h"
#include "cli/help.h"
#include "cli/out.h"
#include "cli/render.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "cli/whole.h"
#include "http/client.h"
#include "loop/signals.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum cli_exit verb_version(struct cli_call *call)
{
    if (!cli_flag(call, "json")) {
        printf("palimpsest %s\n", CLI_VERSION);
        return CLI_OK;
    }
    json_t *doc =
        json_pack("{s:s, s:s, s:s, s:s}", "version", CLI_VERSION, "curl", http_client_library(),
                  "jansson", jansson_version_str(), "cmark-gfm", render_markdown_version());
    out_json(stdout, doc);
    json_decref(doc);
    return CLI_OK;
}

enum cli_exit verb_completion(struct cli_call *call)
{
    if (help_completion(stdout, str_of(call->operands[0])))
        return CLI_OK;
    return cli_fail(call, CLI_USAGE, "completion: bash, zsh or fish, not \"%s\"",
                    call->operands[0]);
}

/* One page under its name; verb NULL: the overview. */
static bool write_page(const struct cli_call *call, const char *dir, const struct cli_verb *verb)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/palimpsest%s%s.1", dir, verb != NULL ? "-" : "",
                     verb != NULL ? verb->name : "");
    if (n < 0 || (size_t)n >= sizeof path) {
        (void)cli_fail(call, CLI_FAILED, "man: the name of %s is too long", dir);
        return false;
    }
    for (char *p = path + strlen(dir) + 1; *p != '\0'; p++)
        if (*p == ' ')
            *p = '-';
    struct whole w;
    struct err_note note;
    err e = whole_begin(&w, path, &note);
    if (e == ERR_OK && verb == NULL)
        help_man_overview(w.to);
    else if (e == ERR_OK)
        help_man_verb(w.to, verb);
    if (e == ERR_OK)
        e = whole_end(&w, !stop_asked(), &note);
    signals_end();
    if (e != ERR_OK)
        (void)cli_fail(call, CLI_FAILED, "man: %s", note.text);
    return e == ERR_OK;
}

/* The folder, and those above it that are missing. */
static bool make_folder(const char *dir)
{
    char path[4096];
    if (!str_to_cstr(str_of(dir), path, sizeof path))
        return false;
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(path, 0777); /* the last one tells */
        *p = '/';
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static enum cli_exit write_pages(const struct cli_call *call, const char *dir)
{
    if (!make_folder(dir))
        return cli_fail(call, CLI_FAILED, "man: cannot make the folder %s: %s", dir,
                        strerror(errno));
    bool ok = write_page(call, dir, NULL);
    for (const struct cli_verb *v = cli_verbs; ok && v->name != NULL; v++)
        ok = write_page(call, dir, v);
    return ok ? CLI_OK : CLI_FAILED;
}

enum cli_exit verb_man(struct cli_call *call)
{
    if (cli_flag(call, "write"))
        return write_pages(call, cli_value(call, "write"));
    if (call->operands_count == 0) {
        help_man_overview(stdout);
        return CLI_OK;
    }
    char *words[CLI_VERB_WORDS_MAX];
    char word[CLI_VERB_WORDS_MAX][64];
    for (unsigned i = 0; i < call->operands_count && i < COUNT_OF(word); i++) {
        if (!str_to_cstr(str_of(call->operands[i]), word[i], sizeof word[i]))
            word[i][0] = '\0';
        words[i] = word[i];
    }
    int n;
    const struct cli_verb *v = args_verb(cli_verbs, (int)call->operands_count, words, &n);
    if (v == NULL || (unsigned)n != call->operands_count) {
        return cli_fail(call, CLI_USAGE, "man: no verb \"%s\"", call->operands[0]);
    }
    help_man_verb(stdout, v);
    return CLI_OK;
}
