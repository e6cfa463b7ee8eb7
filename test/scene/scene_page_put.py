"""Goal: PUT of renders as docs/api.md, 2, says. Method: a server on a frozen clock, asked over the wire."""
import base64
import gzip
import io
import json

from harness import check, eq, main, scene
from page_help import ZSTD_BUCKET, explain, get, history, http_date, instant, page_server, path, problem, put, tid, zstd_of
from shared_store import not_shared


@scene
def put_answers_201_with_etag_and_what_it_stored(binary):
    with page_server(binary) as server:
        render = tid()
        got = server.json('PUT', path('html', 'Main%20Page', 7, render), {'Content-Type': 'text/html; charset=utf-8'}, b'<p>')
        eq(got.status, 201)
        eq(got.headers['ETag'], f'"7/{render}"')
        eq(got.body, {'title': 'Main Page', 'rev': 7, 'tid': render, 'latest': True, 'applied': True})
        back = get(server, 'Main%20Page')
        eq(back.body, b'<p>')
        eq(back.headers['Content-Type'], 'text/html; charset=utf-8')
        eq(back.headers['ETag'], f'"7/{render}"')


@scene
def a_bundle_is_stored_and_read_by_content(binary):
    with page_server(binary) as server:
        raw = bytes(range(256))
        body = {'html': {'headers': {'Content-Type': 'text/html', 'x-mine': 'a', 'Host': 'evil', 'Set-Cookie': 'c'},
                         'body': '<p>caf\u00e9</p>'},
                'data-parsoid': {'headers': {'content-type': 'application/json; profile=x'}, 'body': {'a': [1, 2.50]}}}
        eq(server.request('PUT', path('all', 'A', 1), body=body).status, 201)
        html, data = get(server, 'A'), get(server, 'A', content='data-parsoid')
        eq(html.body, '<p>caf\u00e9</p>'.encode())
        eq(html.headers['X-Mine'], 'a')
        eq((html.headers['Set-Cookie'], html.headers['Host']), (None, None))
        eq(json.loads(data.body), {'a': [1, 2.50]})
        eq(data.headers['Content-Type'], 'application/json; profile=x')
        eq(html.headers['ETag'], data.headers['ETag'])
        body = {'html': {'headers': {'content-type': 'image/png'}, 'body': base64.b64encode(raw).decode(), 'encoding': 'base64'}}
        eq(server.request('PUT', path('all', 'B', 1), body=body).status, 201)
        eq(get(server, 'B').body, raw)
        problem(server.request('GET', path('data-parsoid', 'B')), 404, 'not_found#content')


@scene
def a_value_comes_back_byte_for_byte(binary):
    with page_server(binary) as server:
        value = b'{ "b":1.10 , "a":123456789012345678901234567890,"\\u0061":[ ] }'
        eq(server.request('PUT', path('all', 'A', 1), body=b'{"html":{"body":' + value + b'}}').status, 201)
        eq(get(server, 'A').body, value)


@scene
def the_same_render_again_is_200_and_not_applied(binary):
    with page_server(binary) as server:
        render = tid()
        put(server, 'A', 1, b'one', render)
        again = put(server, 'A', 1, b'one', render, status=200)
        eq((again['applied'], again['tid']), (False, render))


@scene
def other_bytes_or_contents_under_a_stored_tid_are_409(binary):
    with page_server(binary) as server:
        render = tid()
        put(server, 'A', 1, b'one', render)
        headers = {'Content-Type': 'text/html'}
        problem(server.request('PUT', path('html', 'A', 1, render), headers, b'two'), 409, 'conflict')
        problem(server.request('PUT', path('data-parsoid', 'A', 1, render), headers, b'one'), 409, 'conflict')
        problem(server.request('PUT', path('html', 'A', 1, render), {'Content-Type': 'text/plain'}, b'one'), 409, 'conflict')
        eq(get(server, 'A').body, b'one')


@scene
def a_render_like_the_newest_keeps_the_old_tid(binary):
    with page_server(binary) as server:
        first = put(server, 'A', 1, b'<p about="#mwt1">x</p>', tid())
        page = path('html', 'A', 1)
        server.clock(advance='10s')
        for about, render in (('#mwt1', None), ('#mwt2', None), ('#mwt3', tid(5))):
            again = put(server, 'A', 1, f'<p about="{about}">x</p>'.encode(), render, status=200)
            eq((again['applied'], again['tid'], again['latest']), (False, first['tid'], True))
        meta = b'<meta property="mw:TimeUuid" content="%s"/>'
        one = put(server, 'B', 1, meta % tid().encode() + b'<b>')
        eq(put(server, 'B', 1, meta % tid(3).encode() + b'<b>', status=200)['tid'], one['tid'])
        eq(server.request('GET', page).body, b'<p about="#mwt1">x</p>')
        eq(len(history(server, 'A')['items']), 1)


