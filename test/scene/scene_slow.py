"""Goal: an operator sees which requests were slow, and in which stage their time went.
Method: a server whose wiki holds a render; afterwards a thousand fast requests, and what the admin route and the command
line say."""
import concurrent.futures
import json
import re
import socket
import time

from cli import Client
from harness import REQUEST_TIMEOUT, Server, check, eq, main, scene, wait_until
from origin import Origin
from queue_help import create, nothing_to_lease

HELD_S = 0.3
FAST = 1000


def slow(server, query=''):
    got = server.json('GET', f'/v1/admin.slow{query}')
    eq((got.status, got.headers['Cache-Control']), (200, 'no-store'))
    return got.body['slow']


def hold(origin, server, target, headers=None):
    """A render that its wiki holds for HELD_S. The answer."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool, origin.gate('render') as gate:
        answer = pool.submit(server.request, 'GET', target, headers)
        wait_until(lambda: gate.waiting == 1, 'it is being made')
        until = time.monotonic() + HELD_S
        wait_until(lambda: time.monotonic() >= until, 'the wiki was slow')
        gate.open()
        got = answer.result(60)
        eq(got.status, 200)
        return got


@scene
def a_slow_render_is_shown_with_its_stages_in_order(binary):
    with Origin() as origin:
        origin.page('A', (1, 'first'))
        origin.page('Fast', (2, 'fast'))
        with Server(binary, *origin.options('localhost')) as server:
            answer = hold(origin, server, '/localhost/v1/page/html/A?x=y', {'X-Request-Id': 'of-mine'})
            for _ in range(FAST):
                eq(server.request('GET', '/localhost/v1/page/html/Fast').status, 200)
            first = slow(server)[0]
            eq((first['method'], first['path'], first['status'], first['bytes'], first['request_id']),
               ('GET', '/localhost/v1/page/html/A', 200, len(answer.body), 'of-mine'))
            check(first['us'] >= HELD_S * 1e6, first)
            stages = [event['stage'] for event in first['events']]
            eq((stages[0], stages[-3:], first['events_lost']), ('head', ['answered', 'send', 'sent'], 0))
            order = [stages.index(stage) for stage in ('head', 'deferred', 'answered', 'send', 'sent')]
            eq(order, sorted(order), stages)
            times = [event['us'] for event in first['events']]
            eq(times, sorted(times))
            waited = max(zip((b - a for a, b in zip(times, times[1:])), stages[1:]))
            check(waited[0] >= HELD_S * 1e6 * 0.9, f'the time went in one stage: {first}')
            check(all(event['thread'] for event in first['events']), first)
            eq(len(slow(server, '?limit=1')), 1)
            client = Client(binary, server)
            eq([one['request_id'] for one in client.json('slow', 'ls', '-n', '1')[0]['slow']], ['of-mine'])
            lines = client.ok('slow', 'ls').splitlines()
            check('/localhost/v1/page/html/A' in lines[1] and 'of-mine' in lines[1], lines)
            check(re.search(rf'{waited[1]} +0\.[3-9]|{waited[1]} +[1-9]', lines[1]), lines)
            eq(client('slow', 'ls', '-n', '257').returncode, 2)
            took = [one['us'] for one in slow(server)]
            eq(took, sorted(took, reverse=True))
            eq(server.request('GET', '/v1/admin.slow?limit=0').status, 400)


@scene
def who_waits_for_items_and_keys_of_values_are_not_shown(binary):
    with Server(binary) as server:
        create(server, 'q')
        nothing_to_lease(server, 'q', timeout='300ms')
        eq(server.request('PUT', '/localhost/v1/key_value/made').status, 201)
        for i in range(20):
            eq(server.request('PUT', f'/localhost/v1/key_value/made/hidden{i}', body=b'secret').status, 201)
        paths = [one['path'] for one in slow(server)]
        check('/v1/queue.lease' not in paths, 'it waited on purpose')
        check(all('hidden' not in path for path in paths), paths)


@scene
def a_long_list_comes_in_pieces_and_is_whole(binary):
    """The list goes out as it is written: about 8 KiB at a time."""
    with Server(binary) as server:
        for i in range(1, 121):
            put = server.request('PUT', f'/localhost/v1/page/html/{"n" * 200}{i}/1', {'Content-Type': 'text/html'}, b'<p>x' * 50000)
            eq(put.status, 201)
        got = server.request('GET', '/v1/admin.slow?limit=120')
        eq((got.headers.get('Transfer-Encoding'), got.headers.get('Content-Length'), got.headers['Content-Type']),
           ('chunked', None, 'application/json; charset=utf-8'))
        eq(len(got.headers.get_all('X-Request-Id')), 1)
        listed = json.loads(got.body)['slow']
        check(len(got.body) > 3 * 8192, f'several pieces: {len(got.body)} bytes, {len(listed)} requests')
        head = server.request('HEAD', '/v1/admin.slow')
        eq((head.status, head.headers.get('Transfer-Encoding'), head.body), (200, 'chunked', b''))
        first, body = server.raw(b'GET /v1/admin.slow?limit=120 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n').split(b'\r\n\r\n', 1)
        check(b'Transfer-Encoding' not in first and b'Connection: close' in first, first)
        eq(len(json.loads(body)['slow']), len(listed))


@scene
def slow_requests_are_for_administrators(binary):
    with Server(binary, '--admin-listen', '127.0.0.1:0') as server:
        eq(server.request('GET', '/v1/admin.slow').status, server.request('GET', '/v1/admin.nothing').status,
           'the admin listener alone has it')
        eq(Client(binary, server)('slow', 'ls').returncode, 6)


def put_slowly(server, target, fields=''):
    """A PUT whose body takes a while; its status."""
    with socket.create_connection(('127.0.0.1', server.port), REQUEST_TIMEOUT) as peer:
        peer.sendall(f'PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Type: text/html\r\nContent-Length: 2\r\n'
                     f'Connection: close\r\n{fields}\r\na'.encode())
        until = time.monotonic() + HELD_S
        wait_until(lambda: time.monotonic() >= until, 'the body is slow')
        peer.sendall(b'b')
        got = peer.recv(100)
        while peer.recv(1 << 16):
            pass
        return int(got.split()[1])


@scene
def who_is_turned_away_does_not_push_others_out(binary):
    with Server(binary) as server:
        eq(put_slowly(server, '/nowhere'), 404)
        eq(put_slowly(server, '/healthz'), 405)
        eq(put_slowly(server, '/localhost/v1/page/html/Forbidden/1', 'Origin: http://elsewhere.test\r\n'), 403)
        eq(put_slowly(server, '/localhost/v1/page/html/A/1'), 201)
        wait_until(lambda: any(one['us'] >= HELD_S * 1e6 for one in slow(server)), 'the last is shown')
        eq([one['path'] for one in slow(server) if one['us'] >= HELD_S * 1e6], ['/localhost/v1/page/html/A/1'])


main()
