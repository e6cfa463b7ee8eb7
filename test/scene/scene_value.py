"""Goal: key_value, key_rev_value and multi_content answer RESTBase's clients as RESTBase did, without its defects.
Method: the requests its clients send, against a real server with a frozen clock."""
import concurrent.futures
import gzip
import pathlib
import re

from harness import check, eq, main, scene
from page_help import http_date, page_server, problem, tid
from shared_store import not_shared

KV = '/localhost/v1/key_value'
KRV = '/localhost/v1/key_rev_value'
MULTI = '/localhost/v1/multi_content'
LISTED = ('--set', 'value.listing=true')


def create(server, target, body=None):
    got = server.json('PUT', target, body=body)
    eq((got.status, got.body['type']), (201, 'table_created'))


@scene
def key_value_keeps_what_the_writer_named(binary):
    with page_server(binary) as server:
        problem(server.request('GET', KV + '/b/k'), 404, 'unknown_bucket')
        problem(server.request('PUT', KV + '/b/k', body=b'x'), 404, 'unknown_bucket')
        for dots in ('%2E', '%2E%2E'):
            problem(server.request('PUT', f'{KV}/{dots}'), 404, 'unknown_bucket')
        create(server, KV + '/b')
        create(server, KV + '/b')
        problem(server.request('GET', KV + '/b/k'), 404, 'not_found')
        etag = f'"7/{tid()}"'
        got = server.request('PUT', KV + '/b/k', {
            'Content-Type': 'text/plain', 'x-store-content-type': 'text/html', 'X-Store-Etag': etag,
            'x-store-x-mine': 'yes',
            'x-other': 'no', 'Cookie': 'c=1', 'x-store-set-cookie': 'evil=1', 'x-client-ip': '10.0.0.1'}, b'<p>')
        eq((got.status, got.body), (201, b''))
        for attempt in range(2):
            got = server.request('GET', KV + '/b/k')
            eq((got.status, got.body, got.headers['content-type'], got.headers['etag'], got.headers['x-mine']),
               (200, b'<p>', 'text/html', etag, 'yes'))
            for name in ('x-other', 'cookie', 'set-cookie', 'x-client-ip', 'x-store-etag'):
                check(name not in got.headers, f'{name} is not replayed')
            server.kill9()
            server.start()
        got = server.request('GET', KV + '/b/k', {'If-None-Match': etag})
        eq((got.status, got.body, got.headers['etag']), (304, b'', etag))
        got = server.request('HEAD', KV + '/b/k')
        eq((got.status, got.body, got.headers['content-length']), (200, b'', '3'))
        eq(server.request('PUT', KV + '/b/k', {'Content-Type': 'text/plain'}, b'two').status, 201)
        got = server.request('GET', KV + '/b/k')
        eq((got.body, got.headers['content-type'], got.headers['etag']), (b'two', 'text/plain', None))
        eq(server.request('GET', KV + '/b/k', {'If-None-Match': '*'}).status, 304, 'it is there, though it has no tag')


@scene
def a_key_that_is_no_text_is_refused(binary):
    with page_server(binary, *LISTED) as server:
        for family in (KV, KRV):
            create(server, f'{family}/b')
            target = f'{family}/b/%ff%fe' + ('/1' if family == KRV else '')
            problem(server.request('PUT', target, body=b'x'), 400, 'bad_request')
            problem(server.request('GET', target), 404, 'not_found')
            eq(server.json('GET', f'{family}/b/').body['items'], [])
            eq(server.request('PUT', target.replace('%ff%fe', '%c3%a4'), body=b'x').status, 201)
            eq(server.json('GET', f'{family}/b/').body['items'], ['ä'])


def documented(start, end):
    """The names in backquotes between two phrases of the API's document."""
    text = (pathlib.Path(__file__).parents[2] / 'docs/api.md').read_text()
    text = text[text.index(start):]
    return re.findall(r'`([^`]+)`', text[len(start):text.index(end)])