@scene
def a_change_of_headers_alone_is_a_change(binary):
    with page_server(binary) as server:
        spoken = lambda language: {'Content-Type': 'text/html', 'X-Store-Content-Language': language}
        first = put(server, 'A', 1, b'x', headers=spoken('de'))
        eq(put(server, 'A', 1, b'x', headers=spoken('de'), status=200)['tid'], first['tid'])
        second = put(server, 'A', 1, b'x', headers=spoken('en'))
        eq((second['applied'], second['latest']), (True, True))
        eq(get(server, 'A').headers['Content-Language'], 'en')
        eq(get(server, 'A', 1, first['tid']).headers['Content-Language'], 'de')
        put(server, 'A', 1, b'x', first['tid'], headers=spoken('en'), status=409)
        put(server, 'A', 1, b'x', headers={'Content-Type': 'text/html'})
        eq(get(server, 'A').headers['Content-Language'], None)


@scene
def minted_tids_are_unique_and_ascend_on_a_frozen_clock(binary):
    with page_server(binary) as server:
        tids = [put(server, 'A', 1, f'{i}'.encode())['tid'] for i in range(20)]
        eq(len(set(tids)), 20)
        eq([item['tid'] for item in history(server, 'A')['items']], tids[::-1])
        ahead = tid(4)
        put(server, 'A', 1, b'ahead', ahead)
        after = put(server, 'A', 1, b'after')
        eq(after['latest'], True)
        eq(history(server, 'A')['items'][0]['tid'], after['tid'])


@scene
def lower_revisions_and_late_renders_are_superseded_at_arrival(binary):
    with page_server(binary) as server:
        put(server, 'A', 5, b'five', tid())
        server.clock(advance='100s')
        late = put(server, 'A', 3, b'three', tid(1))
        eq((late['latest'], late['applied']), (False, True))
        older = put(server, 'A', 5, b'earlier render', tid(-50))
        eq((older['latest'], older['applied']), (False, True))
        eq(get(server, 'A').body, b'five')
        items = history(server, 'A')['items']
        eq([(i['rev'], i['tid'], i['state']) for i in items],
           [(5, tid(), 'current'), (5, tid(-50), 'recent'), (3, tid(1), 'recent')])
        for item in items[1:]:
            eq(item['superseded_at'], instant(100))
            eq(item['due_at'], instant(100 + 86400))
        eq(items[1]['superseded_by'], {'rev': 5, 'tid': tid()})
        eq(items[2]['superseded_by'], {'rev': 5, 'tid': tid()})    # what was the next greater at its arrival
        eq((items[0]['superseded_at'], items[0]['superseded_by'], items[0]['due_at']), (None, None, None))


@scene
def a_culled_render_may_come_again_with_a_full_grace(binary):
    with page_server(binary) as server:
        put(server, 'A', 1, b'one', tid())
        put(server, 'A', 2, b'two', tid(1))
        server.clock(advance='25h')
        problem(server.request('GET', path('html', 'A', 1)), 410, 'culled')
        again = put(server, 'A', 1, b'one', tid())
        eq(again['latest'], False)
        eq(explain(server, 'A', 1)['due_at'], instant(25 * 3600 + 86400))
        eq(get(server, 'A', 1).body, b'one')


@scene
def tids_are_version_1_and_at_most_5_s_ahead(binary):
    with page_server(binary) as server:
        bad = ['x', tid()[:-1], tid().replace('-', ''), 'c0f4e4d2-1d8b-4c5e-8d6e-0123456789ab', '00000000-0000-1000-0000-000000000000']
        for one in bad:
            problem(server.request('PUT', path('html', 'A', 1, one), None, b'x'), 400, 'bad_request#invalid_tid')
        put(server, 'A', 1, b'x', tid(5))
        eq(server.request('PUT', path('html', 'A', 1, tid(5.0000001)), None, b'y').status, 400)
        put(server, 'A', 1, b'z', tid(-10**6))


