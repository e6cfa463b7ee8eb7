"""Goal: who follows "One store on Cassandra" of docs/quickstart/servers.md sees what it shows. Method: its commands are run in
order by a shell (test/scene/walk_help.py) on a real node."""
import rig
from rig import ROOT, check, main, scene

from harness import free_port
from walk_help import Walk

HEADING = '\n## One store on Cassandra'


@scene
def two_servers_are_one_store(binary):
    text = (ROOT / 'docs/quickstart/servers.md').read_text()
    _, found, section = text.partition(HEADING)
    check(found, HEADING)
    cluster = rig.node()
    cluster.execute('DROP KEYSPACE IF EXISTS palimpsest')
    swap = {'127.0.0.1:9042': f'{cluster.address(1)}:{cluster.port}', 'datacenter1': cluster.datacentre(1),
            '7251': free_port(), '7252': free_port()}
    with Walk(binary, section, swap) as walk:
        check(walk.go() >= 9, 'commands')


main()
