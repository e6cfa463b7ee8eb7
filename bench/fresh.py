#!/usr/bin/env python3
"""fresh.py - how soon a change at the wiki is seen, and what asking costs; prints Markdown.

    fresh.py --build DIR [--titles N] tell            PURGE and event to visible, one title at a time
    fresh.py --build DIR [--titles N] [--seconds N] calls     calls a minute, of N stored titles of which 1 % are read
    fresh.py --build DIR [--titles N] template        a template that N pages use is edited: renders, and how many at once
    fresh.py --build DIR [--rounds N] [--seconds N] readers   ready GETs beside a wiki that is asked, and one that is not
    fresh.py ready OLD/palimpsest NEW/palimpsest      instructions of a ready GET of a wiki's page, by callgrind

DIR is a release build (meson setup DIR --buildtype=release). The wiki is the scripted one of test/scene/origin.py, which takes no
time to render. readers wants wrk, ready wants valgrind."""
import argparse
import contextlib
import glob
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'test/scene'), str(ROOT / 'bench')]
sys.dont_write_bytecode = True
from procs import Proc, free_port     # noqa: E402  pylint: disable=wrong-import-position
import origin as wikis                # noqa: E402  pylint: disable=wrong-import-position

DOMAIN, HOST = 'localhost', 'wiki.test'
COUNTED = 300
WAIT_S = 120
TICKS = os.sysconf('SC_CLK_TCK')


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * (len(values) - 1) + 0.5))]


wikis._Handler.wbufsize = 1 << 16     # head and body in one piece: else each answer waits 40 ms for an ACK


class Busy(wikis.Origin):
    """Knows how many renders it makes at once, and takes a while for each when told."""

    def __init__(self):
        super().__init__(HOST)
        self.now = self.most = 0
        self.takes_s = 0.0
        self._count = threading.Lock()

    def meet(self, kind, path, headers, body, answer):
        if kind == 'render' and self.takes_s > 0:
            with self._count:
                self.now += 1
                self.most = max(self.most, self.now)
            time.sleep(self.takes_s)
            with self._count:
                self.now -= 1
        return super().meet(kind, path, headers, body, answer)


class Server:
    """In front of an origin; more: options. wrapper: a command that runs it."""

    def __init__(self, binary, origin, *more, wrapper=()):
        self.folder = tempfile.mkdtemp(prefix='fresh-', dir='/var/tmp')
        self.purge = free_port()
        wrapper = [word.replace('FOLDER', self.folder) for word in wrapper]
        self.proc = Proc([*wrapper, binary, 'serve', '--data', f'{self.folder}/data', '--listen', '127.0.0.1:0',
                          *origin.options(DOMAIN), *more], 'listening on ')
        self.address = self.proc.url.split('//')[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cpu_s(self):
        with open(f'/proc/{self.proc.p.pid}/stat', encoding='ascii') as stat:
            fields = stat.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


class Client:
    def __init__(self, address):
        self.connection = http.client.HTTPConnection(address, timeout=WAIT_S)

    def ask(self, method, path, body=None, headers=None):
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        return answer, answer.read()

    def get(self, title):
        answer, body = self.ask('GET', f'/{DOMAIN}/v1/page/html/{title}')
        if answer.status != 200:
            raise SystemExit(f'GET {title}: {answer.status} {body[:200]}')
        return body


def purge_port(server):
    return ['--set', f'change.purge_listen=127.0.0.1:{server}']


def touch(origin, title, number):
    """As an edit of a template: the text is another one, at the same revision."""
    origin.stamp = f' stamp {number}'
    origin.touched[title] = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() - 10 + number % 7))


def fill(origin, server, titles):
    client = Client(server.address)
    for i, title in enumerate(titles):
        origin.page(title, (i + 1, 'text'))
        client.get(title)


# ---- how soon it is seen

def tell(args):
    titles = [f'T{i}' for i in range(args.titles or 200)]
    print('| told by | titles | p50 ms | p99 ms | max ms |\n| --- | ---: | ---: | ---: | ---: |')
    for how in ('PURGE', 'event'):
        port = free_port()
        with Busy() as origin, Server(f'{args.build}/palimpsest', origin, *purge_port(port)) as server:
            fill(origin, server, titles)
            took, client, teller = [], Client(server.address), Client(f'127.0.0.1:{port}' if how == 'PURGE' else server.address)
            for number, title in enumerate(titles):
                client.get(title)
                touch(origin, title, number + 1)
                began = time.monotonic()
                if how == 'PURGE':
                    answer, body = teller.ask('PURGE', f'http://{DOMAIN}/wiki/{title}')
                else:
                    event = {'$schema': '/mediawiki/page/change/1', 'database': 'wiki', 'page_title': title,
                             'meta': {'stream': 'mediawiki.page-links-change', 'domain': DOMAIN}}
                    answer, body = teller.ask('POST', '/v1/events', json.dumps(event).encode(),
                                              {'Content-Type': 'application/json'})
                if answer.status not in (200, 201, 202):
                    raise SystemExit(f'{how}: {answer.status} {body[:300]}')
                while origin.stamp.encode() not in client.get(title):
                    if time.monotonic() - began > WAIT_S:
                        raise SystemExit(f'{how}: {title} is never seen')
                took.append((time.monotonic() - began) * 1000)
            print(f'| {how} | {len(titles)} | {quantile(took, .5):.1f} | {quantile(took, .99):.1f} | {max(took):.1f} |', flush=True)


# ---- what asking costs

