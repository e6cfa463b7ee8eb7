"""Goal: four servers on three nodes lose one server and one node in a storm, and nothing that was acknowledged.
Method: haproxy sends writers and readers round. Meanwhile servers and nodes are killed, stopped and started, one of each
at a time. A ledger has each request that changes something, and what was said of it; at the end each server is asked
about all of it. A read is held against what was acknowledged before it began."""
import contextlib
import http.client
import itertools
import json
import threading
import time

from rig import Cluster, SceneError, check, eq, main, scene, wait_until

from haproxy_help import Haproxy        # rig says where these are
from harness import free_port
import shared_store
from served import DOMAIN, PAGE, Server, options, schema

SERVERS, NODES, WRITERS, READERS, TITLES = 4, 3, 6, 4, 24
SPACE = 'storm'
REQUEST_S = 30
CALM_S, HARMED_S = 3, 8         # of the storm before a harm, and under it
FAILED = (502, 503, 504)        # what a client may be told while something is gone
READY_S = 120


class Title:
    """One writer alone writes it, so its revisions rise; anybody reads it."""

    def __init__(self, name):
        self.name = name
        self.rev = 0
        self.lock = threading.Lock()
        self.stored = {}        # (rev, tid): how it is kept
        self.last = 0           # the greatest revision that was acknowledged
        self.purged = []        # revisions, acknowledged
        self.perhaps_purged = set()

    def body(self, rev):
        return f'<p>{self.name} {rev} '.encode() + b'x' * (rev * 997 % 9000)


