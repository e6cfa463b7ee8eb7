"""Goal: GET of renders as docs/api.md, 2, says: selection, conditions, codings, ranges, header fields, and that a
ready answer never hides a change. Method: a server on a frozen clock, asked over the wire."""
import gzip
import threading

from harness import check, eq, main, scene
from page_help import get, http_date, instant, page_server, path, problem, put, tid
from several import one_server
from shared_store import differs

TEXT = b'<p>' + b'the quick brown fox jumps over the lazy dog ' * 200


@scene
def latest_revision_and_exact_render_are_found(binary):
    with page_server(binary) as server:
        server.clock(advance='60s')
        for rev in (1, 2):
            for n in (0, 1):
                put(server, 'A', rev, f'{rev}.{n}'.encode(), tid(rev * 10 + n))
        eq(get(server, 'A').body, b'2.1')
        eq(get(server, 'A', 1).body, b'1.1')
        eq(get(server, 'A', 1, tid(10)).body, b'1.0')
        eq(get(server, 'A', 2, tid(20)).headers['ETag'], f'"2/{tid(20)}"')
        problem(server.request('GET', path('html', 'A', 3)), 404, 'not_found')
        problem(server.request('GET', path('html', 'A', 1, tid(20))), 404, 'not_found')
        problem(server.request('GET', path('html', 'B')), 404, 'not_found')
        problem(server.request('GET', path('nope', 'A')), 404, 'not_found#content')
        problem(server.request('GET', path('html', 'A', 1, 'x')), 400, 'bad_request#invalid_tid')


@scene
def no_accept_encoding_means_identity_with_a_strong_tag(binary):
    with page_server(binary) as server:
        tag = f'"1/{put(server, "A", 1, TEXT)["tid"]}"'
        for accept in (None, 'identity', 'br', 'gzip;q=0', ''):
            got = get(server, 'A', headers=None if accept is None else {'Accept-Encoding': accept})
            eq((got.body == TEXT, got.headers['Content-Encoding'], got.headers['ETag']), (True, None, tag), f'{accept}')
            eq(got.headers['Content-Length'], str(len(TEXT)))
            eq(got.headers['Accept-Ranges'], 'bytes')


@scene
def gzip_is_sent_as_stored_with_a_weak_tag(binary):
    with page_server(binary) as server:
        tag = f'1/{put(server, "A", 1, TEXT)["tid"]}'
        for accept in ('gzip', 'gzip, deflate, br, zstd', 'GZIP;q=1.0', '*', 'identity;q=0.5, gzip', 'x-gzip;q=0, gzip'):
            for _ in range(4):     # built, then ready
                got = get(server, 'A', headers={'Accept-Encoding': accept})
                eq((got.headers['Content-Encoding'], got.headers['ETag']), ('gzip', f'W/"{tag}"'), accept)
                check('Accept-Encoding' in got.headers['Vary'], got.headers['Vary'])
                eq(gzip.decompress(got.body), TEXT)
        eq(get(server, 'A').body, TEXT)
        preferred = get(server, 'A', headers={'Accept-Encoding': 'gzip;q=0.1, identity;q=0.9'})
        eq(preferred.headers['Content-Encoding'], None)
        put(server, 'Z', 1, b'')
        eq(get(server, 'Z', headers={'Accept-Encoding': 'gzip'}).headers['Content-Encoding'], None)
        problem(server.request('GET', path('html', 'Z'), {'Accept-Encoding': 'identity;q=0, br'}), 406, 'not_acceptable')


