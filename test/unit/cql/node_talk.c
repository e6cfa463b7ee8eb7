/* node_talk.c - what a node of the fake cluster says to a request: the usual answer, or that of the
 * test's rule, wrapped into an envelope with the faults that concern envelopes. */
#include "cql/segment.h"
#include "unit/cql/node_impl.h"

#include <stdio.h>
#include <string.h>

enum { OPCODE_NONE = 0x1f, VERSION_NONE = 7, ANSWER_BIT = 0x80 };

/* One answer in the making. */
struct talk {
    struct node_conn *conn;
    const struct node_request *r;
    const struct node_action *how;
    unsigned rule; /* its number; 0: none */
    struct node_read read;
    enum cql_opcode op;
    struct buf body;
    bool framed;
    const struct cql_schema_change *change; /* to be told to all behind the answer */
};

/* ---- envelopes ---- */

/* What stands before the message, by the flags that are returned. */
static unsigned prefix_put(struct buf *out, const struct cql_head *asked,
                           const struct node_action *how)
{
    unsigned flags = 0, warnings = 0;
    if (how->traced || (asked->flags & CQL_FLAG_TRACING) != 0) {
        buf_put(out, STR("0123456789abcdef"));
        flags |= CQL_FLAG_TRACING;
    }
    while (warnings < NODE_WARNINGS_MAX && how->warnings[warnings] != NULL)
        warnings++;
    if (warnings > 0) {
        flags |= CQL_FLAG_WARNING;
        buf_put_be16(out, (uint16_t)warnings);
    }
    for (unsigned i = 0; i < warnings; i++)
        node_put_string(out, how->warnings[i]);
    if (how->payload.name.n > 0) {
        flags |= CQL_FLAG_PAYLOAD;
        buf_put_be16(out, 1);
        buf_put_str16(out, how->payload.name);
        buf_put_be32(out, (uint32_t)how->payload.value.n);
        buf_put(out, how->payload.value);
    }
    return flags;
}

static void envelope_put(struct buf *out, unsigned version, unsigned flags, int16_t stream,
                         unsigned op)
{
    buf_put_u8(out, (uint8_t)(ANSWER_BIT | version));
    buf_put_u8(out, (uint8_t)flags);
    buf_put_be16(out, (uint16_t)stream);
    buf_put_u8(out, (uint8_t)op);
    buf_put_be32(out, 0);
}

/* Appends the body, in LZ4 where that was agreed in version 4, and sets its length. */
static void envelope_end(struct buf *envelope, const struct node_conn *conn, str body)
{
    if (conn->version == 4 && conn->lz4 && cql_body_pack(envelope, body))
        envelope->p[1] |= CQL_FLAG_COMPRESSED;
    else
        buf_put(envelope, body);
    put_be32(envelope->p + 5, (uint32_t)(envelope->n - CQL_HEAD_BYTES));
}

static void envelope_hurt(struct buf *envelope, const struct node_action *how)
{
    char *head = envelope->p;
    if (how->fault == NODE_LENGTH)
        put_be32(head + 5, (uint32_t)(how->length == 0 ? INT32_MAX : how->length));
    else if (how->fault == NODE_OPCODE)
        head[4] = OPCODE_NONE;
    else if (how->fault == NODE_VERSION)
        head[0] = (char)(ANSWER_BIT | VERSION_NONE);
    else if (how->fault == NODE_DIRECTION)
        head[0] &= (char)~ANSWER_BIT;
}

