#!/usr/bin/env python3
"""cassandra.py - servers that keep their pages in a real Cassandra; prints Markdown.

    cassandra.py --build DIR [--quick] loss     reads and puts at a stated rate, while a node of three is killed and started
    cassandra.py --build DIR [--quick] hour     a title that is rendered each second: latency, rows, tombstones by window
    cassandra.py --build DIR [--quick] ready    ready answers of a server on Cassandra, beside an embedded one
    cassandra.py --build DIR [--quick] start    from the start of a server to its ready, all nodes there and one killed

DIR (build/bench) is a release build (meson setup DIR --buildtype=release && ninja -C DIR palimpsest). script/deps cassandra has
the packages; ready wants wrk. loss takes 6 minutes, hour 65, ready 3 and start 3; with --quick 2, 4, 1 and 2.

The load of loss and hour is open: each request has its instant, whatever became of those before it, and its latency counts from
that instant. So a server that stands still is seen by all requests that would have come meanwhile."""
import argparse
import collections
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tools/cassandra'), str(ROOT / 'bench')]
sys.dont_write_bytecode = True
from cluster import Cluster         # noqa: E402  pylint: disable=wrong-import-position
from jars import CassandraError     # noqa: E402  pylint: disable=wrong-import-position
from procs import Proc              # noqa: E402  pylint: disable=wrong-import-position

DOMAIN = 'bench.test'
PAGE = f'/{DOMAIN}/v1/page'
BODY_BYTES = 20000
REQUEST_S = 30          # a request that takes longer has failed
FINE = (200, 201)
WHY_BYTES = 300         # of an answer that failed
READY_S = 120
POLL_S = 0.005
WORKERS = 64            # under way at once; more, and requests are late, which counts
TITLE = 'Hot'
RECEIVED = 'cluster_bytes_total{way="received"}'


def note(text):
    print(f'cassandra.py: {text}', file=sys.stderr, flush=True)


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * (len(values) - 1) + 0.5))] if values else float('nan')


