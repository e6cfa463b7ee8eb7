/* sweep_batch.c - the titles that a sweep is at, from a look into the store to a note of it.
 *
 *   COUNT, of a new lap -----------------------------------------------------------> NOTE -> rests
 *   LOOK -> ASK titles -> LOOK for what was heard -> HISTORY of each title ->\        ^
 *                                     ASK revisions, until all were asked -> FORGET words
 *
 * The store is looked at on the pool; all else is on the loop.
 * Invariants
 *  1. All that a note says was asked for was asked for, and the store has heard it.
 *  2. After a failure a batch begins anew. */
#include "page/sweep_impl.h"

#include "base/log.h"
#include "loop/loop.h"
#include "render/words.h"

#include <stdlib.h>

_Static_assert((int)PAGE_REVS_MAX <= (int)WORDS_MAX, "a history is one call at most");

struct batch;
/* One question to the checks, with the way back to its batch. */
struct batch_check {
    struct page_check check;
    struct batch *of;
};
/* Titles that follow each other, and what is under way for them. Owner: the sweep, from
 * batch_begin to batch_end. */
struct batch {
    struct sweep *sweep;
    struct task task;
    struct page_walk walk;
    struct page_revs revs;
    struct page_forget forget;
    struct page_note_put note;
    char bytes[PAGE_NOTE_BYTES_MAX];
    store_time began;
    uint64_t counted;
    struct sweep_text last; /* title that was looked at */
    bool more;              /* behind it */
    bool asked;             /* its titles were */
    /* with a render */
    unsigned titles_count;
    struct trust_cell *titles[WORDS_MAX];
    struct title_word words[WORDS_MAX];
    bool heard[WORDS_MAX];
    /* of those that were asked for: what was heard of them */
    unsigned said_count;
    struct trust_cell *said_of[WORDS_MAX];
    struct title_word said[WORDS_MAX];
    bool has_said[WORDS_MAX];
    /* without */
    unsigned gone_count;
    struct sweep_text gone[PAGE_FORGET_MAX];
    str gone_keys[PAGE_FORGET_MAX];
    /* HISTORY: of this title, below this revision (0: from its newest); the cells of revisions */
    unsigned at;
    uint64_t below;
    unsigned revs_count;
    struct trust_cell *revisions[WORDS_MAX];
    /* ASK */
    struct batch_check checks[WORDS_MAX];
    unsigned checks_count, left;
    void (*then)(struct sweep *w);
};

static void sweep_batch_look(struct sweep *w);
static void history(struct sweep *w);

static struct loop *loop_of(const struct sweep *w)
{
    return w->service->loop;
}

/* ---- batches ---- */

static void cells_release(struct trust_cell **cells, unsigned *count)
{
    while (*count > 0)
        trust_release(&cells[--*count]);
}

/* Starts behind the last title that a note may say was asked for. */
static void batch_begin(struct sweep *w)
{
    w->batch = calloc(1, sizeof *w->batch);
    INVARIANT(w->batch != NULL);
    w->batch->sweep = w;
    w->batch->began = clock_store(w->service->clock);
    w->batch->last = w->lap.at;
}

/* The end of every batch: cells are let go, and the sweep's place is free. */
static void batch_end(struct sweep *w, bool fails)
{
    struct batch *b = w->batch;
    cells_release(b->titles, &b->titles_count);
    cells_release(b->said_of, &b->said_count);
    cells_release(b->revisions, &b->revs_count);
    free(b);
    w->batch = NULL;
    sweep_rests(w, fails);
}

/* Nothing is noted: the same titles are asked for again. wait_ms: what the wiki wants. */
static void batch_fail(struct sweep *w, int64_t wait_ms)
{
    w->again_at = mono_add_ms(clock_mono(w->service->clock),
                              wait_ms > SWEEP_RETRY_MS ? wait_ms : SWEEP_RETRY_MS);
    batch_end(w, !w->stopped);
}

/* Ends the batch when the store has failed or nothing is to begin any more. False: go on. */
static bool batch_over(struct sweep *w, err why)
{
    if (why == ERR_OK && !w->stopped)
        return false;
    if (!w->stopped)
        log_event(w->service->log, LOG_WARN, "page.sweep_failed",
                  LOG_STR("domain", w->domain->name), LOG_CSTR("why", err_name(why)),
                  LOG_CSTR("what", "the store could not be gone through; it is tried again"));
    batch_fail(w, 0);
    return true;
}

static void on_pool(struct sweep *w, void (*run)(struct task *t))
{
    w->batch->task.run = run;
    home_post(loop_pool(loop_of(w)), &w->batch->task);
}

/* ---- NOTE ---- */

