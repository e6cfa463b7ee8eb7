/* hop.c - the side that lacks a render: the notes by which others find what is here, the
 * question, and what came of it. For get_hop.c and transform_hop.c. */
#include "page/hop.h"

#include "flight/shared.h"
#include "http/percent.h"
#include "loop/loop.h"
#include "page/etag.h"
#include "page/headers.h"
#include "page/noted.h"

#include <inttypes.h>

enum { HOP_HEADS_BYTES_MAX = 1 << 16 }; /* of a render, beside its contents */
#define RENEW_LATER_NS (60 * NS_PER_S)  /* while Redis is away */

/* ---- notes ---- */

/* Domain, title and name: the bucket is not part of a note's id. */
static void note_id(const struct page_domain *d, str title, struct page_name name,
                    unsigned char out[FLIGHT_ID_BYTES])
{
    char tag[PAGE_TAG_BYTES + 1];
    const str parts[] = { STR("exact"), d->name, title, page_tag(name, tag) };
    flight_share_id(parts, COUNT_OF(parts), out);
}

/* How long a note lasts; 0: it is not noted, without peers or for a private wiki. */
static int64_t note_ms(const struct page_service *s, const struct page_hop_note *n)
{
    int64_t ttl_ms = n->bucket->policy.stash_ttl_ns / NS_PER_MS;
    if (s->peers == NULL || !page_contents_travel(n->domain))
        return 0;
    return ttl_ms < PEER_NOTE_MS_MAX ? ttl_ms : PEER_NOTE_MS_MAX;
}

/* Was it not noted for age_ns? Remembers it as noted now. */
static bool note_is_due(const struct page_service *s, const struct page_hop_note *n, int64_t age_ns,
                        store_time *again)
{
    const struct page_noted_key key = {
        .bucket = n->bucket->name, .domain = n->domain->number, .title = n->title, .name = n->name
    };
    return page_noted_due(s->noted, &key, clock_store(s->clock), age_ns, again);
}

bool page_hop_note(const struct page_service *s, const struct page_hop_note *n)
{
    unsigned char id[FLIGHT_ID_BYTES];
    store_time again;
    int64_t ttl_ms = note_ms(s, n);
    if (ttl_ms == 0)
        return false;
    /* Its result does not matter: the call is for what it remembers. */
    (void)note_is_due(s, n, 0, &again); /* it is, whenever that was: to be remembered */
    note_id(n->domain, n->title, n->name, id);
    peer_note(s->peers,
              &(struct peer_noting){ .id = id, .ttl_ms = ttl_ms, .done = n->done, .ctx = n->ctx });
    return true;
}

store_time page_hop_renew(const struct page_service *s, const struct page_hop_note *n)
{
    unsigned char id[FLIGHT_ID_BYTES];
    store_time again;
    int64_t ttl_ms = note_ms(s, n);
    if (ttl_ms == 0)
        return STORE_TIME_NEVER;
    /* A note that cannot be sent must not count as sent. */
    if (!flight_shared_is_up(s->shared))
        return store_time_add(clock_store(s->clock), RENEW_LATER_NS);
    /* Half of its life is left then: enough for a server that reads it a little later. */
    if (!note_is_due(s, n, ttl_ms * NS_PER_MS / 2, &again))
        return again;
    note_id(n->domain, n->title, n->name, id);
    /* yields: a note of another server stays while half of its life is left. */
    peer_note(s->peers, &(struct peer_noting){ .id = id, .ttl_ms = ttl_ms, .yields = true });
    return again;
}

/* ---- what came. Pool ---- */

/* A state that says that a render is gone, by its name. */
static bool state_parse(str text, enum page_state *out)
{
    for (enum page_state s = PAGE_CULLED; s < PAGE_STATES; s++)
        if (s != PAGE_UNKNOWN && str_eq(text, str_of(page_state_name(s)))) {
            *out = s;
            return true;
        }
    return false;
}

/* The other server says that it is gone, and how: its body is the name of the state. */
static err hop_gone(struct page_hop *h)
{
    h->trace = (struct page_trace){ .name = h->which.name,
                                    .at = clock_store(h->service->clock),
                                    .policy = h->which.settings->opts->policy.kind,
                                    .superseded_at = STORE_TIME_NEVER };
    return state_parse(h->ask.body, &h->trace.state) ? ERR_GONE : ERR_NOT_FOUND;
}

