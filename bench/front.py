#!/usr/bin/env python3
"""front.py - what a request costs at the front, in instructions and in system calls; prints Markdown.

    front.py instructions OLD/palimpsest NEW/palimpsest    of a ready GET of 20 KB: on a connection of its own, with a key, and on one
                                                           that carried a write and a miss before; of a PUT; of a GET that is stored
    front.py calls OLD/palimpsest NEW/palimpsest           the same in system calls
    front.py wall OLD/palimpsest NEW/palimpsest            ready GETs by wrk on 2, 16 and 64 connections, and nginx with the same body
                                                           in a file, by turns: medians of ratios
    front.py beside OLD/palimpsest NEW/palimpsest          8 connections of ready GETs beside 64 clients that PUT 1 MiB: as fast as they
                                                           can, and then so many PUTs a second in all (--puts-per-s) to either
    front.py slow OLD/palimpsest NEW/palimpsest            one connection of ready GETs beside no slow client, and beside 10,000 that
                                                           send a head, each a byte a second
    front.py memory OLD/palimpsest NEW/palimpsest          what 5,000 connections add to the memory of the process, each of which has had
                                                           a ready GET and waits for the next

The binaries are release builds (meson setup DIR --buildtype=release). The first wants valgrind, the second strace, `wall` nginx, and
all but `memory` of the others wrk and a quiet machine. What the first two count is the whole program: what N requests add to none.
--rounds is how often each of two is measured, --seconds how long a time: less than by default is for a trial of this program.

With PUTs as fast as they can, the server that takes more of them leaves less of the processor to the GETs beside them. So p99 of two
servers compares where both are offered the same, and take it: the row PUTs/s says so."""
import argparse
import glob
import http.client
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'bench')]
sys.dont_write_bytecode = True
from procs import Nginx, Proc         # noqa: E402  pylint: disable=wrong-import-position

COUNTED = 300
WAIT_S = 60
WALL_ROUNDS, WALL_S = 7, 2
BESIDE_ROUNDS, BESIDE_S = 4, 4
SLOW_ROUNDS, SLOW_S, SLOW_CLIENTS, SLOW_BYTE_S = 4, 4, 10000, 1
MEMORY_ROUNDS, MEMORY_FIRST, MEMORY_MORE = 3, 500, 5000
SPARE_FDS = 500
PAGE = '/localhost/v1/page/html/'
HTML = {'Content-Type': 'text/html'}
BODY = (b'<p>The third planet from the Sun. ' * 600)[:20480]


class Server:
    def __init__(self, binary, *wrapper, keyed=False, options=()):
        self.folder = tempfile.mkdtemp(prefix='front-', dir='/var/tmp')
        self.headers = {}
        more = [word for option in options for word in ('--set', option)]
        if keyed:
            token = [binary, 'token']
            key = subprocess.run([*token, 'create', '--role', 'admin', '--data', f'{self.folder}/data', '--new'], check=True,
                                 capture_output=True, text=True).stdout.strip()
            subprocess.run([*token, 'lock', '--data', f'{self.folder}/data'], check=True, capture_output=True)
            self.headers = {'Authorization': f'Bearer {key}'}
            more += ['--set', 'auth=internal']
        wrapper = [word.replace('FOLDER', self.folder) for word in wrapper]
        self.proc = Proc([*wrapper, binary, 'serve', '--data', f'{self.folder}/data', '--listen', '127.0.0.1:0', *more],
                         'listening on ')
        self.address = self.proc.url.split('//')[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self):
        return http.client.HTTPConnection(self.address, timeout=WAIT_S)

    def ask(self, client, method, path, body=None, want=200):
        client.request(method, path, body, {**self.headers, **(HTML if body else {})})
        answer = client.getresponse()
        answer.read()
        if answer.status != want:
            raise SystemExit(f'{method} {path}: {answer.status}')


def play(server, how, count):
    """The same before, whatever count is."""
    client = server.client()
    server.ask(client, 'PUT', f'{PAGE}Earth/1', BODY, 201)
    for _ in range(4):
        server.ask(client, 'GET', f'{PAGE}Earth')
    if how != 'after':
        client = server.client()
        server.ask(client, 'GET', f'{PAGE}Earth')
    else:
        server.ask(client, 'PUT', f'{PAGE}Mars/1', BODY, 201)
        server.ask(client, 'GET', f'{PAGE}Nobody', want=404)
        server.ask(client, 'GET', f'{PAGE}Earth')
    for i in range(count):
        if how == 'put':
            server.ask(client, 'PUT', f'{PAGE}Venus/{i + 1}', BODY, 201)
        elif how == 'stored':
            server.ask(client, 'GET', f'{PAGE}Earth?x={i}')
        else:
            server.ask(client, 'GET', f'{PAGE}Earth')


