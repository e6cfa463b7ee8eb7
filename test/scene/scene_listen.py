"""Goal: a listener with a name shows the routes, domains and buckets that its options name, and answers all else as what
never was (docs/operations.md, Listeners).
Method: the binary with four listeners. Each operation of the server's own description is sent to each of them; a rule
written here says what must be hidden. What is hidden is held against a path of the same length that nobody knows."""
import contextlib
import http.client
import itertools
import json
import re
import socket
import subprocess
import tempfile
import urllib.parse

from change_help import figure
from harness import EXIT_TIMEOUT, REQUEST_TIMEOUT, Server, check, eq, main, scene, wait_until
from inherit_help import Handed, answer, ask, bound, connected
from origin import Origin
from queue_help import create, produce

HTML = {'Content-Type': 'text/html'}
TABLE = {'attributes': {'key': 'string', 'v': 'string'}, 'index': [{'attribute': 'key', 'type': 'hash'}]}
# What each shows: words of routes, domains, beginnings behind /{domain}/v1/; None: all.
PUBLIC = ({'page.get', 'health'}, {'en.test'}, {'page/html'})
WIKI = (None, {'en.test'}, {'page', 'table/likes', 'batch', 'key_value/open', 'lists/top'})
QUEUE = ({'queue.produce', 'health'}, None, None)
ENTRY = ({'page', 'entry', 'spec', 'transform'}, {'fr.test', 'en.test'}, {'page/html', 'page/title', 'transform/html'})
SHOWN = {'public': PUBLIC, 'wiki': WIKI, 'queue': QUEUE, 'entry': ENTRY}


def options():
    """The options of serve that make them, each on a port of its own."""
    given = ['--domain', 'en.test', '--domain', 'fr.test', '--set', 'buckets.mobile.policy=all', '--set', 'buckets.open.kind=key_value',
             '--set', 'buckets.open.cors=true', '--set', 'buckets.shut.kind=key_value', '--set', 'buckets.shut.cors=true',
             '--set', 'buckets.shut.listing=true', '--set', 'lists.top.generator=http://127.0.0.1:9/', '--set',
             'lists.low.generator=http://127.0.0.1:9/', '--set', 'page.contents=html,data-parsoid']
    for name, fields in SHOWN.items():
        given += ['--set', f'listeners.{name}.listen=127.0.0.1:0']
        for field, words in zip(('routes', 'domains', 'buckets'), fields):
            given += ['--set', f'listeners.{name}.{field}={",".join(sorted(words))}'] if words else []
    return given


class Listener:
    """One of a server's, over TCP or a unix socket."""

    def __init__(self, server, name):
        self.server = server
        self.host, _, port = server.wait_line(f'{name} on http://').rpartition(':')
        self.port = int(port)

    def request(self, method, path, headers=None, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=REQUEST_TIMEOUT)
        with contextlib.closing(connection):
            return Server._exchange(connection, method, path, headers, body)  # pylint: disable=protected-access

    def raw(self, data):
        with socket.create_connection((self.host, self.port), REQUEST_TIMEOUT) as peer:
            peer.sendall(data)
            return peer.makefile('rb').read()


@contextlib.contextmanager
def listening(binary, *more):
    with Server(binary, *options(), *more) as server:
        yield server, {name: Listener(server, name) for name in SHOWN}


def seen(got, path):
    """What a client can tell an answer by, but for what names the request."""
    headers = sorted((name.lower(), value) for name, value in got.headers.items() if name.lower() not in ('date', 'x-request-id'))
    return got.status, headers, re.sub(rb'"x-request-id":"[^"]*"', b'', got.body).replace(path.encode(), b'PATH')


def unknown(path):
    """A path of the same length that no route has. Answers under /v1/, and those of values, differ by the look of the path."""
    bare, mark, query = path.partition('?')
    start = re.match(r'/v1/|/[^/]+/v1/key_(rev_)?value/|/', bare)[0]
    start = start if start in ('/', '/v1/') else '/' + 'x' * (start.index('/', 1) - 1) + start[start.index('/', 1):]
    return start + 'x' * (len(bare) - len(start)) + mark + query


