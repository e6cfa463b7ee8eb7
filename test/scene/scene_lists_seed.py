"""Goal: each of the twelve defects of the article's command sequence (docs/adr/0018) is one: shown by its own
commands on a real redis-server, and then not to be had from ours on that same server.
Method: seed_lists.Seed step by step; two servers of ours that share the same Redis. Where a time of life has to pass, it
is taken away by PEXPIRE instead of waited for."""
import signal
import threading

from harness import check, eq, main, scene, wait_until
from list_help import Cluster, Redis, RedisError, one_list
from seed_lists import Seed, list_key, lock_key

PARAMS = ('u1', 'de')
MORTAL = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=1s')


def _gone(redis, key):
    """Its time of life passes."""
    redis('PEXPIRE', key, 1)
    wait_until(lambda: redis('EXISTS', key) == 0, f'{key} has run out')


@scene
def defect_1_a_crash_between_two_commands_locks_for_ever(binary):
    with Cluster(binary, 2, *MORTAL, patient=False) as c:
        with Seed(c.redis.port, PARAMS) as first:
            check(first.take_lock(), 'the lock was free')
        # It died before EXPIRE.
        eq(c.redis('TTL', lock_key(PARAMS)), -1, 'the lock never goes')
        with Seed(c.redis.port, PARAMS, wait=1) as second:
            eq(second.request(lambda: 'list'), None, 'nobody ever computes it')
        with c.generator.holding() as gate:
            begun = c.begin([(0, '/d/1')])
            wait_until(lambda: gate.arrived == 1, 'ours leads')
            check(c.redis('PTTL', c.redis.records()[0]) > 0, 'lease and life are one script')
            c.servers[0].kill9()
            begun[0].exception(60)
            gate.open()
            eq(c.get(1, '/d/1').status, 200)


@scene
def defect_2_losers_keep_a_dead_leaders_lock_alive(binary):
    with Cluster(binary, 2) as c:
        with Seed(c.redis.port, PARAMS) as first:
            first.take_lock()
            first.date_lock()
        c.redis('EXPIRE', lock_key(PARAMS), 10)
        with Seed(c.redis.port, PARAMS, wait=1, as_written=True) as loser:
            eq(loser.request(lambda: 'list'), None)
        check(c.redis('TTL', lock_key(PARAMS)) > 50, 'a loser gave it its whole life again')
        with c.generator.holding() as gate:
            begun = c.begin([(0, '/d/1')])
            wait_until(lambda: gate.arrived == 1, 'ours leads')
            before = c.redis('HGET', c.redis.records()[0], 'lx')
            waits = c.begin([(1, '/d/1')])
            wait_until(lambda: c.redis('HGET', c.redis.records()[0], 'w'), 'the other waits')
            eq(c.redis('HGET', c.redis.records()[0], 'lx'), before, 'who waits leaves the lease as it is')
            gate.open()
            one_list([begun[0].result(60), waits[0].result(60)])


@scene
def defect_3_nobody_takes_over_from_a_dead_leader(binary):
    with Cluster(binary, 2, *MORTAL, patient=False) as c:
        with Seed(c.redis.port, PARAMS) as first:
            first.take_lock()
            first.date_lock()
        with Seed(c.redis.port, PARAMS, wait=1) as second:
            eq(second.request(lambda: 'list'), None, 'it waits out its time; the lock is left as it is')
        eq(c.redis('EXISTS', lock_key(PARAMS)), 1)
        with c.generator.holding() as gate:
            begun = c.begin([(0, '/d/1')])
            wait_until(lambda: gate.arrived == 1, 'ours leads')
            waits = c.begin([(1, '/d/1')])
            wait_until(lambda: c.redis('HGET', c.redis.records()[0], 'w'), 'the other waits')
            c.servers[0].kill9()
            begun[0].exception(60)
            wait_until(lambda: gate.arrived == 2, 'who waited leads')
            gate.open()
            eq(waits[0].result(60).status, 200)


@scene
def defect_4_a_late_request_adds_a_second_list(binary):
    with Cluster(binary, 2) as c:
        with Seed(c.redis.port, PARAMS) as s:
            eq(s.request(lambda: 'OLD'), 'OLD')
            _gone(c.redis, lock_key(PARAMS))        # lock_ttl < list_ttl, as the article wants it
            eq(s.request(lambda: 'NEW'), 'NEW', 'it is elected again and never looks at the list')
            eq([s.request(lambda: '') for _ in range(5)], ['OLD', 'NEW', 'OLD', 'NEW', 'OLD'])
        version = one_list([c.get(n, '/d/1') for n in (0, 1)])
        # The lease went with the PUT; whoever comes late finds the list.
        eq(c.redis('HEXISTS', c.redis.records()[0], 'lt'), 0)
        eq(one_list([c.get(n % 2, f'/d/{n + 1}') for n in range(5)]), version)
        eq(c.generator.count(), 1)


