"""Goal: servers that share a Redis tell each other what the wiki said, and what is made anew: who heard of a change
first makes all of them right on their next read, and no message makes anything older be served.
Method: server processes with stores of their own, a real redis-server, a scripted wiki that counts. Trust lasts for
hours, so that no server asks by itself; messages that nobody sent are published by hand."""
import concurrent.futures
import contextlib
import json
import pathlib
import re
import signal
import socket
import tempfile
import threading

from change_help import LISTEN, purge
from harness import Server, check, eq, free_port, main, scene, wait_until
from list_help import Cluster
from origin import Origin

TRUSTING = {'trust_ttl': '2h', 'trust_max': '3h'}


@contextlib.contextmanager
def wiki(binary, count, *args, **fields):
    with Origin() as origin:
        origin.page('A', (1, 'first'), (2, 'second'))
        origin.page('B', (5, 'other'))
        with Cluster(binary, count, *args, *origin.options('localhost', **{**TRUSTING, **fields})) as c:
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
        # Each of the others asked once: what these heard was no news to those who know it. The last one may have been told
        # of it a second time while it asked; then its next reader asks once more.
        for server in c.servers * 3:
            eq(rev_of(get(server)), 3)
        check(origin.count('words') - asked in (2, 3), f'{origin.count("words") - asked} questions')


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


def made_anew_is_taken(origin, c):
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
def what_one_makes_anew_is_taken_by_those_that_have_an_older_one(binary):
    """The word does not move: {{NUMBEROFPAGES}} has another value, and somebody asks for it."""
    for servers in (wiki, fleet):       # as it is, and sealed
        with servers(binary, 3) as (origin, c):
            made_anew_is_taken(origin, c)


@scene
def what_was_made_anew_for_an_edit_is_made_once(binary):
    with wiki(binary, 2) as (origin, c):
        trusted(c)
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        renders = origin.count('render')
        anew = get(c.servers[0], headers={'Cache-Control': 'no-cache'})
        eq(rev_of(anew), 3)
        # A reader who came before it is there would rightly have it made once more: so nobody reads meanwhile.
        tid = tag_of(anew).split('/')[1].encode()
        wait_until(lambda: tid in c.servers[1].request('GET', '/localhost/v1/page/history/A').body, 'taken')
        eq(tag_of(get(c.servers[1])), tag_of(anew), 'it is not dated')
        eq(origin.count('render'), renders + 1)


@scene
def what_another_made_a_moment_ago_is_checked_first(binary):
    """It may be half a minute old. Who edits wants the newest, and who reads no hidden text."""
    with wiki(binary, 3) as (origin, c):
        get(c.servers[0])
        get(c.servers[0], 'B/5')
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        origin.page('B', (5, 'other'), (6, 'newer'))
        origin.hide('B', 5)
        eq(rev_of(get(c.servers[1], 'A?stash=true')), 3)
        eq(rev_of(get(c.servers[2])), 3)
        get(c.servers[1], 'B/5', 410)


@scene
def a_clock_that_is_ahead_brings_nothing_hidden_back(binary):
    """By its time the second server made the render after the wiki said here that it is hidden."""
    with wiki(binary, 1) as (origin, c), \
            Server(binary, *c.args, test_hooks=True) as ahead:
        wait_until(lambda: b'palimpsest_redis_up 1' in ahead.request('GET', '/metrics').body, 'it has Redis')
        ahead.clock(advance='4s')
        get(ahead, 'B/5')
        origin.page('B', (5, 'other'), (6, 'newer'))
        origin.hide('B', 5)
        for _ in range(2):
            get(c.servers[0], 'B/5', 410)


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
        # The second may have been told of the first one's news while it asked: then it asks once more.
        check(origin.count('words') - asked in (2, 3), f'{origin.count("words") - asked} questions')


@scene
def a_purge_at_one_is_right_on_all(binary):
    with wiki(binary, 2, *LISTEN, hosts='wiki.test') as (origin, c):
        trusted(c)
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        eq(rev_of(get(c.servers[1])), 2)
        eq(purge(c.servers[0], 'http://wiki.test/wiki/A').status, 200)
        for server in reversed(c.servers):
            wait_until(lambda server=server: rev_of(get(server)) == 3, 'the newest')


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


