/* tell.c - tells other servers what happened to titles here, and does here what they tell. Any
 * thread tells; page_told runs on the loop. */
#include "page/tell.h"

#include "base/log.h"
#include "codec/told.h"
#include "flight/shared.h"
#include "loop/loop.h"
#include "page/check.h"
#include "page/look.h"
#include "page/make.h"

#include <stdlib.h>
#include <string.h>

/* What Redis keeps of this flight is of before the purge. */
static void forget_flight(const struct page_service *s, const struct page_target *t, uint64_t rev)
{
    unsigned char id[FLIGHT_ID_BYTES];
    page_make_share_id(t, rev, id);
    flight_shared_drop(s->shared, id, NULL, NULL);
}

/* Sends one message. The caller fills in kind and details. What is of all buckets is told as of the
 * first. */
static void tell_tell(const struct page_service *s, const struct page_domain *domain, str title,
                      struct told t)
{
    struct buf text;
    t.node = str_of(flight_shared_node(s->shared));
    if (t.bucket.n == 0)
        t.bucket = str_of(page_settings_now(s)->opts->name);
    t.domain = domain->name;
    t.title = title;
    buf_init(&text, TOLD_BYTES_MAX);
    told_encode(&text, &t);
    INVARIANT(buf_status(&text) == ERR_OK);                   /* names and titles are bounded */
    bool doubts = t.kind == TOLD_LOOK || t.kind == TOLD_WORD; /* a later doubt covers both */
    flight_shared_tell(s->shared, buf_str(&text), doubts);
    buf_fini(&text);
}

void page_purge_tell(const struct page_service *s, const struct page_target *t)
{
    if (s->shared == NULL)
        return;
    uint64_t rev = t->has_rev ? t->name.rev : 0;
    tell_tell(s, t->domain, t->title,
              (struct told){ .kind = TOLD_PURGE,
                             .bucket = str_of(t->settings->opts->name),
                             .purge = { .rev = rev, .has_tid = t->has_tid, .tid = t->name.tid } });
    forget_flight(s, t, 0);
    if (rev != 0)
        forget_flight(s, t, rev);
}

/* States on the wire and states of ours are numbered apart. */
static const enum page_state page_states[TOLD_STATES] = { [TOLD_CURRENT] = PAGE_CURRENT,
                                                          [TOLD_DELETED] = PAGE_DELETED,
                                                          [TOLD_SUPPRESSED] = PAGE_SUPPRESSED };

static enum told_state told_state_of(enum page_state state)
{
    unsigned i = 0;
    while (i < TOLD_STATES && page_states[i] != state)
        i++;
    INVARIANT(i < TOLD_STATES); /* a wiki says no other */
    return (enum told_state)i;
}

void page_mark_tell(const struct page_service *s, const struct page_domain *domain, str title,
                    const struct title_mark *mark)
{
    if (s->shared != NULL)
        tell_tell(s, domain, title,
                  (struct told){ .kind = TOLD_MARK,
                                 .mark = { .state = told_state_of(mark->state),
                                           .first = mark->first,
                                           .last = mark->last,
                                           .said_at = mark->said_at } });
}

void page_word_tell(const struct page_service *s, const struct page_domain *domain, str title,
                    const struct title_word *word)
{
    if (s->shared != NULL)
        tell_tell(s, domain, title,
                  /* Without a newest change the word itself must be reached, as for a hint. */
                  (struct told){ .kind = word->newest.id != 0 ? TOLD_WORD : TOLD_LOOK,
                                 .look = { .has_word = true,
                                           .word = title_word_hash(word),
                                           .rev = word->rev,
                                           .touched = word->touched,
                                           .newest = word->newest } });
}

void page_look_tell(const struct page_service *s, const struct page_domain *domain, str title,
                    const struct title_bound *bound)
{
    if (s->shared != NULL)
        tell_tell(s, domain, title,
                  (struct told){ .kind = TOLD_LOOK,
                                 .look = { .rev = bound->rev, .touched = bound->touched } });
}

void page_made_tell(const struct page_service *s, const struct page_target *t,
                    struct page_name name)
{
    if (s->shared != NULL && page_contents_travel(t->domain))
        tell_tell(s, t->domain, t->title,
                  (struct told){ .kind = TOLD_MADE,
                                 .bucket = str_of(t->settings->opts->name),
                                 .made = { .asked = t->has_rev ? name.rev : 0,
                                           .rev = name.rev,
                                           .tid = name.tid } });
}

void page_newest_tell(const struct page_service *s, const struct page_domain *domain,
                      const struct wiki_newest *newest)
{
    if (s->shared != NULL)
        tell_tell(s, domain, STR(TOLD_NO_TITLE),
                  (struct told){ .kind = TOLD_NEWEST,
                                 .newest = { .at_s = newest->at_s, .id = newest->id } });
}

