"""src/cql against a real node: each type as python3-cassandra writes and reads it, null and unset,
pages, conditions, timestamps, traces and warnings; in versions 4 and 5, with LZ4 and without, and
as Cassandra 3.11."""
import collections
import contextlib
import datetime
import decimal
import ipaddress
import os
import re
import struct
import uuid

import rig
from rig import check, eq, main, node, scene, wait_until

rig.need_driver()
# pylint: disable=wrong-import-position
from cassandra import util                                          # noqa: E402
from cassandra.cluster import Cluster                               # noqa: E402
from client import (                                                # noqa: E402
    LOCAL_SERIAL, NULL, ONE, UNSET, Blob, Bool, Client, Date, Double, I8, I16, I32, I64, Items, Map,
    Text, Tid, Tuple, Uuid, microseconds)
from proxy import Proxy                                             # noqa: E402

WAYS = {
    'version 5': {}, 'version 5, LZ4': {'lz4': True},
    'version 4': {'version': 4}, 'version 4, LZ4': {'version': 4, 'lz4': True},
    '3.11': {},
}
SCALARS = {
    't': 'text', 'a': 'ascii', 'b64': 'bigint', 'b32': 'int', 'b16': 'smallint', 'b8': 'tinyint',
    'bo': 'boolean', 'd': 'double', 'f': 'float', 'ts': 'timestamp', 'da': 'date', 'ti': 'time',
    'u': 'uuid', 'tu': 'timeuuid', 'i': 'inet', 'bl': 'blob', 'vi': 'varint', 'de': 'decimal'}
NESTED = {
    'li': 'list<bigint>', 'se': 'set<text>', 'ma': 'map<text, int>',
    'tup': 'tuple<int, text, boolean>', 'ud': 'frozen<place>',
    'deep': 'map<text, frozen<list<frozen<set<int>>>>>'}
TABLES = (
    'CREATE TYPE place (name text, nr int, tags frozen<set<text>>)',
    'CREATE TABLE scalars (k int PRIMARY KEY, '
    f'{", ".join(f"{n} {t}" for n, t in SCALARS.items())})',
    'CREATE TABLE nested (k int PRIMARY KEY, '
    f'{", ".join(f"{n} {t}" for n, t in NESTED.items())})',
    'CREATE TABLE blobs (k int PRIMARY KEY, v blob)',
    'CREATE TABLE wide (p text, c bigint, v text, PRIMARY KEY (p, c))',
    'CREATE TABLE once (p text, c int, v text, s text STATIC, PRIMARY KEY (p, c))',
    'CREATE TABLE counts (k int PRIMARY KEY, n counter)',
)
FROZEN = re.compile(r'frozen<((?:\w+<[^<>]*(?:<[^<>]*>)?[^<>]*>)|\w+)>')
EPOCH = datetime.date(1970, 1, 1)


@contextlib.contextmanager
def tables():
    """A session of the other driver, on tables that are empty."""
    cluster = node()
    other = Cluster([cluster.address(1)], port=cluster.port, protocol_version=4)
    session = other.connect()
    session.default_timeout = 120
    try:
        session.execute('DROP KEYSPACE IF EXISTS c')
        session.execute(f'CREATE KEYSPACE c WITH replication = {cluster.replication()}')
        session.set_keyspace('c')
        for text in TABLES:
            session.execute(text)
        yield session
    finally:
        other.shutdown()


@contextlib.contextmanager
def each_way(binary, *names):
    """Calls what it gives with a client of each of WAYS and its name."""
    cluster = node()

    def call(function):
        for way in names or WAYS:
            with Proxy(cluster.address(1), cluster.port, lz4=True) as proxy:
                if way == '3.11':
                    proxy.hide_3_11()
                # The node says where it is; the proxy is meant.
                maps = {f'{cluster.address(1)}:{cluster.port}': f'{proxy.host}:{proxy.port}',
                        cluster.address(1): f'{proxy.host}:{proxy.port}'}
                with Client(binary, proxy, maps=maps, **WAYS[way]) as client:
                    try:
                        function(client, way)
                    except rig.SceneError as error:
                        raise rig.SceneError(f'{way}: {error}') from error
                    eq(client.stats().version, 5 if way.startswith('version 5') else 4, way)
    yield call