/* Turns an answer into an outcome. What is not whole, or another render, counts as missing. */
static err hop_read(struct page_hop *h)
{
    const struct peer_ask *a = &h->ask;
    /* 503: the other may have it, so a client should come again. */
    if (a->why == ERR_UNAVAILABLE || (a->why == ERR_OK && a->status == 503)) {
        err_note_set(&h->note, "the server that has this render cannot give it now");
        return ERR_UNAVAILABLE;
    }
    if (a->why != ERR_OK)
        return a->why;
    if (a->status == 410)
        return hop_gone(h);
    if (a->status != 200 || page_travel_get(a->body, &h->render) != ERR_OK)
        return ERR_NOT_FOUND;
    /* The revision may differ: a preview is kept under a greater one. */
    bool same = tid_cmp(h->render.name.tid, h->which.name.tid) == 0;
    return same ? ERR_OK : ERR_NOT_FOUND;
}

/* Pool. */
static void hop_answered(struct peer_ask *a)
{
    struct page_hop *h = CONTAINER_OF(a, struct page_hop, ask);
    h->why = hop_read(h);
    h->done(h);
}

/* ---- asking ---- */

/* STR_NONE: the arena is full. */
static str question_of(const struct page_hop *h)
{
    const struct page_hop_which *w = &h->which;
    struct arena *a = h->arena;
    char tid[TID_TEXT_BYTES + 1];
    str domain = http_encode(a, w->domain->name), title = http_encode(a, w->title),
        kept = http_encode(a, w->kept_title);
    tid_format(w->name.tid, tid);
    if (domain.p == NULL || title.p == NULL || (kept.p == NULL && w->kept_title.n > 0))
        return STR_NONE;
    return arena_printf(a,
                        PAGE_HOP_PATH "?domain=%.*s&bucket=%s&title=%.*s&kept=%.*s&rev=%" PRIu64
                                      "&tid=%s&deleted=%d",
                        STR_ARG(domain), w->settings->opts->name, STR_ARG(title), STR_ARG(kept),
                        w->name.rev, tid, w->deleted_too);
}

static void full_run(struct task *t)
{
    struct page_hop *h = CONTAINER_OF(t, struct page_hop, task);
    h->why = ERR_LIMIT;
    h->done(h);
}

void page_hop_start(struct page_hop *h)
{
    _Static_assert(sizeof h->id == FLIGHT_ID_BYTES, "the id of a note");
    note_id(h->which.domain, h->which.title, h->which.name, h->id);
    h->ask = (struct peer_ask){ .peers = h->service->peers,
                                .id = h->id,
                                .question = question_of(h),
                                .deadline = h->deadline,
                                .reply_bytes_max = (size_t)PAGE_BYTES_MAX + HOP_HEADS_BYTES_MAX,
                                .arena = h->arena,
                                .done = hop_answered };
    if (h->ask.question.p != NULL) {
        peer_ask_start(&h->ask);
        return;
    }
    /* done is called later in every case, also when the question does not fit. */
    h->task.run = full_run;
    home_post(loop_pool(h->service->loop), &h->task);
}

/* ---- putting it here ---- */

/* The render takes its place by the wiki's word, as what is made here does. Without a word it
 * must not become the latest: behind names the next revision as known. */
err page_hop_put(const struct page_hop *h, struct page_put *p)
{
    const struct page_hop_which *w = &h->which;
    const struct page_travel *r = &h->render;
    if (!r->has_word && page_is_asked(h->service, w->domain))
        return ERR_NOT_FOUND; /* nobody could tell later that the page was touched since */
    uint64_t newest = r->has_word ? r->word.rev : w->name.rev + 1;
    *p = (struct page_put){ .call = p->call,
                            .bucket = w->settings->bucket,
                            .domain = w->domain->number,
                            .title = w->title,
                            .rev = w->name.rev,
                            .has_tid = true,
                            .tid = w->name.tid,
                            .contents_count = r->contents_count,
                            .own_name = true,
                            .behind = newest > w->name.rev ? newest : 0,
                            /* By its own clock the other server asked no later than the tid
                             * says. */
                            .said_at = tid_time(w->name.tid),
                            .heeds = true,
                            .word = r->has_word ? &r->word : NULL,
                            .asked = true,
                            .arena = h->arena };
    for (unsigned i = 0; i < r->contents_count; i++) {
        const struct render_content *c = &r->contents[i];
        /* A redirect's target stands as a header of the HTML (make.c, add_target). */
        bool leads = str_eq(c->name, STR("html")) && r->redirect_to.n > 0 &&
                     headers_value_is_sane(r->redirect_to);
        str headers = leads ? arena_printf(h->arena, "%.*slocation: %.*s\n", STR_ARG(c->headers),
                                           STR_ARG(r->redirect_to))
                            : c->headers;
        if (leads && headers.p == NULL)
            return ERR_LIMIT;
        p->contents[i] =
            (struct page_put_content){ .name = c->name, .headers = headers, .raw = c->raw };
    }
    return ERR_OK;
}
