#!/usr/bin/env python3
"""queues.py - the queue's benchmarks, each beside its peers in the same run, alternating; prints Markdown.

    bench/queues.py --build DIR [--seconds N] [--rounds N] [--peers NAME,...]
                    produce lease mixed depth empty start fault churn memory

DIR is a release build (meson setup DIR --buildtype=release) with the targets palimpsest and bench. Peers are Debian
packages (script/deps bench): beanstalkd -f 0, Redis Streams with appendfsync always, RabbitMQ with a durable queue,
persistent messages and confirms, NATS JetStream on file storage (2.9 has no sync for each message: its rows are not
durable against a power cut); with --querator FILE also Querator's own server, as test/peer builds it. Each is
driven by bench/queue_load over its own protocol; RabbitMQ's acks are not answered, so its completions say nothing.
bare is the ceiling: the same HTTP library and one group fdatasync, nothing behind it. All listen on 127.0.0.1 and are
ended by pid. A row is the median of rounds, ratios the median of those of one round."""
import argparse
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench import Bench
from procs import DEADLINE_S, Proc, free_port

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
from pg_cluster import Cluster  # pylint: disable=wrong-import-position

QUEUE = 'bench'
OPS = ('produce', 'take', 'finish')


def med(values):
    return statistics.median(values)


def wait_port(port, process):
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(('127.0.0.1', port), 1):
                return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f'{process.args[0]} does not listen on port {port}')


def call(port, name, body, want=200):
    """One call of Querator's API."""
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=600)
    c.request('POST', '/v1/' + name, json.dumps(body), {'Content-Type': 'application/json'})
    answer = c.getresponse()
    text = answer.read()
    c.close()
    if answer.status != want:
        raise SystemExit(f'{name}: {answer.status} {text[:300]}')
    return json.loads(text)


# ---- servers: each has load(*options) -> what queue_load measured, and reset() -> an empty queue

class Target:
    wire = 'http'

    def __init__(self, b, name):
        self.b, self.name, self.port, self.process = b, name, None, None
        self.dir = tempfile.mkdtemp(prefix=name.split()[0] + '-', dir=b.dir)

    def load(self, *options):
        argv = [os.path.join(self.b.args.build, 'bench', 'queue_load'), self.wire, str(self.port), '--queue', QUEUE,
                *self.options(), *map(str, options)]
        done = subprocess.run(argv, capture_output=True, text=True, errors='replace', check=False)
        if done.returncode != 0:
            raise SystemExit(f'{self.name}: {done.stderr or done.stdout}')
        got = json.loads(done.stdout)
        if got['refused'] or got['broken']:
            print(f'{self.name}: {got["refused"]} refused, {got["broken"]} broken: {done.stderr}', file=sys.stderr)
        return got

    def options(self):
        return ()

    def fill(self, items):
        """Puts so many items into it, in requests of 1,000."""
        self.load('--producers', 4, '--batch', 1000, '--operations', max(items // 1000, 1), '--ms', 3600000)

    def run(self, argv, **more):
        with open(os.path.join(self.dir, 'log'), 'ab') as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=self.dir, **more)
        wait_port(self.port, self.process)

    def rss_mb(self, what='VmRSS'):
        """RssAnon: without the pages of the index, which the kernel takes back when it wants them."""
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(what))

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None


class Palimpsest(Target):
    def __init__(self, b, name='Palimpsest', partitions=1, durability='sync', stores=None, sets=()):
        super().__init__(b, name)
        self.partitions, self.sets = partitions, [f'queue.durability={durability}', *sets]
        if stores:
            self.sets.append('queue.stores=' + stores)
        self.start()
        self.create(QUEUE)

    def start(self):
        argv = [os.path.join(self.b.args.build, 'palimpsest'), 'serve', '--data', os.path.join(self.dir, 'data'),
                '--listen', '127.0.0.1:0']
        for option in self.sets:
            argv += ['--set', option]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True,
                                        stderr=open(os.path.join(self.dir, 'log'), 'ab'))
        line = self.process.stdout.readline()
        if not line.startswith('listening on '):
            with open(os.path.join(self.dir, 'log'), encoding='utf8', errors='replace') as log:
                raise SystemExit(f'palimpsest did not start: {log.read()[-2000:]}')
        self.port = int(line.rsplit(':', 1)[1])

    def create(self, name, partitions=None, want=200):
        call(self.port, 'queues.create', {'queue_name': name, 'lease_timeout': '10m', 'expire_timeout': '200h',
                                          'requested_partitions': partitions or self.partitions}, want)

    def reset(self):
        call(self.port, 'queues.delete', {'queue_name': QUEUE})
        self.create(QUEUE)

    def stats(self):
        parts = call(self.port, 'partitions.list', {'queue_name': QUEUE})['partitions']
        return [{name: int(p.get(name, 0)) for name in ('ready', 'scheduled', 'leased')} for p in parts]


