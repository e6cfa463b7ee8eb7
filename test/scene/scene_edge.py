"""Goal: a cache in front that is purged by the events of the store gives what the wiki has: each change of a page is told,
and only what a purge reaches may be kept.
Method: a scripted wiki whose pages change, a client that follows the streams, answers' header fields; and Varnish, with the
configuration that docs/wikis.md shows, purged by who reads the stream."""
import concurrent.futures
import contextlib
import pathlib
import signal
import subprocess
import tempfile

from change_help import Client, figure, purge, rules_file, told_server, wait_figure, write_rules
from harness import Server, check, eq, free_port, main, scene, wait_until
from origin import Origin, instant, status_of
from page_help import get, path, put
from varnish_help import Varnish, documented

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / 'packaging/examples'
DEFAULT = 'private, max-age=0, s-maxage=0, must-revalidate'
DAY = 'max-age=0, s-maxage=86400, must-revalidate'
STREAMS = ('--set', 'change.streams=palimpsest.*')
STREAM = '/v1/stream?stream=palimpsest.render,palimpsest.gone,palimpsest.dated'
A = path('html', 'A')
MEMBERS = {'meta', 'bucket', 'page_title', 'rev_id', 'tid', 'kind', 'last_rev_id', 'superseded'}


HTML, PARSOID = '/{domain}/v1/page/html/{title}', '/{domain}/v1/page/data-parsoid/{title}'


def purging(match='palimpsest.*', ttl='1d', urls=(HTML, PARSOID), **more):
    """One rule. Nobody listens at its target, unless told: who follows the stream purges instead."""
    match = match if isinstance(match, dict) else {'stream': match}
    return {'match': match, 'effect': 'purge', 'targets': [f'http://127.0.0.1:{free_port()}'], 'urls': list(urls),
            **({'edge_ttl': ttl} if ttl else {}), **more}


def edge_rule(ttl='1d'):
    return {'edge': purging(ttl=ttl)}


@contextlib.contextmanager
def edged(binary, *args, rules=None):
    with Origin() as origin, rules_file(edge_rule() if rules is None else rules) as file, \
            told_server(binary, origin, '--config', file, *STREAMS, *args) as server:
        server.file = file
        yield origin, server


def control(server, target, headers=None, method='GET'):
    return server.request(method, target, headers).headers['Cache-Control']


def told(client):
    """The next event: its stream's last word, revision, kind, and the wiki's newest revision."""
    event = client.next()[2]
    eq((event['meta']['domain'], event['bucket'], len(event['tid'])), ('localhost', 'page', 36))
    check(set(event) <= MEMBERS, f'src/rule/edge.c makes up events with these members: {set(event) - MEMBERS}')
    return (event['meta']['stream'].removeprefix('palimpsest.'), event['page_title'], event['rev_id'], event.get('kind'),
            event.get('last_rev_id'))


def change(origin, title, *revisions):
    origin.page(title, *revisions)
    origin.touched[title] = instant()


# ---- what is told

@scene
def each_change_of_a_page_is_told_before_anybody_reads_it(binary):
    with edged(binary) as (origin, server), Client(server, STREAM) as client:
        origin.page('A', (7, 'first'))
        get(server, 'A')
        eq(told(client), ('render', 'A', 7, None, None))
        change(origin, 'A', (7, 'first'), (8, 'second'))
        purge(server, 'http://wiki.test/wiki/A')
        eq(told(client), ('dated', 'A', 7, 'revision', 8))
        change(origin, 'A', (7, 'first'), (9, 'third'))
        asked = figure(server, 'looks_stored_total')
        purge(server, 'http://wiki.test/wiki/A')
        wait_until(lambda: figure(server, 'looks_stored_total') > asked, 'the word is heard')
        get(server, 'A')
        eq(told(client), ('render', 'A', 9, None, None))        # and it was not dated once more
        origin.stamp = ' of another template'
        origin.touched['A'] = instant(2)
        purge(server, 'http://wiki.test/wiki/A')
        eq(told(client), ('dated', 'A', 9, 'touched', 9))
        pages = dict(origin.pages)
        origin.delete('A')
        purge(server, 'http://wiki.test/wiki/A')
        eq(told(client), ('gone', 'A', 9, 'deleted', None))
        eq(told(client), ('gone', 'A', 7, 'deleted', None))
        origin.pages.update(pages)
        origin.changed += 1
        purge(server, 'http://wiki.test/wiki/A')
        got = {told(client), told(client)}
        check(('dated', 'A', 9, 'shown', None) in got, got)
        check(('render', 'A', 9, None, None) in got, got)


