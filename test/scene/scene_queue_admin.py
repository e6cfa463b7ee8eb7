"""Goal: queues as such: what create, update, list, info and delete do, also to queues at work, and over restarts. Method:
both encodings; a clock that stands."""
import datetime
import time

from harness import Server, check, eq, main, scene
from queue_help import (BOTH, START, complete, create, fine, lease, nothing_to_lease, produce, queue_server, refused, retry,
                        stored)


def info(server, name, wire='json'):
    return fine(server, '/v1/queues.info', {'queue_name': name}, wire)


def names(server, wire='json', **body):
    return [queue['queue_name'] for queue in fine(server, '/v1/queues.list', body, wire).get('items', [])]


def update(server, name, wire='json', headers=None, **body):
    eq(fine(server, '/v1/queues.update', {'queue_name': name, **body}, wire, headers), {'code': 200})


@scene
def a_queue_is_as_it_was_made(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        for wire in BOTH:
            name = f'q-{wire}'
            create(server, name, 3, wire, lease_timeout='90s', expire_timeout='1440m', max_attempts=5, reference='r\0é',
                   dead_queue='dead')
            wanted = {'queue_name': name, 'created_at': START, 'updated_at': START, 'dead_queue': 'dead', 'reference': 'r\0é',
                      'lease_timeout': '1m30s', 'expire_timeout': '24h0m0s', 'max_attempts': 5, 'requested_partitions': 3,
                      'namespace': '_system'}
            eq(info(server, name, wire), wanted)
            [listed] = fine(server, '/v1/queues.list', {'pivot': name, 'limit': 1}, wire)['items']
            eq(listed, wanted)
        server.kill9()
        server.start()
        eq(info(server, 'q-json')['reference'], 'r\0é')


@scene
def lists_begin_at_their_pivot(binary):
    with queue_server(binary) as server:
        for i in (3, 1, 2, 0):
            create(server, f'q{i}')
        for wire in BOTH:
            eq(names(server, wire), ['q0', 'q1', 'q2', 'q3'])
            eq(names(server, wire, pivot='q1', limit=2), ['q1', 'q2'])
            eq(names(server, wire, pivot='q1a'), ['q2', 'q3'], 'the pivot need not be there')
            eq(names(server, wire, pivot='r'), [])
            eq(names(server, wire, namespace='other'), [])


@scene
def update_keeps_what_is_absent_and_replaces_the_rest_at_once(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        create(server, 'q', 2, max_attempts=5, reference='r', dead_queue='dead')
        server.clock(advance='10s')
        update(server, 'q', 'json')
        got = info(server, 'q')
        eq((got['lease_timeout'], got['expire_timeout'], got['requested_partitions']), ('1m0s', '24h0m0s', 2))
        eq([field for field in ('max_attempts', 'reference', 'dead_queue') if field in got], [], 'replaced by nothing')
        eq((got['created_at'], got['updated_at']), (START, '2026-01-01T00:00:10Z'))
        update(server, 'q', 'protobuf', lease_timeout='5s', max_attempts=1, dead_queue='dead')
        eq(info(server, 'q')['lease_timeout'], '5s')
        produce(server, 'q', 'x')
        partition, [item] = lease(server, 'q')
        eq(item['lease_deadline'], '2026-01-01T00:00:15Z')
        server.clock(advance='5s')
        eq([one['payload'] for one in stored(server, 'dead')], [b'x'], 'one attempt, as updated')
        check(partition in (0, 1), partition)
        refused(server, '/v1/queues.update', {'queue_name': 'q', 'lease_timeout': '25h'}, 400,
                'lease timeout is too long; 25h0m0s cannot be greater than the expire timeout 24h0m0s')
        eq(info(server, 'q')['lease_timeout'], '5s')
        server.kill9()
        server.start()
        eq(info(server, 'q')['lease_timeout'], '5s')


@scene
def a_deleted_queue_is_gone_and_a_new_one_of_its_name_empty(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'old')
        produce(server, 'q', 'later', enqueue_at='2026-01-01T00:00:01Z')
        lease(server, 'q')
        fine(server, '/v1/queues.delete', {'queue_name': 'q', 'force': True})
        refused(server, '/v1/queue.stats', {'queue_name': 'q'}, 400, "queue does not exist; no such queue named 'q'")
        refused(server, '/v1/queues.delete', {'queue_name': 'q'}, 400, "queue does not exist; no such queue named 'q'")
        create(server, 'q')
        server.clock(advance='2m')
        eq(stored(server, 'q') + stored(server, 'q', scheduled=True), [])
        nothing_to_lease(server, 'q')
        server.restart()
        eq(stored(server, 'q'), [])


@scene
def a_queue_used_as_dead_queue_may_be_deleted(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        create(server, 'q', dead_queue='dead', max_attempts=1)
        for text, why in (('unnamed', "queue is in use; it is the dead queue of others (1), give them another first"),
                          ('force', 'queue-delete is invalid; unnamed is wanted')):
            refused(server, '/v1/queues.delete', {'queue_name': 'dead'}, 400, why, headers={'Queue-Delete': text})
        fine(server, '/v1/queues.delete', {'queue_name': 'dead'})
        produce(server, 'q', 'a')
        _, items = lease(server, 'q')
        retry(server, 'q', items)
        nothing_to_lease(server, 'q')


@scene
def names_are_never_paths(binary):
    with queue_server(binary) as server:
        for name in ('../up', '/etc/passwd', '.', '..', 'a/b', '%2e%2e', 'ü'):
            create(server, name)
            produce(server, name, name)
            _, items = lease(server, name)
            eq([item['bytes'] for item in items], [name.encode()])
            complete(server, name, items)
        eq(len(names(server)), 7)
        check(not (server.data.parent / 'up').exists(), 'a folder outside')


@scene
def created_at_is_later_than_the_callers_clock(binary):
    with Server(binary) as server:
        before = time.time_ns()
        create(server, 'q')
        text = info(server, 'q')['created_at'].rstrip('Z')
        whole, _, fraction = text.partition('.')
        at = int(datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc).timestamp()) * 10**9
        at += int(fraction.ljust(9, '0') or 0)
        check(before < at < time.time_ns(), f'{before} < {at}')


@scene
def durability_is_said_in_a_header(binary):
    with queue_server(binary) as server:
        for wanted in ('interval', 'none', 'sync'):
            create(server, wanted, headers={'Queue-Durability': wanted})
            got = fine(server, '/v1/partitions.list', {'queue_name': wanted})
            eq(got['durability'], wanted)
            produce(server, wanted, 'x')
            _, items = lease(server, wanted)
            complete(server, wanted, items)
        update(server, 'sync', headers={'Queue-Durability': 'interval'})
        eq(fine(server, '/v1/partitions.list', {'queue_name': 'sync'})['durability'], 'interval')
        update(server, 'sync')
        eq(fine(server, '/v1/partitions.list', {'queue_name': 'sync'})['durability'], 'interval', 'kept')
        refused(server, '/v1/queues.create', {'queue_name': 'x', 'lease_timeout': '1m', 'expire_timeout': '1h',
                                              'requested_partitions': 1}, 400,
                'queue-durability is invalid; sync, interval or none is wanted', headers={'Queue-Durability': 'often'})


@scene
def what_admins_do_is_logged(binary):
    with queue_server(binary) as server:
        create(server, 'q"2')
        fine(server, '/v1/queue.clear', {'queue_name': 'q"2', 'queue': True})
        fine(server, '/v1/queues.delete', {'queue_name': 'q"2'})
        lines = [line for line in server.stderr().splitlines() if 'queue.audit' in line]
        eq([line.split('what=')[1].split()[0] for line in lines], ['queues.create', 'queue.clear', 'queues.delete'])
        check(all('outcome=ok' in line and 'peer=127.0.0.1' in line for line in lines), lines)


main()