def same_as_unknown(listener, method, path, headers=None, body=None):
    other = unknown(path)
    got, want = (seen(listener.request(method, p, headers, body), p) for p in (path, other))
    eq(got, want, f'{method} {path} as {other}')


def is_shown(fields, label, pattern, path):
    routes, domains, buckets = fields
    of_domain = pattern.startswith('/{domain}/')
    named = routes and any(label == r or label.startswith(f'{r}.') for r in routes)
    if routes and not named or not routes and (label.startswith('admin.') or not of_domain and label != 'health'):
        return False
    if not of_domain:
        return True
    _, domain, *rest = path.split('/')
    if domain not in domains:
        return False
    rest = rest[1:]
    lists = rest and rest[-1] == '' and len(rest) <= 2
    return not rest or not buckets or any(rest[:len(b)] == b or lists and b[:len(rest) - 1] == rest[:-1]
                                          for b in (bucket.split('/') for bucket in buckets))


def operations(server):
    """(method, label, pattern, path) of every operation, with several names for what stands in braces."""
    names = {'domain': ('en.test', 'fr.test', 'no.test'), 'bucket': ('page', 'mobile', 'open', 'shut', 'top', 'low', 'nil'),
             'content': ('html', 'data-parsoid'), 'table': ('likes', 'secret', 'nil'), 'title': ('Foo',), 'rev': ('1',), 'key': ('k',),
             'from': ('html',), 'to': ('wikitext',), 'tid': ('c931ec94-6c31-11e4-b6d0-0f67e29867e0',), 'display': ('*',),
             'p': ('1',), 'id': ('1',), 'names': ('a',)}
    for pattern, by_method in server.json('GET', '/?spec').body['paths'].items():
        holes = re.findall(r'\{(\w+)\}', pattern)
        for values in itertools.product(*(names[hole] for hole in holes)):
            path = pattern
            for hole, value in zip(holes, values):
                path = path.replace('{%s}' % hole, value)
            for method, operation in by_method.items():
                yield method.upper(), operation['tags'][0], pattern, path


@scene
def each_route_is_shown_or_as_if_it_never_was(binary):
    with listening(binary) as (server, listeners):
        every = list(operations(server))
        by_path = {}
        for method, label, pattern, path in every:
            by_path.setdefault(path, []).append((method, label, pattern))
        counts = {}
        for name, listener in listeners.items():
            for path, ways in by_path.items():
                shown = {method for method, label, pattern in ways if is_shown(SHOWN[name], label, pattern, path)}
                for method in {method for method, *_ in ways} | {'HEAD', 'OPTIONS', 'PURGE', 'TRACE'}:
                    body = b'{}' if method in ('PUT', 'POST') else None
                    if not shown:
                        same_as_unknown(listener, method, path, HTML if body else None, body)
                        counts[name, 'hidden'] = counts.get((name, 'hidden'), 0) + 1
                        continue
                    counts[name, 'shown'] = counts.get((name, 'shown'), 0) + 1
                    if method == 'GET' and ways[0][1] == 'change.stream':
                        continue        # it would not end; HEAD says the same
                    got = listener.request(method, path, HTML if body else None, body)
                    allowed = shown | {'OPTIONS'} | ({'HEAD'} if 'GET' in shown else set())
                    queue = path.startswith('/v1/')
                    if method == 'OPTIONS' or method not in allowed and not queue:
                        eq((got.status, {*got.headers['Allow'].split(', ')}), (204 if method == 'OPTIONS' else 405, allowed), path)
                    elif method in allowed:
                        check(got.status not in (405, 501) and b'not_found#route' not in got.body, f'{name} {method} {path}: {got}')
        check(all(counts[name, what] > 5 for name in SHOWN for what in ('hidden', 'shown')), counts)


