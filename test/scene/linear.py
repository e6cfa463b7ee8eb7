"""Is a recorded history of queue clients one that a sequential queue could have given? Exit 0 yes, 1 no.

    linear.py HISTORY...            files of one event a line, as below; .gz: compressed
    linear.py --run [--seed N] [--histories N] [--steps N] SIM_QUEUE [--slow]
                                    records histories of the simulation, each checked

A history is the order in which calls were made and answers came, on one clock: a call is listed before it is sent, an
answer after it came. {"call": KIND, "op": N, "at": T, ...} and {"ret": HOW, "op": N, "at": T, ...}, T being store_time
in ns; {"crash": true}: what was not answered yet had its effect before, or never; without one, at any time later.
{"drained": [ITEM...]} at the end: every queue was emptied and these items came out. KINDs and their answers:

    produce  q, items, due (0: now)                ok | none (definitely not) | unknown
    lease    q, n, lease_ns                        ok: part, items of {item, id, attempts, deadline} | none
    complete q, part, ids                          ok | refused (not leased under that id) | none | unknown
    retry    q, part, ids, due, dead               as complete
    extend   q, part, ids, ns                      as complete
    clear    q, ready, scheduled, destructive      ok | unknown

What is checked exactly: the history of each item, alone. Each operation on it takes effect at one instant between its
call and its answer (an unknown one: after its call, or never), in an order in which every answer is what the sequential
item below says. The search is that of Wing and Gong (1993) with Lowe's memory of configurations seen (2017); expiry,
schedules and deaths are steps of the item itself, not before their instant. As every condition on time is "not before",
taking each step at its earliest instant loses no order. So: no loss, no phantom, one live lease, nothing completed
twice or under a stale id, a lease refused only when it is over, attempts exact, nothing early, dead letters once.

    absent --produce--> ready(id) --lease--> leased(id, deadline) --complete--> gone
              |           ^  ^                 |  |  \\--retry dead, attempts or life spent--> ready in the dead queue
              \\-> scheduled-/  \\--expiry, retry-/  \\--retry later--> scheduled

A lease that ended without items may have kept some: it was written and its client was gone, or the server was killed.
Such a grant counts as an attempt and ends by expiry; it needs a lease request that was open at its instant. Where stores
fail ("faulty"), one that ended with items may have: it took these after the fate of its first ones became unknown.

What is checked between items, as a queue's order does not decompose by item: items of a request appear all or none, in
one partition and in order; ids of a partition rise with time, where one was surely given before the other; a lease does
not pass over an item of the same partition with a smaller id that was surely ready all along, and that nobody else's
request can have had in hand. This is necessary for FIFO, not sufficient: overlapping requests are not ordered.

What is not: which partition is taken, sharing, that an empty answer was right (an item may be in a write just then),
that several ids of one request change at one instant, order keys, how late expiry is. sim_queue.c checks those it can.
Leases whose reply had no room for all of their items are not known here: such a history may be rejected wrongly."""
import bisect
import collections
import gzip
import json
import subprocess
import sys
import tempfile

NEVER = float('inf')
CONFIGURATIONS_MAX = 200000     # of one item; more is a failure of the check, and said so
SOON_NS = 100_000_000           # a schedule up to this far ahead means now: QUEUE_SOON_NS

Queue = collections.namedtuple('Queue', 'max_attempts dead expire_ns')
# where: absent, ready, scheduled, leased, gone. id: of the lease; ready: the last one, the next is greater unless it is
# the same again. since: not before this instant (deadline of a lease, due time). dies: end of its life.
State = collections.namedtuple('State', 'where queue id attempts since dies')
ABSENT = State('absent', None, '', 0, 0, NEVER)
GONE = State('gone', None, '', 0, 0, NEVER)


class NotLinear(Exception):
    """No sequential queue gives this history."""


class Op:
    """One operation: positions of call and answer in the history, and what was said."""

    def __init__(self, number, call, body):
        self.number, self.call, self.end, self.body, self.kind = number, call, NEVER, body, body['call']
        self.how, self.answer, self.ret_at = 'unknown', {}, None

    def __repr__(self):
        return f'{self.kind} {self.number} [{self.call}, {self.end}] {self.body} -> {self.how} {self.answer}'


# One operation as one item sees it. must: it was answered, so it happened, by end.
Step = collections.namedtuple('Step', 'kind call end must at ret_at detail')


