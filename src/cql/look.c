/* look.c - what the control connection reads of the cluster, one answer behind the other, and the
 * events that say when to read again.
 *
 *   REGISTER (once a connection) -> LOCAL -> PEERS_V2, or PEERS where the node is older than 4.0
 *   -> KEYSPACES -> the rows are applied (topology.c)
 *
 * An event is a hint: LOOK_AFTER_EVENT_MS later everything is read again.
 * Invariant: one question of a look is under way at a time; the call belongs to it. */
#include "cql/cql_impl.h"

#include <string.h>

enum { LOOK_AFTER_EVENT_MS = 1000, REGISTER_BYTES = 128 };

/* The columns are read by their order in topology.c. */
static const str look_text[CQL_LOOKS] = {
    [CQL_LOOK_LOCAL] = STR_INIT("SELECT host_id, data_center, rack, tokens, release_version, "
                                "partitioner FROM system.local WHERE key = 'local'"),
    [CQL_LOOK_PEERS_V2] = STR_INIT("SELECT host_id, data_center, rack, tokens, release_version, "
                                   "native_address, peer, native_port FROM system.peers_v2"),
    [CQL_LOOK_PEERS] = STR_INIT("SELECT host_id, data_center, rack, tokens, release_version, "
                                "rpc_address, peer FROM system.peers"),
    [CQL_LOOK_KEYSPACES] =
        STR_INIT("SELECT keyspace_name, replication FROM system_schema.keyspaces"),
};

static void look_answered(struct cql_call *call, struct cql_message *m);

static void look_ask(struct cql *c, enum cql_look look)
{
    struct cql_control *k = &c->control;
    k->look = look;
    k->asked_at = cql_now(c);
    k->call.done = look_answered;
    if (!cql_control_ask(c, &k->call, look_text[look]))
        cql_control_drop(c, "the control connection has no room");
}

/* Events come from this one node: so each new control connection registers again. */
static void look_register(struct cql *c)
{
    struct cql_control *k = &c->control;
    static const str events[] = { STR_INIT("TOPOLOGY_CHANGE"), STR_INIT("STATUS_CHANGE"),
                                  STR_INIT("SCHEMA_CHANGE") };
    k->look = CQL_LOOK_REGISTER;
    k->asked_at = cql_now(c);
    k->call.done = look_answered;
    struct buf *out = cql_conn_begin(k->conn, &k->call, CQL_OP_REGISTER, 0, REGISTER_BYTES);
    INVARIANT(out != NULL); /* the first request of a connection */
    cql_body_register(out, events, COUNT_OF(events));
    cql_conn_end(k->conn);
    cql_conn_flush(k->conn);
}

/* A new connection may be to a newer node, so peers_v2 is asked for again. */
void cql_look_begin(struct cql *c)
{
    c->control.peers_v2 = true;
    look_register(c);
}

void cql_look_drop(struct cql *c)
{
    cql_told_free(&c->control.told);
    c->control.look = CQL_LOOK_NOT;
}

/* Events come in crowds: the earliest look serves all. */
void cql_look_soon(struct cql *c, int64_t ms)
{
    mono at = mono_add_ms(cql_now(c), ms);
    if (at.ns < c->control.look_at.ns)
        c->control.look_at = at;
}

/* All parts were read: only now the client's nodes and keyspaces change. */
static void look_over(struct cql *c)
{
    cql_control_looked(c);
    cql_told_apply(c);
    cql_look_drop(c);
    c->stats.refreshes++;
}

/* Rows were taken: asks for the next part, or ends the look. */
static void look_next(struct cql *c)
{
    struct cql_control *k = &c->control;
    switch (k->look) {
    case CQL_LOOK_REGISTER:
        k->told = cql_told_new();
        k->look_at = mono_add_ms(cql_now(c), c->opts.refresh_ms);
        look_ask(c, CQL_LOOK_LOCAL);
        break;
    case CQL_LOOK_LOCAL:
        look_ask(c, k->peers_v2 ? CQL_LOOK_PEERS_V2 : CQL_LOOK_PEERS);
        break;
    case CQL_LOOK_PEERS_V2:
    case CQL_LOOK_PEERS:
        look_ask(c, CQL_LOOK_KEYSPACES);
        break;
    case CQL_LOOK_KEYSPACES:
        look_over(c);
        break;
    case CQL_LOOK_NOT:
    case CQL_LOOKS:
        INVARIANT(false);
    }
}

