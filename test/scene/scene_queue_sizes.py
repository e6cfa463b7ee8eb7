"""Goal: sizes that clients and operators choose stop no queue and lose no item. Method: bodies, fields and options of such
sizes; both encodings where they matter."""
import concurrent.futures
import re
import subprocess
import tempfile
import urllib.parse

from cli import Client
from harness import check, eq, main, scene, wait_until
from queue_help import BOTH, call, complete, create, fine, lease, produce, queue_server, refused, retry, stats


def counts(server, name):
    """(ready, leased) of a queue with one partition."""
    [part] = stats(server, name)['partitions']
    leased = part.get('total_leased', 0)
    return part.get('total', 0) - leased, leased


@scene
def an_answer_that_needs_more_memory_keeps_no_item(binary):
    every = '\x01' * 2000       # one byte of a field is six in JSON
    with queue_server(binary, '--set', 'http.arena_bytes_max=24M') as server:
        create(server, 'q')
        for _ in range(10):
            produce(server, 'q', *['x'] * 100, encoding=every, kind=every, reference=every)
        got, replies = [], 0
        while len(got) < 1000:
            _, items = lease(server, 'q', 1000, client=f'c{len(got)}')
            got += items
            replies += 1
            wait_until(lambda: counts(server, 'q') == (1000 - len(got), len(got)), 'what was not told is not leased')
        check(replies > 1, 'no answer has room for all of them')
        eq({item['attempts'] for item in got}, {1})
        eq([item['id'] for item in got], sorted(item['id'] for item in got))


@scene
def lists_and_peeks_of_texts_with_escapes_end_and_go_on(binary):
    every = '\x01' * 2000       # one byte of a field is six in JSON
    for option in ('queue.reply_bytes_max=21M', 'http.arena_bytes_max=24M'):
        with queue_server(binary, '--set', option) as server:
            create(server, 'q')
            for _ in range(20):
                produce(server, 'q', *['x'] * 100, encoding=every, kind=every, reference=every)
            for path in ('/v1/storage/items.list', '/v1/queue.peek'):
                seen, pages, pivot = [], 0, {}
                while len(seen) < 2000:
                    items = fine(server, path, {'queue_name': 'q', 'limit': 2000, **pivot})['items']
                    seen += [item['id'] for item in items if pivot.get('pivot') != item['id']]
                    pages += 1
                    check(pages < 20, f'{path}: page {pages} has {len(items)}')
                    pivot = {'pivot': seen[-1]}
                check(pages > 1, 'the answers have room for all of them')
                eq(seen, sorted(set(seen)))


@scene
def an_import_is_stored_and_told_or_neither(binary):
    """However many items it has: the answer is larger than the request, and is made when all is stored."""
    most = 65536
    with queue_server(binary) as server:
        for wire in BOTH:
            create(server, wire)
            for count in (60000, most):
                before = counts(server, wire)[0]
                body = {'queue_name': wire, 'items': [{'payload': 'eA=='}] * count}
                got = call(server, '/v1/storage/items.import', body, wire)
                eq((got.status, len(got.body['items'])), (200, count))
                eq(counts(server, wire)[0] - before, count)
            body['items'] *= 2
            refused(server, '/v1/storage/items.import', body, 400,
                    f'items is invalid; max_import_batch_size is {most} but received {2 * most}')
            body['items'] = [{'payload': 'eA=='}] * 2000 + [{'payload': 'eA==', 'kind': 'k' * 2001}]
            refused(server, '/v1/storage/items.import', body, 400,
                    'items is invalid; a field or all of them together are too large')
            eq(counts(server, wire)[0], 60000 + most)


@scene
def an_import_that_ends_in_the_middle_says_how_much_is_stored(binary):
    items = [{'payload': 'eA=='}] * 65536
    with queue_server(binary) as server:
        for number in range(20):        # until the pause comes between two writes
            name = f'q{number}'
            create(server, name)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                got = pool.submit(call, server, '/v1/storage/items.import', {'queue_name': name, 'items': items})
                wait_until(lambda: counts(server, name)[0] > 0, 'the first are stored')
                fine(server, '/v1/partitions.pause', {'queue_name': name})
                got = got.result()
            if got.status != 200:
                break
        stored = counts(server, name)[0]
        check(0 < stored < len(items), stored)
        eq((got.status, got.body['message']),
           (454, f'the first {stored} of 65536 items were stored; then: '
                 "partition not available; partition '0' is paused, retry again"))


