"""Goal: lists by position over HTTP are what docs/api.md, 6, says, on one server and on all that share a Redis.
Method: real servers, a real redis-server, a generator that counts its calls."""
import json
import re
import signal
import socket

from harness import REQUEST_TIMEOUT, check, eq, main, scene, wait_until
from list_help import Cluster, one_list, query


def _problem(answer, status, what=''):
    eq(answer.status, status, f'{what} {answer.body}')
    eq(answer.headers['Content-Type'], 'application/problem+json', what)
    eq(answer.body['status'], status, what)


@scene
def five_positions_on_four_servers_are_of_one_list(binary):
    with Cluster(binary, 4, balancer=True) as c:
        with c.generator.holding() as gate:
            futures = c.begin([((p - 1) % 4, f'/show-1/{p}{query(user="u1")}') for p in range(1, 6)])
            wait_until(lambda: c.total('shared_joins_total') >= 4 and gate.arrived, 'all four have joined')
            gate.open()
            answers = [future.result(60) for future in futures]
        version = one_list(answers)
        eq(c.generator.count(), 1)
        eq(sorted(answer.body['position'] for answer in answers), [1, 2, 3, 4, 5])
        late = [c.get('balancer', f'/show-1/{p}{query(user="u1")}') for p in (5, 1, 3, 2, 4)]
        eq(one_list(late), version)
        eq(len({answer.headers['Served-By'] for answer in late}), 4, 'servers behind the balancer')
        eq(c.generator.count(), 1)
        whole = c.get(2, '/show-1' + query(user='u1'))
        eq(whole.status, 200)
        eq((whole.body['version'], whole.body['size'], len(whole.body['items'])), (version, 5, 5))
        eq([item['position'] for item in whole.body['items']], [1, 2, 3, 4, 5])
        path, display, headers = c.generator.calls[0]
        eq((path, display), ('/related?user=u1', 'show-1'))
        check(1 <= int(headers['Request-Timeout-Ms']) <= 240000, headers)


@scene
def the_head_says_how_it_was_had_and_how_long_it_will_do(binary):
    with Cluster(binary, 2, options={'ttl': '1h', 'stale_ttl': '60s'}) as c:
        first = c.get(0, '/d/2')
        version = first.headers['List-Version']
        eq(first.headers['ETag'], f'"{version}-2"')
        eq(first.headers['List-Size'], '5')
        told = re.fullmatch(r'private, max-age=(\d+), stale-while-revalidate=60, stale-if-error=60',
                            first.headers['Cache-Control'])
        check(told, first.headers['Cache-Control'])
        check(3540 <= int(told[1]) <= 3600, told[1])
        check(0 <= 3600 - int(told[1]) - int(first.headers['Age']) <= 1, f'Age {first.headers["Age"]} with {told[0]}')
        check('fwd=miss' in first.headers['Cache-Status'] and 'leader' in first.headers['Cache-Status'],
              first.headers['Cache-Status'])
        check('wait;dur=' in first.headers['Server-Timing'], first.headers['Server-Timing'])
        check('; hit' in c.get(0, '/d/2').headers['Cache-Status'], 'the second time it is here')
        other = c.get(1, '/d/2')
        check('collapsed' in other.headers['Cache-Status'], other.headers['Cache-Status'])
        eq(other.body, first.body)
        same = c.get(1, '/d/2', {'If-None-Match': first.headers['ETag']})
        eq((same.status, same.body), (304, b''))
        eq(same.headers['ETag'], first.headers['ETag'])
        eq(c.get(1, '/d/3', {'If-None-Match': first.headers['ETag']}).status, 200)
        head = c.get(1, '/d/2', method='HEAD')
        eq((head.status, head.body, head.headers['ETag']), (200, b'', first.headers['ETag']))
        eq(c.generator.count(), 1)


@scene
def a_version_can_be_insisted_on(binary):
    with Cluster(binary, 2) as c:
        version = c.get(0, '/d/1').headers['List-Version']
        for tag in (f'"{version}"', f'"{version}-3"'):
            eq(c.get(1, '/d/3', {'If-Match': tag}).status, 200)
        _problem(c.get(1, '/d/3', {'If-Match': '"1.x"'}), 412)
        _problem(c.get(1, '/other/3', {'If-Match': f'"{version}"'}), 412)
        eq(c.get(0, '/d', method='DELETE').status, 204)
        wait_until(lambda: c.get(1, '/d/3', {'If-Match': f'"{version}"'}).status == 412, 'the other has heard of it')
        _problem(c.get(1, '/d/3', {'If-Match': f'"{version}"'}), 412)
        eq(c.generator.count(), 1)


