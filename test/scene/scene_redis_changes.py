"""Goal: a Redis that changes while servers use it costs sharing and no more: one that evicts under load, one that becomes
a replica and a master again, one whose user loses rights and gets them back.
Method: a real redis-server that is told so, two or three servers, displays that are asked for all the while."""
import concurrent.futures
import re

from harness import check, eq, main, scene, wait_until
from list_help import Cluster, Redis, one_list

QUICK = ('--set', 'redis.timeout=500ms', '--set', 'redis.lease=2s')
LONG = {'ttl': '1h', 'stale_ttl': '1h'}


def _show(c, number):
    """Five positions of one display, from all servers in turn; how many were told that they lost their list."""
    version, lost, rounds = None, 0, {}
    for p in range(1, 6):
        answer = c.get((number + p) % len(c.servers), f'/d{number}/{p}', {'List-Version': version} if version else {})
        eq(answer.status, 200, answer.body)
        now = answer.headers['List-Version']
        check(now == version or version is None or answer.headers['List-Pin'] == 'lost', 'another list without a word')
        lost += version not in (None, now)
        rounds.setdefault(now, []).append(answer)
        version = now
    for answers in rounds.values():
        one_list(answers)
    return lost


@scene
def what_is_evicted_under_load_is_told(binary):
    with Redis('--maxmemory', '1700kb', '--maxmemory-policy', 'allkeys-lru') as redis:
        with Cluster(binary, 3, redis=redis, options=LONG) as c:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                lost = sum(pool.map(lambda number: _show(c, number), range(800)))
            evicted = int(re.search(r'evicted_keys:(\d+)', redis('INFO', 'stats').decode()).group(1))
            check(evicted > 0, 'nothing was evicted')
            eq(c.total('list_pins_lost_total'), lost)
            eq(c.total('shared_alone_total'), 0)


def _lines(c, event):
    return sum(server.stderr().count(event) for server in c.servers)


@scene
def a_redis_that_becomes_a_replica_is_away_until_it_is_a_master(binary):
    with Redis() as other, Cluster(binary, 2, *QUICK, options=LONG, patient=False) as c:
        answers = [c.get(0, '/d/1'), c.get(1, '/d/2')]
        c.redis('REPLICAOF', '127.0.0.1', other.port)
        eq(c.get(0, '/new/1').status, 200)
        c.get(1, '/newer/1')
        c.wait_redis(up=False)
        downs = _lines(c, 'redis.down')
        tried = _lines(c, 'redis.not_up')

        def goes_on():
            for p in range(10):
                eq(c.get(p % 2, f'/n{len(answers)}/1').status, 200)
                answers.append(c.get(p % 2, f'/d/{p % 5 + 1}'))
            return _lines(c, 'redis.not_up') >= tried + 4
        wait_until(goes_on, 'they try again')
        one_list(answers)
        eq(_lines(c, 'redis.down'), downs, 'it does not come and go')
        check(_lines(c, 'replica') > 0, 'the log says why')
        c.redis('REPLICAOF', 'NO', 'ONE')
        c.wait_redis()
        one_list([c.get(0, '/after/1'), c.get(1, '/after/2')])


@scene
def a_user_who_loses_rights_costs_sharing_and_is_told(binary):
    rules = ('~pal:*', '&pal:*', '+@all')
    with Redis() as redis:
        redis('ACL', 'SETUSER', 'lists', 'on', '>secret', 'resetkeys', 'resetchannels', '-@all', *rules)
        url = f'redis://lists:secret@127.0.0.1:{redis.port}'
        with Cluster(binary, 2, *QUICK, redis=redis, url=url, options=LONG, patient=False) as c:
            one_list([c.get(0, '/a/1'), c.get(1, '/a/2')])
            redis('ACL', 'SETUSER', 'lists', '-evalsha', '-eval')
            for n in range(20):
                eq(c.get(n % 2, f'/b{n}/1').status, 200)
            check(c.total('shared_alone_total') >= 20, 'each makes its own')
            check(0 < _lines(c, 'redis.refused') <= 2, 'the log says so, and not each time')
            redis('ACL', 'SETUSER', 'lists', '+evalsha', '+eval')
            one_list([c.get(0, '/c/1'), c.get(1, '/c/2')])
            redis('ACL', 'SETUSER', 'lists', 'resetchannels')       # Redis ends who is subscribed
            c.wait_redis(up=False)
            eq(c.get(0, '/d/1').status, 200)
            redis('ACL', 'SETUSER', 'lists', '&pal:*')
            c.wait_redis()
            redis('ACL', 'SETUSER', 'lists', '-hset')               # within scripts
            eq(c.get(0, '/e/1').status, 200)
            redis('ACL', 'SETUSER', 'lists', '+hset', '-publish')   # nobody could be told
            c.wait_redis(up=False)
            eq(c.get(0, '/f/1').status, 200)
            redis('ACL', 'SETUSER', 'lists', '+publish')
            c.wait_redis()
            one_list([c.get(0, '/h/1'), c.get(1, '/h/2')])
            redis('ACL', 'DELUSER', 'lists')
            c.wait_redis(up=False)
            eq(c.get(1, '/g/1').status, 200)


main()
