"""Goal: bytes on a socket that two readers could understand differently, or that come slowly, or are too many, do the
whole program no harm: each is refused as documented, and the next client is served.
Method: raw sockets against the binary; a request for a page rides behind each bad head and must not be answered."""
import http.client
import json
import resource
import select
import socket
import threading
import time

from harness import REQUEST_TIMEOUT, Server, check, eq, main, scene, wait_until
from queue_help import create

PAGE = '/localhost/v1/page/html/A'
BEHIND = b'GET ' + PAGE.encode() + b' HTTP/1.1\r\nHost: b\r\nX-Request-Id: smuggled\r\n\r\n'
GET = b'GET ' + PAGE.encode() + b' HTTP/1.1\r\n'
PUT = b'PUT ' + PAGE.encode() + b'/2 HTTP/1.1\r\nHost: a\r\nContent-Type: text/html\r\n'
MANY = 10000
SLOW, SLOW_LEAST, SLOW_HEAD_S, SLOW_CUT_S = 2000, 200, 4, 30
BESIDE_FDS = 500        # of this process and the server, beside the connections

SHAPES = {
    'two Content-Length': PUT + b'Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc',
    'two Content-Length that differ': PUT + b'Content-Length: 3\r\nContent-Length: 100\r\n\r\nabc',
    'a list of lengths': PUT + b'Content-Length: 3, 3\r\n\r\nabc',
    'a signed length': PUT + b'Content-Length: +3\r\n\r\nabc',
    'length and coding': PUT + b'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'two codings': PUT + b'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n',
    'another coding': PUT + b'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    'a list of codings': PUT + b'Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'a blank before the colon': PUT + b'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
    'a folded line': PUT + b'X-A: b\r\n Content-Length: 3\r\n\r\nabc',
    'a name in two lines': PUT + b'Content-: 3\r\n Length\r\n\r\nabc',
    'chunked in HTTP/1.0': PUT.replace(b'1.1', b'1.0') + b'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'two Host': GET + b'Host: a\r\nHost: b\r\n\r\n',
    'no Host': GET + b'X-A: b\r\n\r\n',
    'a bare CR': GET + b'Host: a\r\nX-A: b\rX-C: d\r\n\r\n',
    'a bare LF': GET + b'Host: a\nX-A: b\r\n\r\n',
    'a NUL': GET + b'Host: a\r\nX-A: b\0c\r\n\r\n',
    'a control byte': GET + b'Host: a\r\nX-A: b\x01\r\n\r\n',
    'a name with a blank': GET + b'Host: a\r\nX A: b\r\n\r\n',
    'an absolute form of a user': b'GET http://u@a' + GET[4:] + b'Host: a\r\n\r\n',
    'an absolute form without Host': b'GET http://a' + GET[4:] + b'\r\n',
    'a body with GET': GET + b'Host: a\r\nContent-Length: 3\r\n\r\nabc',
    'chunks with GET': GET + b'Host: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'a blank in the target': b'GET /a b HTTP/1.1\r\nHost: a\r\n\r\n',
    'no version': b'GET ' + PAGE.encode() + b'\r\n\r\n',
}


def put_page(server):
    eq(server.request('PUT', PAGE + '/1', {'content-type': 'text/html'}, b'page').status, 201)


def still_serves(server):
    eq(server.request('GET', PAGE).body, b'page')


@scene
def smuggling_shapes_are_refused_and_the_connection_ends(binary):
    with Server(binary) as server:
        put_page(server)
        for name, head in SHAPES.items():
            got = server.raw(head + BEHIND)
            check(got == b'' or got.startswith(b'HTTP/1.1 400 '), f'{name}: {got[:100]}')
            check(b'HTTP/1.1 200' not in got and b'HTTP/1.1 201' not in got, f'{name}: something behind was answered')
        still_serves(server)
        eq(server.request('GET', PAGE + '/2').status, 404, 'nothing was stored')


@scene
def a_refused_head_is_told_as_a_problem(binary):
    with Server(binary) as server:
        head, _, body = server.raw(SHAPES['two Host']).partition(b'\r\n\r\n')
        check(b'\r\ncontent-type: application/problem+json' in head.lower(), head)
        check(b'\r\nconnection: close' in head.lower(), head)
        problem = json.loads(body)
        eq((problem['status'], problem['uri']), (400, PAGE))
        check('Host' in problem['detail'], problem)


@scene
def a_length_beyond_all_numbers_is_413_whatever_the_path(binary):
    with Server(binary) as server:
        put_page(server)
        for path in ('/localhost/v1/page/html/B/1', '/localhost/v1/page/all/B/1', '/v1/queue.produce', '/v1/queues.list', '/v1/no.such',
                     '/v1/', '/v1/events', '/v1/admin.stores', '/v1/servers.push', '/localhost/v1/table/t/put', '/nowhere', '/'):
            for length in (b'9223372036854775808', b'18446744073709551616', b'9' * 100):
                got = server.raw(b'POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\n\r\n' % (path.encode(), length) + BEHIND)
                check(got.startswith(b'HTTP/1.1 413 ') and got.count(b'HTTP/1.1 ') == 1, f'{path}: {got[:100]}')
                check(b'Content-Length is larger than any body may be' in got, f'{path}: {got}')
        still_serves(server)