@scene
def only_if_cached_makes_nothing(binary):
    with Cluster(binary, 2) as c:
        only = {'Cache-Control': 'only-if-cached'}
        _problem(c.get(0, '/d/1', only), 504)
        eq(c.generator.count(), 0)
        version = c.get(0, '/d/1').headers['List-Version']
        eq(c.get(1, '/d/1', only).headers['List-Version'], version)
        eq(c.generator.count(), 1)


@scene
def no_cache_wants_the_buckets_permission(binary):
    for allowed in ('false', 'true'):
        with Cluster(binary, 2, options={'no_cache': allowed}) as c:
            version = c.get(0, '/*/1').headers['List-Version']
            again = c.get(1, '/*/1', {'Cache-Control': 'no-cache'}).headers['List-Version']
            eq(again == version, allowed == 'false')
            eq(c.generator.count(), 1 + (allowed == 'true'))
            shown = c.get(0, '/d/1').headers['List-Version']
            eq(c.get(1, '/d/2', {'Cache-Control': 'no-cache'}).headers['List-Version'], shown, 'a display keeps its list')


@scene
def what_is_public_may_be_kept_by_shared_caches(binary):
    for public, word in (('false', 'private'), ('true', 'public')):
        with Cluster(binary, 1, options={'public': public}) as c:
            for path in ('/d/1', '/d', '/d/2'):
                answer = c.get(0, path)
                eq(answer.status, 200)
                eq(answer.headers['Cache-Control'].split(',')[0], word, path)
            eq(c.get(0, '/d/1', {'If-None-Match': c.get(0, '/d/1').headers['ETag']}).headers['Cache-Control']
               .split(',')[0], word, '304')
            c.generator.status = 500
            for path, status in (('/d/6', 404), ('/d/0', 400), ('/e/1', 502)):
                answer = c.get(0, path)
                eq(answer.status, status)
                check('public' not in answer.headers.get('Cache-Control', ''), f'{path}: nobody keeps an error')


@scene
def more_lists_at_once_than_keys_max_are_refused(binary):
    with Cluster(binary, 2, '--set', 'flight.keys_max=2') as c:
        eq(c.get(0, '/kept/1').status, 200)
        wait_until(lambda: c.metric(0, 'flights') == 0, 'its key is free again')
        with c.generator.holding() as gate:
            futures = c.begin([(0, '/a/1'), (0, '/b/1')])
            wait_until(lambda: gate.arrived == 2, 'two are being made')
            for _ in range(2):
                refused = c.get(0, '/c/1')
                _problem(refused, 503)
                check(int(refused.headers['Retry-After']) >= 1, 'when to come again')
                eq(refused.headers['Cache-Control'], 'no-store')
            eq(c.get(0, '/kept/2').status, 200, 'what is there costs none')
            futures += c.begin([(0, '/a/2'), (1, '/a/3'), (1, '/b/2')])
            wait_until(lambda: c.total('flight_waiters') == 5, 'others may wait for the same two')
            gate.open()
            answers = [future.result(60) for future in futures]
        one_list([answers[0], answers[2], answers[3]])
        one_list([answers[1], answers[4]])
        check(c.metric(0, 'flight_refused_total') >= 2, 'counted')
        wait_until(lambda: c.metric(0, 'flights') == 0, 'there is room again')
        eq(c.get(0, '/c/1').status, 200)
        eq(c.generator.count(), 4)