def put_of(table, columns):
    names = ['k', *columns]
    return f'INSERT INTO c.{table} ({", ".join(names)}) VALUES ({", ".join("?" for _ in names)})'


def get_of(table, columns):
    return f'SELECT {", ".join(columns)} FROM c.{table} WHERE k = ?'


def types_of(columns):
    def plain(text):
        while 'frozen<' in text:
            text = FROZEN.sub(r'\1', text)
        return text
    return ', '.join(map(plain, columns.values()))


SAMPLES = (
    ('grüße \U0001f600 "\\\n\x01', 'ascii', 2**63 - 1, 2**31 - 1, 2**15 - 1, 127, True, 0.1, 0.5,
     1700000000123, 19000, 86399999999999, '192.0.2.7', b'\x00\xff', -1,
     decimal.Decimal('-12.345')),
    ('', '', -2**63, -2**31, -2**15, -128, False, -1e300, -3.25, -62135596800000, -719162, 0,
     '2001:db8::1', b'', 2**200, decimal.Decimal('1E+20')),
)
U, TU = uuid.UUID('f00d1234-5678-4abc-8def-0123456789ab'), uuid.UUID(
    '8d3c5e00-7bb5-11ee-b962-0242ac120002')


def packed_varint(n):
    return n.to_bytes(n.bit_length() // 8 + 1, 'big', signed=True)


def packed_decimal(d):
    sign, digits, exponent = d.as_tuple()
    number = int(''.join(map(str, digits))) * (-1 if sign else 1)
    return (-exponent).to_bytes(4, 'big', signed=True) + packed_varint(number)


@scene
def scalars_are_what_another_client_reads_and_writes(binary):
    with tables() as session, each_way(binary) as call:
        other_put = session.prepare(put_of('scalars', SCALARS))

        def run(client, way):
            eq(client.statement('put', put_of('scalars', SCALARS), 'int, ' + types_of(SCALARS),
                                idempotent=True), '')
            eq(client.statement('get', get_of('scalars', SCALARS), 'int', types_of(SCALARS),
                                idempotent=True), '')
            for k, sample in enumerate(SAMPLES):
                t, a, b64, b32, b16, b8, bo, d, f, ts, da, ti, inet, bl, vi, de = sample
                want = [t, a, b64, b32, b16, b8, bo, d, f, ts, da, ti, str(U), str(TU), inet,
                        '0x' + bl.hex(), '0x' + packed_varint(vi).hex(),
                        '0x' + packed_decimal(de).hex()]
                session.execute(other_put, (
                    k, t, a, b64, b32, b16, b8, bo, d, f, ts, EPOCH + datetime.timedelta(da)
                    if da > -700000 else util.Date(da), ti, U, TU, inet, bl, vi, de))
                eq(client.run('get', I32(k)).one, want, f'{way}: read of what the other wrote')
                if '\n' in t:       # not in a line
                    continue
                client.run(
                    'put', I32(k + 10), Text(t), Text(a), I64(b64), I32(b32), I16(b16), I8(b8),
                    Bool(bo), Double(d), Blob(struct.pack('>f', f)), I64(ts),
                    Date(da), I64(ti), Uuid(U), Tid(TU), Blob(ipaddress.ip_address(inet).packed),
                    Blob(bl), Blob(packed_varint(vi)), Blob(packed_decimal(de)), ts='now')
                eq(client.run('get', I32(k + 10)).one, want, f'{way}: read of our own')
                row = session.execute(f'SELECT * FROM scalars WHERE k = {k + 10}').one()
                eq((row.t, row.b64, row.b32, row.b16, row.b8, row.bo, row.d, row.f, row.u, row.tu,
                    row.bl, row.vi, row.de, row.i),
                   (t, b64, b32, b16, b8, bo, d, f, U, TU, bl, vi, de, inet), f'{way}: the other')
        call(run)


@scene
def collections_are_what_another_client_reads_and_writes(binary):
    with tables() as session, each_way(binary) as call:
        place = collections.namedtuple('place', 'name nr tags')
        session.cluster.register_user_type('c', 'place', place)
        other_put = session.prepare(put_of('nested', NESTED))
        want = [[1, 2**40], ['a', 'b'], ['k', 1, 'l', 2], [1, 'x', True],
                {'name': 'here', 'nr': 7, 'tags': ['t']},
                ['m', [[1, 2], [3]], 'n', []]]
        session.execute(other_put, (
            1, [1, 2**40], {'a', 'b'}, {'k': 1, 'l': 2}, (1, 'x', True),
            place('here', 7, {'t'}), {'m': [{1, 2}, {3}], 'n': []}))
        session.execute('INSERT INTO nested (k, tup) VALUES (2, (1, null, null))')
        session.execute("INSERT INTO nested (k, ud) VALUES (3, {name: 'only'})")
        session.execute('ALTER TYPE place ADD more bigint')

        def run(client, way):
            eq(client.statement('put', put_of('nested', NESTED), idempotent=True), '')
            eq(client.statement('get', get_of('nested', NESTED), 'int', types_of(NESTED),
                                idempotent=True), '')
            now = [*want]
            now[4] = {**want[4], 'more': None}
            eq(client.run('get', I32(1)).one, now, f'{way}: read of what the other wrote')
            eq(client.run('get', I32(2)).one, [None, None, None, [1, None, None], None, None])
            eq(client.run('get', I32(3)).one[4],
               {'name': 'only', 'nr': None, 'tags': None, 'more': None})
            client.run('put', I32(11), Items(I64(1), I64(2**40)), Items(Text('a'), Text('b')),
                       Map(Text('k'), I32(1), Text('l'), I32(2)), Tuple(I32(1), Text('x'), Bool(1)),
                       Tuple(Text('here'), I32(7), Items(Text('t'))),
                       Map(Text('m'), Items(Items(I32(1), I32(2)), Items(I32(3))), Text('n'),
                           Items()), ts='now')
            eq(client.run('get', I32(11)).one, now, f'{way}: read of our own')
            row = session.execute('SELECT li, se, ma, tup, deep FROM nested WHERE k = 11').one()
            eq((list(row.li), set(row.se), dict(row.ma), tuple(row.tup),
                {k: [set(s) for s in v] for k, v in row.deep.items()}),
               ([1, 2**40], {'a', 'b'}, {'k': 1, 'l': 2}, (1, 'x', True),
                {'m': [{1, 2}, {3}], 'n': []}), f'{way}: the other')
        call(run)


@scene
def blobs_of_any_size(binary):
    with tables() as session, each_way(binary) as call:
        def run(client, way):
            client.statement('put', put_of('blobs', ['v']), 'int, blob', idempotent=True)
            client.statement('get', get_of('blobs', ['v']), 'int', 'blob', idempotent=True)
            sizes = (0, 1, 1000, 131000, 131062, 131071, 131072, 262143, 500000, 2 << 20)
            data = [os.urandom(n // 2) + b'x' * (n - n // 2) for n in sizes]
            written = [client.start('put', I32(k), Blob(d), ts='now') for k, d in enumerate(data)]
            eq([p.wait().why for p in written], ['ok'] * len(data))
            read = [client.start('get', I32(k)) for k in range(len(data))]
            for k, pending in enumerate(read):
                check(pending.wait().one == ['0x' + data[k].hex()], f'{way}: {sizes[k]} bytes')
                got = session.execute(f'SELECT v FROM blobs WHERE k = {k}').one().v
                check(got == data[k], f'{way}: {sizes[k]} bytes as the other reads them')
            large = client.ask('put', I32(99), Blob(os.urandom(17 << 20)), ts='now', ms=60000)   # half a segment of its log is 16 MiB
            check(large.why != 'ok', f'more than the node takes: {large.why}')
            eq(client.run('get', I32(1), ms=60000).one, ['0x' + data[1].hex()])
        call(run)


@scene
def null_deletes_and_unset_leaves_alone(binary):
    with tables() as session, each_way(binary) as call:
        def run(client, _way):
            client.statement('put', 'INSERT INTO c.once (p, c, v, s) VALUES (?, ?, ?, ?)')
            client.statement('get', 'SELECT v, s FROM c.once WHERE p = ? AND c = ?',
                             idempotent=True)
            session.execute('TRUNCATE once')
            client.run('put', Text('p'), I32(1), Text('v'), Text('s'), ts=microseconds())
            client.run('put', Text('p'), I32(1), UNSET, NULL, ts=microseconds())
            eq(client.run('get', Text('p'), I32(1)).one, ['v', None])
            client.run('put', Text('p'), I32(1), NULL, UNSET, ts=microseconds())
            eq(client.run('get', Text('p'), I32(1)).one, [None, None])
            bad = client.ask('put', Text('p'), I32(1), Text('v'), ts='now')
            check(bad.why == 'bad' and 'alues' in bad.note + 'values', f'one too few: {bad}')
            bad = client.ask('put', NULL, I32(1), Text('v'), Text('s'), ts='now')
            eq(bad.why, 'bad')
            bad = client.ask('put', Text('p'), I64(1), Text('v'), Text('s'), ts='now')
            eq(bad.why, 'bad', 'eight bytes for an int')
            eq(client.run('get', Text('p'), I32(1)).one, [None, None])
        call(run)


@scene
def pages_of_any_size_and_empty_ones(binary):
    with tables() as session, each_way(binary) as call:
        put = session.prepare('INSERT INTO wide (p, c, v) VALUES (?, ?, ?)')
        from cassandra.concurrent import execute_concurrent_with_args
        execute_concurrent_with_args(session, put, [('p', c, f'v{c}') for c in range(5000)])
        execute_concurrent_with_args(session, put, [('gone', c, 'x') for c in range(600)])
        for c in range(600):
            if c % 200 != 199:
                session.execute_async(f"DELETE FROM wide WHERE p = 'gone' AND c = {c}").result()

        def run(client, way):
            client.statement('all', 'SELECT c, v FROM c.wide WHERE p = ?', 'text', 'bigint, text',
                             idempotent=True)
            want = [[c, f'v{c}'] for c in range(5000)]
            for page in (1, 7, 100, 999, 1000, 4999, 5000, 5001):
                if page == 1 and way != 'version 5':
                    continue
                rows, sizes = client.pages('all', Text('p'), page=page)
                check(rows == want, f'{way}: {page} rows a page: {len(rows)} rows')
                check(max(sizes) <= page and sum(sizes) == 5000, f'{way}: {sizes[-5:]}')
            check(client.run('all', Text('p')).rows == want, 'no pages')
            rows, sizes = client.pages('all', Text('gone'), page=1)
            eq([row[0] for row in rows], [199, 399, 599])
            rows, _ = client.pages('all', Text('nothing'), page=10)
            eq(rows, [])
            state = client.run('all', Text('p'), page=10).state
            bad = client.ask('all', Text('p'), page=10, state='00' + state[2:-4])
            check(bad.why != 'ok' or bad.rows, f'a state that is none: {bad.why}')
            eq(len(client.run('all', Text('p'), page=10).rows), 10)
            # A filter leaves pages without rows.
            client.statement('filter', 'SELECT c FROM c.wide WHERE v = ? ALLOW FILTERING',
                             idempotent=True)
            rows, sizes = client.pages('filter', Text('v4321'), page=100)
            eq(rows, [[4321]])
        call(run)


@scene
def conditions_are_applied_or_not(binary):
    with tables() as session, each_way(binary) as call:
        def run(client, way):
            session.execute('TRUNCATE once')
            for name, text in {
                    'new': 'INSERT INTO c.once (p, c, v) VALUES (?, ?, ?) IF NOT EXISTS',
                    'change': 'UPDATE c.once SET v = ? WHERE p = ? AND c = ? IF v = ?',
                    'static': 'UPDATE c.once SET s = ? WHERE p = ? IF s = ?'}.items():
                eq(client.statement(name, text), '')
            check(client.statement('bad', 'INSERT INTO c.once (p, c, v) VALUES (?, ?, ?) '
                                   'IF NOT EXISTS USING TIMESTAMP 1'), 'it is refused')
            args = (Text('p'), I32(1), Text('v'))
            eq(client.run('new', *args, serial=LOCAL_SERIAL).one, [True], way)
            again = client.run('new', *args, serial=LOCAL_SERIAL)
            eq(again.one[0], False)
            eq(dict(zip([c[0] for c in again.columns], again.one)),
               {'[applied]': False, 'p': 'p', 'c': 1, 's': None, 'v': 'v'})
            eq(client.run('new', Text('p'), I32(2), Text('v')).one, [True], 'no serial said')
            eq(client.run('change', Text('w'), Text('p'), I32(1), Text('v')).one, [True])
            eq(client.run('change', Text('x'), Text('p'), I32(1), Text('v')).one, [False, 'w'])
            eq(client.run('change', Text('w'), Text('p'), I32(1), Text('w')).one, [True])
            bad = client.ask('new', *args, ts='now')
            eq((bad.why, bad.sent), ('bad', 0), 'a timestamp for a condition')
            out = client.batch(('static', Text('s1'), Text('p'), NULL),
                               ('new', Text('p'), I32(3), Text('v3')), serial=LOCAL_SERIAL)
            eq(out.one[0], True, f'{way}: a batch with conditions')
            out = client.batch(('static', Text('s2'), Text('p'), Text('s9')),
                               ('new', Text('p'), I32(4), Text('v4')))
            eq(out.rows[0][0], False)
            rows = session.execute("SELECT c, v, s FROM once WHERE p = 'p'").all()
            eq([tuple(r) for r in rows], [(1, 'w', 's1'), (2, 'v', 's1'), (3, 'v3', 's1')])
            bad = client.start_batch(('new', Text('p'), I32(4), Text('v')), ts='now').wait()
            eq((bad.why, bad.sent), ('bad', 0))
        call(run)


@scene
def timestamps_are_those_that_were_given(binary):
    with tables() as session, each_way(binary) as call:
        def run(client, way):
            session.execute('TRUNCATE once')
            client.statement('put', 'INSERT INTO c.once (p, c, v) VALUES (?, ?, ?)',
                             idempotent=True)
            client.statement('ttl', 'INSERT INTO c.once (p, c, v) VALUES (?, ?, ?) USING TTL ?',
                             idempotent=True)
            client.statement('gone', 'DELETE FROM c.once WHERE p = ? AND c = ?', idempotent=True)
            client.statement('when', 'SELECT c, WRITETIME(v) FROM c.once WHERE p = ?',
                             idempotent=True)
            for c, stamp in enumerate((1, 1234567890123456, microseconds() + 10**9)):
                client.run('put', Text('p'), I32(c), Text('v'), ts=stamp)
            client.batch(('put', Text('p'), I32(10), Text('v')),
                         ('put', Text('p'), I32(11), Text('v')), ts=77)
            client.text("INSERT INTO c.once (p, c, v) VALUES ('p', 12, 'v')", ts=88)
            client.run('ttl', Text('p'), I32(13), Text('v'), I32(1000), ts=99)
            stamps = dict(map(tuple, client.run('when', Text('p')).rows))
            eq({c: stamps[c] for c in (0, 1, 10, 11, 12, 13)},
               {0: 1, 1: 1234567890123456, 10: 77, 11: 77, 12: 88, 13: 99}, way)
            client.run('gone', Text('p'), I32(10), ts=76)
            client.run('gone', Text('p'), I32(11), ts=77)
            stamps = dict(map(tuple, client.run('when', Text('p')).rows))
            eq((stamps.get(10), stamps.get(11)), (77, None), f'{way}: deletes by their time')
            bad = client.ask('put', Text('p'), I32(1), Text('v'))
            eq((bad.why, bad.sent), ('bad', 0), 'a write without a timestamp')
            if way.startswith('version 5'):
                client.run('ttl', Text('n'), I32(1), Text('v'), I32(100), ts=1000000,
                           now=1700000000)
                eq(client.run('when', Text('n')).rows, [], 'it has ended for long')
                eq(len(client.run('when', Text('n'), now=1700000050).rows), 1)
        call(run)


@scene
def batches_of_each_kind(binary):
    with tables() as session, each_way(binary) as call:
        def run(client, way):
            session.execute('TRUNCATE once')
            session.execute('TRUNCATE wide')
            session.execute('TRUNCATE counts')
            client.statement('put', 'INSERT INTO c.once (p, c, v) VALUES (?, ?, ?)',
                             idempotent=True)
            client.statement('wide', 'INSERT INTO c.wide (p, c, v) VALUES (?, ?, ?)',
                             idempotent=True)
            client.statement('count', 'UPDATE c.counts SET n = n + ? WHERE k = ?')
            for kind in ('logged', 'unlogged'):
                parts = [('put', Text(kind), I32(c), Text('v')) for c in range(100)]
                parts += [('wide', Text(kind), I64(c), Text('v')) for c in range(100)]
                client.batch(*parts, kind=kind, ts='now')
                for table in ('once', 'wide'):
                    rows = session.execute(f"SELECT count(*) FROM {table} WHERE p = '{kind}'")
                    eq(rows.one()[0], 100, f'{way} {kind}')
            client.batch(('count', I64(3), I32(1)), ('count', I64(4), I32(1)), kind='counters')
            eq(session.execute('SELECT n FROM counts WHERE k = 1').one()[0], 7)
            bad = client.start_batch(('count', I64(3), I32(1)), ('put', Text('a'), I32(1),
                                                                 Text('v')), ts='now').wait()
            check(bad.why == 'bad', f'counters and others: {bad}')
        call(run)


@scene
def a_trace_is_found_and_warnings_are_told(binary):
    with tables() as session, each_way(binary) as call:
        def run(client, way):
            client.statement('wide', 'INSERT INTO c.wide (p, c, v) VALUES (?, ?, ?)',
                             idempotent=True)
            client.statement('all', 'SELECT c FROM c.wide WHERE p = ?', idempotent=True)
            client.statement('gone', 'DELETE FROM c.wide WHERE p = ? AND c = ?', idempotent=True)
            out = client.run('wide', Text('t'), I64(1), Text('v'), ts='now', traced=1)
            wait_until(lambda: session.execute(
                f'SELECT session_id FROM system_traces.sessions WHERE session_id = {out.trace}'
            ).all(), f'{way}: the trace {out.trace}')
            traced = client.run('all', Text('t'), traced=1)
            check(traced.trace != out.trace and traced.rows, 'another')
            check('trace' not in client.run('all', Text('t')), 'none was asked for')
            before = client.stats().warnings
            parts = [('wide', Text(f'w{c}'), I64(c), Text('v' * 3000)) for c in range(4)]
            out = client.batch(*parts, ts='now', traced=1)
            eq(client.stats().warnings, before + 1, f'{way}: a batch of many partitions')
            check(out.trace, 'a trace and a warning')
            check('exceeding specified threshold' in client.errors(), f'{way}: the log has it')
            for start in range(0, 1200, 200):
                client.batch(*[('gone', Text('dead'), I64(c)) for c in range(start, start + 200)],
                             ts='now')
            before = client.stats().warnings
            eq(client.run('all', Text('dead')).rows, [])
            eq(client.stats().warnings, before + 1, f'{way}: tombstones')
        call(run)


@scene
def consistency_that_cannot_be_had_is_said(binary):
    with tables(), each_way(binary) as call:
        def run(client, way):
            client.statement('put', 'INSERT INTO c.once (p, c, v) VALUES (?, ?, ?)',
                             idempotent=True)
            bad = client.ask('put', Text('p'), I32(1), Text('v'), ts='now', cl=3)
            eq((bad.why, bad.code, bad.unknown), ('unavailable', 0x1000, False), way)
            check('THREE' in bad.note and bad.node, bad.note)
            client.run('put', Text('p'), I32(1), Text('v'), ts='now', cl=ONE)
            bad = client.ask_text('SELECT nothing FROM c.once')
            eq((bad.why, bad.code), ('bad', 0x2200))
            bad = client.ask_text('SELEKT')
            check(bad.why == 'bad', f'syntax: {bad}')
            for name, text in {'star': 'SELECT * FROM c.once', 'name': 'SELECT v FROM c.once '
                               'WHERE p = :p'}.items():
                check(client.statement(name, text), f'{name} is refused')
        call(run)


main()
