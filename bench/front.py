#!/usr/bin/env python3
"""front.py - what a request costs at the front, in instructions and in system calls; prints Markdown.

    front.py instructions OLD/palimpsest NEW/palimpsest    of a ready GET of 20 KB: on a connection of its own, with a key, and on one
                                                           that carried a write and a miss before; of a PUT; of a GET that is stored
    front.py calls OLD/palimpsest NEW/palimpsest           the same in system calls
    front.py wall OLD/palimpsest NEW/palimpsest            ready GETs by wrk on 2, 16 and 64 connections, by turns: medians of ratios
    front.py beside OLD/palimpsest NEW/palimpsest          8 connections of ready GETs beside 64 clients that PUT 1 MiB
    front.py slow OLD/palimpsest NEW/palimpsest            one connection of ready GETs beside no slow client, and beside 10,000 that
                                                           send a head, each a byte a second

The binaries are release builds (meson setup DIR --buildtype=release). The first wants valgrind, the second strace, the others wrk and
a quiet machine. What the first two count is the whole program: what N requests add to none."""
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
from bench import Proc                # noqa: E402  pylint: disable=wrong-import-position

COUNTED = 300
WAIT_S = 60
WALL_ROUNDS, WALL_S = 7, 2
BESIDE_ROUNDS, BESIDE_S = 4, 4
SLOW_ROUNDS, SLOW_S, SLOW_CLIENTS, SLOW_BYTE_S = 4, 4, 10000, 1
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

    def cpu_s(self):
        fields = pathlib.Path(f'/proc/{self.proc.p.pid}/stat').read_text(encoding='ascii').rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def wrk(url, connections, seconds):
    """(requests/s, p99 in ms, p50 in ms)"""
    said = subprocess.run(['wrk', '-t1', f'-c{connections}', f'-d{seconds}s', '--latency', url], check=True, capture_output=True,
                          text=True).stdout
    p99, p50 = (float(number) * {'us': 0.001, 'ms': 1, 's': 1000}[unit]
                for number, unit in (re.search(rf'{part}%\s+([\d.]+)(us|ms|s)', said).groups() for part in (99, 50)))
    return int(re.search(r'(\d+) requests in', said)[1]) / seconds, p99, p50


def by_turns(title, names, once, binaries, rounds):
    """Each round measures all, one after the other."""
    seen = [[once(binary) for binary in binaries] for _ in range(rounds)]
    for k, name in enumerate(names):
        each = [statistics.median(one[i][k] for one in seen) for i in range(len(binaries))]
        ratio = statistics.median(one[-1][k] / one[0][k] for one in seen)
        print(f'| {title}{name} | ' + ' | '.join(f'{one:.2f}' for one in each) + f' | {ratio:.2f} |', flush=True)


def wall(binaries):
    servers = {binary: Loaded(binary) for binary in binaries}

    def once(binary, connections):
        server = servers[binary]
        before = server.cpu_s()
        rate, p99, _ = wrk(server.url, connections, WALL_S)
        return rate, p99, (server.cpu_s() - before) / (rate * WALL_S) * 1e6
    for connections in (2, 16, 64):
        by_turns(f'{connections} connections: ', ('requests/s', 'p99, ms', 'processor time a request, us'),
                 lambda binary, connections=connections: once(binary, connections), binaries, WALL_ROUNDS)
    for server in servers.values():
        server.__exit__()


PUTS = '''local n, body = 0, string.rep("<p>The third planet. ", 49932)
request = function() n = n + 1
  return wrk.format("PUT", "%sMars/" .. n, {["Content-Type"] = "text/html"}, body) end
'''


def beside(binaries):
    def once(binary):
        with Loaded(binary) as server:
            script = pathlib.Path(server.folder, 'puts.lua')
            script.write_text(PUTS % PAGE, encoding='ascii')
            with subprocess.Popen(['wrk', '-t1', '-c64', f'-d{BESIDE_S + 2}s', '-s', script, server.url], stdout=subprocess.PIPE,
                                  text=True) as puts:
                time.sleep(1)                        # until they are at it
                rate, p99, _ = wrk(server.url, 8, BESIDE_S)
                said = puts.communicate()[0]
            return rate, p99, int(re.search(r'(\d+) requests in', said)[1]) / (BESIDE_S + 2)
    by_turns('', ('GETs/s', 'p99 of GETs, ms', 'PUTs/s'), once, binaries, BESIDE_ROUNDS)


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


def slow(binaries):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < SLOW_CLIENTS + SPARE_FDS:
        raise SystemExit(f'{SLOW_CLIENTS} connections want more descriptors than {hard}')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options = (f'http.connections_max={SLOW_CLIENTS + SPARE_FDS}', 'http.head_timeout=1h')

    def once(binary, count):
        with Loaded(binary, options) as server, Slow(server, count) as clients:
            rate, p99, p50 = wrk(server.url, 1, SLOW_S)
            if not clients.thread.is_alive() and count:
                raise SystemExit(f'{binary} ended a slow client')
            return p50, p99, rate
    for count in (0, SLOW_CLIENTS):
        by_turns(f'{count} slow clients: ', ('p50, ms', 'p99, ms', 'requests/s'), lambda binary, count=count: once(binary, count),
                 binaries, SLOW_ROUNDS)


ROWS = {'plain': 'ready GET', 'keyed': 'ready GET with a key', 'after': 'ready GET after a write and a miss', 'put': 'PUT of 20 KB',
        'stored': 'GET that is stored'}
COUNTS = {'instructions': instructions, 'calls': calls}
WALLS = {'wall': wall, 'beside': beside, 'slow': slow}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=(*COUNTS, *WALLS))
    parser.add_argument('binaries', nargs='+')
    args = parser.parse_args()
    print('| | ' + ' | '.join(args.binaries) + ' | ratio |\n| --- |' + ' ---: |' * (len(args.binaries) + 1))
    if args.what in WALLS:
        WALLS[args.what](args.binaries)
        return
    count = COUNTS[args.what]
    for how, name in ROWS.items():
        each = [(count(binary, how, COUNTED) - count(binary, how, 0)) / COUNTED for binary in args.binaries]
        print(f'| {name} | ' + ' | '.join(f'{one:.1f}' for one in each) + f' | {each[-1] / each[0]:.3f} |', flush=True)


if __name__ == '__main__':
    main()
