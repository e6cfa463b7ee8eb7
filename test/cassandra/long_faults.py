"""Goal: what was deleted stays gone when a node that missed the deletion comes back after gc_grace_seconds, a hidden text is
shown no longer than hot_ttl, and a node whose clock is wrong changes nothing. Method: three nodes, gc_grace_seconds 1, no
hints and no repair before the node is back; servers whose test clock moves past every promise; the bytes that came back are
counted in the table, so that the scene fails when there is nothing to hold out against."""
import contextlib
import json
import threading
import time

from rig import Cluster, check, eq, main, scene, wait_until

from harness import Server
from origin import Origin
from page_help import tid
from render_help import NO_CACHE
from served import DOMAIN, PAGE, options, policy, schema

NODES = 3
GC_GRACE_S = 1
TABLES = ('title', 'body', 'word', 'titles', 'stashes')
HOT_S, MARGIN_S = 1.0, 1.0      # of a request that was under way, on a busy machine
FAKED = {'LD_PRELOAD': '/usr/$LIB/faketime/libfaketimeMT.so.1', 'DONT_FAKE_MONOTONIC': '1'}


def servers(stack, binary, cluster, space, count, *more, words=(), **named):
    points = ','.join(f'{point}:{cluster.port}' for point in cluster.contact_points)
    cluster.execute(f'DROP KEYSPACE IF EXISTS {space}')
    done = schema(binary, cluster, space, '--set', f'store.replication=dc1={NODES}')
    eq(done.returncode, 0, done.stderr)
    done = policy(binary, cluster, space, 'apply', *more, words=words)
    eq(done.returncode, 0, done.stderr)
    said = [*options(cluster, space, 'write_timeout=5s', 'flight.make_timeout=5s', *more, points=points), *words]
    return [stack.enter_context(Server(binary, '--domain', DOMAIN, *said, **named)) for _ in range(count)]


def put(server, title, rev, at, body=None):
    body = body or f'<p>{title} {rev}'.encode()
    answer = server.json('PUT', f'{PAGE}/html/{title}/{rev}/{tid(at)}', body=body)
    eq(answer.status, 201, answer.body)


def passes(all_of_them, how):
    for server in all_of_them:
        server.clock(advance=how)


def rows(cluster, space, title, n, table='body'):
    """Of a title at one node alone."""
    found = cluster.execute(f"SELECT rev FROM {space}.{table} WHERE bucket = 'page' AND domain = '{DOMAIN}' AND "
                            f"title = '{title}'", n=n, consistency='ONE')
    return sorted(row['rev'] for row in found)


def states(server, titles):
    """What is said of each render of each title, and of its latest."""
    said = {}
    for title, revs in titles.items():
        for rev in revs:
            where = f'{title}/{rev}/{tid(rev)}'
            answer = server.request('GET', f'{PAGE}/html/{where}')
            said[where] = answer.status, server.json('GET', f'{PAGE}/explain/{where}').body['state']
        said[title] = server.request('GET', f'{PAGE}/html/{title}').status
        history = server.json('GET', f'{PAGE}/history/{title}').body
        said[title, 'history'] = [i['rev'] for i in history.get('items', ())]
    said['listed'] = server.json('GET', f'{PAGE}/title/').body['items']
    return said


@scene
def nothing_comes_back_with_a_node_that_missed_gc_grace(binary):
    space = 'zombies'
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(nodes=NODES, yaml={'hinted_handoff_enabled': False}))
        a, b = servers(stack, binary, cluster, space, 2, 'hot_ttl=0', 'page.grace_ttl=1h', 'page.historical_ttl=1h',
                       'page.ledger_ttl=10h', test_hooks='2026-01-01T01:00:00Z')
        for table in TABLES:
            cluster.execute(f'ALTER TABLE {space}.{table} WITH gc_grace_seconds = {GC_GRACE_S}')
        # What is culled, what is purged, what is purged as a whole, and what is forgotten in the end.
        titles = {'Culled': (1, 2, 3), 'Purged': (1, 2, 3), 'Whole': (1, 2), 'Stays': (1,)}
        for title, revs in titles.items():
            for rev in revs:
                put(a if rev % 2 else b, title, rev, rev)
        before = {title: rows(cluster, space, title, 3) for title in titles}
        check(all(before[title] for title in titles), f'node 3 has bytes: {before}')
        cluster.kill(3)
        passes((a, b), '1m')
        eq(a.request('DELETE', f'{PAGE}/all/Purged/2').status, 204)
        eq(b.request('DELETE', f'{PAGE}/all/Whole').status, 204)

        passes((a, b), '125m')          # the hours in which all was due are over

        def culled():
            passes((a, b), '20s')       # less than a lease of upkeep
            return rows(cluster, space, 'Culled', 1) == [3] and rows(cluster, space, 'Purged', 1) == [3] \
                and rows(cluster, space, 'Whole', 1) == []
        wait_until(culled, 'the bytes are deleted', timeout=240, pause=0.3)
        known = states(a, titles)
        eq(known[f'Purged/2/{tid(2)}'][0], 410)

        deleted_at = time.monotonic()
        wait_until(lambda: time.monotonic() - deleted_at > 2 * GC_GRACE_S, 'gc_grace is over')
        for verb in ('flush', 'compact'):   # at one node; the other drops them at each read
            cluster.nodetool(1, verb, space)
        cluster.start(3)
        back = {title: rows(cluster, space, title, 3) for title in titles}
        eq(back, before, 'node 3 knows nothing of the deletions')
        for server in (a, b):
            for _ in range(3):      # reads repair, and so may bring rows back everywhere
                again = states(server, titles)
                eq({key: value for key, value in again.items() if value != known.get(key)}, {}, 'as before')
        cluster.nodetool(3, 'repair', '--full', space)
        risen = {title: rows(cluster, space, title, 1) for title in titles}
        check(len(risen['Culled']) + len(risen['Purged']) + len(risen['Whole']) > 2, f'bytes came back: {risen}')
        for server in (a, b):
            again = states(server, titles)
            eq({key: value for key, value in again.items() if value != known.get(key)}, {}, 'as before, after the repair')
        put(a, 'Whole', 5, 7200 + 60)
        passes((a, b), '1m')
        eq(b.request('GET', f'{PAGE}/html/Whole').body, b'<p>Whole 5', 'what is put then is there')
        print(f'   bytes that came back: {risen}, shown: none')


