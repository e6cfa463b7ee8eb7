"""src/cql while the schema changes under it on a real node: columns come and go, tables come back
with other types, and requests are under way all the time. None is answered with what it did not
ask for, and each ends."""
import collections
import contextlib
import threading

import rig
from rig import check, eq, main, node, scene, wait_until

from client import I32, Client, Text, Tuple
from proxy import Proxy

WAYS = {'version 5': {}, 'version 4': {'version': 4}, '3.11': {}}
AT_ONCE = 20


@contextlib.contextmanager
def connected(binary, way):
    cluster = node()
    rig.keyspace(cluster, 's')
    cluster.execute('CREATE TABLE s.t (k int PRIMARY KEY, v text, gone text)')
    cluster.execute("INSERT INTO s.t (k, v, gone) VALUES (1, 'one', 'x')")
    with Proxy(cluster.address(1), cluster.port, lz4=True) as proxy:
        if way == '3.11':
            proxy.hide_3_11()
        there = f'{proxy.host}:{proxy.port}'
        with Client(binary, proxy, maps={f'{cluster.address(1)}:{cluster.port}': there},
                    **WAYS[way]) as client:
            client.statement('get', 'SELECT v FROM s.t WHERE k = ?', 'int', 'text',
                             idempotent=True)
            client.statement('put', 'INSERT INTO s.t (k, v) VALUES (?, ?)', 'int, text',
                             idempotent=True)
            client.statement('gone', 'SELECT gone FROM s.t WHERE k = ?', idempotent=True)
            client.statement('any', 'SELECT v FROM s.t WHERE k = ?', idempotent=True)
            yield client, proxy


def during(change, ask):
    """Outcomes of ask(), AT_ONCE under way at a time, until the function change has returned."""
    thread = threading.Thread(target=change)
    thread.start()
    outcomes, pendings = [], collections.deque()
    while thread.is_alive() or pendings:
        while thread.is_alive() and len(pendings) < AT_ONCE:
            pendings.append(ask())
        outcomes.append(pendings.popleft().wait())
    thread.join()
    return outcomes


def whys(outcomes):
    return dict(collections.Counter(o.why for o in outcomes))


@scene
def a_column_more_is_not_noticed(binary):
    for way in WAYS:
        with connected(binary, way) as (client, _):
            outcomes = during(lambda: node().execute('ALTER TABLE s.t ADD more int'),
                              lambda client=client: client.start('get', I32(1)))
            outcomes += during(lambda: node().execute('ALTER TABLE s.t ADD evenmore int'),
                               lambda client=client: client.start('put', I32(2), Text('v'),
                                                                  ts='now'))
            eq(whys(outcomes), {'ok': len(outcomes)}, way)
            check(all(o.rows == [['one']] for o in outcomes if 'rows' in o), 'rows')
            eq(client.run('get', I32(1)).one, ['one'])
            told = wait_until(lambda client=client: [o for o in client.told if 'schema' in o],
                              'the change is told')
            check(['TABLE', 's', 't'] in [o.schema for o in told], f'{told}')


@scene
def a_column_that_is_gone_is_said_and_used_when_it_is_back(binary):
    for way in WAYS:
        with connected(binary, way) as (client, _):
            eq(client.run('gone', I32(1)).one, ['x'])
            outcomes = during(lambda: node().execute('ALTER TABLE s.t DROP gone'),
                              lambda client=client: client.start('gone', I32(1)))
            check(set(whys(outcomes)) <= {'ok', 'bad'}, f'{way}: {whys(outcomes)}')
            bad = client.ask('gone', I32(1))
            eq(bad.why, 'bad', way)
            check('gone' in bad.note, bad.note)
            eq(client.run('get', I32(1)).one, ['one'])
            node().execute('ALTER TABLE s.t ADD gone text')
            eq(client.run('gone', I32(1)).one, [None], way)


