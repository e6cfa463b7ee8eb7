"""tools/cassandra: nodes start, die and come back as they are told, keep what they acknowledged,
and leave nothing behind them, however the program ends that started them."""
import os
import signal
import ssl
import subprocess
import sys

import rig
from rig import Cluster, check, eq, main, node, scene, wait_until

import cql
from cluster import stat_of
from jars import CassandraError

ROWS = 300
CHILD = '''
import sys
sys.path.append({tools!r})
from cluster import Cluster
cluster = Cluster(folder={folder!r})
cluster.start(1, wait=False)
print(cluster.pid(1), flush=True)
sys.stdin.read()
'''


def refusal(function, *arguments, **options):
    """The words of the exception that function raises."""
    try:
        function(*arguments, **options)
    except (CassandraError, cql.CqlError, OSError) as error:
        return str(error)
    raise rig.SceneError('it was not refused')


@scene
def a_node_that_is_killed_has_all_that_it_acknowledged(binary):
    cluster = node()
    rig.keyspace(cluster, 'kept')
    with cluster.session() as session:
        session.execute('CREATE TABLE kept.t (k int PRIMARY KEY, v text)')
        for k in range(ROWS):
            session.execute(f"INSERT INTO kept.t (k, v) VALUES ({k}, 'v{k}')")
        cluster.kill(1)
    eq(cluster.pid(1), None)
    cluster.start(1)
    rows = cluster.execute('SELECT k, v FROM kept.t')
    eq({row['k']: row['v'] for row in rows}, {k: f'v{k}' for k in range(ROWS)})


@scene
def a_node_that_is_stopped_keeps_silent_until_it_goes_on(binary):
    cluster = node()
    cluster.stop(1)
    check(not cluster.runs(1) and cluster.pid(1), 'it is stopped')
    refusal(cluster.session, timeout=0.3)
    cluster.cont(1)
    eq(len(cluster.execute('SELECT key FROM system.local')), 1)


@scene
def both_versions_of_the_protocol_are_spoken(binary):
    cluster = node()
    for version in (4, 5):
        with cluster.session(version=version) as session:
            row, = session.execute('SELECT release_version, rpc_port FROM system.local')
            eq((row['release_version'], row['rpc_port']), ('5.0.9', cluster.port))


@scene
def nodetool_reaches_the_node(binary):
    check('UN  127.0.0.1' in node().nodetool(1, 'status'), 'nodetool status')


@scene
def durability_is_no_option(binary):
    check('on disk' in refusal(Cluster, yaml={'commitlog_sync': 'periodic'}), 'why it is refused')


@scene
def a_node_dies_with_the_program_that_started_it(binary):
    for number in (signal.SIGKILL, signal.SIGTERM):
        folder = rig.Cluster().folder
        tools = str(rig.ROOT / 'tools/cassandra')
        program = CHILD.format(tools=tools, folder=str(folder))
        child = subprocess.Popen([sys.executable, '-c', program], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        pid = int(child.stdout.readline())
        check(stat_of(pid)[0] not in ('', 'Z', 'X'), 'the node runs')
        os.kill(child.pid, number)
        child.wait()
        wait_until(lambda pid=pid: stat_of(pid)[0] in ('', 'Z', 'X'), 'the node is gone')


@scene
def a_log_in_is_asked_for_and_tls_is_required(binary):
    with Cluster(auth=True, tls='required') as cluster:
        eq(len(cluster.execute('SELECT key FROM system.local')), 1)
        check('incorrect' in refusal(cluster.session, password='wrong'), 'a wrong password')
        refusal(cql.Session, cluster.address(1), cluster.port, timeout=5)
        stranger = ssl.create_default_context(cafile=cluster.strange_ca)
        check('VERIFY_FAILED' in refusal(cluster.session, tls=stranger),
              'an authority that is not theirs')


@scene
def a_certificate_of_the_client_is_asked_for(binary):
    with Cluster(tls='mutual') as cluster:
        eq(len(cluster.execute('SELECT key FROM system.local')), 1)
        refusal(cluster.session, tls=ssl.create_default_context(cafile=cluster.ca), timeout=10)


@scene
def tls_and_plain_text_share_a_port(binary):
    with Cluster(tls='optional') as cluster:
        for tls in (None, cluster.tls_context()):
            with cluster.session(tls=tls) as session:
                eq(len(session.execute('SELECT key FROM system.local')), 1)


@scene
def the_command_starts_a_cluster_that_stays(binary):
    folder = Cluster().folder
    (folder / 'shape.json').unlink()
    (folder / 'ports.json').unlink()
    command = [sys.executable, str(rig.ROOT / 'tools/cassandra/run.py'), '--dir', str(folder)]

    def run(*words):
        return subprocess.run([*command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True, check=True, timeout=600).stdout

    try:
        check('running' in run('up', '--yaml', 'hinted_handoff_enabled: false'),
              'up says what runs')
        eq(run('cql', 'SELECT release_version FROM system.local'), '{"release_version": "5.0.9"}\n')
        check('hinted_handoff_enabled: false' in (folder / 'node1/conf/cassandra.yaml').read_text(),
              'the setting')
        run('kill', '1')
        run('start', '1')
    finally:
        run('down', '--wipe')
    check(not folder.exists(), 'the folder is gone')


main()
