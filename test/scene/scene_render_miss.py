"""Goal: what is missing is made by the origin, stored and answered, once. Method: a server in front of a scripted
origin that counts; storms are held at a gate until all have asked."""
from harness import check, eq, main, scene, wait_until
from origin import Origin
from page_help import DAY, explain, get, history, http_date, instant, later, page_server, path, problem, put, runs, tid
from render_help import NO_CACHE, Crowd, cache_of, metric, name_of, origin_server


@scene
def a_missing_page_is_made_stored_and_served(binary):
    with Origin() as origin:
        origin.page('A', (1, 'old'), (7, 'new'))
        with origin_server(binary, origin) as server:
            first = get(server, 'A')
            rev, named = name_of(first)
            eq(rev, 7)
            check(f'<meta property="mw:TimeUuid" content="{named}"/>'.encode() in first.body, 'the tid in the head')
            check(b'>new</p>' in first.body, 'the newest text')
            eq(cache_of(first), 'miss')
            eq(first.headers['Cache-Status'], 'palimpsest; fwd=miss; fwd-status=200; stored; detail=leader')
            eq(first.headers['Content-Location'], f'/localhost/v1/page/html/A/7/{named}')
            check('Specs/HTML/2.6.0' in first.headers['Content-Type'], first.headers['Content-Type'])
            eq(first.headers['Content-Language'], 'en')
            eq(first.headers['Location'], None)
            again = get(server, 'A')
            eq((again.body, again.headers['ETag'], cache_of(again)), (first.body, first.headers['ETag'], 'hit'))
            eq(again.headers['Cache-Status'], 'palimpsest; hit; detail=trusted')
            parsoid = get(server, 'A', 7, named, content='data-parsoid')
            check(b'"ids"' in parsoid.body, parsoid.body)
            eq(origin.count('render'), 1)
            eq(history(server, 'A')['items'][0]['state'], 'current')
            server.restart()
            eq(get(server, 'A').body, first.body)
            eq(origin.count('render'), 1)


