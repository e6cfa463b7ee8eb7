"""Goal: what is missing here and lies in RESTBase's keyspaces is taken from there, once, under its
name; what is stored, purged or hidden here wins; nothing is ever written there; a secondary that is
away holds nobody up. Method: fixtures/restbase.cql and rows made here on a real node, a server that
reads it, with and without a scripted wiki as its origin."""
import concurrent.futures
import json
import tempfile
import time
import urllib.parse

import rig
from cluster import Cluster
from harness import Server
from origin import Origin
from render_help import Crowd, metric, name_of
from restbase_rows import (
    DATA, DOMAIN, HTML, OWN, blob, drop_all, insert, load, make, quoted, rows_of, tid_of)
from rig import check, eq, main, node, scene, wait_until

TAKEN = 'palimpsest; fwd=miss; fwd-status=200; stored; detail=secondary'


def options(cluster, keyspaces, *more):
    said = (f'page.secondary.contact_points={cluster.address(1)}:{cluster.port}',
            f'page.secondary.local_dc={cluster.datacentre(1)}',
            f'page.secondary.keyspaces={",".join(keyspaces)}',
            f'page.secondary.domains=localhost={DOMAIN}', *more)
    return [word for option in said for word in ('--set', option)]


# Of a busy machine; where time is the subject, a scene says another.
PATIENT = 'page.secondary.timeout=30s'


def serve(binary, cluster, keyspaces, *more, options_more=(PATIENT,), **named):
    """A server that can ask it."""
    server = Server(binary, *options(cluster, keyspaces, *options_more), *more, **named)
    wait_until(lambda: metric(server, 'secondary_ready') == 1, 'the secondary is ready')
    return server


def path(content, title, *name):
    place = '/'.join([urllib.parse.quote(title, safe=''), *map(str, name)])
    return f'/localhost/v1/page/{content}/{place}'


def get(server, title, *name, content='html', headers=None):
    return server.request('GET', path(content, title, *name), headers)


def reads(server, end):
    return metric(server, f'secondary_reads_total{{end="{end}"}}')


def ends(server):
    return {end: count for end in ('hit', 'miss', 'gone', 'bad', 'failed', 'refused')
            if (count := reads(server, end))}


def own(cluster, *rows, **how):
    """A keyspace of one content, html, with (title, rev, tid, text) in it."""
    with cluster.session() as session:
        drop_all(session)
        space = make(session, cluster, 'second_html', **how)
        for title, rev, tid, text in rows:
            insert(session, space, title, rev, tid, blob(text))
    return space


def written(cluster, space):
    """All that lies there, with when it was written."""
    with cluster.session() as session:
        return sorted((row['key'], str(row['rev']), str(row['tid']), row['at']) for row in
                      session.execute(f'SELECT "key", rev, tid, WRITETIME(value) AS at '
                                      f'FROM "{space}".data'))


@scene
def what_is_missing_is_taken_once_under_its_name(binary):
    cluster = node()
    load(cluster)
    before = [written(cluster, space) for space in (HTML, DATA)]
    with serve(binary, cluster, (HTML, DATA)) as server:
        first = get(server, 'Earth')
        eq((first.status, first.headers['cache-status']), (200, TAKEN), first.body[:200])
        check('revision 12' in first.body.decode(), first.body)
        check(first.headers['content-type'].startswith('text/html; charset=utf-8; profile='),
              first.headers['content-type'])
        eq(first.headers['content-language'], 'en')
        rows = rows_of(cluster, HTML)
        newest = max((row for row in rows if row['key'] == 'Earth'),
                     key=lambda row: (row['rev'], row['tid'].time))
        eq(name_of(first), (newest['rev'], str(newest['tid'])))
        eq(ends(server), {'hit': 1})
        again = get(server, 'Earth')
        eq((again.headers['cache-status'], again.body), ('palimpsest; hit', first.body))
        eq(get(server, 'Earth', content='data-parsoid').status, 200)
        eq(ends(server), {'hit': 1})
        # every render, by its revision and tid
        for row in rows:
            answer = get(server, row['key'], row['rev'], row['tid'])
            value = row['value']
            eq((answer.status, answer.body),
               (200, value if isinstance(value, bytes) else value.encode()), row['key'])
            eq(answer.headers['etag'], f'"{row["rev"]}/{row["tid"]}"')
        eq(reads(server, 'hit'), len(rows))
        # none of those
        eq(get(server, 'Earth', 999).status, 404)
        eq(get(server, 'Earth', 2 ** 40).status, 404)
        eq(get(server, 'Earth', 12, tid_of(5)).status, 404)
        eq(get(server, 'Nowhere').status, 404)
        eq(reads(server, 'miss'), 4)
        eq(get(server, 'Nowhere', headers={'Cache-Control': 'only-if-cached'}).status, 504)
        eq(get(server, 'Other', content='mobile').status, 404)
    eq([written(cluster, space) for space in (HTML, DATA)], before, 'nothing was written there')


