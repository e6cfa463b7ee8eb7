#!/usr/bin/env python3
"""peer.py - what load.c does, with the Python driver that Debian has: python3-cassandra.

    peer.py HOST:PORT DC write|read COUNT AT_A_TIME BYTES [v4] [lz4] [quorum] [asyncore]

The driver is given what makes it cheap: statements prepared beforehand, its Cython parts, rows as tuples, TCP_NODELAY,
no timer for a request, and callbacks on its own thread, which begin the next request, as those of ours do.
`asyncore` is the reactor without libev, for a comparison; Python 3.12 has it no more. lz4 wants python3-lz4."""
import itertools
import json
import resource
import socket
import sys
import threading
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.query import tuple_factory

KEYS = 1000
INSERT = 'INSERT INTO load.page (title, rev, body) VALUES (?, ?, ?)'
SELECT = 'SELECT body FROM load.page WHERE title = ? AND rev = ?'
WAIT_S = 600


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def reactor(name):
    if name == 'asyncore':
        from cassandra.io.asyncorereactor import AsyncoreConnection  # pylint: disable=import-outside-toplevel
        return AsyncoreConnection
    from cassandra.io.libevreactor import LibevConnection  # pylint: disable=import-outside-toplevel
    return LibevConnection


class Load:
    """COUNT requests, AT_A_TIME of them under way."""

    def __init__(self, session, writes, count, at_a_time, size):
        self.start, self.statement = session.execute_async, session.prepare(INSERT if writes else SELECT)
        self.count, self.at_a_time, self.size = count, at_a_time, size
        self.body = bytes((i * 2654435761 >> 13) & 0xff for i in range(size)) if writes else None
        self.numbers = itertools.count()        # its next() is atomic: the first are begun on another thread
        self.took_ns, self.why = [], []
        self.ended = threading.Event()

    def run(self):
        for _ in range(min(self.at_a_time, self.count)):
            self.begin()
        if not self.ended.wait(WAIT_S):
            raise SystemExit(f'peer.py: {len(self.took_ns)} of {self.count} were done in {WAIT_S} s')

    def begin(self):
        number = next(self.numbers)
        if number >= self.count:
            return
        values = (f'page-{number % KEYS}', number // KEYS % 4)
        if self.body is not None:
            values += (self.body,)
        began = time.monotonic_ns()
        try:
            future = self.start(self.statement, values, timeout=None)
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.failed(error, began)
            return
        future.add_callbacks(self.done, self.failed, callback_args=(began,), errback_args=(began,))

    def done(self, rows, began):
        if self.body is None and (not rows or len(rows[0][0]) != self.size):
            self.why.append('no such row, or another body')
        self.finish(began)

    def failed(self, error, began):
        self.why.append(error)
        self.finish(began)

    def finish(self, began):
        self.took_ns.append(time.monotonic_ns() - began)
        if len(self.took_ns) == self.count:
            self.ended.set()
        else:
            self.begin()


def main():
    if len(sys.argv) < 7:
        raise SystemExit(__doc__)
    address, dc, way, *numbers = sys.argv[1:7]
    flags = sys.argv[7:]
    host, _, port = address.rpartition(':')
    count, at_a_time, size = map(int, numbers)
    writes = way == 'write'
    level = ConsistencyLevel.LOCAL_QUORUM if writes or 'quorum' in flags else ConsistencyLevel.LOCAL_ONE
    profile = ExecutionProfile(TokenAwarePolicy(DCAwareRoundRobinPolicy(dc)), consistency_level=level, row_factory=tuple_factory)
    cluster = Cluster([host], int(port), protocol_version=4 if 'v4' in flags else 5, compression='lz4' if 'lz4' in flags else False,
                      connection_class=reactor('asyncore' if 'asyncore' in flags else 'libev'), monitor_reporting_enabled=False,
                      execution_profiles={EXEC_PROFILE_DEFAULT: profile}, sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)])
    load = Load(cluster.connect(wait_for_all_pools=True), writes, count, at_a_time, size)
    cpu, began = cpu_s(), time.monotonic()
    load.run()
    seconds, cpu = time.monotonic() - began, cpu_s() - cpu
    cluster.shutdown()
    took = sorted(load.took_ns)
    print(json.dumps({'requests': count, 'failed': len(load.why), 'seconds': round(seconds, 3), 'cpu_s': round(cpu, 3),
                      'per_s': round(count / seconds), 'per_cpu_s': round(count / cpu),
                      'p50_us': took[count // 2] // 1000, 'p99_us': took[count - 1 - count // 100] // 1000}))
    if load.why:
        print(f'peer.py: {load.why[0]}', file=sys.stderr)
    return bool(load.why)


if __name__ == '__main__':
    sys.exit(main())
