"""Goal: what rules want done about events is done: in order, once a key where they collapse, as often as they allow, at
targets that want it, in turns; and what is not done waits, is dead, or is told, but never lost.
Method: the real binary with rules in its file, a sink that keeps a ledger and answers as the scene says, restarts, SIGHUP."""
import json
import threading
import time

from change_help import purge, rule_comes_to, tell_events
from harness import check, eq, free_port, main, scene, wait_until
from page_help import path
from reload_help import Reloaded
from sink_help import Sink

RULE = """domains: {{ localhost: {{}}, a.test: {{}}, b.test: {{}} }}
change:
  rules:
    {rules}
"""


def rules(*each):
    return RULE.format(rules='\n    '.join(each))


def hook(sink, more=', backoff: 20ms, backoff_factor: 1', name='hook', match='{ stream: t }', url='/{title}'):
    return f'{name}: {{ match: {match}, effect: http, url: "{sink.url}{url}"{more} }}'


def event(title, n=0, stream='t', domain='localhost', **more):
    return {'meta': {'stream': stream, 'domain': domain}, 'page_title': title, 'n': n, **more}


def items(server, rule):
    """So many of it are not done."""
    for one in server.json('GET', '/v1/admin.change').body['rules']:
        if one['name'] == rule:
            return sum(one[state] for state in ('ready', 'waiting', 'scheduled', 'dead'))
    return 0


@scene
def an_event_arrives_byte_for_byte(binary):
    text = '{ "meta": {"stream":"t","domain":"localhost"},\n "page_title" : "A b/\\u00e9", "n": 1.50 }'
    with Sink() as sink, Reloaded(binary, rules(hook(sink, ', headers: { X-Stream: "{stream}" }'))) as r:
        eq(r.server.request('POST', '/v1/events', {'Content-Type': 'application/json'}, text.encode()).status, 201)
        eq(sink.wait(1), ['/A%20b%2F%C3%A9'])
        got = sink.requests[0]
        eq((got['method'], got['body'].decode(), got['headers']['Content-Type'], got['headers']['X-Stream']),
           ('POST', text, 'application/json', 't'))


@scene
def events_of_a_title_keep_their_order(binary):
    seen, failed = [], set()

    def answers(request):
        one = json.loads(request['body'])
        time.sleep(0.001)
        if one['n'] % 7 == 3 and (one['page_title'], one['n']) not in failed:
            failed.add((one['page_title'], one['n']))
            return 500, {}
        seen.append((one['page_title'], one['n']))
        return None
    with Sink(answers) as sink, Reloaded(binary, rules(hook(sink, ', concurrency: 16, backoff: 20ms'))) as r:
        tell_events(r.server, *(event(f'T{n % 5}', n) for n in range(200)))
        sink.wait(200 + 28)
        wait_until(lambda: len(seen) == 200, 'all events')
        for title in (f'T{t}' for t in range(5)):
            eq([n for name, n in seen if name == title], [n for n in range(200) if f'T{n % 5}' == title])
        check(sink.running_max > 1, 'titles go side by side')


@scene
def one_that_fails_for_good_holds_its_title_or_steps_aside(binary):
    for holds in (False, True):
        with Sink(lambda q: (500, {}) if json.loads(q['body'])['n'] == 0 else None) as sink, \
                Reloaded(binary, rules(hook(sink, f', retries: 2, backoff: 20ms, on_failure: {"hold" if holds else "skip"}'))) as r:
            tell_events(r.server, event('A', 0), event('A', 1), event('B', 2))
            wanted = [('A', 0)] * 3 + ([] if holds else [('A', 1)])
            sink.wait(len(wanted) + 1)
            tell_events(r.server, event('C', 3))
            wait_until(lambda: '/C' in sink.paths(), 'a later one')
            got = [(e['page_title'], e['n']) for e in sink.events()]
            eq([one for one in got if one[0] == 'A'], wanted)
            eq(sorted(one for one in got if one[0] != 'A'), [('B', 2), ('C', 3)])


