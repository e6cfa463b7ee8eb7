"""Goal: docs/api.md, 4, for tables over HTTP: statuses, shapes, limits, what survives a kill. Method: a real server with a
frozen clock; the cases follow the behaviours of the peer's conformance suite, the expectations are our contract."""
import json
import threading

from harness import Server, check, eq, main, scene, wait_until
from page_help import page_server, problem, tid

DOMAIN = '/localhost/v1'
TYPES = {
    'string': 'string', 'blob': 'blob', 'set': 'set<string>', 'int': 'int', 'varint': 'varint', 'decimal': 'decimal',
    'float': 'float', 'double': 'double', 'boolean': 'boolean', 'timeuuid': 'timeuuid', 'uuid': 'uuid',
    'timestamp': 'timestamp', 'json': 'json', 'long': 'long',
}
ROW = {
    'string': 'a', 'blob': {'base64': 'YmxvYg=='}, 'set': ['bar', 'baz', 'foo'], 'int': -1, 'varint': '-4503599627370',
    'decimal': '1.20', 'float': -1.1, 'double': 1.2, 'boolean': True,
    'timeuuid': 'c931ec94-6c31-11e4-b6d0-0f67e29867e0', 'uuid': 'd6938370-c996-4def-96fb-6af7ba9b6f72',
    'timestamp': '2014-11-14T19:10:40.912Z', 'json': {'foo': ['bar', 1]}, 'long': '9223372036854775807',
}
REVISIONS = {
    'attributes': {'key': 'string', 'rev': 'int', 'latest': 'int', 'body': 'string'},
    'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'latest', 'type': 'static'},
              {'attribute': 'rev', 'type': 'range', 'order': 'desc'}],
}


def table(server, name, verb=None, body=None, method=None, domain=DOMAIN):
    target = f'{domain}/table/{name}' + (f'/{verb}' if verb else '')
    return server.request(method or ('POST' if verb else 'PUT'), target, body=body)


def create(server, name, schema, domain=DOMAIN):
    eq(table(server, name, body=schema, domain=domain).status, 201, f'create {name}')


def put(server, name, domain=DOMAIN, **attributes):
    got = table(server, name, 'put', {'attributes': attributes}, domain=domain)
    eq((got.status, got.body), (201, b''), f'put {attributes}')


def items(server, name, domain=DOMAIN, **query):
    got = server.json('POST', f'{domain}/table/{name}/get', body=query)
    eq(got.status, 200 if got.body.get('items') else 404, f'get {query}: {got.body}')
    return got.body['items']


@scene
def every_type_comes_back(binary):
    with page_server(binary) as server:
        create(server, 't', {'attributes': TYPES, 'index': [{'attribute': 'string', 'type': 'hash'}]})
        put(server, 't', **ROW)
        eq(items(server, 't', attributes={'string': 'a'}), [ROW])
        put(server, 't', string='b', set=[], json=None)
        [row] = items(server, 't', attributes={'string': 'b'})
        eq(row, {name: 'b' if name == 'string' else None for name in TYPES})
        server.kill9()
        server.start()
        eq(items(server, 't', attributes={'string': 'a'}), [ROW])


