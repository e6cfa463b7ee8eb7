"""Goal: what Querator only proposes: tokens and extension of leases, idempotent and ordered produces, peeking, requeueing,
partitions that come, drain, move and rest, and the record of decisions. Method: both encodings, a clock that is moved."""
import base64
import collections
import json
import os
import re

from harness import SceneError, check, eq, main, scene, wait_until
from queue_help import (BOTH, call, complete, create, fine, lease, nothing_to_lease, produce, queue_server, refused, retry,
                        stored, totals)


def take(server, name, batch=1, wire='json', **more):
    body = {'queue_name': name, 'batch_size': batch, 'client_id': 'c', 'request_timeout': '1m', **more}
    got = fine(server, '/v1/lease.take', body, wire)
    return got.get('partition', 0), got['items']


def change(name, items, partition=0, **more):
    return {'queue_name': name, 'partition': partition, 'request_timeout': '1m',
            'items': [{'id': item['id'], 'token': item['token']} for item in items], **more}


@scene
def tokens_fence_a_lease(binary):
    with queue_server(binary) as server:
        for wire in BOTH:
            name = f'q-{wire}'
            create(server, name)
            produce(server, name, 'a')
            _, [first] = take(server, name, wire=wire)
            check(int(first['token']) > 0, first)
            retry(server, name, [first])
            _, [second] = take(server, name, wire=wire)
            check(first['token'] != second['token'], 'another lease, another token')
            for path in ('/v1/lease.complete', '/v1/lease.retry', '/v1/lease.extend'):
                got = call(server, path, change(name, [first]), wire)
                eq(got.status, 400, f'{path} with a stale token: {got.body}')
                got = call(server, path, change(name, [{'id': second['id'], 'token': '12345'}]), wire)
                eq(got.status, 400, f'{path} with another token: {got.body}')
                refused(server, path, change(name, [{'id': second['id'], 'token': ''}]), 400, "invalid token; ''", wire)
            eq(fine(server, '/v1/lease.complete', change(name, [second]), wire), {'code': 200})
            eq(stored(server, name), [])


@scene
def completing_again_with_the_same_token_is_no_error(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'a')
        _, items = take(server, 'q')
        for _ in range(2):
            eq(fine(server, '/v1/lease.complete', change('q', items)), {'code': 200})


@scene
def a_lease_is_extended_and_may_have_a_timeout_of_its_own(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'a')
        _, [item] = take(server, 'q', lease_timeout='10m')
        eq(item['lease_deadline'], '2026-01-01T00:10:00Z')
        server.clock(advance='9m')
        eq(fine(server, '/v1/lease.extend', change('q', [item], lease_timeout='5m')), {'code': 200})
        server.clock(advance='4m')
        [lying] = stored(server, 'q')
        eq((lying['is_leased'], lying['lease_deadline']), (True, '2026-01-01T00:14:00Z'))
        server.kill9()
        server.start()
        server.clock(freeze='2026-01-01T00:13:59Z')
        eq(stored(server, 'q')[0].get('is_leased'), True)
        server.clock(advance='1s')
        eq(stored(server, 'q')[0].get('is_leased', False), False)
        refused(server, '/v1/lease.take', {'queue_name': 'q', 'batch_size': 1, 'client_id': 'c', 'request_timeout': '1m',
                                           'lease_timeout': '25h'}, 400,
                'lease timeout is invalid; it cannot be negative nor greater than the expire timeout')


