/* authority.h - Querator's calls on namespaces, users, keys, roles and bindings: what its files
 * share.
 *
 * Model. A call is a row of the list in authority.c. On the worker its words are checked, then
 * whether who asks may do that in the namespace its message names; the change waits for the disk,
 * so it runs on the pool. Order and sentences are the peer's: its words first, then 403, the same
 * whether the namespace is there or not, then what is stored. */
#ifndef APP_ADMIN_AUTHORITY_H
#define APP_ADMIN_AUTHORITY_H

#include "app/pooled.h"
#include "app/rpc.h"
#include "auth/authority.h"

/* One call on its way. Lives in the arena of its exchange. */
struct authority_call {
    struct pooled pooled;
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
    err (*check)(const void *m, struct err_note *note); /* of the words; NULL: none are wrong */
    err (*run)(struct authority_call *c);               /* pool thread */
};

/* authority_space.c */
err space_check(const void *m, struct err_note *note);
err space_name_check(const void *m, struct err_note *note);
err space_create_run(struct authority_call *c);
err space_update_run(struct authority_call *c);
err space_list_run(struct authority_call *c);
err space_delete_run(struct authority_call *c);
/* authority_user.c: users and their keys */
err user_check(const void *m, struct err_note *note);
err user_create_run(struct authority_call *c);
err user_list_run(struct authority_call *c);
err user_delete_run(struct authority_call *c);
err apikey_check(const void *m, struct err_note *note);
err apikey_create_run(struct authority_call *c);
err apikey_list_run(struct authority_call *c);
err apikey_delete_run(struct authority_call *c);
/* authority_role.c: roles and bindings */
err role_check(const void *m, struct err_note *note);
err role_create_run(struct authority_call *c);
err role_update_check(const void *m, struct err_note *note);
err role_update_run(struct authority_call *c);
err role_list_run(struct authority_call *c);
err role_delete_run(struct authority_call *c);
err binding_check(const void *m, struct err_note *note);
err binding_create_run(struct authority_call *c);
err binding_list_run(struct authority_call *c);
err binding_delete_check(const void *m, struct err_note *note);
err binding_delete_run(struct authority_call *c);

/* ---- for them ---- */
static inline struct auth_page authority_page(ProtobufCBinaryData pivot, int32_t limit)
{
    return (struct auth_page){ .pivot = wire_str(pivot), .limit = (unsigned)limit };
}
/* The reply, a message of this type in the arena, to be filled in. NULL: the arena is full. */
void *authority_reply(struct authority_call *c, const ProtobufCMessageDescriptor *type);
/* The same of a reply to a list: returns its items, count of them. */
void *authority_list(struct authority_call *c, const ProtobufCMessageDescriptor *type,
                     unsigned count);
/* Who asks, as auth_may_give_... and a giver want it. */
str authority_giver(const struct authority_call *c);
/* A copy of an id in the arena as a field; one that is not there when the arena is full. */
ProtobufCBinaryData authority_id(struct authority_call *c, const char *id);

#endif
