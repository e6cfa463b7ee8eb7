"""src/cql with several nodes that die, hang and come back under load: what was acknowledged at
LOCAL_QUORUM is there, each request ends by its deadline, and reads are found while a node is gone.
Data centres: the local one alone, and the remote ones when that is allowed."""
import contextlib
import pathlib
import tempfile
import time

import rig
from rig import Cluster, check, eq, main, scene, wait_until

from client import I64, LOCAL_ONE, QUORUM, Client, Text, ledger_of

WRITERS = READERS = 64
LOAD_S = 540             # at most
LOAD_LEAST_S = 60
REQUEST_MS = 5000
LATE_US_MAX = 2_000_000     # behind a deadline, on a busy machine
PUT = 'INSERT INTO l.t (k, v) VALUES (?, ?)'
GET = 'SELECT v FROM l.t WHERE k = ?'


def tables(cluster):
    rig.keyspace(cluster, 'l')
    cluster.execute('CREATE TABLE l.t (k bigint PRIMARY KEY, v text)')


def connect(binary, cluster, contacts=None, **options):
    there = [f'{cluster.address(n)}:{cluster.port}' for n in contacts or cluster.numbers]
    client = Client(binary, there, refresh_ms=5000, heartbeat_ms=1000, answer_ms=2000,
                    retry_max_ms=1000, **options)
    eq(client.statement('write', PUT, 'bigint, text', idempotent=True), '')
    eq(client.statement('read', GET, 'bigint', 'text', idempotent=True), '')
    return client


def all_connected(client, count):
    wait_until(lambda: len([n for n in client.nodes().values() if n.connections == 2]) == count,
               f'{count} nodes are connected')


def has_all(client, keys):
    """Each of these rows is there, at QUORUM."""
    client.statement('all', 'SELECT k, v FROM l.t', '', 'bigint, text', idempotent=True)
    rows, _ = client.pages('all', page=5000, cl=QUORUM, ms=60000)
    there = dict(map(tuple, rows))
    gone = [k for k in keys if there.get(k) != f'v{k}']
    check(not gone, f'{len(gone)} of {len(keys)} acknowledged writes are not there: {gone[:10]}')


def tell(what, look):
    p50, p99, most = (look[name] / 1000 for name in ('p50_us', 'p99_us', 'max_us'))
    print(f'    {what}: {look.reads} reads, {look.writes} writes; a read takes {p50:.1f} ms (p50), '
          f'{p99:.1f} ms (p99), {most:.0f} ms (max); failed {look.failed_reads} '
          f'{look.failed_writes}', flush=True)


@contextlib.contextmanager
def kill(cluster, n):
    cluster.kill(n)
    yield
    cluster.start(n)


@contextlib.contextmanager
def stop(cluster, n):
    cluster.stop(n)
    yield
    cluster.cont(n)


@contextlib.contextmanager
def restart(cluster, n):
    cluster.end(n)
    cluster.start(n)
    yield


@scene
def nothing_acknowledged_is_lost_when_nodes_die(binary):
    with Cluster(nodes=3) as cluster, tempfile.TemporaryDirectory() as folder:
        tables(cluster)
        ledger = pathlib.Path(folder) / 'ledger'
        with connect(binary, cluster) as client:
            all_connected(client, 3)
            began = time.monotonic()
            load = client.load(LOAD_S, WRITERS, READERS, ledger, ms=REQUEST_MS,
                               speculative=True)
            wait_until(lambda: client.stats().executes > 2000, 'the load is under way')
            tell('all nodes are there', client.look())
            for verb in (kill, stop, restart):
                for n in cluster.numbers:
                    before = client.stats().executes
                    with verb(cluster, n):
                        wait_until(lambda before=before: client.stats().executes > before + 1000,
                                   'a thousand requests without it')
                        look = client.look()
                        tell(f'{verb.__name__} {n}', look)
                        eq((look.missing, look.wrong), (0, 0), 'reads of what was acknowledged')
                        check(look.late_us < LATE_US_MAX, f'late: {look.late_us}')
                        check(look.writes > 0 and look.reads > 0, look.note)
                    all_connected(client, 3)
            wait_until(lambda: time.monotonic() > began + LOAD_LEAST_S, 'a minute of load')
            client.finish()
            end = load.wait()
            tell('the end', end)
            eq((end.ended, end.missing, end.wrong), (True, 0, 0))
            stats = client.stats()
            eq((stats.in_flight, stats.waiting), (0, 0))
            print(f'    {stats.speculated} reads asked a second node, {stats.speculated_won} were '
                  f'answered by it; {stats.retries} retries, {stats.lost} connections lost',
                  flush=True)
            keys = ledger_of(ledger)
            eq(len(keys), end.acknowledged)
            has_all(client, keys)
            print(f'    {len(keys)} acknowledged writes are there', flush=True)