@scene
def a_deletion_that_ends_in_the_middle_says_how_much_is_deleted(binary):
    with queue_server(binary) as server:
        for number in range(20):        # until the end of the queue comes between two writes
            name = f'q{number}'
            create(server, name)
            items = fine(server, '/v1/storage/items.import', {'queue_name': name, 'items': [{'payload': 'eA=='}] * 8000})['items']
            ids = [item['id'] for item in items]
            with concurrent.futures.ThreadPoolExecutor() as pool:
                got = pool.submit(call, server, '/v1/storage/items.delete', {'queue_name': name, 'ids': ids})
                wait_until(lambda: counts(server, name)[0] < len(ids), 'the first are deleted')
                fine(server, '/v1/queues.delete', {'queue_name': name})
                got = got.result()
            if got.status != 200:
                break
        check(got.status in (400, 454), got.body)   # there is no such queue, or its partition fails
        check(re.match(r'the first [1-7]000 of 8000 items were deleted; then: .', got.body['message']), got.body)


@scene
def an_import_that_can_never_have_its_memory_is_refused_for_good(binary):
    with queue_server(binary, '--set', 'http.bytes_max=100M') as server:
        create(server, 'q')
        body = {'queue_name': 'q', 'items': [{'payload': 'eHh4' * 300000}] * 35}
        got = call(server, '/v1/storage/items.import', body)
        eq((got.status, got.body['message']), (413, 'the request needs more memory than a request may have'))
        eq(counts(server, 'q')[0], 0)
        body['items'] = body['items'][:5]
        eq(len(fine(server, '/v1/storage/items.import', body)['items']), 5)


@scene
def a_reply_of_the_largest_size_is_told(binary):
    with queue_server(binary, '--set', 'queue.reply_bytes_max=32M', '--set', 'http.arena_bytes_max=96M') as server:
        create(server, 'q')
        for _ in range(10):
            produce(server, 'q', *[b'c' * 100000] * 35)
        for wire in BOTH:
            _, items = lease(server, 'q', 350, client=wire, wire=wire)
            check(31 << 20 < sum(len(item['bytes']) for item in items) <= 32 << 20, 'the reply is full')
            eq(counts(server, 'q')[1], len(items))
            complete(server, 'q', items)
            for _ in range(0, len(items), 35):
                produce(server, 'q', *[b'c' * 100000] * 35)


def metric(server, name, queue):
    """The sum over the queue's partitions."""
    lines = server.request('GET', '/metrics').body.decode().splitlines()
    return sum(int(line.rsplit(' ', 1)[1]) for line in lines if line.startswith(f'palimpsest_queue_{name}{{queue="{queue}"'))


