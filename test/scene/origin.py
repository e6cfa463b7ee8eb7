"""A wiki as scenes need it: api.php and Parsoid's v3 routes over real sockets, scripted.

    with Origin() as origin:
        origin.page('A', (1, 'first'), (2, 'second'))
        with Server(binary, *origin.options('localhost')) as server: ...
        eq(origin.count('render'), 1)

Core's own routes too (kind rest): transforms when core_transforms is set, and renders out of a cache, as MediaWiki 1.39
has it: what is there counts as made when its making ended, in whole seconds, and falls out when its page is touched after
that. A purge touches the page.

Kinds of calls: siteinfo, meta, user, leave, words, revisions, plain, render, wikitext, lint, transform, probe, purge. Each is counted. A fault is what the next calls
of a kind meet instead of an answer: origin.fault('render', cut) until origin.fault('render', None). A gate lets
calls of a kind arrive and wait: with origin.gate('render') as gate: ... gate.open(). What waits is answered by what is
there when the gate opens; with origin.gate('render', written=True) by what was there when it came. Everything has a deadline.
"""
import collections
import contextlib
import copy
import http.server
import json
import re
import socket
import threading
import time
import urllib.parse

from shared_store import differs

GATE_TIMEOUT = 240
SPECS = 'https://www.mediawiki.org/wiki/Specs/'
NAMESPACES = {0: '', 1: 'Talk', 2: 'User', 3: 'User_talk', 4: 'Project', 5: 'Project_talk', 6: 'File', 7: 'File_talk',
              10: 'Template', 11: 'Template_talk', 14: 'Category', 15: 'Category_talk', -1: 'Special', -2: 'Media'}

TOUCHED = '2026-01-01T00:00:00Z'

def instant(ahead=0):
    """Now, so many seconds ahead, as a wiki writes it."""
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + ahead))


Revision = collections.namedtuple('Revision', 'rev text hidden')


# ---- faults: called with the handler and the answer it would have given

