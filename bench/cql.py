#!/usr/bin/env python3
"""cql.py - our client of Cassandra beside the drivers that Debian has, python3-cassandra and gocql; prints Markdown.

    bench/cql.py --build DIR                        starts a Cassandra of its own (--nodes 3: three), and ends it
    bench/cql.py --build DIR --at HOST:PORT         uses one that runs; the keyspace `load` there is made anew
    bench/cql.py --build DIR --bytes 1024 --at-a-time 128 --clients ours5,go --rounds 2 --requests 2000

DIR is a release build (meson setup DIR --buildtype=release) with the target bench/cql_load. script/deps bench and
script/deps cassandra have the packages; a driver that is not there is left out, and that is said.

What counts is requests a second of the client's processor time, by getrusage of the client from its first request to
its last: the start of the program, its connections, and in the drivers the preparing of statements are not in it.
Requests/s and latency are of client and server together, who share the machine.

A case is a body's size, how many requests are under way, and writes or reads. Each round of a case runs all clients
one after the other, in another order each time. Ratios are of medians over the rounds, with the least and the greatest
ratio of a round behind them. At the end ours, with protocol 5, stands beside the cheapest way to run each driver."""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tools/cassandra')]      # before this folder: a module there has the name of this program
sys.dont_write_bytecode = True
import cql                          # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster         # noqa: E402  pylint: disable=wrong-import-position
from jars import CassandraError     # noqa: E402  pylint: disable=wrong-import-position

DRIVERS = {'python': 'python3-cassandra', 'go': 'gocql'}
GOALS = {'python': 5, 'go': 1.5}
OURS = 'ours5'
# What runs it, what it is called, flags, environment. gocql has no protocol 5.
CLIENTS = {
    OURS: ('ours', 'ours, protocol 5', (), {}),
    'ours4': ('ours', 'ours, protocol 4', ('v4',), {}),
    'python5': ('python', 'python3-cassandra, protocol 5', (), {}),
    'python4': ('python', 'python3-cassandra, protocol 4', ('v4',), {}),
    'go': ('go', 'gocql', ('v4',), {}),
    'go1': ('go', 'gocql, GOMAXPROCS=1', ('v4',), {'GOMAXPROCS': '1'}),
    'go1once': ('go', 'gocql, GOMAXPROCS=1, sends at once', ('v4', 'at_once'), {'GOMAXPROCS': '1'}),
}
WAYS = {'write': 'writes', 'read': 'reads'}
ROWS = 4000                     # that exist: as many as the clients ask for
WARM_ROUNDS, WARM_REQUESTS, WARM_BYTES = 4, 20000, 1024
FEWER = {1: 10, 16: 2}          # requests at so few at a time
LARGE, LARGE_FEWER = 10000, 4
RUN_TIMEOUT = 900
TRIES = 3
GOCODE = '/usr/share/gocode'
GOCQL = 'src/github.com/gocql/gocql'
# Not to wait in the server for what is set small for tests with many nodes.
SETTINGS = {'concurrent_writes': 64, 'concurrent_reads': 32, 'memtable_heap_space': '256MiB', 'memtable_offheap_space': '256MiB'}
TABLE = 'CREATE TABLE load.page (title text, rev bigint, body blob, PRIMARY KEY (title, rev))'


def note(text):
    print(f'cql.py: {text}', file=sys.stderr, flush=True)


