#!/usr/bin/env python3
"""strategies.py - the seed's ways to keep renders, on a real Cassandra, and ours beside them; prints Markdown.

    bench/strategies.py                   what does not depend on the machine's load: requests and bytes on the wire, disk
                                          after compaction, what was answered wrong, timelines. About half an hour
    bench/strategies.py --quick           latency alone, on an idle machine: under six minutes
    bench/strategies.py --only app_ttl:0.1,ours:0.1 --creations 200
    bench/strategies.py --keep FILE       goes on with the cases that FILE has not, and adds them there
    bench/strategies.py --build DIR --at FOLDER        a node that tools/cassandra/run.py --dir FOLDER up has started

DIR (build/bench) is a release build with the target bench/cql_strategies. script/deps cassandra has the packages.

Each case is a strategy and the probability of its range deletes (of ours: of the upkeep of a title behind a put). All see
one trace (bench/strategies/trace.h) in a keyspace of their own. Requests and bytes are counted by a proxy
(test/cassandra/proxy.py) between the program and the node; the program tells which of its requests were for what, and
the sum has to be what the proxy saw. TTLs run by the trace's time, so nothing is compacted before a trace is over."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'test/cassandra'), str(ROOT / 'tools/cassandra')]
sys.dont_write_bytecode = True
from cluster import Cluster         # noqa: E402  pylint: disable=wrong-import-position
from jars import CassandraError     # noqa: E402  pylint: disable=wrong-import-position
from proxy import Proxy           # noqa: E402  pylint: disable=wrong-import-position

DRAWN = ('app_ttl', 'two_table', 'two_table_latest_hash', 'per_query_b_on_update', 'ours')   # at each probability
AT_ONE = ('app_ttl_apart', 'app_ttl_sampled', 'per_query_a_through', 'per_query_a_on_read', 'per_query_a_on_update',
          'per_query_a_on_update_dated', 'per_query_a_raw', 'per_query_b_through', 'per_query_b_on_read',
          'per_query_b_on_update_dated')
PROBABILITIES = (1, 0.1, 0.01)
# How often the corner case hits: many who look up old revisions, of titles that are edited often, and nobody else.
CORNER_PROBABILITIES = (1, 0.3, 0.1, 0.03, 0.01)
CORNER = {'app_ttl': CORNER_PROBABILITIES, 'two_table_latest_hash': CORNER_PROBABILITIES, 'ours': (1, 0.1)}
CORNER_TRACE = {'creations': 1000, 'titles': 10, 'days': 30, 'looks': 0, 'olds': 2}
NAMES = {
    'app_ttl': 'app_ttl', 'app_ttl_apart': 'app_ttl, contents apart', 'app_ttl_sampled': 'app_ttl, index sampled',
    'two_table': 'two_table', 'two_table_latest_hash': 'two_table, latest_hash',
    'per_query_a_through': 'per_query A, write-through', 'per_query_a_on_read': 'per_query A, copy-on-read',
    'per_query_a_on_update': 'per_query A, copy-on-update',
    'per_query_a_on_update_dated': 'per_query A, copy-on-update, dated',
    'per_query_a_raw': 'per_query A, copy-on-update, UUID as it stands',
    'per_query_b_through': 'per_query B, write-through', 'per_query_b_on_read': 'per_query B, copy-on-read',
    'per_query_b_on_update': 'per_query B, copy-on-update',
    'per_query_b_on_update_dated': 'per_query B, copy-on-update, dated', 'ours': 'ours',
}
DUTIES = ('latest', 'recent', 'late', 'asked', 'corner')
OPS = ('put', 'cull', 'keep', 'read_latest', 'read_named')
QUICK = {'workers': 4, 'creations': 200, 'titles': 16}
RUN_TIMEOUT = 1800
# A slow machine changes no count: nothing ends for its slowness.
SETTINGS = {'memtable_heap_space': '256MiB', 'memtable_offheap_space': '256MiB', 'concurrent_writes': 32,
            'read_request_timeout': '50s', 'range_request_timeout': '50s', 'write_request_timeout': '50s'}


def note(text):
    print(f'strategies.py: {text}', file=sys.stderr, flush=True)


def title(variant, p):
    return f'{NAMES[variant]}, p {p:g}' if variant in DRAWN else NAMES[variant]


class Bench:
    def __init__(self, args, cluster):
        self.args, self.cluster = args, cluster
        self.program = pathlib.Path(args.build, 'bench/cql_strategies').resolve()
        if not os.access(self.program, os.X_OK):
            raise SystemExit(f'{self.program} is not there: meson setup {args.build} --buildtype=release && '
                             f'ninja -C {args.build} bench/cql_strategies')
        self.number = 0

    def keyspace(self):
        """A new one."""
        self.number += 1
        name = f'strategies_{os.getpid()}_{self.number}'
        with self.cluster.session() as session:
            session.execute(f'DROP KEYSPACE IF EXISTS {name}')
            session.execute(f'CREATE KEYSPACE {name} WITH replication = {self.cluster.replication()}')
        return name

    def run(self, point, keyspace, variant, **options):
        """What the program says."""
        words = [f'{name}={value}' for name, value in options.items()]
        done = subprocess.run([str(self.program), point, self.cluster.datacentre(1), keyspace, variant, *words],
                              capture_output=True, text=True, timeout=RUN_TIMEOUT, check=False)
        if done.returncode:
            raise SystemExit(f'strategies.py: {variant}: {done.stdout}{done.stderr}')
        return json.loads(done.stdout)

    def options(self):
        args = self.args
        return {'creations': args.creations, 'titles': args.titles, 'days': args.days, 'seed': args.seed}

    def disk(self, keyspace):
        """Bytes by table, after compaction, of all nodes. Files that compaction has replaced are not counted."""
        tables = {}
        for n in self.cluster.numbers:
            self.cluster.nodetool(n, 'flush', keyspace)
            self.cluster.nodetool(n, 'compact', keyspace)
            said = self.cluster.nodetool(n, 'tablestats', '-F', 'json', keyspace)
            for table, stats in json.loads(said[said.index('{'):])[keyspace]['tables'].items():
                tables[table] = tables.get(table, 0) + int(stats['space_used_live'])
        return tables

    def counted(self, variant, p):
        """A case through the proxy, with what the proxy saw and what lies on disk then."""
        keyspace = self.keyspace()
        with Proxy(self.cluster.address(1), self.cluster.port) as proxy:
            seen = self.run(f'{proxy.host}:{proxy.port}', keyspace, variant, p=p, count=1, **self.options())
            counts = proxy.counts()
        statements = counts['statements']
        looks = sum(count for text, count in statements.items() if 'COUNT(*)' in text)
        wire = counts['requests']['EXECUTE'] + counts['requests']['BATCH'] - looks
        told = sum(seen[op]['requests'] for op in OPS)
        if wire != told:
            raise SystemExit(f'strategies.py: {variant}: {wire} requests on the wire, the program tells of {told}')
        seen['wire'] = wire
        seen['sent'], seen['received'] = counts['bytes']['requests'], counts['bytes']['answers']
        seen['index'] = sum(count for text, count in statements.items() if re.match(r'INSERT INTO \S+_timeline', text))
        seen['disk'] = self.disk(keyspace)
        with self.cluster.session() as session:
            session.execute(f'DROP KEYSPACE {keyspace}')
        return seen

    def timed(self, variant, p):
        return self.direct(variant, p, {**self.options(), **QUICK})

    def cornered(self, variant, p):
        return self.direct(variant, p, {**CORNER_TRACE, 'seed': self.args.seed})

    def direct(self, variant, p, options):
        """Without the proxy."""
        keyspace = self.keyspace()
        seen = self.run(f'{self.cluster.address(1)}:{self.cluster.port}', keyspace, variant, p=p, **options)
        with self.cluster.session() as session:
            session.execute(f'DROP KEYSPACE {keyspace}')
        return seen

    def timelines(self):
        keyspace = self.keyspace()
        seen = self.run(f'{self.cluster.address(1)}:{self.cluster.port}', keyspace, 'timelines')
        seen['disk'] = self.disk(keyspace)
        return seen


# ---- tables

def each(seen, op):
    done = seen[op]['done']
    return f'{seen[op]["requests"] / done:.2f}' if done else '-'


def print_costs(cases):
    print('\n| strategy | requests a put | for its cull | a lookup of the latest | a lookup by name | a miss kept '
          '| index rows a put | MB sent | MB received | html rows at the end, needed | MB on disk |')
    print('| --- |' + ' ---: |' * 10)
    for (variant, p), seen in cases.items():
        puts = seen['put']['done']
        cells = [each(seen, 'put'), f'{seen["cull"]["requests"] / puts:.2f}', each(seen, 'read_latest'),
                 each(seen, 'read_named'), each(seen, 'keep'), f'{seen["index"] / puts:.2f}', f'{seen["sent"] / 1e6:.1f}',
                 f'{seen["received"] / 1e6:.1f}', f'{seen["rows"]}, {seen["needed"]}',
                 f'{sum(seen["disk"].values()) / 1e6:.2f}']
        print(f'| {title(variant, p)} | ' + ' | '.join(cells) + ' |')


def faults(seen, duty):
    one = seen[duty]
    wrong = f' + {one["other"]} other' if one['other'] else ''
    return f'{one["missing"]}{wrong} of {one["asked"]}'


def print_faults(cases):
    print('\n| strategy | latest | recent | late | rendered on request | the corner case |')
    print('| --- |' + ' ---: |' * 5)
    for (variant, p), seen in cases.items():
        corner = seen['corner']
        share = f' ({100 * corner["missing"] / corner["asked"]:.0f} %)' if corner['asked'] else ''
        print(f'| {title(variant, p)} | ' + ' | '.join(faults(seen, duty) for duty in DUTIES) + share + ' |')


def print_corner(cases):
    """Lookups in the corner case, and how many of them missed."""
    print('\n| the corner case | ' + ' | '.join(f'p {p:g}' for p in CORNER_PROBABILITIES) + ' |')
    print('| --- |' + ' ---: |' * len(CORNER_PROBABILITIES))
    for variant in CORNER:
        cells = []
        for p in CORNER_PROBABILITIES:
            if (variant, p) not in cases:
                cells.append('')
                continue
            one = cases[variant, p]['corner']
            share = f' ({100 * one["missing"] / one["asked"]:.1f} %)' if one['asked'] else ''
            cells.append(f'{one["missing"]} of {one["asked"]}{share}')
        print(f'| {NAMES[variant]} | ' + ' | '.join(cells) + ' |')


def print_timelines(seen):
    print('\n| wiki | edits/day | entries of 30 days | MB | sampled | MB |')
    print('| --- |' + ' ---: |' * 5)
    wikis = {name: one for name, one in seen.items() if isinstance(one, dict) and 'sampled' in one}
    a_row = [seen['disk'][f'timeline_{n}'] / seen[what] for n, what in enumerate(('rows_all', 'rows_sampled'))]
    for name, one in wikis.items():
        cells = [f'{one["edits_a_day"]:g}']
        for what, bytes_a_row in zip(('all', 'sampled'), a_row):
            cells += [f'{one[what]}', f'{one[what] * bytes_a_row / 1e6:.1f}']
        print(f'| {name} | ' + ' | '.join(cells) + ' |')
    print(f'\nOn disk an entry takes {a_row[0]:.0f} bytes ({seen["rows_all"]} were written), a sampled one {a_row[1]:.0f} '
          f'({seen["rows_sampled"]} were written).')


def print_times(cases):
    print('\n| strategy | put p50 ms | p99 | cull p50 | p99 | latest p50 | p99 | by name p50 | p99 |')
    print('| --- |' + ' ---: |' * 8)
    for (variant, p), seen in cases.items():
        cells = [f'{seen[op][what] / 1000:.1f}' if seen[op]['done'] else '-'
                 for op in ('put', 'cull', 'read_latest', 'read_named') for what in ('p50_us', 'p99_us')]
        print(f'| {title(variant, p)} | ' + ' | '.join(cells) + ' |', flush=True)


class Kept:
    """Cases by kind, variant and p, as lines of a file; without one nothing is kept."""

    def __init__(self, path):
        self.path, self.cases = path, {}
        with contextlib.suppress(OSError, AttributeError):
            for line in path.read_text().splitlines():
                seen = json.loads(line)
                self.cases[seen['kind'], seen['variant'], seen['p']] = seen

    def get(self, kind, variant, p, make):
        found = self.cases.get((kind, variant, p))
        if found is None:
            note(f'{kind}: {title(variant, p)}')
            found = {'kind': kind, **make(variant, p)}
            if self.path:
                with open(self.path, 'a', encoding='utf-8') as out:
                    out.write(json.dumps(found) + '\n')
        return found


def measure(bench):
    args, cases, kept = bench.args, {}, Kept(bench.args.keep)
    if args.quick:
        for _ in range(2):
            note('warms up')
            bench.timed('app_ttl', 0.1)
            bench.timed('ours', 0.1)
    kind, make = ('latency', bench.timed) if args.quick else ('costs', bench.counted)
    for variant, p in args.cases:
        cases[variant, p] = kept.get(kind, variant, p, make)
    if args.quick:
        print_times(cases)
        return
    first = next(iter(cases.values()))
    print(f'{first["puts"]} puts to {args.titles} titles in {args.days} days, {first["late_puts"]} of them late, '
          f'{first["races"]} pairs at once')
    print_costs(cases)
    print_faults(cases)
    if args.rest:
        print_corner({(variant, p): kept.get('corner', variant, p, bench.cornered)
                      for variant, drawn in CORNER.items() for p in drawn})
        print_timelines(kept.get('timelines', 'app_ttl', 1, lambda *_: {'variant': 'app_ttl', 'p': 1, **bench.timelines()}))


def cases_of(text):
    found = []
    for word in text.split(','):
        variant, _, p = word.partition(':')
        if variant not in NAMES:
            raise argparse.ArgumentTypeError(f'strategies are {", ".join(NAMES)}')
        found.append((variant, float(p or 1)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=str(ROOT / 'build/bench'), help='[build/bench]')
    parser.add_argument('--at', metavar='FOLDER', help='of a cluster that runs')
    parser.add_argument('--quick', action='store_true', help='latency alone')
    parser.add_argument('--nodes', type=int, default=1, help='and replicas of each row [1]')
    parser.add_argument('--only', type=cases_of, dest='cases', metavar='STRATEGY:P,...')
    parser.add_argument('--creations', type=int, default=1000, help='[1000]')
    parser.add_argument('--titles', type=int, default=40, help='[40]')
    parser.add_argument('--days', type=int, default=30, help='of the trace [30]')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--keep', type=pathlib.Path, metavar='FILE', help='of cases, each a line of JSON')
    parser.add_argument('--no-rest', action='store_false', dest='rest', help='neither the corner case nor timelines')
    args = parser.parse_args()
    if args.cases is None:
        drawn = (0.1,) if args.quick else PROBABILITIES
        args.cases = [(name, p) for name in NAMES for p in (drawn if name in DRAWN else (1,))]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))      # so that the nodes and the folders go, too
    if args.nodes > 1 and not args.quick:
        parser.error('the proxy counts what goes to one node: --nodes is for --quick')
    print(f'{args.nodes} node{"s" if args.nodes > 1 else ""}, load average at the start {os.getloadavg()[0]:.1f}\n')
    try:
        with contextlib.ExitStack() as ends:
            if args.at:
                cluster = Cluster.found(args.at)
            else:
                cluster = ends.enter_context(Cluster(nodes=args.nodes, heap='1G', yaml=SETTINGS))
            measure(Bench(args, cluster))
    except CassandraError as error:
        raise SystemExit(f'strategies.py: {error}') from None


if __name__ == '__main__':
    main()