# Names that were found replayed, or were listed one by one: those that words stand for now stay out, too.
KNOWN = """
    accept accept-datetime accept-x access-control-x activate-storage-access age akamai-x allow alt-svc
    api-user-agent attribution-reporting-register-source attribution-reporting-register-trigger authorization
    available-dictionary cache-control cache-group-invalidation cache-groups cache-status cache-tag cdn-loop
    cdn-tag cf-x clear-site-data cloudflare-x connection content-digest content-encoding content-length
    content-location content-md5 content-range content-security-policy content-security-policy-report-only
    cookie critical-ch cross-origin-x date dictionary-id digest dnt document-isolation-policy document-policy
    document-policy-report-only edge-x etag expect expect-ct expires fastly-x feature-policy forwarded from
    host if-x integrity-policy integrity-policy-report-only keep-alive last-modified link location
    max-forwards memento-datetime nel netlify-x no-vary-search observe-browsing-topics origin
    origin-agent-cluster origin-trial permissions-policy permissions-policy-report-only pragma priority
    proxy-x public-key-pins range referer referrer-policy refresh report-to reporting-endpoints repr-digest
    require-document-policy retry-after sec-x secure-session-registration server service-worker-x set-cookie
    set-cookie2 set-login shared-storage-write signature signature-input sourcemap speculation-rules status
    strict-transport-security supports-loading-mode surrogate-x te timing-allow-origin tk trailer
    transfer-encoding unencoded-digest upgrade use-as-dictionary user-agent vary vercel-x via
    want-content-digest want-digest want-repr-digest want-unencoded-digest warning www-authenticate x-accel-x
    x-akamai-x x-archive-files x-cache x-cascade x-client-ip x-content-security-policy x-content-type-options
    x-dns-prefetch-control x-esi x-forwarded-x x-frame-options x-http-method-override x-lighttpd-x
    x-litespeed-x x-permitted-cross-domain-policies x-real-ip x-reproxy-x x-request-x x-restbase-cache
    x-sendfile x-sendfile2 x-sourcemap x-store-x x-ua-compatible x-varnish-x x-vercel-x x-webkit-csp
    x-xss-protection xkey
""".split()


def never_kept():
    words = documented('- Never kept, in any letter case, by a word', '- Never kept, as a whole name:')
    names = documented('- Never kept, as a whole name:', '- Never kept, by the beginning')
    names += [name.replace('*', 'any') for name in
              documented('- Never kept, by the beginning of the name:', '- Only `key_value`')]
    names += [name for word in words for name in (word, f'x-{word}-any', f'any-{word}')]
    return sorted({*names, *KNOWN})


@scene
def what_the_document_lists_is_never_kept(binary):
    """RFC 9213: a cache in between obeys CDN-Cache-Control before the server's own `private`."""
    replayed = ['content-location', 'last-modified', 'location', 'vary']
    names = [name for name in never_kept() if name not in ('content-encoding', 'etag')]   # these say something
    check(len(names) > 300, f'{len(names)} names in docs/api.md')
    with page_server(binary) as server:
        create(server, KV + '/b')
        create(server, KRV + '/b')
        for at in range(0, len(names), 50):
            given = {f'x-store-{name}'.title(): '/evil' for name in names[at:at + 50]}
            for put in (KV + '/b/k', '/localhost/v1/page/html/A/1'):
                mine = {'x-store-x-mine': str(at), 'Content-Type': 'text/html'}
                got = server.request('PUT', put, {**given, **mine}, b'x%d' % at)
                eq(got.status, 201)
                where = put if put.startswith(KV) else '/localhost/v1/page/html/A/1'
                got = server.request('GET', where).headers
                eq(got['x-mine'], str(at))
                kept = [name for name in names[at:at + 50] if got[name] is not None and '/evil' in got[name]]
                eq(sorted(kept), sorted(set(names[at:at + 50]) & set(replayed)) if put.startswith(KV) else [])
        mine = {name: 'yes' for name in ('a', 'b', 'x-foo', 'content-language', 'content-disposition', 'x-robots-tag',
                                         'x-resource-location', 'x-cached-by-me', 'my-policyholder')}
        eq(server.request('PUT', KRV + '/b/mine/1', mine, b'x').status, 201)
        got = server.request('GET', KRV + '/b/mine/1').headers
        eq({name: got[name] for name in mine}, mine, 'other names are kept, known or not')
        given = {'CDN-Cache-Control': 'public', 'Expires': 'x', 'Age': '7', 'x-mine': 'yes'}
        eq(server.request('PUT', KRV + '/b/k/1', given, b'x').status, 201)
        got = server.request('GET', KRV + '/b/k/1').headers
        eq((got['x-mine'], got['cdn-cache-control'], got['expires'], got['age']), ('yes', None, None, None))


@scene
def key_value_replays_vary_and_where_a_value_belongs(binary):
    """RESTBase's own front end stores x-store-vary with every mobile-html: without it a cache would mix variants."""
    fields = {'content-location': 'https://wiki.test/api/rest_v1/page/html/A', 'location': '../B',
              'last-modified': http_date(-100), 'vary': 'Accept-Language'}
    never = {'cache-control': 'public, max-age=9', 'expires': http_date(9), 'age': '3', 'retry-after': '7'}
    given = {f'x-store-{name}': value for name, value in {**fields, **never}.items()}
    with page_server(binary) as server:
        create(server, KV + '/b')
        eq(server.request('PUT', KV + '/b/k', given, b'x').status, 201)
        got = server.request('GET', KV + '/b/k').headers
        eq({name: got[name] for name in fields}, fields)
        eq([got[name] for name in ('expires', 'age', 'retry-after')], [None] * 3)
        eq(got['cache-control'], 'no-store', 'the Cache-Control is the server\'s')
        coded = {'x-store-vary': 'Accept-Language', 'Content-Encoding': 'gzip'}
        eq(server.request('PUT', KV + '/b/g', coded, gzip.compress(b'x')).status, 201)
        got = server.request('GET', KV + '/b/g', {'Accept-Encoding': 'gzip'})
        eq(got.headers.get_all('vary'), ['Accept-Language, Accept-Encoding'])
        coded['x-store-vary'] = 'accept-encoding, Accept-Language'
        eq(server.request('PUT', KV + '/b/g', coded, gzip.compress(b'x')).status, 201)
        eq(server.request('GET', KV + '/b/g').headers.get_all('vary'), ['accept-encoding, Accept-Language'])


