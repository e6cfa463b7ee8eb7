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

    def __init__(self, server, stream='t'):
        self.server, self.stream, self.told, self.began, self.pending = server, stream, 0, {}, []

    def event(self, n):
        return {'meta': {'stream': self.stream, 'domain': ('localhost', 'a.test')[n % TITLES % 2], 'id': f'id-{n}'},
                'page_title': f'T{n % TITLES}', 'n': n, 'fill': 'x' * (OWN_BYTES_MAX if n % 5 == 0 else 0)}

    def batch(self):
        """False: there was no answer; the same batch is next."""
        if not self.pending:
            self.pending = list(range(self.told, self.told + BATCH))
            self.told += BATCH
        for n in self.pending:
            self.began.setdefault(n, time.monotonic())
        try:
            eq(self.server.json('POST', '/v1/events', body=[self.event(n) for n in self.pending]).status, 201)
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


# Rules of each kind; {s} is a part of their names, which reloads change.
NAMED = """
    hook{s}: {{ match: {{ stream: mediawiki.job.t }}, effect: http, url: "{hook}/{s}/{{title}}", concurrency: 8, backoff: 20ms,
      backoff_factor: 1 }}
    edge{s}: {{ match: {{ stream: mediawiki.job.t }}, effect: purge, targets: ["{edge}"], urls: ["/{s}/{{title}}?n={{n}}"], rebound: 50ms,
      backoff: 20ms }}
    late{s}: {{ match: {{ stream: mediawiki.job.t, title: T0 }}, effect: http, url: "{late}/{s}/{{title}}", delay: 100ms, concurrency: 2 }}
    runs{s}: {{ match: {{ stream: mediawiki.job.t }}, effect: job, targets: ["{runner}/{s}"], concurrency: 8, backoff: 20ms }}
    work{s}: {{ match: {{ stream: mediawiki.job.t }}, effect: produce, queue: work }}"""


class Renamer:
    """Has rules get other names, by SIGHUP at drawn instants, while a server runs that may be killed at any time."""

    def __init__(self, reloaded, seed, **sinks):
        self.reloaded, self.draw, self.sinks = reloaded, random.Random(seed), sinks
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def text(self, *names):
        rules = ''.join(NAMED.format(s=name, **self.sinks) for name in names)
        return f'domains: {{ localhost: {{}}, a.test: {{}} }}\nchange:\n  rules:{rules}\n'

    def run(self):
        while not self.ends.wait(self.draw.random() * 0.1):
            process = self.reloaded.server.process      # before its lines: those of another would be younger
            ready = any((line or '').startswith('listening on ') for line in self.reloaded.server.lines)
            if process is not None and ready:
                self.reloaded.write(self.text(self.draw.choice('abc')))
                process.send_signal(signal.SIGHUP)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.ends.set()
        self.thread.join()


def by_name(requests):
    """Of paths /NAME/..., what each name of a rule was asked for, in its order."""
    got = collections.defaultdict(list)
    for request in requests:
        got[request['path'].split('/')[1]].append(request)
    return got


def check_each_order(sink):
    """A rule does the events of a title in their order; whose they are depends on its name then."""
    for name, requests in by_name(sink.requests).items():
        mine = list(dict.fromkeys(json.loads(request['body'])['n'] for request in requests))
        for title in range(TITLES):
            of_title = [n for n in mine if n % TITLES == title]
            eq(of_title, sorted(of_title), f'{SEED}: T{title} by {name}')


def check_newest(edge, newest):
    """What collapses ends at its newest event, of each name."""
    last = collections.defaultdict(int)
    for name, requests in by_name(edge.requests).items():
        for title in range(TITLES):
            mine = [int(r['path'].partition('?n=')[2]) for r in requests if r['path'].startswith(f'/{name}/T{title}?')]
            eq(mine[-1:], [max(mine)] if mine else [], f'{SEED}: the last purge of T{title} by {name}')
            last[title] = max([last[title], *mine])
    eq(dict(last), newest, f'{SEED}: the newest that was purged')


@scene
def nothing_is_lost_by_kills_while_rules_get_other_names(binary):
    print(f'seed {SEED}, {KILLS} kills', flush=True)
    draw, slow = random.Random(SEED), random.Random(SEED + 1)
    asked, ran, late = set(), set(), set()

    def into(numbers):
        def answers(request):
            time.sleep(slow.random() * 0.008)
            numbers.add(json.loads(request['body'])['n'])
        return answers
    with Sink(into(asked)) as hook, Sink() as edge, Sink(into(ran)) as runner, Sink(into(late)) as delayed, \
            Reloaded(binary, 'domains: { localhost: {}, a.test: {} }\n') as r:
        renamer = Renamer(r, SEED + 2, hook=hook.url, edge=edge.url, runner=runner.url, late=delayed.url)
        r.reload(renamer.text('a'))
        eq(r.server.json('POST', '/v1/queues.create', body={'queue_name': 'work', 'lease_timeout': '10m', 'expire_timeout': '24h',
                                                          'requested_partitions': 1}).status, 200)
        teller = Teller(r.server, 'mediawiki.job.t')
        with renamer:
            for _ in range(KILLS):
                killed_round(r.server, teller, draw)
            wait_until(teller.batch, 'the last answer')
        r.reload(renamer.text('a', 'b', 'c'))    # what is left of each name is done
        told = set(range(teller.told))
        newest = {title: max(n for n in told if n % TITLES == title) for title in range(TITLES)}
        wanted = ((asked, told), (ran, told), (late, {n for n in told if n % TITLES == 0}))

        def rests():
            return all(sum(rule[state] for state in ('ready', 'scheduled', 'running', 'dead')) == 0
                       for rule in r.server.json('GET', '/v1/admin.change').body['rules'])
        try:
            wait_until(lambda: all(got == want for got, want in wanted) and rests(), 'all', timeout=60 + len(told) / 100, pause=0.1)
        except SceneError:
            check(False, f'{SEED}: of {len(told)} events are not done: {[sorted(want - got) for got, want in wanted]}')
        check_each_order(hook)
        check_each_order(delayed)
        check_newest(edge, newest)
        got = queue_ledger(r.server, told)
        eq({n: count for n, count in got.items() if count > 1}, {}, f'{SEED}: items of the queue that are there twice')
        eq(r.server.json('POST', '/v1/admin.check').body['found'], [], f'{SEED}: damage')


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