static void sweep_batch_noted(struct store_call *c)
{
    struct sweep *w = CONTAINER_OF(c, struct batch, note.call)->sweep;
    if (!batch_over(w, c->why))
        batch_end(w, false);
}

/* Writes how far the lap came. A note that is lost costs the same questions after a restart. */
static void note(struct sweep *w)
{
    struct batch *b = w->batch;
    b->note =
        (struct page_note_put){ .call = { .deadline = page_write_deadline(w->service),
                                          .home = loop_home(loop_of(w)),
                                          .done = sweep_batch_noted },
                                .domain = w->domain->number,
                                .note = PAGE_NOTE_SWEEP,
                                .bytes = { .p = b->bytes, .n = lap_encode(&w->lap, b->bytes) } };
    store_call_post(page_store_note_put(w->service->store, &b->note), &b->note.call);
}

/* ---- COUNT ---- */

/* Only titles with a render are counted: they are what the lap asks for. */
static bool count_title(void *ctx, const struct page_swept *t)
{
    struct batch *b = ctx;
    b->counted += t->stored;
    sweep_text_set(&b->last, t->title);
    return true;
}

static void count_run(struct task *t);

/* Loop. A long domain is counted in several walks, so that none holds its view for long. */
static void counted(struct store_call *c)
{
    struct sweep *w = CONTAINER_OF(c, struct batch, walk.call)->sweep;
    struct batch *b = w->batch;
    if (batch_over(w, c->why))
        return;
    if (b->walk.more) {
        on_pool(w, count_run);
        return;
    }
    lap_begin(&w->lap, b->began, b->counted);
    w->hurries = w->wanted;
    w->wanted = false;
    note(w);
}

/* The walk's callbacks run on the pool, inside the store's start. */
static void walk(struct batch *b, bool (*each)(void *ctx, const struct page_swept *t),
                 unsigned titles, void (*done)(struct store_call *c))
{
    const struct sweep *w = b->sweep;
    b->walk = (struct page_walk){ .call = { .home = loop_home(loop_of(w)), .done = done },
                                  .domain = w->domain->number,
                                  .titles = titles,
                                  .each = each,
                                  .ctx = b };
}

static void count_run(struct task *t)
{
    struct batch *b = CONTAINER_OF(t, struct batch, task);
    /* A copy: count_title moves b->last during the walk. */
    struct sweep_text after = b->last;
    walk(b, count_title, SWEEP_COUNT_MAX, counted);
    b->walk.after = sweep_text_str(&after);
    store_call_post(page_store_walk(b->sweep->service->store, &b->walk), &b->walk.call);
}

/* ---- ASK ---- */

/* What became of all questions of a batch. */
struct asked_sum {
    unsigned failed, unanswered, news;
    int64_t said_s, retry_after_s;
};

/* answered, but not for this one: damage is passed over, not asked for without end. */
static struct asked_sum asked_sum(const struct batch *b)
{
    struct asked_sum sum = { .failed = 0 };
    for (unsigned i = 0; i < b->checks_count; i++) {
        const struct page_check *c = &b->checks[i].check;
        bool heard = c->why == ERR_OK;
        sum.failed += !heard && !c->answered;
        sum.unanswered += !heard && c->answered;
        sum.news += heard && c->news;
        /* The earliest instant of the wiki's clock: a touch before it was seen by all answers. */
        if (heard && (sum.said_s == 0 || c->said_s < sum.said_s))
            sum.said_s = c->said_s;
        if (c->retry_after_s > sum.retry_after_s)
            sum.retry_after_s = c->retry_after_s;
    }
    return sum;
}

/* Loop. The last answer goes on with the batch. */
static void sweep_batch_checked(struct page_check *c)
{
    struct sweep *w = CONTAINER_OF(c, struct batch_check, check)->of->sweep;
    if (--w->batch->left > 0)
        return;
    sweep_goes_on(w);
    w->batch->then(w);
}

/* Asks the checks about all cells at once. The deadline is the wiki's pause alone (sweep_leave). */
static void sweep_batch_ask(struct sweep *w, struct trust_cell *const *cells, unsigned count,
                            void (*then)(struct sweep *w))
{
    const struct page_service *s = w->service;
    struct batch *b = w->batch;
    b->checks_count = b->left = count;
    b->then = then;
    for (unsigned i = 0; i < count; i++) {
        b->checks[i] = (struct batch_check){ .check = { .checks = s->checks,
                                                        .domain = w->domain,
                                                        .cell = cells[i],
                                                        .since = clock_store(s->clock),
                                                        .deadline = { .ns = INT64_MAX },
                                                        .behind = true,
                                                        .home = loop_home(s->loop),
                                                        .done = sweep_batch_checked },
                                             .of = b };
        page_check_start(&b->checks[i].check);
    }
    sweep_asks(w);
}

