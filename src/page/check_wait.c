/* check_wait.c - readers that wait for a word of a wiki, for check.c.
 *
 * Invariant: a reader that waits is in the heap of its domain and in one list, until it is told
 * or leaves. */
#include "page/check_impl.h"

#include <stdatomic.h>

static bool deadline_less(const struct heap_node *a, const struct heap_node *b)
{
    return CONTAINER_OF(unconst(a), struct page_check, by_deadline)->deadline.ns <
           CONTAINER_OF(unconst(b), struct page_check, by_deadline)->deadline.ns;
}

void check_waits_init(struct check_waits *w)
{
    heap_init(&w->deadlines, deadline_less);
}

void check_waits_fini(struct check_waits *w)
{
    heap_fini(&w->deadlines);
}

void check_wait_begin(struct check_waits *w, struct list *waiters, struct page_check *c)
{
    c->waits = w;
    list_append(waiters, &c->link);
    heap_add(&w->deadlines, &c->by_deadline);
    atomic_fetch_add_explicit(&w->waiting, 1, memory_order_relaxed);
}

/* Out of heap and list; waits NULL says that it is not there any more. */
static void wait_leave(struct page_check *c)
{
    list_remove(&c->link);
    heap_remove(&c->waits->deadlines, &c->by_deadline);
    atomic_fetch_sub_explicit(&c->waits->waiting, 1, memory_order_relaxed);
    c->waits = NULL;
}

bool page_check_leave(struct page_check *c)
{
    /* Not there yet (start_run sees left), or over: then done is on its way. */
    if (c->waits == NULL) {
        c->left = true;
        return false;
    }
    wait_leave(c);
    return true;
}

static void wait_run(struct task *t)
{
    struct page_check *c = CONTAINER_OF(t, struct page_check, task);
    c->done(c);
}

/* Posts done to the reader's home; nothing here touches it afterwards. */
void check_wait_end(struct page_check *c, err why)
{
    if (c->waits != NULL)
        wait_leave(c);
    c->why = why;
    c->task.run = wait_run;
    home_post(c->home, &c->task);
}

void check_waits_end(struct list *waiters, err why, int64_t retry_after_s)
{
    for (struct list *l = list_first(waiters); l != NULL; l = list_first(waiters)) {
        struct page_check *c = CONTAINER_OF(l, struct page_check, link);
        c->retry_after_s = retry_after_s;
        check_wait_end(c, why);
    }
}

void check_waits_heard(struct list *waiters, const struct check_call *call,
                       const struct check_asked *a)
{
    /* The word of `above` was asked for before the question about that revision. */
    const store_time asked_at = a->above != 0 ? a->word.asked_at : call->asked_at;
    for (struct list *l = waiters->next, *next = l->next; l != waiters; l = next, next = l->next) {
        struct page_check *c = CONTAINER_OF(l, struct page_check, link);
        c->news |= a->news;
        c->said_s = call->request.words.said_s;
        c->has_word = trust_key_of(a->cell).rev == 0;
        c->word = a->word;
        /* A reader that came after the question waits for the next word. */
        if (!store_time_before(asked_at, c->since))
            check_wait_end(c, ERR_OK);
    }
}

void check_wait_unreached(struct page_check *c, const struct check_unreached *u)
{
    c->answered = c->unreached = true;
    c->says = u->says;
    c->asked_at = u->asked_at;
    check_wait_end(c, u->says != 0 ? ERR_OK : ERR_AGAIN);
}

/* Readers that have time stay: one of the next words may reach it. */
bool check_waits_unreached(struct list *waiters, const struct check_unreached *u)
{
    bool left = false;
    for (struct list *l = waiters->next, *next = l->next; l != waiters; l = next, next = l->next) {
        struct page_check *c = CONTAINER_OF(l, struct page_check, link);
        if (c->behind)
            continue;
        if (store_time_before(u->asked_at, c->since))
            left = true;
        else
            check_wait_unreached(c, u);
    }
    return left;
}

void check_waits_answered(struct list *waiters)
{
    for (struct list *l = waiters->next; l != waiters; l = l->next)
        CONTAINER_OF(l, struct page_check, link)->answered = true;
}

void check_waits_late(struct check_waits *w, mono now)
{
    for (struct heap_node *n = heap_first(&w->deadlines); n != NULL;
         n = heap_first(&w->deadlines)) {
        struct page_check *c = CONTAINER_OF(n, struct page_check, by_deadline);
        if (c->deadline.ns > now.ns)
            return;
        check_wait_end(c, ERR_TIMEOUT);
    }
}

/* The first deadline of the domain, for its timer. */
mono check_waits_until(struct check_waits *w)
{
    const struct heap_node *first = heap_first(&w->deadlines);
    return first == NULL ? (mono){ .ns = INT64_MAX }
                         : CONTAINER_OF(unconst(first), struct page_check, by_deadline)->deadline;
}