@scene
def a_hidden_text_is_shown_no_longer_than_hot_ttl(binary):
    worst = 0.0
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(nodes=NODES))
        origin = stack.enter_context(Origin())
        a, b = servers(stack, binary, cluster, 'hidden', 2, f'hot_ttl={round(HOT_S * 1000)}ms',
                       words=origin.options(DOMAIN))
        for turn in range(6):
            title, rev = f'H{turn}', 10 * turn + 1
            origin.page(title, (rev, 'secret'), (rev + 1, 'new'))
            eq(a.request('GET', f'{PAGE}/html/{title}/{rev}').status, 200)
            eq(b.request('GET', f'{PAGE}/html/{title}/{rev}').status, 200)
            seen, over = [], threading.Event()

            def poll(title=title, rev=rev, seen=seen, over=over):
                while not over.is_set():
                    answer = b.request_again('GET', f'{PAGE}/html/{title}/{rev}')
                    seen.append((time.monotonic(), answer.status))
            thread = threading.Thread(target=poll)
            thread.start()
            try:
                wait_until(lambda seen=seen: len(seen) > 20, 'it is read')
                if turn % 2:
                    cluster.stop(3)
                origin.hide(title, rev)
                # While a node stands still a mark may be late; what counts is when it was acknowledged.
                wait_until(lambda title=title, rev=rev: a.request('GET', f'{PAGE}/html/{title}/{rev}', NO_CACHE).status == 410,
                           'it is marked')
                marked_at = time.monotonic()
                wait_until(lambda marked_at=marked_at: time.monotonic() > marked_at + HOT_S + 2 * MARGIN_S, 'hot_ttl is over')
            finally:
                over.set()
                thread.join()
                if not cluster.runs(3):
                    cluster.cont(3)
            shown = [at - marked_at for at, status in seen if status == 200]
            worst = max(worst, max(shown))
            check(max(shown) <= HOT_S + MARGIN_S, f'turn {turn}: it was shown {max(shown):.3f} s after the mark')
            # While a node stands still a read may be late.
            check(seen[-1][1] in (410, 503, 504), f'turn {turn}: {seen[-1][1]}')
        print(f'   shown {worst * 1000:.0f} ms after the mark was acknowledged at most, hot_ttl {HOT_S * 1000:.0f} ms')


@scene
def a_node_an_hour_ahead_changes_nothing(binary):
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(nodes=NODES))
        a, b = servers(stack, binary, cluster, 'ahead', 2, 'hot_ttl=0', 'store.skew_period=100ms')
        put_now(a, 'T', 1)
        for shift in ('+1h', '-1h'):
            cluster.end(3)
            cluster.start(3, env={**FAKED, 'FAKETIME': shift})
            there = cluster.execute('SELECT toUnixTimestamp(now()) AS at FROM system.local', n=3, consistency='ONE')[0]['at']
            ahead_s = as_seconds(there) - time.time()
            check(abs(ahead_s) > 3000, f'its clock is wrong: {ahead_s}')
            for n in range(12):     # most are coordinated by each of the nodes in turn
                put_now(a, f'T{n}', 2 + (shift == '-1h'))
                put_now(b, f'T{n}', 5 + (shift == '-1h'))
                eq(a.request('GET', f'{PAGE}/html/T{n}').body, b'<p>%d' % (5 + (shift == '-1h')))
            eq(b.request('DELETE', f'{PAGE}/all/T0').status, 204)
            eq(a.request('GET', f'{PAGE}/html/T0').status, 410)
            a.restart()             # a number of its own, by a conditional write
            put_now(a, 'U', 1 if shift == '+1h' else 2)
        cluster.end(3)
        cluster.start(3)
        for server in (a, b):
            eq(server.request('GET', f'{PAGE}/html/T11').body, b'<p>6')
            eq(server.request('GET', f'{PAGE}/html/T0').status, 410)
        eq([' cluster.clock_skew ' in server.stderr() for server in (a, b)], [False, False], 'one of three is outvoted')


def as_seconds(at):
    return (at if isinstance(at, (int, float)) else at.timestamp() * 1000) / 1000


def put_now(server, title, rev):
    answer = server.json('PUT', f'{PAGE}/html/{title}/{rev}', body=b'<p>%d' % rev)
    check(answer.status in (200, 201), f'{title} {rev}: {answer.status} {json.dumps(answer.body)}')


main()
