"""Goal: queues of a process: distribution figure by figure, waiting requests, clients that leave, drain, kill, stores.
Method: a real server; requests that wait run on threads, and what they wait for is seen in the stats."""
import concurrent.futures
import signal
import socket
import threading

from harness import REQUEST_TIMEOUT, Server, check, eq, main, memory_of, scene, wait_until
from queue_help import (NO_ITEMS, call, complete, create, fine, lease, nothing_to_lease, pause, produce, queue_server, refused,
                        retry, stats, stored, totals, waiting)

SHUTTING_DOWN = {'code': 453, 'code_text': 'Request Failed', 'message': 'queue is shutting down'}


class Later:
    """function(...) on a thread; result() waits for it."""

    def __init__(self, function, *args, **named):
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._future = self._pool.submit(function, *args, **named)
        self._pool.shutdown(wait=False)

    def result(self):
        return self._future.result(REQUEST_TIMEOUT)

    def done(self):
        return self._future.done()


def lease_later(server, name, client, batch=1, timeout='1m'):
    return Later(call, server, '/v1/queue.lease',
                 {'queue_name': name, 'batch_size': batch, 'client_id': client, 'request_timeout': timeout})


def payloads(count):
    return [b'x'] * count


@scene
def the_figures_of_adr_19_in_sequence(binary):
    with queue_server(binary) as server:
        create(server, 'q', 4)
        for count, want in ((50, [50, 0, 0, 0]), (30, [50, 30, 0, 0]), (100, [50, 30, 100, 0]), (20, [50, 30, 100, 20]),
                            (100, [50, 30, 100, 120]), (100, [50, 130, 100, 120]), (1, [51, 130, 100, 120])):
            produce(server, 'q', *payloads(count))
            eq(totals(server, 'q'), want)


@scene
def leased_items_do_not_count(binary):
    with queue_server(binary) as server:
        create(server, 'q', 2)
        produce(server, 'q', *payloads(100))
        produce(server, 'q', *payloads(40))
        lease(server, 'q', 100)
        produce(server, 'q', *payloads(10))
        eq(totals(server, 'q'), [110, 40])


@scene
def the_figures_of_adr_19_as_one_batch(binary):
    with queue_server(binary) as server:
        create(server, 'q', 4)
        for counts, want in (((50, 30, 100), [50, 30, 100, 0]), ((20, 100, 100), [50, 130, 100, 120])):
            pause(server, 'q')
            later = []
            for i, count in enumerate(counts):
                later.append(Later(produce, server, 'q', *payloads(count)))
                waiting(server, 'q', 'produce', i + 1)
            pause(server, 'q', False)
            for one in later:
                one.result()
            eq(totals(server, 'q'), want)