@scene
def a_target_that_asks_to_be_left_alone_costs_no_attempt(binary):
    for status, headers in ((503, {'Retry-After': '1'}), (423, {}), (429, {}), (500, {'X-Readonly': 'true'})):
        asked = []

        def answers(request, status=status, headers=headers, asked=asked):
            asked.append(time.monotonic())
            return (status, headers) if len(asked) < 4 else None
        with Sink(answers) as sink, Reloaded(binary, rules(hook(sink, ', retries: 0'))) as r:
            tell_events(r.server, *(event(f'T{n}', n) for n in range(3)))
            wait_until(lambda asked=asked: len(asked) >= 4 + 2, f'{status}: all are done', timeout=30)
            eq(sorted({e['n'] for e in sink.events()[3:]}), [0, 1, 2], status)
            check(sink.running_max <= 3, 'none was asked beside')


@scene
def a_target_that_is_not_there_is_waited_for(binary):
    port = free_port()
    text = rules(f'hook: {{ match: {{ stream: t }}, effect: http, url: "http://127.0.0.1:{port}/{{title}}", retries: 0 }}')
    with Reloaded(binary, text) as r:
        tell_events(r.server, *(event(f'T{n}', n) for n in range(20)))
        r.server.restart()
        with Sink(port=port) as sink:
            eq(sorted(sink.wait(20)), sorted(f'/T{n}' for n in range(20)))


@scene
def what_collapses_is_done_once_for_the_newest(binary):
    gate = threading.Event()

    def answers(request):
        gate.wait(20)
        return None
    purge = 'edge: {{ match: {{ stream: t }}, effect: purge, targets: ["{0}"], urls: ["/{{title}}?n={{n}}"], concurrency: 1 }}'
    with Sink(answers) as sink, Reloaded(binary, rules(purge.format(sink.url))) as r:
        tell_events(r.server, event('A', 0))
        sink.wait(1)
        for n in range(1, 50):
            tell_events(r.server, event('A', n), event('B', n))
        wait_until(lambda: r.server.json('GET', '/v1/admin.change').body['router']['behind'] == 0, 'all are routed')
        gate.set()
        wait_until(lambda: {'/A?n=49', '/B?n=49'} <= set(sink.paths()), 'the newest of both')
        tell_events(r.server, event('C', 1))
        wait_until(lambda: '/C?n=1' in sink.paths(), 'a later one')
        eq(sorted(sink.paths()), ['/A?n=0', '/A?n=49', '/B?n=49', '/C?n=1'])
        eq({q['method'] for q in sink.requests}, {'PURGE'})


@scene
def a_render_that_becomes_the_latest_is_purged(binary):
    purge = 'edge: {{ match: {{ stream: palimpsest.render }}, effect: purge, targets: ["{0}"], ' \
            'urls: ["/{{domain}}/v1/page/html/{{title}}"] }}'
    with Sink() as sink, Reloaded(binary, rules(purge.format(sink.url))) as r:
        eq(r.server.request('PUT', path('html', 'A%2Fb', 7), {'Content-Type': 'text/html'}, b'<p>a').status, 201)
        eq(sink.wait(1), ['/localhost/v1/page/html/A%2Fb'])


@scene
def domains_take_turns(binary):
    with Sink(lambda q: time.sleep(0.01)) as sink, Reloaded(binary, rules(hook(sink, ', concurrency: 2'))) as r:
        tell_events(r.server, *(event(f'A{n}', n, domain='a.test') for n in range(400)))
        sink.wait(20)
        tell_events(r.server, event('B', domain='b.test'))
        wait_until(lambda: '/B' in sink.paths(), 'the other domain')
        check(sink.paths().index('/B') < 250, sink.paths().index('/B'))