@scene
def revisions_are_1_to_2_63_less_1(binary):
    with page_server(binary) as server:
        for bad in ('0', '-1', '+1', '1x', 'x', str(2**63), '99999999999999999999', '1.0', '%31x'):
            problem(server.request('PUT', path('html', 'A', bad), None, b'x'), 400, 'bad_request#invalid_revision')
            problem(server.request('GET', path('html', 'A', bad)), 400, 'bad_request#invalid_revision')
        eq(put(server, 'A', 2**63 - 1, b'x')['rev'], 2**63 - 1)
        eq(get(server, 'A', 2**63 - 1).body, b'x')


@scene
def titles_are_data(binary):
    with page_server(binary) as server:
        titles = {'AC%2FDC': 'AC/DC', 'a%2Fb%2F..%2Fc': 'a/b/../c', '%C3%A9': '\u00e9', 'e%CC%81x': '\u00e9x', 'a%3Fb': 'a?b',
                  'a%2520b': 'a%20b', '%3Cscript%3E': '<script>', '...': '...', 'a%23b': 'a#b', '%22q%22': '"q"', 'x' * 440: 'x' * 440}
        for raw, title in titles.items():
            eq(put(server, raw, 1, raw.encode())['title'], title, raw)
            eq(get(server, raw).body, raw.encode())
        eq(get(server, '%65%CC%81x').body, b'e%CC%81x')     # the same title, written otherwise
        eq(get(server, '%C3%A9x').body, b'e%CC%81x')        # NFC
        for bad in ('.', '..', '%2E', '%2e%2E', '%00', 'a%00b', '%FF', '%C0%AF', '%ED%A0%80', 'x' * 441, '%0A', 'a%7F'):
            answer = server.request('PUT', path('html', bad, 1), None, b'x')
            problem(answer, 400, 'bad_request#invalid_title')
            problem(server.request('GET', path('html', bad)), 400, 'bad_request#invalid_title')


@scene
def reserved_and_odd_content_names_are_refused(binary):
    with page_server(binary) as server:
        for name in ('history', 'HTML', 'a%2Fb', 'x' * 33, '.x'):
            problem(server.request('PUT', path(name, 'A', 1), None, b'x'), 400, 'bad_request#invalid_content')
        for name in ('explain', 'title', 'lint', 'wikitext'):
            eq(server.request('PUT', path(name, 'A', 1), None, b'x').status, 405, name)
        for name in ('all', 'history', 'explain', 'title', 'hold', 'lint', 'wikitext', 'HTML', ''):
            body = {name: {'body': 'x'}}
            problem(server.request('PUT', path('all', 'A', 1), body=body), 400, 'bad_request#invalid_body')
        problem(server.request('GET', path('html', 'A')), 404, 'not_found')


@scene
def bad_bundles_are_400_and_store_nothing(binary):
    with page_server(binary) as server:
        for bad in (b'', b'{', b'[]', b'{}', b'null', b'{"html":"x"}', b'{"html":{}}', b'{"html":{"body":"x"},}',
                    b'{"html":{"body":"x","more":1}}', b'{"html":{"body":"*","encoding":"base64"}}', b'{"html":{"body":"\xff"}}',
                    b'{"html":{"body":"x","headers":{"a":1}}}', b'{"html":{"body":"x"},"html":{"body":"y"}}',
                    b'{"html":{"body":"x","headers":{"content-encoding":"gzip"}}}', b'{"html":{"body":' + b'[' * 5000 + b'}}'):
            problem(server.request('PUT', path('all', 'A', 1), {'Content-Type': 'application/json'}, bad), 400,
                    'bad_request#invalid_body')
        problem(server.request('GET', path('html', 'A')), 404, 'not_found')


def zstd_zeros(count):
    """A frame of zstd by hand: one segment, one block that says a zero again and again (RFC 8878, 3.1.1)."""
    return b'\x28\xb5\x2f\xfd\xa0' + count.to_bytes(4, 'little') + (count << 3 | 3).to_bytes(3, 'little') + b'\0'