class History:
    """Events in order, paired; positions are indexes of events, instants of store_time are put between them."""

    def __init__(self, events, queues, slack_ns=0, faulty=False):
        self.queues, self.slack, self.faulty = queues, slack_ns, faulty
        self.ops, self.times, self.drained = {}, [], None
        latest = 0
        for position, event in enumerate(events):
            latest = max(latest, event.get('at', latest))
            self.times.append(latest)
            if 'call' in event:
                self.ops[event['op']] = Op(event['op'], position, event)
            elif 'ret' in event:
                op = self.ops[event['op']]
                op.how, op.answer, op.ret_at = event['ret'], event, event['at']
                op.end = position if op.how != 'unknown' else NEVER     # answered, and may happen yet
            elif 'crash' in event:
                for op in self.ops.values():
                    op.end = min(op.end, position)
            elif 'drained' in event:
                self.drained = collections.Counter(event['drained'])

    def position(self, instant):
        """The first position at which store_time may have been instant: between two events, or before all."""
        if instant >= NEVER:
            return NEVER
        at = bisect.bisect_left(self.times, instant - self.slack)
        return NEVER if at == len(self.times) else at - 0.5

    def time(self, position):
        """store_time at a position, at the earliest."""
        return self.times[max(0, min(len(self.times) - 1, int(position)))]

    def of(self, kind):
        return (op for op in self.ops.values() if op.kind == kind)


# ---- the sequential item

class Item:
    """What each operation, and time, does to one item."""

    def __init__(self, history, attempts_max):
        self.history, self.attempts_max = history, attempts_max
        self.quiet = collections.defaultdict(list)      # leases that may have kept more than they said, by queue
        for op in history.of('lease'):
            if op.how != 'ok' or history.faulty:
                self.quiet[op.body['q']].append((op.call, op.end))

    def die(self, queue, now):
        dead = self.history.queues[queue].dead
        return GONE if dead is None else self.fresh(dead, now)

    def fresh(self, queue, now, due=0):
        dies = self.end_of_life(queue, max(self.history.time(now), due - SOON_NS))
        if due == 0:
            return State('ready', queue, '', 0, 0, dies)
        return State('scheduled', queue, '', 0, max(now, self.history.position(due - SOON_NS)), dies)

    def end_of_life(self, queue, due):
        life = self.history.queues[queue].expire_ns
        return NEVER if life is None else self.history.position(due + life)

    def spent(self, state):
        most = self.history.queues[state.queue].max_attempts
        return most > 0 and state.attempts >= most

    def alone(self, state, now):
        """(instant, state) of all steps the item may take by itself, each at its earliest."""
        if state.where in ('ready', 'scheduled') and state.dies < NEVER:
            at = max(now, state.dies)
            yield at, self.die(state.queue, at)
        if state.where == 'scheduled' and state.since < NEVER:
            at = max(now, state.since)
            yield at, state._replace(where='ready', since=0)
        if state.where == 'leased' and state.since < NEVER:
            at = max(now, state.since)
            if not self.spent(state):
                yield at, state._replace(where='ready', since=0)
            at = at if self.spent(state) else max(at, state.dies)
            if at < NEVER:
                yield at, self.die(state.queue, at)
        if state.where == 'ready' and state.attempts < self.attempts_max:
            yield from self.granted_unheard(state, now)

    def granted_unheard(self, state, now):
        at = min((max(now, call) for call, end in self.quiet[state.queue] if max(now, call) <= end), default=NEVER)
        if at < NEVER:
            yield at, state._replace(where='leased', id=state.id.rstrip('~') + '~', attempts=state.attempts + 1,
                                     since=max(at, self.history.position(self.history.time(at) + self.unheard_ns)))

    unheard_ns = 0      # the shortest lease anybody asked for

    def leased_as(self, state, ident):
        return state.where == 'leased' and state.id == ident

    def do(self, state, step, now):
        """States after the operation at now; none: it could not be answered so."""
        return getattr(self, step.kind)(state, step.detail, now)

    def produce(self, state, how, now):
        queue, due = how
        return [self.fresh(queue, now, due)] if state.where == 'absent' else []

    def grant(self, state, got, now):
        queue, ident, attempts, deadline = got
        if state.where != 'ready' or state.queue != queue or attempts != state.attempts + 1:
            return []
        if ident <= state.id.rstrip('~'):
            return []
        return [state._replace(where='leased', id=ident, attempts=attempts, since=max(now, self.history.position(deadline)))]

    def complete(self, state, ident, _now):
        return [GONE] if self.leased_as(state, ident) else []

    def retry(self, state, how, now):
        ident, due, dead, end = how
        if not self.leased_as(state, ident):
            return []
        out = []
        if dead or self.spent(state) or state.dies <= now:
            out.append(self.die(state.queue, now))
        if dead or self.spent(state):
            return out
        if due == 0:
            return [*out, state._replace(where='ready', since=0)]
        later = state._replace(where='scheduled', since=max(now, self.history.position(due - SOON_NS)))
        if state.dies <= end or later.since <= end:     # it may have ended in the request, or been due by then
            out.append(later)
        return [*out, later._replace(dies=max(state.dies, self.end_of_life(state.queue, due)))]

    def extend(self, state, how, now):
        ident, ns = how
        if not self.leased_as(state, ident):
            return []
        return [state._replace(since=max(now, self.history.position(self.history.time(now) + ns)))]

    def refused(self, state, ident, _now):
        return [] if self.leased_as(state, ident) else [state]

    def clear(self, state, how, _now):
        queue, ready, scheduled, destructive = how
        hit = {'ready': ready, 'scheduled': scheduled, 'leased': ready and destructive}.get(state.where, False)
        return [GONE] if hit and state.queue == queue else [state]

    def absent(self, state, _detail, _now):
        return [state] if state.where in ('absent', 'gone') else []

    def present(self, state, _detail, _now):
        return [] if state.where in ('absent', 'gone') else [state]


