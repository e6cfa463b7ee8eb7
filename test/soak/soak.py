#!/usr/bin/env python3
"""Goal: all subsystems at once, for an hour, with kills and stops, lose nothing that was acknowledged and keep their memory.
Method: two servers share a Redis; each has a queue over a local store and one in PostgreSQL, a wiki that is edited, lists,
pages with a grace window of seconds, values and batches over two tables. Server A is killed and restarted, Redis and
PostgreSQL are stopped, killed and started again; server B only goes on, so that its memory shows what it keeps. Each
writer keeps a ledger of what was acknowledged and what was sent, and judges each answer by it; at the end all of it is
asked for again, the queues are drained, and both stores are checked.

usage: test/soak/soak.py BINARY [--seconds 3600] [--seed N] [--calm]    --calm: no kills and no stops
The last line is `ok soak` or `FAILED soak: why`.
"""
import argparse
import base64
import collections
import http.client
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'scene'), str(HERE.parents[1] / 'tools')]
sys.dont_write_bytecode = True
from harness import Server                    # noqa: E402  pylint: disable=wrong-import-position
from list_help import Generator, Redis        # noqa: E402  pylint: disable=wrong-import-position
from origin import Origin                     # noqa: E402  pylint: disable=wrong-import-position
import pg_cluster                             # noqa: E402  pylint: disable=wrong-import-position

GRACE_S = 15
ANSWER_TIMEOUT = 60             # of one answer; a queue's request_timeout is far below
DRAIN_TIMEOUT = 300             # until the queues are empty at the end
REPORT_S = 60
SAMPLE_S = 5
MEMORY_FACTOR, MEMORY_MIB = 1.1, 16     # the last quarter's median may be that much above the second's
CACHE_BYTES = '8M'              # of ready answers, and of lists: full before the second quarter, so that more is a leak
FAULTS_MAX = 20
TITLES, VALUES, ROWS = 40, 40, 20       # of each worker
DOMAIN = '/localhost/v1'


class World:
    """What all workers share: the servers, the time left, what was counted and what was wrong."""

    def __init__(self, seconds):
        self.until = time.monotonic() + seconds
        self.counts = collections.Counter()
        self.faults = []
        self.lock = threading.Lock()
        self.stopping = False

    def goes_on(self):
        return not self.stopping and time.monotonic() < self.until and len(self.faults) < FAULTS_MAX

    def count(self, what, n=1):
        with self.lock:
            self.counts[what] += n

    def wrong(self, text):
        with self.lock:
            self.faults.append(text[:500])
        if len(self.faults) <= FAULTS_MAX:
            print(f'WRONG {text[:500]}', flush=True)


