"""A private wiki: nothing of it to anybody whom the wiki does not let read it."""
import contextlib
import json
import subprocess
import tempfile

from harness import SceneError, check, eq, main, scene, wait_until
from origin import Origin, hang, status_of
from page_help import get, path, problem
from render_help import JSON, TRANSFORM, cache_of, name_of, origin_server
from shared_store import differs

BOT = 'Bearer bot-of-the-server'
ALICE, EVE, BOB = {'Cookie': 'session=alice'}, {'Cookie': 'session=eve'}, {'Cookie': 'session=bob'}
CONTENTS = ('html', 'data-parsoid', 'title', 'wikitext', 'lint')


def private_wiki():
    """Alice may read everything, Bob may read B, Eve nothing."""
    origin = Origin()
    origin.bot = BOT
    origin.readers = {ALICE['Cookie']: None, BOB['Cookie']: {'B'}}
    for title, rev in (('A', 7), ('B', 8)):
        origin.page(title, (rev, f'secret of {title}'))
    return origin


@contextlib.contextmanager
def private_server(binary, origin, *more):
    with tempfile.NamedTemporaryFile('w') as bot:
        bot.write(BOT + '\n')
        bot.flush()
        with origin_server(binary, origin, '--set', 'domains.localhost.origin.private=true',
                           '--set', f'domains.localhost.origin.authorization_file={bot.name}', *more) as server:
            yield server


def denied(answer):
    problem(answer, 403, 'access_denied#wiki')
    check(b'secret' not in answer.body, answer.body)
    for_nobody_else(answer)


def for_nobody_else(answer):
    eq(answer.headers['Cache-Control'], 'private, no-store')
    for name, _ in answer.headers.items():
        check(not name.lower().startswith('access-control-'), name)


@scene
def each_reader_is_asked_about(binary):
    with private_wiki() as origin, private_server(binary, origin) as server:
        denied(get(server, 'A', status=403))
        for_nobody_else(get(server, 'A', headers=ALICE))        # it is made now
        for headers in (None, EVE, BOB, {'Cookie': 'session=alice2'}, {'Authorization': 'Basic x'}):
            denied(get(server, 'A', status=403, headers=headers))
        for _ in range(3):      # never a ready answer
            answer = get(server, 'A', headers=ALICE)
            eq((cache_of(answer), b'secret of A' in answer.body), ('hit', True))
            for_nobody_else(answer)
            denied(get(server, 'A', status=403))
        check(b'secret of B' in get(server, 'B', headers=BOB).body, 'what Bob may read')
        eq(origin.count('leave'), 14)       # each time
        for kind, _, headers, _ in origin.seen:     # whose words go where
            eq(headers.get('authorization') == BOT, kind != 'leave', kind)
            eq('cookie' in headers and kind != 'leave', False, kind)


@scene
def who_does_not_wait_is_asked_about_all_the_same(binary):
    """His right to read is no answer that he may do without: that question has check_wait, and what is stored is given."""
    at_once = {'Prefer': 'wait=0'}
    with private_wiki() as origin, private_server(binary, origin, '--set', 'domains.localhost.origin.check_wait=20s') as server:
        problem(get(server, 'A', headers={**ALICE, **at_once}, status=504), 504, 'origin_timeout')
        wait_until(lambda: server.request('GET', path('html', 'A'), {**ALICE, **at_once}).status == 200, 'it is made behind that')
        name = name_of(get(server, 'A', headers={**ALICE, **at_once}))
        eq(name_of(get(server, 'A', *name, headers={**ALICE, **at_once})), name)
        denied(get(server, 'A', headers={**EVE, **at_once}, status=403))
        denied(get(server, 'A', headers=at_once, status=403))
    with private_wiki() as origin, private_server(binary, origin, '--set', 'domains.localhost.origin.check_wait=200ms') as server:
        get(server, 'A', headers=ALICE)
        with origin.gate('leave'):      # the wiki does not say
            problem(get(server, 'A', headers={**ALICE, **at_once}, status=504), 504, 'origin_timeout')


@scene
def nothing_of_a_page_is_for_who_may_not_read_it(binary):
    with private_wiki() as origin, private_server(binary, origin) as server:
        name = name_of(get(server, 'A', headers=ALICE))
        targets = [path(content, 'A', *where) for content in CONTENTS for where in ((), (7,))]
        targets += [path('html', 'A', *name), path('data-parsoid', 'A', *name), path('history', 'A'), path('explain', 'A'),
                    path('title', ''), path('html', 'Missing'), path('html', 'A') + '?at=2026-01-01T00:00:00Z',
                    path('html', 'A') + '?stash=true']
        for target in targets:
            for headers in ({}, EVE):
                for extra in ({}, {'If-None-Match': '*'}, {'Cache-Control': 'only-if-cached'}, {'Origin': 'http://evil.test'}):
                    denied(server.request('GET', target, {**headers, **extra}))
            eq(server.request('HEAD', target, EVE).status, 403)
        for target in targets[:14]:
            check(server.request('GET', target, ALICE).status == 200, target)
        body = json.dumps({'html': '<p>x</p>'}).encode()
        for where in ('', '/A', '/A/7'):
            for kinds in ('html/to/wikitext', 'wikitext/to/html'):
                answer = server.request('POST', f'/localhost/v1/transform/{kinds}{where}', {**EVE, **JSON}, body)
                denied(answer)
        eq(origin.count('transform'), 0)
        allowed = server.request('POST', TRANSFORM + '/A', {**ALICE, **JSON}, b'{"wikitext": "x"}')
        eq(allowed.status, 200, allowed.body)
        for_nobody_else(allowed)


