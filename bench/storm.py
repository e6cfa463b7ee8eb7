#!/usr/bin/env python3
"""storm.py - many who ask for one missing page at once, and a wiki read while it is edited; prints Markdown.

    storm.py --build DIR [--rounds N] [--counts 200,10000] storm      beside nginx and Varnish with their cache locks
    storm.py --build DIR [--pages N] [--wiki DIR] latency             cold and warm, beside the wiki asked directly
    storm.py --build DIR [--pages N] [--wiki DIR] [--seconds N] busy  stored reads while misses and saves run beside

DIR is a release build (meson setup DIR --buildtype=release) with the targets palimpsest and bench/storm_client. storm
needs nginx and varnishd (script/deps bench), the others MediaWiki (script/deps wiki); --wiki keeps the wiki for the
next run. All servers listen on 127.0.0.1 on free ports and are ended by pid. Instants of load, origin and answers are
of one clock, so "added" is exact: from the origin's last byte to the answer's. Absolute figures only say what this
machine did at that minute; the ratios beside the peers of the same round are what counts."""
import argparse
import http.client
import http.server
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tools/wiki'), str(ROOT / 'bench')]
sys.dont_write_bytecode = True
from bench import html                        # noqa: E402  pylint: disable=wrong-import-position
from procs import Proc, free_port             # noqa: E402  pylint: disable=wrong-import-position
from wiki import DOMAIN, Wiki, WikiError, quote   # noqa: E402  pylint: disable=wrong-import-position

START_TIMEOUT = 60
OTHER_PAGES = 200        # stored before a storm; asked for while it lasts
OTHER_CONNECTIONS = 4
HOST = 'bench.test'
BODY_BYTES = 20000
TYPE = 'text/html; charset=utf-8'


def median(values):
    return statistics.median(values) if values else float('nan')


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * (len(values) - 1) + 0.5))]


# ---- the origin of storms

class Origin:
    """Answers GET /page/NAME after .delay seconds, with .status; knows when each call came and was answered (us)."""

    def __init__(self):
        self.delay, self.status, self.calls = 0.0, 200, []
        self._body = html(BODY_BYTES, 1).encode()
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            wbufsize = 1 << 16    # head and body in one piece

            def log_message(self, *args):
                pass

            def do_GET(self):
                call = [self.path, time.monotonic_ns() // 1000, None]
                origin.calls.append(call)
                time.sleep(origin.delay)
                self.send_response(origin.status)
                for name, value in (('Content-Type', TYPE), ('Content-Length', str(len(origin._body))),
                                    ('Content-Revision-Id', '1'), ('Cache-Control', 'max-age=600')):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(origin._body)
                self.wfile.flush()
                call[2] = time.monotonic_ns() // 1000

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 4096

            def handle_error(self, request, client_address):
                pass

        self.http = Server(('127.0.0.1', 0), Handler)
        self.port = self.http.server_port
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def of(self, name):
        return [call for call in list(self.calls) if call[0] == '/page/' + name]


# ---- the servers

class Served:
    """One server in front of an origin. path: how it is asked for a page."""

    def __init__(self, name, process, port, path, pids):
        self.name, self.process, self.port, self._path, self._pids = name, process, port, path, pids

    def path(self, page):
        return self._path % quote(page)

    def resident_kb(self):
        """Of all its processes."""
        total = 0
        for pid in self._pids():
            with open(f'/proc/{pid}/status', encoding='ascii') as status:
                total += next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))
        return total


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
        return [int(child) for child in file.read().split()]


def wait_answer(port):
    until = time.monotonic() + START_TIMEOUT
    while True:
        try:
            connection = http.client.HTTPConnection('127.0.0.1', port, timeout=START_TIMEOUT)
            connection.request('GET', '/')
            connection.getresponse().read()
            connection.close()
            return
        except (OSError, http.client.HTTPException):
            if time.monotonic() > until:
                raise SystemExit(f'nothing answers on port {port}') from None
            time.sleep(0.02)


def ours(args, folder, origin):
    process = Proc([os.path.join(args.build, 'palimpsest'), 'serve', '--data', f'{folder}/data', '--listen',
                    '127.0.0.1:0', '--domain', HOST, '--set', 'http.connections_max=24000',
                    '--set', f'domains.{HOST}.origin.kind=template',
                    '--set', f'domains.{HOST}.origin.url=http://127.0.0.1:{origin.port}/page/{{title}}'],
                   'listening on ', stderr=f'{folder}/palimpsest.log')
    port = urllib.parse.urlsplit(process.url).port
    return Served('palimpsest', process, port, f'/{HOST}/v1/page/html/%s', lambda: [process.p.pid])