@scene
def defect_5_reading_keeps_a_list_for_ever(binary):
    with Cluster(binary, 2) as c:
        with Seed(c.redis.port, PARAMS) as s:
            s.request(lambda: 'list')
            c.redis('EXPIRE', list_key(PARAMS), 10)
            s.request(lambda: '')
            check(c.redis('TTL', list_key(PARAMS)) > 100, 'a reader gave it its whole life again')
        c.get(0, '/d/1')
        record = c.redis.records()[0]
        before = c.redis('HGET', record, 'fu'), c.redis('HGET', record, 'su')
        for p in range(1, 6):
            eq(c.get(1, f'/d/{p}').status, 200)
        eq((c.redis('HGET', record, 'fu'), c.redis('HGET', record, 'su')), before, 'reading prolongs nothing')


@scene
def defect_6_an_error_is_told_to_nobody(binary):
    with Cluster(binary, 2, '--set', 'flight.error_base=20s') as c:
        with Seed(c.redis.port, PARAMS) as s, Seed(c.redis.port, PARAMS, wait=1) as waiter:
            eq(s.request(lambda: None), None, 'the computation failed')
            eq(waiter.request(lambda: 'list'), None, 'whoever waits only knows that nothing came')
        eq(c.redis('EXISTS', list_key(PARAMS)), 0)
        c.generator.status = 500
        eq(c.get(0, '/d/1').status, 502)
        eq(c.get(1, '/d/1').status, 502, 'the error itself')
        eq(c.generator.count(), 1)


@scene
def defect_7_a_slow_leader_gets_a_twin(binary):
    with Cluster(binary, 2, *MORTAL, patient=False) as c:
        with Seed(c.redis.port, PARAMS) as slow, Seed(c.redis.port, PARAMS) as twin:
            slow.take_lock()
            slow.date_lock()
            _gone(c.redis, lock_key(PARAMS))
            eq(twin.request(lambda: 'twin'), 'twin')
            slow.publish('slow')
            eq(c.redis('LLEN', list_key(PARAMS)), 2, 'both are kept')
        with c.generator.holding() as gate:
            begun = c.begin([(0, '/d/1')])
            wait_until(lambda: gate.arrived == 1, 'ours leads')
            waits = c.begin([(1, '/d/1')])
            wait_until(lambda: c.redis('HGET', c.redis.records()[0], 'w'), 'the other waits')
            c.servers[0].signal(signal.SIGSTOP)
            wait_until(lambda: gate.arrived == 2, 'a twin')
            gate.open()
            version = one_list([waits[0].result(60)])
            c.servers[0].signal(signal.SIGCONT)
            eq(begun[0].result(60).status, 200)
        eq(c.redis('HGET', c.redis.records()[0], 'ver').decode(), version, 'the slow one was refused')


@scene
def defect_8_no_lock_outlives_all_readers(binary):
    with Cluster(binary, 2) as c:
        made = []
        with Seed(c.redis.port, PARAMS) as s:
            s.request(lambda: made.append(1) or 'list')
            _gone(c.redis, lock_key(PARAMS))
            s.request(lambda: made.append(2) or 'list')  # a late reader, while the list is there
        eq(made, [1, 2])
        c.get(0, '/d/1')
        eq(c.redis('HMGET', c.redis.records()[0], 'lt', 'lx'), [None, None], 'no lease is left, and none is needed')
        eq(c.get(1, '/d/5').status, 200)
        eq(c.generator.count(), 1)


