"""Goal: linear.py rejects what no queue may do, and nothing else.
Method: small histories, each with the reason it must be rejected for, or none; then, given a simulation as argument,
histories of that, first as they are, then with one thing changed: an item lost, a lease given twice, a stale id
accepted, two items out of order, an item before its time. SEED (1) chooses which."""
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import linear

S = 1_000_000_000
LEASE = 10 * S
QUEUES = {'q': linear.Queue(3, 'd', 100 * S), 'd': linear.Queue(0, None, 1000 * S)}
MUTATED_SEEDS, MUTATIONS_EACH = 3, 3
SEED = int(os.environ.get('SEED', '1'))


class Told:
    """A history in the making. Time goes on by a millisecond an event."""

    def __init__(self):
        self.events, self.at, self.op = [], 1000 * S, 0

    def event(self, **fields):
        self.at += S // 1000
        self.events.append({'at': self.at, **fields})

    def call(self, kind, **fields):
        self.op += 1
        self.event(call=kind, op=self.op, q=fields.pop('q', 'q'), **fields)
        return self.op

    def do(self, kind, how='ok', **fields):
        op = self.call(kind, **fields)
        self.event(ret=how, op=op)

    def produce(self, *items, how='ok', due=0):
        self.do('produce', how, items=list(items), due=[due] * len(items))

    def lease(self, *got, q='q', part=0):
        """got: (item, number of its id, attempts)."""
        self.leased(self.call('lease', q=q, n=5, lease_ns=LEASE), *got, part=part)

    def leased(self, op, *got, part=0):
        self.event(ret='ok', op=op, part=part, items=[
            {'item': item, 'id': f'{ident:027}', 'attempts': attempts, 'deadline': self.at + LEASE}
            for item, ident, attempts in got])

    def change(self, kind, ident, how='ok', due=0, dead=False):
        self.do(kind, how, part=0, ids=[f'{ident:027}'], due=[due], dead=[dead], ns=LEASE)

    def complete(self, ident, how='ok'):
        self.change('complete', ident, how)

    def wait(self, seconds):
        self.at += seconds * S

    def end(self, *items):
        self.event(drained=list(items))


CASES = []


def case(why):
    """why: part of the reason it is rejected for; None: it is not."""
    def add(function):
        CASES.append((function, why))
        return function
    return add


def begun(*items):
    told = Told()
    told.produce(*(items or ('a',)))
    return told


@case(None)
def an_ordinary_life():
    told = begun('a', 'b', 'c')
    told.lease(('a', 1, 1))
    told.complete(1)
    told.lease(('b', 2, 1))
    told.wait(11)
    told.complete(2, 'refused')
    told.lease(('c', 3, 1), ('b', 4, 2))
    told.complete(4)
    told.change('retry', 3)
    told.lease(('c', 5, 2))
    told.end('c')
    return told


@case('no order for a')
def an_item_is_lost():
    told = begun()
    told.end()
    return told


@case('no order for a')
def an_item_leased_and_never_completed_is_lost():
    told = begun()
    told.lease(('a', 1, 1))
    told.end()
    return told


@case('no order for a')
def two_leases_live_at_once():
    told = begun()
    told.lease(('a', 1, 1))
    told.wait(9)
    told.lease(('a', 2, 2))
    return told


@case(None)
def two_leases_one_after_the_other():
    told = begun()
    told.lease(('a', 1, 1))
    told.wait(11)
    told.lease(('a', 2, 2))
    return told


@case('no order for a')
def a_stale_id_is_completed():
    told = begun()
    told.lease(('a', 1, 1))
    told.wait(11)
    told.lease(('a', 2, 2))
    told.complete(1)
    return told


@case('no order for a')
def a_stale_id_is_retried():
    told = begun()
    told.lease(('a', 1, 1))
    told.complete(1)
    told.change('retry', 1)
    return told


@case('no order for a')
def it_is_completed_twice():
    told = begun()
    told.lease(('a', 1, 1))
    told.complete(1)
    told.complete(1)
    return told


@case('no order for a')
def it_comes_after_its_completion():
    told = begun()
    told.lease(('a', 1, 1))
    told.complete(1)
    told.wait(11)
    told.lease(('a', 2, 2))
    return told


@case('no order for a')
def a_live_lease_is_refused():
    told = begun()
    told.lease(('a', 1, 1))
    told.complete(1, 'refused')
    return told


@case('given before')
def a_later_item_is_given_first():
    told = begun('a')
    told.produce('b')
    told.lease(('b', 2, 1))
    told.lease(('a', 1, 1))
    return told