@scene
def the_description_tells_what_is_shown(binary):
    with listening(binary) as (server, listeners):
        got = json.loads(listeners['entry'].request('GET', '/?spec').body)
        eq(listeners['entry'].request('GET', '/en.test/v1/?spec').status, 200)
        eq(set(got['paths']), {
            '/', '/{domain}/', '/{domain}/v1/', '/{domain}/v1/{bucket}/', '/{domain}/v1/{bucket}/title/',
            '/{domain}/v1/{bucket}/title/{title}', '/{domain}/v1/{bucket}/title/{title}/{rev}',
            *(f'/{{domain}}/v1/{{bucket}}/{{content}}/{{title}}{more}' for more in ('', '/{rev}', '/{rev}/{tid}')),
            *(f'/{{domain}}/v1/transform/{{from}}/to/{{to}}{more}' for more in ('', '/{title}', '/{title}/{rev}'))})
        for name, path, want in (('entry', '/en.test/', ['v1']), ('entry', '/en.test/v1/', ['page', 'transform']),
                                 ('entry', '/en.test/v1/page/', ['html', 'title']),
                                 ('wiki', '/en.test/v1/', ['page', 'batch', 'key_value', 'lists', 'table'])):
            got = listeners[name].request('GET', path)
            eq((got.status, json.loads(got.body)), (200, {'items': want}), path)
        every = json.loads(server.request('GET', '/?spec').body)['paths']
        check('/v1/queue.produce' in every and '/metrics' in every, 'the main listener shows all')


@scene
def what_is_ready_is_hidden_as_well(binary):
    with listening(binary) as (server, listeners):
        for path in ('/en.test/v1/page/html/A', '/en.test/v1/page/data-parsoid/B', '/en.test/v1/mobile/html/A', '/fr.test/v1/page/html/A',
                     '/en.test/v1/multi_content/page/html/A'):
            if 'multi' not in path:
                eq(server.request('PUT', f'{path}/1', HTML, b'text').status, 201)
            eq([server.request('GET', path).status for _ in range(4)], [200] * 4)
        hot = 'http_responses_2xx_total{route="page.hot"}'
        before = figure(server, hot)
        check(before > 5, 'they are ready')
        plain = listeners['public'].request('GET', '/en.test/v1/page/html/A')
        eq((plain.status, plain.body), (200, b'text'))
        eq(listeners['public'].request('HEAD', '/en.test/v1/page/html/A').status, 200)
        eq(listeners['public'].request('GET', '/en.test/v1/page/html/A', {'If-None-Match': plain.headers['ETag']}).status, 304)
        check(figure(server, hot) > before, 'and given as ready where they are shown')
        for method in ('GET', 'HEAD'):
            for path in ('/en.test/v1/page/data-parsoid/B', '/en.test/v1/mobile/html/A', '/fr.test/v1/page/html/A',
                         '/en.test/v1/multi_content/page/html/A'):
                same_as_unknown(listeners['public'], method, path)
                same_as_unknown(listeners['queue'], method, path)
                for headers in ({'If-None-Match': '*'}, {'Range': 'bytes=0-1'}, {'Origin': 'http://x.test'}, {'Accept-Encoding': 'gzip'}):
                    same_as_unknown(listeners['public'], method, path, headers)


@scene
def a_batch_knows_the_tables_that_are_shown(binary):
    with listening(binary) as (server, listeners):
        for name in ('likes', 'secret'):
            eq(server.request('PUT', f'/en.test/v1/table/{name}', body=TABLE).status, 201)

        def batch(listener, *operations_of):
            body = [{'op': op, 'table': name, 'attributes': {'key': 'k', **({'v': 'v'} if op == 'put' else {})}} for op, name in operations_of]
            return listener.request('POST', '/en.test/v1/batch', body=body)

        wiki = listeners['wiki']
        eq(batch(wiki, ('put', 'likes')).status, 201)
        for op in ('put', 'delete'):
            for before in ((), (('put', 'likes'),)):
                hidden, never = batch(wiki, *before, (op, 'secret')), batch(wiki, *before, (op, 'absent'))
                eq(hidden.status, 404)
                eq(seen(hidden, 'secret'), seen(never, 'absent'))
        eq(batch(server, ('put', 'likes'), ('put', 'secret')).status, 201, 'the main listener shows both')
        same_as_unknown(wiki, 'POST', '/en.test/v1/table/secret/get', None, b'{"attributes":{"key":"k"}}')
        eq(wiki.request('POST', '/en.test/v1/table/likes/get', None, b'{"attributes":{"key":"k"}}').status, 200)
        same_as_unknown(listeners['entry'], 'POST', '/en.test/v1/batch', None, b'[]')