@scene
def key_value_conditions_are_the_peers(binary):
    with page_server(binary) as server:
        create(server, KV + '/b')
        etag = f'"7/{tid(10)}"'
        kept = {'x-store-etag': etag, 'x-store-content-type': 'text/html'}
        eq(server.request('PUT', KV + '/b/k', kept, b'v').status, 201)
        problem(server.request('GET', KV + '/b/k', {'Cache-Control': 'no-cache'}), 404, 'not_found')
        ask = lambda date: server.request('GET', KV + '/b/k',
                                          {'Cache-Control': 'no-cache', 'If-Unmodified-Since': date})
        eq(ask(http_date(11)).status, 200)
        problem(ask(http_date(10)), 412, 'precondition_failed')
        problem(ask(http_date(-5)), 412, 'precondition_failed')
        problem(ask('yesterday'), 412, 'precondition_failed')
        eq(server.request('PUT', KV + '/b/k', {'Cache-Control': 'no-store'}, b'w').status, 202)
        same = {'If-None-Hash-Match': '*', 'x-store-content-type': 'text/html', 'x-store-etag': f'"8/{tid(20)}"'}
        got = server.request('PUT', KV + '/b/k', same, b'v')
        problem(got, 412, 'precondition_failed')
        eq(got.headers['etag'], etag)
        eq(server.request('PUT', KV + '/b/k', {**same, 'x-store-content-type': 'text/plain'}, b'v').status, 201)
        eq(server.request('PUT', KV + '/b/k', {**same, 'x-store-content-type': 'text/plain'}, b'v').status, 412)
        plain = {'If-None-Hash-Match': '*', 'Content-Type': 'text/css'}
        eq(server.request('PUT', KV + '/b/k', plain, b'v').status, 201, 'another plain type is another value')
        eq(server.request('GET', KV + '/b/k').headers['content-type'], 'text/css')
        eq(server.request('PUT', KV + '/b/k', same, b'w').status, 201)
        got = server.request('GET', KV + '/b/k')
        eq((got.body, got.headers['etag']), (b'w', same['x-store-etag']))


@scene
def a_put_of_a_value_obeys_its_conditions(binary):
    """RFC 9110 13.1.1 and 13.1.2: who asks for a condition is not to overwrite what another stored."""
    with page_server(binary) as server:
        create(server, KV + '/b')
        def put(key, fields, etag='"1"', body=b'x'):
            return server.request('PUT', f'{KV}/b/{key}', {'x-store-etag': etag, **fields}, body)
        for fields in ({'If-Match': '"1"'}, {'If-Match': '*'}):
            problem(put('k', fields), 412, 'precondition_failed')
        problem(server.request('GET', KV + '/b/k'), 404, 'not_found')
        eq(put('k', {'If-None-Match': '*'}).status, 201)
        for fields in ({'If-None-Match': '*'}, {'If-None-Match': '"1"'}, {'If-None-Match': 'W/"1"'}, {'If-Match': '"2"'},
                       {'If-Match': 'W/"1"'}, {'If-Match': '"1"', 'If-None-Match': '*'},
                       {'If-Match': '"1"', 'If-None-Hash-Match': '*'}):
            problem(put('k', fields, '"new"'), 412, 'precondition_failed')
        eq(server.request('GET', KV + '/b/k').headers['etag'], '"1"')
        eq(put('k', {'If-Match': '"0", "1"'}, 'W/"2"').status, 201)
        problem(put('k', {'If-Match': 'W/"2"'}), 412, 'precondition_failed')
        problem(put('k', {'If-Match': '"2"'}), 412, 'precondition_failed')
        problem(put('k', {'If-None-Match': '"2"'}), 412, 'precondition_failed')
        eq(put('k', {'If-None-Match': '"1"'}, '').status, 201)
        problem(put('k', {'If-Match': '""'}), 412, 'precondition_failed')
        eq(put('k', {}, '"odd').status, 201)     # without its second quote it is no tag of any field
        problem(put('k', {'If-Match': '"od"'}), 412, 'precondition_failed')
        eq(put('k', {'If-Match': '*', 'If-None-Hash-Match': '*'}, '"3"', b'y').status, 201)
        def put_first(number):
            return put('first', {'If-None-Match': '*'}, f'"{number}"').status
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            eq(sorted(pool.map(put_first, range(16))), [201] + [412] * 15)