class Querator(Palimpsest):
    """With its memory or Badger storage, as its configuration says."""

    def __init__(self, b, driver):
        self.driver = driver
        super().__init__(b, f'Querator {driver}')

    def start(self):
        self.port = free_port()
        config = os.path.join(self.dir, 'config.yaml')
        storage = '' if self.driver == 'memory' else f'\n    config: {{ storage-dir: "{self.dir}/badger" }}'
        with open(config, 'w', encoding='ascii') as to:
            to.write(f'address: "127.0.0.1:{self.port}"\nqueue-storage:\n    driver: {self.driver}{storage}\n'
                     f'partition-storage:\n  - name: one\n    driver: {self.driver}\n    affinity: 1{storage}\n')
        self.run([self.b.args.querator, 'server', '--config', config])

    def reset(self):
        """Anew: what was consumed slows its Badger down for good; it is long in ending."""
        self.process.kill()
        self.end()
        shutil.rmtree(os.path.join(self.dir, 'badger'), ignore_errors=True)
        self.start()
        self.create(QUEUE)

    def options(self):
        return ('--accept-json',) # what its Go client gets


class Bare(Target):
    def __init__(self, b, mode):
        super().__init__(b, 'bare, synced' if mode == 'sync' else 'bare, not synced')
        p = Proc([os.path.join(b.args.build, 'bench', 'bare'), os.path.join(self.dir, 'file'), mode], 'listening on ')
        self.process, self.port = p.p, int(p.url.rsplit(':', 1)[1])

    def reset(self):
        os.truncate(os.path.join(self.dir, 'file'), 0)


class Beanstalkd(Target):
    wire = 'beanstalk'

    def __init__(self, b):
        super().__init__(b, 'beanstalkd -f 0')
        self.reset()

    def reset(self):
        self.end()
        shutil.rmtree(os.path.join(self.dir, 'log.d'), ignore_errors=True)
        os.mkdir(os.path.join(self.dir, 'log.d'))
        self.port = free_port()
        self.run(['beanstalkd', '-l', '127.0.0.1', '-p', str(self.port), '-b', 'log.d', '-f', '0'])


class Redis(Target):
    wire = 'redis'

    def __init__(self, b):
        super().__init__(b, 'Redis, appendfsync always')
        self.port = free_port()
        self.run(['redis-server', '--port', str(self.port), '--bind', '127.0.0.1', '--dir', self.dir, '--appendonly',
                  'yes', '--appendfsync', 'always', '--save', ''])
        self.reset()

    def reset(self):
        for words in (['DEL', QUEUE], ['XGROUP', 'CREATE', QUEUE, 'g', '0', 'MKSTREAM']):
            subprocess.run(['redis-cli', '-p', str(self.port), *words], check=True, stdout=subprocess.DEVNULL)


class Nats(Target):
    wire = 'nats'

    def __init__(self, b):
        super().__init__(b, 'NATS JetStream (not synced)')
        self.port = free_port()
        with open(os.path.join(self.dir, 'conf'), 'w', encoding='ascii') as to:
            to.write(f'listen: 127.0.0.1:{self.port}\njetstream {{ store_dir: "{self.dir}/store" }}\n')
        self.run(['nats-server', '-c', os.path.join(self.dir, 'conf')])
        self.reset()

    def api(self, subject, doc):
        with socket.create_connection(('127.0.0.1', self.port), 30) as s:
            from_it = s.makefile('rb')
            from_it.readline()
            body = json.dumps(doc).encode()
            s.sendall(b'CONNECT {"verbose":false}\r\nSUB _INBOX.x 1\r\nPUB %s _INBOX.x %d\r\n%s\r\n'
                      % (subject.encode(), len(body), body))
            while True:
                words = from_it.readline().split()
                if words[0] == b'MSG':
                    return json.loads(from_it.read(int(words[-1])))

    def reset(self):
        self.api('$JS.API.STREAM.DELETE.' + QUEUE, {})
        got = [self.api('$JS.API.STREAM.CREATE.' + QUEUE, {'name': QUEUE, 'subjects': [QUEUE], 'storage': 'file',
                                                          'retention': 'workqueue'}),
               self.api(f'$JS.API.CONSUMER.DURABLE.CREATE.{QUEUE}.c',
                        {'stream_name': QUEUE, 'config': {'durable_name': 'c', 'ack_policy': 'explicit',
                                                          'deliver_policy': 'all', 'max_ack_pending': 1000000}})]
        if any('error' in answer for answer in got):
            raise SystemExit(f'nats: {got}')


