#!/usr/bin/env python3
"""lists.py - many who ask for lists at once, over one and over many servers that share a Redis; prints Markdown.

    lists.py --build DIR [--rounds N] [--counts 200,10000] [--nodes 1,4,10] storm    one list, by outcome
    lists.py --build DIR [--rounds N] [--nodes 1,4,10] keys                          1,000 displays x 5 positions
    lists.py --build DIR [--rounds N] [--counts 200,9900] seed                       the article's own commands
    lists.py --build DIR [--rounds N] [--counts 200,10000] peers                     nginx and Varnish, one machine's cache

DIR is a release build (meson setup DIR --buildtype=release) with the targets palimpsest and bench/storm_client. Wants
redis-server, and for peers nginx and varnishd (script/deps bench). All is on 127.0.0.1, on free ports, and is ended by its
pid. Instants of load, generator and answers are of one clock: "added" counts from the generator's last byte. With several
nodes p50 is the median of the clients' medians, p99 the worst of their p99. Absolute figures only say what this machine
did at that minute; what counts is what stands in the same run."""
import argparse
import asyncio
import http.client
import http.server
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, 'tools/wiki'), os.path.join(ROOT, 'bench'), os.path.join(ROOT, 'test/scene')]
sys.dont_write_bytecode = True
import storm                                    # noqa: E402  pylint: disable=wrong-import-position
from procs import Proc, free_port               # noqa: E402  pylint: disable=wrong-import-position
from list_help import RedisConnection           # noqa: E402  pylint: disable=wrong-import-position

LEASE_S = 2
KEYS, POSITIONS = 1000, 5
HOST = 'localhost'


def now_us():
    return time.monotonic_ns() // 1000


# ---- the generator

