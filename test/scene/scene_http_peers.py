"""Goal: other readers of HTTP see the requests that our server sees, and no more of them. What h11 refuses the server
refuses; what the server accepts h11 reads as the same requests with the same bodies. Behind nginx and haproxy the server
sees as many requests as they forwarded.
Method: a table of streams, and mutations of fine ones, go to the server and to h11. The access log says what the server
read, and what a PUT stored says which body it took. Then the table goes through the proxies, which are set to let odd
requests through, and their logs are held against the server's."""
import collections
import contextlib
import os
import random
import re
import signal
import socket
import sys

from harness import REQUEST_TIMEOUT, Server, check, eq, free_port, main, scene, wait_until
from list_help import Process

try:
    import h11
except ImportError:
    if sys.executable == '/usr/bin/python3' or not os.access('/usr/bin/python3', os.X_OK):
        sys.exit('python3-h11 is missing')
    os.execv('/usr/bin/python3', ['/usr/bin/python3', *sys.argv])

MUTATIONS, SEED = 1500, int(os.environ.get('PEERS_SEED', '9112'))
REFUSED = {0, 400, 413, 414, 431, 501, 505}
EMPTY_LINES = 2         # that may stand before a request: h11 takes none
PAGE = b'/localhost/v1/page/html/%b'
HOST = b'Host: localhost\r\n'
CHUNKED = b'Transfer-Encoding: chunked\r\n'
BODY = b'3\r\nabc\r\n0\r\n\r\n'
LENGTH = b'Content-Length: 3\r\n'


def get(mark, fields=b'', target=PAGE, version=b'1.1'):
    return b'GET ' + target % mark + b' HTTP/' + version + b'\r\n' + HOST + fields + b'\r\n'


def put(mark, fields, body, version=b'1.1'):
    return (b'PUT ' + PAGE % mark + b'/1 HTTP/' + version + b'\r\n' + HOST + b'Content-Type: text/plain\r\n'
            + fields + b'\r\n' + body)


def chunks(body, size=7, extension=b''):
    pieces = [body[at:at + size] for at in range(0, len(body), size)]
    return b''.join(b'%x%b\r\n%b\r\n' % (len(piece), extension, piece) for piece in pieces) + b'0\r\n'


LONG = bytes(range(256)) * 300
# Both read these, to their end.
FINE = {
    'get': get(b'a'),
    'four': get(b'a') + put(b'b', LENGTH, b'abc') + get(b'c') + put(b'd', b'content-length:0\r\n', b''),
    'no body': put(b'a', b'', b''),
    'a long body': put(b'a', b'Content-Length: %d\r\n' % len(LONG), LONG) + get(b'b'),
    'a body like a request': put(b'a', b'Content-Length: %d\r\n' % len(get(b'no')), get(b'no')) + get(b'b'),
    'leading zeros': put(b'a', b'Content-Length: 0003\r\n', b'abc') + get(b'b'),
    'chunks': put(b'a', CHUNKED, chunks(LONG) + b'\r\n') + get(b'b') + put(b'c', CHUNKED, BODY) + put(b'd', LENGTH, b'abc'),
    'no chunks': put(b'a', CHUNKED, b'0\r\n\r\n') + put(b'b', CHUNKED, BODY) + get(b'c'),
    'chunks like a request': put(b'a', CHUNKED, chunks(get(b'no'), 1000) + b'\r\n') + get(b'b'),
    'chunks of no route': put(b'a', CHUNKED, BODY).replace(b'PUT', b'POST') + get(b'b'),
    'chunks with extensions': put(b'a', CHUNKED, chunks(LONG, 1000, b';a=b;c="d e"') + b'\r\n'),
    'upper case chunks': put(b'a', b'TRANSFER-ENCODING: CHUNKED\r\n', b'00A\r\n0123456789\r\n000\r\n\r\n') + get(b'b'),
    'trailers': put(b'a', CHUNKED, chunks(b'abc') + b'X-A: b\r\nX-C: d\r\n\r\n'),
    'expectations': put(b'a', b'Expect: 100-continue\r\n' + LENGTH, b'abc') + get(b'b', b'Expect: 100-continue\r\n'),
    'keep-alive of 1.0': get(b'a', b'Connection: keep-alive\r\n', version=b'1.0') + get(b'b', version=b'1.0'),
    'a body of 1.0': put(b'a', LENGTH, b'abc', version=b'1.0'),
    'tokens': get(b'a', b'Connection: x, close2\r\n') + get(b'b', b'Connection: x , CLOSE\r\n'),
    'an upgrade': get(b'a', b'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n'),
    'odd values': get(b'a', b'X-A:\tb\tc \r\nX-B:\r\nX-C: \xff\xfe\r\n~!#$%&\'*+-.^_`|: x\r\n'),
    'an absolute form': get(b'a', target=b'http://localhost' + PAGE) + get(b'b'),
    'blanks behind a length': (put(b'a', b'Content-Length: 3 \t\r\n', b'abc')
                               + put(b'b', b'Content-Length:\t3\t\r\n', b'abc') + get(b'c')),
    'blanks behind a coding': put(b'a', b'Transfer-Encoding:\tchunked \t\r\n', chunks(LONG) + b'\r\n'),
    'blanks behind a host': get(b'a').replace(HOST, b'Host:\t localhost \t\r\n') + get(b'b'),
    'blanks around tokens': get(b'a', b'Connection:  x\t,\ty \t\r\n') + get(b'b', b'Connection: x ,\tCLOSE \t\r\n'),
    'an underscore': put(b'a', b'Content_Length: 9\r\nTransfer_Encoding: chunked\r\n' + LENGTH, b'abc') + get(b'b'),
}