@scene
def defect_9_each_waiter_holds_a_connection_and_writes(binary):
    with Cluster(binary, 2) as c:
        base = int(c.redis('INFO', 'clients').decode().split('connected_clients:')[1].split()[0])
        waiters = [Seed(c.redis.port, PARAMS, wait=30) for _ in range(50)]
        with Seed(c.redis.port, PARAMS) as s:
            s.take_lock()
            threads = [threading.Thread(target=w.request, args=(lambda: '',)) for w in waiters]
            for thread in threads:
                thread.start()
            wait_until(lambda: b'blocked_clients:50' in c.redis('INFO', 'clients'), 'one blocked client each')
            s.publish('list')
            for thread in threads:
                thread.join(60)
        eq(c.redis.calls()['brpoplpush'], 50)
        for waiter in waiters:
            waiter.close()
        before = c.redis.calls()
        with c.generator.holding() as gate:
            futures = c.begin([(n % 2, '/d/1') for n in range(50)])
            wait_until(lambda: c.total('flight_waiters') == 50 and gate.arrived, 'all wait')
            clients = int(c.redis('INFO', 'clients').decode().split('connected_clients:')[1].split()[0])
            check(clients <= base, f'{clients} connections with 50 waiters, {base} without')
            check(b'blocked_clients:0' in c.redis('INFO', 'clients'), 'nobody is blocked')
            gate.open()
            one_list([future.result(60) for future in futures])
        eq(c.redis.calls()['evalsha'] - before.get('evalsha', 0), 3, 'two JOINs, one PUT')


@scene
def defect_10_keys_run_into_each_other(binary):
    with Cluster(binary, 1) as c:
        eq(lock_key(('ab', 'c')), lock_key(('a', 'bc')))
        with Seed(c.redis.port, ('ab', 'c')) as one, Seed(c.redis.port, ('a', 'bc')) as two:
            one.request(lambda: 'of ab and c')
            eq(two.request(lambda: 'of a and bc'), 'of ab and c', "another's list")
        first, second = c.get(0, '/d/1?user=ab&lang=c'), c.get(0, '/d/1?user=a&lang=bc')
        check(first.body != second.body, 'each its own')
        eq(c.generator.count(), 2)
        check(all('{' in key and '}' in key for key in c.redis.records()), 'one slot of a cluster for each key')


@scene
def defect_11_eviction_takes_locks_and_lists_apart(binary):
    with Redis('--maxmemory-policy', 'volatile-ttl', '--maxmemory-samples', '10') as redis:
        for n in range(300):
            with Seed(redis.port, (f'p{n}-',)) as s:
                s.request(lambda: 'x' * 1000)
        used = int(redis('INFO', 'memory').decode().split('used_memory:')[1].split()[0])
        redis('CONFIG', 'SET', 'maxmemory', used - 60000)
        redis('SET', 'more', 'x')
        broken = sum(redis('EXISTS', lock_key((f'p{n}-',))) != redis('EXISTS', list_key((f'p{n}-',))) for n in range(300))
        check(broken > 0, 'lists without a lock are there, to be made twice and mixed')
    with Redis('--maxmemory-policy', 'noeviction') as redis:
        with Seed(redis.port, PARAMS) as s, Seed(redis.port, PARAMS, wait=1) as waiter:
            s.take_lock()
            s.date_lock()
            redis('CONFIG', 'SET', 'maxmemory', '1')
            try:
                s.publish('list')
                check(False, 'LPUSH has to fail')
            except RedisError as error:
                check('OOM' in str(error), error)
            try:
                eq(waiter.read(), None, 'and who waits hangs')
            except RedisError as error:
                check('OOM' in str(error), error)
        redis('CONFIG', 'SET', 'maxmemory', '0')
        with Cluster(binary, 2, redis=redis) as c:
            redis('CONFIG', 'SET', 'maxmemory', '1')
            for n in (0, 1):
                eq(c.get(n, '/d/1').status, 200)
            eq(redis.records(), [], 'one record or none, never a part')


@scene
def defect_12_a_restart_leaves_waiters_without_an_answer(binary):
    with Cluster(binary, 2) as c:
        ended = []
        with Seed(c.redis.port, PARAMS) as s, Seed(c.redis.port, PARAMS, wait=30) as waiter:
            s.take_lock()

            def wait():
                try:
                    ended.append(waiter.request(lambda: ''))
                except (OSError, ValueError) as error:
                    ended.append(type(error).__name__)
            thread = threading.Thread(target=wait)
            thread.start()
            wait_until(lambda: b'blocked_clients:1' in c.redis('INFO', 'clients'), 'it waits')
            c.redis.restart()
            thread.join(60)
        check(ended and ended[0] in ('ConnectionError', 'ConnectionResetError', 'ValueError'), f'it got {ended}')
        c.wait_redis()
        with c.generator.holding() as gate:
            futures = c.begin([(n, '/d/1') for n in (0, 1)])
            wait_until(lambda: gate.arrived == 1 and c.redis('HGET', c.redis.records()[0], 'w'), 'one leads, one waits')
            c.redis.restart()
            wait_until(lambda: gate.arrived == 2, 'who waited makes its own')
            gate.open()
            for future in futures:
                eq(future.result(60).status, 200, 'all have an answer')


main()
