/* known.c - statements: registered once with the client, prepared on each node at first use, and
 * again where a node forgot one.
 *
 * Each node keeps its own id of a statement: nodes of different versions may give different ids.
 * Invariant: at most one PREPARE of a statement is under way to a node; requests wait for it.
 *
 *   NOT --PREPARE--> ASKED --answer--> KNOWN
 * From ASKED to NOT by a refusal; from KNOWN to NOT by UNPREPARED, or when the table changed. */
#include "cql/cql_impl.h"

#include <stdlib.h>
#include <string.h>

enum { PREPARE_HEAD_BYTES = 16, TYPES_BYTES_MAX = 4096 };

/* ---- registering ---- */

const struct cql_statement *cql_statement_new(struct cql *c, const struct cql_statement_opts *o,
                                              struct err_note *note)
{
    MAGIC_CHECK(c, CQL_MAGIC);
    struct cql_lint lint;
    if (cql_lint(str_of(o->text), &lint, note) != ERR_OK)
        return NULL;
    /* Rules that hold for each use of the statement are judged here, once. */
    const char *wrong =
        lint.named_markers                  ? "it names its markers; this client binds by position"
        : lint.selects_all                  ? "it selects *; name the columns"
        : o->idempotent && lint.conditional ? "a conditional write is not idempotent"
        : o->idempotent && lint.repeats_differ      ? "run twice it has another effect"
        : c->statements_count == CQL_STATEMENTS_MAX ? "there are CQL_STATEMENTS_MAX of them"
                                                    : NULL;
    if (wrong != NULL) {
        err_note_set(note, "statement %s: %s", o->name, wrong);
        return NULL;
    }
    struct cql_statement *st = calloc(1, sizeof *st);
    INVARIANT(st != NULL);
    *st = (struct cql_statement){
        .client = c, .opts = *o, .lint = lint, .index = c->statements_count
    };
    c->statements[c->statements_count++] = st;
    return st;
}

/* ---- on a node ---- */

struct cql_known *cql_known_of(struct cql_node *n, const struct cql_statement *st)
{
    /* A node that is never used keeps no statements. */
    if (n->statements == NULL) {
        n->statements = calloc(CQL_STATEMENTS_MAX, sizeof *n->statements);
        INVARIANT(n->statements != NULL);
        for (unsigned i = 0; i < CQL_STATEMENTS_MAX; i++)
            list_init(&n->statements[i].waiters);
    }
    struct cql_known *k = &n->statements[st->index];
    k->node = n;
    k->statement = n->client->statements[st->index];
    return k;
}

static void known_clear(struct cql_known *k)
{
    free(k->ids);
    k->ids = NULL;
    cql_columns_drop(&k->columns);
    k->state = CQL_KNOWN_NOT;
}

/* The columns stay until the node tells new ones: answers that are under way may come without
 * columns. */
void cql_known_forget(struct cql_known *k)
{
    if (k->state == CQL_KNOWN)
        k->state = CQL_KNOWN_NOT;
}

static struct cql_request *waiter_first(struct cql_known *k)
{
    struct list *first = list_first(&k->waiters);
    return first == NULL ? NULL : CONTAINER_OF(first, struct cql_request, link);
}

/* The PREPARE came to nothing. Nothing was done, so the requests that wait may go to any other
 * node. */
static void known_lost(struct cql_known *k, const char *why)
{
    struct cql_request *q;
    k->state = CQL_KNOWN_NOT;
    while ((q = waiter_first(k)) != NULL)
        cql_request_elsewhere(q, why);
}

static void types_print(const struct cql_columns *cols, struct buf *out)
{
    for (unsigned i = 0; cols != NULL && i < cols->count; i++) {
        if (i > 0)
            buf_put(out, STR(", "));
        cql_spec_print(&cols->at[i].spec, out);
    }
}

/* Does the server's table have the types that the code was written for? A client of another table
 * would read nonsense, or write it. */