# Behind these nothing more is read.
LAST = {'chunks with extensions', 'trailers', 'blanks behind a coding'}


def fielded(line, fields=b'', body=BODY):
    return put(b'a', fields + line + b'\r\n', body)


# What two readers could read differently. Who refuses is free here; nobody may see a request that another does not.
SHAPES = {
    **{f'coding {coding}': fielded(b'Transfer-Encoding: ' + coding)
       for coding in (b'chunked,', b',chunked', b'chunked;a=b', b'"chunked"', b'identity', b'gzip, chunked', b'xchunked',
                      b'chunked, chunked', b'chunked, identity', b'', b'\x0bchunked', b'chunked\x0b', b'chunked\0',
                      b'chunked\r')},
    **{f'coding line {line}': fielded(line, LENGTH, b'abc')
       for line in (b'Transfer-Encoding : chunked', b'Transfer-Encoding\t: chunked', b' Transfer-Encoding: chunked',
                    b'X: a\nTransfer-Encoding: chunked', b'X: a\rTransfer-Encoding: chunked', b'X: a\r\n b: c',
                    b'Transfer-Encoding:\r\n chunked', b'Transfer-Encoding\0: chunked', b'\xffTransfer-Encoding: chunked',
                    b'Transfer-Encoding chunked', b': chunked', b'Transfer-Encoding\x0b: chunked', b'\0: a',
                    b'Transfer-Encoding: chunked', b'Content-Length: 0', b'Content-Length: 3', b'Content-Length: 60')},
    'coding twice': fielded(CHUNKED + CHUNKED[:-2]),
    'coding of 1.0': put(b'a', CHUNKED, BODY, version=b'1.0'),
    'coding, then length': put(b'a', CHUNKED + LENGTH, BODY),
    **{f'length {length}': put(b'a', b'Content-Length: ' + length + b'\r\n', b'abc')
       for length in (b'+3', b'-3', b'3,3', b'3, 3', b'0x3', b'3.0', b'3e0', b'', b'3 3', b'"3"', b'3\0', b'3;', b'3_0',
                      b'18446744073709551619', b'9223372036854775811', b'\xb3', b'3\x0b')},
    **{f'chunks {body[:30]}': put(b'a', CHUNKED, body)
       for body in (b'3 \r\nabc\r\n0\r\n\r\n', b' 3\r\nabc\r\n0\r\n\r\n', b'3\nabc\r\n0\r\n\r\n', b'3\r\nabc\n0\r\n\r\n',
                    b'3\r\nabc\r\n0\n\r\n', b'3\r\nabc\r\n0\r\n\n', b'3\rabc\r0\r\r', b'3\r\r\nabc\r\n0\r\n\r\n',
                    b'0x3\r\nabc\r\n0\r\n\r\n', b'+3\r\nabc\r\n0\r\n\r\n', b'\r\nabc\r\n0\r\n\r\n', b';a\r\nabc\r\n0\r\n\r\n',
                    b'10000000000000003\r\nabc\r\n0\r\n\r\n', b'8000000000000003\r\nabc\r\n0\r\n\r\n',
                    b'3\r\nabcd\r\n0\r\n\r\n', b'3\r\nabc0\r\n\r\n', b'3;a\nb\r\nabc\r\n0\r\n\r\n', b'3;a\rb\r\nabc\r\n0\r\n\r\n',
                    b'3;a\0\r\nabc\r\n0\r\n\r\n', b'3g\r\nabc\r\n0\r\n\r\n', b'2;\n7\r\nab\r\n0\r\n\r\n',
                    b'3\r\nabc\r\n0\r\n')},
    **{f'trailer {line}': put(b'a', CHUNKED, b'3\r\nabc\r\n0\r\n' + line + b'\r\n\r\n')
       for line in (b'X : a', b'X\t: a', b' X: a', b'X', b': a', b'X: a\0', b'X: a\nY: b', b'X: a\r\n b', b'X\x80: a',
                    b'GET http://localhost/ HTTP/1.1', b'"X": a')},
    **{f'host {host}': b'GET ' + PAGE % b'a' + b' HTTP/1.1\r\n' + host + b'\r\n'
       for host in (b'', HOST + HOST, HOST + b'Host: b\r\n', b'Host : localhost\r\n', b'\tHost: localhost\r\n',
                    b'Host: a b\r\n', b'Host: a, b\r\n', b'Host: a/b\r\n', b'Host: u@a\r\n', b'Host\0: a\r\n')},
    **{f'line {line}': line + b'\r\n' + HOST + b'\r\n'
       for line in (b'GET ' + PAGE % b'a', b'GET  ' + PAGE % b'a' + b' HTTP/1.1', b'GET ' + PAGE % b'a' + b'  HTTP/1.1',
                    b'GET ' + PAGE % b'a b' + b' HTTP/1.1', b'GET\t' + PAGE % b'a' + b' HTTP/1.1',
                    b'GET ' + PAGE % b'a' + b'\0 HTTP/1.1', b'GET ' + PAGE % b'a' + b' HTTP/1.1 ',
                    b'GET ' + PAGE % b'a' + b' HTTP/1.10', b'GET ' + PAGE % b'a' + b' http/1.1',
                    b'GET ' + PAGE % b'a' + b' HTTP/2.0', b'PRI * HTTP/2.0', b'G@T ' + PAGE % b'a' + b' HTTP/1.1',
                    b'GET http:/' + PAGE % b'a' + b' HTTP/1.1', b'GET localhost HTTP/1.1', b'CONNECT a:80 HTTP/1.1',
                    b'GET ' + PAGE % b'a' + b' HTTP/1.1\r\n', b' GET ' + PAGE % b'a' + b' HTTP/1.1',
                    b'\nGET ' + PAGE % b'a' + b' HTTP/1.1', b'\r\n\r\n\r\nGET ' + PAGE % b'a' + b' HTTP/1.1')},
    'a body with GET': get(b'a', LENGTH) + b'abc',
    'chunks with GET': get(b'a', CHUNKED) + BODY,
    'lines of LF': get(b'a').replace(b'\r\n', b'\n'),
    'a last line of LF': get(b'a')[:-2] + b'\n',
    'a hello of TLS': b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + b'\x0a' * 300,
}
PIECES = [b'\r\n', b'\n', b'\r', b'\0', b' ', b'\t', b':', b';', b',', b'-', b'0', b'\x0b', b'"', b'%', b'\r\n ', b'\r\n\r\n',
          b'\r\r\n', CHUNKED, LENGTH, HOST, b'Connection: close\r\n', b'Expect: 100-continue\r\n', b'HTTP/1.0', b'chunked',
          b'0\r\n\r\n', b'f' * 16, b'GET ', b'http://a', b'5;a=b\r\n', b'identity', b'x' * 200]


