"""Goal: history, explain, title lists and their paging as docs/api.md, 2, says. Method: a server on a frozen clock."""
from harness import check, eq, main, scene
from page_help import explain, history, instant, page_server, path, problem, put, tid


def pages_of(server, where, limit):
    """All items of a listing, page by page, and how many pages."""
    items, pages, query = [], 0, f'?limit={limit}'
    while query:
        got = server.json('GET', where + query)
        eq(got.status, 200, f'{got.body}')
        check(len(got.body['items']) <= limit, 'a page is longer than its limit')
        items += got.body['items']
        pages += 1
        query = f'?limit={limit}&page={got.body["next"]}' if 'next' in got.body else None
    return items, pages


@scene
def history_is_newest_first_with_every_member(binary):
    with page_server(binary) as server:
        body = {'html': {'body': 'x' * 100}, 'data-parsoid': {'body': {}}}
        eq(server.request('PUT', path('all', 'A', 1, tid()), body=body).status, 201)
        server.clock(advance='5s')
        put(server, 'A', 2, b'two', tid(1.5))
        eq(history(server, 'A'), {'items': [
            {'rev': 2, 'tid': tid(1.5), 'rendered_at': instant(1.5), 'state': 'current', 'superseded_at': None,
             'superseded_by': None, 'due_at': None, 'bytes': {'html': 3}},
            {'rev': 1, 'tid': tid(), 'rendered_at': instant(), 'state': 'recent', 'superseded_at': instant(5),
             'superseded_by': {'rev': 2, 'tid': tid(1.5)}, 'due_at': instant(86405),
             'bytes': {'html': 100, 'data-parsoid': 2}}]})


@scene
def history_is_paged(binary):
    with page_server(binary) as server:
        server.clock(advance='60s')
        want = []
        for rev in range(1, 6):
            for n in range(5):
                put(server, 'A', rev, f'{rev}.{n}'.encode(), tid(rev * 5 + n))
                want.insert(0, (rev, tid(rev * 5 + n)))
        put(server, 'A0', 1, b'another title')
        for limit, pages in ((1, 25), (7, 4), (24, 2), (25, 1), (1000, 1)):
            items, count = pages_of(server, path('history', 'A'), limit)
            eq(([(i['rev'], i['tid']) for i in items], count), (want, pages), f'limit {limit}')


@scene
def a_page_goes_on_where_it_stopped_though_the_title_changed(binary):
    with page_server(binary) as server:
        for rev in range(2, 12, 2):
            put(server, 'A', rev, b'%d' % rev)
        first = history(server, 'A', '?limit=2')
        eq([i['rev'] for i in first['items']], [10, 8])
        put(server, 'A', 12, b'newer')
        put(server, 'A', 5, b'between')
        eq([i['rev'] for i in history(server, 'A', f'?page={first["next"]}')['items']], [6, 5, 4, 2])


@scene
def limits_and_tokens_are_checked(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'1')
        put(server, 'A', 2, b'2')
        token = history(server, 'A', '?limit=1')['next']
        for where in (path('history', 'A'), path('title', '')):
            for limit in ('0', '-1', '1001', 'x', '', '99999999999999999999'):
                problem(server.request('GET', f'{where}?limit={limit}'), 400, 'bad_request#invalid_limit')
            for bad in ('', 'x', '!!', 'AAAA', token[:-1] + '!', token + token):
                problem(server.request('GET', f'{where}?page={bad}'), 400, 'bad_request#invalid_paging_token')
        problem(server.request('GET', f'{path("title", "")}?page={token}'), 400, 'bad_request#invalid_paging_token')
        problem(server.request('GET', path('history', 'Never')), 404, 'not_found')


@scene
def titles_are_listed_in_key_order(binary):
    with page_server(binary, '--domain', 'localhost', '--domain', 'other') as server:
        titles = ['A', 'AA', 'AB', 'B', 'a', 'a%2Fb', 'z', '%C3%A9']
        for title in titles[::-1]:
            put(server, title, 1, b'x')
            put(server, title, 2, b'y')
        eq(server.request('PUT', '/other/v1/page/html/Other/1', None, b'x').status, 201)
        want = ['A', 'AA', 'AB', 'B', 'a', 'a/b', 'z', '\u00e9']
        for limit in (1, 3, 8, 100):
            eq(pages_of(server, path('title', ''), limit)[0], want, f'limit {limit}')
        got = server.json('GET', path('title', '') + '?limit=3').body
        eq(got['_links']['next']['href'], f'?page={got["next"]}')
        eq(server.request('DELETE', path('all', 'B')).status, 204)
        want.remove('B')
        eq(server.json('GET', path('title', '')).body, {'items': want})
        eq(server.json('GET', '/other/v1/page/title/').body, {'items': ['Other']})


@scene
def a_title_is_described_as_the_peer_does(binary):
    with page_server(binary) as server:
        problem(server.request('GET', path('title', 'A')), 404, 'not_found')
        put(server, 'A', 1, b'1', tid())
        put(server, 'A', 2, b'2', tid(1))
        for rev, want, render in ((None, 2, tid(1)), (1, 1, tid()), (2, 2, tid(1))):
            got = server.json('GET', path('title', 'A', rev))
            eq((got.status, got.headers['ETag'], got.body['count']), (200, f'"{want}/{render}"', 1))
            item = got.body['items'][0]
            eq((item['title'], item['rev'], item['tid'], item['timestamp']), ('A', want, render, instant(want - 1)))
            eq(set(item), {'title', 'page_id', 'rev', 'tid', 'namespace', 'user_id', 'user_text', 'timestamp', 'comment',
                           'tags', 'restrictions', 'page_language', 'redirect', 'page_deleted'})


@scene
def explain_follows_a_render_to_its_end(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        eq(explain(server, 'A', 1, tid())['state'], 'current')
        put(server, 'A', 2, b'two', tid(1))
        item = explain(server, 'A', 1)
        eq((item['title'], item['rev'], item['tid'], item['state'], item['policy'], item['due_at']),
           ('A', 1, tid(), 'recent', 'app_ttl', instant(86400)))
        server.clock(advance='23h')
        eq(server.request('GET', path('html', 'A', 1)).status, 200)
        server.clock(advance='2h')
        item = explain(server, 'A', 1)
        eq((item['state'], item['holds']), ('historical', [{'kind': 'request', 'until': instant(23 * 3600 + 108000)}]))
        server.clock(advance='40h')
        item = explain(server, 'A', 1)
        eq((item['state'], item['at'], item['superseded_at'], item['superseded_by'], item['holds']),
           ('culled', instant(23 * 3600 + 108000), instant(), {'rev': 2, 'tid': tid(1)}, []))
        server.clock(advance='31d')       # ledger_ttl over: no trace is left
        eq(explain(server, 'A', 1, tid())['state'], 'unknown')
        problem(server.request('GET', path('html', 'A', 1, tid())), 404, 'not_found')


main()