def calls(args):
    count, seconds = args.titles or 100000, args.seconds or 180
    with Busy() as origin, Server(f'{args.build}/palimpsest', origin) as server:
        client = Client(server.address)
        for i in range(count):
            origin.page(f'T{i}', (i + 1, 'text'))
            answer, body = client.ask('PUT', f'/{DOMAIN}/v1/page/html/T{i}/{i + 1}', b'stored text', {'Content-Type': 'text/html'})
            if answer.status != 201:
                raise SystemExit(f'PUT: {answer.status} {body[:200]}')
        read = [f'T{i}' for i in range(0, count, 100)]
        for title in read:          # the first read of each asks, and somebody waits for it
            client.get(title)
        before, began = origin.count('words'), time.monotonic()
        while time.monotonic() - began < seconds:
            for title in read:
                client.get(title)
        took = time.monotonic() - began
        asked = origin.count('words') - before
        print('| stored titles | read | seconds | calls for words | a minute |\n| ---: | ---: | ---: | ---: | ---: |')
        print(f'| {count} | {len(read)} | {took:.0f} | {asked} | {asked / took * 60:.1f} |')


# ---- a template

def template(args):
    titles = [f'T{i}' for i in range(args.titles or 10000)]
    port = free_port()
    with Busy() as origin, Server(f'{args.build}/palimpsest', origin, *purge_port(port)) as server:
        fill(origin, server, titles)
        first, origin.takes_s = origin.count('render'), 0.002
        before = origin.count('words')
        for title in titles:
            touch(origin, title, 1)
        began, teller = time.monotonic(), Client(f'127.0.0.1:{port}')
        for title in titles:
            teller.ask('PURGE', f'http://{DOMAIN}/wiki/{title}')
        told = time.monotonic() - began

        def read(part):
            client = Client(server.address)
            for title in part:
                while origin.stamp.encode() not in client.get(title):
                    if time.monotonic() - began > 10 * WAIT_S:
                        raise SystemExit(f'{title} is never seen')
        threads = [threading.Thread(target=read, args=(titles[k::16],)) for k in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print('| pages | PURGEs taken in, s | all right after, s | renders | renders at once (limit 8) | calls for words |\n'
              '| ---: | ---: | ---: | ---: | ---: | ---: |')
        print(f'| {len(titles)} | {told:.1f} | {time.monotonic() - began:.1f} | {origin.count("render") - first} | {origin.most} '
              f'| {origin.count("words") - before} |')


# ---- readers

def readers(args):
    """(us of processor time a ready GET, GETs a second), the wiki asked each second and not at all."""
    seconds, ratios = args.seconds or 5, []
    print('| round | asked each second, us a GET | never asked | ratio |\n| ---: | ---: | ---: | ---: |')
    for number in range(args.rounds):
        got = {}
        for ttl in ('1s', 'never') if number % 2 == 0 else ('never', '1s'):
            origin = Busy()
            options = [word for name in ('trust_ttl', 'trust_max')
                       for word in ('--set', f'domains.{DOMAIN}.origin.{name}={ttl if name == "trust_ttl" else "never"}')]
            with origin, Server(f'{args.build}/palimpsest', origin, *options) as server:
                fill(origin, server, ['T'])
                for _ in range(4):
                    Client(server.address).get('T')
                cpu = server.cpu_s()
                out = subprocess.run(['wrk', '-t1', '-c16', f'-d{seconds}s', f'http://{server.address}/{DOMAIN}/v1/page/html/T'],
                                     capture_output=True, text=True, check=True).stdout
                done = int(re.search(r'(\d+) requests in', out)[1])
                got[ttl] = (server.cpu_s() - cpu) / done * 1e6
        ratios.append(got['1s'] / got['never'])
        print(f'| {number + 1} | {got["1s"]:.2f} | {got["never"]:.2f} | {ratios[-1]:.3f} |', flush=True)
    print(f'\nMedian {statistics.median(ratios):.3f}x.')


def instructions(binary, count):
    valgrind = ('valgrind', '-q', '--tool=callgrind', '--callgrind-out-file=FOLDER/cg.out')
    with Busy() as origin, Server(binary, origin, wrapper=valgrind) as server:
        fill(origin, server, ['T'])
        for _ in range(4):
            Client(server.address).get('T')
        client = Client(server.address)
        for _ in range(count):
            client.get('T')
        server.proc.end()
        total = 0
        for name in glob.glob(f'{server.folder}/cg.out*'):
            lines = subprocess.run(['callgrind_annotate', name], capture_output=True, text=True, check=False).stdout
            found = re.search(r'([\d,]+) .*PROGRAM TOTALS', lines)
            total += int(found[1].replace(',', '')) if found else 0
        return total


def ready(args):
    each = []
    for binary in args.what[1:]:
        base = instructions(binary, 0)
        each.append((instructions(binary, COUNTED) - base) / COUNTED)
        print(f'ready GET of a wiki\'s page: {each[-1]:.0f} instructions, {binary}', flush=True)
    if len(each) == 2:
        print(f'{each[1] / each[0]:.3f}x')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build')
    parser.add_argument('--titles', type=int)
    parser.add_argument('--seconds', type=int)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('what', nargs='+')
    args = parser.parse_args()
    verbs = {'tell': tell, 'calls': calls, 'template': template, 'readers': readers, 'ready': ready}
    with contextlib.suppress(KeyboardInterrupt):
        verbs[args.what[0]](args)


if __name__ == '__main__':
    main()
