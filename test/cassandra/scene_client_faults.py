"""src/cql against a real node through the proxy: what a given work costs on the wire, and each
fault of connections and messages. Whatever happens, each request ends once, by its deadline, says
how it went, and the client comes back."""
import collections
import contextlib

import rig
from rig import check, eq, main, node, scene, wait_until

import wire
from client import I32, Blob, Client, Text
from proxy import Proxy

SOON_MS, LATE_S = 300, 1.5
WAYS = {'version 5': {}, 'version 5, LZ4': {'lz4': True}, 'version 4': {'version': 4}, '3.11': {}}
# Nothing by itself while a scene counts.
QUIET = {'heartbeat_ms': 600000, 'refresh_ms': 600000}
QUICK = {'retry_min_ms': 20, 'retry_max_ms': 100, 'connect_ms': 5000}
PUT = 'INSERT INTO f.t (k, v) VALUES (?, ?)'
GET = 'SELECT v FROM f.t WHERE k = ?'
ONCE = 'INSERT INTO f.t (k, v) VALUES (?, ?) IF NOT EXISTS'


@contextlib.contextmanager
def proxied(old=False):
    cluster = node()
    rig.keyspace(cluster, 'f')
    cluster.execute('CREATE TABLE f.t (k int PRIMARY KEY, v text)')
    cluster.execute('CREATE TABLE f.b (k int PRIMARY KEY, v blob)')
    with Proxy(cluster.address(1), cluster.port, lz4=True) as proxy:
        if old:
            proxy.hide_3_11()
        yield proxy


def connect(binary, proxy, **options):
    there = f'{proxy.host}:{proxy.port}'
    client = Client(binary, proxy, maps={f'{node().address(1)}:{node().port}': there,
                                         node().address(1): there}, **{**QUICK, **options})
    statements = {'put': (PUT, True), 'get': (GET, True), 'once': (ONCE, False),
                  'twice': (PUT + ' USING TTL 1000', False)}
    for name, (text, idempotent) in statements.items():
        eq(client.statement(name, text, idempotent=idempotent), '')
    return client


def put(client, k, **given):
    return client.start('put', I32(k), Text(f'v{k}'), ts='now', **given)


def get(client, k, **given):
    return client.start('get', I32(k), **given)


def serves(client):
    """It does, or comes to do so again."""
    wait_until(lambda: put(client, 0, ms=5000).wait().why == 'ok', 'a write is served again')
    eq(get(client, 0).wait().one, ['v0'])
    wait_until(lambda: client.stats().in_flight == 0, 'nothing is under way')
    eq(client.stats().waiting, 0)


def all_connected(client):
    """What it opens later would be counted."""
    wait_until(lambda: all(n.connections == 2 for n in client.nodes().values()), 'two connections')


def whys(pendings):
    return collections.Counter(p.wait().why for p in pendings)


# ---- what it costs


@scene
def each_request_is_one_on_the_wire(binary):
    for way, options in WAYS.items():
        with proxied(old=way == '3.11') as proxy, connect(binary, proxy, **options,
                                                          **QUIET) as client:
            all_connected(client)
            with proxy.counting() as counted:
                eq(whys(put(client, k) for k in range(100)), {'ok': 100})
                eq(whys(get(client, k) for k in range(200)), {'ok': 200})
                client.batch(('put', I32(1), Text('b')), ('put', I32(1), Text('c')), ts='now')
                client.run('once', I32(1), Text('b'))
                client.text('SELECT k FROM f.t WHERE k = 1')
            eq(dict(counted['requests']), {'PREPARE': 3, 'EXECUTE': 301, 'BATCH': 1, 'QUERY': 1},
               way)
            eq(dict(counted['prepared']), {PUT: 1, GET: 1, ONCE: 1}, way)
            eq(counted['statements'][PUT], 102, way)
            eq((counted['connections'], dict(counted['errors'])), (0, {}), way)
            stats = client.stats()
            eq((stats.executes, stats.batches, stats.texts, stats.prepared, stats.retries,
                stats.failed), (301, 1, 1, 3, 0, 0), way)