static void talk_send(struct talk *t)
{
    struct buf body, envelope;
    const struct cql_head *asked = &t->r->head;
    int16_t stream = t->how->fault == NODE_OTHER_STREAM ? t->how->stream : asked->stream;
    buf_init(&body, NODE_BYTES_MAX);
    buf_init(&envelope, NODE_BYTES_MAX);
    unsigned flags = prefix_put(&body, asked, t->how);
    str message = buf_str(&t->body);
    buf_put(&body, t->how->fault == NODE_BODY_SHORT ? str_take(message, message.n / 2) : message);
    if (t->how->fault == NODE_BODY_LONG)
        buf_put(&body, STR("and more"));
    envelope_put(&envelope, t->conn->version, flags, stream, t->op);
    envelope_end(&envelope, t->conn, buf_str(&body));
    envelope_hurt(&envelope, t->how);
    node_conn_post(t->conn, &(struct node_letter){ .due_ms = t->how->delay_ms == 0
                                                                 ? 0
                                                                 : node_now_ms() + t->how->delay_ms,
                                                   .held_by = t->how->held ? t->rule : 0,
                                                   .envelope = envelope,
                                                   .fault = t->how->fault,
                                                   .framed = t->framed,
                                                   .reset = t->how->reset,
                                                   .stream = stream });
    buf_fini(&body);
}

void node_talk_refuse(struct node_conn *conn, unsigned version, int16_t stream, const char *what)
{
    struct buf envelope;
    buf_init(&envelope, NODE_BYTES_MAX);
    envelope_put(&envelope, version, 0, stream, CQL_OP_ERROR);
    buf_put_be32(&envelope, CQL_PROTOCOL_ERROR);
    node_put_string(&envelope, what);
    put_be32(envelope.p + 5, (uint32_t)(envelope.n - CQL_HEAD_BYTES));
    node_conn_post(conn, &(struct node_letter){
                             .envelope = envelope, .framed = conn->framed, .stream = stream });
}

void node_talk_event(struct node_conn *conn, const struct cql_event *e)
{
    struct buf body, envelope;
    buf_init(&body, NODE_BYTES_MAX);
    buf_init(&envelope, NODE_BYTES_MAX);
    node_put_event(&body, e);
    envelope_put(&envelope, conn->version, 0, CQL_STREAM_EVENT, CQL_OP_EVENT);
    envelope_end(&envelope, conn, buf_str(&body));
    node_conn_post(conn, &(struct node_letter){ .envelope = envelope,
                                                .framed = conn->framed,
                                                .stream = CQL_STREAM_EVENT });
    buf_fini(&body);
}

/* ---- the usual ---- */

static void say_failure(struct talk *t, const struct cql_failure *f)
{
    t->op = CQL_OP_ERROR;
    node_put_failure(&t->body, t->conn->version, f, &t->conn->cluster->nodes[t->conn->node].at);
}

static void say_error(struct talk *t, int32_t code, const char *message)
{
    say_failure(t, &(struct cql_failure){ .code = code, .message = str_of(message) });
}

static void say_supported(struct talk *t)
{
    const struct node_cluster *c = t->conn->cluster;
    const char *lz4 = c->opts.no_lz4 ? NULL : "lz4";
    bool five = c->nodes[t->conn->node].version_max >= 5;
    const char *const rows[][5] = { { "COMPRESSION", "snappy", lz4 },
                                    { "CQL_VERSION", "3.4.7" },
                                    { "PROTOCOL_VERSIONS", "3/v3", "4/v4",
                                      five ? "5/v5" : "5/v5-beta", five ? "6/v6-beta" : NULL } };
    t->op = CQL_OP_SUPPORTED;
    buf_put_be16(&t->body, COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint16_t values = 0;
        while (values < 4 && rows[i][1 + values] != NULL)
            values++;
        node_put_string(&t->body, rows[i][0]);
        buf_put_be16(&t->body, values);
        for (unsigned v = 0; v < values; v++)
            node_put_string(&t->body, rows[i][1 + v]);
    }
}

static str startup_option(str text, str name)
{
    for (str rest = text; rest.n > 0;) {
        str value = node_list_next(&rest, ','), key = str_split(&value, '=');
        if (str_eq(key, name))
            return value.p == NULL ? STR("") : value;
    }
    return STR_NONE;
}

