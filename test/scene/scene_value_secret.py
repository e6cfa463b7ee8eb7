"""Goal: keys and values of key_value and key_rev_value may be secrets, so nobody lists them, no cache keeps them and no other
site's script reads them unless the configuration says so. Method: requests as a browser, a cache and a wiki send them,
to buckets that the configuration names and to buckets made by PUT."""
from harness import check, eq, main, scene
from page_help import page_server, problem, tid
from shared_store import differs

KV = '/localhost/v1/key_value'
KRV = '/localhost/v1/key_rev_value'
SITE = {'Origin': 'https://other.example'}


def shared(answer):
    return [name for name in answer.headers if name.lower().startswith('access-control-')] != []


def ask(server, method, path, headers=None, body=None, status=200):
    got = server.request(method, path, headers, body)
    eq(got.status, status, f'{method} {path}: {got.body[:200]}')
    return got


@scene
def values_are_closed_by_default(binary):
    with page_server(binary, '--set', 'buckets.named.kind=key_value', '--set', 'buckets.revs.kind=key_rev_value') as server:
        ask(server, 'PUT', KV + '/made', status=201)
        ask(server, 'PUT', KRV + '/made', status=201)
        for bucket, key in ((KV + '/made', 'k'), (KV + '/named', 'k'), (KRV + '/made', 'k/1'), (KRV + '/revs', 'k/1')):
            ask(server, 'PUT', f'{bucket}/{key}', body=b'secret', status=201)
            got = ask(server, 'GET', f'{bucket}/{key}', SITE)
            eq((got.body, got.headers['cache-control'], shared(got)), (b'secret', 'no-store', False), bucket)
            eq(shared(ask(server, 'OPTIONS', f'{bucket}/{key}', SITE, status=204)), False, bucket)
            eq(shared(server.request('GET', f'{bucket}/none', SITE)), False, bucket)
            for where in (bucket + '/', bucket + '/?limit=5', bucket.replace('k', '%6B', 1) + '/'):
                problem(server.request('GET', where), 403, 'forbidden#listing')
        own = {'table': '.key_value.made', 'attributes': {'key': 'k'}}
        for where, body in (('/localhost/v1/table/.key_value.made/get', {}), ('/localhost/v1/table/%2Ekey_value.made/get', {}),
                            ('/localhost/v1/batch', [{'op': 'put', **own}])):
            status = server.request('POST', where, body=body).status
            check(status in (400, 404) or (differs('there are no tables, so no such route') and status in (405, 501)),
                  f'{where}: the table is not the bucket\'s door: {status}')
        eq(server.json('GET', KRV + '/made/k/').body['items'][0]['revision'], 1, 'who knows the key knows its revisions')
        eq(shared(ask(server, 'GET', '/localhost/v1/page/title/', SITE)), True, 'pages are read by other sites')


@scene
def keys_are_not_logged(binary):
    with page_server(binary, '--set', 'log.access=true') as server:
        ask(server, 'PUT', KV + '/s', status=201)
        ask(server, 'PUT', KRV + '/s', status=201)
        ask(server, 'PUT', KV + '/s/hidden-1', body=b'x', status=201)
        ask(server, 'GET', KV.replace('key', 'k%65y') + '/s/hidden-2', status=404)
        ask(server, 'PUT', KRV + '/s/hidden-3/1', body=b'x', status=201)
        ask(server, 'GET', KRV + '/s/hidden-3/', status=200)
        ask(server, 'PATCH', KV + '/s/hidden-4', status=405)
        # Nothing of these is a route: they end before one is found.
        for path in ('/localhost/v1/key%5Fvalue/s/hidden', '/localhost/v1/key%5fvalue/s/hidden', '/localhost/v1/k%65y_value/s/hidden',
                     '/localhost/v1/key_rev%5Fvalue/s/hidden', '/localhost/v1/KEY_VALUE/s/hidden',
                     '/localhost/v1/key_value/%73/hidden', '/localhost/v1/key_value%2Fs%2Fhidden', '/localhost/v1%2fkey_value/s/hidden',
                     '/localhost//v1/key_value/s/hidden', '/v1/key_value/s/hidden', '/key_value/s/hidden',
                     '/localhost/v1/key_value/s/x/hidden', '/localhost/v1/key_value/s/%zz/hidden',
                     '/nowhere/v1/key_value/s/hidden', '/localhost/v1/key%5Fvalue%2Fs%2fhidden'):
            for method in ('GET', 'PATCH', 'POST', 'OPTIONS'):
                server.request(method, path)
            server.request('GET', path, {'Content-Length': '3'}, b'abc')      # a head that is refused
        ask(server, 'GET', '/localhost/v1/page/html/shown', status=404)
        server.sigterm()
        check('hidden' not in server.stderr(), server.stderr())
        for method in ('PUT', 'PATCH'):
            check(f'method={method} path={KV}/s/ ' in server.stderr(), server.stderr())
        check('path=/localhost/v1/page/html/shown ' in server.stderr(), server.stderr())


