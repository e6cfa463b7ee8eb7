/* import.c - what imports share: how far they came is kept, also when a signal ends them. */
#include "cli/import.h"
#include "cli/stop.h"
#include "loop/signals.h"
#include "loop/sysclock.h"

#include <stdlib.h>
#include <unistd.h>

static void on_refused(void *ctx, str title, uint64_t rev, const char *why)
{
    import_skipped(ctx, title, rev, why);
}

/* "palimpsest: left out: TITLE revision REV: why", on a line of its own. */
static void import_tell(const struct import *im, const char *what, str title, uint64_t rev,
                        const char *why)
{
    char revision[40] = "";
    if (im->quiet)
        return;
    if (rev > 0)
        (void)snprintf(revision, sizeof revision, " revision %llu",
                       (unsigned long long)rev); /* fits */
    if (im->progress.shown)
        fputs("\r\033[K", stderr);
    cli_warn(im->call, "%s%.*s%s: %s", what, STR_ARG(title), revision, why);
}

void import_skipped(struct import *im, str title, uint64_t rev, const char *why)
{
    import_tell(im, "left out: ", title, rev, why);
}

void import_warned(struct import *im, str title, const char *what)
{
    import_tell(im, "", title, 0, what);
}

void import_absolute(const char *path, struct buf *out)
{
    char *real = realpath(path, NULL);
    buf_put(out, str_of(real != NULL ? real : path));
    free(real);
}

/* What is kept of how far it came must be of this import. */
static enum cli_exit open_resume(struct import *im, str input, str selection)
{
    struct buf of;
    buf_init(&of, 2 * IMPORT_SELECTION_BYTES_MAX);
    buf_printf(&of, "%s%s%.*s --domain %s --bucket %s", im->call->verb->name,
               selection.n > 0 ? " " : "", STR_ARG(selection), im->client.domain,
               im->client.bucket);
    struct err_note note = { .text = "its options are too long" };
    err e = buf_status(&of);
    if (e == ERR_OK)
        e = resume_open(&im->resume, &im->client,
                        &(struct resume_opts){ .given = cli_value(im->call, "state"),
                                               .input = input,
                                               .of = buf_str(&of),
                                               .fresh = cli_flag(im->call, "restart") },
                        &note);
    buf_fini(&of);
    if (e == ERR_OK)
        return CLI_OK;
    enum cli_exit code =
        cli_fail(im->call, cli_exit_of(e), "%s: %s", im->call->verb->name, note.text);
    import_close(im);
    return code;
}

enum cli_exit import_open(struct import *im, const struct cli_call *call, str input, str selection)
{
    *im = (struct import){ .call = call,
                           .parallel = UPLOAD_PARALLEL,
                           .quiet = cli_flag(call, "quiet") };
    const char *parallel = cli_value(call, "parallel");
    uint64_t n = UPLOAD_PARALLEL;
    if (parallel != NULL &&
        (!str_to_u64(str_of(parallel), &n) || n < 1 || n > UPLOAD_PARALLEL_MAX)) {
        return cli_fail(call, CLI_USAGE, "--parallel wants a number from 1 to %d, not \"%s\"",
                        UPLOAD_PARALLEL_MAX, parallel);
    }
    im->parallel = (unsigned)n;
    enum cli_exit code = client_open_at(&im->client, call, cli_value(call, "to"));
    if (code != CLI_OK)
        return code;
    stop_watch();
    signals_ignore(SIGNALS_PIPE); /* a child that ends early is told by the write itself */
    im->sysclock = sysclock_new();
    im->clock = sysclock_clock(im->sysclock);
    return open_resume(im, input, selection);
}

err import_resume(struct import *im, struct err_note *note)
{
    return resume_verify(&im->resume, &im->client, note);
}

void import_begin(struct import *im, const char *progress_what, const char *progress_unit)
{
    im->uploads = uploads_new(&(struct uploads_opts){ .client = &im->client,
                                                      .clock = im->clock,
                                                      .parallel = im->parallel,
                                                      .first = im->resume.done + 1,
                                                      .fresh = im->fresh,
                                                      .refused = on_refused,
                                                      .ctx = im });
    out_progress_begin(&im->progress, progress_what, progress_unit, clock_mono(im->clock));
    if (im->quiet)
        im->progress.shown = false;
}

void import_step(struct import *im, uint64_t done, uint64_t total)
{
    mono now = clock_mono(im->clock);
    out_progress_step(&im->progress, done, total, now);
    if (!im->unchecked)
        resume_save(&im->resume, im->uploads, now, false);
}

err import_finish(struct import *im, err e, struct err_note *note)
{
    if (stop_asked())
        e = ERR_SHUTDOWN; /* whatever the input looked like since */
    err finished = stop_asked() ? e : uploads_finish(im->uploads, e == ERR_OK ? note : NULL);
    if (e == ERR_OK)
        e = finished;
    out_progress_end(&im->progress);
    if (!im->unchecked)
        resume_save(&im->resume, im->uploads, clock_mono(im->clock), true);
    uint64_t differ = uploads_counts(im->uploads).differ;
    if (differ > 0)
        cli_warn(im->call,
                 "stored with other bytes than these, left out and as they were: %llu renders. To "
                 "replace "
                 "one: palimpsest rm TITLE REV, then palimpsest put TITLE REV FILE",
                 (unsigned long long)differ);
    return e;
}

enum cli_exit import_fail(const struct import *im, err why, const struct err_note *note)
{
    const char *verb = im->call->verb->name;
    if (!stop_asked())
        return cli_fail(im->call, cli_exit_of(why), "%s: %s", verb, note->text);
    struct upload_counts n = { .stored = 0 };
    if (im->uploads != NULL)
        n = uploads_counts(im->uploads);
    return cli_fail(
        im->call, CLI_FAILED, "%s: interrupted: %llu stored, %llu already there; %s", verb,
        (unsigned long long)n.stored, (unsigned long long)n.already,
        im->resume.path[0] != '\0' && !im->unchecked
            ? "the same command goes on from there"
            : "the same command passes over what is there already (--state FILE would keep how far "
              "it came)");
}

void import_close(struct import *im)
{
    uploads_free(&im->uploads);
    sysclock_free(&im->sysclock);
    client_close(&im->client);
    signals_end();
}
