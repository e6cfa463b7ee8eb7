#include "stage.h"

#include "../cmocka_all.h"
#include "../http/echo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rule *choose(struct stage *s, const char *request)
{
    const struct rule *rule = NULL;
    (void)pthread_mutex_lock(&s->lock); /* cannot fail */
    if (s->said_count < SAID_MAX)
        (void)snprintf(s->said[s->said_count++], SAID_BYTES_MAX, "%s",
                       request); /* cut where it is long */
    for (size_t i = 0; rule == NULL && s->rules[i].path != NULL; i++) {
        const char *target_end = strstr(request, " HTTP/1.1\r\n");
        const char *at = strstr(request, s->rules[i].path);
        if (at == NULL || at > target_end ||
            (s->rules[i].times > 0 && s->used[i] >= s->rules[i].times))
            continue;
        s->used[i]++;
        rule = &s->rules[i];
    }
    (void)pthread_mutex_unlock(&s->lock);
    return rule;
}

static bool act(int fd, const struct rule *rule)
{
    size_t n = rule->body == NULL ? 0 : strlen(rule->body);
    if (rule->act == ACT_HANG) {
        rogue_wait(fd);
        return false;
    }
    size_t claimed = rule->act == ACT_CUT ? n + 10 : rule->act == ACT_ENDLESS ? (size_t)1 << 40 : n;
    char *reply; /* head and body in one piece, lest the kernel wait with the second */
    if (asprintf(&reply, "HTTP/1.1 %sContent-Length: %zu\r\n\r\n%s", rule->head, claimed,
                 n == 0 ? "" : rule->body) < 0)
        return false;
    bool up = rogue_say(fd, reply);
    free(reply);
    while (up && rule->act == ACT_ENDLESS)
        up = rogue_say(fd, "and so on, and so on, and so on, and so on, and so on, and so on, and "
                           "so on, and so on");
    return up && rule->act == ACT_REPLY;
}

static void play(struct rogue *r, int fd, unsigned nth)
{
    static const struct rule unknown = { .head = "418 Unplanned\r\n", .body = "" };
    struct stage *s = rogue_ctx(r);
    char *request = malloc(ROGUE_REQUEST_BYTES_MAX);
    (void)nth;
    bool up = request != NULL;
    while (up && rogue_read(r, fd, request)) {
        const struct rule *rule = choose(s, request);
        (void)pthread_mutex_lock(&s->lock);
        s->open++;
        s->open_max = s->open > s->open_max ? s->open : s->open_max;
        (void)pthread_mutex_unlock(&s->lock);
        up = act(fd, rule == NULL ? &unknown : rule);
        (void)pthread_mutex_lock(&s->lock);
        s->open--;
        (void)pthread_mutex_unlock(&s->lock);
    }
    free(request);
}

struct stage *stage_new(const struct origin_opts *opts, const char *path, const struct rule *rules)
{
    struct stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_int_equal(pthread_mutex_init(&s->lock, NULL), 0);
    for (size_t i = 0; rules[i].path != NULL; i++) {
        assert_true(i + 1 < COUNT_OF(s->rules));
        s->rules[i] = rules[i];
    }
    s->rogue = rogue_start(play, s);
    asker_begin(&s->asker, NULL);
    char url[256];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u%s", rogue_port(s->rogue), path);
    struct origin_opts o = *opts;
    o.url = url;
    o.domain = "wiki.example";
    assert_int_equal(origin_new(s->asker.client, s->asker.loop, echo_clock(), &o, &s->origin, NULL),
                     ERR_OK);
    return s;
}

void stage_free(struct stage *s)
{
    assert_true(origin_idle(s->origin));
    origin_free(&s->origin);
    asker_end(&s->asker);
    if (s->rogue != NULL)
        rogue_stop(&s->rogue);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

unsigned said(struct stage *s, const char *text)
{
    unsigned n = 0;
    (void)pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < s->said_count; i++)
        n += strstr(s->said[i], text) != NULL;
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

unsigned asked(struct stage *s)
{
    return said(s, "");
}

static void curious_got(struct siteinfo_waiter *w, enum render_why why, const struct err_note *note)
{
    struct curious *c = w->ctx;
    assert_int_equal(why == RENDER_FINE, note == NULL);
    c->why = why;
    c->gots++;
    if (--c->stage->asker.left == 0)
        loop_stop(c->stage->asker.loop);
}

void curious_start(struct curious *c, struct stage *s, int64_t ms)
{
    *c = (struct curious){ .stage = s };
    c->w = (struct siteinfo_waiter){ .deadline = mono_add_ms(clock_mono(echo_clock()), ms),
                                     .got = curious_got,
                                     .ctx = c };
    s->asker.left++;
    origin_siteinfo_wait(s->origin, &c->w);
}

static void wish_done(struct render_request *r, enum render_why why)
{
    struct wish *w = r->ctx;
    loop_assert_here(w->stage->asker.loop);
    w->why = why;
    w->dones++;
    w->order = w->stage->wishes_done++;
    if (--w->stage->asker.left == 0)
        loop_stop(w->stage->asker.loop);
}

void wish_begin(struct wish *w, struct stage *s, const char *title, uint64_t rev)
{
    *w = (struct wish){ .stage = s };
    arena_init(&w->arena, 64 << 20);
    w->r = (struct render_request){ .origin = s->origin,
                                    .want = WANT_RENDER,
                                    .title = str_of(title),
                                    .rev = rev,
                                    .deadline = mono_add_ms(clock_mono(echo_clock()), WAIT_MS),
                                    .arena = &w->arena,
                                    .done = wish_done,
                                    .ctx = w };
}

void wish_start(struct wish *w)
{
    w->stage->asker.left++;
    render_start(&w->r);
}

void wish_now(struct wish *w, enum render_why why)
{
    wish_start(w);
    asker_run(&w->stage->asker);
    assert_int_equal(w->dones, 1);
    if (w->why != why)
        fail_msg("%s (%s) instead of %s", render_why_name(w->why), w->r.note.text,
                 render_why_name(why));
    assert_int_equal(why == RENDER_FINE, w->r.note.text[0] == 0);
    assert_true(why == RENDER_FINE || w->r.contents_count == 0);
}

void wish_end(struct wish *w)
{
    arena_fini(&w->arena);
}
