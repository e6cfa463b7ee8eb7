/* remote_stage.c - see remote_stage.h. */
#include "remote_stage.h"

#include "../cmocka_all.h"
#include "lib/wait.h"

#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 32 };

/* ---- running ---- */

static void guard_fired(void *ctx)
{
    (void)ctx;
    fail_msg("nothing was answered for %d ms", WAIT_MS);
}

static void stage_run(struct remote_stage *s)
{
    loop_timer_start(s->guard, WAIT_MS, 0);
    loop_run(s->loop);
    loop_timer_stop(s->guard);
}

static void on_state(void *ctx, bool up, str run_id)
{
    struct remote_stage *s = ctx;
    (void)run_id;
    s->up = up;
    if (s->waits_for_up && up == s->wanted_up)
        loop_stop(s->loop);
}

void remote_stage_until(struct remote_stage *s, bool up)
{
    s->wanted_up = up;
    s->waits_for_up = true;
    if (s->up != up)
        stage_run(s);
    s->waits_for_up = false;
}

static void answer(struct remote_stage *s, err why, const struct err_note *note)
{
    assert_false(s->answered);
    s->answered = true;
    s->why = why;
    (void)snprintf(s->text, sizeof s->text, "%s", why == ERR_OK ? "" : note->text); /* fits */
    loop_stop(s->loop);
}

/* started: what a call returned. */
static err answered(struct remote_stage *s, err started)
{
    if (started != ERR_OK)
        return started;
    assert_false(s->answered); /* not before the call returned */
    stage_run(s);
    assert_true(s->answered);
    return s->why;
}

/* ---- calls ---- */

static void command_done(void *ctx, err why, const struct redis_reply *reply,
                         const struct err_note *note)
{
    struct remote_stage *s = ctx;
    s->integer = why == ERR_OK ? redis_integer(reply) : 0;
    answer(s, why, note);
}

err remote_stage_command(struct remote_stage *s, const char *words)
{
    str args[WORDS_MAX], rest = str_of(words);
    unsigned count = 0;
    while (rest.n > 0) {
        assert_true(count < WORDS_MAX);
        args[count++] = str_split(&rest, ' ');
    }
    s->answered = false;
    return answered(s, redis_command(s->redis, args, count, command_done, s));
}

static void add_done(struct timeline_remote_add *a, err why, const struct err_note *note)
{
    answer(a->ctx, why, note);
}

err remote_stage_add(struct remote_stage *s, struct timeline_remote_add *a)
{
    a->done = add_done;
    a->ctx = s;
    s->answered = false;
    return answered(s, timeline_remote_add(s->remote, a));
}

static void list_done(struct timeline_remote_list *l, err why, const struct err_note *note)
{
    answer(l->ctx, why, note);
}

err remote_stage_list(struct remote_stage *s, struct timeline_remote_list *l)
{
    l->done = list_done;
    l->ctx = s;
    s->answered = false;
    return answered(s, timeline_remote_list(s->remote, l));
}

static void expire_done(struct timeline_remote_expiry *x, err why, const struct err_note *note)
{
    answer(x->ctx, why, note);
}

err remote_stage_expire(struct remote_stage *s, struct timeline_remote_expiry *x)
{
    x->done = expire_done;
    x->ctx = s;
    s->answered = false;
    return answered(s, timeline_remote_expire(s->remote, x));
}

/* ---- life ---- */

void remote_stage_open(struct remote_stage *s)
{
    *s = (struct remote_stage){ .up = false };
    redis_server_start(&s->server, 0, NULL);
    s->clock = sysclock_new();
    s->loop = loop_new(2);
    s->guard = loop_timer_new(s->loop, guard_fired, s);
    const struct redis_opts opts = { .loop = s->loop,
                                     .clock = sysclock_clock(s->clock),
                                     .address = { .host = "127.0.0.1", .port = s->server.port },
                                     .seed = 5,
                                     .timeout_ms = REMOTE_STAGE_TIMEOUT_MS,
                                     .connect_timeout_ms = REMOTE_STAGE_TIMEOUT_MS,
                                     .retry_min_ms = 10,
                                     .retry_max_ms = 50,
                                     .state = on_state,
                                     .ctx = s };
    s->redis = redis_new(&opts);
    s->remote = timeline_remote_new(s->redis);
    remote_stage_until(s, true);
}

void remote_stage_close(struct remote_stage *s)
{
    timeline_remote_free(&s->remote);
    redis_stop(s->redis);
    redis_free(&s->redis);
    loop_timer_free(&s->guard);
    loop_free(&s->loop);
    sysclock_free(&s->clock);
    redis_server_end(&s->server);
}
