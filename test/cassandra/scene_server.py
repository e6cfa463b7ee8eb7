"""Goal: servers that share a keyspace of Cassandra are one store of pages: what is done at one is
so at all others, also when a server or the node dies. Method: the real binary, twice, behind
requests that alternate; the node is killed and started."""
import json
import os
import pathlib
import tempfile
import threading
import time

from rig import check, eq, main, scene, wait_until

from proxy import Proxy
from served import DOMAIN, PAGE, SOON, Server, applied, options, serve

LATER = '2099-01-01T00:00:00Z'


def put(server, title, rev, body=b'<p>x', query='', headers=None):
    status, _, said = server.json('PUT', f'{PAGE}/html/{title}/{rev}{query}', headers, body)
    eq(status, 201, f'{title} {rev}: {said}')
    return said['tid']


def status_of(server, path, method='GET', **rest):
    return server.request(method, PAGE + path, **rest).status


def explained(server, path):
    return server.json('GET', f'{PAGE}/explain/{path}').body


@scene
def what_one_server_stores_the_other_answers(binary):
    cluster = applied(binary, 'shared')
    with serve(binary, cluster, 'shared') as a, serve(binary, cluster, 'shared') as b:
        for server in (a, b):
            eq(server.request('GET', '/readyz').status, 200)
            for line in ('cluster_ready 1', 'cluster_nodes{state="up"} 1', 'cluster_clock_skew 0'):
                wait_until(lambda server=server, line=line: f'palimpsest_{line}\n' in server.request(
                    'GET', '/metrics').body.decode(), line)
        servers = (a, b)
        for rev in range(1, 9):
            tid = put(servers[rev % 2], 'Earth', rev, b'<p>%d' % rev)
            other = servers[(rev + 1) % 2]
            eq(other.request('GET', f'{PAGE}/html/Earth/{rev}/{tid}').body, b'<p>%d' % rev)
            wait_until(lambda other=other, rev=rev: other.request(
                'GET', f'{PAGE}/html/Earth').body == b'<p>%d' % rev, f'{rev} is the latest')
        for server in servers:
            items = server.json('GET', f'{PAGE}/history/Earth').body['items']
            eq([i['rev'] for i in items], list(range(8, 0, -1)))
            eq(status_of(server, '/html/Nowhere'), 404)
        big = os.urandom(3 << 20)
        put(a, 'Big', 1, big)
        eq(b.request('GET', f'{PAGE}/html/Big').body, big)


@scene
def conditions_are_judged_on_what_the_other_one_wrote(binary):
    cluster = applied(binary, 'conditions')
    with serve(binary, cluster, 'conditions') as a, serve(binary, cluster, 'conditions') as b:
        first = b.request('PUT', f'{PAGE}/html/T/1', {'If-None-Match': '*'}, b'1')
        eq(first.status, 201)
        eq(a.request('PUT', f'{PAGE}/html/T/2', {'If-None-Match': '*'}, b'2').status, 412)
        tag = f'"1/{json.loads(first.body)["tid"]}"'
        eq(a.request('PUT', f'{PAGE}/html/T/2', {'If-Match': tag}, b'2').status, 201)
        eq(b.request('PUT', f'{PAGE}/html/T/3', {'If-Match': tag}, b'3').status, 412)


@scene
def purges_holds_and_stashes_are_everywhere(binary):
    cluster = applied(binary, 'orders')
    with serve(binary, cluster, 'orders') as a, serve(binary, cluster, 'orders') as b:
        tid = put(a, 'P', 1)
        put(a, 'P', 2)
        eq(status_of(b, '/all/P/1', 'DELETE'), 204)
        for server in (a, b):
            eq(status_of(server, f'/html/P/1/{tid}'), 410)
            eq(explained(server, f'P/1/{tid}')['state'], 'purged')
            eq(status_of(server, '/html/P/2'), 200)
        eq(status_of(a, f'/html/P/1/{tid}', 'PUT', body=b'<p>x'), 410, 'behind the fence')
        put(a, 'H', 1)
        eq(status_of(b, '/hold/H/1', 'PUT', body={'until': LATER}), 200)
        eq([h['kind'] for h in explained(a, 'H/1')['holds']], ['hold'])
        eq(status_of(a, '/hold/H/1', 'DELETE'), 204)
        eq(explained(b, 'H/1')['holds'], [])
        put(a, 'S', 1)
        eq(status_of(b, '/html/S?stash=true'), 200)
        eq([h['kind'] for h in explained(a, 'S/1')['holds']], ['stash'])
        eq(status_of(a, '/all/P', 'DELETE'), 204)
        wait_until(lambda: status_of(b, '/html/P') == 410, 'the whole title is gone')


