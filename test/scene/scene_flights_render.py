"""Goal: a missing render is made once for all servers that share a Redis, each with a store of its own; all get the same
bytes under the same name, and keep them.
Method: four server processes, a real redis-server, a scripted wiki that counts renders and can be held."""
import concurrent.futures
import contextlib
import re
import signal

from harness import eq, main, scene, wait_until
from list_help import Cluster
from origin import Origin

MORTAL = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=1s')


@contextlib.contextmanager
def _wiki(binary, count, *args, patient=True):
    with Origin() as origin:
        origin.page('A', (1, 'first'), (2, 'second'))
        with Cluster(binary, count, *args, *origin.options('localhost'), patient=patient) as c:
            yield origin, c


def _get(server, path='A', headers=None):
    return server.request('GET', f'/localhost/v1/page/html/{path}', headers)


def _same(answers):
    for answer in answers:
        eq(answer.status, 200, str(answer.body))
    eq(len({answer.headers['ETag'] for answer in answers}), 1, 'names of renders')
    eq(len({answer.body for answer in answers}), 1, 'bytes')
    return answers[0].headers['ETag']


@scene
def a_missing_render_is_made_once_for_all(binary):
    with _wiki(binary, 4) as (origin, c):
        with origin.gate('render') as gate:
            futures = [c.stack.enter_context(_thread(server)) for server in c.servers * 5]
            wait_until(lambda: c.total('flight_waiters') == 20 and gate.waiting == 1, 'all wait')
            gate.open()
            tag = _same([future.result(60) for future in futures])
        eq(origin.count('render'), 1)
        # Each has it in its store now.
        calls = c.redis.calls().get('evalsha', 0)
        for server in c.servers:
            eq(_get(server).headers['ETag'], tag)
        eq(c.redis.calls().get('evalsha', 0), calls, 'Redis is not asked for what is stored')
        eq(origin.count('render'), 1)


@contextlib.contextmanager
def _thread(server, path='A'):
    pool = concurrent.futures.ThreadPoolExecutor(1)
    try:
        yield pool.submit(_get, server, path)
    finally:
        pool.shutdown()


@scene
def who_comes_late_gets_the_same_render(binary):
    with _wiki(binary, 2) as (origin, c):
        first = _get(c.servers[0])
        eq(_same([first, _get(c.servers[1])]), first.headers['ETag'])
        eq(origin.count('render'), 1)
        old = _get(c.servers[1], 'A/1')
        _same([old, _get(c.servers[0], 'A/1')])
        eq(origin.count('render'), 2)


@scene
def a_dead_leader_of_a_render_is_succeeded(binary):
    with _wiki(binary, 3, *MORTAL, patient=False) as (origin, c):
        with origin.gate('render') as gate:
            leader = c.stack.enter_context(_thread(c.servers[0]))
            wait_until(lambda: gate.waiting == 1, 'it leads')
            others = [c.stack.enter_context(_thread(server)) for server in c.servers[1:]]
            wait_until(lambda: sum(c.metric(n, 'shared_joins_total') for n in (1, 2)) >= 2, 'the others have joined')
            c.servers[0].kill9()
            leader.exception(60)
            wait_until(lambda: origin.count('render') == 2, 'another leads')
            gate.open()
            _same([future.result(60) for future in others])
        eq(origin.count('render'), 2)


@scene
def a_stopped_leaders_render_does_not_displace_its_successors(binary):
    with _wiki(binary, 2, *MORTAL, patient=False) as (origin, c):
        with origin.gate('render') as gate:
            leader = c.stack.enter_context(_thread(c.servers[0]))
            wait_until(lambda: gate.waiting == 1, 'it leads')
            other = c.stack.enter_context(_thread(c.servers[1]))
            wait_until(lambda: c.metric(1, 'shared_joins_total') >= 1, 'the other has joined')
            c.servers[0].signal(signal.SIGSTOP)
            wait_until(lambda: origin.count('render') == 2, 'the other leads')
            gate.open()
            tag = _same([other.result(60)])
            c.servers[0].signal(signal.SIGCONT)
            eq(leader.result(60).status, 200)
        eq(_get(c.servers[1]).headers['ETag'], tag, 'what was stored stands')


