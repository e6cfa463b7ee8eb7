#!/usr/bin/env python3
"""redis_memory.py - what records of flights take in a real redis-server; prints Markdown.

    redis_memory.py [--counts 1000,10000,100000] [--bytes-max 400]    all tables; what takes more MB is left out
    redis_memory.py --quick                                           1,000 of each kind, and the smaller lists

Wants redis-server and nothing built: records are written by the scripts of src/flight/share_scripts.c. "used" is the
growth of used_memory divided by the records, "key" what MEMORY USAGE says of one. The constants of the sizing formula
are read from docs/several-servers.md; exits 1 when a measurement is more than 15 % off it, or its worked example is."""
import argparse
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'test/scene')]
sys.dont_write_bytecode = True
import redis_source                              # noqa: E402  pylint: disable=wrong-import-position
from list_help import Redis                      # noqa: E402  pylint: disable=wrong-import-position

OFF_MAX = 0.15
BATCH_BYTES, BATCH_COUNT = 4 << 20, 500
FEW = 100                       # of what is too large for more
SAMPLE = 20                     # records asked for their MEMORY USAGE
STILL_TIMEOUT = 20              # s, until used_memory stands still, but for:
STILL_BYTES = 2048              # what clients that live on take and give back
LEASE_MS, GEN_MS, LIFE_MS = 3600000, 3600000, 3600000
VALUE_MAX, PINS_MAX = 1 << 20, 100000000
PINS = 'pal:p:{%032x}' % 0      # displays that keep their list
FAILURE = 'unavailable the generator of this list answered 500'
LONG_FAILURE = FAILURE + ' and more words than one small field of a small hash holds'
ROWS = {'idle': 'nobody asked', 'short': 'being made, or failed', 'long': 'the same', 'ready': 'there',
        'again': 'there, and'}


# ---- the formula, as the documentation has it

class Formula:
    """bytes(kind, payload) after the table in docs/several-servers.md; fixed and example are of the lines below it."""

    def __init__(self, text=None):
        text = text or (ROOT / 'docs/several-servers.md').read_text()
        table = text[text.index('| a display in Redis |'):].partition('\n\n')[0]
        self.rows = {}
        for first, cell in re.findall(r'^\| (.+?) \| (\d.*?) \|$', table, re.M):
            constant, _, rest = cell.partition(' + ')
            factor = re.match(r'([\d.]+) x bytes', rest)
            for kind in self._kinds(first):
                self.rows[kind] = int(constant), float(factor.group(1)) if factor else 0.0
        assert set(self.rows) == set(ROWS), f'kinds in the documentation: {sorted(self.rows)}'
        self.server = int(re.search(r'(\d+) KB for each server', text).group(1)) * 1000
        found = re.search(r'(\d[\d,]*) displays of (\d+) items of (\d+) bytes.*?= (\d+) MB', text, re.S)
        self.example = [int(part.replace(',', '')) for part in found.groups()]

    @staticmethod
    def _kinds(first):
        for kind, mark in ROWS.items():
            if re.fullmatch(rf'{mark}(?!\w).*', first) and not (kind == 'ready' and first.startswith(ROWS['again'])):
                yield kind

    def bytes(self, kind, payload):
        constant, factor = self.rows[kind]
        return constant + factor * payload


# ---- Redis

def pipeline(connection, commands):
    """Sends them in batches and gives the replies, one by one."""
    batch, size = [], 0
    for command in commands:
        parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
        batch.append(b'*%d\r\n' % len(parts) + b''.join(b'$%d\r\n%s\r\n' % (len(part), part) for part in parts))
        size += len(batch[-1])
        if size > BATCH_BYTES or len(batch) == BATCH_COUNT:
            yield from flush(connection, batch)
            batch, size = [], 0
    yield from flush(connection, batch)


def flush(connection, batch):
    connection.socket.sendall(b''.join(batch))
    for _ in batch:
        yield connection.reply()


def info(connection, name):
    text = connection('INFO', 'memory').decode()
    return int(re.search(rf'^{name}:(\d+)', text, re.M).group(1))


def used(redis):
    """used_memory, once clients and rehashing are done with."""
    connection = redis.connect()
    try:
        deadline = time.monotonic() + STILL_TIMEOUT
        last, same = None, 0
        while same < 3 and time.monotonic() < deadline:
            now = info(connection, 'used_memory')
            same, last = (same + 1 if last is not None and abs(now - last) <= STILL_BYTES else 0), now
            time.sleep(0.12)        # longer than a round of Redis's own upkeep
        return last
    finally:
        connection.close()


