/* remote_expire.c - old entries go from a timeline in Redis: those that stand first by time, with
 * what their titles have of them. The members by time go last: what fails before that is found
 * again. */
#include "timeline/remote_impl.h"

enum { REMOVED_AT_ONCE = REDIS_ARGS_MAX - 4 };

static err domain_ask(struct timeline_remote_expiry *x);

static void expiry_over(struct timeline_remote_expiry *x, err why, const struct err_note *note)
{
    x->more = why == ERR_OK && x->domain < x->domains_count;
    if (why == ERR_OK && !x->more)
        x->domain = 0;
    x->done(x, why, note);
}

/* All of a domain's answers are there. */
static void domain_over(struct timeline_remote_expiry *x)
{
    if (x->why == ERR_OK && x->whole)
        x->domain++;
    if (x->why == ERR_OK && x->whole && x->domain < x->domains_count) {
        x->why = domain_ask(x);
        if (x->why == ERR_OK)
            return;
        err_note_set(&x->note, "Redis takes nothing now");
    }
    expiry_over(x, x->why, &x->note);
}

static void remote_expire_removed(void *ctx, err why, const struct redis_reply *reply,
                                  const struct err_note *note)
{
    struct timeline_remote_expiry *x = ctx;
    (void)reply;
    if (why != ERR_OK && x->why == ERR_OK) {
        x->why = why;
        x->note = *note;
    }
    INVARIANT(x->waiting > 0);
    if (--x->waiting == 0)
        domain_over(x);
}

/* Those that this call removed: another server may have been first. */
static void removed_by_time(void *ctx, err why, const struct redis_reply *reply,
                            const struct err_note *note)
{
    struct timeline_remote_expiry *x = ctx;
    if (why == ERR_OK && redis_integer(reply) > 0)
        x->count += (unsigned)redis_integer(reply);
    remote_expire_removed(ctx, why, reply, note);
}

static void remove_send(struct timeline_remote_expiry *x, const str *args, unsigned count,
                        redis_done_fn *done)
{
    if (x->why == ERR_OK)
        x->why = redis_command(x->remote->redis, args, count, done, x);
    x->waiting += x->why == ERR_OK;
}

static void remove_by_title(struct timeline_remote_expiry *x, str member)
{
    struct timeline_remote_key key;
    struct timeline_where w;
    struct timeline_entry e;
    if (!timeline_remote_member_parse(member, &w, &e) ||
        timeline_remote_key_title(&key, x->domains[x->domain].name, w.kind, w.title) != ERR_OK)
        return; /* none of ours: it goes from the set of the domain alone */
    const str args[] = { STR("ZREM"), timeline_remote_key_str(&key),
                         str_skip(member, member.n - TIMELINE_REMOTE_TAIL_BYTES) };
    remove_send(x, args, COUNT_OF(args), remote_expire_removed);
}

static void remove_by_time(struct timeline_remote_expiry *x, const struct redis_reply *reply)
{
    struct timeline_remote_key key;
    err fine = timeline_remote_key_time(&key, x->domains[x->domain].name);
    INVARIANT(fine == ERR_OK); /* it was asked */
    for (unsigned i = 0; i < redis_count(reply);) {
        str args[REDIS_ARGS_MAX] = { STR("ZREM"), timeline_remote_key_str(&key) };
        unsigned n = 2;
        for (; i < redis_count(reply) && n < REMOVED_AT_ONCE; i++)
            args[n++] = redis_text(redis_at(reply, i));
        remove_send(x, args, n, removed_by_time);
    }
}

static void domain_told(void *ctx, err why, const struct redis_reply *reply,
                        const struct err_note *note)
{
    struct timeline_remote_expiry *x = ctx;
    if (why != ERR_OK) {
        expiry_over(x, why, note);
        return;
    }
    unsigned count = redis_count(reply);
    x->whole = x->left > count;
    x->left -= count < x->left ? count : x->left;
    x->waiting = 0;
    for (unsigned i = 0; i < count; i++)
        remove_by_title(x, redis_text(redis_at(reply, i)));
    remove_by_time(x, reply);
    if (x->waiting == 0)
        domain_over(x);
}

static err domain_ask(struct timeline_remote_expiry *x)
{
    struct timeline_remote_key key;
    char before[TIMELINE_REMOTE_NUMBER_BYTES], left[TIMELINE_REMOTE_NUMBER_BYTES];
    err why = timeline_remote_key_time(&key, x->domains[x->domain].name);
    if (why != ERR_OK)
        return why;
    const str args[] = { STR("ZRANGEBYSCORE"),
                         timeline_remote_key_str(&key),
                         STR("-inf"),
                         timeline_remote_before(before, x->before),
                         STR("LIMIT"),
                         STR("0"),
                         timeline_remote_number(left, "", x->left) };
    return redis_command(x->remote->redis, args, COUNT_OF(args), domain_told, x);
}

err timeline_remote_expire(struct timeline_remote *r, struct timeline_remote_expiry *x)
{
    if (x->domain >= x->domains_count)
        x->domain = 0;
    if (x->domains_count == 0)
        return ERR_NOT_FOUND;
    x->remote = r;
    x->count = 0;
    x->left = TIMELINE_EXPIRE_MAX;
    x->more = false;
    x->why = ERR_OK;
    x->note.text[0] = '\0';
    return domain_ask(x);
}