@scene
def what_is_no_list_of_ours_in_redis_is_made_here(binary):
    with Cluster(binary, 2) as c:
        for n, bad in enumerate(('{"bad":', '[{"link":1,"image":1},{"link":1,"image":2}]')):
            version = c.get(0, f'/d{n}/1').headers['List-Version']
            wait_until(lambda: c.metric(0, 'flights') == 0, 'it is put')
            for key in c.redis.records():
                check(c.redis('HGET', key, 'val'), 'the field of the list')
                c.redis('HSET', key, 'val', bad)
            before = c.generator.count()
            eq(c.get(1, f'/d{n}/1', {'Cache-Control': 'only-if-cached'}).status, 504)
            answer = c.get(1, f'/d{n}/1')
            eq(answer.status, 200, answer.body)
            own = answer.headers['List-Version']
            check(own != version, 'a list of its own')
            check('detail=degraded' in answer.headers['Cache-Status'], answer.headers['Cache-Status'])
            eq(c.get(1, f'/d{n}/2').headers['List-Version'], own)
            eq(c.generator.count(), before + 1)
            others = {c.redis('HGET', key, 'val') for key in c.redis.records()}
            eq(others, {bad.encode()}, 'what they have is left to them')
        check('list.unlike' in c.servers[1].stderr(), 'it is told')


@scene
def what_is_wrong_is_answered_without_asking_anybody(binary):
    with Cluster(binary, 1) as c:
        before = c.redis.calls()
        for p in ('0', '01', '+1', '1.0', '-1', '%201', '1%20', '18446744073709551617', '123456', 'x'):
            _problem(c.get(0, f'/d/{p}'), 400, p)
        _problem(c.get(0, '/d/6'), 404)
        _problem(c.get(0, '/d/99999'), 404)
        for path in ('/d/1?other=1', '/d/1?user=a&user=b', '/d/1?user=' + 'x' * 2049, '/a%2Fb/1', '/a%00b/1',
                     '/' + 'd' * 129 + '/1', '/%C3%BC/1'):
            _problem(c.get(0, path), 400, path[:40])
        unknown = c.servers[0].request('GET', '/localhost/v1/lists/nothing/d/1')
        eq(unknown.status, 404)
        eq(c.servers[0].request('GET', '/elsewhere.test/v1/lists/related/d/1').status, 404)
        answer = c.servers[0].request('POST', '/localhost/v1/lists/related/d/1', body=b'x')
        eq(answer.status, 405)
        check('GET' in answer.headers['Allow'], answer.headers['Allow'])
        eq(c.generator.count(), 0)
        eq(c.redis.records(), [])
        after = c.redis.calls()
        eq(after.get('evalsha', 0), before.get('evalsha', 0), 'scripts run')


@scene
def params_make_lists_whatever_their_order_and_coding(binary):
    with Cluster(binary, 2) as c:
        version = c.get(0, '/d/1?user=a%20b&lang=de').headers['List-Version']
        eq(c.get(1, '/d/2?lang=%64e&user=a%20b').headers['List-Version'], version)
        eq(c.generator.count(), 1)
        eq(c.generator.calls[0][0], '/related?user=a%20b&lang=de')
        seen = {version}
        for path in ('/d/1?user=a%20b', '/d/1?user=a%20b&lang=', '/d/1?user=ab&lang=c', '/d/1?user=a&lang=bc', '/d/1',
                     '/*/1?user=a%20b&lang=de', '/d2/1?user=a%20b&lang=de'):
            seen.add(c.get(0, path).headers['List-Version'])
        eq(len(seen), 8, 'each is a list of its own')
        eq(c.generator.count(), 8)
        eq(c.generator.calls[6][1], None, '* names no display')


@scene
def a_delete_is_seen_on_all_servers(binary):
    with Cluster(binary, 4) as c:
        version = one_list([c.get(n, f'/d/{n + 1}') for n in range(4)])
        for n in range(4):
            check('; hit' in c.get(n, '/d/1').headers['Cache-Status'], 'each has it')
        eq(c.get(2, '/d', method='DELETE').status, 204)
        wait_until(lambda: all(c.get(n, '/d/1').headers['List-Version'] != version for n in range(4)),
                   'nobody has it any more')
        one_list([c.get(n, f'/d/{n + 1}') for n in range(4)])
        eq(c.generator.count(), 2)


