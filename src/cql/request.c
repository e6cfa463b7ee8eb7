/* request.c - a request from its start to its end: checked, sent, sent again, given up. outcome.c
 * judges what an answer says. All of it runs on the loop, except cql_start and cql_cancel.
 *
 * Invariants:
 *   1 an active request stands in the client's heap of due times, with the earlier of its deadline
 *     and the instant of a second try;
 *   2 it waits for a node (waits is that node, and its link stands in a list of the node or of a
 *     statement there), or it has a try under way, or the code runs that decides which;
 *   3 done is called when both are over. A try that is still under way then is forgotten; its
 *     stream is kept until the answer comes. */
#include "cql/cql_impl.h"

#include "loop/loop.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    RETRIES_MAX = 1,  /* of what was sent */
    PREPARES_MAX = 3, /* of one request: nodes that forget again and again */
    PART_HEAD_BYTES = 8,
    PARAMS_BYTES_MAX = 64, /* of what stands beside texts, ids and values */
};

/* ---- its end ---- */

static bool try_live(const struct cql_try *t)
{
    return t->node != NULL;
}

static bool request_has_try(const struct cql_request *q)
{
    for (unsigned i = 0; i < CQL_TRIES; i++)
        if (try_live(&q->tries[i]))
            return true;
    return false;
}

/* Also for a try that is forgotten: the node's count is of requests, and not of streams. */
static void try_end(struct cql_try *t)
{
    INVARIANT(t->node->in_flight[t->request->class] > 0);
    t->node->in_flight[t->request->class]--;
    t->node = NULL;
    cql_columns_drop(&t->columns);
}

/* How long a read may take before a second node is worth asking. */
static int64_t patience_ns(const struct cql *c)
{
    int64_t least_ns = c->opts.speculate_min_ms * NS_PER_MS;
    return c->p99_ns > least_ns ? c->p99_ns : least_ns;
}

/* Gives up the tries that are still under way. A node that has been at its try for long is slow; a
 * node that was asked just now is not. */
static void tries_forget(struct cql_request *q, mono now)
{
    for (unsigned i = 0; i < CQL_TRIES; i++) {
        struct cql_try *t = &q->tries[i];
        if (!try_live(t))
            continue;
        if (now.ns - t->began.ns >= 2 * patience_ns(q->client))
            cql_node_slow(t->node, now);
        cql_call_forget(&t->call);
        try_end(t);
    }
}

static void request_unwait(struct cql_request *q)
{
    if (q->waits == NULL)
        return;
    list_remove(&q->link);
    INVARIANT(q->waits->waiting_count[q->class] > 0);
    q->waits->waiting_count[q->class]--;
    q->client->stats.waiting--;
    q->waits = NULL;
}

/* The count `started` goes down behind done: the client is not freed before, since a caller may
 * cancel until done. */
static void request_tell(struct cql_request *q)
{
    struct cql *c = q->client;
    q->done(q);
    (void)atomic_fetch_sub_explicit(&c->started, 1, memory_order_release);
}

static void request_told(struct task *t)
{
    request_tell(CONTAINER_OF(t, struct cql_request, task));
}

/* The one end of a request. done runs at its home, or here without one. */
static void request_finish(struct cql_request *q, err why)
{
    struct cql *c = q->client;
    mono now = cql_now(c);
    INVARIANT(q->active);
    request_unwait(q);
    tries_forget(q, now);
    heap_remove(&c->due, &q->due);
    c->stats.in_flight--;
    q->active = false;
    q->out.why = why;
    if (why != ERR_OK)
        c->stats.failed++;
    if (q->home == NULL) {
        request_tell(q);
        return;
    }
    q->task.run = request_told;
    home_post(q->home, &q->task);
}

void cql_request_fail(struct cql_request *q, err why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(q->out.note.text, sizeof q->out.note.text, format, args); /* cut when longer */
    va_end(args);
    request_finish(q, why);
}

/* ---- on its way ---- */

static void request_due_set(struct cql_request *q, mono at)
{
    struct cql *c = q->client;
    if (q->due.place != 0)
        heap_remove(&c->due, &q->due);
    q->due_at = at;
    heap_add(&c->due, &q->due);
    cql_due_arm(c);
}

static struct cql_known *part_known(struct cql_node *n, const struct cql_part *p)
{
    return cql_known_of(n, p->statement);
}

