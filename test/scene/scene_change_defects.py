"""Goal: the defects of changeprop and of what stands around it are not ours. Each scene is one of
them, and changeprop's way to do it would fail the scene: docs/verification.md, "Defects of
changeprop", names it.
Method: the real binary, sinks that keep a ledger, kill -9 at the instant that matters, a clock that
is moved."""
import collections
import json
import threading

from change_help import figure, purge, purge_connection, rule_comes_to, rule_of, tell_events
from eventbus_help import Runner, job, php_json
from harness import check, eq, free_port, main, scene, wait_until
from page_help import path
from reload_help import Reloaded
from rules_help import configured, event, hook, items_of, soon, steer
from sink_help import Sink


def number(request):
    return json.loads(request['body'])['n']


@scene
def what_had_not_ended_at_a_kill_is_done_again(binary):
    """1: what came later is done; nothing says that the first one is."""
    gate = threading.Event()
    with Sink(lambda q: gate.wait(60) and None if number(q) == 0 else None) as sink, \
            Reloaded(binary, configured({'hook': hook(sink, concurrency=4)})) as r:
        later = [event(f'T{n}', n, domain=d) for n in range(1, 60) for d in ('a.test', 'b.test')]
        tell_events(r.server, event('first', 0), *later)
        rule_comes_to(r.server, 'hook', done=118, running=1)
        eq([item['title'] for item in items_of(r.server, 'hook')], ['first'])
        r.server.kill9()
        gate.set()
        r.server.start()
        rule_comes_to(r.server, 'hook', done=1, lag=0)
        got = collections.Counter(e['page_title'] for e in sink.events())
        eq((got['first'], {count for title, count in got.items() if title != 'first'}), (2, {2}))
        eq(len(sink.requests), 120)


@scene
def an_event_is_a_duplicate_of_one_that_was_taken_and_is_done_all_the_same(binary):
    """2: known by its id and not yet done, it is done after a kill; known and done, it stays so."""
    gate = threading.Event()
    with Sink(lambda q: gate.wait(60) and None) as sink, \
            Reloaded(binary, configured({'hook': hook(sink)})) as r:
        tell_events(r.server, event('A'))
        sink.wait(1)
        r.server.kill9()
        r.server.start()
        tell_events(r.server, event('A'))       # the sender has had no answer, and tries again
        gate.set()
        sink.wait(2)
        rule_comes_to(r.server, 'hook', done=1, lag=0)
        for _ in range(2):
            tell_events(r.server, event('A'))
            r.server.restart()
        tell_events(r.server, event('A'), event('B'))
        sink.wait(3)
        rule_comes_to(r.server, 'hook', lag=0)
        eq(sink.paths(), ['/A', '/A', '/B'])


def runs(runner, **more):
    return {'match': {'stream': 'mediawiki.job.*'}, 'effect': 'job', 'targets': [runner.url],
            'collapse': 'sha1', **soon(more), **more}


def send_jobs(server, runner, *jobs):
    runner.keeps(jobs)
    eq(server.request('POST', '/v1/events', {'Content-Type': 'application/json'},
                      php_json(list(jobs))).status, 201)


@scene
def a_job_is_a_duplicate_only_of_one_that_was_done(binary):
    """2: one that failed, or was cut off by a kill, stands for none with its sha1."""
    gate, fails = threading.Event(), [True]

    def says(one):
        if one['type'] == 'slow':
            gate.wait(60)
        return (500, {}) if one['type'] == 'fails' and fails[0] else None
    jobs = [job(kind, {'n': n}, sha1=kind[0] * 40) for n in range(2) for kind in ('fails', 'slow')]
    with Runner(says) as runner, \
            Reloaded(binary, configured({'jobs': runs(runner, retries=0)})) as r:
        send_jobs(r.server, runner, *jobs[:2])
        rule_comes_to(r.server, 'jobs', dead=1, running=1)
        r.server.kill9()
        gate.set()
        fails[0] = False
        r.server.start()
        send_jobs(r.server, runner, *jobs[2:])
        wait_until(lambda: jobs[2]['meta']['id'] in runner.ran, 'the second that had failed')
        rule_comes_to(r.server, 'jobs', ready=0, running=0, waiting=0)
        check(jobs[3]['meta']['id'] in runner.ran or runner.ran.count(jobs[1]['meta']['id']) == 2,
              'a run that began when the second was there')


