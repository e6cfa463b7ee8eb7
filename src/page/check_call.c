/* check_call.c - one call to a wiki for words.
 *
 *   asked (loop) -> heard by the store, one item after the other, and trusted (pool) -> over (loop)
 */
#include "base/log.h"
#include "loop/loop.h"
#include "page/check_impl.h"
#include "page/remake.h"
#include "page/tell.h"

#include <stdlib.h>

/* WORDS_MAX titles and their answers; more is no sane answer. */
enum { CALL_ARENA_BYTES_MAX = 8 << 20 };

static void hear_next(struct check_call *call);

static void over_run(struct task *t)
{
    struct check_call *call = CONTAINER_OF(t, struct check_call, task);
    call->over(call);
}

static struct check_asked *current(struct check_call *call)
{
    return &call->asked[call->next];
}

/* ---- from an answer to what is heard. Pool ---- */

/* What the answer says of a title. False: it says nothing of it. */
static bool word_of(const struct check_call *call, const struct words_title *t,
                    struct title_word *word)
{
    *word = (struct title_word){ .said = call->request.words.said_s, .asked_at = call->asked_at };
    /* A copy that is behind shows no change that its word would reach by. */
    if (!call->behind)
        word->newest = call->request.words.newest;
    switch (t->state) {
    case WORDS_TITLE_THERE:
        word->page_id = t->page_id;
        word->rev = t->rev;
        word->touched = t->touched_s;
        word->redirect = t->redirect;
        return true;
    case WORDS_TITLE_MISSING:
    case WORDS_TITLE_INVALID:
    case WORDS_TITLE_ELSEWHERE: /* nothing stands under this key */
        word->missing = true;
        return true;
    case WORDS_TITLE_UNANSWERED:
        break;
    }
    return false;
}

/* What the answer says of a revision. False: nothing. One of another title was moved away: for
 * this title it is deleted. */
static bool state_of(const struct check_call *call, const struct words_revision *r,
                     enum page_state *state)
{
    struct trust_key k = trust_key_of(call->asked[call->next].cell);
    bool ours = r->state != WORDS_REVISION_MISSING && str_eq(r->title, k.title);
    if (r->state == WORDS_REVISION_UNANSWERED)
        return false;
    *state = !ours                               ? PAGE_DELETED
             : r->state == WORDS_REVISION_HIDDEN ? PAGE_SUPPRESSED
                                                 : PAGE_CURRENT;
    return true;
}

/* hear.marks points into the call: it is set with the first mark. */
static void hear_mark(struct check_call *call, struct title_mark mark)
{
    call->marks[call->hear.marks_count++] = mark;
    call->hear.marks = call->marks;
}

/* Of the revision that is asked for by its own number. */
static void hear_revision(struct check_call *call, enum page_state state)
{
    uint64_t rev = trust_key_of(current(call)->cell).rev;
    hear_mark(call, (struct title_mark){
                        .state = state, .first = rev, .last = rev, .said_at = call->asked_at });
}

/* The revision above the wiki's newest was asked for by its number. False: it is there, so the
 * word lags. Deleted: so are those above the word, as of when the word came; a revision may have
 * come since. Of an imported history, revisions that are known to be there stay. */
static bool hear_above(struct check_call *call, enum page_state state)
{
    struct check_asked *a = current(call);
    /* A believed word takes the revision as it is: an imported history. */
    if (call->behind || (state != PAGE_DELETED && !a->believe))
        return false;
    call->hear.word = &a->word;
    call->hear.believe = true;
    call->hear.there = state == PAGE_DELETED ? 0 : a->above;
    if (state != PAGE_DELETED)
        return true;
    hear_mark(call, (struct title_mark){ .state = PAGE_DELETED,
                                         .first = a->above,
                                         .last = a->above,
                                         .said_at = call->asked_at });
    hear_mark(call,
              (struct title_mark){ .state = PAGE_DELETED,
                                   .first = (a->known > a->word.rev ? a->known : a->word.rev) + 1,
                                   .last = PAGE_REV_MAX,
                                   .said_at = a->word.asked_at });
    return true;
}

/* Fills in the word of a title. A word that does not reach what the wiki is known to have done
 * is heard as doubted: the store takes from it what is newer than all that is known. So it does
 * with a missing page, unless the page may just have been made. */
