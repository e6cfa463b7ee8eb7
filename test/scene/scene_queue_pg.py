"""Goal: queues on PostgreSQL lose nothing that was acknowledged and give nothing twice, whichever store is killed, stopped
or slow; the others go on; the figures say which store is in which state.
Method: one server, one queue over a folder and two clusters, the second behind a proxy that can be slow. Every payload is
unique; what was acknowledged, leased and completed is counted. Nothing is measured: a fault lasts until so much work was
done beside it.
"""
import base64
import collections
import concurrent.futures
import json
import pathlib
import re
import signal
import socket
import sys
import threading
import time

from harness import Server, check, eq, main, scene, wait_until
from queue_help import (call, complete, create, fine, lease, loop_stayed_free, produce, queue_server, refused, stats, stored, totals,
                        waits_longer_than_it_lives)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
from pg_cluster import Cluster  # pylint: disable=wrong-import-position

WAIT = 180            # for whatever has to come about on a busy machine
REQUEST = '100s'      # request_timeout of a produce: longer than any fault here, shorter than REQUEST_TIMEOUT
GONE = 'request was given up; the client stopped sending, '
PACE = 0.02           # between two produces of one producer


def clusters(count):
    """So many, made at once."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        made = [pool.submit(Cluster, options=('fsync=off', 'shared_buffers=16MB')) for _ in range(count)]
    try:
        return [one.result() for one in made]
    except BaseException:
        for one in made:
            if one.exception() is None:
                one.result().end()
        raise


class Proxy:
    """Passes bytes on to a port; delay: seconds that each piece takes in each direction."""

    def __init__(self, port):
        self.target, self.delay = port, 0.0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(('127.0.0.1', self.target))
            except OSError:
                client.close()
                continue
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source, sink):
        try:
            while piece := source.recv(65536):
                time.sleep(self.delay)
                sink.sendall(piece)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self.listener.close()


# ---- what the figures say

def figures(server, name):
    """{store: value} of a figure of stores; of the state: the one that is 1."""
    text = server.request('GET', '/metrics').body.decode()
    found = re.findall(rf'^palimpsest_queue_store_{name}{{store="([^"]*)"(?:,state="([^"]*)")?}} (\d+)$', text, re.M)
    check(found, f'no figure {name} of stores')
    return {store: state or int(value) for store, state, value in found if not state or value == '1'}


def wait_state(server, store, well):
    wait_until(lambda: (figures(server, 'state')[store] == 'available') == well,
               f'store {store} is {"well" if well else "in trouble"}', WAIT)


def opened(server):
    """Requests that are under way, this one aside."""
    text = server.request('GET', '/metrics').body.decode()
    return int(re.search(r'^palimpsest_http_open_requests (\d+)$', text, re.M)[1])


def put(server, name, partition, count):
    """Items into that partition, whichever store is quicker."""
    fine(server, '/v1/storage/items.import', {'queue_name': name, 'partition': partition,
                                              'items': [{'payload': 'YQ=='}] * count})


def ask(server, path, body):
    """A connection on which this was asked."""
    text = json.dumps(body)
    connection = server.connect()
    connection.sendall(f'POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
                       f'Content-Length: {len(text)}\r\n\r\n{text}'.encode())
    return connection


def told_when_it_stops_sending(connection):
    """The code and message of a connection that sends no more and reads on."""
    with connection:
        connection.shutdown(socket.SHUT_WR)
        answer = b''
        while piece := connection.recv(65536):
            answer += piece
    told = json.loads(answer.partition(b'\r\n\r\n')[2])
    return told['code'], told['message']


def holds_back(pid, number):
    """Does a thread of it hold the signal back?"""
    texts = [task.read_text() for task in pathlib.Path(f'/proc/{pid}/task').glob('*/status')]
    return any(int(re.search(r'^SigBlk:\s*(\w+)$', text, re.M)[1], 16) >> (number - 1) & 1 for text in texts)


# ---- load

class Load:
    """Producers and consumers, and what they know."""

    def __init__(self, server, producers=12, consumers=3):
        # More producers than requests that one store may hold in flight: what it holds is known when it is back.
        self.server, self.lock = server, threading.Lock()
        self.over, self.empty = threading.Event(), threading.Event()
        self.acknowledged, self.unsure, self.failed = set(), set(), []
        self.leased, self.completed = collections.Counter(), collections.Counter()
        self.producers = self._begin(self._produce, producers)
        self.consumers = self._begin(self._consume, consumers)

    def _begin(self, work, count):
        def guarded(number):
            try:
                work(number)
            except Exception as error:  # pylint: disable=broad-except
                self._fail(f'{work.__name__} {number}: {error}')
        threads = [threading.Thread(target=guarded, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def _fail(self, what):
        with self.lock:
            self.failed.append(what)

    def _produce(self, number):
        count = 0
        while not self.over.wait(PACE):
            names = [f'{number}-{count}-{i}' for i in range(1 + count % 3)]
            count += 1
            got = call(self.server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': REQUEST,
                                                          'items': [{'utf8': name} for name in names]})
            with self.lock:
                if got.status == 200:
                    self.acknowledged.update(names)
                elif got.status == 454 and 'the outcome is unknown' in got.body['message']:
                    self.unsure.update(names)
                else:
                    self.failed.append(f'a produce got {got.status}: {got.body}')

    def _consume(self, number):
        while not self.empty.is_set():
            got = call(self.server, '/v1/queue.lease', {'queue_name': 'q', 'batch_size': 10, 'request_timeout': '500ms',
                                                        'client_id': f'consumer-{number}'})
            if got.status == 454:
                self.empty.wait(0.01)
                continue
            eq(got.status, 200, f'a lease: {got.body}')
            names = [base64.b64decode(item['bytes']).decode() for item in got.body['items']]
            with self.lock:
                self.leased.update(names)
            self._complete(got.body.get('partition', 0), [item['id'] for item in got.body['items']])
            with self.lock:
                self.completed.update(names)

    def _complete(self, partition, ids):
        """Asks until it is known. After an unknown outcome "does not exist" means that it was done."""
        unsure, deadline = False, time.monotonic() + WAIT
        while True:
            got = call(self.server, '/v1/queue.complete', {'queue_name': 'q', 'partition': partition, 'ids': ids,
                                                           'request_timeout': '10s'})
            if got.status == 200 or (unsure and got.status == 400 and 'does not exist' in got.body['message']):
                return
            check(got.status == 454, f'a complete got {got.status}: {got.body}')
            check(time.monotonic() < deadline, f'a complete is never done: {got.body}')
            unsure = True
            time.sleep(0.02)

    def progress(self, consumers=True, count=150):
        """Waits until so many items more were acknowledged, and completed: the consumers may all have something of a
        store that is away."""
        with self.lock:
            acknowledged, completed = len(self.acknowledged) + count, len(self.completed) + count
        wait_until(lambda: self.failed or len(self.acknowledged) >= acknowledged, f'{count} items produced', WAIT)
        wait_until(lambda: self.failed or not consumers or len(self.completed) >= completed, f'{count} items had', WAIT)
        eq(self.failed, [])

    def end(self):
        """Stops producing, waits until everything was consumed, compares."""
        self.over.set()
        for thread in self.producers:
            thread.join(WAIT)
        wait_until(lambda: self.failed or sum(totals(self.server, 'q')) == 0, 'the queue is empty', WAIT)
        self.empty.set()
        for thread in self.consumers:
            thread.join(WAIT)
        eq(self.failed, [])
        eq(sorted(self.acknowledged - set(self.completed))[:10], [], 'acknowledged and lost')
        eq(sorted(set(self.completed) - self.acknowledged - self.unsure)[:10], [], 'had and never produced')
        eq([name for name, times in self.completed.items() if times > 1][:10], [], 'completed twice')
        eq([name for name, times in self.leased.items() if times > 1][:10], [], 'leased twice')

    def abandon(self):
        self.over.set()
        self.empty.set()


@scene
def two_clusters_and_a_folder_are_killed_stopped_and_slow(binary):
    first, second = clusters(2)
    proxy = Proxy(second.port)
    load = None
    try:
        slow_url = second.url.replace(f':{second.port}/', f':{proxy.port}/')
        with Server(binary, '--set', f'queue.stores=a=q-a, b={first.url}, c={slow_url}', '--set', 'queue.write_timeout=2s',
                    '--set', 'queue.lease_durability=sync') as server:
            create(server, 'q', 6, lease_timeout='1h')
            eq(set(figures(server, 'state').values()), {'available'})
            load = Load(server)
            load.progress()

            first.kill()
            wait_state(server, 'b', False)
            load.progress(consumers=False)
            eq(figures(server, 'state')['a'], 'available', 'the folder')
            check(figures(server, 'state')['b'] != 'available', 'a killed store is well')
            first.start()
            wait_state(server, 'b', True)
            load.progress()

            second.pause()
            wait_state(server, 'c', False)
            load.progress(consumers=False)
            check(figures(server, 'state')['c'] != 'available', 'a stopped store is well')
            second.pause(False)
            wait_state(server, 'c', True)
            load.progress()

            proxy.delay = 0.1
            wait_until(lambda: figures(server, 'write_us')['c'] >= 200_000, 'store c is seen to be slow', WAIT)
            load.progress(consumers=False)
            proxy.delay = 0.0
            wait_until(lambda: figures(server, 'write_us')['c'] < 200_000, 'store c is seen to be fast again', WAIT)
            load.progress()

            before = figures(server, 'failures')
            load.end()
            check(before['b'] > 0 and before['c'] > 0, f'failures were counted: {before}')
    finally:
        if load is not None:
            load.abandon()
        proxy.end()
        first.end()
        second.end()


@scene
def a_stopped_store_leaves_the_pool_to_the_others(binary):
    """As many calls as there are wait for a store that does not answer; what needs the pool beside it goes on."""
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}, a=q-a', '--set', 'queue.write_timeout=3m',
                    '--set', 'pool_threads=2') as server:
            create(server, 'q')
            for i in range(24):
                produce(server, 'q', f'{i}')
            server.restart()   # nothing of them is in memory
            wait_until(lambda: totals(server, 'q') == [24], 'all is there again')
            cluster.pause()
            try:
                with concurrent.futures.ThreadPoolExecutor(24) as pool:
                    later = [pool.submit(lease, server, 'q', 1, f'c{i}', '2m') for i in range(24)]
                    wait_until(lambda: stats(server, 'q').get('lease_waiting', 0) == 24, 'all wait')
                    eq(server.request('PUT', '/localhost/v1/page/html/A/1', body=b'x').status, 201)
                    fine(server, '/v1/queues.list', {})
                    check(not any(one.done() for one in later), 'the store is stopped')
                    cluster.pause(False)
                    got = sorted(int(item['bytes']) for one in later for item in one.result()[1])
                    eq(got, list(range(24)))
                    loop_stayed_free(server)
            finally:
                cluster.pause(False)


@scene
def what_is_large_is_no_work_of_the_loop(binary):
    """Megabytes to a store and back, one item and many: the loop is free for others meanwhile."""
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}', '--set', 'queue.write_timeout=1m') as server:
            create(server, 'q', lease_timeout='1h')
            whole, many = 'x' * 3_000_000, ['y' * 4000] * 500
            for _ in range(3):
                produce(server, 'q', whole)
                produce(server, 'q', *many)
            server.restart()    # no body is in memory
            wait_until(lambda: totals(server, 'q') == [1503], 'all is there again')
            got = collections.Counter()
            while sum(got.values()) < 1503:
                got.update(item['bytes'] for item in lease(server, 'q', 1000)[1])
            eq(got, {whole.encode(): 3, many[0].encode(): 1500})
            loop_stayed_free(server)


@scene
def a_stopped_store_stops_no_call_that_does_not_ask_it(binary):
    """Listings of its items wait; those of others, their stats, clears and changes go on. A drain answers at once those
    that wait for their turn, and who went away is not waited for."""
    def listing():
        return call(server, '/v1/storage/items.list', {'queue_name': 'bad', 'partition': 1})

    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=a=q-a, b={cluster.url}', '--set', 'queue.write_timeout=3m') as server:
            create(server, 'good')
            create(server, 'bad', 2)
            put(server, 'good', 0, 4)
            put(server, 'bad', 0, 2)
            put(server, 'bad', 1, 2)
            eq(listing().status, 200)
            cluster.pause()
            try:
                with concurrent.futures.ThreadPoolExecutor(12) as pool:
                    begun = opened(server)
                    later = [pool.submit(listing) for _ in range(2)]
                    wait_until(lambda: opened(server) == begun + 2, 'two hold the share of the store')
                    later += [pool.submit(listing) for _ in range(10)]
                    gone = [ask(server, '/v1/storage/items.list', {'queue_name': 'bad', 'partition': 1}) for _ in range(5)]
                    wait_until(lambda: opened(server) == begun + 17, 'all wait')
                    eq(told_when_it_stops_sending(gone.pop()), (454, GONE + 'nothing was done'))
                    for one in gone:
                        one.close()
                    wait_until(lambda: opened(server) == begun + 12, 'who left is forgotten')
                    eq(totals(server, 'good'), [4])
                    eq(totals(server, 'bad'), [2, 2])
                    eq(len(stored(server, 'good')), 4)
                    eq(len(stored(server, 'bad', 0)), 2)
                    fine(server, '/v1/partitions.list', {'queue_name': 'bad'})
                    fine(server, '/v1/queue.clear', {'queue_name': 'good', 'queue': True})
                    create(server, 'more')
                    fine(server, '/v1/queues.update', {'queue_name': 'bad', 'max_attempts': 3})
                    fine(server, '/v1/partitions.pause', {'queue_name': 'bad', 'partition': 1})
                    fine(server, '/v1/queues.delete', {'queue_name': 'more'})
                    check(not any(one.done() for one in later), 'the store is stopped')
                    loop_stayed_free(server)
                    server.signal(signal.SIGTERM)
                    wait_until(lambda: sum(one.done() for one in later) == 10, 'those that wait are answered')
                    eq([one.result().status for one in later if one.done()], [453] * 10)
                    cluster.pause(False)
                    check(all(one.result().status in (200, 453) for one in later), 'the others had their answer')
                    eq(server.wait_exit(), 0)
            finally:
                cluster.pause(False)


@scene
def a_store_known_not_to_answer_is_not_waited_for(binary):
    """The first look finds it out; from then on calls on its partitions are refused at once, until it is back."""
    asked = {'queue_name': 'q', 'partition': 1}
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=a=q-a, b={cluster.url}', '--set', 'queue.write_timeout=1s') as server:
            create(server, 'q', 2)
            put(server, 'q', 0, 2)
            put(server, 'q', 1, 2)
            item = stored(server, 'q', 1)[0]
            cluster.pause()
            try:
                eq(call(server, '/v1/storage/items.list', asked).status, 454)
                failing = "partition not available; partition '1' is failing, retry again"
                wait_until(lambda: figures(server, 'state')['b'] != 'available', 'it is known', WAIT)
                wait_until(lambda: 'queue.store store=b state=suspect why="it does not answer, or refuses"' in server.stderr(),
                           'it is said, with why', WAIT)
                for path, more in (('/v1/storage/items.list', {}), ('/v1/storage/scheduled.list', {}),
                                   ('/v1/storage/items.delete', {'ids': [item['id']]}),
                                   ('/v1/storage/items.import', {'items': [{'payload': ''}]}),
                                   ('/v1/queue.clear', {'queue': True, 'scheduled': True}), ('/v1/queue.peek', {})):
                    got = call(server, path, {**asked, **more} if 'storage' in path else {'queue_name': 'q', **more})
                    eq((got.status, got.body.get('message')), (454, failing), path)
                eq(len(stored(server, 'q', 0)), 2, 'nothing was cleared')
            finally:
                cluster.pause(False)
            wait_state(server, 'b', True)
            wait_until(lambda: call(server, '/v1/storage/items.list', asked).status == 200, 'it is back', WAIT)
            fine(server, '/v1/storage/items.delete', {**asked, 'ids': [item['id']]})
            eq(len(stored(server, 'q', 1)), 1)
            loop_stayed_free(server)


def started(server, *args):
    """Starts it; what became of that is asked by the exit code."""
    try:
        server.start(*args)
    except AssertionError as error:
        return str(error)
    return 'it runs'


@scene
def silent_stores_are_asked_at_once_and_a_signal_meanwhile_ends_the_start(binary):
    """Each connection is still held when the last one comes: none waits for the deadline of another. The signal ends
    the start long before they would, and nothing holds it back: so it does when a log is read, which may take long."""
    listeners = [socket.create_server(('127.0.0.1', 0)) for _ in range(4)]
    stores = ', '.join(f'b{i}=postgresql://u@127.0.0.1:{one.getsockname()[1]}/q' for i, one in enumerate(listeners))
    args = ('--set', f'queue.stores=a=q-a, {stores}', '--set')
    held = []
    with Server(binary) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        server.sigterm()
        start = pool.submit(started, server, *args, 'queue.write_timeout=1h', '--set', 'queue.start_timeout=1h')
        for one in listeners:
            one.settimeout(WAIT)
            held.append(one.accept()[0])
        for one in held:
            one.settimeout(WAIT)
            check(one.recv(8) != b'', 'it says something')
            one.setblocking(False)
            try:
                while one.recv(4096):
                    pass
                raise AssertionError('it was given up before the last one began')
            except BlockingIOError:
                pass
        check(not holds_back(server.pid, signal.SIGTERM), 'a thread holds the signal back')
        server.signal(signal.SIGTERM)
        said = start.result()
        check(said.startswith('exit 0 ') and 'asked to end before the server ran' in said, said)

        server.start(*args, 'queue.write_timeout=1h', '--set', 'queue.start_timeout=1s')
        eq(server.request('PUT', '/localhost/v1/page/html/A/1', body=b'x').status, 201)
        create(server, 'q')
        produce(server, 'q', 'x')
        why = re.findall(r'queue.store store=(b\d) state=error why="PostgreSQL does not answer"', server.stderr())
        eq(sorted(set(why)), ['b0', 'b1', 'b2', 'b3'], server.stderr())
    for one in listeners + held:
        one.close()


@scene
def a_lease_outlives_the_postgresql_it_is_written_in(binary):
    """Consumers live on when PostgreSQL dies: what they lease stays theirs. Nothing writes the log of PostgreSQL out by
    itself, so what was not synced is lost for certain. Who sets it otherwise is told at the start."""
    said = 'queue.lease_durability store=b leases=written'
    with Cluster(options=('fsync=off', 'wal_writer_delay=10s', 'bgwriter_delay=10s')) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}') as server:
            create(server, 'q', lease_timeout='1h')
            for i in range(8):
                produce(server, 'q', f'{i}')
            leased = [lease(server, 'q')[1][0] for _ in range(8)]
            cluster.kill()
            eq(call(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '100ms',
                                                  'items': [{'utf8': 'x'}]}).status, 454, 'PostgreSQL is dead')
            wait_state(server, 'b', False)
            cluster.start()
            wait_state(server, 'b', True)
            got = call(server, '/v1/queue.lease', {'queue_name': 'q', 'batch_size': 8, 'client_id': 'other',
                                                   'request_timeout': '1s'})
            eq(got.status, 454, f'an item was given to a second: {got.body}')
            done = {'queue_name': 'q', 'ids': [item['id'] for item in leased], 'request_timeout': '1m'}
            wait_until(lambda: call(server, '/v1/queue.complete', done).status == 200, 'the first completes them', WAIT)
            check(said not in server.stderr(), 'a warning for the default')
            server.restart()
            server.sigterm()
            server.start('--set', f'queue.stores=a=q-a, b={cluster.url}', '--set', 'queue.lease_durability=written')
            check(said in server.stderr(), server.stderr())
            check('store=a leases' not in server.stderr(), server.stderr())


@scene
def what_was_away_at_the_start_is_refused_at_once_and_found_when_it_is_wanted(binary):
    """Its partitions were never read: nobody waits for them. The queue that takes nothing is named."""
    with Cluster(options=('fsync=off',)) as cluster:
        only = f'queue.stores=b={cluster.url}'
        with Server(binary, '--set', only) as server:
            create(server, 'q', lease_timeout='1h')
            produce(server, 'q', 'kept')
            item = lease(server, 'q')[1][0]
            cluster.kill()
            server.restart()
            asked = {'queue_name': 'q', 'partition': 0}
            failing = "partition not available; partition '0' is failing, retry again"
            for path, more in (('queue.retry', {'items': [{'id': item['id']}]}),
                               ('queue.complete', {'ids': [item['id']], 'request_timeout': '10m'}),
                               ('storage/items.delete', {'ids': [item['id']]}), ('storage/items.list', {})):
                got = call(server, f'/v1/{path}', {**asked, **more})
                eq((got.status, got.body['message']), (454, failing), path)
            one = {'queue_name': 'q', 'request_timeout': '2s', 'items': [{'utf8': 'x'}]}
            eq(call(server, '/v1/queue.produce', one).status, 454)
            wait_until(lambda: 'warn queue.unavailable queue=q partitions=1 waiting=1' in server.stderr(), 'it is told', WAIT)
            eq(len(re.findall('queue.unavailable', server.stderr())), 1, 'once')
            cluster.start()
            eq(call(server, '/v1/queue.produce', {**one, 'request_timeout': '1m'}).status, 200)
            check('info queue.available queue=q' in server.stderr(), 'that it is over')


@scene
def a_database_belongs_to_one_deployment(binary):
    """Who comes with another data folder is refused by name and takes over when told to, with what lies there."""
    def stores(cluster, *more):
        return ('--set', f'queue.stores=b={cluster.url}', *more)

    def refusal(server, *args):
        try:
            server.start(*args)
        except AssertionError as error:
            return str(error)
        raise AssertionError('it was not refused')

    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, *stores(cluster)) as old:
            create(old, 'q')
            produce(old, 'q', 'kept')
            old.restart()
            eq(totals(old, 'q'), [1], 'the same folder is no stranger')
            with Server(binary) as other:
                other.sigterm()
                why = refusal(other, *stores(cluster))
                [owner] = re.findall(r"belongs to the deployment '([0-9a-f]{32})'", why)
                check('exit 3' in why and 'queue.deployment' in why, why)
                other.start(*stores(cluster, '--set', f'queue.deployment={owner}'))
                create(other, 'q')
                got = call(other, '/v1/queue.lease', {'queue_name': 'q', 'batch_size': 1, 'client_id': 'c',
                                                      'request_timeout': '100ms'})
                eq(got.status, 454, 'the other lives')
                produce(old, 'q', 'more')
                old.kill9()
                seen = []
                for _ in range(2):
                    partition, [item] = lease(other, 'q')
                    seen.append(item['bytes'])
                    complete(other, 'q', [item], partition)
                eq(seen, [b'kept', b'more'])


@scene
def an_item_may_wait_longer_than_it_lives(binary):
    with Cluster(options=('fsync=off',)) as cluster:
        with queue_server(binary, '--set', f'queue.stores=b={cluster.url}') as server:
            waits_longer_than_it_lives(server, 'q', lambda server: server.restart())


@scene
def who_starts_again_owns_its_partitions_at_once(binary):
    with Cluster(options=('fsync=off',)) as cluster:
        with queue_server(binary, '--set', f'queue.stores=b={cluster.url}') as server:
            create(server, 'q', 4)
            for _ in range(20):
                server.restart()
                wait_until(lambda: {part['state'] for part in fine(server, '/v1/partitions.list', {'queue_name': 'q'})[
                    'partitions']} == {'available'}, 'they are read', WAIT)
            eq(server.stderr().count('state=standby'), 0)


@scene
def an_imported_item_goes_to_no_strangers_queue(binary):
    """Attempts that reach what the store keeps above them, as an earlier release took them too, and a token that ends with the
    number of a queue: in a folder and in PostgreSQL."""
    with Cluster(options=('fsync=off',)) as cluster:
        with queue_server(binary, '--set', f'queue.stores=a=q-a, b={cluster.url}') as server:
            create(server, 'strangers')     # number 1, as the first token of each partition ends with
            create(server, 'dead')
            create(server, 'q', 2, dead_queue='dead', max_attempts=1)
            one = {'queue_name': 'q', 'partition': 0, 'items': [{'payload': 'YQ==', 'attempts': 2**29 + 1}]}
            refused(server, '/v1/storage/items.import', one, 400, f'attempts is invalid; cannot be greater than {2**29}')
            for partition in range(2):
                one['partition'] = partition
                one['items'][0]['attempts'] = 2**29
                fine(server, '/v1/storage/items.import', one)
            [table] = [name for name in cluster.sql(r"SELECT relname FROM pg_class WHERE relname ~ '^queue_\d+_1_e$'").split()
                       if cluster.sql(f'SELECT count(*) FROM {name}') == '1']
            cluster.sql(f'UPDATE {table} SET attempts = {2**30}')     # of an earlier release
            fine(server, '/v1/queue.reload', {'queue_name': 'q'})
            taken = [fine(server, '/v1/lease.take', {'queue_name': 'q', 'batch_size': 1, 'client_id': 'c',
                                                     'request_timeout': '1m'}) for _ in range(2)]
            eq(sorted(one.get('partition', 0) for one in taken), [0, 1])
            eq([int(one['items'][0]['token']) % 2**32 for one in taken], [1, 1])
            server.clock(advance='61s')
            wait_until(lambda: totals(server, 'dead') == [2], 'both died', WAIT)
            eq((totals(server, 'q'), totals(server, 'strangers')), ([0, 0], [0]))


main()