def body_of(number):
    return (f'<p>{number} ' + 'lorem ipsum dolor sit amet ' * (BODY_BYTES // 27)).encode()


# ---- servers

class Space:
    """A keyspace with its tables, and servers on it."""

    def __init__(self, args, cluster, name, *more):
        self.binary, self.cluster, self.name = args.binary, cluster, name
        points = ','.join(f'{host}:{cluster.port}' for host in cluster.contact_points)
        said = ('store.kind=cassandra', f'store.keyspace={name}', f'store.contact_points={points}',
                f'store.local_dc={cluster.datacentre(1)}', f'store.replication=dc1={cluster.nodes}', *more)
        self.words = [word for option in said for word in ('--set', option)]
        cluster.execute(f'DROP KEYSPACE IF EXISTS {name}')
        self.tool('store', 'schema')
        self.tool('policy', 'apply', '--set', f'domains={DOMAIN}')

    def tool(self, *verb):
        done = subprocess.run([self.binary, *verb, *self.words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=READY_S, check=False)
        if done.returncode:
            raise SystemExit(f'{" ".join(verb)}: {done.stderr}')

    def serve(self):
        return Server(self.binary, self.words)

    def rows(self, table):
        return self.cluster.execute(f'SELECT count(*) FROM {self.name}.{table}')[0]['count']

    def tombstones(self, table):
        """Mean and greatest of a read in the last five minutes, of the node that had most; None: there was no read."""
        worst = (0.0, 0.0)
        for n in self.cluster.numbers:
            said = self.cluster.nodetool(n, 'tablestats', '-F', 'json', f'{self.name}.{table}')
            stats = json.loads(said[said.index('{'):])[self.name]['tables'][table]
            worst = max(worst, tuple(float(stats[f'{which}_tombstones_per_slice_last_five_minutes'])
                                     for which in ('average', 'maximum')))
        return worst


class Server:
    def __init__(self, binary, words):
        self.folder = tempfile.mkdtemp(prefix='bench-cassandra-', dir='/var/tmp')
        self.began = time.monotonic()
        self.proc = Proc([binary, 'serve', '--data', f'{self.folder}/data', '--listen', '127.0.0.1:0', '--domain', DOMAIN,
                          *words], 'listening on ', stderr=f'{self.folder}/stderr')
        self.port = int(self.proc.url.rpartition(':')[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self):
        """Seconds since the start."""
        while ask(self.port, 'GET', '/readyz')[0] != 200:
            if time.monotonic() - self.began > READY_S:
                raise SystemExit(f'a server is not ready after {READY_S} s: {self.folder}/stderr')
            time.sleep(POLL_S)
        return time.monotonic() - self.began

    def metric(self, name):
        text = ask(self.port, 'GET', '/metrics')[1].decode()
        return int(re.search(rf'^palimpsest_{re.escape(name)} (\d+)$', text, re.M)[1])


def ask(port, method, path, body=None):
    """Status, body and headers, on a connection of its own; status None: it failed."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=REQUEST_S)
    with contextlib.closing(connection):
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        except (http.client.HTTPException, OSError):
            return None, b'', {}


def must(got, *statuses):
    if got[0] not in statuses:
        raise SystemExit(f'{got[0]} {got[1][:300]}')
    return got


# ---- an open load, in a process of its own

def load_ask(connections, port, path, body):
    """The status, with the words of what failed; None: the connection broke."""
    try:
        if port not in connections:
            connections[port] = http.client.HTTPConnection('127.0.0.1', port, timeout=REQUEST_S)
        connections[port].request('GET' if body is None else 'PUT', path, body)
        answer = connections[port].getresponse()
        said = answer.read()
        return answer.status if answer.status in FINE else f'{answer.status} {said[:WHY_BYTES].decode(errors="replace")}'
    except (http.client.HTTPException, OSError):
        connections.pop(port).close()
        return None


def load_worker(turns, plan, ports, began, samples):
    """Takes the next request, waits for its instant, asks on a connection that it keeps."""
    connections = {}
    while True:
        number, instant, kind, path, body = plan(next(turns), began)
        if instant is None:
            return
        time.sleep(max(0, instant - time.monotonic()))
        port = ports[number % len(ports)]
        kept = port in connections
        status = load_ask(connections, port, path, body)
        if status is None and kept:      # a server may end what was idle for long, just then
            status = load_ask(connections, port, path, body)
        samples.append((instant, time.monotonic() - instant, kind, status))


class Turns:
    """0, 1, 2, ... for many threads."""

    def __init__(self):
        self._numbers, self._lock = itertools.count(), threading.Lock()

    def __next__(self):
        with self._lock:
            return next(self._numbers)


def load_run(plan, ports, over, pipe):
    """plan(number, began, over): what the number-th request is, and when; over ends it."""
    samples, began, turns = [], time.monotonic() + 0.5, Turns()
    pipe.send(began)

    def bound(number, began):
        return (number, None, None, None, None) if over.is_set() else plan(number, began)
    threads = [threading.Thread(target=load_worker, args=(turns, bound, ports, began, samples)) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.send(samples)


class Load:
    """samples: (instant, seconds, kind, status), when it is over. Instants are those of time.monotonic()."""

    def __init__(self, plan, servers):
        context = multiprocessing.get_context('spawn')
        self._over = context.Event()
        self._pipe, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=load_run, args=(plan, [s.port for s in servers], self._over, theirs))
        self.samples = []

    def __enter__(self):
        self._process.start()
        if not self._pipe.poll(READY_S):
            raise SystemExit('the load does not begin')
        self._pipe.recv()
        return self

    def __exit__(self, *_):
        self._over.set()
        if self._pipe.poll(2 * REQUEST_S):
            self.samples = sorted(self._pipe.recv())
        self._process.join(REQUEST_S)
        if self._process.is_alive():
            self._process.kill()


class Mix:
    """Reads of the latest of many titles, and puts, one in so many requests, at a rate."""

    def __init__(self, rate, titles, put_each):
        self.rate, self.titles, self.put_each = rate, titles, put_each

    def __call__(self, number, began):
        instant, title = began + number / self.rate, f'T{number * 7 % self.titles}'
        if self.put_each and number % self.put_each == 0:
            return number, instant, 'put', f'{PAGE}/html/{title}/{10 + number}', body_of(number)
        return number, instant, 'get', f'{PAGE}/html/{title}', None


class Renders:
    """One title: at this rate it is rendered, and read, half a turn later. A revision has sixty renders."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, number, began):
        instant = began + number / self.rate / 2
        if number % 2 == 0:
            return number, instant, 'put', f'{PAGE}/html/{TITLE}/{1 + number // 120}', body_of(number)
        return number, instant, 'get', f'{PAGE}/html/{TITLE}', None


def cells_of(samples):
    """Count, failures, and p50, p99, p99.9 and the greatest in ms of those that did not fail."""
    fine = [seconds * 1000 for _, seconds, _, status in samples if status in FINE]
    failed = len(samples) - len(fine)
    return [str(len(samples)), str(failed)] + [f'{quantile(fine, q):.1f}' for q in (0.5, 0.99, 0.999, 1)]


# ---- a node is killed and started

def loss(args):
    calm = args.seconds or (10 if args.quick else 60)
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(Cluster(nodes=3))
        space = Space(args, cluster, 'loss', 'hot_ttl=0')
        servers = [ends.enter_context(space.serve()) for _ in range(args.servers)]
        for server in servers:
            server.wait_ready()
        for n in range(args.titles):
            must(ask(servers[n % len(servers)].port, 'PUT', f'{PAGE}/html/T{n}/1', body_of(n)), 201)
        note('the load begins')
        phases = []

        def phase(name, seconds=0):
            phases.append((time.monotonic(), name))
            note(name)
            time.sleep(seconds)
        with Load(Mix(args.rate, args.titles, args.put_each), servers) as load:
            phase('warms up', calm)
            phase('three nodes', calm)
            phase('one is killed (kill -9)')
            cluster.kill(2)
            time.sleep(calm)
            phase('it is started')
            cluster.start(2)
            phase('three nodes again', calm)
            phase('')
        print(f'{args.rate:g} requests/s at {args.servers} servers, three nodes and replicas, {args.titles} titles of {BODY_BYTES} '
              f'bytes, one put in {args.put_each}\n')
        print('| phase | seconds | what | requests | failed | p50 ms | p99 | p99.9 | max |\n| --- |' + ' ---: |' * 8)
        for (start, name), (end, _) in zip(phases, phases[1:]):
            for kind in ('get', 'put'):
                own = [s for s in load.samples if start <= s[0] < end and s[2] == kind]
                print(f'| {name} | {end - start:.0f} | {kind} | ' + ' | '.join(cells_of(own)) + ' |')
        whys = collections.Counter(str(s[3]) for s in load.samples if s[3] not in FINE)
        for why, count in whys.most_common():
            print(f'\nFailed {count} times: {why}')
        harmed = [s for s in load.samples if phases[2][0] <= s[0] < phases[4][0] and s[2] == 'get']
        p50, p99 = (float(cell) for cell in cells_of(harmed)[2:4])
        print(f'\nReads while a node was away or starting: p50 {p50:.1f} ms (goal 5), p99 {p99:.1f} ms (goal 100): '
              f'{"kept" if p50 <= 5 and p99 <= 100 else "MISSED"}')


# ---- one title, again and again

def hour(args):
    minutes = args.minutes or (3 if args.quick else 60)
    rate = args.rate_of_renders or (10 if args.quick else 1)
    grace = args.grace or (f'{max(10, int(minutes * 10))}s')      # as ten minutes are to an hour
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(Cluster(nodes=args.nodes))
        space = Space(args, cluster, 'hour', 'hot_ttl=0', f'page.grace_ttl={grace}', f'page.historical_ttl={grace}',
                      *args.more)
        server = ends.enter_context(space.serve())
        server.wait_ready()
        print(f'{rate:g} renders/s of one title for {minutes:g} minutes, page.grace_ttl {grace}, {args.nodes} node(s)\n\n'
              '| until, minutes | GET p50 ms | p99 | PUT p50 ms | p99 | failed | KB read a request | rows of facts | rows of bytes | culled '
              '| tombstones a read of facts, mean, max | of bytes |\n| ---: |' + ' ---: |' * 11, flush=True)
        windows, read_before = [], server.metric(RECEIVED)
        with Load(Renders(rate), [server]) as load:
            began = time.monotonic()
            for n in range(1, 13):
                start, end = time.monotonic(), began + n * minutes * 5
                time.sleep(max(0, end - start))
                end = time.monotonic()
                # What comes while this is looked at belongs to no window.
                got = server.metric(RECEIVED)
                looked = [got, space.rows('title'), space.rows('body'), server.metric('pages_culled_total'),
                          *[space.tombstones(table) for table in ('title', 'body')]]
                windows.append((start, end, (end - began) / 60, looked))
                note(f'{(end - began) / 60:.1f} minutes: {looked}')
        last = 0
        for start, end, until, (got, facts, rows, culled, *dead) in windows:
            # From one look to the next, as the figure is.
            asked = sum(last <= s[0] < end for s in load.samples)
            kb, last, read_before = (got - read_before) / max(1, asked) / 1000, end, got
            cells = {kind: cells_of([s for s in load.samples if start <= s[0] < end and s[2] == kind]) for kind in ('get', 'put')}
            failed = sum(int(cell[1]) for cell in cells.values())
            print(f'| {until:.1f} | ' + ' | '.join([*cells['get'][2:4], *cells['put'][2:4], str(failed), f'{kb:.1f}', str(facts), str(rows),
                  str(culled), *[f'{mean:.1f}, {most:.0f}' for mean, most in dead]]) + ' |')
        failed = {s[3] for s in load.samples} - set(FINE)
        print(f'\nStatuses of those that failed: {sorted(map(str, failed)) or "none"}')
        too_many(args, cluster)


def too_many(args, cluster):
    """At a day's grace nothing goes, and renders_max is met."""
    space = Space(args, cluster, 'day', 'hot_ttl=0', 'page.grace_ttl=1d')
    with space.serve() as server:
        server.wait_ready()
        for stored in itertools.count():
            status, said, headers = must(ask(server.port, 'PUT', f'{PAGE}/html/{TITLE}/1', body_of(stored)), 201, 429)
            if status == 429:
                break
        kind = json.loads(said)['type'].rpartition('/')[2]
        print(f'\npage.grace_ttl 1d: {stored} renders are stored, the next is 429 {kind}, Retry-After {headers["retry-after"]}; '
              f'the latest is {must(ask(server.port, "GET", f"{PAGE}/html/{TITLE}"), 200)[1][:12].decode()}')


# ---- ready answers

def wrk(server, seconds):
    """Requests a second, and microseconds of the server's processor time for one."""
    began, port = server.proc.cpu_s(), server.port
    done = subprocess.run(['wrk', '-t', '1', '-c', '16', '-d', f'{seconds}s', f'http://127.0.0.1:{port}{PAGE}/html/{TITLE}'],
                          capture_output=True, text=True, timeout=seconds + READY_S, check=True)
    if 'Non-2xx' in done.stdout:
        raise SystemExit(done.stdout)
    answered = int(re.search(r'(\d+) requests in', done.stdout)[1])
    return float(re.search(r'Requests/sec:\s+([\d.]+)', done.stdout)[1]), (server.proc.cpu_s() - began) * 1e6 / max(1, answered)


def ready(args):
    seconds, rounds = (3, 3) if args.quick else (10, 7)
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(Cluster())
        shared = ends.enter_context(Space(args, cluster, 'ready', 'hot_ttl=1s').serve())
        embedded = ends.enter_context(Server(args.binary, []))
        for server in (shared, embedded):
            server.wait_ready()
            must(ask(server.port, 'PUT', f'{PAGE}/html/{TITLE}/1', body_of(1)), 201)
            wrk(server, 1)
        ratios = []
        print('| round | embedded, requests/s | on Cassandra | ratio | embedded, us of processor a request | on Cassandra |\n| ---: |' +
              ' ---: |' * 5)
        for n in range(rounds):
            # Who comes first changes.
            pair = [(s, wrk(s, seconds)) for s in ((embedded, shared) if n % 2 else (shared, embedded))]
            (a, a_us), (b, b_us) = (next(said for s, said in pair if s is which) for which in (embedded, shared))
            ratios.append(b / a)
            print(f'| {n + 1} | {a:.0f} | {b:.0f} | {b / a:.2f} | {a_us:.0f} | {b_us:.0f} |', flush=True)
        print(f'\nMedian {statistics.median(ratios):.2f}; {shared.metric("hot_hits_total")} answers of the server on Cassandra were ready')


# ---- the start

def start(args):
    rounds = 3 if args.quick else 11
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(Cluster(nodes=3))
        space = Space(args, cluster, 'start')
        print('| nodes | rounds | to ready, median s | least | greatest |\n| --- | ---: | ---: | ---: | ---: |')

        def measure(name):
            took = []
            for _ in range(rounds):
                with space.serve() as server:
                    took.append(server.wait_ready())
            print(f'| {name} | {rounds} | {statistics.median(took):.2f} | {min(took):.2f} | {max(took):.2f} |', flush=True)
        measure('three of three')
        for n in (1, 3):            # the first that is asked, and the last
            cluster.kill(n)
            measure(f'two of three, number {n} is killed')
            cluster.start(n)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=('loss', 'hour', 'ready', 'start'))
    parser.add_argument('--build', default=str(ROOT / 'build/bench'), help='[build/bench]')
    parser.add_argument('--quick', action='store_true', help='whether it runs, rather than figures')
    parser.add_argument('--rate', type=float, default=50, help='loss: requests a second [50]')
    parser.add_argument('--servers', type=int, default=2, help='loss [2]')
    parser.add_argument('--titles', type=int, default=200, help='loss [200]')
    parser.add_argument('--put-each', type=int, default=10, help='loss: one request in so many is a put [10]; 0: none')
    parser.add_argument('--seconds', type=float, help='loss: of each phase [60]')
    parser.add_argument('--minutes', type=float, help='hour [60]')
    parser.add_argument('--renders', type=float, dest='rate_of_renders', help='hour: a second [1]')
    parser.add_argument('--grace', help='hour: page.grace_ttl [a sixth of the time]')
    parser.add_argument('--nodes', type=int, default=1, help='hour [1]')
    parser.add_argument('--set', action='append', default=[], dest='more', metavar='NAME=VALUE', help='hour: more options')
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.build, 'palimpsest').resolve())
    if not os.access(args.binary, os.X_OK):
        parser.error(f'{args.binary} is not there: meson setup {args.build} --buildtype=release && ninja -C {args.build} palimpsest')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))      # so that nodes and folders go, too
    print(f'load average at the start {os.getloadavg()[0]:.1f}', flush=True)
    try:
        {'loss': loss, 'hour': hour, 'ready': ready, 'start': start}[args.what](args)
    except CassandraError as error:
        raise SystemExit(f'cassandra.py: {error}') from None


if __name__ == '__main__':
    main()