@scene
def each_page_is_one_on_the_wire(binary):
    with proxied() as proxy, connect(binary, proxy, **QUIET) as client:
        node().execute('CREATE TABLE f.w (p int, c int, PRIMARY KEY (p, c))')
        client.statement('wide', 'INSERT INTO f.w (p, c) VALUES (?, ?)', idempotent=True)
        client.statement('all', 'SELECT c FROM f.w WHERE p = ?', idempotent=True)
        for start in range(0, 500, 100):
            client.batch(*[('wide', I32(1), I32(c)) for c in range(start, start + 100)], ts='now')
        with proxy.counting() as counted:
            rows, sizes = client.pages('all', I32(1), page=100)
        eq(len(rows), 500)
        eq(dict(counted['requests']), {'PREPARE': 1, 'EXECUTE': len(sizes)})
        check(len(sizes) in (5, 6), f'pages {sizes}')


@scene
def a_session_begins_with_few_requests(binary):
    with proxied() as proxy:
        with proxy.counting() as counted, connect(binary, proxy, **QUIET) as client:
            wait_until(lambda: all(n.connections == 2 for n in client.nodes().values()),
                       'two connections')
        eq(counted['connections'], 3, 'one of control, two of the node')
        eq((counted['requests']['STARTUP'], counted['requests']['REGISTER']), (3, 1))
        check(counted['kinds'].get('SYSTEM', 0) <= 4, f'of system tables: {counted["kinds"]}')
        eq(dict(counted['errors']), {})


# ---- connections


@scene
def late_answers_are_waited_for_or_given_up(binary):
    with proxied() as proxy, connect(binary, proxy) as client:
        serves(client)
        proxy.delay(to_client=LATE_S)
        late = [put(client, k, ms=SOON_MS) for k in range(20)]
        fine = [put(client, k, ms=60000) for k in range(20, 40)]
        for pending in late:
            outcome = pending.wait()
            eq((outcome.why, outcome.unknown), ('timeout', True))
            check('LOCAL_QUORUM' in outcome.note and f':{proxy.port}' in outcome.note, outcome.note)
        eq(whys(fine), {'ok': 20})
        eq(client.stats().lost, 0, 'a late answer is no reason to close')
        proxy.clear()
        serves(client)
        eq(whys(get(client, k) for k in range(40)), {'ok': 40})


@scene
def a_cut_ends_what_was_under_way_and_it_comes_back(binary):
    for way, options in WAYS.items():
        for reset in (False, True):
            with proxied(old=way == '3.11') as proxy, connect(binary, proxy, **options) as client:
                serves(client)
                hold = proxy.hold(30, opcode='RESULT', times=None)
                pendings = [put(client, k) for k in range(30)] + [get(client, k) for k in range(30)]
                hold.wait(60)
                proxy.clear()
                proxy.cut(reset=reset)
                for number, pending in enumerate(pendings):
                    outcome = pending.wait()
                    if outcome.why != 'ok':
                        eq((outcome.why, outcome.unknown), ('io', number < 30), way)
                        check(f':{proxy.port}' in outcome.note, outcome.note)
                serves(client)


@scene
def a_connection_may_end_at_any_byte(binary):
    with proxied() as proxy, connect(binary, proxy) as client:
        serves(client)
        for side in ('to_client', 'to_server'):
            for budget in (1, 5, 9, 20, 60, 130, 300, 600, 1200):
                proxy.cut_after(**{side: budget})
                proxy.cut()
                ended = [put(client, k, ms=1000) for k in range(5)]
                eq(sum(whys(ended).values()), 5)
                proxy.clear()
                proxy.cut()
                serves(client)


@scene
def half_open_connections_are_found_by_heartbeats(binary):
    for sides in ({}, {'requests': False}, {'answers': False}):
        with proxied() as proxy, connect(binary, proxy, heartbeat_ms=300, answer_ms=500,
                                         connect_ms=500) as client:
            serves(client)
            proxy.half_open(**sides)
            outcome = put(client, 1, ms=20000).wait()
            check(outcome.why in ('io', 'unavailable'), f'not by the deadline: {outcome}')
            wait_until(lambda client=client: client.readiness[-1] is False, 'it says so')
            outcome = put(client, 1, ms=20000).wait()
            eq((outcome.why, outcome.sent, outcome.unknown), ('unavailable', 0, False))
            proxy.half_open(False)
            wait_until(lambda client=client: client.readiness[-1] is True, 'it says so again')
            serves(client)