# ---- what another server has

@contextlib.contextmanager
def fleet(binary, count=2, *args, secret=b'a secret of all servers\n', hooks=False, **fields):
    """Servers that know each other: each tells where the others ask it."""
    with wiki(binary, 0, *args, **fields) as (origin, c), tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'secret'
        path.write_bytes(secret)
        for _ in range(count):
            port = free_port()
            c.servers.append(c.stack.enter_context(Server(
                binary, *c.args, '--listen', f'127.0.0.1:{port}', '--set', f'servers.advertise=http://127.0.0.1:{port}',
                '--set', f'servers.secret_file={path}', test_hooks=hooks)))
        c.wait_redis()
        yield origin, c


def post(server, where, fields, headers=()):
    return server.request('POST', f'/localhost/v1/transform/{where}', {'Content-Type': 'application/json', **dict(headers)},
                          json.dumps(fields))


def load(server, title='A'):
    """As VisualEditor does, and with the tag of RESTBase's clients."""
    answer = get(server, f'{title}?stash=true')
    return answer, tag_of(answer)


def save(server, html, tag, title='A', headers=()):
    rev = tag.split('/')[0]
    return post(server, f'html/to/wikitext/{title}/{rev}', {'html': html.decode()}, {'If-Match': f'"{tag}"', **dict(headers)})


def original(origin):
    """What the wiki was sent as the original of the last transform."""
    return json.loads([call for call in origin.seen if call[0] == 'transform'][-1][3])['original']


