/* rules_call.c - see rules_call.h. */
#include "app/change/rules_call.h"

#include "app/answer.h"
#include "app/errors.h"
#include "event/log.h"

enum { RULES_ANSWER_BYTES_MAX = 48 << 20 };

/* ---- what was asked ---- */

err rules_read_text(struct rules_call *c, const json_t *body, const char *name, str *out)
{
    str text = STR("");
    err why = json_body_str(body, name, &text, &c->note);
    if (why == ERR_NOT_FOUND)
        why = ERR_OK;
    if (why != ERR_OK)
        return why;
    *out = arena_copy(http_arena(c->pooled.x), text);
    return out->p == NULL ? ERR_LIMIT : ERR_OK;
}

err rules_read_id(struct rules_call *c, const json_t *body, const char *name, uint64_t *out)
{
    const json_t *value = json_object_get(body, name);
    *out = 0;
    if (value == NULL || json_is_null(value))
        return ERR_OK;
    if (json_is_integer(value) && json_integer_value(value) > 0)
        *out = (uint64_t)json_integer_value(value);
    else if (!json_is_string(value) || !str_to_u64(json_body_text(value), out) || *out == 0)
        return err_bad(&c->note, "%s: a number above 0 is wanted", name);
    return ERR_OK;
}

err rules_read_state(struct rules_call *c, const json_t *body, int *out)
{
    str name;
    err why = json_body_str(body, "state", &name, &c->note);
    *out = -1;
    if (why == ERR_NOT_FOUND)
        return ERR_OK;
    for (int i = 0; why == ERR_OK && i < CHANGE_STATES; i++)
        if (str_eq(name, str_of(change_state_name((enum change_state)i))))
            *out = i;
    if (why == ERR_OK && *out < 0)
        return err_bad(&c->note, "state: ready, waiting, scheduled or dead is wanted");
    return why;
}

/* The members that a body has to have. */
static err check_wanted(struct rules_call *c, const json_t *body)
{
    for (const char *const *name = c->way->wanted; *name != NULL; name++) {
        const json_t *value = json_object_get(body, *name);
        if (value == NULL || json_is_null(value))
            return err_bad(&c->note, "%s is missing", *name);
    }
    return ERR_OK;
}

/* ---- the call ---- */

static void call_run(struct pooled *p)
{
    struct rules_call *c = CONTAINER_OF(p, struct rules_call, pooled);
    const struct app *app = p->app;
    const struct rules_json json = { .out = &c->out,
                                     .arena = http_arena(p->x),
                                     .log = event_log_id(app->events),
                                     .now = clock_store(app->clock) };
    c->why = c->way->run(c, &json);
    if (c->why == ERR_OK)
        c->why = buf_status(&c->out);
}

static void call_answer(struct pooled *p)
{
    struct rules_call *c = CONTAINER_OF(p, struct rules_call, pooled);
    if (c->why == ERR_OK && !c->again && c->wait != NULL) {
        c->wait(c);
        return;
    }
    str body = c->why == ERR_OK ? buf_take(&c->out, http_arena(p->x)) : STR_NONE;
    buf_fini(&c->out);
    if (c->why == ERR_OK && body.p == NULL)
        c->why = ERR_LIMIT;
    if (c->why == ERR_OK)
        answer_json(p->x, 200, body, "no-store");
    else if (c->faults.n > 0)
        app_problem(p->x, 400, "bad_request#rules", NULL, c->faults, STR_NONE);
    else
        app_fail(p->x, c->why, &c->note);
}

static void call_again(struct task *t)
{
    struct rules_call *c = CONTAINER_OF(t, struct rules_call, pooled.task);
    c->again = true;
    if (c->why == ERR_OK)
        pooled_again(&c->pooled, call_run, call_answer);
    else
        call_answer(&c->pooled);
}

void rules_call_go_on(struct rules_call *c, err why)
{
    c->why = why;
    c->pooled.task.run = call_again;
    home_post(c->pooled.home, &c->pooled.task);
}

void rules_call_start(struct http_exchange *x, void *app)
{
    struct rules_call *c = pooled_new(x, app, sizeof *c);
    json_t *body = NULL;
    if (c == NULL)
        return;
    c->way = http_route(x)->row;
    err why = json_body_parse(http_body(x), &body, &c->note);
    if (why == ERR_OK && !json_is_object(body))
        why = err_bad(&c->note, "an object is wanted");
    if (why == ERR_OK)
        why = json_body_only(body, c->way->members, &c->note);
    if (why == ERR_OK)
        why = check_wanted(c, body);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "rule", &c->rule);
    if (why == ERR_OK)
        why = c->way->read(c, body);
    json_decref(body);
    if (why == ERR_BAD) {
        app_refused(x, 400, "bad_request#invalid_body", c->note.text);
        return;
    }
    if (why != ERR_OK) {
        app_fail(x, why, NULL);
        return;
    }
    c->note.text[0] = '\0'; /* of members that are absent */
    buf_init(&c->out, RULES_ANSWER_BYTES_MAX);
    pooled_start(&c->pooled, call_run, call_answer);
}

err rules_put_rule(struct rules_call *c, const struct rules_json *out)
{
    struct change_status s;
    err why = change_status_get(c->pooled.app->change, out->arena, &s);
    if (why != ERR_OK)
        return why;
    for (unsigned i = 0; i < s.rules_count; i++) {
        if (str_eq(s.rules[i].name, c->rule)) {
            rules_json_rule(out, &s, &s.rules[i]);
            return ERR_OK;
        }
    }
    return ERR_NOT_FOUND; /* it has just gone */
}
