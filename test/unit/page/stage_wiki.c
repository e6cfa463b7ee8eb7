/* stage_wiki.c - the functions of render.h that ask a wiki: they answer what the test says. */
#include "stage_wiki.h"

#include "loop/limiter.h"
#include "loop/loop.h"
#include "render/title_rules.h"
#include "sites.h"

#include <stdio.h>
#include <stdlib.h>

bool origin_has_api(const struct origin *o)
{
    (void)o;
    return true;
}

const struct origin_opts *origin_opts_of(const struct origin *o)
{
    return &o->opts;
}

bool origin_has_room(struct origin *o)
{
    return !atomic_load(&o->is_full);
}

void wiki_full(struct stage *s, bool full)
{
    atomic_store(&s->origin->is_full, full);
}

void origin_count_remembered(struct origin *o)
{
    (void)o;
}

const struct limiter_key *render_source(const struct origin *o, enum render_want want)
{
    static const struct limiter_key key = { .origin = { "wiki", 4 } };
    (void)o;
    (void)want;
    return &key;
}

struct siteinfo *origin_siteinfo(struct origin *o)
{
    struct siteinfo *copy = NULL;
    pthread_mutex_lock(&o->lock);
    if (o->rules != NULL) /* what is given is let go by the caller */
        assert_int_equal(siteinfo_json_parse(str_of(o->rules), &copy, NULL), ERR_OK);
    pthread_mutex_unlock(&o->lock);
    return copy;
}

static void rules_told(void *ctx)
{
    struct siteinfo_waiter *w = ctx;
    struct wiki_transforms *t = &w->origin->transforms;
    struct siteinfo *s = origin_siteinfo(w->origin);
    if (s != NULL && t->has == TRANSFORMS_UNKNOWN)
        t->has = t->told;
    const struct err_note note = { .text = "no rules" };
    enum render_why why = s != NULL ? RENDER_FINE : RENDER_FAILED;
    siteinfo_unref(&s);
    w->got(w, why, &note);
}

void origin_siteinfo_wait(struct origin *o, struct siteinfo_waiter *w)
{
    w->origin = o;
    loop_post(o->loop, rules_told, w);
}

void wiki_rules(struct stage *s, const char *json)
{
    struct origin *o = s->origin;
    pthread_mutex_lock(&o->lock);
    o->rules = json;
    pthread_mutex_unlock(&o->lock);
}

int64_t wiki_now(const struct origin *o)
{
    return clock_store(o->clock).ns / NS_PER_S;
}

/* When words come with renders; else 0. */
static int64_t wiki_said(const struct origin *o)
{
    return o->word.page_id == 0 ? 0 : wiki_now(o);
}

static void fill_render(struct render_request *r, const struct wiki_says *says)
{
    const char *type = says->type != NULL ? says->type : "text/html; charset=utf-8";
    const struct wiki_word *word = &r->origin->word;
    r->meta = (struct render_meta){ .title = r->title,
                                    .rev = r->rev != 0 ? r->rev : says->rev,
                                    .page_id = word->page_id,
                                    .touched_s = word->touched_s,
                                    .said_s = wiki_said(r->origin),
                                    .revised_s = says->revised_s,
                                    .last_rev = says->rev };
    r->user_id = says->user_id;
    if (r->want == WANT_META || r->want == WANT_USER)
        return;
    r->contents[0] =
        (struct render_content){ .name = STR("html"),
                                 .headers = arena_printf(r->arena, "content-type: %s\n", type),
                                 .raw = arena_copy(r->arena, str_of(says->html)) };
    r->contents_count = 1;
    if (says->redirect != NULL)
        r->redirect_to = str_of(says->redirect);
}

struct answer_task {
    struct task task;
    struct render_request *r;
    struct wiki_says says;
};

static void text_run(struct task *t)
{
    struct answer_task *a = CONTAINER_OF(t, struct answer_task, task);
    struct render_request *r = a->r;
    fill_render(r, &a->says);
    free(a);
    r->parsed(r, RENDER_FINE);
}