def said(*command, **more):
    """What a program says, '' when there is none or it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ''


def version(package):
    return said('dpkg-query', '-W', '-f', '${Version}', package) or 'of no package'


def python_driver(_args, _folder):
    """(the command, what it is)"""
    look = 'import cassandra, sys; print(cassandra.__version__, "on Python", sys.version.split()[0])'
    for python in (sys.executable, '/usr/bin/python3'):
        found = said(python, '-c', look)
        if found:
            return (python, str(ROOT / 'bench/cql/peer.py')), f'python3-cassandra {found}'
    return None, 'no python3-cassandra here: left out (script/deps bench installs it)'


def go_driver(args, folder):
    """The same of gocql, which is built first."""
    go = next((one for one in (args.go, '/usr/bin/go', shutil.which('go')) if one and os.access(one, os.X_OK)), None)
    if go is None or not os.path.isdir(f'{GOCODE}/{GOCQL}'):
        return None, f'no {"gocql" if go else "Go"} here: gocql is left out (script/deps bench installs both)'
    env = {**os.environ, 'GOPATH': GOCODE, 'GO111MODULE': 'off', 'GOFLAGS': ''}
    binary = f'{folder}/peer'
    built = subprocess.run([go, 'build', '-o', binary, str(ROOT / 'bench/cql/peer.go')], env=env, capture_output=True, text=True,
                           check=False)
    if built.returncode:
        note(built.stderr.strip())
        return None, 'bench/cql/peer.go does not build with this gocql: left out'
    return (binary,), f'gocql {version("golang-github-gocql-gocql-dev")} with {said(go, "version").split()[2]}'


class Bench:
    def __init__(self, args, folder):
        self.args = args
        load = pathlib.Path(args.build, 'bench/cql_load')
        if not os.access(load, os.X_OK):
            raise SystemExit(f'{load} is not there: ninja -C {args.build} bench/cql_load')
        commands = {'ours': (str(load),)}
        for name, find in (('python', python_driver), ('go', go_driver)):
            if not any(CLIENTS[client][0] == name for client in args.clients):
                continue
            command, what = find(args, folder)
            if command:
                commands[name] = command
            note(what)
            print(f'- {what}')
        self.commands = commands
        self.clients = [client for client in args.clients if CLIENTS[client][0] in commands]
        self.address, self.dc = args.at, args.dc

    def run(self, client, way, count, at_a_time, size):
        """One run's figures. A request that failed spoils the run, which is then made again."""
        kind, name, flags, env = CLIENTS[client]
        command = [*self.commands[kind], self.address, self.dc, way, *map(str, (count, at_a_time, size)), *flags,
                   *(('quorum',) if self.args.quorum else ())]
        for _ in range(TRIES):
            done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=RUN_TIMEOUT,
                                  check=False)
            if done.returncode == 0:
                return json.loads(done.stdout)
            note(f'{name}, {count} {WAYS[way]} of {size} bytes: {done.stdout}{done.stderr}')
        raise SystemExit(f'cql.py: {name} failed {TRIES} times')

    def warm(self):
        """The server's compiler has seen what is asked of it."""
        for number in range(WARM_ROUNDS if self.args.requests >= WARM_REQUESTS else 1):
            for client in ('ours5', 'ours4') if number % 2 else ('ours4', 'ours5'):
                for way in WAYS:
                    self.run(client, way, max(ROWS, min(WARM_REQUESTS, self.args.requests)), 128, WARM_BYTES)

    def case(self, way, size, at_a_time):
        """{client: its runs}"""
        count = self.args.requests // FEWER.get(at_a_time, 1) // (LARGE_FEWER if size >= LARGE else 1)
        runs = {client: [] for client in self.clients}
        for number in range(self.args.rounds):
            shift = number % len(self.clients)
            order = self.clients[shift:] + self.clients[:shift]
            for client in reversed(order) if number % 2 else order:
                runs[client].append(self.run(client, way, max(count, at_a_time), at_a_time, size))
        return runs


def median(runs, what):
    return statistics.median(run[what] for run in runs)


def ratio(ours, theirs):
    """(of medians, the least and the greatest of a round)"""
    each = [one['per_cpu_s'] / other['per_cpu_s'] for one, other in zip(ours, theirs)]
    return median(ours, 'per_cpu_s') / median(theirs, 'per_cpu_s'), min(each), max(each)


def times(found):
    return f'{found[0]:.2f}x ({found[1]:.2f} to {found[2]:.2f})'


def size_name(size):
    return f'{size >> 10} KB' if size % 1024 == 0 else f'{size} B'


def table(title, runs):
    print(f'\n| {title} | requests a processor second | requests/s | p50 us | p99 us | ours against it |')
    print('| --- |' + ' ---: |' * 5)
    for client, seen in runs.items():
        cells = [f'{median(seen, what):.0f}' for what in ('per_cpu_s', 'per_s', 'p50_us', 'p99_us')]
        against = times(ratio(runs[OURS], seen)) if OURS in runs and client != OURS else ''
        print(f'| {CLIENTS[client][1]} | ' + ' | '.join(cells) + f' | {against} |', flush=True)


def cheapest(runs, kind):
    """Of the ways to run a driver."""
    return max((client for client in runs if CLIENTS[client][0] == kind), key=lambda client: median(runs[client], 'per_cpu_s'))