static void say_startup(struct talk *t)
{
    struct node_conn *conn = t->conn;
    const struct node_cluster *c = conn->cluster;
    str version = startup_option(t->r->text, STR("CQL_VERSION"));
    str lz4 = startup_option(t->r->text, STR("COMPRESSION"));
    if (version.p == NULL) {
        say_error(t, CQL_PROTOCOL_ERROR, "Missing value CQL_VERSION in STARTUP message");
    } else if (!str_starts(version, STR("3."))) {
        say_error(t, CQL_PROTOCOL_ERROR, "CQL version is not supported by the binary protocol");
    } else if (lz4.p != NULL && (c->opts.no_lz4 || !str_eq(lz4, STR("lz4")))) {
        say_error(t, CQL_PROTOCOL_ERROR, "Unknown compression algorithm");
    } else {
        conn->lz4 = lz4.p != NULL;
        conn->framed = conn->version >= 5;
        conn->stage = c->user[0] == '\0' ? STAGE_READY : STAGE_AUTH;
        t->op = c->user[0] == '\0' ? CQL_OP_READY : CQL_OP_AUTHENTICATE;
        if (t->op == CQL_OP_AUTHENTICATE)
            node_put_string(&t->body, "org.apache.cassandra.auth.PasswordAuthenticator");
    }
}

/* SASL PLAIN: whom to act for, NUL, user, NUL, password. */
static void say_auth(struct talk *t)
{
    const struct node_cluster *c = t->conn->cluster;
    str password = t->r->text;
    (void)str_split(&password, '\0');
    str user = str_split(&password, '\0');
    if (!str_eq(user, str_of(c->user)) || !str_eq(password, str_of(c->password))) {
        say_error(t, CQL_BAD_CREDENTIALS, "Provided username or password is incorrect");
        return;
    }
    t->conn->stage = STAGE_READY;
    t->op = CQL_OP_AUTH_SUCCESS;
    buf_put_be32(&t->body, UINT32_MAX); /* no token */
}

static void say_register(struct talk *t)
{
    static const str kinds[] = { [CQL_EVENT_TOPOLOGY] = STR_INIT("TOPOLOGY_CHANGE"),
                                 [CQL_EVENT_STATUS] = STR_INIT("STATUS_CHANGE"),
                                 [CQL_EVENT_SCHEMA] = STR_INIT("SCHEMA_CHANGE") };
    t->op = CQL_OP_READY;
    for (str rest = t->r->text; rest.n > 0;) {
        str kind = node_list_next(&rest, ',');
        unsigned k = 0;
        while (k < COUNT_OF(kinds) && !str_eq(kinds[k], kind))
            k++;
        if (k < COUNT_OF(kinds))
            t->conn->registered |= BIT(k);
        else
            say_error(t, CQL_PROTOCOL_ERROR, "Invalid value for an event");
        if (k == COUNT_OF(kinds))
            return;
    }
}

static void say_rows(struct talk *t, const struct node_plan *plan)
{
    struct node_page page = { .rows = t->how->page_rows, .empty = t->how->empty_pages };
    struct buf cells;
    if (!node_page_known(t->r)) {
        say_error(t, CQL_PROTOCOL_ERROR, "Invalid value for the paging state");
        return;
    }
    buf_init(&cells, NODE_BYTES_MAX);
    struct node_plan shown = *plan;
    if (plan->meaning == MEANS_SYSTEM) {
        node_system_rows(t->conn->cluster, t->conn->node, plan, t->r, &cells);
        shown.cells = buf_str(&cells);
    }
    node_put_rows(&t->body, t->conn, t->r, &shown, &page);
    buf_fini(&cells);
}

static void say_change(struct talk *t, const struct node_plan *plan)
{
    struct node_cluster *c = t->conn->cluster;
    uint64_t schema = 0;
    for (unsigned i = 0; i < c->count; i++)
        schema = c->nodes[i].schema > schema ? c->nodes[i].schema : schema;
    for (unsigned i = 0; i < c->count; i++)
        c->nodes[i].schema = schema + 1;
    buf_put_be32(&t->body, CQL_RESULT_SCHEMA);
    node_put_schema(&t->body, &plan->change);
    t->change = &plan->change;
}

