/* authority.h - Querator's calls on namespaces, users, keys, roles and bindings: what its files
 * share.
 *
 * Model. A call is a row of the list in authority.c. On the worker its words are checked, then
 * whether who asks may do that in the namespace it names; the change waits for the disk, so it runs
 * on the pool; the answer goes from the loop. Order and sentences are the peer's: its words first,
 * then 403, the same whether the namespace is there or not, then what is stored. */
#ifndef APP_ADMIN_AUTHORITY_H
#define APP_ADMIN_AUTHORITY_H

#include "app/rpc.h"
#include "auth/authority.h"
#include "loop/loop.h"

/* One call on its way. Lives in the arena of its exchange. */
struct authority_call {
    struct loop_job job;
    struct http_exchange *x;
    struct app *app;
    const struct authority_kind *kind;
    const void *m; /* the request */
    struct arena *arena;
    struct auth *auth;
    const ProtobufCMessage *reply; /* set by run; NULL: nothing to say but that it was done */
    str answer;                    /* reply, encoded */
    err why;
    struct err_note note;
};

struct authority_kind {
    const ProtobufCMessageDescriptor *type;
    const char *permission;
    str (*space)(const void *m);                        /* where it is asked for; NULL: `_system` */
    err (*check)(const void *m, struct err_note *note); /* of the words; NULL: none are wrong */
    err (*run)(struct authority_call *c);               /* pool thread */
};

/* authority_space.c */
err space_check(const void *m, struct err_note *note);
err space_name_check(const void *m, struct err_note *note);
err space_create_run(struct authority_call *c);
err space_update_run(struct authority_call *c);
err space_list_check(const void *m, struct err_note *note);
err space_list_run(struct authority_call *c);
err space_delete_run(struct authority_call *c);
/* authority_user.c: users and their keys */
err user_check(const void *m, struct err_note *note);
err user_create_run(struct authority_call *c);
err user_list_check(const void *m, struct err_note *note);
err user_list_run(struct authority_call *c);
err user_delete_run(struct authority_call *c);
err apikey_check(const void *m, struct err_note *note);
err apikey_create_run(struct authority_call *c);
err apikey_list_check(const void *m, struct err_note *note);
err apikey_list_run(struct authority_call *c);
err apikey_delete_run(struct authority_call *c);
/* authority_role.c: roles and bindings */
err role_check(const void *m, struct err_note *note);
str role_space(const void *m);
err role_create_run(struct authority_call *c);
err role_update_check(const void *m, struct err_note *note);
str role_update_space(const void *m);
err role_update_run(struct authority_call *c);
err role_list_check(const void *m, struct err_note *note);
str role_list_space(const void *m);
err role_list_run(struct authority_call *c);
str role_delete_space(const void *m);
err role_delete_run(struct authority_call *c);
err binding_check(const void *m, struct err_note *note);
str binding_space(const void *m);
err binding_create_run(struct authority_call *c);
err binding_list_check(const void *m, struct err_note *note);
str binding_list_space(const void *m);
err binding_list_run(struct authority_call *c);
err binding_delete_check(const void *m, struct err_note *note);
str binding_delete_space(const void *m);
err binding_delete_run(struct authority_call *c);

/* ---- for them ---- */
MUST_CHECK err authority_limit_check(int32_t limit, struct err_note *note);
static inline struct auth_page authority_page(ProtobufCBinaryData pivot, int32_t limit)
{
    return (struct auth_page){ .pivot = wire_str(pivot), .limit = (unsigned)limit };
}
/* The rows of an answer to a list: count messages of this type and the array that points to them,
 * in the arena. ERR_LIMIT. */
MUST_CHECK err authority_rows(struct authority_call *c, const ProtobufCMessageDescriptor *type,
                              unsigned count, void **first, ProtobufCMessage ***rows);
/* Who asks, as auth_may_give_... and a giver want it. */
str authority_giver(const struct authority_call *c);
/* A copy of an id in the arena as a field; one that is not there when the arena is full. */
ProtobufCBinaryData authority_id(struct authority_call *c, const char *id);

#endif
