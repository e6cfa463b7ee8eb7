"""Goal: a rule notes once what was superseded, whichever bucket tells, and who culls reads in order what fell due; restarts and kills
lose none of it, and a busy domain takes no room from a quiet one. All of it holds for a timeline in the store and for one in Redis.
Method: the real binary on both sides, pages put into two buckets, restarts and kills between; a redis-server of the scene's own."""
import contextlib
import pathlib
import random
import re

from cli import Client
from harness import check, eq, main, scene, wait_until
from list_help import Redis
from page_help import put, tid
from reload_help import Reloaded

TEXT = """domains: {{ localhost: {{}}, busy.test: {{}} }}
buckets: {{ mobile: {{ kind: page, contents: [lead] }} }}
{redis}
change:
  rules:
    timeline: {{ match: {{ stream: [palimpsest.render, palimpsest.dated] }}, effect: timeline{more} }}
"""
KEEPS = ('store', 'redis')
LASTING = ('--appendonly', 'yes', '--appendfsync', 'always')      # what it answered is there after a kill


def config(more='', redis=None):
    if redis is None:
        return TEXT.format(more=more, redis='')
    return TEXT.format(more=', keep: redis' + more, redis=f'redis: {{ url: "redis://127.0.0.1:{redis.port}", timeout: 5s }}')


@contextlib.contextmanager
def kept(binary, keep, more='', **server):
    """A server with such a rule: (Reloaded, its text with other fields of the rule)."""
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis()) if keep == 'redis' else None
        yield stack.enter_context(Reloaded(binary, config(more, redis), **server)), lambda other: config(other, redis)


def listed(server, **body):
    """All pages, one behind the other: (title, kind, rev) of each."""
    entries, pivot = [], None
    while True:
        got = server.json('POST', '/v1/admin.change.timeline', body={**body, **({'pivot': pivot} if pivot else {})})
        eq(got.status, 200, got.body)
        entries += [(one['title'], one['kind'], one['rev']) for one in got.body['entries']]
        pivot = got.body.get('next')
        if pivot is None:
            return entries


def readable(server, **body):
    """A server that has just begun has no Redis for a moment."""
    wait_until(lambda: server.json('POST', '/v1/admin.change.timeline', body=body).status == 200, 'the timeline to be there')


def rule(server):
    return server.json('GET', '/v1/admin.change').body['rules'][0]


def routed(server):
    """Every event so far was shown to the rule, and is noted."""
    def is_noted():
        change = server.json('GET', '/v1/admin.change').body
        return change['router']['behind'] == 0 and change['rules'][0]['ready'] == 0
    wait_until(is_noted, 'the rules to see all events, and Redis to have all entries', 60)


def edit(server, title, rev, second, low=1, **more):
    return put(server, title, rev, f'{title} {rev} {low}'.encode(), tid(second, low), **more)


@scene
def what_two_buckets_supersede_is_noted_once_and_read_in_order(binary):
    for keep in KEEPS:
        _what_two_buckets_supersede(binary, keep)


