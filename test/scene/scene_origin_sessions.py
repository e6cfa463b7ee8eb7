"""Goal: what an origin makes for one user is never stored for, nor shared with, another. Method: an origin that writes what it
was told of its caller into everything it answers, and sets cookies; two users with cookies and credentials ask at once."""
import contextlib
import json
import re
import threading

from harness import check, eq, main, scene, wait_until
from origin import Origin, status_of
from page_help import get, history, page_server, path, problem
from render_help import NO_CACHE, cache_of

WHERE = '/localhost/v1/transform/wikitext/to/html/A'
BACK = '/localhost/v1/transform/html/to/wikitext/A/7'
JSON = {'Content-Type': 'application/json'}


def user(name):
    return {'Cookie': f'session={name}', 'Authorization': f'Bearer key-of-{name}', 'X-Client-IP': '10.0.0.1'}


def tells(handler, status, headers, body):
    """What it knows of the caller, in the text; and a session for her."""
    known = ' '.join(value for name, value in handler.headers.items() if name.lower() in ('cookie', 'authorization'))
    headers = {**headers, 'Set-Cookie': 'session=of-the-origin; Path=/', 'WWW-Authenticate': 'Basic'}
    handler.answer(status, headers, body.replace(b'</p>', f' caller[{known}]</p>'.encode()))


@contextlib.contextmanager
def telling(binary, forward='true'):
    """A server, and an origin that tells its caller with what it transforms."""
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        origin.users = {'session=alice': 1, 'session=bob': 2, 'VEE=visualeditor; session=of-alice-anew': 1}
        origin.fault('transform', tells)
        with page_server(binary, *origin.options('localhost', forward_cookies=forward)) as server:
            yield origin, server


def transform(server, text, name=None, **fields):
    more = ''.join(f', "{field}": {value}' for field, value in fields.items())
    return server.request('POST', WHERE, {**JSON, **(user(name) if name else {})}, f'{{"wikitext": "{text}"{more}}}')


def save(server, kept, cookie=None, by_tag=True):
    """Sends a document back that stood in this answer."""
    headers = {'If-Match': kept.headers['ETag']} if by_tag else {}
    who = {'Cookie': cookie if '=' in cookie else f'session={cookie}'} if cookie else {}
    return server.request('POST', BACK, {**JSON, **headers, **who}, json.dumps({'html': kept.body.decode()}))


def told(answer):
    return re.search(rb'caller\[(.*?)\]', answer.body)[1].decode()


def only_ours(answer):
    eq((answer.headers['Set-Cookie'], answer.headers['WWW-Authenticate']), (None, None))
    check('private' in answer.headers['Cache-Control'] or answer.headers['Cache-Control'] == 'no-cache',
          answer.headers['Cache-Control'])


@scene
def renders_are_made_for_nobody_in_particular(binary):
    for forward in ('false', 'true'):
        with Origin() as origin:
            origin.page('A', (6, 'old'), (7, 'new'))
            origin.fault('render', tells)
            origin.fault('wikitext', tells)
            with page_server(binary, *origin.options('localhost', forward_cookies=forward)) as server:
                alice = get(server, 'A', headers=user('alice'))
                eq((told(alice), cache_of(alice)), ('', 'miss'))
                only_ours(alice)
                bob = get(server, 'A', headers=user('bob'))
                eq((bob.body, cache_of(bob)), (alice.body, 'hit'))
                for headers in ({**user('bob'), **NO_CACHE}, {}):
                    eq(told(get(server, 'A', headers=headers)), '')
                eq(told(get(server, 'A', 6, query='?stash=true', headers=user('alice'))), '')
                only_ours(get(server, 'A', content='wikitext', headers=user('alice')))
                eq(server.request('GET', path('title', 'A'), user('alice')).status, 200)
                for kind, target, headers, _ in origin.seen:
                    eq([name for name in headers if name in ('cookie', 'authorization', 'x-client-ip')], [], f'{kind} {target}')


@scene
def without_leave_no_cookie_goes_out_with_a_transform(binary):
    with telling(binary, forward='false') as (origin, server):
        answer = transform(server, 'x', 'alice')
        eq((answer.status, told(answer)), (200, ''))
        only_ours(answer)
        kept = transform(server, 'x', 'alice', stash='true')    # as for anybody
        for name in ('alice', 'bob', None):
            eq(save(server, kept, name).status, 200, name)
        eq(origin.count('user'), 0)