WAITING = {'waited': 1, 'waited by 8': 8}
FAILURES = {'failed': FAILURE, 'failed long': LONG_FAILURE}


def key_of(number):
    return 'pal:f:{%032x}' % number


class Writer:
    """Records in every state, through the scripts."""

    def __init__(self, redis):
        self.redis = redis
        self.connection = redis.connect()
        self.sha = {name: self.connection('SCRIPT', 'LOAD', text).decode()
                    for name, text in redis_source.scripts().items()}

    def close(self):
        self.connection.close()

    def _run(self, name, number, *args):
        return ('EVALSHA', self.sha[name], 1, key_of(number), *args)

    def _each(self, commands, wanted):
        got = []
        for reply in pipeline(self.connection, commands):
            assert reply[0].decode() == wanted, f'{wanted} expected: {reply}'
            got.append(reply)
        return got

    def join(self, count, node='%016x', wanted='GRANT', early='0.000000', peek=1):
        replies = self._each((self._run('join', n, node % 1, LEASE_MS, 2 * LEASE_MS, GEN_MS, early, '', peek, 0,
                                       LIFE_MS, LIFE_MS, LIFE_MS, VALUE_MAX)
                              for n in range(count)), wanted)
        return [reply[1].decode() for reply in replies]

    def put(self, tokens, kind, payload, touch=0, fresh=LIFE_MS, stale=LIFE_MS):
        self._each((self._run('put', n, token, kind, payload, fresh, stale, 50, GEN_MS, 16384, '%032x' % n, LIFE_MS,
                              LIFE_MS, '1.000', VALUE_MAX, touch, 0, PINS, PINS_MAX) for n, token in enumerate(tokens)), 'OK')

    def write(self, kind, count, payload):
        if kind == 'idle':
            return
        tokens = self.join(count)
        for server in range(WAITING.get(kind, 0)):
            self.join(count, f'{server:x}%015x', 'WAIT')
        if kind in FAILURES:
            self.put(tokens, 'E', FAILURES[kind])
        elif kind in ('ready', 'again', 'again failed'):
            self.put(tokens, 'V', payload, touch=LIFE_MS if kind == 'ready' else 0)
        if kind in ('again', 'again failed'):
            tokens = self.join(count, early='1000000000', peek=0)
        if kind == 'again failed':
            self.put(tokens, 'E', FAILURE)