def _what_two_buckets_supersede(binary, keep):
    with kept(binary, keep, test_hooks='2026-01-01T00:00:00Z') as (r, _):
        s = r.server
        for n in range(1, 4):
            edit(s, 'Moon', n, n)
            edit(s, 'Moon', n, n, bucket='mobile', content='lead')
            s.clock(advance='1h')
        edit(s, 'Moon', 3, 3, low=2)
        edit(s, 'Sun', 7, 4)
        s.clock(advance='1h')
        edit(s, 'Sun', 9, 5)
        routed(s)
        eq(listed(s), [('Moon', 'revision', 1), ('Moon', 'revision', 2), ('Moon', 'render', 3), ('Sun', 'revision', 7)])
        eq(listed(s, limit=1), listed(s))
        eq(listed(s, before='2026-01-01T02:30:00Z'), listed(s)[:2], 'by 2:30')
        eq(listed(s, before='2h'), listed(s)[:1], 'two hours ago')
        eq(listed(s, domain='localhost', title='Moon', kind='revision')[0], ('Moon', 'revision', 2), 'the newest of a title')
        eq(listed(s, domain='localhost', title='Moon', kind='revision', before='2h')[0], ('Moon', 'revision', 1))
        eq(listed(s, domain='busy.test'), [])
        client = Client(binary, s)
        lines = client.ok('timeline', 'ls', '--before', '2026-01-01T02:30:00Z').splitlines()
        eq(lines[0].split(), 'AT DOMAIN KIND REV TID TITLE'.split())
        eq([line.split() for line in lines[1:]], [[f'2026-01-01T0{n}:00:00.000Z', 'localhost', 'revision', str(n), '-', 'Moon'] for n in (1, 2)])
        eq([(one['rev'], one['tid']) for one in client.json('timeline', 'ls', '--title', 'Moon', '--kind', 'render')], [(3, tid(3))])
        eq(client.ok('timeline', 'ls', '-n', '2').splitlines()[-1], 'there are more: --limit says how many are shown')
        eq(len(client.json('timeline', 'ls', '--domain', 'localhost')), 4)
        one = rule(s)
        eq((one['matched'], one['done'], one['collapsed'], one['ignored']), (9, 4, 2, 3))
        figures = s.request('GET', '/metrics').body.decode()
        check('palimpsest_rule_outcomes_total{rule="timeline",outcome="done"} 4' in figures, 'the metric')
        s.restart()
        readable(s)
        eq(listed(s), [('Moon', 'revision', 1), ('Moon', 'revision', 2), ('Moon', 'render', 3), ('Sun', 'revision', 7)])
        eq(s.json('POST', '/v1/admin.check', body={}).body['damages'], 0)


@scene
def wrong_questions_are_refused(binary):
    for keep in KEEPS:
        _wrong_questions(binary, keep)


def _wrong_questions(binary, keep):
    with kept(binary, keep) as (r, _):
        for wrong in ({'before': 'soon'}, {'keep': 'disk'}, {'before': 7}, {'limit': 0}, {'limit': 1001}, {'kind': 'x'}, {'domain': 'none.test'}, {'title': 'A'},
                      {'domain': 'localhost', 'title': 'A' * 441}, {'pivot': 'AAAA'}, {'pivot': '!'}, {'after': 1}, {'domain': 7}):
            got = r.server.json('POST', '/v1/admin.change.timeline', body=wrong)
            eq(got.status, 400, (wrong, got.body))
        client = Client(binary, r.server)
        eq(client('timeline', 'ls', '--limit', '0').returncode, 2)
        eq(client('timeline', 'ls', '--before', 'soon').returncode != 0, True)
        eq(client.json('timeline', 'ls'), [])


@scene
def kills_lose_no_entry(binary):
    """Each put that was answered is noted, after however many kills."""
    with Reloaded(binary, config(', burst: 10000')) as r:
        s, chance = r.server, random.Random(7)
        latest = {}
        for n in range(1, 61):
            title = f'T{chance.randrange(5)}'
            put(s, title, n, f'{n}'.encode())
            latest.setdefault(title, []).append(n)
            if chance.random() < 0.2:
                s.kill9()
                s.start()
        routed(s)
        want = sorted((title, 'revision', n) for title, revs in latest.items() for n in revs[:-1])
        eq(sorted(listed(s)), want)
        eq(s.json('POST', '/v1/admin.check', body={}).body['damages'], 0)
        eq(s.sigterm(), 0)
        client = Client(binary, s)
        client.ok('check', '--data', str(s.data))


@scene
def a_busy_domain_is_sampled_beside_a_quiet_one(binary):
    for keep in KEEPS:
        _a_busy_domain(binary, keep)


def _a_busy_domain(binary, keep):
    with kept(binary, keep, ', burst: 10, rate_per_s: 0.1', test_hooks='2026-01-01T00:00:00Z') as (r, _):
        s = r.server
        for n in range(1, 202):
            got = s.request('PUT', f'/busy.test/v1/page/html/B/{n}', {'Content-Type': 'text/html'}, f'{n}'.encode())
            eq(got.status, 201)
            if n % 40 == 1:
                put(s, 'Q', n, b'q')
            s.clock(advance='1s')
        routed(s)
        eq(len(listed(s, domain='localhost')), 5)
        busy = listed(s, domain='busy.test')
        check(28 <= len(busy) <= 32, len(busy))
        eq(rule(s)['sampled'], 200 - len(busy))


@scene
def entries_go_by_age_and_a_rule_may_change(binary):
    for keep in KEEPS:
        _entries_go_by_age(binary, keep)