/* Takes an answer into `told`. Returns what is wrong with it; NULL: nothing. */
static const char *look_take(struct cql *c, struct cql_answer *a, struct err_note *note)
{
    struct cql_control *k = &c->control;
    if (k->look == CQL_LOOK_REGISTER)
        return a->op == CQL_OP_READY ? NULL : "it does not take the wish for events";
    if (a->op != CQL_OP_RESULT || a->result != CQL_RESULT_ROWS || a->rows.columns == NULL)
        return "it answers a question about the cluster with no rows";
    bool fine = k->look == CQL_LOOK_KEYSPACES ? cql_told_keyspaces(c, &a->rows, note)
                                              : cql_told_nodes(c, &a->rows, k->look, note);
    return fine ? NULL : note->text;
}

static void look_answered(struct cql_call *call, struct cql_message *m)
{
    struct cql *c = CONTAINER_OF(call, struct cql, control.call);
    struct cql_control *k = &c->control;
    call->conn = NULL;
    if (m == NULL)
        return; /* the connection has ended, and is told so itself */
    struct err_note note = { .text = "" };
    /* The table is not there: the node is older than 4.0. */
    bool no_v2 = k->look == CQL_LOOK_PEERS_V2 && m->answer.op == CQL_OP_ERROR &&
                 m->answer.failure.code == CQL_INVALID;
    const char *wrong = no_v2 ? NULL : look_take(c, &m->answer, &note);
    if (m->answer.op == CQL_OP_ERROR && !no_v2)
        err_note_set(&note, "%s: %.*s", cql_code_name(m->answer.failure.code),
                     STR_ARG(str_take(m->answer.failure.message, 160))),
            wrong = note.text;
    cql_answer_fini(&m->answer);
    if (wrong != NULL) {
        cql_control_drop(c, wrong);
    } else if (no_v2) {
        k->peers_v2 = false;
        look_ask(c, CQL_LOOK_PEERS);
    } else {
        look_next(c);
    }
}

/* A look that got stuck costs the connection: another node may answer. */
void cql_look_tick(struct cql *c, mono now)
{
    struct cql_control *k = &c->control;
    if (k->look != CQL_LOOK_NOT) {
        if (now.ns >= mono_add_ms(k->asked_at, c->opts.answer_timeout_ms).ns)
            cql_control_drop(c, "a question about the cluster was not answered in time");
    } else if (now.ns >= k->look_at.ns) {
        k->told = cql_told_new();
        k->look_at = mono_add_ms(now, c->opts.refresh_ms);
        look_ask(c, CQL_LOOK_LOCAL);
    }
}

/* ---- events ---- */

/* The node's state by the words of others. An open connection knows better, so only nodes without
 * one are tried again. */
static void node_status(struct cql *c, const struct cql_event *e)
{
    bool up = str_eq(e->change, STR("UP"));
    struct sockaddr_storage a;
    socklen_t bytes;
    if (!cql_address_read(e->address, (uint16_t)e->port, &a, &bytes))
        return;
    cql_address_map(c, &a, &bytes);
    for (unsigned i = 0; i < c->nodes_count; i++) {
        struct cql_node *n = c->nodes[i];
        if (n == NULL || !cql_address_same(&n->address, n->address_bytes, &a, bytes))
            continue;
        n->told_down = !up;
        mono soon = mono_add_ms(cql_now(c), LOOK_AFTER_EVENT_MS); /* told before it listens */
        if (up && !cql_node_is_up(n) && soon.ns < n->retry_at.ns) {
            n->retry_ms = 0;
            n->retry_at = soon;
        }
    }
}

void cql_look_event(struct cql *c, const struct cql_event *e)
{
    switch (e->kind) {
    case CQL_EVENT_STATUS:
        node_status(c, e);
        cql_look_soon(c, LOOK_AFTER_EVENT_MS);
        break;
    case CQL_EVENT_TOPOLOGY:
        cql_look_soon(c, LOOK_AFTER_EVENT_MS);
        break;
    case CQL_EVENT_SCHEMA:
        if (str_eq(e->schema.target, STR("KEYSPACE")))
            cql_look_soon(c, LOOK_AFTER_EVENT_MS);
        /* Any statement of the keyspace may use a type or a function. */
        cql_known_changed(c, e->schema.keyspace,
                          str_eq(e->schema.target, STR("TABLE")) ? e->schema.name : STR_NONE);
        if (c->opts.schema != NULL)
            c->opts.schema(c->opts.ctx, e->schema.target, e->schema.keyspace, e->schema.name);
        break;
    case CQL_EVENT_OTHER:
        break; /* newer than this client */
    }
}