@scene
def a_data_centre_is_left_only_when_that_is_allowed(binary):
    with Cluster(nodes=3, datacentres=2) as cluster:
        tables(cluster)
        local = [1, 2]
        with connect(binary, cluster, local) as alone, connect(
                binary, cluster, local, remote_dcs=True) as abroad:
            all_connected(alone, 2)
            for client in (alone, abroad):
                asked = set()
                for k in range(60):
                    client.run('write', I64(k), Text(f'v{k}'), ts='now')
                    asked.add(client.run('read', I64(k), cl=LOCAL_ONE).node)
                eq(asked, {f'{cluster.address(n)}:{cluster.port}' for n in local},
                   'both of the local data centre, and no other')
            eq({n.node: (n.dc, n.local) for n in abroad.nodes().values()},
               {f'{cluster.address(n)}:{cluster.port}': (cluster.datacentre(n), n in local)
                for n in cluster.numbers})
            for n in local:
                cluster.kill(n)

            def comes(client, why):
                def ask():
                    outcome = client.ask('read', I64(1), cl=LOCAL_ONE, ms=3000)
                    return outcome.why == why and outcome
                return wait_until(ask, f'a read is {why}')

            outcome = comes(alone, 'unavailable')
            check('dc1' in outcome.note, outcome.note)
            outcome = comes(abroad, 'ok')
            eq((outcome.one, outcome.node), (['v1'], f'{cluster.address(3)}:{cluster.port}'))
            abroad.run('write', I64(99), Text('v99'), ts='now', cl=LOCAL_ONE)
            cluster.start(*local)
            for client in (alone, abroad):
                wait_until(lambda client=client: (o := client.ask('read', I64(1), cl=LOCAL_ONE)).why
                           == 'ok' and o.node != f'{cluster.address(3)}:{cluster.port}',
                           'the local data centre answers again')


@scene
def a_node_that_is_decommissioned_is_left(binary):
    with Cluster(nodes=3) as cluster:
        rig.keyspace(cluster, 'l', replicas=2)
        cluster.execute('CREATE TABLE l.t (k bigint PRIMARY KEY, v text)')
        with connect(binary, cluster) as client:
            all_connected(client, 3)
            for k in range(500):
                client.run('write', I64(k), Text(f'v{k}'), ts='now')
            with tempfile.TemporaryDirectory() as folder:
                load = client.load(30, 16, 16, pathlib.Path(folder) / 'ledger', ms=REQUEST_MS,
                                   speculative=True)
                cluster.nodetool(3, 'decommission', '--force')
                end = load.wait(150)
                keys = ledger_of(pathlib.Path(folder) / 'ledger')
            tell('while it leaves', end)
            eq((end.missing, end.wrong), (0, 0))
            wait_until(lambda: set(client.nodes()) == {f'{cluster.address(n)}:{cluster.port}'
                                                       for n in (1, 2)}, 'two nodes are left')
            has_all(client, keys + list(range(500)))


main()