# ---- what may be kept

@scene
def without_a_rule_no_cache_keeps_anything(binary):
    for rules in ({}, edge_rule(None)):
        with edged(binary, rules=rules) as (origin, server):
            origin.page('A', (7, 'text'))
            for _ in range(4):
                eq(control(server, A), DEFAULT)


@scene
def what_a_purge_reaches_may_be_kept(binary):
    with edged(binary, '--set', 'page.contents=html,data-parsoid') as (origin, server):
        origin.page('A', (6, 'before'), (7, 'text'))
        origin.page('R', (8, '#REDIRECT [[A]]'))
        origin.page('Foo_(bar)/b', (9, 'text'))
        tag = server.request('GET', A).headers['ETag']
        for _ in range(4):      # made, stored, ready
            eq(control(server, A), DAY)
            eq(control(server, path('data-parsoid', 'A')), DAY)
            eq(control(server, A, {'Accept-Encoding': 'gzip'}), DAY)
            eq(control(server, A, method='HEAD'), DAY)
            eq(control(server, path('html', 'Foo_%28bar%29%2Fb')), DAY)
            same = server.request('GET', A, {'If-None-Match': tag})
            eq((same.status, same.headers['Cache-Control']), (304, DAY))
            redirect = server.request('GET', path('html', 'R'))
            eq((redirect.status, redirect.headers['Cache-Control']), (302, DAY))


@scene
def a_content_that_no_rule_purges_is_not_kept(binary):
    with edged(binary, '--set', 'page.contents=html,data-parsoid', rules={'edge': purging(urls=[HTML])}) as (origin, server):
        origin.page('A', (7, 'text'))
        for _ in range(4):
            eq(control(server, A), DAY)
            eq(control(server, path('data-parsoid', 'A')), DEFAULT)


@scene
def a_page_is_kept_when_each_change_of_it_is_purged(binary):
    """Who purges render alone would leave deleted pages at the edge."""
    render, gone, dated = (f'palimpsest.{name}' for name in ('render', 'gone', 'dated'))
    target = {'targets': ['http://127.0.0.1:9']}
    other = {'targets': ['http://127.0.0.1:10']}
    for rules, says in (
            ([purging(render)], DEFAULT),
            ([purging([render, gone])], DEFAULT),
            ([purging({'stream': 'palimpsest.*', 'not': [{'kind': 'deleted'}]})], DEFAULT),
            ([purging({'stream': 'palimpsest.*', 'not': [{'kind': 'culled'}]})], DAY),
            ([purging({'stream': 'palimpsest.*', 'rev_id': '7'})], DEFAULT),
            ([purging({'stream': 'palimpsest.*', 'domain': 'localhost', 'bucket': 'page', 'title': '/^A/'})], DAY),
            ([purging({'stream': 'palimpsest.*', 'domain': 'else'})], DEFAULT),
            ([purging({'stream': 'palimpsest.*', 'title': 'B'})], DEFAULT),
            ([purging(sample='0.000001')], DEFAULT),
            ([purging(urls=[HTML + '?'])], DEFAULT),
            ([purging(urls=['http://{domain}' + HTML])], DAY),
            ([purging(urls=[HTML, '/{domain}/v1/page/html/{title}/{rev}'])], DAY),
            ([purging(urls=[HTML, '/{nowhere}'])], DEFAULT),
            ([purging(claim_ttl='1h')], DAY.replace('86400', '3600')),
            ([purging(render, **target), purging([gone, dated], **target)], DAY),
            ([purging(render, **target), purging([gone, dated], **other)], DEFAULT),
            ([purging(**target), purging(ttl='1h', **other)], DAY.replace('86400', '3600'))):
        with edged(binary, rules={f'edge{n}': rule for n, rule in enumerate(rules)}) as (origin, server):
            origin.page('A', (7, 'text'))
            for _ in range(3):
                eq(control(server, A), says, str(rules))