static bool types_fit(const char *wanted, const struct cql_columns *cols, const char *what,
                      struct err_note *note)
{
    if (wanted == NULL)
        return true;
    struct buf types;
    buf_init(&types, TYPES_BYTES_MAX);
    types_print(cols, &types);
    str found = buf_str(&types);
    bool fit = str_eq(found, str_of(wanted));
    if (!fit)
        err_note_set(note, "it %s (%.*s) on this server, not (%s)", what,
                     STR_ARG(str_take(found, 80)), wanted);
    buf_fini(&types);
    return fit;
}

static void name_copy(char to[CQL_NAME_BYTES_MAX + 1], str from)
{
    if (!str_to_cstr(from, to, CQL_NAME_BYTES_MAX + 1))
        to[0] = '\0'; /* longer than a name may be: not routed by */
}

/* Routing needs the table and the markers of the partition key: they are the same on all nodes. */
static void statement_learn(struct cql_statement *st, const struct cql_prepared_answer *p)
{
    st->used = true;
    st->partition_count = p->partition_count;
    memcpy(st->partition, p->partition, sizeof st->partition);
    const struct cql_columns *from = p->markers->count > 0 ? p->markers : p->columns;
    if (from != NULL && from->count > 0) {
        name_copy(st->keyspace, from->at[0].keyspace);
        name_copy(st->table, from->at[0].table);
    }
}

/* Takes the columns from the answer; the ids are copied, since the answer's bytes go. */
static void known_keep(struct cql_known *k, struct cql_prepared_answer *p)
{
    known_clear(k);
    k->ids = malloc(p->id.n + p->columns_id.n + 1);
    INVARIANT(k->ids != NULL);
    memcpy(k->ids, p->id.p, p->id.n);
    if (p->columns_id.n > 0)
        memcpy(k->ids + p->id.n, p->columns_id.p, p->columns_id.n);
    k->id_bytes = p->id.n;
    k->columns_id_bytes = p->columns_id.n;
    k->columns = p->columns;
    p->columns = NULL;
    k->state = CQL_KNOWN;
    statement_learn(k->statement, p);
}

/* The node's answer is judged, and all that wait go on or fail. */
static void known_take(struct cql_known *k, struct cql_prepared_answer *p)
{
    const struct cql_statement_opts *o = &k->statement->opts;
    struct err_note note = { .text = "" };
    struct cql_request *q;
    bool fits = types_fit(o->takes, p->markers, "takes", &note) &&
                types_fit(o->gives, p->columns, "gives", &note);
    k->state = CQL_KNOWN_NOT;
    if (fits)
        known_keep(k, p);
    while ((q = waiter_first(k)) != NULL) {
        if (fits)
            (void)cql_request_go_on(q, k->node); /* it waits where it has to */
        else
            cql_request_fail(q, ERR_CONFLICT, "statement %s at %s: %s", o->name, k->node->text,
                             note.text);
    }
}

static void known_answered(struct cql_call *call, struct cql_message *m)
{
    struct cql_known *k = CONTAINER_OF(call, struct cql_known, call);
    INVARIANT(k->state == CQL_KNOWN_ASKED);
    call->conn = NULL;
    if (m == NULL) {
        known_lost(k, "the connection was lost before a PREPARE was answered");
        return;
    }
    struct cql_answer *a = &m->answer;
    if (a->op == CQL_OP_RESULT && a->result == CQL_RESULT_PREPARED) {
        known_take(k, &a->prepared);
    } else if (a->op == CQL_OP_ERROR) {
        /* The server refuses the statement: each request judges that as an error of its own. */
        struct cql_request *q;
        k->state = CQL_KNOWN_NOT;
        while ((q = waiter_first(k)) != NULL)
            cql_request_refused(q, &a->failure, k->node);
    } else {
        known_lost(k, "a PREPARE was answered by something else");
    }
    cql_answer_fini(a);
}

