"""Goal: an operator sees what stash=true keeps, of whom and until when, and takes it away. Method: a server in front of a
scripted origin with pins on renders and previews of two users; the admin routes, and the client over them."""
import json
import pathlib
import tempfile

from cli import Client
from harness import check, eq, main, scene
from origin import Origin
from page_help import DAY, explain, get, instant, page_server, path, problem, put, tid
from several import one_server
from shared_store import differs

STASHES = '/v1/admin.stash/localhost'
TRANSFORM = '/localhost/v1/transform/wikitext/to/html/'
BACK = '/localhost/v1/transform/html/to/wikitext/A/7'


def kept(server, query=''):
    """All items, page by page."""
    items, page = [], ''
    while True:
        answer = server.json('GET', STASHES + '?' + query + page)
        eq(answer.status, 200, f'{answer.body}')
        items += answer.body['items']
        if 'next' not in answer.body:
            return items
        page = '&page=' + answer.body['next']


def brief(items):
    return [(i['bucket'] or i['kind'], i['title'], i['rev'], i['user']) for i in items]


def preview(server, title, text, cookie=None):
    answer = server.request('POST', TRANSFORM + title + '/7', {'Content-Type': 'application/json',
                                                               **({'Cookie': cookie} if cookie else {})},
                            json.dumps({'wikitext': text, 'stash': True}))
    eq(answer.status, 200, f'{answer.body}')
    return answer


def save(server, answer, cookie=None):
    return server.request('POST', BACK, {'Content-Type': 'application/json', 'If-Match': answer.headers['ETag'],
                                         **({'Cookie': cookie} if cookie else {})},
                          json.dumps({'html': answer.body.decode()}))


def wiki():
    origin = Origin()
    origin.page('A', (7, 'first'))
    origin.page('B', (7, 'other'))
    origin.users = {'session=alice': 1, 'session=bob': 2}
    return origin


@scene
def what_is_kept_for_edits_is_listed_and_taken_away(binary):
    with wiki() as origin, page_server(binary, *origin.options('localhost', forward_cookies='true')) as server:
        for title in 'AB':
            get(server, title, query='?stash=true')
        got = get(server, 'A')
        of_all, of_alice = preview(server, 'A', 'typed'), preview(server, 'A', 'typed', 'session=alice')
        preview(server, 'B', 'typed', 'session=bob')
        items = kept(server)
        pins, previews = [('page', 'A', 7, None), ('page', 'B', 7, None)], [('preview', 'A', 7, 1), ('preview', 'B', 7, 2),
                                                                           ('preview', 'A', 7, None)]
        eq(brief(items), pins + previews)
        eq(brief(kept(server, 'limit=1')), pins + previews)
        eq((f'"7/{items[0]["tid"]}"', items[0]['until'], items[0]['kind']), (got.headers['ETag'], instant(DAY), 'pin'))
        check(all(i['bytes'] > 0 for i in items), items)
        eq(brief(kept(server, 'title=a')), [pins[0], previews[0], previews[2]])   # as the wiki writes it
        eq(kept(server, 'title=C'), [])
        removed = server.json('DELETE', STASHES + '?title=A').body
        eq(removed, {'removed': 3, 'bytes': sum(i['bytes'] for i in items if i['title'] == 'A')})
        eq(brief(kept(server)), [pins[1], previews[1]])
        eq((explain(server, 'A', 7)['holds'], get(server, 'A').body), ([], got.body))
        problem(save(server, of_all), 410, 'purged')
        problem(save(server, of_alice, 'session=alice'), 410, 'purged')
        server.restart()
        eq(brief(kept(server)), [pins[1], previews[1]])
        server.clock(advance='1d')
        if differs('a release lingers: another server may just have seen the pin'):
            server.clock(advance='1h')
        eq(kept(server), [])


