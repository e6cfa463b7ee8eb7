/* blame.c - tells callers and the log what the cluster did not do. All stores of this folder use
 * it, on any thread.
 *
 * Invariant: told_ns never goes back. The thread that moves it writes the log line of that second.
 */
#include "cassandra/blame.h"

bool blame_is_due(err why, const struct store_call *call)
{
    /* Failures that are the caller's or this server's own affair, and pass to the caller as they
     * are. */
    static const bool others[ERR_CODES] = {
        [ERR_OK] = true,   [ERR_LIMIT] = true,    [ERR_CORRUPT] = true,
        [ERR_GONE] = true, [ERR_SHUTDOWN] = true, [ERR_NOT_FOUND] = true
    };
    /* A caller that canceled its read sees ERR_TIMEOUT, which says nothing of the cluster. */
    bool canceled = why == ERR_TIMEOUT && store_call_canceled(call);
    return !others[why] && !canceled;
}

void blame_log(struct blame *b, err why, const struct err_note *cause, str of)
{
    /* Many requests fail at once when a node goes. The exchange lets one of them write the line. */
    int64_t now_ns = clock_mono(b->clock).ns, told_ns = atomic_load(&b->told_ns);
    if (b->log == NULL || (told_ns != 0 && now_ns - told_ns < NS_PER_S) ||
        !atomic_compare_exchange_strong(&b->told_ns, &told_ns, now_ns))
        return;
    log_event(b->log, LOG_WARN, "cluster.failed", LOG_CSTR("why", err_name(why)),
              LOG_CSTR("what", cause->text), LOG_STR("title", of));
}

err blame_cluster(struct blame *b, err why, const struct err_note *cause, bool unknown, str of,
                  struct err_note *told)
{
    blame_log(b, why, cause, of);
    if (told != NULL)
        err_note_set(told, "%s",
                     unknown ? "The cluster did not say in time whether it was written: it may "
                               "have been, or may be yet."
                             : BLAME_AWAY_TEXT);
    return ERR_UNAVAILABLE;
}