@scene
def a_delete_of_a_value_obeys_its_conditions(binary):
    with page_server(binary) as server:
        create(server, KV + '/b')
        def delete(fields, key='k'):
            return server.request('DELETE', f'{KV}/b/{key}', fields)
        for size in (4, 200000):                # beside the row, and in the log
            problem(delete({'If-Match': '*'}), 412, 'precondition_failed')
            eq(delete({'If-None-Match': '*'}).status, 204, 'nothing is there')
            eq(server.request('PUT', KV + '/b/k', {'x-store-etag': '"1"'}, b'x' * size).status, 201)
            for fields in ({'If-Match': '"2"'}, {'If-Match': 'W/"1"'}, {'If-None-Match': '"1"'}, {'If-None-Match': '*'},
                           {'If-Match': '"1"', 'If-None-Match': '"1"'}):
                problem(delete(fields), 412, 'precondition_failed')
            eq(server.request('GET', KV + '/b/k').status, 200)
            eq(delete({'If-Match': '"0", "1"'}).status, 204)
            eq(server.request('GET', KV + '/b/k').status, 404)
        problem(server.request('DELETE', KV + '/none/k', {'If-Match': '*'}), 404, 'unknown_bucket')
        def race(number):
            if number % 2:
                return 'put', server.request('PUT', KV + '/b/race', {'If-Match': '"1"', 'x-store-etag': '"2"'}, b'x').status
            return 'delete', delete({'If-Match': '"1"'}, 'race').status
        for _ in range(10):
            eq(server.request('PUT', KV + '/b/race', {'x-store-etag': '"1"'}, b'x').status, 201)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                won = [what for what, status in pool.map(race, range(8)) if status != 412]
            eq(len(won), 1, 'each would have taken what the others wanted')
            eq(server.request('GET', KV + '/b/race').status, {'put': 200, 'delete': 404}[won[0]])


@scene
def revisions_of_a_value_obey_their_conditions(binary):
    """Judged is what a GET of the same path answers."""
    with page_server(binary) as server:
        create(server, KRV + '/b')
        path = KRV + '/b/k'
        def put(fields, where, body=b'x'):
            return server.request('PUT', path + where, fields, body)
        problem(put({'If-Match': '*'}, '/1'), 412, 'precondition_failed')
        first = put({'If-None-Match': '*'}, '/1')
        eq(first.status, 201)
        problem(put({'If-None-Match': '*'}, '/1'), 412, 'precondition_failed')
        problem(put({'If-None-Match': '*'}, '/' + first.headers['etag'].strip('"')), 412, 'precondition_failed')
        eq(put({'If-None-Match': '*'}, '/2').status, 201, 'no revision 2 is there')
        second = put({'If-Match': first.headers['etag']}, '/1')
        eq(second.status, 201)
        problem(put({'If-Match': first.headers['etag']}, '/1'), 412, 'precondition_failed')
        problem(put({'If-None-Match': second.headers['etag']}, '/1'), 412, 'precondition_failed')
        eq(server.request('GET', path + '/1').headers['etag'], second.headers['etag'])
        newest = server.request('GET', path).headers['etag']
        def delete(fields, where=''):
            return server.request('DELETE', path + where, fields)
        for fields, where in (({'If-Match': second.headers['etag']}, ''), ({'If-Match': newest}, '/1'),
                              ({'If-Match': '*'}, '/3'), ({'If-None-Match': '*'}, ''), ({'If-None-Match': newest}, ''),
                              ({'If-Match': second.headers['etag']}, '/' + first.headers['etag'].strip('"'))):
            problem(delete(fields, where), 412, 'precondition_failed')
        eq(len(server.json('GET', path + '/').body['items']), 3)
        eq(delete({'If-Match': first.headers['etag']}, '/' + first.headers['etag'].strip('"')).status, 204)
        eq(delete({'If-Match': second.headers['etag']}, '/1').status, 204)
        eq(delete({'If-Match': newest}).status, 204)
        eq(server.request('GET', path).status, 404)
        eq(delete({'If-None-Match': '*'}).status, 204)
        def put_first(_):
            return put({'If-None-Match': '*'}, '/7').status
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            eq(sorted(pool.map(put_first, range(16))), [201] + [412] * 15)


@scene
def of_equal_puts_at_once_one_is_stored(binary):
    with page_server(binary) as server:
        create(server, KV + '/b')
        for size in (4, 200000):                # beside the row, and in the log
            for key in range(5):
                def put_equal(number):
                    headers = {'If-None-Hash-Match': '*', 'x-store-etag': f'"{number}/x"', 'Content-Type': 'text/plain'}
                    return server.request('PUT', f'{KV}/b/{size}-{key}', headers, b'x' * size)
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    got = list(pool.map(put_equal, range(16)))
                eq(sorted(answer.status for answer in got), [201] + [412] * 15)
                kept = server.request('GET', f'{KV}/b/{size}-{key}').headers['etag']
                eq({answer.headers['etag'] for answer in got if answer.status == 412}, {kept})


