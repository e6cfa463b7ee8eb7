/* judge.c - answers to fates, by a table, for call.c.
 *   Why jobs are judged in another way than hooks: a job is work of the wiki that nobody does
 * again when it is lost, and an operator may take days to mend a runner.
 *     400, 403  MediaWiki says that the event is malformed, or that its signature is wrong. The
 * bytes stay the same, and so does the answer: more attempts would only hide the fault.
 *     401, 404, 405, 501  nothing at this URL runs jobs, or not yet
 * ($wgEventBusEnableRunJobAPI). That is the runner's fault, and no job's: all wait until it
 * is mended, and none is lost. */
#include "change/judge.h"

#include "base/date.h"
#include "base/utf8.h"

#include <stdio.h>

enum { TEXT_BYTES_MAX = 1024 };

static const char *const names[CHANGE_FATES] = {
    [CHANGE_DONE] = "done",     [CHANGE_IGNORED] = "ignored",   [CHANGE_FAILED] = "failed",
    [CHANGE_PAUSED] = "paused", [CHANGE_HOPELESS] = "hopeless", [CHANGE_STOPPED] = "stopped",
};

const char *change_fate_name(enum change_fate f)
{
    INVARIANT(f < CHANGE_FATES);
    return names[f];
}

/* ---- replies ---- */

#define ON(e) BIT(RULE_##e)
#define ON_ALL (ON(PURGE) | ON(HTTP) | ON(JOB))
enum { STATUS_MIN = 100, STATUS_MAX = 599 };

enum when { ALWAYS, READ_ONLY, ASKED_TO_WAIT, NO_OK_LIST };

/* The first row that fits says what a reply means. */
static const struct reply_row {
    unsigned effects;
    int least, most;
    enum when when;
    enum change_fate fate;
    const char *text; /* NULL: the status says it */
} replies[] = {
    /* also of 200: what a read-only wiki did may be less than was asked */
    { ON_ALL, STATUS_MIN, STATUS_MAX, READ_ONLY, CHANGE_PAUSED, "the wiki is read-only" },
    { ON_ALL, 423, 423, ALWAYS, CHANGE_PAUSED, "the wiki is read-only" },
    { ON_ALL, 429, 429, ALWAYS, CHANGE_PAUSED, "the target asks for fewer requests" },
    { ON_ALL, 503, 503, ASKED_TO_WAIT, CHANGE_PAUSED, "the target asks to be left alone" },
    { ON_ALL, 200, 299, NO_OK_LIST, CHANGE_DONE, NULL },
    /* caches that purge what they do not have: nginx's modules */
    { ON(PURGE), 404, 404, ALWAYS, CHANGE_IGNORED, "there was nothing to purge" },
    { ON(PURGE), 412, 412, ALWAYS, CHANGE_IGNORED, "there was nothing to purge" },
    { ON(PURGE), 405, 405, ALWAYS, CHANGE_FAILED, "the target does not take PURGE" },
    { ON(PURGE), 501, 501, ALWAYS, CHANGE_FAILED, "the target does not take PURGE" },
    { ON(JOB), 400, 400, ALWAYS, CHANGE_HOPELESS, "the wiki cannot read this job" },
    { ON(JOB), 403, 403, ALWAYS, CHANGE_HOPELESS, "the wiki refuses the job's signature" },
    { ON(JOB), 401, 401, ALWAYS, CHANGE_PAUSED, "the runner wants a password" },
    { ON(JOB), 404, 405, ALWAYS, CHANGE_PAUSED, "no runner is at this URL" },
    { ON(JOB), 501, 501, ALWAYS, CHANGE_PAUSED, "the wiki does not run jobs at this URL yet" },
    { ON_ALL, 300, 399, ALWAYS, CHANGE_FAILED, "redirects are not followed" },
    { ON_ALL, STATUS_MIN, STATUS_MAX, ALWAYS, CHANGE_FAILED, NULL },
};

static bool row_fits(const struct reply_row *row, const struct rule *r,
                     const struct change_answer *a)
{
    bool fits =
        (row->effects & BIT(r->effect)) != 0 && a->status >= row->least && a->status <= row->most;
    switch (row->when) {
    case ALWAYS:
        return fits;
    case READ_ONLY:
        return fits && a->read_only;
    case ASKED_TO_WAIT:
        return fits && a->retry_after.p != NULL;
    case NO_OK_LIST:
        return fits && r->ok_count == 0;
    }
    return false;
}