static void words_run(struct task *t)
{
    struct answer_task *a = CONTAINER_OF(t, struct answer_task, task);
    struct render_request *r = a->r;
    enum render_why why = a->says.why;
    r->meta = (struct render_meta){ .said_s = why == RENDER_NO_PAGE ? wiki_said(r->origin) : 0 };
    if (why == RENDER_OTHER_TITLE)
        r->meta.title = str_of(a->says.title);
    if (why == RENDER_FINE)
        fill_render(r, &a->says);
    free(a);
    r->done(r, why);
}

static void wiki_answer(struct origin *o, struct render_request *r, struct wiki_says says)
{
    struct answer_task *a = calloc(1, sizeof *a);
    assert_non_null(a);
    bool text = says.why == RENDER_FINE && r->want != WANT_META && r->want != WANT_USER;
    *a = (struct answer_task){ .task.run = text ? text_run : words_run, .r = r, .says = says };
    home_post(text ? loop_pool(o->loop) : loop_home(o->loop), &a->task);
}

void render_start(struct render_request *r)
{
    struct origin *o = r->origin;
    pthread_mutex_lock(&o->lock);
    o->asked++;
    bool hold = o->hold;
    struct wiki_says says = o->says;
    if (hold) {
        assert_true(o->held_count < HELD_MAX);
        o->held[o->held_count++] = r;
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    r->contents_count = 0;
    r->retry_after_s = 7;
    r->redirect_to = r->redirect_fragment = STR("");
    err_note_set(&r->note, "the wiki says so");
    if (!hold)
        wiki_answer(o, r, says);
}

void render_cancel(struct render_request *r)
{
    struct origin *o = r->origin;
    bool found = false;
    pthread_mutex_lock(&o->lock);
    for (unsigned i = 0; i < o->held_count && !found; i++) {
        found = o->held[i] == r;
        if (found)
            o->held[i] = o->held[--o->held_count];
    }
    pthread_mutex_unlock(&o->lock);
    if (found)
        wiki_answer(o, r, (struct wiki_says){ .why = RENDER_CANCELED });
}

void wiki_say(struct stage *s, struct wiki_says says)
{
    struct origin *o = s->origin;
    pthread_mutex_lock(&o->lock);
    o->says = says;
    pthread_mutex_unlock(&o->lock);
}

void wiki_hold(struct stage *s, bool hold)
{
    struct origin *o = s->origin;
    pthread_mutex_lock(&o->lock);
    o->hold = hold;
    unsigned count = hold ? 0 : o->held_count;
    o->held_count -= count;
    struct wiki_says says = o->says;
    pthread_mutex_unlock(&o->lock);
    for (unsigned i = 0; i < count; i++)
        wiki_answer(o, o->held[i], says);
}

void wiki_hold_no_more(struct stage *s)
{
    pthread_mutex_lock(&s->origin->lock);
    s->origin->hold = false;
    pthread_mutex_unlock(&s->origin->lock);
}

unsigned wiki_asked(struct stage *s)
{
    pthread_mutex_lock(&s->origin->lock);
    unsigned n = s->origin->asked;
    pthread_mutex_unlock(&s->origin->lock);
    return n;
}

void wiki_wait(struct stage *s, unsigned asked)
{
    pthread_mutex_lock(&s->origin->lock);
    while (s->origin->asked < asked)
        wait_change(&s->origin->changed, &s->origin->lock, "the wiki is asked");
    pthread_mutex_unlock(&s->origin->lock);
}

/* ---- its words ---- */

void wiki_word(struct stage *s, struct wiki_word word)
{
    pthread_mutex_lock(&s->origin->lock);
    s->origin->word = word;
    pthread_mutex_unlock(&s->origin->lock);
}

struct wiki_word wiki_word_now(struct stage *s)
{
    pthread_mutex_lock(&s->origin->lock);
    struct wiki_word word = s->origin->word;
    pthread_mutex_unlock(&s->origin->lock);
    return word;
}

unsigned wiki_words_asked(struct stage *s)
{
    pthread_mutex_lock(&s->origin->lock);
    unsigned n = s->origin->words_asked;
    pthread_mutex_unlock(&s->origin->lock);
    return n;
}

struct wiki_words_counts wiki_words_counts(struct stage *s)
{
    pthread_mutex_lock(&s->origin->lock);
    struct wiki_words_counts counts = s->origin->words_counts;
    pthread_mutex_unlock(&s->origin->lock);
    return counts;
}

static void fill_words(struct words *w, const struct wiki_word *says)
{
    for (unsigned i = 0; i < w->titles_count; i++) {
        w->titles[i].state = says->state;
        w->titles[i].page_id = says->page_id;
        w->titles[i].rev = says->rev;
        w->titles[i].touched_s = says->touched_s;
    }
    for (unsigned i = 0; i < w->revisions_count; i++) {
        w->revisions[i].state =
            w->revisions[i].rev == says->rev ? WORDS_REVISION_SHOWN : says->shown;
        w->revisions[i].title = STR("T");
        w->revisions[i].page_id = says->page_id;
    }
}

static void words_answer(void *ctx)
{
    struct words_request *r = ctx;
    struct origin *o = r->origin;
    pthread_mutex_lock(&o->lock);
    struct wiki_word says = o->word;
    o->words_counts.titles += says.why == RENDER_FINE ? r->words.titles_count : 0;
    o->words_counts.revisions += says.why == RENDER_FINE ? r->words.revisions_count : 0;
    pthread_mutex_unlock(&o->lock);
    if (says.meanwhile != NULL)
        says.meanwhile(says.ctx);
    r->words.said_s = wiki_now(o);
    r->retry_after_s = says.why == RENDER_BUSY ? 7 : 0;
    if (says.why == RENDER_FINE)
        fill_words(&r->words, &says);
    r->done(r, says.why);
}

void words_start(struct words_request *r)
{
    struct origin *o = r->origin;
    pthread_mutex_lock(&o->lock);
    o->words_asked++;
    bool hold = o->hold_words;
    if (hold) {
        assert_null(o->held_words);
        o->held_words = r;
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    if (!hold)
        loop_post(o->loop, words_answer, r);
}

void wiki_hold_words(struct stage *s, bool hold)
{
    struct origin *o = s->origin;
    pthread_mutex_lock(&o->lock);
    struct words_request *held = o->held_words;
    o->held_words = NULL;
    o->hold_words = hold;
    pthread_mutex_unlock(&o->lock);
    if (held != NULL)
        loop_post(o->loop, words_answer, held);
}

void words_cancel(struct words_request *r)
{
    (void)r; /* it is on its way */
}

/* ---- its transforms ---- */

void wiki_kind(struct stage *s, enum origin_kind kind)
{
    s->origin->opts.kind = kind;
}

struct wiki_transforms *wiki_transforms(struct stage *s)
{
    return &s->origin->transforms;
}

enum origin_transforms origin_transforms(struct origin *o)
{
    return o->transforms.has;
}

static void transform_answer(void *ctx)
{
    struct transform_request *t = ctx;
    const struct wiki_transforms *says = &t->origin->transforms;
    t->status = says->status;
    t->content_type = str_of(says->type);
    t->reply = str_of(says->reply);
    t->retry_after_s = 7;
    err_note_set(&t->note, "the wiki says so");
    t->done(t, says->why);
}

void transform_start(struct transform_request *t)
{
    struct origin *o = t->origin;
    struct wiki_transforms *w = &o->transforms;
    pthread_mutex_lock(&o->lock);
    o->asked++;
    w->from = t->from;
    w->to = t->to;
    w->rev = t->rev;
    (void)snprintf(w->body, sizeof w->body, "%.*s", STR_ARG(t->body));
    (void)snprintf(w->cookie, sizeof w->cookie, "%.*s", STR_ARG(t->cookie));
    bool answers = w->reply != NULL;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    if (answers)
        loop_post(o->loop, transform_answer, t);
}

static void transform_canceled(void *ctx)
{
    struct transform_request *t = ctx;
    t->done(t, RENDER_CANCELED);
}

void transform_cancel(struct transform_request *t)
{
    loop_post(t->origin->loop, transform_canceled, t);
}