@scene
def a_revision_is_its_newest_render(binary):
    cluster = node()
    space = own(cluster, ('A', 5, tid_of(10), '<p>5 first'), ('A', 5, tid_of(20), '<p>5 second'),
                ('A', 7, tid_of(30), '<p>7'), rev='varint')
    with serve(binary, cluster, ('html=' + space,)) as server:
        old = get(server, 'A', 5)
        eq((old.status, old.body, name_of(old)), (200, b'<p>5 second', (5, tid_of(20))))
        eq(get(server, 'A', 5, tid_of(10)).body, b'<p>5 first')
        newest = get(server, 'A')
        eq((newest.body, name_of(newest)), (b'<p>7', (7, tid_of(30))))
        eq(ends(server), {'hit': 3})
        server.restart()
        eq(get(server, 'A').body, b'<p>7')
        eq(get(server, 'A', 5).body, b'<p>5 second')


@scene
def what_is_stored_here_wins(binary):
    cluster = node()
    space = own(cluster, ('A', 5, tid_of(10), '<p>there'), ('B', 5, tid_of(10), '<p>there'))
    with serve(binary, cluster, ('html=' + space,)) as server:
        put = server.request('PUT', path('html', 'A', 9), {'content-type': 'text/html'}, b'<p>here')
        eq(put.status, 201)
        eq(get(server, 'A').body, b'<p>here')
        eq(ends(server), {})
        put = server.request('PUT', path('html', 'B', 5), {'content-type': 'text/html'}, b'<p>here')
        eq(put.status, 201)
        eq((get(server, 'B', 5).body, get(server, 'B').body), (b'<p>here', b'<p>here'))
        eq(ends(server), {})
        # another render of it, by its name: it is no newer one
        eq(get(server, 'B', 5, tid_of(10)).body, b'<p>there')
        eq(get(server, 'B').body, b'<p>here')


@scene
def what_was_purged_here_stays_so(binary):
    cluster = node()
    space = own(cluster, *((title, rev, tid_of(rev), f'<p>{rev}') for title in 'ABCD'
                           for rev in (5, 6)))
    with serve(binary, cluster, ('html=' + space,)) as server:
        def purge(*where):
            eq(server.request('DELETE', path('all', *where)).status, 204)
        eq(get(server, 'A').status, 200)        # it was taken already
        purge('A')
        purge('B')                              # it was not
        purge('C', 6)
        purge('D', 6, tid_of(6))
        for title in 'AB':
            for name in ((), (5,), (6,), (6, tid_of(6))):
                check(get(server, title, *name).status in (404, 410), (title, name))
        check(get(server, 'C', 6).status in (404, 410), 'the revision')
        eq((get(server, 'C', 5).body, get(server, 'C').status), (b'<p>5', 404))
        check(get(server, 'D', 6, tid_of(6)).status in (404, 410), 'the render')
        eq(get(server, 'D', 5).body, b'<p>5')
        server.restart()
        wait_until(lambda: metric(server, 'secondary_ready') == 1, 'the secondary is ready')
        check(all(get(server, title).status in (404, 410) for title in 'AB'), 'after a restart')
        eq(ends(server), {'gone': 2})