class Link:
    """One kept connection to a server that may die and come back on another port."""

    def __init__(self, world, server):
        self.world, self.server, self.connection, self.port = world, server, None, None

    def call(self, method, path, body=None, headers=None):
        """(status, headers, body), or None: nobody knows whether it was done."""
        try:
            if self.connection is None or self.port != self.server.port:
                self.drop()
                self.port = self.server.port
                self.connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=ANSWER_TIMEOUT)
            data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
            more = {'Content-Type': 'application/json'} if isinstance(body, (dict, list)) else {}
            self.connection.request(method, path, data, {**more, **(headers or {})})
            answer = self.connection.getresponse()
            got = answer.status, answer.headers, answer.read()
        except TimeoutError:
            self.drop()
            self.world.wrong(f'{method} {path}: no answer within {ANSWER_TIMEOUT} s')
            return None
        except (OSError, http.client.HTTPException):
            self.drop()
            time.sleep(0.05)            # it is down: between two tries
            return None
        self.world.count(f'answers {got[0]}')
        if got[0] == 500:
            self.world.wrong(f'{method} {path}: 500 {got[2][:300]!r}')
        return got

    def drop(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Last:
    """The last number that was acknowledged and the last that was sent, of each name."""

    def __init__(self):
        self.acknowledged, self.sent = collections.Counter(), collections.Counter()

    def next(self, name):
        self.sent[name] += 1
        return self.sent[name]

    def may_be(self, name, number):
        return self.acknowledged[name] <= number <= self.sent[name]


def body_of(name, number):
    rng = random.Random(f'{name}/{number}')
    noise = rng.randbytes(rng.choice((10, 300, 3000, 20000, 100000)))
    return noise if number % 2 else f'{name} {number} '.encode() + noise.hex().encode()


# ---- the workers: each has step(), called until the end, and verify(), called once more behind it

class Pages:
    """Puts revision after revision; what was superseded is there for the grace window, with its bytes, then gone."""

    def __init__(self, world, server, number):
        self.world, self.link, self.number = world, Link(world, server), number
        self.rng, self.last, self.recent = random.Random(f'pages {number}'), Last(), collections.deque(maxlen=50)

    def path(self, title, rev=None):
        return f'{DOMAIN}/page/html/{title}' + ('' if rev is None else f'/{rev}')

    def step(self):
        title = f'S{self.number}-{self.rng.randrange(TITLES)}'
        if self.rng.random() < 0.4:
            return self.put(title)
        if self.rng.random() < 0.5 and self.recent:
            return self.older(*self.rng.choice(list(self.recent)))
        return self.latest(title)

    def put(self, title):
        rev = self.last.next(title)
        got = self.link.call('PUT', self.path(title, rev), body_of(title, rev), {'Content-Type': 'text/html'})
        if got is None:
            return
        if got[0] in (200, 201):
            self.last.acknowledged[title] = rev
            self.recent.append((title, rev, time.monotonic()))
            self.world.count('pages put')
        elif got[0] != 503:
            self.world.wrong(f'put of {title} {rev}: {got[0]} {got[2][:200]!r}')

    def latest(self, title):
        floor = self.last.acknowledged[title]
        got = self.link.call('GET', self.path(title))
        if got is None or got[0] == 503 or (got[0] == 404 and floor == 0):
            return
        if got[0] != 200:
            return self.world.wrong(f'{title}: {got[0]} {got[2][:200]!r}')
        rev = int(got[1]['ETag'].removeprefix('W/').strip('"').split('/')[0])
        if rev < floor or not self.last.may_be(title, rev):
            self.world.wrong(f'{title}: {rev} is served, {floor} was acknowledged')
        elif got[2] != body_of(title, rev):
            self.world.wrong(f'{title} {rev}: other bytes')
        self.world.count('pages read')

    def older(self, title, rev, put_at):
        got = self.link.call('GET', self.path(title, rev))
        if got is None or got[0] == 503:
            return
        if got[0] == 200 and got[2] != body_of(title, rev):
            self.world.wrong(f'{title} {rev}: other bytes')
        elif got[0] != 200 and time.monotonic() < put_at + GRACE_S - 2:
            self.world.wrong(f'{title} {rev}: {got[0]} within its grace window: {got[2][:200]!r}')
        elif got[0] not in (200, 410):
            self.world.wrong(f'{title} {rev}: {got[0]} {got[2][:200]!r}')
        self.world.count('renders read')

    def verify(self):
        for title in list(self.last.sent):
            self.latest(title)


class Values:
    """One value a key, read back as it was put last."""

    def __init__(self, world, server, number):
        self.world, self.link, self.number = world, Link(world, server), number
        self.rng, self.last = random.Random(f'values {number}'), Last()

    def step(self):
        name = f'V{self.number}-{self.rng.randrange(VALUES)}'
        if self.rng.random() < 0.5:
            return self.read(name)
        number = self.last.next(name)
        got = self.link.call('PUT', f'{DOMAIN}/key_value/soak/{name}', f'{name} {number}'.encode(), {'Content-Type': 'text/plain'})
        if got is not None and got[0] == 201:
            self.last.acknowledged[name] = number
            self.world.count('values put')
        elif got is not None and got[0] != 503:
            self.world.wrong(f'put of {name}: {got[0]} {got[2][:200]!r}')

    def read(self, name):
        floor = self.last.acknowledged[name]
        got = self.link.call('GET', f'{DOMAIN}/key_value/soak/{name}')
        if got is None or got[0] == 503 or (got[0] == 404 and floor == 0):
            return
        if got[0] != 200 or not floor <= int(got[2].split()[1]) <= self.last.sent[name]:
            self.world.wrong(f'{name}: {got[0]} {got[2][:200]!r}, {floor} was acknowledged')
        self.world.count('values read')

    def verify(self):
        for name in list(self.last.sent):
            self.read(name)


class Tables:
    """Batches over two tables: both have the number of the last one, or both of the one before."""

    def __init__(self, world, server, number):
        self.world, self.link, self.number = world, Link(world, server), number
        self.rng, self.last = random.Random(f'tables {number}'), Last()

    def step(self):
        key = f'T{self.number}-{self.rng.randrange(ROWS)}'
        if self.rng.random() < 0.5:
            return self.read(key)
        number = self.last.next(key)
        got = self.link.call('POST', f'{DOMAIN}/batch', [
            {'op': 'put', 'table': table, 'attributes': {'key': key, 'rev': 1, 'number': number}} for table in ('one', 'two')])
        if got is not None and got[0] == 201:
            self.last.acknowledged[key] = number
            self.world.count('batches')
        elif got is not None and got[0] != 503:
            self.world.wrong(f'batch on {key}: {got[0]} {got[2][:200]!r}')

    def read(self, key):
        floor, found = self.last.acknowledged[key], []
        for table in ('one', 'two'):
            got = self.link.call('POST', f'{DOMAIN}/table/{table}/get', {'table': table, 'attributes': {'key': key}})
            if got is None or got[0] == 503 or (got[0] == 404 and floor == 0):
                return
            if got[0] != 200:
                return self.world.wrong(f'{table} {key}: {got[0]} {got[2][:200]!r}')
            found.append(int(json.loads(got[2])['items'][0]['number'])) # a long is text
        if found[0] != found[1] or found[0] < floor or not self.last.may_be(key, found[0]):
            self.world.wrong(f'{key}: {found} in two tables, {floor} was acknowledged')
        self.world.count('rows read', 2)

    def verify(self):
        for key in list(self.last.sent):
            self.read(key)


class Wiki:
    """Edits pages at the origin and reads them through a server, some anew."""

    def __init__(self, world, server, number, origin):
        self.world, self.link, self.number, self.origin = world, Link(world, server), number, origin
        self.rng, self.revs, self.next = random.Random(f'wiki {number}'), {}, number * 10**8 + 1

    def step(self):
        title = f'W{self.number}-{self.rng.randrange(TITLES)}'
        if title not in self.revs or self.rng.random() < 0.1:
            self.revs.setdefault(title, []).append(self.next)
            self.origin.page(title, *((rev, f'text of {rev}.') for rev in self.revs[title][-5:]))
            self.next += 1
        fresh = self.rng.random() < 0.3
        newest = self.revs[title][-1]
        got = self.link.call('GET', f'/wiki.test/v1/page/html/{title}', headers={'Cache-Control': 'no-cache'} if fresh else {})
        if got is None or got[0] in (502, 503, 504):
            return
        rev = int(got[1]['ETag'].removeprefix('W/').strip('"').split('/')[0]) if got[0] == 200 else 0
        if got[0] != 200 or rev not in self.revs[title] or f'text of {rev}.'.encode() not in got[2]:
            self.world.wrong(f'{title}: {got[0]} revision {rev} {got[2][-200:]!r}')
        elif 'stale-error' in got[1]['Cache-Status']:
            self.world.count('wiki pages that could not be made anew')   # said so: a server or Redis was going away
        elif fresh and rev != newest:
            self.world.wrong(f'{title}: {rev} with no-cache, the wiki has {newest}: {got[1]["Cache-Status"]}')
        self.world.count('renders made anew' if fresh else 'wiki pages read')

    def verify(self):
        pass


class Lists:
    """Shows displays: each position is what the list holds there, and no two show one item."""

    def __init__(self, world, server, number):
        self.world, self.link = world, Link(world, server)
        self.rng = random.Random(f'lists {number}')

    def step(self):
        display, user = self.rng.randrange(10**9), self.rng.randrange(50)
        seen = []
        for position in self.rng.sample(range(1, 6), 5):
            got = self.link.call('GET', f'{DOMAIN}/lists/related/{display}/{position}?user={user}')
            if got is None or got[0] in (502, 503, 504):
                return
            item = json.loads(got[2]) if got[0] == 200 else {}
            if item.get('position') != position:
                return self.world.wrong(f'list {display}/{position}: {got[0]} {got[2][:200]!r}')
            seen.append((item['link'], got[1].get('List-Version')))
        versions = len({version for _, version in seen})
        if versions == 1 and len({link for link, _ in seen}) != 5:
            self.world.wrong(f'display {display}: {seen}')
        self.world.count('displays' if versions == 1 else 'displays of several versions')

    def verify(self):
        pass


class Queue:
    """The ledger of one queue: what was produced, what was delivered, what was completed."""

    def __init__(self, world, name):
        self.world, self.name, self.lock = world, name, threading.Lock()
        self.acknowledged, self.unknown = set(), set()
        self.completed = {}            # item: when its complete was acknowledged
        self.ended = set()             # by a complete or a retry to the dead queue, its answer known or not
        self.delivered = collections.Counter()

    def left(self):
        with self.lock:
            return self.acknowledged - self.ended


class Producer:
    def __init__(self, world, server, number, queue):
        self.world, self.link, self.queue, self.number = world, Link(world, server), queue, number
        self.rng, self.made = random.Random(f'producer {queue.name} {number}'), 0

    def step(self):
        if len(self.queue.acknowledged) - len(self.queue.completed) > 20000:
            time.sleep(0.05)           # what was not consumed stays on disk: let the consumers come up
            return
        names = [f'{self.number}-{self.made + i}' for i in range(self.rng.choice((1, 1, 3, 50)))]
        self.made += len(names)
        pad = 'x' * self.rng.choice((0, 100, 5000))
        items = [{'utf8': f'{name} {pad}'} for name in names]
        if self.rng.random() < 0.1:
            due = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + self.rng.randrange(1, 5)))
            items = [{**item, 'enqueue_at': due} for item in items]
        with self.queue.lock:
            self.queue.unknown.update(names)
        got = self.link.call('POST', '/v1/queue.produce', {'queue_name': self.queue.name, 'request_timeout': '10s', 'items': items})
        if got is None or got[0] == 454:
            return
        with self.queue.lock:
            self.queue.unknown.difference_update(names)
            if got[0] == 200:
                self.queue.acknowledged.update(names)
        if got[0] == 200:
            self.world.count('items produced', len(names))
        elif got[0] != 453:
            self.world.wrong(f'produce: {got[0]} {got[2][:200]!r}')

    def verify(self):
        pass


