"""Goal: what falls due goes by itself: with the clock hook before its answer, without it about a second late.
Method: renders superseded, then nobody writes; explain says what the store still holds."""
import datetime
import threading
import time

from harness import Server, check, eq, main, scene, wait_until

HTML = {'Content-Type': 'text/html'}
PAGE = '/localhost/v1/page'


def put(server, title, rev):
    answer = server.json('PUT', f'{PAGE}/html/{title}/{rev}', HTML, f'{title} {rev}')
    eq(answer.status, 201, str(answer.body))
    return answer.body['tid']


def state(server, title, rev, tid):
    return server.json('GET', f'{PAGE}/explain/{title}/{rev}/{tid}').body['state']


def figure(server, name):
    for line in server.request('GET', '/metrics').body.decode().splitlines():
        if line.startswith(name + ' '):
            return float(line.split()[1])
    raise AssertionError(f'no figure {name}')


@scene
def the_clock_hook_answers_when_all_that_is_due_is_done(binary):
    with Server(binary, '--set', 'page.grace_ttl=1h', test_hooks='2026-01-01T00:00:00Z') as server:
        old = [put(server, f'T{n}', 1) for n in range(300)]
        for n in range(300):
            put(server, f'T{n}', 2)
        server.clock(advance='3599s')
        eq(state(server, 'T7', 1, old[7]), 'recent')
        eq(figure(server, 'palimpsest_pages_culled_total'), 0)
        server.clock(advance='1s')
        eq(figure(server, 'palimpsest_pages_culled_total'), 300, 'culled when the hook has answered')
        eq({state(server, f'T{n}', 1, old[n]) for n in range(300)}, {'culled'})
        eq(server.request('GET', f'{PAGE}/html/T7/1/{old[7]}').status, 410)
        eq(server.request('GET', f'{PAGE}/html/T7').body, b'T7 2')


@scene
def real_time_culls_without_any_later_write(binary):
    with Server(binary, '--set', 'page.grace_ttl=700ms', '--set', 'page.historical_ttl=700ms') as server:
        old = put(server, 'A', 1)
        before = time.monotonic()
        put(server, 'A', 2)
        wait_until(lambda: server.request_again('GET', f'{PAGE}/explain/A/1/{old}').body.count(b'"culled"'), 'the cull')
        check(time.monotonic() - before >= 0.6, 'culled before its time')
        wait_until(lambda: figure(server, 'palimpsest_pages_culled_total') == 1, 'the count')
        eq(server.request('GET', f'{PAGE}/html/A/1/{old}').status, 410)
        eq(server.kill9(), -9)
        server.start()
        eq(server.request('GET', f'{PAGE}/html/A/1/{old}').status, 410)
        eq(server.request('GET', f'{PAGE}/html/A').body, b'A 2')


@scene
def what_fell_due_while_it_was_down_goes_at_the_start(binary):
    with Server(binary, '--set', 'page.grace_ttl=1s', '--set', 'page.historical_ttl=1s') as server:
        old = put(server, 'A', 1)
        put(server, 'A', 2)
        eq(server.kill9(), -9)
        time.sleep(1.1)  # the passing of real time is what is tested
        server.start()
        eq(server.request('GET', f'{PAGE}/html/A/1/{old}').status, 410)
        wait_until(lambda: figure(server, 'palimpsest_pages_culled_total') == 1, 'the cull')


def days_from_now(days):
    """The same instant on another day, as text."""
    then = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    return then.strftime('%Y-%m-%dT%H:%M:%SZ')


@scene
def a_machine_clock_far_ahead_of_the_store_culls_nothing(binary):
    policy = ('--set', 'page.grace_ttl=1h', '--set', 'page.ledger_ttl=365d')
    with Server(binary, *policy, test_hooks=days_from_now(-200)) as server:
        old = put(server, 'A', 1)
        put(server, 'A', 2)
        server.test_hooks = False
        server.restart(*policy, '--set', 'clock.leap_max=90d')
        wait_until(lambda: figure(server, 'palimpsest_clock_ahead_seconds') < -199 * 86400, 'the distance')
        check('clock.leap' in server.stderr() and 'clock.leap_max=never' in server.stderr(), 'what to do is said')
        put(server, 'A', 3)
        eq(state(server, 'A', 1, old), 'recent')
        eq(server.request('GET', f'{PAGE}/html/A').body, b'A 3')
        server.restart(*policy)
        eq(state(server, 'A', 1, old), 'culled', 'so long a time is believed')
        eq(server.stderr().count('clock.leap '), 1)
        eq(figure(server, 'palimpsest_clock_ahead_seconds'), 0)


@scene
def a_machine_clock_behind_the_store_is_told_and_the_store_goes_on(binary):
    with Server(binary, test_hooks=days_from_now(400)) as server:
        put(server, 'A', 1)
        server.test_hooks = False
        server.restart()
        wait_until(lambda: figure(server, 'palimpsest_clock_ahead_seconds') > 399 * 86400, 'the distance')
        check('clock.behind' in server.stderr(), 'told')
        put(server, 'A', 2)
        eq(server.request('GET', f'{PAGE}/html/A').body, b'A 2')


@scene
def the_hook_works_among_requests_that_wait(binary):
    with Server(binary, '--set', 'page.grace_ttl=1m', test_hooks='2026-01-01T00:00:00Z') as server:
        over = threading.Event()
        wrong = []

        def load(number):
            rev = 0
            while not over.is_set():
                rev += 1
                got = server.request('PUT', f'{PAGE}/html/L{number}/{rev}', HTML, b'%d' % rev)
                if got.status != 201:
                    wrong.append((got.status, got.body))
        clients = [threading.Thread(target=load, args=(n,)) for n in range(4)]
        for client in clients:
            client.start()
        try:
            before = '2026-01-01T00:00:00'
            for _ in range(20):
                now = server.clock(advance='90s')
                check(now > before, f'{now} after {before}')
                before = now
        finally:
            over.set()
            for client in clients:
                client.join()
        eq(wrong, [])
        server.clock(advance='2m')
        for number in range(4):
            history = server.json('GET', f'{PAGE}/history/L{number}').body['items']
            eq([item['state'] for item in history], ['current'], f'L{number}')


@scene
def the_hook_refuses_what_it_does_not_understand(binary):
    with Server(binary, test_hooks=True) as server:
        for body in ({}, {'freeze': 'noon'}, {'freeze': 1}, {'advance': '-1s'}, {'advance': 'never'}, {'advance': 90},
                     {'resume': False}, {'advance': '1s', 'resume': True}, {'stop': True}, [], {'freeze': None}):
            got = server.json('POST', '/v1/test.clock', body=body)
            eq(got.status, 400, str(body))
        eq(server.request('POST', '/v1/test.clock', body=b'nonsense').status, 400)
        for body in ({'queue_name': 'q', 'pause': True}, {}):
            eq(server.request('POST', '/v1/test.pause', body=body).status, 400)
        check('serve.test_hooks' in server.stderr(), 'announced')


main()
