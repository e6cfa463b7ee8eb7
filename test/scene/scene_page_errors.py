"""Goal: what wrong requests get: problem documents in full, statuses, Allow, Querator's reply under /v1/.
Method: a server, asked over the wire."""
import gzip
import json

from harness import check, eq, main, scene
from page_help import page_server, path, problem, put
from shared_store import not_shared


@scene
def problems_have_all_members(binary):
    with page_server(binary) as server:
        for method in ('GET', 'DELETE', 'PUT'):
            answer = server.request(method, '/nowhere/v1/page/html/A%2F%22/1?x=y', None, b'' if method == 'PUT' else None)
            if method == 'DELETE':
                answer = server.request(method, '/nowhere/v1/page/all/A%2F%22/1?x=y')
            value = problem(answer, 404, 'domain_not_found')
            eq(set(value), {'type', 'title', 'detail', 'method', 'uri', 'status'})
            eq(value['method'], method.lower())
            eq(value['uri'].startswith('/nowhere/v1/page/'), True)
            check('x=y' not in value['uri'], 'the query belongs to nobody else')
            check(answer.headers['X-Request-Id'], 'an id for the operator')


@scene
def a_browser_may_ask_before_it_asks(binary):
    with page_server(binary) as server:
        asked = {'Origin': 'https://elsewhere.test', 'Access-Control-Request-Method': 'GET',
                 'Access-Control-Request-Headers': 'if-none-match'}
        answer = server.request('OPTIONS', path('html', 'A'), asked)
        eq(answer.status, 204)
        check('GET' in answer.headers['Allow'], answer.headers['Allow'])
        eq(answer.headers['Access-Control-Allow-Origin'], '*')
        eq(answer.headers['Access-Control-Allow-Methods'], 'GET,HEAD')
        check('if-none-match' in answer.headers['Access-Control-Allow-Headers'], 'the header asked for')
        eq(server.request('OPTIONS', '/nowhere/at/all', asked).status, 404)


@scene
@not_shared('it asks for tables, streams or events, which are not there on a shared store')
def unknown_paths_are_404_and_wrong_methods_405_with_allow(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'x')
        for where in ('/x', '/localhost/v1', '/localhost/v2/page/html/A', '/localhost/v1/page/html', '/localhost/v1/page/html/A/1/2/3'):
            eq(server.request('GET', where).status, 404, where)
        for method, where, allow in (('POST', path('html', 'A'), {'GET'}), ('DELETE', path('html', 'A', 1), {'GET', 'PUT'}),
                                     ('GET', path('all', 'A'), {'DELETE'}), ('POST', path('history', 'A'), {'GET'}),
                                     ('GET', path('hold', 'A', 1), {'PUT', 'DELETE'}), ('PATCH', path('html', 'A'), {'GET'}),
                                     ('PUT', '/v1/stream', {'GET'}), ('POST', '/v1/stream', {'GET'}),
                                     ('GET', '/v1/events', {'POST'}), ('POST', '/v1/admin.slow', {'GET'})):
            answer = server.request(method, where, None, b'' if method in ('POST', 'PATCH', 'PUT') else None)
            eq(answer.status, 405, f'{method} {where}')
            eq(json.loads(answer.body)['code' if where.startswith('/v1/') else 'status'], 405)
            allowed = {name.strip() for name in answer.headers['Allow'].split(',')}
            check(allow <= allowed, f'{allowed} for {method} {where}')


@scene
def paths_under_v1_speak_querators_language(binary):
    with page_server(binary) as server:
        for method, where, status, message in (('POST', '/v1/nope', 501, 'no such method; /v1/nope'),
                                               ('POST', '/v1/v1/page/html/A', 501, 'no such method; /v1/v1/page/html/A'),
                                               ('GET', '/v1/v1/page/html/A', 400, "http method 'GET' not allowed; only POST"),
                                               ('GET', '/v1/nope', 400, "http method 'GET' not allowed; only POST")):
            answer = server.json(method, where, None, b'{}' if method == 'POST' else None)
            eq(answer.status, status)
            eq((answer.body['code'], answer.body['message']), (status, message))
            eq(set(answer.body), {'code', 'code_text', 'message'})


