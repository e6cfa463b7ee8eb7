"""Goal: a SIGHUP takes over what the manual says, at once and as a restart would, and all of it or nothing.
Method: the real binary with a file that changes under it, a moved clock, an origin and generators of the scene."""
from change_help import Client
from harness import Server, check, eq, main, scene, wait_until
from list_help import Generator
from origin import Origin, status_of
from page_help import START, get, history, instant, path, put
from reload_help import Reloaded
from render_help import FORGETFUL, ask_anew


RULES = """change:
  rules:
    jobs: { match: { stream: "mediawiki.job.*" }, effect: job, targets: ["http://127.0.0.1:1/run"] }
    hook: { match: { stream: %s }, effect: drop }
%s"""


@scene
def a_bad_rule_changes_nothing_and_is_named(binary):
    with Reloaded(binary, RULES % ('x', '')) as r:
        said = r.reload(RULES % ('y', '    bad: { match: { stream: x }, effect: fly }\n'
                                      '    worse: { effect: look }\nlog: { level: debug }\n'), 'reload.refused', 2)
        eq(len(said), 2, said)
        check(f'{r.file}:5: bad: effect ' in said[0], said)
        check(f'{r.file}:6: worse: match is missing' in said[1], said)
        said = r.reload(RULES % ('x', ''))
        eq(said, ['reload.done changed=0 needs_restart=0'], 'it was as it had been')
        eq(r.server.request('GET', '/healthz').status, 200)
        said = r.reload(RULES % ('y', 'page: { grace_ttl: soon }\n'), 'reload.refused')
        check('page.grace_ttl' in said[0], said)
        eq(r.reload(RULES % ('x', '')), ['reload.done changed=0 needs_restart=0'])


@scene
def rules_that_differ_are_told_one_by_one(binary):
    with Reloaded(binary, RULES % ('x', '')) as r:
        said = r.reload(RULES % ('y', '    new: { match: { stream: x }, effect: http, url: "http://127.0.0.1:1/",\n'
                                      '           concurrency_of: { domain: { other.test: 1 } } }\n'))
        eq(sorted(line for line in said if 'changed option' in line),
           ['reload.changed option=change.rules.hook how=changed', 'reload.changed option=change.rules.new how=added'])
        check('reload.doubt' in said[0] and 'other.test' in said[0], said)
        eq(said[-1], 'reload.done changed=2 needs_restart=0')
        said = r.reload('change: { retention: 7d }\n')
        eq(sorted(said[:-1]), [f'reload.changed option=change.rules.{name} how=removed' for name in ('hook', 'jobs', 'new')])
        said = r.reload(RULES % ('x', ''))
        eq(said[-1], 'reload.done changed=2 needs_restart=0')


WANTS = 'change: { %srules: { r: { match: { stream: "%s", domain: en.test }, effect: %s } } }\n'


@scene
def the_store_tells_what_a_rule_may_want(binary):
    with Reloaded(binary, WANTS % ('', 'palimpsest.*', 'drop')) as r, \
            Client(r.server, '/v1/stream?stream=palimpsest.*') as client:
        put(r.server, 'A', 1, b'x')       # what is dropped is not wanted
        r.reload(WANTS % ('', 'palimpsest.render', 'look'))
        put(r.server, 'B', 1, b'x')
        eq(client.next()[2]['page_title'], 'B')
        r.reload(WANTS % ('', 'mediawiki.*', 'look'))
        put(r.server, 'C', 1, b'x')
        said = r.reload(WANTS % ('streams: [palimpsest.render], ', 'mediawiki.*', 'look'))
        check('reload.changed option=change.streams' in said, said)
        put(r.server, 'D', 1, b'x')
        eq(client.next()[2]['page_title'], 'D')
    with Reloaded(binary, WANTS % ('', 'palimpsest.render', 'look')) as r, Client(r.server) as client:
        put(r.server, 'A', 1, b'x')
        eq((client.next()[2]['meta']['stream'], r.lines()), ('palimpsest.render', []))


def due_of(server, title, rev):
    return {item['rev']: item['due_at'] for item in history(server, title)['items']}.get(rev)


PAGE = 'page: { historical_ttl: 0s, grace_ttl: %s%s }\n'


