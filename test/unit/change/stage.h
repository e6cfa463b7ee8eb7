/* stage.h - all of change on an engine in memory, with a real event log, a real loop, and a target
 * that answers when and what the test says.
 *
 * The test's thread is the loop's: nothing happens but inside stage_calm and stage_until. The clock
 * stands; stage_later moves it. */
#ifndef UNIT_CHANGE_STAGE_H
#define UNIT_CHANGE_STAGE_H

#include "change/change_impl.h"
#include "engine/store.h"
#include "lib/clock.h"
#include "page/page.h"

enum { STAGE_SEEN_MAX = 4096, STAGE_PATH_BYTES = 64 };

struct stage {
    struct fake_clock clock;
    struct engine *engine;
    struct event_log *events;
    struct loop *loop;
    struct page_service page;
    struct queues *queues; /* NULL: there are none */
    struct task *late;     /* put on the pool when change has stopped; NULL: nothing is */
    struct change *change;
    struct rogue *sink;
    bool (*over)(struct stage *s);
    struct loop_timer *look;
    unsigned looks, calm;
    /* the target; under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned let;           /* requests that may be answered; UINT_MAX: each */
    unsigned running, held; /* held: of these, those that looked, and found that they wait */
    unsigned wakes;
    const char *stuck; /* requests of that path wait, whatever let says; NULL: none */
    const char *reply; /* NULL: 200 */
    unsigned seen;
    char paths[STAGE_SEEN_MAX][STAGE_PATH_BYTES];
};

/* rules: YAML, where $T is the target's URL without a path, and $L the same by another name: so it
 * is another target. change_start is the test's. */
void stage_open(struct stage *s, const char *rules);
void stage_close(struct stage *s);
/* The same store, other rules, as after a restart. */
void stage_reopen(struct stage *s, const char *rules);
struct rule_set *stage_rules(struct stage *s, const char *rules);
/* Taken over by change_rules_take, some time. */
void stage_want(struct stage *s, const char *rules);
/* The same; runs until they are in force. */
void stage_take(struct stage *s, const char *rules);

/* What is held back from now on, the first that comes: a runner's look, the router's reading or its
 * update, or rules that the store has taken over. stage_let_go: it goes on, and nothing is held any
 * more. */
enum stage_hold { STAGE_LOOK, STAGE_READ, STAGE_WRITE, STAGE_TAKEN };
void stage_hold(struct stage *s, enum stage_hold what);
void stage_until_held(struct stage *s);
void stage_let_go(struct stage *s);
/* Called once, by the next who reads the event log, before it does. */
void stage_before_read(struct stage *s, void (*run)(struct stage *s));

/* One event of stream t: {"page_title": title}; its number. */
uint64_t stage_tell(struct stage *s, const char *domain, const char *title);
uint64_t stage_tell_stream(struct stage *s, const char *stream, const char *domain,
                           const char *title);

/* One event of stream t and domain d to which so many effects led. */
uint64_t stage_tell_hops(struct stage *s, const char *title, uint8_t hops);
/* One event of stream t and domain d that is so long. */
uint64_t stage_tell_long(struct stage *s, const char *title, size_t bytes);

/* Runs the loop until nothing is under way. */
void stage_calm(struct stage *s);
void stage_until(struct stage *s, bool (*over)(struct stage *s));
/* The clock goes on, and what is due is done; then as stage_calm. */
void stage_later(struct stage *s, int64_t ms);

/* How many requests the target lets through from now on. */
void stage_let(struct stage *s, unsigned count);
void stage_stick(struct stage *s, const char *path);
void stage_reply(struct stage *s, const char *reply);
unsigned stage_seen(struct stage *s);
unsigned stage_running(struct stage *s);
/* How many items a rule has in that state; -1: in all. */
uint64_t stage_items(struct stage *s, const char *rule, int state);
/* Fails the test with each damage. */
void stage_check(struct stage *s);

#endif