@scene
def a_node_that_is_down_is_said_at_once_and_found_again(binary):
    with proxied() as proxy, connect(binary, proxy) as client:
        serves(client)
        proxy.listen(False)
        proxy.cut()
        wait_until(lambda: client.readiness[-1] is False, 'it says so')
        outcome = put(client, 1).wait()
        eq((outcome.why, outcome.sent, outcome.unknown), ('unavailable', 0, False))
        check('dc1' in outcome.note, outcome.note)
        proxy.listen()
        serves(client)
    with proxied() as proxy:
        proxy.listen(False)
        with Client(binary, proxy, ready=False, **QUICK) as client:
            client.statement('get', GET, idempotent=True)
            outcome = get(client, 1).wait()
            eq(outcome.why, 'unavailable')
            check('refused' in outcome.note or 'not yet' in outcome.note, outcome.note)


# ---- messages


@scene
def a_wrong_bit_is_never_taken_for_an_answer(binary):
    parts = {'version 5': ('header', 'header_crc', 'payload', 'crc'),
             'version 5, LZ4': ('header', 'header_crc', 'payload', 'crc'), 'version 4': ('header',)}
    for way, names in parts.items():
        with proxied() as proxy, connect(binary, proxy, **WAYS[way]) as client:
            serves(client)
            for part in names:
                rule = proxy.corrupt(part, opcode='RESULT', text='SELECT v')
                outcome = get(client, 0).wait()
                eq(rule.hits, 1, f'{way} {part}')
                eq((outcome.why, outcome.unknown), ('io', False), f'{way} {part}')
                serves(client)


@scene
def double_and_strange_answers_do_no_harm(binary):
    for way, options in WAYS.items():
        with proxied(old=way == '3.11') as proxy, connect(binary, proxy, **options) as client:
            serves(client)
            eq(whys(put(client, k) for k in range(50)), {'ok': 50})
            for rule in (proxy.duplicate, proxy.wrong_stream):
                rule(opcode='RESULT', text='SELECT v', times=5)
                for k, pending in enumerate([get(client, k, ms=3000) for k in range(50)]):
                    outcome = pending.wait()
                    if outcome.why == 'ok':
                        eq(outcome.one, [f'v{k}'], f'{way}: an answer of another')
                proxy.clear()
                serves(client)


@scene
def answers_may_pass_each_other(binary):
    with proxied() as proxy, connect(binary, proxy, connections=1) as client:
        serves(client)
        eq(whys(put(client, k) for k in range(50)), {'ok': 50})
        proxy.hold(1, opcode='RESULT', text='SELECT v', times=10)
        for k, pending in enumerate([get(client, k) for k in range(50)]):
            eq(pending.wait().one, [f'v{k}'])


@scene
def answers_that_never_come_cost_their_stream_until_there_are_too_many(binary):
    with proxied() as proxy, connect(binary, proxy, connections=1, orphans=3) as client:
        serves(client)
        lost = client.stats().lost
        for count in range(1, 5):
            rule = proxy.swallow(opcode='RESULT', text='SELECT v')
            eq(get(client, 0, ms=SOON_MS).wait().why, 'timeout')
            eq(rule.hits, 1)
            if count <= 3:
                eq(client.stats().lost, lost, f'{count} answers did not come')
        wait_until(lambda: client.stats().lost > lost, 'the connection is closed')
        serves(client)


# name: (outcome, of an idempotent write is sent so often, may have happened). One node is there.
ERRORS = {
    'SERVER_ERROR': ('unavailable', 1, True),
    'PROTOCOL_ERROR': ('io', 1, False),
    'UNAVAILABLE': ('unavailable', 1, False),
    'OVERLOADED': ('unavailable', 1, True),     # for too many hints: some replicas have it
    'IS_BOOTSTRAPPING': ('unavailable', 1, False),
    'TRUNCATE_ERROR': ('unavailable', 1, True),
    'WRITE_TIMEOUT': ('timeout', 1, True),
    'WRITE_FAILURE': ('unavailable', 1, True),
    'CDC_WRITE_FAILURE': ('unavailable', 1, True),
    'FUNCTION_FAILURE': ('bad', 1, True),
    'SYNTAX_ERROR': ('bad', 1, False),
    'UNAUTHORIZED': ('denied', 1, False),
    'INVALID': ('bad', 1, False),
    'CONFIG_ERROR': ('bad', 1, False),
    'ALREADY_EXISTS': ('conflict', 1, False),
}


