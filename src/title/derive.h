/* derive.h - a title from its facts: the manual of a store that keeps facts.
 *
 * Model. Such a store keeps of each title the facts (fact.h) and of each bucket the policies as
 * they came into force, and nothing else: which render is the latest, until when each is kept,
 * what a read gives, is worked out at each reading. Here are the questions of such a store:
 *   title_derive  what is there now? (title_is_surely_latest: is a put the latest, without that?)
 *   title_stamp   which time has the next fact?
 *   title_cull    the bytes of which renders may be deleted?
 *   title_forget  which facts may be deleted?
 * All are pure: facts, policies and an instant in; the same answer in whatever order the facts
 * come, however often each comes, and after any part of what cull and forget allow was deleted, or
 * came back. All times are nanoseconds since 1970; no clock is read.
 * Ownership: what is given out is in the caller's arena and borrows facts and policies: these must
 * outlive it. Errors: ERR_LIMIT, when the arena is full; then *out is undefined. Nothing else
 * fails. Thread: any; no two for one arena. Limits: none of its own. Derive and cull take n log n
 * steps of the facts, and more where a policy groups renders; forget holds each purge, making and
 * repeated mark against all facts.
 *
 * Many servers write facts, each by its own clock. Let max_skew be how far a clock may be wrong.
 *   1 A fact's time is title_stamp of what its decision saw: what a server knew of comes before
 *     what it did. A pin stamped before its render would be lost.
 *   2 A server whose clock is further off than max_skew writes nothing.
 *   3 The horizon of cull and forget is settled: no fact will be written whose time is at or
 *     before it, and no put for which the wiki was asked before it. All facts up to it were read.
 *     So it is behind the clock by 2 x max_skew, and by the longest that a write takes from its
 *     decision on, and by the longest making.
 *   4 skew_ns is 2 x max_skew: within it nobody can say which of two servers asked the wiki
 *     first. Hiding wins, until the wiki is asked again.
 *   5 A render outlives the end of its stash or hold by linger_ns. So a pin of who did not see the
 *     end holds. Policies that keep what is superseded for less than that cannot promise so much.
 *
 * Source: the fold of a title (docs/adr/0023), what many servers add to it (docs/adr/0044); times
 * that follow what was seen: Lamport 1978; kept near to clocks: Kulkarni et al. 2014, hybrid
 * logical clocks. */
#ifndef TITLE_DERIVE_H
#define TITLE_DERIVE_H

#include "title/memory.h"

/* A policy comes into force. plan.number greater than before: all rows are planned anew. */
struct title_plan {
    struct page_plan plan;
    store_time at;
    uint32_t n; /* as of facts: before those of its instant that have no less */
};
struct title_facts {
    const struct fact *facts; /* in any order, any of them any number of times */
    size_t facts_count;
    const struct title_plan *plans; /* likewise; the earliest is before all facts */
    size_t plans_count;             /* at least 1, or the process ends */
    int64_t skew_ns;                /* 2 x max_skew; 0: one server */
    int64_t linger_ns; /* skew_ns, and the longest from a decision to the end of its write; or 0 */
};
/* The title as it is now, or at its latest fact when that is later.
 *   out  rows and traces by name; what title_find (find.h) and decisions (decide.h) look at. Its
 *        title.now is the instant it is of. conflicts: how many puts were never shown because the
 *        name had other bytes
 * Of several puts of one name the earliest counts, for as long as its render is there. */
MUST_CHECK err title_derive(const struct title_facts *in, store_time now, struct arena *a,
                            struct title_memory *out);

/* Is the render of this put the latest, whatever was put beside it? Then a reading of the latest
 * needs no fold, and no more of a title than this put and what is no put.
 *   acts  all facts of the title that are not puts, and all policies of its bucket
 *   put   the earliest of the greatest name, as fact_cmp has it
 * False: derive says. True most often: no one touched it, and no policy was ever ttl. How long it
 * is pinned, derive says. */
MUST_CHECK bool title_is_surely_latest(const struct title_facts *acts, const struct fact *put);

/* The time of the next fact of this server.
 *   clock  of this server      last  the time of its last fact, of whichever title
 * Later than last and than each fact of in, else clock. Servers that keep rule 2 are ahead of any
 * clock by no more than skew_ns and a nanosecond a fact. A caller that finds more refuses to write:
 * else one wrong clock would carry all others along. */
store_time title_stamp(const struct title_facts *in, store_time clock, store_time last);

/* ---- bytes ---- */

struct title_range {
    struct page_name low, high; /* both within */
};
/* The bytes of all renders of these names that were written at or before `at` may be deleted: none
 * of them will be shown again. A render put later stays, whatever its name: so the deletion must
 * spare what was written after `at`. A store whose write times are coarser takes the last one that
 * ended before `at`.
 *   Ranges rise, lie between renders that keep their bytes, and are as wide as they can be: few
 * deletions, whatever became of single renders. Each holds at least one render whose fact says that
 * it has bytes. They end between ticks, since stores do not agree on the order within one: bytes of
 * a gone render go no sooner than those of another of its revision and tick. */
struct title_cull {
    store_time at;
    struct title_range *ranges;
    size_t count;
};
MUST_CHECK err title_cull(const struct title_facts *in, store_time horizon, struct arena *a,
                          struct title_cull *out);

/* ---- facts ---- */

/* Is there a put that no FORGOTTEN tells of? */
bool title_has_puts(const struct title_facts *in);

/* Which facts may be deleted, so that derive says the same for every instant from the horizon and
 * the latest fact on?
 *   puts       of the lowest names, up to `up_to`, that were all unknown at the horizon: neither
 *              stored nor traced; and those before a FORGOTTEN
 *   pins       and their ends, of such names. No pin ends by itself: one that has run out says
 *              until when its render was there
 *   marks      and words, of such revisions or before all puts that stay; marks that hide what is
 *              hidden, between two that do, when nothing is put or shown between these
 *   purges     that a later one covers, when all puts that stay are later than both
 *   MADE       of a render that was made again since
 *   FORGOTTEN  that another one covers
 * With `any`, first the fact of title_forget_fact is written, for good and so that every reading
 * sees it; then facts are deleted. From then on any of them may be there or not: a deletion that is
 * lost, or done in part, or undone by a copy that was away, changes nothing.
 *   traces_max  a title keeps so many traces, and the lowest names above that are unknown once
 *               their FORGOTTEN is there; 0: however many. Those above a render that is stored
 *               stay: what is forgotten are always the lowest names of all */
struct title_forgotten {
    const struct fact **facts;
    size_t count;
};
struct title_forget {
    struct title_forgotten before; /* the FORGOTTEN of in */
    bool any;                      /* is any put forgotten that no FORGOTTEN covers? */
    struct page_name up_to;        /* with any */
    store_time horizon;
    const struct fact *first_kept; /* the earliest put that stays; NULL: none does */
    store_time least_said_at;      /* of those that stay */
};
MUST_CHECK err title_forget(const struct title_facts *in, store_time horizon, size_t traces_max,
                            struct arena *a, struct title_forget *out);
/* The same for no more names than up to this one. */
void title_forget_less(const struct title_facts *in, struct title_forget *f,
                       struct page_name up_to);
/* Is this one of them? It is one of in. */
bool title_forgets(const struct title_facts *in, const struct title_forget *f,
                   const struct fact *fact);
/* at: as of title_stamp. */
struct fact title_forget_fact(const struct title_forget *f, store_time at);

#endif
