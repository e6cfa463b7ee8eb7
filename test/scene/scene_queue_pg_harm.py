"""Goal: what others do to the tables and connections of a store in PostgreSQL is told, in words that help, and harms nothing
else; a server whose partitions another one took stays out.
Method: servers on one cluster, and SQL of an administrator beside them.
"""
import pathlib
import re
import signal
import subprocess
import sys

from harness import Server, check, eq, main, scene, wait_until
from queue_help import call, complete, create, fine, lease, produce, stats, totals

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
from pg_cluster import Cluster  # pylint: disable=wrong-import-position

WAIT = 120            # for whatever has to come about on a busy machine
LOCK_HOLDERS = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"


def sql(cluster, text):
    """What psql prints."""
    return subprocess.run([cluster.bin / 'psql', '-X', '-A', '-t', '-v', 'ON_ERROR_STOP=1', cluster.url, '-c', text],
                          check=True, text=True, capture_output=True).stdout


def told(server, words, times=1):
    wait_until(lambda: len(re.findall(words, server.stderr())) >= times, lambda: f'{words} in {server.stderr()}', WAIT)


def try_produce(server, timeout='1s'):
    return call(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': timeout, 'items': [{'utf8': 'x'}]})


def state(server):
    [part] = fine(server, '/v1/partitions.list', {'queue_name': 'q'})['partitions']
    return part['state']


def turns(server, what):
    """How often it said that its store b is in that state."""
    return len(re.findall(f'queue.store store=b state={what}', server.stderr()))


@scene
def a_loser_says_who_owns_its_partitions_and_stays_out(binary):
    """It is stopped, its connection goes, another takes over; when it goes on it neither writes nor swings."""
    with Cluster(options=('fsync=off',)) as cluster:
        stores = ('--set', f'queue.stores=b={cluster.url}', '--set', 'queue.deployment=d', '--set', 'queue.write_timeout=1s')
        with Server(binary, *stores) as first, Server(binary, *stores) as second:
            create(first, 'q', lease_timeout='1h')
            produce(first, 'q', 'kept')
            create(second, 'q', lease_timeout='1h')
            told(second, 'queue.store store=b state=standby why="another process owns its partitions"')
            eq(state(second), 'standby')
            first.signal(signal.SIGSTOP)
            sql(cluster, LOCK_HOLDERS)
            told(second, 'queue.store store=b state=owner')
            partition, [item] = lease(second, 'q')
            eq(item['bytes'], b'kept')
            first.signal(signal.SIGCONT)
            eq(try_produce(first).status, 454)
            told(first, 'state=standby')
            got = call(first, '/v1/queue.complete', {'queue_name': 'q', 'request_timeout': '1m', 'ids': [item['id']]})
            eq((got.status, got.body['message']),
               (454, "partition not available; partition '0' is owned by another process, retry again"))
            before = turns(first, 'available'), turns(second, 'available')
            for _ in range(4):
                eq(try_produce(first).status, 454, 'it stays out')
                produce(second, 'q', 'more')
            eq((turns(first, 'available'), turns(second, 'available')), before, 'nobody swings')
            complete(second, 'q', [item], partition)
            second.kill9()
            told(first, 'state=owner')
            produce(first, 'q', 'again')


@scene
def a_store_that_refuses_every_write_is_in_error_with_a_reason(binary):
    """Its probes are good and its writes are not. It swings ever more rarely, and comes back when its rows do."""
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}', '--set', 'queue.write_timeout=5s') as server:
            create(server, 'q', lease_timeout='1h')
            produce(server, 'q', 'kept')
            sql(cluster, 'ALTER TABLE queue_part RENAME TO away')
            sql(cluster, 'CREATE TABLE queue_part AS SELECT * FROM away LIMIT 0')
            eq(try_produce(server).status, 454)
            told(server, 'state=error why=damage said="PostgreSQL: ERROR: relation .*queue_1_0_b.* already exists"')
            eq(state(server), 'error')
            for _ in range(4):
                eq(try_produce(server).status, 454)
            check(turns(server, 'available') < 8, server.stderr())
            sql(cluster, 'DROP TABLE queue_part')
            sql(cluster, 'ALTER TABLE away RENAME TO queue_part')
            eq(try_produce(server, '100s').status, 200, 'it is back')
            eq(sorted(item['bytes'] for item in lease(server, 'q', 2)[1]), [b'kept', b'x'])


@scene
def items_whose_bodies_are_gone_are_told_and_out_of_the_way(binary):
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}') as server:
            create(server, 'q', lease_timeout='1h')
            for i in range(12):
                produce(server, 'q', f'{i}')
            partition, items = lease(server, 'q', 8)
            sql(cluster, 'TRUNCATE queue_1_0_b')
            got = call(server, '/v1/queue.complete', {'queue_name': 'q', 'partition': partition, 'request_timeout': '1m',
                                                      'ids': [item['id'] for item in items]})
            eq(got.status, 454, got.body)
            told(server, 'error queue.damaged queue=q partition=0 items=12 .*why="their bodies are gone from the store"')
            wait_until(lambda: totals(server, 'q') == [0], 'they are out of the way', WAIT)
            check(not stats(server, 'q')['partitions'][0].get('averageLeasedAge', '0s').startswith('-'), 'a negative age')
            eq(sql(cluster, 'SELECT count(*) FROM queue_1_0_l').strip(), '0')
            text = server.request('GET', '/metrics').body.decode()
            check('palimpsest_queue_damaged{queue="q",partition="0"} 12' in text, 'they are counted')
            produce(server, 'q', 'new')
            eq(lease(server, 'q')[1][0]['bytes'], b'new')


@scene
def a_right_that_was_taken_is_named(binary):
    with Cluster(options=('fsync=off',)) as cluster:
        sql(cluster, 'CREATE ROLE modest LOGIN')
        sql(cluster, 'CREATE DATABASE modest OWNER modest')
        cluster.url = cluster.url.replace('owner@', 'modest@').replace('/postgres', '/modest')
        with Server(binary, '--set', f'queue.stores=b={cluster.url}') as server:
            create(server, 'q')
            produce(server, 'q', 'kept')
            sql(cluster, 'REVOKE INSERT ON queue_1_0_b FROM modest')
            eq(try_produce(server).status, 454)
            told(server, 'said="PostgreSQL: ERROR: permission denied for table queue_1_0_b; .INSERT INTO queue_1_0_b.*'
                         'needs SELECT, INSERT, UPDATE or DELETE there"')
            sql(cluster, 'GRANT INSERT ON queue_1_0_b TO modest')
            eq(try_produce(server, '100s').status, 200, 'it is back')


main()
