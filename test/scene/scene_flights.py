"""Goal: servers that share a Redis make a value once, whoever asks wherever, while leaders and Redis are stopped, killed,
emptied, full, or want a name, a password or TLS.
Method: four server processes behind nginx, a real redis-server, a generator that counts and can be held, fail or cut. What
must never be seen is looked for in every answer: a list with duplicates, and two lists of one display where nothing was lost."""
import collections
import random
import signal
import subprocess
import threading

from harness import Server, check, eq, free_port, main, scene, wait_until
from list_help import Cluster, Process, Redis, one_list

DISPLAYS = 200
MORTAL = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=2s')   # a leader may die; a slow machine is no outage
QUICK = ('--set', 'redis.timeout=4s', '--set', 'redis.lease=4s')     # Redis may hang


def _by_display(c, displays, positions=5, server='balancer'):
    """All positions of all displays at once, in any order; answers by display."""
    asked = [(f'd{d}', p) for d in displays for p in range(1, positions + 1)]
    random.Random(len(asked)).shuffle(asked)
    got = collections.defaultdict(list)
    # As many at once as threads allow; the five of one display are spread over all of them.
    for start in range(0, len(asked), 250):
        part = asked[start:start + 250]
        answers = c.at_once([(server, f'/{d}/{p}') for d, p in part])
        for (display, _), answer in zip(part, answers):
            got[display].append(answer)
    return got


@scene
def two_hundred_displays_of_five_are_made_once_each(binary):
    with Cluster(binary, 4, balancer=True) as c:
        got = _by_display(c, range(DISPLAYS))
        versions = {one_list(answers) for answers in got.values()}
        eq(len(versions), DISPLAYS)
        eq(c.generator.count(), DISPLAYS)
        wait_until(lambda: c.total('shared_puts_total') == DISPLAYS, 'each is put once')
        check(len(c.redis.records()) == DISPLAYS, 'a record each')


@scene
def a_storm_on_one_display_joins_once_for_each_server(binary):
    with Cluster(binary, 4) as c:
        before = c.redis.calls().get('evalsha', 0)
        with c.generator.holding() as gate:
            futures = c.begin([(n % 4, f'/d/{n % 5 + 1}') for n in range(200)])
            wait_until(lambda: c.total('flight_waiters') == 200 and gate.arrived, 'all wait')
            gate.open()
            one_list([future.result(60) for future in futures])
        eq(c.generator.count(), 1)
        eq(c.total('shared_joins_total'), 4)
        # Renewals aside (none: the lease is long), four JOINs and one PUT.
        wait_until(lambda: c.redis.calls()['evalsha'] - before == 5, 'five calls')


def _never_mixed(answers):
    """Of what came while things died: no duplicates within any version."""
    versions = collections.defaultdict(dict)
    for answer in answers:
        if answer.status != 200:
            continue
        p, seen = answer.body['position'], versions[answer.headers['List-Version']]
        eq(seen.setdefault(p, answer.body), answer.body, 'one version, two contents')
        for field in ('link', 'image'):
            eq(len({item[field] for item in seen.values()}), len(seen), f'duplicates of {field}')
    return set(versions)


@scene
def nothing_is_mixed_while_a_server_dies(binary):
    with Cluster(binary, 4, *MORTAL, balancer=True, patient=False) as c:
        killed = threading.Event()

        def kill():
            wait_until(lambda: c.generator.count() >= 20, 'it is under way')
            c.servers[3].kill9()
            killed.set()
        thread = threading.Thread(target=kill)
        thread.start()
        got = _by_display(c, range(DISPLAYS))
        thread.join()
        check(killed.is_set(), 'the server was killed')
        for display, answers in got.items():
            for answer in answers:
                eq(answer.status, 200, f'{display}: nginx asks the next server')
            versions = _never_mixed(answers)
            check(len(versions) == 1, f'{display}: versions {versions}')


@scene
def nothing_is_mixed_while_redis_dies_and_comes_back(binary):
    with Cluster(binary, 4, *MORTAL, balancer=True, patient=False) as c:
        def die():
            wait_until(lambda: c.generator.count() >= 20, 'it is under way')
            c.redis.end()
            c.redis.start()
        thread = threading.Thread(target=die)
        thread.start()
        got = _by_display(c, range(DISPLAYS))
        thread.join()
        for answers in got.values():
            for answer in answers:
                eq(answer.status, 200, answer.body)
            check(len(_never_mixed(answers)) <= 4, 'one for each server at most')
        c.wait_redis()
        calls = c.generator.count()
        after = _by_display(c, range(1000, 1020))
        for answers in after.values():
            one_list(answers)
        eq(c.generator.count() - calls, 20, 'shared again')