@scene
def who_may_read_one_page_gets_no_list_of_others(binary):
    with private_wiki() as origin, private_server(binary, origin) as server:
        for title in ('A', 'B'):
            get(server, title, headers=ALICE)
        eq(json.loads(server.request('GET', path('title', ''), ALICE).body)['items'], ['A', 'B'])
        for target in (path('title', ''), path('title', '') + '?limit=1'):
            denied(server.request('GET', target, BOB))
        body = json.dumps({'wikitext': '{{:A}}'}).encode()      # shows whatever page it names
        denied(server.request('POST', TRANSFORM, {**BOB, **JSON}, body))
        eq(server.request('POST', TRANSFORM, {**ALICE, **JSON}, body).status, 200)


@scene
def an_editor_opens_and_saves(binary):
    with private_wiki() as origin, private_server(binary, origin) as server:
        opened = get(server, 'A', query='?stash=true&redirect=false', headers=ALICE)
        save = {**ALICE, **JSON, 'If-Match': opened.headers['ETag']}
        target = '/localhost/v1/transform/html/to/wikitext/A/7'
        body = json.dumps({'html': opened.body.decode()}).encode()
        eq(server.request('POST', target, save, body).status, 200)
        denied(server.request('POST', target, {**save, **EVE}, body))


@scene
def scripts_of_other_sites_read_nothing(binary):
    with private_wiki() as origin, private_server(binary, origin) as server:
        origin.page('R', (9, '#REDIRECT [[A]]'))
        script = {**ALICE, 'Origin': 'http://other.test'}
        followed = get(server, 'R', headers=script, status=302)     # not followed here: A is another page
        for_nobody_else(followed)
        asked = server.request('OPTIONS', path('html', 'A'), {'Origin': 'http://other.test', 'Access-Control-Request-Method': 'GET'})
        for name, _ in asked.headers.items():
            check(not name.lower().startswith('access-control-'), name)


@scene
def a_wiki_that_cannot_be_asked_lets_nobody_read(binary):
    wait = '3s' if differs('a render is made in several round trips') else '300ms'
    with private_wiki() as origin, private_server(binary, origin, '--set', f'flight.wait_timeout={wait}') as server:
        get(server, 'A', headers=ALICE)
        for fault, status in ((status_of(503), 503), (status_of(500), 502), (hang, 504)):
            origin.fault('leave', fault)
            answer = get(server, 'A', headers=ALICE, status=status)
            check(b'secret' not in answer.body, answer.body)
            for_nobody_else(answer)
        origin.fault('leave', None)
        eq(get(server, 'A', headers=ALICE).status, 200)


@scene
def a_yes_counts_for_leave_ttl(binary):
    with private_wiki() as origin, \
            private_server(binary, origin, '--set', 'domains.localhost.origin.leave_ttl=1h') as server:
        for _ in range(3):
            get(server, 'A', headers=ALICE)
        eq(origin.count('leave'), 1)
        denied(get(server, 'A', headers=EVE, status=403))
        denied(get(server, 'A', headers=BOB, status=403))
        get(server, 'B', headers=BOB)
        get(server, 'B', headers=BOB)
        denied(get(server, 'A', headers=BOB, status=403))
        eq(origin.count('leave'), 5)        # a no is not kept


@scene
def origin_check_asks_as_the_server_does(binary):
    with private_wiki() as origin, tempfile.NamedTemporaryFile('w') as bot:
        for text, code in ((BOT, 0), ('Bearer somebody-else', 1)):
            bot.seek(0)
            bot.truncate()
            bot.write(text)
            bot.flush()
            done = subprocess.run([binary, 'origin', 'check', *origin.options('localhost', authorization_file=bot.name),
                                   '--title', 'A'], capture_output=True, text=True, check=False)
            eq(done.returncode, code, done.stdout + done.stderr)


@scene
def what_makes_no_sense_is_refused_at_the_start(binary):
    with private_wiki() as origin, tempfile.NamedTemporaryFile('w') as two:
        two.write('a\nb\n')
        two.flush()
        for options, words in ((('private=true', 'forward_cookies=true'), 'cookies are asked about'),
                               (('authorization_file=/nowhere/bot',), 'cannot be read'),
                               ((f'authorization_file={two.name}',), 'one line')):
            more = [word for option in options for word in ('--set', f'domains.localhost.origin.{option}')]
            try:
                with origin_server(binary, origin, *more):
                    check(False, 'it started')
            except SceneError as failure:
                check(words in str(failure), failure)


main()