@scene
def if_none_match_gets_304_by_weak_comparison(binary):
    with page_server(binary) as server:
        tag = f'1/{put(server, "A", 1, TEXT)["tid"]}'
        for match in (f'"{tag}"', f'W/"{tag}"', '*', f'"x", W/"{tag}"', f'"a","{tag}"'):
            for accept in ({}, {'Accept-Encoding': 'gzip'}):
                for method in ('GET', 'HEAD'):
                    for where in (path('html', 'A'), path('html', 'A', 1)):
                        got = server.request(method, where, {'If-None-Match': match, **accept})
                        eq((got.status, got.body), (304, b''), f'{match} {accept}')
                        eq(got.headers['ETag'], ('W/' if accept else '') + f'"{tag}"')
                        check(got.headers['Vary'] is not None and got.headers['Cache-Control'] is not None, 'their fields')
                        eq(got.headers['Content-Encoding'], None)
            for _ in range(2):
                get(server, 'A', headers=accept)    # from here on ready
        for match in ('"1/x"', 'W/"x"', tag, '""'):
            eq(get(server, 'A', headers={'If-None-Match': match}).body, TEXT)


@scene
def a_304_tells_the_size_of_the_200(binary):
    with page_server(binary) as server:
        tag = f'"1/{put(server, "A", 1, TEXT)["tid"]}"'
        for accept in ('identity', 'gzip'):
            size = get(server, 'A', headers={'Accept-Encoding': accept}).headers['Content-Length']
            for _ in range(4):    # from the store, then from what is ready
                for method in ('GET', 'HEAD'):
                    got = server.request(method, path('html', 'A'), {'Accept-Encoding': accept, 'If-None-Match': tag})
                    eq((got.status, got.body, got.headers['Content-Length']), (304, b'', size), f'{method} {accept}')
                eq(get(server, 'A', headers={'Accept-Encoding': accept}).headers['Content-Length'], size)


def hot_hits(server):
    text = server.request('GET', '/metrics').body.decode()
    return int(float(text.split('\npalimpsest_hot_hits_total ')[1].split()[0]))


@scene
@one_server('no answers are kept ready')
def who_only_revalidates_or_names_its_requests_is_answered_from_what_is_ready(binary):
    with page_server(binary) as server:
        tag = f'"1/{put(server, "A", 1, TEXT)["tid"]}"'
        size = str(len(TEXT))
        for headers, status in (({'If-None-Match': tag}, 304), ({'X-Request-Id': 'mine'}, 200), ({'If-None-Match': '"1/x"'}, 200),
                                ({'If-None-Match': tag, 'X-Request-Id': 'mine', 'Accept-Encoding': 'gzip'}, 304)):
            first, before = None, hot_hits(server)
            for i in range(5):
                got = server.request('GET', path('html', 'A'), headers)
                fields = {k.lower(): v for k, v in got.headers.items() if k.lower() not in ('date', 'x-request-id')}
                eq((got.status, got.body), (status, TEXT if status == 200 else b''), f'{headers} {i}')
                eq(fields, first or fields)
                first = fields
                check('X-Request-Id' not in headers or got.headers['X-Request-Id'] == 'mine', got.headers['X-Request-Id'])
            check(hot_hits(server) - before >= 3, f'{headers}: {hot_hits(server) - before} of 5 were ready')
        eq(get(server, 'A').headers['Content-Length'], size)
        tag = f'"2/{put(server, "A", 2, b"new")["tid"]}"'
        eq((get(server, 'A').body, server.request('GET', path('html', 'A'), {'If-None-Match': tag}).status), (b'new', 304))


@scene
def a_new_render_is_seen_by_conditional_and_plain_reads_at_once(binary):
    with page_server(binary) as server:
        for i in range(30):
            tag = f'"{i + 1}/{put(server, "A", i + 1, b"%d" % i)["tid"]}"'
            for _ in range(3):
                eq(get(server, 'A').body, b'%d' % i)
                eq(server.request('GET', path('html', 'A'), {'If-None-Match': tag}).status, 304)
            check(i == 0 or server.request('GET', path('html', 'A'), {'If-None-Match': before}).status == 200, 'a stale 304')
            before = tag
        eq(server.request('DELETE', path('all', 'A')).status, 204)
        problem(server.request('GET', path('html', 'A')), 410, 'purged')