@scene
def what_no_purge_reaches_may_not(binary):
    with edged(binary) as (origin, server):
        origin.page('A', (6, 'before'), (7, 'text'))
        origin.page('R', (8, '#REDIRECT [[A]]'))
        origin.page('Foo_(bar)', (9, 'text'))
        render = server.request('GET', A).headers['ETag'].strip('"').split('/')[1]
        for _ in range(3):      # its own answer is ready
            eq(control(server, A), DAY)
        for _ in range(4):
            for target in (f'{A}?', f'{A}?x=1', f'{A}?redirect=true', f'{A}/7', f'{A}/6', f'{A}/7/{render}', f'{A}?at=2100-01-01T00:00:00Z',
                           path('html', '%41'), path('html', 'Foo_(bar)'), path('html', 'Foo_%28bar)'), '/localhost/v1/page/html/%41?',
                           path('title', 'A'), path('wikitext', 'A'), path('html', 'B'), path('html', 'R') + '?redirect=false'):
                kept = control(server, target)
                check(kept is None or ' s-maxage=86400' not in kept, f'{target}: {kept}')
            for headers in ({'Accept-Datetime': 'Tue, 01 Jan 2030 00:00:00 GMT'}, {'Range': 'bytes=0-1'}):
                kept = control(server, A, headers)
                check(' s-maxage=86400' not in kept, f'{headers}: {kept}')
            eq(control(server, path('html', 'R'), {'Origin': 'https://else.test'}), 'no-cache', 'the page it leads to')
            eq(control(server, A + '?stash=true'), 'no-cache')
        eq(control(server, A), DAY)


@scene
def each_of_those_who_wait_for_one_making_is_told_of_its_own_address(binary):
    with edged(binary) as (origin, server), concurrent.futures.ThreadPoolExecutor(12) as pool:
        origin.page('Foo_(bar)', (7, 'text'))
        targets = (path('html', 'Foo_(bar)'), path('html', 'Foo_%28bar%29'), path('html', 'Foo_%28bar%29') + '?') * 4
        with origin.gate('render') as gate:
            answers = [pool.submit(server.request, 'GET', target) for target in targets]
            wait_until(lambda: gate.waiting == 1 and figure(server, 'flights') == 1, 'it is being made')
            gate.open()
            for target, answer in zip(targets, answers):
                eq((answer.result().status, answer.result().headers['Cache-Control']),
                   (200, DAY if target.endswith('%29') else DEFAULT), target)
        eq(origin.count('render'), 1)


@scene
def of_a_private_wiki_nothing_is_kept(binary):
    with tempfile.NamedTemporaryFile('w') as bot:
        bot.write('Bearer bot')
        bot.flush()
        with edged(binary, '--set', 'domains.localhost.origin.private=true', '--set',
                   f'domains.localhost.origin.authorization_file={bot.name}') as (origin, server):
            origin.bot, origin.readers = 'Bearer bot', {'session=alice': None}
            origin.page('A', (7, 'text'))
            for _ in range(3):
                answer = server.request('GET', A, {'Cookie': 'session=alice'})
                eq((answer.status, answer.headers['Cache-Control']), (200, 'private, no-store'))