@scene
def a_produce_with_a_key_is_stored_once(binary):
    with queue_server(binary) as server:
        create(server, 'q', 3)
        key = {'Idempotency-Key': 'k1'}
        for wire in BOTH:
            produce(server, 'q', 'a', 'b', wire=wire, headers=key)
        eq(sum(totals(server, 'q')), 2)
        produce(server, 'q', 'a', headers={'Idempotency-Key': 'k2'})
        eq(sum(totals(server, 'q')), 3)
        server.kill9()
        server.start()
        produce(server, 'q', 'a', 'b', headers=key)
        eq(sum(totals(server, 'q')), 3, 'over a kill')
        server.clock(advance='6m')
        produce(server, 'q', 'a', 'b', headers=key)
        eq(sum(totals(server, 'q')), 5, 'the window is over')
        for bad in ('', 'x' * 257):
            got = call(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '1m', 'items': [{}]},
                       headers={'Idempotency-Key': bad})
            eq(got.status, 400, got.body)


@scene
def several_keys_of_a_kind_are_refused(binary):
    """A proxy that adds one would else make of two keys a third, which nobody else ever sends."""
    with queue_server(binary) as server:
        create(server, 'q', 1)
        for name in ('Idempotency-Key', 'Order-Key'):
            for second in ('k1', 'k2'):
                got = server.request('POST', '/v1/queue.produce',
                                     [('Content-Type', 'application/json'), (name, 'k1'), (name, second)],
                                     b'{"queue_name":"q","request_timeout":"1m","items":[{}]}')
                eq(got.status, 400, got.body)
        eq(sum(totals(server, 'q')), 0)


@scene
def a_key_of_another_produce_is_refused_and_nothing_stored(binary):
    with queue_server(binary) as server:
        create(server, 'q', 3)
        key = {'Idempotency-Key': 'k1'}
        produce(server, 'q', 'a', 'b', headers=key)
        for again in range(2):
            for wire in BOTH:
                for items in ([{'utf8': 'a'}], [{'utf8': 'a'}, {'utf8': 'c'}], [{'utf8': 'a', 'kind': 'k'}, {'utf8': 'b'}]):
                    refused(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '1m', 'items': items}, 422,
                            'idempotency-key is invalid; it was used for another request', wire, key)
            fine(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '2m',  # the same in other words
                                               'items': [{'utf8': 'a'}, {'bytes': 'Yg=='}]}, headers=key)
            eq(sum(totals(server, 'q')), 2)
            if not again:
                server.kill9()
                server.start()


@scene
def items_of_one_order_key_are_out_one_at_a_time(binary):
    with queue_server(binary) as server:
        create(server, 'q', 4)
        for i in range(3):
            produce(server, 'q', f'a{i}', headers={'Order-Key': 'a'})
        produce(server, 'q', 'b0', headers={'Order-Key': 'b'})
        seen = []
        partition, [first] = lease(server, 'q')
        other, [second] = lease(server, 'q')
        eq(sorted([first['bytes'], second['bytes']]), [b'a0', b'b0'])
        nothing_to_lease(server, 'q')
        a, a_partition = (first, partition) if first['bytes'] == b'a0' else (second, other)
        while len(seen) < 2:
            complete(server, 'q', [a], a_partition)
            a_partition, [a] = lease(server, 'q')
            seen.append(a['bytes'])
        eq(seen, [b'a1', b'a2'])


def peek(server, name, wire='json', **more):
    got = fine(server, '/v1/queue.peek', {'queue_name': name, **more}, wire)
    return [base64.b64decode(item.get('payload', '')) for item in got.get('items', [])]


@scene
def peek_shows_the_oldest_of_all_partitions(binary):
    with queue_server(binary, '--set', 'queue.stores=a=q-a, b=q-b') as server:
        create(server, 'q', 4)
        items = [b'%d' % i for i in range(20)]
        for item in items:
            produce(server, 'q', item)
        for wire in BOTH:
            eq(peek(server, 'q', wire), items[:1])
            eq(peek(server, 'q', wire, limit=7), items[:7])
            eq(peek(server, 'q', wire, limit=1000), items)
        partition, [first] = lease(server, 'q')
        fine(server, '/v1/queue.retry', {'queue_name': 'q', 'partition': partition, 'items': [{'id': first['id']}]})
        server.kill9()
        server.start()
        order = items[1:] + items[:1]
        eq(peek(server, 'q', limit=1000), order, 'what was given back came last')
        own = [{item['payload'] for item in stored(server, 'q', number)} for number in range(4)]
        partition, leased = lease(server, 'q', 4)
        eq([item['bytes'] for item in leased], [item for item in order if item in own[partition]][:4], 'in its partition, too')
        for part in parts(server, 'q'):
            eq(part['oldest_age'], '0s', 'the clock stands')