@scene
def schemas_are_created_read_migrated_dropped(binary):
    with page_server(binary) as server:
        problem(table(server, 'r', method='GET'), 404, 'unknown_table')
        problem(table(server, 'r', method='DELETE'), 404, 'unknown_table')
        create(server, 'r', REVISIONS)
        create(server, 'r', REVISIONS)
        got = server.json('GET', DOMAIN + '/table/r')
        eq((got.status, got.body), (200, {**REVISIONS, 'table': 'r', 'version': 1}))
        more = {**REVISIONS, 'attributes': {**REVISIONS['attributes'], 'email': 'string'}}
        problem(table(server, 'r', body=more), 400, 'bad_request')
        create(server, 'r', {**more, 'version': 3})
        got = table(server, 'r', body={**more, 'version': 4, 'index': [{'attribute': 'rev', 'type': 'hash'}]})
        problem(got, 400, 'bad_request')
        for bad, says in (
                ({'attributes': {}}, 'attributes'), ('[1', 'JSON'),
                ({**REVISIONS, 'secondaryIndexes': {'by_rev': [{'attribute': 'no', 'type': 'hash'}]}}, 'secondaryIndexes'),
                ({**REVISIONS, 'revisionRetentionPolicy': {'type': 'bogus'}}, 'revisionRetentionPolicy'),
                ({'attributes': {'a': 'int'}, 'index': [{'attribute': 'b', 'type': 'hash'}]}, 'is not in attributes')):
            got = table(server, 'bad', body=bad)
            problem(got, 400, 'bad_request')
            check(says in got.body.decode(), f'{got.body} says {says}')
        problem(table(server, '.key_value.x', body=REVISIONS), 400, 'bad_request#invalid_table')
        eq(table(server, 'r', method='DELETE').status, 204)
        problem(table(server, 'r', 'get', {}), 404, 'unknown_table')
        got = server.request('POST', DOMAIN + '/table/r')
        eq((got.status, got.headers['allow']), (405, got.headers['allow']))


@scene
def queries_select_order_and_page(binary):
    with page_server(binary) as server:
        create(server, 'r', REVISIONS)
        for rev in range(10):
            put(server, 'r', key='a', rev=rev, body=f'b{rev}')
        revs = lambda **query: [row['rev'] for row in items(server, 'r', proj='rev', **query)]
        eq(revs(attributes={'key': 'a'}), list(range(9, -1, -1)))
        eq(revs(attributes={'key': 'a'}, order={'rev': 'asc'}, limit=3), [0, 1, 2])
        eq(revs(attributes={'key': 'a', 'rev': {'BETWEEN': [3, 5]}}), [5, 4, 3])
        eq(revs(attributes={'key': 'a', 'rev': {'gt': 3, 'le': 5}}), [5, 4])
        eq(revs(attributes={'key': 'a', 'rev': 7}), [7])
        got = server.json('POST', DOMAIN + '/table/r/get', body={'attributes': {'key': 'none'}})
        eq((got.status, got.body['items'], got.headers['content-type']), (404, [], 'application/problem+json'))
        seen, query = [], {'attributes': {'key': 'a'}, 'limit': 4}
        while True:
            got = server.json('POST', DOMAIN + '/table/r/get', body=query)
            seen += [row['rev'] for row in got.body['items']]
            if 'next' not in got.body:
                break
            query['next'] = got.body['next']
        eq(seen, list(range(9, -1, -1)))
        problem(table(server, 'r', 'get', {'attributes': {'body': 'x'}}), 400, 'bad_request')
        problem(table(server, 'r', 'get', '{"limit": 1'), 400, 'bad_request')
        problem(table(server, 'r', 'get', {'next': 'x'}), 400, 'bad_request')
        problem(table(server, 'r', 'get', {'index': 'by_rev', 'attributes': {'rev': 1}}), 400, 'bad_request')
        problem(table(server, 'none', 'get', {}), 404, 'unknown_table')


