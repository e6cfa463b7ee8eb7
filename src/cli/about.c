/* about.c - palimpsest version, completion and man: what the program says of itself. */
#include "cli/args.h"
#include "cli/help.h"
#include "cli/out.h"
#include "cli/render.h"
#include "cli/verbs.h"

#include <curl/curl.h>
#include <string.h>

enum cli_exit verb_version(struct cli_call *call)
{
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
    if (!cli_flag(call, "json")) {
        printf("palimpsest %s\n", CLI_VERSION);
        return CLI_OK;
    }
    json_t *doc = json_pack("{s:s, s:s, s:s, s:s}", "version", CLI_VERSION, "curl", curl->version, "jansson",
                            jansson_version_str(), "cmark-gfm", render_markdown_version());
    out_json(stdout, doc);
    json_decref(doc);
    return CLI_OK;
}

enum cli_exit verb_completion(struct cli_call *call)
{
    if (help_completion(stdout, str_of(call->operands[0])))
        return CLI_OK;
    cli_error("completion: bash, zsh or fish, not \"%s\"", call->operands[0]);
    return CLI_USAGE;
}

enum cli_exit verb_man(struct cli_call *call)
{
    if (call->operands_count == 0) {
        help_man_overview(stdout);
        return CLI_OK;
    }
    char *words[2];
    char word[2][64];
    for (unsigned i = 0; i < call->operands_count; i++) {
        if (!str_to_cstr(str_of(call->operands[i]), word[i], sizeof word[i]))
            word[i][0] = '\0';
        words[i] = word[i];
    }
    int n;
    const struct cli_verb *v = args_verb(cli_verbs, (int)call->operands_count, words, &n);
    if (v == NULL || (unsigned)n != call->operands_count) {
        cli_error("man: no verb \"%s\"", call->operands[0]);
        return CLI_USAGE;
    }
    help_man_verb(stdout, v);
    return CLI_OK;
}
