"""Goal: whatever is told is done, at least once and in order, wherever between its intake and its last effect the server is
killed; what has a key is done once. Method: kill -9 at random instants while events come in and their effects go out, for
rules of each kind at once, with a ledger at each target. A client tells what had no answer again, with the same ids. KILLS
[12] says how often, SEED chooses the instants and is printed."""
import base64
import collections
import http.client
import json
import os
import random
import signal
import threading
import time

from harness import SceneError, check, eq, main, scene, wait_until
from reload_help import Reloaded
from sink_help import Sink

KILLS = int(os.environ.get('KILLS', '12'))
SEED = int(os.environ.get('SEED', str(random.randrange(2**32))))
TITLES, BATCH, DELAY = 7, 10, 0.3
OWN_BYTES_MAX = 4096    # a larger event is stored once for all its items
RULES = """domains: {{ localhost: {{}}, a.test: {{}} }}
change:
  rules:
    hook: {{ match: {{ stream: t }}, effect: http, url: "{0}/{{title}}", concurrency: 8, backoff: 20ms, backoff_factor: 1 }}
    edge: {{ match: {{ stream: t }}, effect: purge, targets: ["{1}"], urls: ["/{{title}}?n={{n}}"], rebound: 50ms, backoff: 20ms }}
    late: {{ match: {{ stream: t, title: T0 }}, effect: http, url: "{2}/{{title}}", delay: 300ms, concurrency: 2 }}
    work: {{ match: {{ stream: t }}, effect: produce, queue: work }}
"""


class Teller:
    """Tells events in batches until each has its answer; the server may be killed under it."""

    def __init__(self, server):
        self.server, self.told, self.began, self.pending = server, 0, {}, []

    def batch(self):
        """False: there was no answer; the same batch is next."""
        if not self.pending:
            self.pending = list(range(self.told, self.told + BATCH))
            self.told += BATCH
        for n in self.pending:
            self.began.setdefault(n, time.monotonic())
        body = [{'meta': {'stream': 't', 'domain': ('localhost', 'a.test')[n % TITLES % 2], 'id': f'id-{n}'},
                 'page_title': f'T{n % TITLES}', 'n': n, 'fill': 'x' * (OWN_BYTES_MAX if n % 5 == 0 else 0)} for n in self.pending]
        try:
            eq(self.server.json('POST', '/v1/events', body=body).status, 201)
        except (http.client.HTTPException, OSError, SceneError):
            if self.server.process.poll() is None:
                wait_until(lambda: self.server.process.poll() is not None, 'the kill that took the answer')
            return False
        self.pending = []
        return True


def killed_round(server, teller, draw):
    """Tells until the kill, which comes at an instant that is drawn; starts the server again."""
    timer = threading.Timer(draw.random() * 0.4, os.kill, (server.pid, signal.SIGKILL))
    timer.start()
    while server.process.poll() is None:
        if not teller.batch():
            break
        if draw.random() < 0.3:     # time for effects alone
            time.sleep(draw.random() * 0.05)
    timer.join()
    eq(server.wait_exit(), -signal.SIGKILL)
    server.start()
    if draw.random() < 0.3:         # and killed again at once
        time.sleep(draw.random() * 0.02)
        server.kill9()
        server.start()


def firsts(sink):
    """Numbers in the order of their first times."""
    return list(dict.fromkeys(event['n'] for event in sink.events()))


def queue_ledger(server, wanted):
    got = collections.Counter()

    def lease():
        answer = server.json('POST', '/v1/queue.lease',
                             body={'queue_name': 'work', 'batch_size': 500, 'client_id': 'c', 'request_timeout': '1s'})
        for one in answer.body.get('items', []) if answer.status == 200 else []:
            got[json.loads(base64.b64decode(one['bytes']))['n']] += 1
        return set(got) >= wanted
    wait_until(lease, 'all items of the queue', timeout=60)
    return got


def check_order(sink):
    for title in range(TITLES):
        mine = [n for n in firsts(sink) if n % TITLES == title]
        eq(mine, sorted(mine), f'{SEED}: T{title}')


