/* event.c - takes apart what a server tells unasked: nodes that come, go, rise and fall, and
 * changes of the schema. The latter are also the result of a statement that changes it.
 *
 * A kind of event, or of thing in a schema, that is newer than this client is passed on without its
 * details. */
#include "cql/event.h"

#include <arpa/inet.h>

static err event_corrupt(struct err_note *note, const char *what)
{
    err_note_set(note, "%s is cut or makes no sense", what);
    return ERR_CORRUPT;
}

static bool change_of(str word, enum cql_change *out)
{
    static const str words[] = {
        [CQL_CHANGE_CREATED] = STR_INIT("CREATED"),
        [CQL_CHANGE_UPDATED] = STR_INIT("UPDATED"),
        [CQL_CHANGE_DROPPED] = STR_INIT("DROPPED"),
    };
    for (unsigned i = 0; i < COUNT_OF(words); i++)
        if (str_eq(word, words[i])) {
            *out = (enum cql_change)i;
            return true;
        }
    return false;
}

/* Reads what a change names, by the kind of thing. Of an unknown kind nothing is read: bytes behind
 * a message are ignored. */
static void target_take(struct cursor *c, struct cql_schema_change *s)
{
    bool function = str_eq(s->target, STR("FUNCTION")) || str_eq(s->target, STR("AGGREGATE"));
    bool named = function || str_eq(s->target, STR("TABLE")) || str_eq(s->target, STR("TYPE"));
    if (!named && !str_eq(s->target, STR("KEYSPACE")))
        return;
    s->keyspace = cursor_str16(c);
    if (named)
        s->name = cursor_str16(c);
    if (!function)
        return;
    for (unsigned left = cursor_be16(c); left > 0 && !c->failed; left--)
        (void)cursor_str16(c); /* a type of its arguments */
}

err cql_schema_take(struct cursor *c, struct cql_schema_change *out, struct err_note *note)
{
    struct cql_schema_change s = { .target = STR_NONE };
    bool known = change_of(cursor_str16(c), &s.change);
    s.target = cursor_str16(c);
    target_take(c, &s);
    if (c->failed || !known)
        return event_corrupt(note, "a change of the schema");
    *out = s;
    return ERR_OK;
}

/* Reads an [inet]: a size, the address, a port. False: it is none. */
static bool inet_take(struct cursor *c, struct cql_event *e)
{
    uint8_t size = cursor_u8(c);
    str address = cursor_bytes(c, size);
    e->port = (int32_t)cursor_be32(c);
    if (c->failed || (size != 4 && size != 16) || e->port < 0 || e->port > UINT16_MAX)
        return false;
    return inet_ntop(size == 4 ? AF_INET : AF_INET6, address.p, e->address, sizeof e->address) !=
           NULL;
}

/* *out is written only when the event is whole. */
err cql_event_take(struct cursor *c, struct cql_event *out, struct err_note *note)
{
    struct cql_event e = { .kind = CQL_EVENT_OTHER };
    str kind = cursor_str16(c);
    if (c->failed)
        return event_corrupt(note, "an event");
    if (str_eq(kind, STR("SCHEMA_CHANGE"))) {
        e.kind = CQL_EVENT_SCHEMA;
        err why = cql_schema_take(c, &e.schema, note);
        if (why != ERR_OK)
            return why;
    }
    bool topology = str_eq(kind, STR("TOPOLOGY_CHANGE"));
    if (topology || str_eq(kind, STR("STATUS_CHANGE"))) {
        e.kind = topology ? CQL_EVENT_TOPOLOGY : CQL_EVENT_STATUS;
        e.change = cursor_str16(c);
        if (!inet_take(c, &e))
            return event_corrupt(note, "an event of a node");
    }
    *out = e;
    return ERR_OK;
}
