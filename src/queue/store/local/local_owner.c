/* local_owner.c - whose the folder of a local store is, and whether it is there at all. For
 * local.c, at each opening. */
#include "queue/catalogue.h"
#include "queue/store/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* Is there such a file in the folder? *why_not: errno, or 0. */
static bool is_there(const struct local *l, const char *file, int *why_not)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", l->opts.dir, file);
    *why_not = n < 0 || (size_t)n >= sizeof path ? ENAMETOOLONG : 0;
    if (*why_not == 0 && access(path, F_OK) != 0)
        *why_not = errno;
    return *why_not == 0;
}

/* The operator has put the file there: what the folder held is not waited for. */
static bool is_given_up(const struct local *l)
{
    int why_not;
    return is_there(l, QUEUE_ANEW_FILE, &why_not);
}

static err away(const struct local *l, struct err_note *note)
{
    err_note_set(note,
                 "store %s is away: partitions lie in it and there is none at %s; mount it or put "
                 "it back, or"
                 " give up what it held by an empty file " QUEUE_ANEW_FILE " there",
                 l->store.name, l->opts.dir);
    return ERR_UNAVAILABLE;
}

/* Without a look at rows: the engine would make a new store in an empty folder. */
err local_owner_look(const struct local *l, struct err_note *note)
{
    int why_not;
    /* STORE is the engine's: a folder with it has a store. */
    if (!l->opts.used || is_there(l, "STORE", &why_not))
        return ERR_OK;
    if (why_not != ENOENT && why_not != ENOTDIR)
        return ERR_OK; /* opening it says what is wrong */
    return is_given_up(l) ? ERR_OK : away(l, note);
}

/* Rows of the store's own. */
enum { OF_DEPLOYMENT, OF_NAME };

static struct row_key owner_key(uint32_t of)
{
    return row_key_prefix((struct queue_part){ .queue = 0, .partition = of }, ROW_OWNER);
}

static err read_owner(struct engine_view *v, uint32_t of, str *out)
{
    struct row_key key = owner_key(of);
    struct engine_row row;
    err why = engine_get(v, SPACE_PARTITION, row_key_str(&key), &row);
    return why == ERR_OK ? row_owner_decode(row.value, out) : why;
}

/* No row at all: the store was made, and never used. */
static err read_empty(struct engine_view *v, bool *empty)
{
    struct engine_range all = { .space = SPACE_PARTITION };
    struct engine_row row;
    struct engine_cursor *c = engine_cursor_open(v, &all);
    err why = engine_cursor_next(c, &row);
    engine_cursor_close(&c);
    *empty = why == ERR_NOT_FOUND;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* What lies in the folder of another store would be missed, and what is put there not be found
 * again. One in which nothing of ours lies may take over the folder of one that was given up. */
static err check_name(const struct local *l, str name, struct err_note *note)
{
    if (str_eq(name, str_of(l->store.name)))
        return ERR_OK;
    /* This store has nothing of its own yet: it takes the folder, and the mark is put anew. */
    if (!l->opts.used)
        return ERR_NOT_FOUND;
    err_note_set(
        note,
        "store %s: its folder %s is that of store '%.*s': were paths of queue.stores exchanged?",
        l->store.name, l->opts.dir, STR_ARG(name));
    return ERR_BAD;
}

/* ERR_NOT_FOUND: a mark is missing; empty tells whether it has no row at all. */
static err check_marks(const struct local *l, struct engine *e, bool *empty, struct err_note *note)
{
    str text;
    struct engine_view *v = engine_view_begin(e);
    err why = read_owner(v, OF_DEPLOYMENT, &text);
    if (why == ERR_NOT_FOUND) {
        err looked = read_empty(v, empty);
        why = looked == ERR_OK ? why : looked;
    } else {
        if (why == ERR_OK)
            why = queue_owner_check(l->store.name, "folder", text, l->opts.deployment, note);
        if (why == ERR_OK)
            why = read_owner(v, OF_NAME, &text);
        if (why == ERR_OK)
            why = check_name(l, text, note);
    }
    engine_view_end(&v);
    return why;
}

/* On the committer: both marks in one update. */
static err mark_decide(struct engine_txn *t, void *ctx)
{
    const struct local *l = ctx;
    const char *const marks[] = { [OF_DEPLOYMENT] = l->opts.deployment, [OF_NAME] = l->store.name };
    err why = ERR_OK;
    for (uint32_t of = 0; of < COUNT_OF(marks) && why == ERR_OK; of++) {
        char buf[ROW_VALUE_BYTES_MAX];
        struct row_key key = owner_key(of);
        why = engine_txn_put(t, SPACE_PARTITION, row_key_str(&key),
                             row_owner_encode(str_of(marks[of]), buf), STR_NONE);
    }
    return why;
}

/* Once the store is marked the file would give up what comes next. */
static void forget_anew(const struct local *l)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/" QUEUE_ANEW_FILE, l->opts.dir);
    if (n > 0 && (size_t)n < sizeof path)
        (void)unlink(path); /* mostly not there */
}

/* The engine is open. A folder without a mark is taken, unless this store had rows and this
 * folder has none. */
err local_owner_mark(const struct local *l, struct engine *e, struct err_note *note)
{
    bool empty = false;
    /* The folder is anybody's (open.h). */
    if (l->opts.deployment == NULL)
        return ERR_OK;
    err why = check_marks(l, e, &empty, note);
    if (why == ERR_OK)
        forget_anew(l);
    if (why != ERR_NOT_FOUND)
        return why;
    if (empty && l->opts.used && !is_given_up(l))
        return away(l, note);
    /* frees: also on a full disk, which may have no other room. */
    struct engine_update u = { .decide = mark_decide, .ctx = (void *)(uintptr_t)l, .frees = true };
    why = engine_submit_wait(e, &u);
    if (why == ERR_OK)
        forget_anew(l);
    else
        err_note_set(note, "store %s: its folder cannot be marked as ours: %s", l->store.name,
                     err_name(why));
    return why == ERR_FULL && !empty ? ERR_OK
                                     : why; /* a full disk is served; it is marked another time */
}