class Consumer:
    def __init__(self, world, server, number, queue):
        self.world, self.link, self.queue, self.client = world, Link(world, server), queue, f'c{number}'
        self.rng, self.draining = random.Random(f'consumer {queue.name} {number}'), False

    def step(self):
        """Whether items came."""
        asked = time.monotonic()
        got = self.link.call('POST', '/v1/queue.lease', {'queue_name': self.queue.name, 'batch_size': self.rng.choice((1, 5, 50)),
                                                         'client_id': self.client, 'request_timeout': '2s'})
        if got is None or got[0] in (453, 454):
            return False
        if got[0] != 200:
            self.world.wrong(f'lease: {got[0]} {got[2][:200]!r}')
            return False
        reply = json.loads(got[2])
        names = self.take(reply['items'], asked)
        self.world.count('items delivered', len(names))
        what = self.rng.random()
        if what < 0.85 or self.draining:
            self.change('complete', reply, [item['id'] for item in reply['items']], names)
        elif what < 0.92:
            self.change('retry', reply, [{'id': item['id']} for item in reply['items']], names)
        return True                    # else abandoned: its lease runs out

    def take(self, items, asked):
        names = []
        for item in items:
            name = base64.b64decode(item['bytes']).decode().split(' ')[0]
            names.append(name)
            with self.queue.lock:
                known = name in self.queue.acknowledged or name in self.queue.unknown
                ended = self.queue.completed.get(name, asked)
                self.queue.delivered[name] += 1
            if not known:
                self.world.wrong(f'{self.queue.name}: {name!r} was delivered, and never produced')
            elif ended < asked:
                self.world.wrong(f'{self.queue.name}: {name} was delivered {asked - ended:.1f} s after its complete was acknowledged')
        return names

    def change(self, verb, reply, ids, names):
        body = {'queue_name': self.queue.name, 'partition': reply.get('partition', 0)}
        body |= {'ids': ids, 'request_timeout': '10s'} if verb == 'complete' else {'items': ids}
        if verb == 'complete':
            with self.queue.lock:
                self.queue.ended.update(names)
        got = self.link.call('POST', f'/v1/queue.{verb}', body)
        if got is None or got[0] in (453, 454):
            return
        if verb == 'complete' and got[0] == 200:
            with self.queue.lock:
                self.queue.completed.update(dict.fromkeys(names, time.monotonic()))
                self.queue.ended.update(names)          # another's complete may have been refused meanwhile
            self.world.count('items completed', len(names))
        elif got[0] == 200:
            self.world.count('items given back', len(names))
        else:                          # the lease had run out: it is somebody else's
            with self.queue.lock:
                self.queue.ended.difference_update(set(names) - set(self.queue.completed))
            self.world.count(f'{verb} refused: {json.loads(got[2]).get("message", "")[:40]}')

    def verify(self):
        pass