@scene
def a_storm_for_one_page_asks_the_origin_once(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server, origin.gate('render') as gate:
            kinds = [None, {'Accept-Encoding': 'gzip'}, {'X-Request-Id': 'mine'}, {'Accept-Encoding': 'identity;q=0, gzip'}]
            crowd = Crowd(server, [(path('html', 'A'), kinds[i % 4]) for i in range(196)] +
                          [(path('data-parsoid', 'A'), None), (path('html', 'A') + '?stash=true', None),
                           (path('html', 'A'), {'If-None-Match': '"7/none"'}), (path('html', 'A'), {'Range': 'bytes=0-4'})])
            wait_until(lambda: metric(server, 'flight_waiters') == 200, 'all have asked')
            gate.open()
            answers = crowd.wait()
            eq([a.status for a in answers], [200] * 199 + [206])
            eq((origin.count('render'), origin.count('meta'), origin.count('siteinfo')), (1, 1, 1))
            eq(len({name_of(a) for a in answers}), 1)
            eq({cache_of(a) for a in answers}, {'miss'})
            leaders = [a for a in answers if 'collapsed' not in a.headers['Cache-Status']]
            eq(len(leaders), 1)
            follower = next(a for a in answers if 'collapsed' in a.headers['Cache-Status'])
            eq(follower.headers['Cache-Status'],
               'palimpsest; fwd=miss; fwd-status=200; stored; collapsed; detail=waiter')
            eq(len({a.body for a in answers[0:196:4]}), 1)
            check(all(a.headers['Content-Encoding'] == 'gzip' for a in answers[1:196:4]), 'the coding asked for')
            eq({a.headers['X-Request-Id'] for a in answers[2:196:4]}, {'mine'})
            eq(answers[199].body, b'<!DOC')
            eq(len(history(server, 'A')['items']), 1)
            wait_until(lambda: metric(server, 'flights') == 0, 'none is left')


@scene
def an_old_revision_is_kept_for_who_asked_and_is_not_the_latest(binary):
    with Origin() as origin:
        origin.page('A', (3, 'three'), (5, 'five'), (9, 'nine'))
        with origin_server(binary, origin, '--set', 'page.historical_ttl=2d') as server:
            five = get(server, 'A', 5)
            eq((name_of(five)[0], cache_of(five)), (5, 'miss'))
            told = explain(server, 'A', 5)
            eq(told['superseded_by'], {'rev': 6, 'tid': None})  # some newer one
            eq((told['state'], told['due_at']), ('recent', instant(2.5 * DAY)))
            eq((name_of(get(server, 'A'))[0], origin.count('render')), (9, 2))
            eq((cache_of(get(server, 'A', 5)), cache_of(get(server, 'A', 9)), origin.count('render')), ('hit', 'hit', 2))
            eq(explain(server, 'A')['state'], 'current')
            server.clock(advance='3d')
            eq([item['rev'] for item in history(server, 'A')['items']], [9])
            eq(cache_of(get(server, 'A', 5)), 'miss')   # culled, and made again
            eq(cache_of(get(server, 'A', 3)), 'miss')
            eq(name_of(get(server, 'A'))[0], 9)
        with page_server(binary, *origin.options('localhost'), '--set', 'page.historical_ttl=never') as server:
            get(server, 'A', 3)
            eq(explain(server, 'A', 3)['due_at'], None)


@scene
def each_of_a_storm_that_names_the_newest_keeps_it(binary):
    """The answers that are made once for all wait for nothing; where the window is short, these must, for a longer life."""
    for grace, until in (('1h', instant(5 * 3600)), ('4h', None)):
        with Origin() as origin:
            origin.page('A', (7, 'new'))
            options = ('--set', f'page.grace_ttl={grace}', '--set', 'page.historical_ttl=4h')
            with origin_server(binary, origin, *options) as server:
                with origin.gate('render') as gate:
                    crowd = Crowd(server, [(path('html', 'A', 7), None) for _ in range(20)])
                    wait_until(lambda: metric(server, 'flight_waiters') == 20, 'all have asked')
                    gate.open()
                    eq({answer.status for answer in crowd.wait()}, {200})
                eq([hold['until'] for hold in explain(server, 'A')['holds']], [until] if until else [])
                eq(metric(server, 'pages_extended_total'), 1 if until else 0)
                origin.page('A', (7, 'new'), (8, 'newer'))
                eq(name_of(get(server, 'A', headers=NO_CACHE))[0], 8)
                server.clock(advance='239m')
                eq(cache_of(get(server, 'A', 7)), 'hit')
                eq(origin.count('render'), 2)


@scene
def no_cache_makes_it_anew_and_the_same_keeps_its_name(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server:
            first = get(server, 'A')
            server.clock(advance='10s')
            same = get(server, 'A', headers=NO_CACHE)
            eq((name_of(same), same.body, cache_of(same)), (name_of(first), first.body, 'nocache'))
            eq(same.headers['Cache-Status'], 'palimpsest; fwd=request; fwd-status=200; stored; detail=leader')
            eq(origin.count('render'), 2)
            origin.stamp = ' (the template changed)'
            eq(get(server, 'A').body, first.body)
            other = get(server, 'A', headers=NO_CACHE)
            check(b'the template changed' in other.body, other.body)
            check(name_of(other)[1] != name_of(first)[1], 'a name of its own')
            check(name_of(other)[1].encode() in other.body, 'and in its head')
            eq([item['state'] for item in history(server, 'A')['items']], ['current', 'recent'])
            eq(get(server, 'A', *name_of(first)).body, first.body)
            eq(cache_of(get(server, 'A', 7, headers=NO_CACHE)), 'nocache')
            eq(origin.count('render'), 4)


@scene
def if_unmodified_since_spares_making_it_anew(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server:
            asked = {'If-Unmodified-Since': http_date(5), **NO_CACHE}
            eq(cache_of(get(server, 'A', headers=asked)), 'miss')
            eq(cache_of(get(server, 'A', headers=asked)), 'nocache')    # of 0 s, older than 5 s
            origin.stamp = ' changed'
            server.clock(advance='10s')
            eq(cache_of(get(server, 'A', headers=asked)), 'nocache')
            problem(get(server, 'A', headers=asked, status=412), 412, 'precondition_failed')
            problem(get(server, 'A', headers={**asked, 'If-Unmodified-Since': 'nonsense'}, status=412), 412,
                    'precondition_failed')
            eq(origin.count('render'), 3)


@scene
def an_exact_render_that_is_gone_is_never_made_anew(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server:
            first = name_of(get(server, 'A'))
            eq(server.request('DELETE', path('all', 'A', *first)).status, 204)
            problem(get(server, 'A', *first, status=410), 410, 'purged')
            problem(get(server, 'A', *first, status=410, headers=NO_CACHE), 410, 'purged')
            problem(get(server, 'A', 7, tid(1), status=404), 404, 'not_found')
            eq(origin.count('render'), 1)
            second = get(server, 'A')
            eq((cache_of(second), name_of(second)[0]), ('miss', 7))
            check(name_of(second)[1] > first[1] or name_of(second)[1] != first[1], 'another name')
            eq(origin.count('render'), 2)


@scene
def what_is_asked_for_of_the_past_is_never_made(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        past = [('?at=' + instant(0), {}), ('', {'Accept-Datetime': http_date(0)})]
        with origin_server(binary, origin) as server:
            for query, headers in past:
                for more in ({}, NO_CACHE):
                    problem(get(server, 'A', query=query, headers={**headers, **more}, status=404), 404, 'not_found')
            eq(origin.count('render') + origin.count('meta'), 0)
            server.clock(advance='10s')
            first = get(server, 'A')
            origin.stamp = ' (the template changed)'
            server.clock(advance='10s')
            get(server, 'A', headers=NO_CACHE)
            asked = sum(origin.calls.values())
            then = [('?at=' + instant(12), {}), ('', {'Accept-Datetime': http_date(12)})]
            for gone in (False, True):
                if gone:
                    origin.down()
                for query, headers in then:
                    for more in ({}, NO_CACHE):
                        answer = get(server, 'A', query=query, headers={**headers, **more})
                        eq(name_of(answer)[0], 7)
                        check('Memento-Datetime' in answer.headers, 'it is one of the past')
                eq(get(server, 'A', query=then[0][0]).body, first.body)
                problem(get(server, 'A', query='?at=' + instant(1), status=404), 404, 'not_found')
                problem(get(server, 'A', 7, tid(1), status=404), 404, 'not_found')
                eq(get(server, 'A', *name_of(first)).body, first.body)
            eq(sum(origin.calls.values()), asked)


@scene
def a_purge_of_the_latest_brings_back_no_older_revision(binary):
    with Origin() as origin:
        origin.page('A', (3, 'three'))
        with origin_server(binary, origin) as server:
            get(server, 'A')
            origin.page('A', (3, 'three'), (5, 'five'))
            eq(name_of(get(server, 'A', headers=NO_CACHE))[0], 5)
            eq(server.request('DELETE', path('all', 'A', 5)).status, 204)
            later(server)
            again = get(server, 'A')
            eq((name_of(again)[0], cache_of(again)), (5, 'miss'))


@scene
def a_purge_while_it_is_made_has_it_made_again(binary):
    with Origin() as origin:
        origin.page('A', (7, 'before the purge'))
        with page_server(binary, *origin.options('localhost')) as server:
            server.clock(resume=True)
            with origin.gate('render') as gate:
                crowd = Crowd(server, [(path('html', 'A'), None)])
                wait_until(lambda: gate.waiting == 1, 'the origin is at work')
                eq(server.request('DELETE', path('all', 'A')).status, 204)
                gate.open()
                answer, = crowd.wait()
            eq((answer.status, origin.count('render')), (200, 2))
            eq(len(history(server, 'A')['items']), 1)


@scene
def what_the_wiki_does_not_have_is_not_there(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'), (8, 'hidden'), (9, 'newest'))
        origin.page('B', (20, 'b'))
        origin.hide('A', 8)
        with origin_server(binary, origin) as server:
            problem(get(server, 'Missing', status=404), 404, 'not_found')
            problem(get(server, 'Missing', 5, status=404), 404, 'not_found')
            problem(get(server, 'A', 6, status=404), 404, 'not_found')
            problem(get(server, 'A', 20, status=404), 404, 'not_found')     # of another page
            problem(get(server, 'A', 8, status=410), 410, 'suppressed', reason='suppressed')
            origin.page('Missing', (30, 'now it is there'))
            problem(get(server, 'Missing', status=404), 404, 'not_found')   # for as long as its word is trusted
            server.clock(advance='61s')
            eq(name_of(get(server, 'Missing'))[0], 30)
            get(server, 'B')
            origin.delete('B')
            eq(cache_of(get(server, 'B')), 'hit')           # until somebody says so, or asks for it anew
            problem(get(server, 'B', status=404, headers=NO_CACHE), 404, 'not_found')
            eq(origin.count('render'), 2)


@scene
def waiting_has_an_end_and_the_making_goes_on(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server:
            problem(get(server, 'A', status=504, headers={'Cache-Control': 'only-if-cached'}), 504, 'not_cached')
            eq(origin.count('render'), 0)
            with origin.gate('render') as gate:
                problem(get(server, 'A', status=504, headers={'Prefer': 'respond-async, wait=1'}), 504, 'origin_timeout')
                eq(gate.waiting, 1)
                gate.open()
            wait_until(lambda: metric(server, 'flights') == 0, 'it was made')
            eq(cache_of(get(server, 'A', headers={'Cache-Control': 'only-if-cached'})), 'hit')
            eq(origin.count('render'), 1)


@scene
def who_leaves_first_takes_nothing_from_the_rest(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server, origin.gate('render') as gate:
            leaver = server.connect()
            leaver.sendall(b'GET /localhost/v1/page/html/A HTTP/1.1\r\nHost: x\r\n\r\n')
            wait_until(lambda: gate.waiting == 1, 'the first has asked')
            crowd = Crowd(server, [(path('html', 'A'), None)])
            wait_until(lambda: metric(server, 'flight_waiters') == 2, 'the second waits')
            leaver.close()
            wait_until(lambda: metric(server, 'flight_waiters') == 1, 'the first is let go')
            gate.open()
            answer, = crowd.wait()
            eq((answer.status, origin.count('render')), (200, 1))


@scene
def a_page_nobody_waits_for_any_more_is_stored_all_the_same(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server, origin.gate('render') as gate:
            leaver = server.connect()
            leaver.sendall(b'GET /localhost/v1/page/html/A HTTP/1.1\r\nHost: x\r\n\r\n')
            wait_until(lambda: gate.waiting == 1, 'it has asked')
            leaver.close()
            wait_until(lambda: metric(server, 'flight_waiters') == 0, 'it is let go')
            gate.open()
            wait_until(lambda: metric(server, 'flights') == 0, 'it was made')
            eq((cache_of(get(server, 'A')), origin.count('render')), ('hit', 1))


@scene
def only_contents_that_are_rendered_are_made(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with page_server(binary, *origin.options('localhost'), '--set', 'page.contents=html') as server:
            problem(get(server, 'A', content='mobile', status=404), 404, 'not_found')
            problem(get(server, 'A', content='data-parsoid', status=404), 404, 'not_found')
            eq(origin.count('render'), 0)
            get(server, 'A')
            problem(get(server, 'A', content='data-parsoid', status=404), 404, 'not_found#content')
            eq(origin.count('render'), 1)


@scene
def a_render_without_html_is_no_missing_page(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server:
            put(server, 'A', 7, 'for phones', content='mobile')
            problem(get(server, 'A', headers={'Cache-Control': 'only-if-cached'}, status=504), 504, 'not_cached')
            problem(get(server, 'A', content='other', status=404), 404, 'not_found#content')
            eq(origin.count('render'), 0)
            server.clock(advance='1s')
            for rev in (None, 7):       # to an editor a 404 would be a page to begin
                made = get(server, 'A', rev)
                eq((name_of(made)[0], cache_of(made), b'>new</p>' in made.body), (7, 'hit' if rev else 'miss', True))
            eq(origin.count('render'), 1)
            server.clock(advance='1s')
            runs(server)
            put(server, 'A', 8, 'for phones', content='mobile')     # newer than what the wiki has
            eq([(name_of(made)[0], cache_of(made)) for made in (get(server, 'A'), get(server, 'A'))], [(7, 'miss'), (7, 'hit')])
            get(server, 'A', 8, content='mobile', status=404)       # the wiki said that it has none
            origin.down()
            put(server, 'A', 9, 'for phones', content='mobile')
            problem(server.request('GET', path('html', 'A')), 502, 'origin_failed')


@scene
def a_domain_without_an_origin_asks_nobody(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with page_server(binary, *origin.options('localhost'), '--domain', 'plain.test') as server:
            missing = server.request('GET', '/plain.test/v1/page/html/A')
            problem(missing, 404, 'not_found')
            eq(cache_of(missing), None)
            eq(sum(origin.calls.values()), 0)


@scene
def what_clients_put_is_served_before_the_origin_is_asked(binary):
    with Origin() as origin:
        origin.page('A b', (7, 'new'))
        origin.page('A_b', (7, 'new'))
        with origin_server(binary, origin) as server:
            eq(put(server, 'a%20b', 7, 'mine')['title'], 'A_b')     # under the wiki's key
            eq((get(server, 'A_b').body, origin.count('render')), (b'mine', 0))
            eq(history(server, 'a%20b')['items'][0]['rev'], 7)
            problem(server.request('PUT', path('html', 'A%5Bb', 1), None, b'x'), 400, 'bad_request#invalid_title')


main()