@scene
def what_comes_faster_than_its_rate_waits(binary):
    """3: nothing is dropped for it, nor told as done; not over a kill."""
    with Sink() as sink, Reloaded(binary, configured({'hook': hook(sink, rate='40/s')})) as r:
        tell_events(r.server, *(event(f'T{n % 9}', n) for n in range(120)))
        sink.wait(40)
        r.server.kill9()
        r.server.start()
        one = wait_until(lambda: rule_of(r.server, 'hook'), 'the rule')
        check(one['ready'] + one['waiting'] > 20, one)
        wait_until(lambda: {number(q) for q in sink.requests} == set(range(120)), 'all')
        one = rule_comes_to(r.server, 'hook', lag=0)
        eq((one['dead'], one['dropped'], one['died']), (0, 0, 0))


@scene
def what_failed_holds_no_slot_until_it_is_tried_again(binary):
    """4: hundreds sleep, one may run at once, and all others go by. (A delay does as well:
    scene_change_effects.py, a_delay_holds_no_slot_and_outlives_a_restart.)"""
    broken = [True]
    rule = {'concurrency': 1, 'backoff': '1h', 'retries': 1}
    with Sink(lambda q: (500, {}) if broken[0] and 'bad' in q['path'] else None) as sink, \
            Reloaded(binary, configured({'hook': hook(sink, **rule)}), test_hooks=True) as r:
        tell_events(r.server, *(event(f'bad{n}', n) for n in range(300)))
        rule_comes_to(r.server, 'hook', scheduled=300, running=0)
        tell_events(r.server, event('good', 300), event('bad7', 301))
        sink.wait(301)
        one = rule_comes_to(r.server, 'hook', scheduled=300, waiting=1, running=0, done=1)
        eq((sink.paths()[300], one['ready']), ('/good', 0))
        broken[0] = False
        r.server.clock(advance='61m')
        sink.wait(602)
        eq(rule_comes_to(r.server, 'hook', lag=0)['done'], 302)


@scene
def what_a_refusal_says_is_shown(binary):
    """5: a 400 and its words, at the rule, at the item, in the figures; its event is kept."""
    with Runner() as runner, \
            Reloaded(binary, configured({'hook': hook(runner.url, path='', retries=0)})) as r:
        tell_events(r.server, event('A'))
        one = rule_comes_to(r.server, 'hook', dead=1)
        item, = items_of(r.server, 'hook', bytes=True)
        for said in (one['last_error'], item['error']):
            check(said.startswith('HTTP 400') and 'Invalid event received' in said, said)
        eq(json.loads(item['event']), event('A'))
        for name in ('items{rule="hook",state="dead"}',
                     'outcomes_total{rule="hook",outcome="died"}'):
            eq(figure(r.server, f'rule_{name}'), 1, name)
        for target in ('/v1/events', '/v1/events?hasty=true'):
            r.server.json('POST', target, body=[{'meta': {}}])
        eq(figure(r.server, 'change_events_total{named="invalid"}'), 2)


@scene
def a_limit_is_of_all_work_of_a_rule(binary):
    """6: whatever threads take events in, and whatever domains these are of; and it is reached."""
    gate = threading.Event()
    domains = [f'd{n}.test' for n in range(12)]
    with Sink(lambda q: gate.wait(60) and None) as sink, \
            Reloaded(binary, configured({'hook': hook(sink, concurrency=3)}, domains),
                     '--set', 'http.threads=4') as r:
        threads = [threading.Thread(target=tell_events, args=(
            r.server, *(event(f'T{n}', n, domain=name) for n in range(10)))) for name in domains]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rule_comes_to(r.server, 'hook', ready=120, running=3)
        sink.wait(3)
        steer(r.server, 'limit', 'hook', concurrency=7)
        rule_comes_to(r.server, 'hook', ready=120, running=7)
        sink.wait(7)
        gate.set()
        rule_comes_to(r.server, 'hook', done=120)
        eq(sink.running_max, 7)


