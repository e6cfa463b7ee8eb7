"""Goal: what an origin makes for one user is never stored for, nor shared with, another. Method: an origin that writes what it
was told of its caller into everything it answers, and sets cookies; two users with cookies and credentials ask at once."""
import re
import threading

from harness import check, eq, main, scene, wait_until
from origin import Origin
from page_help import get, history, page_server, path, problem
from render_help import NO_CACHE, cache_of

WHERE = '/localhost/v1/transform/wikitext/to/html/A'
JSON = {'Content-Type': 'application/json'}


def user(name):
    return {'Cookie': f'session={name}', 'Authorization': f'Bearer key-of-{name}', 'X-Client-IP': '10.0.0.1'}


def tells(handler, status, headers, body):
    """What it knows of the caller, in the text; and a session for her."""
    known = ' '.join(value for name, value in handler.headers.items() if name.lower() in ('cookie', 'authorization'))
    headers = {**headers, 'Set-Cookie': 'session=of-the-origin; Path=/', 'WWW-Authenticate': 'Basic'}
    handler.answer(status, headers, body.replace(b'</p>', f' caller[{known}]</p>'.encode()))


def transform(server, text, name=None, **fields):
    more = ''.join(f', "{field}": {value}' for field, value in fields.items())
    return server.request('POST', WHERE, {**JSON, **(user(name) if name else {})}, f'{{"wikitext": "{text}"{more}}}')


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
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        origin.fault('transform', tells)
        with page_server(binary, *origin.options('localhost')) as server:
            answer = transform(server, 'x', 'alice')
            eq((answer.status, told(answer)), (200, ''))
            only_ours(answer)


@scene
def a_transform_made_with_a_cookie_is_its_callers_alone(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        origin.fault('transform', tells)
        with page_server(binary, *origin.options('localhost', forward_cookies='true')) as server:
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
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        origin.fault('transform', tells)
        with page_server(binary, *origin.options('localhost', forward_cookies='true')) as server:
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


main()