@scene
def other_spellings_lead_nowhere_else(binary):
    with listening(binary) as (server, listeners):
        for path in ('/en.test/v1/page/html/A', '/en.test/v1/mobile/html/A', '/fr.test/v1/page/html/A', '/en.test/v1/page/data-parsoid/B'):
            eq(server.request('PUT', f'{path}/1', HTML, b'text').status, 201)
            eq([server.request('GET', path).status for _ in range(3)], [200] * 3)
        public = listeners['public']
        for path in ('/en.test/v1/page/html/A', '/%65n.test/v1/page/html/A', '/en.test/%761/pag%65/h%74ml/%41', '/en.test/v1/page/html/A?a=b'):
            eq(public.request('GET', path).status, 200, path)
        for path in ('/fr.test/v1/page/html/A', '/%66r.test/v1/page/html/A', '/fr%2etest/v1/page/html/A', '/en.test/v1/mobile/html/A',
                     '/en.test/v1/%6dobile/html/A', '/en.test/v1/page/data%2dparsoid/A', '/en.test/v1/page%2fhtml/A',
                     '/en.test/v1/page/html%2f..%2fdata-parsoid/A', '/en.test/v1/page/../page/html/A', '/en.test/../fr.test/v1/page/html/A',
                     '/en.test/./v1/page/html/A', '//fr.test/v1/page/html/A', '//en.test/v1/page/html/A', '/en.test//v1/page/html/A',
                     '/en.test/v1//page/html/A', '/en.test/v1/page//html/A', '/EN.test/v1/page/html/A', '/en.test/V1/page/html/A',
                     '/en.test/v1/Page/html/A', '/en.test/v1/page/HTML/A', '/en.test./v1/page/html/A', '/en.test%00/v1/page/html/A',
                     '/en.test/v1/page/html;x/A', '/en.test/v1/page/html%00/A', '/*/v1/page/html/A', '/en.test/v1/page', '/en.test/v1/page/',
                     '/en.test/v1/', '/en.test/', '/', '/metrics', '/healthz/', '/en.test/healthz', '/en.test/v1/page/html',
                     '/en.test/v1/{bucket}/html/A', '/{domain}/v1/page/html/A', '/en.test/v1/page/{content}/A', '/v1/page/html/A',
                     '/v1/queue.produce', '/v1/queue%2eproduce', '/v1/admin.stats', '/v1/servers.render', '/v1/events', '/v1/users.list'):
            for method in ('GET', 'HEAD', 'OPTIONS', 'PURGE', 'POST'):
                same_as_unknown(public, method, path, HTML if method == 'POST' else None, b'{}' if method == 'POST' else None)
        for target, status in (('http://fr.test/en.test/v1/page/html/A', 200), ('http://en.test/fr.test/v1/page/html/A', 404),
                               ('http://en.test//v1/page/html/A', 404), ('HTTP://en.test:99/en.test/v1/mobile/html/A', 404)):
            got = public.raw(f'GET {target} HTTP/1.1\r\nHost: en.test\r\nConnection: close\r\n\r\n'.encode())
            eq(int(got.split()[1]), status, target)
        for host in ('fr.test', 'en.test', 'no.test', 'localhost'):
            same_as_unknown(public, 'GET', '/fr.test/v1/page/html/A', {'Host': host})
            same_as_unknown(public, 'PUT', '/en.test/v1/page/data-parsoid/A/1', {'Host': host, 'Sec-Fetch-Site': 'same-origin'}, b'x')
        eq(public.request('PUT', '/en.test/v1/page/html/A/1', HTML, b'x').status, 405)
        eq(public.request('GET', '/en.test/v1/page/html/../data-parsoid/B').status, 400, 'a title called .., in no such revision')
        same_as_unknown(public, 'PUT', '/en.test/v1/page/history/A/1', HTML, b'x')


@scene
def a_host_tells_of_no_domain_that_is_hidden(binary):
    with listening(binary) as (_, listeners):
        def status(host):
            return listeners['wiki'].request('PUT', '/en.test/v1/page/html/A/1', {**HTML, 'Host': host, 'Origin': f'http://{host}'}, b'x').status
        eq([status(host) for host in ('en.test', 'fr.test', 'no.test')], [201, 403, 403])