@scene
def a_page_ttl_is_obeyed_from_then_on(binary):
    with Reloaded(binary, PAGE % ('1h', ''), test_hooks=START) as r:
        server = r.server
        for rev in (1, 2, 3):
            put(server, 'A', rev, b'%d' % rev)
        eq(due_of(server, 'A', 1), instant(3600))
        for _ in range(3):      # the third is a ready one
            eq(get(server, 'A', 1).body, b'1')
        said = r.reload(PAGE % ('10s', ''))
        eq(said, ['reload.changed option=page.grace_ttl', 'reload.done changed=1 needs_restart=0'])
        eq(due_of(server, 'A', 1), instant(10))
        server.clock(advance='9999ms')
        eq(get(server, 'A', 1).body, b'1')
        server.clock(advance='1ms')
        eq((get(server, 'A', 1, status=410).status, due_of(server, 'A', 2)), (410, None))
        put(server, 'A', 4, b'4')
        eq(due_of(server, 'A', 3), instant(20))
        r.reload(PAGE % ('1d', ''))             # longer: what is gone stays gone
        eq(due_of(server, 'A', 3), instant(10 + 86400))
        eq(get(server, 'A', 2, status=410).status, 410)
        eq(server.kill9(), -9)
        server.test_hooks = '2026-01-01T01:00:00Z'
        server.start()                          # with what the file says, too
        eq((due_of(server, 'A', 3), get(server, 'A', 3).body), (instant(10 + 86400), b'3'))
        r.reload(PAGE % ('1d', ', policy: all'))
        put(server, 'A', 5, b'5')
        eq([(item['rev'], item['due_at']) for item in history(server, 'A')['items']][:2], [(5, None), (4, None)])


@scene
def other_words_of_pages_are_said_from_then_on(binary):
    with Reloaded(binary, 'page: { cache_control: "private, max-age=7" }\n') as r:
        put(r.server, 'A', 1, b'x')
        for _ in range(3):
            eq(get(r.server, 'A').headers['Cache-Control'], 'private, max-age=7')
        for age in (8, 9):
            said = r.reload(f'page: {{ cache_control: "private, max-age={age}" }}\n')
            check('reload.changed option=page.cache_control' in said, said)
            for _ in range(3):
                eq(get(r.server, 'A').headers['Cache-Control'], f'private, max-age={age}')


@scene
def a_store_that_refuses_refuses_all(binary):
    full = '--set', 'store.free_bytes_min=1T'   # more than any disk of a test has
    with Reloaded(binary, PAGE % ('1h', ''), test_hooks=START) as r:
        for rev in (1, 2):
            put(r.server, 'A', rev, b'x')
        r.server.restart(*r.server.args, *full)
        if r.server.request('PUT', path('html', 'B', 1), body=b'x').status != 507:
            return      # it has
        said = r.reload(PAGE % ('10s', '') + RULES % ('x', 'log: { level: debug }\n'), 'reload.refused')
        eq(len(said), 1, said)
        check('the store cannot record other policies of pages' in said[0], said)
        eq(due_of(r.server, 'A', 1), instant(3600))
        said = r.reload(PAGE % ('1h', '') + RULES % ('x', ''))   # nothing that the store has to record
        eq(sorted(said), ['reload.changed option=change.rules.hook how=added', 'reload.changed option=change.rules.jobs how=added',
                          'reload.done changed=2 needs_restart=0'])


@scene
def signals_by_the_dozen_end_with_the_last_file(binary):
    with Reloaded(binary, PAGE % ('1h', ''), test_hooks=START) as r:
        put(r.server, 'A', 1, b'x')
        for rev in range(2, 60):
            r.begin(PAGE % (f'{rev}s', ', policy: latest' if rev % 3 == 0 else ''))
            put(r.server, 'A', rev, b'%d' % rev)
            for _ in range(3):
                eq(get(r.server, 'A').body, b'%d' % rev)
                history(r.server, 'A')
        r.reload(PAGE % ('7s', ''))
        wait_until(lambda: due_of(r.server, 'A', 58) == instant(7), 'the last file holds')
        check('reload.refused' not in r.server.stderr(), r.server.stderr())
        eq(r.server.sigterm(), 0)
        r.server.start()
        eq(due_of(r.server, 'A', 58), instant(7))


def origin_file(origin, **fields):
    pairs = {'url': f'"http://127.0.0.1:{origin.port}/w/rest.php"', 'domain': origin.domain, 'timeout': '4m', **fields}
    return 'domains: { localhost: { origin: { %s } } }\n' % ', '.join(f'{name}: {value}' for name, value in pairs.items())