@scene
def a_leader_that_hangs_and_dies_costs_its_lease(binary):
    with Cluster(binary, 3, *MORTAL, patient=False) as c:
        with c.generator.holding() as gate:
            leader = c.begin([(0, '/d/1')])
            wait_until(lambda: gate.arrived == 1, 'it leads')
            waiting = c.begin([(n, '/d/1') for n in (1, 2) for _ in range(5)])
            wait_until(lambda: sum(c.metric(n, 'shared_joins_total') for n in (1, 2)) >= 2, 'the others have joined')
            c.servers[0].kill9()
            # Its lease of 2 s runs out.
            wait_until(lambda: gate.arrived >= 2, 'another leads')
            check(sum(c.metric(n, 'shared_takeovers_total') for n in (1, 2)) >= 1, 'it can be seen')
            gate.open()
            one_list([future.result(60) for future in waiting])
            leader[0].exception(60)
        eq(c.generator.count(), 2)


@scene
def a_leader_stopped_past_its_lease_is_fenced(binary):
    with Cluster(binary, 3, *MORTAL, patient=False) as c:
        with c.generator.holding() as gate:
            leader = c.begin([(0, '/d/1')])
            wait_until(lambda: gate.arrived == 1, 'it leads')
            waiting = c.begin([(n, '/d/1') for n in (1, 2)])
            wait_until(lambda: sum(c.metric(n, 'shared_joins_total') for n in (1, 2)) >= 2, 'the others have joined')
            c.servers[0].signal(signal.SIGSTOP)
            wait_until(lambda: gate.arrived == 2, 'another leads')
            gate.open()
            version = one_list([future.result(60) for future in waiting])
            c.servers[0].signal(signal.SIGCONT)
            answer = leader[0].result(60)
            eq(answer.status, 200)
            # Redis may count as away after so long a stop: then its own is answered, and marked.
            if answer.headers['List-Version'] != version:
                check('degraded' in answer.headers['Cache-Status'], answer.headers['Cache-Status'])
        eq(c.generator.count(), 2)
        eq(one_list([c.get(n, '/d/1') for n in (1, 2)]), version, 'what is stored stands')
        eq(c.redis('HGET', c.redis.records()[0], 'ver').decode(), version)


@scene
def a_slow_leader_keeps_its_lease(binary):
    with Cluster(binary, 3, '--set', 'redis.timeout=20s', '--set', 'redis.lease=1s', patient=False) as c:
        with c.generator.holding() as gate:
            futures = c.begin([(n, '/d/1') for n in range(3)])
            wait_until(lambda: gate.arrived == 1, 'one leads')
            record = c.redis.records()[0]
            first = c.redis('HGET', record, 'lx')
            # Three renewals: the lease began anew, several times.
            for _ in range(3):
                now = c.redis('HGET', record, 'lx')
                wait_until(lambda now=now: c.redis('HGET', record, 'lx') != now, 'the lease was renewed')
            check(c.redis('HGET', record, 'lx') > first, 'later')
            gate.open()
            answers = [future.result(60) for future in futures]
        if c.total('shared_renewals_failed_total') == 0 and c.total('shared_takeovers_total') == 0:
            one_list(answers)
            eq(c.generator.count(), 1)


# ---- Redis

@scene
def a_stopped_redis_costs_sharing_alone(binary):
    with Cluster(binary, 2, *QUICK, patient=False) as c:
        c.redis.stop()
        try:
            first = c.get(0, '/d/1')
            eq(first.status, 200)
            check('degraded' in first.headers['Cache-Status'], first.headers['Cache-Status'])
            c.wait_redis(up=False, servers=[0])
            eq(c.get(0, '/d/2').headers['List-Version'], first.headers['List-Version'], 'one list within a server')
        finally:
            c.redis.go_on()
        c.wait_redis()
        calls = c.generator.count()
        one_list([c.get(n, '/e/1') for n in (0, 1)])
        eq(c.generator.count(), calls + 1, 'shared again')