@scene
def a_refused_condition_has_no_effect(binary):
    """7: what is answered 412 was not done, and nobody is told of it. A target that answers 412
    is not asked again."""
    edge = {'match': {'stream': 'palimpsest.render'}, 'effect': 'purge', 'urls': ['/{title}?{rev}']}
    with Sink() as sink, Sink(lambda q: (412, {})) as picky, \
            Reloaded(binary, configured({
                'edge': {**edge, 'targets': [sink.url], 'rebound': 0},
                'hook': hook(picky, ignore=[412])}), test_hooks=True) as r:
        def put(rev, status, **headers):
            headers = {'Content-Type': 'text/html', **headers}
            answer = r.server.request('PUT', path('html', 'A', rev), headers, b'%d' % rev)
            eq(answer.status, status)
        put(1, 201)
        eq(sink.wait(1), ['/A?1'])
        r.server.clock(advance='1h')
        put(2, 412, **{'If-Unmodified-Since': 'Thu, 01 Jan 2026 00:00:00 GMT'})
        put(3, 201)
        eq(sink.wait(2), ['/A?1', '/A?3'])
        eq(figure(r.server, 'event_log_events'), 2)
        tell_events(r.server, event('B'))
        one = rule_comes_to(r.server, 'hook', ignored=1, lag=0)
        eq((len(picky.requests), one['failures'], one['dead']), (1, 0, 0))


EDGE = {'match': {'stream': 'palimpsest.*'}, 'effect': 'purge', 'rebound': 0, **soon({})}


def purging(port, **more):
    """The configuration of a server that relays what wiki.test purges."""
    return json.dumps({
        'domains': {'localhost': {'origin': {'url': 'http://127.0.0.1:1/rest.php',
                                             'hosts': ['wiki.test']}}},
        'change': {'purge_listen': '127.0.0.1:0',
                   'rules': {'edge': {**EDGE, 'targets': [f'http://127.0.0.1:{port}'], **more}}}})


def purge_pages(server, count):
    connection = purge_connection(server)
    for n in range(count):
        eq(purge(server, f'http://wiki.test/wiki/P{n}', connection=connection).status, 200)
    connection.close()


@scene
def a_purge_that_was_taken_outlives_a_kill(binary):
    """8: and what waits is told from the first moment on."""
    port = free_port()
    with Reloaded(binary, purging(port)) as r:
        purge_pages(r.server, 200)
        r.server.kill9()
        r.server.start()
        one = rule_of(r.server, 'edge')
        eq((one['lag'], one['oldest_s'] is not None), (200, True), one)
        wait_until(lambda: rule_of(r.server, 'edge')['ready'] == 200, 'all are routed')
        eq(figure(r.server, 'rule_items{rule="edge",state="ready"}'), 200)
        with Sink(port=port) as sink:
            wait_until(lambda: len(set(sink.paths())) == 200, 'all of them')
            eq({(q['method'], q['host']) for q in sink.requests}, {('PURGE', 'wiki.test')})


@scene
def a_purge_too_old_to_matter_is_counted(binary):
    """8: what a cache cannot have any more is not sent, and not lost from sight."""
    port = free_port()
    with Reloaded(binary, purging(port, edge_ttl='1h'), test_hooks=True) as r:
        purge_pages(r.server, 30)
        rule_comes_to(r.server, 'edge', ready=30)
        r.server.clock(advance='2h')
        with Sink(port=port) as sink:
            purge_pages(r.server, 31)
            sink.wait(31)
            one = rule_comes_to(r.server, 'edge', lag=0)
            eq((one['dropped'] + one['collapsed'], len(set(sink.paths()))), (30, 31), one)


if __name__ == '__main__':
    main()