bool cql_known_ask(struct cql_known *k)
{
    if (k->state != CQL_KNOWN_NOT)
        return true;
    struct cql_node *n = k->node;
    struct cql *c = n->client;
    str text = str_of(k->statement->opts.text);
    /* Foreground: one PREPARE serves requests of both classes. */
    struct cql_conn *conn = cql_node_conn(n, CQL_FOREGROUND);
    k->call.done = known_answered;
    struct buf *out = conn == NULL ? NULL
                                   : cql_conn_begin(conn, &k->call, CQL_OP_PREPARE, 0,
                                                    text.n + PREPARE_HEAD_BYTES);
    if (out == NULL)
        return false;
    cql_body_prepare(out, cql_conn_version(conn), text, STR_NONE);
    cql_conn_end(conn);
    k->state = CQL_KNOWN_ASKED;
    k->asked_at = cql_now(c);
    c->stats.prepared++;
    cql_flush_soon(c, n);
    return true;
}

/* Version 5 tells with a result that the columns changed. The id of the columns is replaced, so the
 * next answer may come without them. */
bool cql_known_columns(struct cql_known *k, str id, struct cql_columns *columns,
                       struct err_note *note)
{
    const struct cql_statement *st = k->statement;
    /* A conditional write answers in two shapes. */
    bool fits = st->lint.conditional || types_fit(st->opts.gives, columns, "gives", note);
    if (!fits)
        cql_known_forget(k);
    if (k->state != CQL_KNOWN)
        return fits;
    char *ids = malloc(k->id_bytes + id.n + 1);
    INVARIANT(ids != NULL);
    memcpy(ids, k->ids, k->id_bytes);
    memcpy(ids + k->id_bytes, id.p, id.n);
    free(k->ids);
    k->ids = ids;
    k->columns_id_bytes = id.n;
    cql_columns_drop(&k->columns);
    k->columns = columns == NULL ? NULL : cql_columns_hold(columns);
    return true;
}

void cql_known_tick(struct cql_node *n, mono now)
{
    for (unsigned i = 0; n->statements != NULL && i < n->client->statements_count; i++) {
        struct cql_known *k = &n->statements[i];
        /* A node that does not answer keeps all who need the statement: they go elsewhere. */
        if (k->state == CQL_KNOWN_ASKED &&
            now.ns >= mono_add_ms(k->asked_at, n->client->opts.answer_timeout_ms).ns) {
            cql_call_forget(&k->call);
            cql_node_slow(n, now);
            known_lost(k, "a PREPARE was not answered in time");
        }
    }
}

void cql_known_free(struct cql_node *n)
{
    for (unsigned i = 0; n->statements != NULL && i < CQL_STATEMENTS_MAX; i++)
        known_clear(&n->statements[i]);
    free(n->statements);
    n->statements = NULL;
}

/* A new connection's node prepares ahead, so that its first requests do not wait. */
void cql_known_ahead(struct cql_node *n)
{
    struct cql *c = n->client;
    for (unsigned i = 0; i < c->statements_count; i++)
        if (c->statements[i]->used && !cql_known_ask(cql_known_of(n, c->statements[i])))
            return; /* the other statements are prepared when they are needed */
}

/* On a word of the server: the statements of a table, or of a keyspace, are prepared again at next
 * use. */
void cql_known_changed(struct cql *c, str keyspace, str table)
{
    for (unsigned i = 0; i < c->statements_count; i++) {
        const struct cql_statement *st = c->statements[i];
        bool meant = str_eq(str_of(st->keyspace), keyspace) &&
                     (table.n == 0 || str_eq(str_of(st->table), table));
        for (unsigned p = 0; meant && p < c->nodes_count; p++)
            if (c->nodes[p] != NULL && c->nodes[p]->statements != NULL)
                cql_known_forget(&c->nodes[p]->statements[i]);
    }
}
