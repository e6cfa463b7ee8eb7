"""Goal: no web page open in a browser on the server's machine can change or rule a server that asks for no key.
Method: the requests such a browser would send, told apart from programs' by Origin, Sec-Fetch-Site and Host alone."""
import json
import tempfile

from harness import Server, check, eq, main, scene

EVIL = {'Origin': 'http://evil.example', 'Content-Type': 'text/plain'}
PAGE = '/localhost/v1/page/html/A'
TABLE = '/localhost/v1/table/e'
SCHEMA = {'table': 'e', 'attributes': {'p': 'string'}, 'index': [{'attribute': 'p', 'type': 'hash'}]}


def own(server, **more):
    """What a browser sends for a page that this server itself gave it."""
    return {'Origin': server.url, 'Sec-Fetch-Site': 'same-origin', 'Content-Type': 'text/plain', **more}


def as_name(server, name, **more):
    return {'Host': f'{name}:{server.port}', 'Origin': f'http://{name}:{server.port}', **more}


@scene
def a_page_of_another_site_makes_no_key(binary):
    with Server(binary) as server:
        for told in (EVIL, {'Sec-Fetch-Site': 'cross-site'}, {'Origin': 'null'}, {'Origin': 'http://127.0.0.1'},
                     {'Origin': f'http://localhost:{server.port}'}, own(server, **{'Sec-Fetch-Site': 'cross-site'})):
            answer = server.request('POST', '/v1/admin.tokens', told, b'{"roles":["Admin"]}')
            eq(answer.status, 403, str(told))
            check('another site' in json.loads(answer.body)['message'], answer.body)
        eq(server.json('GET', '/v1/admin.tokens').body['items'], [])
        eq(server.request('POST', '/v1/admin.tokens', own(server), b'{"roles":["Admin"]}').status, 201)


@scene
def a_page_of_another_site_changes_nothing(binary):
    with Server(binary) as server, tempfile.TemporaryDirectory() as folder:
        eq(server.request('PUT', f'{PAGE}/1', {'Content-Type': 'text/html'}, b'one').status, 201)
        eq(server.request('PUT', TABLE, None, SCHEMA).status, 201)
        eq(server.request('POST', f'{TABLE}/put', None, {'attributes': {'p': 'A'}}).status, 201)
        row = b'{"attributes":{"p":"A"}}'
        for method, where, body in (('PUT', f'{PAGE}/2', b'two'), ('DELETE', '/localhost/v1/page/all/A', None),
                                    ('POST', f'{TABLE}/delete', row), ('DELETE', TABLE, None),
                                    ('POST', '/localhost/v1/batch', b'[]'), ('PUT', '/localhost/v1/key_value/b', None),
                                    ('POST', '/v1/admin.backup', json.dumps({'to': f'{folder}/copy'}).encode()),
                                    ('POST', '/v1/admin.door', b'{"open":false}'),
                                    ('POST', '/v1/queue.produce', b'{}'), ('POST', '/v1/users.create', b'{}'),
                                    ('DELETE', '/v1/admin.tokens/x', None)):
            eq(server.request(method, where, EVIL, body).status, 403, f'{method} {where}')
        eq(server.request('GET', PAGE, EVIL).body, b'one')
        answer = server.request('POST', f'{TABLE}/get', EVIL, row)
        eq((answer.status, answer.headers['Access-Control-Allow-Origin']), (200, '*'))
        eq(server.request('POST', '/localhost/v1/transform/html/to/wikitext', EVIL, b'{}').status, 404)


@scene
def what_a_site_of_our_own_sends_is_done(binary):
    with Server(binary) as server:
        eq(server.request('PUT', f'{PAGE}/1', own(server), b'one').status, 201)
        eq(server.request('PUT', f'{PAGE}/2', as_name(server, 'LocalHost'), b'two').status, 201)
        eq(server.request('POST', '/v1/admin.stats', own(server)).status, 200)
    with Server(binary, '--domain', 'wiki.example') as server:
        eq(server.request('PUT', '/wiki.example/v1/page/html/A/1', as_name(server, 'wiki.example'), b'one').status, 201)