@scene
def limits_hold_by_rule_domain_and_rate(binary):
    running = {'a.test': 0, 'b.test': 0}
    most = dict(running)
    lock = threading.Lock()

    def answers(request):
        domain = json.loads(request['body'])['meta']['domain']
        with lock:
            running[domain] += 1
            most[domain] = max(most[domain], running[domain])
        time.sleep(0.02)
        with lock:
            running[domain] -= 1
    with Sink(answers) as sink, \
            Reloaded(binary, rules(hook(sink, ', concurrency: 6, concurrency_of: { domain: { a.test: 1, "*": 4 } }'))) as r:
        tell_events(r.server, *(event(f'T{n}', n, domain=d) for n in range(40) for d in running))
        sink.wait(80)
        eq(most['a.test'], 1)
        check(2 <= most['b.test'] <= 4, most)
    with Sink() as sink, Reloaded(binary, rules(hook(sink, ', rate: 20/s'))) as r:
        began = time.monotonic()
        tell_events(r.server, *(event(f'T{n}', n) for n in range(20)))
        sink.wait(20)
        check(time.monotonic() - began >= 0.9, 'twenty in a second')


@scene
def a_delay_holds_no_slot_and_outlives_a_restart(binary):
    with Sink() as sink, Reloaded(binary, rules(hook(sink, ', delay: 1h, concurrency: 1', 'late', '{ stream: late }'),
                                                hook(sink, ', concurrency: 1')), test_hooks=True) as r:
        tell_events(r.server, *(event(f'L{n}', n, stream='late') for n in range(300)))
        tell_events(r.server, event('now'))
        eq(sink.wait(1), ['/now'])
        r.server.restart()
        tell_events(r.server, event('then'))
        eq(sink.wait(2), ['/now', '/then'])
        r.server.clock(advance='3700s')
        eq(sorted(sink.wait(302)[2:]), sorted(f'/L{n}' for n in range(300)))


@scene
def what_a_rule_wants_goes_into_a_queue(binary):
    with Reloaded(binary, rules('q: { match: { stream: t }, effect: produce, queue: work }')) as r:
        tell_events(r.server, event('A', 0))
        eq(r.server.json('POST', '/v1/queues.create',
                         body={'queue_name': 'work', 'lease_timeout': '1m', 'expire_timeout': '1h', 'requested_partitions': 1}).status, 200)
        tell_events(r.server, event('B', 1), event('A', 2))
        got = []

        def lease():
            answer = r.server.json('POST', '/v1/queue.lease',
                                   body={'queue_name': 'work', 'batch_size': 10, 'client_id': 'c', 'request_timeout': '1s'})
            got.extend(answer.body.get('items', []) if answer.status == 200 else [])
            return len(got) >= 3
        wait_until(lease, 'three items', timeout=30)
        eq(sorted(one['kind'] for one in got), ['t'] * 3)
        eq(sorted(one['reference'] for one in got), ['A', 'A', 'B'])


def lacking(server):
    return [line[line.index('rule='):] for line in server.stderr().splitlines() if ' change.no_queue ' in line]


@scene
def a_queue_that_is_not_there_is_told_at_the_start_and_at_a_reload(binary):
    text = rules('q: { match: { stream: t }, effect: produce, queue: work }')
    with Reloaded(binary, text) as r:
        eq(lacking(r.server), ['rule=q queue=work'])
        r.reload(text)
        eq(lacking(r.server), ['rule=q queue=work'] * 2)
        eq(r.server.json('POST', '/v1/queues.create',
                         body={'queue_name': 'work', 'lease_timeout': '1m', 'expire_timeout': '1h', 'requested_partitions': 1}).status, 200)
        r.reload(rules('q: { match: { stream: t }, effect: produce, queue: work }', 'p: { match: { stream: t }, effect: produce, queue: more }'))
        eq(lacking(r.server)[2:], ['rule=p queue=more'])


