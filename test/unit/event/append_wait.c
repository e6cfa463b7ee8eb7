/* append_wait.c - see append_wait.h. */
#include "append_wait.h"

#include "lib/wait.h"

struct appending {
    struct event_append append;
    struct awaited over;
};

static void appended(struct event_append *a, err why)
{
    awaited_tell(&CONTAINER_OF(a, struct appending, append)->over, why);
}

err append_wait(struct event_log *l, const struct event *events, unsigned count,
                struct event_taken *taken)
{
    struct appending a = { .append = { .log = l,
                                       .events = events,
                                       .count = count,
                                       .taken = taken,
                                       .home = home_here(),
                                       .done = appended } };
    awaited_init(&a.over);
    event_append_start(&a.append);
    err why = awaited_wait(&a.over);
    awaited_fini(&a.over);
    return why;
}
