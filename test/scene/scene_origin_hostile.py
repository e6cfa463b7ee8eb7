"""Goal: an origin that attacks, and clients that attack it through us, get nothing: no memory, no place for longer than a
time-out, no header of theirs, no request elsewhere. Method: a scripted origin that sends literal bytes or never ends; titles and
headers that try to become something else; a listener where nobody may ever come."""
import contextlib
import gzip
import json
import socket
import threading
import time
import urllib.parse

from harness import check, eq, main, scene
from origin import Origin, status_of
from page_help import get, path, problem
from render_help import TRANSFORM, all_is_well, ask_anew, ask_transform, impatient_server, meets

HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Revision-Id: 7\r\n'


def hostile_server(binary, origin, *args, **more):
    return impatient_server(binary, origin, *args, concurrency=1, **more)


def says(*pieces, forever=None):
    """Literal bytes; then the last of them again and again, or the end of the connection."""
    def fault(handler, status, headers, body):
        with contextlib.suppress(OSError):
            for piece in pieces:
                handler.connection.sendall(piece)
            while forever:
                handler.connection.sendall(forever)
        handler.drop()
    return fault


def bundle_with(**changes):
    """A bundle of which the html's headers or body say something else."""
    def fault(handler, status, headers, body):
        bundle = json.loads(body)
        html = bundle['html']
        html['headers'].update(changes.get('headers', {}))
        html['body'] = changes.get('change', lambda text: text)(html['body'])
        handler.answer(status, headers, json.dumps(bundle).encode())
    return fault


def drip(handler, status, headers, body):
    """All of it, but a byte at a time and slowly: each of them is in time, the whole is not."""
    handler.head(status, {**headers, 'Content-Length': str(len(body))})
    with contextlib.suppress(OSError):
        for i in range(len(body)):
            handler.wfile.write(body[i:i + 1])
            time.sleep(0.05)
    handler.drop()


# Each of these ends at a limit of ours.
LIMITED = {
    'interim heads without end': says(forever=b'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n' * 100),
    'a head of 100 KB': says(HEAD + b'X: ' + b'a' * 100000 + b'\r\n\r\n{}'),
    'a thousand fields': says(HEAD + b'X: y\r\n' * 1000 + b'\r\n{}'),
    'fields without end': says(HEAD, forever=b'X: yyyyyyyyyyyyyy\r\n' * 100),
    'a field without end': says(HEAD + b'X: ', forever=b'y' * 10000),
    'a status line without end': says(b'HTTP/1.1 200 ', forever=b'y' * 10000),
    'a chunk of no size': says(HEAD + b'Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n'),
    'a chunk of less than nothing': says(HEAD + b'Transfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n'),
    'a chunk beyond numbers': says(HEAD + b'Transfer-Encoding: chunked\r\n\r\n' + b'f' * 40 + b'\r\n{}'),
    'trailers without end': says(HEAD + b'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n', forever=b'X: y\r\n' * 100),
    'a bomb': says(HEAD + b'Content-Encoding: gzip\r\n\r\n' + gzip.compress(b' ' * 64_000_000)),
    'a bomb of many': says(HEAD + b'Content-Encoding: gzip\r\n\r\n' + gzip.compress(b' ' * 1000) * 4000),
    'no coding at all': says(HEAD + b'Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}'),
    'JSON without a bottom': says(HEAD + b'Content-Length: 200008\r\n\r\n{"html":' + b'[' * 200000),
    'no HTTP': says(b'{"html": 1}'),
    'two lengths': says(HEAD + b'Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}\n'),
    'no text': bundle_with(change=lambda html: ''),
    'a text without a head': bundle_with(change=lambda html: '<p>x</p>'),
    'a text of another charset': bundle_with(headers={'content-type': 'text/html; charset=utf-16'}),
    'a type that is two fields': bundle_with(headers={'content-type': 'text/html\r\nset-cookie: sid=evil'}),
    'a parameter that is a field': bundle_with(headers={'content-type': 'text/html; a=b\r\nset-cookie: sid=evil'}),
}


