"""tools/cassandra with several nodes: one that dies and comes back is seen by the others, two data
centres hold what either has, and a log-in outlives a node."""
import rig
from rig import Cluster, check, eq, main, scene, wait_until


@scene
def two_data_centres_lose_a_node_and_get_it_back(binary):
    with Cluster(nodes=3, datacentres=2) as cluster:
        rows = cluster.execute('SELECT peer, data_center, tokens FROM system.peers')
        eq({row['peer']: (row['data_center'], row['tokens']) for row in rows},
           {cluster.address(n): (cluster.datacentre(n), [str(cluster.token(n))]) for n in (2, 3)})
        eq([cluster.datacentre(n) for n in cluster.numbers], ['dc1', 'dc1', 'dc2'])
        rig.keyspace(cluster, 'two')
        cluster.execute('CREATE TABLE two.t (k int PRIMARY KEY, v int)')
        cluster.execute('INSERT INTO two.t (k, v) VALUES (1, 1)', consistency='ALL')
        cluster.kill(2)
        cluster.execute('INSERT INTO two.t (k, v) VALUES (2, 2)', consistency='ONE')
        cluster.start(2)
        for n in cluster.numbers:       # node 2 gets what it missed from the hints of node 1
            wait_until(lambda n=n: len(cluster.execute('SELECT k FROM two.t', n, 'LOCAL_ONE')) == 2,
                       f'node {n} has both')


@scene
def a_log_in_outlives_a_node(binary):
    with Cluster(nodes=3, auth=True) as cluster:
        cluster.end(1)
        check(cluster.execute('SELECT role FROM system_auth.roles', n=2, consistency='QUORUM'),
              'there are roles')


main()
