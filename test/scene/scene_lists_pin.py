"""Goal: a display sees one list, whichever server answers and however late; a client that names a version keeps it; what
is lost is told.
Method: a generator whose lists are all different, or rotate their items, lists that are fresh for a second, servers and a
Redis that die meanwhile."""
import json
import signal

from harness import check, eq, main, scene, wait_until
from list_help import Cluster, Redis, one_list

BRIEF = {'ttl': '1s', 'stale_ttl': '0'}
STALE = {'ttl': '1s', 'stale_ttl': '1h'}


def _version(c, server, path, headers=None):
    answer = c.get(server, path, headers)
    eq(answer.status, 200, answer.body)
    return answer.headers['List-Version']


def _outlives(c, server=0):
    """The time of a list is over: another, of no display, is the proof."""
    version = _version(c, server, '/*/1')
    wait_until(lambda: _version(c, server, '/*/1') != version, 'a list of no display changes')


@scene
def a_display_that_outlives_ttl_sees_one_list(binary):
    with Cluster(binary, 4, options=BRIEF) as c:
        answers = [c.get(0, '/d/1'), c.get(1, '/d/2')]
        for server, p in ((2, 3), (3, 4), (0, 5)):
            _outlives(c)
            answers.append(c.get(server, f'/d/{p}'))
        one_list(answers)
        eq(c.generator.count('d'), 1)
        check('max-age=0' in answers[-1].headers['Cache-Control'], answers[-1].headers['Cache-Control'])


@scene
def one_server_without_redis_keeps_a_displays_list(binary):
    with Cluster(binary, 1, redis=False, options=BRIEF) as c:
        answers = [c.get(0, '/d/1')]
        for p in range(2, 6):
            _outlives(c)
            answers.append(c.get(0, f'/d/{p}'))
        one_list(answers)


@scene
def a_display_keeps_its_list_while_servers_and_redis_die(binary):
    with Cluster(binary, 3, options=BRIEF) as c:
        answers = [c.get(0, '/d/1'), c.get(1, '/d/2')]
        c.servers[0].signal(signal.SIGKILL)
        c.servers[0].wait_exit()
        _outlives(c, 1)
        answers.append(c.get(1, '/d/3'))
        c.redis.end()
        c.wait_redis(up=False)
        _outlives(c, 1)
        answers.append(c.get(1, '/d/4'))
        c.redis.start()
        c.wait_redis()
        answers.append(c.get(1, '/d/5'))
        answers.append(c.get(2, '/d/1'))
        one_list(answers)
        eq(c.generator.count('d'), 1)


def _next_ms(c):
    """Redis's clock has moved by a millisecond: of two displays of one, either may be the older."""
    def clock():
        seconds, us = map(int, c.redis('TIME'))
        return seconds * 1000 + us // 1000
    now = clock()
    wait_until(lambda: clock() > now, 'the next millisecond')


def _version_later(c, server, path):
    _next_ms(c)
    return _version(c, server, path)


@scene
def a_display_of_too_many_loses_its_list_and_is_told(binary):
    with Cluster(binary, 2, options={**BRIEF, 'displays_max': '2'}) as c:
        versions = [_version_later(c, 0, f'/d{n}/1') for n in range(3)]
        lost = c.get(1, '/d0/2', {'List-Version': versions[0]})
        eq((lost.status, lost.headers['List-Pin']), (200, 'lost'))
        check(lost.headers['List-Version'] != versions[0], 'another list')
        kept = c.get(1, '/d2/2', {'List-Version': versions[2]})
        eq((kept.headers['List-Version'], kept.headers['List-Pin']), (versions[2], 'kept'))
        eq((c.metric(1, 'list_pins_lost_total'), c.metric(1, 'list_pins_kept_total')), (1, 1))
        check(c.total('shared_unpinned_total') >= 1, 'the servers count')
        check(c.metric(1, 'list_entries') >= 1 and c.metric(1, 'list_bytes') > 0, 'lists that are kept count')
        wait_until(lambda: 'list.pin_lost' in c.servers[1].stderr(), 'the log says so')


@scene
def a_user_of_redis_who_may_not_count_displays_can_be_used(binary):
    rules = ('~pal:f:*', '&pal:*', '+@all', '-zadd', '-zcard', '-zpopmin', '-zremrangebyscore')
    with Redis() as redis:
        redis('ACL', 'SETUSER', 'lists', 'on', '>secret', 'resetkeys', 'resetchannels', '-@all', *rules)
        url = f'redis://lists:secret@127.0.0.1:{redis.port}'
        with Cluster(binary, 2, redis=redis, url=url, options={**BRIEF, 'displays_max': '1'}) as c:
            shown = [_version(c, 0, f'/d{n}/1') for n in range(3)]
            eq([_version(c, 1, f'/d{n}/2') for n in range(3)], shown, 'nobody loses anything')
            eq(c.total('shared_alone_total'), 0)


@scene
def a_client_keeps_the_version_it_names(binary):
    with Cluster(binary, 3, options=STALE) as c:
        first = _version(c, 0, '/*/1')
        named = {'List-Version': first}
        for _ in range(3):
            _outlives(c, 1)
        answers = [c.get(p % 3, f'/*/{p}', named) for p in range(1, 6)]
        eq(one_list(answers), first)
        for answer in answers:
            eq((answer.headers['List-Pin'], answer.headers['Vary']), ('kept', 'List-Version'))
        check(_version(c, 2, '/*/1') != first, 'who names none gets the last')
        other = c.get(2, '/*/1', {'List-Version': '1.none'})
        eq((other.status, other.headers['List-Pin']), (200, 'lost'))
        for odd in ('"x"', 'a' * 300, '9' * 64 + '.a', ' '):
            eq(c.get(2, '/*/1', {'List-Version': odd}).status, 200, odd)
        eq(c.get(1, '/*/1', method='DELETE').status, 204)
        answer = c.get(1, '/*/1', named)
        eq((answer.status, answer.headers['List-Pin']), (200, 'lost'))


@scene
def five_equal_items_are_no_list(binary):
    with Cluster(binary, 1, redis=False, options={'unique_by': None}) as c:
        c.generator.reply = json.dumps([{'link': 'a', 'image': 'b'}] * 5).encode()
        answer = c.get(0, '/d/1')
        eq(answer.status, 502)
        check('two items are the same' in answer.body['detail'], answer.body)


main()