def behind():
    """Two more requests. Who takes some hundred bytes of them for a body finds its end, and something behind it."""
    return get(b'behind', b'X-Pad: ' + b'x' * 300 + b'\r\n') + get(b'last', b'Connection: close\r\n')


def mutated(rng):
    """A fine stream with some harm done to its heads, and requests behind it."""
    stream = b''.join(rng.choices(list(FINE.values()), k=rng.choice((1, 1, 2))))
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(min(len(stream), 400))
        stream = rng.choice((
            lambda s, at: s[:at] + rng.choice(PIECES) + s[at:],
            lambda s, at: s[:at] + s[at + rng.choice((1, 2, 20)):],
            lambda s, at: s[:at] + bytes([rng.randrange(128)]) + s[at + 1:],
            lambda s, at: s[:at] + s[at:at + 30] * 2 + s[at + 30:],
            lambda s, at: s[:at] + s[at:].replace(b'\r\n', rng.choice(PIECES), 1)))(stream, at)
    return stream


# ---- the readers

Request = collections.namedtuple('Request', 'method path body')


def read_by_h11(stream):
    """Its requests as far as they are whole, and why it reads no further. Each is read by a parser of its own, as the
    server says itself which is the last of a connection."""
    found = []
    while True:
        for _ in range(EMPTY_LINES):
            stream = stream.removeprefix(b'\r\n')
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        parser.receive_data(stream)
        head, body = None, b''
        try:
            while True:
                event = parser.next_event()
                if isinstance(event, h11.Request):
                    head = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return found, 'more is to come'
        except h11.RemoteProtocolError as error:
            return found, str(error)
        found.append(Request(head.method.decode(), path_of(head.target), body))
        asked = {token.strip().lower() for name, value in head.headers if name == b'connection' for token in value.split(b',')}
        if b'close' in asked or (head.http_version == b'1.0' and b'keep-alive' not in asked):   # h11 keeps none of 1.0
            return found, 'it was the last'
        stream = parser.trailing_data[0]