/* An upper bound for the body, by which the connection gets its memory beforehand. */
static size_t request_bytes(const struct cql_request *q, struct cql_node *n)
{
    size_t bytes = PARAMS_BYTES_MAX + q->params.page_state.n + q->params.keyspace.n;
    if (q->way == CQL_WAY_TEXT)
        return bytes + q->text.n + (q->values == NULL ? 0 : q->values->bytes.n);
    for (unsigned i = 0; i < q->parts_count; i++) {
        const struct cql_known *k = part_known(n, &q->parts[i]);
        const struct cql_values *v = q->parts[i].values;
        bytes += PART_HEAD_BYTES + k->id_bytes + k->columns_id_bytes + (v == NULL ? 0 : v->bytes.n);
    }
    return bytes;
}

static str known_id(const struct cql_known *k)
{
    return (str){ .p = k->ids, .n = k->id_bytes };
}

/* Columns are left out where the node would tell a change of them. Version 5 does, but not for
 * conditional writes, which answer in two shapes. */
static bool columns_skipped(const struct cql_request *q, const struct cql_known *k,
                            unsigned version)
{
    return version >= 5 && k->columns != NULL && k->columns_id_bytes > 0 &&
           !q->parts[0].statement->lint.conditional;
}

/* An answer without columns is read by the columns of now, whatever is learnt until it comes: so
 * the try holds them. */
static void request_write(const struct cql_request *q, struct cql_try *t, struct cql_node *n,
                          unsigned version, struct buf *out)
{
    struct cql_params p = q->params;
    p.skip_columns = false;
    if (q->way == CQL_WAY_TEXT) {
        cql_body_query(out, version, q->text, q->values, &p);
    } else if (q->way == CQL_WAY_EXECUTE) {
        const struct cql_known *k = part_known(n, &q->parts[0]);
        p.skip_columns = columns_skipped(q, k, version);
        t->columns = p.skip_columns ? cql_columns_hold(k->columns) : NULL;
        str columns_id = { .p = k->ids + k->id_bytes, .n = k->columns_id_bytes };
        cql_body_execute(out, version, known_id(k), columns_id, q->parts[0].values, &p);
    } else {
        cql_batch_begin(out, q->batch, q->parts_count);
        for (unsigned i = 0; i < q->parts_count; i++)
            cql_batch_prepared(out, known_id(part_known(n, &q->parts[i])), q->parts[i].values);
        cql_batch_end(out, version, &p);
    }
}

static void try_done(struct cql_call *call, struct cql_message *m);

static enum cql_opcode request_opcode(const struct cql_request *q)
{
    return q->way == CQL_WAY_TEXT      ? CQL_OP_QUERY
           : q->way == CQL_WAY_EXECUTE ? CQL_OP_EXECUTE
                                       : CQL_OP_BATCH;
}

/* A second try only makes sense before the deadline. */
static void speculation_set(struct cql_request *q, mono now)
{
    mono at = { .ns = now.ns + patience_ns(q->client) };
    if (at.ns >= q->deadline.ns)
        return;
    q->speculate_at = at;
    request_due_set(q, at);
}

static void node_wait(struct cql_request *q, struct cql_node *n, struct list *where)
{
    list_append(where, &q->link);
    q->waits = n;
    n->waiting_count[q->class]++;
    q->client->stats.waiting++;
}

/* Sends the request to a node that knows all its statements. False: no connection has room. */
static bool request_send(struct cql_request *q, struct cql_node *n)
{
    struct cql *c = q->client;
    struct cql_conn *conn = cql_node_conn(n, q->class);
    struct cql_try *t = try_live(&q->tries[0]) ? &q->tries[1] : &q->tries[0];
    INVARIANT(!try_live(t));
    *t = (struct cql_try){ .call = { .done = try_done }, .request = q };
    struct buf *out = conn == NULL
                          ? NULL
                          : cql_conn_begin(conn, &t->call, request_opcode(q),
                                           q->traced ? CQL_FLAG_TRACING : 0, request_bytes(q, n));
    if (out == NULL)
        return false;
    request_write(q, t, n, cql_conn_version(conn), out);
    cql_conn_end(conn);
    t->node = n;
    t->began = cql_now(c);
    n->in_flight[q->class]++;
    (void)snprintf(q->out.node, sizeof q->out.node, "%s", n->text);
    /* Only the first try sets the clock of speculation. */
    if (q->out.sent++ == 0 && q->speculative)
        speculation_set(q, t->began);
    cql_flush_soon(c, n);
    return true;
}

/* Sends the request to this node, or has it wait there: for a statement, or for room. False: it
 * waits for room. */
