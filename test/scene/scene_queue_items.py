"""Goal: what happens to items over the wire: order, ids, leases, returns, schedules, dead queues, lists, imports. Method:
a server whose clock is moved; both encodings where they matter."""
import base64
import datetime

from harness import check, eq, main, scene
from queue_help import (BOTH, NO_ITEMS, ZERO, call, complete, create, fine, lease, nothing_to_lease, produce, queue_server,
                        refused, retry, stats, stored, waits_longer_than_it_lives)


LETTERS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'


def seconds(text):
    text = text.rstrip('Z').partition('.')[0]
    return int(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp())


def after(text):
    """The id behind this one: pages begin at their pivot, which need not be there."""
    digits = [LETTERS.index(letter) for letter in text]
    at = len(digits) - 1
    while digits[at] == 61:
        digits[at], at = 0, at - 1
    digits[at] += 1
    return ''.join(LETTERS[digit] for digit in digits)


@scene
def an_item_goes_its_way(binary):
    with queue_server(binary) as server:
        for wire in BOTH:
            create(server, f'q-{wire}', wire=wire)
            name = f'q-{wire}'
            produce(server, name, 'hello\0\xff', wire=wire, encoding='e', kind='k', reference='r')
            [lying] = stored(server, name, wire=wire)
            eq(lying['lease_deadline'], ZERO)
            eq(lying.get('is_leased', False), False)
            eq(seconds(lying['expire_deadline']) - seconds(lying['created_at']), 86400)
            partition, [item] = lease(server, name, wire=wire)
            eq((partition, item['bytes'], item['encoding'], item['kind'], item['reference'], item['attempts'], item['id']),
               (0, 'hello\0\xff'.encode(), 'e', 'k', 'r', 1, lying['id']))
            eq(seconds(item['lease_deadline']) - seconds(lying['created_at']), 60)
            [lying] = stored(server, name, wire=wire)
            eq((lying['is_leased'], lying['attempts'], lying['lease_deadline']), (True, 1, item['lease_deadline']))
            complete(server, name, [item], wire=wire)
            eq(stored(server, name, wire=wire), [])
            body = {'queue_name': name, 'request_timeout': '1m', 'ids': [item['id']]}
            refused(server, '/v1/queue.complete', body, 400, f"invalid storage id; '{item['id']}' does not exist", wire)
            nothing_to_lease(server, name, wire=wire)


