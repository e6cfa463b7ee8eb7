"""Goal: servers that share a Redis tell each other what the wiki said, and what is made anew: who heard of a change
first makes all of them right on their next read, and no message makes anything older be served.
Method: server processes with stores of their own, a real redis-server, a scripted wiki that counts. Trust lasts for
hours, so that no server asks by itself; messages that nobody sent are published by hand."""
import contextlib
import re

from harness import Server, check, eq, main, scene, wait_until
from list_help import Cluster
from origin import Origin

TRUSTING = {'trust_ttl': '2h', 'trust_max': '3h'}


@contextlib.contextmanager
def wiki(binary, count, *args, **fields):
    with Origin() as origin:
        origin.page('A', (1, 'first'), (2, 'second'))
        origin.page('B', (5, 'other'))
        with Cluster(binary, count, '--set', 'hot_bytes=0', *args, *origin.options('localhost', **{**TRUSTING, **fields})) as c:
            yield origin, c


def get(server, path='A', status=200, headers=None):
    answer = server.request('GET', f'/localhost/v1/page/html/{path}', headers)
    eq(answer.status, status, f'{path}: {answer.body[:200]}')
    return answer


def rev_of(answer):
    return int(re.match(r'(?:W/)?"(\d+)/', answer.headers['ETag'])[1])


def tag_of(answer):
    return re.match(r'(?:W/)?"([^"]*)"', answer.headers['ETag'])[1]


def hears(server, path='A', status=200):
    """This server asks the wiki about the title, and hears its word."""
    eq(server.request('GET', f'/localhost/v1/page/title/{path}').status, status)


def trusted(c, path='A'):
    """All servers have it, and trust the same word."""
    for server in c.servers:
        get(server, path)
        get(server, path)


def publish(c, text):
    c.redis('PUBLISH', 'pal:all', '! ' + text)


@scene
def an_edit_heard_by_one_is_right_on_all(binary):
    with wiki(binary, 3) as (origin, c):
        trusted(c)
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        eq(rev_of(get(c.servers[1])), 2, 'nobody has heard of it')
        asked = origin.count('words')
        hears(c.servers[0])
        for server in c.servers:
            wait_until(lambda server=server: rev_of(get(server)) == 3, 'the newest revision')
        # Each of the others asked once: what these heard was no news to those who know it.
        for server in c.servers * 3:
            eq(rev_of(get(server)), 3)
        eq(origin.count('words') - asked, 2, 'questions')


@scene
def a_touched_page_is_made_anew_by_all(binary):
    with wiki(binary, 2) as (origin, c):
        trusted(c)
        origin.stamp = ' of a new template'
        origin.touched['A'] = '2026-02-01T00:00:00Z'
        hears(c.servers[0])
        for server in reversed(c.servers):
            wait_until(lambda server=server: b'new template' in get(server).body, 'made anew')
        # What came from the other server is known by the word that it was made under, too.
        origin.stamp = ' of a newer template'
        origin.touched['A'] = '2026-03-01T00:00:00Z'
        hears(c.servers[1])
        for server in c.servers:
            wait_until(lambda server=server: b'newer template' in get(server).body, 'made anew again')


@scene
def what_one_makes_anew_is_taken_by_those_that_have_an_older_one(binary):
    """The word does not move: {{NUMBEROFPAGES}} has another value, and somebody asks for it."""
    with wiki(binary, 3) as (origin, c):
        for server in c.servers[:2]:
            get(server)
            get(server)
        origin.stamp = ' 17 pages'
        asked, renders = origin.count('words'), origin.count('render')
        anew = get(c.servers[0], headers={'Cache-Control': 'no-cache'})
        check(b'17 pages' in anew.body, 'made anew')
        wait_until(lambda: tag_of(get(c.servers[1])) == tag_of(anew), 'taken')
        eq(get(c.servers[1]).body, anew.body)
        eq(origin.count('words'), asked, 'nobody asked')
        eq(origin.count('render'), renders + 1, 'made once')
        eq(c.servers[2].request('GET', '/localhost/v1/page/history/A').status, 404, 'who never had it did not take it')
        # By number, too.
        for server in c.servers[:2]:
            get(server, 'A/1')
        origin.stamp = ' 18 pages'
        anew = get(c.servers[1], 'A/1', headers={'Cache-Control': 'no-cache'})
        wait_until(lambda: tag_of(get(c.servers[0], 'A/1')) == tag_of(anew), 'taken')
        eq(origin.count('render'), renders + 3)