@scene
def requests_of_one_connection_are_each_looked_at(binary):
    with listening(binary) as (server, listeners):
        for path in ('/en.test/v1/page/html/A', '/en.test/v1/mobile/html/A'):
            eq(server.request('PUT', f'{path}/1', HTML, b'text').status, 201)
            eq([server.request('GET', path).status for _ in range(3)], [200] * 3)
        paths = ['/en.test/v1/page/html/A', '/en.test/v1/mobile/html/A', '/healthz', '/metrics'] * 8
        sent = ''.join(f'GET {path} HTTP/1.1\r\nHost: x\r\n{"Connection: close" if i == len(paths) - 1 else "X: y"}\r\n\r\n'
                       for i, path in enumerate(paths))
        got = listeners['public'].raw(sent.encode())
        eq(re.findall(rb'HTTP/1.1 (\d+)', got), [b'200', b'404', b'200', b'404'] * 8)


@scene
def redirects_stay_in_what_is_shown(binary):
    with Origin() as origin:
        origin.page('A_b', (7, 'new'))
        with listening(binary, *origin.options('en.test')) as (_, listeners):
            public = listeners['public']
            for path in ('/en.test/v1/page/html/a%20b', '/en.test/v1/page/html/a%20b/7'):
                got = public.request('GET', path)
                eq(got.status, 301, path)
                to = urllib.parse.urljoin(path, got.headers['Location'])
                eq((to, public.request('GET', to).status), (path.replace('a%20b', 'A_b'), 200))
            same_as_unknown(public, 'GET', '/en.test/v1/page/title/a%20b')
            same_as_unknown(public, 'GET', '/en.test/v1/page/wikitext/A_b')
            eq(listeners['entry'].request('GET', '/en.test/v1/page/title/A_b').status, 200)


@scene
def events_are_of_the_domains_that_are_shown(binary):
    more = ['--set', 'listeners.told.listen=127.0.0.1:0', '--set', 'listeners.told.routes=change.events', '--set',
            'listeners.told.domains=en.test']
    with Origin() as origin:
        with listening(binary, *more, *origin.options('en.test'), *origin.options('fr.test')) as (server, _):
            told = Listener(server, 'told')
            for domain, kind in (('en.test', 'title'), ('fr.test', 'other'), ('no.test', 'other')):
                name = f'change_events_total{{named="{kind}"}}'
                before = figure(server, name)
                event = {'$schema': '/resource_change/1.0.0', 'meta': {
                    'stream': 'resource_change', 'id': '4f533261-e5f8-11f1-bc4a-ad5383df5814', 'domain': domain,
                    'uri': f'http://{domain}/wiki/A'}, 'page_title': 'A'}
                eq(told.request('POST', '/v1/events', body=event).status, 201, domain)
                wait_until(lambda: figure(server, name) == before + 1, f'{domain} is {kind}')  # pylint: disable=cell-var-from-loop


@scene
def producers_produce_and_do_no_more(binary):
    with listening(binary) as (server, listeners):
        create(server, 'q')
        produce(server, 'q', 'one')
        body = {'queue_name': 'q', 'request_timeout': '1m', 'items': [{'bytes': 'dHdv'}]}
        eq(listeners['queue'].request('POST', '/v1/queue.produce', body=body).status, 200)
        for name in ('queue.lease', 'queues.list', 'queue.stats', 'queue.clear', 'lease.take'):
            same_as_unknown(listeners['queue'], 'POST', f'/v1/{name}', None, b'{}')
        same_as_unknown(listeners['public'], 'POST', '/v1/queue.produce', None, b'{}')