@scene
def each_error_of_a_node_has_its_meaning(binary):
    for way, options in WAYS.items():
        with proxied(old=way == '3.11') as proxy, connect(binary, proxy, **options) as client:
            serves(client)
            for name, want in ERRORS.items():
                rule = proxy.error(name, 'made up', opcode='EXECUTE', text='INSERT')
                outcome = put(client, 1).wait()
                eq((outcome.why, outcome.sent, outcome.unknown), want, f'{way} {name}')
                eq((outcome.code, rule.hits), (wire.ERRORS[name], 1), f'{way} {name}')
                for word in ('made up', 'LOCAL_QUORUM', f':{proxy.port}'):
                    check(word in outcome.note, f'{name}: {word}: {outcome.note}')
                serves(client)


@scene
def some_errors_are_tried_again(binary):
    with proxied() as proxy, connect(binary, proxy) as client:
        serves(client)
        again = (('WRITE_TIMEOUT', {'write_type': 'BATCH_LOG'}, put),
                 ('READ_TIMEOUT', {'received': 2, 'block_for': 2}, get))
        for name, fields, ask in again:
            proxy.error(name, fields=fields, opcode='EXECUTE')
            outcome = ask(client, 0).wait()
            eq((outcome.why, outcome.sent, outcome.unknown), ('ok', 2, False), name)
            proxy.error(name, fields=fields, opcode='EXECUTE', times=2)
            outcome = ask(client, 0).wait()
            eq((outcome.why, outcome.sent, outcome.unknown), ('timeout', 2, ask is put), name)
        proxy.error('READ_TIMEOUT', fields={'received': 2, 'block_for': 2, 'data_present': True})
        eq(get(client, 0).wait().why, 'timeout')
        # Not idempotent: never.
        proxy.error('WRITE_TIMEOUT', fields={'write_type': 'BATCH_LOG'}, opcode='EXECUTE')
        outcome = client.ask('twice', I32(1), Text('v'), ts='now')
        eq((outcome.why, outcome.sent, outcome.unknown), ('timeout', 1, True))
        proxy.error('CAS_WRITE_UNKNOWN', opcode='EXECUTE')
        outcome = client.ask('once', I32(1), Text('v'))
        eq((outcome.why, outcome.sent, outcome.unknown), ('timeout', 1, True))
        serves(client)


@scene
def a_write_that_was_executed_and_said_to_fail_is_unknown(binary):
    with proxied() as proxy, connect(binary, proxy) as client:
        serves(client)
        proxy.error('WRITE_TIMEOUT', executed=True, text='INSERT')
        outcome = put(client, 7).wait()
        eq((outcome.why, outcome.unknown), ('timeout', True))
        eq(get(client, 7).wait().one, ['v7'])


@scene
def statements_that_are_forgotten_are_prepared_again(binary):
    for way, options in WAYS.items():
        with proxied(old=way == '3.11') as proxy, connect(binary, proxy, **options,
                                                          **QUIET) as client:
            serves(client)
            all_connected(client)
            with proxy.counting() as counted:
                proxy.error('UNPREPARED', opcode='EXECUTE')
                outcome = put(client, 1).wait()
                eq((outcome.why, outcome.sent), ('ok', 2))
            eq(dict(counted['requests']), {'PREPARE': 1, 'EXECUTE': 2}, way)
            with proxy.counting() as counted:
                rule = proxy.error('UNPREPARED', fields={'id': bytes(16)}, opcode='BATCH')
                outcome = client.start_batch(('put', I32(1), Text('b')), ts='now').wait()
            eq(rule.hits, 1)
            check(outcome.why != 'timeout', f'{way}: an id of nothing: {outcome}')
            # Whatever the node forgets: it ends.
            proxy.error('UNPREPARED', opcode='EXECUTE', times=None)
            outcome = put(client, 1).wait()
            check(outcome.why not in ('ok', 'timeout'), f'{way}: {outcome}')
            proxy.clear()
            serves(client)