def search(item, steps):
    """True when the steps of an item have an order. Depth first; a configuration is (steps done, state), kept with the
    earliest instant it was reached at."""
    seen, todo = {}, [(0, ABSENT, -1.0)]
    every = sum(1 << i for i, step in enumerate(steps) if step.must)
    while todo:
        done, state, now = todo.pop()
        if done & every == every:
            return True
        if seen.get((done, state), NEVER) <= now:
            continue
        seen[done, state] = now
        if len(seen) > CONFIGURATIONS_MAX:
            raise NotLinear(f'undecided after {CONFIGURATIONS_MAX} configurations')
        limit = min((step.end for i, step in enumerate(steps) if step.must and not done >> i & 1), default=NEVER)
        for at, after in item.alone(state, now):
            if at <= limit:
                todo.append((done, after, at))
        for i, step in enumerate(steps):
            at = max(now, step.call)
            if done >> i & 1 or at > limit or at > step.end:
                continue
            for after in item.do(state, step, at):
                todo.append((done | 1 << i, after, at))
    return False


# ---- from the history to the steps of each item

def produced(history):
    """item -> its produce."""
    found = {}
    for op in history.of('produce'):
        for name in op.body['items']:
            if name in found:
                raise NotLinear(f'{name} was produced twice: the history is useless')
            found[name] = op
    return found


def granted(history):
    """item -> [(op, what it got)], and id -> item."""
    grants, names = collections.defaultdict(list), {}
    for op in history.of('lease'):
        got = op.answer.get('items', []) if op.how == 'ok' else []
        if op.how == 'ok' and not 0 < len(got) <= op.body['n']:
            raise NotLinear(f'{len(got)} items for a request of {op.body["n"]}: {op}')
        for one in got:
            if names.setdefault(one['id'], one['item']) != one['item'] or any(other['id'] == one['id']
                                                                            for _, other in grants[one['item']]):
                raise NotLinear(f'id {one["id"]} was given twice: {names[one["id"]]} and {one["item"]}')
            grants[one['item']].append((op, one))
    return grants, names


def change_steps(op, ident, index):
    """What a change says of one of its ids."""
    detail = {'complete': lambda: ident, 'retry': lambda: (ident, op.body['due'][index], op.body['dead'][index], op.end),
              'extend': lambda: (ident, op.body['ns'])}[op.kind]()
    if op.how == 'refused' and len(op.body['ids']) == 1:
        yield Step('refused', op.call, op.end, True, op.body['at'], op.ret_at, ident)
    elif op.how in ('ok', 'unknown'):
        yield Step(op.kind, op.call, op.end, op.how == 'ok', op.body['at'], op.ret_at, detail)


