"""Goal: no head harms the server, whatever route it names: it is answered or refused, and the next client is served. What the
HTTP server refuses by itself, the application words; it must do so also before there is a route.
Method: heads of all methods under each path that the server's own document names, with odd fields, lengths, codings and
queries, some of them cut or garbled, go to the server with keys and without. ROUTES_SEED is another choice of them."""
import concurrent.futures
import json
import os
import random
import re

import transcripts
from harness import Server, check, eq, main, scene

SEED, STREAMS, AT_ONCE = int(os.environ.get('ROUTES_SEED', '1')), 120, 24       # streams of each path
METHODS = (b'GET', b'HEAD', b'PUT', b'POST', b'DELETE', b'OPTIONS', b'PURGE', b'BREW')
VALUES = {'domain': 'localhost', 'title': 'Told', 'rev': '1', 'tid': 'c9bb7a80-0000-11f1-8000-000000000000'}
QUERIES = (b'', b'', b'', b'?x=%zz', b'?limit=-1&page=x', b'?at=x&stash=true', b'?' + b'a&' * 50)
TAILS = (b'', b'', b'', b'/', b'/%2e%2e', b'%00', b'%', b'/a/b/c', b'#f')
BODIES = (b'', b'{}', b'[]', b'[{"op":"put"}]', b'{"queue_name":"q","batch_size":1,"client_id":"c","request_timeout":"1s"}',
          b'\x0a\x01e', b'<p>x', b'a=b&c', b'3\r\nabc\r\n0\r\n\r\n', b'3\r\nabcd\r\n', b'x' * 20000)
FIELDS = (b'Content-Length: %d', b'Content-Length: %d', b'Content-Length: %d', b'Transfer-Encoding: chunked', b'Content-Length: 0',
          b'Content-Length: 99999999999999999999', b'Content-Length: 9223372036854775807', b'Content-Length: +1', b'Host: b')
MORE = (b'Content-Type: application/json', b'Content-Type: application/protobuf', b'Content-Type: text/html', b'Content-Type: a',
        b'Content-Encoding: gzip', b'Accept-Encoding: gzip, br;q=x', b'Accept: a/b;q=2', b'Accept-Datetime: x', b'Range: bytes=0-,5-',
        b'If-None-Match: W/"1/x", *', b'If-Match: "a', b'Authorization: Bearer x', b'Authorization: Basic x', b'Origin: http://evil',
        b'Sec-Fetch-Site: cross-site', b'X-Request-Id: \xff\x80', b'Cache-Control: no-cache, max-age=-1', b'Idempotency-Key: k',
        b'Expect: 100-continue', b'Connection: close', b'X-Forwarded-For: 1.2.3.4, x', b'X-A: ' + b'v' * 17000)
HARM = (b'\n', b'\r', b'\0', b' ', b'\r\n\r\n', b':', b'%', b'\xff')


def paths_of(server):
    status, _, document = server.json('GET', '/?spec')
    eq(status, 200)
    return [re.sub(r'\{(\w+)\}', lambda found: VALUES.get(found[1], 'x'), path) for path in sorted(document['paths'])]


def stream(rng, path):
    target = path.encode() + rng.choice(TAILS) + rng.choice(QUERIES)
    body = rng.choice(BODIES)
    fields = [b'Host: localhost', *rng.sample(MORE, rng.randrange(5))]
    if rng.random() < 0.8:
        fields.append(field % len(body) if b'%' in (field := rng.choice(FIELDS)) else field)
    rng.shuffle(fields)
    sent = rng.choice(METHODS) + b' ' + target + rng.choice((b' HTTP/1.1', b' HTTP/1.1', b' HTTP/1.0', b' HTTP/3.0')) + b'\r\n'
    sent += b''.join(field + b'\r\n' for field in fields) + b'\r\n' + body
    if rng.random() < 0.3:
        at = rng.randrange(min(len(sent), 200))
        sent = sent[:at] + rng.choice(HARM) + sent[at + rng.randrange(3):]
    return sent


def got_of(server, path, sent):
    try:
        return transcripts.exchange(server, sent)
    except ConnectionRefusedError:
        check(False, f'the server has ended under {path}: {server.stderr()[-2000:]}')


def send_all(binary, *options):
    rng = random.Random(SEED)
    with Server(binary, *transcripts.OPTIONS, *options) as server, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        paths = [*paths_of(server), '/v1/no.such', '/v1/', '/nowhere', '/', '*', 'http://a']
        check(len(paths) > 50, paths)
        statuses = set()
        for path in paths:
            streams = [stream(rng, path) for _ in range(STREAMS)]
            for sent, got in zip(streams, pool.map(lambda sent, path=path: got_of(server, path, sent), streams)):
                answers = [int(status) for status in re.findall(rb'^HTTP/1\.1 (\d{3}) ', got, re.M)]
                check(500 not in answers, f'{sent[:400]}: {got[-400:]}')
                statuses.update(answers)
        eq(server.request('GET', '/healthz').status, 200, 'still served')
        return statuses


@scene
def no_head_harms_the_server_under_any_route(binary):
    statuses = send_all(binary)
    eq({200, 204, 400, 404, 405, 413, 414, 431, 455, 501, 505} - statuses, set(), f'answers that should be among {sorted(statuses)}')


@scene
def nor_where_keys_are_asked_for(binary):
    statuses = send_all(binary, '--set', 'auth=internal')
    eq({400, 401, 413, 431, 505} - statuses, set(), f'answers that should be among {sorted(statuses)}')


main()
