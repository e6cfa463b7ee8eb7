#include "app/admin/authority.h"
#include "auth/authority.h"
#include "queue/queue.h"

static struct auth_space space_of(const Wire__NamespaceInfo *m)
{
    return (struct auth_space){ .name = wire_str(m->name),
                                .description = wire_str(m->description),
                                .tag = wire_str(m->api_key_tag) };
}

err space_check(const void *m, struct err_note *note)
{
    struct auth_space s = space_of(m);
    return auth_space_check(&s, note);
}

err space_name_check(const void *m, struct err_note *note)
{
    const Wire__NamespacesDeleteRequest *r = m;
    return auth_space_name_check(wire_str(r->name), note);
}

err space_create_run(struct authority_call *c)
{
    struct auth_space s = space_of(c->m);
    return auth_space_create(c->auth, &s, &c->note);
}

err space_update_run(struct authority_call *c)
{
    struct auth_space s = space_of(c->m);
    return auth_space_update(c->auth, &s, &c->note);
}

/* Of a queue made at this very moment nothing is known yet: it stays without a namespace, and can
 * be deleted. */
err space_delete_run(struct authority_call *c)
{
    const Wire__NamespacesDeleteRequest *r = c->m;
    struct queues_page page = { .space = wire_str(r->name), .limit = 1 };
    err why = queues_list(c->pooled.app->queues, &page, c->arena);
    return why != ERR_OK ? why
                         : auth_space_delete(c->auth, wire_str(r->name), page.count > 0, &c->note);
}

err space_list_run(struct authority_call *c)
{
    const Wire__NamespacesListRequest *r = c->m;
    struct auth_page page = authority_page(r->pivot, r->limit);
    struct auth_space *spaces;
    unsigned count;
    err why = auth_space_list(c->auth, &page, c->arena, &spaces, &count);
    if (why != ERR_OK)
        return why;
    Wire__NamespaceInfo *out =
        authority_list(c, &wire__namespaces_list_response__descriptor, count);
    if (out == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < count; i++) {
        out[i].name = wire_bytes(spaces[i].name);
        out[i].description = wire_bytes(spaces[i].description);
        out[i].api_key_tag = wire_bytes(spaces[i].tag);
        out[i].created_at = wire_time(c->arena, spaces[i].created_at);
    }
    return ERR_OK;
}