@scene
def conditional_puts_say_whether_they_applied(binary):
    with page_server(binary) as server:
        create(server, 'r', REVISIONS)
        row = {'key': 'a', 'rev': 1, 'body': 'one'}
        cond = lambda condition, body: server.json('POST', DOMAIN + '/table/r/put', body={
            'attributes': {**row, 'body': body}, 'if': condition})
        got = cond('not exists', 'one')
        eq((got.status, got.body), (201, {'applied': True}))
        got = cond('not exists', 'two')
        eq((got.status, got.body), (201, {'applied': False}))
        eq(cond({'body': {'eq': 'nope'}}, 'two').body, {'applied': False})
        eq(items(server, 'r')[0]['body'], 'one')
        eq(cond({'body': {'eq': 'one'}}, 'two').body, {'applied': True})
        eq(items(server, 'r')[0]['body'], 'two')
        # of many that want one row to be new, one gets it
        won = []
        race = lambda: won.append(server.json('POST', DOMAIN + '/table/r/put', body={
            'attributes': {'key': 'b', 'rev': 1}, 'if': 'not exists'}).body['applied'])
        threads = [threading.Thread(target=race) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eq(sorted(won), [False] * 15 + [True])


@scene
def rows_live_as_long_as_they_were_given(binary):
    with page_server(binary) as server:
        create(server, 'r', REVISIONS)
        put(server, 'r', key='a', rev=1, _ttl=100)
        put(server, 'r', key='a', rev=2)
        eq([row.get('_ttl') for row in items(server, 'r', withTTL=True)], [None, 100])
        server.clock(advance='99s')
        eq([row.get('_ttl') for row in items(server, 'r', withTTL=True)], [None, 1])
        server.clock(advance='1s')
        eq([row['rev'] for row in items(server, 'r')], [2])
        server.restart()
        eq([row['rev'] for row in items(server, 'r')], [2])


VERSIONS = {
    'attributes': {'key': 'string', 'rev': 'int', 'tid': 'timeuuid', 'body': 'string'},
    'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'rev', 'type': 'range', 'order': 'desc'},
              {'attribute': 'tid', 'type': 'range', 'order': 'desc'}],
}


@scene
def a_policy_keeps_what_is_newest_and_says_what_it_cannot_keep(binary):
    with page_server(binary) as server:
        create(server, 'r', VERSIONS)
        batch = lambda *ops: server.request('POST', DOMAIN + '/batch', body=[
            {'op': 'put', 'table': 'r', 'attributes': {'key': 'a', **op}} for op in ops])
        for first in range(0, 400, 200):
            eq(batch(*({'rev': 1, 'tid': tid(n - 1000), 'body': str(n)} for n in range(first, first + 200))).status, 201)
        latest = {'type': 'latest', 'count': 1, 'grace_ttl': 3600}
        create(server, 'r', {**VERSIONS, 'version': 2, 'revisionRetentionPolicy': latest})
        server.clock(advance='1s')  # answers when all upkeep is done
        rows = items(server, 'r', withTTL=True)
        eq([row.get('_ttl') is None for row in rows], [True] + 399 * [False])
        eq(table(server, 'r', 'delete', {'attributes': {'key': 'a', 'rev': 1, 'tid': rows[0]['tid']}}).status, 204)
        server.restart()
        server.clock(advance='2h')
        eq([row['body'] for row in items(server, 'r')], ['398'])
        # what cannot be kept is not said to be
        create(server, 'r', {**VERSIONS, 'version': 3, 'revisionRetentionPolicy': {'type': 'latest_hash'}})
        late = {'key': 'a', 'rev': 0, 'tid': tid(5)}
        for more in ({}, {'if': 'not exists'}):
            problem(table(server, 'r', 'put', {'attributes': late, **more}), 410, 'expired')
        problem(batch({'rev': 2, 'tid': tid(6)}, late), 410, 'expired')
        eq([row['body'] for row in items(server, 'r')], ['398'])


@scene
def texts_and_numbers_are_taken_whole_or_refused(binary):
    with page_server(binary) as server:
        create(server, 't', {'attributes': {'k': 'string', 'v': 'varint'}, 'index': [{'attribute': 'k', 'type': 'hash'}]})
        put(server, 't', k='a\0b', v='9' * 2048)
        eq(items(server, 't'), [{'k': 'a\0b', 'v': '9' * 2048}])
        says = lambda got, status, text: check(got.status == status and text in got.body.decode(), f'{got.status} {got.body}')
        says(server.request('POST', DOMAIN + '/batch', body=[{'op': 'put', 'table': 't\0x', 'attributes': {'k': 'c'}}]),
             400, 'U+0000')
        says(table(server, 't', 'get', {'index': 'i\0x', 'attributes': {}}), 400, 'index')
        says(table(server, 't', 'put', {'attributes': {'k': 'c', 'v': '9' * 3000}}), 400, 'DECIMAL_DIGITS_MAX')
        says(table(server, 't', 'put', '{"attributes": {"k": "c", "v": ' + '9' * 30 + '}}'), 400, 'as a string')
        eq(len(items(server, 't')), 1)