class Rabbit(Target):
    wire = 'amqp'

    def __init__(self, b):
        super().__init__(b, 'RabbitMQ')
        self.port, self.epmd = free_port(), str(free_port())
        with open(os.path.join(self.dir, 'rabbitmq.conf'), 'w', encoding='ascii') as to:
            to.write(f'listeners.tcp.local = 127.0.0.1:{self.port}\n')
        env = {**os.environ, 'HOME': self.dir, 'ERL_EPMD_PORT': self.epmd, 'ERL_EPMD_ADDRESS': '127.0.0.1',
               'RABBITMQ_MNESIA_BASE': self.dir + '/mnesia', 'RABBITMQ_LOG_BASE': self.dir + '/logs',
               'RABBITMQ_CONFIG_FILE': self.dir + '/rabbitmq.conf', 'RABBITMQ_NODENAME': 'bench@localhost',
               'RABBITMQ_DIST_PORT': str(free_port()), 'RABBITMQ_ENABLED_PLUGINS_FILE': self.dir + '/plugins',
               'RABBITMQ_PID_FILE': self.dir + '/pid', 'RABBITMQ_CONF_ENV_FILE': '/dev/null'}
        self.env = env
        self.run(['/usr/lib/rabbitmq/bin/rabbitmq-server'], env=env, start_new_session=True)

    def reset(self):
        drain = '--producers', 0, '--consumers', 4, '--batch', 1000, '--drain', '--ms', 3600000
        while self.load(*drain)['take']['items']:
            pass

    def end(self):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGTERM) # the group it began
                self.process.wait(DEADLINE_S)
            except ProcessLookupError:
                pass
            subprocess.run(['/usr/bin/epmd', '-port', self.epmd, '-kill'], env=self.env, check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process = None


PEERS = {'beanstalkd': Beanstalkd, 'redis': Redis, 'nats': Nats, 'rabbitmq': Rabbit}


class QueueBench(Bench):
    def __init__(self, args):
        super().__init__(args)
        self.targets = []

    def add(self, target):
        self.targets.append(target)
        return target

    def peers(self):
        names = self.args.peers.split(',') if self.args.peers is not None else list(PEERS)
        for name in filter(None, names):
            self.add(PEERS[name](self))
        if self.args.querator:
            self.add(Querator(self, 'memory'))
            self.add(Querator(self, 'badger'))

    def close(self):
        for target in self.targets:
            target.end()
        super().close()


# ---- tables

def table(title, rows, columns):
    print(f'### {title}\n\n| server | {" | ".join(columns)} |\n| --- |{" ---: |" * len(columns)}')
    for row in rows:
        print(f'| {" | ".join(row)} |', flush=True)
    print()


def us(value):
    return f'{value:,.0f}'


def compare(b, title, op, targets, *options, prepare=None):
    """Rates of one operation, rounds alternating; the first target is what the others are set against."""
    got = {target.name: [] for target in targets}
    for _ in range(b.args.rounds):
        for target in targets:
            target.reset()
            if prepare:
                prepare(target)
            got[target.name].append(target.load(*options, '--ms', int(b.args.seconds * 1000)))
    first = got[targets[0].name]
    rows = []
    for target in targets:
        runs = [run[op] for run in got[target.name]]
        ratios = [run['items_s'] / base[op]['items_s'] for run, base in zip(runs, first) if base[op]['items_s']]
        rows.append((target.name, f'{med([run["items_s"] for run in runs]):,.0f}',
                     f'{med(ratios):.2f}' if ratios else '-', us(med([run['p50'] for run in runs])),
                     us(med([run['p99'] for run in runs]))))
    table(title, rows, ('items/s', f'of {targets[0].name}', 'p50 us', 'p99 us'))


def durable_targets(b):
    synced, unsynced = b.add(Bare(b, 'sync')), b.add(Bare(b, 'none'))
    ours = [b.add(Palimpsest(b, 'Palimpsest, sync')), b.add(Palimpsest(b, 'Palimpsest, interval', 1, 'interval'))]
    before = len(b.targets)
    b.peers()
    return synced, unsynced, ours, b.targets[before:]


# ---- the benchmarks

def bench_produce(b):
    synced, unsynced, ours, peers = durable_targets(b)
    for clients, batch in ((1, 1), (8, 1), (64, 1), (8, 100)):
        compare(b, f'durable produce: {clients} clients x {batch}', 'produce', [synced, unsynced, *ours, *peers],
                '--producers', clients, '--batch', batch)
    compare(b, 'the same as JSON: 8 clients x 1', 'produce', [synced, ours[0]], '--producers', 8, '--json')


def bench_lease(b):
    ours = [b.add(Palimpsest(b, 'Palimpsest, sync')), b.add(Palimpsest(b, 'Palimpsest, interval', 1, 'interval')),
            b.add(Palimpsest(b, 'Palimpsest, leases synced', 1, 'sync', sets=['queue.lease_durability=sync']))]
    before = len(b.targets)
    b.peers()
    targets = [*ours, *b.targets[before:]]
    for clients, batch in ((1, 1), (8, 1), (8, 10)):
        for op in ('take', 'finish'):
            compare(b, f'{"lease" if op == "take" else "complete"}: {clients} clients, {batch} at a time', op, targets,
                    '--producers', 0, '--consumers', clients, '--batch', batch, '--drain', '--timeout', '1s',
                    prepare=lambda t: t.fill(int(b.args.count or 100000)))


def bench_mixed(b):
    _, _, ours, peers = durable_targets(b)
    for partitions in (1, 4):
        targets = ours if partitions == 1 else [b.add(Palimpsest(b, f'Palimpsest, sync, {partitions} partitions',
                                                                partitions))]
        compare(b, f'8 producers and 8 consumers at once, {partitions} partitions: items consumed', 'finish',
                [*targets, *(peers if partitions == 1 else [])], '--producers', 8, '--consumers', 8, '--batch', 1)


def bench_depth(b):
    """Lease and complete on a deep queue beside a shallow one: a tenth as many leased, as many consumed before."""
    deep = int(b.args.count or 1e7)
    rows = []
    for depth in (1000, deep):
        ours = b.add(Palimpsest(b, f'{depth:,} ready'))
        ours.fill(depth + deep // 10)
        consume = '--producers', 0, '--consumers', 4, '--ms', 3600000
        ours.load(*consume, '--batch', 1000, '--operations', deep // 10)
        rss = ours.rss_mb()
        runs = [ours.load('--producers', 1, '--consumers', 1, '--ms', int(b.args.seconds * 1000), '--timeout', '1s')
                for _ in range(b.args.rounds)]
        row = [ours.name, f'{rss:,.0f}']
        for op in OPS:
            row += [us(med([run[op]['p50'] for run in runs])), us(med([run[op]['p99'] for run in runs]))]
        rows.append(row)
        ours.end()
    table('depth', rows, ('MB', 'produce p50', 'p99', 'lease p50', 'p99', 'complete p50', 'p99'))


def bench_empty(b):
    """An empty poll: what it takes beyond its own timeout, and how much processor; few and many waiting at once."""
    rows = []
    ours = b.add(Palimpsest(b))
    for clients in (1, 64, 1000):
        before = cpu_s(ours)
        got = ours.load('--producers', 0, '--consumers', clients, '--timeout', '100ms', '--ms',
                        int(b.args.seconds * 1000))
        polls = got['empty']
        rows.append((f'{clients} waiting', f'{polls / got["seconds"]:,.0f}', f'{clients * 10:,}',
                     f'{(cpu_s(ours) - before) / max(polls, 1) * 1e6:,.0f}'))
    table('empty polls of 100 ms', rows, ('polls/s', 'at best', 'processor us a poll'))


def cpu_s(target):
    with open(f'/proc/{target.process.pid}/stat', encoding='ascii') as stat:
        words = stat.read().rsplit(')', 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')


def bench_start(b):
    rows = []
    items = int(b.args.count or 1e7)
    for count, partitions in ((0, 1), (items, 1), (items, 1000)):
        ours = b.add(Palimpsest(b, partitions=partitions))
        if count:
            ours.fill(count)
        times = []
        for how in ['SIGTERM'] * b.args.rounds + ['SIGKILL'] * b.args.rounds:
            ours.process.send_signal(getattr(signal, how))
            ours.process.wait(DEADLINE_S)
            began = time.monotonic()
            ours.start()
            times.append((how, (time.monotonic() - began) * 1000))
        ready = sum(p['ready'] for p in ours.stats())
        rows.append([f'{count:,} items in {partitions:,} partitions', f'{ready:,}',
                     *(f'{med([ms for kind, ms in times if kind == how]):,.0f}' for how in ('SIGTERM', 'SIGKILL'))])
        ours.end()
    table('start', rows, ('items found', 'ms after an end', 'ms after kill -9'))


def bench_fault(b):
    """Two stores, four partitions; the second is a PostgreSQL that is well, slow (runs a hundredth of the time),
    stopped or dead. Stopped and dead come while the load runs."""
    pg = b.add(Cluster())
    rows = []
    for name in ('well', 'slow', 'stopped', 'dead'):
        ours = b.add(Palimpsest(b, name, partitions=4, stores=f'a=q-a, b={pg.database(name)}'))
        over = threading.Event()

        def hurt(how=name, over=over):
            while how == 'slow' and not over.is_set():
                pg.pause()
                over.wait(0.099)
                pg.pause(False)
                over.wait(0.001)
            if over.wait(b.args.seconds / 4) or how in ('well', 'slow'):
                return
            if how == 'stopped':
                pg.pause()
            else:
                pg.kill()
        worker = threading.Thread(target=hurt)
        worker.start()
        got = ours.load('--producers', 8, '--ms', int(b.args.seconds * 1000))
        over.set()
        worker.join()
        if name == 'dead':
            pg.start()
        else:
            pg.pause(False)
        stored = settle(ours, got['produce']['items'])
        rows.append((name, f'{got["produce"]["items_s"]:,.0f}', us(got['produce']['p99']), us(got['produce']['p999']),
                     us(got['produce']['max']), f'{got["refused"]:,}', f'{stored - got["produce"]["items"]:+,}'))
        ours.end()
    table('produce from 8 clients while one of two stores is', rows,
          ('items/s', 'p99 us', 'p99.9 us', 'max us', 'timeouts', 'stored, less acknowledged'))


def settle(target, want):
    """How many items are there when both stores answer again."""
    until = time.monotonic() + DEADLINE_S
    while True:
        stored = sum(p['ready'] + p['leased'] for p in target.stats())
        if stored >= want or time.monotonic() > until:
            return stored
        time.sleep(0.1)


def disk_mb(folder):
    return int(subprocess.run(['du', '-sm', folder], capture_output=True, text=True, check=True).stdout.split()[0])


def bench_churn(b):
    """Items go in and out without end, and one ancient one stays."""
    ours = b.add(Palimpsest(b, sets=['store.segment_bytes=16M']))
    call(ours.port, 'queue.produce', {'queue_name': QUEUE, 'request_timeout': '1m', 'items': [
        {'utf8': 'the ancient one', 'enqueue_at': '2200-01-01T00:00:00Z'}]})
    rows, through = [], 0
    for _ in range(max(b.args.rounds * 2, 4)):
        got = ours.load('--producers', 8, '--consumers', 8, '--batch', 100, '--bytes', 1000, '--ms',
                        int(b.args.seconds * 1000), '--timeout', '1s')
        got_rest = ours.load('--producers', 0, '--consumers', 4, '--batch', 1000, '--drain', '--timeout', '50ms',
                             '--ms', 600000)
        through += got['finish']['items'] + got_rest['finish']['items']
        rows.append((f'{through:,} items through', f'{through / 1000:,.0f}', f'{disk_mb(ours.dir):,}',
                     f'{ours.rss_mb():,.0f}'))
    table('churn beside one item that stays', rows, ('MB through', 'MB on disk', 'MB of memory'))


def bench_memory(b):
    count = int(b.args.count or 1e6)
    rows = []
    ours = b.add(Palimpsest(b))
    empty = ours.rss_mb()
    for name, grow in (('queue', lambda: [ours.create(f'q{i}') for i in range(1000)]),
                       ('partition', lambda: [ours.create(f'p{i}', 1000) for i in range(5)])):
        before = ours.rss_mb()
        grow()
        many = 1000 if name == 'queue' else 5000
        rows.append((name, f'{(ours.rss_mb() - before) * 1024 * 1024 / many:,.0f}'))
    before = ours.rss_mb()
    ours.fill(count)
    rows.append(('item, ready', f'{(ours.rss_mb() - before) * 1024 * 1024 / count:,.0f}'))
    table(f'memory: {empty:,.0f} MB when empty', rows, ('bytes each',))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', required=True)
    p.add_argument('--seconds', type=float, default=5)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--count', type=float, help='items, as the benchmark counts them')
    p.add_argument('--peers', help='of ' + ', '.join(PEERS) + ' [all]; empty: none')
    p.add_argument('--querator', help="Querator's own server")
    p.add_argument('--tmp', help='where data is put')
    p.add_argument('which', nargs='+')
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    for which in args.which:
        b = QueueBench(args)
        try:
            print(f'## queue: {which}\n', flush=True)
            globals()['bench_' + which](b)
        finally:
            b.close()


if __name__ == '__main__':
    main()
