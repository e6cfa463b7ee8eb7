/* agree.c - waits until all nodes that are up have one schema, for cql_agree. Each AGREE_MS it
 * reads the versions over the control connection: of the node there, and of the peers.
 *
 * A node counts as down when an event said so, when this client lost it, or when the client could
 * not connect.
 * Invariant: asking is true exactly while a question is under way. A question that is lost with its
 * connection, or not answered within answer_timeout_ms, is asked again from the beginning. */
#include "cql/cql_impl.h"

#include <stdlib.h>
#include <string.h>

enum { AGREE_MS = 200 };

/* Tells the caller and frees the agreement. The call is forgotten: its answer may still come. */
static void agreement_end(struct cql_agreement *a, err why)
{
    if (a->asking)
        cql_call_forget(&a->call);
    list_remove(&a->link);
    a->done(a->ctx, why);
    free(a);
}

/* Does the schema of this peer matter? A node that is down takes over the schema when it comes
 * back. */
static bool node_counts(const struct cql *c, const struct cql_cell *host_id)
{
    const unsigned char *id;
    if (!cql_get_uuid(host_id, &id))
        return false; /* it is joining */
    const struct cql_node *n = cql_node_of(c, id);
    if (n == NULL)
        return false;
    /* retry_ms 0: the client had no failure there, so the node may be up without a connection. */
    return cql_node_is_up(n) || (!n->told_down && n->retry_ms == 0);
}

static bool peers_agree(const struct cql_agreement *a, struct cql_rows *rows)
{
    struct cql_cell cells[2];
    if (rows->columns == NULL || rows->columns->count != 2)
        return false;
    while (cql_rows_next(rows, cells)) {
        const unsigned char *version;
        if (!node_counts(a->client, &cells[0]))
            continue;
        if (!cql_get_uuid(&cells[1], &version) || memcmp(version, a->version, CQL_UUID_BYTES) != 0)
            return false;
    }
    return !rows->rest.failed;
}

static bool own_version(struct cql_agreement *a, struct cql_rows *rows)
{
    struct cql_cell cell;
    const unsigned char *version;
    if (rows->columns == NULL || rows->columns->count != 1 || !cql_rows_next(rows, &cell) ||
        !cql_get_uuid(&cell, &version))
        return false;
    /* Copied: the answer is freed before the peers' answer comes. */
    memcpy(a->version, version, sizeof a->version);
    return true;
}

static void agreement_answered(struct cql_call *call, struct cql_message *m);

/* First the node's own version, then those of its peers: both over one connection. */
static void agreement_ask(struct cql_agreement *a, bool peers)
{
    a->call.done = agreement_answered;
    a->peers = peers;
    a->asked_at = cql_now(a->client);
    a->asking = true; /* the answer may come inside: the connection ends while it is written to */
    if (!cql_control_ask(a->client, &a->call,
                         peers
                             ? STR("SELECT host_id, schema_version FROM system.peers")
                             : STR("SELECT schema_version FROM system.local WHERE key = 'local'")))
        a->asking = false;
}

static void agreement_answered(struct cql_call *call, struct cql_message *m)
{
    struct cql_agreement *a = CONTAINER_OF(call, struct cql_agreement, call);
    bool peers = a->peers;
    bool rows = m != NULL && m->answer.op == CQL_OP_RESULT && m->answer.result == CQL_RESULT_ROWS;
    call->conn = NULL;
    a->asking = false;
    bool fine = rows && (peers ? peers_agree(a, &m->answer.rows) : own_version(a, &m->answer.rows));
    if (m != NULL)
        cql_answer_fini(&m->answer);
    /* Other answers, and lost ones, are asked again by the tick. */
    if (fine && peers)
        agreement_end(a, ERR_OK);
    else if (fine)
        agreement_ask(a, true);
}

void cql_agreements_tick(struct cql *c, mono now)
{
    struct list *at = c->agreements.next;
    while (at != &c->agreements) {
        struct cql_agreement *a = CONTAINER_OF(at, struct cql_agreement, link);
        /* The agreement may end below, so the next one is taken first. */
        at = at->next;
        if (a->asking && now.ns >= mono_add_ms(a->asked_at, c->opts.answer_timeout_ms).ns) {
            cql_call_forget(&a->call);
            a->asking = false;
        }
        if (now.ns >= a->deadline.ns) {
            agreement_end(a, ERR_TIMEOUT);
        } else if (!a->asking && now.ns >= a->next_at.ns) {
            a->next_at = mono_add_ms(now, AGREE_MS);
            agreement_ask(a, false);
        }
    }
}

void cql_agreements_end(struct cql *c, err why)
{
    struct list *first;
    while ((first = list_first(&c->agreements)) != NULL)
        agreement_end(CONTAINER_OF(first, struct cql_agreement, link), why);
}

/* Asked by the next tick, so done never runs inside this call. */
void cql_agree(struct cql *c, mono deadline, void (*done)(void *ctx, err why), void *ctx)
{
    MAGIC_CHECK(c, CQL_MAGIC);
    struct cql_agreement *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    *a = (struct cql_agreement){ .client = c, .deadline = deadline, .done = done, .ctx = ctx };
    a->next_at = cql_now(c);
    list_append(&c->agreements, &a->link);
}
