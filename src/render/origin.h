/* origin.h - an origin's own parts: addresses, siteinfo asked for. Private to this folder. */
#ifndef RENDER_ORIGIN_H
#define RENDER_ORIGIN_H

#include "http/client.h"
#include "loop/limiter.h"
#include "loop/loop.h"
#include "render/render.h"

#include <pthread.h>

enum {
    ORIGIN_URL_BYTES_MAX = 2048,
    ORIGIN_API_REPLY_BYTES_MAX = 4 << 20,
    ORIGIN_WAITING_MAX = 10000,      /* requests for renders, for transforms; one more is refused */
    ORIGIN_METAS_WAITING_MAX = 1000, /* and for metadata */
    ORIGIN_WORDS_WAITING_MAX = 100   /* of WORDS_MAX titles each */
};

/* What an origin is asked for takes turns by kind, each kind with limits of its own: no crowd of
 * one kind is in the way of another. */
enum origin_turn {
    TURN_RENDER,    /* concurrency at once */
    TURN_TRANSFORM, /* half as many: somebody's save, and before it whose the cookie is */
    TURN_META,      /* as many: metadata and wikitext that are asked for alone, which is cheap */
    TURN_ASIDE,     /* one more: the rules of titles are asked for while all others are full */
    TURN_WORD,      /* WORDS_AT_ONCE more. To the limiter their host is another one (at_words): the
                       renders of all its domains together cannot keep a word waiting */
    TURNS
};

struct meter;
struct site;
struct origin {
    uint32_t magic;
    struct http_client *client;
    struct loop *loop;
    struct clock *clock;
    struct origin_opts opts;        /* strings are ours */
    struct limiter *limiter;        /* the client's */
    char at[HTTP_ORIGIN_BYTES_MAX]; /* "host:port" of url */
    char at_words[sizeof "words of " + HTTP_ORIGIN_BYTES_MAX];
    struct limiter_key turns[TURNS]; /* at, the domain, the kind */
    struct meter *meter;             /* NULL: nobody measures */
    struct log *log;                 /* NULL: nobody is told */
    str log_domain;                  /* borrowed */
    _Atomic uint64_t requests, retries;
    struct site *site; /* NULL without api */
};
#define ORIGIN_MAGIC 0x0419147eu

/* What an address of the text names. */
struct origin_page {
    str title;        /* a key */
    uint64_t rev;     /* 0: none, parsoid takes its newest (by a redirect) */
    const char *path; /* parsoid: "page/pagebundle", "transform/html/to/wikitext" */
};
/* {url}/{domain}/v3/{path}[/{title}[/{rev}]]. Each p is NULL when the arena is full. */
str origin_parsoid_url(const struct origin *o, struct arena *a, const struct origin_page *p);
/* {url}/v1/revision/{rev}{tail} */
str origin_rest_url(const struct origin *o, struct arena *a, uint64_t rev, const char *tail);
/* {url}/v1/{path}[/{title}[/{rev}]] */
str origin_core_url(const struct origin *o, struct arena *a, const struct origin_page *p);
/* The template filled in; without rev a '/' before {rev} goes too. */
str origin_template_url(const struct origin *o, struct arena *a, const struct origin_page *p);
/* {api}?action=purge&format=json&formatversion=2&titles=...; it is to be POSTed. */
str origin_purge_url(const struct origin *o, struct arena *a, str title);
#define ORIGIN_API_QUERY "action=query&format=json&formatversion=2&"
/* {api}?{ORIGIN_API_QUERY}{query} */
str origin_api_url(const struct origin *o, struct arena *a, str query);

#endif