def nginx(args, folder, origin):
    port = free_port()
    user = 'user root; ' if os.geteuid() == 0 else ''
    with open(f'{folder}/nginx.conf', 'w', encoding='ascii') as conf:
        conf.write(f'''{user}worker_processes 2; daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.err;
worker_rlimit_nofile 40000; events {{ worker_connections 16000; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
proxy_cache_path {folder}/cache keys_zone=pages:20m;
server {{ listen 127.0.0.1:{port} backlog=4096;
location /page/ {{ proxy_pass http://127.0.0.1:{origin.port}; proxy_cache pages; proxy_cache_lock on;
proxy_cache_lock_timeout 60s; proxy_cache_lock_age 60s; }} location = / {{ return 204; }} }} }}
''')
    process = Proc(['nginx', '-e', f'{folder}/nginx.err', '-c', f'{folder}/nginx.conf'])
    wait_answer(port)
    return Served('nginx', process, port, '/page/%s', lambda: [process.p.pid, *children(process.p.pid)])


def varnish(args, folder, origin):
    port = free_port()
    with open(f'{folder}/pages.vcl', 'w', encoding='ascii') as vcl:
        vcl.write(f'''vcl 4.1; backend origin {{ .host = "127.0.0.1"; .port = "{origin.port}"; }}
sub vcl_recv {{ if (req.url == "/") {{ return (synth(204)); }} return (hash); }}
''')
    process = Proc(['varnishd', '-F', '-j', 'none', '-a', f'127.0.0.1:{port}', '-f', f'{folder}/pages.vcl', '-n',
                    f'{folder}/varnish', '-s', 'malloc,256m', '-p', 'listen_depth=4096', '-p', 'thread_pool_max=5000'],
                   stderr=f'{folder}/varnish.log')
    wait_answer(port)
    return Served('Varnish', process, port, '/page/%s', lambda: [process.p.pid, *children(process.p.pid)])


# ---- storms

def load(args, mode, port, path, *numbers):
    """Starts the load client; its JSON comes from its stdout."""
    return subprocess.Popen([os.path.join(args.build, 'bench/storm_client'), mode, str(port), HOST, path,
                             *map(str, numbers)], stdout=subprocess.PIPE, text=True)


def result(process):
    output, _ = process.communicate(timeout=200)
    if process.returncode != 0:
        raise SystemExit('the load client failed')
    return json.loads(output)


def fill_others(served, folder, origin):
    """Has the pages stored that are asked for beside; the file of their paths."""
    origin.delay, origin.status = 0, 200
    connection = http.client.HTTPConnection('127.0.0.1', served.port, timeout=60)
    paths = [served.path(f'Other{n}') for n in range(OTHER_PAGES)]
    for path in paths:
        connection.request('GET', path, headers={'Host': HOST})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f'{served.name}: {path}: {answer.status}')
    connection.close()
    file = f'{folder}/{served.name}.paths'
    with open(file, 'w', encoding='ascii') as out:
        out.write('\n'.join(paths) + '\n')
    return '@' + file


def one_storm(args, served, origin, others, count, status=200):
    """What one storm on one missing page did."""
    page = f'Storm{time.monotonic_ns()}'
    origin.delay, origin.status = (0.3 if count <= 1000 else 2.5), status
    seconds = origin.delay + (1 if count <= 1000 else 4)
    before = served.resident_kb()
    each = others[1:] + '.times'
    beside = load(args, 'pace', served.port, others, OTHER_CONNECTIONS, int(seconds * 1000), each)
    storm = load(args, 'storm', served.port, served.path(page), count)
    resident = before
    while storm.poll() is None and not (origin.of(page) and origin.of(page)[0][2]):
        resident = max(resident, served.resident_kb())
        time.sleep(0.02)
    got = result(storm)
    result(beside)
    calls = origin.of(page)
    warm = result(load(args, 'storm', served.port, served.path(page), count)) if status == 200 else None
    answered = calls[0][2] if calls and calls[0][2] else got['began_us']
    return {'calls': len(calls), 'fine': got['fine'], 'other': got['other'], 'broken': got['broken'],
            'p50': (got['p50_us'] - answered) / 1e3, 'max': (got['max_us'] - answered) / 1e3,
            'warm': (warm['max_us'] - warm['began_us']) / 1e3 if warm else float('nan'),
            'waiting_p99': during(each, got['began_us'], answered),
            'answering_p99': during(each, answered, got['max_us']),
            'kb': (resident - before) / count}


