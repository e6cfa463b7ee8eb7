/* get_impl.h - the states of a read. Private to get*.c. */
#ifndef PAGE_GET_IMPL_H
#define PAGE_GET_IMPL_H

#include "page/get.h"

/* Entry actions and judgements return the state that is next. STEP_WAITS: something is under way,
 * which calls get_go at home; g may be gone. */
void get_go(struct page_get *g, enum page_get_state to);
/* Always STEP_END. */
enum page_get_state get_end(struct page_get *g, enum page_outcome outcome);
enum page_get_state get_end_why(struct page_get *g, enum page_outcome outcome, err why,
                                const struct err_note *note);
/* Could an origin make what this asks for? */
bool get_can_be_made(const struct page_get *g);
/* Is it to be made anew? */
bool get_wants_anew(const struct page_get *g);
/* The redirects that were followed lead nowhere: the first page itself is looked for. False: none
 * were. */
MUST_CHECK bool get_turn_back(struct page_get *g);

/* What was found may be given: keep it, or answer. */
enum page_get_state get_found(struct page_get *g);
enum page_get_state get_answer(struct page_get *g);

/* get_check.c */
/* Inside a read, once the render is known: what trust there is in it. True: the wiki is asked
 * first, and what is read meanwhile would be read again. */
bool get_check_look(struct page_get *g);
/* It was found, and looked at: does the wiki still say so? */
enum page_get_state get_check_judge(struct page_get *g);
enum page_get_state get_check_enter(struct page_get *g);
/* Is it to be made anew (old.h)? */
bool get_is_old(const struct page_get *g);
/* When it is, if the wiki says nothing else. */
store_time get_old_at(const struct page_get *g);
enum trust_reader get_reader(const struct page_get *g);
/* When is the latest to be made once more, because it was made too soon after its page was touched?
 * Also when it may turn out to be so: when a copy of the wiki's database is found to be behind.
 * NEVER: it is not. */
store_time get_settles_at(const struct page_get *g);
/* As page_get_leave. */
bool get_check_leave(struct page_get *g);
void get_check_forget(struct page_get *g);

/* Nothing was found: have it made, ask others for it, or end. */
enum page_get_state get_nothing(struct page_get *g);

/* get_secondary.c */
/* May the secondary have it, and was it not asked yet? */
bool get_may_take(const struct page_get *g);
enum page_get_state get_take_enter(struct page_get *g);
/* As page_get_leave. */
bool get_take_leave(struct page_get *g);

/* get_hop.c */
/* May another server have it, and was none asked yet? */
bool get_may_hop(const struct page_get *g);
enum page_get_state get_hop_enter(struct page_get *g);
/* It is kept here for an editor, whose next request may come to another server: the read goes on
 * when the others can find it. False: they are not told. */
MUST_CHECK bool get_note(struct page_get *g);
/* Who reads it now may save it later, at another server: it is told again in time. When next. */
store_time get_renew(const struct page_get *g);

/* Will it wait so short for the wiki that no answer is no outage of it? Once deadline is set. */
bool get_is_hurried(const struct page_get *g);

/* get_miss.c */
/* What is not there, or too old: settle the title, make, or end. */
enum page_get_state get_miss(struct page_get *g);
/* It was found where the wiki's newest revision was looked for, and is none that a greater revision
 * took the place of: what did was purged. */
bool get_is_not_newest(const struct page_get *g);
/* May it stand under the title as the wiki writes it, which nobody has looked for yet? */
bool get_may_be_unlike(const struct page_get *g);
enum page_get_state get_settle_enter(struct page_get *g);
enum page_get_state get_make_enter(struct page_get *g);

#endif