@scene
def a_table_with_other_types_is_a_conflict(binary):
    for way in WAYS:
        with connected(binary, way) as (client, _):
            eq(client.run('get', I32(1)).one, ['one'])
            client.run('put', I32(2), Text('two'), ts='now')
            eq(client.run('any', I32(1)).one, ['one'])

            def anew():
                node().execute('DROP TABLE s.t')
                node().execute('CREATE TABLE s.t (k int PRIMARY KEY, v bigint)')
                node().execute('INSERT INTO s.t (k, v) VALUES (1, 8)')

            outcomes = during(anew, lambda client=client: client.start('any', I32(1)))
            for outcome in outcomes:
                if outcome.why == 'ok':
                    column, = outcome.columns
                    # What a row says fits its type.
                    right = {'text': [[['one']], []], 'bigint': [[[8]], []]}[column[1]]
                    check(outcome.rows in right, f'{way}: {dict(outcome)}')
                else:
                    check(outcome.why in ('bad', 'conflict') or 'Unknown CF' in outcome.note,
                          f'{way}: {dict(outcome)}')
            for name, values, given in (('get', [I32(1)], {}),
                                        ('put', [I32(1), Text('v')], {'ts': 'now'})):
                bad = client.ask(name, *values, **given)
                eq((bad.why, bad.unknown), ('conflict', False), f'{way} {name}')
                check('text' in bad.note and 'bigint' in bad.note, bad.note)
            outcome = client.run('any', I32(1))
            eq((outcome.one, outcome.columns), ([8], [['v', 'bigint']]), way)


@scene
def a_user_type_that_grows_is_read_whole(binary):
    for way in WAYS:
        with connected(binary, way) as (client, _):
            for text in ('CREATE TYPE s.u (a int, b text)',
                         'CREATE TABLE s.p (k int PRIMARY KEY, u s.u)',
                         "INSERT INTO s.p (k, u) VALUES (1, {a: 1, b: 'x'})"):
                node().execute(text)
            client.statement('u', 'SELECT u FROM s.p WHERE k = ?', idempotent=True)
            client.statement('putu', 'INSERT INTO s.p (k, u) VALUES (?, ?)', idempotent=True)
            eq(client.run('u', I32(1)).one, [{'a': 1, 'b': 'x'}])
            client.run('putu', I32(2), Tuple(I32(2), Text('y')), ts='now')
            node().execute('ALTER TYPE s.u ADD c int')
            node().execute("INSERT INTO s.p (k, u) VALUES (1, {a: 1, b: 'x', c: 3})")
            wait_until(lambda client=client: client.run('u', I32(1)).one
                       == [{'a': 1, 'b': 'x', 'c': 3}], f'{way}: the new field is seen')
            client.run('putu', I32(2), Tuple(I32(2), Text('z'), I32(4)), ts='now')
            eq(client.run('u', I32(2)).one, [{'a': 2, 'b': 'z', 'c': 4}], way)


@scene
def a_keyspace_that_goes_and_comes_back(binary):
    with connected(binary, 'version 5') as (client, _):
        eq(client.run('get', I32(1)).one, ['one'])
        node().execute('DROP KEYSPACE s')
        bad = client.ask('get', I32(1))
        eq(bad.why, 'bad', bad.note)
        rig.keyspace(node(), 's')
        node().execute('CREATE TABLE s.t (k int PRIMARY KEY, v text)')
        eq(client.run('get', I32(1)).rows, [])


@scene
def tables_of_our_own_making_are_agreed_on(binary):
    for way in WAYS:
        with connected(binary, way) as (client, proxy):
            for n in range(3):
                client.text(f'CREATE TABLE s.made{n} (k int PRIMARY KEY, v text)', ms=60000)
                eq(client.agree(), 'ok', way)
                client.statement(f'made{n}', f'INSERT INTO s.made{n} (k, v) VALUES (?, ?)',
                                 'int, text', idempotent=True)
                client.run(f'made{n}', I32(1), Text('v'), ts='now')
            again = client.ask_text('CREATE TABLE s.made0 (k int PRIMARY KEY, v text)')
            eq((again.why, again.code), ('conflict', 0x2400), way)
            check('made0' in again.note, again.note)
            client.text('TRUNCATE s.made0')
            proxy.half_open()
            eq(client.agree(1000), 'timeout', way)
            proxy.half_open(False)


main()