@case(None)
def a_later_item_is_given_first_to_overlapping_requests():
    told = begun('a')
    told.produce('b')
    op = told.call('lease', n=5, lease_ns=LEASE)
    told.lease(('b', 2, 1))
    told.leased(op, ('a', 1, 1))
    return told


@case(None)
def a_later_item_is_given_first_while_a_request_may_have_the_other():
    told = begun('a')
    told.produce('b')
    op = told.call('lease', n=5, lease_ns=LEASE)
    told.lease(('b', 2, 1))
    told.event(ret='none', op=op)
    told.lease(('a', 1, 1))
    return told


@case('given before')
def a_later_item_is_given_first_after_a_request_that_got_none():
    told = begun('a')
    told.produce('b')
    told.do('lease', 'none', n=5, lease_ns=LEASE)
    told.lease(('b', 2, 1))
    told.lease(('a', 1, 1))
    return told


@case('after')
def ids_fall():
    told = begun('a')
    told.produce('b')
    told.lease(('b', 1, 1))
    told.lease(('a', 2, 1))
    return told


@case('out of order')
def items_of_a_request_change_places():
    told = begun('a', 'b')
    told.lease(('b', 1, 1), ('a', 2, 1))
    return told


@case('given before')
def a_returned_item_is_passed_over():
    told = begun('a')
    told.lease(('a', 1, 1))
    told.change('retry', 1)
    told.produce('b')
    told.lease(('b', 3, 1))
    told.lease(('a', 2, 2))
    return told


@case('several partitions')
def a_request_is_split():
    told = begun('a', 'b')
    told.lease(('a', 1, 1))
    told.lease(('b', 2, 1), part=1)
    return told


@case('no order for a')
def it_is_given_before_its_time():
    told = Told()
    told.produce('a', due=told.at + 20 * S)
    told.wait(19)
    told.lease(('a', 1, 1))
    return told


@case(None)
def it_is_given_in_time():
    told = Told()
    told.produce('a', due=told.at + 20 * S)
    told.wait(20)
    told.lease(('a', 1, 1))
    told.change('retry', 1, due=told.at + 5 * S)
    told.wait(5)
    told.lease(('a', 2, 2))
    return told


@case('no order for a')
def it_is_retried_before_its_time():
    told = begun()
    told.lease(('a', 1, 1))
    told.change('retry', 1, due=told.at + 5 * S)
    told.wait(3)
    told.lease(('a', 2, 2))
    return told


@case('never produced')
def a_phantom():
    told = begun()
    told.lease(('x', 1, 1))
    return told


@case('never produced')
def what_was_refused_comes():
    told = Told()
    told.produce('a', how='none')
    told.lease(('a', 1, 1))
    return told


@case(None)
def what_is_unknown_comes():
    told = Told()
    told.produce('a', 'b', how='unknown')
    told.lease(('a', 1, 1))
    told.end('a', 'b')
    return told


@case(None)
def what_is_unknown_does_not_come():
    told = Told()
    told.produce('a', 'b', how='unknown')
    told.end()
    return told


@case('no order for b')
def half_of_what_is_unknown_comes():
    told = Told()
    told.produce('a', 'b', how='unknown')
    told.lease(('a', 1, 1))
    told.end('a')
    return told


@case('no order for a')
def attempts_are_not_counted():
    told = begun()
    told.lease(('a', 1, 1))
    told.wait(11)
    told.lease(('a', 2, 1))
    return told


@case('no order for a')
def attempts_jump():
    told = begun()
    told.lease(('a', 1, 1))
    told.wait(30)
    told.lease(('a', 2, 3))
    return told


@case(None)
def a_lease_nobody_heard_of_counts():
    told = begun()
    told.call('lease', n=5, lease_ns=LEASE)
    told.event(crash=True)
    told.wait(11)
    told.lease(('a', 2, 2))
    return told


@case('no order for a')
def a_lease_nobody_heard_of_lives_as_long_as_others():
    told = begun()
    told.call('lease', n=5, lease_ns=LEASE)
    told.event(crash=True)
    told.wait(8)
    told.lease(('a', 2, 2))
    return told


@case('no order for a')
def a_killed_server_gives_nothing_afterwards():
    told = begun()
    told.call('lease', n=5, lease_ns=LEASE)
    told.event(crash=True)
    told.lease(('a', 1, 1))
    told.wait(30)
    told.lease(('a', 3, 3))
    return told


@case(None)
def a_killed_complete_was_done():
    told = begun()
    told.lease(('a', 1, 1))
    told.call('complete', part=0, ids=[f'{1:027}'])
    told.event(crash=True)
    told.wait(11)
    told.end()
    return told