class Storm:
    def __init__(self, port):
        self.port = port
        self.titles = [Title(f'T{n}') for n in range(TITLES)]
        self.over = threading.Event()
        self.wrong = []
        self.counts = dict.fromkeys(('puts', 'purges', 'reads', 'failed writes', 'failed reads'), 0)
        self.lock = threading.Lock()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def ask(self, method, path, body=None):
        """The status and the body; None: nobody said what became of it."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=REQUEST_S)
        with contextlib.closing(connection):
            try:
                connection.request(method, PAGE + path, body)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):
                return None, b''

    def put(self, title, keep):
        rev = title.rev = title.rev + 1
        status, said = self.ask('PUT', f'/html/{title.name}/{rev}{"?stash=true" if keep == "stash" else ""}', title.body(rev))
        if status in (200, 201):
            with title.lock:
                title.stored[rev, json.loads(said)['tid']] = keep
                title.last = rev
            self.count('puts')
        elif status is None or status in FAILED:
            self.count('failed writes')
        else:
            raise SceneError(f'{title.name} {rev}: {status} {said[:300]}')

    def purge(self, title):
        """A revision that is not the latest, so that readers of the latest may be held to what they know."""
        with title.lock:
            revs = sorted({rev for rev, _ in title.stored if rev < title.last} - title.perhaps_purged)
            if not revs:
                return
            title.perhaps_purged.add(revs[0])
        status, said = self.ask('DELETE', f'/all/{title.name}/{revs[0]}')
        if status == 204:
            with title.lock:
                title.purged.append(revs[0])
            self.count('purges')
        elif status is None or status in FAILED:
            self.count('failed writes')
        else:
            raise SceneError(f'purge of {title.name} {revs[0]}: {status} {said[:300]}')

    def write(self, own):
        for turn in itertools.count():
            if self.over.is_set():
                return
            title = own[turn % len(own)]
            if turn % 11 == 10:
                self.purge(title)
            else:
                self.put(title, 'stash' if turn % 7 == 3 else 'recent')

    def read(self, number):
        for turn in itertools.count(number):
            if self.over.is_set():
                return
            title = self.titles[turn * 7 % TITLES]
            with title.lock:
                before = title.last
            status, body = self.ask('GET', f'/html/{title.name}')
            if status == 200:
                rev = int(body.split()[1])
                check(body == title.body(rev), f'{title.name} {rev}: other bytes')
                check(rev >= before, f'{title.name}: {rev} is read when {before} was acknowledged')
                self.count('reads')
            elif status is None or status in FAILED:
                self.count('failed reads')
            else:
                check(status == 404 and before == 0, f'{title.name} of {before}: {status} {body[:300]}')

    def guarded(self, run, *args):
        try:
            run(*args)
        except Exception as error:  # pylint: disable=broad-except
            self.wrong.append(error)
            self.over.set()

    @contextlib.contextmanager
    def blows(self):
        threads = [threading.Thread(target=self.guarded, args=(self.write, self.titles[n::WRITERS])) for n in range(WRITERS)]
        threads += [threading.Thread(target=self.guarded, args=(self.read, n)) for n in range(READERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        if self.wrong:
            raise self.wrong[0]

    def lasts(self, seconds):
        """Until the storm has gone on for so long."""
        self.over.wait(seconds)
        if self.wrong:
            raise self.wrong[0]

    def goes_on(self):
        """Something is acknowledged and something read, whatever is gone."""
        with self.lock:
            puts, reads = self.counts['puts'], self.counts['reads']
        wait_until(lambda: self.over.is_set() or (self.counts['puts'] > puts and self.counts['reads'] > reads),
                   'writes and reads go on', timeout=60)


def start(binary, cluster):
    # A write ends well before its client gives up; nothing is kept ready, so that each read is of the store.
    points = ','.join(f'{point}:{cluster.port}' for point in cluster.contact_points)
    words = options(cluster, SPACE, 'hot_ttl=0', 'write_timeout=10s', points=points)
    shared_store.policies(binary, words)
    return Server(binary, '--domain', DOMAIN, '--listen', f'127.0.0.1:{free_port()}', *words)


def is_ready(server):
    try:
        return server.request('GET', '/readyz').status == 200
    except OSError:
        return False


def harm(storm, cluster, servers):
    """One server and one node at a time: killed and started, then stopped and let go on."""
    for round_, n in enumerate((1, 2, 3)):
        storm.lasts(CALM_S)
        servers[round_].kill9()
        cluster.kill(n)
        storm.lasts(HARMED_S)
        storm.goes_on()
        cluster.start(n)
        servers[round_].start()
        wait_until(lambda round_=round_: is_ready(servers[round_]), 'the server that was started is ready', timeout=READY_S)
    cluster.stop(2)
    storm.lasts(HARMED_S)
    storm.goes_on()
    cluster.cont(2)
    storm.lasts(CALM_S)


def ledger_holds(storm, server):
    """What a server says of all that was acknowledged."""
    missing = []
    for title in storm.titles:
        for (rev, tid), keep in title.stored.items():
            answer = server.request('GET', f'{PAGE}/html/{title.name}/{rev}/{tid}')
            if rev in title.purged:
                fine = answer.status == 410
            elif rev in title.perhaps_purged:
                fine = answer.status in (200, 410)
            else:
                fine = answer.status == 200 and answer.body == title.body(rev)
            if not fine:
                missing.append((title.name, rev, tid, keep, answer.status))
        if title.last > 0:
            latest = server.request('GET', f'{PAGE}/html/{title.name}')
            check(latest.status == 200 and int(latest.body.split()[1]) >= title.last, f'{title.name}: {latest.status}')
    eq(missing, [], 'acknowledged, and not there')


@scene
def four_servers_lose_one_and_a_node_and_nothing_that_was_acknowledged(binary):
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(nodes=NODES))
        done = schema(binary, cluster, SPACE, '--set', f'store.replication=dc1={NODES}')
        eq(done.returncode, 0, done.stderr)
        servers = [stack.enter_context(start(binary, cluster)) for _ in range(SERVERS)]
        for server in servers:
            wait_until(lambda server=server: is_ready(server), 'each server is ready', timeout=READY_S)
        balancer = stack.enter_context(Haproxy([server.port for server in servers]))
        storm = Storm(balancer.port)
        began = time.monotonic()
        with storm.blows():
            harm(storm, cluster, servers)
        print(f'   {time.monotonic() - began:.0f} s: ' + ', '.join(f'{n} {what}' for what, n in storm.counts.items()))
        for server in servers:
            wait_until(lambda server=server: is_ready(server), 'each server is ready', timeout=READY_S)
            ledger_holds(storm, server)


main()