@scene
def a_body_in_gzip_or_zstd_is_what_it_holds(binary):
    raw = b'<p>One and the same page.</p>' * 3000
    with page_server(binary, *ZSTD_BUCKET) as server:
        coded = {'gzip': gzip.compress(raw, 9, mtime=99), 'X-GZIP': gzip.compress(raw, 1), 'zstd': zstd_of(server, raw)}
        html = {'Content-Type': 'text/html'}
        for number, (coding, body) in enumerate(coded.items()):
            for bucket in ('page', 'coded'):
                where = f'/localhost/v1/{bucket}/html/A{number}'
                first = server.json('PUT', where + '/1', {**html, 'Content-Encoding': coding}, body)
                eq((first.status, first.body['applied']), (201, True))
                again = server.json('PUT', where + '/1', html, raw)
                eq((again.status, again.body['applied'], again.body['tid']), (200, False, first.body['tid']),
                   'digests are of the raw bytes')
                got = server.request('GET', where)
                eq((got.body, got.headers['content-type'], got.headers['content-encoding']), (raw, 'text/html', None))
                got = server.request('GET', where, {'Accept-Encoding': 'gzip, zstd'})
                eq(got.headers['content-encoding'], 'gzip' if bucket == 'page' else 'zstd')
                if bucket == 'page':
                    eq(gzip.decompress(got.body), raw)
                if coding == 'gzip' and bucket == 'page':
                    eq(got.body, body[:4] + bytes(4) + body[8:], 'stored as it came, but for the time')
                eq(server.json('GET', f'/localhost/v1/{bucket}/history/A{number}').body['items'][0]['bytes'],
                   {'html': len(raw)})
        bundle = json.dumps({'html': {'body': raw.decode()}, 'data-parsoid': {'body': {'counter': 1}}}).encode()
        for coding, body in (('gzip', gzip.compress(bundle)), ('zstd', zstd_of(server, bundle))):
            got = server.request('PUT', path('all', coding, 1), {'Content-Encoding': coding}, body)
            eq(got.status, 201)
            eq(server.request('GET', path('html', coding)).body, raw)
        named = io.BytesIO()
        with gzip.GzipFile('secret-name', 'wb', fileobj=named) as out:
            out.write(raw)
        eq(server.request('PUT', path('html', 'N', 1), {'Content-Encoding': 'gzip'}, named.getvalue()).status, 201)
        check(b'secret-name' not in server.request('GET', path('html', 'N'), {'Accept-Encoding': 'gzip'}).body,
              'a name in the head of gzip is not kept')


@scene
def a_coded_body_that_is_not_one_whole_member_is_refused(binary):
    raw = b'<p>One and the same page.</p>' * 3000
    with page_server(binary, *ZSTD_BUCKET, '--set', 'page.body_bytes_max=100k') as server:
        eq(server.request('PUT', '/localhost/v1/key_value/b').status, 201)
        member, frame = gzip.compress(raw), zstd_of(server, raw)
        broken_sum = member[:-8] + bytes(4) + member[-4:]
        short = member[:-4] + (10).to_bytes(4, 'little')
        wide = frame[:4] + b'\x00\xff' + frame[6:]            # a window of 3.75 TiB, and no size
        bad = [('gzip', body) for body in (b'', b'x', raw, member[:-1], member + b'x', member * 2, broken_sum, short, frame)]
        bad += [('zstd', body) for body in (b'', b'x', raw, frame[:-1], frame + b'x', frame * 2, wide, member)]
        where = (path('html', 'A', 1), path('all', 'A', 1), '/localhost/v1/key_value/b/k')
        for coding, body in bad:
            for target in where:
                got = server.request('PUT', target, {'Content-Encoding': coding}, body)
                problem(got, 400, 'bad_request#invalid_coding')
        for coding in ('br', 'deflate', 'gzip, gzip', 'compress'):
            for target in where:
                got = server.request('PUT', target, {'Content-Encoding': coding}, member)
                problem(got, 415, 'unsupported_coding')
                eq(got.headers['accept-encoding'], 'gzip, zstd')
        for target in where[:2]:
            for coding, body in (('gzip', gzip.compress(bytes(102401))), ('gzip', gzip.compress(bytes(60 << 20))),
                                 ('zstd', zstd_zeros(102401))):
                got = server.request('PUT', target, {'Content-Encoding': coding}, body)
                problem(got, 413, 'content_too_large')
        got = server.request('PUT', path('html', 'Zeros', 1), {'Content-Encoding': 'zstd'}, zstd_zeros(102400))
        eq(got.status, 201)
        got = server.request('PUT', where[2], {'Content-Encoding': 'gzip'}, gzip.compress(bytes((8 << 20) + 1)))
        problem(got, 413, 'content_too_large')
        problem(server.request('GET', path('html', 'A')), 404, 'not_found')
        problem(server.request('GET', where[2]), 404, 'not_found')