@scene
def key_value_deletes_and_lists(binary):
    with page_server(binary, *LISTED) as server:
        create(server, KV + '/b')
        create(server, KV + '/c')
        keys = sorted([f'k{i:02d}' for i in range(7)] + ['a/b', 'ü', 'x y'], key=lambda key: key.encode())
        for key in keys:
            encoded = key.replace('/', '%2F').replace('ü', '%C3%BC').replace(' ', '%20')
            eq(server.request('PUT', f'{KV}/b/{encoded}', body=key.encode()).status, 201)
        eq(server.request('GET', KV + '/b/a%2Fb').body, b'a/b')
        eq(server.json('GET', KV + '/b/').body, {'items': keys})
        eq(server.json('GET', KV + '/c/').body, {'items': []})
        seen, page = [], ''
        for _ in range(4):
            got = server.json('GET', f'{KV}/b/?limit=3{page}').body
            seen += got['items']
            page = '&page=' + got['next'] if 'next' in got else None
            if page is None:
                break
        eq(seen, keys)
        problem(server.request('GET', KV + '/b/?page=x'), 400, 'bad_request#invalid_paging_token')
        problem(server.request('GET', KV + '/b/?page=eHl6'), 400, 'bad_request')
        problem(server.request('GET', KV + '/b/?limit=0'), 400, 'bad_request#invalid_limit')
        eq(server.request('DELETE', KV + '/b/k01').status, 204)
        problem(server.request('GET', KV + '/b/k01'), 404, 'not_found')
        eq(server.request('DELETE', KV + '/b').status, 204)
        problem(server.request('GET', KV + '/b/k02'), 404, 'unknown_bucket')
        problem(server.request('DELETE', KV + '/b'), 404, 'unknown_bucket')
        eq(server.request('POST', KV + '/c/k', body=b'posted').status, 201)
        eq(server.request('GET', KV + '/c/k').body, b'posted')
        got = server.request('PATCH', KV + '/c/k', body=b'')
        eq(got.status, 405)
        check('GET' in got.headers['allow'] and 'PUT' in got.headers['allow'], got.headers['allow'])


@scene
def buckets_take_options(binary):
    with page_server(binary) as server:
        create(server, KV + '/t', {'keyType': 'string', 'valueType': 'blob', 'version': 1, 'default_time_to_live': 60,
                                   'compression': [{'algorithm': 'deflate', 'block_size': 256}]})
        eq(server.request('PUT', KV + '/t/k', body=b'v').status, 201)
        server.clock(advance='59s')
        eq(server.request('GET', KV + '/t/k').status, 200)
        server.clock(advance='1s')
        problem(server.request('GET', KV + '/t/k'), 404, 'not_found')
        problem(server.request('PUT', KV + '/t', body={'version': 1}), 400, 'bad_request')
        create(server, KV + '/t', {'version': 2})
        create(server, KRV + '/o', {'table': 'o', 'domain': 'localhost', 'options': {
            'default_time_to_live': 60, 'updates': {'pattern': 'timeseries'}, 'durability': 'low'}})
        eq(server.request('PUT', KRV + '/o/k/1', body=b'v').status, 201)
        server.clock(advance='60s')
        problem(server.request('GET', KRV + '/o/k'), 404, 'not_found')


@scene
def options_that_would_do_nothing_are_refused_by_name(binary):
    latest_hash = {'revisionRetentionPolicy': {'type': 'latest_hash'}}
    with page_server(binary) as server:
        for kind, body, says in ((KV, {'keyType': 'int'}, 'keyType'), (KV, {'valueType': 'int'}, 'valueType'),
                                 (KV, {'colour': 1}, 'colour'), (KV, 'nonsense', 'JSON'), (KV, '[]', 'object'),
                                 (KV, {'options': {'nonsense': True}}, 'nonsense'), (KV, {'options': 7}, 'options'),
                                 (KV, {'options': latest_hash}, 'revisionRetentionPolicy'),
                                 (KV, latest_hash, 'revisionRetentionPolicy'),
                                 (KV, {'options': {'default_time_to_live': -1}}, 'default_time_to_live'),
                                 (KV, {'options': {'default_time_to_live': 1}, 'default_time_to_live': 2}, 'twice'),
                                 (KV, {'table': 'other'}, 'table'), (KV, {'domain': 'other'}, 'domain'),
                                 (KRV, {'revisionRetentionPolicy': {'type': 'newest'}}, 'type'),
                                 (KRV, {'revisionRetentionPolicy': {'type': 'latest_hash', 'colour': 1}}, 'colour'),
                                 (KRV, {'revisionRetentionPolicy': 7}, 'revisionRetentionPolicy'),
                                 (KRV, {'retention_policy': {'type': 'all'}, **latest_hash}, 'twice'),
                                 (KV, {'options': {'compression': [{'algorithm': 'rle'}]}}, 'compression'),
                                 (KV, {'options': {'updates': {'pattern': 'never'}}}, 'pattern')):
            value = problem(server.request('PUT', kind + '/u', body=body), 400, 'bad_request')
            check(says in value['detail'], f'{body}: {value["detail"]}')
            problem(server.request('GET', kind + '/u/k'), 404, 'unknown_bucket')