/* ---- being told ---- */

/* What was told, on its way to the store; freed by followed(). Purges reach the store in the order
 * in which they came. Marks are heard on the pool, where the store may look first: each says itself
 * when it was said. The loop may be gone by the end. */
struct following {
    const struct page_service *service;
    char title[PAGE_TITLE_BYTES_MAX];
    union {
        struct page_order purge;
        struct page_hear hear;
        struct page_read made;
    };
    struct title_mark mark;
    const struct page_domain *domain; /* of what was made, with the next four */
    const struct page_settings *settings;
    struct page_name name;
    struct arena arena;
    struct flight_waiter flight;
    struct task task;
};

/* The end of each: a failure is logged, as nobody waits for it. */
static void followed(struct following *f, const char *event, str title, err why)
{
    if (why != ERR_OK)
        log_event(f->service->log, LOG_WARN, event, LOG_STR("title", title),
                  LOG_CSTR("why", err_name(why)));
    free(f);
}

static void purged(struct store_call *c)
{
    struct following *f = CONTAINER_OF(c, struct following, purge.call);
    followed(f, "purge.not_followed", f->purge.title, c->why);
}

static void tell_heard(struct store_call *c)
{
    struct following *f = CONTAINER_OF(c, struct following, hear.call);
    followed(f, "mark.not_followed", f->hear.title, c->why);
}

static void hear_run(struct task *t)
{
    struct following *f = CONTAINER_OF(t, struct following, task);
    store_call_then(page_store_hear(f->service->store, &f->hear), &f->hear.call);
}

/* text is the message's: the title is copied. page_told has checked its length. */
static struct following *following_new(const struct page_service *s, const struct told *t)
{
    struct following *f = calloc(1, sizeof *f);
    INVARIANT(f != NULL);
    f->service = s;
    memcpy(f->title, t->title.p, t->title.n);
    return f;
}

static void follow_purge(const struct page_service *s, const struct told *t,
                         const struct page_domain *domain)
{
    struct page_bucket *bucket = page_store_bucket(s->store, t->bucket);
    if (bucket == NULL)
        return; /* only others have it */
    struct following *f = following_new(s, t);
    f->purge = (struct page_order){
        .call = { .deadline = page_write_deadline(s), .home = home_here(), .done = purged },
        .bucket = bucket,
        .kind = ORDER_PURGE,
        .domain = domain->number,
        .title = { .p = f->title, .n = t->title.n },
        .has_rev = t->purge.rev != 0,
        .has_tid = t->purge.has_tid,
        .name = { .rev = t->purge.rev },
        /* Where there is a wiki, the render that is left must not be given for the latest. */
        .elsewhere = domain->origin != NULL
    };
    if (t->purge.has_tid)
        f->purge.name.tid = t->purge.tid;
    store_call_then(page_store_order(s->store, &f->purge), &f->purge.call);
}

/* Ends the trust in a title, by our clock: nothing that was asked for before now is trusted. */
static void follow_doubt(const struct page_service *s, const struct told *t,
                         const struct page_domain *domain, const struct title_bound *bound)
{
    const struct trust_key k = { .domain = domain->number, .title = t->title };
    if (s->trust != NULL)
        (void)page_trust_doubt(s->trust, &k, clock_store(s->clock), bound); /* no cell, no trust */
}

/* What our next word must reach. A word from another server brings its newest change: an answer
 * that shows a newer one has heard of it. */
static struct title_bound bound_of(const struct told *t)
{
    if (t->kind == TOLD_LOOK)
        return (struct title_bound){ .rev = t->look.rev, .touched = t->look.touched };
    return (struct title_bound){
        .heard = { .rev = t->look.rev, .touched = t->look.touched, .newest = t->look.newest }
    };
}

/* A word that is known here already asks for nothing. */
static void follow_look(const struct page_service *s, const struct told *t,
                        const struct page_domain *domain)
{
    const struct trust_key k = { .domain = domain->number, .title = t->title };
    const struct title_bound bound = bound_of(t);
    if (s->trust == NULL || (t->look.has_word && page_trust_says(s->trust, &k, t->look.word)))
        return;
    if (page_rerenders(s, domain)) /* what it calls old here no reader may ever ask for */
        (void)page_look_told(s, domain, t->title, &bound);
    else
        follow_doubt(s, t, domain, &bound);
}

/* Hears a mark. Our clock may be ahead of the other server's: then our store takes an earlier word
 * for the later one, and the doubt brings the truth. */
