/* hooks.c - POST /v1/test.clock and /v1/test.pause: only with --test-hooks, only on loopback
 * (docs/api.md, 9). */
#include "app/answer.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "base/date.h"
#include "base/units.h"
#include "codec/json.h"
#include "loop/sysclock.h"
#include "queue/queue.h"

enum { HOOK_BODY_BYTES_MAX = 4096 };

/* Does what became due, then answers. */
static void upkeep_run(struct pooled *p)
{
    p->app->upkeep_all(p->app);
}

static void upkeep_answer(struct pooled *p)
{
    char now[DATE_RFC3339_BYTES + 1];
    date_format_ns(clock_store(p->app->clock).ns, now);
    str body = arena_printf(http_arena(p->x), "{\"now\":\"%s\"}\n", now);
    if (body.p == NULL)
        app_fail(p->x, ERR_LIMIT, NULL);
    else
        answer_json(p->x, 200, body, "no-store");
}

static err hooks_freeze(struct sysclock *clock, const json_t *body, struct err_note *note)
{
    str text;
    int64_t ns;
    err why = json_body_str(body, "freeze", &text, note);
    if (why != ERR_OK)
        return why;
    if (!date_parse_rfc3339(text, &ns))
        return err_bad(note, "freeze: wanted is " DATE_WANTED);
    return sysclock_freeze(clock, (store_time){ .ns = ns }, note);
}

static err hooks_advance(struct sysclock *clock, const json_t *body, struct err_note *note)
{
    str text;
    int64_t ns;
    err why = json_body_str(body, "advance", &text, note);
    if (why != ERR_OK)
        return why;
    if (!units_parse_duration(text, &ns) || ns == DURATION_NEVER)
        return err_bad(note, "advance: a duration such as 90s is wanted");
    return sysclock_advance(clock, ns, note);
}

static err hooks_resume(struct sysclock *clock, const json_t *body, struct err_note *note)
{
    bool on = false;
    err why = json_body_bool(body, "resume", &on, note);
    if (why != ERR_OK)
        return why;
    if (!on)
        return err_bad(note, "resume: only true says anything");
    sysclock_resume(clock);
    return ERR_OK;
}

static err move_clock(struct sysclock *clock, str text, struct err_note *note)
{
    static const struct {
        const char *name;
        err (*move)(struct sysclock *clock, const json_t *body, struct err_note *note);
    } moves[] = { { "freeze", hooks_freeze },
                  { "advance", hooks_advance },
                  { "resume", hooks_resume } };
    json_t *body;
    err why = json_body_parse(text, &body, note);
    if (why != ERR_OK)
        return why;
    why = ERR_BAD;
    err_note_set(note, "exactly one of freeze, advance, resume is wanted");
    for (size_t i = 0; i < COUNT_OF(moves) && json_object_size(body) == 1; i++)
        if (json_object_get(body, moves[i].name) != NULL)
            why = moves[i].move(clock, body, note);
    json_decref(body);
    return why == ERR_NOT_FOUND ? ERR_BAD : why; /* null is no value here */
}

static void clock_post(struct http_exchange *x, void *app)
{
    struct app *a = app;
    struct err_note note;
    err why = move_clock(a->sysclock, http_body(x), &note);
    if (why != ERR_OK) {
        app_fail(x, why, &note);
        return;
    }
    struct pooled *p = pooled_new(x, a, sizeof *p);
    if (p != NULL)
        pooled_start(p, upkeep_run, upkeep_answer);
}

static void pause_post(struct http_exchange *x, void *app)
{
    struct app *a = app;
    struct err_note note = { "" };
    json_t *body;
    str name;
    bool pause;
    err why = json_body_parse(http_body(x), &body, &note);
    if (why == ERR_OK) {
        why = json_body_str(body, "queue_name", &name, &note);
        if (why == ERR_OK)
            why = json_body_bool(body, "pause", &pause, &note);
        if (why == ERR_OK)
            why = queues_test_pause(a->queues, name, pause, &note);
        json_decref(body);
    }
    if (why == ERR_OK)
        answer_json(x, 200, STR("{}"), "no-store");
    else
        app_fail(x, why == ERR_NOT_FOUND ? ERR_BAD : why, &note);
}

const struct http_route app_hook_routes[] = {
    { HTTP_POST, "/v1/test.clock", clock_post, .body_bytes_max = HOOK_BODY_BYTES_MAX,
      .label = "test.clock" },
    { HTTP_POST, "/v1/test.pause", pause_post, .body_bytes_max = HOOK_BODY_BYTES_MAX,
      .label = "test.pause" },
    { .pattern = NULL },
};