@scene
def what_the_wiki_may_have_otherwise_may_not(binary):
    with edged(binary, '--set', 'domains.localhost.origin.check_wait=100ms') as (origin, server):
        origin.page('A', (7, 'text'))
        for _ in range(3):
            eq(control(server, A), DAY)
        change(origin, 'A', (8, 'after'))
        for kind in ('render', 'words'):
            origin.fault(kind, status_of(500))
            purge(server, 'http://wiki.test/wiki/A')
            wait_until(lambda: 'trusted' not in server.request('GET', A).headers['Cache-Status'], 'it is doubted')
            for _ in range(3):
                answer = server.request('GET', A)
                eq((answer.status, answer.headers['Cache-Control']), (200, DEFAULT), answer.headers['Cache-Status'])
        origin.fault('render', None)
        origin.fault('words', None)
        wait_until(lambda: b'after' in server.request('GET', A).body, 'it is made')
        eq(control(server, A), DAY)


@scene
def what_the_operator_says_of_caches_stays(binary):
    for said, becomes in (('max-age=60', 'max-age=60, s-maxage=86400'), ('public, s-maxage=30', None), ('no-store', None),
                          ('private, max-age=5', None), ('S-MaxAge=7', None), ('no-cache="x"', None)):
        with edged(binary, '--set', f'page.cache_control={said}') as (origin, server):
            origin.page('A', (7, 'text'))
            for _ in range(3):
                eq(control(server, A), becomes or said)


@scene
def of_a_wiki_of_nobody_else_nothing_is_kept(binary):
    with rules_file(edge_rule()) as file, Server(binary, '--config', file, '--set', 'auth=internal') as server:
        put(server, 'A', 7, b'text')
        for _ in range(3):
            eq(control(server, A), DAY)     # the door is open
        key = server.json('POST', '/v1/admin.tokens', body={'roles': ['Admin']}).body['key']
        bearer = {'Authorization': f'Bearer {key}'}
        eq(server.json('POST', '/v1/admin.door', bearer, {'open': False}).status, 200)
        server.json('PUT', path('html', 'A', 8), bearer, b'more')
        for _ in range(3):
            answer = server.request('GET', A, bearer)
            eq((answer.status, answer.headers['Cache-Control']), (200, DEFAULT))


@scene
def ready_answers_say_what_the_rules_say_now(binary):
    with edged(binary, rules={}) as (origin, server):
        origin.page('A', (7, 'text'))
        for rules, says in ((edge_rule(), DAY), (edge_rule('2h'), DAY.replace('86400', '7200')), ({'edge': purging(urls=[PARSOID])}, DEFAULT),
                            (edge_rule(), DAY), ({'edge': purging('palimpsest.render')}, DEFAULT), (edge_rule(), DAY), ({}, DEFAULT)):
            for _ in range(4):      # it is ready
                server.request('GET', A)
            seen = server.stderr().count('reload.done')
            write_rules(server.file, rules)
            server.signal(signal.SIGHUP)
            wait_until(lambda: server.stderr().count('reload.done') > seen, 'it is read')
            wait_until(lambda: control(server, A) == says, says)     # the store takes the rules over first
            for _ in range(4):
                eq(control(server, A), says)


@scene
def a_rule_that_does_not_purge_soon_lets_no_cache_keep_a_page(binary):
    """What is ready, too, says from then on that it may not be kept."""
    def steer(verb, **more):
        eq(server.json('POST', f'/v1/admin.change.{verb}', body={'rule': 'edge', **more}).status, 200)

    def says(control_of):
        wait_until(lambda: control(server, A) == control_of, control_of)
        for _ in range(4):
            eq(control(server, A), control_of)

    with edged(binary) as (origin, server):
        origin.page('A', (7, 'text'))
        says(DAY)
        steer('pause')
        says(DEFAULT)
        server.restart()
        says(DEFAULT)
        steer('resume')
        says(DAY)
        steer('limit', rate='1/h')
        says(DEFAULT)
        steer('limit')
        says(DAY)
    for late in ({'delay': '2m'}, {'rate': '1/h'}):
        with edged(binary, rules={'edge': purging(**late)}) as (origin, server):
            origin.page('A', (7, 'text'))
            for _ in range(3):
                eq(control(server, A), DEFAULT, late)


