"""Goal: what a full Redis does under each policy of eviction is what docs/several-servers.md says of it.
Method: a real redis-server whose maxmemory is taken below what it uses, step by step, until what is looked for has
gone; then there is room again, and everybody has to agree. It samples all keys, so that it evicts what its policy says."""
import re

from harness import check, eq, main, scene, wait_until
from list_help import Cluster, Redis, RedisError, one_list

LEASED = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=1s')
LONG = {'ttl': '1h', 'stale_ttl': '1h'}
EXACT = ('--maxmemory-samples', '64')     # more than there are keys
STEP = 200                      # bytes; less than a record
OTHERS_BYTES, OTHERS_MAX = 4096, 5000
ALL_POLICIES = ('volatile-ttl', 'volatile-lru', 'volatile-lfu', 'volatile-random', 'allkeys-lru', 'allkeys-lfu',
                'allkeys-random')


def _figure(redis, section, name):
    return int(re.search(rf'^{name}:(\d+)'.encode(), redis('INFO', section), re.M).group(1))


def _squeeze(redis, enough):
    """Less and less room until enough(keys of flights)."""
    connection = redis.connect()
    try:
        def step():
            connection('CONFIG', 'SET', 'maxmemory', _figure(connection, 'memory', 'used_memory') - STEP)
            return enough({key.decode() for key in connection('KEYS', 'pal:f:*')})
        wait_until(step, 'enough was evicted', 60, pause=0)
    finally:
        connection.close()


def _room(redis):
    redis('CONFIG', 'SET', 'maxmemory', 0)


def _made(c, name, count):
    """count displays, made by one server: {path: record}."""
    records, known = {}, set(c.redis.records())
    for n in range(count):
        eq(c.get(0, f'/{name}{n}/1').status, 200)
        now = set(c.redis.records())
        records[f'/{name}{n}'] = next(iter(now - known))
        known = now
    return records


@scene
def under_each_policy_lists_go_whole_and_are_made_again(binary):
    """What was pushed out is made once more, and all have the new one; the others stand."""
    with Redis(*EXACT) as redis, Cluster(binary, 2, redis=redis, options=LONG) as c:
        for policy in ALL_POLICIES:
            redis('CONFIG', 'SET', 'maxmemory-policy', policy)
            before = _figure(redis, 'stats', 'evicted_keys')
            records = _made(c, policy + '-', 25)
            _squeeze(redis, lambda there: len(there) <= 15)
            _room(redis)
            there = set(redis.records())
            check(_figure(redis, 'stats', 'evicted_keys') - before >= 10, f'{policy}: evictions are counted')
            calls = c.generator.count()
            for path in records:
                one_list([c.get(1, f'{path}/{p}') for p in (1, 2)])
            eq(c.generator.count() - calls, len(set(records.values()) - there), f'{policy}: made again')
            redis('FLUSHALL')


@scene
def volatile_ttl_gives_up_first_what_is_being_made(binary):
    """A record without a value lives for flight.make_timeout and a second, a list longer: it is nearest to its end."""
    with Redis('--maxmemory-policy', 'volatile-ttl', *EXACT) as redis:
        with Cluster(binary, 2, *LEASED, redis=redis, options=LONG, patient=False) as c:
            lists = set(_made(c, 'd', 20).values())
            with c.generator.holding() as gate:
                futures = c.begin([(0, '/made/1')])
                wait_until(lambda: gate.arrived == 1, 'one leads')
                record = next(iter(set(redis.records()) - lists))
                futures += c.begin([(1, '/made/2')])
                wait_until(lambda: redis('HGET', record, 'w'), 'the other waits')

                def is_gone(there):
                    check(record not in there or lists <= there, 'a list went before it')
                    return record not in there
                _squeeze(redis, is_gone)
                _room(redis)
                # Nobody tells who waits; the end of the lease does, and it makes one of its own.
                wait_until(lambda: gate.arrived == 2, 'who waited leads')
                gate.open()
                version = one_list([future.result(60) for future in futures])
            eq(c.generator.count('made'), 2, 'twice instead of once')
            eq(c.total('shared_takeovers_total'), 1, 'it can be seen')
            eq(one_list([c.get(n, f'/made/{p}') for n in (0, 1) for p in (3, 4)]), version, 'and one list for all')


