"""Goal: health, figures, the API's own description, checks and backups. Method: a server, asked over the wire."""
import json
import pathlib
import re
import tempfile

from harness import Server, check, eq, main, scene, wait_until
from page_help import get, page_server, path, put, tid
from shared_store import differs, not_shared


@scene
def health_and_readiness_answer(binary):
    with page_server(binary) as server:
        for where, status in (('/healthz', 'ok'), ('/readyz', 'ready')):
            got = server.json('GET', where)
            eq((got.status, got.body), (200, {'status': status}))


def figures(server):
    got = server.request('GET', '/metrics')
    eq(got.status, 200)
    check(got.headers['Content-Type'].startswith('text/plain'), got.headers['Content-Type'])
    values = {}
    for line in got.body.decode().splitlines():
        if line and not line.startswith('#'):
            name, value = line.rsplit(' ', 1)
            values[name] = float(value)
    return values


@scene
def metrics_count_requests_by_route_and_what_the_store_did(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        put(server, 'A', 1, b'one', tid(), status=200)
        put(server, 'A', 2, b'two')
        for _ in range(5):     # found, found and kept ready, then ready
            get(server, 'A')
        server.request('GET', path('html', 'B'))
        server.clock(advance='2d')
        # a request is counted once its last byte is out, which may be after the client has read it
        want = {'http_responses_2xx_total{route="page.put_content"}': 3, 'http_responses_4xx_total{route="page.get"}': 1,
                'hot_hits_total': 3, 'hot_entries': 1, 'pages_puts_total': 2, 'pages_duplicates_total': 1,
                'pages_culled_total': 1, 'http_request_duration_seconds_count{route="page.put_content"}': 3,
                'http_responses_2xx_total{route="page.get"}': 2, 'http_responses_2xx_total{route="page.hot"}': 3}
        if differs('whole ranges are culled, and nobody counts what was in them'):
            want['pages_culled_total'] = 0
        want = {'palimpsest_' + name: value for name, value in want.items()}
        wait_until(lambda: want.items() <= figures(server).items(), f'figures: {want}')
        wait_until(lambda: figures(server)['palimpsest_engine_rows'] > 0, 'rows in the index, which follows the log')
        now = figures(server)
        check(now['palimpsest_engine_updates_total'] >= 2, 'updates of the engine')
        check(now['palimpsest_http_responses_2xx_total{route="metrics"}'] >= 1, 'scrapes are requests too')


@scene
def labels_do_not_grow_with_what_clients_send(binary):
    with page_server(binary) as server:
        before = len(figures(server))
        for i in range(50):
            server.request('GET', path('html', f'T{i}'))
            server.request('GET', f'/x{i}/y')
        eq(len(figures(server)), before)


@scene
def the_spec_is_openapi_with_every_route(binary):
    with page_server(binary) as server:
        got = server.json('GET', '/?spec')
        eq((got.status, got.body['openapi']), (200, '3.1.0'))
        for where, methods in (('/{domain}/v1/{bucket}/{content}/{title}', {'get'}),
                               ('/{domain}/v1/{bucket}/all/{title}/{rev}/{tid}', {'put', 'delete'}),
                               ('/{domain}/v1/{bucket}/history/{title}', {'get'}), ('/metrics', {'get'})):
            check(methods <= set(got.body['paths'][where]), where)
        names = set(re.findall(r'\{([a-z_+]+)\}', ' '.join(got.body['paths'])))
        check('+rest' not in names, 'patterns are paths')
        for where, item in got.body['paths'].items():
            for method, operation in item.items():
                check(operation['responses'] and operation['summary'] is not None, f'{method} {where}')
                eq({p['name'] for p in operation['parameters'] if p['in'] == 'path'}, set(re.findall(r'\{([a-z_]+)\}', where)))
        check('/v1/test.clock' in got.body['paths'], 'hooks are on here')
    with Server(binary) as server:
        check('/v1/test.clock' not in server.json('GET', '/?spec').body['paths'], 'hooks are off')


@scene
def a_running_store_checks_itself(binary):
    with page_server(binary) as server:
        for i in range(20):
            put(server, f'T{i % 5}', i + 1, b'x' * 1000 * i)
        got = server.json('POST', '/v1/admin.check', body={})
        eq((got.status, got.body), (200, {'ok': True, 'damages': 0, 'found': []}))


@scene
@not_shared('a backup is of the data directory, and the pages are not there')
def a_backup_of_a_running_store_opens_as_a_store(binary):
    with page_server(binary) as server, tempfile.TemporaryDirectory() as folder:
        to = pathlib.Path(folder) / 'copy'
        put(server, 'A', 1, b'x' * 20000, tid())
        for bad in ({}, {'to': 'relative'}, {'to': 5}, {'to': str(to), 'x': 1}, {'to': '/'}):
            eq(server.request('POST', '/v1/admin.backup', body=bad).status, 400, f'{bad}')
        got = server.json('POST', '/v1/admin.backup', body={'to': str(to)})
        eq(got.status, 200, f'{got.body}')
        check(got.body['bytes_copied'] > 0, f'{got.body}')
        put(server, 'A', 2, b'y' * 20000, tid(1))
        eq(server.json('POST', '/v1/admin.backup', body={'to': str(to)}).status, 200)
        put(server, 'A', 3, b'not in it', tid(2))
        with Server(binary, data=to) as copy:
            eq(copy.request('GET', path('html', 'A', 2, tid(1))).status in (200, 410), True)
            eq(json.loads(copy.request('GET', path('explain', 'A', 3)).body)['state'], 'unknown')


@scene
def stats_are_figures(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one')
        got = server.json('POST', '/v1/admin.stats', body={})
        eq((got.status, got.body['pages']['puts']), (200, 1))
        check(got.body['engine']['updates'] >= 1, f'{got.body}')


@scene
def admin_routes_are_on_their_own_listener_when_there_is_one(binary):
    with Server(binary, '--admin-listen', '127.0.0.1:0') as server:
        eq(server.request('POST', '/v1/admin.stats', body={}).status, 501)
        admin = server.wait_line('admin on http://127.0.0.1:')
        put(server, 'A', 1, b'one')
        get(server, 'A')
        main_port, server.port = server.port, int(admin)
        eq(server.request('POST', '/v1/admin.stats', body={}).status, 200)
        eq(server.request('GET', '/healthz').status, 200)
        eq(server.request('GET', '/metrics').status, 200)
        eq(server.request('GET', path('html', 'A')).status, 404)    # no content here, ready or not
        server.port = main_port


main()