@scene
def a_page_that_gave_its_own_name_our_address_changes_nothing(binary):
    """Its origin is the request's Host then, and the browser calls them one site."""
    with Server(binary) as server:
        eq(server.request('PUT', f'{PAGE}/1', {'Host': 'alias:1', 'Content-Type': 'text/html'}, b'one').status, 201)
        rebound = as_name(server, 'rebound.example', **{'Content-Type': 'text/plain'})
        for told in (rebound, {'Host': rebound['Host'], 'Sec-Fetch-Site': 'same-origin'}):
            for method, where, body in (('PUT', f'{PAGE}/2', b'two'), ('DELETE', '/localhost/v1/page/all/A', None),
                                        ('POST', '/localhost/v1/batch', b'[]'), ('POST', '/v1/queue.clear', b'{}'),
                                        ('POST', '/v1/queues.delete', b'{}'), ('POST', '/v1/queue.produce', b'{}')):
                answer = server.request(method, where, told, body)
                eq(answer.status, 403, f'{method} {where}')
                check(b'under a Host' in answer.body, answer.body)
        eq(server.request('GET', PAGE, rebound).body, b'one')


@scene
def only_known_names_rule_an_open_server(binary):
    calls = (('GET', '/v1/admin.tokens', None), ('GET', '/v1/admin.stats', None), ('POST', '/v1/admin.check', b''),
             ('POST', '/v1/users.list', b'{}'), ('POST', '/v1/apikeys.create', b'{}'))
    with Server(binary, '--domain', 'wiki.example') as server:
        for method, where, body in calls:
            for name in ('rebound.example', 'localhost.evil.example', '127.0.0.1.evil.example'):
                for told in (as_name(server, name), as_name(server, name, Authorization='Bearer x')):
                    eq(server.request(method, where, told, body).status, 403, f'{name} {where}')
            for name in ('127.0.0.1', '[::1]', 'localhost', 'Wiki.Example'):
                check(server.request(method, where, as_name(server, name), body).status != 403, f'{name} {where}')
        answer = server.request('GET', '/v1/admin.tokens', as_name(server, 'rebound.example'))
        eq(answer.status, 403)
        check('Host' in json.loads(answer.body)['message'], answer.body)


@scene
def routes_of_the_server_itself_are_not_for_other_sites(binary):
    with Server(binary) as server:
        for method, where in (('GET', '/v1/admin.tokens'), ('GET', '/v1/admin.stats'), ('POST', '/v1/admin.check'),
                              ('GET', '/v1/admin.flights'), ('GET', '/%761/admin.stats'), ('POST', '/v1/users.list'),
                              ('POST', '/v1/nope'), ('GET', '/metrics'), ('OPTIONS', '/metrics'),
                              ('OPTIONS', '/v1/admin.tokens'), ('OPTIONS', '/v1/queue.produce')):
            answer = server.request(method, where, None, b'{}' if where == '/v1/users.list' else None)
            for name in answer.headers:
                check(not name.lower().startswith('access-control-'), f'{method} {where}: {name}')


@scene
def a_key_that_is_asked_for_is_proof_enough(binary):
    with Server(binary, '--set', 'auth=internal') as server:    # its door is still open
        key = server.json('POST', '/v1/admin.tokens', None, {'roles': ['Admin']}).body['key']
        bearer = {'Authorization': f'Bearer {key}'}
        eq(server.request('PUT', f'{PAGE}/1', EVIL, b'one').status, 403)
        eq(server.request('PUT', f'{PAGE}/1', {**bearer, **EVIL}, b'one').status, 201)
        eq(server.request('GET', '/v1/admin.tokens', {'Host': 'admin.example'}).status, 403)
        eq(server.request('GET', '/v1/admin.tokens', {**bearer, 'Host': 'admin.example'}).status, 200)


main()