def path_of(target):
    return re.sub(r'^https?://[^/?]*', '', target.decode('latin-1').partition('?')[0], flags=re.I) or '/'


def exchange(port, stream, name, shut=False):
    """All that comes until the other side closes, as it does after each stream of the table. shut: nothing more is to come."""
    got = b''
    with socket.create_connection(('127.0.0.1', port), REQUEST_TIMEOUT) as peer:
        try:
            peer.sendall(stream)
            if shut:
                peer.shutdown(socket.SHUT_WR)
            while piece := peer.recv(1 << 16):
                got += piece
        except TimeoutError:
            check(False, f'{name}: still open after {got[-200:]}')
        except ConnectionError:
            pass
    return got


Seen = collections.namedtuple('Seen', 'method path status route')


class Log:
    """What the server says it read, in order."""

    LINE = re.compile(r' http\.request method=(\S*) path=("(?:[^"\\]|\\.)*"|\S*) status=(\d+) .* route=(\S+) ')

    def __init__(self, server):
        self.server, self.marks = server, 0
        self.at = 0

    def since(self):
        """The lines since the last call."""
        self.marks += 1
        mark = f'/mark/{self.marks}'
        eq(self.server.request('GET', mark).status, 404)
        with open(self.server.stderr_path, errors='replace') as log:
            def more():
                log.seek(self.at)
                return mark in (text := log.read()) and text
            lines = self.LINE.findall(wait_until(more, f'a line of {mark}'))
            self.at = log.tell()
        return [Seen(method, re.sub(r'\\(.)', r'\1', path.strip('"')), int(status), route)
                for method, path, status, route in lines
                if not path.startswith(('/mark/', '/readyz'))]