def steps_of(history, whole):
    """item -> steps. whole: produces of unknown outcome that surely happened, and by when."""
    made = produced(history)
    grants, names = granted(history)
    steps = collections.defaultdict(list)
    for name, op in made.items():
        if op.how != 'none':
            due = op.body['due'][op.body['items'].index(name)]
            steps[name].append(Step('produce', op.call, min(op.end, whole.get(op.number, NEVER)),
                                    op.how == 'ok' or op.number in whole, op.body['at'], op.ret_at, (op.body['q'], due)))
    for name, all_of in grants.items():
        if name not in made or made[name].how == 'none':
            raise NotLinear(f'{name} was given and never produced: {all_of[0][0]}')
        for op, got in all_of:
            lease_is_as_long_as_asked(history, op, got)
            steps[name].append(Step('grant', op.call, op.end, True, op.body['at'], op.ret_at,
                                    (op.body['q'], got['id'], got['attempts'], got['deadline'])))
    for kind in ('complete', 'retry', 'extend'):
        for op in history.of(kind):
            for index, ident in enumerate(op.body['ids']):
                if ident in names:
                    steps[names[ident]] += change_steps(op, ident, index)
                elif op.how == 'ok':
                    raise NotLinear(f'id {ident} was given to nobody: {op}')
    for op in history.of('clear'):
        for name in (name for name in made if made[name].call < op.end):
            steps[name].append(Step('clear', op.call, op.end, op.how == 'ok', op.body['at'], op.ret_at, tuple(
                op.body[key] for key in ('q', 'ready', 'scheduled', 'destructive'))))
    return steps


def lease_is_as_long_as_asked(history, op, got):
    wanted = op.body['lease_ns']
    if not op.body['at'] + wanted - history.slack <= got['deadline'] <= op.ret_at + wanted + history.slack:
        raise NotLinear(f'{got} was leased until another instant than asked: {op}')


def final_steps(history, steps):
    """What the end says: what did not come out is gone."""
    if history.drained is None:
        return
    end = len(history.times)
    for name, count in history.drained.items():
        if count > 1 or name not in steps:
            raise NotLinear(f'{name} came out {count} times at the end' if name in steps else f'{name} came out of nothing')
    for name, all_of in steps.items():
        kind = 'present' if name in history.drained else 'absent'
        all_of.append(Step(kind, end, end, True, NEVER, NEVER, None))


# ---- between items

def surely_made(history, grants):
    """Requests of unknown outcome of which anything was seen, and when at the latest: all of it was made by then. In one
    partition, in order."""
    whole, first = {}, {}
    for name, op in produced(history).items():
        if grants[name]:
            first[name] = min(grants[name], key=lambda grant: grant[1]['attempts'])
        seen = [lease.end for lease, _ in grants[name]]
        if history.drained and name in history.drained:
            seen.append(len(history.times))
        if seen and op.how == 'unknown':
            whole[op.number] = min(seen + [whole.get(op.number, NEVER)])
    for op in history.of('produce'):
        seen = [first[name] for name, due in zip(op.body['items'], op.body['due'])
                if name in first and due == 0 and first[name][1]['attempts'] == 1 and first[name][0].body['q'] == op.body['q']]
        if len({lease.answer['part'] for lease, _ in seen}) > 1:
            raise NotLinear(f'items of one request in several partitions: {op}')
        ids = [got['id'] for _, got in seen]
        if ids != sorted(ids):
            raise NotLinear(f'items of one request out of order: {op}')
    return whole


# An id, in which partition it stood, when it was given at the earliest and, surely, at the latest; the lease that took it.
Birth = collections.namedtuple('Birth', 'place id low high lease name')


def births(history, grants, made):
    """One for each grant. high is NEVER where the id may have come by itself: expiry, a schedule, an unheard grant."""
    retried = collections.defaultdict(list)
    for op in history.of('retry'):
        for ident, due, dead in zip(op.body['ids'], op.body['due'], op.body['dead']):
            if not dead:
                retried[ident].append((op, due))
    for name, all_of in grants.items():
        before = None
        home, op = made[name].body['q'], made[name]
        due = op.body['due'][op.body['items'].index(name)]
        for lease, got in sorted(all_of, key=lambda grant, home=home: (grant[0].body['q'] != home, grant[1]['id'])):
            low, high = (op if before is None else before[0]).call, NEVER
            if op.body.get('key') is not None:
                pass            # it waits for others of its key
            elif before is None and lease.body['q'] == home and got['attempts'] == 1 and due == 0 and op.how == 'ok':
                high = op.end
            elif before is not None and before[0].body['q'] == lease.body['q'] and got['attempts'] == before[1]['attempts'] + 1:
                back = [op for op, later in retried[before[1]['id']] if op.how == 'ok' and later == 0]
                low, high = (back[0].call, back[0].end) if back else (low, high)
            yield Birth((lease.body['q'], lease.answer['part']), got['id'], low, high, lease, name)
            before = (lease, got)