@scene
def the_configuration_opens_what_it_names(binary):
    opened = []
    for name, value in (('cors', 'true'), ('listing', 'true'), ('cache_control', 'private')):
        opened += ['--set', f'buckets.open.{name}={value}']
    with page_server(binary, '--set', 'buckets.open.kind=key_value', *opened) as server:
        eq(server.json('GET', KV + '/open/').body, {'items': []})
        ask(server, 'PUT', KV + '/open/k', body=b'x', status=201)
        got = ask(server, 'GET', KV + '/open/k', SITE)
        eq((got.headers['cache-control'], shared(got)), ('private', True))
        eq(shared(ask(server, 'OPTIONS', KV + '/open/k', SITE, status=204)), True)
        eq(shared(ask(server, 'OPTIONS', KV + '/op%65n/k', SITE, status=204)), True)
        eq(server.json('GET', KV + '/open/').body, {'items': ['k']})
        ask(server, 'PUT', KRV + '/open', status=201)        # of another kind: it is not the one that is named
        problem(server.request('GET', KRV + '/open/'), 403, 'forbidden#listing')
    every = ('--set', 'value.cors=true', '--set', 'value.listing=true', '--set', 'value.cache_control=max-age=9')
    with page_server(binary, *every, '--set', 'buckets.shut.kind=key_value') as server:
        ask(server, 'PUT', KV + '/b', status=201)
        ask(server, 'PUT', KV + '/b/k', body=b'x', status=201)
        got = ask(server, 'GET', KV + '/b/k', SITE)
        eq((got.headers['cache-control'], shared(got)), ('max-age=9', True))
        eq(server.json('GET', KV + '/b/').body, {'items': ['k']})
        problem(server.request('GET', KV + '/shut/'), 403, 'forbidden#listing')


@scene
def a_configured_bucket_needs_no_put_and_takes_none_that_differs(binary):
    options = ('--set', 'buckets.s.kind=key_value', '--set', 'buckets.s.ttl=60s', '--domain', 'a.test', '--domain', 'localhost')
    with page_server(binary, *options) as server:
        problem(server.request('GET', KV + '/s/k'), 404, 'not_found')
        eq(server.request('DELETE', KV + '/s/k').status, 204)
        ask(server, 'POST', KV + '/s/k', body=b'x', status=201)
        problem(server.request('GET', '/a.test/v1/key_value/s/k'), 404, 'not_found')
        for fine in (None, {}, {'keyType': 'string', 'default_time_to_live': 60}):
            ask(server, 'PUT', KV + '/s', body=fine, status=201)
        value = problem(server.request('PUT', KV + '/s', body={'default_time_to_live': 61}), 400, 'bad_request')
        check('60 s, by the configuration' in value['detail'], value['detail'])
        problem(server.request('DELETE', KV + '/s'), 409, 'conflict')
        server.clock(advance='59s')
        eq(ask(server, 'GET', KV + '/s/k').body, b'x')
        server.clock(advance='1s')
        problem(server.request('GET', KV + '/s/k'), 404, 'not_found')


@scene
def another_configuration_holds_from_the_next_put(binary):
    named = ['--set', 'buckets.m.kind=key_rev_value']
    with page_server(binary, *named) as server:
        for rev in (1, 2):
            ask(server, 'PUT', f'{KRV}/m/k/{rev}/{tid(rev)}', body=b'x', status=201)
        server.sigterm()
        server.start(*named, '--set', 'buckets.m.policy=latest_hash', '--set', 'buckets.m.grace_ttl=5s')
        for rev, status in ((3, 201), (2, 410)):
            ask(server, 'PUT', f'{KRV}/m/k/{rev}/{tid(rev + 10)}', body=b'y', status=status)
        problem(server.request('GET', KRV + '/m/k/2'), 404, 'not_found')
        server.sigterm()
        server.start(*named)
        for rev in (2, 1):
            ask(server, 'PUT', f'{KRV}/m/k/{rev}/{tid(rev + 20)}', body=b'z', status=201)
        eq([item['revision'] for item in server.json('GET', KRV + '/m/k/').body['items']], [3, 2, 1])


@scene
def a_bucket_made_by_put_before_it_was_named_becomes_what_is_named(binary):
    with page_server(binary) as server:
        ask(server, 'PUT', KV + '/s', body={'version': 7, 'default_time_to_live': 10}, status=201)
        ask(server, 'PUT', KV + '/s/old', body=b'x', status=201)
        server.sigterm()
        server.start('--set', 'buckets.s.kind=key_value')
        eq(ask(server, 'GET', KV + '/s/old').body, b'x')
        ask(server, 'PUT', KV + '/s/new', body=b'x', status=201)
        server.clock(advance='10s')
        problem(server.request('GET', KV + '/s/old'), 404, 'not_found')
        eq(ask(server, 'GET', KV + '/s/new').body, b'x')


main()