class Generator:
    """Answers any path after .delay seconds with .status and five items; knows when each call came and was answered."""

    def __init__(self):
        self.delay, self.status, self.calls = 0.0, 200, []
        generator = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            wbufsize = 1 << 16

            def log_message(self, *args):
                pass

            def do_GET(self):
                call = [self.path, now_us(), None]
                generator.calls.append(call)
                number = len(generator.calls)
                time.sleep(generator.delay)
                body = json.dumps([{'link': f'/l/{number}/{i}', 'image': f'/i/{number}/{i}'} for i in range(5)]).encode()
                self.send_response(generator.status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                if generator.status == 200:
                    self.send_header('Cache-Control', 'max-age=600')
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()
                call[2] = now_us()

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 4096

            def handle_error(self, request, client_address):
                pass

        self.http = Listener(('127.0.0.1', 0), Handler)
        self.port = self.http.server_port
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def last_us(self):
        return max((call[2] for call in self.calls if call[2]), default=0)


# ---- Redis and those who share it

class Redis:
    def __init__(self, folder, *args):
        self.port, self.folder, self.args = free_port(), folder, args
        self.start()

    def start(self):
        self.process = Proc(['redis-server', '--port', str(self.port), '--bind', '127.0.0.1', '--save', '', '--appendonly',
                             'no', '--dir', self.folder, *self.args], stderr=f'{self.folder}/redis.err')
        until = time.monotonic() + 30
        while True:
            try:
                return self.ask('PING')
            except OSError:
                if time.monotonic() > until:
                    raise SystemExit('redis-server does not answer') from None
                time.sleep(0.02)

    def ask(self, *args):
        connection = RedisConnection(self.port)
        try:
            return connection(*args)
        finally:
            connection.close()

    def figures(self):
        """(scripts run, commands that clients sent or that ran within scripts)"""
        text = self.ask('INFO', 'commandstats').decode()
        calls = {name: int(n) for name, n in re.findall(r'^cmdstat_([a-z|]+):calls=(\d+)', text, re.M)}
        return calls.get('evalsha', 0) + calls.get('eval', 0), sum(calls.values()) - calls.get('ping', 0)


PING = '''
import socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
worst = 0
print("ready", flush=True)
until = time.monotonic() + float(sys.argv[2])
try:
    while time.monotonic() < until:
        began = time.monotonic_ns()
        s.sendall(b"PING\\r\\n")
        if not s.recv(64):
            break
        worst = max(worst, time.monotonic_ns() - began)
        time.sleep(0.0005)
except OSError:
    pass
print(worst / 1e6)
'''


class Other:
    """Another client of that Redis: the longest it waited for an answer."""

    def __init__(self, redis, seconds):
        self.process = subprocess.Popen([sys.executable, '-c', PING, str(redis.port), str(seconds)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != 'ready\n':
            raise SystemExit('the other client of Redis does not start')

    def worst_ms(self):
        return float(self.process.communicate(timeout=200)[0])


class Node:
    def __init__(self, args, folder, redis, generator):
        os.mkdir(folder)
        command = [os.path.join(args.build, 'palimpsest'), 'serve', '--data', f'{folder}/data', '--listen', '127.0.0.1:0',
                   '--set', 'http.connections_max=24000', '--set', f'redis.url=redis://127.0.0.1:{redis.port}', '--set',
                   f'redis.lease={LEASE_S}s', '--set', 'flight.error_base=100ms', '--set', 'redis.timeout=1s']
        for field in (f'generator=http://127.0.0.1:{generator.port}/related', 'unique_by=link,image', 'ttl=600s', 'wait=60s',
                      'timeout=60s'):
            command += ['--set', f'lists.related.{field}']
        self.process = Proc(command, 'listening on ', stderr=f'{folder}/log')
        self.port = urllib.parse.urlsplit(self.process.url).port
        self.pid = self.process.p.pid
        self.alive = True

    def metric(self, name):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        connection.request('GET', '/metrics')
        text = connection.getresponse().read().decode()
        connection.close()
        return sum(float(n) for n in re.findall(rf'^\w*?{name}(?:{{[^}}]*}})? (\S+)$', text, re.M))

    def wait_redis(self):
        until = time.monotonic() + 60
        while not self.metric('redis_up'):
            if time.monotonic() > until:
                raise SystemExit('a server does not find Redis')
            time.sleep(0.05)

    def resident_kb(self):
        with open(f'/proc/{self.pid}/status', encoding='ascii') as status:
            return next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.alive = False

    def end(self):
        if self.alive:
            self.process.end()
        else:
            self.process.p.wait()


class Field:
    """Redis, a generator and count servers, all new."""

    def __init__(self, args, count):
        self.folder = tempfile.mkdtemp(prefix='lists-', dir=args.tmp)
        self.generator, self.nodes = Generator(), []
        self.redis = Redis(self.folder)
        try:
            for n in range(count):
                self.nodes.append(Node(args, f'{self.folder}/{n}', self.redis, self.generator))
            for node in self.nodes:
                node.wait_redis()
        except BaseException:
            self.close()
            raise

    def close(self):
        for node in self.nodes:
            node.end()
        self.redis.process.end()
        self.generator.http.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- storms

def spread(args, field, paths, count):
    """Starts one load client for each node; together they send count requests."""
    clients = []
    for n, node in enumerate(field.nodes):
        share = count // len(field.nodes) + (n < count % len(field.nodes))
        name = f'{field.folder}/paths{n}'
        with open(name, 'w', encoding='ascii') as out:
            out.write('\n'.join(paths[n::len(field.nodes)] or paths) + '\n')
        clients.append(storm.load(args, 'storm', node.port, '@' + name, share))
    return clients


def gather(clients):
    """Their results; a client whose server died counts its requests as broken."""
    return [storm.result(client) for client in clients]


def until_called(field):
    until = time.monotonic() + 60
    while not field.generator.calls:
        if time.monotonic() > until:
            raise SystemExit('the generator was not asked')
        time.sleep(0.002)


def disturb(field, outcome):
    """Kills what the outcome says; the instant of it, or None."""
    if outcome not in ('leader killed', 'Redis killed'):
        return None
    until_called(field)
    time.sleep(0.1)
    if outcome == 'Redis killed':
        at = now_us()
        os.kill(field.redis.process.p.pid, signal.SIGKILL)
        return at
    leader = next(node for node in field.nodes if node.metric('shared_grants_total') > 0)
    at = now_us()
    leader.kill()
    return at


def one_storm(args, count, nodes, outcome):
    field = Field(args, nodes)
    try:
        field.generator.delay = {'slow': 2 * LEASE_S}.get(outcome, 1.0 if count > 1000 or 'killed' in outcome else 0.3)
        field.generator.status = 500 if outcome == 'error' else 200
        scripts, commands = field.redis.figures()
        before = sum(node.resident_kb() for node in field.nodes)
        other = Other(field.redis, field.generator.delay + 2)
        clients = spread(args, field, [f'/{HOST}/v1/lists/related/d/{p}' for p in range(1, POSITIONS + 1)], count)
        killed = disturb(field, outcome)
        resident = before
        while any(client.poll() is None for client in clients):
            resident = max(resident, sum(node.resident_kb() for node in field.nodes if node.alive))
            time.sleep(0.02)
        got = gather(clients)
        answered = field.generator.last_us()
        fine = [one for one in got if one['fine'] + one['other'] > 0]
        taken = [call[1] for call in field.generator.calls if killed and call[1] > killed]
        row = {'calls': len(field.generator.calls), 'fine': sum(one['fine'] for one in got),
               'other': sum(one['other'] for one in got), 'broken': sum(one['broken'] for one in got),
               'p50': (statistics.median(one['p50_us'] for one in fine) - answered) / 1e3,
               'p99': (max(one['p99_us'] for one in fine) - answered) / 1e3,
               'max': (max(one['max_us'] for one in fine) - answered) / 1e3,
               'takeover': (min(taken) - killed) / 1e3 if taken else float('nan'),
               'stall': other.worst_ms(), 'kb': max(0, resident - before) / count}
        if outcome == 'Redis killed':
            return {**row, 'scripts': float('nan'), 'commands': float('nan')}
        after = field.redis.figures()
        return {**row, 'scripts': after[0] - scripts, 'commands': after[1] - commands}
    finally:
        field.close()


HEAD = ('| {what} | generations, most | 200 / other / broken | added p50 ms | p99 | last | takeover ms | scripts '
        '| commands in all | longest wait of another client of Redis, ms | KB a waiter |\n'
        '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')


def print_row(name, rows):
    def of(key):
        return statistics.median(row[key] for row in rows)
    print(f'| {name} | {max(row["calls"] for row in rows)} | {of("fine"):.0f} / {of("other"):.0f} / {of("broken"):.0f} | '
          f'{of("p50"):.1f} | {of("p99"):.1f} | {of("max"):.1f} | {of("takeover"):.0f} | {of("scripts"):.0f} | '
          f'{of("commands"):.0f} | {of("stall"):.2f} | {of("kb"):.2f} |', flush=True)


def bench_storm(args):
    for count in args.counts:
        for nodes in args.nodes:
            print(f'### {count} requests at once for one list, {nodes} server(s)\n\n' + HEAD.format(what='outcome'))
            for outcome in ('ok', 'error', 'slow', 'leader killed', 'Redis killed'):
                if outcome == 'leader killed' and nodes == 1:
                    continue
                print_row(outcome, [one_storm(args, count, nodes, outcome) for _ in range(args.rounds)])
            print()


def bench_keys(args):
    print(f'### {KEYS} displays x {POSITIONS} positions at once\n\n| servers | generations, most | 200 / other / broken '
          '| all answered after ms | scripts a display |\n| ---: | ---: | ---: | ---: | ---: |', flush=True)
    for nodes in args.nodes:
        rows = []
        for n in range(args.rounds):
            field = Field(args, nodes)
            try:
                paths = [f'/{HOST}/v1/lists/related/d{d}/{p}' for d in range(KEYS) for p in range(1, POSITIONS + 1)]
                random.Random(n).shuffle(paths)
                scripts, _ = field.redis.figures()
                got = gather(spread(args, field, paths, len(paths)))
                rows.append((len(field.generator.calls), *(sum(one[key] for one in got) for key in ('fine', 'other', 'broken')),
                             (max(one['max_us'] for one in got) - min(one['began_us'] for one in got)) / 1e3,
                             (field.redis.figures()[0] - scripts) / KEYS))
            finally:
                field.close()
        middle = [statistics.median(column) for column in zip(*rows)]
        print(f'| {nodes} | {max(row[0] for row in rows)} | {middle[1]:.0f} / {middle[2]:.0f} / {middle[3]:.0f} | '
              f'{middle[4]:.0f} | {middle[5]:.1f} |', flush=True)
    print()


# ---- the article's commands

async def seed_client(port, delay, made):
    """HSETNX, EXPIRE; then LPUSH, EXPIRE or BRPOPLPUSH, EXPIRE. The instant it has the list."""
    reader, writer = await asyncio.open_connection('127.0.0.1', port)

    async def ask(*words):
        writer.write(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words))
        line = await reader.readline()
        if line[:1] == b'$' and line != b'$-1\r\n':
            await reader.readexactly(int(line[1:]) + 2)
        return line
    await made['go'].wait()
    won = await ask(b'HSETNX', b'lock-d', b'lock', b'got it') == b':1\r\n'
    await ask(b'EXPIRE', b'lock-d', b'60')
    if won:
        await asyncio.sleep(delay)
        made['at'] = now_us()
        await ask(b'LPUSH', b'list-d', b'x' * 400)
    else:
        line = await ask(b'BRPOPLPUSH', b'list-d', b'list-d', b'60')
        if line[:1] != b'$':
            writer.close()
            return None
    at = now_us()
    await ask(b'EXPIRE', b'list-d', b'120')
    writer.close()
    return at


async def seed_storm(port, count, delay):
    made = {'go': asyncio.Event(), 'at': 0}
    tasks = [asyncio.ensure_future(seed_client(port, delay, made)) for _ in range(count)]
    await asyncio.sleep(0.5 + count / 2000)      # all are connected
    made['go'].set()
    got = await asyncio.gather(*tasks, return_exceptions=True)
    times = [(at - made['at']) / 1e3 for at in got if isinstance(at, int)]
    return times, count - len(times)


def bench_seed(args):
    print("### The article's commands: one connection and one blocked client for each request\n\n| requests | had the list "
          '| broken | added p50 ms | p99 | last | commands | longest wait of another client of Redis, ms |\n'
          '| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |', flush=True)
    for count in args.counts:
        rows = []
        for _ in range(args.rounds):
            folder = tempfile.mkdtemp(prefix='seed-', dir=args.tmp)
            redis = Redis(folder, '--tcp-backlog', '4096')
            try:
                delay = 0.3 if count <= 1000 else 4.0
                before = redis.figures()[1]
                other = Other(redis, 2 + count / 2000 + delay)
                times, broken = asyncio.run(seed_storm(redis.port, count, delay))
                rows.append((len(times), broken, storm.quantile(times, .5), storm.quantile(times, .99), max(times),
                             redis.figures()[1] - before, other.worst_ms()))
            finally:
                redis.process.end()
                shutil.rmtree(folder, ignore_errors=True)
        middle = [statistics.median(column) for column in zip(*rows)]
        print('| {} | {:.0f} | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.2f} |'.format(count, *middle), flush=True)
    print()


def bench_peers(args):
    """As storm.py's servers, with the generator behind them; ours beside, with one server."""
    for count in args.counts:
        for outcome in ('ok', 'error'):
            print(f'### {count} requests at once, one machine, {outcome}\n\n| server | generations, most '
                  '| 200 / other / broken | added p50 ms | p99 | last |\n| --- | ---: | ---: | ---: | ---: | ---: |')
            rows = [one_storm(args, count, 1, outcome) for _ in range(args.rounds)]
            print_short('palimpsest and Redis', rows)
            for make in (storm.nginx, storm.varnish):
                rows = [one_peer(args, make, count, outcome) for _ in range(args.rounds)]
                print_short(make.__name__, rows)
            print()


def print_short(name, rows):
    def of(key):
        return statistics.median(row[key] for row in rows)
    print(f'| {name} | {max(row["calls"] for row in rows)} | {of("fine"):.0f} / {of("other"):.0f} / {of("broken"):.0f} | '
          f'{of("p50"):.1f} | {of("p99"):.1f} | {of("max"):.1f} |', flush=True)


def one_peer(args, make, count, outcome):
    folder, generator = tempfile.mkdtemp(prefix='peer-', dir=args.tmp), Generator()
    served = make(args, folder, types.SimpleNamespace(port=generator.port))
    try:
        generator.calls.clear()
        generator.delay, generator.status = (1.0 if count > 1000 else 0.3), 500 if outcome == 'error' else 200
        got = storm.result(storm.load(args, 'storm', served.port, served.path('list'), count))
        first = next(call[2] for call in generator.calls if call[2])
        return {'calls': len(generator.calls), **{key: got[key] for key in ('fine', 'other', 'broken')},
                **{key: (got[key + '_us'] - first) / 1e3 for key in ('p50', 'p99', 'max')}}
    finally:
        served.process.end()
        generator.http.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--counts', type=lambda text: [int(n) for n in text.split(',')], default=[200, 10000])
    parser.add_argument('--nodes', type=lambda text: [int(n) for n in text.split(',')], default=[1, 4, 10])
    parser.add_argument('--tmp', help='where data is put')
    parser.add_argument('which', nargs='+', choices=['storm', 'keys', 'seed', 'peers'])
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    for which in args.which:
        print(f'## {which}\n', flush=True)
        {'storm': bench_storm, 'keys': bench_keys, 'seed': bench_seed, 'peers': bench_peers}[which](args)


if __name__ == '__main__':
    main()
