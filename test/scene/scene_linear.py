"""Goal: what concurrent clients of a queue ask and are told, while its server is killed and started again, is what a
sequential queue could have answered; linear.py says what exactly is checked.
Method: producers and consumers over HTTP, each call and answer recorded with its instant; kill -9 at random moments; at
the end everything is taken out. Items are leased and completed, returned at once or later, sent to the dead queue, left
until they expire, completed under stale ids, over kills too; the queue is cleared now and then.
LINEAR_CYCLES (3) is how often it is killed, SEED repeats a run's choices, LINEAR_HISTORY=FILE keeps the history (for
linear.py); one that fails is always kept, and where is said. The long form is SCENE_TIMEOUT=7200 LINEAR_CYCLES=500."""
import base64
import calendar
import datetime
import gzip
import http.client
import json
import os
import random
import tempfile
import threading
import time

import linear
from harness import REQUEST_TIMEOUT, Server, check, eq, main, scene
from queue_help import create, fine, stats

CYCLES = int(os.environ.get('LINEAR_CYCLES', '3'))
SEED = int(os.environ.get('SEED', str(random.randrange(2**32))))
NS = 1_000_000_000
LEASE_S, MAX_ATTEMPTS, PARTITIONS, BATCH = 4, 3, 3, 5
LIFE_NS = 24 * 3600 * NS
PRODUCERS, CONSUMERS = 2, 4
SLACK_NS = NS               # the clock of the store is slewed to the wall's
DRAIN_TIMEOUT = 240
PAUSE_S = 0.002             # between the requests of a client, so that a history stays small


def instant(text):
    """RFC 3339 in UTC, to nanoseconds."""
    whole, _, fraction = text.rstrip('Z').partition('.')
    return calendar.timegm(time.strptime(whole, '%Y-%m-%dT%H:%M:%S')) * NS + int(fraction.ljust(9, '0') or '0')