@scene
def nothing_is_lost_by_kills(binary):
    print(f'seed {SEED}, {KILLS} kills', flush=True)
    draw = random.Random(SEED)
    slow = random.Random(SEED + 1)
    arrived = {}

    requested = set()

    def answers(request):
        time.sleep(slow.random() * 0.008)

    def ask(request):
        answers(request)
        requested.add(json.loads(request['body'])['n'])

    def late(request):
        arrived.setdefault(json.loads(request['body'])['n'], time.monotonic())
    with Sink(ask) as hook, Sink(answers) as edge, Sink(late) as delayed, \
            Reloaded(binary, RULES.format(hook.url, edge.url, delayed.url)) as r:
        eq(r.server.json('POST', '/v1/queues.create', body={'queue_name': 'work', 'lease_timeout': '10m', 'expire_timeout': '24h',
                                                          'requested_partitions': 1}).status, 200)
        teller = Teller(r.server)
        for _ in range(KILLS):
            killed_round(r.server, teller, draw)
        wait_until(teller.batch, 'the last answer')
        told = set(range(teller.told))
        newest = {title: max(n for n in told if n % TITLES == title) for title in range(TITLES)}
        wait_until(lambda: len(requested) == len(told), f'{SEED}: all requests, of {len(told)}', timeout=60 + len(told) / 100, pause=0.1)
        eq(requested, told)
        check_order(hook)
        wait_until(lambda: all(f'/T{t}?n={n}' in edge.paths() for t, n in newest.items()), f'{SEED}: all purges', timeout=60)
        wait_until(lambda: set(arrived) == {n for n in told if n % TITLES == 0}, f'{SEED}: all delayed ones', timeout=60)
        check_order(delayed)
        check(all(at >= teller.began[n] + DELAY - 0.01 for n, at in arrived.items()), f'{SEED}: one came before its delay')
        got = queue_ledger(r.server, told)
        eq({n: count for n, count in got.items() if count > 1}, {}, f'{SEED}: items of the queue that are there twice')
        eq(r.server.json('POST', '/v1/admin.check').body['found'], [], f'{SEED}: damage')
        for title, n in newest.items():
            eq([p for p in edge.paths() if p.startswith(f'/T{title}?')][-1], f'/T{title}?n={n}', f'{SEED}: the last purge')


@scene
def a_large_event_for_many_is_stored_once_and_outlives_kills(binary):
    many, large = 40, 9 << 20
    with Sink() as sink:
        rule = f'{{ match: {{ stream: t }}, effect: http, url: "{sink.url}/%d" }}'
        each = '\n    '.join(f'r{n}: {rule % n}' for n in range(many))
        with Reloaded(binary, f'domains: {{ localhost: {{}} }}\nchange:\n  retention: 1m\n  rules:\n    {each}\n', test_hooks=True) as r:
            event = {'meta': {'stream': 't', 'domain': 'localhost', 'id': 'one'}, 'page_title': 'A', 'fill': 'x' * large}
            for n in range(many):
                eq(r.server.json('POST', '/v1/admin.change.pause', body={'rule': f'r{n}'}).status, 200)
            eq(r.server.json('POST', '/v1/events', body=event).status, 201)

            def ready():
                return sum(rule['ready'] for rule in r.server.json('GET', '/v1/admin.change').body['rules'])
            wait_until(lambda: ready() == many, 'an item of each rule')
            r.server.kill9()
            stored = sum(file.stat().st_blocks * 512 for file in r.server.data.rglob('*') if file.is_file())
            check(stored < 4 * large, f'{stored} bytes')
            r.server.start()
            eq(r.server.json('POST', '/v1/test.clock', body={'advance': '2m'}).status, 200)    # the log has it no more
            for n in range(many):
                eq(r.server.json('POST', '/v1/admin.change.resume', body={'rule': f'r{n}'}).status, 200)
            wait_until(lambda: len(sink.requests) >= 3, 'the first ones')
            r.server.kill9()
            r.server.start()

            def whole():    # the kill cut some
                return [q for q in list(sink.requests) if len(q['body']) == int(q['headers']['Content-Length'])]
            wait_until(lambda: len({q['path'] for q in whole()}) == many and ready() == 0, 'all of them', timeout=60)
            eq({json.loads(q['body']) == event for q in whole()}, {True})
            eq(r.server.json('POST', '/v1/admin.check').body['found'], [])


if __name__ == '__main__':
    main()