def instructions(binary, how, count):
    with Server(binary, 'valgrind', '-q', '--tool=callgrind', '--callgrind-out-file=FOLDER/count', keyed=how == 'keyed') as server:
        play(server, how, count)
        server.proc.end()
        said = [subprocess.run(['callgrind_annotate', name], capture_output=True, text=True, check=False).stdout
                for name in glob.glob(f'{server.folder}/count*')]
        found = [re.search(r'([\d,]+) .*PROGRAM TOTALS', text) for text in said]
        return sum(int(one[1].replace(',', '')) for one in found if one)


def calls(binary, how, count):
    with Server(binary, 'strace', '-D', '-f', '-o', 'FOLDER/count', keyed=how == 'keyed') as server:       # -D: what is ended is the server
        play(server, how, count)
        server.proc.end()
        lines = pathlib.Path(server.folder, 'count').read_text(encoding='utf-8', errors='replace').splitlines()
        return sum('(' in line and ' resumed>' not in line and ' --- ' not in line for line in lines)


class Loaded(Server):
    """Earth is ready."""

    def __init__(self, binary, options=()):
        super().__init__(binary, options=options)
        play(self, 'plain', 0)
        self.url = f'http://{self.address}{PAGE}Earth'


def wrk(url, connections, seconds):
    """(requests/s, p99 in ms, p50 in ms)"""
    said = subprocess.run(['wrk', '-t1', f'-c{connections}', f'-d{seconds}s', '--latency', url], check=True, capture_output=True,
                          text=True).stdout
    p99, p50 = (float(number) * {'us': 0.001, 'ms': 1, 's': 1000}[unit]
                for number, unit in (re.search(rf'{part}%\s+([\d.]+)(us|ms|s)', said).groups() for part in (99, 50)))
    return int(re.search(r'(\d+) requests in', said)[1]) / seconds, p99, p50


def header(sides, ratios=('ratio',)):
    print(f'| | {" | ".join((*sides, *ratios))} |\n| --- |' + ' ---: |' * (len(sides) + len(ratios)))


def by_turns(title, names, once, sides, rounds, pairs=((-1, 0),)):
    """Each round measures all sides, one after the other. pairs: which are divided by which."""
    seen = [[once(side) for side in sides] for _ in range(rounds)]
    for k, name in enumerate(names):
        each = [statistics.median(one[i][k] for one in seen) for i in range(len(sides))]
        ratios = [statistics.median(one[i][k] / one[j][k] if one[j][k] else float('nan') for one in seen) for i, j in pairs]
        print(f'| {title}{name} | ' + ' | '.join(f'{one:.2f}' for one in (*each, *ratios)) + ' |', flush=True)


def wall(args):
    folder = tempfile.mkdtemp(prefix='front-', dir='/var/tmp')
    servers = {binary: Loaded(binary) for binary in args.binaries}
    sides = {binary: (server.url, server.proc) for binary, server in servers.items()}
    nginx = Nginx(folder, BODY)
    sides['nginx'] = f'{nginx.url}/page.html', nginx
    seconds = args.seconds or WALL_S

    def once(side, connections):
        url, proc = sides[side]
        before = proc.cpu_s()
        rate, p99, _ = wrk(url, connections, seconds)
        return rate, p99, (proc.cpu_s() - before) / (rate * seconds) * 1e6
    newest = len(args.binaries) - 1
    header(sides, ('ratio', 'to nginx'))
    for connections in (2, 16, 64):
        by_turns(f'{connections} connections: ', ('requests/s', 'p99, ms', 'processor time a request, us'),
                 lambda side, connections=connections: once(side, connections), list(sides), args.rounds or WALL_ROUNDS,
                 ((newest, 0), (newest, -1)))
    for server in servers.values():
        server.__exit__()
    nginx.end()
    shutil.rmtree(folder, ignore_errors=True)


# A PUT is due each 1/rate s, on whichever connection is free; rate 0: as soon as one is.
PUTS = '''local ffi = require("ffi")
ffi.cdef "struct span { long s, ns; }; int clock_gettime(int, struct span *);"
local n, body, rate, due, now = 0, string.rep("<p>The third planet. ", 49932), %d, 0, ffi.new("struct span")
request = function() n = n + 1
  return wrk.format("PUT", "%sMars/" .. n, {["Content-Type"] = "text/html"}, body) end
local wait = function() ffi.C.clock_gettime(1, now)
  local ms = tonumber(now.s) * 1000 + tonumber(now.ns) / 1e6
  if due == 0 then due = ms end
  due = due + 1000 / rate
  return math.floor(math.max(due - ms, 0)) end
if rate > 0 then delay = wait end
'''