@scene
def a_version_that_is_left_out_is_made(binary):
    """As the peer's tables of 2015-17: the last timeuuid of the key may be left out, and an int may be sent as text."""
    made = {'attributes': {'key': 'string', 'n': 'int', 'tid': 'timeuuid', 'body': 'string'},
            'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'n', 'type': 'range'},
                      {'attribute': 'tid', 'type': 'range', 'order': 'desc'}]}
    first = {**made, 'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'tid', 'type': 'range'},
                               {'attribute': 'n', 'type': 'range'}]}
    with page_server(binary) as server:
        create(server, 'made', made)
        put(server, 'made', key='a', n='1', body='one')
        server.clock(advance='1s')
        put(server, 'made', key='a', n=1, body='two')
        got = items(server, 'made', attributes={'key': 'a', 'n': '1'})
        eq([row['body'] for row in got], ['two', 'one'])
        check(got[1]['tid'] >= tid(0)[:8] and got[0]['tid'][:18] == tid(1)[:18], f'tids of the puts: {got}')
        operations = [{'op': 'put', 'table': 'made', 'attributes': {'key': 'b', 'n': 1, 'body': str(n)}} for n in range(5)]
        eq(server.request('POST', DOMAIN + '/batch', body=operations).status, 201)
        eq([row['body'] for row in items(server, 'made', attributes={'key': 'b'})], ['4', '3', '2', '1', '0'])
        for wrong in ({'key': 'a', 'body': 'x'}, {'key': 'a', 'n': 1, 'tid': None}, {'key': 'a', 'n': 'x'}):
            problem(table(server, 'made', 'put', {'attributes': wrong}), 400, 'bad_request')
        create(server, 'first', first)
        problem(table(server, 'first', 'put', {'attributes': {'key': 'a', 'n': 1}}), 400, 'bad_request')


