/* hello.c - what each new connection says first: who we are, which database, which scripts and
 * channels; and whether the server is one that can be used. */
#include "redis/redis_impl.h"

#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer of the hello; an error of it has broken everything already or does so here. */
static bool hello_fine(struct redis *r, err why, const struct err_note *note)
{
    if (why == ERR_OK)
        return true;
    if (r->state == REDIS_CONNECTING && r->commands != NULL)
        redis_break(r, ERR_UNAVAILABLE, note->text);
    return false;
}

static void hello_done(void *ctx, err why, const struct redis_reply *reply,
                       const struct err_note *note)
{
    struct redis *r = ctx;
    (void)reply; /* +OK */
    if (!hello_fine(r, why, note))
        return;
    r->hello_wanted--;
    redis_maybe_up(r);
}

static void info_done(void *ctx, err why, const struct redis_reply *reply,
                      const struct err_note *note)
{
    struct redis *r = ctx;
    if (!hello_fine(r, why, note))
        return;
    str text = redis_text(reply);
    str mark = STR("run_id:");
    str rest = str_skip(text, str_find_str(text, mark));
    str id = str_skip(rest, mark.n);
    size_t end = 0;
    while (end < id.n && end < REDIS_RUN_ID_BYTES_MAX && id.p[end] > ' ')
        end++;
    (void)str_to_cstr(str_take(id, end), r->run_id,
                      sizeof r->run_id); /* empty when it does not say */
    r->hello_wanted--;
    redis_maybe_up(r);
}

/* A replica reads what another wrote, and takes no lease: as good as none. It is tried again until
 * it is a master. */
static void role_done(void *ctx, err why, const struct redis_reply *reply,
                      const struct err_note *note)
{
    struct redis *r = ctx;
    if (!hello_fine(r, why, note))
        return;
    str text = redis_text(reply);
    if (str_find_str(text, STR("role:slave")) < text.n) {
        redis_break(r, ERR_UNAVAILABLE, "it is a replica of another");
        return;
    }
    r->hello_wanted--;
    redis_maybe_up(r);
}

/* Digests come in the order of the scripts; each pending says which by its script. */
struct loaded {
    struct redis *r;
    unsigned index;
};
static void load_done(void *ctx, err why, const struct redis_reply *reply,
                      const struct err_note *note)
{
    struct loaded l = *(struct loaded *)ctx;
    free(ctx);
    if (!hello_fine(l.r, why, note))
        return;
    if (!str_to_cstr(redis_text(reply), l.r->sha[l.index], sizeof l.r->sha[0]) ||
        strlen(l.r->sha[l.index]) != REDIS_SHA_BYTES) {
        redis_break(l.r, ERR_UNAVAILABLE, "a script has no digest");
        return;
    }
    l.r->hello_wanted--;
    redis_maybe_up(l.r);
}

static void hello_send(struct redis *r, const str *args, unsigned count, redis_done_fn *done,
                       void *ctx)
{
    struct redis_pending *p = redis_pending_new(r, args, count, false);
    p->done = done;
    p->ctx = ctx;
    p->deadline = mono_add_ms(redis_now(r), r->opts.connect_timeout_ms);
    redis_pending_push(r, p);
    r->hello_wanted++;
    INVARIANT(conn_send(r->commands, args, count) == ERR_OK); /* the first of a new connection */
}

static unsigned login(const struct redis *r, str args[3])
{
    const struct redis_address *a = &r->opts.address;
    unsigned count = 0;
    args[count++] = STR("AUTH");
    if (a->user[0] != 0)
        args[count++] = str_of(a->user);
    args[count++] = str_of(a->password);
    return count;
}

static bool has_login(const struct redis *r)
{
    return r->opts.address.password[0] != 0 || r->opts.address.user[0] != 0;
}

void redis_hello_commands(void *ctx)
{
    struct redis *r = ctx;
    str args[3];
    if (has_login(r))
        hello_send(r, args, login(r, args), hello_done, r);
    char db[REDIS_NUMBER_BYTES];
    (void)snprintf(db, sizeof db, "%u", r->opts.address.db); /* fits */
    hello_send(r, (str[]){ STR("SELECT"), str_of(db) }, 2, hello_done, r);
    hello_send(r, (str[]){ STR("INFO"), STR("server") }, 2, info_done, r);
    hello_send(r, (str[]){ STR("INFO"), STR("replication") }, 2, role_done, r);
    if (r->opts.channels_count > 0) { /* who may not tell others would leave them waiting */
        static const str echo = STR_INIT("\001echo 0");
        hello_send(r, (str[]){ STR("PUBLISH"), str_of(r->channels[0]), echo }, 3, hello_done, r);
    }
    for (unsigned i = 0; i < r->opts.scripts_count; i++) {
        struct loaded *l = malloc(sizeof *l);
        INVARIANT(l != NULL);
        *l = (struct loaded){ .r = r, .index = i };
        hello_send(r, (str[]){ STR("SCRIPT"), STR("LOAD"), str_of(r->texts[i]) }, 3, load_done, l);
    }
    r->hello_wanted--; /* the one that stood for the connection itself */
}

void redis_hello_messages(void *ctx)
{
    struct redis *r = ctx;
    str args[REDIS_CHANNELS_MAX + 1];
    r->subscriber_let_in = !has_login(r);
    if (has_login(r))
        INVARIANT(conn_send(r->messages, args, login(r, args)) == ERR_OK);
    args[0] = STR("SUBSCRIBE");
    for (unsigned i = 0; i < r->opts.channels_count; i++)
        args[i + 1] = str_of(r->channels[i]);
    if (r->opts.channels_count > 0)
        INVARIANT(conn_send(r->messages, args, r->opts.channels_count + 1) == ERR_OK);
}