@scene
def lists_made_without_redis_become_one_when_it_is_back(binary):
    with Cluster(binary, 2, *QUICK, options={'ttl': '1h'}, patient=False) as c:
        versions = lambda: {c.get(n, '/d/1').headers['List-Version'] for n in (0, 1)}
        c.redis.stop()
        try:
            eq(len(versions()), 2, 'each server makes its own')
        finally:
            c.redis.go_on()
        c.wait_redis()
        wait_until(lambda: len(versions()) == 1, 'one list for both')
        eq(c.generator.count('d') <= 4, True, 'made once more, by either')


@scene
def without_redis_a_list_may_be_refused_instead(binary):
    with Cluster(binary, 2, *MORTAL, options={'degrade': 'fail'}, patient=False) as c:
        c.redis.end()
        c.wait_redis(up=False)
        answer = c.get(0, '/d/1')
        check(answer.status in (502, 503), answer)
        check(int(answer.headers['Retry-After']) >= 1, 'when to come again')
        eq(c.generator.count(), 0)
        c.redis.start()
        c.wait_redis()
        one_list([c.get(n, '/d/1') for n in (0, 1)])
        eq(c.generator.count(), 1)


@scene
def an_emptied_redis_is_given_what_servers_still_hold(binary):
    with Cluster(binary, 2, *MORTAL, options={'ttl': '1h'}, patient=False) as c:
        version = c.get(0, '/d/1').headers['List-Version']
        record = c.redis.records()[0]

        def is_old():
            """So that nobody answers from memory alone: that is done for 5 s."""
            return int(c.redis('TIME')[0]) * 1000 - int(c.redis('HGET', record, 'at')) > 6000
        wait_until(is_old, 'it is old')
        c.redis.end()
        c.wait_redis(up=False)
        c.redis.start()
        c.wait_redis()
        wait_until(c.redis.records, 'it was offered')
        eq(c.get(1, '/d/2').headers['List-Version'], version)
        c.redis('FLUSHALL')   # the servers are not told; who has the list gives it back when it is asked for

        def given_back():
            eq(c.get(0, '/d/3').headers['List-Version'], version)
            return c.redis.records()
        wait_until(given_back, 'given back')
        eq(c.get(1, '/d/5').headers['List-Version'], version)
        eq(c.generator.count(), 1)


@scene
def a_full_redis_refuses_whole_and_costs_sharing_alone(binary):
    with Redis('--maxmemory-policy', 'noeviction') as redis, Cluster(binary, 2, redis=redis) as c:
        version = one_list([c.get(n, '/before/1') for n in (0, 1)])
        redis('CONFIG', 'SET', 'maxmemory', '1')
        for n in (0, 1):
            answer = c.get(n, '/d/1')
            eq(answer.status, 200, answer.body)
            check('degraded' in answer.headers['Cache-Status'], answer.headers['Cache-Status'])
        eq(len(redis.records()), 1, 'nothing half written')
        eq(redis('HGET', redis.records()[0], 'ver').decode(), version)
        redis('CONFIG', 'SET', 'maxmemory', '0')
        c.wait_redis()

        def shared():
            shared.n += 1
            return len({c.get(n, f'/after{shared.n}/1').headers['List-Version'] for n in (0, 1)}) == 1
        shared.n = 0
        wait_until(shared, 'shared again')


def _evicting(binary, policy):
    """So many displays that Redis has to evict; what was evicted is made anew, at most once each time, and never mixed.
    A server gives back what it holds; but it holds a list only when its flight has ended and its requests are answered.
    One that comes in between finds neither: how many do is a matter of scheduling."""
    with Redis('--maxmemory-policy', policy) as redis, Cluster(binary, 2, redis=redis) as c:
        used = int(next(line for line in redis('INFO', 'memory').decode().split() if line.startswith('used_memory:'))
                   .partition(':')[2])
        redis('CONFIG', 'SET', 'maxmemory', used + 300000)
        many = range(600)
        for start in range(0, len(many), 100):
            got = _by_display(c, many[start:start + 100], positions=2, server=0)
            for answers in got.values():
                eq({answer.status for answer in answers}, {200})
                _never_mixed(answers)
        made = c.generator.count()
        stats = dict(line.split(':') for line in redis('INFO', 'stats').decode().split() if ':' in line)
        evicted = int(stats['evicted_keys'])
        check(evicted > 0, 'it had to evict')
        check(made <= len(many) + evicted, f'{made} made, {evicted} evicted')
        check(len(redis.records()) < 600, 'some are gone')
        calls = c.generator.count()
        versions = [(c.get(1, f'/d{d}/1'), c.get(1, f'/d{d}/2')) for d in range(0, 600, 20)]
        for pair in versions:
            one_list(pair)
        check(c.generator.count() - calls <= len(versions), 'what was evicted is made once more, what was not is not')


