/* hop.h - an exact render, a stash or a preview that another server has.
 *
 * Model. A name (revision and tid) is given to clients by the server that made the render, and a
 * client behind a balancer brings it to any of them. Who makes or keeps a render notes that
 * (peer/peer.h), for stash_ttl, and again when half of that is over, as long as it is read. Who
 * lacks the render asks the one that noted it, once. Who is asked
 * answers from its own store alone, and judges by its own trust what may still be handed out. So a
 * save works on another server than its load.
 *   Contents of a private wiki go to no other server (page_contents_travel).
 *
 *   asks:     page_hop_start -> the question (peer.h) -> what came, read (pool) -> done
 *   is asked: page_give_start -> is it there, and trusted? (get.h) -> all its contents -> done */
#ifndef PAGE_HOP_H
#define PAGE_HOP_H

#include "page/get.h"
#include "page/travel.h"
#include "peer/peer.h"

/* The path of the question. */
#define PAGE_HOP_PATH "/v1/servers.render"

/* This render can be had here, for the stash_ttl of its bucket. Does nothing without peers. Thread:
 * any. */
struct page_hop_note {
    const struct page_domain *domain;
    const struct page_bucket_opts *bucket;
    str title; /* as the wiki writes it */
    struct page_name name;
    /* On the loop, later, once the others can find it, or cannot; NULL: nobody waits */
    void (*done)(void *ctx, err why);
    void *ctx;
};
/* False: nothing is done, and done is not called. */
bool page_hop_note(const struct page_service *s, const struct page_hop_note *n);
/* It is read here: notes it again if that was not done for half of stash_ttl, and nobody else did;
 * done is not called. Returns when it is to be done next; NEVER: not. Thread: any. */
store_time page_hop_renew(const struct page_service *s, const struct page_hop_note *n);

/* What is asked for, on both sides. Strings are borrowed. */
struct page_hop_which {
    const struct page_domain *domain;
    const struct page_settings *settings;
    str title;
    str kept_title; /* a preview may be it, too: its key; empty: none may */
    struct page_name name;
    bool deleted_too; /* what is deleted at the wiki, for who edits it still */
};

struct page_hop {
    /* in; borrowed until done */
    const struct page_service *service; /* with peers */
    struct page_hop_which which;
    struct arena *arena;
    mono deadline;
    void (*done)(struct page_hop *h); /* once, later, on the pool */
    /* out */
    /* ERR_OK and the render; ERR_GONE and trace; ERR_UNAVAILABLE and note: the other may have it,
     * and does not say for now; ERR_SHUTDOWN; ERR_LIMIT; else ERR_NOT_FOUND: it has not got it */
    err why;
    struct page_travel render; /* as stored: the HTML has its tid; redirect_to as a location says */
    struct page_trace trace;
    struct err_note note;
    /* the module's */
    unsigned char id[16];
    struct peer_ask ask;
    struct task task;
};
void page_hop_start(struct page_hop *h);
/* The put of what came, under its name, beside what is stored here; all but its call. ERR_LIMIT:
 * the arena is full; ERR_NOT_FOUND: it came without the word that the domain wants. */
MUST_CHECK err page_hop_put(const struct page_hop *h, struct page_put *p);

/* ---- the other side ---- */

struct page_give {
    /* in; borrowed until done */
    const struct page_service *service;
    struct page_hop_which which;
    struct arena *arena;
    struct home *home;
    mono deadline;
    void (*done)(struct page_give *g); /* once, later, at home */
    /* out */
    err why; /* as of page_hop, without SHUTDOWN; other errors of the store, too */
    struct page_travel render;
    enum page_state state; /* GONE */
    /* the module's */
    struct page_get get;
    struct page_read read;
    struct task task;
};
/* Thread: home's. */
void page_give_start(struct page_give *g);
/* The answer: a status, and its body in the arena (STR_NONE: it is full). */
int page_give_answer(struct page_give *g, str *body);

#endif
