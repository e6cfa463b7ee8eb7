#!/usr/bin/env python3
"""Shows a queue at work: two stores, four partitions, an item for each commit of a git repository (this one, or PATH),
producers and consumers at once, a store that is stopped and started on the way, and the count at the end.

Usage: script/run --queue [--binary FILE] [--dir DIR] [--stores postgres|local] [PATH]
  The second store is a PostgreSQL of its own where one is installed: it is killed and started again while the server
  goes on. Else, and with --stores local, it is a folder, as on a disk of its own: the server is killed with kill -9, the
  folder taken away and the server started without it, and the folder put back while it runs.
  Producers are palimpsest queue produce, which sends a request again under the same key until it knows the outcome;
  consumers lease and complete over HTTP, and count an item when its completion is known. They are half as fast as the
  producers until those are done: items lie in all partitions then, on both stores.
  Everything else lives in DIR (build/run-queue); all of it is ended at the end. Exit 1 when an item was lost or came twice.
"""
import argparse
import base64
import collections
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from pg_cluster import Cluster, newest_postgres
from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUEUE, PARTITIONS, PRODUCERS, CONSUMERS = 'commits', 4, 4, 3
SPREAD_S = 4          # over which the producers are fed, so that the stop falls into their work
DEADLINE_S = 120
SAY_LOCK = threading.Lock()


def say(text=''):
    with SAY_LOCK:
        print(text, flush=True)


def die(text):
    raise SystemExit(f'script/run: {text}')


def wait_until(condition, what, timeout=DEADLINE_S, pause=0.02):
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            die(f'not within {timeout} s: {what}')
        time.sleep(pause)


# ---- what runs