def during(file, begin_us, end_us):
    """The 99th percentile, in ms, of the requests that were under way between two instants."""
    with open(file, encoding='ascii') as lines:
        times = [tuple(map(int, line.split())) for line in lines]
    under_way = [took for end, took in times if end >= begin_us and end - took <= end_us]
    return quantile(under_way, .99) / 1e3 if under_way else float('nan')


def print_storms(name, rows):
    def of(key):
        return median([row[key] for row in rows])
    ratio = median([row['max'] / row['warm'] for row in rows])
    print(f'| {name} | {max(row["calls"] for row in rows)} | '
          f'{of("fine"):.0f} / {of("other"):.0f} / {of("broken"):.0f} | {of("p50"):.1f} | {of("max"):.1f} | '
          f'{of("warm"):.1f} | {ratio:.2f} | {of("waiting_p99"):.2f} | '
          f'{of("answering_p99"):.2f} | {of("kb"):.1f} |', flush=True)


def bench_storm(args):
    folder = tempfile.mkdtemp(prefix='storm-', dir=args.tmp)
    origin, started = Origin(), []
    try:
        for make in (ours, nginx, varnish):
            own = os.path.join(folder, make.__name__)
            os.mkdir(own)
            served = make(args, own, origin)
            started.append(served)
            served.others = fill_others(served, own, origin)
        cases = [(count, 200) for count in args.counts] + [(min(args.counts), 500)]
        for count, status in cases:
            print(f'### {count} requests at once for one missing page; the origin answers {status}\n\n'
                  '| server | origin calls, most | 200 / other / broken | added p50 ms | added to the last ms '
                  '| all warm, last ms | last / warm last | other pages p99 while they wait, ms '
                  '| while they are answered | KB a waiter |\n'
                  '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |', flush=True)
            rows = {served.name: [] for served in started}
            for _ in range(args.rounds):
                for served in started:
                    rows[served.name].append(one_storm(args, served, origin, served.others, count, status))
            for served in started:
                print_storms(served.name, rows[served.name])
            print()
    finally:
        for served in started:
            served.process.end()
        shutil.rmtree(folder, ignore_errors=True)


# ---- the wiki

class Front:
    """A server in front of the wiki, VisualEditor wired to it."""

    def __init__(self, args):
        self.folder = tempfile.mkdtemp(prefix='front-', dir=args.tmp)
        self.own_wiki = args.wiki is None
        self.wiki = Wiki(args.wiki or os.path.join(self.folder, 'wiki'))
        self.process = None
        try:
            print(f'(a wiki of {args.pages} pages)\n', flush=True)
            self.wiki.up(args.pages)
            config = os.path.join(self.folder, 'server.yaml')
            with open(config, 'w', encoding='utf-8') as file:
                file.write(self.wiki.config())
            self.process = Proc([os.path.join(args.build, 'palimpsest'), 'serve', '--config', config, '--data',
                                 f'{self.folder}/data', '--listen', '127.0.0.1:0'], 'listening on ',
                                stderr=f'{self.folder}/palimpsest.log')
            self.port = urllib.parse.urlsplit(self.process.url).port
            self.wiki.wire(self.process.url)
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.process is not None:
            self.process.end()
            self.wiki.unwire()
        if self.own_wiki:
            self.wiki.remove()
        else:
            self.wiki.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def path(title):
        return f'/{DOMAIN}/v1/page/html/{quote(title)}?redirect=false'


class Client:
    """One kept connection; get gives milliseconds and the body."""

    def __init__(self, port):
        self._connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)

    def get(self, path, headers=None):
        began = time.monotonic()
        self._connection.request('GET', path, headers=headers or {})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f'{path}: {answer.status} {body[:300]!r}')
        return (time.monotonic() - began) * 1e3, body