@scene
def what_is_done_by_hand_goes_on_while_a_queue_is_paused(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', *payloads(3))
        _, [taken] = lease(server, 'q')
        pause(server, 'q')
        parked = Later(complete, server, 'q', [taken])
        waiting(server, 'q', 'complete', 1)
        gone = stored(server, 'q')[1]['id']
        fine(server, '/v1/storage/items.delete', {'queue_name': 'q', 'ids': [gone]})
        eq(totals(server, 'q'), [2])
        fine(server, '/v1/queue.clear', {'queue_name': 'q', 'queue': True})
        eq([item['id'] for item in stored(server, 'q')], [taken['id']])
        waiting(server, 'q', 'complete', 1)
        pause(server, 'q', False)
        parked.result()
        eq(totals(server, 'q'), [0])


@scene
def ties_go_to_the_lowest_number_and_leased_items_do_not_count(binary):
    with queue_server(binary) as server:
        create(server, 'q', 4)
        for i in range(1, 13):
            produce(server, 'q', 'x')
            eq(totals(server, 'q'), [(i + 3 - k) // 4 for k in range(4)])
        create(server, 'r', 2)
        produce(server, 'r', *payloads(10))
        produce(server, 'r', *payloads(4))
        _, items = lease(server, 'r', 10)
        produce(server, 'r', 'x')
        eq(totals(server, 'r'), [11, 4])
        retry(server, 'r', items)
        produce(server, 'r', 'y')
        eq(totals(server, 'r'), [11, 5], 'what was returned counts at once')


@scene
def waiting_leases_share(binary):
    for asked, there, want in (((20, 6, 1), 23, [16, 6, 1]), ((10,) * 5, 10, [2] * 5)):
        with queue_server(binary) as server:
            create(server, 'q')
            produce(server, 'q', *payloads(there))
            pause(server, 'q')
            later = []
            for i, batch in enumerate(asked):
                later.append(lease_later(server, 'q', f'c{i}', batch))
                waiting(server, 'q', 'lease', i + 1)
            pause(server, 'q', False)
            eq([len(one.result().body['items']) for one in later], want)


@scene
def a_client_waits_once_in_a_queue(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        first = lease_later(server, 'q', 'c')
        waiting(server, 'q', 'lease', 1)
        refused(server, '/v1/queue.lease', {'queue_name': 'q', 'batch_size': 1, 'client_id': 'c', 'request_timeout': '1m'}, 400,
                'duplicate client id; a client cannot make multiple leased requests to the same queue')
        produce(server, 'q', 'x')
        eq(first.result().status, 200)


@scene
def everything_that_brings_an_item_wakes_a_waiting_lease(binary):
    def arrivals(server):
        yield 'a produce', lambda: produce(server, 'q', 'x')
        yield 'an import', lambda: fine(server, '/v1/storage/items.import', {'queue_name': 'q', 'items': [{}]})
        produce(server, 'q', 'x', enqueue_at='2026-01-01T00:10:00Z')
        yield 'a schedule', lambda: server.clock(freeze='2026-01-01T00:10:00Z')
        produce(server, 'q', 'x')
        _, taken = lease(server, 'q', client='other')
        yield 'an expired lease', lambda: server.clock(advance='60s')
        produce(server, 'q', 'x')
        _, taken = lease(server, 'q', client='other')
        yield 'a retry', lambda: retry(server, 'q', taken)
        create(server, 'source', dead_queue='q')
        produce(server, 'source', 'x')
        _, dying = lease(server, 'source')
        yield 'an arrival from a queue it is the dead queue of', lambda: retry(server, 'source', dying, dead=True)

    with queue_server(binary) as server:
        create(server, 'q')
        for what, arrive in arrivals(server):
            later = lease_later(server, 'q', 'c', timeout='5m')
            waiting(server, 'q', 'lease', 1)
            arrive()
            got = later.result()
            eq((got.status, len(got.body.get('items', []))), (200, 1), what)
            complete(server, 'q', got.body['items'])


@scene
def requests_end_at_their_timeout(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        refused(server, '/v1/queue.lease', {'queue_name': 'q', 'batch_size': 1, 'client_id': 'c', 'request_timeout': '50ms'},
                454, NO_ITEMS)
        pause(server, 'q')
        got = call(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '50ms', 'items': [{}]})
        eq(got.status, 454, got.body)
        check(got.body['message'].startswith('request timeout; '), got.body)
        pause(server, 'q', False)
        eq(stored(server, 'q'), [], 'what was refused is not stored later')


@scene
def a_client_that_leaves_takes_nothing_along(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        body = b'{"queue_name":"q","batch_size":1,"client_id":"c","request_timeout":"10m"}'
        with server.connect() as peer:
            peer.sendall(b'POST /v1/queue.lease HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            waiting(server, 'q', 'lease', 1)
        waiting(server, 'q', 'lease', 0)
        produce(server, 'q', 'x')
        _, items = lease(server, 'q', client='c')
        eq(len(items), 1, 'it went to who was there')
        pause(server, 'q')
        body = b'{"queue_name":"q","request_timeout":"10m","items":[{"utf8":"lost"}]}'
        with server.connect() as peer:
            peer.sendall(b'POST /v1/queue.produce HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            waiting(server, 'q', 'produce', 1)
        waiting(server, 'q', 'produce', 0)
        pause(server, 'q', False)
        eq([one['payload'] for one in stored(server, 'q')], [b'x'], 'nothing was written of it')


@scene
def a_pause_parks_and_counts(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'a', 'b')
        _, items = lease(server, 'q', client='other')
        pause(server, 'q')
        pause(server, 'q')
        later = [Later(produce, server, 'q', 'c'), lease_later(server, 'q', 'c1'), Later(complete, server, 'q', items)]
        waiting(server, 'q', 'produce', 1)
        waiting(server, 'q', 'lease', 1)
        waiting(server, 'q', 'complete', 1)
        eq(stats(server, 'q')['in_flight'], 3, 'requests that wait for an answer')
        eq([one['payload'] for one in stored(server, 'q')], [b'a', b'b'])
        check(not any(one.done() for one in later), 'nothing goes on')
        pause(server, 'q', False)
        for one in later:
            one.result()
        eq(stats(server, 'q').get('in_flight', 0), 0)
        eq([one['payload'] for one in stored(server, 'q')], [b'b', b'c'])
        got = server.json('POST', '/v1/test.pause', body={'queue_name': 'none', 'pause': True})
        eq((got.status, got.body['message']), (400, "queue does not exist; no such queue named 'none'"))


@scene
def a_drain_answers_what_waits_at_once(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        later = [lease_later(server, 'q', f'c{i}', timeout='10m') for i in range(20)]
        waiting(server, 'q', 'lease', 20)
        server.signal(signal.SIGTERM)
        for one in later:
            got = one.result()
            eq((got.status, got.body), (453, SHUTTING_DOWN))
            eq(got.headers['Connection'], 'close')
        eq(server.wait_exit(), 0)
        check('drain_cut' not in server.stderr(), 'it was cut')
        server.start()
        produce(server, 'q', 'x')


@scene
def a_drain_under_load_ends_and_loses_nothing(binary):
    def work(server, acknowledged, lock):
        i = 0
        while True:
            name = f'{threading.get_ident()}-{i}'
            try:
                got = call(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '1m', 'items': [{'utf8': name}]})
            except (OSError, socket.timeout, ValueError):
                return
            if got.status != 200:
                eq(got.body, SHUTTING_DOWN)
                return
            with lock:
                acknowledged.append(name)
            i += 1

    with queue_server(binary) as server:
        create(server, 'q', 4)
        acknowledged, lock = [], threading.Lock()
        later = [Later(work, server, acknowledged, lock) for _ in range(8)]
        wait_until(lambda: len(acknowledged) > 200, 'load')
        eq(server.sigterm(), 0)
        for one in later:
            one.result()
        server.start()
        there = [one['payload'].decode() for i in range(4) for one in stored(server, 'q', i, limit=65536)]
        eq(len(there), len(set(there)), 'twice')
        eq(set(acknowledged) - set(there), set(), 'lost')


@scene
def a_kill_keeps_what_was_acknowledged_and_leases(binary):
    with queue_server(binary) as server:
        create(server, 'q', 2)
        for i in range(50):
            produce(server, 'q', f'{i}')
        partition, items = lease(server, 'q', 5)
        complete(server, 'q', items[:2], partition)
        before = [stored(server, 'q', i) for i in range(2)]
        server.kill9()
        server.start()
        eq([stored(server, 'q', i) for i in range(2)], before)
        complete(server, 'q', items[2:], partition)
        eq(sum(totals(server, 'q')), 45)
        produce(server, 'q', 'new')
        [(new, part)] = [(stored(server, 'q', i)[-1], i) for i in range(2) if stored(server, 'q', i)[-1]['payload'] == b'new']
        check(all(new['id'] > one['id'] for one in before[part]), 'ids go on growing')


@scene
def partitions_lie_on_their_stores(binary):
    stores = ('--set', 'queue.stores=a=q-a, b*2=q-b')
    with queue_server(binary, *stores) as server:
        create(server, 'q', 6)
        for i in range(6):
            produce(server, 'q', f'{i}')
        there = totals(server, 'q')
        eq(sum(there), 6)
        where = [part['store'] for part in fine(server, '/v1/partitions.list', {'queue_name': 'q'})['partitions']]
        eq((where.count('a'), where.count('b')), (2, 4), where)
        check((server.data / 'q-a').is_dir() and (server.data / 'q-b').is_dir(), 'folders')
        server.kill9()
        server.start()
        wait_until(lambda: totals(server, 'q') == there, 'all is there again')


@scene
def stores_come_from_a_file_too(binary):
    with queue_server(binary) as server:
        file = server.folder / 'c.yaml'
        server.sigterm()
        for text, why in (('- { name: a, path: x }', 'is wanted'), ('- { name: A, kind: local, path: x }', 'names of'),
                          ('- { name: a, kind: local, path: x, url: y, more: z }', 'is wanted'),
                          ('- { name: a, kind: postgres, url: "redis://x" }', 'neither'), ('- x', 'is wanted'),
                          ('- { name: a, kind: local, path: "q-a,b=zz" }', 'comma'),
                          ('- { name: "a=b", kind: local, path: zz }', 'comma'),
                          ('- { name: a, kind: local, path: ../outside }', 'leaves the data directory'),
                          ('- { name: a, kind: local, path: in/../../outside }', 'leaves the data directory'),
                          ('- { name: a, kind: local, path: x }\n    - { name: a, kind: local, path: y }', 'twice')):
            file.write_text(f'queue:\n  stores:\n    {text}\n')
            try:
                server.start('--config', str(file))
            except AssertionError as error:
                check('exit 2' in str(error) and why in str(error) and 'queue.stores' in str(error), f'{text}: {error}')
            else:
                check(False, f'{text} was taken')
        file.write_text('queue:\n  durability: interval\n  stores:\n    - { name: a, kind: local, path: q-a }\n'
                        '    - { name: b, kind: local, path: q-b, affinity: 3 }\n')
        server.start('--config', str(file))
        create(server, 'q', 4)
        got = fine(server, '/v1/partitions.list', {'queue_name': 'q'})
        eq((got['durability'], sorted(part['store'] for part in got['partitions'])), ('interval', ['a', 'b', 'b', 'b']))


@scene
def a_reload_reads_everything_again(binary):
    with queue_server(binary) as server:
        create(server, 'q', 3)
        for i in range(9):
            produce(server, 'q', f'{i}')
        produce(server, 'q', 'later', enqueue_at='2026-01-01T01:00:00Z')
        partition, items = lease(server, 'q', 2)
        before = stats(server, 'q'), [stored(server, 'q', i) for i in range(3)]
        later = [Later(produce, server, 'q', f'more-{i}') for i in range(8)]
        later += [Later(fine, server, '/v1/queue.reload', {'queue_name': 'q'}) for _ in range(3)]
        for one in later:
            one.result()
        eq(sum(totals(server, 'q')), sum(part.get('total', 0) for part in before[0]['partitions']) + 8)
        complete(server, 'q', items, partition)
        server.clock(advance='1h')
        eq(sum(totals(server, 'q')), 9 - 2 + 8 + 1)


@scene
def many_calls_that_block_go_on(binary):
    with queue_server(binary, '--set', 'pool_threads=2') as server:
        create(server, 'dead')
        for i in range(12):
            create(server, f'q{i}', dead_queue='dead')
            produce(server, f'q{i}', *payloads(20))
        later = [Later(fine, server, '/v1/queue.clear', {'queue_name': f'q{i}', 'queue': True}) for i in range(6)]
        later += [Later(fine, server, '/v1/queue.requeue', {'queue_name': f'q{i}', 'to': 'dead'}) for i in range(6, 12)]
        for one in later:
            one.result()
        eq(totals(server, 'dead'), [120])


@scene
def a_thousand_partitions_work(binary):
    with Server(binary) as server:
        create(server, 'q', 1000)
        for i in range(30):
            produce(server, 'q', f'{i}')
        eq(totals(server, 'q'), [1] * 30 + [0] * 970)
        server.restart()
        wait_until(lambda: totals(server, 'q')[:30] == [1] * 30, 'all partitions are loaded')
        seen = []
        for i in range(30):
            partition, [item] = lease(server, 'q', client=f'c{i}')
            seen.append(int(item['bytes']))
            complete(server, 'q', [item], partition)
        eq(sorted(seen), list(range(30)))
        nothing_to_lease(server, 'q')
        eq(stats(server, 'q').get('lease_waiting', 0), 0)


@scene
def a_partition_costs_as_much_memory_as_the_manual_says(binary):
    """Empty, with an item, after a start that reads them all."""
    count, empty, filled = 10000, 2500, 4000
    with Server(binary) as server:
        base = memory_of(server, 'RssAnon')

        def costs(most, what):
            now = memory_of(server, 'RssAnon')
            check(now is None or now - base < count * most, f'{what}: {base} became {now}')

        create(server, 'q', count)
        costs(empty, 'made')
        server.restart()
        costs(empty, 'read empty')
        for _ in range(count):
            produce(server, 'q', 'x')
        costs(filled, 'filled')
        server.restart()
        wait_until(lambda: len(fine(server, '/v1/queue.peek', {'queue_name': 'q', 'limit': 10})['items']) == 10, 'all is read')
        costs(filled, 'read filled')


@scene
def what_dies_in_many_partitions_at_once_costs_little_memory(binary):
    count, each = 5000, 9000
    with Server(binary, test_hooks=True) as server:
        create(server, 'dead')
        create(server, 'q', count, expire_timeout='1h', dead_queue='dead')
        for _ in range(count):
            produce(server, 'q', 'x')
        before = memory_of(server, 'VmHWM')
        server.clock(advance='2h')
        wait_until(lambda: totals(server, 'dead') == [count], 'all are there')
        peak = memory_of(server, 'VmHWM')
        check(peak is None or peak - before < count * each, f'{before} became {peak}')


main()