static bool fill_word(struct check_call *call)
{
    struct check_asked *a = current(call);
    if (!word_of(call, &call->request.words.titles[call->next], &a->word))
        return false;
    a->became = CHECK_LAGS;
    call->hear.word = &a->word;
    call->hear.believe = a->believe && !call->behind;
    a->doubted = !call->hear.believe && !trust_reaches(a->cell, &a->word);
    call->hear.doubted = a->doubted;
    if (a->doubted)
        a->became = CHECK_UNREACHED;
    return !a->doubted || !a->word.missing ||
           !call->behind; /* else nobody waits for a better one */
}

/* Fills in hear for the current item. False: there is nothing to hear, and a->became says why. */
static bool check_call_fill(struct check_call *call)
{
    struct check_asked *a = current(call);
    enum page_state state = PAGE_CURRENT;
    a->became = CHECK_UNANSWERED;
    if (!call->of_revisions)
        return fill_word(call);
    if (!state_of(call, &call->request.words.revisions[call->next], &state))
        return false;
    if (a->above == 0) {
        hear_revision(call, state);
        return true;
    }
    a->became = CHECK_LAGS;
    return hear_above(call, state);
}

/* ---- heard ---- */

/* Trusts what was heard. False: by now more is known of what the word must reach. */
static bool check_call_trust(const struct check_call *call, const struct check_asked *a)
{
    if (trust_key_of(a->cell).rev == 0)
        return trust_hear_word(a->cell, &a->word, a->believe && !call->behind);
    trust_hear(a->cell, call->asked_at,
               call->marks[0].state == PAGE_CURRENT      ? TRUST_SHOWN
               : call->marks[0].state == PAGE_SUPPRESSED ? TRUST_HIDDEN
                                                         : TRUST_GONE);
    return true;
}

/* Tells the other servers. A denial always goes out, as they may have stored what this one has
 * not; what is shown goes out when it was news here. */
static void check_call_tell(const struct check_call *call)
{
    const struct page_hear *h = &call->hear;
    if (h->word != NULL && h->is == WORD_NEWS)
        page_word_tell(call->service, call->domain, h->title, h->word);
    for (unsigned i = 0; i < h->marks_count; i++)
        if (h->marks[i].state != PAGE_CURRENT || h->changed)
            page_mark_tell(call->service, call->domain, h->title, &h->marks[i]);
}

/* Does the answer deny all that was asked for? */
static bool denies(const struct check_call *call)
{
    const struct page_hear *h = &call->hear;
    return h->word != NULL ? h->word->missing : call->marks[0].state != PAGE_CURRENT;
}

/* Sorts the current item by what the store made of it. The order matters: a copy that is behind
 * is never believed, a doubted word only where it lags for no other reason. */
static void end_current(struct check_call *call)
{
    struct check_asked *a = current(call);
    err why = call->hear.call.why;
    bool of_word = call->hear.word != NULL;
    if (why != ERR_OK) {
        log_event(call->service->log, LOG_WARN, "page.word_unwritten",
                  LOG_STR("domain", call->domain->name),
                  LOG_STR("title", trust_key_of(a->cell).title), LOG_CSTR("why", err_name(why)));
        a->became = why == ERR_CORRUPT ? CHECK_UNHEARD : CHECK_UNWRITTEN;
    } else if (call->behind && call->hear.is == WORD_LAGS) {
        a->became = CHECK_LAGS;
    } else if (a->doubted && (call->hear.is == WORD_LAGS || call->hear.above != 0)) {
        a->became = CHECK_UNREACHED;
    } else if (of_word && call->hear.above != 0 && a->above == 0) {
        a->above = call->hear.above;
        a->known = call->hear.known;
        a->became = CHECK_ABOVE;
    } else if (of_word && call->hear.is == WORD_LAGS) {
        a->became = CHECK_LAGS;
    } else if (of_word && call->hear.is == WORD_OLD && !call->hear.echoes) {
        a->became = CHECK_OVERTAKEN;
    } else {
        check_call_tell(call);
        a->became = check_call_trust(call, a) ? CHECK_HEARD : CHECK_UNREACHED;
        a->says = of_word ? title_word_hash(&a->word) : 0;
        /* The word may have made renders old, also when it is not trusted. */
        if (of_word && (a->became == CHECK_HEARD || call->hear.is == WORD_NEWS))
            page_remake_heard(call->service, call->domain, call->hear.title);
        a->news = call->hear.changed || (of_word && call->hear.is == WORD_NEWS && call->hear.had);
    }
}

/* Pool. */
static void check_call_heard(struct store_call *c)
{
    struct check_call *call = CONTAINER_OF(c, struct check_call, hear.call);
    end_current(call);
    call->next++;
    hear_next(call);
}

