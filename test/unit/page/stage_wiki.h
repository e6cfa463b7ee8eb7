/* stage_wiki.h - the wiki of a stage: what it says, and what it was asked. Private to stage.c and
 * stage_wiki.c. */
#ifndef TEST_PAGE_STAGE_WIKI_H
#define TEST_PAGE_STAGE_WIKI_H

#include "stage.h"

#include <pthread.h>

enum { HELD_MAX = 8 };
struct origin {
    struct origin_opts opts;
    struct loop *loop;
    struct clock *clock;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct wiki_says says;
    const char *rules; /* as it says them */
    bool hold;
    atomic_bool is_full;
    unsigned asked, held_count;
    struct render_request *held[HELD_MAX];
    struct wiki_transforms transforms;
    struct wiki_word word;
    unsigned words_asked;
    bool hold_words;
    struct words_request *held_words; /* one at most */
    struct wiki_words_counts words_counts;
};
/* By its clock, which is ours. */
int64_t wiki_now(const struct origin *o);

#endif
