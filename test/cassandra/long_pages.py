"""Pages on three nodes of which one after the other is killed, stopped and started: what two servers
acknowledged is there afterwards (test_cassandra_pages keeps the ledger)."""
import os
import re
import subprocess

import rig
from rig import Cluster, check, main, scene, wait_until

TIMEOUT = 600
PUTS = 300                      # of each of eight writers
PROGRAM = 'test/unit/cassandra/test_cassandra_pages'


def harm(cluster, program):
    """Once the tables are there, each node once: killed and started, or stopped and let go on. Ends
    with the program."""
    wait_until(lambda: program.poll() is not None or 'body' in {
        row['table_name'] for row in cluster.execute('SELECT table_name FROM system_schema.tables')},
        'the tables are there', timeout=60)
    for n in (2, 3):
        if program.poll() is not None:
            return
        cluster.kill(n)
        cluster.start(n)
    cluster.stop(3)
    try:
        wait_until(lambda: program.poll() is not None, 'it ends', timeout=15)
    except rig.SceneError:
        pass                    # it goes on when the node does
    finally:
        cluster.cont(3)


@scene
def what_was_acknowledged_outlives_each_node(binary):
    with Cluster(nodes=3) as cluster:
        program = subprocess.Popen(
            [rig.built(binary, PROGRAM)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env={**os.environ, 'CASSANDRA_POINT': f'{cluster.address(1)}:{cluster.port}',
                 'CASSANDRA_DC': 'dc1', 'CASSANDRA_REPLICAS': '3', 'CASSANDRA_PUTS': str(PUTS)})
        try:
            harm(cluster, program)
            said, _ = program.communicate(timeout=TIMEOUT)
        finally:
            program.kill()
        check(program.returncode == 0, said[-3000:])
        print('   ' + re.search(r'\d+ puts acknowledged, \d+ failed', said)[0])


main()
