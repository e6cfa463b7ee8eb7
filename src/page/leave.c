/* leave.c - a yes is kept under a lock, by its digest; a question is one call of api.php. */
#include "page/leave.h"

#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct place {
    unsigned char digest[SHA256_BYTES];
    mono until;
};
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

static struct place *place_of(const struct page_leave *l)
{
    uint32_t n;
    memcpy(&n, l->digest, sizeof n);
    return &l->service->leaves->places[n % LEAVE_PLACES];
}

/* Each with its length before it: no two readers' words run into one another. */
static void digest_add(struct evp_md_ctx_st *h, str s)
{
    uint64_t n = s.n;
    sha256_add(h, (str){ .p = (const char *)&n, .n = sizeof n });
    if (n > 0)
        sha256_add(h, s);
}

bool page_leave_known(struct page_leave *l)
{
    if (l->domain->leave_ttl_ms == 0)
        return false;
    struct evp_md_ctx_st *h = sha256_begin();
    digest_add(h, l->domain->name);
    digest_add(h, l->title);
    digest_add(h, l->cookie);
    digest_add(h, l->authorization);
    sha256_end(h, l->digest);
    struct page_leaves *all = l->service->leaves;
    INVARIANT(pthread_mutex_lock(&all->lock) == 0);
    const struct place *p = place_of(l);
    bool known = p->until.ns > clock_mono(l->service->clock).ns &&
                 memcmp(p->digest, l->digest, sizeof l->digest) == 0;
    INVARIANT(pthread_mutex_unlock(&all->lock) == 0);
    return known;
}

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

/* Loop. */
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