@scene
def an_instant_bounds_tids_by_their_time(binary):
    renders = {'attributes': {'key': 'string', 'tid': 'timeuuid'},
               'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'tid', 'type': 'range', 'order': 'desc'}]}
    with page_server(binary) as server:
        create(server, 'r', renders)
        every = [tid(second, low) for second in (0, 1, 2) for low in (1, 2, 0xffffffff)]
        for one in every:
            put(server, 'r', key='a', tid=one)
        at = '2026-01-01T00:00:01Z'
        for bound, want in (({'lt': at}, every[:3]), ({'le': at}, every[:6]), ({'ge': at}, every[3:]), ({'gt': at}, every[6:]),
                            ({'between': ['2026-01-01T00:00:00.5Z', '2026-01-01T01:00:01.0000001+01:00']}, every[3:6]),
                            ({'lt': at, 'ge': '2025-12-31T23:59:59.9999999Z'}, every[:3])):
            got = items(server, 'r', attributes={'key': 'a', 'tid': bound})
            eq([row['tid'] for row in got], want[::-1], f'{bound}')
        problem(table(server, 'r', 'get', {'attributes': {'key': 'a', 'tid': at}}), 400, 'bad_request')
        problem(table(server, 'r', 'get', {'attributes': {'key': 'a', 'tid': {'lt': 'noon'}}}), 400, 'bad_request')
        # the design's batch: the new render, and all before an instant away
        cut = [{'op': 'delete', 'table': 'r', 'attributes': {'key': 'a', 'tid': {'le': at}}},
               {'op': 'put', 'table': 'r', 'attributes': {'key': 'a', 'tid': tid(3)}}]
        eq(server.request('POST', DOMAIN + '/batch', body=cut).status, 201)
        eq([row['tid'] for row in items(server, 'r', attributes={'key': 'a'})], [tid(3), *every[:5:-1]])


@scene
def operations_of_a_batch_hold_in_their_order(binary):
    row = {'key': 'a', 'rev': 1}
    put_one = {'op': 'put', 'table': 'r', 'attributes': {**row, 'body': 'x'}}
    delete = {'op': 'delete', 'table': 'r', 'attributes': {'key': 'a', 'rev': {'le': 1}}}
    again = {'op': 'put', 'table': 'r', 'attributes': {**row, 'body': 'y'}}
    unless = {**again, 'if': 'not exists'}
    for operations, left in (([put_one, delete], []), ([delete, put_one], ['x']), ([put_one, again], ['y']),
                             ([put_one, delete, again], ['y']), ([put_one, unless], ['y'])):
        with page_server(binary) as server:
            create(server, 'r', REVISIONS)
            eq(server.request('POST', DOMAIN + '/batch', body=operations).status, 201)
            got = table(server, 'r', 'get', {'attributes': {'key': 'a'}})
            eq(got.status, 200 if left else 404)
            eq([item['body'] for item in json.loads(got.body)['items']], left, f'{operations}')


@scene
def deletes_take_ranges_and_leave_other_domains_alone(binary):
    with page_server(binary, '--domain', 'localhost', '--domain', 'other.test') as server:
        other = '/other.test/v1'
        got = server.request('PUT', '/*/v1/table/r', body=REVISIONS)
        eq(got.status, 201)
        for rev in range(20):
            put(server, 'r', key='a', rev=rev)
            put(server, 'r', other, key='a', rev=rev)
        eq(table(server, 'r', 'delete', {'attributes': {'key': 'a', 'rev': {'lt': 10}}}).status, 204)
        eq([row['rev'] for row in items(server, 'r')], list(range(19, 9, -1)))
        eq(table(server, 'r', 'delete', {'attributes': {'key': 'a'}}).status, 204)
        eq(items(server, 'r'), [])
        eq(len(items(server, 'r', other)), 20)
        problem(table(server, 'r', 'delete', {'attributes': {}}), 400, 'bad_request')
        eq(server.request('DELETE', '/*/v1/table/r').status, 204)
        problem(table(server, 'r', 'get', {}, domain=other), 404, 'unknown_table')
        problem(server.request('DELETE', '/*/v1/table/r'), 404, 'unknown_table')
        problem(server.request('GET', '/nowhere.test/v1/table/r'), 404, 'domain_not_found')


@scene
def batches_are_all_or_nothing(binary):
    with page_server(binary) as server:
        create(server, 'r', REVISIONS)
        create(server, 'log', {'attributes': {'key': 'string', 'ts': 'long', 'what': 'json'},
                               'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'ts', 'type': 'range'}]})
        batch = lambda *ops: server.json('POST', DOMAIN + '/batch', body=list(ops))
        one = {'op': 'put', 'table': 'r', 'attributes': {'key': 'a', 'rev': 1, 'latest': 1}}
        log = {'op': 'put', 'table': 'log', 'attributes': {'key': 'a', 'ts': '5', 'what': {'put': 1}}}
        got = batch(one, log)
        eq((got.status, got.body), (201, {'applied': True}))
        eq((len(items(server, 'r')), len(items(server, 'log'))), (1, 1))
        got = batch({'op': 'delete', 'table': 'r', 'attributes': {'key': 'a', 'rev': {'le': 1}}},
                    {**log, 'attributes': {'key': 'a', 'ts': '5'}, 'if': 'not exists'})
        eq(got.body, {'applied': False})
        eq((len(items(server, 'r')), len(items(server, 'log'))), (1, 1))
        got = server.request('POST', DOMAIN + '/batch', body=[one, {**log, 'attributes': {'key': 'b', 'ts': '6'}}])
        problem(got, 400, 'bad_request')
        got = server.request('POST', DOMAIN + '/batch', body=[{**one, 'attributes': {'key': 'z', 'rev': 9}}, {}])
        problem(got, 400, 'bad_request')
        nothing = {'op': 'delete', 'table': 'r', 'attributes': {'key': 'a', 'rev': {'gt': 3, 'lt': 2}}}
        for ops in ((nothing, one), (one, nothing), (nothing, nothing)):    # on the one partition, though it takes no row
            eq(batch(*ops).status, 201)
        elsewhere = {**nothing, 'attributes': {'key': {'eq': 'a', 'EQ': 'bb'}}}
        for ops in ([one, elsewhere], [elsewhere, one], [one, {**nothing, 'attributes': {**nothing['attributes'], 'key': 'b'}}]):
            eq(server.request('POST', DOMAIN + '/batch', body=ops).status, 400)
        problem(server.request('POST', DOMAIN + '/batch', body=[{**one, 'table': 'none'}]), 404, 'unknown_table')
        problem(server.request('POST', DOMAIN + '/batch', body=[]), 400, 'bad_request')
        got = server.request('POST', DOMAIN + '/batch', body=[{**one, 'table': '.key_value.x'}])
        check(got.status in (400, 404), f'{got}')
        eq([row['key'] for row in items(server, 'r')], ['a'])


EDITS = {
    'attributes': {'page': 'string', 'tid': 'timeuuid', 'user': 'string', 'size': 'int'},
    'index': [{'attribute': 'page', 'type': 'hash'}, {'attribute': 'tid', 'type': 'range', 'order': 'desc'}],
}
BY_USER = {'by_user': [{'attribute': 'user', 'type': 'hash'}, {'attribute': 'size', 'type': 'proj'}]}


def edit(n):
    return f'{n:08x}-6c31-11e4-b6d0-0f67e29867e0'


@scene
def an_index_is_asked_by_its_name(binary):
    with page_server(binary) as server:
        create(server, 'e', {**EDITS, 'secondaryIndexes': BY_USER})
        eq(server.json('GET', DOMAIN + '/table/e').body['secondaryIndexes'], BY_USER)
        put(server, 'e', page='Earth', tid=edit(1), user='ann', size=1)
        put(server, 'e', page='Earth', tid=edit(2), user='bob', size=2)
        put(server, 'e', page='Moon', tid=edit(3), user='bob', size=3)
        eq(items(server, 'e', index='by_user', attributes={'user': 'ann'}), [])
        eq(items(server, 'e', index='by_user', attributes={'user': 'bob'}, order={'page': 'asc'}),
           [{'page': 'Earth', 'user': 'bob', 'size': 2}, {'page': 'Moon', 'user': 'bob', 'size': 3}])
        for bad in ({'index': 'none'}, {'index': ['by_user']}, {'index': 'by_user', 'proj': 'tid'},
                    {'index': 'by_user', 'attributes': {'size': 1}}):
            problem(table(server, 'e', 'get', bad), 400, 'bad_request')
        got = table(server, 'e', 'put', {'attributes': {'page': 'x' * 300, 'tid': edit(1), 'user': 'y' * 300}})
        problem(got, 400, 'bad_request')
        check('by_user' in got.body.decode(), got.body)


@scene
def an_index_added_later_is_filled_through_a_kill(binary):
    with Server(binary) as server:
        create(server, 'e', EDITS)
        for n in range(0, 600, 200):
            ops = [{'op': 'put', 'table': 'e', 'attributes': {'page': 'Earth', 'tid': edit(n + i), 'user': 'ann'}}
                   for i in range(200)]
            eq(server.request('POST', DOMAIN + '/batch', body=ops).status, 201)
        put(server, 'e', page='Moon', tid=edit(7), user='ann')
        create(server, 'e', {**EDITS, 'version': 2, 'secondaryIndexes': BY_USER})
        server.kill9()
        server.start()
        ask = lambda: table(server, 'e', 'get', {'index': 'by_user', 'attributes': {'user': 'ann'}, 'proj': 'page'})
        wait_until(lambda: ask().status != 409, 'the index is filled')
        eq(items(server, 'e', index='by_user', attributes={'user': 'ann'}, proj='page'), [{'page': 'Moon'}, {'page': 'Earth'}])


@scene
def a_retention_policy_lets_rows_go(binary):
    with page_server(binary) as server:
        create(server, 'e', {**EDITS, 'revisionRetentionPolicy': {'type': 'latest', 'count': 1, 'grace_ttl': 10}})
        sizes = lambda: [row['size'] for row in items(server, 'e', proj='size')]
        put(server, 'e', page='Earth', tid=edit(1), size=1)
        put(server, 'e', page='Earth', tid=edit(3), size=3)
        server.clock(advance='4s')
        put(server, 'e', page='Earth', tid=edit(2), size=2)     # late: it falls out as it comes
        eq(sizes(), [3, 2, 1])
        server.clock(advance='6s')
        eq(sizes(), [3, 2])
        server.restart()
        eq(sizes(), [3, 2])
        server.clock(advance='4s')
        eq(sizes(), [3])


def damage(server, name, offset=12):
    """Changes a byte of the values of rows whose key begins with that string, in every copy the index file holds."""
    file = server.data / 'index' / 'data.mdb'
    image, hits = bytearray(file.read_bytes()), 0
    key = name.encode() + b'\0\1\1'                           # the string, its end, the mark of a regular row
    at = image.find(key)
    while at >= 0:
        if image[at - 10:at - 8] == b'\7\1':                  # the space of rows, a row; then domain and table
            image[at + len(key) + offset] ^= 0x10
            hits += 1
        at = image.find(key, at + 1)
    check(hits > 0, f'no row of {name} in the index')
    file.write_bytes(image)


@scene
def a_damaged_row_is_named_and_gone_past(binary):
    with page_server(binary, '--set', 'value.listing=true') as server:
        create(server, 'p', {'attributes': {'page': 'string', 'user': 'string'},
                             'index': [{'attribute': 'page', 'type': 'hash'}],
                             'secondaryIndexes': {'by_user': [{'attribute': 'user', 'type': 'hash'}]}})
        for page in ('Alpha', 'Bravo', 'Chile'):
            put(server, 'p', page=page, user='ann')
        eq(server.request('PUT', DOMAIN + '/key_value/b', body={}).status, 201)
        for key in ('Delta', 'Elbow', 'Fjord'):
            eq(server.request('PUT', DOMAIN + f'/key_value/b/{key}', body=b'x').status, 201)
        eq(server.sigterm(), 0, 'exit code')
        damage(server, 'Bravo')
        damage(server, 'Elbow')
        server.start()
        ask = lambda **query: server.json('POST', DOMAIN + '/table/p/get', body=query).body
        got = ask(proj='page')
        eq(([row['page'] for row in got['items']], got['damaged']), (['Alpha', 'Chile'], [{'page': 'Bravo'}]))
        got = ask(proj='page', limit=1)
        eq(([row['page'] for row in got['items']], 'damaged' in got), (['Alpha'], False), 'the page before it')
        got = ask(proj='page', limit=1, next=got['next'])
        eq(([row['page'] for row in got['items']], got['damaged']), (['Chile'], [{'page': 'Bravo'}]), 'the page it is on')
        check('next' not in got, got)
        got = ask(index='by_user', attributes={'user': 'ann'}, proj='page')
        eq(([row['page'] for row in got['items']], got['damaged']),
           (['Chile', 'Alpha'], [{'page': 'Bravo', 'user': 'ann'}]))
        eq(ask(attributes={'page': 'Bravo'}), {'items': [], 'damaged': [{'page': 'Bravo'}]})
        got = server.json('GET', DOMAIN + '/key_value/b/')
        eq((got.status, got.body), (200, {'items': ['Delta', 'Fjord'], 'damaged': [{'key': 'Elbow'}]}))
        problem(server.request('GET', DOMAIN + '/key_value/b/Elbow'), 500, 'corrupt')
        check('table.damaged' in server.stderr(), 'the log says nothing')
        put(server, 'p', page='Bravo', user='bob')              # written anew
        eq(server.request('PUT', DOMAIN + '/key_value/b/Elbow', body=b'y').status, 201)
        eq(server.request('GET', DOMAIN + '/key_value/b/Elbow').body, b'y')
        eq(ask(index='by_user', attributes={'user': 'ann'}, proj='page'), {'items': [{'page': 'Chile'}, {'page': 'Alpha'}]})
        eq(ask(attributes={'page': 'Bravo'}), {'items': [{'page': 'Bravo', 'user': 'bob'}]})


@scene
def what_can_never_be_done_is_413_and_names_its_limit(binary):
    with page_server(binary) as server:
        create(server, 't', {'attributes': {'k': 'string', 'r': 'int', 'p': 'string', 'q': 'string', 's': 'string'},
                             'index': [{'attribute': 'k', 'type': 'hash'}, {'attribute': 'r', 'type': 'range'}]})
        says = lambda got, text: check(text in problem(got, 413, 'content_too_large')['detail'], got.body)
        put(server, 't', k='a', r=1)
        raw = lambda name, count: table(server, 't', 'put', '{"attributes":{"k":"a","r":2,"%s":"%s"}}' % (name, '\x7f' * count))
        eq((raw('p', 5 << 20).status, raw('q', 5 << 20).status), (201, 201))     # 60 MiB in an answer
        put(server, 't', k='a', r=3)
        got = server.json('POST', DOMAIN + '/table/t/get', body={}).body
        eq([row['r'] for row in got['items']], [1], 'the answer ends before the row that does not fit')
        says(table(server, 't', 'get', {'next': got['next']}), 'proj')
        says(table(server, 't', 'get', {'attributes': {'k': 'a', 'r': 2}}), 'TABLE_ANSWER_BYTES_MAX')
        eq([row['r'] for row in items(server, 't', proj=['r', 's'], next=got['next'])], [2, 3])
        says(raw('s', 9 << 20), 'TABLE_TEXT_BYTES_MAX')
        for name in ('p', 'q'):
            put(server, 't', k='b', r=1, **{name: 'x' * (11 << 20)})
        says(table(server, 't', 'put', {'attributes': {'k': 'b', 'r': 1, 's': 'x' * (11 << 20)}}), 'http.arena_bytes_max')
        batch = lambda op, rows: server.request('POST', DOMAIN + '/batch', body=[
            {'op': op, 'table': 't', 'attributes': {'k': 'c', 'r': r}} for r in rows])
        for first in range(0, 8192, 256):
            eq(batch('put', range(first, first + 256)).status, 201)
        says(batch('delete', [{'ge': 0}]), '8000')
        eq(len(items(server, 't', attributes={'k': 'c'}, proj='r')), 8192)


@scene
def what_was_answered_survives_a_kill(binary):
    with Server(binary) as server:
        create(server, 'r', REVISIONS)
        done, stop = [], threading.Event()

        def writer(number):
            rev = 0
            while not stop.is_set():
                try:
                    put(server, 'r', key=f'k{number}', rev=rev, body='x' * (rev % 3 * 900))
                except OSError:
                    return
                done.append((f'k{number}', rev))
                rev += 1
        threads = [threading.Thread(target=writer, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        while len(done) < 200:
            check(any(thread.is_alive() for thread in threads), 'writers write')
        server.kill9()
        stop.set()
        for thread in threads:
            thread.join()
        server.start()
        stored = {(row['key'], row['rev']): row['body'] for row in items(server, 'r')}
        for key, rev in done:
            eq(stored.get((key, rev)), 'x' * (rev % 3 * 900), f'{key} {rev}')


@scene
def a_body_may_not_have_more_values_than_memory_is_there_for(binary):
    with page_server(binary) as server:
        create(server, 't', {'attributes': {'p': 'string', 'j': 'json'}, 'index': [{'attribute': 'p', 'type': 'hash'}]})
        empty = lambda count: '{"attributes":{"p":"A","j":[' + '{},' * (count - 1) + '{}]}}'
        eq(table(server, 't', 'put', empty(100000)).status, 201)
        for verb in ('get', 'put', 'delete'):
            answer = table(server, 't', verb, empty(200000))
            check('262144 values' in problem(answer, 413, 'content_too_large')['detail'], answer.body)
        answer = server.request('POST', f'{DOMAIN}/batch', body='[' + '1,' * 300000 + '1]')
        problem(answer, 413, 'content_too_large')
        eq(len(items(server, 't', attributes={'p': 'A'})[0]['j']), 100000)


main()
