"""What the scenes of renders share: a server in front of a scripted origin, crowds of requests, figures."""
import contextlib
import http.client
import re
import threading

from harness import check, wait_until
from page_help import page_server

NO_CACHE = {'Cache-Control': 'no-cache'}


def origin_server(binary, origin, *args, **named):
    return page_server(binary, *origin.options('localhost'), *args, **named)


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
            thread.join(60)

    def wait(self):
        self.over()
        check(None not in self.answers, 'everybody is answered')
        return self.answers
