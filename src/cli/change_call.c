/* change_call.c - calls and cells of the verbs of rules; see change_call.h. */
#include "cli/change_call.h"

#include "base/date.h"
#include "codec/json.h"
#include "loop/sysclock.h"

#include <inttypes.h>
#include <stdlib.h>

json_t *change_post(struct client *c, const char *name, json_t *body, const char *member)
{
    char path[64];
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    INVARIANT(text != NULL); /* of words that a command line has */
    (void)snprintf(path, sizeof path, "/v1/admin.change.%s", name); /* fits */
    json_t *doc = client_ask_json(c, &(struct client_request){ .method = "POST",
                                                               .path = str_of(path),
                                                               .has_body = true,
                                                               .content_type = "application/json",
                                                               .body = str_of(text),
                                                               .member = member });
    free(text);
    json_decref(body);
    return doc;
}

/* Tells of what is neither an answer nor 404. */
static json_t *try_read(struct client *c, const struct client_answer *a, err why,
                        struct err_note *note)
{
    bool good = why == ERR_OK && a->status >= 200 && a->status < 300;
    json_t *doc = good ? json_body_read(buf_str(&a->body)) : NULL;
    if (doc != NULL)
        return doc;
    c->failed = why == ERR_OK ? client_explain(c, a, note) : cli_exit_of(why);
    (void)cli_fail_status(c->call, c->failed, why == ERR_OK ? a->status : 0,
                          note->text); /* gives failed back */
    return NULL;
}

json_t *change_try(struct client *c, const char *name, json_t *body, bool *absent)
{
    char path[64];
    struct client_answer a;
    struct err_note note = { "" };
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    INVARIANT(text != NULL);                                        /* as above */
    (void)snprintf(path, sizeof path, "/v1/admin.change.%s", name); /* fits */
    err why = client_send(c,
                          &(struct client_request){ .method = "POST",
                                                    .path = str_of(path),
                                                    .has_body = true,
                                                    .content_type = "application/json",
                                                    .body = str_of(text) },
                          &a, &note);
    *absent = why == ERR_OK && a.status == 404;
    json_t *doc = *absent ? NULL : try_read(c, &a, why, &note);
    client_answer_fini(&a);
    free(text);
    json_decref(body);
    return doc;
}

json_t *change_status(struct client *c)
{
    json_t *doc = client_ask_json(c, &(struct client_request){ .method = "GET",
                                                               .path = STR("/v1/admin.change"),
                                                               .member = "rules" });
    if (doc == NULL || json_is_array(json_object_get(doc, "rules")))
        return doc;
    json_decref(doc);
    c->failed = cli_fail(c->call, CLI_NO_SERVER, "the server cannot read its rules now");
    return NULL;
}

const json_t *change_rule_of(struct client *c, const json_t *status, const char *name)
{
    const json_t *rule;
    size_t i;
    json_array_foreach(json_object_get(status, "rules"), i, rule)
    {
        if (str_eq(change_text(rule, "name"), str_of(name)))
            return rule;
    }
    c->failed = cli_fail(c->call, CLI_NOT_FOUND, "there is no rule %s", name);
    return NULL;
}

str change_text(const json_t *doc, const char *member)
{
    const json_t *t = json_object_get(doc, member);
    return json_is_string(t) ? (str){ .p = json_string_value(t), .n = json_string_length(t) }
                             : STR("-");
}

void change_age_cell(const json_t *doc, const char *member, char out[QUEUE_CELL_BYTES])
{
    const json_t *s = json_object_get(doc, member);
    int64_t n = json_integer_value(s);
    if (!json_is_integer(s) || n < 0 || n > INT64_MAX / NS_PER_S)
        (void)snprintf(out, QUEUE_CELL_BYTES, "-"); /* fits, as the next */
    else if (n == 0)
        (void)snprintf(out, QUEUE_CELL_BYTES, "0s");
    else
        queue_age_cell(n * NS_PER_S, out);
}

int64_t change_now_ns(void)
{
    struct sysclock *sysclock = sysclock_new();
    int64_t ns = clock_wall(sysclock_clock(sysclock)).ns;
    sysclock_free(&sysclock);
    return ns;
}

void change_away_cell(const json_t *doc, const char *member, int64_t sign, int64_t now,
                      char out[QUEUE_CELL_BYTES])
{
    int64_t at;
    (void)snprintf(out, QUEUE_CELL_BYTES, "-"); /* fits, as the next */
    if (!date_parse_rfc3339(str_of(queue_text(doc, member)), &at))
        return;
    queue_age_cell(sign * (now - at), out);
    if (out[0] == '-')
        (void)snprintf(out, QUEUE_CELL_BYTES, "0s");
}

const char *change_rule_state(const json_t *rule)
{
    if (json_is_true(json_object_get(rule, "removed")))
        return "removed";
    if (json_is_true(json_object_get(rule, "paused")))
        return "paused";
    return json_is_true(json_object_get(rule, "replaying")) ? "replays" : "on";
}

void change_running_cell(const json_t *rule, char out[QUEUE_CELL_BYTES])
{
    const json_t *limit = json_object_get(rule, "limit");
    (void)snprintf(out, QUEUE_CELL_BYTES, "%" PRId64 "/%" PRId64, queue_count(rule, "running"),
                   queue_count(limit, "concurrency")); /* fits: two numbers of 64 bits at most */
}

bool change_operand(const struct cli_call *call, unsigned operand, int64_t min, int64_t max,
                    int64_t *value)
{
    if (str_to_i64(str_of(call->operands[operand]), value) && *value >= min && *value <= max)
        return true;
    (void)cli_fail(call, CLI_USAGE, "%s: a number from %lld to %lld is wanted, not \"%s\"",
                   call->verb->name, (long long)min, (long long)max, call->operands[operand]);
    return false;
}
