"""The proxy, between python3-cassandra and a real node: what passes is as it was, figures are
right, and each fault is what a client sees. The driver is not ours, so that the proxy and our
client are not wrong in the same way."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import rig
from rig import check, eq, main, node, scene, wait_until

rig.need_driver()
# pylint: disable=wrong-import-position
import cassandra                                                        # noqa: E402
from cassandra import ConsistencyLevel, WriteType, protocol            # noqa: E402
from cassandra.cluster import (                                         # noqa: E402
    EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable)
from cassandra.connection import ConnectionException                    # noqa: E402
from cassandra.policies import (                                        # noqa: E402
    ConstantReconnectionPolicy, FallthroughRetryPolicy, RoundRobinPolicy)
from cassandra.query import BatchStatement, BatchType, SimpleStatement  # noqa: E402
import cql                                                              # noqa: E402
import wire                                                             # noqa: E402
from proxy import Proxies, Proxy                                        # noqa: E402

TIMEOUT = 30
SOON = 2                # a request that gets no answer is given up after this
SIZES = (0, 1, 131_000, 300_000, 2_000_000)
LOST = (ConnectionException, NoHostAvailable, cassandra.OperationTimedOut, OSError)


def connect(place, port=None, version=None, timeout=TIMEOUT, compression=False):
    """A session of the driver; place: a proxy, or an address."""
    host, port = (place, port) if port else (place.host, place.port)
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(),
                               retry_policy=FallthroughRetryPolicy(), request_timeout=timeout)
    options = {} if version is None else {'protocol_version': version}
    cluster = Cluster([host], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                      compression=compression, connect_timeout=TIMEOUT,
                      control_connection_timeout=TIMEOUT, idle_heartbeat_interval=0,
                      reconnection_policy=ConstantReconnectionPolicy(0.1, None),
                      schema_metadata_enabled=False, token_metadata_enabled=False, **options)
    return cluster.connect()


@contextlib.contextmanager
def driver(*arguments, **options):
    session = connect(*arguments, **options)
    try:
        yield session
    finally:
        session.cluster.shutdown()


@contextlib.contextmanager
def proxied(**options):
    """A proxy in front of the node, with a table behind it."""
    cluster = node()
    with cluster.session() as session:
        session.execute(
            f'CREATE KEYSPACE IF NOT EXISTS p WITH replication = {cluster.replication()}')
        session.execute('CREATE TABLE IF NOT EXISTS p.t (k int PRIMARY KEY, v blob)')
        session.execute('TRUNCATE p.t')
    with Proxy(cluster.address(1), cluster.port, **options) as proxy:
        yield proxy


def raised(kinds, function, *arguments, **options):
    """The exception of one of these kinds that the function raises."""
    try:
        function(*arguments, **options)
    except kinds as error:
        return error
    raise rig.SceneError('nothing was raised')


def comes_back(session):
    """The driver has a connection again."""
    def asks():
        with contextlib.suppress(*LOST):
            return session.execute('SELECT key FROM system.local', timeout=SOON).one()
        return None
    wait_until(asks, 'the driver is connected again')


# ---- what passes


def values_pass(version, **options):
    with proxied(lz4=bool(options)) as proxy, driver(proxy, version=version, **options) as session:
        eq(session.cluster.protocol_version, version)
        put = session.prepare('INSERT INTO p.t (k, v) VALUES (?, ?)')
        get = session.prepare('SELECT v FROM p.t WHERE k = ?')
        for k, size in enumerate(SIZES):
            data = os.urandom(size // 2) + b'x' * (size - size // 2)
            session.execute(put, (k, data))
            got = session.execute(get, (k,)).one().v
            check(got == data, f'{size} bytes come back as they were')
        futures = [session.execute_async(get, (k % len(SIZES),)) for k in range(100)]
        got = [len(future.result().one().v) for future in futures]
        eq(got, [SIZES[k % len(SIZES)] for k in range(100)])
        sent = proxy.counts()['bytes']['requests']
        check((sent < 0.75 * sum(SIZES)) == bool(options),
              f'{sent} bytes were sent of {sum(SIZES)}, half of them alike')
    eq(node().execute('SELECT count(*) FROM p.t')[0]['count'], len(SIZES))


@scene
def large_values_pass_in_segments(binary):
    values_pass(5)


@scene
def large_values_pass_in_version_4(binary):
    values_pass(4)


@scene
def compression_passes_where_it_may(binary):
    for version in (4, 5):
        values_pass(version, compression='lz4')
    with proxied() as proxy:
        eq(supported(proxy)['COMPRESSION'], [])
    with proxied(lz4=True) as proxy:
        eq(supported(proxy)['COMPRESSION'], ['lz4'])


def supported(proxy):
    with socket.create_connection((proxy.host, proxy.port), TIMEOUT) as connection:
        connection.sendall(wire.Envelope(4, 0, 0, wire.OPCODE['OPTIONS'], b'').pack())
        decoder = wire.Decoder()
        while True:
            decoder.feed(connection.recv(65536))
            group = decoder.next()
            if group:
                return wire.Reader(group[0].body).string_multimap()


@scene
def a_log_in_passes(binary):
    with rig.Cluster(auth=True) as cluster, Proxy(cluster.address(1), cluster.port) as proxy:
        for version in (4, 5):
            with cql.Session(proxy.host, proxy.port, version=version) as session:
                eq(len(session.execute('SELECT key FROM system.local')), 1)
            try:
                cql.Session(proxy.host, proxy.port, version=version, password='wrong')
                check(False, 'a wrong password was taken')
            except cql.CqlError as error:
                eq(error.name, 'BAD_CREDENTIALS')


@scene
def bytes_come_in_pieces(binary):
    """In version 5 for our own eyes: version 3.25 of the driver loses its place in a segment that
    is cut in its header."""
    with proxied() as proxy:
        proxy.dribble(to_server=7, to_client=3)
        with driver(proxy, version=4) as session:
            session.execute('INSERT INTO p.t (k, v) VALUES (1, 0x00112233)')
            eq(session.execute('SELECT v FROM p.t WHERE k = 1').one().v, bytes.fromhex('00112233'))
        for version in (4, 5):
            with cql.Session(proxy.host, proxy.port, version=version) as session:
                rows = session.execute('SELECT v FROM p.t WHERE k = 1')
                eq(rows, [{'v': bytes.fromhex('00112233')}])


# ---- figures


@scene
def requests_are_counted_by_what_they_say(binary):
    insert = 'INSERT INTO p.t (k, v) VALUES (?, ?)'
    for version in (4, 5):
        with proxied() as proxy, driver(proxy, version=version) as session:
            with proxy.counting() as counted:
                put = session.prepare(insert)
                for k in range(3):
                    session.execute(put, (k, b'v'))
                batch = BatchStatement(BatchType.UNLOGGED)
                batch.add(put, (7, b'v'))
                batch.add(SimpleStatement('DELETE FROM p.t WHERE k = 0'))
                session.execute(batch)
                session.execute('SELECT v FROM p.t WHERE k = 1')
                session.execute('SELECT key FROM system.local')
                raised(cassandra.InvalidRequest, session.execute, 'SELECT v FROM p.nothing')
            eq(dict(counted['requests']), {'PREPARE': 1, 'EXECUTE': 3, 'BATCH': 1, 'QUERY': 3})
            eq(dict(counted['answers']), {'RESULT': 7, 'ERROR': 1})
            eq(dict(counted['kinds']), {'INSERT': 3, 'BATCH': 1, 'SELECT': 2, 'SYSTEM': 1})
            eq(dict(counted['batches']), {'UNLOGGED': 1})
            eq(dict(counted['prepared']), {insert: 1})
            eq(dict(counted['errors']), {'INVALID': 1})
            eq(counted['statements'][insert], 4)
            eq(counted['connections'], 0)
            check(counted['bytes']['requests'] > 200 and counted['bytes']['answers'] > 100,
                  'bytes are counted')


# ---- 3.11


@scene
def a_client_meets_3_11_and_goes_down_to_version_4(binary):
    for blunt in (False, True):
        with proxied() as proxy:
            proxy.hide_3_11(blunt=blunt)
            with driver(proxy) as session:
                eq(session.cluster.protocol_version, 4)
                row = session.execute('SELECT * FROM system.local').one()
                eq((row.release_version, row.cql_version, row.native_protocol_version),
                   ('3.11.19', '3.4.4', '4'))
                check(not {'rpc_port', 'listen_port', 'broadcast_port'} & set(row._fields),
                      'columns of later versions')
                # The refusals are the proxy's, the node made none.
                eq(proxy.counts()['errors'], {})


@scene
def version_5_is_refused_in_the_words_of_3_11(binary):
    with proxied() as proxy:
        for blunt, version, words in ((False, 0x85, 'USE_BETA flag is unset'),
                                      (True, 0x84, '3/v3, 4/v4, 5/v5-beta')):
            proxy.hide_3_11(blunt=blunt)
            with socket.create_connection((proxy.host, proxy.port), TIMEOUT) as connection:
                body = wire.string_map({'CQL_VERSION': '3.0.0'})
                connection.sendall(wire.Envelope(5, 0, 9, wire.OPCODE['STARTUP'], body).pack())
                data = b''
                while piece := connection.recv(65536):
                    data += piece
            decoder = wire.Decoder()
            decoder.feed(data)
            answer, = decoder.next()
            eq((answer.version, answer.stream, answer.name), (version, 9, 'ERROR'))
            reader = wire.Reader(answer.body)
            eq(reader.int(), 0x000a)
            check(words in reader.string(), 'its words')
        eq(supported(proxy)['PROTOCOL_VERSIONS'], ['3/v3', '4/v4', '5/v5-beta'])


@scene
def what_3_11_lacks_is_refused(binary):
    replication = node().replication()
    with proxied() as proxy:
        proxy.hide_3_11()
        with driver(proxy, version=4) as session:
            for text, kind, words in (
                ('SELECT * FROM system.peers_v2', cassandra.InvalidRequest,
                 'unconfigured table peers_v2'),
                ('SELECT * FROM system_virtual_schema.tables', cassandra.InvalidRequest,
                 'does not exist'),
                ('SELECT rpc_port FROM system.local', cassandra.InvalidRequest,
                 'Undefined column name rpc_port'),
                ("CREATE KEYSPACE q WITH replication = "
                 "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
                 protocol.ConfigurationException, 'replication_factor is an option'),
                ("CREATE TABLE p.u (k int PRIMARY KEY) "
                 "WITH gc_grace_seconds = 1 AND read_repair = 'NONE'",
                 protocol.SyntaxException, "Unknown property 'read_repair'"),
                ("CREATE TABLE p.u (k int PRIMARY KEY) "
                 "WITH compression = {'class': 'ZstdCompressor'}",
                 protocol.ConfigurationException, 'ZstdCompressor'),
                ('ALTER TABLE p.t ADD IF NOT EXISTS w int', protocol.SyntaxException, 'IF')):
                check(words in str(raised(kind, session.execute, text)), words)
                check(words in str(raised(kind, session.prepare, text)), words)
            session.execute(f'CREATE KEYSPACE IF NOT EXISTS q WITH replication = {replication}')
            session.execute('CREATE TABLE IF NOT EXISTS p.t (k int PRIMARY KEY, v blob) '
                            "WITH speculative_retry = '99PERCENTILE'")


@scene
def prepared_rows_of_3_11_have_its_columns(binary):
    with proxied() as proxy:
        proxy.hide_3_11()
        with driver(proxy, version=4) as session:
            row = session.execute(session.prepare('SELECT * FROM system.local')).one()
            eq((row.release_version, row.data_center, hasattr(row, 'rpc_port')),
               ('3.11.19', 'dc1', False))
            tables = session.execute("SELECT * FROM system_schema.tables WHERE keyspace_name = 'p'")
            eq([(row.table_name, hasattr(row, 'memtable')) for row in tables], [('t', False)])
            eq(session.execute('SELECT count(*) FROM system.local').one().count, 1)


# ---- faults of connections


@scene
def answers_are_late(binary):
    with proxied() as proxy, driver(proxy) as session:
        for way in ('to_server', 'to_client'):
            proxy.delay(**{way: 0.3})
            began = time.monotonic()
            futures = [session.execute_async('SELECT v FROM p.t WHERE k = 1') for _ in range(10)]
            for future in futures:
                future.result()
            took = time.monotonic() - began
            check(0.3 <= took < 3, f'ten requests at once are late once: {took} s')
        proxy.clear()


@scene
def a_connection_is_cut(binary):
    for version in (4, 5):
        for reset in (False, True):
            with proxied() as proxy, driver(proxy, version=version) as session:
                before = proxy.counts()['connections']
                proxy.cut(reset=reset)
                comes_back(session)
                check(proxy.counts()['connections'] > before, 'it connected anew')


@scene
def a_connection_is_cut_inside_an_answer(binary):
    for version in (4, 5):
        with proxied() as proxy, driver(proxy, version=version, timeout=SOON) as session:
            session.execute('INSERT INTO p.t (k, v) VALUES (%s, %s)', (1, b'x' * 300_000))
            for kept in (0, 5, 100, 100_000):
                rule = proxy.cut_at(opcode='RESULT', text='FROM p.t', kept=kept)
                raised(LOST, session.execute, 'SELECT v FROM p.t WHERE k = 1')
                eq(rule.hits, 1)
                comes_back(session)
            proxy.cut_after(to_client=200_000)
            raised(LOST, session.execute, 'SELECT v FROM p.t WHERE k = 1')
            comes_back(session)
            eq(len(session.execute('SELECT v FROM p.t WHERE k = 1').one().v), 300_000)


@scene
def a_connection_is_cut_before_the_request_arrives(binary):
    with proxied() as proxy, driver(proxy, timeout=SOON) as session:
        proxy.cut_at(answer=False, text='INSERT')
        raised(LOST, session.execute, 'INSERT INTO p.t (k, v) VALUES (9, 0x00)')
        comes_back(session)
        eq(session.execute('SELECT v FROM p.t WHERE k = 9').one(), None)


@scene
def a_connection_is_half_open(binary):
    with proxied() as proxy, driver(proxy) as session:
        proxy.half_open()
        raised(cassandra.OperationTimedOut, session.execute, 'SELECT v FROM p.t WHERE k = 1',
               timeout=SOON)
        with socket.create_connection((proxy.host, proxy.port), TIMEOUT) as connection:
            connection.sendall(wire.Envelope(4, 0, 0, wire.OPCODE['OPTIONS'], b'').pack())
            connection.settimeout(0.3)
            raised(TimeoutError, connection.recv, 1)
        proxy.half_open(False)
        eq(session.execute('SELECT v FROM p.t WHERE k = 1').one(), None)


@scene
def a_node_refuses_connections(binary):
    with proxied() as proxy:
        proxy.listen(False)
        raised(ConnectionRefusedError, socket.create_connection, (proxy.host, proxy.port), 5)
        proxy.listen(True)
        with driver(proxy) as session:
            eq(len(session.execute('SELECT key FROM system.local').all()), 1)


# ---- faults of messages

ERRORS = (
    ('OVERLOADED', {}, protocol.OverloadedErrorMessage, lambda error: 'made by' in str(error)),
    ('IS_BOOTSTRAPPING', {}, protocol.IsBootstrappingErrorMessage,
     lambda error: 'made by' in str(error)),
    ('UNAVAILABLE', {'required': 3, 'alive': 1}, cassandra.Unavailable,
     lambda error: (error.required_replicas, error.alive_replicas) == (3, 1)),
    ('WRITE_TIMEOUT', {'write_type': 'BATCH_LOG', 'block_for': 1}, cassandra.WriteTimeout,
     lambda error: (error.write_type, error.required_responses) == (WriteType.BATCH_LOG, 1)),
    ('WRITE_TIMEOUT', {'write_type': 'CAS'}, cassandra.WriteTimeout,
     lambda error: error.write_type == WriteType.CAS),
    ('WRITE_TIMEOUT', {}, cassandra.WriteTimeout,
     lambda error: error.write_type == WriteType.SIMPLE),
    ('READ_TIMEOUT', {'data_present': True}, cassandra.ReadTimeout,
     lambda error: error.data_retrieved),
    ('READ_TIMEOUT', {'consistency': 'ONE'}, cassandra.ReadTimeout,
     lambda error: (error.data_retrieved, error.consistency) == (False, ConsistencyLevel.ONE)),
    ('READ_FAILURE', {'failures': 2}, cassandra.ReadFailure, lambda error: error.failures == 2),
    ('WRITE_FAILURE', {'failures': 1}, cassandra.WriteFailure, lambda error: error.failures == 1),
    ('SYNTAX_ERROR', {}, protocol.SyntaxException, lambda error: 'made by' in str(error)),
)


@scene
def each_error_is_what_a_client_reads(binary):
    for version in (4, 5):
        with proxied() as proxy, driver(proxy, version=version) as session:
            for name, fields, kind, fits in ERRORS:
                rule = proxy.error(name, fields=fields, text='p.t')
                with proxy.counting() as counted:
                    error = raised(kind, session.execute, 'SELECT v FROM p.t WHERE k = 1')
                check(fits(error), f'{name} {fields} in version {version}: {error!r}')
                eq((rule.hits, counted['answers']['RESULT']), (1, 0))
                session.execute('SELECT v FROM p.t WHERE k = 1')


@scene
def an_error_comes_although_the_row_is_written(binary):
    with proxied() as proxy, driver(proxy) as session:
        proxy.error('WRITE_TIMEOUT', executed=True, text='INSERT')
        raised(cassandra.WriteTimeout, session.execute, 'INSERT INTO p.t (k, v) VALUES (5, 0x05)')
        eq(session.execute('SELECT v FROM p.t WHERE k = 5').one().v, b'\x05')


@scene
def a_statement_is_forgotten(binary):
    for version in (4, 5):
        with proxied() as proxy, driver(proxy, version=version) as session:
            text = 'SELECT v FROM p.t WHERE k = ?'
            get = session.prepare(text)
            proxy.error('UNPREPARED', opcode='EXECUTE')
            with proxy.counting() as counted:
                eq(session.execute(get, (1,)).one(), None)
            eq((counted['prepared'][text], counted['requests']['EXECUTE']), (1, 2))


@scene
def an_answer_is_lost_or_comes_twice_or_late(binary):
    for version in (4, 5):
        with proxied() as proxy, driver(proxy, version=version) as session:
            rule = proxy.swallow(opcode='RESULT', text='p.t', after=1)
            session.execute('SELECT v FROM p.t WHERE k = 1')
            raised(cassandra.OperationTimedOut, session.execute, 'SELECT v FROM p.t WHERE k = 1',
                   timeout=SOON)
            eq(rule.hits, 1)
            rule = proxy.hold(1, text='k = 1')
            late = session.execute_async('SELECT v FROM p.t WHERE k = 1')
            rule.wait()
            session.execute('SELECT v FROM p.t WHERE k = 2')
            check(not late._event.is_set(), 'the second answer passed the first one by')
            late.result()


@scene
def an_answer_comes_twice_and_on_a_stream_of_nobody(binary):
    for version in (4, 5):
        for fault in ('duplicate', 'wrong_stream'):
            with proxied() as proxy:
                with cql.Session(proxy.host, proxy.port, version=version) as session:
                    rule = getattr(proxy, fault)(opcode='RESULT')
                    streams = []
                    body = wire.long_string('SELECT key FROM system.local') + wire.short(1)
                    body += b'\0' if version == 4 else wire.integer(0)
                    request = wire.Envelope(version, 0, 1, wire.OPCODE['QUERY'], body)
                    session._socket.sendall(b''.join(wire.encode([request], version == 5)))
                    while len(streams) < 1 + (fault == 'duplicate'):
                        session._decoder.feed(session._socket.recv(65536))
                        while group := session._decoder.next():
                            streams += [answer.stream for answer in group]
                    eq(streams, [1, 1] if fault == 'duplicate' else [1001])
                    eq(rule.hits, 1)


@scene
def a_segment_is_corrupt(binary):
    with proxied() as proxy:
        for part in ('header', 'header_crc', 'payload', 'crc'):
            with driver(proxy, version=5, timeout=SOON) as session:
                session.execute('INSERT INTO p.t (k, v) VALUES (%s, %s)', (1, b'x' * 300_000))
                for text in ('SELECT k FROM p.t WHERE k = 1', 'SELECT v FROM p.t WHERE k = 1'):
                    rule = proxy.corrupt(part, text='FROM p.t')
                    raised(LOST, session.execute, text)
                    eq(rule.hits, 1)
                    comes_back(session)
            for checksum in ('header', 'payload'):
                with cql.Session(proxy.host, proxy.port, version=5) as session:
                    proxy.corrupt(part, opcode='RESULT')
                    error = raised(wire.WireError, session.execute, 'SELECT key FROM system.local')
                    check(('header' if part.startswith('header') else 'payload') in str(error),
                          str(error))


# ---- the rest


@scene
def lines_of_control_are_obeyed(binary):
    cluster = node()
    program = str(rig.ROOT / 'test/cassandra/proxy.py')
    command = [sys.executable, program, f'{cluster.address(1)}:{cluster.port}', '--control', '0']
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = json.loads(process.stdout.readline())
        with cql.Session(said['host'], said['port']) as session, \
                socket.create_connection(('127.0.0.1', said['control']), TIMEOUT) as control, \
                control.makefile('rw') as lines:
            def obeyed(**words):
                lines.write(json.dumps(words) + '\n')
                lines.flush()
                return json.loads(lines.readline())
            eq(obeyed(do='error', name='OVERLOADED', times=1, text='local'), {'ok': None})
            error = raised(cql.CqlError, session.execute, 'SELECT key FROM system.local')
            eq(error.name, 'OVERLOADED')
            eq(len(session.execute('SELECT key FROM system.local')), 1)
            eq(obeyed(do='counts')['ok']['requests'], {'STARTUP': 1, 'QUERY': 2})
            check('error' in obeyed(do='nothing') and 'error' in obeyed(do='error', name='NOTHING'),
                  'what is unknown')
            process.stdin.write('{"do": "open_connections"}\n')
            process.stdin.flush()
            eq(json.loads(process.stdout.readline()), {'ok': 1})
    finally:
        process.kill()
        process.communicate()


@scene
def there_is_a_proxy_for_each_node(binary):
    cluster = node()
    with Proxies(cluster) as proxies:
        eq(proxies.address_map, {'127.0.0.1': '127.0.1.1'})
        with driver(proxies.contact_points[0], proxies.port) as session:
            row = session.execute('SELECT release_version FROM system.local').one()
            eq(row.release_version, '5.0.9')
        check(proxies.counts()['requests']['QUERY'] > 0, 'it was asked through the proxy')


@scene
def what_is_no_protocol_is_told_at_the_end(binary):
    cluster = node()
    proxy = Proxy(cluster.address(1), cluster.port)
    with socket.create_connection((proxy.host, proxy.port), TIMEOUT) as connection:
        connection.sendall(bytes.fromhex('0400000007ffffffff'))
        eq(connection.recv(1), b'')
    raised(wire.WireError, proxy.close)
    eq([thread.name for thread in threading.enumerate() if thread.name == 'proxy'], [])


main()