def _entries_go_by_age(binary, keep):
    with kept(binary, keep, ', ttl: 10d', test_hooks='2026-01-01T00:00:00Z') as (r, text):
        s = r.server
        edit(s, 'A', 1, 1)
        edit(s, 'A', 2, 2)
        routed(s)
        eq(listed(s), [('A', 'revision', 1)])
        s.clock(advance='9d')
        edit(s, 'A', 3, 3)
        routed(s)
        eq(listed(s), [('A', 'revision', 1), ('A', 'revision', 2)])
        s.clock(advance='2d')
        wait_until(lambda: listed(s) == [('A', 'revision', 2)], 'the first to go')
        wait_until(lambda: rule(s)['expired'] == 1, 'the count')
        changed = r.reload(text(', ttl: 1d'))
        check(any('timeline' in line for line in changed), changed)
        s.clock(advance='1s')
        wait_until(lambda: listed(s) == [], 'the shorter age')


# ---- in Redis alone

def _put_some(s, chance, latest, count, then=lambda: None):
    """Each put that was answered is in latest: title -> revisions."""
    for _ in range(count):
        title = f'T{chance.randrange(5)}'
        n = max([rev for revs in latest.values() for rev in revs], default=0) + 1
        put(s, title, n, f'{n}'.encode())
        latest.setdefault(title, []).append(n)
        if chance.random() < 0.2:
            then()


def _wanted(latest):
    return sorted((title, 'revision', n) for title, revs in latest.items() for n in revs[:-1])


@scene
def kills_of_redis_and_of_the_server_lose_no_entry(binary):
    """A put is answered without Redis; its entry waits for Redis, over kills of both."""
    chance, latest = random.Random(11), {}
    with Redis(*LASTING) as redis, Reloaded(binary, config(', burst: 10000', redis)) as r:
        s = r.server

        def kill_one():
            if chance.random() < 0.5:
                redis.end()
                redis.start()
            else:
                s.kill9()
                s.start()
        for _ in range(6):
            _put_some(s, chance, latest, 12, kill_one)
            redis.end()
            _put_some(s, chance, latest, 4)
            if chance.random() < 0.5:
                s.kill9()
                s.start()
            redis.start()
        routed(s)
        eq(sorted(listed(s)), _wanted(latest))
        for title, revs in latest.items():
            eq([rev for _, _, rev in listed(s, domain='localhost', title=title)], revs[-2::-1], title)
        eq(s.json('POST', '/v1/admin.check', body={}).body['damages'], 0)
        eq(s.sigterm(), 0)
        Client(binary, s).ok('check', '--data', str(s.data))


@scene
def while_redis_is_away_entries_wait_and_nobody_else_does(binary):
    with Redis(*LASTING) as redis, Reloaded(binary, config('', redis)) as r:
        s = r.server
        client = Client(binary, s)

        def waiting():
            return client.json('change', 'items', 'timeline')[0]
        edit(s, 'A', 1, 1)
        redis.end()
        edit(s, 'A', 2, 2)
        wait_until(lambda: 'Redis' in (rule(s)['last_error'] or ''), 'the rule to say why')
        one = rule(s)
        eq((one['ready'], one['dead'], one['done']), (1, 0, 0))
        got = s.json('POST', '/v1/admin.change.timeline', body={})
        eq(got.status, 503, got.body)
        check('Redis' in got.body['message'], got.body)
        failed = client('timeline', 'ls')
        check(failed.returncode != 0 and b'Redis' in failed.stderr, failed.stderr)
        wait_until(lambda: 'tried again: Redis' in (waiting()['why'] or ''), 'the item to say why')
        eq(client.json('change', 'explain', waiting()['position'])[0]['rules'][0]['item']['id'], waiting()['id'])
        redis.start()
        routed(s)
        eq(listed(s), [('A', 'revision', 1)])
        redis('CONFIG', 'SET', 'maxmemory', '1')      # full
        edit(s, 'A', 3, 3)
        wait_until(lambda: 'OOM' in rule(s)['last_error'], 'the rule to say that it is full')
        redis('CONFIG', 'SET', 'maxmemory', '0')
        routed(s)
        redis.stop()                                  # it hangs
        edit(s, 'A', 4, 4)
        eq(s.sigterm(), 0)
        redis.go_on()
        s.start()
        routed(s)
        eq(listed(s), [('A', 'revision', 1), ('A', 'revision', 2), ('A', 'revision', 3)])
        redis('SET', 'pal:t:{localhost}:v:B', 'x')    # somebody else's: that entry alone is dead
        edit(s, 'B', 1, 5)
        edit(s, 'B', 2, 6)
        edit(s, 'A', 5, 7)
        wait_until(lambda: rule(s)['dead'] == 1, 'the dead one')
        routed(s)
        eq(listed(s)[-1], ('A', 'revision', 4))
        redis('DEL', 'pal:t:{localhost}:v:B')
        Client(binary, s).ok('change', 'retry', 'timeline')
        routed(s)
        check(('B', 'revision', 1) in listed(s), listed(s))