@case(None)
def a_killed_complete_was_not_done():
    told = begun()
    told.lease(('a', 1, 1))
    told.call('complete', part=0, ids=[f'{1:027}'])
    told.event(crash=True)
    told.wait(11)
    told.lease(('a', 2, 2))
    told.end('a')
    return told


@case('no order for a')
def a_killed_complete_is_done_after_the_kill():
    told = begun()
    told.lease(('a', 1, 1))
    told.call('complete', part=0, ids=[f'{1:027}'])
    told.event(crash=True)
    told.wait(11)
    told.lease(('a', 2, 2))
    told.end()
    return told


def spent(times):
    told = begun()
    for i in range(times):
        told.lease(('a', 1 + i, 1 + i))
        told.wait(11)
    return told


@case(None)
def it_dies_of_its_attempts():
    told = spent(3)
    told.lease(('a', 9, 1), q='d')
    told.end('a')
    return told


@case('no order for a')
def it_dies_too_early():
    told = spent(2)
    told.lease(('a', 9, 1), q='d')
    return told


@case('no order for a')
def it_does_not_die():
    told = spent(3)
    told.lease(('a', 9, 4))
    return told


@case(None)
def it_dies_by_order():
    told = begun()
    told.lease(('a', 1, 1))
    told.change('retry', 1, dead=True)
    told.lease(('a', 9, 1), q='d')
    return told


@case(None)
def it_dies_of_age():
    told = begun()
    told.wait(101)
    told.lease(('a', 9, 1), q='d')
    return told


def put_off(produced_for, retried_for):
    """It is due so many seconds after its produce, and again so many after its first lease; or at once."""
    told = Told()
    told.produce('a', due=produced_for and told.at + produced_for * S)
    told.wait(produced_for + 1)
    told.lease(('a', 1, 1))
    told.change('retry', 1, due=retried_for and told.at + retried_for * S)
    told.wait(retried_for + 1)
    return told


@case(None)
def it_waits_longer_than_it_lives():
    told = put_off(500, 300)
    told.wait(90)
    told.lease(('a', 2, 2))
    return told


@case('no order for a')
def a_schedule_is_no_part_of_its_life():
    told = put_off(500, 0)
    told.wait(50)
    told.lease(('a', 9, 1), q='d')
    return told


@case('no order for a')
def what_was_put_off_dies_too_early():
    told = put_off(0, 300)
    told.wait(90)
    told.lease(('a', 9, 1), q='d')
    return told


@case('no order for a')
def a_dead_one_comes_from_where_it_was():
    told = begun()
    told.lease(('a', 1, 1))
    told.change('retry', 1, dead=True)
    told.lease(('a', 2, 2))
    return told


@case('given twice')
def an_id_is_given_twice():
    told = begun('a', 'b')
    told.lease(('a', 1, 1))
    told.lease(('b', 1, 1))
    return told


@case('given to nobody')
def an_unknown_id_is_completed():
    told = begun()
    told.complete(7)
    return told


@case('another instant')
def a_lease_is_too_short():
    told = begun()
    told.lease(('a', 1, 1))
    told.events[-1]['items'][0]['deadline'] -= S
    return told


@case('items for a request')
def more_items_than_asked_for():
    told = begun('a', 'b', 'c', 'd', 'e', 'f')
    told.lease(*((name, 1 + i, 1) for i, name in enumerate('abcdef')))
    return told


@case('no order for a')
def what_was_cleared_comes():
    told = begun()
    told.do('clear', ready=True, scheduled=False, destructive=False)
    told.lease(('a', 1, 1))
    return told


@case(None)
def what_is_leased_is_not_cleared():
    told = begun('a', 'b')
    told.lease(('a', 1, 1))
    told.do('clear', ready=True, scheduled=False, destructive=False)
    told.complete(1)
    told.end()
    return told


@case('no order for a')
def what_was_completed_comes_out_at_the_end():
    told = begun()
    told.lease(('a', 1, 1))
    told.complete(1)
    told.end('a')
    return told


@case('came out 2 times')
def one_comes_out_twice():
    told = begun()
    told.end('a', 'a')
    return told


# ---- histories of the simulation, changed

def lose(events, rng):
    """One that came out at the end did not, and nobody had asked for its end."""
    how = {event['op']: event['ret'] for event in events if 'ret' in event}
    made = {item for event in events if event.get('call') == 'produce' and how.get(event['op']) == 'ok'
            for item in event['items']}
    names = {one['id']: one['item'] for _, event in leases(events) for one in event['items']}
    ended = {names[ident] for event in events for ident in event.get('ids', [])}
    drained = events[-1]['drained']
    sure = [item for item in drained if item in made and item not in ended]
    if not sure or events[-1]['at'] - events[0]['at'] > 3600 * S:      # the dead die, too
        return False
    drained.remove(rng.choice(sure))
    return True