@scene
def a_body_that_would_fill_a_requests_memory_leaves_room_to_say_so(binary):
    with page_server(binary, '--set', 'http.arena_bytes_max=1M', '--set', 'page.body_bytes_max=300k') as server:
        for size in (*range(1040000, 1048577, 1000), 1048576):
            problem(server.request('PUT', '/localhost/v1/key_value/none/k', None, b'x' * size), 413, 'content_too_large')
        problem(server.request('PUT', '/localhost/v1/key_value/none/k', None, b'x' * 500000), 404, 'unknown_bucket')


@scene
def get_with_a_body_is_refused(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'x')
        eq(server.request('GET', path('html', 'A'), None, b'body').status, 400)
        eq(server.request('GET', path('html', 'A')).body, b'x')


@scene
def broken_escapes_are_400(binary):
    with page_server(binary) as server:
        for bad in ('%', '%1', '%zz', 'a%2'):
            eq(server.request('GET', path('html', bad)).status, 400, bad)


@scene
@not_shared('it asks for tables, streams or events, which are not there on a shared store')
def what_is_too_large_is_one_kind_of_problem(binary):
    with page_server(binary) as server:
        bundle = {'html': {'body': 'x', 'headers': {'x-long': 'v' * 9000}}}
        problem(server.request('PUT', path('all', 'A', 1), None, json.dumps(bundle)), 413, 'content_too_large')
        problem(server.request('PUT', '/localhost/v1/table/t', None, b' ' * 200000), 413, 'content_too_large')


@scene
@not_shared('it asks for tables, streams or events, which are not there on a shared store')
def head_tells_the_length_of_the_get(binary):
    """RFC 9110 8.6: Content-Length of a HEAD is the one of the GET, of refusals, too."""
    with page_server(binary) as server:
        put(server, 'A', 1, b'<p>one</p>' * 100)
        eq([server.request('PUT', f'/localhost/v1/{kind}/b').status for kind in ('key_value', 'key_rev_value')], [201] * 2)
        for where in ('key_value/b/k', 'key_rev_value/b/k/1'):
            eq(server.request('PUT', '/localhost/v1/' + where, {'Content-Encoding': 'gzip'}, gzip.compress(b'x' * 500)).status, 201)
        schema = {'attributes': {'k': 'string'}, 'index': [{'attribute': 'k', 'type': 'hash'}]}
        eq(server.request('PUT', '/localhost/v1/table/t', body=schema).status, 201)
        seen = set()
        for target in ('page/html/A', 'page/html/A/1', 'page/html/None', 'page/html/A/x', 'page/other/A', 'page/title/A',
                       'page/title/', 'page/history/A', 'page/history/None', 'page/explain/A', 'key_value/b/k',
                       'key_value/b/none', 'key_value/none/k', 'key_value/b/', 'key_rev_value/b/k', 'key_rev_value/b/k/',
                       'key_rev_value/b/none/', 'table/t', 'table/none', 'nothing', 'lists/none/d', '?spec', ''):
            for accepted in (None, 'gzip', 'identity;q=0', 'gzip;q=0, identity;q=0'):
                fields = {} if accepted is None else {'Accept-Encoding': accepted}
                got = server.request('GET', '/localhost/v1/' + target, fields)
                head = server.request('HEAD', '/localhost/v1/' + target, fields)
                seen.add(got.status)
                names = ('content-length', 'content-type', 'content-encoding', 'etag', 'vary', 'cache-control', 'allow')
                eq([head.status, head.body] + [head.headers[name] for name in names],
                   [got.status, b''] + [got.headers[name] for name in names], f'{target} {accepted}')
        check(seen >= {200, 400, 403, 404, 406}, f'{seen}')


main()