@scene
def rules_come_and_go(binary):
    with Sink() as sink, Reloaded(binary, rules(hook(sink))) as r:
        tell_events(r.server, event('A'), event('X', stream='other'))
        eq(sink.wait(1), ['/A'])
        r.reload(rules(hook(sink, name='other', match='{ stream: other }', url='/other/{title}')))
        tell_events(r.server, event('B'), event('Y', stream='other'))
        eq(sink.wait(2), ['/A', '/other/Y'], 'a new rule begins with what comes')
        r.reload(rules())
        tell_events(r.server, event('C'), event('Z', stream='other'))
        r.reload(rules(hook(sink), hook(sink, name='other', match='{ stream: other }', url='/other/{title}')))
        tell_events(r.server, event('D'), event('end', stream='other'))
        eq(sorted(sink.wait(4)), ['/A', '/D', '/other/Y', '/other/end'])


@scene
def items_of_a_rule_that_is_gone_wait_for_it(binary):
    port = free_port()
    text = rules(f'hook: {{ match: {{ stream: t }}, effect: http, url: "http://127.0.0.1:{port}/{{title}}", retries: 0 }}')
    with Reloaded(binary, text) as r:
        tell_events(r.server, *(event(f'T{n}', n) for n in range(5)))
        wait_until(lambda: items(r.server, 'hook') == 5, 'all are routed')
        r.reload(rules())
        with Sink(port=port) as sink:
            r.server.restart()
            r.reload(text)
            eq(sorted(sink.wait(5)), [f'/T{n}' for n in range(5)])


JOBS = 'mediawiki.job.'


def job(kind, n, sha1=None, root=None, until=None, domain='localhost'):
    one = {'meta': {'stream': JOBS + kind, 'domain': domain}, 'database': 'wiki', 'type': kind, 'params': {'n': n}, 'n': n}
    return {**one, **({'sha1': sha1} if sha1 else {}), **({'delay_until': until} if until else {}),
            **({'root_event': {'signature': root[0], 'dt': root[1]}} if root else {})}


def runs(*targets, more=''):
    return f'jobs: {{ match: {{ stream: "{JOBS}*" }}, effect: job, targets: [{", ".join(targets)}]{more} }}'


@scene
def jobs_run_as_they_came_at_targets_that_share_the_work(binary):
    with Sink(lambda q: time.sleep(0.005)) as one, Sink(lambda q: time.sleep(0.005)) as two, \
            Reloaded(binary, rules(runs(f'"{one.url}/run"', f'"{two.url}/run"', more=', concurrency: 8'))) as r:
        texts = [json.dumps(job('refreshLinks', n), indent=n % 3 or None) for n in range(60)]
        for text in texts:
            eq(r.server.request('POST', '/v1/events', {'Content-Type': 'application/json'}, text.encode()).status, 201)
        wait_until(lambda: len(one.requests) + len(two.requests) == 60, 'all of them', timeout=30)
        eq(sorted(q['body'].decode() for q in one.requests + two.requests), sorted(texts))
        check(min(len(one.requests), len(two.requests)) >= 15, 'both work')
        eq({q['path'] for q in one.requests}, {'/run'})


@scene
def runners_share_jobs_by_their_weights(binary):
    for at_once in (1, 4, 8):
        with Sink(lambda q: time.sleep(0.01)) as one, Sink(lambda q: time.sleep(0.01)) as three, \
                Reloaded(binary, rules(runs(f'"{one.url}/run"', f'{{ url: "{three.url}/run", weight: 3 }}', more=f', concurrency: {at_once}'))) as r:
            tell_events(r.server, *(job('refreshLinks', n) for n in range(80)))
            wait_until(lambda: len(one.requests) + len(three.requests) == 80, 'all of them', timeout=30)
            check(14 <= len(one.requests) <= 28, f'{len(one.requests)} and {len(three.requests)}, {at_once} at once')
            name = three.url.removeprefix('http://')
            eq(r.server.json('POST', '/v1/admin.change.drain', body={'target': name, 'drained': True}).status, 200)
            tell_events(r.server, *(job('refreshLinks', n) for n in range(80, 100)))
            wait_until(lambda: len(one.requests) + len(three.requests) == 100, 'all of them', timeout=30)
            check(len(one.requests) >= 34, 'all of these ran at the one that is not drained')