def summary(cases, clients):
    """Ours beside the drivers, each run as it was cheapest in the case."""
    kinds = [kind for kind in DRIVERS if any(CLIENTS[client][0] == kind for client in clients)]
    if OURS not in clients or not kinds:
        return
    heads = [f'against {DRIVERS[kind]}, goal {GOALS[kind]}x' for kind in kinds]
    print('\n| ours, protocol 5 | requests a processor second | ' + ' | '.join(heads) + ' |')
    print('| --- | ---: |' + ' --- |' * len(kinds))
    for title, runs in cases.items():
        cells = []
        for kind in kinds:
            best = cheapest(runs, kind)
            found = ratio(runs[OURS], runs[best])
            cells.append(f'{times(found)} {"met" if found[0] >= GOALS[kind] else "short"}: {CLIENTS[best][1]}')
        print(f'| {title} | {median(runs[OURS], "per_cpu_s"):.0f} | ' + ' | '.join(cells) + ' |')


def make_table(session, replication):
    session.execute('DROP KEYSPACE IF EXISTS load')
    session.execute(f'CREATE KEYSPACE load WITH replication = {replication}')
    session.execute(TABLE)


def measure(bench, session):
    """All cases: the rows of a size are written first, so that whoever reads finds them."""
    args, cases = bench.args, {}
    note('warms up')
    bench.warm()
    for size in args.bytes:
        session.execute('TRUNCATE load.page')
        bench.run('ours5', 'write', ROWS, 128, size)
        for at_a_time in args.at_a_time:
            for way, name in WAYS.items():
                title = f'{name} of {size_name(size)}, {at_a_time} at a time'
                note(title)
                began = time.monotonic()
                cases[title] = bench.case(way, size, at_a_time)
                table(title, cases[title])
                note(f'{time.monotonic() - began:.0f} s')
    summary(cases, bench.clients)


def with_cluster(bench):
    args = bench.args
    if args.at:
        host, _, port = args.at.rpartition(':')
        with cql.Session(host, int(port)) as session:
            make_table(session, f"{{'class': 'NetworkTopologyStrategy', '{args.dc}': {args.nodes}}}")
            measure(bench, session)
        return
    with Cluster(nodes=args.nodes, heap=args.heap, yaml=SETTINGS) as cluster:
        bench.address, bench.dc = f'{cluster.address(1)}:{cluster.port}', cluster.datacentre(1)
        with cluster.session() as session:
            make_table(session, cluster.replication())
            measure(bench, session)


def numbers(text):
    return [int(word) for word in text.split(',')]


def names(text):
    found = text.split(',')
    if not set(found) <= set(CLIENTS):
        raise argparse.ArgumentTypeError(f'clients are {", ".join(CLIENTS)}')
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--nodes', type=int, default=1, help='and replicas of each row [1]')
    parser.add_argument('--at', metavar='HOST:PORT', help='a Cassandra that runs')
    parser.add_argument('--dc', default='dc1', help='its data centre [dc1]')
    parser.add_argument('--heap', default='1G', help='of a node that is started [1G]')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--requests', type=int, default=20000, metavar='N',
                        help='of a run with more than 16 at a time; half of it with 16, a tenth with 1, '
                             'a quarter of that with bodies of 10 KB and more [20000]')
    parser.add_argument('--bytes', type=numbers, default=[100, 1024, 20480], help='[100,1024,20480]')
    parser.add_argument('--at-a-time', type=numbers, default=[1, 16, 128], help='[1,16,128]')
    parser.add_argument('--clients', type=names, default=list(CLIENTS), help=f'[{",".join(CLIENTS)}]')
    parser.add_argument('--quorum', action='store_true', help='reads at LOCAL_QUORUM as well; writes are always')
    parser.add_argument('--go', help='which Go builds the peer [/usr/bin/go, else that of PATH]')
    args = parser.parse_args()
    print(f'{args.nodes} node{"s" if args.nodes > 1 else ""}, {args.rounds} rounds, load average at the start '
          f'{os.getloadavg()[0]:.1f}\n')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))      # so that the nodes and the folders go, too
    folder = tempfile.mkdtemp(prefix='bench-cql-', dir='/var/tmp')
    try:
        with_cluster(Bench(args, folder))
    except CassandraError as error:
        raise SystemExit(f'cql.py: {error}') from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    main()