static bool request_at(struct cql_request *q, struct cql_node *n)
{
    /* One statement at a time: behind its answer the request comes here again. */
    for (unsigned i = 0; q->way != CQL_WAY_TEXT && i < q->parts_count; i++) {
        struct cql_known *k = part_known(n, &q->parts[i]);
        if (k->state == CQL_KNOWN)
            continue;
        bool asked = cql_known_ask(k);
        node_wait(q, n, asked ? &k->waiters : &n->waiting[q->class]);
        return asked;
    }
    if (request_send(q, n))
        return true;
    node_wait(q, n, &n->waiting[q->class]);
    return false;
}

bool cql_request_go_on(struct cql_request *q, struct cql_node *n)
{
    request_unwait(q);
    return request_at(q, n);
}

/* The next node of the plan that can take the request at once; NULL: none. plan_at moves behind it.
 */
static struct cql_node *plan_free(struct cql_request *q)
{
    for (unsigned i = q->plan_at; i < q->plan_count; i++) {
        struct cql_node *n = cql_plan_node(q, i);
        if (n != NULL && list_empty(&n->waiting[q->class]) && cql_node_conn(n, q->class) != NULL) {
            q->plan_at = i + 1;
            return n;
        }
    }
    return NULL;
}

/* No node is left. A failure from before is told first: it says more than that. */
static void request_no_node(struct cql_request *q, bool full)
{
    struct cql *c = q->client;
    const struct cql_node *misfit = cql_plan_misfit(q);
    if (q->out.why != ERR_OK) {
        request_finish(q, q->out.why);
    } else if (!full && misfit != NULL) {
        cql_request_fail(q, ERR_BAD,
                         "%s speaks protocol %u: a keyspace or an instant beside a "
                         "statement needs protocol 5",
                         misfit->text, misfit->version);
    } else if (full) {
        c->stats.refused++;
        cql_request_fail(q, ERR_LIMIT,
                         "each node has all the requests that it may have under way, "
                         "and %u that wait",
                         cql_waiting_max(c, q->class));
    } else {
        cql_request_fail(q, ERR_UNAVAILABLE, "no node of %s is connected: %s", c->opts.local_dc,
                         c->control.why.text[0] != '\0' ? c->control.why.text : "not yet");
    }
}

static bool node_may_wait(const struct cql_request *q, const struct cql_node *n)
{
    return n->waiting_count[q->class] < cql_waiting_max(q->client, q->class);
}

/* A free node first; else the first of the plan where the request may wait. */
static void request_next(struct cql_request *q)
{
    struct cql_node *n = plan_free(q);
    bool full = false;
    for (unsigned i = q->plan_at; n == NULL && i < q->plan_count; i++) {
        struct cql_node *busy = cql_plan_node(q, i);
        full |= busy != NULL;
        if (busy != NULL && node_may_wait(q, busy)) {
            n = busy;
            q->plan_at = i + 1;
        }
    }
    if (n == NULL)
        request_no_node(q, full);
    /* A request queues behind others of its class. */
    else if (list_empty(&n->waiting[q->class]))
        (void)request_at(q, n); /* it waits where it has to */
    else
        node_wait(q, n, &n->waiting[q->class]);
}

void cql_request_elsewhere(struct cql_request *q, const char *why)
{
    const struct cql_node *n = q->waits;
    request_unwait(q);
    /* A second try looked for a node; the first is still under way. */
    if (request_has_try(q))
        return;
    if (q->out.why == ERR_OK) { /* said when nobody else is left */
        q->out.why = ERR_UNAVAILABLE;
        err_note_set(&q->out.note, "%s: %s; not sent, at %s", n->text, why,
                     cql_consistency_name(q->params.consistency));
    }
    request_next(q);
}

/* ---- answers ---- */

/* Another node is at it, or is about to be. */
static bool request_goes_on(const struct cql_request *q)
{
    return q->waits != NULL || request_has_try(q);
}

static void request_error(struct cql_request *q, const struct cql_failure *f, struct cql_node *n)
{
    struct cql *c = q->client;
    bool harmless = cql_outcome_is_harmless(q, f);
    enum cql_reaction reaction = cql_failure_reaction(f, q->idempotent);
    cql_outcome_failure(q, f, n);
    /* Once a write may have happened, it stays unknown until an answer says more. */
    q->out.unknown |= q->write && !harmless;
    if (request_goes_on(q))
        return;
    /* failure.h's table allows UNAVAILABLE for all; a batch in parts may have begun. */
    if (q->write && !harmless && !q->idempotent)
        reaction = CQL_GIVE_UP;
    /* Neither has been executed, so neither uses up the one retry. */
    bool costs = f->code != CQL_BOOTSTRAPPING && f->code != CQL_UNPREPARED;
    bool again = reaction != CQL_GIVE_UP && (!costs || q->retries < RETRIES_MAX);
    if (reaction == CQL_PREPARE_AGAIN && q->prepares++ < PREPARES_MAX) {
        c->stats.prepared_again++;
        /* A node that has forgotten one more statement already has forgotten all. */
        cql_outcome_forget(q, n, q->prepares > 1 ? STR_NONE : f->id);
        (void)request_at(q, n); /* it waits where it has to */
    } else if (again && reaction != CQL_PREPARE_AGAIN) {
        q->retries += costs;
        c->stats.retries++;
        if (reaction == CQL_SAME_NODE && cql_node_is_up(n))
            (void)request_at(q, n); /* it waits where it has to */
        else
            request_next(q);
    } else {
        request_finish(q, q->out.why);
    }
}