@scene
def trust_in_a_wiki_is_shorter_or_longer_from_then_on(binary):
    with Origin() as origin:
        origin.page('A', (7, 'old'))
        with Reloaded(binary, origin_file(origin), test_hooks=START) as r:
            for _ in range(3):
                get(r.server, 'A')
            r.server.clock(advance='30s')
            origin.page('A', (7, 'old'), (8, 'new'))
            eq((get(r.server, 'A').headers['Age'], origin.count('words')), ('30', 0))
            said = r.reload(origin_file(origin, trust_ttl='10s', trust_max='20s'))
            check('reload.changed option=domains.localhost.origin.trust_ttl' in said, said)
            check('reload.changed option=domains.localhost.origin.trust_max' in said, said)
            answer = get(r.server, 'A')     # older than trust_max: asked before the answer
            eq((answer.body != b'', origin.count('words')), (True, 1))
            check(answer.headers['ETag'].lstrip('W/').startswith('"8/'), answer.headers['ETag'])
            r.reload(origin_file(origin, trust_ttl='1h'))
            r.server.clock(advance='59m')
            origin.page('A', (7, 'old'), (8, 'new'), (9, 'newest'))
            check(get(r.server, 'A').headers['ETag'].lstrip('W/').startswith('"8/'), 'trusted for an hour')
            eq(origin.count('words'), 1)


@scene
def an_origin_is_asked_again_as_often_as_the_file_says_now(binary):
    with Origin() as origin:
        origin.page('A', (7, 'old'))
        origin.fault('render', status_of(500))
        with Reloaded(binary, origin_file(origin, retries=0), *FORGETFUL, test_hooks=START) as r:
            def asked():
                before = origin.count('render')
                ask_anew(r.server, origin, 'render', path('html', 'A'))
                return origin.count('render') - before
            eq(asked(), 1)
            r.reload(origin_file(origin, retries=2))
            eq(asked(), 3)


@scene
def a_list_lives_as_long_as_the_file_says_when_it_is_made(binary):
    generator = Generator()
    text = 'lists: { related: { generator: "%s", params: [user], ttl: %s, display_ttl: 0s, wait: 4m, timeout: 4m } }\n'
    try:
        with Reloaded(binary, text % (generator.url, '1h')) as r:
            def age_of(user):
                answer = r.server.request('GET', f'/localhost/v1/lists/related/*/1?user={user}')
                eq(answer.status, 200, answer.body)
                return int(answer.headers['Cache-Control'].partition('max-age=')[2].partition(',')[0])
            check(3500 <= age_of('a') <= 3600, 'an hour')
            said = r.reload(text % (generator.url, '2h'))
            eq(said, ['reload.changed option=lists.related.ttl', 'reload.done changed=1 needs_restart=0'])
            check(3500 <= age_of('a') <= 3600, 'the one that is there keeps its own')
            check(7100 <= age_of('b') <= 7200, 'the next has two')
            said = r.reload(text % (generator.url + '/other', '2h'))
            check('reload.needs_restart option=lists.related.generator' in said, said)
    finally:
        generator.close()


@scene
def fewer_follow_from_then_on(binary):
    with Reloaded(binary, 'stream: { clients: 2 }\n') as r, Client(r.server), Client(r.server):
        eq(r.server.request('GET', '/v1/stream').status, 503)
        r.reload('stream: { clients: 3 }\n')
        with Client(r.server):
            r.reload('stream: { clients: 1 }\n')
            eq(r.server.request('GET', '/v1/stream').status, 503)


@scene
def a_level_holds_from_then_on(binary):
    with Reloaded(binary, 'log: { level: info }\n') as r:
        said = r.reload('log: { level: warn }\n', 'reload.changed option=log.level')
        eq(said, ['reload.changed option=log.level'], 'the end is told at info')
        said = r.reload('log: { level: warn }\nchange: { retention: 3d }\nhot_bytes: 1M\n', 'needs_restart option=hot_bytes')
        eq(said, ['reload.needs_restart option=hot_bytes'])
        said = r.reload('log: { level: debug }\nchange: { retention: 4d }\nhot_bytes: 64M\n')
        eq(said, ['reload.done changed=2 needs_restart=0'])


main()