@scene
def a_type_has_a_limit_of_its_own_and_holds_up_no_other(binary):
    running, most, lock = {'slow': 0, 'fast': 0}, {'slow': 0, 'fast': 0}, threading.Lock()

    def answers(request):
        kind = json.loads(request['body'])['type']
        with lock:
            running[kind] += 1
            most[kind] = max(most[kind], running[kind])
        time.sleep(0.05 if kind == 'slow' else 0)
        with lock:
            running[kind] -= 1
    with Sink(answers) as sink, Reloaded(binary, rules(runs(f'"{sink.url}"', more=', concurrency: 4, concurrency_of: { type: { slow: 1 } }'))) as r:
        tell_events(r.server, *(job('slow', n) for n in range(100)))
        tell_events(r.server, *(job('fast', n) for n in range(100)))
        wait_until(lambda: sum(e['type'] == 'fast' for e in sink.events()) == 100, 'the fast ones', timeout=30)
        check(sum(e['type'] == 'slow' for e in sink.events()) < 60, 'the slow ones have not held them up')
        eq(most['slow'], 1)


@scene
def jobs_with_the_same_sha1_are_one_and_old_roots_are_needless(binary):
    gate = threading.Event()

    def answers(request):
        gate.wait(20)
    with Sink(answers) as sink, Reloaded(binary, rules(runs(f'"{sink.url}"', more=', concurrency: 1, collapse: sha1'))) as r:
        tell_events(r.server, job('first', 0))
        sink.wait(1)
        tell_events(r.server, *(job('a', n, 'same') for n in range(1, 20)), job('a', 20, 'other'), job('b', 21, 'same'))
        tell_events(r.server, job('r', 30, 'r1', ('root', '2026-01-02T00:00:00Z')), job('r', 31, 'r2', ('root', '2026-01-01T00:00:00Z')),
                    job('r', 32, 'r3', ('root', '2026-01-02T00:00:00Z')), job('r', 33, 'r4', ('else', '2026-01-01T00:00:00Z')))
        tell_events(r.server, job('end', 99))
        gate.set()
        wait_until(lambda: 99 in [e['n'] for e in sink.events()], 'the last', timeout=30)
        wait_until(lambda: len(sink.requests) >= 8, 'all', timeout=30)
        eq(sorted(e['n'] for e in sink.events()), [0, 19, 20, 21, 30, 32, 33, 99])


@scene
def a_job_that_waits_is_needless_when_a_newer_one_of_its_root_comes(binary):
    """But for one that is asked for again."""
    old, new = '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'
    with Sink() as sink, Reloaded(binary, rules(runs(f'"{sink.url}"', more=', collapse: sha1, backoff: 1h'))) as r:
        eq(r.server.json('POST', '/v1/admin.change.pause', body={'rule': 'jobs'}).status, 200)
        tell_events(r.server, job('r', 1, 'r1', ('root', old)), job('r', 2, None, ('root', old)), job('r', 3, 'r3', ('root', new)),
                    job('r', 4, 'r4', ('root', new)), job('r', 5, 'r5', ('else', old)), job('s', 6, 'r6', ('root', old)))
        rule_comes_to(r.server, 'jobs', ready=6)
        r.server.restart()
        eq(r.server.json('POST', '/v1/admin.change.resume', body={'rule': 'jobs'}).status, 200)
        rule_comes_to(r.server, 'jobs', ready=0, done=4, dropped=2)
        eq(sorted(e['n'] for e in sink.events()), [3, 4, 5, 6])
        eq(r.server.json('POST', '/v1/admin.change.replay', body={'rule': 'jobs', 'from': '2026-01-01T00:00:00Z'}).status, 200)
        wait_until(lambda: {1, 2} <= {e['n'] for e in sink.events()}, 'those that are asked for again', timeout=30)


