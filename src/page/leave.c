/* leave.c - asks a private wiki whether a reader may read a page, for handlers of private
 * domains. A yes is kept under a lock, by its digest; a question is one call of api.php. Places
 * are written over: a lost yes costs a question. */
#include "page/leave.h"

#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One yes. All zero: until is over. */
struct place {
    unsigned char digest[SHA256_BYTES];
    mono until;
};
/* Owner: the service. Each digest has one place. */
struct page_leaves {
    pthread_mutex_t lock;
    struct place places[LEAVE_PLACES];
};

struct page_leaves *page_leaves_new(void)
{
    struct page_leaves *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    INVARIANT(pthread_mutex_init(&l->lock, NULL) == 0);
    return l;
}

void page_leaves_free(struct page_leaves **lp)
{
    if (*lp == NULL)
        return;
    INVARIANT(pthread_mutex_destroy(&(*lp)->lock) == 0);
    free(*lp);
    *lp = NULL;
}

/* The digest is uniform: its first bytes are hash enough. */
static struct place *place_of(const struct page_leave *l)
{
    uint32_t n;
    memcpy(&n, l->digest, sizeof n);
    return &l->service->leaves->places[n % LEAVE_PLACES];
}

/* Adds a text with its length before it: so two different readers never hash the same bytes. */
static void digest_add(struct evp_md_ctx_st *h, str s)
{
    uint64_t n = s.n;
    sha256_add(h, (str){ .p = (const char *)&n, .n = sizeof n });
    if (n > 0)
        sha256_add(h, s);
}

bool page_leave_known(struct page_leave *l)
{
    /* Nothing is kept for this domain: no digest is needed. */
    if (l->domain->leave_ttl_ms == 0)
        return false;
    struct evp_md_ctx_st *h = sha256_begin();
    digest_add(h, l->domain->name);
    digest_add(h, l->title);
    digest_add(h, l->cookie);
    digest_add(h, l->authorization);
    sha256_end(h, l->digest);
    /* The lock: 32 bytes are not read at once. */
    struct page_leaves *all = l->service->leaves;
    INVARIANT(pthread_mutex_lock(&all->lock) == 0);
    const struct place *p = place_of(l);
    bool known = p->until.ns > clock_mono(l->service->clock).ns &&
                 memcmp(p->digest, l->digest, sizeof l->digest) == 0;
    INVARIANT(pthread_mutex_unlock(&all->lock) == 0);
    return known;
}

/* Only after page_leave_known, which has made the digest. */
static void leave_keep(const struct page_leave *l)
{
    struct page_leaves *all = l->service->leaves;
    struct place *p = place_of(l);
    INVARIANT(pthread_mutex_lock(&all->lock) == 0);
    memcpy(p->digest, l->digest, sizeof l->digest);
    p->until = mono_add_ms(clock_mono(l->service->clock), l->domain->leave_ttl_ms);
    INVARIANT(pthread_mutex_unlock(&all->lock) == 0);
}

static void leave_over(struct task *t)
{
    struct page_leave *l = CONTAINER_OF(t, struct page_leave, task);
    l->done(l);
}

/* Loop. FINE says that the wiki answered; may_read is what it said. */
static void leave_told(struct render_request *r, enum render_why why)
{
    struct page_leave *l = r->ctx;
    l->why = why == RENDER_FINE && !r->may_read ? ERR_DENIED : page_err_of_render(why);
    l->note = r->note;
    l->retry_after_s = r->retry_after_s;
    if (l->why == ERR_OK && l->domain->leave_ttl_ms > 0)
        leave_keep(l);
    l->task.run = leave_over;
    home_post(l->home, &l->task);
}

void page_leave_ask(struct page_leave *l)
{
    l->request = (struct render_request){ .origin = l->domain->origin,
                                          .want = WANT_LEAVE,
                                          .title = l->title,
                                          .cookie = l->cookie,
                                          .authorization = l->authorization,
                                          .deadline = l->deadline,
                                          .arena = l->arena,
                                          .done = leave_told,
                                          .ctx = l };
    render_start(&l->request);
}