@scene
def answers_end_at_their_bytes_whatever_is_there(binary):
    """More than any answer may have: 24 items of 2 MB over 8 partitions."""
    with queue_server(binary) as server:
        create(server, 'q', 8)
        for i in range(24):
            produce(server, 'q', bytes([i]) * 2000000)
        server.restart()    # nothing is in memory
        for wire in BOTH:
            for limit in (4, 24, 1000, 65536):
                eq([(one[0], len(one)) for one in peek(server, 'q', wire, limit=limit)], [(i, 2000000) for i in range(4)])
            eq([one['payload'][0] for one in stored(server, 'q', 3, wire=wire)], [3, 11, 19], 'of one partition')
        pages, last = [], ''
        while not pages or pages[-1]:
            got = fine(server, '/v1/queue.peek', {'queue_name': 'q', 'limit': 1000, 'pivot': last}).get('items', [])
            pages.append([base64.b64decode(item['payload'])[0] for item in got if item['id'] != last])
            last = got[-1]['id']
        eq(sum(pages, []), list(range(24)), 'page by page')
        create(server, 'later')
        for i in range(6):
            produce(server, 'later', bytes([i]) * 2000000, enqueue_at='2026-01-02T00:00:00Z')
        pages = [stored(server, 'later', scheduled=True)]
        pages.append(stored(server, 'later', scheduled=True, pivot=pages[0][-1]['id']))
        eq([[one['payload'][0] for one in page] for page in pages], [[0, 1, 2, 3], [3, 4, 5]])