@scene
@not_shared('it asks for tables, streams or events, which are not there on a shared store')
def what_restbase_itself_sends_is_taken(binary):
    """Bodies of its modules: key_value and parsoid.js of 2019, mobileapps.js and key_rev_latest_value.js of 2016 and 2017."""
    cassandra = {'compression': [{'algorithm': 'deflate', 'block_size': 256}], 'updates': {'pattern': 'timeseries'}}
    front = {'type': 'latest_hash', 'count': 1, 'grace_ttl': 1}
    tables = {'version': 5001, 'options': cassandra, 'index': [{'attribute': 'key', 'type': 'hash'}],
              'attributes': {'key': 'string', 'tid': 'timeuuid', 'headers': 'json', 'value': 'blob'}}
    with page_server(binary) as server:
        for number, (kind, body) in enumerate((
                (KV, None), (KV, {}), (KV, {'valueType': 'blob'}), (KV, {'keyType': 'string', 'valueType': 'json'}),
                (KV, {'valueType': 'blob', 'default_time_to_live': 86400}), (KV, {'valueType': 'string', **cassandra}),
                (KRV, {'valueType': 'json', 'version': 4, 'revisionRetentionPolicy': front, 'updates': {'pattern': 'timeseries'}}),
                (KRV, {'valueType': 'blob', 'version': 1, 'retention_policy': {**front, 'type': 'latest', 'grace_ttl': 86400}}),
                (KRV, {'revisionRetentionPolicy': front, 'options': {'compression': []}, 'valueType': 'blob'}))):
            for _ in range(2):                  # at each start of each worker
                create(server, f'{kind}/b{number}', body)
        for _ in range(2):
            eq(server.request('PUT', '/localhost/v1/table/t', body={'table': 't', **tables}).status, 201)
        query = {'table': 't', 'attributes': {'key': 'k'}, 'consistency': 'localQuorum'}
        row = {**query['attributes'], 'tid': tid(), 'headers': {'a': 'b'}, 'value': {'base64': 'eA=='}}
        eq(server.request('POST', '/localhost/v1/table/t/put', body={**query, 'attributes': row}).status, 201)
        got = server.json('POST', '/localhost/v1/table/t/get', body={**query, 'limit': 1})
        eq((got.status, got.body['items']), (200, [row]))


@scene
def key_rev_value_keeps_what_its_policy_says(binary):
    with page_server(binary) as server:
        create(server, KRV + '/m', {'revisionRetentionPolicy': {'type': 'latest_hash'}})
        put = lambda rev, second: server.request('PUT', f'{KRV}/m/k/{rev}/{tid(second)}', body=f'{rev}'.encode())
        eq([put(1, 0).status, put(2, 1).status, put(2, 2).status], [201, 201, 201])
        eq(server.request('GET', KRV + '/m/k').body, b'2')
        problem(server.request('GET', KRV + '/m/k/1'), 404, 'not_found')
        problem(put(1, 3), 410, 'expired')
        eq(server.request('GET', f'{KRV}/m/k/2/{tid(1)}').status, 200)
        server.clock(advance='1s')              # the peer's grace of an older render
        problem(server.request('GET', f'{KRV}/m/k/2/{tid(1)}'), 404, 'not_found')
        create(server, KRV + '/two', {'revisionRetentionPolicy': {'type': 'latest', 'count': 2, 'grace_ttl': 10}})
        for second in range(4):
            eq(server.request('PUT', f'{KRV}/two/k/1/{tid(second)}', body=b'x').status, 201)
        server.clock(advance='10s')
        eq([item['tid'] for item in server.json('GET', KRV + '/two/k/').body['items']], [tid(3), tid(2)])