def cut(handler, status, headers, body):
    """Half of the body, then the connection ends."""
    handler.head(status, {**headers, 'Content-Length': str(len(body))})
    handler.wfile.write(body[:len(body) // 2])
    handler.drop()


def cut_at_once(handler, status, headers, body):
    """The connection ends without a byte."""
    handler.drop()


def long_length(handler, status, headers, body):
    """More is promised than comes."""
    handler.head(status, {**headers, 'Content-Length': str(len(body) + 100)})
    handler.wfile.write(body)
    handler.drop()


def until_close(handler, status, headers, body):
    """As PHP's built-in server: nothing says where the body ends but the end of the connection."""
    handler.head(status, {**headers, 'Connection': 'close'})
    handler.wfile.write(body)
    handler.drop()


def half_until_close(handler, status, headers, body):
    until_close(handler, status, headers, body[:len(body) // 2])


def hang(handler, status, headers, body):
    """Nothing ever comes, until the caller goes away."""
    handler.connection.settimeout(GATE_TIMEOUT)
    with contextlib.suppress(OSError):
        handler.connection.recv(1)
    handler.drop()


def endless(handler, status, headers, body):
    """A body without an end, in chunks."""
    handler.head(status, {**headers, 'Transfer-Encoding': 'chunked'})
    piece = b'10000\r\n' + b'x' * 0x10000 + b'\r\n'
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(piece)
    handler.drop()


def bad_json(handler, status, headers, body):
    handler.answer(status, headers, body[:-2])


def other_type(handler, status, headers, body):
    handler.answer(status, {**headers, 'Content-Type': 'text/plain'}, body)


def not_html(handler, status, headers, body):
    """A bundle whose html says that it is something else."""
    handler.answer(status, headers, body.replace(b'"text/html', b'"text/troff'))


def other_revision(handler, status, headers, body):
    """As the origin does for another page's revision: it answers all the same."""
    named = int(headers['Content-Revision-Id']) + 1
    handler.answer(status, {**headers, 'Content-Revision-Id': str(named)}, body)


def status_of(code, **extra):
    """An answer of this status; extra: header fields, retry_after='7' as Retry-After."""
    def fault(handler, status, headers, body):
        handler.answer(code, {'Content-Type': 'text/plain', **{n.replace('_', '-').title(): v for n, v in extra.items()}},
                       b'no')
    return fault


def denied(handler, status, headers, body):
    """As api.php of a wiki that only some may read."""
    handler.answer(200, headers, b'{"error": {"code": "readapidenied", "info": "You need read permission."}}')


def once(fault):
    """The next call meets the fault, those after it do not."""
    met = []

    def first(handler, status, headers, body):
        met.append(True)
        (fault if len(met) == 1 else _Handler.answer)(handler, status, headers, body)
    return first


class Gate:
    def __init__(self, written=False):
        self.written = written
        self._opened = threading.Event()
        self._lock = threading.Lock()
        self.waiting = 0

    def enter(self):
        with self._lock:
            self.waiting += 1
        self._opened.wait(GATE_TIMEOUT)
        with self._lock:
            self.waiting -= 1

    def open(self):
        self._opened.set()


class Origin:
    def __init__(self, domain='wiki.test'):
        self.domain = domain
        self.pages = {}
        self.stamp = ''             # of every render: what a template would bring
        self.spelled = {}           # a title as asked for -> as the wiki has it, beyond the rules it tells
        self.aliases = {}           # of namespaces: alias -> number
        self.core_transforms = False    # has core's routes /v1/transform/...
        self.no_wikitext = set()    # titles of other pages, as modules
        self.touched = {}           # title -> when a template of it changed last, as the wiki writes instants
        self.cache = {}             # what core's routes answer with: rev -> (html, when its making ended)
        self.changed = 0            # how many changes its list of recent ones has had
        self.ahead = 0              # by so many seconds its clock is ahead of ours
        self.edited = {}            # title -> when its revisions were made
        self.comments = {}          # revision -> its comment; None: hidden
        self.ids = {}               # title -> the id of its page, where that is not page_id's own
        self.users = {}             # Cookie -> the id of its user
        self.bot = None             # a private wiki: the Authorization that may read everything
        self.readers = {}           # of a private wiki: Cookie or Authorization -> titles it may read; None: all
        self.calls = collections.Counter()
        self.seen = []              # (kind, path, headers, body) of each call; names of headers in lower case
        self._faults = {}
        self._gates = {}
        self._lock = threading.Lock()

    def __enter__(self):
        origin = self

        class Handler(_Handler):
            wiki = origin

        self.http = _Server(('127.0.0.1', 0), Handler)
        self.port = self.http.server_address[1]
        self._thread = threading.Thread(target=self.http.serve_forever, kwargs={'poll_interval': 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.down()

    def down(self):
        """Nobody listens any more."""
        for gate in list(self._gates.values()):
            gate.open()
        if self._thread is not None:
            self.http.shutdown()
            self._thread.join(GATE_TIMEOUT)
            self.http.drop_all()
            self.http.server_close()
            self._thread = None

    def options(self, *domains, kind='parsoid', **more):
        """Options of serve that give these domains this origin; it may be slow."""
        url = f'http://127.0.0.1:{self.port}/w/rest.php'
        options = []
        for domain in domains:
            patient = {'check_wait': '10s'} if differs('a word is heard in several round trips') else {}
            fields = {'kind': kind, 'url': url, 'domain': self.domain, 'timeout': '4m', **patient, **more}
            for name, value in fields.items():
                options += ['--set', f'domains.{domain}.origin.{name}={value}']
        return options

    # ---- its pages

    def page(self, title, *revisions):
        """Sets a page: (rev, text) each, the last is the newest. A text that begins with #REDIRECT [[X]] is one."""
        with self._lock:
            self.pages[title] = [Revision(rev, text, False) for rev, text in revisions]
            self.changed += 1

    def hide(self, title, rev):
        with self._lock:
            self.pages[title] = [r._replace(hidden=r.hidden or r.rev == rev) for r in self.pages[title]]
            self.changed += 1

    def delete(self, title):
        with self._lock:
            del self.pages[title]
            self.changed += 1

    # ---- copies of its database

    COPIED = ('pages', 'touched', 'ids', 'edited', 'changed')

    def copy(self):
        """All that it has now, for answering()."""
        with self._lock:
            return {name: copy.deepcopy(getattr(self, name)) for name in self.COPIED}

    @contextlib.contextmanager
    def answering(self, then):
        """As from a copy of its database that is behind: it knows what it knew then."""
        now = self.copy()
        self._become(then)
        try:
            yield
        finally:
            self._become(now)

    def _become(self, state):
        with self._lock:
            for name, value in copy.deepcopy(state).items():
                setattr(self, name, value)

    def html(self, title, rev, text):
        target = re.match(r'#REDIRECT \[\[(.*)\]\]', text)
        link = f'<link rel="mw:PageProp/redirect" href="./{target[1]}" id="mwAg"/>' if target else ''
        return ('<!DOCTYPE html>\n<html prefix="dc: http://purl.org/dc/terms/" '
                f'about="http://{self.domain}/wiki/Special:Redirect/revision/{rev}"><head prefix="mwr: x">'
                f'<meta charset="utf-8"/><title>{title}</title></head><body id="mwAA">{link}'
                f'<p id="mwAg" about="#mwt1">{text}{self.stamp}</p></body></html>')

    def page_id(self, title):
        return self.ids.get(title, 1000 + sum(map(ord, title)))

    def find(self, title, rev):
        return next((r for r in self.pages.get(title, []) if r.rev == rev), None)

    def owner(self, rev):
        return next((title for title, revisions in self.pages.items() for r in revisions if r.rev == rev), None)

    # ---- what it was asked, and what meets it

    def count(self, kind):
        with self._lock:
            return self.calls[kind]

    def fault(self, kind, fault):
        with self._lock:
            self._faults[kind] = fault

    @contextlib.contextmanager
    def gate(self, kind, written=False):
        gate = Gate(written)
        with self._lock:
            self._gates[kind] = gate
        try:
            yield gate
        finally:
            gate.open()
            with self._lock:
                self._gates.pop(kind, None)

    def ungate(self, kind):
        """What comes from here on does not wait; what waits goes on waiting."""
        with self._lock:
            self._gates.pop(kind, None)

    def meet(self, kind, path, headers, body, answer):
        """The fault that the call meets, and what it is answered."""
        with self._lock:
            self.calls[kind] += 1
            self.seen.append((kind, path, headers, body))
            gate = self._gates.get(kind)
        written = answer() if gate and gate.written else None
        if gate:
            gate.enter()
        if written and kind == 'render':
            self.keep(path)
        with self._lock:
            fault = self._faults.get(kind)
        return fault, written or answer()


    # ---- the cache of core's routes

    def cached(self, rev, make):
        """Only of newest revisions does a touch take it away; one in the second in which it was made does not."""
        title = self.owner(rev)
        html, ended = self.cache.get(rev, (None, ''))
        newest = self.pages[title][-1].rev == rev
        if html is None or (newest and ended < self.touched.get(title, TOUCHED)):
            html = make()
            self.cache[rev] = html, instant(self.ahead)
        return html

    def keep(self, path):
        """What was written when the call came, and took until now."""
        found = re.search('/v1/revision/([0-9]+)/html', path)
        if found and int(found[1]) in self.cache:
            self.cache[int(found[1])] = self.cache[int(found[1])][0], instant(self.ahead)

    def purge(self, title):
        title = title.replace(' ', '_')
        if title in self.pages:
            self.touched[title] = max(self.touched.get(title, TOUCHED), instant(self.ahead))
            self.cache.pop(self.pages[title][-1].rev, None)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def __init__(self, *args):
        self.open = set()
        super().__init__(*args)

    def process_request(self, request, client_address):
        self.open.add(request)
        super().process_request(request, client_address)

    def drop_all(self):
        for request in list(self.open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        pass    # the server under test goes away as it likes


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wiki = None

    def log_message(self, *args):
        pass

    def head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def answer(self, status, headers, body):
        self.head(status, {**headers, 'Content-Length': str(len(body))})
        self.wfile.write(body)

    def drop(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self):
        self.handle_call(b'')

    def do_POST(self):
        self.handle_call(self.rfile.read(int(self.headers.get('Content-Length', 0))))

    def handle_call(self, body):
        path, _, query = self.path.partition('?')
        kind, answer = self.route(path, query, body)
        def allowed():
            return answer() if self.may_read() else self.denied()
        fault, got = self.wiki.meet(kind, self.path, {n.lower(): v for n, v in self.headers.items()}, body, allowed)
        status, headers, reply = got
        if isinstance(reply, (dict, list)):
            reply = json.dumps(reply).encode()
        (fault or _Handler.answer)(self, status, headers, reply)

    def may_read(self):
        wiki = self.wiki
        return wiki.bot is None or wiki.bot == self.headers.get('Authorization') or self.reader() is not False

    def reader(self):
        """Which titles who asks may read, None: all; False: nothing at all."""
        asks = [self.headers.get(name) for name in ('Cookie', 'Authorization')]
        return next((self.wiki.readers[word] for word in asks if word in self.wiki.readers), False)

    def denied(self):
        if self.path.startswith('/w/api.php'):
            error = {'code': 'readapidenied', 'info': 'You need read permission to use this module.'}
            return 200, {'Content-Type': 'application/json; charset=utf-8'}, {'error': error}
        return 403, {'Content-Type': 'application/json'}, {'errorKey': 'rest-read-denied'}

    def route(self, path, query, body):
        if path == '/w/api.php':
            fields = dict(urllib.parse.parse_qsl(query or body.decode()))
            if fields.get('action') == 'purge':
                return 'purge', lambda: self.purge(fields['titles'].lstrip('\x1f'))
            if 'intestactions' in fields or fields.get('uiprop') == 'rights':
                return 'leave', lambda: self.api('leave', fields)
            if fields.get('prop') == 'info':
                return 'words', lambda: self.api('words', fields)
            if fields.get('rvprop') == 'ids|sha1':
                return 'revisions', lambda: self.api('revisions', fields)
            if fields.get('list') == 'recentchanges' and 'prop' not in fields:
                return 'plain', lambda: self.api('plain', fields)
            kind = {'siteinfo': 'siteinfo', 'userinfo': 'user'}.get(fields.get('meta'), 'meta')
            return kind, lambda: self.api(kind, fields)
        parts = path.split('/')[3:]     # /w/rest.php/...
        rest = [urllib.parse.unquote(part) for part in parts]
        if rest[:3] == [self.wiki.domain, 'v3', 'page'] and len(rest) == 6:
            kind = {'pagebundle': 'render', 'html': 'render'}.get(rest[3], rest[3])
            return kind, lambda: self.v3_page(rest[3], rest[4], int(rest[5]))
        if rest[:2] == ['v1', 'revision'] and len(rest) == 4 and rest[3] == 'html':
            return 'render', lambda: self.core_html(int(rest[2]))
        if rest[:2] == ['v1', 'transform'] and (self.command == 'GET' or not self.wiki.core_transforms):
            status = 405 if self.wiki.core_transforms else 404
            return 'probe', lambda: (status, {'Content-Type': 'application/json'}, {'errorKey': 'rest-no-match'})
        if rest[:2] == ['v1', 'transform']:
            return 'transform', lambda: self.transform(rest[2], rest[4], rest[5:], json.loads(body))
        if rest[:3] == [self.wiki.domain, 'v3', 'transform']:
            return 'transform', lambda: self.transform(rest[3], rest[5], rest[6:], json.loads(body))
        return 'other', lambda: (404, {'Content-Type': 'application/json'}, {'message': 'no route'})

    # ---- api.php

    def api(self, kind, fields):
        reply = {'siteinfo': lambda: self.siteinfo(), 'user': lambda: self.user(), 'meta': lambda: self.meta(fields),
                 'plain': lambda: {'batchcomplete': True, 'query': {}}, 'leave': lambda: self.leave(fields), 'words': lambda: self.words(fields), 'revisions': lambda: self.revisions(fields)}[kind]()
        if 'curtimestamp' in fields:
            reply['curtimestamp'] = instant(self.wiki.ahead)
        if fields.get('list') == 'recentchanges' and self.wiki.changed > 0:
            reply['query']['recentchanges'] = [{'type': 'edit', 'rcid': self.wiki.changed, 'timestamp': TOUCHED}]
        return 200, {'Content-Type': 'application/json; charset=utf-8'}, reply

    def siteinfo(self):
        spaces = {str(n): {'id': n, 'case': 'first-letter', 'name': name.replace('_', ' '),
                           'canonical': name.replace('_', ' ')} for n, name in NAMESPACES.items()}
        general = {'lang': 'en', 'case': 'first-letter', 'server': f'http://{self.wiki.domain}', 'mainpage': 'Main Page',
                   'legaltitlechars': ' %!"$&\'()*,\\-.\\/0-9:;=?@A-Z\\\\^_`a-z~\\x80-\\xFF+'}
        return {'batchcomplete': True, 'query': {'general': general, 'namespaces': spaces, 'interwikimap': [],
                                                 'namespacealiases': [{'id': n, 'alias': alias}
                                                                      for alias, n in self.wiki.aliases.items()]}}

    def user(self):
        number = self.wiki.users.get(self.headers.get('Cookie'), 0)
        return {'query': {'userinfo': {'id': number, 'name': f'User {number}' if number else '127.0.0.1'}}}

    def info(self, title):
        newest = self.wiki.pages[title][-1]
        return {'pageid': self.wiki.page_id(title), 'ns': 0, 'title': title.replace('_', ' '), 'contentmodel': 'wikitext',
                'pagelanguage': 'en', 'lastrevid': newest.rev, 'touched': self.wiki.touched.get(title, TOUCHED),
                'redirect': newest.text.startswith('#REDIRECT')}

    def leave(self, fields):
        if 'uiprop' in fields:
            rights = ['edit'] if self.wiki.bot and self.reader() is not None else ['edit', 'read']
            return {'query': {'userinfo': {'id': 0, 'rights': rights}}}
        shown = fields['titles'].lstrip('\x1f').replace('_', ' ')
        titles = self.reader() if self.wiki.bot else None
        return {'query': {'pages': [{'ns': 0, 'title': shown, 'actions': {'read': titles is None or shown in titles}}]}}

    def words(self, fields):
        wiki, pages, normalized = self.wiki, {}, []
        for asked in fields['titles'].split('\x1f')[1:]:
            title = asked.replace(' ', '_')
            title = wiki.spelled.get(title, title)
            shown = title.replace('_', ' ')
            if shown != asked:
                normalized.append({'fromencoded': False, 'from': asked, 'to': shown})
            pages[title] = self.info(title) if title in wiki.pages else {'ns': 0, 'title': shown, 'missing': True}
        return {'batchcomplete': True, 'query': {'normalized': normalized, 'pages': list(pages.values())}}

    def revisions(self, fields):
        wiki, pages, bad = self.wiki, {}, {}
        for rev in map(int, fields['revids'].split('|')):
            title = wiki.owner(rev)
            if title is None:
                bad[str(rev)] = {'revid': rev, 'missing': True}
                continue
            page = pages.setdefault(title, {'pageid': wiki.page_id(title), 'ns': 0, 'title': title.replace('_', ' '),
                                            'revisions': []})
            hidden = {'sha1hidden': True} if wiki.find(title, rev).hidden else {'sha1': '0' * 40}
            page['revisions'].append({'revid': rev, 'parentid': rev - 1, **hidden})
        query = {'pages': list(pages.values()), **({'badrevids': bad} if bad else {})}
        return {'batchcomplete': True, 'query': query}

    def meta(self, fields):
        wiki = self.wiki
        if 'revids' in fields:
            rev = int(fields['revids'])
            title = wiki.owner(rev)
            if title is None:
                return {'query': {'badrevids': {str(rev): {'revid': rev, 'missing': True}}}}
        else:
            title = fields['titles'].lstrip('\x1f').replace(' ', '_')
            title = wiki.spelled.get(title, title)
            if title not in wiki.pages:
                return {'query': {'pages': [{'ns': 0, 'title': title.replace('_', ' '), 'missing': True}]}}
            rev = wiki.pages[title][-1].rev
        found = wiki.find(title, rev)
        revision = {'revid': rev, 'parentid': rev - 1, 'user': 'Alice', 'userid': 7,
                    'timestamp': wiki.edited.get(title, TOUCHED), 'tags': ['visualeditor'], 'size': len(found.text.encode())}
        comment = wiki.comments.get(rev, f'edit {rev}')
        revision.update({'commenthidden': True} if comment is None else {'comment': comment})
        if found.hidden:
            revision.update(texthidden=True, sha1hidden=True)
        return {'query': {'pages': [{**self.info(title), 'revisions': [revision]}]}}

    # ---- core's routes

    def core_html(self, rev):
        wiki = self.wiki
        title = wiki.owner(rev)
        html = wiki.cached(rev, lambda: wiki.html(title, rev, wiki.find(title, rev).text))
        return 200, {'Content-Type': 'text/html;charset=UTF-8', 'Content-Language': 'en',
                     'ETag': f'"{rev}/7d5a1a00-c6a1-11f0-8001-010203040506/view/html"'}, html.encode()

    def purge(self, title):
        if self.command == 'POST':
            self.wiki.purge(title)
        return 200, {'Content-Type': 'application/json; charset=utf-8'}, {'purge': [{'title': title, 'purged': True}]}

    # ---- v3

    def bundle(self, title, rev, html):
        types = {'html': 'text/html; charset=utf-8; profile="' + SPECS + 'HTML/2.6.0"',
                 'data-parsoid': 'application/json; charset=utf-8; profile="' + SPECS + 'data-parsoid/2.6.0"'}
        return {'contentmodel': 'wikitext',
                'html': {'headers': {'content-type': types['html'], 'content-language': 'en', 'vary': 'Accept'},
                         'body': html},
                'data-parsoid': {'headers': {'content-type': types['data-parsoid']},
                                 'body': {'counter': 1, 'ids': {'mwAA': {'dsr': [0, rev, 0, 0]}, 'mwAg': {}}}}}

    @staticmethod
    def shown(text):
        """What MediaWiki 1.43 gives of a page that Parsoid has no part in, as a module."""
        types = {'html': f'text/html; charset=utf-8; profile="{SPECS}HTML/0.0.0"',
                 'data-parsoid': f'application/json; charset=utf-8; profile="{SPECS}data-parsoid/0.0.0"'}
        return {'contentmodel': '', 'html': {'headers': {'content-type': types['html'], 'content-language': 'en'},
                                             'body': f'<div class="mw-highlight"><pre>{text}</pre></div>'},
                'data-parsoid': {'headers': {'content-type': types['data-parsoid']}, 'body': []}}

    def v3_page(self, what, title, rev):
        wiki = self.wiki
        found = wiki.find(title, rev)
        json_type = {'Content-Type': 'application/json; charset=utf-8'}
        if found is None or found.hidden:
            return 404, json_type, {'message': 'The specified revision is deleted or suppressed.', 'httpCode': 404}
        if what == 'wikitext':
            return 200, {'Content-Type': f'text/plain; charset=utf-8; profile="{SPECS}wikitext/1.0.0"',
                         'Content-Revision-Id': str(rev)}, found.text.encode()
        if what == 'lint':
            return 200, json_type, [{'type': 'obsolete-tag', 'dsr': [0, 1, 0, 0]}]
        headers = {'Content-Type': f'application/json; charset=utf-8; profile="{SPECS}pagebundle/2.6.0"',
                   'Content-Revision-Id': str(rev)}
        if title in wiki.no_wikitext:
            return 200, headers, self.shown(found.text)
        return 200, headers, self.bundle(title, rev, wiki.html(title, rev, found.text))

    def transform(self, source, to, where, fields):
        title = where[0] if where else None
        rev = int(where[1]) if len(where) > 1 else 0
        json_type = {'Content-Type': 'application/json; charset=utf-8'}
        if rev and self.wiki.find(title, rev) is None:
            return 404, json_type, {'message': 'The specified revision is deleted or suppressed.', 'httpCode': 404}
        if to in ('html', 'pagebundle') and re.search(r'Specs/\w+/[01]\.', self.headers.get('Accept', '')):
            return 406, json_type, {'message': 'Not acceptable', 'httpCode': 406}   # it downgrades nothing it makes
        if source == to == 'pagebundle':
            return self.update(title, fields)
        if source == 'wikitext' and to == 'lint':
            return 200, json_type, [{'type': 'obsolete-tag', 'dsr': [0, len(fields['wikitext']), 0, 0]}]
        if source == 'wikitext' and to in ('html', 'pagebundle'):
            html = self.wiki.html(title or '', rev, fields['wikitext'])
            if fields.get('body_only'):
                html = re.search(r'<body[^>]*>(.*)</body>', html, re.S)[1]
            if to == 'pagebundle':
                return 200, json_type, self.bundle(title, rev, html)
            return 200, {'Content-Type': 'text/html; charset=utf-8; profile="' + SPECS + 'HTML/2.6.0"'}, html.encode()
        if source in ('html', 'pagebundle') and to == 'wikitext':
            html = fields['html']['body'] if isinstance(fields['html'], dict) else fields['html']
            text = re.search(r'<p[^>]*>(.*)</p>', html, re.S)
            return 200, {'Content-Type': f'text/plain; charset=utf-8; profile="{SPECS}wikitext/1.0.0"'}, \
                (text[1] if text else html).encode()
        return 404, json_type, {'message': 'no such transform'}

    def update(self, title, fields):
        """pagebundle to pagebundle: the original with its red links or its language made new."""
        json_type = {'Content-Type': f'application/json; charset=utf-8; profile="{SPECS}pagebundle/2.6.0"'}
        original, updates = fields['original'], fields['updates']
        html = original['html']['body']
        if 'redlinks' in updates:
            html = html.replace('</p>', ' <a class="new">red</a></p>')
        elif title != 'Variants':
            return 400, json_type, {'message': 'LanguageConversion is not enabled on this article.', 'httpCode': 400}
        else:
            html = html.replace('</p>', f' in {updates["variant"]["target"]}</p>')
        bundle = self.bundle(title, original['revid'], html)
        bundle['data-parsoid']['body'] = original['data-parsoid']['body']
        return 200, json_type, bundle