@scene
def an_origin_that_attacks_is_502_and_stores_nothing(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with hostile_server(binary, origin, timeout='1m') as server:
            for name, fault in LIMITED.items():
                meets(server, origin, name, fault)
            for kind, ask in (('meta', path('html', 'B')), ('transform', None)):
                for name in ('interim heads without end', 'a bomb', 'trailers without end'):
                    origin.fault(kind, LIMITED[name])
                    answer = ask_anew(server, origin, kind, ask) if ask else ask_transform(server)
                    check(answer.status == 502, f'{kind}, {name}: {answer.status} {answer.body}')
            for kind in ('meta', 'transform'):
                origin.fault(kind, None)
            all_is_well(server, origin)     # its one place is free


@scene
def what_never_ends_holds_its_place_until_the_time_out(binary):
    endless = {
        'drip': drip,
        'a chunk extension without end': says(HEAD + b'Transfer-Encoding: chunked\r\n\r\n2;x=', forever=b'y' * 1000),
        'an empty chunk of zeros': says(HEAD + b'Transfer-Encoding: chunked\r\n\r\n', forever=b'0'),
    }
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with hostile_server(binary, origin, timeout='3s') as server:
            for name, fault in endless.items():
                answer = meets(server, origin, name, fault, expected=(502, 504))
                if name == 'drip':
                    problem(answer, 504, 'origin_timeout')
            all_is_well(server, origin)


@scene
def what_an_origin_says_becomes_no_field_of_ours(binary):
    def redirect(href):
        return bundle_with(change=lambda html: html.replace(
            '<body id="mwAA">', f'<body id="mwAA"><link rel="mw:PageProp/redirect" href="{href}"/>'))
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with hostile_server(binary, origin) as server:
            def made(fault):
                server.request('DELETE', path('all', 'A'))
                origin.fault('render', fault)
                return ask_anew(server, origin, 'render', path('html', 'A'))
            answer = made(bundle_with(headers={'content-language': 'de\r\nset-cookie: sid=evil', 'set-cookie': 'sid=evil',
                                               'location': 'http://evil.test/', 'x-evil': '1'}))
            eq(answer.status, 200)
            eq([answer.headers[name] for name in ('Content-Language', 'Set-Cookie', 'Location', 'X-Evil')], [None] * 4)
            for href in ('./X%0d%0aSet-Cookie:%20sid=evil', './X#a\r\nSet-Cookie: sid=evil', './/evil.test/x',
                         './http://evil.test/x', './%2F%2Fevil.test/x', '//evil.test/x', 'http://evil.test/x',
                         './X#&#13;&#10;Set-Cookie: sid=evil'):
                answer = made(redirect(href))
                check(answer.status in (200, 302), f'{href}: {answer.status}')
                eq(answer.headers['Set-Cookie'], None, href)
                where = answer.headers['Location'] or ''
                check('\r' not in where and not where.startswith('/') and '://' not in where, f'{href}: {where}')
                stays = urllib.parse.urljoin('http://us.test/localhost/v1/page/html/A', where)
                check(stays.startswith('http://us.test/localhost/v1/page/html/'), f'{href}: {stays}')


def instead(content_type, body, status=200):
    """All of the answer, but of this type and with this body."""
    def fault(handler, _status, _headers, _body):
        handler.answer(status, {'Content-Type': content_type} if content_type else {}, body)
    return fault


# What a wiki that is down, or a proxy before it, says with 200 to a transform. As wikitext it would be saved.
NO_TRANSFORMS = {
    'a page of its own': instead('text/html', b'<html><h1>Down for maintenance</h1></html>'),
    'no type': instead(None, b'x'),
    'a picture': instead('image/svg+xml', b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
    'another JSON': instead('application/json', b'{"error": "down"}'),
    'no UTF-8': instead('text/plain; charset=utf-8', b'caf\xe9'),
    'no UTF-8, and says so': instead('text/plain; charset=latin1', b'caf'),
    'nothing': instead('text/plain; charset=utf-8', b''),
    'a text that may be half': says(b'HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nTe'),
}


@scene
def a_transform_is_never_what_the_wiki_says_instead(binary):
    kinds = {'html/to/wikitext': ('html', 'text/plain'), 'wikitext/to/html': ('wikitext', 'text/html'),
             'wikitext/to/lint': ('wikitext', 'application/json')}
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with hostile_server(binary, origin) as server:
            def ask(kind, text):
                return server.request('POST', f'/localhost/v1/transform/{kind}/A', {'Content-Type': 'application/json'},
                                      json.dumps({kinds[kind][0]: text}))
            for kind, (_, own) in kinds.items():
                eq(ask(kind, '<p>typed</p>').status, 200)
                others = {'its own type, no UTF-8': instead(own, b'["caf\xe9"]'), 'its own type, nothing': instead(own, b'')}
                for name, fault in {**NO_TRANSFORMS, **others}.items():
                    if kind == 'wikitext/to/html' and name == 'a page of its own':
                        continue    # it is HTML
                    origin.fault('transform', fault)
                    answer = ask(kind, '<p>typed</p>')
                    check(answer.status == 502, f'{kind}, {name}: {answer.status} {answer.body}')
                    problem(answer, 502, 'origin_failed')
                origin.fault('transform', None)
            # An editor may empty a page: of nothing comes nothing.
            origin.fault('transform', instead('text/plain; charset=utf-8', b''))
            emptied = ask('html/to/wikitext', '<!DOCTYPE html><html><head><title>A</title></head>'
                                              '<body id="mwAA"><p id="mwAg"></p>\n</body></html>')
            eq((emptied.status, emptied.body), (200, b''))


class Trap:
    """Listens where nobody may come."""

    def __enter__(self):
        self.came = 0
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                self.came += 1
                peer.close()

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@scene
def a_redirect_of_the_origin_leads_nowhere(binary):
    with Origin() as origin, Trap() as trap:
        origin.page('A', (7, 'new'))
        with hostile_server(binary, origin) as server:
            away = f'http://127.0.0.1:{trap.port}/'
            for kind in ('siteinfo', 'meta', 'render', 'transform'):
                for code in (301, 302, 307, 308):
                    origin.fault(kind, status_of(code, location=away, refresh=f'0; url={away}'))
                    if kind == 'transform':
                        answer = ask_transform(server)
                    else:
                        answer = ask_anew(server, origin, kind, path('html', 'A'))
                    problem(answer, 502, 'origin_failed')
                    if kind == 'siteinfo':
                        break   # what failed is asked for again only after a while
                origin.fault(kind, None)
                if kind == 'siteinfo':
                    ask_anew(server, origin, 'siteinfo', path('html', 'Missing'))
            eq(trap.came, 0)


TITLES = ['http%3A%2F%2F127.0.0.1%3A{port}%2Fx', '%2F%2F127.0.0.1%3A{port}%2F', '%40127.0.0.1%3A{port}%2F', '..%2F..%2Fapi.php',
          '..%2F..%2F..%2Fetc%2Fpasswd', 'A%26action%3Dedit', 'A%3Faction%3Dedit', 'A%23x', 'A%252F..%252F..%252Fx', 'A%20HTTP%2F1.1',
          'A%7CB', 'A%1FB', 'A%0D%0AX-Evil%3A%201', 'A%0AX-Evil%3A%201', 'A%00', 'A%5C..%5Cx', '%E2%80%A8X-Evil%3A1', 'A%2520b',
          '%7Btitle%7D', '%7Bdomain%7D', 'A;b=c', "A'%22%3E", 'A%C2%85', 'A+B', '%2E%2E%2FA', 'A%2F.', 'A%2F..%2FB']


@scene
def a_title_is_never_more_than_a_title(binary):
    with Origin() as origin, Trap() as trap:
        template = f'http://127.0.0.1:{origin.port}/t/{{domain}}/page/{{title}}/{{rev}}?x=y'
        options = ['--set', 'domains.t.test.origin.kind=template', '--set', f'domains.t.test.origin.url={template}']
        with hostile_server(binary, origin, *options) as server:
            for title in TITLES:
                title = title.format(port=trap.port)
                for base in ('/localhost', '/t.test'):
                    for what in ('html', 'title', 'wikitext'):
                        answer = server.request('GET', f'{base}/v1/page/{what}/{title}')
                        check(answer.status in (301, 400, 404, 502), f'{base} {what} {title}: {answer.status}')
                        eq(answer.headers['X-Evil'], None)
                ask_transform(server, f'{TRANSFORM}/{title}')
            eq(trap.came, 0)
            check(len(origin.seen) > 20, 'some were asked for')
            for kind, target, headers, _ in origin.seen:
                eq('x-evil' in headers, False, target)
                eq(headers['host'], f'127.0.0.1:{origin.port}')
                target, _, query = target.partition('?')
                if target == '/w/api.php':
                    fields = urllib.parse.parse_qsl(query, strict_parsing=True)
                    names = [name for name, _ in fields]
                    check(len(set(names)) == len(names) and set(names) <= {
                        'action', 'format', 'formatversion', 'curtimestamp', 'meta', 'siprop', 'prop', 'rvprop', 'titles',
                        'revids', 'list', 'rclimit', 'rcprop'}, query)
                    eq(dict(fields)['action'], 'query')
                    titles = dict(fields).get('titles', '\x1fx')
                    check(titles.startswith('\x1f') and '\x1f' not in titles[1:], query)
                elif target.startswith('/t/'):
                    check(target.startswith('/t/t.test/page/') and target.count('/') == 4 and query == 'x=y', target)
                else:
                    parts = target.split('/')
                    eq(parts[:5], ['', 'w', 'rest.php', 'wiki.test', 'v3'], target)
                    check(parts[5] in ('page', 'transform') and len(parts) <= 10 and query == '', target)
                    check('..' not in parts and '.' not in parts, target)


# What may be said to an origin; everything else a client sends stays with us.
TOLD = {'host', 'user-agent', 'accept', 'accept-encoding', 'accept-language', 'content-type', 'content-length',
        'promise-non-write-api-action'}


@scene
def a_client_puts_no_field_into_what_the_origin_is_asked(binary):
    fields = [('Accept-Language', 'de'), ('Accept', 'text/html'), ('X-Evil', '1'), ('X-Forwarded-For', '10.0.0.1'),
              ('Forwarded', 'for=10.0.0.1'), ('X-Client-IP', '10.0.0.1'), ('Host', 'evil.test'), ('Origin', 'http://evil.test'),
              ('Referer', 'http://evil.test/'), ('User-Agent', 'evil'), ('Proxy-Authorization', 'Basic eDp5'),
              ('X-Http-Method-Override', 'DELETE'), ('Range', 'bytes=0-1'), ('Promise-Non-Write-API-Action', 'false'),
              ('X-Request-Id', 'mine'), ('Expect', '100-continue'), ('Accept-Encoding', 'br')]
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with hostile_server(binary, origin) as server:
            server.request('GET', path('html', 'A'), fields)
            server.request('GET', path('wikitext', 'A'), fields)
            eq(ask_transform(server, TRANSFORM + '/A', fields).status, 200)
            for line in (b'Accept-Language: de\rX-Evil: 1', b'Accept-Language: de\nX-Evil: 1', b'Accept-Language: de\r\n X-Evil: 1',
                         b'Accept-Language: de\x00X-Evil: 1', b'Accept-Language: ' + b'd' * 15000):
                body = b'{"wikitext": "x"}'
                server.raw(b'POST ' + TRANSFORM.encode() + b' HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
                           b'Connection: close\r\nContent-Length: %d\r\n%s\r\n\r\n%s' % (len(body), line, body))
            eq({kind for kind, *_ in origin.seen}, {'siteinfo', 'meta', 'render', 'wikitext', 'transform'})
            for kind, target, headers, _ in origin.seen:
                check(set(headers) <= TOLD, f'{kind}: {headers}')
                eq((headers['host'], headers['user-agent']), (f'127.0.0.1:{origin.port}', 'palimpsest'))
                check('X-Evil' not in headers.get('accept-language', ''), headers)
                if kind == 'transform':
                    eq(headers['promise-non-write-api-action'], 'true')


main()
