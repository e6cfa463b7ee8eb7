"""Goal: a rule notes once what was superseded, whichever bucket tells, and who culls reads in order what fell due; restarts and kills
lose none of it, and a busy domain takes no room from a quiet one.
Method: the real binary on both sides, pages put into two buckets, restarts and kills between."""
import random

from cli import Client
from harness import check, eq, main, scene, wait_until
from page_help import put, tid
from reload_help import Reloaded

TEXT = """domains: {{ localhost: {{}}, busy.test: {{}} }}
buckets: {{ mobile: {{ kind: page, contents: [lead] }} }}
change:
  rules:
    timeline: {{ match: {{ stream: [palimpsest.render, palimpsest.dated] }}, effect: timeline{more} }}
"""


def config(more=''):
    return TEXT.format(more=more)


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


def rule(server):
    return server.json('GET', '/v1/admin.change').body['rules'][0]


def routed(server):
    """Every event so far was shown to the rule."""
    wait_until(lambda: server.json('GET', '/v1/admin.change').body['router']['behind'] == 0, 'the rules to see all events')


def edit(server, title, rev, second, low=1, **more):
    return put(server, title, rev, f'{title} {rev} {low}'.encode(), tid(second, low), **more)


@scene
def what_two_buckets_supersede_is_noted_once_and_read_in_order(binary):
    with Reloaded(binary, config(), test_hooks='2026-01-01T00:00:00Z') as r:
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
        eq(listed(s), [('Moon', 'revision', 1), ('Moon', 'revision', 2), ('Moon', 'render', 3), ('Sun', 'revision', 7)])
        eq(s.json('POST', '/v1/admin.check', body={}).body['damages'], 0)


@scene
def wrong_questions_are_refused(binary):
    with Reloaded(binary, config()) as r:
        for wrong in ({'before': 'soon'}, {'before': 7}, {'limit': 0}, {'limit': 1001}, {'kind': 'x'}, {'domain': 'none.test'}, {'title': 'A'},
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
    with Reloaded(binary, config(', burst: 10, rate_per_s: 0.1'), test_hooks='2026-01-01T00:00:00Z') as r:
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
    with Reloaded(binary, config(', ttl: 10d'), test_hooks='2026-01-01T00:00:00Z') as r:
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
        eq(listed(s), [('A', 'revision', 2)])
        eq(rule(s)['expired'], 1)
        changed = r.reload(config(', ttl: 1d'))
        check(any('timeline' in line for line in changed), changed)
        wait_until(lambda: listed(s) == [], 'the shorter age')


if __name__ == '__main__':
    main()