def ids_rise(history, all_births):
    """Of two ids of a partition, the one surely given before the other began to be is the smaller."""
    by_place = collections.defaultdict(list)
    for birth in all_births:
        by_place[birth.place].append(birth)
    pairs = 0
    for place, here in by_place.items():
        ended = sorted((b for b in here if min(b.high, b.lease.end) < NEVER), key=lambda b: min(b.high, b.lease.end))
        at, greatest = 0, None
        for birth in sorted(here, key=lambda b: b.low):
            while at < len(ended) and min(ended[at].high, ended[at].lease.end) < birth.low:
                if greatest is None or ended[at].id > greatest.id:
                    greatest = ended[at]
                at += 1
            if greatest is not None:
                pairs += 1
                if greatest.id > birth.id:
                    raise NotLinear(f'in {place}, {birth.name} got id {birth.id} after {greatest.name} had {greatest.id}')
        pairs += passed_over(history, place, here)
    return pairs


def passed_over(history, place, here):
    """A lease that took an id while a smaller one was surely ready, and is given later."""
    others = [op for op in history.of('lease') if op.body['q'] == place[0] and (op.how != 'ok' or history.faulty)]
    taken = {}
    for birth in here:
        taken.setdefault(birth.lease.number, []).append(birth)
    coming = sorted((b for b in here if b.high < NEVER), key=lambda b: b.high, reverse=True)
    pairs, ready = 0, []
    for got in sorted(taken.values(), key=lambda got: got[0].lease.call):
        lease, last = got[0].lease, max(got, key=lambda b: b.id)
        while coming and coming[-1].high < lease.call:
            ready.append(coming.pop())
        ready = [birth for birth in ready if birth.lease.call > lease.call]
        left = [birth for birth in ready if birth.lease.call > lease.end]
        if not left or any(op.call < lease.end and op.end > lease.call and op is not lease for op in others):
            continue
        pairs += len(left)
        first = min(left, key=lambda b: b.id)
        if first.id < last.id:
            raise NotLinear(f'in {place}, {last.name} ({last.id}) was given before {first.name} ({first.id}), which was '
                            f'ready since {first.high}: {lease}; then {first.lease}')
    return pairs


def check(history):
    """Raises NotLinear, or returns figures of what was checked."""
    grants, _ = granted(history)
    made = produced(history)
    for name in grants:
        if name not in made:
            raise NotLinear(f'{name} was given and never produced')
    steps = steps_of(history, surely_made(history, grants))
    final_steps(history, steps)
    pairs = ids_rise(history, list(births(history, grants, made)))
    most = max((queue.max_attempts for queue in history.queues.values()), default=0)
    shortest = min((op.body['lease_ns'] for op in history.of('lease')), default=0)
    for name, all_of in steps.items():
        seen = max((got['attempts'] for _, got in grants[name]), default=0)
        item = Item(history, max(most, seen))
        item.unheard_ns = shortest
        all_of.sort(key=lambda step: step.call)
        if not search(item, all_of):
            raise NotLinear(f'no order for {name}:\n' + '\n'.join(f'    {step}' for step in all_of if step.kind != 'clear'))
    return {'items': len(steps), 'grants': sum(map(len, grants.values())), 'pairs': pairs,
            'unknown': sum(op.how == 'unknown' for op in history.ops.values())}


# ---- files

def read(lines):
    """A History; the first line says {"queues": {name: [max_attempts, dead, expire_ns]}, "slack_ns":, "faulty":}."""
    head, *events = [json.loads(line) for line in lines]
    queues = {name: Queue(*fields) for name, fields in head['queues'].items()}
    return History(events, queues, head.get('slack_ns', 0), head.get('faulty', False))


def run_simulation(arguments):
    """Records and checks histories of the simulation."""
    options = {'--seed': 1, '--histories': 20, '--steps': 400}
    while arguments and arguments[0] in options:
        options[arguments[0]], arguments = int(arguments[1]), arguments[2:]
    binary, *mode = arguments
    total = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options['--seed'], options['--seed'] + options['--histories']):
            path = f'{folder}/{seed}'
            subprocess.run([binary, *mode, '--seed', str(seed), '--steps', str(options['--steps']), '--record', path],
                           check=True, stdout=subprocess.DEVNULL)
            with open(path, encoding='utf-8') as file:
                try:
                    total.update(check(read(file)))
                except NotLinear as error:
                    raise NotLinear(f'seed {seed}: {error}') from None
    return total


def main():
    arguments = sys.argv[1:]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if arguments[0] == '--run':
            print(f'linear: {dict(run_simulation(arguments[1:]))}')
            return 0
        for path in arguments:
            with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8') as file:
                print(f'{path}: {check(read(file))}')
    except NotLinear as error:
        print(f'not linear: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