@scene
def what_one_client_was_told_no_other_sees_older(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'1')
        told, wrong, over = [1], [], threading.Event()

        def read():
            while not over.is_set():
                least = told[0]
                got = int(get(server, 'A').body)
                if got < least:
                    wrong.append((least, got))

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        try:
            for rev in range(2, 200):
                put(server, 'A', rev, b'%d' % rev)
                told[0] = rev
        finally:
            over.set()
            for reader in readers:
                reader.join()
        eq(wrong, [])


@scene
def an_editor_finds_the_data_of_what_it_read_whatever_comes_between(binary):
    """The storage design's race: VisualEditor reads html, the page changes twice, and then it asks for that render's data."""
    with page_server(binary) as server:
        def store(rev):
            bundle = {'html': {'body': f'{rev}'}, 'data-parsoid': {'body': {'rev': rev}}}
            eq(server.request('PUT', path('all', 'A', 1 + rev // 3), None, bundle).status, 201)

        store(0)
        wrong, read, over = [], [0], threading.Event()

        def edit():
            while not over.is_set():
                got = get(server, 'A')
                rev, render = got.headers['ETag'].strip('"').split('/')
                data = server.request('GET', path('data-parsoid', 'A', rev, render))
                read[0] += 1
                if (data.status, data.body) != (200, b'{"rev": %s}' % got.body):
                    wrong.append((got.body, data.status, data.body))

        editors = [threading.Thread(target=edit) for _ in range(4)]
        for editor in editors:
            editor.start()
        try:
            for rev in range(1, 150):
                store(rev)
        finally:
            over.set()
            for editor in editors:
                editor.join()
        eq(wrong, [])
        check(read[0] > 20, f'{read[0]} reads')


@scene
def if_match_and_if_unmodified_since_give_412(binary):
    with page_server(binary) as server:
        tag = f'"1/{put(server, "A", 1, TEXT, tid(100))["tid"]}"' if server.clock(advance='200s') else None
        eq(get(server, 'A', headers={'If-Match': tag}).body, TEXT)
        eq(get(server, 'A', headers={'If-Match': '*'}).status, 200)
        for match in ('"1/x"', 'W/' + tag):
            problem(server.request('GET', path('html', 'A'), {'If-Match': match}), 412, 'precondition_failed')
        for since, status in ((http_date(99), 412), (http_date(100), 200), (http_date(101), 200), ('nonsense', 200)):
            eq(server.request('GET', path('html', 'A'), {'If-Unmodified-Since': since}).status, status, since)
        last = 'Fri, 11 Apr 2262 23:47:16 GMT'    # the last whole second there is
        eq(server.request('GET', path('html', 'A'), {'If-Unmodified-Since': last}).status, 200)
        # with no-cache it is the peer's: only a strictly older render, and no date at all refuses
        for since, status in ((http_date(99), 412), (http_date(100), 412), (http_date(101), 200), ('nonsense', 412)):
            got = server.request('GET', path('html', 'A'), {'If-Unmodified-Since': since, 'Cache-Control': 'no-cache'})
            eq(got.status, status, f'no-cache {since}')
        eq(get(server, 'A', headers={'Cache-Control': 'no-cache'}).body, TEXT)
        eq(server.request('PUT', path('html', 'A', 2), {'If-Unmodified-Since': last}, b'two').status, 201)


@scene
def ranges_are_of_identity_only(binary):
    with page_server(binary) as server:
        tag = f'"1/{put(server, "A", 1, b"0123456789" * 100)["tid"]}"'
        for value, body, where in (('bytes=0-9', b'0123456789', '0-9'), ('bytes=995-', b'56789', '995-999'),
                                   ('bytes=-3', b'789', '997-999'), ('bytes=990-5000', b'0123456789', '990-999')):
            got = get(server, 'A', status=206, headers={'Range': value})
            eq((got.body, got.headers['Content-Range']), (body, f'bytes {where}/1000'))
            eq((got.headers['Content-Length'], got.headers['ETag']), (str(len(body)), tag))
        for value in ('bytes=0-1,3-4', 'lines=1-2', 'bytes=x', 'bytes=5-1'):
            eq(len(get(server, 'A', headers={'Range': value}).body), 1000, value)
        refused = server.request('GET', path('html', 'A'), {'Range': 'bytes=1000-'})
        problem(refused, 416, 'range_not_satisfiable')
        eq(refused.headers['Content-Range'], 'bytes */1000')
        whole = get(server, 'A', headers={'Range': 'bytes=0-9', 'Accept-Encoding': 'gzip'})
        eq(whole.headers['Content-Encoding'], 'gzip')
        eq(len(gzip.decompress(whole.body)), 1000)
        eq(get(server, 'A', status=206, headers={'Range': 'bytes=0-0', 'If-Range': tag}).body, b'0')
        for other in ('"1/x"', 'W/' + tag, http_date(0)):
            eq(len(get(server, 'A', headers={'Range': 'bytes=0-0', 'If-Range': other}).body), 1000, other)
        head = server.request('HEAD', path('html', 'A'), {'Range': 'bytes=0-9'})
        eq((head.status, head.headers['Content-Length']), (200, '1000'))


@scene
def head_is_get_without_the_body(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, TEXT)
        for headers in ({}, {'Accept-Encoding': 'gzip'}, {'X-Request-Id': 'me'}):
            for where in (path('html', 'A'), path('html', 'A', 1), path('html', 'B'), path('history', 'A'), '/metrics'):
                one, other = server.request('HEAD', where, headers), server.request('GET', where, headers)
                eq((one.status, one.body), (other.status, b''), where)
                if where != '/metrics':
                    drop = ('date', 'x-request-id')
                    eq({k.lower(): v for k, v in one.headers.items() if k.lower() not in drop and other.status == 200},
                       {k.lower(): v for k, v in other.headers.items() if k.lower() not in drop and other.status == 200}, where)


@scene
def answers_carry_the_security_and_cache_fields(binary):
    with page_server(binary, '--set', 'page.cache_control=s-maxage=60, max-age=0') as server:
        put(server, 'A', 1, TEXT, headers={'X-Store-Content-Security-Policy': 'x', 'X-Store-X-Mine': 'y', 'Cookie': 'z'})
        for _ in range(3):
            got = get(server, 'A').headers
            eq(got['X-Content-Type-Options'], 'nosniff')
            eq(got['Referrer-Policy'], 'origin-when-cross-origin')
            eq(got['X-Frame-Options'], 'SAMEORIGIN')
            eq(got['Access-Control-Allow-Origin'], '*')
            eq(got['Access-Control-Allow-Methods'], None)  # for preflights alone
            eq(got['Access-Control-Allow-Headers'], None)
            eq(got['Access-Control-Expose-Headers'], 'etag')
            check('style-src' in got['Content-Security-Policy'], got['Content-Security-Policy'])
            eq(got['Cache-Control'], 's-maxage=60, max-age=0')
            eq(got['Cache-Status'], 'palimpsest; hit')
            eq((got['X-Mine'], got['Cookie'], len(got.get_all('Content-Security-Policy'))), ('y', None, 1))
        put(server, 'B', 1, b'{}', headers={'Content-Type': 'application/json'})
        eq(get(server, 'B').headers['Content-Security-Policy'], "default-src 'none'; frame-ancestors 'none'")
        missing = server.request('GET', path('html', 'C')).headers
        eq((missing['X-Content-Type-Options'], missing['Access-Control-Allow-Origin']), ('nosniff', '*'))


@scene
def a_request_id_comes_back(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, TEXT)
        for _ in range(3):
            eq(get(server, 'A', headers={'X-Request-Id': 'mine-1'}).headers['X-Request-Id'], 'mine-1')
        eq(server.request('GET', path('html', 'B'), {'X-Request-Id': 'mine-2'}).headers['X-Request-Id'], 'mine-2')


@scene
def at_gives_what_was_served_then_and_accept_datetime_what_was_current(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        server.clock(advance='100s')
        put(server, 'A', 2, b'two', tid(100))
        server.clock(advance='100s')
        put(server, 'A', 1, b'late render of one', tid(50))
        put(server, 'A', 3, b'three', tid(200))
        third = 200.001 if differs('of two puts of one instant the second is a nanosecond later') else 200
        for at, body in ((0, b'one'), (99.999, b'one'), (100, b'two'), (199.999, b'two'), (third, b'three'), (10**6, b'three')):
            eq(get(server, 'A', query=f'?at={instant(at)}').body, body, f'at {at}')
        problem(server.request('GET', path('html', 'A') + f'?at={instant(-1)}'), 404, 'not_found')
        for at, body in ((150, b'two'), (200, b'three'), (10**6, b'three')):
            got = get(server, 'A', headers={'Accept-Datetime': http_date(at)})
            eq(got.body, body, f'current at {at}')
            rev = {b'two': 2, b'three': 3}[body]
            eq(got.headers['Memento-Datetime'], http_date({2: 100, 3: 200}[rev]))
            eq(got.headers['Content-Location'], path('html', 'A', rev, tid({2: 100, 3: 200}[rev])))
            check('Accept-Datetime' in got.headers['Vary'], got.headers['Vary'])
            eq(got.headers['Link'], f'<{path("html", "A")}>; rel="original timegate"')
        eq(get(server, 'A', 2).headers['Memento-Datetime'], http_date(100))
        eq(get(server, 'A').headers['Memento-Datetime'], None)
        for bad in ('?at=yesterday', '?at=', '?at=2026-13-01T00:00:00Z', '?at=2300-01-01T00:00:00Z', '?at=99999999999'):
            got = server.request('GET', path('html', 'A') + bad)
            problem(got, 400, 'bad_request#invalid_instant')
            check(b'of the years 1678 to 2261' in got.body, f'{bad}: {got.body}')
        problem(server.request('GET', path('html', 'A', 1) + f'?at={instant()}'), 400, 'bad_request#invalid_instant')
        problem(server.request('GET', path('html', 'A'), {'Accept-Datetime': 'x'}), 400, 'bad_request#invalid_datetime')


@scene
def zstd_and_identity_buckets_serve_what_they_store(binary):
    with page_server(binary, '--set', 'buckets.z.kind=page', '--set', 'buckets.z.codec=zstd',
                     '--set', 'buckets.i.kind=page', '--set', 'buckets.i.codec=identity') as server:
        for bucket in ('z', 'i'):
            put(server, 'A', 1, TEXT, bucket=bucket)
        got = get(server, 'A', bucket='z', headers={'Accept-Encoding': 'zstd, gzip'})
        eq(got.headers['Content-Encoding'], 'zstd')
        check(got.headers['ETag'].startswith('W/'), got.headers['ETag'])
        for accept in (None, 'gzip'):
            for bucket in ('z', 'i'):
                got = get(server, 'A', bucket=bucket, headers=None if accept is None else {'Accept-Encoding': accept})
                eq((got.body == TEXT, got.headers['Content-Encoding']), (True, None), f'{bucket} {accept}')


@scene
def a_store_without_room_for_ready_answers_serves_the_same(binary):
    with page_server(binary, '--set', 'hot_bytes=0') as server:
        put(server, 'A', 1, TEXT)
        for _ in range(3):
            eq(get(server, 'A').body, TEXT)
            eq(gzip.decompress(get(server, 'A', headers={'Accept-Encoding': 'gzip'}).body), TEXT)


main()
