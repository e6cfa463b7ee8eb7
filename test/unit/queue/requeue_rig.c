#include "requeue_rig.h"

#include "queue/machine.h"

struct queue *dead, *to;

void requeue_between_stores(void)
{
    struct err_note note = { "" };
    dead = rig_queue(&rig, "dead", 1);
    to = rig_queue(&rig, "to", 1);
    struct queue_part_change c = { .order = PART_MOVE, .store = STR("s1") };
    assert_int_equal(queue_part_change(to, &c, &note), ERR_OK);
    queue_await_read(to, QUEUE_PARTS_ALL,
                     mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS)); /* else it takes nothing */
    (void)rig_produce(&rig, dead, "x", REQUEUE_ITEMS);
}

void let_queues_go(void)
{
    queue_unref(&dead);
    queue_unref(&to);
}

void await_moved(unsigned items, unsigned left)
{
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    queue_await_read(dead, QUEUE_PARTS_ALL, deadline);
    while ((rig_stats(dead, 0).leased > 0 || rig_stats(to, 0).ready < items) &&
           clock_mono(rig.clock).ns < deadline.ns) {
        queues_upkeep_all(rig.queues);
        queue_rest();
    }
    assert_int_equal(rig_stats(dead, 0).leased, 0);
    assert_int_equal(rig_stats(dead, 0).ready, left);
    assert_int_equal(rig_stats(to, 0).ready, items);
}

void await_late(const atomic_bool *flag)
{
    const mono until = mono_add_ms(clock_mono(rig.clock), REQUEUE_LATE_MS);
    while (!atomic_load(flag) && clock_mono(rig.clock).ns < until.ns)
        queue_rest();
}

/* ---- writes ---- */

/* A store keeps its functions as long as it is open: other threads call them. */
static struct bent {
    struct queue_store *store;
    const struct queue_store_ops *real;
    struct queue_store_ops ops;
    _Atomic(write_fn *) write; /* NULL: as the store does */
} bents[RIG_STORES_MAX];

static struct bent *bent_of(const struct queue_store *s)
{
    unsigned i = 0;
    while (bents[i].store != s)
        i++;
    return &bents[i];
}

void real_write(struct queue_store *s, struct queue_write *w)
{
    bent_of(s)->real->write(s, w);
}

static void bent_write(struct queue_store *s, struct queue_write *w)
{
    write_fn *write = atomic_load(&bent_of(s)->write);
    if (write == NULL)
        real_write(s, w);
    else
        write(s, w);
}

/* Before there are queues: then nothing uses them. */
static void bend_stores(void)
{
    for (unsigned i = 0; i < rig.stores_count; i++) {
        struct bent *b = &bents[i];
        b->store = rig.stores[i];
        b->real = b->store->ops;
        b->ops = *b->real;
        b->ops.write = bent_write;
        b->store->ops = &b->ops;
    }
    straighten_writes();
}

void bend_writes(unsigned store, write_fn *write)
{
    atomic_store(&bents[store].write, write);
}

void straighten_writes(void)
{
    for (unsigned i = 0; i < RIG_STORES_MAX; i++)
        bend_writes(i, NULL);
}

int requeue_setup(void **state)
{
    int failed = rig_setup(state);
    bend_stores();
    return failed;
}

int requeue_setup_two(void **state)
{
    int failed = rig_setup_two(state);
    bend_stores();
    return failed;
}

void requeue_reopen(void)
{
    struct err_note note = { "" };
    let_queues_go();
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("dead"), &dead, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, STR("to"), &to, &note), ERR_OK);
}

bool write_has(const struct queue_write *w, enum queue_op_kind kind)
{
    for (unsigned i = 0; i < w->parts[0].ops_count; i++)
        if (w->parts[0].ops[i].kind == kind)
            return true;
    return false;
}

static enum queue_op_kind lost_kind;
static bool lost_is_done;
static atomic_bool told;
atomic_bool write_lost;

static void lost_done(struct queue_write *w, err why)
{
    (void)w;
    assert_int_equal(why, ERR_OK);
    atomic_store(&told, true);
}

static void write_or_lose(struct queue_store *s, struct queue_write *w)
{
    if (!write_has(w, lost_kind) || atomic_exchange(&write_lost, true)) {
        real_write(s, w);
        return;
    }
    if (lost_is_done) {
        struct queue_write copy = *w;
        copy.done = lost_done;
        atomic_store(&told, false);
        real_write(s, &copy);
        while (!atomic_load(&told))
            queue_rest();
    }
    w->done(w, ERR_IO);
}

void lose_write(unsigned store, enum queue_op_kind kind, bool is_done)
{
    lost_kind = kind;
    lost_is_done = is_done;
    atomic_store(&write_lost, false);
    bend_writes(store, write_or_lose);
}
