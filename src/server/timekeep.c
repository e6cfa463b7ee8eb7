/* timekeep.c - ticks of store_time, and the log lines about a machine's clock that moved. One
 * line is logged for each change, not one for each tick. */
#include "server/timekeep.h"

#include "base/date.h"

void timekeep_init(struct timekeep *t, struct sysclock *sysclock, struct log *log,
                   struct metrics *metrics)
{
    *t = (struct timekeep){ .sysclock = sysclock,
                            .log = log,
                            .ahead = metrics_one(metrics, METRIC_CLOCK_AHEAD_SECONDS) };
}

static void timekeep_tell(const struct timekeep *t, struct sysclock_look look)
{
    static const struct {
        const char *event, *what;
        enum log_level level;
    } words[] = {
        [SYSCLOCK_NEAR] = { "clock.together", "stored time and the machine's clock agree again",
                            LOG_INFO },
        [SYSCLOCK_STEPPED] = { "clock.stepped",
                               "the machine's clock was set forward; stored time has followed it",
                               LOG_WARN },
        [SYSCLOCK_BEHIND] = { "clock.behind",
                              "the machine's clock is behind stored time, which does not go back",
                              LOG_WARN },
        [SYSCLOCK_LEAP] = { "clock.leap",
                            "the machine's clock is ahead of the last stored time by more than "
                            "clock.leap_max, and is not followed; set it right, or if it is, start "
                            "once with "
                            "--set clock.leap_max=never",
                            LOG_WARN },
    };
    struct clock *clock = sysclock_clock(t->sysclock);
    char stored[DATE_RFC3339_BYTES + 1], machine[DATE_RFC3339_BYTES + 1];
    date_format_ms(clock_store(clock).ns, stored);
    date_format_ms(clock_wall(clock).ns, machine);
    int64_t seconds = look.lead_ns / NS_PER_S;
    log_event(t->log, words[look.verdict].level, words[look.verdict].event,
              LOG_INT("seconds", seconds < 0 ? -seconds : seconds), LOG_CSTR("stored_time", stored),
              LOG_CSTR("machine_clock", machine), LOG_CSTR("what", words[look.verdict].what));
}

void timekeep_tick(struct timekeep *t)
{
    struct sysclock_look look = sysclock_tick(t->sysclock);
    bool followed = look.verdict == SYSCLOCK_STEPPED;
    if (look.verdict != t->verdict)
        timekeep_tell(t, look);
    t->verdict = followed ? SYSCLOCK_NEAR : look.verdict; /* each step is told */
    metric_set(t->ahead, followed ? 0 : -(look.lead_ns / NS_PER_S));
}