@scene
def a_delete_of_a_position_takes_the_list_it_is_of(binary):
    with Cluster(binary, 2) as c:
        version = one_list([c.get(n, f'/d/{n + 1}') for n in range(2)])
        other = c.get(0, '/e/1').headers['List-Version']
        for path, status in (('/d/6', 404), ('/d/0', 400), ('/d/1?other=1', 400)):
            _problem(c.get(0, path, method='DELETE'), status, path)
        eq(one_list([c.get(n, '/d/1') for n in range(2)]), version)
        eq(c.get(0, '/d/3', method='DELETE').status, 204)
        wait_until(lambda: all(c.get(n, '/d/1').headers['List-Version'] != version for n in range(2)),
                   'nobody has any position of it')
        one_list([c.get(n, f'/d/{n + 1}') for n in range(2)])
        eq(c.get(1, '/e/1').headers['List-Version'], other)
        eq(c.generator.count(), 3)
        paths = c.servers[0].json('GET', '/?spec').body['paths']
        for tail in ('', '/{p}'):
            check('delete' in paths['/{domain}/v1/lists/{bucket}/{display}' + tail], 'OpenAPI')


@scene
def what_a_delete_overtook_is_not_stored(binary):
    with Cluster(binary, 2) as c:
        with c.generator.holding() as gate:
            first = c.begin([(0, '/d/1')])
            wait_until(lambda: gate.arrived == 1, 'it is being made')
            eq(c.get(1, '/d', method='DELETE').status, 204)
            gate.open()
            eq(first[0].result(60).status, 200)
        one_list([c.get(n, '/d/1') for n in (0, 1, 0, 1)])
        eq(c.generator.count(), 2, 'what was begun before the delete was made again')
        eq(c.get(1, '/d/1').body['link'], '/l/2/1')


@scene
def a_short_list_is_short_for_everybody(binary):
    with Cluster(binary, 2) as c:
        c.generator.reply = json.dumps([{'link': 'a', 'image': 'b'}, {'link': 'c', 'image': 'd'}]).encode()
        eq(c.get(0, '/d/2').body, {'position': 2, 'link': 'c', 'image': 'd'})
        for n in (0, 1):
            answer = c.get(n, '/d/3')
            _problem(answer, 404)
            eq(answer.headers['List-Size'], '2')
        c.generator.reply = b'[]'
        _problem(c.get(0, '/empty/1'), 404)
        eq(c.get(1, '/empty').body['items'], [])
        eq(c.generator.count(), 2)


@scene
def what_is_no_list_is_the_generators_error(binary):
    item = {'link': 'a', 'image': 'b'}
    wrong = [b'', b'{', b'{}', b'null', b'[1]', b'[{"link":"a"}]', b'[{"link":"a","image":null}]',
             json.dumps([item, {'link': 'a', 'image': 'c'}]).encode(), json.dumps([item, {'link': 'x', 'image': 'b'}]).encode(),
             json.dumps([{'link': str(n), 'image': str(n)} for n in range(6)]).encode(),
             json.dumps([{'link': 'a' * 8192, 'image': 'b'}]).encode(), b'[{"link":"\xff","image":"b"}]', b'[' * 5000]
    with Cluster(binary, 2) as c:
        for n, reply in enumerate(wrong):
            c.generator.reply = reply
            _problem(c.get(0, f'/d{n}/1'), 502, reply[:60])
        eq(c.generator.count(), len(wrong))
        c.generator.reply = None
        eq(c.get(0, '/fine/1').status, 200)


@scene
def an_error_is_shared_and_remembered_for_a_moment(binary):
    with Cluster(binary, 2, '--set', 'flight.error_base=20s') as c:
        c.generator.status = 500
        with c.generator.holding() as gate:
            futures = c.begin([(n % 2, '/d/1') for n in range(20)])
            wait_until(lambda: c.total('shared_joins_total') >= 2 and gate.arrived, 'both have joined')
            gate.open()
            answers = [future.result(60) for future in futures]
        for answer in answers:
            _problem(answer, 502)
            check(int(answer.headers['Retry-After']) >= 1, 'Retry-After')
        eq(c.generator.count(), 1)
        _problem(c.get(1, '/d/2'), 502)
        eq(c.generator.count(), 1, 'from memory')