@scene
def large_items_that_die_with_the_server_reach_the_dead_queue_and_come_back(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        create(server, 'q', dead_queue='dead', max_attempts=1)
        for _ in range(10):
            produce(server, 'q', *[b'c' * 100000] * 10)
        for client in 'ab':
            lease(server, 'q', 100, client=client)
        server.kill9()
        server.start()
        server.clock(advance='2m')
        wait_until(lambda: counts(server, 'dead') == (100, 0), 'all are dead')
        eq(counts(server, 'q'), (0, 0))
        eq(fine(server, '/v1/queue.requeue', {'queue_name': 'dead', 'to': 'q'}), {'moved': 100})
        wait_until(lambda: counts(server, 'q') == (100, 0), 'all are back')
        got = []
        while len(got) < 100:
            partition, items = lease(server, 'q', 100, client=f'c{len(got)}')
            got += items
            retry(server, 'q', items, partition, dead=True)
        wait_until(lambda: counts(server, 'dead') == (100, 0), 'all are dead again')


@scene
def a_dead_queue_that_takes_nothing_is_told(binary):
    with queue_server(binary) as server:
        create(server, 'dead')
        create(server, 'q', dead_queue='dead', max_attempts=1)
        fine(server, '/v1/partitions.pause', {'queue_name': 'dead'})
        produce(server, 'q', *'abc')
        _, items = lease(server, 'q', 3)
        dead = {'queue_name': 'q', 'items': [{'id': items[0]['id'], 'dead': True}]}
        refused(server, '/v1/queue.retry', dead, 454, "dead queue 'dead' does not take the items; those that were not moved "
                'are leased as before, try again')
        check('queue.move name=q partition=0 state=failing to=dead items=1' in server.stderr(), server.stderr())
        check(metric(server, 'moves_failed', 'q') >= 3 and metric(server, 'failures', 'q') >= 3, 'tries are counted')
        complete(server, 'q', items[:1])
        server.clock(advance='2m')
        wait_until(lambda: metric(server, 'moves_failed', 'q') > 3, 'the others are tried')
        eq(metric(server, 'moving', 'q'), 2)
        refused(server, '/v1/queue.complete', {'queue_name': 'q', 'request_timeout': '1m', 'ids': [items[1]['id']]}, 400,
                f"item(s) cannot be completed; '{items[1]['id']}' is on its way to another queue")
        fine(server, '/v1/storage/items.delete', {'queue_name': 'q', 'ids': [items[1]['id']]})
        fine(server, '/v1/partitions.resume', {'queue_name': 'dead'})
        wait_until(lambda: counts(server, 'dead') == (1, 0), 'it goes on by itself')
        eq((metric(server, 'moving', 'q'), counts(server, 'q')), (0, (0, 0)))


def pages_of_queues(server, wire='json', **body):
    """(names, how many of each page) by Next-Pivot, until it is not sent."""
    names, counts, pivot = [], [], ''
    while True:
        got = call(server, '/v1/queues.list', {**body, 'pivot': pivot}, wire)
        eq(got.status, 200, got.body)
        eq(set(got.body), {'items'}, "Querator's clients know no other member")
        names += [queue['queue_name'] for queue in got.body['items']]
        counts.append(len(got.body['items']))
        if got.headers['Next-Pivot'] is None:
            return names, counts
        pivot = urllib.parse.unquote(got.headers['Next-Pivot'])
        check(pivot > names[-1], 'it leads on')


@scene
def lists_of_queues_with_long_texts_come_to_their_end(binary):
    longest = '\x01' * 2000    # one byte of a text is six in JSON
    names = [f'{i:03}{"é%" * 169}' for i in range(200)]
    with queue_server(binary, '--set', 'http.arena_bytes_max=1M', '--set', 'page.body_bytes_max=300k') as server:
        fine(server, '/v1/namespaces.create', {'name': 'other'})
        for i, name in enumerate(names):
            create(server, name, reference=longest)
            if i % 50 == 0:
                create(server, f'x{i}', namespace='other')
        for wire in BOTH:
            for limit in (0, 2, 65536):
                got, counts = pages_of_queues(server, wire, limit=limit)
                eq(got, names)
                check(all(count > 1 for count in counts[:-1]), counts)
                check(limit == 2 or 5 <= len(counts) <= 10, counts)
            eq(pages_of_queues(server, wire, namespace='other'), (['x0', 'x100', 'x150', 'x50'], [4]))
            eq(pages_of_queues(server, wire, limit=1, namespace='other')[1], [1, 1, 1, 1])
        client = Client(binary, server)
        eq([queue['queue_name'] for queue in client.json('queue', 'ls')], names)
        eq([queue['queue_name'] for queue in client.json('queue', 'ls', '01')], names[10:20])
        eq(client.json('queue', 'ls', 'y'), [])
        eq([row['queue_name'] for row in client.json('queue', 'top', '--count', '1')], names)


@scene
def metrics_of_many_queues_with_long_names_are_answered(binary):
    with queue_server(binary) as server:
        create(server, '"')
        lines = server.request('GET', '/metrics').body.decode().splitlines()
        check('palimpsest_queue_left_out 0' in lines, 'all is shown')
        for i in range(256):
            create(server, f'{i:03}{chr(34) * 509}', 8)
        got = server.request('GET', '/metrics')
        eq(got.status, 200, got.body)
        lines = got.body.decode().splitlines()
        check('palimpsest_queue_left_out 1' in lines, 'not all has room')
        check(any(line.startswith('palimpsest_queue_store_state') for line in lines), 'what follows is there')
        check(all(line.startswith('#') or re.fullmatch(r'\S+ \S+', line) for line in lines), 'no line is cut')
        eq(len([line for line in lines if line.startswith('palimpsest_queue_items{queue="\\"",partition="0"')]), 4)


@scene
def a_reply_beyond_the_memory_of_a_request_is_refused_at_the_start(binary):
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run([binary, 'serve', '--data', folder, '--set', 'queue.reply_bytes_max=32M'],
                             capture_output=True, text=True, timeout=60)
    eq(got.returncode, 2)
    check('queue.reply_bytes_max' in got.stderr and 'http.arena_bytes_max' in got.stderr, got.stderr)


main()