@scene
def a_job_waits_until_its_time(binary):
    with Sink() as sink, Reloaded(binary, rules(runs(f'"{sink.url}"')), test_hooks='2026-03-01T00:00:00Z') as r:
        tell_events(r.server, job('late', 1, until='2026-03-01T01:00:00Z'), job('now', 2, until='2026-02-01T01:00:00Z'), job('now', 3))
        eq(sorted(e['n'] for e in [sink.wait(2), sink.events()][1]), [2, 3])
        r.server.clock(advance='59m')
        tell_events(r.server, job('then', 4))
        sink.wait(3)
        r.server.clock(advance='2m')
        sink.wait(4)
        eq([e['n'] for e in sink.events()][3], 1)


@scene
def a_wikis_purge_is_relayed_at_once_and_again(binary):
    seen = []
    with Sink() as sink, Sink() as other, \
            Reloaded(binary, rules(f'edge: {{ match: {{ stream: palimpsest.render }}, effect: purge, targets: ["{sink.url}", "{other.url}"], rebound: 1s }}')
                     .replace('localhost: {}', 'localhost: { origin: { url: "http://127.0.0.1:1/rest.php", hosts: [wiki.test] } }'),
                     '--set', 'change.purge_listen=127.0.0.1:0') as r:
        began = time.monotonic()
        for target in ('http://wiki.test/wiki/A%20b?x=%C3%A9', 'http://wiki.test/w/index.php?title=A&action=history'):
            eq(purge(r.server, target).status, 200)
        for one in (sink, other):
            one.wait(2)
            eq(sorted((q['path'], q['host'], q['method']) for q in one.requests[:2]),
               [('/w/index.php?title=A&action=history', 'wiki.test', 'PURGE'), ('/wiki/A%20b?x=%C3%A9', 'wiki.test', 'PURGE')])
            one.wait(4)
            eq(sorted(one.paths()[:2]), sorted(one.paths()[2:]))
        check(time.monotonic() - began >= 1, seen)
        r.server.restart()
        eq((len(sink.requests), len(other.requests)), (4, 4))


@scene
def nobody_is_asked_but_whom_the_rule_names(binary):
    with Sink(lambda q: (302, {'Location': '/elsewhere'}) if 'redirect' in q['path'] else None) as sink, \
            Reloaded(binary, rules(hook(sink, ', retries: 0'))) as r:
        tell_events(r.server, event('redirect'), event('..'), event('.'), event('a\r\nX-Evil: 1'), event(''), event('@evil.test/'),
                    event('%2e%2e'), event('end'))
        sink.wait(4)
        wait_until(lambda: '/end' in sink.paths(), 'the last one')
        check('/elsewhere' not in sink.paths(), 'a redirect')
        eq(sorted(sink.paths()), sorted(['/redirect', '/%40evil.test%2F', '/%252e%252e', '/end']))
        check(all(q['headers'].get('X-Evil') is None for q in sink.requests), 'a header')


@scene
def a_kill_loses_nothing(binary):
    """Some are done twice, none is lost, and each title's first times are in order."""
    with Sink() as sink, Reloaded(binary, rules(hook(sink, ', concurrency: 8'))) as r:
        told = 0
        for _ in range(8):
            count = len(sink.requests)
            tell_events(r.server, *(event(f'T{n % 6}', n) for n in range(told, told + 60)))
            told += 60
            wait_until(lambda count=count: len(sink.requests) > count + 7, 'some are done')
            r.server.kill9()
            r.server.start()
        wait_until(lambda: {e['n'] for e in sink.events()} == set(range(told)), 'all of them', timeout=60)
        firsts = {}
        for one in sink.events():
            firsts.setdefault(one['n'], len(firsts))
        for title in range(6):
            mine = [n for n in firsts if n % 6 == title]
            eq(mine, sorted(mine), title)
        check(len(sink.requests) < told + 8 * 60, 'most are done once')


if __name__ == '__main__':
    main()