class Server:
    def __init__(self, binary, folder, stores):
        self.binary, self.folder, self.stores, self.port = binary, folder, stores, free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen([self.binary, 'serve', '--data', self.folder / 'data', '--listen',
                                             f'127.0.0.1:{self.port}', '--set', 'queue.stores=' + self.stores],
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        if not self.process.stdout.readline().startswith('listening on '):
            last = (self.folder / 'log').read_text(errors='replace').splitlines()[-3:]
            die('\n'.join([f'the server did not start; the end of its log, {self.folder}/log:', *last]))

    def end(self, number=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(DEADLINE_S)
            self.process = None

    def cli(self, *words, shown=True, **more):
        """One call of the command line, shown as one would type it."""
        if shown:
            say(f'$ palimpsest {" ".join(words)}')
        until = time.monotonic() + DEADLINE_S
        while True:
            done = subprocess.run([self.binary, *words], env={**os.environ, 'PALIMPSEST_SERVER': self.url}, text=True,
                                  capture_output=True, check=False, **more)
            if done.returncode == 0 or ' again' not in done.stderr or time.monotonic() > until:
                break       # "try your request again": a store was away a moment ago
            time.sleep(0.05)
        if done.returncode != 0:
            die(f'palimpsest {" ".join(words)}: {done.stderr.strip()}')
        if shown and done.stdout:
            say(''.join(f'    {line}\n' for line in done.stdout.splitlines()).rstrip('\n'))
        return done.stdout

    def partitions(self):
        return json.loads(self.cli('queue', 'stats', QUEUE, '--json', shown=False))['partitions']


# ---- producers and consumers

def feed(server, lines, failed):
    """One producer: lines go into its pipe bit by bit, and it sends what is there."""
    with subprocess.Popen([server.binary, 'queue', 'produce', QUEUE, '--batch', '5', '--timeout', f'{DEADLINE_S}s',
                           '--quiet'], stdin=subprocess.PIPE, text=True,
                          env={**os.environ, 'PALIMPSEST_SERVER': server.url}) as process:
        began = time.monotonic()
        for i, line in enumerate(lines):
            time.sleep(max(0, began + SPREAD_S * i / len(lines) - time.monotonic()))
            process.stdin.write(line + '\n')
            process.stdin.flush()
        process.stdin.close()
        if process.wait(2 * DEADLINE_S) != 0:
            failed.append('a producer ended without knowing that its items are stored')


class Consumer(threading.Thread):
    """Leases and completes until told to end, an item in pace seconds until told to rush; got: what it completed for
    certain, given: how many of each partition, story: of each item, what happened to it here."""

    def __init__(self, server, number, pace, rush, over):
        super().__init__(daemon=True)
        self.server, self.client_id, self.pace, self.rush, self.over = server, f'consumer-{number}', pace, rush, over
        self.got, self.given = collections.Counter(), collections.Counter()
        self.story = collections.defaultdict(list)

    def tell(self, partition, items, what):
        for item in items:
            self.story[item['body']].append(f'{time.monotonic():.3f} {self.client_id} partition {partition} {item["id"]} {what}')

    def call(self, name, body):
        """(status, answer); status 0: none came, so nobody knows."""
        connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=30)
        try:
            connection.request('POST', '/v1/' + name, json.dumps(body), {'Content-Type': 'application/json'})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b'{}')
        except (OSError, http.client.HTTPException, ValueError):
            return 0, {}
        finally:
            connection.close()

    def complete(self, partition, items):
        """Asks until it is known. Who asks again after no answer is told that the item is gone when the first was done:
        nobody else can have it, the lease lasts longer than all of this."""
        unsure = False
        while True:
            status, answer = self.call('queue.complete', {'queue_name': QUEUE, 'partition': partition,
                                                          'request_timeout': '5s',
                                                          'ids': [item['id'] for item in items]})
            if status == 200 or (unsure and status == 400 and 'does not exist' in answer.get('message', '')):
                self.tell(partition, items, f'completed: {status} {answer.get("message", "")}')
                self.got.update(item['body'] for item in items)
                self.given[partition] += len(items)
                return
            self.tell(partition, items, f'not completed: {status} {answer.get("message", "")}')
            if status == 400:
                say(f'a completion was refused: {answer.get("message")}')
                return
            unsure = unsure or status in (0, 454)
            time.sleep(0.05)

    def run(self):
        while not self.over.is_set():
            rushing = self.rush.wait(self.pace)
            status, answer = self.call('queue.lease', {'queue_name': QUEUE, 'batch_size': 10 if rushing else 1,
                                                       'request_timeout': '1s', 'client_id': self.client_id})
            if status != 200:
                time.sleep(0 if status == 454 else 0.05)
                continue
            items = [{'id': item['id'], 'body': decode(item.get('bytes', ''))} for item in answer.get('items', [])]
            for item, leased in zip(items, answer.get('items', [])):
                self.tell(answer.get('partition', 0), [item], f'leased, attempts {leased.get("attempts")}')
            self.complete(answer.get('partition', 0), items)


def decode(text):
    return base64.b64decode(text).decode(errors='surrogateescape')


# ---- the show

def commits_of(path):
    done = subprocess.run(['git', '-C', path, 'log', '--format=%h %s'], capture_output=True, check=False)
    if done.returncode != 0:
        die(f'{path} is no git repository')
    lines = done.stdout.decode(errors='replace').splitlines()
    return [f'{number} {line}' for number, line in enumerate(reversed(lines), 1)]


def stop_and_start(server, postgres):
    """While the producers work: a third of the way the second store stops, at two thirds it starts."""
    home, away = server.folder / 'data' / 'q-b', server.folder / 'q-b-away'
    time.sleep(SPREAD_S / 3)
    if postgres is not None:
        say('# store b is killed: PostgreSQL and all its processes')
        postgres.stop()
    else:
        say('# the server is killed with kill -9, the folder of store b is taken away, and the server started again')
        server.end(signal.SIGKILL)
        home.rename(away)
        server.start()
    time.sleep(SPREAD_S / 6)
    server.cli('queue', 'stats', QUEUE)
    time.sleep(SPREAD_S / 6)
    if postgres is not None:
        say('# store b is started again')
        postgres.start()
    else:
        say('# the folder of store b is put back')
        away.rename(home)
    wait_until(lambda: all(p['state'] == 'available' for p in server.partitions()), 'store b is back')
    server.cli('queue', 'stats', QUEUE)