@scene
def a_body_over_the_limit_is_413(binary):
    with page_server(binary, '--set', 'page.body_bytes_max=64k') as server:
        put(server, 'A', 1, b'x' * 65536)
        answer = server.request('PUT', path('html', 'A', 2), None, b'x' * 65537)
        problem(answer, 413, 'content_too_large')
        for size in (65537, 4 << 20):    # of a length nobody told: not kept beyond the limit, read to its end
            chunks = b''.join(b'8000\r\n' + b'x' * 32768 + b'\r\n' for _ in range(size >> 15)) + b'1\r\nx\r\n0\r\n\r\n'
            got = server.raw(f'PUT {path("html", "A", 2)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n'
                             'Transfer-Encoding: chunked\r\n\r\n'.encode() + chunks)
            check(b' 413 ' in got.split(b'\r\n')[0] and b'page.body_bytes_max' in got, got[-300:])
        eq(get(server, 'A').headers['ETag'].split('/')[0], '"1')


@scene
def conditions_on_a_put_are_judged_by_the_latest(binary):
    with page_server(binary) as server:
        problem(server.request('PUT', path('html', 'A', 1), {'If-Match': '*'}, b'x'), 412, 'precondition_failed')
        first = put(server, 'A', 1, b'one', tid(), headers={'If-None-Match': '*'})
        problem(server.request('PUT', path('html', 'A', 2), {'If-None-Match': '*'}, b'x'), 412, 'precondition_failed')
        tag = f'"1/{first["tid"]}"'
        put(server, 'A', 2, b'two', tid(1), headers={'If-Match': tag})
        problem(server.request('PUT', path('html', 'A', 3), {'If-Match': tag}, b'x'), 412, 'precondition_failed')
        put(server, 'A', 3, b'three', tid(2), headers={'If-Match': f'"9/x", "2/{tid(1)}"'})
        put(server, 'A', 4, b'four', tid(3), headers={'If-Match': '*'})
        answer = server.request('PUT', path('html', 'A', 5), {'If-Unmodified-Since': http_date(-60)}, b'x')
        problem(answer, 412, 'precondition_failed')
        put(server, 'A', 5, b'five', tid(4), headers={'If-Unmodified-Since': http_date(60)})
        eq(get(server, 'A').body, b'five')


@scene
@not_shared('latest_hash keeps nothing that is superseded: a store of many servers refuses such a policy')
def other_buckets_take_the_same_routes(binary):
    with page_server(binary, '--set', 'buckets.mobile.kind=page', '--set', 'buckets.mobile.policy=latest_hash',
                     '--set', 'buckets.mobile.contents=lead,remaining') as server:
        body = {'lead': {'body': 'L'}, 'remaining': {'body': 'R'}}
        eq(server.request('PUT', path('all', 'A', 1, tid(), 'mobile'), body=body).status, 201)
        eq(get(server, 'A', bucket='mobile', content='lead').body, b'L')
        problem(server.request('GET', path('html', 'A')), 404, 'not_found')
        eq(server.request('PUT', path('html', 'A', 1, bucket='mobile'), None, b'x').status, 400)
        put(server, 'A', 2, b'L2', tid(1), bucket='mobile', content='lead')
        problem(server.request('GET', path('lead', 'A', 1, bucket='mobile')), 410, 'culled', policy='latest_hash')
        # what latest_hash cannot keep at all
        got = server.request('PUT', path('lead', 'A', 1, tid(2), 'mobile'), None, b'late')
        problem(got, 410, 'expired')
        eq(get(server, 'A', bucket='mobile', content='lead').body, b'L2')
        problem(server.request('GET', path('html', 'A', bucket='nope')), 404, 'unknown_bucket')
        problem(server.request('PUT', path('html', 'A', 1, bucket='nope'), None, b'x'), 404, 'unknown_bucket')


@scene
def contents_of_all_sizes_come_back(binary):
    with page_server(binary) as server:
        for size in (0, 1, 100, 511, 512, 513, 1024, 20000, 300000, 4 << 20):
            body = bytes((i * 7 + i // 251) % 256 for i in range(min(size, 5000))) * (size // 5000 + 1)
            put(server, f'S{size}', 1, body[:size])
            eq(get(server, f'S{size}').body, body[:size], f'{size}')
        check(True, 'all came back')


main()