/* A PREPARE was refused: nothing was sent of the request itself. */
void cql_request_refused(struct cql_request *q, const struct cql_failure *f, struct cql_node *n)
{
    request_unwait(q);
    cql_outcome_failure(q, f, n);
    bool node_only = f->code == CQL_UNAVAILABLE || f->code == CQL_OVERLOADED ||
                     f->code == CQL_BOOTSTRAPPING || f->code == CQL_SERVER_ERROR;
    if (request_has_try(q))
        return; /* it does not wait: only for this */
    if (node_only && q->plan_at < q->plan_count)
        request_next(q);
    else
        request_finish(q, q->out.why);
}

static void request_result(struct cql_request *q, struct cql_message *m, struct cql_node *n,
                           struct cql_columns *columns)
{
    if (!cql_outcome_take(q, m, n, columns)) {
        request_finish(q, q->out.why);
        return;
    }
    q->out.code = -1;
    q->out.note.text[0] = '\0';
    q->out.unknown = false;
    request_finish(q, ERR_OK);
}

/* The connection ended, or the answer makes no sense. */
static void request_lost(struct cql_request *q, struct cql_node *n, bool unsent, const char *why)
{
    q->out.why = ERR_IO;
    q->out.code = -1;
    err_note_set(&q->out.note, "the connection to %s was lost: %s; at %s", n->text, why,
                 cql_consistency_name(q->params.consistency));
    /* Not a byte has left, so it counts as not sent. */
    if (unsent)
        q->out.sent--;
    else
        q->out.unknown |= q->write;
    if (request_goes_on(q))
        return;
    if (unsent || (q->idempotent && q->retries < RETRIES_MAX)) {
        q->retries += !unsent;
        q->client->stats.retries++;
        request_next(q);
    } else {
        request_finish(q, ERR_IO);
    }
}

/* The end of a try: by an answer, or by the end of its connection. */
static void try_done(struct cql_call *call, struct cql_message *m)
{
    struct cql_try *t = CONTAINER_OF(call, struct cql_try, call);
    struct cql_request *q = t->request;
    struct cql_node *n = t->node;
    struct cql *c = q->client;
    int64_t took_ns = cql_now(c).ns - t->began.ns;
    bool second = t == &q->tries[1];
    /* Taken out first: try_end would drop them. */
    struct cql_columns *columns = t->columns;
    t->columns = NULL;
    try_end(t);
    if (m == NULL) {
        bool unsent = cql_call_unsent(call);
        const char *why = cql_conn_why(call->conn)->text;
        call->conn = NULL;
        cql_columns_drop(&columns);
        request_lost(q, n, unsent, why);
        return;
    }
    cql_node_answered(n, took_ns);
    /* Reads alone: writes wait for other things, and set no patience. */
    if (!q->write)
        cql_latency_note(c, took_ns);
    (void)snprintf(q->out.node, sizeof q->out.node, "%s", n->text);
    if (m->answer.op == CQL_OP_RESULT && m->answer.result != CQL_RESULT_PREPARED) {
        c->stats.speculated_won += second;
        request_result(q, m, n, columns);
    } else if (m->answer.op == CQL_OP_ERROR) {
        request_error(q, &m->answer.failure, n);
    } else {
        request_lost(q, n, false, "it answers something else than was asked");
    }
    cql_columns_drop(&columns);
    cql_answer_fini(&m->answer);
}

/* ---- its time ---- */

/* The first node is slower than most reads: a second one is asked, if one is free. */
static void request_speculate(struct cql_request *q)
{
    struct cql_node *n = q->waits != NULL ? NULL : plan_free(q);
    q->speculate_at = (mono){ .ns = 0 };
    request_due_set(q, q->deadline);
    if (n == NULL)
        return; /* the request waits for a node anyway, or no other node is free */
    q->client->stats.speculated++;
    (void)request_at(q, n); /* it waits where it has to */
}