@scene
def a_redis_that_lost_all_is_filled_by_a_replay(binary):
    with Redis() as redis, Reloaded(binary, config(', burst: 10000', redis)) as r:
        latest = {}
        _put_some(r.server, random.Random(3), latest, 30)
        routed(r.server)
        eq(sorted(listed(r.server)), _wanted(latest))
        redis.restart()
        readable(r.server)
        eq(listed(r.server), [])
        got = r.server.json('POST', '/v1/admin.change.replay', body={'rule': 'timeline', 'from': '2020-01-01T00:00:00Z'})
        eq(got.status, 200, got.body)
        wait_until(lambda: not rule(r.server)['replaying'], 'the replay')
        routed(r.server)
        eq(sorted(listed(r.server)), _wanted(latest))


def _documented_rights():
    manual = (pathlib.Path(__file__).parents[2] / 'docs' / 'several-servers.md').read_text()
    first, more = re.findall(r'^`(~pal:[^`]*)`', manual, re.M)
    return [*first.split(), *more.split()]


@scene
def servers_share_one_timeline(binary):
    """What both tell is one entry, and each reads what the other told: by a user with the rights that the manual names."""
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis())
        redis('ACL', 'SETUSER', 'pal', 'on', '>secret', 'resetkeys', 'resetchannels', '-@all', *_documented_rights())
        text = config('', redis).replace('redis://', 'redis://pal:secret@')
        one, other = (stack.enter_context(Reloaded(binary, text)) for _ in range(2))
        for n in range(1, 4):
            for r in (one, other):
                edit(r.server, 'Moon', n, n)
        edit(other.server, 'Sun', 1, 1)
        edit(other.server, 'Sun', 2, 2)
        routed(one.server)
        routed(other.server)
        want = [('Moon', 'revision', 1), ('Moon', 'revision', 2), ('Sun', 'revision', 1)]
        eq(listed(one.server), want)
        eq(listed(other.server), want)
        eq(rule(one.server)['collapsed'] + rule(other.server)['collapsed'], 2)
        check('redis.refused' not in one.server.stderr() + other.server.stderr(), 'no command is refused')


@scene
def a_rule_may_move_to_another_place(binary):
    """What waited for Redis is noted where the rule keeps its timeline by then."""
    with Redis() as redis, Reloaded(binary, config('', redis)) as r:
        s = r.server
        redis.end()
        edit(s, 'A', 1, 1)
        edit(s, 'A', 2, 2)
        wait_until(lambda: rule(s)['ready'] == 1, 'the item')
        r.reload(config('', redis).replace(', keep: redis', ''))
        routed(s)
        eq(listed(s), [('A', 'revision', 1)])
        redis.start()
        readable(s, keep='redis')
        eq(listed(s, keep='redis'), [])
        r.reload(config('', redis))
        edit(s, 'A', 3, 3)
        routed(s)
        eq(listed(s), [('A', 'revision', 2)])
        eq(listed(s, keep='store'), [('A', 'revision', 1)])
        eq(len(Client(binary, s).json('timeline', 'ls', '--keep', 'store')), 1)


@scene
def a_server_without_redis_refuses_such_a_rule(binary):
    with Reloaded(binary, config()) as r:
        eq(r.server.json('POST', '/v1/admin.change.timeline', body={'keep': 'redis'}).status, 400)
        said = r.reload(config(', keep: redis'), 'reload.refused')
        check(any('keep is redis, which wants redis.url' in line for line in said), said)


if __name__ == '__main__':
    main()
