#include "app/admin/authority.h"
#include "auth/authority.h"

#include <openssl/crypto.h>

static struct auth_user user_of(const Wire__UserCreateRequest *m)
{
    return (struct auth_user){ .name = wire_str(m->username),
                               .email = wire_str(m->email),
                               .external_id = wire_str(m->external_id) };
}

err user_check(const void *m, struct err_note *note)
{
    struct auth_user u = user_of(m);
    return auth_user_check(&u, note);
}

err user_create_run(struct authority_call *c)
{
    struct auth_user u = user_of(c->m);
    char id[AUTH_ID_BYTES + 1];
    Wire__UserCreateResponse *reply = authority_reply(c, &wire__user_create_response__descriptor);
    err why = reply == NULL ? ERR_LIMIT : auth_user_create(c->auth, &u, id, &c->note);
    if (why == ERR_OK)
        reply->id = authority_id(c, id);
    return why;
}

err user_delete_run(struct authority_call *c)
{
    const Wire__UsersDeleteRequest *r = c->m;
    return auth_user_delete(c->auth, wire_str(r->id), &c->note);
}

err user_list_run(struct authority_call *c)
{
    const Wire__UsersListRequest *r = c->m;
    struct auth_page page = authority_page(r->pivot, r->limit);
    struct auth_user *users;
    unsigned count;
    err why = auth_user_list(c->auth, &page, c->arena, &users, &count);
    if (why != ERR_OK)
        return why;
    Wire__User *out = authority_list(c, &wire__users_list_response__descriptor, count);
    if (out == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < count; i++) {
        out[i].id = wire_bytes(users[i].id);
        out[i].username = wire_bytes(users[i].name);
        out[i].external_id = wire_bytes(users[i].external_id);
        out[i].email = wire_bytes(users[i].email);
        out[i].created_at = wire_time(c->arena, users[i].created_at);
        out[i].updated_at = wire_time(c->arena, users[i].updated_at);
    }
    return ERR_OK;
}

/* ---- keys ---- */

static struct auth_apikey key_of(const Wire__APIKeyCreateRequest *m)
{
    return (struct auth_apikey){ .user_id = wire_str(m->user_id),
                                 .name = wire_str(m->name),
                                 .scope = wire_str(m->namespace_scope),
                                 .tag = wire_str(m->key_tag),
                                 .expires_at = m->expires_at == NULL
                                                   ? STORE_TIME_NEVER
                                                   : wire_time_read(m->expires_at) };
}

err apikey_check(const void *m, struct err_note *note)
{
    struct auth_apikey k = key_of(m);
    return auth_apikey_check(&k, note);
}

err apikey_create_run(struct authority_call *c)
{
    struct auth_apikey k = key_of(c->m);
    struct auth_secret made;
    Wire__APIKeyCreateResponse *reply =
        authority_reply(c, &wire__apikey_create_response__descriptor);
    err why = reply == NULL
                  ? ERR_LIMIT
                  : auth_may_give_key(c->auth, authority_giver(c), k.user_id, k.scope, &c->note);
    if (why == ERR_OK)
        why = auth_apikey_create(c->auth, &k, &made, &c->note);
    if (why != ERR_OK)
        return why;
    reply->id = authority_id(c, made.id);
    reply->key = authority_id(c, made.key);
    reply->prefix = authority_id(c, made.prefix);
    OPENSSL_cleanse(&made, sizeof made);
    return ERR_OK;
}

err apikey_delete_run(struct authority_call *c)
{
    const Wire__APIKeysDeleteRequest *r = c->m;
    return auth_apikey_delete(c->auth, wire_str(r->id), &c->note);
}

static void fill_key(struct authority_call *c, const struct auth_apikey *k,
                     Wire__APIKeyMetadata *out)
{
    out->id = wire_bytes(k->id);
    out->user_id = wire_bytes(k->user_id);
    out->namespace_scope = wire_bytes(k->scope);
    out->name = wire_bytes(k->name);
    out->prefix = wire_bytes(k->prefix);
    out->created_at = wire_time(c->arena, k->created_at);
    if (k->expires_at.ns != STORE_TIME_NEVER.ns)
        out->expires_at = wire_time(c->arena, k->expires_at);
}

err apikey_list_run(struct authority_call *c)
{
    const Wire__APIKeysListRequest *r = c->m;
    struct auth_page page = authority_page(r->pivot, r->limit);
    struct auth_apikey *keys;
    unsigned count;
    err why = auth_apikey_list(c->auth, wire_str(r->user_id), &page, c->arena, &keys, &count);
    if (why != ERR_OK)
        return why;
    Wire__APIKeyMetadata *out = authority_list(c, &wire__apikeys_list_response__descriptor, count);
    if (out == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < count; i++)
        fill_key(c, &keys[i], &out[i]);
    return ERR_OK;
}