static void request_timed_out(struct cql_request *q, mono now)
{
    struct cql *c = q->client;
    const struct cql_node *n = q->waits != NULL         ? q->waits
                               : try_live(&q->tries[0]) ? q->tries[0].node
                                                        : q->tries[1].node;
    q->out.unknown |= q->write && q->out.sent > 0;
    q->out.code = -1;
    c->stats.timeouts++;
    cql_request_fail(q, ERR_TIMEOUT,
                     "%s %s at %s within %lld ms: sent %u times, %u under way there",
                     q->waits != NULL ? "no room, or no answer to a PREPARE, at" : "no answer from",
                     n == NULL ? "any node" : n->text, cql_consistency_name(q->params.consistency),
                     (long long)((now.ns - q->started.ns) / NS_PER_MS), q->out.sent,
                     n == NULL ? 0 : n->in_flight[CQL_FOREGROUND] + n->in_flight[CQL_BACKGROUND]);
}

static struct cql_request *due_first(struct cql *c)
{
    struct heap_node *first = heap_first(&c->due);
    return first == NULL ? NULL : CONTAINER_OF(first, struct cql_request, due);
}

/* Each due request ends, or moves its due time, so the loop ends. */
void cql_requests_due(struct cql *c, mono now)
{
    struct cql_request *q;
    while ((q = due_first(c)) != NULL && q->due_at.ns <= now.ns) {
        if (now.ns >= q->deadline.ns)
            request_timed_out(q, now);
        else
            request_speculate(q);
    }
    cql_due_arm(c);
}

/* A walk over all active requests: cancels are few. */
static struct cql_request *canceled_first(struct cql *c)
{
    for (size_t i = 0; i < c->due.count; i++) {
        struct cql_request *q = CONTAINER_OF(c->due.nodes[i], struct cql_request, due);
        if (__atomic_load_n(&q->canceled, __ATOMIC_ACQUIRE))
            return q;
    }
    return NULL;
}

void cql_requests_canceled(struct cql *c)
{
    struct cql_request *q;
    while ((q = canceled_first(c)) != NULL) {
        q->out.unknown |= q->write && q->out.sent > 0;
        cql_request_fail(q, ERR_TIMEOUT, "canceled");
    }
}

void cql_requests_end(struct cql *c, err why)
{
    struct cql_request *q;
    while ((q = due_first(c)) != NULL) {
        q->out.unknown |= q->write && q->out.sent > 0;
        cql_request_fail(q, why, "the client stops");
    }
}

/* On the loop, by the task that cql_start posted. */
static void request_begin(struct task *t)
{
    struct cql_request *q = CONTAINER_OF(t, struct cql_request, task);
    struct cql *c = q->client;
    MAGIC_CHECK(c, CQL_MAGIC);
    q->started = cql_now(c);
    c->stats.requests[q->way]++;
    c->stats.in_flight++;
    q->active = true;
    request_due_set(q, q->deadline);
    err why = c->stopping ? ERR_SHUTDOWN : cql_request_check(q);
    if (why == ERR_SHUTDOWN)
        err_note_set(&q->out.note, "the client stops");
    if (why != ERR_OK) {
        request_finish(q, why);
        return;
    }
    /* the poke came before the request was active */
    if (__atomic_load_n(&q->canceled, __ATOMIC_ACQUIRE)) {
        cql_request_fail(q, ERR_TIMEOUT, "canceled");
        return;
    }
    if (q->started.ns >= q->deadline.ns) {
        request_timed_out(q, q->started);
        return;
    }
    cql_plan(c, q);
    request_next(q);
}

void cql_start(struct cql *c, struct cql_request *q)
{
    MAGIC_CHECK(c, CQL_MAGIC);
    INVARIANT(!q->active);
    q->client = c;
    q->out = (struct cql_outcome){ .code = -1 };
    q->due.place = 0;
    q->waits = NULL;
    q->speculate_at = (mono){ .ns = 0 };
    q->retries = q->prepares = 0;
    q->canceled = false;
    for (unsigned i = 0; i < CQL_TRIES; i++)
        q->tries[i] = (struct cql_try){ .node = NULL };
    q->task.run = request_begin;
    (void)atomic_fetch_add_explicit(&c->started, 1, memory_order_relaxed);
    home_post(loop_home(c->opts.loop), &q->task);
}

/* One poke serves all that were canceled until it runs. */
void cql_cancel(struct cql_request *q)
{
    struct cql *c = q->client;
    __atomic_store_n(&q->canceled, true, __ATOMIC_RELEASE);
    if (!atomic_exchange(&c->poked, true))
        home_post(loop_home(c->opts.loop), &c->poke);
}