@scene
def a_key_is_not_asked_for_where_nothing_is(binary):
    with listening(binary, '--set', 'auth=internal') as (server, _):
        token = json.loads(server.request('POST', '/v1/admin.tokens', body={'roles': ['Admin']}).body)['key']
        eq(server.request('POST', '/v1/admin.door', body={'open': False}).status, 200)
        server.restart(*options(), '--set', 'auth=internal', '--set', 'listeners.public.listen=0.0.0.0:0')
        port = int(server.wait_line('public on http://').rpartition(':')[2])
        server.host, main_port, server.port = '127.0.0.1', server.port, port
        public = server
        for headers in (None, {'Authorization': 'Bearer x'}, {'Authorization': f'Bearer {token}'}):
            for path in ('/en.test/v1/mobile/html/A', '/fr.test/v1/page/html/A', '/v1/queue.produce', '/v1/admin.tokens'):
                if not path.startswith('/v1/'):     # an unknown one there asks for a good key first
                    same_as_unknown(public, 'GET', path, headers)
                same_as_unknown(public, 'POST', path, headers, b'{}')
        server.port = main_port


@scene
def unix_and_inherited_listeners_show_as_much(binary):
    with tempfile.TemporaryDirectory() as folder, bound(socket.AF_INET, ('127.0.0.1', 0)) as tcp, \
            bound(socket.AF_INET, ('127.0.0.1', 0)) as other:
        args = ['--listen', '127.0.0.1:0', '--set', f'listeners.part.listen=unix:{folder}/s', '--set', 'listeners.part.routes=page.get,health',
                '--set', 'listeners.part.buckets=page/html']
        with Handed(binary, folder, [tcp, other], *args, names='part:rest') as server:
            eq(server.line().partition(' on ')[0], 'listening')
            eq(server.line(), f'listening on http://127.0.0.1:{other.getsockname()[1]}')
            eq(server.line(), f'part on unix:{folder}/s')
            eq(server.line(), f'part on http://127.0.0.1:{tcp.getsockname()[1]}')
            for kind, at in ((socket.AF_INET, tcp.getsockname()), (socket.AF_UNIX, f'{folder}/s'), (socket.AF_INET, other.getsockname())):
                every = at == other.getsockname()
                for path, status in (('/healthz', 200), ('/metrics', 404), ('/localhost/v1/page/html/A', 404), ('/localhost/v1/mobile/html/A', 404)):
                    with connected(kind, at) as client:
                        ask(client, 'GET', path)
                        got, body = answer(client)
                        eq(got, 200 if every and path == '/metrics' else status, path)
                        shown = every or 'mobile' not in path and path != '/metrics'
                        eq(b'not_found#route' in body, not shown, path)
            server.process.terminate()
            eq(server.ends(), 0)


@scene
def a_change_waits_for_a_restart(binary):
    with Server(binary) as server:
        path = server.folder / 'c.yaml'
        path.write_text('listeners: { part: { listen: "127.0.0.1:0", routes: [page, health] } }\n')
        server.restart('--config', str(path))
        eq(Listener(server, 'part').request('GET', '/metrics').status, 404)
        path.write_text('listeners: { part: { listen: "127.0.0.1:0", routes: [page, health, metrics] } }\n')
        server.signal(1)
        wait_until(lambda: 'reload.done' in server.stderr(), 'it reads the options again')
        check('option=listeners.part.routes' in server.stderr(), server.stderr())
        eq(Listener(server, 'part').request('GET', '/metrics').status, 404)


@scene
def words_that_nothing_is_called_are_refused(binary):
    for option, why in (('routes=pages', '"pages" is no route; first words of routes are: page, '),
                        ('routes=page.gets', '"page.gets" is no route; there are: page.put, '),
                        ('routes=change.purge', '"change.purge" is shown by change.purge_listen alone'),
                        ('domains=fr.test', '"fr.test" is no domain of this server; there are: localhost'),
                        ('buckets=mobile/html', '"mobile/html" is in no bucket; there are: page, '),
                        ('rotes=page', 'there is no such option')):
        name = f'listeners.part.{option.partition("=")[0]}'
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([binary, 'serve', '--data', f'{folder}/d', '--listen', '127.0.0.1:0', '--set',
                                   'listeners.part.listen=127.0.0.1:0', '--set', f'listeners.part.{option}'], capture_output=True, text=True,
                                  timeout=EXIT_TIMEOUT, check=False)
        eq((done.returncode, done.stdout), (2, ''))
        check(f'command line: {name}: {why}' in done.stderr, done.stderr)


main()