@scene
def what_was_made_anew_for_an_edit_is_made_once(binary):
    with wiki(binary, 2) as (origin, c):
        trusted(c)
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        renders = origin.count('render')
        anew = get(c.servers[0], headers={'Cache-Control': 'no-cache'})
        eq(rev_of(anew), 3)
        wait_until(lambda: tag_of(get(c.servers[1])) == tag_of(anew), 'taken')
        eq(tag_of(get(c.servers[1])), tag_of(anew), 'it is not dated')
        eq(origin.count('render'), renders + 1)


@scene
def what_is_hidden_or_deleted_is_gone_on_all(binary):
    with wiki(binary, 2) as (origin, c):
        a, b = c.servers
        for path in ('A', 'A/1', 'B'):
            trusted(c, path)
        exact = 'A/' + tag_of(get(b, 'A/1'))
        get(b, exact)
        origin.hide('A', 1)
        get(b, 'A/1')
        hears(a, 'A/1', 403)
        for path in ('A/1', exact):
            wait_until(lambda path=path: b.request('GET', f'/localhost/v1/page/html/{path}').status == 410, 'hidden')
        eq(rev_of(get(b)), 2, 'the newest is not hidden')
        origin.delete('B')
        hears(a, 'B', 404)
        wait_until(lambda: b.request('GET', '/localhost/v1/page/html/B').status == 404, 'deleted')


@scene
def a_clock_that_is_ahead_hides_nothing_from_a_word(binary):
    """The second server's clock is two hours ahead: of its own questions it believes that they came after any mark."""
    with wiki(binary, 1) as (origin, c), \
            Server(binary, *c.args, test_hooks=True) as ahead:
        get(ahead, 'A/1')
        ahead.clock(advance='2h')
        get(ahead, 'A/1')
        wait_until(lambda: b'palimpsest_redis_up 1' in ahead.request('GET', '/metrics').body, 'it has Redis')
        origin.hide('A', 1)
        get(ahead, 'A/1')
        hears(c.servers[0], 'A/1', 403)
        wait_until(lambda: ahead.request('GET', '/localhost/v1/page/html/A/1').status == 410, 'hidden there, too')


@scene
def a_hint_costs_each_reader_one_question(binary):
    with wiki(binary, 2) as (origin, c):
        trusted(c)
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        asked = origin.count('words')
        publish(c, 'look 0 page localhost - 0 0 A')
        for server in c.servers:
            wait_until(lambda server=server: rev_of(get(server)) == 3, 'it was looked at')
        eq(origin.count('words') - asked, 2)


@scene
def messages_that_nobody_should_send_make_nothing_older(binary):
    with wiki(binary, 1) as (origin, c):
        server = c.servers[0]
        trusted(c)
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        hears(server)
        tag = tag_of(get(server))
        eq(rev_of(get(server)), 3)
        get(server, 'B')
        get(server, 'B')
        asked, renders = origin.count('words'), origin.count('render')
        late = 'mark 0 page localhost current 2 2 1 A'
        texts = ['look 0 page localhost - 0 0 Unknown', 'look 0 page localhost 1 9 9 Unknown', late, late,
                 'made 0 page localhost 0 2 00000000-0000-1000-8000-000000000000 A',
                 f'made 0 page localhost 0 3 {tag.split("/")[1]} A',
                 'made 0 page localhost 0 9 ffffffff-ffff-1fff-8fff-ffffffffffff A',
                 'made 0 page localhost 0 9 ffffffff-ffff-1fff-8fff-ffffffffffff Unknown',
                 'made 0 mobile localhost 0 9 ffffffff-ffff-1fff-8fff-ffffffffffff A',
                 'purge', 'later 0 page localhost x A', 'look 0 page elsewhere - 0 0 A', 'look 0 page localhost - A', 'look 0 page localhost 7 2 9 A']
        for text in texts * 3:
            publish(c, text)
        # Messages come in order: this one is seen, so the others were.
        publish(c, 'look 0 page localhost - 0 0 B')
        wait_until(lambda: get(server, 'B') and origin.count('words') > asked, 'all were told')
        eq(tag_of(get(server)), tag, 'what is served')
        eq(tag_of(get(server)), tag)
        eq(origin.count('words') - asked, 2, 'of A one, of B one')
        eq(origin.count('render'), renders)


main()