def bench_latency(args):
    front = Front(args)
    try:
        wiki = front.wiki
        pages = [(title, wiki.revision(title)) for title in wiki.titles()]
        served, direct = Client(front.port), Client(wiki.port)
        times = {}

        def take(what, client, path, headers=None):
            times.setdefault(what, []).append(client.get(path, headers)[0])
        for title, rev in pages:
            name, page = quote(title), front.path(title)
            take('Parsoid asked directly', direct, f'/w/rest.php/127.0.0.1/v3/page/pagebundle/{name}/{rev}')
            take('Palimpsest, missing', served, page)
            take('Palimpsest, stored', served, page)
            take('Palimpsest, rendered again on request', served, page, {'Cache-Control': 'no-cache'})
            direct.get(f'/w/rest.php/v1/page/{name}/html')
            take("the wiki's own html, from its parser cache", direct, f'/w/rest.php/v1/page/{name}/html')
        print(f'### One client, {len(pages)} pages, one after the other, ms\n\n| what | p50 | p90 | p99 | max |\n'
              '| --- | ---: | ---: | ---: | ---: |')
        for what, values in times.items():
            print(f'| {what} | {quantile(values, .5):.2f} | {quantile(values, .9):.2f} | {quantile(values, .99):.2f} | '
                  f'{max(values):.2f} |')
        print(flush=True)
    finally:
        front.close()


class Beside(threading.Thread):
    """Something done again and again until .stop."""

    def __init__(self, step):
        super().__init__(daemon=True)
        self._step, self.stop, self.done, self.failed = step, threading.Event(), 0, None

    def run(self):
        try:
            while not self.stop.is_set():
                self._step(self.done)
                self.done += 1
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            self.failed = error

    def end(self):
        self.stop.set()
        self.join()
        if self.failed is not None:
            raise SystemExit(f'beside: {self.failed}')
        return self.done


def saver(front):
    """Loads and saves a page as VisualEditor's server side does, one word more each time."""
    front.wiki.edit('Saved again and again', 'Word.')

    def step(number):
        loaded = front.wiki.api(action='visualeditor', paction='parse', page='Saved_again_and_again')['visualeditor']
        saved = front.wiki.api(action='visualeditoredit', paction='save', page='Saved_again_and_again', token='+\\',
                               html=loaded['content'].replace('Word', f'Word {number}'), etag=loaded['etag'],
                               oldid=loaded['oldid'], basetimestamp=loaded['basetimestamp'],
                               starttimestamp=loaded['starttimestamp'])['visualeditoredit']
        if saved['result'] != 'success':
            raise WikiError(str(saved))
    return step


def bench_busy(args):
    front = Front(args)
    try:
        titles = front.wiki.titles()
        client = Client(front.port)
        for title in titles:
            client.get(front.path(title))
        file = os.path.join(front.folder, 'paths')
        with open(file, 'w', encoding='ascii') as out:
            out.write('\n'.join(front.path(title) for title in titles) + '\n')
        print(f'### Reads of {len(titles)} stored pages over {args.connections} connections, '
              f'{args.seconds:.0f} s, ms\n\n'
              '| beside | reads/s | p50 | p99 | max | misses | saves |\n'
              '| --- | ---: | ---: | ---: | ---: | ---: | ---: |')
        for name in ('nothing', 'misses and saves'):
            beside = []
            if name != 'nothing':
                renders = Client(front.port)
                fresh = {'Cache-Control': 'no-cache'}
                beside = [Beside(lambda n: renders.get(front.path(titles[n % len(titles)]), fresh)),
                          Beside(saver(front))]
            for thread in beside:
                thread.start()
            got = result(load(args, 'pace', front.port, '@' + file, args.connections, int(args.seconds * 1000)))
            done = [thread.end() for thread in beside] or [0, 0]
            print(f'| {name} | {(got["fine"] + got["other"]) / args.seconds:.0f} | {got["p50_us"] / 1e3:.2f} | '
                  f'{got["p99_us"] / 1e3:.2f} | {got["max_us"] / 1e3:.1f} | {done[0]} | {done[1]} |', flush=True)
            if got['other'] or got['broken']:
                print(f'!! {got["other"]} other answers, {got["broken"]} broken', file=sys.stderr)
        print()
    finally:
        front.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--counts', type=lambda text: [int(n) for n in text.split(',')], default=[200, 10000])
    parser.add_argument('--pages', type=int, default=200)
    parser.add_argument('--seconds', type=float, default=20)
    parser.add_argument('--connections', type=int, default=8)
    parser.add_argument('--wiki')
    parser.add_argument('--tmp', help='where data is put')
    parser.add_argument('which', nargs='+', choices=['storm', 'latency', 'busy'])
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    for which in args.which:
        print(f'## {which}\n', flush=True)
        {'storm': bench_storm, 'latency': bench_latency, 'busy': bench_busy}[which](args)


if __name__ == '__main__':
    main()