@scene
def a_superseded_render_lives_on_for_its_grace(binary):
    cluster = applied(binary, 'grace')
    more = ('page.grace_ttl=6s', 'page.historical_ttl=6s')
    with serve(binary, cluster, 'grace', *more) as a, serve(binary, cluster, 'grace', *more) as b:
        tid = put(a, 'G', 1)
        put(b, 'G', 2)
        eq(a.json('GET', f'{PAGE}/explain/G/1/{tid}').body['state'], 'recent')
        wait_until(lambda: a.json('GET', f'{PAGE}/explain/G/1/{tid}').body['state'] == 'culled',
                   'its time is over')
        for server in (a, b):
            eq(status_of(server, f'/html/G/1/{tid}'), 410)
            eq(status_of(server, '/html/G'), 200)


@scene
def an_answer_is_kept_ready_for_hot_ttl_at_most(binary):
    cluster = applied(binary, 'hot')
    with serve(binary, cluster, 'hot', 'hot_ttl=1h') as a, \
            serve(binary, cluster, 'hot', 'hot_ttl=0') as b:
        def hits(server):
            text = server.request('GET', '/metrics').body.decode()
            return int(next(line.split()[1] for line in text.splitlines()
                            if line.startswith('palimpsest_hot_hits_total')))
        put(a, 'T', 1, b'1')
        for server in (a, b):
            for _ in range(5):
                eq(server.request('GET', f'{PAGE}/html/T').body, b'1')
        check(hits(a) > 0, 'answers of a are kept ready')
        eq(hits(b), 0)
        put(b, 'T', 2, b'2')
        eq(b.request('GET', f'{PAGE}/html/T').body, b'2')
        eq(a.request('GET', f'{PAGE}/html/T').body, b'1', 'for an hour')
        put(a, 'T', 3, b'3')
        eq(a.request('GET', f'{PAGE}/html/T').body, b'3', 'its own put ends its ready answer')


@scene
def bytes_that_come_with_the_facts_are_those_of_the_latest(binary):
    cluster = applied(binary, 'newest')
    with serve(binary, cluster, 'newest', 'hot_ttl=0') as a:
        def asked():
            text = a.request('GET', '/metrics').body.decode()
            return int(next(line.split()[1] for line in text.splitlines()
                            if line.startswith('palimpsest_cluster_requests_total{way="execute"}')))
        for n, body in enumerate((b'', b'x', os.urandom(1300000))):
            put(a, f'T{n}', 1, b'old')
            put(a, f'T{n}', 2, body)
            eq(a.request('GET', f'{PAGE}/html/T{n}').body, body)
            eq(status_of(a, f'/all/T{n}/2', 'DELETE'), 204)
            eq(a.request('GET', f'{PAGE}/html/T{n}').body, b'old', 'the newest bytes are purged')
        put(a, 'U', 1)
        before = asked()
        for _ in range(200):
            eq(status_of(a, '/html/U'), 200)
        wait_until(lambda: asked() - before >= 400, 'facts and bytes of each')
        # Speculative reads, and looks at the catalogue, come beside them.
        check(asked() - before < 600, f'and no third one: {asked() - before}')


@scene
def a_title_has_renders_max_renders_at_most(binary):
    cluster = applied(binary, 'many')
    with serve(binary, cluster, 'many', 'page.renders_max=5') as a:
        for rev in range(1, 6):
            put(a, 'T', rev, b'%d' % rev)
        status, headers, said = a.json('PUT', f'{PAGE}/html/T/6', body=b'6')
        eq((status, said['type'].rpartition('/')[2]), (429, 'too_many_renders'), said)
        eq(headers['retry-after'], '60')
        eq(a.request('PUT', f'{PAGE}/html/T/5', body=b'5').status, 200, 'what is there already')
        put(a, 'U', 1)
        eq(status_of(a, '/all/T/1', 'DELETE'), 204)
        put(a, 'T', 6, b'6')