@scene
def what_can_be_no_render_is_a_miss_and_counted(binary):
    cluster = node()
    fine = tid_of(1)
    with cluster.session() as session:
        drop_all(session)
        space = make(session, cluster, 'bad_html', tid='uuid', static=True)
        data = make(session, cluster, 'bad_data', value='string')
        for title, value, headers in (
                ('Fine', blob('<p>fine'), '{"content-type":"text/html"}'),
                ('Null', 'null', '{"content-type":"text/html"}'),
                ('Broken', blob('<p>'), '{"content-type": "te'),
                ('List', blob('<p>'), '["text/html"]'),
                ('NoHeaders', blob('<p>'), None),
                ('NoType', blob('<p>'), '{"content-language":"en"}'),
                ('Packed', blob('<p>'), '{"content-type":"text/html","content-encoding":"gzip"}'),
                ('NoJson', blob('<p>'), '{"content-type":"text/html"}'),
                ('Large', blob(b'<p>' + b'x' * (5 << 20)), '{"content-type":"text/html"}'),
                ('Nasty', blob('<p>nasty'), json.dumps(
                    {'content-type': 'text/html', 'x-a': 'a\r\nset-cookie: b', 'Set-Cookie': 'c',
                     'x-b': 5, 'x-c': {'d': 1}, 'etag': '"1/2"', 'x-e': 'kept', 'X-E': 'two'}))):
            insert(session, space, title, 7, fine, value, headers)
        insert(session, space, 'Future', 7, tid_of(10 ** 10), blob('<p>'))
        insert(session, space, 'Version4', 7, 'c0ffee00-0000-4000-8000-000000000000', blob('<p>'))
        insert(session, space, 'Zero', 0, fine, blob('<p>'))
        insert(session, data, 'NoJson', 7, fine, quoted('{"a":'),
               '{"content-type":"application/json"}')
        insert(session, data, 'Fine', 7, fine, quoted('{"ids":{}}'),
               '{"content-type":"application/json"}')
        session.execute(f'INSERT INTO "{space}".data ("_domain", "key", "latest_tid") '
                        f'VALUES ({quoted(DOMAIN)}, \'Static\', {fine})')
    with serve(binary, cluster, ('html=' + space, 'data-parsoid=' + data)) as server:
        eq((get(server, 'Fine').body, get(server, 'Fine', content='data-parsoid').body),
           (b'<p>fine', b'{"ids":{}}'))
        eq(get(server, 'Large').body, b'<p>' + b'x' * (5 << 20))
        nasty = get(server, 'Nasty').headers
        eq((nasty['x-e'], nasty['x-b'], nasty['x-a'], nasty['set-cookie']),
           ('kept', '5', None, None), dict(nasty))
        eq(ends(server), {'hit': 3})
        eq((get(server, 'Static').status, ends(server)), (404, {'hit': 3, 'miss': 1}))
        bad = ('Null', 'Broken', 'List', 'NoHeaders', 'NoType', 'Packed', 'NoJson', 'Future',
               'Version4', 'Zero')
        for title in bad:
            eq(get(server, title).status, 404, title)
        eq(reads(server, 'bad'), len(bad), ends(server))
        for title in ('a' * 440, 'a%00b', '%ff'):
            check(server.request('GET', f'/localhost/v1/page/html/{title}').status in (400, 404),
                  title)
        lines = [line for line in server.stderr().splitlines() if 'secondary.bad_render' in line]
        eq(len(lines), 1, 'one line a minute')
        eq(server.request('GET', '/healthz').status, 200)


@scene
def many_who_ask_at_once_cause_one_look(binary):
    cluster = node()
    space = own(cluster, ('A', 5, tid_of(10), '<p>there'))
    with serve(binary, cluster, ('html=' + space,)) as server:
        answers = Crowd(server, [(path('html', 'A'), None)] * 40).wait()
        eq({(a.status, a.body) for a in answers}, {(200, b'<p>there')})
        eq(len({name_of(a) for a in answers}), 1)
        check(1 <= reads(server, 'hit') <= 2, ends(server))


# ---- with an origin