def compare(server, log, name, stream, shut=False):
    """What the server made of it, after all is found to be as h11 sees it."""
    exchange(server.port, stream, name, shut)
    seen = log.since()
    # What it read on behind, it had accepted. Without a route nobody asked for the body.
    refused = bool(seen) and (seen[-1].status in REFUSED or seen[-1].route == '""')
    accepted = [(row.method, row.path) for row in seen[:len(seen) - refused]]
    wanted, why = read_by_h11(stream)
    eq(accepted, [(request.method, request.path) for request in wanted][:len(accepted)], f'{name}, h11: {why}: {stream[:300]}')
    stored = {row.path for row in seen if (row.method, row.status) == ('PUT', 201)}
    bodies = collections.Counter(request.path for request in wanted if request.method == 'PUT')
    for request in wanted[:len(accepted)]:
        if request.method == 'PUT' and request.path in stored and bodies[request.path] == 1:
            eq(server.request('GET', request.path).body, request.body, f'{name}: the body of {request.path}')
    log.since()
    return accepted


def renamed(stream, number):
    """Titles of its own, of the same length for all."""
    return stream.replace(b'/html/', b'/html/%05d' % number)


@scene
def h11_sees_the_same_requests(binary):
    with Server(binary, '--set', 'log.access=true') as server:
        log = Log(server)
        for number, (name, stream) in enumerate(FINE.items()):
            stream = renamed(stream, number)
            last = b'' if name in LAST or re.search(b'(?i)1.0\r\n|close\r\n', stream) else behind()
            accepted = compare(server, log, name, stream + last)
            wanted, why = read_by_h11(stream + last)
            eq(len(accepted), len(wanted), f'{name}, h11: {why}: all is read')
        for number, (name, stream) in enumerate(SHAPES.items()):
            compare(server, log, name, renamed(get(b'first') + stream + behind(), 100 + number))


@scene
def h11_sees_the_same_in_mutations(binary):
    rng = random.Random(SEED)
    with Server(binary, '--set', 'log.access=true') as server:
        log = Log(server)
        accepted = 0
        for number in range(MUTATIONS):
            stream = renamed(mutated(rng), number) + behind()
            accepted += len(compare(server, log, f'mutation {number} of seed {SEED}', stream, shut=True))
        check(accepted > MUTATIONS / 2, f'{accepted} requests were accepted at all')


# ---- proxies

