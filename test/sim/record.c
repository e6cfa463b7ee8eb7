#include "record.h"

#include "queue/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record {
    FILE *file;
    uint64_t ops;
    bool more; /* of a list */
};

struct record *record_open(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return NULL;
    struct record *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    r->file = file;
    return r;
}

void record_close(struct record **rp)
{
    struct record *r = *rp;
    if (r == NULL)
        return;
    INVARIANT(fclose(r->file) == 0);
    free(r);
    *rp = NULL;
}

void record_queues(struct record *r, const struct queue_info *infos, unsigned count, bool is_faulty)
{
    if (r == NULL)
        return;
    fprintf(r->file, "{\"faulty\": %s, \"queues\": {", is_faulty ? "true" : "false");
    for (unsigned i = 0; i < count; i++) {
        const struct queue_info *q = &infos[i];
        fprintf(r->file, "%s\"%.*s\": [%" PRIu32 ", ", i == 0 ? "" : ", ", STR_ARG(q->name),
                q->max_attempts);
        if (q->dead_queue.n > 0)
            fprintf(r->file, "\"%.*s\"", STR_ARG(q->dead_queue));
        else
            fprintf(r->file, "null");
        fprintf(r->file, ", %" PRId64 "]", q->expire_timeout_ns);
    }
    fprintf(r->file, "}}\n");
}

static uint64_t call(struct record *r, store_time at, const char *kind, const struct queue *q)
{
    fprintf(r->file, "{\"op\": %" PRIu64 ", \"at\": %" PRId64 ", \"call\": \"%s\", \"q\": \"%.*s\"",
            ++r->ops, at.ns, kind, STR_ARG(q->info.name));
    return r->ops;
}

static str first_word(str body)
{
    size_t n = 0;
    while (n < body.n && body.p[n] != ' ')
        n++;
    return str_take(body, n);
}

uint64_t record_produce(struct record *r, store_time at, const struct queue_produce *p)
{
    if (r == NULL)
        return 0;
    uint64_t op = call(r, at, "produce", p->queue);
    if (p->order_key.n > 0)
        fprintf(r->file, ", \"key\": \"%.*s\"", STR_ARG(p->order_key));
    fprintf(r->file, ", \"items\": [");
    for (unsigned i = 0; i < p->items_count; i++)
        fprintf(r->file, "%s\"%.*s\"", i == 0 ? "" : ", ", STR_ARG(first_word(p->items[i].bytes)));
    fprintf(r->file, "], \"due\": [");
    for (unsigned i = 0; i < p->items_count; i++)
        fprintf(r->file, "%s%" PRId64, i == 0 ? "" : ", ", p->items[i].enqueue_at.ns);
    fprintf(r->file, "]}\n");
    return op;
}

uint64_t record_lease(struct record *r, store_time at, const struct queue_lease_request *l)
{
    if (r == NULL)
        return 0;
    uint64_t op = call(r, at, "lease", l->queue);
    fprintf(r->file, ", \"n\": %u, \"lease_ns\": %" PRId64 "}\n", l->batch_size,
            l->lease_timeout_ns > 0 ? l->lease_timeout_ns : l->queue->info.lease_timeout_ns);
    return op;
}

uint64_t record_change(struct record *r, store_time at, const struct queue_change *c)
{
    if (r == NULL)
        return 0;
    uint64_t op = call(r, at,
                       c->kind == CHANGE_COMPLETE ? "complete"
                       : c->kind == CHANGE_RETRY  ? "retry"
                                                  : "extend",
                       c->queue);
    fprintf(r->file, ", \"part\": %" PRIu32 ", \"ns\": %" PRId64 ", \"ids\": [", c->partition,
            c->items[0].extend_ns);
    for (unsigned i = 0; i < c->items_count; i++)
        fprintf(r->file, "%s\"%.*s\"", i == 0 ? "" : ", ", STR_ARG(c->items[i].id));
    fprintf(r->file, "], \"due\": [");
    for (unsigned i = 0; i < c->items_count; i++)
        fprintf(r->file, "%s%" PRId64, i == 0 ? "" : ", ", c->items[i].retry_at.ns);
    fprintf(r->file, "], \"dead\": [");
    for (unsigned i = 0; i < c->items_count; i++)
        fprintf(r->file, "%s%s", i == 0 ? "" : ", ", c->items[i].dead ? "true" : "false");
    fprintf(r->file, "]}\n");
    return op;
}

void record_answer(struct record *r, store_time at, uint64_t op, const char *how)
{
    if (r != NULL)
        fprintf(r->file, "{\"op\": %" PRIu64 ", \"at\": %" PRId64 ", \"ret\": \"%s\"}\n", op, at.ns,
                how);
}

void record_leased(struct record *r, store_time at, uint64_t op,
                   const struct queue_lease_request *l)
{
    if (r == NULL)
        return;
    fprintf(r->file,
            "{\"op\": %" PRIu64 ", \"at\": %" PRId64 ", \"ret\": \"ok\", \"part\": %" PRIu32, op,
            at.ns, l->partition);
    fprintf(r->file, ", \"items\": [");
    for (unsigned i = 0; i < l->items_count; i++) {
        const struct queue_item *it = &l->items[i];
        char id[KSUID_TEXT_BYTES + 1];
        ksuid_format(it->id, id);
        fprintf(r->file,
                "%s{\"item\": \"%.*s\", \"id\": \"%s\", \"attempts\": %" PRIu32
                ", \"deadline\": %" PRId64 "}",
                i == 0 ? "" : ", ", STR_ARG(first_word(it->bytes)), id, it->attempts,
                it->lease_deadline.ns);
    }
    fprintf(r->file, "]}\n");
}

void record_crash(struct record *r, store_time at)
{
    if (r != NULL)
        fprintf(r->file, "{\"at\": %" PRId64 ", \"crash\": true}\n", at.ns);
}

void record_drained_begin(struct record *r, store_time at)
{
    if (r == NULL)
        return;
    fprintf(r->file, "{\"at\": %" PRId64 ", \"drained\": [", at.ns);
    r->more = false;
}

void record_drained(struct record *r, const char *name)
{
    if (r == NULL)
        return;
    fprintf(r->file, "%s\"%s\"", r->more ? ", " : "", name);
    r->more = true;
}

void record_drained_end(struct record *r)
{
    if (r != NULL)
        fprintf(r->file, "]}\n");
}
