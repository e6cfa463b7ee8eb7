"""Goal: what a rule puts into a queue comes into it, also when the queue is in PostgreSQL, whoever dies meanwhile.
Method: a queue on a cluster; events before the cluster is killed, while it is away, and after; the server is killed, too. Everything
that can be leased is taken, until each event was seen."""
import json
import pathlib
import sys

from change_help import rule_comes_to, rule_of, tell_events
from harness import check, eq, main, scene, wait_until
from reload_help import Reloaded

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
from pg_cluster import Cluster  # pylint: disable=wrong-import-position

EACH = 50
WAIT = 120      # for whatever has to come about on a busy machine
RULES = json.dumps({'domains': {'localhost': {}}, 'change': {'rules': {
    'work': {'match': {'stream': 't'}, 'effect': 'produce', 'queue': 'work'}}}})


def tell(server, what):
    """Titles of events that were taken."""
    titles = [f'{what}{n}' for n in range(EACH)]
    tell_events(server, *({'meta': {'stream': 't', 'domain': 'localhost'}, 'page_title': title} for title in titles))
    return titles


def lease(server, seen):
    """Takes what there is; seen: titles, as often as they came."""
    answer = server.json('POST', '/v1/queue.lease', body={'queue_name': 'work', 'batch_size': 100, 'client_id': 'c', 'request_timeout': '100ms'})
    if answer.status == 200:
        seen.extend(item['reference'] for item in answer.body.get('items', []))


@scene
def a_queue_in_postgresql_gets_all_whoever_dies(binary):
    with Cluster(options=('shared_buffers=16MB',)) as cluster, \
            Reloaded(binary, RULES, '--set', f'queue.stores=b={cluster.url}', '--set', 'queue.write_timeout=2s') as r:
        eq(r.server.json('POST', '/v1/queues.create', body={'queue_name': 'work', 'lease_timeout': '1h', 'expire_timeout': '24h',
                                                            'requested_partitions': 1}).status, 200)
        titles, seen = tell(r.server, 'before'), []
        rule_comes_to(r.server, 'work', done=EACH)
        titles += tell(r.server, 'dying')
        cluster.kill()
        titles += tell(r.server, 'away')
        wait_until(lambda: rule_of(r.server, 'work')['last_error'], 'the rule finds no room for its items', timeout=WAIT)
        r.server.kill9()
        r.server.start()
        titles += tell(r.server, 'started')
        cluster.start()
        titles += tell(r.server, 'after')

        def all_came():
            lease(r.server, seen)
            return set(titles) <= set(seen)
        wait_until(all_came, 'each event is in the queue', timeout=WAIT)
        rule_comes_to(r.server, 'work', timeout=WAIT, ready=0, waiting=0, scheduled=0, running=0, dead=0)
        eq(set(seen), set(titles))
        check(seen.count('before0') == 1, 'what was put in before anybody died came once')


main()