@scene
def a_transform_made_with_a_cookie_is_its_callers_alone(binary):
    with telling(binary) as (origin, server):
        answers = {}
        with origin.gate('transform') as gate:
            threads = [threading.Thread(target=lambda n=name: answers.update({n: transform(server, 'the same', n)}),
                                        daemon=True) for name in ('alice', 'bob', None)]
            for thread in threads:
                thread.start()
            wait_until(lambda: gate.waiting == 3, 'each is asked for on its own')
            gate.open()
            for thread in threads:
                thread.join(60)
        eq({name: told(answer) for name, answer in answers.items()},    # her cookie, never her key
           {'alice': 'session=alice', 'bob': 'session=bob', None: ''})
        for answer in answers.values():
            only_ours(answer)
        eq(told(transform(server, 'the same')), '')     # and nothing was remembered
        eq(origin.count('transform'), 4)
        eq(server.request('GET', path('history', 'A')).status, 404)


@scene
def what_is_kept_for_an_edit_is_never_shown(binary):
    with telling(binary) as (_, server):
        alice = transform(server, 'typed', 'alice', stash='true')
        bob = transform(server, 'typed', 'bob', stash='true')
        eq((told(alice), told(bob)), ('session=alice', 'session=bob'))
        check(alice.headers['ETag'] != bob.headers['ETag'], 'each has her own')
        only_ours(alice)
        _, tid, _ = alice.headers['ETag'].strip('"').split('/')
        for rev in (0, 1, 7):
            for bucket in ('page', '_stash'):
                for who in ({}, user('alice'), user('bob')):
                    answer = server.request('GET', path('html', 'A', rev, tid, bucket), who)
                    check(answer.status in (400, 404), f'{bucket} {rev}: {answer.status}')
        page = get(server, 'A', headers=user('bob'))
        eq((cache_of(page), b'alice' in page.body, b'typed' in page.body), ('miss', False, False))
        eq([item['rev'] for item in history(server, 'A')['items']], [7])
        server.restart()
        eq(b'alice' in get(server, 'A').body, False)
        problem(server.request('GET', path('wikitext', 'A', 1)), 404, 'not_found')


@scene
def what_is_kept_for_an_edit_is_its_users_alone(binary):
    with telling(binary) as (origin, server):
        origin.fault('transform', None)     # what is typed is the same, whoever types it
        for text in ('typed', 'the same'):
            where = 'A' if text == 'typed' else 'A/7'
            kept = server.request('POST', f'{WHERE[:-1]}{where}', {**JSON, **user('alice')},
                                  json.dumps({'wikitext': text, 'stash': True}))
            eq(kept.status, 200)
            asked = origin.count('transform')
            for by_tag in (True, False) if text == 'the same' else (True,):
                for thief in ('bob', None, 'nobody'):
                    problem(save(server, kept, thief, by_tag), 404, 'not_found')
            eq(origin.count('transform'), asked, 'nothing of it went out')
            server.restart()
            for cookie in ('alice', 'VEE=visualeditor; session=of-alice-anew'):     # cookies change during an edit
                eq(save(server, kept, cookie).body.decode(), text)
                eq(json.loads(origin.seen[-1][3])['original']['wikitext']['body'], text)
            own = transform(server, text, 'bob', stash='true')
            eq((save(server, own, 'bob').status, save(server, own, 'alice').status), (200, 404))
            for nobodys in (transform(server, text, stash='true'), transform(server, text, 'nobody', stash='true')):
                for name in (None, 'nobody'):
                    eq(save(server, nobodys, name).status, 200, name)
        page = get(server, 'A')
        for name in ('alice', 'bob', None):     # a render is everybody's
            eq(save(server, page, name).status, 200, name)


@scene
def who_is_not_known_is_given_nothing_that_was_kept(binary):
    with telling(binary) as (origin, server):
        kept = transform(server, 'typed', 'alice', stash='true')
        asked = origin.count('transform')
        for code, status, kind in ((500, 502, 'origin_failed'), (429, 503, 'origin_busy'), (403, 403, 'access_denied#wiki')):
            origin.fault('user', status_of(code))
            problem(save(server, kept, 'alice'), status, kind)
            problem(transform(server, 'more', 'alice', stash='true'), status, kind)
        eq(origin.count('transform'), asked)
        eq(transform(server, 'more', 'alice').status, 200)      # nothing is kept of that
        origin.fault('user', None)
        eq(save(server, kept, 'alice').status, 200)


main()