@scene
def the_age_is_never_above_what_may_be_kept(binary):
    with edged(binary, '--set', 'domains.localhost.origin.trust_ttl=2h', '--set', 'domains.localhost.origin.trust_max=3h',
               rules=edge_rule('1h')) as (origin, server):
        origin.page('A', (7, 'text'))
        for _ in range(3):
            server.request('GET', A)
        server.clock(advance='30m')
        check(1800 <= int(server.request('GET', A).headers['Age']) <= 1830, 'the age of the word')
        server.clock(advance='1h')
        for _ in range(3):
            eq(server.request('GET', A).headers['Age'], '3600')


# ---- with a cache

@scene
def the_rule_that_the_manual_shows_is_right(binary):
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
        text = documented('change:\n      rules:\n        edge:')
        for match in ('', ', not: [{ kind: culled }]'):
            file.seek(0)
            file.write(text.replace('palimpsest.dated] }', f'palimpsest.dated]{match} }}'))
            file.flush()
            done = subprocess.run([binary, 'change', 'rules', 'check', file.name], capture_output=True, text=True, check=False)
            eq((done.returncode, done.stdout), (0, f'{file.name}: 1 rule, no fault\n'), done.stderr)
    example = (EXAMPLES / 'edge.yaml').read_text()
    eq(example.partition('  rules:\n')[2], text.partition('  rules:\n')[2].strip('\n') + '\n', 'the example')
    eq((EXAMPLES / 'edge.vcl').read_text().partition('\n')[2], documented().strip('\n') + '\n', 'the example')


@scene
def varnish_gives_what_the_wiki_has(binary):
    with edged(binary) as (origin, server), Client(server, STREAM) as client, Varnish(server) as varnish:
        def purged():
            """As the rule does it, for the next event."""
            stream, title, *rest = told(client)
            eq(varnish.request('PURGE', path('html', title)).status, 200)
            return (stream, *rest)

        origin.page('A', (7, 'first'))
        first, kept = varnish.get(A)
        eq((kept, first.status), (False, 200))
        for _ in range(3):
            again, kept = varnish.get(A)
            eq((kept, again.body), (True, first.body))
        eq(purged()[:2], ('render', 7))
        change(origin, 'A', (8, 'second'))
        eq(varnish.get(A)[0].body, first.body, 'nobody has told of it')
        purge(server, 'http://wiki.test/wiki/A')
        eq(purged(), ('dated', 7, 'revision', 8))
        answer, kept = varnish.get(A)
        check(b'second' in answer.body and not kept, 'fetched anew')
        eq(purged()[:2], ('render', 8))
        varnish.get(A)
        check(varnish.get(A)[1], 'kept')
        server.clock(advance='30s')
        wait_figure(server, 'looks_again_total', 1)     # it asks once more, some seconds after it was told
        wait_figure(server, 'looks_stored_total', 2)
        server.clock(advance='30s')
        varnish.request('PURGE', A)
        answer, kept = varnish.get(A)
        check(30 <= int(answer.headers['Age']) <= 40, f'the age of the word: {answer.headers["Age"]}')
        check(varnish.get(A)[1], 'kept all the same')
        pages = dict(origin.pages)
        origin.delete('A')
        purge(server, 'http://wiki.test/wiki/A')
        eq(purged(), ('gone', 8, 'deleted', None))
        eq(varnish.get(A)[0].status, 404)
        origin.pages.update(pages)
        origin.changed += 1
        purge(server, 'http://wiki.test/wiki/A')
        while 'shown' not in purged():      # revision 7 is gone, too
            pass
        eq(varnish.get(A)[0].status, 200)
        for target in (A + '?', A + '/8', path('html', '%41')):
            for _ in range(3):
                check(not varnish.get(target)[1], f'{target} is not kept')


main()