@scene
def only_errors_that_are_remembered_may_be_kept(binary):
    with Cluster(binary, 2, '--set', 'flight.error_base=20s',
                 options={'public': 'true', 'ttl': '1h', 'stale_ttl': '60s'}) as c:
        c.generator.status = 500
        for n in (0, 1):
            answer = c.get(n, '/failed/1')
            _problem(answer, 502)
            eq(answer.headers['Cache-Control'], f'private, max-age={answer.headers["Retry-After"]}')
            check(1 <= int(answer.headers['Retry-After']) <= 40, answer.headers['Retry-After'])
        c.generator.status = 200
        c.generator.reply = json.dumps([{'link': 'a', 'image': 'b'}]).encode()
        for n in (0, 1):
            answer = c.get(n, '/short/2')
            _problem(answer, 404)
            told = re.fullmatch(r'public, max-age=(\d+), stale-while-revalidate=60, stale-if-error=60',
                                answer.headers['Cache-Control'])
            check(told and 3540 <= int(told[1]) <= 3600, answer.headers['Cache-Control'])
        for path, headers, status in (('/short/6', {}, 404), ('/short/0', {}, 400), ('/a%2Fb', {}, 400),
                                      ('/short/1?other=1', {}, 400), ('/short/1', {'If-Match': '"1.x"'}, 412),
                                      ('/none/1', {'If-Match': '"1.x"'}, 412),
                                      ('/none/1', {'Cache-Control': 'only-if-cached'}, 504)):
            answer = c.get(0, path, headers)
            _problem(answer, status, path)
            eq(answer.headers['Cache-Control'], 'no-store', path)
        eq(c.servers[0].request('GET', '/localhost/v1/lists/nothing/d/1').headers['Cache-Control'], 'no-store')


@scene
def what_is_refused_in_a_drain_is_kept_by_nobody(binary):
    large = 'x' * (24 << 20)
    with Cluster(binary, 1, '--set', 'page.body_bytes_max=64M', '--set', 'http.arena_bytes_max=192M',
                 '--set', 'page.codec=identity') as c, socket.socket() as slow:
        server = c.servers[0]
        page = '/localhost/v1/page/html/Large'
        eq(server.request('PUT', page + '/1', {'Content-Type': 'text/html'}, large.encode()).status, 201)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(REQUEST_TIMEOUT)
        slow.connect((server.host, server.port))
        slow.sendall(f'GET {page} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
        check(slow.recv(1000).startswith(b'HTTP/1.1 200'), 'an answer that the drain waits for')
        server.signal(signal.SIGTERM)
        wait_until(lambda: 'serve.drain' in server.stderr(), 'the drain begins')
        for method in ('GET', 'DELETE'):
            answer = c.get(0, '/d', method=method)
            _problem(answer, 503, method)
            check(answer.body['type'].endswith('shutting_down'), answer.body)
            eq((answer.headers['Cache-Control'], answer.headers['Retry-After']), ('no-store', '1'), method)


@scene
def whoever_cannot_wait_gets_504_and_the_list_is_made(binary):
    with Cluster(binary, 2) as c:
        with c.generator.holding() as gate:
            answer = c.get(0, '/d/1', {'Prefer': 'wait=1'})
            _problem(answer, 504)
            eq(answer.headers['Cache-Control'], 'no-store')
            eq(gate.arrived, 1)
            gate.open()
            wait_until(lambda: c.get(1, '/d/1', {'Cache-Control': 'only-if-cached'}).status == 200, 'it is there')
        eq(c.generator.count(), 1)


@scene
def a_stale_list_is_answered_while_one_makes_the_next(binary):
    with Cluster(binary, 2, options={'ttl': '1s', 'stale_ttl': '1h'}) as c:
        version = c.get(0, '/*/1').headers['List-Version']
        with c.generator.holding() as gate:
            def stale():
                answer = c.get(1, '/*/1')
                eq((answer.status, answer.headers['List-Version']), (200, version))
                return gate.arrived
            wait_until(stale, 'it is no longer fresh, and the next is being made')
            for n in range(10):
                eq(c.get(n % 2, '/*/1').headers['List-Version'], version)
            eq(c.generator.count(), 2, 'one makes the next')
            gate.open()
        wait_until(lambda: c.get(0, '/*/1').headers['List-Version'] != version, 'the next is there')
        c.generator.status = 500
        last = c.get(0, '/*/1').headers['List-Version']
        calls = c.generator.count()

        def failed():
            answer = c.get(1, '/*/1')
            eq(answer.status, 200)
            return c.generator.count() > calls and answer.headers['List-Version'] == last
        wait_until(failed, 'the next cannot be made, and the old one stands')


main()