def rfc3339(ns):
    return datetime.datetime.fromtimestamp(ns // NS, datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%S') + f'.{ns % NS:09}Z'


class Record:
    """Events of all clients in the order of the monotonic clock; what consumers hold."""

    def __init__(self):
        self.lock, self.events, self.ops, self.items = threading.Lock(), [], 0, 0
        self.held, self.stale = [], []      # (queue, partition, id): leased, and not leased any more

    def event(self, **fields):
        with self.lock:
            self.events.append({'mono': time.monotonic_ns(), 'at': time.time_ns(), **fields})

    def call(self, kind, **fields):
        with self.lock:
            self.ops += 1
            op = self.ops
            self.events.append({'mono': time.monotonic_ns(), 'at': time.time_ns(), 'call': kind, 'op': op, **fields})
        return op

    def names(self, count):
        with self.lock:
            self.items += count
            return [f'i{self.items - k}' for k in range(count, 0, -1)]

    def head(self):
        return {'queues': {'work': [MAX_ATTEMPTS, 'dead', LIFE_NS], 'dead': [0, None, LIFE_NS]}, 'slack_ns': SLACK_NS}

    def lines(self):
        return [json.dumps(event) for event in (self.head(), *self.events)]


class Client:
    """One connection: a call is recorded before it is sent, its answer after it came; no answer, no event."""

    def __init__(self, record, port):
        self.record = record
        self.connection = http.client.HTTPConnection('127.0.0.1', port, timeout=REQUEST_TIMEOUT)

    def post(self, path, body):
        self.connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def produce(self, names, due):
        items = [{'bytes': base64.b64encode(name.encode()).decode(), **({'enqueue_at': rfc3339(due)} if due else {})}
                 for name in names]
        op = self.record.call('produce', q='work', items=names, due=[due] * len(names))
        status, got = self.post('/v1/queue.produce', {'queue_name': 'work', 'request_timeout': '10s', 'items': items})
        how = 'ok' if status == 200 else 'unknown' if 'unknown' in got['message'] else 'none'
        self.record.event(op=op, ret=how)
        check(status in (200, 454), f'produce: {status} {got}')

    def lease(self, queue, count, timeout):
        """[(queue, partition, id)]"""
        op = self.record.call('lease', q=queue, n=count, lease_ns=LEASE_S * NS)
        status, got = self.post('/v1/queue.lease', {'queue_name': queue, 'batch_size': count, 'request_timeout': timeout,
                                                    'client_id': f'c{op}'})
        if status != 200:
            self.record.event(op=op, ret='none')
            eq(status, 454, f'lease: {got}')
            return []
        part = got.get('partition', 0)
        self.record.event(op=op, ret='ok', part=part, items=[
            {'item': base64.b64decode(item['bytes']).decode(), 'id': item['id'], 'attempts': item['attempts'],
             'deadline': instant(item['lease_deadline'])} for item in got['items']])
        return [(queue, part, item['id']) for item in got['items']]

    def change(self, kind, held, due=0, dead=False):
        queue, part, _ = held[0]
        ids = [ident for _, _, ident in held]
        op = self.record.call(kind, q=queue, part=part, ids=ids, due=[due] * len(ids), dead=[dead] * len(ids))
        body = {'queue_name': queue, 'partition': part}
        if kind == 'complete':
            body.update(ids=ids, request_timeout='10s')
        else:
            body['items'] = [{'id': ident, **({'retry_at': rfc3339(due)} if due else {}), **({'dead': True} if dead else {})}
                             for ident in ids]
        status, got = self.post(f'/v1/queue.{kind}', body)
        text = got.get('message', '')
        refused = status == 400 and ('does not exist' in text or 'is not marked as leased' in text)
        self.record.event(op=op, ret='ok' if status == 200 else 'refused' if refused else 'unknown')
        check(status in (200, 454) or refused, f'{kind}: {status} {got}')

    def clear(self):
        op = self.record.call('clear', q='work', ready=True, scheduled=False, destructive=False)
        status, got = self.post('/v1/queue.clear', {'queue_name': 'work', 'queue': True})
        self.record.event(op=op, ret='ok' if status == 200 else 'unknown')
        eq(status, 200, f'clear: {got}')


class Worker(threading.Thread):
    """Does one thing after another until the server is gone, or stop is set."""

    def __init__(self, record, port, seed, stop):
        super().__init__()
        self.record, self.rng, self.stop, self.failure = record, random.Random(seed), stop, None
        self.client = Client(record, port)

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
                time.sleep(PAUSE_S)
        except (OSError, http.client.HTTPException):
            pass                            # killed: what was asked last has no answer
        except Exception as error:          # pylint: disable=broad-except
            self.failure = error


class Producer(Worker):
    def step(self):
        if self.rng.random() < 0.002:
            self.client.clear()
        due = time.time_ns() + self.rng.randrange(2 * NS) if self.rng.random() < 0.1 else 0
        self.client.produce(self.record.names(self.rng.randrange(1, BATCH)), due)


class Consumer(Worker):
    def step(self):
        queue = 'dead' if self.rng.random() < 0.05 else 'work'
        got = self.client.lease(queue, self.rng.randrange(1, BATCH + 1), '50ms')
        if not got:
            return
        what = self.rng.random()
        if what < 0.5:
            self.change('complete', got)
        elif what < 0.65:
            for one in got:
                self.change('complete', [one])
        elif what < 0.75:
            self.change('retry', got)
        elif what < 0.8:
            self.change('retry', got, due=time.time_ns() + self.rng.randrange(2 * NS))
        elif what < 0.85:
            self.change('retry', got, dead=True)
        elif what < 0.95:
            with self.record.lock:
                self.record.held += got     # for later, if it lives so long
        self.later()

    def change(self, kind, held, **how):
        self.client.change(kind, held, **how)
        with self.record.lock:
            self.record.stale += held

    def later(self):
        """Completes what was held, over kills too, and now and then what is no longer leased."""
        one = None
        with self.record.lock:
            if self.record.held and self.rng.random() < 0.1:
                one = self.record.held.pop(self.rng.randrange(len(self.record.held)))
            elif self.record.stale and self.rng.random() < 0.1:
                one = self.rng.choice(self.record.stale)
        if one is not None:
            self.change('complete', [one])


def work_until(server, record, cycle, seconds, kill):
    stop = threading.Event()
    workers = [(Producer if i < PRODUCERS else Consumer)(record, server.port, f'{SEED}/{cycle}/{i}', stop)
               for i in range(PRODUCERS + CONSUMERS)]
    for worker in workers:
        worker.start()
    time.sleep(seconds)                     # the moment of the kill, not a wait
    if kill:
        eq(server.kill9(), -9)
        record.event(crash=True)
    stop.set()
    for worker in workers:
        worker.join()
        if worker.failure is not None:
            raise worker.failure


def left(server):
    return sum(part.get('total', 0) + part.get('scheduled', 0) + part.get('total_leased', 0)
               for queue in ('work', 'dead') for part in stats(server, queue)['partitions'])


def drain(server, record):
    """Takes everything out, by ordinary requests."""
    client, deadline = Client(record, server.port), time.monotonic() + DRAIN_TIMEOUT
    while left(server) > 0:
        check(time.monotonic() < deadline, f'{left(server)} items are left and do not come')
        for queue in ('work', 'dead'):
            while got := client.lease(queue, 1000, '100ms'):
                client.change('complete', got)
    record.event(drained=[])


def verdict(record):
    lines = record.lines()
    if 'LINEAR_HISTORY' in os.environ:
        with open(os.environ['LINEAR_HISTORY'], 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines) + '\n')
    try:
        return linear.check(linear.read(lines))
    except linear.NotLinear:
        number, path = tempfile.mkstemp(prefix=f'linear-{SEED}-', suffix='.gz')
        with open(number, 'wb') as file:
            file.write(gzip.compress(('\n'.join(lines) + '\n').encode()))
        print(f'its history: {path}')
        raise


@scene
def clients_over_kills_see_a_sequential_queue(binary):
    print(f'seed {SEED}, {CYCLES} cycles')
    rng, record = random.Random(SEED), Record()
    with Server(binary) as server:
        create(server, 'dead', lease_timeout=f'{LEASE_S}s')
        create(server, 'work', PARTITIONS, lease_timeout=f'{LEASE_S}s', max_attempts=MAX_ATTEMPTS, dead_queue='dead')
        eq(fine(server, '/v1/queues.info', {'queue_name': 'work'})['dead_queue'], 'dead')
        for cycle in range(CYCLES):
            work_until(server, record, cycle, rng.uniform(0.2, 1.5), kill=True)
            server.start()
        work_until(server, record, CYCLES, rng.uniform(0.2, 1.0), kill=False)
        drain(server, record)
    figures = verdict(record)
    print(f'{len(record.events)} events: {figures}')
    check(figures['grants'] > 0, 'nothing was leased')


main()
