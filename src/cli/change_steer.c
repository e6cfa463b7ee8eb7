/* change_steer.c - palimpsest change pause, resume, limit, replay, retry and drop: a call each, and
 * a line of what it did. */
#include "cli/change_call.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include "codec/json.h"

#include <inttypes.h>

/* What the server says is printed as it is with --json, else line, which names the rule. */
static enum cli_exit change_steer_steer(struct cli_call *call, const char *name, json_t *body,
                                        const char *line)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK) {
        json_decref(body);
        return code;
    }
    json_t *doc = change_post(&c, name, body, "name");
    if (doc != NULL && c.json) {
        out_json(stdout, doc);
    } else if (doc != NULL) {
        out_text(stdout, str_of(call->operands[0]));
        printf(" %s\n", line);
    }
    code = doc == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}

static json_t *of_rule(const struct cli_call *call)
{
    return json_pack("{s:s}", "rule", call->operands[0]);
}

enum cli_exit verb_change_pause(struct cli_call *call)
{
    return change_steer_steer(call, "pause", of_rule(call),
                              "is paused; what runs comes to its end");
}

enum cli_exit verb_change_resume(struct cli_call *call)
{
    return change_steer_steer(call, "resume", of_rule(call), "goes on");
}

enum cli_exit verb_change_limit(struct cli_call *call)
{
    int64_t concurrency = 0;
    const char *rate = cli_value(call, "rate");
    bool reset = cli_flag(call, "reset"), given = rate != NULL || cli_value(call, "concurrency");
    if (!queue_number(call, "concurrency", 1, 10000, &concurrency))
        return CLI_USAGE;
    if (reset == given)
        return cli_fail(call, CLI_USAGE,
                        "change limit: give --concurrency, --rate or both, or --reset alone");
    json_t *body = of_rule(call);
    if (concurrency > 0)
        (void)json_object_set_new(body, "concurrency", json_integer(concurrency));
    if (rate != NULL)
        (void)json_object_set_new(body, "rate", json_string(rate)); /* dies with the process */
    return change_steer_steer(call, "limit", body,
                              reset ? "has its own limits again"
                                    : "has other limits until the server starts again");
}

enum cli_exit verb_change_replay(struct cli_call *call)
{
    const char *from = cli_value(call, "from");
    if (from == NULL)
        return cli_fail(call, CLI_USAGE, "change replay: --from says from when on");
    json_t *body = of_rule(call);
    (void)json_object_set_new(body, "from", json_string(from));
    return change_steer_steer(call, "replay", body, "is asked again about what was taken since");
}

/* ---- retry, drop ---- */

static enum cli_exit count_of(struct cli_call *call, const char *name, json_t *body,
                              const char *what)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK) {
        json_decref(body);
        return code;
    }
    json_t *doc = change_post(&c, name, body, "count");
    int64_t count = queue_count(doc, "count");
    if (doc == NULL)
        code = c.failed;
    else if (c.json)
        out_json(stdout, doc);
    else
        printf("%" PRId64 " item%s %s%s\n", count, count == 1 ? "" : "s", what,
               count == 0 && call->operands_count > 1 ? CHANGE_NOT_RETRIED : "");
    json_decref(doc);
    client_close(&c);
    return code;
}

/* NULL: it was said what is wrong. */
static json_t *of_items(const struct cli_call *call)
{
    json_t *body = of_rule(call);
    int64_t id;
    if (call->operands_count < 2)
        return body;
    if (!change_operand(call, 1, 1, INT64_MAX, &id)) {
        json_decref(body);
        return NULL;
    }
    (void)json_object_set_new(body, "id", json_string(call->operands[1]));
    return body;
}

enum cli_exit verb_change_retry(struct cli_call *call)
{
    json_t *body = of_items(call);
    return body == NULL ? CLI_USAGE : count_of(call, "retry", body, "ready again");
}

enum cli_exit verb_change_drop(struct cli_call *call)
{
    const char *state = cli_value(call, "state");
    if (!cli_flag(call, "yes"))
        return cli_fail(call, CLI_USAGE,
                        "change drop: what is dropped is never done; --yes says that it may be");
    json_t *body = of_items(call);
    if (body == NULL)
        return CLI_USAGE;
    if (state != NULL)
        (void)json_object_set_new(body, "state", json_string(state));
    return count_of(call, "drop", body, "dropped");
}
