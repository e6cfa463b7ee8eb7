"""What the scenes of renders share: a server in front of a scripted origin, crowds of requests, figures."""
import contextlib
import http.client
import re
import threading

from harness import REQUEST_TIMEOUT, check, eq, wait_until
from page_help import page_server, path, problem

NO_CACHE = {'Cache-Control': 'no-cache'}
TRANSFORM = '/localhost/v1/transform/wikitext/to/html'
JSON = {'Content-Type': 'application/json'}
# Errors are forgotten at once, so that the next request asks again.
FORGETFUL = ('--set', 'flight.error_base=1ms', '--set', 'flight.error_max=1ms')


def origin_server(binary, origin, *args, **named):
    return page_server(binary, *origin.options('localhost'), *args, **named)


def impatient_server(binary, origin, *args, **more):
    """In front of an origin that fails: it takes and remembers little; scenes whose origin hangs say how long it waits."""
    options = {'retries': 0, 'reply_bytes_max': '256k', **more}
    return page_server(binary, *origin.options('localhost', **options), *FORGETFUL, *args)


def name_of(answer):
    """(rev, tid) of the ETag."""
    found = re.fullmatch(r'(?:W/)?"(\d+)/([0-9a-f-]{36})"', answer.headers['ETag'] or '')
    check(found, f'an entity tag: {answer.headers["ETag"]}')
    return int(found[1]), found[2]


def cache_of(answer):
    return answer.headers['X-Restbase-Cache']


def metric(server, name):
    text = server.request('GET', '/metrics').body.decode()
    return int(float(re.search(rf'^palimpsest_{name} (\S+)$', text, re.M)[1]))


def ask_anew(server, origin, kind, target, headers=None):
    """The first answer for which the origin was asked for this kind of thing: remembered errors run out."""
    def ask():
        before = origin.count(kind)
        answer = server.request('GET', target, headers)
        return answer if origin.count(kind) > before else None
    return wait_until(ask, f'the origin is asked for {target}')


def ask_transform(server, where=TRANSFORM, headers=()):
    return server.request('POST', where, [*headers, *JSON.items()], b'{"wikitext": "x"}')


def meets(server, origin, name, fault, expected=(502,), stored=404):
    """A's render meets this fault: one of the statuses expected, and its history is as before (no such title, or gone)."""
    origin.fault('render', fault)
    answer = ask_anew(server, origin, 'render', path('html', 'A'))
    check(answer.status in expected, f'{name}: {answer.status} {answer.body}')
    if answer.status == 502:
        problem(answer, 502, 'origin_failed')
    eq(answer.headers['Set-Cookie'], None, name)
    eq(server.request('GET', path('history', 'A')).status, stored, name)
    return answer


def all_is_well(server, origin):
    """A's render meets nothing any more, and can be made."""
    origin.fault('render', None)
    eq(cache_of(ask_anew(server, origin, 'render', path('html', 'A'))), 'miss')


class Crowd:
    """Many requests at once, each on a connection of its own; answers in order of asking."""

    def __init__(self, server, requests):
        self.answers = [None] * len(requests)

        def ask(i, target, headers):
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.answers[i] = server.request('GET', target, headers)
        self.threads = [threading.Thread(target=ask, args=(i, target, headers), daemon=True)
                        for i, (target, headers) in enumerate(requests)]
        for thread in self.threads:
            thread.start()

    def over(self):
        for thread in self.threads:
            thread.join(REQUEST_TIMEOUT)

    def wait(self):
        self.over()
        check(None not in self.answers, 'everybody is answered')
        return self.answers


class Held:
    """A request whose call of this kind waits at the wiki: written, or to be answered when it goes on."""

    def __init__(self, server, origin, kind, method, target, headers=None, body=None, written=True):
        self.gate = origin.gate(kind, written)
        gate = self.gate.__enter__()
        self.answer = None

        def ask():
            self.answer = server.request(method, target, headers, body)
        self.thread = threading.Thread(target=ask, daemon=True)
        self.thread.start()
        wait_until(lambda: gate.waiting > 0, f'{kind} waits at the wiki')
        origin.ungate(kind)

    def go(self):
        self.gate.__exit__(None, None, None)
        self.thread.join(120)
        return self.answer