# ---- what is done to them

def kill_server(world, server, rng):
    while world.goes_on():
        world_wait(world, rng.uniform(20, 60))
        if not world.goes_on():
            return
        if rng.random() < 0.75:
            server.kill9()
            world.count('kill -9 of server A')
        else:
            code = server.sigterm()
            world.count('SIGTERM of server A')
            if code != 0:
                world.wrong(f'SIGTERM: exit {code}')
        time.sleep(rng.uniform(0, 2))  # how long it is away
        server.start()


def stop_redis(world, redis, rng):
    while world.goes_on():
        world_wait(world, rng.uniform(40, 90))
        if not world.goes_on():
            return
        if rng.random() < 0.5:
            redis.stop()
            time.sleep(rng.uniform(0.2, 5))
            redis.go_on()
            world.count('stops of Redis')
        else:
            redis.end()
            time.sleep(rng.uniform(0, 3))
            redis.start()
            world.count('kills of Redis')


def stop_postgres(world, cluster, rng):
    while world.goes_on():
        world_wait(world, rng.uniform(30, 70))
        if not world.goes_on():
            return
        if rng.random() < 0.5:
            cluster.pause()
            time.sleep(rng.uniform(0.2, 6))
            cluster.pause(False)
            world.count('stops of PostgreSQL')
        else:
            cluster.kill()
            time.sleep(rng.uniform(0, 3))
            cluster.start()
            world.count('kills of PostgreSQL')