@scene
def a_server_that_is_killed_loses_nothing(binary):
    cluster = applied(binary, 'killed')
    with serve(binary, cluster, 'killed') as a, serve(binary, cluster, 'killed') as b:
        for n in range(30):
            put(a, f'T{n}', 1, b'%d' % n)
        a.kill9()
        for n in range(30):
            eq(b.request('GET', f'{PAGE}/html/T{n}').body, b'%d' % n)
        put(b, 'T0', 2, b'new')
        a.start()
        eq(a.request('GET', f'{PAGE}/html/T0').body, b'new')
        a.restart()
        eq(a.request('GET', f'{PAGE}/html/T1').body, b'1')
        numbers = [line.rpartition('server=')[2].split()[0] for line in
                   (a.stderr() + b.stderr()).splitlines() if ' cluster.open ' in line]
        eq(len(set(numbers)), len(numbers), f'each run has a number of its own: {numbers}')
        eq(len(numbers), 4)


@scene
def without_the_node_it_is_503_until_the_node_is_back(binary):
    cluster = applied(binary, 'away')
    with serve(binary, cluster, 'away') as a:
        tid = put(a, 'T', 1, b'1')
        cluster.kill(1)
        wait_until(lambda: a.request('GET', '/readyz').status == 503, 'it is not ready')
        eq(a.request('GET', '/healthz').status, 200)
        for method, body in (('GET', None), ('PUT', b'2')):
            status, headers, said = a.json(method, f'{PAGE}/html/T/2', body=body)
            eq((status, headers['retry-after']), (503, '1'), said)
            check('127.0.0.1' not in said['detail'], f'no client learns of nodes: {said}')
        cluster.start(1)
        wait_until(lambda: a.request('GET', '/readyz').status == 200, 'it is ready again')
        eq(a.request('GET', f'{PAGE}/html/T/1/{tid}').body, b'1')
        put(a, 'T', 2, b'2')


@scene
def upkeep_that_fails_is_told_once_a_minute(binary):
    cluster = applied(binary, 'quiet')
    with serve(binary, cluster, 'quiet', 'store.sweep_period=10s') as a:
        def failures():
            text = a.request('GET', '/metrics').body.decode()
            return sum(int(line.split()[1]) for line in text.splitlines()
                       if line.startswith('palimpsest_upkeep_failures_total'))
        before = failures()
        cluster.kill(1)
        wait_until(lambda: failures() - before >= 6, 'it is tried again and again')
        told = [line.partition(' warn ')[2] for line in a.stderr().splitlines()
                if ' upkeep.failed ' in line]
        check(told, 'it is told')
        eq(len(told), len(set(told)), f'each reason once: {told}')
        cluster.start(1)


@scene
def a_server_may_start_before_its_cluster(binary):
    cluster = applied(binary, 'early')
    with serve(binary, cluster, 'early') as a:
        put(a, 'T', 1, b'1')
    cluster.kill(1)
    words = options(cluster, 'early', *SOON, 'store.start_timeout=1s')
    with Server(binary, '--domain', DOMAIN, *words) as a:
        check('cluster.unready' in a.stderr(), a.stderr())
        eq(a.request('GET', '/readyz').status, 503)
        eq(status_of(a, '/html/T'), 503)
        cluster.start(1)
        wait_until(lambda: a.request('GET', '/readyz').status == 200, 'it is ready')
        eq(a.request('GET', f'{PAGE}/html/T').body, b'1')


@scene
def a_clock_that_is_wrong_refuses_writes_alone(binary):
    cluster = applied(binary, 'skew')
    faked = {'LD_PRELOAD': '/usr/$LIB/faketime/libfaketimeMT.so.1', 'FAKETIME': '+1h',
             'DONT_FAKE_MONOTONIC': '1'}
    with serve(binary, cluster, 'skew') as a:
        put(a, 'T', 1, b'1')
        for shift in ('+1h', '-1h'):
            with serve(binary, cluster, 'skew', env={**faked, 'FAKETIME': shift}) as b:
                status, headers, said = b.json('PUT', f'{PAGE}/html/T/2', body=b'2')
                eq((status, said['type'].rpartition('/')[2]), (503, 'clock_skew'), said)
                eq(headers['retry-after'], '60', 'when it is compared again')
                eq(status_of(b, '/all/T/1', 'DELETE'), 503)
                eq(b.request('GET', f'{PAGE}/html/T').body, b'1')
                check('cluster.clock_skew' in b.stderr(), b.stderr())
        put(a, 'T', 2, b'2')


