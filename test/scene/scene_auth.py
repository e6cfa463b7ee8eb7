"""Goal: keys open what they should and nothing else, over HTTP and from the command line.
Method: keys made in the data folder and through the admin routes; requests with and without them."""
import collections
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile

from harness import Server, check, eq, main, scene

INTERNAL = ('--set', 'auth=internal')
HTML = {'Content-Type': 'text/html'}
EN = '/en.example.test/v1/page/html/A'
DE = '/de.example.test/v1/page/html/A'
DOMAINS = ('--domain', 'en.example.test', '--domain', 'de.example.test')


def token(binary, *args, want=0, env=None):
    done = subprocess.run([binary, 'token', *map(str, args)], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **(env or {})})
    eq(done.returncode, want, f'token {" ".join(map(str, args))}: {done.stderr}')
    return done.stdout.strip() if want == 0 else done.stderr


def bearer(key, **more):
    return {'Authorization': f'Bearer {key}', **more}


def statuses(server, key=None):
    """(read, write, purge, admin) of one key, or of nobody."""
    headers = bearer(key) if key else {}
    return (server.request('GET', EN, headers).status,
            server.request('PUT', f'{EN}/2', {**headers, **HTML}, b'two').status,
            server.request('DELETE', '/en.example.test/v1/page/all/Nobody', headers).status,
            server.request('GET', '/v1/admin.tokens', headers).status)


@scene
def open_is_open_to_everybody_on_loopback(binary):
    with Server(binary, *DOMAINS) as server:
        eq(server.request('PUT', f'{EN}/1', HTML, b'one').status, 201)
        eq(statuses(server), (200, 201, 204, 200))
        eq(server.request('GET', EN, {'Authorization': 'Basic eA=='}).status, 200)