@scene
def dead_items_go_back_in_bulk(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        create(server, 'q', dead_queue='dead')
        produce(server, 'q', *[f'{i}' for i in range(5)])
        _, items = lease(server, 'q', 5)
        retry(server, 'q', items, dead=True)
        eq(fine(server, '/v1/queue.requeue', {'queue_name': 'dead', 'to': 'q', 'count': 2}), {'moved': 2})
        eq((totals(server, 'dead'), totals(server, 'q')), ([3], [2]))
        eq(fine(server, '/v1/queue.requeue', {'queue_name': 'dead', 'to': 'q'}, 'protobuf'), {'moved': 3})
        back = []
        while len(back) < 5:
            back += [item['bytes'] for item in lease(server, 'q', 5)[1]]
        eq(back, [b'%d' % i for i in range(5)])
        refused(server, '/v1/queue.requeue', {'queue_name': 'dead', 'to': 'none'}, 400,
                "queue does not exist; no such queue named 'none'")


def parts(server, name):
    return fine(server, '/v1/partitions.list', {'queue_name': name})['partitions']


@scene
def partitions_rest_drain_and_grow(binary):
    with queue_server(binary) as server:
        create(server, 'q', 2)
        fine(server, '/v1/partitions.pause', {'queue_name': 'q', 'partition': 0})
        eq([part['state'] for part in parts(server, 'q')], ['paused', 'available'])
        produce(server, 'q', 'a')
        produce(server, 'q', 'b')
        eq(totals(server, 'q'), [0, 2])
        fine(server, '/v1/partitions.resume', {'queue_name': 'q', 'partition': 0})
        fine(server, '/v1/partitions.drain', {'queue_name': 'q', 'partition': 1})
        produce(server, 'q', 'c')
        eq(totals(server, 'q')[0], 1)
        seen = []
        for _ in range(3):
            partition, [item] = lease(server, 'q')
            seen.append(item['bytes'])
            complete(server, 'q', [item], partition)
        eq(sorted(seen), [b'a', b'b', b'c'], 'a draining one is still read')
        fine(server, '/v1/partitions.add', {'queue_name': 'q'})
        eq(len(parts(server, 'q')), 3)
        server.restart()
        eq([part['state'] for part in parts(server, 'q')], ['available', 'draining', 'available'])


@scene
def a_partition_moves_with_its_items(binary):
    with queue_server(binary, '--set', 'queue.stores=a=q-a, b=q-b') as server:
        create(server, 'q', 1)
        eq([part['store'] for part in parts(server, 'q')], ['a'])
        produce(server, 'q', *[f'{i}' for i in range(20)])
        _, items = lease(server, 'q', 3)
        fine(server, '/v1/partitions.move', {'queue_name': 'q', 'partition': 0, 'store': 'b'})
        eq([part['store'] for part in parts(server, 'q')], ['b'])
        eq(totals(server, 'q'), [20])
        server.kill9()
        server.start()
        complete(server, 'q', items)
        _, rest = lease(server, 'q', 1000)
        eq([item['bytes'] for item in rest], [b'%d' % i for i in range(3, 20)])
        got = call(server, '/v1/partitions.move', {'queue_name': 'q', 'partition': 0, 'store': 'none'})
        eq(got.status, 400, got.body)


@scene
def stores_get_partitions_by_their_weight(binary):
    with queue_server(binary, '--set', 'queue.stores=a*2=q-a, b=q-b') as server:
        create(server, 'q', 6)
        eq(collections.Counter(part['store'] for part in parts(server, 'q')), {'a': 4, 'b': 2})
        for partition in range(6):
            fine(server, '/v1/partitions.move', {'queue_name': 'q', 'partition': partition, 'store': 'b'})
        fine(server, '/v1/partitions.rebalance', {'queue_name': 'q'})
        eq(collections.Counter(part['store'] for part in parts(server, 'q')), {'a': 4, 'b': 2})


@scene
def a_partition_is_added_where_it_is_wanted(binary):
    with queue_server(binary, '--set', 'queue.stores=a=q-a, b=q-b') as server:
        create(server, 'q', 1)
        for store in ('a', 'a', ''):
            fine(server, '/v1/partitions.add', {'queue_name': 'q', 'store': store})
        eq([part['store'] for part in parts(server, 'q')], ['a', 'a', 'a', 'b'])
        refused(server, '/v1/partitions.add', {'queue_name': 'q', 'store': 'none'}, 400,
                "store is invalid; there is no store named 'none'")
        eq(len(parts(server, 'q')), 4)
        produce(server, 'q', 'a', 'b')
        server.restart()
        eq([part['store'] for part in parts(server, 'q')], ['a', 'a', 'a', 'b'])
        eq(sum(totals(server, 'q')), 2)


def store_states(server):
    found = re.findall(r'^palimpsest_queue_store_state{store="([^"]*)",state="([^"]*)"} 1$',
                       server.request('GET', '/metrics').body.decode(), re.M)
    return dict(found)


def lease_all(server, name, count):
    items = []
    while len(items) < count:
        items += lease(server, name, 100)[1]
    return items


@scene
def a_folder_that_is_away_is_not_made_anew(binary):
    """Nothing is put where the folder should be, the other store serves on, and what it held is there when it is back."""
    with queue_server(binary) as server:
        disk, away = server.folder / 'disk', server.folder / 'away'
        disk.mkdir()
        server.restart('--set', f'queue.stores=a=q-a, b={disk}/q')
        create(server, 'q', 2)
        for i in range(100):
            produce(server, 'q', f'{i}')
        there = totals(server, 'q')
        eq(sum(there), 100)   # mostly 50 and 50; a store whose disk is slow for a moment gets fewer
        eq(server.sigterm(), 0, 'exit code')
        disk.rename(away)
        for back_while_running in (False, True):
            disk.mkdir()
            server.start()
            wait_until(lambda: store_states(server) == {'a': 'available', 'b': 'error'}, 'b is in error')
            check(f'{disk}/q' in server.stderr(), 'the log names the folder')
            before = totals(server, 'q')[0]
            produce(server, 'q', 'x', 'y', timeout='20s')
            eq(totals(server, 'q')[0], before + 2, 'on the other store')
            if not back_while_running:
                eq(server.sigterm(), 0, 'exit code')
            eq(list(disk.iterdir()), [], 'nothing was made')
            disk.rmdir()
            away.rename(disk)
            if not back_while_running:
                server.start()
            wait_until(lambda: store_states(server) == {'a': 'available', 'b': 'available'}, 'b is back', 90)
            wait_until(lambda count=before + 2 + there[1]: sum(totals(server, 'q')) == count, 'all is there')
            eq(server.sigterm(), 0, 'exit code')
            disk.rename(away)
        away.rename(disk)
        server.start()
        eq(sorted(int(item['bytes']) for item in lease_all(server, 'q', 104) if item['bytes'].isdigit()), list(range(100)))


@scene
def folders_that_were_exchanged_are_refused(binary):
    with queue_server(binary) as server:
        server.restart('--set', 'queue.stores=a=q-a, b=q-b')
        create(server, 'q', 2)
        for i in range(10):
            produce(server, 'q', f'{i}')
        eq(server.sigterm(), 0, 'exit code')
        try:
            server.start('--set', 'queue.stores=a=q-b, b=q-a')
        except SceneError as error:
            check('exit 3' in str(error) and "q-b is that of store 'b': were paths" in str(error), str(error))
        else:
            raise SceneError('it took them')
        server.start('--set', 'queue.stores=b=q-b, a=q-a')
        wait_until(lambda: sum(totals(server, 'q')) == 10, 'all is there')


@scene
def a_folder_of_another_server_is_refused(binary):
    with queue_server(binary) as owner, queue_server(binary) as other:
        folder = owner.folder / 'q'
        owner.restart('--set', f'queue.stores=a={folder}', '--set', 'queue.deployment=one')
        create(owner, 'q', 1)
        eq(owner.sigterm(), 0, 'exit code')
        eq(other.sigterm(), 0, 'exit code')
        try:
            other.start('--set', f'queue.stores=a={folder}', '--set', 'queue.deployment=two')
        except SceneError as error:
            check('exit 3' in str(error) and "belongs to the deployment 'one', this one is 'two'" in str(error), str(error))
        else:
            raise SceneError('it took the folder of another')
        other.start('--set', f'queue.stores=a={folder}', '--set', 'queue.deployment=one')


@scene
def decisions_are_recorded(binary):
    with queue_server(binary) as server:
        create(server, 'q', 2)
        produce(server, 'q', 'a')
        produce(server, 'q', 'b')
        lease(server, 'q')
        for wire in BOTH:
            got = [json.loads(line) for line in fine(server, '/v1/queue.why', {'queue_name': 'q', 'limit': 10}, wire)['decisions']]
            check(len(got) >= 2, got)
            eq(len(fine(server, '/v1/queue.why', {'queue_name': 'q', 'limit': 1}, wire)['decisions']), 1)


def _disk_bytes(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob('*') if path.is_file())


@scene
def each_store_gives_back_what_was_completed(binary):
    with queue_server(binary, '--set', 'queue.stores=a=q-a, b=q-b') as server:
        create(server, 'q', 2)
        for _ in range(25):
            for _ in range(2):
                produce(server, 'q', *[os.urandom(850000)] * 4)
            for _ in range(2):
                partition, items = lease(server, 'q', 4)
                complete(server, 'q', items, partition)
        for store in ('q-a', 'q-b'):
            wait_until(lambda folder=server.data / store: _disk_bytes(folder) < 48 << 20, f'{store} holds no completed bodies', 60)


main()