@scene
@one_server('each server counts for itself what it keeps for edits')
def a_pin_that_is_taken_away_holds_nothing_alive_and_frees_its_room(binary):
    bound = ('--set', 'page.stash_bytes_max=5k', '--set', 'page.codec=identity', '--set', 'page.grace_ttl=1h')
    with page_server(binary, *bound) as server:
        put(server, 'A', 1, b'A' * 4000, tid())
        put(server, 'B', 1, b'B' * 4000, tid())
        get(server, 'A', query='?stash=true')
        put(server, 'A', 2, b'next', tid(1))
        problem(server.request('GET', path('html', 'B') + '?stash=true'), 507, 'stash_full')
        eq(server.json('DELETE', STASHES).body['removed'], 1)
        get(server, 'B', query='?stash=true')
        server.clock(advance='1h')
        if differs('a release lingers: another server may just have seen the pin'):
            server.clock(advance='1h')
        problem(server.request('GET', path('html', 'A', 1, tid())), 410, 'culled')


@scene
@one_server('each server counts for itself what it keeps for edits')
def what_was_not_kept_after_all_takes_no_room(binary):
    bound = ('--set', 'page.stash_bytes_max=9k', '--set', 'page.codec=identity')
    with page_server(binary, *bound) as server:
        def ask(title, rev, name, fill):
            return server.request('PUT', path('html', title, rev, name) + '?stash=true', {'Content-Type': 'text/html'},
                                  fill * 4000).status
        eq(ask('A', 1, tid(), b'A'), 201)
        for _ in range(3):
            eq(ask('A', 1, tid(), b'A'), 200)                # it is kept as long already
            eq(ask('A', 1, tid(), b'B'), 409)
            eq(ask('A', 1, tid(DAY), b'B'), 400)
        eq(ask('B', 1, tid(), b'B'), 201)
        problem(server.request('PUT', path('html', 'C', 1, tid()) + '?stash=true', {'Content-Type': 'text/html'},
                               b'C' * 4000), 507, 'stash_full')


@scene
def what_is_put_counts_as_it_is_stored(binary):
    with page_server(binary, '--set', 'page.stash_bytes_max=9k') as server:
        def ask(n):
            return server.request('PUT', path('html', f'T{n}', 1) + '?stash=true', {'Content-Type': 'text/html'}, b'x' * 8000)
        eq([ask(n).status for n in range(4)], [201] * 4)         # a few bytes each
        eq(server.json('DELETE', STASHES).body['removed'], 4)
        eq([ask(n).status for n in range(4, 8)], [201] * 4)
        problem(server.request('PUT', path('html', 'Large', 1) + '?stash=true', {'Content-Type': 'text/html'}, b'x' * 10000),
                507, 'stash_full')


@scene
@one_server('each server counts for itself what it keeps for edits')
def headers_take_room_and_no_more_comes_back_than_they_took(binary):
    with page_server(binary, '--set', 'page.stash_bytes_max=16k') as server:
        def ask(title):
            return server.request('PUT', path('html', title, 1) + '?stash=true',
                                  {'Content-Type': 'text/html', 'X-Store-X-Long': 'h' * 5000}, b'')
        eq([ask(title).status for title in 'ABC'], [201] * 3)
        problem(ask('D'), 507, 'stash_full')
        eq(server.json('DELETE', STASHES + '?title=A').body['removed'], 1)
        eq([ask(title).status for title in 'DE'], [201, 507])
        get(server, 'E', status=404)


@scene
@one_server('each server counts for itself what it keeps for edits')
def a_put_of_what_is_there_already_counts_as_that_is_stored(binary):
    plain, small = ('--set', 'page.codec=identity'), ('--set', 'page.codec=zstd', '--set', 'page.stash_bytes_max=9k')
    with page_server(binary, *plain) as server:
        def ask(title, query=''):
            return server.request('PUT', path('html', title, 1) + query, {'Content-Type': 'text/html'}, b'x' * 8000)
        eq([ask(title).status for title in 'AB'], [201, 201])
        server.restart(*small)
        eq(ask('A', '?stash=true').status, 200)
        eq([i['bytes'] > 8000 for i in kept(server)], [True])
        problem(ask('B', '?stash=true'), 507, 'stash_full')
        eq(server.json('DELETE', STASHES).body['removed'], 1)
        eq(ask('B', '?stash=true').status, 200)