def judge(commits, got, failed, story):
    lost = [line for line in commits if line not in got]
    twice = [line for line, times in got.items() if times > 1]
    strange = [line for line in got if line not in set(commits)]
    say(f'\ncommits {len(commits)}, completed {sum(got.values())}, lost {len(lost)}, twice {len(twice)}'
        + (f', never sent {len(strange)}' if strange else ''))
    for what, lines in (('lost', lost), ('twice', twice), ('never sent', strange), ('failed', failed)):
        for line in lines[:5]:
            say(f'    {what}: {line}')
            for event in sorted(story.get(line, [])):
                say(f'        {event}')
    return 1 if lost or twice or strange or failed else 0


def play(server, postgres, commits):
    server.cli('queue', 'create', QUEUE, '--partitions', str(PARTITIONS), '--lease-timeout', '10m')
    server.cli('queue', 'stats', QUEUE)
    say(f'\n# {len(commits)} commits, {PRODUCERS} producers, {CONSUMERS} consumers')
    over, rush, failed = threading.Event(), threading.Event(), []
    pace = 2 * CONSUMERS * SPREAD_S / max(1, len(commits))
    consumers = [Consumer(server, i, pace, rush, over) for i in range(CONSUMERS)]
    producers = [threading.Thread(target=feed, args=(server, commits[i::PRODUCERS], failed), daemon=True)
                 for i in range(PRODUCERS)]
    for thread in (*producers, *consumers):
        thread.start()
    stop_and_start(server, postgres)
    for thread in producers:
        thread.join(2 * DEADLINE_S)
    say('# the producers are done: each item is stored and acknowledged')
    server.cli('queue', 'stats', QUEUE)
    rush.set()
    until = time.monotonic() + DEADLINE_S
    while sum(sum(c.got.values()) for c in consumers) < len(commits) and time.monotonic() < until:
        time.sleep(0.05)
    wait_until(lambda: server.cli('queue', 'peek', QUEUE, shown=False) == '', 'nothing is left in the queue', 30)
    over.set()
    for consumer in consumers:
        consumer.join(DEADLINE_S)
    server.cli('queue', 'stats', QUEUE)
    got, given, story = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for i, consumer in enumerate(consumers):
        say(f'consumer {i}: {sum(consumer.got.values())} items')
        got.update(consumer.got)
        given.update(consumer.given)
        for line, events in consumer.story.items():
            story[line] += events
    for store in ('a', 'b'):
        say(f'store {store} gave '
            f'{sum(given[p.get("partition", 0)] for p in server.partitions() if p["store"] == store)} items')
    return judge(commits, got, failed, story)


def main():
    p = argparse.ArgumentParser(prog='script/run --queue', description=__doc__.split('\n\n', maxsplit=1)[0])
    p.add_argument('--queue', action='store_true', help=argparse.SUPPRESS)
    p.add_argument('--binary', help='run this instead of building')
    p.add_argument('--dir', default=str(ROOT / 'build' / 'run-queue'), help='where everything lives [build/run-queue]')
    p.add_argument('--stores', choices=('postgres', 'local'), help='the second store [postgres where it is installed]')
    p.add_argument('path', nargs='?', default=str(ROOT), metavar='PATH', help='a git repository [this one]')
    args = p.parse_args()
    commits = commits_of(args.path)
    if args.binary is None:
        say('building build/palimpsest')
        subprocess.run([ROOT / 'script' / 'build'], check=True, stdout=subprocess.DEVNULL)
    binary = pathlib.Path(args.binary or ROOT / 'build' / 'palimpsest').resolve()
    if args.stores == 'postgres' and newest_postgres() is None:
        die('no PostgreSQL is installed: script/deps test')
    folder = pathlib.Path(args.dir).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o755)
    postgres = server = None
    try:
        if args.stores != 'local' and newest_postgres() is not None:
            postgres = Cluster(folder / 'postgres.log')
        stores = f'a=q-a, b={postgres.url}' if postgres else 'a=q-a, b=q-b'
        server = Server(binary, folder, stores)
        say(f'server on {server.url}, stores {stores}\n')
        return play(server, postgres, commits)
    finally:
        if server is not None:
            server.end()
        if postgres is not None:
            postgres.end()


if __name__ == '__main__':
    sys.exit(main())