@scene
def a_clock_that_is_set_under_a_server_poisons_no_title(binary):
    cluster = applied(binary, 'step')
    with tempfile.TemporaryDirectory() as folder, serve(binary, cluster, 'step') as a:
        shift = pathlib.Path(folder) / 'shift'
        shift.write_text('+0\n')
        faked = {'LD_PRELOAD': '/usr/$LIB/faketime/libfaketimeMT.so.1', 'FAKETIME_TIMESTAMP_FILE': str(shift),
                 'FAKETIME_NO_CACHE': '1', 'DONT_FAKE_MONOTONIC': '1'}
        with serve(binary, cluster, 'step', env=faked) as b:
            put(b, 'T0', 1, b'1')
            shift.write_text('+1h\n')
            taken, refused, deadline = 1, None, time.monotonic() + 30
            while refused is None:
                status, _, said = b.json('PUT', f'{PAGE}/html/T{taken}/1', body=b'1')
                taken += status == 201
                refused = said if status != 201 else None
                check(time.monotonic() < deadline, f'{taken} puts were taken, the last with a clock that is an hour ahead')
            eq(refused['type'].rpartition('/')[2], 'clock_skew', refused)
            for number in range(taken):         # by a clock that is right
                put(a, f'T{number}', 2, b'2')
            wait_until(lambda: 'cluster.clock_skew' in b.stderr(), 'compared at once', 30)


@scene
def a_late_put_keeps_its_grace(binary):
    cluster = applied(binary, 'late')
    grace_s, slow_s = 8, 0.7
    more = (f'page.grace_ttl={grace_s}s', f'page.historical_ttl={grace_s}s', 'hot_ttl=0')
    with Proxy(cluster.address(1), cluster.port) as proxy:
        slow = options(cluster, 'late', *more, points=f'{proxy.host}:{proxy.port}')
        with serve(binary, cluster, 'late', *more) as b, Server(binary, '--domain', DOMAIN, *slow) as a:
            put(a, 'T', 1, b'1')
            proxy.delay(to_server=slow_s)
            said = []
            thread = threading.Thread(target=lambda: said.append(put(a, 'T', 2, b'2')))
            thread.start()
            for rev in range(3, 9):     # before, while and after the facts of the late one are written
                put(b, 'T', rev, b'%d' % rev)
            thread.join()
            acknowledged_at = time.monotonic()
            proxy.clear()
            while time.monotonic() < acknowledged_at + grace_s - 2 * slow_s - 1:
                state = explained(b, f'T/2/{said[0]}')['state']
                check(state in ('recent', 'current'), f'{time.monotonic() - acknowledged_at}: {state}')
            eq(b.request('GET', f'{PAGE}/html/T').body, b'8')
            wait_until(lambda: explained(b, f'T/2/{said[0]}')['state'] == 'culled', 'its time is over')


@scene
def tables_that_are_altered_under_servers_serve_on(binary):
    cluster = applied(binary, 'altered')
    with serve(binary, cluster, 'altered', 'hot_ttl=0') as a:
        put(a, 'T', 1, b'1')
        for n, change in enumerate((
                'title ADD noted text', 'body ADD noted text', 'titles ADD noted text', "title WITH compaction = "
                "{'class': 'UnifiedCompactionStrategy'}", 'body WITH gc_grace_seconds = 3600', 'title DROP noted')):
            cluster.execute(f'ALTER TABLE altered.{change}')
            tid = put(a, 'T', 2 + n, b'%d' % n)
            put(a, f'T{n}', 1, b'new')
            eq(a.request('GET', f'{PAGE}/html/T').body, b'%d' % n, change)
            eq(a.request('GET', f'{PAGE}/html/T/{2 + n}/{tid}').body, b'%d' % n, change)
            eq(status_of(a, f'/all/T{n}/1', 'DELETE'), 204)
        a.restart()
        eq(a.request('GET', f'{PAGE}/html/T').body, b'5')


main()