def beside(args):
    seconds = args.seconds or BESIDE_S

    def once(binary, rate):
        with Loaded(binary) as server:
            script = pathlib.Path(server.folder, 'puts.lua')
            script.write_text(PUTS % (rate, PAGE), encoding='ascii')
            with subprocess.Popen(['wrk', '-t1', '-c64', f'-d{seconds + 2}s', '-s', script, server.url], stdout=subprocess.PIPE,
                                  text=True) as puts:
                time.sleep(1)                        # until they are at it
                got, p99, _ = wrk(server.url, 8, seconds)
                said = puts.communicate()[0]
            return got, p99, int(re.search(r'(\d+) requests in', said)[1]) / (seconds + 2)
    header(args.binaries)
    for rate, title in ((0, 'as many PUTs as it takes: '), (args.puts_per_s, f'{args.puts_per_s} PUTs/s are offered: ')):
        by_turns(title, ('GETs/s', 'p99 of GETs, ms', 'PUTs/s'), lambda binary, rate=rate: once(binary, rate), args.binaries,
                 args.rounds or BESIDE_ROUNDS)


class Slow:
    """Clients whose heads never end. A thread of this process sends for all of them: a byte each, SLOW_BYTE_S apart."""

    def __init__(self, server, count):
        host, _, port = server.address.rpartition(':')
        self.peers = [socket.create_connection((host, int(port)), WAIT_S) for _ in range(count)]
        for peer in self.peers:
            peer.sendall(b'GET / HTTP/1.1\r\nHost: a\r\nX-A: ')
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self.feed)
        self.thread.start()

    def feed(self):
        step = 100                      # so many at once, as a burst of all would be another load
        while not self.enough.is_set():
            for at in range(0, len(self.peers), step):
                for peer in self.peers[at:at + step]:
                    peer.send(b'v')     # an end is an error of this run: nobody cuts them
                if self.enough.wait(SLOW_BYTE_S * step / len(self.peers)):
                    return
            if not self.peers:
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.thread.join()
        for peer in self.peers:
            peer.close()


def descriptors(count):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + SPARE_FDS:
        raise SystemExit(f'{count} connections want more descriptors than {hard}')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def slow(args):
    descriptors(SLOW_CLIENTS)
    seconds = args.seconds or SLOW_S
    options = (f'http.connections_max={SLOW_CLIENTS + SPARE_FDS}', 'http.head_timeout=1h')

    def once(binary, count):
        with Loaded(binary, options) as server, Slow(server, count) as clients:
            rate, p99, p50 = wrk(server.url, 1, seconds)
            if not clients.thread.is_alive() and count:
                raise SystemExit(f'{binary} ended a slow client')
            return p50, p99, rate
    header(args.binaries)
    for count in (0, SLOW_CLIENTS):
        by_turns(f'{count} slow clients: ', ('p50, ms', 'p99, ms', 'requests/s'), lambda binary, count=count: once(binary, count),
                 args.binaries, args.rounds or SLOW_ROUNDS)


def memory(args):
    """Of a process: what the kernel keeps for a socket is not in it. The first connections are not counted: with them come
    the rooms of threads."""
    descriptors(MEMORY_FIRST + MEMORY_MORE)
    options = (f'http.connections_max={MEMORY_FIRST + MEMORY_MORE + SPARE_FDS}', 'http.idle_timeout=1h')

    def once(binary):
        with Loaded(binary, options) as server:
            held = []

            def hold(count):
                for _ in range(count):
                    held.append(server.client())
                    server.ask(held[-1], 'GET', f'{PAGE}Earth')
                return server.proc.rss_bytes()
            before = hold(MEMORY_FIRST)
            more = hold(MEMORY_MORE) - before
            for client in held:
                client.close()
            return (more / MEMORY_MORE,)
    header(args.binaries)
    by_turns(f'{MEMORY_MORE} idle connections: ', ('bytes each',), once, args.binaries, args.rounds or MEMORY_ROUNDS)


ROWS = {'plain': 'ready GET', 'keyed': 'ready GET with a key', 'after': 'ready GET after a write and a miss', 'put': 'PUT of 20 KB',
        'stored': 'GET that is stored'}
COUNTS = {'instructions': instructions, 'calls': calls}
OTHERS = {'wall': wall, 'beside': beside, 'slow': slow, 'memory': memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=(*COUNTS, *OTHERS))
    parser.add_argument('binaries', nargs='+')
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--seconds', type=int)
    parser.add_argument('--puts-per-s', type=int, default=250)
    args = parser.parse_args()
    if args.what in OTHERS:
        OTHERS[args.what](args)
        return
    header(args.binaries)
    count = COUNTS[args.what]
    for how, name in ROWS.items():
        each = [(count(binary, how, COUNTED) - count(binary, how, 0)) / COUNTED for binary in args.binaries]
        print(f'| {name} | ' + ' | '.join(f'{one:.1f}' for one in each) + f' | {each[-1] / each[0]:.3f} |', flush=True)


if __name__ == '__main__':
    main()