@scene
def who_loads_on_one_saves_on_the_other(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        answer, tag = load(a)
        for what in (tag, tag + '/stash'):
            got = save(b, answer.body, what)
            eq((got.status, got.body), (200, b'second'), str(got.body))
        eq(original(origin)['html']['body'], answer.body.decode(), 'the render that was loaded')
        check('ids' in original(origin)['data-parsoid']['body'], original(origin))
        # By the head of the document, without a tag, as VisualEditor itself.
        eq(post(b, f'html/to/wikitext/A/{tag.split("/")[0]}', {'html': answer.body.decode()}).status, 200)
        eq(c.metric(1, 'peers_asked_total'), 3)
        eq((c.metric(1, 'peers_found_total'), c.metric(0, 'peers_given_total')), (3, 3))
        eq(b.request('GET', '/localhost/v1/page/history/A').status, 404, 'nothing of it was kept there')


@scene
def an_exact_render_of_another_server_is_found(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        answer = get(a)
        tag = tag_of(answer)
        data = b.request('GET', f'/localhost/v1/page/data-parsoid/A/{tag}')
        eq((data.status, tag_of(data)), (200, tag), str(data.body))
        eq(data.body, a.request('GET', f'/localhost/v1/page/data-parsoid/A/{tag}').body)
        same = get(b, f'A/{tag}')
        eq((same.body, same.headers['Content-Type']), (answer.body, answer.headers['Content-Type']))
        eq(c.metric(1, 'peers_asked_total'), 1, 'it is here now')
        eq(origin.count('render'), 1)
        # It is no latest: that is the wiki's to say.
        origin.page('A', (1, 'first'), (2, 'second'), (3, 'third'))
        eq(rev_of(get(b)), 3)
        # A redirect keeps its target.
        origin.page('R', (8, '#REDIRECT [[A]]'))
        first = a.request('GET', '/localhost/v1/page/html/R')
        eq(first.status, 302)
        told = b.request('GET', f'/localhost/v1/page/html/R/{tag_of(first)}?redirect=false')
        eq(told.status, 200, str(told.body))
        check(b'mw:PageProp/redirect' in told.body, told.body)
        # What nobody has.
        asked = c.metric(1, 'peers_asked_total')
        get(b, 'A/2/11111111-2222-1333-8444-555555555555', 404)
        eq(c.metric(1, 'peers_asked_total'), asked, 'nobody noted it')


@scene
def two_renders_alike_are_found_by_their_own_names(binary):
    """Each server has made its own of the same bytes; who names the other's gets that, and nobody loses his."""
    with fleet(binary) as (origin, c):
        a, b = c.servers
        ours = get(a)
        c.redis('FLUSHALL')
        theirs = get(b)
        check(tag_of(ours) != tag_of(theirs), 'each has made its own')
        eq(tag_of(get(a, f'A/{tag_of(theirs)}')), tag_of(theirs))
        eq(get(a, f'A/{tag_of(ours)}').body, ours.body)
        get(a)
        eq(origin.count('render'), 2, 'the latest is there all the time')


@scene
def a_render_of_another_server_is_dated_as_one_that_was_made_here(binary):
    """It is the newest of its revision now, and nothing older is served for it, nor anything lost."""
    with fleet(binary) as (origin, c):
        a, b = c.servers
        get(a)
        c.redis('FLUSHALL')
        origin.stamp = ' 17 pages'
        theirs = get(b)
        eq(get(a, f'A/{tag_of(theirs)}').body, theirs.body)
        c.redis('FLUSHALL')
        origin.stamp = ' of a new template'
        origin.touched['A'] = '2026-02-01T00:00:00Z'
        hears(a)
        check(b'new template' in get(a).body, 'the page was touched since')
        old = tag_of(get(b, 'A/1'))
        get(a, f'A/{old}')
        c.redis('FLUSHALL')
        origin.down()
        check(b'new template' in get(a).body, 'the latest is there all the time')


@scene
def who_wants_it_made_anew_gets_nothing_that_was_made_before(binary):
    """Also on a server that has nothing of it yet."""
    with wiki(binary, 2) as (origin, c):
        get(c.servers[0])
        origin.stamp = ' 17 pages'
        anew = get(c.servers[1], headers={'Cache-Control': 'no-cache'})
        check(b'17 pages' in anew.body, 'made anew')


@scene
def a_preview_of_another_server_is_saved(binary):
    with fleet(binary, forward_cookies='true') as (origin, c):
        a, b = c.servers
        origin.users = {'session=alice': 1, 'session=bob': 2}
        alice, bob = {'Cookie': 'session=alice'}, {'Cookie': 'session=bob'}
        answer = post(a, 'wikitext/to/html/A/2', {'wikitext': 'typed', 'stash': True}, alice)
        eq(answer.status, 200, str(answer.body))
        tag = tag_of(answer)
        check(tag.endswith('/stash'), tag)
        got = save(b, answer.body, tag, headers=alice)
        eq((got.status, got.body), (200, b'typed'), str(got.body))
        eq(original(origin)['wikitext']['body'], 'typed')
        eq(save(b, answer.body, tag, headers=bob).status, 404, 'it is hers alone')
        new = post(a, 'wikitext/to/html/New/0', {'wikitext': 'of a new page', 'stash': True})
        eq(new.status, 200, str(new.body))
        got = save(b, new.body, tag_of(new), 'New')
        eq((got.status, got.body), (200, b'of a new page'), str(got.body))


@scene
def what_is_hidden_is_not_handed_out(binary):
    with fleet(binary, trust_ttl='0', trust_max='0') as (origin, c):
        a, b = c.servers
        answer = get(a, 'A/1')
        exact = 'A/' + tag_of(answer)
        origin.hide('A', 1)
        get(b, exact, 410)
        eq(save(b, answer.body, tag_of(answer)).status, 409)
        origin.page('B', (5, 'other'), (6, 'newer'))
        other, tag = load(a, 'B')
        origin.delete('B')
        get(b, f'B/{tag}', 404)
        # The wiki itself says what becomes of a save to a page that it has deleted.
        eq(save(b, other.body, tag, 'B').status, 410)


@scene
def only_servers_that_share_the_secret_are_answered(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        answer, tag = load(a)
        rev, tid = tag.split('/')[:2]
        ask = f'/v1/servers.render?domain=localhost&bucket=page&title=A&kept=&rev={rev}&tid={tid}&deleted=0&nonce=1'
        for headers in ({}, {'Palimpsest-Servers': 'x'}, {'Palimpsest-Servers': '0' * 64}):
            eq(a.request('GET', ask, headers).status, 403)
        check(not save(b, answer.body, tag).status != 200, 'those that do are')
        # Another secret: neither is its question answered, nor its answer believed.
        with fleet(binary, 1, secret=b'another secret of others') as (_, other):
            key = c.redis('KEYS', 'pal:x:*')[0]
            note = other.redis('SET', key, c.redis('GET', key))
            eq(note, 'OK')
            eq(save(other.servers[0], answer.body, tag).status, 404)
        with wiki(binary, 1) as (_, alone):
            eq(alone.servers[0].request('GET', ask).status, 404, 'without a secret there is no such route')


def record_of(c, server, path):
    """A server makes what is there under this path: the record in Redis, and the bytes of the render in it."""
    before = set(c.redis.records())
    get(server, path)
    keys = set(c.redis.records()) - before
    eq(len(keys), 1)
    key = keys.pop()
    return key, c.redis('HGET', key, 'val')


SEAL_BYTES = 1 + 8 + 64


@scene
def a_render_that_no_server_put_into_redis_is_not_served(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        for n, title in enumerate('CDEFG'):
            origin.page(title, (10 + n, 'of old'), (20 + n, 'genuine'))
        _, fine = record_of(c, a, 'C')
        forged = [record_of(c, a, title) for title in 'DEF']
        (d, of_d), (e, of_e), (f, _) = forged
        g, _ = record_of(c, a, 'G/14')
        _, of_g2 = record_of(c, a, 'G/24')
        c.redis('HSET', d, 'val', of_d.replace(b'genuine', b'written'))
        c.redis('HSET', e, 'val', of_e.replace(b'genuine', b'written')[SEAL_BYTES if of_e[0] == 3 else 0:])
        c.redis('HSET', f, 'val', fine)
        c.redis('HSET', g, 'val', of_g2)
        renders = origin.count('render')
        eq(tag_of(get(b, 'C')), tag_of(get(a, 'C')), 'what is sealed is taken')
        eq(origin.count('render'), renders)
        for path, text in (('D', b'genuine'), ('E', b'genuine'), ('F', b'genuine'), ('G/14', b'of old')):
            answer = get(b, path)
            check(text in answer.body and b'written' not in answer.body, f'{path}: {answer.body}')
            check(tag_of(answer) != tag_of(get(a, path)), f'{path}: made by each')
        eq(origin.count('render'), renders + 4)
        eq((c.metric(0, 'peers_refused_total'), c.metric(1, 'peers_refused_total')), (0, 4))


@scene
def servers_with_a_secret_and_without_make_their_own(binary):
    """As while one after the other is given the secret, or the release that seals."""
    with fleet(binary) as (origin, c), Server(binary, *c.args) as plain:
        wait_until(lambda: b'palimpsest_redis_up 1' in plain.request('GET', '/metrics').body, 'it has Redis')
        get(c.servers[0])
        eq(rev_of(get(plain)), 2)
        get(plain, 'B')
        for server in c.servers:
            eq(rev_of(get(server, 'B')), 5)
        eq(origin.count('render'), 5)
        eq(c.metric(0, 'peers_refused_total'), 1)


def noted(c):
    """Redis knows who has A's render; there is one note."""
    keys = c.redis('KEYS', 'pal:x:*')
    eq(len(keys), 1)
    return keys[0]


@scene
def who_reads_for_long_finds_his_render_at_another_server(binary):
    """A note lasts two hours. Who reads the page tells it again when one of them is over, and writes nothing before."""
    with fleet(binary, 2, '--set', 'page.stash_ttl=2h', hooks=True) as (origin, c):
        a, b = c.servers
        answer = get(a)
        tag = tag_of(answer)
        key = noted(c)
        wrote = c.redis.calls()['psetex']

        def left_s():
            return c.redis('PTTL', key) / 1000
        for _ in range(2):
            c.redis('PEXPIRE', key, 10 * 60 * 1000)
            for _ in range(5):
                eq(tag_of(get(a)), tag)
            check(left_s() <= 600, 'it is not told at each hit')
            a.clock(advance='61m')
            wait_until(lambda: tag_of(get(a)) == tag and left_s() > 7000, 'told again')
            wrote += 1
            eq(c.redis.calls()['psetex'], wrote, 'once')
        # Ready answers are no way around it, nor is a server that ends: it knows no more that it has told.
        c.redis('DEL', key)
        a.kill9()
        a.start()
        c.wait_redis()
        wait_until(lambda: tag_of(get(a)) == tag and c.redis('GET', key), 'told anew')
        got = save(b, answer.body, tag)
        eq((got.status, got.body), (200, b'second'), str(got.body))


@scene
def who_reads_elsewhere_takes_no_note_away(binary):
    """Both have the render. The one that made it keeps it for an editor; then readers come to the other."""
    with fleet(binary, 2, '--set', 'page.stash_ttl=2h', hooks=True) as (origin, c):
        a, b = c.servers
        get(a)
        eq(tag_of(get(b)), tag_of(get(a)), 'taken')
        load(a)
        key = noted(c)
        address = c.redis('GET', key)
        check(str(a.port) in address.decode(), address)
        for _ in range(3):
            get(b)
        b.clock(advance='61m')
        get(b)
        get(b, 'B')         # its note is behind those before
        wait_until(lambda: len(c.redis('KEYS', 'pal:x:*')) == 2, 'noted')
        eq(c.redis('GET', key), address, 'it lasts for long')
        c.redis('PEXPIRE', key, 10 * 60 * 1000)
        b.clock(advance='61m')
        wait_until(lambda: get(b) and str(b.port) in c.redis('GET', key).decode(), 'who has it when the other has not')


class Impostor:
    """Answers whatever is asked as it is told to."""

    def __init__(self, answer):
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.port = self.socket.getsockname()[1]
        self.heads = []
        threading.Thread(target=self._run, args=(answer,), daemon=True).start()

    def _run(self, answer):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                self.heads.append(peer.recv(65536).decode())
                if answer is not None:
                    peer.sendall(answer)
                    peer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


@scene
def whoever_writes_into_redis_learns_no_secret_and_gives_no_render(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        answer, tag = load(a)
        key = noted(c)
        body = b'anything'
        head = b'HTTP/1.1 200 OK\r\nPalimpsest-Servers: ' + b'0' * 64 + b'\r\nContent-Length: %d\r\n\r\n' % len(body)
        with Impostor(head + body) as one:
            c.redis('SET', key, f'http://127.0.0.1:{one.port}')
            eq(save(b, answer.body, tag).status, 404)
            get(b, f'A/{tag}', 404)
            eq(len(one.heads), 2, 'asked once each')
            for path in ('/', '/drop?everything=', '?', '#'):
                c.redis('SET', key, f'http://127.0.0.1:{one.port}{path}')
                eq(save(b, answer.body, tag).status, 404)
            c.redis('SET', key, f'http://x@127.0.0.1:{one.port}')
            eq(save(b, answer.body, tag).status, 404)
            eq(len(one.heads), 2, 'no path of its choice')
            check(not any('secret' in head for head in one.heads), 'the secret')
        for note in ('', 'x', 'http://', f'http://127.0.0.1:{b.port}', 'file:///etc/passwd'):
            c.redis('SET', key, note)
            eq(save(b, answer.body, tag).status, 404, note)
        # A note that leads to a third, which has it not: it asks nobody.
        asked = c.metric(0, 'peers_asked_total')
        with fleet(binary, 1) as (_, other):
            c.redis('SET', key, f'http://127.0.0.1:{other.servers[0].port}')
            eq(save(b, answer.body, tag).status, 404)
            eq(other.metric(0, 'peers_given_total'), 1)
            eq(other.metric(0, 'peers_asked_total'), 0)
        eq(c.metric(0, 'peers_asked_total'), asked)


def try_later(answer):
    """Somebody may have it, and cannot give it now."""
    eq((answer.status, answer.headers['Retry-After'] is not None), (503, True), answer.body)
    check(b'unavailable' in answer.body, answer.body)


@scene
def a_maker_that_ends_is_no_server_that_has_it_not(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        answer, tag = load(a)
        with origin.gate('render') as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
            held = pool.submit(a.request, 'GET', '/localhost/v1/page/html/B')
            wait_until(lambda: gate.waiting == 1, 'it makes B')
            a.signal(signal.SIGTERM)
            wait_until(lambda: 'serve.drain' in a.stderr(), 'it drains')
            try_later(save(b, answer.body, tag))
            try_later(get(b, f'A/{tag}', 503))
            gate.open()
            held.result()
        eq(a.wait_exit(60), 0)
        a.start()
        eq(save(b, answer.body, tag).status, 200, 'it is back')


@scene
def a_maker_that_is_gone_or_hangs_is_waited_for_a_moment(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        answer, tag = load(a)
        a.signal(signal.SIGSTOP)
        try:
            try_later(save(b, answer.body, tag))
            try_later(get(b, f'A/{tag}', 503))
            eq(rev_of(get(b, 'B')), 5, 'the others go on')
        finally:
            a.signal(signal.SIGCONT)
        eq(save(b, answer.body, tag).status, 200, 'it is back')
        a.kill9()
        try_later(save(b, answer.body, tag))
        a.start()
        eq(save(b, answer.body, tag).status, 200, 'a stash outlives its server')


@scene
def without_redis_everybody_has_what_is_its_own(binary):
    with fleet(binary) as (origin, c):
        a, b = c.servers
        answer, tag = load(a)
        c.redis.end()
        c.wait_redis(up=False)
        eq(save(b, answer.body, tag).status, 404)
        eq(save(a, answer.body, tag).status, 200)
        c.redis.start()
        c.wait_redis()
        eq(save(b, answer.body, tag).status, 404, 'the note is lost')
        load(a)
        eq(save(b, answer.body, tag).status, 200, 'noted again')


@scene
def a_redis_that_hangs_costs_its_time_out(binary):
    with fleet(binary, 2, '--set', 'redis.timeout=1s') as (origin, c):
        a, b = c.servers
        answer, tag = load(a)
        c.redis.stop()
        try:
            eq(load(a, 'B')[0].status, 200, 'who edits waits no longer for his note')
            eq(save(b, answer.body, tag).status, 404)
            get(b, f'A/{tag}', 404)
            eq(rev_of(get(b)), 2)
        finally:
            c.redis.go_on()
        c.wait_redis()
        eq(save(b, answer.body, tag).status, 200)
        other, tag = load(a, 'B')
        eq(save(b, other.body, tag, 'B').status, 200, 'noted anew')


@scene
def contents_of_a_private_wiki_stay_where_they_were_made(binary):
    alice = {'Cookie': 'session=alice'}
    with tempfile.NamedTemporaryFile('w') as bot:
        bot.write('Bearer bot\n')
        bot.flush()
        with fleet(binary, private='true', authorization_file=bot.name) as (origin, c):
            origin.bot, origin.readers = 'Bearer bot', {'session=alice': None}
            origin.page('A', (1, 'first'), (2, 'a secret'))
            a, b = c.servers
            answer = get(a, headers=alice)
            check(b'a secret' in get(b, headers=alice).body, 'made by each')
            eq(origin.count('render'), 2)
            get(a, headers={**alice, 'Cache-Control': 'no-cache'})
            check(tag_of(get(b, headers=alice)) != tag_of(answer), 'each has its own')
            get(b, f'A/{tag_of(answer)}', 404, headers=alice)
            for key in c.redis('KEYS', '*'):
                eq(key[:6], b'pal:f:', 'no notes')
                check(b'secret' not in b''.join(part for part in c.redis('HGETALL', key)), 'no contents')
            # Words go on to the others.
            origin.page('A', (1, 'first'), (2, 'a secret'), (3, 'third'))
            eq(a.request('GET', '/localhost/v1/page/title/A', alice).status, 200)
            wait_until(lambda: rev_of(get(b, headers=alice)) == 3, 'the newest')

main()