@scene
@one_server('each server counts for itself what it keeps for edits')
def what_is_kept_without_end_takes_all_its_room_and_gives_all_back(binary):
    bound = ('--set', 'page.stash_bytes_max=4500', '--set', 'page.codec=identity', '--set', 'page.stash_ttl=never')
    with page_server(binary, *bound) as server:
        def ask(title):
            return server.request('PUT', path('html', title, 1) + '?stash=true', {'Content-Type': 'text/html'}, b'x' * 4000)
        for one, other in ('AB', 'BA', 'AB'):
            check(ask(one).status in (200, 201), one)
            server.clock(advance='3650d')
            problem(ask(other), 507, 'stash_full')
            eq(server.json('DELETE', STASHES).body['removed'], 1)


@scene
@one_server('each server counts for itself what it keeps for edits')
def the_room_is_one_for_buckets_that_keep_long_and_short(binary):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / 'p.yaml'
        config.write_text('buckets: { mobile: { kind: page, contents: [html], stash_ttl: 10d, codec: identity } }\n'
                          'page: { stash_ttl: 1h, stash_bytes_max: 10k }\n')
        with page_server(binary, '--config', config) as server:
            def ask(n):
                return server.request('PUT', f'/localhost/v1/mobile/html/T{n}/1?stash=true', {'Content-Type': 'text/html'},
                                      b'x' * 8000).status
            statuses = []
            for n in range(10):
                statuses.append(ask(n))
                server.clock(advance='1d')
            check(statuses.count(201) <= 3, f'twice as much as may be kept, at most: {statuses}')
            eq((statuses[0], set(statuses)), (201, {201, 507}))


@scene
def puts_that_pin_are_paced_too(binary):
    with page_server(binary, '--set', 'page.stash_per_s_max=1', '--set', 'http.trusted_proxies=127.0.0.1') as server:
        def ask(n, query='?stash=true'):
            return server.request('PUT', path('html', f'T{n}', 1) + query, {'Content-Type': 'text/html',
                                                                            'X-Forwarded-For': '8.8.8.8'}, b'x')
        answers = [ask(0)]
        while answers[-1].status != 429 and len(answers) < 1000:
            answers.append(ask(len(answers)))
        problem(answers[-1], 429, 'request_rate_exceeded')
        eq(answers[0].status, 201)
        eq([ask(f'plain-{n}', '').status for n in range(20)], [201] * 20)


@scene
def the_client_shows_and_takes_away(binary):
    with page_server(binary) as server:
        client = Client(binary, server)
        for title in ('A', 'B/c d', 'C'):
            where = title.replace('/', '%2F').replace(' ', '%20')
            put(server, where, 1, b'text', tid())
            get(server, where, query='?stash=true')
        eq([i['title'] for i in client.json('stash', 'ls')], ['A', 'B/c d', 'C'])
        eq([i['title'] for i in client.json('stash', 'ls', 'B/c d')], ['B/c d'])
        check(client.ok('stash', 'ls', 'A').splitlines()[1].split()[:3] == ['page', 'A', '1'], client.ok('stash', 'ls'))
        eq(client('stash', 'rm').returncode, 2)
        eq(client('stash', 'rm', 'A', '--all').returncode, 2)
        eq(client.json('stash', 'rm', 'B/c d')[0]['removed'], 1)
        check(client.ok('stash', 'rm', '--all').startswith('2 removed, '), 'both that are left')
        eq(client.json('stash', 'ls'), [])


@scene
def what_is_wrong_with_the_question_is_said(binary):
    with page_server(binary) as server:
        for method in ('GET', 'DELETE'):
            eq(server.request(method, '/v1/admin.stash/elsewhere').status, 404)
            for query in ('page=x', 'page=', 'limit=0', 'title=', 'title=' + 441 * 'x'):
                eq(server.request(method, STASHES + '?' + query).status, 400, f'{method} {query}')


if __name__ == '__main__':
    main()