@scene
def ids_are_ksuids_in_order(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        for i in range(5):
            produce(server, 'q', *[f'{i}-{k}' for k in range(20)])
        items = stored(server, 'q')
        eq([item['payload'].decode() for item in items], [f'{i}-{k}' for i in range(5) for k in range(20)])
        ids = [item['id'] for item in items]
        eq(ids, sorted(set(ids)))
        for one in ids:
            check(len(one) == 27 and all(letter in LETTERS for letter in one), one)
        _, leased = lease(server, 'q', 1000)
        eq([item['id'] for item in leased], ids)


@scene
def utf8_and_nothing_are_payloads(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        items = [{'utf8': 'é\0'}, {'bytes': base64.b64encode(b'b').decode(), 'utf8': 'u'}, {}, {'bytes': '', 'utf8': 'v'}]
        for wire in BOTH:
            fine(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '1m', 'items': items}, wire)
            _, leased = lease(server, 'q', 10)
            eq([item['bytes'] for item in leased], ['é\0'.encode(), b'b', b'', b'v'])


@scene
def an_expired_lease_returns_under_a_new_id(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'a', 'b')
        _, [first] = lease(server, 'q')
        server.clock(advance='60s')
        _, items = lease(server, 'q', 10)
        eq([item['bytes'] for item in items], [b'b', b'a'], 'it goes to the tail')
        check(items[1]['id'] > items[0]['id'] > first['id'], 'ids grow')
        eq([item['attempts'] for item in items], [1, 2])
        refused(server, '/v1/queue.complete', {'queue_name': 'q', 'request_timeout': '1m', 'ids': [first['id']]}, 400,
                f"invalid storage id; '{first['id']}' does not exist")
        complete(server, 'q', items)


@scene
def a_retried_item_goes_to_the_tail_or_waits(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'a', 'b')
        _, [item] = lease(server, 'q')
        retry(server, 'q', [item])
        _, items = lease(server, 'q', 10)
        eq([(one['bytes'], one['attempts']) for one in items], [(b'b', 1), (b'a', 2)])
        complete(server, 'q', items[1:])
        retry(server, 'q', items[:1], retry_at='2026-01-01T01:00:00Z')
        [waiting] = stored(server, 'q', scheduled=True)
        eq(waiting['payload'], b'b')
        eq(stored(server, 'q'), [])
        server.clock(advance='3599s')
        eq(len(stored(server, 'q', scheduled=True)), 1)
        server.clock(advance='1s')
        _, [back] = lease(server, 'q')
        eq((back['bytes'], back['attempts']), (b'b', 2))
        check(back['id'] > waiting['id'], 'a due schedule gives a new id')


@scene
def scheduled_items_come_out_in_time_also_behind_earlier_ones(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'late', enqueue_at='2026-01-01T00:00:02.5Z')
        produce(server, 'q', 'early', enqueue_at='2026-01-01T00:00:01Z')
        produce(server, 'q', 'now', enqueue_at='2026-01-01T00:00:00.1Z')
        produce(server, 'q', 'past', enqueue_at='1999-01-01T00:00:00Z')
        eq([one['payload'] for one in stored(server, 'q')], [b'now', b'past'])
        eq([part['scheduled'] for part in stats(server, 'q')['partitions']], [2])
        server.clock(advance='1s')
        eq([one['payload'] for one in stored(server, 'q')], [b'now', b'past', b'early'])
        server.restart()
        server.clock(freeze='2026-01-01T00:00:02.5Z')
        eq([one['payload'] for one in stored(server, 'q')], [b'now', b'past', b'early', b'late'])


@scene
def an_item_may_wait_longer_than_it_lives(binary):
    """Over kill -9 and from one store to the other."""
    stores = ['b', 'a', 'b']

    def between(server):
        server.kill9()
        server.start()
        fine(server, '/v1/partitions.move', {'queue_name': 'q', 'partition': 0, 'store': stores.pop()})

    with queue_server(binary, '--set', 'queue.stores=a=q-a, b=q-b') as server:
        waits_longer_than_it_lives(server, 'q', between)


@scene
def what_fails_too_often_goes_to_the_dead_queue(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        create(server, 'q', dead_queue='dead', max_attempts=2)
        produce(server, 'q', 'a', reference='r')
        for _ in range(2):
            _, [item] = lease(server, 'q')
            retry(server, 'q', [item])
        nothing_to_lease(server, 'q')
        [grave] = stored(server, 'dead')
        eq((grave['payload'], grave['reference'], grave.get('attempts', 0), grave['source_id']),
           (b'a', 'r', 0, item['id']))
        produce(server, 'q', 'b')
        for _ in range(2):
            _, [item] = lease(server, 'q')
            server.clock(advance='1m')
        eq([one['payload'] for one in stored(server, 'dead')], [b'a', b'b'])
        eq(stored(server, 'q'), [])


@scene
def dead_true_reaches_the_dead_queue_and_without_one_the_item_goes(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        create(server, 'q', dead_queue='dead')
        create(server, 'none')
        for name in ('q', 'none'):
            produce(server, name, 'a')
            _, [item] = lease(server, name)
            retry(server, name, [item], dead=True)
            nothing_to_lease(server, name)
            eq(stored(server, name), [])
        eq([one['payload'] for one in stored(server, 'dead')], [b'a'])


@scene
def a_live_lease_is_never_swept(binary):
    with queue_server(binary) as server:
        create(server, 'q', lease_timeout='1h', expire_timeout='2h', max_attempts=1)
        produce(server, 'q', 'a', 'b')
        server.clock(advance='90m')
        _, [item] = lease(server, 'q')
        server.clock(advance='45m')
        complete(server, 'q', [item])
        eq(stored(server, 'q'), [], 'b expired, a was completed')


@scene
def pages_of_items_begin_at_their_pivot(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', *[str(i) for i in range(30)])
        items = stored(server, 'q')
        eq(len(items), 30)
        page = stored(server, 'q', pivot=items[10]['id'], limit=5)
        eq([one['id'] for one in page], [one['id'] for one in items[10:15]])
        complete(server, 'q', lease(server, 'q', 11)[1])
        page = stored(server, 'q', pivot=items[10]['id'], limit=1)
        eq(page[0]['id'], items[11]['id'], 'the pivot need not be there')
        eq(stored(server, 'q', pivot='aWgEPTl1tmebfsQzFP4bxwgy80V'), [], 'past the end')


@scene
def imports_and_deletes(binary):
    with queue_server(binary) as server:
        for wire in BOTH:
            name = f'q-{wire}'
            create(server, name, 2, max_attempts=7)
            items = [{'id': 'ignored', 'max_attempts': 2, 'payload': base64.b64encode(b'p%d' % i).decode(), 'attempts': i, 'reference': 'r',
                      'expire_deadline': '2026-01-01T05:00:00Z'} for i in range(3)]
            got = fine(server, '/v1/storage/items.import', {'queue_name': name, 'partition': 1, 'items': items}, wire)['items']
            eq([one.get('attempts', 0) for one in got], [0, 1, 2])
            check(all(len(one['id']) == 27 for one in got), 'ids are ours')
            eq([one['max_attempts'] for one in got + stored(server, name, 1, wire=wire)], [7] * 6, "the queue's")
            eq([one['payload'] for one in stored(server, name, 1, wire=wire)], [b'p0', b'p1', b'p2'])
            eq([one['expire_deadline'] for one in stored(server, name, 1)], ['2026-01-01T05:00:00Z'] * 3)
            eq(stored(server, name, 0, wire=wire), [])
            body = {'queue_name': name, 'partition': 1, 'ids': [got[0]['id'], got[2]['id'], got[0]['id']]}
            eq(fine(server, '/v1/storage/items.delete', body, wire), {'code': 200})
            eq([one['payload'] for one in stored(server, name, 1, wire=wire)], [b'p1'])


@scene
def an_import_with_a_source_id_is_stored_once(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        items = [{'reference': f'{i}', 'source_id': 's1' if i in (1, 3) else f'x{i}'} for i in range(5)] + [{}, {}]
        first = fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': items})['items']
        eq(first[1]['id'], first[3]['id'])
        [again] = fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': items[1:2]})['items']
        eq([again[name] for name in ('id', 'created_at', 'expire_deadline')],
           [first[1][name] for name in ('id', 'created_at', 'expire_deadline')])
        fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': items[1:2]}, 'protobuf')
        server.kill9()
        server.start()
        fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': items[3:4]})
        eq([one.get('reference', '') for one in stored(server, 'q')], ['0', '1', '2', '4', '', ''])
        produce(server, 'q', 'y', headers={'Idempotency-Key': 'source s1'})
        eq(len(stored(server, 'q')), 7)
        _, leased = lease(server, 'q', 2)
        fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': items[1:2]})
        eq(len(stored(server, 'q')), 7, 'a leased one is there')
        retry(server, 'q', leased)
        fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': items[1:2]})
        eq(len(stored(server, 'q')), 7, 'so is one with a new id')
        complete(server, 'q', lease(server, 'q', 10)[1])
        for _ in range(2):
            fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': items[1:2]})
            eq(len(stored(server, 'q')), 1, 'what was completed is no longer in the way')


@scene
def clear_takes_what_it_says(binary):
    def fill(server):
        produce(server, 'q', 'leased', 'ready')
        produce(server, 'q', 'later', enqueue_at='2026-01-01T12:00:00Z')
        lease(server, 'q')

    def there(server):
        return sorted(one['payload'] for scheduled in (False, True) for one in stored(server, 'q', scheduled=scheduled))

    with queue_server(binary) as server:
        create(server, 'q')
        fill(server)
        fine(server, '/v1/queue.clear', {'queue_name': 'q', 'queue': True})
        eq(there(server), [b'later', b'leased'])
        fine(server, '/v1/queue.clear', {'queue_name': 'q', 'scheduled': True})
        eq(there(server), [b'leased'])
        fine(server, '/v1/queue.clear', {'queue_name': 'q', 'queue': True, 'destructive': True})
        eq(there(server), [])


@scene
def stats_are_exact_and_name_their_partitions(binary):
    with queue_server(binary) as server:
        create(server, 'q', 3)
        for _ in range(3):
            produce(server, 'q', 'a', 'b')
        produce(server, 'q', 'later', enqueue_at='2026-01-01T12:00:00Z')
        partition, _ = lease(server, 'q', 2)
        server.clock(advance='30s')
        for wire in BOTH:
            parts = stats(server, 'q', wire)['partitions']
            eq([part.get('partition', 0) for part in parts], [0, 1, 2])
            eq([part['total'] for part in parts], [2, 2, 2])
            eq([part.get('total_leased', 0) for part in parts], [2 if i == partition else 0 for i in range(3)])
            eq(sum(part.get('scheduled', 0) for part in parts), 1)
            eq(parts[partition]['average_leased_age'], '30s')
            eq([part['average_age'] for part in parts], ['30s'] * 3)


@scene
def one_client_waits_once(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        refused(server, '/v1/queue.lease', {'queue_name': 'q', 'batch_size': 1, 'client_id': 'c', 'request_timeout': '11ms'},
                454, NO_ITEMS)
        got = call(server, '/v1/queue.lease', {'queue_name': 'q', 'batch_size': 1, 'client_id': 'c', 'request_timeout': '11ms'})
        eq(got.status, 454, 'after its request ended it may ask again')


@scene
def large_items_come_back(binary):
    payload = bytes(range(256)) * 6000
    with queue_server(binary) as server:
        create(server, 'q')
        for wire in BOTH:
            produce(server, 'q', payload, payload, wire=wire)
            _, items = lease(server, 'q', 2, wire=wire)
            eq([item['bytes'] == payload for item in items], [True, True])
            complete(server, 'q', items)


@scene
def replies_stop_at_their_limit_with_at_least_one_item(binary):
    with queue_server(binary, '--set', 'queue.reply_bytes_max=64k') as server:
        create(server, 'q')
        produce(server, 'q', b'x' * 100000, b'y' * 40000, b'z' * 20000, b'w')
        counts = []
        while sum(counts) < 4:
            _, items = lease(server, 'q', 10, client=f'c{len(counts)}')
            counts.append(len(items))
        eq(counts, [1, 3])
        eq(len(stored(server, 'q')), 1)
        items, pivot = [], ''
        for _ in range(3):
            items += [one['id'] for one in stored(server, 'q', pivot=pivot)]
            pivot = after(items[-1])
        eq((len(items), len(set(items))), (4, 4))


main()