@scene
def it_is_asked_before_the_origin_and_the_wiki_judges_what_it_has(binary):
    cluster = node()
    space = own(cluster, ('Same', 7, tid_of(10), '<p>there'), ('Old', 5, tid_of(10), '<p>there'),
                ('Hidden', 7, tid_of(10), '<p>hidden'), ('Deleted', 7, tid_of(10), '<p>gone'))
    with Origin() as origin:
        for title in ('Same', 'Hidden', 'Deleted', 'Made'):
            origin.page(title, (7, 'made'))
        origin.page('Old', (8, 'old'), (9, 'made'))
        origin.page('Hidden', (70, 'one'), (71, 'two'))
        origin.delete('Deleted')
        with serve(binary, cluster, ('html=' + space,), *origin.options('localhost')) as server:
            same = get(server, 'Same')
            eq((same.status, same.body), (200, b'<p>there'), same.headers['cache-status'])
            eq((same.headers['cache-status'], same.headers['x-restbase-cache']), (TAKEN, 'miss'))
            eq(origin.count('render'), 0)
            eq(get(server, 'Same').body, b'<p>there')
            old = get(server, 'Old')
            eq((old.status, name_of(old)[0]), (200, 9), 'the wiki has a newer one')
            eq(origin.count('render'), 1)
            eq(get(server, 'Made').status, 200)
            eq(origin.count('render'), 2)
            gone = get(server, 'Deleted')
            eq(gone.status, 404, gone.body)
            check(b'<p>gone' not in gone.body, gone.body)
            anew = get(server, 'Same', headers={'Cache-Control': 'no-cache'})
            check(anew.body != b'<p>there', 'made anew')