def world_wait(world, seconds):
    until = time.monotonic() + seconds
    while world.goes_on() and time.monotonic() < until:
        time.sleep(0.1)


# ---- memory

def memory_of(server):
    """(MiB of its own, open files): the pages of mapped files are the kernel's to take back."""
    text = pathlib.Path(f'/proc/{server.pid}/status').read_text()
    return int(text.split('RssAnon:')[1].split()[0]) / 1024, len(os.listdir(f'/proc/{server.pid}/fd'))


def judge_memory(world, samples):
    if len(samples) < 16:
        return
    quarter = len(samples) // 4
    for what, at in (('MiB of its own', 0), ('open files', 1)):
        early = statistics.median(sample[at] for sample in samples[quarter:2 * quarter])
        late = statistics.median(sample[at] for sample in samples[-quarter:])
        print(f'server B: {what}: {samples[0][at]:.0f} at first, {early:.0f} in the second quarter, {late:.0f} in the last', flush=True)
        if late > early * MEMORY_FACTOR + MEMORY_MIB:
            world.wrong(f'server B keeps more and more: {what} {early:.0f}, then {late:.0f}')


# ---- all of it

def options(redis, generator, origin, database):
    return ['--domain', 'localhost', '--set', f'page.grace_ttl={GRACE_S}s', '--set', f'page.historical_ttl={GRACE_S}s',
            '--set', f'redis.url=redis://127.0.0.1:{redis.port}',
            '--set', f'lists.related.generator={generator.url}', '--set', 'lists.related.params=user',
            '--set', 'lists.related.unique_by=link,image', '--set', 'lists.related.ttl=5s',
            '--set', f'list.bytes={CACHE_BYTES}', '--set', f'hot_bytes={CACHE_BYTES}',
            '--set', f'queue.stores=a=q-a, b={database}', '--set', 'queue.write_timeout=3s', '--set', 'drain_timeout=20s',
            *origin.options('wiki.test')]


