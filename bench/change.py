#!/usr/bin/env python3
"""change.py - what carrying changes onward costs, each figure beside its peer in the same run; prints Markdown.

    bench/change.py --build DIR [--seconds N] [--rounds N] intake paced put onward waiting delayed relay streams

    intake   single events from 64 clients, each on disk when it is answered, beside items produced into a queue
    paced    the same at half of that rate, offered by a clock: how long an answer takes
    put      PUT of 2 KiB pages: without a rule, with one that wants other events, with one that wants palimpsest.render
    onward   events through log, router, items and requests to a sink (nginx), beside a program that makes the same requests alone
    waiting  intake while 10, and 10^6 jobs wait whose target is not there; memory and disk of both
    delayed  100,000 items with a delay of an hour: memory, and what another rule does meanwhile
    relay    PURGE of a wiki's URL to its arrival at a target, 64 clients
    streams  256 readers of GET /v1/stream at 1,000 events a second: how late each event is, processor time

DIR is a release build (meson setup DIR --buildtype=release) with the targets palimpsest and bench. All servers listen on
127.0.0.1 on free ports and are ended by pid. A row is the median of rounds, a ratio the median of those of one round."""
import argparse
import http.client
import http.server
import json
import os
import pathlib
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time

from bench import med
from procs import free_port
from queues import Palimpsest, QueueBench, cpu_s, disk_mb

CLIENTS = 64


def table(title, rows, columns):
    print(f'### {title}\n\n| {" | ".join(columns)} |\n|{" ---: |" * len(columns)}')
    for row in rows:
        print(f'| {" | ".join(map(str, row))} |', flush=True)
    print()


def us(value):
    return f'{value / 1000:,.2f} ms'


class Onward(Palimpsest):
    """A server with these rules; load() tells events."""
    wire = 'events'

    def __init__(self, b, name, rules=None, domains=None, sets=()):
        folder = pathlib.Path(tempfile.mkdtemp(dir=b.dir))
        self.config = folder / 'palimpsest.yaml'
        self.config.write_text(json.dumps({'domains': domains or {'localhost': {}}, 'change': {'rules': rules or {}}}))
        self.admin = f'127.0.0.1:{free_port()}'
        super().__init__(b, name, sets=('admin_listen=' + self.admin, *sets))

    def start(self):
        argv = [os.path.join(self.b.args.build, 'palimpsest'), 'serve', '--data', os.path.join(self.dir, 'data'),
                '--listen', '127.0.0.1:0', '--config', str(self.config)]
        for option in self.sets:
            argv += ['--set', option]
        with open(os.path.join(self.dir, 'log'), 'ab') as log:
            self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, stderr=log)
        self.port = int(self.wait_line('listening on ').rsplit(':', 1)[1])

    def wait_line(self, start):
        for line in self.process.stdout:
            if line.startswith(start):
                return line.strip()
        raise SystemExit(f'{self.name} did not start: {open(os.path.join(self.dir, "log"), encoding="utf8").read()[-2000:]}')

    def status(self):
        c = http.client.HTTPConnection(*self.admin.split(':'), timeout=60)
        c.request('GET', '/v1/admin.change')
        answer = json.loads(c.getresponse().read())
        c.close()
        return answer

    def rule(self, name):
        return next(one for one in self.status()['rules'] if one['name'] == name)

    def wait_done(self, name, count, deadline_s=600):
        until = time.monotonic() + deadline_s
        while self.rule(name)['done'] < count:
            if time.monotonic() > until:
                raise SystemExit(f'{self.name}: {self.rule(name)}')
            time.sleep(0.02)


