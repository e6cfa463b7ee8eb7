#!/usr/bin/env python3
"""builds.py - two builds of palimpsest beside each other: processor time and requests/s of durable PUTs, in pairs, and
instructions of a request by callgrind.

    bench/builds.py [--rounds N] OLD/palimpsest NEW/palimpsest

Wants release builds, and valgrind for the second part. Threads in instructions: the whole process, and the committer."""
import argparse, glob, http.client, os, re, shutil, statistics, subprocess, tempfile, threading, time

from bench import html

PUTS, CLIENTS, TITLES, COUNTED = 4000, 4, 50, 300
BODIES = [html(20000, seed).encode() for seed in range(40)]
TICKS = os.sysconf('SC_CLK_TCK')


class Server:
    """On a fresh store; wrapper: a command that runs it."""

    def __init__(self, binary, wrapper=()):
        self.folder = tempfile.mkdtemp(prefix='builds-', dir='/var/tmp')
        wrapper = [word.replace('FOLDER', self.folder) for word in wrapper]
        self.process = subprocess.Popen(
            [*wrapper, binary, 'serve', '--data', f'{self.folder}/data', '--listen', '127.0.0.1:0', '--set',
             'store.index_bytes_max=4G'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().split('//')[1].strip()

    def cpu_s(self):
        with open(f'/proc/{self.process.pid}/stat', encoding='ascii') as stat:
            fields = stat.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def end(self):
        self.process.terminate()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


class Client:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.address, timeout=120)

    def ask(self, method, path, body=None):
        self.connection.request(method, f'/localhost/v1/page/html/{path}', body, {'content-type': 'text/html'} if body else {})
        answer = self.connection.getresponse()
        answer.read()
        if answer.status not in (200, 201):
            raise SystemExit(f'{method} {path}: {answer.status}')

    def put(self, number, title):
        self.ask('PUT', f'{title}/{number + 1}', BODIES[number % len(BODIES)])


def many_puts(server, name, count):
    client = Client(server)
    for number in range(count):
        client.put(number, f'{name}_{number}')


def put_cost(binary):
    """(microseconds of processor time a PUT, PUTs a second)"""
    with Server(binary) as server:
        many_puts(server, 'warm', 50)
        cpu_s, began = server.cpu_s(), time.monotonic()
        threads = [threading.Thread(target=many_puts, args=(server, f'c{k}', PUTS // CLIENTS)) for k in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (server.cpu_s() - cpu_s) / PUTS * 1e6, PUTS / (time.monotonic() - began)


def instructions(binary, count, gets):
    """Of a server that took TITLES PUTs, then count of them more, or GETs of one ready page: {thread: instructions}."""
    valgrind = ('valgrind', '-q', '--tool=callgrind', '--separate-threads=yes', '--callgrind-out-file=FOLDER/cg.out')
    with Server(binary, valgrind) as server:
        client, total = Client(server), {}
        for number in range(TITLES + (0 if gets else count)):
            client.put(number, f'T{number % TITLES}')
        for _ in range(4 if gets else 0):       # it is made ready
            client.ask('GET', 'T1')
        client = Client(server)                 # of a lane, until it asks for what is not ready
        for _ in range(count if gets else 0):
            client.ask('GET', 'T1')
        server.end()
        for name in glob.glob(f'{server.folder}/cg.out*'):
            lines = subprocess.run(['callgrind_annotate', '--inclusive=yes', name], capture_output=True, text=True, check=False).stdout
            for what, pattern in (('process', r'([\d,]+) .*PROGRAM TOTALS'), ('committer', r'([\d,]+) .*:committer_run')):
                found = re.search(pattern, lines)
                total[what] = total.get(what, 0) + (int(found[1].replace(',', '')) if found else 0)
        return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('builds', nargs=2, metavar='BINARY')
    args = parser.parse_args()
    pairs = []
    for number in range(args.rounds):
        got = {k: put_cost(args.builds[k]) for k in ((0, 1) if number % 2 == 0 else (1, 0))}
        pairs.append((got[1][0] / got[0][0], got[1][1] / got[0][1]))
        print(f'PUT: {got[0][0]:.0f} us {got[0][1]:.0f}/s, then {got[1][0]:.0f} us {got[1][1]:.0f}/s', flush=True)
    cpu, rate = (statistics.median(column) for column in zip(*pairs))
    print(f'PUT: processor time {cpu:.3f}x, requests/s {rate:.3f}x')
    for what, gets in (('PUT', False), ('ready GET', True)):
        for binary in args.builds:
            base, whole = instructions(binary, 0, gets), instructions(binary, COUNTED, gets)
            each = {thread: round((whole[thread] - base[thread]) / COUNTED) for thread in whole}
            print(f'{what}: {each}, {binary}', flush=True)



if __name__ == '__main__':
    main()
