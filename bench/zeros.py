#!/usr/bin/env python3
"""zeros.py - the log's tail with zeros written ahead (src/vlog/zeros.h) and without; prints Markdown.

    bench/zeros.py --build DIR [--seconds N] [--rounds N] [--tmp DIR] [--only WORDS]

DIR is a release build (meson setup DIR --buildtype=release) with the targets palimpsest and bench. Needs wrk, and the
data on ext4 or XFS. Two servers of one binary run side by side, one of them with bench/no_zeros.c; each load goes to
both in turn, and who is first alternates. Ratios are of the two runs of a round. Device bytes are those of the whole
device, journal included, so nothing else may write there meanwhile; stored are the log's bytes."""
import argparse
import os
import pathlib
import statistics
import time

from bench import Bench, metric, put_page, put_script
from queues import QUEUE, QueueBench, Palimpsest

CHECKED_PUTS = 40   # one after the other: more than the syncs before the first zeros
SETTLE_S = 0.2      # what was begun is written: the index is 20 ms behind
BLOCK_BYTES = 4096


def device_written(path):
    """Bytes written so far to the device that holds path."""
    at = os.stat(path).st_dev
    with open(f'/sys/dev/block/{os.major(at)}:{os.minor(at)}/stat', encoding='ascii') as stat:
        return int(stat.read().split()[6]) * 512


def put_load(size, clients):
    def run(b, server):
        server.revisions += 10 ** 7
        got = b.wrk(server.url, clients, script=b.scripts[size], script_args=('spread', server.revisions))
        return {'ops_s': got['rps'], 'p99': got['p99']}
    return f'PUT of {size // 1000} KB, {clients} client{"s" if clients > 1 else ""}', run


def produce_load(clients, batch):
    def run(b, server):
        server.reset()
        got = server.load('--producers', clients, '--batch', batch, '--ms', int(b.args.seconds * 1000))['produce']
        return {'ops_s': got['items_s'], 'p99': got['p99']}
    return f'produce, {clients} x {batch}', run


LOADS = [*(put_load(size, clients) for size in (2000, 20000) for clients in (1, 8, 64)),
         *(produce_load(*load) for load in ((1, 1), (8, 1), (64, 1), (8, 100)))]


class Server(Palimpsest):
    """A server, with zeros or without."""

    def __init__(self, b, name, zeros):
        self.zeros, self.revisions = zeros, 0
        if not zeros:
            os.environ['LD_PRELOAD'] = os.path.join(b.args.build, 'bench', 'no_zeros.so')
        super().__init__(b, name, sets=['domains=bench.test'])
        os.environ.pop('LD_PRELOAD', None)
        self.url = f'http://127.0.0.1:{self.port}'
        self.check()

    def check(self):
        """Does it do what its name says? A log without zeros ends with its last group."""
        for revision in range(1, CHECKED_PUTS):
            put_page(self.url, 'Check', revision, 'x' * revision)
        size = max(pathlib.Path(self.dir, 'data', 'log').glob('*.seg')).stat().st_size
        if (size % BLOCK_BYTES == 0) != self.zeros:
            raise SystemExit(f'{self.name}: its log is {size} bytes long')

    def measure(self, load):
        time.sleep(SETTLE_S)
        name = 'palimpsest_engine_log_written_bytes_total'
        device, stored = device_written(self.dir), metric(self.url, name)
        began = time.monotonic()
        got = load(self.b, self)
        ops = got['ops_s'] * (time.monotonic() - began)
        time.sleep(SETTLE_S)
        device = device_written(self.dir) - device
        return {**got, 'op': device / ops, 'byte': device / (metric(self.url, name) - stored)}


def compare(b, title, load, servers):
    rounds = []
    for number in range(b.args.rounds):
        order = servers if number % 2 == 0 else servers[::-1]
        got = {server.zeros: server.measure(load) for server in order}
        rounds.append((got[False], got[True]))
    ratios = [on['ops_s'] / off['ops_s'] for off, on in rounds]

    def both(name, form):
        return ' / '.join(format(statistics.median(r[i][name] for r in rounds), form) for i in (0, 1))
    print(f'| {title} | {statistics.median(ratios):.2f}x | {min(ratios):.2f} to {max(ratios):.2f} | {both("ops_s", ",.0f")} | '
          f'{both("op", ",.0f")} | {both("byte", ".2f")} | {both("p99", ",.0f")} |', flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--build', required=True)
    p.add_argument('--seconds', type=float, default=2)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--tmp', help='where data is put')
    p.add_argument('--only', default='', help='loads whose name has this in it')
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    b = QueueBench(args)
    try:
        b.scripts = {size: put_script(b, size, f'put{size}.lua') for size in (2000, 20000)}
        servers = [b.add(Server(b, 'without', False)), b.add(Server(b, 'with', True))]
        print('| load | with zeros against without | of the rounds | operations/s, without / with | device bytes an '
              'operation | a byte stored | p99 us |\n| --- | ---: | --- | ---: | ---: | ---: | ---: |')
        for title, load in LOADS:
            if args.only in title:
                compare(b, title, load, servers)
    finally:
        b.close()


if __name__ == '__main__':
    main()
