/* check_read.h - reads of one title, "T", as the tests of its checks want them. */
#ifndef TEST_PAGE_CHECK_READ_H
#define TEST_PAGE_CHECK_READ_H

#include "stage.h"

#include <string.h>

struct got {
    enum page_outcome outcome;
    enum page_get_trusted trusted;
    enum page_how how;
    err why;
    unsigned was;
    char body[256];
};

static inline struct got get(struct stage *s, uint64_t rev, unsigned flags)
{
    struct asked a;
    asked_init(&a, s, "T");
    a.get.flags |= flags;
    a.get.target.has_rev = rev != 0;
    a.get.target.name.rev = rev;
    asked_start(&a);
    struct got g = { .outcome = asked_wait(&a) };
    g.trusted = a.get.trusted;
    g.how = a.get.how;
    g.why = a.get.why;
    g.was = a.get.was;
    memcpy(g.body, a.body, sizeof g.body);
    asked_fini(&a);
    return g;
}

/* What was heard is of no use to anybody who would rather know. */
static inline void grow_old(struct stage *s)
{
    s->domains[0].trust = (struct trust_rules){ .ttl_ns = -1, .max_ns = -1 };
}

#endif