class Sink:
    """nginx that answers 200 to everything at once."""

    def __init__(self, b):
        self.port = free_port()
        folder = tempfile.mkdtemp(dir=b.dir)
        conf = os.path.join(folder, 'nginx.conf')
        with open(conf, 'w', encoding='ascii') as f:
            f.write(f"""worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/err;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; client_max_body_size 100m; client_body_buffer_size 1m;
client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
server {{ listen 127.0.0.1:{self.port}; location / {{ return 200; }} }} }}""")
        self.process = subprocess.Popen(['nginx', '-c', conf], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                socket.create_connection(('127.0.0.1', self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit('nginx did not start')

    def end(self):
        self.process.terminate()
        self.process.wait(10)


def hook(port, **more):
    return {'match': {'stream': 'bench'}, 'effect': 'http', 'url': f'http://127.0.0.1:{port}/{{title}}', 'concurrency': 64, **more}


def bench_intake(b):
    ms = int(b.args.seconds * 1000)
    queue, events = b.add(Palimpsest(b)), b.add(Onward(b, 'events'))
    rounds = []
    for _ in range(b.args.rounds):
        rounds.append([t.load('--producers', CLIENTS, '--ms', ms)['produce'] for t in (queue, events)])
    table('Events from 64 clients, one in each request, on disk when answered',
          [[name, f"{med([r[i]['ops_s'] for r in rounds]):,.0f}", us(med([r[i]['p99'] for r in rounds]))]
           for i, name in enumerate(('produce', 'POST /v1/events'))] +
          [['ratio', f"{med([r[1]['ops_s'] / r[0]['ops_s'] for r in rounds]):.2f}x", '']], ['', 'a second', 'p99'])
    return med([r[1]['ops_s'] for r in rounds])


def bench_paced(b):
    events = b.add(Onward(b, 'events'))
    most = events.load('--producers', CLIENTS, '--ms', int(b.args.seconds * 1000))['produce']['ops_s']
    rounds = [events.load('--producers', CLIENTS, '--ms', int(b.args.seconds * 1000), '--pace', int(most / 2))['produce']
              for _ in range(b.args.rounds)]
    table(f'Events at half load: {most / 2:,.0f} a second', [[us(med([r['p50'] for r in rounds])), us(med([r['p99'] for r in rounds]))]],
          ['p50', 'p99'])


def put_rate(target, seconds):
    """PUTs of new titles on 16 connections, each a revision of its own."""
    run, until, counts = time.time_ns(), time.monotonic() + seconds, [0] * 16
    body = b'<p>' + b'The third planet from the Sun. ' * 66

    def work(n):
        c = http.client.HTTPConnection('127.0.0.1', target.port, timeout=60)
        while time.monotonic() < until:
            c.request('PUT', f'/localhost/v1/page/html/P{run}-{n}-{counts[n]}/1', body, {'Content-Type': 'text/html'})
            answer = c.getresponse()
            answer.read()
            if answer.status != 201:
                raise SystemExit(f'PUT: {answer.status}')
            counts[n] += 1
        c.close()
    before = cpu_s(target)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(counts) / seconds, (cpu_s(target) - before) / sum(counts) * 1e6


def bench_put(b):
    drop = {'effect': 'drop'}
    targets = [b.add(Onward(b, 'no rule')), b.add(Onward(b, 'a rule for others', {'x': {'match': {'stream': 'else'}, **drop}})),
               b.add(Onward(b, 'its event selected', {'x': {'match': {'stream': 'palimpsest.render'}, **drop}}))]
    rounds = [[put_rate(t, b.args.seconds) for t in targets] for _ in range(b.args.rounds)]
    table('PUT of 2 KiB on 16 connections',
          [[t.name, f'{med([r[i][0] for r in rounds]):,.0f}', f'{med([r[0][0] / r[i][0] for r in rounds]):.3f}x',
            f'{med([r[i][1] for r in rounds]):.0f} us', f'{med([r[i][1] / r[0][1] for r in rounds]):.3f}x'] for i, t in enumerate(targets)],
          ['', 'PUTs a second', 'time', 'processor time each', 'ratio'])


def bench_onward(b):
    count = int(4000 * b.args.seconds)
    sink = Sink(b)
    target = b.add(Onward(b, 'rules', {'hook': hook(sink.port)}))
    rows = []
    for _ in range(b.args.rounds):
        done = target.rule('hook')['done']
        began, cpu = time.monotonic(), cpu_s(target)
        target.load('--producers', 4, '--batch', 100, '--operations', count // 100, '--ms', 600000)
        target.wait_done('hook', done + count)
        rows.append((count / (time.monotonic() - began), (cpu_s(target) - cpu) / count * 1e6))
        alone = b.wrk(f'http://127.0.0.1:{sink.port}/x', CLIENTS)
        rows[-1] += (alone['rps'],)
    sink.end()
    table('Events through log, router, items and 64 requests at once to a sink',
          [[f'{med([r[0] for r in rows]):,.0f}', f'{med([r[1] for r in rows]):.0f} us', f'{med([r[2] for r in rows]):,.0f}']],
          ['events a second', 'processor time each', 'wrk alone, requests a second'])


def jobs(port):
    return {'match': {'stream': 'bench'}, 'effect': 'job', 'targets': [f'http://127.0.0.1:{port}/run'], 'concurrency': 4}


def bench_waiting(b):
    target = b.add(Onward(b, 'jobs', {'jobs': jobs(free_port())}, sets=('change.bytes_max=100G',)))
    rows = []
    for total in (10, b.args.count):
        have = target.rule('jobs')['ready']
        while have < total:
            step = min(total - have, 100000)
            target.load('--producers', 2, '--batch', min(step, 1000), '--operations', -(-step // 1000), '--ms', 3600000)
            have += step
        until = time.monotonic() + 600
        while target.rule('jobs')['ready'] < total and time.monotonic() < until:
            time.sleep(0.1)
        got = target.load('--producers', CLIENTS, '--ms', int(b.args.seconds * 1000))['produce']
        rows.append([f'{total:,}', f"{got['ops_s']:,.0f}", us(got['p99']), f"{target.rss_mb('RssAnon'):.0f}", f'{target.rss_mb():.0f}', f"{disk_mb(os.path.join(target.dir, 'data')):,.0f}"])
    table('Intake of jobs while others wait', rows, ['waiting', 'events a second', 'p99', 'memory, MiB', 'with the index, MiB', 'disk, MiB'])


def bench_delayed(b):
    sink = Sink(b)
    target = b.add(Onward(b, 'rules', {'late': {**hook(sink.port, delay='1h', concurrency=4), 'match': {'stream': 'late'}}, 'hook': hook(sink.port)}))
    rows = []
    for delayed in (0, 100000):
        if delayed:
            subprocess.run([os.path.join(b.args.build, 'bench', 'queue_load'), 'events', str(target.port), '--queue', 'late', '--producers', '2',
                            '--batch', '1000', '--operations', str(delayed // 1000), '--ms', '600000'], check=True, capture_output=True)
            while sum(target.rule('late')[state] for state in ('scheduled', 'waiting')) < delayed:    # those of one title stand in line
                time.sleep(0.05)
        done, began = target.rule('hook')['done'], time.monotonic()
        target.load('--producers', 4, '--batch', 100, '--operations', 100, '--ms', 600000)
        target.wait_done('hook', done + 10000)
        rows.append([f'{delayed:,}', f"{target.rule('late')['running']}", f"{target.rss_mb('RssAnon'):.0f}", f'{target.rss_mb():.0f}', f'{10000 / (time.monotonic() - began):,.0f}'])
    sink.end()
    table('Items that wait an hour', rows, ['delayed', 'slots they hold', 'memory, MiB', 'with the index, MiB', "another rule's events a second"])


class Arrivals:
    """A target for PURGE that notes when each path arrived."""

    def __init__(self):
        self.at = at = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_PURGE(self):  # pylint: disable=invalid-name
                at.setdefault(self.path, time.monotonic())
                self.send_response(200)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *args):  # pylint: disable=arguments-differ
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def bench_relay(b):
    sink, count, each = Arrivals(), 8, 100
    domains = {'localhost': {'origin': {'url': 'http://127.0.0.1:1/rest.php', 'hosts': ['wiki.test']}}}
    rules = {'edge': {'match': {'stream': 'palimpsest.render'}, 'effect': 'purge', 'targets': [f'http://127.0.0.1:{sink.port}'],
                      'concurrency': 32, 'rebound': '0s'}}
    target = b.add(Onward(b, 'hub', rules, domains, sets=('change.purge_listen=127.0.0.1:0',)))
    port = int(target.wait_line('purge on ').rsplit(':', 1)[1])
    sent = {}

    def work(n):
        c = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        for i in range(each):
            path = f'/wiki/P{n}-{i}'
            sent[path] = time.monotonic()
            c.putrequest('PURGE', 'http://wiki.test' + path, skip_host=True)
            c.putheader('Host', 'wiki.test')
            c.endheaders()
            answer = c.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f'PURGE: {answer.status}')
            time.sleep(0.02)
        c.close()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    until = time.monotonic() + 30
    while len(sink.at) < count * each and time.monotonic() < until:
        time.sleep(0.01)
    late = sorted((sink.at[path] - at) * 1e6 for path, at in sent.items())
    table(f'PURGE from {count} clients, 400 a second in all, to its arrival at a target', [[us(late[len(late) // 2]), us(late[int(len(late) * 0.99)])]],
          ['p50', 'p99'])


def bench_streams(b):
    """Each event carries when it was told, in microseconds of this machine's clock."""
    readers, rate = 256, 1000
    target = b.add(Onward(b, 'streams', sets=('http.connections_max=2000',)))
    poll, late, buffers = selectors.DefaultSelector(), [], {}
    for _ in range(readers):
        s = socket.create_connection(('127.0.0.1', target.port))
        s.sendall(b'GET /v1/stream?stream=bench HTTP/1.1\r\nHost: x\r\n\r\n')
        s.setblocking(False)
        buffers[s] = b''
        poll.register(s, selectors.EVENT_READ)
    told, stop = [0], threading.Event()

    def tell():
        c = http.client.HTTPConnection('127.0.0.1', target.port, timeout=60)
        began = time.monotonic()
        while time.monotonic() - began < b.args.seconds:
            events = [{'meta': {'stream': 'bench', 'domain': 'localhost'}, 'at': time.monotonic_ns(), 'pad': 'x' * 200} for _ in range(10)]
            c.request('POST', '/v1/events', json.dumps(events), {'Content-Type': 'application/json'})
            c.getresponse().read()
            told[0] += 10
            rest = began + told[0] / rate - time.monotonic()
            time.sleep(max(rest, 0))
        stop.set()
    cpu, teller = cpu_s(target), threading.Thread(target=tell)
    teller.start()
    got, quiet = 0, 0
    while not stop.is_set() or quiet < 20:
        ready = poll.select(0.05)
        quiet = 0 if ready else quiet + 1
        now = time.monotonic_ns()
        for key, _ in ready:
            piece = key.fileobj.recv(1 << 20)
            got += piece.count(b'"stream":"bench"') + piece.count(b'"stream": "bench"')
            at = piece.rfind(b'"at": ')
            if at >= 0 and b',' in piece[at:]:
                late.append((now - int(piece[at + 6:piece.index(b',', at)])) / 1000)
    teller.join()
    cpu = cpu_s(target) - cpu
    late.sort()
    for s in buffers:
        s.close()
    table(f'{readers} readers, {told[0] / b.args.seconds:,.0f} events a second',
          [[f'{got / max(told[0] * readers, 1) * 100:.1f} %', us(late[len(late) // 2]), us(late[int(len(late) * 0.99)]), f'{cpu / b.args.seconds * 100:.0f} %',
            f'{target.rss_mb():.0f}']], ['arrived', 'late p50', 'late p99 (one slow reader for all: this program)', 'processor', 'memory, MiB'])


def main():
    cases = {name.removeprefix('bench_'): f for name, f in globals().items() if name.startswith('bench_')}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', required=True)
    p.add_argument('--seconds', type=float, default=3)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--count', type=int, default=1000000, help='of waiting')
    p.add_argument('--tmp', default='/var/tmp')
    p.add_argument('--peers', default='')
    p.add_argument('which', nargs='+', choices=sorted(cases))
    args = p.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    for which in args.which:
        b = QueueBench(args)
        try:
            cases[which](b)
        finally:
            b.close()
        sys.stdout.flush()


if __name__ == '__main__':
    main()