@scene
def lru_keeps_what_is_asked_for_and_what_is_being_made(binary):
    with Redis(*EXACT) as redis, Cluster(binary, 2, *LEASED, redis=redis, options=LONG, patient=False) as c:
        for policy in ('allkeys-lru', 'volatile-lru'):
            redis('CONFIG', 'SET', 'maxmemory-policy', policy)
            lists = _made(c, policy + '-', 60)
            last = list(lists.values())[-1]
            wait_until(lambda last=last: redis('OBJECT', 'IDLETIME', last) >= 5, 'nobody has asked for five seconds')
            hot = list(lists)[:10]
            with c.generator.holding() as gate:
                begun = c.begin([(0, f'/{policy}/1')])
                wait_until(lambda gate=gate: gate.arrived == 1, 'one leads')
                made = set(redis.records()) - set(lists.values())
                eq(len(made), 1)
                for path in hot:
                    eq(c.get(1, f'{path}/1').status, 200)
                _squeeze(redis, lambda there: len(there) <= 40)
                _room(redis)
                there = set(redis.records())
                check(made <= there, f'{policy}: what is being made')
                check({lists[path] for path in hot} <= there, f'{policy}: what was asked for')
                gate.open()
                eq(begun[0].result(60).status, 200)
            eq(c.generator.count(policy), 1, 'made once')
            redis('FLUSHALL')


@scene
def keys_without_an_end_push_ours_out_of_volatile_policies(binary):
    """Only ours have one: all of them go, then Redis refuses, and each server makes its own."""
    with Redis('--maxmemory-policy', 'volatile-lru') as redis, Cluster(binary, 2, redis=redis, options=LONG) as c:
        _made(c, 'd', 20)
        redis('CONFIG', 'SET', 'maxmemory', _figure(redis, 'memory', 'used_memory'))
        connection, refused = redis.connect(), None
        try:
            for n in range(OTHERS_MAX):
                connection('SET', f'other:{n}', 'x' * OTHERS_BYTES)
        except RedisError as error:
            refused = str(error)
        finally:
            connection.close()
        check(refused is not None and refused.startswith('OOM'), f'others are refused too: {refused}')
        eq(redis.records(), [], 'ours')
        redis('CONFIG', 'SET', 'maxmemory', 1)      # what a closed connection gave back is not to be enough
        before = c.total('shared_alone_total')
        answers = [c.get(n, '/new/1') for n in (0, 1)]
        eq([answer.status for answer in answers], [200, 200])
        eq(c.total('shared_alone_total') - before, 2, 'each alone')
        eq(c.total('redis_up'), 2, 'it is there all the same')
        check(answers[0].headers['List-Version'] != answers[1].headers['List-Version'], 'two lists of one display')


@scene
def noeviction_keeps_what_is_there_and_takes_nothing_new(binary):
    with Redis('--maxmemory-policy', 'noeviction') as redis:
        with Cluster(binary, 2, *LEASED, redis=redis, options=LONG, patient=False) as c:
            version = c.get(0, '/before/1').headers['List-Version']
            with c.generator.holding() as gate:
                futures = c.begin([(0, '/made/1')])
                wait_until(lambda: gate.arrived == 1, 'one leads')
                futures += c.begin([(1, '/made/1')])
                wait_until(lambda: c.metric(1, 'shared_waits_total') >= 1, 'the other waits')
                redis('CONFIG', 'SET', 'maxmemory', 1)
                # The lease cannot be renewed and not be given to another either: who waits makes its own.
                wait_until(lambda: gate.arrived == 2, 'who waited is alone')
                gate.open()
                answers = [future.result(60) for future in futures]
            eq([answer.status for answer in answers], [200, 200])
            for answer in answers:
                check('degraded' in answer.headers['Cache-Status'], answer.headers['Cache-Status'])
            eq(c.get(1, '/before/2').headers['List-Version'], version, 'what was there is shared as before')
            new = [c.get(n, '/new/1') for n in (0, 1)]
            check(new[0].headers['List-Version'] != new[1].headers['List-Version'], 'two lists of one display')
            check(c.total('shared_alone_total') >= 3, 'it can be seen')
            eq(c.total('redis_up'), 2, 'it is there all the same')
            eq(_figure(redis, 'stats', 'evicted_keys'), 0)
            dropped = c.get(0, '/before', method='DELETE')
            eq(dropped.status, 503, 'a delete is not told to others')
            check('redis_away' in dropped.body['type'], dropped.body)
            _room(redis)
            eq(c.get(0, '/before', method='DELETE').status, 204)
            one_list([c.get(n, f'/after/{n + 1}') for n in (0, 1)])


@scene
def noeviction_and_fail_refuse_what_is_new(binary):
    with Redis('--maxmemory-policy', 'noeviction') as redis:
        with Cluster(binary, 2, redis=redis, options={**LONG, 'degrade': 'fail'}) as c:
            version = c.get(0, '/before/1').headers['List-Version']
            redis('CONFIG', 'SET', 'maxmemory', 1)
            refused = c.get(0, '/new/1')
            eq(refused.status, 503, refused.body)
            check(int(refused.headers['Retry-After']) >= 1, 'when to come again')
            eq(c.get(1, '/before/1').headers['List-Version'], version)
            eq(c.generator.count(), 1)


main()