static void say_unprepared(struct talk *t, str id)
{
    say_failure(t, &(struct cql_failure){ .code = CQL_UNPREPARED,
                                          .message = STR("Prepared query with this ID not found"),
                                          .id = id });
}

/* Refused for its text or its values? Then it is said. */
static bool say_refusal(struct talk *t, const struct node_plan *plan)
{
    if (plan->code != 0)
        say_failure(t, &(struct cql_failure){ .code = plan->code, .message = plan->message });
    else if (t->read.unknown_id.n > 0)
        say_unprepared(t, t->read.unknown_id);
    else if (t->read.values_unfit)
        say_error(t, CQL_INVALID, "Invalid amount of bind variables");
    return t->op == CQL_OP_ERROR;
}

static void say_result(struct talk *t)
{
    const struct node_plan *plan = node_plan(t->conn->cluster, t->r->text);
    t->op = CQL_OP_RESULT;
    if (say_refusal(t, plan))
        return;
    if (t->r->op == CQL_OP_BATCH) {
        buf_put_be32(&t->body, CQL_RESULT_VOID);
    } else if (plan->meaning == MEANS_USE) {
        buf_put_be32(&t->body, CQL_RESULT_KEYSPACE);
        node_put_string(&t->body, plan->keyspace);
    } else if (plan->meaning == MEANS_SCHEMA) {
        say_change(t, plan);
    } else if (plan->has_columns) {
        say_rows(t, plan);
    } else {
        buf_put_be32(&t->body, CQL_RESULT_VOID);
    }
}

static void say_prepared(struct talk *t)
{
    struct node_cluster *c = t->conn->cluster;
    const struct node_plan *plan = node_plan(c, t->r->text);
    unsigned char id[NODE_ID_BYTES];
    t->op = CQL_OP_RESULT;
    if (say_refusal(t, plan))
        return;
    str key = { .p = (const char *)node_id(c, t->conn->node, plan->text, id), .n = sizeof id };
    str *text = arena_alloc(&c->arena, sizeof *text);
    INVARIANT(text != NULL);
    *text = plan->text;
    (void)map_put(c->nodes[t->conn->node].prepared, key, text);
    node_put_prepared(&t->body, t->conn->version, id, plan);
}

static void say_usual(struct talk *t)
{
    if (t->r->op == CQL_OP_OPTIONS)
        say_supported(t);
    else if (t->r->op == CQL_OP_STARTUP)
        say_startup(t);
    else if (t->r->op == CQL_OP_AUTH_RESPONSE)
        say_auth(t);
    else if (t->r->op == CQL_OP_REGISTER)
        say_register(t);
    else if (t->r->op == CQL_OP_PREPARE)
        say_prepared(t);
    else
        say_result(t);
}

/* ---- rules ---- */

static void say_ruled_rows(struct talk *t, const struct node_rule *rule)
{
    struct node_plan plan = *node_plan(t->conn->cluster, t->r->text);
    if (rule->has_columns) {
        plan.columns = rule->columns;
        plan.has_columns = true;
    }
    plan.meaning = MEANS_OTHER;
    plan.cells = rule->cells;
    t->op = CQL_OP_RESULT;
    if (t->read.unknown_id.n > 0)
        say_unprepared(t, t->read.unknown_id);
    else
        say_rows(t, &plan);
}

static void say_ruled_error(struct talk *t)
{
    struct cql_failure f = t->how->error;
    if (f.code == CQL_UNPREPARED && f.id.n == 0)
        f.id = t->r->id;
    say_failure(t, &f);
}