@scene
def volatile_ttl_evicts_whole_records(binary):
    _evicting(binary, 'volatile-ttl')


@scene
def allkeys_lru_evicts_whole_records(binary):
    _evicting(binary, 'allkeys-lru')


# ---- names, passwords, TLS

@scene
def a_name_and_a_password_are_given(binary):
    with Redis() as redis:
        redis('ACL', 'SETUSER', 'lists', 'on', '>pass word/1', '~pal:*', '&pal:*', '+@all')
        url = f'redis://lists:pass%20word%2F1@127.0.0.1:{redis.port}'
        with Cluster(binary, 2, redis=redis, url=url) as c:
            one_list([c.get(n, '/d/1') for n in (0, 1)])
            eq(c.generator.count(), 1)
            check(b'user=lists' in redis('CLIENT', 'LIST'), 'under its name')


@scene
def the_rights_of_a_name_can_be_narrow(binary):
    """The commands that the documentation names are enough."""
    with Redis() as redis:
        redis('ACL', 'SETUSER', 'lists', 'on', '>secret', 'resetkeys', '~pal:f:*', 'resetchannels', '&pal:*', '-@all',
              '+eval', '+evalsha', '+script|load', '+publish', '+subscribe', '+ping', '+info', '+select', '+auth', '+time',
              '+hmget', '+hset', '+hget', '+hdel', '+pexpire', '+exists')
        with Cluster(binary, 2, redis=redis, url=f'redis://lists:secret@127.0.0.1:{redis.port}') as c:
            version = one_list([c.get(n, '/d/1') for n in (0, 1)])
            eq(c.get(0, '/d', method='DELETE').status, 204)
            wait_until(lambda: c.get(1, '/d/1').headers['List-Version'] != version, 'dropped')
            denied = [line for server in c.servers for line in server.stderr().splitlines() if 'NOPERM' in line]
            eq(denied, [])


@scene
def a_wrong_password_is_an_outage_that_is_told(binary):
    with Redis('--requirepass', 'right') as redis:
        with Server(binary, '--set', f'redis.url=redis://:mistaken@127.0.0.1:{redis.port}') as server:
            wait_until(lambda: 'WRONGPASS' in server.stderr(), 'it is told')
            check('mistaken' not in server.stderr(), 'the password is not logged')
            eq(server.request('GET', '/readyz').status, 200, 'it serves all the same')


@scene
def tls_goes_through_stunnel(binary):
    with Redis() as redis, Process('stunnel') as server, Process('stunnel') as client:
        key, port, plain = server.folder / 'key.pem', free_port(), free_port()
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=redis.test',
                        '-keyout', key, '-out', server.folder / 'cert.pem'], check=True, capture_output=True, timeout=60)
        for process, text in ((server, f'accept = 127.0.0.1:{port}\nconnect = 127.0.0.1:{redis.port}\n'
                                       f'cert = {server.folder}/cert.pem\nkey = {key}\n'),
                              (client, f'client = yes\naccept = 127.0.0.1:{plain}\nconnect = 127.0.0.1:{port}\n'
                                       f'CAfile = {server.folder}/cert.pem\nverifyPeer = yes\n')):
            (process.folder / 'conf').write_text(f'foreground = yes\npid =\n[redis]\n{text}')
            process.run(['stunnel4', process.folder / 'conf'])
        server.wait_port(port)
        client.wait_port(plain)
        with Cluster(binary, 2, redis=redis, url=f'redis://127.0.0.1:{plain}') as c:
            one_list([c.get(n, '/d/1') for n in (0, 1)])
            eq(c.generator.count(), 1)
            client.end()
            c.wait_redis(up=False)
            eq(c.get(0, '/e/1').status, 200)


main()