@scene
def what_the_wiki_hides_is_not_shown(binary):
    cluster = node()
    space = own(cluster, ('A', 6, tid_of(10), '<p>secret'), ('A', 7, tid_of(20), '<p>shown'),
                ('B', 6, tid_of(10), '<p>secret'))
    with Origin() as origin:
        origin.page('A', (6, 'secret'), (7, 'shown'))
        origin.page('B', (16, 'secret'), (17, 'shown'))
        with serve(binary, cluster, ('html=' + space,), *origin.options('localhost')) as server:
            eq(get(server, 'A', 6).status, 200)
            origin.hide('A', 6)
            eq(server.request('POST', '/v1/events', None, [{
                'meta': {'stream': 'mediawiki.revision-visibility-change', 'domain': 'localhost'},
                'page_title': 'A', 'rev_id': 6}]).status // 100, 2)
            wait_until(lambda: get(server, 'A', 6).status in (403, 410), 'it is hidden')
            hidden = get(server, 'A', 6, tid_of(10))
            check(hidden.status in (403, 404, 410) and b'secret' not in hidden.body, hidden)
            # hidden before it was ever asked for
            origin.hide('A', 7)
            origin.page('A', (6, 'secret'), (7, 'shown'), (8, 'newest'))
            origin.hide('A', 6)
            origin.hide('A', 7)
            for name in ((7,), (7, tid_of(20))):
                answer = get(server, 'A', *name)
                check(answer.status in (403, 404, 410) and b'<p>shown' not in answer.body,
                      (name, answer))
            # the wiki does not answer: what a mark may hide is not given by its number
            origin.fault('words', lambda handler, *_: handler.drop())
            origin.fault('revisions', lambda handler, *_: handler.drop())
            answer = get(server, 'B', 6)
            check(answer.status >= 400 and b'secret' not in answer.body, answer)


@scene
def what_was_opened_before_the_move_can_be_saved_after_it(binary):
    cluster = node()
    fine = tid_of(10)
    html = ('<html><head><meta property="mw:TimeUuid" content="' + fine + '"/></head><body>'
            '<p id="mwAA">there</p></body></html>')
    with cluster.session() as session:
        drop_all(session)
        space = make(session, cluster, 'saved_html')
        data = make(session, cluster, 'saved_data', value='json')
        insert(session, space, 'A', 7, fine, blob(html), '{"content-type":"text/html"}')
        insert(session, data, 'A', 7, fine, quoted('{"ids":{"mwAA":{"dsr":[0,5,0,0]}}}'),
               '{"content-type":"application/json"}')
    with Origin() as origin:
        origin.page('A', (7, 'there'))
        with serve(binary, cluster, ('html=' + space, 'data-parsoid=' + data),
                   *origin.options('localhost')) as server:
            where = '/localhost/v1/transform/html/to/wikitext/A/7'

            def save(tid):
                return server.request('POST', where, {'If-Match': f'"7/{tid}"'},
                                      {'html': html.replace('there', 'edited')})
            saved = save(fine)
            eq((saved.status, ends(server)), (200, {'hit': 1}), saved.body)
            eq(save(fine).status, 200)
            eq(ends(server), {'hit': 1})
            eq(save(tid_of(11)).status, 404, 'no such render')
            eq(ends(server), {'hit': 1, 'miss': 1})
            # opened here, of a render of there
            opened = server.request('GET', path('html', 'A') + '?stash=true&redirect=false')
            eq((opened.status, opened.headers['etag']), (200, f'"7/{fine}"'))


# ---- a secondary that fails

@scene
def one_that_is_away_holds_nobody_up(binary):
    cluster = node()
    space = own(cluster, ('A', 5, tid_of(10), '<p>there'), ('B', 5, tid_of(10), '<p>there'))
    with Origin() as origin:
        origin.page('A', (5, 'made'))
        for number in range(20):
            origin.page(f'P{number}', (100 + number, 'made'))
        soon = ('page.secondary.timeout=500ms',)
        with serve(binary, cluster, ('html=' + space,), options_more=soon) as alone, \
                serve(binary, cluster, ('html=' + space,), *origin.options('localhost'),
                      options_more=soon) as server:
            cluster.stop(1)
            try:
                answer = get(alone, 'B')
                eq(answer.status, 503, answer.body)
                check('secondary' in answer.body.decode(), answer.body)
                made = get(server, 'A')
                eq((made.status, made.headers['x-restbase-cache']), (200, 'miss'), made.body)
                with concurrent.futures.ThreadPoolExecutor(20) as pool:
                    list(pool.map(lambda n: eq(get(server, f'P{n}').status, 200), range(20)))
                # left alone by now: nobody waits for it
                wait_until(lambda: get(alone, 'B').status == 503 and reads(alone, 'refused') > 0,
                           'it is left alone')
                began = time.monotonic()
                eq(get(alone, 'C').status, 503)
                check(time.monotonic() - began < 10, 'a refusal is fast')
                lines = [line for line in alone.stderr().splitlines()
                         if 'secondary.failed' in line]
                check(1 <= len(lines) <= 2, lines)
            finally:
                cluster.cont(1)
            wait_until(lambda: get(alone, 'B').status == 200, 'it is taken up again')
            eq(get(alone, 'B').body, b'<p>there')


@scene
def a_server_starts_without_it_and_takes_it_up(binary):
    cluster = node()
    space = own(cluster, ('A', 5, tid_of(10), '<p>there'))
    with cluster.session() as session:
        session.execute(f'DROP KEYSPACE "{space}"')
    with Server(binary, *options(cluster, ('html=' + space,), PATIENT)) as server:
        eq(get(server, 'A').status, 503)
        eq(metric(server, 'secondary_ready'), 0)
        own(cluster, ('A', 5, tid_of(10), '<p>there'))
        wait_until(lambda: get(server, 'A').status == 200, 'it is taken up')
        wait_until(lambda: metric(server, 'secondary_ready') == 1, 'it says so')
    with Server(binary, *options(cluster, (OWN + 'none_html',), PATIENT)) as server:
        eq(get(server, 'A').status, 503)


@scene
def a_user_who_may_only_read_will_do(binary):
    with Cluster(auth=True) as cluster, tempfile.NamedTemporaryFile('w') as secret:
        space = own(cluster, ('A', 5, tid_of(10), '<p>there'), ('B', 5, tid_of(10), '<p>there'))
        cluster.execute("CREATE ROLE reader WITH PASSWORD = 'r' AND LOGIN = true")
        cluster.execute(f'GRANT SELECT ON KEYSPACE "{space}" TO reader')
        secret.write('r')
        secret.flush()
        login = ('page.secondary.auth.user=reader',
                 f'page.secondary.auth.password_file={secret.name}')
        before = written(cluster, space)
        with serve(binary, cluster, ('html=' + space,), options_more=(PATIENT, *login)) as server:
            eq((get(server, 'A').body, get(server, 'B', 5).body), (b'<p>there', b'<p>there'))
            eq(get(server, 'C').status, 404)
            eq(server.request('DELETE', path('all', 'A')).status, 204)
            check(get(server, 'A').status in (404, 410), 'it was purged')
            eq(reads(server, 'failed'), 0)
        eq(written(cluster, space), before)
        with Server(binary, *options(cluster, ('html=' + space,), PATIENT)) as server:
            eq(get(server, 'A').status, 503, 'nobody is logged in')


if __name__ == '__main__':
    rig.main()
