"""Goal: what real servers leave in Redis takes the memory that docs/several-servers.md says.
Method: displays shown, displays whose generator fails; the growth of used_memory beside the documented formula. Tables of
sizes and states are bench/redis_memory.py's, which writes with the same scripts."""
import sys

import redis_source
from harness import check, eq, main, scene
from list_help import Cluster

sys.path.append(str(redis_source.ROOT / 'bench'))
import redis_memory                             # noqa: E402  pylint: disable=wrong-import-position

COUNT = 400
LONG = {'ttl': '1h', 'stale_ttl': '1h'}
KEPT = ('--set', 'flight.error_base=1h', '--set', 'flight.error_max=1h')


def _ask(c, name, count, status):
    for n in range(count):
        answer = c.servers[0].request_again('GET', f'/localhost/v1/lists/related/{name}{n}/1')
        eq(answer.status, status, str(answer.body))


def _each(c, name, status):
    """Bytes for each of COUNT displays. Some come first, for what is allocated once."""
    _ask(c, name + '-warm-', 40, status)
    before, records = redis_memory.used(c.redis), len(c.redis.records())
    _ask(c, name, COUNT, status)
    eq(len(c.redis.records()) - records, COUNT)
    return (redis_memory.used(c.redis) - before) / COUNT


def _fits(name, measured, said):
    off = said / measured - 1
    check(abs(off) <= redis_memory.OFF_MAX, f'{name}: measured {measured:.0f}, documented {said:.0f}: {off:+.0%}')


@scene
def records_of_servers_take_what_is_documented(binary):
    formula = redis_memory.Formula()
    for items, size in ((5, 100), (20, 300)):
        with Cluster(binary, 1, *KEPT, options={**LONG, 'size': str(items)}) as c:
            c.generator.reply = redis_memory.items_json(items, size).encode()
            measured = _each(c, 'shown', 200)
            payload = c.redis('HGET', c.redis.records()[0], 'val')
            _fits(f'{items} x {size}', measured, formula.bytes('ready', len(payload)))
            c.generator.status = 500
            _fits('failed', _each(c, 'failing', 502), formula.bytes('short', 0))


main()