/* Goes on until a hear is LATER; check_call_heard then takes up the next. In the end the loop
 * gets the call back. */
static void hear_next(struct check_call *call)
{
    for (; call->next < call->count; call->next++) {
        call->hear = (struct page_hear){ .call = { .deadline = page_write_deadline(call->service),
                                                   .home = loop_pool(call->service->loop),
                                                   .done = check_call_heard },
                                         .domain = call->domain->number,
                                         .title = trust_key_of(current(call)->cell).title,
                                         .behind = call->behind };
        if (!check_call_fill(call))
            continue;
        if (denies(call) && !call->behind) /* before the store hears it: what is being made looks
                             here, once it is stored */
            (void)check_call_trust(call, current(call));
        if (page_store_hear(call->service->store, &call->hear) == STORE_LATER)
            return;
        end_current(call);
    }
    call->task.run = over_run;
    home_post(loop_home(call->service->loop), &call->task);
}

/* ---- the call ---- */

static void hear_run(struct task *t)
{
    hear_next(CONTAINER_OF(t, struct check_call, task));
}

/* After a 401 or 403, asks a question without titles: a server before the wiki may dislike a
 * title. False: this was that question, or the wiki is closed already. */
static bool ask_plainly(struct check_call *call)
{
    if (!call->request.barred || call->plain || atomic_load(call->domain->closed) ||
        call->service->checks->stopped)
        return false;
    call->plain = true;
    call->request.words = (struct words){ .titles_count = 0 };
    words_start(&call->request);
    return true;
}

/* Loop. Judges the answer as a whole; items are heard on the pool. */
static void check_call_answered(struct words_request *r, enum render_why why)
{
    struct check_call *call = CONTAINER_OF(r, struct check_call, request);
    if (ask_plainly(call))
        return;
    /* The wiki answers plain questions: it refused this one. */
    if (call->plain && why == RENDER_FINE)
        why = RENDER_REFUSED;
    call->barred = r->barred;
    call->why = why;
    call->behind =
        page_checks_behind(call->service->checks, call->domain, &r->words.newest, call->asked_at);
    if (why == RENDER_FINE || why == RENDER_DENIED)
        checks_close(call->service->checks, call->domain, why == RENDER_DENIED);
    if (why != RENDER_FINE) {
        call->over(call);
        return;
    }
    call->task.run = hear_run;
    home_post(loop_pool(call->service->loop), &call->task);
}

static void fill_titles(struct check_call *call)
{
    struct words *w = &call->request.words;
    w->titles_count = call->count;
    w->titles = arena_calloc(&call->arena, call->count, sizeof *w->titles);
    for (unsigned n = 0; w->titles != NULL && n < call->count; n++)
        w->titles[n].title = trust_key_of(call->asked[n].cell).title;
}

static void fill_revisions(struct check_call *call)
{
    struct words *w = &call->request.words;
    w->revisions_count = call->count;
    w->revisions = arena_calloc(&call->arena, call->count, sizeof *w->revisions);
    for (unsigned n = 0; w->revisions != NULL && n < call->count; n++) {
        const struct check_asked *a = &call->asked[n];
        w->revisions[n].rev = a->above != 0 ? a->above : trust_key_of(a->cell).rev;
    }
}

struct check_call *check_call_new(const struct page_service *s, const struct page_domain *d)
{
    struct check_call *call = calloc(1, sizeof *call);
    INVARIANT(call != NULL);
    call->service = s;
    call->domain = d;
    arena_init(&call->arena, CALL_ARENA_BYTES_MAX);
    return call;
}

void check_call_free(struct check_call **cp)
{
    arena_fini(&(*cp)->arena);
    free(*cp);
    *cp = NULL;
}

/* Asked_at is taken first: a change that comes during the call is not in the word. */
void check_call_start(struct check_call *call)
{
    struct clock *clock = call->service->clock;
    call->asked_at = clock_store(clock);
    call->request =
        (struct words_request){ .origin = call->domain->origin,
                                .deadline = mono_add_ms(clock_mono(clock), CHECK_CALL_MS),
                                .arena = &call->arena,
                                .done = check_call_answered };
    if (call->of_revisions)
        fill_revisions(call);
    else
        fill_titles(call);
    const struct words *w = &call->request.words;
    INVARIANT(w->titles != NULL || w->revisions != NULL); /* WORDS_MAX of them fit the arena */
    words_start(&call->request);
}