@scene
def the_refusal_of_an_open_server_says_how_to_lock_it(binary):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'p.yaml'
        path.write_text('domains: [localhost]\nadmin_listen: 0.0.0.0:0\n')
        for args, where in ((('--config', path), f'{path}:2: admin_listen: '),
                            (('--listen', '0.0.0.0:0'), 'command line: listen: ')):
            done = subprocess.run([binary, 'serve', '--data', f'{folder}/d', *map(str, args)], capture_output=True,
                                  text=True, timeout=60, check=False)
            eq((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            check(where + 'auth: open' in done.stderr, done.stderr)
        said = [part.split() for part in re.findall(r'palimpsest (token [^;\n]*)', done.stderr)]
        eq([words[:2] for words in said], [['token', 'create'], ['token', 'lock']], done.stderr)
        key, _ = [token(binary, *(f'{folder}/d' if word == 'DIR' else word for word in words[1:])) for words in said]
        with Server(binary, *INTERNAL, data=f'{folder}/d') as server:
            for path, body in (('/v1/queues.create', {'queue_name': 'q', 'lease_timeout': '1m', 'expire_timeout': '1h',
                                                      'requested_partitions': 1}),
                               ('/v1/queues.list', {}), ('/v1/namespaces.list', {}), ('/v1/users.list', {})):
                body, json_type = json.dumps(body).encode(), {'Content-Type': 'application/json'}
                eq(server.request('POST', path, json_type, body).status, 403, path)
                eq(server.request('POST', path, bearer(key, **json_type), body).status, 200, path)


@scene
def the_first_key_is_made_while_the_server_is_stopped(binary):
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/data'
        admin = token(binary, 'create', '--role', 'admin', '--data', data, '--new', '--name', 'root')
        check(admin.startswith('qtr-live-') and len(admin) == 52, admin)
        token(binary, 'lock', '--data', data)
        with Server(binary, *DOMAINS, *INTERNAL, data=data) as server:
            eq(server.request('PUT', f'{EN}/1', HTML, b'one').status, 401)
            eq(server.request('PUT', f'{EN}/1', bearer(admin, **HTML), b'one').status, 201)
            eq(statuses(server), (401, 401, 401, 401))
            eq(statuses(server, admin), (200, 201, 204, 200))
            check(admin[17:] not in server.stderr(), 'the key is in the log')
        for path, _, names in os.walk(data):
            for name in names:
                with open(os.path.join(path, name), 'rb') as file:
                    check(admin[17:].encode() not in file.read(), f'the key is in {name}')


@scene
def roles_and_domains_limit_a_key(binary):
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/data'
        made = {role: token(binary, 'create', '--role', role, '--data', data, '--new') for role in ('read', 'write', 'purge', 'admin')}
        both = token(binary, 'create', '--role', 'read', '--role', 'purge', '--data', data, '--new')
        scoped = token(binary, 'create', '--role', 'write', '--domain', 'en.example.test', '--data', data, '--new')
        token(binary, 'lock', '--data', data)
        with Server(binary, *DOMAINS, *INTERNAL, data=data) as server:
            eq(server.request('PUT', f'{EN}/1', bearer(made['write'], **HTML), b'one').status, 201)
            eq(statuses(server, made['read']), (200, 403, 403, 403))
            eq(statuses(server, made['write']), (200, 201, 403, 403))
            eq(statuses(server, made['purge']), (403, 403, 204, 403))
            eq(statuses(server, made['admin']), (200, 200, 204, 200))
            eq(statuses(server, both), (200, 403, 204, 403))
            eq(statuses(server, scoped), (200, 200, 403, 403))
            eq(server.request('PUT', f'{DE}/1', bearer(scoped, **HTML), b'one').status, 403)
            eq(server.request('PUT', f'{DE}/1', bearer(made['write'], **HTML), b'one').status, 201)
            schema = {'attributes': {'p': 'string'}, 'index': [{'attribute': 'p', 'type': 'hash'}]}
            eq(server.request('PUT', '/en.example.test/v1/table/t', bearer(made['write']), schema).status, 201)
            for where in ('/en.example.test/v1/table/t', '/*/v1/table/t'):     # a table goes with all its rows
                eq(server.request('DELETE', where, bearer(made['write'])).status, 403, where)
            eq(server.request('DELETE', '/en.example.test/v1/table/t', bearer(made['purge'])).status, 204)


@scene
def what_is_no_key_is_401(binary):
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/data'
        key = token(binary, 'create', '--data', data, '--new')
        token(binary, 'lock', '--data', data)
        with Server(binary, *DOMAINS, *INTERNAL, data=data) as server:
            other = key[:-1] + ('a' if key[-1] != 'a' else 'b')
            for wrong in (f'Bearer {other}', 'Bearer x', 'Bearer', 'Basic eA==', f'Token {key}'):
                got = server.request('GET', EN, {'Authorization': wrong})
                eq(got.status, 401, wrong)
                check(got.headers['WWW-Authenticate'] is not None, wrong)
                check(other.encode() not in got.body, 'the answer repeats the key')
            eq(server.request('GET', EN, {'Authorization': f'bearer  {key}'}).status, 404)
            eq(server.request('GET', '/healthz').status, 200)


@scene
def keys_are_made_listed_and_deleted_through_the_server(binary):
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/data'
        admin = token(binary, 'create', '--role', 'admin', '--data', data, '--new')
        token(binary, 'lock', '--data', data)
        with Server(binary, *DOMAINS, *INTERNAL, data=data) as server:
            env = {'PALIMPSEST_SERVER': server.url, 'PALIMPSEST_TOKEN': admin}
            eq(server.request('PUT', f'{EN}/1', bearer(admin, **HTML), b'one').status, 201)
            made = json.loads(token(binary, 'create', '--role', 'read', '--tag', 'ci', '--expires', '30d', '--json', env=env))
            key = made['key']
            check(key.startswith('qtr-ci-'), key)
            check(made['expires_at'] > made['created_at'], str(made))
            eq(server.request('GET', EN, bearer(key)).status, 200)
            listed = [json.loads(line) for line in token(binary, 'ls', '--json', env=env).splitlines()]
            eq(len(listed), 2)
            mine = next(item for item in listed if item['id'] == made['id'])
            eq((mine['prefix'], mine['roles'], 'key' in mine), (key[:15], 'read', False))
            check(key[:15] in token(binary, 'ls', env=env), 'the table')
            token(binary, 'ls', env={'PALIMPSEST_SERVER': server.url, 'PALIMPSEST_TOKEN': key}, want=6)
            token(binary, 'rm', made['id'], env=env)
            eq(server.request('GET', EN, bearer(key)).status, 401)
            token(binary, 'rm', made['id'], env=env, want=5)
            server.restart()
            eq(server.request('GET', EN, bearer(key)).status, 401)
            eq(server.request('GET', EN, bearer(admin)).status, 200)


@scene
def what_is_ready_is_given_to_keys_that_may_have_it_and_ends_with_them(binary):
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/data'
        admin = token(binary, 'create', '--role', 'admin', '--data', data, '--new')
        scoped = token(binary, 'create', '--role', 'read', '--domain', 'de.example.test', '--data', data)
        token(binary, 'lock', '--data', data)
        with Server(binary, *DOMAINS, *INTERNAL, data=data, test_hooks=True) as server:
            eq(server.request('PUT', f'{EN}/1', bearer(admin, **HTML), b'one').status, 201)
            made = server.json('POST', '/v1/admin.tokens', bearer(admin), {'roles': ['read'], 'expires': '1h'}).body
            deleted = server.json('POST', '/v1/admin.tokens', bearer(admin), {'roles': ['read']}).body
            for key in (admin, made['key'], deleted['key']) * 3:
                got = server.request('GET', EN, bearer(key))
                eq((got.status, got.body), (200, b'one'))
            metrics = server.request('GET', '/metrics', bearer(admin)).body.decode()
            check(int(metrics.split('\npalimpsest_hot_hits_total ')[1].split()[0]) >= 6, 'none was ready')
            en_written_otherwise = EN.replace('/en', '/%65n')
            for headers, status in (({}, 401), (bearer(scoped), 403), (bearer(made['key'][:-1]), 401),
                                    ({'Authorization': 'Basic eA=='}, 401), ({'Authorization': 'Bearer '}, 401)):
                for path in (EN, en_written_otherwise) * 2:
                    eq(server.request('GET', path, headers).status, status, str(headers))
            eq(server.request('DELETE', f'/v1/admin.tokens/{deleted["id"]}', bearer(admin)).status, 204)
            eq(server.request('GET', EN, bearer(deleted['key'])).status, 401)
            eq(server.request('GET', EN, bearer(made['key'])).status, 200)
            server.clock(advance='61m')
            eq(server.request('GET', EN, bearer(made['key'])).status, 401)
            eq(server.request('GET', EN, bearer(admin)).status, 200)


@scene
def a_key_ends_at_its_expiry(binary):
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/data'
        admin = token(binary, 'create', '--role', 'admin', '--data', data, '--new')
        token(binary, 'lock', '--data', data)
        with Server(binary, *DOMAINS, *INTERNAL, data=data, test_hooks=True) as server:
            made = server.json('POST', '/v1/admin.tokens', bearer(admin), {'roles': ['read'], 'expires': '1h'})
            eq(made.status, 201)
            key = made.body['key']
            eq(server.request('GET', EN, bearer(key)).status, 404)
            server.clock(advance='59m')
            eq(server.request('GET', EN, bearer(key)).status, 404)
            server.clock(advance='61s')
            eq(server.request('GET', EN, bearer(key)).status, 401)
            eq(server.request('GET', EN, bearer(admin)).status, 404)


@scene
def the_door_opens_and_closes(binary):
    with Server(binary, *DOMAINS, *INTERNAL) as server:
        check('auth.door_open' in server.stderr(), 'it warns')
        eq(server.request('PUT', f'{EN}/1', HTML, b'one').status, 201)
        admin = server.json('POST', '/v1/admin.tokens', body={'roles': ['Admin']}).body['key']
        eq(server.json('POST', '/v1/admin.door', body={'open': False}).body, {'open': False})
        eq(server.request('GET', EN).status, 401)
        eq(server.request('POST', '/v1/admin.door', body={'open': True}).status, 401)
        server.restart()
        eq(server.request('GET', EN).status, 401)
        eq(server.json('POST', '/v1/admin.door', bearer(admin), {'open': True}).body, {'open': True})
        eq(server.request('GET', EN).status, 200)


@scene
def keys_are_listed_to_the_end_however_many(binary):
    with Server(binary, *DOMAINS, '--set', 'http.arena_bytes_max=1M', '--set', 'page.body_bytes_max=300k') as server:
        made = set()
        for i in range(500):
            got = server.request_again('POST', '/v1/admin.tokens', body={'roles': ['read'], 'name': f'{i:03}{chr(34) * 250}'})
            eq(got.status, 201, got.body)
            made.add(json.loads(got.body)['id'])
        items, pages, path = [], 0, '/v1/admin.tokens'
        while path:
            got = server.json('GET', path)
            eq(got.status, 200, str(got.body))
            items += got.body['items']
            pages += 1
            path = f'/v1/admin.tokens?page={got.body["next"]}' if 'next' in got.body else None
        eq((len(items), {item['id'] for item in items}), (500, made))
        check(pages > 1, 'one answer has no room for all')
        for page in ('', 'x', 'AAAA', 'A' * 2000):
            eq(server.request('GET', f'/v1/admin.tokens?page={page}').status, 400, page)
        listed = token(binary, 'ls', '--json', env={'PALIMPSEST_SERVER': server.url}).splitlines()
        eq({json.loads(line)['id'] for line in listed}, made)


@scene
def bad_wishes_are_refused_in_words(binary):
    with Server(binary, *DOMAINS) as server:
        for body in ({}, {'roles': []}, {'roles': ['none']}, {'roles': ['read'], 'domain': '_x'}, {'roles': 'read'},
                     {'roles': ['read'], 'tag': 'X'}, {'roles': ['read'], 'expires': 'soon'}, {'roles': ['read'], 'expires': '0s'},
                     {'roles': ['read'], 'no': 1}, {'roles': [1]}, [], {'roles': ['read'] * 9}):
            got = server.json('POST', '/v1/admin.tokens', body=body)
            eq(got.status, 400, str(body))
            check(len(json.dumps(got.body)) > 20, str(got.body))
        eq(server.request('POST', '/v1/admin.tokens', body=b'{').status, 400)
        eq(server.request('DELETE', '/v1/admin.tokens/nobody').status, 404)
        first = server.request('POST', '/v1/admin.tokens', body={'roles': ['read'], 'name': 'x'})
        eq(first.status, 201)
        eq(server.request('POST', '/v1/admin.tokens', body={'roles': ['read'], 'name': 'x'}).status, 409)
        token(binary, 'create', '--data', server.data, '--new', want=1)
        token(binary, 'ls', '--data', '/nonexistent/data', want=1)
        token(binary, 'create', '--role', 'none', '--data', server.folder / 'other', '--new', want=2)
        token(binary, 'create', '--expires', 'soon', '--data', server.folder / 'other', '--new', want=2)


@scene
def other_addresses_need_a_closed_door(binary):
    outside = '192.0.2.1:0'  # of no machine (RFC 5737): what is allowed there fails only when it is bound

    def serve(*args):
        return subprocess.run([binary, 'serve', *args, '--listen', outside], capture_output=True, text=True, timeout=60,
                              check=False)
    with tempfile.TemporaryDirectory() as folder:
        data = ('--data', f'{folder}/data')
        plain = serve(*data)
        eq(plain.returncode, 2, plain.stderr)
        check('palimpsest token create' in plain.stderr, plain.stderr)
        door = serve(*data, *INTERNAL)
        eq(door.returncode, 2, door.stderr)
        check('palimpsest token lock' in door.stderr, door.stderr)
        hooks = serve(*data, *INTERNAL, '--test-hooks')
        eq(hooks.returncode, 2, hooks.stderr)
        token(binary, 'lock', *data)
        bound = serve(*data, *INTERNAL)
        eq(bound.returncode, 1, bound.stderr)
        check('192.0.2.1' in bound.stderr, bound.stderr)


@scene
def a_key_is_told_or_not_made(binary):
    """List fields in many lines take a request's memory, so that it ends at each place in turn."""
    limits = ('--set', 'http.arena_bytes_max=1M', '--set', 'page.body_bytes_max=300k', '--set', 'http.head_bytes_max=64k')
    with Server(binary, *DOMAINS, *limits) as server:
        said = collections.Counter()
        for step in range(200):
            body = json.dumps({'roles': ['read'], 'name': f'{step:03}{chr(34) * 250}'})
            fields = f'Accept: text/{"x" * 170}\r\n' * (99 + step // 20) + f'Accept: {"y" * (4000 + 2000 * (step % 20))}\r\n'
            with socket.create_connection((server.host, server.port), timeout=60) as peer:
                peer.sendall(f'POST /v1/admin.tokens HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nContent-Type: '
                             f'application/json\r\nContent-Length: {len(body)}\r\n{fields}\r\n{body}'.encode())
                said[int(peer.recv(1000).split()[1])] += 1
        check(said[201] > 0 and said[431] > 0, f'some have room, some have not: {said}')
        listed, path = 0, '/v1/admin.tokens'
        while path:
            got = server.json('GET', path).body
            listed += len(got['items'])
            path = f'/v1/admin.tokens?page={got["next"]}' if 'next' in got else None
        eq(listed, said[201], f'{said}')


main()
