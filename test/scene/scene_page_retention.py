"""Goal: how long renders live, as docs/api.md, 2, says: grace, culls, reads that extend, stash,
holds, purges and their fences, policies. Method: a server whose clock is moved to the nanosecond before and after."""
from harness import eq, main, scene
from page_help import DAY, explain, get, history, instant, metric, page_server, path, problem, put, tid
from several import one_server
from shared_store import differs, not_shared


@scene
def a_superseded_render_lives_until_due_and_not_a_nanosecond_longer(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        server.clock(advance='10s')
        put(server, 'A', 2, b'two', tid(10))
        item = history(server, 'A')['items'][1]
        eq((item['state'], item['superseded_at'], item['due_at']), ('recent', instant(10), instant(10 + DAY)))
        server.clock(freeze='2026-01-02T00:00:09.999999999Z')
        eq([i['rev'] for i in history(server, 'A')['items']], [2, 1])
        eq(get(server, 'A', query=f'?at={instant(5)}').body, b'one')    # extends nothing
        server.clock(freeze='2026-01-02T00:00:10Z')
        for where in (path('html', 'A', 1), path('html', 'A', 1, tid())):
            problem(server.request('GET', where), 410, 'culled', reason='culled', policy='app_ttl', at=instant(10 + DAY))
            problem(server.request('GET', where, {'If-None-Match': f'"1/{tid()}"'}), 410, 'culled')
        eq([i['rev'] for i in history(server, 'A')['items']], [2])
        eq(get(server, 'A').body, b'two')
        server.clock(advance='365d')
        eq(get(server, 'A').body, b'two')


@scene
def culls_need_no_later_write_and_outlive_a_restart(binary):
    with page_server(binary) as server:
        for title in 'ABC':
            put(server, title, 1, b'one')
            put(server, title, 2, b'two')
        server.clock(advance='2d')
        for title in 'ABC':
            eq(explain(server, title, 1)['state'], 'culled')
        eq(server.kill9(), -9)
        server.test_hooks = '2026-01-03T00:00:00Z'
        server.start()
        for title in 'ABC':
            problem(server.request('GET', path('html', title, 1)), 410, 'culled')
            eq(get(server, title).body, b'two')


@scene
def reads_that_name_a_revision_extend_it(binary):
    for number, (where, headers, method, status) in enumerate((
            (('A', 1), {}, 'GET', 200), (('A', 1, tid()), {}, 'GET', 200), (('A', 1), {}, 'HEAD', 200),
            (('A', 1), {'If-None-Match': f'"1/{tid()}"'}, 'GET', 304), (('A', 1), {'Range': 'bytes=0-0'}, 'GET', 206))):
        with page_server(binary) as server:
            put(server, 'A', 1, b'one', tid())
            put(server, 'A', 2, b'two', tid(1))
            server.clock(advance='23h')
            for _ in range(3):     # the second needs no write, and may be ready
                eq(server.request(method, path('html', *where), headers).status, status, f'case {number}')
            item = explain(server, 'A', 1)
            eq((item['state'], item['due_at']), ('recent', instant(23 * 3600 + 1.25 * DAY)), f'case {number}')
            server.clock(advance='2h')
            eq(explain(server, 'A', 1)['state'], 'historical')
            # still a historical_ttl left at 29 h: nothing is written
            server.clock(advance='4h')
            eq(get(server, 'A', 1).status, 200)
            eq(explain(server, 'A', 1)['due_at'], instant(23 * 3600 + 1.25 * DAY))
            server.clock(advance='1s')
            eq(get(server, 'A', 1).status, 200)
            eq(explain(server, 'A', 1)['due_at'], instant(29 * 3600 + 1 + 1.25 * DAY))
            server.clock(advance='31h')
            eq(server.request('GET', path('html', 'A', 1)).status, 410)


@scene
@one_server('it counts what one server wrote')
def a_render_read_by_its_name_while_current_lives_as_long(binary):
    short = ('--set', 'page.grace_ttl=1h', '--set', 'page.historical_ttl=4h')
    for number, (where, headers, method, status) in enumerate((
            (('A', 1), {}, 'GET', 200), (('A', 1, tid()), {}, 'GET', 200), (('A', 1), {}, 'HEAD', 200),
            (('A', 1), {'If-None-Match': f'"1/{tid()}"'}, 'GET', 304), (('A', 1), {'Range': 'bytes=0-0'}, 'GET', 206))):
        with page_server(binary, *short) as server:
            put(server, 'A', 1, b'one', tid())
            for minutes in (0, 59, 1, 1):     # written at 0 min and at 61 min: once per quarter of historical_ttl
                server.clock(advance=f'{minutes}m')
                eq(server.request(method, path('html', *where), headers).status, status, f'case {number}')
            eq(metric(server, 'pages_extended_total'), 2, f'case {number}')
            item = explain(server, 'A', 1)
            eq((item['state'], item['due_at'], item['holds']),
               ('current', None, [{'kind': 'request', 'until': instant(61 * 60 + 5 * 3600)}]), f'case {number}')
            eq(server.kill9(), -9)            # it was on disk before the answer
            server.test_hooks = instant(62 * 60)
            server.start()
            put(server, 'A', 2, b'two', tid(3700))
            server.clock(freeze=instant(61 * 60 + 5 * 3600 - 1))
            eq(get(server, 'A', 1, tid()).body, b'one')


@scene
@not_shared('latest_hash keeps nothing that is superseded: a store of many servers refuses such a policy')
def a_section_of_a_mobile_page_outlives_the_next_revision(binary):
    mobile = ('--set', 'buckets.mobile.kind=page', '--set', 'buckets.mobile.contents=lead,remaining',
              '--set', 'buckets.mobile.policy=latest_hash')
    with page_server(binary, *mobile) as server:
        bundle = {'lead': {'body': 'lead'}, 'remaining': {'body': 'rest'}}
        for rev in (1, 2):
            where = path('all', 'M', rev, tid(rev - 1), bucket='mobile')
            eq(server.request('PUT', where, body=bundle).status, 201)
            if rev == 1:
                eq(get(server, 'M', 1, tid(), content='lead', bucket='mobile').body, b'lead')
                server.clock(advance='10s')
        eq(get(server, 'M', 1, tid(), content='remaining', bucket='mobile').body, b'rest')
        eq(explain(server, 'M', 1, bucket='mobile')['state'], 'historical')
        server.clock(advance='30h')
        problem(server.request('GET', path('remaining', 'M', 1, tid(), bucket='mobile')), 410, 'culled')


@scene
@one_server('no answers are kept ready')
def a_named_read_of_the_latest_stays_ready_where_the_window_is_long_enough(binary):
    for grace, extended in (('1d', 0), ('23h', 1)):
        with page_server(binary, '--set', f'page.grace_ttl={grace}') as server:
            put(server, 'A', 1, b'one', tid())
            for _ in range(5):
                eq(get(server, 'A', 1).body, b'one')
            eq((metric(server, 'pages_extended_total'), metric(server, 'hot_hits_total') >= 2), (extended, True), grace)


@scene
def reads_are_counted_by_the_state_of_the_render(binary):
    states = ('current', 'recent', 'historical', 'gone')
    with page_server(binary) as server:
        counts = lambda: [metric(server, f'reads_total{{state="{state}"}}') for state in states]
        put(server, 'A', 1, b'one', tid())
        for _ in range(5):                      # from the store, then ready
            get(server, 'A')
        eq(server.request('GET', path('html', 'A'), {'If-None-Match': f'"1/{tid()}"'}).status, 304)
        eq(counts(), [6, 0, 0, 0])
        put(server, 'A', 2, b'two', tid(1))
        server.clock(advance='12h')
        for _ in range(4):
            get(server, 'A', 1)
        eq(counts(), [6, 4, 0, 0])
        # What was ready as recent is historical now. On a shared store the second put came a nanosecond behind the first.
        server.clock(advance='43201s')
        for _ in range(3):
            get(server, 'A', 1)
        eq(counts(), [6, 4, 3, 0])
        server.clock(advance='40h')
        problem(server.request('GET', path('html', 'A', 1)), 410, 'culled')
        problem(server.request('GET', path('html', 'B')), 404, 'not_found')
        problem(server.request('GET', path('html', 'A', 2), {'If-Match': '"x"'}), 412, 'precondition_failed')
        eq(counts(), [6, 4, 3, 1])


@scene
def a_stash_that_names_a_revision_extends_it_too(binary):
    with page_server(binary, '--set', 'page.stash_ttl=1h', '--set', 'page.grace_ttl=2h') as server:
        put(server, 'A', 1, b'one', tid())
        eq(get(server, 'A', query='?stash=true').status, 200)
        put(server, 'A', 2, b'two', tid(1))
        eq(explain(server, 'A', 1)['due_at'], instant(2 * 3600))
        eq(get(server, 'A', 1, query='?stash=true').status, 200)
        item = explain(server, 'A', 1)
        eq((item['due_at'], [hold['kind'] for hold in item['holds']]), (instant(1.25 * DAY), ['stash', 'request']))
        eq(get(server, 'A', query=f'?stash=true&at={instant(0)}').status, 200)


@scene
def refusals_and_reads_of_latest_history_and_explain_extend_nothing(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        put(server, 'A', 2, b'two', tid(1))
        server.clock(advance='23h')
        for where, headers, status in ((path('html', 'A'), {}, 200), (path('html', 'A', 1), {'If-Match': '"x"'}, 412),
                                       (path('html', 'A', 1), {'Range': 'bytes=9-'}, 416), (path('nope', 'A', 1), {}, 404),
                                       (path('html', 'A') + f'?at={instant(-1)}', {}, 404), (path('title', 'A', 1), {}, 200),
                                       (path('html', 'A', 2), {}, 200)):
            eq(server.request('GET', where, headers).status, status, f'{where} {headers}')
        history(server, 'A')
        eq(explain(server, 'A', 1)['due_at'], instant(DAY))
        eq(explain(server, 'A', 2)['due_at'], None)


@scene
def an_extension_survives_a_kill(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one')
        put(server, 'A', 2, b'two')
        server.clock(advance='23h')
        get(server, 'A', 1)
        eq(server.kill9(), -9)
        server.test_hooks = '2026-01-01T23:30:00Z'
        server.start()
        eq(explain(server, 'A', 1)['due_at'], instant(23 * 3600 + 1.25 * DAY))


@scene
def a_stash_pins_the_render_it_read(binary):
    with page_server(binary, '--set', 'page.stash_ttl=3d') as server:
        put(server, 'A', 1, b'one', tid())
        got = get(server, 'A', query='?stash=true')
        eq((got.body, got.headers['ETag'], got.headers['Cache-Control']), (b'one', f'"1/{tid()}"', 'no-cache'))
        server.clock(advance='10s')
        put(server, 'A', 2, b'two', tid(1))
        item = explain(server, 'A', 1)
        eq(item['holds'], [{'kind': 'stash', 'until': instant(3 * DAY)}])
        server.clock(advance='2d')
        eq(explain(server, 'A', 1)['state'], 'held')
        eq(history(server, 'A')['items'][1]['due_at'], instant(3 * DAY))
        server.clock(advance='23h')
        eq(server.request('GET', path('html', 'A') + f'?at={instant()}').body, b'one')
        server.clock(freeze='2026-01-04T00:00:00Z')
        problem(server.request('GET', path('html', 'A', 1, tid())), 410, 'culled')
        eq(server.request('PUT', path('html', 'C', 1) + '?stash=true', None, b'x').status, 201)
        eq(explain(server, 'C', 1)['holds'], [{'kind': 'stash', 'until': instant(6 * DAY)}])
        problem(server.request('GET', path('html', 'D') + '?stash=true'), 404, 'not_found')


@scene
@one_server('each server counts for itself what it keeps for edits')
def pinned_renders_count_to_what_stashes_may_keep(binary):
    bound = ('--set', 'page.stash_bytes_max=10k', '--set', 'page.stash_ttl=1d', '--set', 'page.codec=identity')
    with page_server(binary, *bound) as server:
        for title in 'ABC':
            put(server, title, 1, title.encode() * 4000, tid())
        for _ in range(20):
            eq(get(server, 'A', query='?stash=true').status, 200)     # one pin, however often it is asked for
        eq(get(server, 'B', query='?stash=true').status, 200)
        problem(server.request('GET', path('html', 'C') + '?stash=true'), 507, 'stash_full')
        eq((explain(server, 'C', 1)['holds'], get(server, 'C').body), ([], b'C' * 4000))
        problem(server.request('PUT', path('html', 'D', 1) + '?stash=true', None, b'D' * 4000), 507, 'stash_full')
        problem(server.request('GET', path('html', 'D')), 404, 'not_found')
        server.clock(advance='12h')
        eq(get(server, 'A', query='?stash=true').status, 200)         # for half a day more: half its bytes
        server.clock(advance='12h')
        eq([get(server, 'C', query='?stash=true').status for _ in range(2)], [200, 200])


@scene
def a_hold_keeps_until_its_instant_or_its_release(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        put(server, 'A', 2, b'two', tid(1))
        got = server.json('PUT', path('hold', 'A', 1), body={'until': instant(30 * DAY)})
        eq((got.status, got.body['until'], got.body['due_at'], got.body['tid']),
           (200, instant(30 * DAY), instant(30 * DAY), tid()))
        server.clock(advance='20d')
        item = explain(server, 'A', 1)
        eq((item['state'], item['holds']), ('held', [{'kind': 'hold', 'until': instant(30 * DAY)}]))
        answer = server.request('DELETE', path('hold', 'A', 1))
        eq((answer.status, answer.body), (204, b''))
        if differs('a release lingers: another server may just have seen the pin'):
            server.clock(advance='1h')
        problem(server.request('GET', path('html', 'A', 1)), 410, 'culled')
        for rev, render, status in ((1, None, 410), (9, None, 404), (2, tid(9), 404)):
            eq(server.request('PUT', path('hold', 'A', rev, render), body={'until': instant(90 * DAY)}).status, status)
        for bad in ({}, {'until': 5}, {'until': 'soon'}, {'until': instant(DAY)}, {'until': instant(90 * DAY), 'x': 1}, []):
            problem(server.request('PUT', path('hold', 'A', 2), body=bad), 400, 'bad_request#invalid_body')


@scene
def a_purge_leaves_a_fence(binary):
    with page_server(binary) as server:
        server.clock(advance='60s')
        put(server, 'A', 1, b'one', tid(10))
        put(server, 'A', 2, b'two', tid(20))
        answer = server.request('DELETE', path('all', 'A'))
        eq((answer.status, answer.body), (204, b''))
        for where in (path('html', 'A'), path('html', 'A', 1), path('html', 'A', 2, tid(20)), path('history', 'A')):
            problem(server.request('GET', where), 410, 'purged', reason='purged', at=instant(60))
        eq(explain(server, 'A', 1, tid(10))['state'], 'purged')
        for rev, render in ((1, tid(10)), (2, tid(60)), (3, tid(59))):
            problem(server.request('PUT', path('html', 'A', rev, render), None, b'x'), 410, 'purged', at=instant(60))
        again = put(server, 'A', 1, b'new', tid(60.0000001))
        eq(again['latest'], True)
        eq(explain(server, 'A')['due_at'], None)
        minted = put(server, 'A', 1, b'newer')
        eq(minted['latest'], True)
        eq(server.request('DELETE', path('all', 'Nothing')).status, 204)
        problem(server.request('PUT', path('html', 'Nothing', 1, tid(60)), None, b'x'), 410, 'purged')
        eq(server.request('DELETE', path('html', 'A')).status, 405)


@scene
def orders_obey_the_conditions_they_carry(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        put(server, 'A', 2, b'two', tid(1))
        tag, old = f'"2/{tid(1)}"', f'"1/{tid()}"'
        for where in (path('all', 'A'), path('all', 'A', 1), path('hold', 'A', 1)):
            for headers in ({'If-Match': old}, {'If-None-Match': tag},
                            {'If-Unmodified-Since': 'Wed, 31 Dec 2025 00:00:00 GMT'}):
                problem(server.request('DELETE', where, headers), 412, 'precondition_failed')
        problem(server.request('DELETE', path('all', 'B'), {'If-Match': '*'}), 412, 'precondition_failed')
        eq([i['rev'] for i in history(server, 'A')['items']], [2, 1], 'nothing was purged')
        put(server, 'A', 3, b'three', tid(2))     # and no fence was left
        eq(server.request('DELETE', path('all', 'A'), {'If-Match': tag}).status, 412)
        eq(server.request('DELETE', path('all', 'A'), {'If-Match': f'"3/{tid(2)}"'}).status, 204)
        problem(server.request('GET', path('html', 'A')), 410, 'purged')


@scene
def purges_of_a_revision_and_of_a_render_take_just_that(binary):
    with page_server(binary) as server:
        server.clock(advance='60s')
        for rev in (1, 2, 3):
            for n in (0, 1):
                put(server, 'A', rev, f'{rev}.{n}'.encode(), tid(rev * 10 + n))
        eq(server.request('DELETE', path('all', 'A', 2)).status, 204)
        eq([(i['rev'], i['tid']) for i in history(server, 'A')['items']],
           [(3, tid(31)), (3, tid(30)), (1, tid(11)), (1, tid(10))])
        eq(server.request('DELETE', path('all', 'A', 3, tid(31))).status, 204)
        eq(get(server, 'A').body, b'3.0')
        item = explain(server, 'A', 3)
        eq((item['tid'], item['state'], item['due_at']), (tid(30), 'current', None))
        problem(server.request('PUT', path('html', 'A', 3, tid(31)), None, b'x'), 410, 'purged')
        put(server, 'A', 3, b'3.5', tid(35))
        eq(get(server, 'A', 1).body, b'1.1')


@scene
def a_purge_ends_holds_and_the_next_render_is_latest(binary):
    with page_server(binary) as server:
        put(server, 'A', 7, b'seven', tid())
        eq(server.request('PUT', path('hold', 'A', 7), body={'until': instant(DAY)}).status, 200)
        get(server, 'A', 7, query='?stash=true')
        eq(server.request('DELETE', path('all', 'A')).status, 204)
        problem(server.request('GET', path('html', 'A', 7)), 410, 'purged')
        eq(put(server, 'A', 3, b'three', tid(1))['latest'], True)
        server.clock(advance='400d')
        eq(get(server, 'A').body, b'three')


@scene
@not_shared('latest_hash keeps nothing that is superseded: a store of many servers refuses such a policy')
def policies_keep_what_they_say(binary):
    options = []
    for name, policy in (('every', 'all'), ('hash', 'latest_hash'), ('two', 'latest'), ('short', 'ttl')):
        options += ['--set', f'buckets.{name}.kind=page', '--set', f'buckets.{name}.policy={policy}']
    options += ['--set', 'buckets.two.count=2', '--set', 'buckets.short.ttl=1h', '--set', 'buckets.two.grace_ttl=1h']
    with page_server(binary, *options) as server:
        server.clock(advance='60s')
        for bucket in ('every', 'hash', 'two', 'short'):
            for n in range(4):
                put(server, 'A', 1, f'{n}'.encode(), tid(n), bucket=bucket)
        server.clock(advance='59m')
        kept = {bucket: [i['tid'] for i in history(server, 'A', bucket=bucket)['items']]
                for bucket in ('every', 'hash', 'two', 'short')}
        eq(kept, {'every': [tid(3), tid(2), tid(1), tid(0)], 'hash': [tid(3)], 'two': [tid(3), tid(2), tid(1), tid(0)],
                  'short': [tid(3), tid(2), tid(1), tid(0)]})
        eq(get(server, 'A', bucket='short').body, b'3')
        server.clock(advance='1m')
        eq([i['tid'] for i in history(server, 'A', bucket='two')['items']], [tid(3), tid(2)])
        problem(server.request('GET', path('html', 'A', bucket='short')), 410, 'culled', policy='ttl')
        server.clock(advance='1000d')
        eq(len(history(server, 'A', bucket='every')['items']), 4)
        eq(explain(server, 'A', 1, tid(0), bucket='every')['policy'], 'all')


@scene
def explain_answers_for_what_never_was(binary):
    with page_server(binary) as server:
        for rev, render in ((None, None), (5, None), (5, tid())):
            item = explain(server, 'Never', rev, render)
            eq((item['title'], item['rev'], item['tid'], item['state'], item['holds']),
               ('Never', rev, render, 'unknown', []))
        put(server, 'A', 1, b'one', tid())
        item = explain(server, 'A')
        eq((item['state'], item['policy'], item['holds'], item['bytes']), ('current', 'app_ttl', [], {'html': 3}))
        eq(item['reason'] != '', True)


main()