/* Ends the wait: the wiki pauses. The checks keep what was asked for, and ask it once. */
void sweep_leave(struct sweep *w)
{
    struct batch *b = w->batch;
    for (unsigned i = 0; i < b->checks_count; i++) {
        struct page_check *c = &b->checks[i].check;
        if (!page_check_leave(c)) /* it is on its way, or was told */
            continue;
        c->why = ERR_AGAIN;
        b->left--;
    }
    if (b->left > 0)
        return;
    sweep_goes_on(w);
    b->then(w);
}

/* Counts what was asked. False: a question failed, and the batch is over. */
static bool ask_over(struct sweep *w, struct asked_sum *sum)
{
    *sum = asked_sum(w->batch);
    const struct sweep_counts more = { .found = sum->news, .unanswered = sum->unanswered };
    sweep_count(w, &more);
    if (sum->failed == 0 && !w->stopped)
        return true;
    batch_fail(w, 1000 * sum->retry_after_s);
    return false;
}

/* ---- FORGET, and the end ---- */

/* All titles up to `last` were asked for: the lap moves on, and a note says so. */
static void sweep_batch_advance(struct sweep *w)
{
    struct batch *b = w->batch;
    lap_advance(&w->lap, &b->last, b->titles_count, !b->more);
    w->laps += w->lap.over;
    w->hurries = w->hurries && !w->lap.over;
    note(w);
}

static void forgotten(struct store_call *c)
{
    struct batch *b = CONTAINER_OF(c, struct batch, forget.call);
    struct sweep *w = b->sweep;
    if (batch_over(w, c->why))
        return;
    const struct sweep_counts more = { .forgotten = b->forget.forgotten };
    sweep_count(w, &more);
    sweep_batch_advance(w);
}

/* Forgets the words of titles without renders, once they are old enough. */
static void forget(struct sweep *w)
{
    const struct page_service *s = w->service;
    struct batch *b = w->batch;
    if (b->gone_count == 0) {
        sweep_batch_advance(w);
        return;
    }
    for (unsigned i = 0; i < b->gone_count; i++)
        b->gone_keys[i] = sweep_text_str(&b->gone[i]);
    b->forget = (struct page_forget){ .call = { .deadline = page_write_deadline(s),
                                                .home = loop_home(s->loop),
                                                .done = forgotten },
                                      .domain = w->domain->number,
                                      .titles = b->gone_keys,
                                      .count = b->gone_count,
                                      .before = { .ns = clock_store(s->clock).ns -
                                                        SWEEP_KEEP_S * NS_PER_S } };
    store_call_post(page_store_forget(s->store, &b->forget), &b->forget.call);
}

/* ---- HISTORY ---- */

/* Loop. One call of revisions was asked; history goes on where it stopped. */
static void revisions_asked(struct sweep *w)
{
    struct batch *b = w->batch;
    struct asked_sum sum;
    if (!ask_over(w, &sum))
        return;
    const struct sweep_counts more = { .revisions = b->revs_count };
    sweep_count(w, &more);
    cells_release(b->revisions, &b->revs_count);
    history(w);
}

/* Takes revisions of the title at hand into the call, as many as fit. below: where to go on; 0:
 * the title is over. */
static void take_revisions(struct batch *b)
{
    const struct page_revs *r = &b->revs;
    struct trust_key k = trust_key_of(b->titles[b->at]);
    unsigned taken = 0;
    for (; taken < r->count && b->revs_count < WORDS_MAX; taken++) {
        k.rev = r->revs[taken];
        b->revisions[b->revs_count++] = page_trust_hold(b->sweep->service->trust, &k);
    }
    b->below = taken < r->count ? r->revs[taken] + 1 : r->next;
    b->at += b->below == 0;
}

/* A title that is damaged is passed over. */
static void history_found(struct store_call *c)
{
    struct sweep *w = CONTAINER_OF(c, struct batch, revs.call)->sweep;
    if (batch_over(w, c->why == ERR_CORRUPT ? ERR_OK : c->why))
        return;
    if (c->why == ERR_OK) {
        take_revisions(w->batch);
    } else { /* damage is for a check of the store to tell */
        w->batch->below = 0;
        w->batch->at++;
    }
    history(w);
}