@scene
def an_absolute_form_is_its_path_at_its_own_host(binary):
    with Server(binary) as server:
        put_page(server)
        got = server.raw(b'GET http://a:1' + GET[4:] + b'Host: b\r\nConnection: close\r\n\r\n')
        check(got.startswith(b'HTTP/1.1 200 ') and got.endswith(b'page'), got[:100])
        put = (b'PUT http://localhost:1' + PUT[4:]
               + b'Origin: http://%s\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc')
        check(server.raw(put % b'a').startswith(b'HTTP/1.1 403 '), 'what Host says does not count')
        check(server.raw(put % b'localhost:1').startswith(b'HTTP/1.1 201 '), 'the target does')


@scene
def pipelined_requests_are_answered_in_order(binary):
    with Server(binary) as server:
        put_page(server)
        got = server.raw(BEHIND + PUT + b'Content-Length: 3\r\n\r\nabc' + BEHIND
                         + b'GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
        statuses = [line.split(b' ')[1] for line in got.split(b'\r\n') if b'HTTP/1.1 ' in line]
        eq(len(statuses), 4, got)
        eq(statuses[:2], [b'200', b'201'])
        check(b'abc' in got, 'the page put in between is read behind it')


@scene
def slow_heads_bodies_and_readers_are_cut(binary):
    with Server(binary, '--set', 'http.head_timeout=3s', '--set', 'http.body_bytes_per_s_min=10k') as server:
        put_page(server)
        starts = [GET + b'Host: a\r\n', GET[:9], PUT + b'Content-Length: 100000\r\n\r\nabc']
        peers = [server.connect() for _ in starts]
        for peer, start in zip(peers, starts):
            peer.sendall(start)
        for peer, start in zip(peers, starts):
            try:
                eq(peer.recv(1), b'', start)
            except ConnectionError:
                pass
            peer.close()
        still_serves(server)


@scene
def large_heads_are_refused_and_the_promised_ones_read(binary):
    with Server(binary) as server:
        put_page(server)
        for size, wanted in ((15000, b'200'), (20000, b'431'), (25000, b'431')):
            got = server.raw(GET + b'Host: a\r\nConnection: close\r\nX-A: ' + b'v' * size + b'\r\n\r\n')
            check(got.startswith(b'HTTP/1.1 ' + wanted), f'{size}: {got[:60]}')
        still_serves(server)


@scene
def a_query_of_many_pieces_is_read_as_any_other(binary):
    with Server(binary) as server:
        put_page(server)
        for count in (100, 500, 7000):
            target = PAGE.encode() + b'?' + b'a&' * count + b'at=x'
            got = server.raw(b'GET ' + target + b' HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
            check(got.startswith(b'HTTP/1.1 400 ') and b'#invalid_instant' in got, f'{count}: {got[:60]}')
            still_serves(server)


@scene
def expect_continue_is_refused_before_the_body(binary):
    with Server(binary) as server:
        got = server.raw(PUT + b'Expect: 100-continue\r\nContent-Length: 1000000000000\r\n\r\n')
        check(got.startswith(b'HTTP/1.1 413 '), got[:60])
        with server.connect() as peer:
            peer.sendall(PUT + b'Expect: 100-continue\r\nContent-Length: 3\r\n\r\n')
            check(peer.recv(1000).startswith(b'HTTP/1.1 100 '), 'go on')
            peer.sendall(b'abc')
            check(peer.recv(10000).startswith(b'HTTP/1.1 201 '), 'stored')


@scene
def ten_thousand_idle_connections_hold(binary):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = min(MANY, hard - BESIDE_FDS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    peers = []
    with Server(binary, '--set', f'http.connections_max={many}') as server:
        put_page(server)
        try:
            peers = [server.connect() for _ in range(many - 10)]
            still_serves(server)
            for peer in (peers[0], peers[-1]):
                peer.sendall(BEHIND)
                check(peer.recv(10000).startswith(b'HTTP/1.1 200 '), 'an idle one is served too')
            for peer in peers:
                peer.setblocking(False)
            check(not any(ended(peer) for peer in peers), 'none was cut')
        finally:
            for peer in peers:
                peer.close()
        wait_until(lambda: server.request('GET', '/healthz').status == 200, 'served afterwards')
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Reader(threading.Thread):
    """Asks for the page until told to stop, over a connection that it keeps and, now and then, over a new one."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.enough, self.answers, self.wrong = server, threading.Event(), 0, ''
        self.start()

    def run(self):
        kept = http.client.HTTPConnection(self.server.host, self.server.port, timeout=REQUEST_TIMEOUT)
        while not self.enough.is_set() and not self.wrong:
            try:
                kept.request('GET', PAGE)
                got = kept.getresponse()
                said = (got.status, got.read())
                if said == (200, b'page') and self.answers % 10 == 0:
                    said = self.server.request('GET', PAGE)[::2]
                self.wrong = '' if said == (200, b'page') else str(said)
            except (OSError, http.client.HTTPException) as error:
                self.wrong = repr(error)
            self.answers += 1
        kept.close()


def feed(peers, poll):
    """A byte of its head a round to each connection, until all are cut: how long each was open."""
    head = GET + b'Host: a\r\nX-A: '
    begun, lived, sent = {}, {}, 0
    deadline = time.monotonic() + SLOW_CUT_S
    while peers:
        check(time.monotonic() < deadline, f'{len(peers)} heads were not cut')
        byte = head[sent:sent + 1] or b'v'
        for fd, peer in peers.items():
            begun.setdefault(fd, time.monotonic())
            try:
                peer.send(byte)
            except ConnectionError:
                pass        # poll tells
        sent += 1
        for fd, _ in poll.poll(0):
            try:
                eq(peers[fd].recv(100), b'', 'a cut head has no answer')
            except ConnectionError:
                pass
            lived[fd] = time.monotonic() - begun[fd]
            poll.unregister(fd)
            del peers[fd]
    return list(lived.values())


@scene
def two_thousand_slow_heads_are_cut_and_hold_up_nobody(binary):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = min(SLOW, hard - BESIDE_FDS)
    if many < SLOW_LEAST:
        print(f'skipped two_thousand_slow_heads_are_cut_and_hold_up_nobody: RLIMIT_NOFILE is {hard}')
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Server(binary, '--set', f'http.connections_max={many + BESIDE_FDS}', '--set', f'http.head_timeout={SLOW_HEAD_S}s') as server:
        put_page(server)
        peers, poll = [], select.poll()
        readers = [Reader(server) for _ in range(4)]
        try:
            peers = [server.connect() for _ in range(many)]
            for peer in peers:
                poll.register(peer, select.POLLIN)
            before = [reader.answers for reader in readers]
            lived = feed({peer.fileno(): peer for peer in peers}, poll)
        finally:
            for reader in readers:
                reader.enough.set()
            for peer in peers:
                peer.close()
        for reader, had in zip(readers, before):
            reader.join(REQUEST_TIMEOUT)
            eq(reader.wrong, '', f'a reader, after {reader.answers} answers')
            check(reader.answers > had, 'a reader was answered while there were slow heads')
        eq(len(lived), many)
        check(min(lived) > SLOW_HEAD_S * 0.9, f'one was cut after {min(lived)} s')
        still_serves(server)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ended(peer):
    try:
        return peer.recv(1, socket.MSG_PEEK) == b''
    except BlockingIOError:
        return False


@scene
def every_answer_names_its_request(binary):
    with Server(binary) as server:
        put_page(server)
        value, table = '/localhost/v1/key_value/made', '/localhost/v1/table/rows'
        create(server, 'q')
        json_type = {'content-type': 'application/json'}
        plan = [
            ('OPTIONS', PAGE, None, None, 204), ('OPTIONS', '/nowhere', None, None, 404), ('PURGE', PAGE, None, None, None),
            ('HEAD', PAGE, None, None, 200), ('PATCH', PAGE, None, None, 405), ('DELETE', PAGE, None, None, None),
            ('PUT', PAGE + '/2', {'content-type': 'text/html'}, b'page', 201), ('GET', PAGE + 'B', None, None, 404),
            ('PUT', value, None, None, 201), ('PUT', value + '/a', None, b'b', 201), ('GET', value + '/a', None, None, 200),
            ('DELETE', value + '/a', None, None, 204), ('GET', value + '/a', None, None, 404),
            ('PUT', table, json_type, b'{', 400), ('POST', '/v1/queues.list', json_type, b'{}', 200),
            ('POST', '/v1/queue.stats', json_type, b'{"queue_name":"q"}', 200),
            ('POST', '/v1/queue.lease', json_type, b'{"queue_name":"none"}', None), ('GET', '/v1/admin.tokens', None, None, 200),
            ('GET', '/healthz', None, None, 200), ('GET', '/metrics', None, None, 200), ('GET', '/', None, None, 200)]
        for named in (False, True):     # first without: an answer is made ready at the second
            for method, target, headers, body, status in plan:
                got = server.request(method, target, {**(headers or {}), **({'X-Request-Id': 'mine'} if named else {})}, body)
                name = got.headers.get_all('X-Request-Id') or []
                check(named or status in (None, got.status), f'{method} {target}: {got.status} {got.body[:200]}')
                eq(len(name), 1, f'{method} {target}: {got.status} {got.headers}')
                eq(name == ['mine'], named, f'{method} {target}: {name}')
        ready = [server.request('GET', PAGE).headers.get_all('X-Request-Id') for _ in range(4)]
        eq(ready[-1], None, 'a ready answer is sent unchanged')


main()