@scene
def a_purge_goes_to_all(binary):
    with _wiki(binary, 3) as (origin, c):
        tag = _same([_get(server) for server in c.servers])
        eq(c.servers[0].request('DELETE', '/localhost/v1/page/all/A').status, 204)

        def anew(server):
            answer = _get(server)
            eq(answer.status, 200, str(answer.body))
            return answer.headers['ETag'] != tag
        for server in c.servers:
            wait_until(lambda server=server: anew(server), 'purged here, and made anew')


@scene
def what_the_wiki_says_of_a_render_goes_to_all(binary):
    with _wiki(binary, 3) as (origin, c):
        c.wait_redis()
        _, rev, tid = re.split('["/]', _same([_get(server, 'A/1') for server in c.servers]))[:3]

        def all_say(status, *ask):
            """Of the exact render, for which no server asks the wiki, once one has asked about its page. It asks again: the
            clocks of servers may be some milliseconds apart, and what was stored after the wiki was asked is spared."""
            def says(server):
                eq(c.servers[0].request('GET', *ask).status, status)
                return _get(server, f'A/{rev}/{tid}').status == status
            for server in c.servers:
                wait_until(lambda server=server: says(server), f'{status} here, too')
        origin.hide('A', 1)
        all_say(410, '/localhost/v1/page/html/A/1', {'Cache-Control': 'no-cache'})
        origin.page('A', (1, 'first'), (2, 'second'))
        all_say(200, '/localhost/v1/page/title/A/1')
        origin.delete('A')
        all_say(404, '/localhost/v1/page/title/A')


@scene
def a_purge_of_what_is_being_made_costs_nobody_an_answer(binary):
    """Of the leader's server and of another's: the purge is older than the render that is answered, and younger than the
    lease it began under."""
    with _wiki(binary, 2) as (origin, c):
        for purger, title in ((0, 'B'), (1, 'C')):
            origin.page(title, (11 + purger, 'old'), (21 + purger, 'new'))
            _same([_get(server, f'{title}/{11 + purger}') for server in c.servers])   # what a purge takes, to be seen
            purged = [c.metric(n, 'pages_purged_total') for n in (0, 1)]
            with origin.gate('render') as gate:
                futures = []
                for n, server in enumerate(c.servers):
                    futures.append(c.stack.enter_context(_thread(server, title)))
                    wait_until(lambda n=n: c.metric(n, 'flight_waiters') == 1, 'it waits')
                wait_until(lambda: gate.waiting == 1, 'it is being made')
                eq(c.servers[purger].request('DELETE', f'/localhost/v1/page/all/{title}').status, 204)
                wait_until(lambda: all(c.metric(n, 'pages_purged_total') > purged[n] for n in (0, 1)), 'both have heard of it')
                gate.open()
                answers = [future.result(60) for future in futures]
            for answer in answers:
                eq(answer.status, 200, str(answer.body))
            for server, answer in zip(c.servers, answers):
                eq(_get(server, title).headers['ETag'], answer.headers['ETag'], 'and is stored')


@scene
def a_purge_at_any_moment_costs_nobody_an_answer(binary):
    with _wiki(binary, 2) as (origin, c), concurrent.futures.ThreadPoolExecutor(4) as pool:
        for n in range(40):
            origin.page(f'T{n}', (100 + n, 'text'))
            headers = {'Cache-Control': 'max-age=60'} if n % 4 < 2 else None   # whose answer is not made for all
            gets = [pool.submit(_get, server, f'T{n}', headers) for server in c.servers]
            purge = pool.submit(c.servers[n % 2].request, 'DELETE', f'/localhost/v1/page/all/T{n}')
            eq(purge.result(60).status, 204)
            for answer in (future.result(60) for future in gets):
                eq(answer.status, 200, f'{n}: {answer.body}')


@scene
def without_redis_each_makes_its_own(binary):
    with _wiki(binary, 2, *MORTAL, patient=False) as (origin, c):
        c.redis.end()
        c.wait_redis(up=False)
        for server in c.servers:
            eq(_get(server).status, 200)
        eq(origin.count('render'), 2)
        c.redis.start()
        c.wait_redis()
        origin.page('B', (3, 'third'))
        _same([_get(server, 'B') for server in c.servers])
        eq(origin.count('render'), 3)


main()
