/* store_local_owner.c - whose the folder of a local store is, and whether it is there at all.
 *
 * A folder that is away looks like one that was never used. Which it is is known from the catalogue: what has
 * partitions was used, and then it has rows, since a partition is made when it is first owned. */
#include "queue/catalogue.h"
#include "queue/store_local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* Is there such a file in the folder? *why_not: errno. */
static bool is_there(const struct local *l, const char *file, int *why_not)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", l->opts.dir, file);
    *why_not = n < 0 || (size_t)n >= sizeof path ? ENAMETOOLONG : 0;
    if (*why_not == 0 && access(path, F_OK) != 0)
        *why_not = errno;
    return *why_not == 0;
}

static bool is_given_up(const struct local *l)
{
    int why_not;
    return is_there(l, QUEUE_ANEW_FILE, &why_not);
}

static err away(const struct local *l, struct err_note *note)
{
    err_note_set(note, "store %s is away: partitions lie in it and there is none at %s; mount it or put it back, or"
                 " give up what it held by an empty file " QUEUE_ANEW_FILE " there", l->store.name, l->opts.dir);
    return ERR_UNAVAILABLE;
}

err local_owner_look(const struct local *l, struct err_note *note)
{
    int why_not;
    if (!l->opts.used || is_there(l, "STORE", &why_not))
        return ERR_OK;
    if (why_not != ENOENT && why_not != ENOTDIR)
        return ERR_OK; /* opening it says what is wrong */
    return is_given_up(l) ? ERR_OK : away(l, note);
}

/* ERR_NOT_FOUND: it is nobody's; then empty tells whether it has no row at all. */
static err read_owner(const struct local *l, struct engine *e, bool *empty, struct err_note *note)
{
    struct row_key key = row_key_prefix((struct queue_part){ .queue = 0 }, ROW_OWNER);
    struct engine_row row;
    str owner;
    struct engine_view *v = engine_view_begin(e);
    err why = engine_get(v, SPACE_PARTITION, row_key_str(&key), &row);
    if (why == ERR_OK)
        why = row_owner_decode(row.value, &owner);
    if (why == ERR_OK)
        why = queue_owner_check(l->store.name, "folder", owner, l->opts.deployment, note);
    if (why == ERR_NOT_FOUND) {
        struct engine_range all = { .space = SPACE_PARTITION };
        struct engine_cursor *c = engine_cursor_open(v, &all);
        err first = engine_cursor_next(c, &row);
        engine_cursor_close(&c);
        *empty = first == ERR_NOT_FOUND;
        why = first == ERR_OK ? why : first;
    }
    engine_view_end(&v);
    return why;
}

static err mark_decide(struct engine_txn *t, void *ctx)
{
    const struct local *l = ctx;
    char buf[ROW_VALUE_BYTES_MAX];
    struct row_key key = row_key_prefix((struct queue_part){ .queue = 0 }, ROW_OWNER);
    return engine_txn_put(t, SPACE_PARTITION, row_key_str(&key),
                          row_owner_encode(str_of(l->opts.deployment), buf), STR_NONE);
}

static void forget_anew(const struct local *l)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/" QUEUE_ANEW_FILE, l->opts.dir);
    if (n > 0 && (size_t)n < sizeof path)
        (void)unlink(path); /* mostly not there */
}

err local_owner_mark(const struct local *l, struct engine *e, struct err_note *note)
{
    bool empty = false;
    if (l->opts.deployment == NULL)
        return ERR_OK;
    err why = read_owner(l, e, &empty, note);
    if (why == ERR_OK)
        forget_anew(l);
    if (why != ERR_NOT_FOUND)
        return why;
    if (empty && l->opts.used && !is_given_up(l))
        return away(l, note);
    struct engine_update u = { .decide = mark_decide, .ctx = (void *)(uintptr_t)l, .frees = true };
    why = engine_submit_wait(e, &u);
    if (why == ERR_OK)
        forget_anew(l);
    else
        err_note_set(note, "store %s: its folder cannot be marked as ours: %s", l->store.name, err_name(why));
    return why == ERR_FULL && !empty ? ERR_OK : why; /* a full disk is served; it is marked another time */
}