static bool is_in(const int64_t *statuses, unsigned count, int status)
{
    for (unsigned i = 0; i < count; i++)
        if (statuses[i] == status)
            return true;
    return false;
}

/* What the rule says comes first, then the table. *text: what people are told; NULL: the status
 * alone. */
static enum change_fate reply_fate(const struct rule *r, const struct change_answer *a,
                                   const char **text)
{
    *text = NULL;
    if (is_in(r->ok, r->ok_count, a->status))
        return CHANGE_DONE;
    if (is_in(r->ignore, r->ignore_count, a->status))
        return CHANGE_IGNORED;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        if (!row_fits(&replies[i], r, a))
            continue;
        *text = replies[i].text;
        return replies[i].fate;
    }
    return CHANGE_FAILED; /* statuses are from 100 to 599: the last row fits */
}

/* ---- without a reply ---- */

static enum change_fate silence_fate(const struct change_answer *a)
{
    if (a->why == ERR_SHUTDOWN)
        return CHANGE_STOPPED;
    if (a->sent)
        return CHANGE_FAILED; /* cut, too late, no HTTP: it may have been done */
    /* Refused, no address, no TLS, no connection or no turn in time: the target is not there. Or
     * the client does not send such a request, now or later. */
    return a->why == ERR_BAD ? CHANGE_HOPELESS : CHANGE_PAUSED;
}

/* ---- what is told ---- */

/* Seconds, or a date of HTTP. An instant that is over means no wait. */
static int64_t wait_ns(str retry_after, wall now)
{
    str text = str_trim(retry_after);
    int64_t s = 0, at;
    if (!str_to_i64(text, &s) && date_parse_http(text, &at))
        s = at / NS_PER_S - now.ns / NS_PER_S;
    if (s < 0)
        return 0;
    return (s < CHANGE_WAIT_S_MAX ? s : CHANGE_WAIT_S_MAX) * NS_PER_S;
}

/* In UTF-8, without what a terminal would obey: C0, DEL and C1. */
static void text_clean(str text, char out[CHANGE_ERROR_BYTES_MAX + 1])
{
    size_t n = utf8_clean(text, out, CHANGE_ERROR_BYTES_MAX);
    out[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)out[i];
        /* C1 is two bytes in UTF-8, 0xc2 first. */
        bool is_c1 = c == 0xc2 && (unsigned char)out[i + 1] < 0xa0;
        if (c < 0x20 || c == 0x7f || is_c1)
            out[i] = '?';
        if (is_c1)
            out[++i] = '?';
    }
}

static void reply_text(const struct change_answer *a, const char *sentence,
                       char out[CHANGE_ERROR_BYTES_MAX + 1])
{
    char text[TEXT_BYTES_MAX];
    int n =
        snprintf(text, sizeof text, "HTTP %d%s%s%s%.*s", a->status, sentence == NULL ? "" : ": ",
                 sentence == NULL ? "" : sentence, a->line.n == 0 ? "" : ": ",
                 STR_ARG(str_take(a->line, CHANGE_ERROR_BYTES_MAX)));
    text_clean((str){ .p = text, .n = (size_t)n }, out); /* it fits */
}

void change_judge(const struct rule *rule, const struct change_answer *answer, wall now,
                  struct change_result *out)
{
    bool replied = answer->why == ERR_OK;
    const char *sentence = NULL;
    *out = (struct change_result){ .status = replied ? answer->status : 0 };
    out->fate = replied ? reply_fate(rule, answer, &sentence) : silence_fate(answer);
    /* Only who is paused waits for the target. */
    if (out->fate == CHANGE_PAUSED)
        out->wait_ns = replied ? wait_ns(answer->retry_after, now) : 0;
    if (!replied)
        text_clean(answer->note, out->text);
    else if (out->fate != CHANGE_DONE)
        reply_text(answer, sentence, out->text);
}

int64_t change_backoff_ns(const struct rule *rule, uint32_t attempts)
{
    const int64_t longest = 30 * 24 * 3600 * NS_PER_S;
    int64_t ns = rule->backoff_ns;
    for (uint32_t i = 0; i < attempts && ns < longest; i++)
        /* Without an overflow: the product is compared before it is made. */
        ns = ns > longest / rule->backoff_factor ? longest : ns * rule->backoff_factor;
    return ns < longest ? ns : longest;
}