class Nginx(Process):
    """In front of one server, over connections that it keeps; what a client sends passes unless nginx itself cannot
    read it. buffers: it has all of a body before it forwards."""

    def __init__(self, port, buffers):
        super().__init__('nginx')
        self.port = free_port()
        user = 'user root;' if os.geteuid() == 0 else ''
        places = ' '.join(f'{kind}_temp_path {self.folder}/{kind};'
                          for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        (self.folder / 'conf').write_text(
            f'{user} worker_processes 1; daemon off; pid {self.folder}/pid; error_log {self.folder}/errors;\n'
            f'events {{ worker_connections 256; }}\n'
            f'http {{ {places} log_format told "$request\t$upstream_addr\t$upstream_status";\n'
            f'access_log {self.folder}/told told; upstream us {{ server 127.0.0.1:{port} max_fails=0; keepalive 4; }}\n'
            f'server {{ listen 127.0.0.1:{self.port}; ignore_invalid_headers off; underscores_in_headers on;\n'
            f'location / {{ proxy_pass http://us; proxy_http_version 1.1; proxy_set_header Connection "";\n'
            f'proxy_request_buffering {"on" if buffers else "off"}; proxy_next_upstream off; }} }} }}\n')
        self.run(['nginx', '-e', self.folder / 'errors', '-c', self.folder / 'conf'])
        self.wait_port(self.port)

    def forwarded(self):
        """The request lines that it forwarded, all so far, in order. It may be writing the last one."""
        whole, _, _ = (self.folder / 'told').read_text(errors='replace').rpartition('\n')
        lines = [line.split('\t') for line in whole.splitlines()]
        return [line for line, address, _ in lines if address != '-']

    def close(self):
        self.end(signal.SIGTERM)
        super().close()


class Haproxy(Process):
    """The same by haproxy. It tells what it did in datagrams."""

    def __init__(self, port, accepts_invalid):
        super().__init__('haproxy')
        self.port, self.told = free_port(), []
        self.log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.log.bind(str(self.folder / 'told'))
        self.log.setblocking(False)
        odd = ' option accept-invalid-http-request\n' if accepts_invalid else ''
        (self.folder / 'conf').write_text(
            f'global\n nbthread 1\n log {self.folder}/told format raw local0\n'
            f'defaults\n mode http\n log global\n timeout client 60s\n timeout server 60s\n timeout connect 60s\n'
            f' retries 0\n http-reuse always\n log-format "%s\t%ST\t%r"\n{odd}'
            f'listen us\n bind 127.0.0.1:{self.port}\n server palimpsest 127.0.0.1:{port}\n')
        self.run(['haproxy', '-db', '-f', self.folder / 'conf'])
        self.wait_port(self.port)

    def forwarded(self):
        try:
            while True:
                self.told.append(self.log.recv(1 << 16).decode('latin-1').rstrip('\n').split('\t'))
        except BlockingIOError:
            return [line for name, _, line in self.told if name == 'palimpsest']

    def close(self):
        self.log.close()
        super().close()


def mark_of(text):
    """The title, which is of one stream alone; requests without one are only counted."""
    found = re.search(r'/html/(\d{5}\w*)', text)
    return found.group(1) if found else 'no title'


def hold_against(server, log, proxy, streams):
    """What the server saw of all streams is what the proxy forwarded."""
    for number, (name, stream) in enumerate(streams.items()):
        exchange(proxy.port, renamed(get(b'first') + stream + behind(), number), name)
        proxy.forwarded()       # or its datagrams would find no room
    eq(server.request('GET', '/healthz').status, 200)
    seen = [mark_of(row.path) for row in log.since() if row.path != '/healthz']
    told = wait_until(lambda: len(lines := proxy.forwarded()) >= len(seen) and lines, f'all of {len(seen)} is logged')
    told = [mark_of(line) for line in told]
    names = list(streams)
    more = {names[int(mark[:5])] if mark[:5].isdigit() else mark: (seen.count(mark), told.count(mark))
            for mark in {*seen, *told} if seen.count(mark) != told.count(mark)}
    eq(more, {}, 'requests that the server saw, and that were forwarded')
    check(len(seen) > len(streams), f'{len(seen)} requests came through at all')


def through(binary, kind, choices):
    # Without a body that never comes, for which haproxy waits.
    streams = {name: stream for name, stream in {**FINE, **SHAPES}.items() if b'9223372036854775811' not in stream}
    for choice in choices:
        with Server(binary, '--set', 'log.access=true') as server, kind(server.port, choice) as proxy:
            log = Log(server)
            log.since()
            hold_against(server, log, proxy, streams)


@scene
def nginx_forwards_what_the_server_sees(binary):
    through(binary, Nginx, (True, False))


def connections(port):
    """The other ends of all connections to that port, also of those that were closed a while ago."""
    found = set()
    for line in open('/proc/net/tcp').read().splitlines()[1:]:
        own, other = (int(end.partition(':')[2], 16) for end in line.split()[1:3])
        if port in (own, other) and other != 0:
            found.add(other if own == port else own)
    return found


@scene
def chunked_requests_share_a_connection(binary):
    rounds = 30
    with Server(binary) as server:
        def through_one(port):
            with socket.create_connection(('127.0.0.1', port), REQUEST_TIMEOUT) as peer:
                answers = peer.makefile('rb')
                for number in range(rounds):
                    body = os.urandom(rng.randrange(1, 40000))
                    peer.sendall(renamed(put(b'x', CHUNKED, chunks(body, rng.randrange(1, 9000)) + b'\r\n'), number))
                    status = int(answers.readline().split()[1])
                    fields = dict(line.lower().split(b': ', 1) for line in iter(answers.readline, b'\r\n'))
                    answers.read(int(fields.get(b'content-length', b'0')))
                    eq(status, 201)
                    eq(server.request('GET', (PAGE % b'%05dx' % number).decode()).body, body)

        rng = random.Random(SEED)
        for kind, choice in ((None, None), (Nginx, False), (Haproxy, False)):
            with contextlib.nullcontext(server) if kind is None else kind(server.port, choice) as front:
                before = connections(server.port)
                through_one(front.port)
                new = len(connections(server.port) - before)
                check(new < rounds + 8, f'{new} connections, {rounds} of them for one request each, by {kind}')


@scene
def haproxy_forwards_what_the_server_sees(binary):
    through(binary, Haproxy, (False, True))


main()