def measure(redis, kind, count, payload):
    """(used, key): bytes for each record."""
    before = used(redis)
    writer = Writer(redis)
    try:
        writer.write(kind, count, payload)
        keys = [] if kind == 'idle' else [key_of(n) for n in range(0, count, max(1, count // SAMPLE))]
        usage = [writer.connection('MEMORY', 'USAGE', key, 'SAMPLES', 0) for key in keys]
        if kind != 'idle':
            assert writer.connection('DBSIZE') == count + (kind == 'ready')
    finally:
        writer.close()
    grown = used(redis) - before
    redis('FLUSHALL', 'SYNC')
    return grown / count, (sum(usage) / len(usage) if usage else 0)


def items_json(count, size):
    """A list as it stands in a record: so many items of so many bytes."""
    def one(n):
        start = '{"link":"/l/%d","image":"/i/%d","text":"' % (n, n)
        return start + 'x' * (size - len(start) - 2) + '"}'
    return '[' + ','.join(one(n) for n in range(count)) + ']'


# ---- tables

class Report:
    """Rows beside the formula; counts what is off."""

    def __init__(self, formula):
        self.formula, self.off = formula, 0

    def row(self, name, kind, count, payload, measured):
        grown, key = measured
        said = self.formula.bytes(kind, payload)
        # Below a KB in all nothing is lost by a formula that says a little of nothing.
        off = 0 if kind == 'idle' and grown < 1 else (said - grown) / grown
        wrong = abs(off) > OFF_MAX
        self.off += wrong
        print(f'| {name} | {count:,} | {payload:,} | {grown:,.0f} | {key:,.0f} | {said:,.0f} | '
              f'{"**" if wrong else ""}{off:+.0%}{"**" if wrong else ""} |', flush=True)

    @staticmethod
    def head(what):
        print(f'\n| {what} | records | bytes of value | used | key | formula | off |')
        print('| --- | --- | --- | --- | --- | --- | --- |')


def lists_table(redis, report, counts, bytes_max, quick):
    report.head('list, made')
    for items in (1, 5, 20) if quick else (1, 5, 20, 100):
        for size in (100, 1024):
            payload = items_json(items, size)
            for count in counts:
                if report.formula.bytes('ready', len(payload)) * count <= bytes_max:
                    report.row(f'{items} x {size} B', 'ready', count, len(payload),
                               measure(redis, 'ready', count, payload))


def states_table(redis, report, counts, bytes_max):
    payload = items_json(5, 100)
    report.head('state of a display, 5 x 100 B')
    for name, kind, row in (('idle', 'idle', 'idle'), ('making', 'making', 'short'),
                            ('making, one server waits', 'waited', 'short'),
                            ('making, 8 servers wait', 'waited by 8', 'long'), ('ready', 'ready', 'ready'),
                            ('failed', 'failed', 'short'), ('failed, a long message', 'failed long', 'long'),
                            ('ready, being made again', 'again', 'again'),
                            ('ready, making it again failed', 'again failed', 'again')):
        for count in counts:
            size = len(payload) if row in ('ready', 'again') else 0
            if report.formula.bytes(row, size) * count <= bytes_max:
                report.row(name, row, count, size, measure(redis, kind, count, payload))


def renders_table(redis, report, counts, bytes_max):
    report.head('shared render')
    for size in (4 << 10, 20 << 10, 100 << 10, 1 << 20):
        fits = [count for count in counts if report.formula.bytes('ready', size) * count <= bytes_max]
        for count in fits or [FEW]:
            if report.formula.bytes('ready', size) * count <= bytes_max:
                report.row(f'{size >> 10} KB', 'ready', count, size, measure(redis, 'ready', count, 'x' * size))


def servers_table(report):
    """Connections, subscriptions and scripts of 20 servers at rest."""
    count = 20
    with Redis() as redis:
        before = used(redis)
        print(f'\nAn empty redis-server has {before / 1e6:.1f} MB used.')
        writer = Writer(redis)
        writer.close()
        scripts = used(redis)
        kept = []
        for n in range(count):
            commands, messages = redis.connect(), redis.connect()
            kept += [commands, messages]
            commands('INFO', 'server')
            for script in redis_source.scripts().values():
                commands('SCRIPT', 'LOAD', script)
            messages('SUBSCRIBE', f'pal:n:{n:016x}', 'pal:all')
            messages.reply()
        grown = (used(redis) - scripts) / count
        for connection in kept:
            connection.close()
    print(f'The scripts take {(scripts - before) / 1e3:.0f} KB; each server {grown / 1e3:.0f} KB '
          f'(formula: {report.formula.server / 1e3:.0f} KB).')
    if grown > report.formula.server:
        report.off += 1
        print('**Each server takes more than the formula says.**')


def example_table(redis, report, quick):
    count, items, size, said_mb = report.formula.example
    payload = items_json(items, size)
    formula = report.formula.bytes('ready', len(payload)) * count
    some = min(count, 2000) if quick else count
    grown, _ = measure(redis, 'ready', some, payload)
    off = said_mb * 1e6 / (grown * count) - 1
    print(f'\nThe worked example: {count:,} displays of {items} items of {size} bytes ({some:,} made): '
          f'measured {grown * count / 1e6:.0f} MB, formula {formula / 1e6:.0f} MB, '
          f'documentation {said_mb} MB ({off:+.0%}).')
    report.off += abs(off) > OFF_MAX or abs(formula / 1e6 - said_mb) > 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--counts', default='1000,10000,100000')
    parser.add_argument('--bytes-max', type=int, default=400, metavar='MB')
    parser.add_argument('--quick', action='store_true')
    options = parser.parse_args()
    counts = [1000] if options.quick else [int(part) for part in options.counts.split(',')]
    bytes_max = (40 if options.quick else options.bytes_max) * 1000000
    report = Report(Formula())
    with Redis() as redis:
        connection = redis.connect()
        version = re.search(r'redis_version:(\S+)', connection('INFO', 'server').decode()).group(1)
        allocator = re.search(r'mem_allocator:(\S+)', connection('INFO', 'memory').decode()).group(1)
        connection.close()
        measure(redis, 'ready', 100, 'x')          # what is allocated once
        print(f'redis-server {version}, {allocator}, {os.uname().machine}.')
        states_table(redis, report, counts, bytes_max)
        lists_table(redis, report, counts, bytes_max, options.quick)
        renders_table(redis, report, counts, bytes_max)
        example_table(redis, report, options.quick)
    servers_table(report)
    print(f'\n{report.off} measurements more than {OFF_MAX:.0%} off the formula.')
    return 1 if report.off else 0


if __name__ == '__main__':
    sys.exit(main())