/* Pool. The newest revision is not asked for by number: the word on the title covers it. */
static void history_run(struct task *t)
{
    struct batch *b = CONTAINER_OF(t, struct batch, task);
    const struct sweep *w = b->sweep;
    const struct title_word *word = &b->words[b->at];
    b->revs = (struct page_revs){ .call = { .home = loop_home(loop_of(w)), .done = history_found },
                                  .domain = w->domain->number,
                                  .title = trust_key_of(b->titles[b->at]).title,
                                  .below = b->below == 0 ? word->rev : b->below,
                                  .since = lap_history_since(&w->lap, word) };
    store_call_post(page_store_revs(w->service->store, &b->revs), &b->revs.call);
}

/* Collects revisions over several titles until a call is full. */
static void history(struct sweep *w)
{
    struct batch *b = w->batch;
    /* Nothing is older than a first revision, and a missing page has no revisions to ask for. */
    while (b->at < b->titles_count &&
           (!b->heard[b->at] || b->words[b->at].missing || b->words[b->at].rev <= 1))
        b->at++;
    bool done = b->at == b->titles_count;
    if (b->revs_count == WORDS_MAX || (done && b->revs_count > 0))
        sweep_batch_ask(w, b->revisions, b->revs_count, revisions_asked);
    else if (done)
        forget(w);
    else
        on_pool(w, history_run);
}

/* ---- LOOK ---- */

/* Takes what a check heard for the title, where the store tells no words with its titles. */
static void said_find(struct batch *b, unsigned title)
{
    for (unsigned i = 0; i < b->said_count && !b->heard[title]; i++)
        if (b->has_said[i] && b->said_of[i] == b->titles[title]) { /* held: so it is the same */
            b->heard[title] = true;
            b->words[title] = b->said[i];
        }
}

/* Pool. Takes one title of the walk. False: the batch is full, and this title is of the next. */
static bool look_title(void *ctx, const struct page_swept *t)
{
    struct batch *b = ctx;
    const struct sweep *w = b->sweep;
    const struct trust_key k = { .domain = w->domain->number, .title = t->title };
    if (t->stored && b->titles_count == WORDS_MAX)
        return false;
    if (t->stored) {
        unsigned i = b->titles_count++;
        b->titles[i] = page_trust_hold(w->service->trust, &k);
        b->heard[i] = t->heard;
        b->words[i] = t->word;
        said_find(b, i);
        /* The second look forgets nothing: a render may have come and gone between. */
    } else if (!b->asked) {
        sweep_text_set(&b->gone[b->gone_count++], t->title);
    }
    if (!b->asked)
        sweep_text_set(&b->last, t->title);
    return true;
}

/* Keeps what the checks heard, and makes room for the second look. Not each store tells words
 * with its titles. */
static void said_keep(struct batch *b)
{
    for (unsigned i = 0; i < b->titles_count; i++) {
        const struct page_check *c = &b->checks[i].check;
        b->said_of[i] = b->titles[i];
        b->has_said[i] = c->why == ERR_OK && c->has_word;
        b->said[i] = c->word;
    }
    b->said_count = b->titles_count;
    b->titles_count = 0;
}

/* Loop. All titles were asked for. */
static void titles_asked(struct sweep *w)
{
    struct asked_sum sum;
    if (!ask_over(w, &sum))
        return;
    if (w->lap.said == 0)
        w->lap.said = sum.said_s;
    w->batch->asked = true;
    said_keep(w->batch);
    sweep_batch_look(w);
}

/* Loop. First look: ask. Second look: on to the revisions. */
static void sweep_batch_looked(struct store_call *c)
{
    struct sweep *w = CONTAINER_OF(c, struct batch, walk.call)->sweep;
    struct batch *b = w->batch;
    if (batch_over(w, c->why))
        return;
    if (!b->asked)
        b->more = b->walk.more;
    if (b->asked)
        history(w);
    else if (b->titles_count > 0)
        sweep_batch_ask(w, b->titles, b->titles_count, titles_asked);
    else
        forget(w);
}

/* Pool. The second look ends with the last title of the first: titles that came behind it are of
 * the next batch. */
static void look_run(struct task *t)
{
    struct batch *b = CONTAINER_OF(t, struct batch, task);
    walk(b, look_title, PAGE_FORGET_MAX, sweep_batch_looked);
    b->walk.after = sweep_text_str(&b->sweep->lap.at);
    if (b->asked)
        b->walk.until = sweep_text_str(&b->last);
    store_call_post(page_store_walk(b->sweep->service->store, &b->walk), &b->walk.call);
}

static void sweep_batch_look(struct sweep *w)
{
    on_pool(w, look_run);
}

void sweep_go(struct sweep *w)
{
    bool is_new = w->wanted || w->lap.over || w->lap.began.ns == STORE_TIME_ZERO.ns;
    batch_begin(w);
    if (!is_new) {
        sweep_batch_look(w);
        return;
    }
    w->batch->last.n = 0;
    on_pool(w, count_run);
}