static void follow_mark(const struct page_service *s, const struct told *t,
                        const struct page_domain *domain)
{
    const store_time now = clock_store(s->clock);
    follow_doubt(s, t, domain, &(struct title_bound){ .rev = 0 });
    struct following *f = following_new(s, t);
    /* A clock that is ahead says no more than now. */
    f->mark = (struct title_mark){ .state = page_states[t->mark.state],
                                   .first = t->mark.first,
                                   .last = t->mark.last,
                                   .said_at = store_time_min(t->mark.said_at, now) };
    f->hear = (struct page_hear){
        .call = { .deadline = page_write_deadline(s), .home = home_here(), .done = tell_heard },
        .domain = domain->number,
        .title = { .p = f->title, .n = t->title.n },
        .marks = &f->mark,
        .marks_count = 1
    };
    f->task.run = hear_run;
    home_post(loop_pool(s->loop), &f->task);
}

/* ---- a render that was made anew ---- */

enum { MADE_ARENA_BYTES_MAX = 1 << 20 }; /* of a look for a name */

static void tell_taken(struct flight_waiter *w, err why, struct flight_value *v,
                       const struct err_note *note)
{
    struct following *f = CONTAINER_OF(w, struct following, flight);
    (void)v;
    (void)note;
    followed(f, "made.not_followed", f->made.which.title, why == ERR_NOT_FOUND ? ERR_OK : why);
}

/* Takes the new render while it is in Redis, if an older one is stored here. Loop. */
static void made_looked(struct store_call *c)
{
    struct following *f = CONTAINER_OF(c, struct following, made.call);
    const struct page_service *s = f->service;
    const struct page_read *r = &f->made;
    const struct page_wish wish = { .domain = f->domain,
                                    .settings = f->settings,
                                    .title = r->which.title,
                                    .rev = r->which.name.rev,
                                    .take = true };
    /* A server that stores none of the title need not have it. */
    bool older = c->why == ERR_OK && page_name_cmp(r->render.name, f->name) < 0;
    bool ends = s->flights == NULL; /* the server */
    arena_fini(&f->arena);
    f->flight = (struct flight_waiter){ .deadline = page_write_deadline(s), .done = tell_taken };
    if (!older || ends || page_make(s, &wish, &f->flight) != ERR_OK)
        free(f);
}

static void made_run(struct task *t)
{
    struct following *f = CONTAINER_OF(t, struct following, task);
    store_call_post(page_store_read(f->service->store, &f->made), &f->made.call);
}

/* Looks for the render that ours would be: of the latest, or of the revision that was asked for. */
static void follow_made(const struct page_service *s, const struct told *t,
                        const struct page_domain *domain)
{
    const struct page_settings *settings = page_settings_find(s, t->bucket);
    if (settings == NULL || !page_contents_travel(domain) || s->flights == NULL)
        return;
    struct following *f = following_new(s, t);
    f->domain = domain;
    f->settings = settings;
    f->name = (struct page_name){ .rev = t->made.rev, .tid = t->made.tid };
    f->made =
        (struct page_read){ .call = { .home = loop_home(s->loop), .done = made_looked },
                            .bucket = settings->bucket,
                            .which = { .domain = domain->number,
                                       .select = t->made.asked == 0 ? SELECT_LATEST : SELECT_REV,
                                       .name = { .rev = t->made.asked },
                                       .title = { .p = f->title, .n = t->title.n } },
                            .arena = &f->arena };
    arena_init(&f->arena, MADE_ARENA_BYTES_MAX);
    f->task.run = made_run;
    home_post(loop_pool(s->loop), &f->task);
}

static void follow_newest(const struct page_service *s, const struct told *t,
                          const struct page_domain *domain)
{
    const struct wiki_newest n = { .at_s = t->newest.at_s, .id = t->newest.id };
    if (page_is_asked(s, domain))
        page_checks_know(s->checks, domain, &n);
}

void page_told(const struct page_service *s, str text)
{
    struct told t;
    /* Our own messages come back, too. */
    if (!told_decode(text, &t) || str_eq(t.node, str_of(flight_shared_node(s->shared))))
        return;
    const struct page_domain *domain = page_domain_find(s, t.domain);
    if (domain == NULL || t.title.n > PAGE_TITLE_BYTES_MAX)
        return;
    switch (t.kind) {
    case TOLD_PURGE:
        follow_purge(s, &t, domain);
        return;
    case TOLD_MARK:
        follow_mark(s, &t, domain);
        return;
    case TOLD_LOOK:
    case TOLD_WORD:
        follow_look(s, &t, domain);
        return;
    case TOLD_MADE:
        follow_made(s, &t, domain);
        return;
    case TOLD_NEWEST:
        follow_newest(s, &t, domain);
        return;
    case TOLD_KINDS:
        return;
    }
}