@scene
def a_prepare_without_an_answer_is_said(binary):
    with proxied() as proxy, connect(binary, proxy, answer_ms=500) as client:
        rule = proxy.swallow(opcode='RESULT', text='SELECT v')
        outcome = get(client, 1, ms=30000).wait()
        eq((outcome.why, outcome.sent, rule.hits), ('unavailable', 0, 1))
        check('prepare' in outcome.note.lower(), outcome.note)
        proxy.error('INVALID', 'no such table', opcode='PREPARE')
        outcome = get(client, 1).wait()
        eq((outcome.why, outcome.sent, outcome.unknown), ('bad', 0, False))
        check('no such table' in outcome.note, outcome.note)
        serves(client)


# ---- limits


@scene
def too_many_are_refused_at_once(binary):
    with proxied() as proxy, connect(binary, proxy, connections=1, inflight=8,
                                     waiting=8) as client:
        serves(client)
        proxy.hold(2, opcode='RESULT', times=None)
        pendings = [put(client, k) for k in range(40)]
        counted = whys(pendings)
        eq(dict(counted), {'ok': 16, 'limit': 24})
        eq(client.stats().refused, 24)
        proxy.clear()
        serves(client)
        proxy.hold(2, opcode='RESULT', times=None)
        background = [put(client, k, background=1) for k in range(40)]
        # A quarter may be under way, and wait; others pass them by.
        eq(whys([put(client, k) for k in range(12)]), {'ok': 12})
        counted = whys(background)
        check(set(counted) == {'ok', 'limit'} and counted['ok'] <= 6, f'{counted}')
        proxy.clear()
        serves(client)


@scene
def sizes_are_limited_and_others_go_on(binary):
    for way, options in WAYS.items():
        with proxied(old=way == '3.11') as proxy, connect(
                binary, proxy, request_bytes=1 << 20, answer_bytes=1 << 20, **options) as client:
            client.statement('putb', 'INSERT INTO f.b (k, v) VALUES (?, ?)', idempotent=True)
            client.statement('getb', 'SELECT v FROM f.b WHERE k IN (?, ?)', idempotent=True)
            serves(client)
            large = client.ask('putb', I32(1), Blob(b'x' * (1 << 20)), ts='now')
            eq((large.why, large.sent, large.unknown), ('limit', 0, False), way)
            for k in (1, 2):
                client.run('putb', I32(k), Blob(b'x' * 700_000), ts='now')
            lost = client.stats().lost
            pendings = [get(client, 0) for _ in range(10)]
            both = client.start('getb', I32(1), I32(2))
            pendings += [get(client, 0) for _ in range(10)]
            outcome = both.wait()
            eq((outcome.why, outcome.sent), ('limit', 1), way)
            eq(whys(pendings), {'ok': 20}, way)
            eq(client.stats().lost, lost, f'{way}: the connection stays')
            eq(len(client.run('getb', I32(1), I32(9)).rows), 1)


@scene
def what_is_canceled_ends_soon(binary):
    with proxied() as proxy, connect(binary, proxy) as client:
        serves(client)
        proxy.hold(5, opcode='RESULT', text='INSERT', times=None)
        pendings = [put(client, k, ms=60000) for k in range(5)]
        for pending in pendings:
            client.send('-', 'cancel', pending.id)
        for pending in pendings:
            outcome = pending.wait(4)
            eq((outcome.why, outcome.unknown), ('timeout', outcome.sent > 0))
            check('cancel' in outcome.note, outcome.note)
        # Lines that come together: the second is canceled before it began.
        proxy.clear()
        hold = proxy.hold(5, opcode='RESULT', text='SELECT v', times=None)
        first = get(client, 1, ms=60000)
        hold.wait()
        lines = (('-', 'cancel', first.id), ('x', 'run', 'ms=60000', 'get', 'i32:1'),
                 ('-', 'cancel', 'x'))
        client.process.stdin.write(''.join('\t'.join(f) + '\n' for f in lines).encode())
        client.process.stdin.flush()
        eq(first.wait(4).why, 'timeout')
        eq(client.wait('x', 4).why, 'timeout')
        proxy.clear()
        serves(client)


@scene
def an_end_answers_all_that_is_under_way(binary):
    for deadline_ms, seconds, want in ((20000, 1, 'ok'), (200, 30, 'shutdown')):
        with proxied() as proxy, connect(binary, proxy) as client:
            serves(client)
            hold = proxy.hold(seconds, opcode='RESULT', times=None)
            pendings = [put(client, k) for k in range(50)]
            hold.wait(50)
            client.send('0', 'stop', str(deadline_ms))
            eq(whys(pendings), {want: 50})
            client.stop()


main()
