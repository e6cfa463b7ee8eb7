"""Goal: the pages of an answer end: the last one has no `next`, and what a `next` leads to is never 404.
Method: rows that fill an answer by bytes exactly with the last one, and rows that go meanwhile, against a real server."""
import json

from harness import eq, main, scene
from page_help import page_server, problem

TABLE = '/localhost/v1/table/t'
MIB = 1 << 20
SCHEMA = {'attributes': {'k': 'string', 'r': 'int', 'other': 'string', 's': 'string'},
          'index': [{'attribute': 'k', 'type': 'hash'}, {'attribute': 'r', 'type': 'range', 'order': 'asc'}],
          'secondaryIndexes': {'by_other': [{'attribute': 'other', 'type': 'hash'}, {'attribute': 's', 'type': 'proj'}]}}
WAYS = ({'attributes': {'k': 'a'}}, {'attributes': {'k': 'a', 'r': {'ge': -9}}}, {'attributes': {'k': 'a'}, 'limit': 12},
        {'attributes': {'k': 'a'}, 'order': {'r': 'desc'}}, {'attributes': {'other': 'oa'}, 'index': 'by_other'})


def put(server, key, number, size=MIB, **more):
    row = {'k': key, 'r': number, 'other': 'o' + key, 's': 'x' * size, **more}
    eq(server.request('POST', TABLE + '/put', body={'attributes': row}).status, 201)


def get(server, **query):
    got = server.request('POST', TABLE + '/get', body=query)
    eq(got.status, 200, f'{query}: {got.body[:300]}')
    got = json.loads(got.body)
    return [row['r'] for row in got['items']], got.get('next')


@scene
def an_answer_that_is_full_with_its_last_row_has_no_next(binary):
    """12 MiB end an answer: 12 rows of 1 MiB reach them."""
    with page_server(binary) as server:
        eq(server.request('PUT', TABLE, body=SCHEMA).status, 201)
        for number in range(12):
            put(server, 'a', number)
        put(server, 'b', 0, 1)
        for number in (-1, 12):
            put(server, 'a', number, 1, _ttl=1)
        server.clock(advance='2s')          # what is gone is no more row
        for way in WAYS:
            numbers, following = get(server, **way)
            eq((sorted(numbers), following), (list(range(12)), None), f'{way}')
        for number in (-1, 12):
            put(server, 'a', number, 1)
        for way in WAYS:
            numbers, following = get(server, **way)
            eq(following is None, False, f'{way}')
            rest, following = get(server, next=following, **way)
            eq((sorted(numbers + rest), following), (list(range(-1, 13)), None), f'{way}')


@scene
def what_follows_a_next_is_never_404(binary):
    with page_server(binary) as server:
        eq(server.request('PUT', TABLE, body=SCHEMA).status, 201)
        for number in range(4):
            put(server, 'a', number, 1)
        numbers, following = get(server, attributes={'k': 'a'}, limit=2)
        gone = {'attributes': {'k': 'a', 'r': {'gt': numbers[-1]}}}
        eq(server.request('POST', TABLE + '/delete', body=gone).status, 204)
        eq(get(server, attributes={'k': 'a'}, limit=2, next=following), ([], None))
        problem(server.request('POST', TABLE + '/get', body=gone), 404, 'not_found')


@scene
def a_listing_that_ends_at_its_limit_has_no_next(binary):
    base, listed = '/localhost/v1', ('--set', 'value.listing=true')
    with page_server(binary, *listed) as server:
        eq([server.request('PUT', f'{base}/{kind}/b').status for kind in ('key_value', 'key_rev_value')], [201] * 2)
        for number in range(1, 4):
            eq(server.request('PUT', f'{base}/key_value/b/{number}', body=b'x').status, 201)
            eq(server.request('PUT', f'{base}/key_rev_value/b/{number}/1', body=b'x').status, 201)
            eq(server.request('PUT', f'{base}/key_rev_value/b/k/{number}', body=b'x').status, 201)
            eq(server.request('PUT', f'{base}/page/html/T{number}/1?stash=true', body=b'x').status, 201)
            eq(server.request('PUT', f'{base}/page/html/T1/{number + 1}', body=b'x%d' % number).status, 201)
            queue = {'queue_name': f'q{number}', 'lease_timeout': '1m', 'expire_timeout': '1h', 'requested_partitions': 1}
            eq(server.request('POST', '/v1/queues.create', body=queue).status, 200)
        for where, count in (('key_value/b/', 3), ('key_rev_value/b/', 4), ('key_rev_value/b/k/', 3), ('page/title/', 3),
                             ('page/history/T1', 4)):
            for limit in range(1, count + 2):
                got, pages, seen = None, 0, 0
                while got is None or 'next' in got:
                    following = '' if got is None else '&page=' + got['next']
                    got = server.json('GET', f'{base}/{where}?limit={limit}{following}').body
                    pages, seen = pages + 1, seen + len(got['items'])
                eq((pages, seen), (-(-count // limit), count), f'{where} by {limit}')
        pages, pivot = [], ''
        while pivot is not None:
            got = server.json('POST', '/v1/queues.list', body={'limit': 1, 'pivot': pivot})
            pages.append([queue['queue_name'] for queue in got.body['items']])
            pivot = got.headers['next-pivot']
        eq(pages, [['q1'], ['q2'], ['q3']])


main()