def leases(events):
    return [(at, event) for at, event in enumerate(events) if event.get('items') and 'ret' in event]


def call_of(events, op):
    return next(event for event in events if event.get('op') == op and 'call' in event)


def greatest(ident):
    return ident[:-1] + '~'


def give_twice(events, rng):
    """A lease that lives is given to a second one."""
    live = [(at, event) for at, event in leases(events) if event['items'][0]['deadline'] > event['at']]
    at, event = rng.choice(live)
    first, asked = event['items'][0], call_of(events, event['op'])
    again = {'item': first['item'], 'id': greatest(first['id']), 'attempts': first['attempts'] + 1,
             'deadline': event['at'] + asked['lease_ns']}
    events[at + 1:at + 1] = [{**asked, 'op': 10**9, 'at': event['at']}, {**event, 'op': 10**9, 'items': [again]}]
    return True


def accept_stale(events, rng):
    """What was completed is completed once more."""
    done = [(at, event) for at, event in enumerate(events) if event.get('ret') == 'ok' and
            call_of(events, event['op'])['call'] == 'complete']
    at, event = rng.choice(done)
    events[at + 1:at + 1] = [{**call_of(events, event['op']), 'op': 10**9, 'at': event['at']}, {**event, 'op': 10**9}]
    return True


def reorder(events, rng):
    """Two items of one request have each other's ids."""
    pairs = []
    for op in (event for event in events if event.get('call') == 'produce' and 'key' not in event):
        firsts = [one for _, event in leases(events) for one in event['items']
                  if one['item'] in op['items'] and one['attempts'] == 1 and op['due'][op['items'].index(one['item'])] == 0 and
                  call_of(events, event['op'])['q'] == 'work']
        pairs += [firsts[:2]] if len(firsts) > 1 else []
    if not pairs:
        return False
    one, other = rng.choice(pairs)
    swapped = {one['id']: other['id'], other['id']: one['id']}
    one['id'], other['id'] = other['id'], one['id']
    for event in events:
        if 'ids' in event:
            event['ids'] = [swapped.get(ident, ident) for ident in event['ids']]
    return True


def hurry(events, rng):
    """An item that was scheduled should have come later than it did."""
    given = {one['item']: event['at'] for _, event in reversed(leases(events)) for one in event['items']}
    late = [(event, i) for event in events if event.get('call') == 'produce'
            for i, due in enumerate(event['due']) if due > 0 and event['items'][i] in given]
    if not late:
        return False
    event, i = rng.choice(late)
    event['due'][i] = given[event['items'][i]] + S
    return True


def rejected(lines):
    try:
        linear.check(linear.read(lines))
    except linear.NotLinear as error:
        return str(error)
    return None


def mutate(binary):
    rng, failed, done = random.Random(SEED), 0, 0
    print(f'seed {SEED}')
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(MUTATED_SEEDS):
            seed = rng.randrange(1, 10**6)
            subprocess.run([binary, '--seed', str(seed), '--steps', '200', '--record', f'{folder}/h'], check=True,
                           stdout=subprocess.DEVNULL)
            with open(f'{folder}/h', encoding='utf-8') as file:
                head, *events = [json.loads(line) for line in file]
            if rejected(map(json.dumps, [head, *events])):
                failed += 1
                print(f'FAILED: seed {seed} as it is: {rejected(map(json.dumps, [head, *events]))}')
            for change in (lose, give_twice, accept_stale, reorder, hurry) * MUTATIONS_EACH:
                changed = copy.deepcopy(events)
                if not change(changed, rng):
                    continue
                done += 1
                if rejected(map(json.dumps, [head, *changed])) is None:
                    failed += 1
                    print(f'FAILED: seed {seed}, {change.__name__}: was not rejected')
    print(f'{done} changed histories, {failed} failed')
    return failed + (done == 0)


def main():
    failed = 0
    for function, why in CASES:
        try:
            linear.check(linear.History(function().events, QUEUES))
            got = None
        except linear.NotLinear as error:
            got = str(error)
        if (got is None) != (why is None) or why is not None and why not in got:
            failed += 1
            print(f'FAILED {function.__name__}: got {got}, want {why}')
    print(f'{len(CASES)} histories, {failed} failed')
    for binary in sys.argv[1:]:
        failed += mutate(binary)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