def prepare(server):
    got = server.json('POST', '/v1/queues.create', body={'queue_name': 'work', 'lease_timeout': '5s', 'expire_timeout': '24h',
                                                         'requested_partitions': 4})
    assert got.status == 200, got
    for table in ('one', 'two'):
        got = server.json('PUT', f'{DOMAIN}/table/{table}', body={
            'table': table, 'attributes': {'key': 'string', 'rev': 'int', 'number': 'long'},
            'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'rev', 'type': 'range', 'order': 'desc'}]})
        assert got.status == 201, got
    got = server.request('PUT', f'{DOMAIN}/key_value/soak', body={})
    assert got.status == 201, got


def work(world, worker):
    while world.goes_on():
        try:
            worker.step()
        except Exception as error:     # pylint: disable=broad-except
            world.wrong(f'{type(worker).__name__}: {error!r}')


def drain(world, queues, consumers):
    """Until nothing that was acknowledged is left, and no lease finds anything; one queue after the other, as a lease of an
    empty one waits."""
    for name, queue in queues.items():
        until, empty = time.monotonic() + DRAIN_TIMEOUT, 0
        own = [consumer for consumer in consumers if consumer.queue is queue]
        for consumer in own:
            consumer.draining = True
        while time.monotonic() < until and empty < 4:
            came = [consumer.step() for consumer in own]
            empty = 0 if any(came) or queue.left() else empty + 1
        lost = sorted(queue.left())
        if lost:
            world.wrong(f'queue of server {name}: {len(lost)} acknowledged items were never delivered or never ended, as {lost[:5]}')
        print(f'queue of server {name}: {len(queue.acknowledged)} items acknowledged, {len(queue.completed)} completes acknowledged, '
              f'{len(queue.unknown)} of unknown outcome, {sum(n > 1 for n in queue.delivered.values())} delivered again', flush=True)


def report(world, servers, samples, began):
    with world.lock:
        counts = dict(world.counts)
    said = ', '.join(f'{name} {counts[name]}' for name in ('pages put', 'batches', 'items produced', 'items completed', 'displays',
                                                            'renders made anew') if name in counts)
    rss = f'{samples[-1][0]:.0f} MiB' if samples else '?'
    print(f'{time.monotonic() - began:.0f} s: {said}; B {rss}; {len(world.faults)} wrong', flush=True)


def soak(binary, seconds, seed, calm):
    world, rng, began = World(seconds), random.Random(seed), time.monotonic()
    samples = []
    with Redis() as redis, pg_cluster.Cluster() as cluster, Origin() as origin:
        generator = Generator()
        servers = {name: Server(binary, *options(redis, generator, origin, cluster.database(f'soak{name.lower()}')))
                   for name in 'AB'}
        queues = {name: Queue(world, 'work') for name in servers}
        workers, consumers = [], []
        for name, server in servers.items():
            prepare(server)
            number = ord(name)
            workers += [Pages(world, server, number), Values(world, server, number), Tables(world, server, number),
                        Wiki(world, server, number, origin), Lists(world, server, number),
                        Producer(world, server, number, queues[name])]
            consumers += [Consumer(world, server, f'{number}-{i}', queues[name]) for i in range(2)]
        threads = [threading.Thread(target=work, args=(world, worker)) for worker in (*workers, *consumers)]
        if not calm:
            threads += [threading.Thread(target=target, args=(world, what, random.Random(rng.random())))
                        for target, what in ((kill_server, servers['A']), (stop_redis, redis), (stop_postgres, cluster))]
        for thread in threads:
            thread.start()
        told = time.monotonic()
        while world.goes_on():
            samples.append(memory_of(servers['B']))
            world_wait(world, SAMPLE_S)
            if time.monotonic() - told >= REPORT_S:
                told = time.monotonic()
                report(world, servers, samples, began)
        world.stopping = True
        for thread in threads:
            thread.join()
        report(world, servers, samples, began)
        drain(world, queues, consumers)
        for worker in workers:
            worker.verify()
        judge_memory(world, samples)
        told = servers['B'].request('GET', '/metrics').body.decode()
        print('\n'.join(line for line in told.splitlines() if '_bytes' in line and line[0] != '#'), flush=True)
        for name, server in servers.items():
            if server.sigterm() != 0:
                world.wrong(f'server {name} did not end with 0')
            done = subprocess.run([binary, 'check', '--data', server.data], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                world.wrong(f'check of server {name}: {done.stdout} {done.stderr}')
            server.close()
        generator.close()
    print(json.dumps(dict(sorted(world.counts.items())), indent=1), flush=True)
    return world.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('binary')
    parser.add_argument('--seconds', type=int, default=3600)
    parser.add_argument('--seed', type=int, default=random.randrange(2**32))
    parser.add_argument('--calm', action='store_true')
    args = parser.parse_args()
    print(f'seed {args.seed}', flush=True)
    faults = soak(str(pathlib.Path(args.binary).resolve()), args.seconds, args.seed, args.calm)
    print('ok soak' if not faults else f'FAILED soak: {len(faults)} wrong, the first: {faults[0]}', flush=True)
    os._exit(1 if faults else 0)       # threads of the origin and the generator may still wait for a client


main()