static void say(struct talk *t, const struct node_rule *rule)
{
    switch (t->how->act) {
    case NODE_SWALLOW:
        check_failed(__FILE__, __LINE__, "a swallowed request is answered");
        return;
    case NODE_ERROR:
        say_ruled_error(t);
        return;
    case NODE_ROWS:
        say_ruled_rows(t, rule);
        return;
    case NODE_RAW:
        t->op = t->how->op;
        buf_put(&t->body, t->how->body);
        return;
    case NODE_FORGETS:
        node_forget(t->conn->cluster, (int)t->conn->node);
        t->read.unknown_id = t->r->id;
        say_usual(t);
        return;
    case NODE_USUAL:
        say_usual(t);
        return;
    }
}

/* ---- a request ---- */

static void flight_begin(struct node_conn *conn, const struct cql_head *head)
{
    struct node_cluster *c = conn->cluster;
    struct node *n = &c->nodes[conn->node];
    unsigned char *at = &conn->streams[head->stream / 8];
    if ((*at & BIT(head->stream % 8)) != 0) {
        node_complain(conn, "stream %d has a request in flight already", head->stream);
        return;
    }
    *at = (unsigned char)(*at | BIT(head->stream % 8));
    conn->in_flight++;
    if (++n->in_flight > n->in_flight_max)
        n->in_flight_max = n->in_flight;
    if (++c->in_flight > c->in_flight_max)
        c->in_flight_max = c->in_flight;
}

static const char *stage_wrong(const struct node_conn *conn, unsigned op)
{
    if (op == CQL_OP_OPTIONS)
        return NULL;
    if (op == CQL_OP_STARTUP)
        return conn->stage == STAGE_NEW ? NULL : "a second STARTUP";
    if (op == CQL_OP_AUTH_RESPONSE)
        return conn->stage == STAGE_AUTH ? NULL : "AUTH_RESPONSE, and nobody asked";
    return conn->stage == STAGE_READY ? NULL : "a request before the handshake was over";
}

static void tell_change(struct node_cluster *c, const struct cql_schema_change *change)
{
    struct cql_event e = { .kind = CQL_EVENT_SCHEMA, .schema = *change };
    for (struct node_conn *conn = c->conns; conn != NULL; conn = conn->next)
        if ((conn->registered & BIT(CQL_EVENT_SCHEMA)) != 0)
            node_talk_event(conn, &e);
}

static void talk_answer(struct talk *t)
{
    static const struct node_action usual = { .act = NODE_USUAL };
    const struct node_rule *rule = node_rule_take(t->conn, t->r);
    t->how = rule == NULL ? &usual : &rule->action;
    t->rule = rule == NULL ? 0 : rule->number;
    if (t->how->act == NODE_SWALLOW)
        return;
    buf_init(&t->body, NODE_BYTES_MAX);
    say(t, rule);
    INVARIANT(buf_status(&t->body) == ERR_OK);
    talk_send(t);
    if (t->change != NULL)
        tell_change(t->conn->cluster, t->change);
    buf_fini(&t->body);
}

void node_talk(struct node_conn *conn, const struct cql_head *head, str body)
{
    struct node_request r = { .node = conn->node,
                              .connection = conn->number,
                              .at_ms = node_now_ms(),
                              .head = *head,
                              .op = (enum cql_opcode)head->opcode,
                              .timestamp_us = CQL_NO_TIMESTAMP,
                              .now_s = CQL_NO_NOW };
    struct talk t = { .conn = conn, .r = &r, .framed = conn->framed };
    flight_begin(conn, head);
    const char *wrong = stage_wrong(conn, head->opcode);
    if (wrong == NULL)
        wrong = node_read(conn, body, &r, &t.read);
    if (wrong != NULL) {
        node_complain(conn, "opcode %u: %s", head->opcode, wrong);
        node_talk_refuse(conn, conn->version, head->stream, wrong);
        node_conn_end(conn, false);
        return;
    }
    node_record(conn, &r);
    talk_answer(&t);
}
