"""Goal: what a put leaves of a retention policy to the upkeep is done after a kill, and nothing that stays is lost on
the way. Method: a real server with a frozen clock; groups and partitions longer than one put looks at, SIGKILL right
behind the last answer, the clock moved until all is done."""
from harness import check, eq, main, scene
from page_help import page_server, problem, tid

DOMAIN = '/localhost/v1'
VERSIONS = {
    'attributes': {'key': 'string', 'tid': 'timeuuid', 'n': 'int', 'shared': 'int'},
    'index': [{'attribute': 'key', 'type': 'hash'}, {'attribute': 'tid', 'type': 'range', 'order': 'desc'},
              {'attribute': 'shared', 'type': 'static'}],
}
LATEST = {'type': 'latest', 'count': 1, 'grace_ttl': 100}


def table(server, name, verb, body):
    return server.request('POST', f'{DOMAIN}/table/{name}/{verb}', body=body)


def create(server, name, schema):
    eq(server.request('PUT', f'{DOMAIN}/table/{name}', body=schema).status, 201, f'create {name}')


def put(server, to, **attributes):
    eq(table(server, to, 'put', {'attributes': attributes}).status, 201, f'put {attributes}')


def items(server, name, **query):
    return server.json('POST', f'{DOMAIN}/table/{name}/get', body=query).body['items']


def versions(server, first, last, **more):
    """Puts them, oldest first."""
    for begin in range(first, last + 1, 200):
        ops = [{'op': 'put', 'table': 'v', 'attributes': {'key': 'a', 'tid': tid(n - 10000), 'n': n, **more}}
               for n in range(begin, min(begin + 200, last + 1))]
        eq(server.request('POST', DOMAIN + '/batch', body=ops).status, 201)


def kill(server):
    server.kill9()
    server.start()


@scene
def a_lasting_version_outlives_any_number_of_short_ones(binary):
    with page_server(binary) as server:
        create(server, 'v', {**VERSIONS, 'revisionRetentionPolicy': LATEST})
        versions(server, 1, 1)
        versions(server, 2, 3001, _ttl=10)
        kill(server)
        server.clock(advance='11s')
        eq(items(server, 'v', proj='n', withTTL=True), [{'n': 1}])
        server.clock(advance='90d')
        eq(items(server, 'v', proj='n', withTTL=True), [{'n': 1}])


@scene
def a_newer_lasting_version_takes_its_place_behind_any_number_of_short_ones(binary):
    with page_server(binary) as server:
        create(server, 'v', {**VERSIONS, 'revisionRetentionPolicy': LATEST})
        versions(server, 1, 1)
        versions(server, 2, 3001, _ttl=50)
        versions(server, 3002, 3002)
        kill(server)
        server.clock(advance='51s')
        rows = items(server, 'v', withTTL=True)
        eq([(row['n'], row.get('_ttl') is not None) for row in rows], [(3002, False), (1, True)])
        eq(table(server, 'v', 'delete', {'attributes': {'key': 'a', 'tid': rows[0]['tid']}}).status, 204)
        kill(server)
        server.clock(advance='90d')
        eq(items(server, 'v', proj='n', withTTL=True), [{'n': 1}])


@scene
def a_put_that_supersedes_many_rows_leaves_none_of_them(binary):
    with page_server(binary) as server:
        create(server, 'h', {'attributes': {'key': 'string', 'rev': 'int', 'name': 'int'},
                             'index': [{'attribute': 'key', 'type': 'hash'},
                                       {'attribute': 'rev', 'type': 'range', 'order': 'desc'},
                                       {'attribute': 'name', 'type': 'range'}],
                             'revisionRetentionPolicy': {'type': 'latest_hash'}})
        for begin in range(0, 1000, 200):
            ops = [{'op': 'put', 'table': 'h', 'attributes': {'key': 'a', 'rev': 5, 'name': begin + i}} for i in range(200)]
            eq(server.request('POST', DOMAIN + '/batch', body=ops).status, 201)
        put(server, 'h', key='a', rev=6, name=0)
        put(server, 'h', key='b', rev=1, name=0)
        kill(server)
        server.clock(advance='1s')
        eq(items(server, 'h', proj=['key', 'rev']), [{'key': 'a', 'rev': 6}, {'key': 'b', 'rev': 1}])
        problem(table(server, 'h', 'put', {'attributes': {'key': 'a', 'rev': 5, 'name': 1}}), 410, 'expired')


@scene
def ttl_comes_and_goes_with_its_policy(binary):
    with page_server(binary) as server:
        create(server, 'v', VERSIONS)
        versions(server, 1, 500)
        put(server, 'v', key='b', tid=tid(1), n=1, shared=7)
        create(server, 'v', {**VERSIONS, 'version': 2, 'revisionRetentionPolicy': {'type': 'ttl', 'ttl': 60}})
        kill(server)
        server.clock(advance='10s')
        put(server, 'v', key='b', tid=tid(2), n=2, _ttl=1000)
        rows = items(server, 'v', proj=['n', 'shared'], withTTL=True)
        eq(len(rows), 502)
        check(all(40 <= row['_ttl'] <= 60 for row in rows), rows)
        server.clock(advance='55s')
        eq([row['n'] for row in items(server, 'v')], [2])
        create(server, 'v', {**VERSIONS, 'version': 3, 'revisionRetentionPolicy': {'type': 'all'}})
        server.clock(advance='1s')  # answers when all upkeep is done
        server.clock(advance='500s')
        eq([(row['n'], row['shared']) for row in items(server, 'v')], [(2, None)])


main()