@scene
def values_of_all_sizes_come_back(binary):
    with page_server(binary) as server:
        create(server, KV + '/b')
        body_of = lambda size: (bytes(range(256)) * (size // 256 + 1))[:size]
        sizes = (0, 1, 500, 900, 1100, 20000, 1 << 20, 8 << 20)
        for size in sizes:
            eq(server.request('PUT', f'{KV}/b/{size}', body=body_of(size)).status, 201)
        server.kill9()
        server.start()
        for size in sizes:
            eq(server.request('GET', f'{KV}/b/{size}').body, body_of(size), f'{size}')
        head = ('PUT', KV + '/b/large HTTP/1.1\r\nHost: x\r\nContent-Length:', str((8 << 20) + 1) + '\r\nExpect:',
                '100-continue\r\n\r\n')
        with server.connect() as peer:
            peer.sendall(' '.join(head).encode())
            check(peer.recv(4096).startswith(b'HTTP/1.1 413 '), 'a larger one is refused at once')


@scene
def gzip_is_passed_on_or_undone(binary):
    with page_server(binary) as server:
        create(server, KV + '/b')
        raw = b'{"a":1}' * 500
        kept = {'x-store-content-encoding': 'gzip', 'x-store-content-type': 'application/json'}
        eq(server.request('PUT', KV + '/b/k', kept, gzip.compress(raw)).status, 201)
        got = server.request('GET', KV + '/b/k', {'Accept-Encoding': 'gzip'})
        eq((got.headers['content-encoding'], got.headers['vary']), ('gzip', 'Accept-Encoding'))
        eq(gzip.decompress(got.body), raw)
        got = server.request('GET', KV + '/b/k')
        eq((got.headers['content-encoding'], got.body), (None, raw))
        eq(server.request('PUT', KV + '/b/k', {'Content-Encoding': 'br'}, b'x').status, 415)


@scene
def key_rev_value_orders_by_revision_and_tid(binary):
    with page_server(binary) as server:
        create(server, KRV + '/b')
        problem(server.request('PUT', KRV + '/b/k', body=b'x'), 400, 'bad_request#invalid_revision')
        problem(server.request('GET', KRV + '/b/k'), 404, 'not_found')
        put = lambda where, body, status=201: server.request('PUT', f'{KRV}/b/k/{where}', {'content-type': 'text/plain',
                                                             'a': '1', 'User-Agent': 'me', 'x-request-id': 'id'}, body)
        got = put('5', b'five')
        eq(got.status, 201)
        value = server.json('PUT', f'{KRV}/b/j/9', body=b'nine')
        eq((value.status, value.body['message'], value.body['rev']), (201, 'Created.', 9))
        eq(value.headers['etag'], f'"9/{value.body["tid"]}"')
        eq(value.headers['content-type'], 'application/octet-stream')
        eq(put('3', b'three').status, 201)                         # out of order: taken, readable by revision
        eq(put(f'5/{tid(100)}', b'five later').status, 201)
        eq(put(f'5/{tid(50)}', b'five between').status, 201)
        got = server.request('GET', KRV + '/b/k')
        eq((got.body, got.headers['etag'], got.headers['a'], got.headers['content-type']),
           (b'five later', f'"5/{tid(100)}"', '1', 'text/plain'))
        for name in ('user-agent', 'host'):
            check(name not in got.headers, f'{name} is not replayed')
        eq(server.request('GET', KRV + '/b/k/3').body, b'three')
        eq(server.request('GET', KRV + '/b/k/5').body, b'five later')
        eq(server.request('GET', f'{KRV}/b/k/5/{tid(50)}').body, b'five between')
        problem(server.request('GET', f'{KRV}/b/k/5/{tid(51)}'), 404, 'not_found')
        problem(server.request('GET', KRV + '/b/k/x'), 400, 'bad_request#invalid_revision')
        problem(server.request('GET', KRV + '/b/k/5/nope'), 400, 'bad_request#invalid_tid')
        eq(server.request('GET', KRV + '/b/k', {'If-None-Match': f'"5/{tid(100)}"'}).status, 304)


@scene
def key_rev_value_lists_and_deletes(binary):
    with page_server(binary, *LISTED) as server:
        create(server, KRV + '/b')
        for rev in (1, 2, 3):
            for second in (1, 2):
                eq(server.request('PUT', f'{KRV}/b/k/{rev}/{tid(second)}', body=b'x').status, 201)
        want = [{'revision': rev, 'tid': tid(second)} for rev in (3, 2, 1) for second in (2, 1)]
        eq(server.json('GET', KRV + '/b/k/').body, {'items': want})
        first = server.json('GET', KRV + '/b/k/?limit=4').body
        rest = server.json('GET', KRV + '/b/k/?limit=4&page=' + first['next']).body
        eq(first['items'] + rest['items'], want)
        eq('next' in rest, False)
        problem(server.request('GET', KRV + '/b/none/'), 404, 'not_found')
        eq(server.json('GET', KRV + '/b/').body, {'items': ['k']})
        eq(server.request('DELETE', f'{KRV}/b/k/3/{tid(2)}').status, 204)
        eq(server.request('GET', KRV + '/b/k').headers['etag'], f'"3/{tid(1)}"')
        eq(server.request('DELETE', KRV + '/b/k/3').status, 204)
        eq(server.request('GET', KRV + '/b/k').headers['etag'], f'"2/{tid(2)}"')
        eq(server.request('DELETE', KRV + '/b/k').status, 204)
        problem(server.request('GET', KRV + '/b/k'), 404, 'not_found')


@scene
def minted_tids_grow_while_the_clock_stands(binary):
    with page_server(binary) as server:
        create(server, KRV + '/b')
        for i in range(20):
            got = server.json('PUT', KRV + '/b/k/1', body=f'v{i}'.encode())
            got = server.request('GET', KRV + '/b/k/1')
            eq(got.body, f'v{i}'.encode())
        eq(len(server.json('GET', KRV + '/b/k/').body['items']), 20)


@scene
def no_tid_is_minted_after_the_last_one(binary):
    last = 'ffffffff-ffff-1fff-8000-000000000000'
    with page_server(binary) as server:
        create(server, KRV + '/b')
        eq(server.request('PUT', f'{KRV}/b/k/1/{last}', body=b'x').status, 201)
        problem(server.request('PUT', KRV + '/b/k/1', body=b'y'), 409, 'conflict')
        eq(server.request('GET', KRV + '/b/k').body, b'x')
        eq(server.request('PUT', KRV + '/b/k/2', body=b'z').status, 201)


@scene
def a_304_tells_the_size_of_the_200_or_none(binary):
    with page_server(binary) as server:
        create(server, KRV + '/b')
        tag = server.request('PUT', KRV + '/b/k/1', {'Content-Encoding': 'gzip'}, gzip.compress(b'x' * 99)).headers['etag']
        for accept, size in (('gzip', len(gzip.compress(b'x' * 99))), ('identity', 99)):
            got = server.request('GET', KRV + '/b/k', {'Accept-Encoding': accept, 'If-None-Match': tag})
            eq((got.status, got.body, got.headers['content-length']), (304, b'', str(size)), accept)


@scene
def multi_content_takes_late_revisions_and_keeps_grace(binary):
    with page_server(binary, '--set', 'buckets.parsoid.kind=page',
                     '--set', 'buckets.parsoid.contents=html,data-parsoid',
                     '--set', 'buckets.parsoid.grace_ttl=1h') as server:
        eq(server.request('PUT', MULTI + '/parsoid').status, 201)
        eq(server.request('PUT', MULTI + '/parsoid/').status, 201)
        problem(server.request('PUT', MULTI + '/none'), 404, 'unknown_bucket')
        theirs = {'table_name_prefix': 'parsoid', 'main_content_type': {'name': 'html', 'value_type': 'blob'},
                  'dependent_content_types': [{'name': 'data-parsoid', 'value_type': 'json'}], 'grace_ttl': 3600,
                  'index_ttl': 36000, 'delete_probability': 1, 'renew_expiring': True}
        eq(server.request('PUT', MULTI + '/parsoid', body=theirs).status, 201)
        for wrong, says in (('{"a', 'JSON'), ('[]', 'object'), ({'junk': 1}, 'junk'), ({'grace_ttl': 60}, 'grace_ttl'),
                            ({'revisionRetentionPolicy': {'type': 'latest_hash'}}, 'revisionRetentionPolicy'),
                            ({'main_content_type': {'name': 'lead'}}, 'lead'), ({'main_content_type': {}}, 'name'),
                            ({'main_content_type': {'name': 'html', 'hash': 1}}, 'hash'),
                            ({'dependent_content_types': [7]}, 'bad_request'),
                            ({'dependent_content_types': [{'name': 'html'}, {'name': 'lead'}]}, 'lead')):
            got = server.request('PUT', MULTI + '/parsoid', body=wrong)
            problem(got, 400, 'bad_request')
            check(says in got.body.decode(), f'{got.body} says {says}')
        body = lambda text: {'html': {'headers': {'content-type': 'text/html'}, 'body': text},
                             'data-parsoid': {'headers': {'content-type': 'application/json'}, 'body': {'t': text}}}
        eq(server.request('PUT', f'{MULTI}/parsoid/all/K/2/{tid(-10)}', body=body('two')).status, 201)
        eq(server.request('PUT', f'{MULTI}/parsoid/all/K/1/{tid(-20)}', body=body('one')).status, 201)
        got = server.request('GET', MULTI + '/parsoid/html/K')
        eq((got.body, got.headers['etag']), (b'two', f'"2/{tid(-10)}"'))
        eq(server.json('GET', MULTI + '/parsoid/data-parsoid/K/1').body, {'t': 'one'})
        eq(server.request('GET', f'{MULTI}/parsoid/html/K/1/{tid(-20)}').body, b'one')
        eq(server.request('PUT', f'{MULTI}/parsoid/all/K/3', body=body('three')).status, 201)
        server.clock(advance='3599s')
        eq(server.request('GET', f'{MULTI}/parsoid/html/K/2/{tid(-10)}', {'If-None-Match': '"x"'}).status, 200)
        eq(server.request('GET', MULTI + '/parsoid/html/K').body, b'three')
        server.clock(advance='2d')
        problem(server.request('GET', f'{MULTI}/parsoid/html/K/1/{tid(-20)}'), 410, 'culled')
        eq(server.request('GET', MULTI + '/parsoid/html/K').body, b'three')


main()
