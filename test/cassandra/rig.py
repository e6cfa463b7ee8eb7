"""What the scenes of this folder stand on: those of test/scene/harness.py, and a real Cassandra.

    from rig import eq, main, node, scene

    @scene
    def a_row_comes_back(binary):
        cluster = node()        # one, the same for all scenes of a file
        cluster.execute(...)

    main()

Run as `python3 test/cassandra/scene_x.py BINARY [SCENE...]`. BINARY is build/palimpsest; programs
of the tests are beside it: built('test/unit/cql/...').
"""
import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON_OF_DEBIAN = '/usr/bin/python3'
for place in ('tools/cassandra', 'test/scene', 'test/cassandra'):
    if str(ROOT / place) not in sys.path:
        sys.path.append(str(ROOT / place))

from cluster import Cluster      # noqa: E402  pylint: disable=wrong-import-position
from harness import (     # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
    SceneError, check, eq, main, scene, wait_until)

_node = []
HEAP = '1G'                      # of a node on which each scene makes tables


def node():
    """A cluster of one node without log-in or TLS, shared by the scenes of a file; it ends with the
    program. It runs when this returns, whatever the scene before has done to it.
    CASSANDRA_NODE_DIR: the folder of one that is up, for one file or a few: tables fill its memory."""
    if not _node:
        folder = os.environ.get('CASSANDRA_NODE_DIR')
        _node.append(Cluster.found(folder) if folder else Cluster(heap=HEAP).up())
    cluster = _node[0]
    if cluster.pid(1) is not None and not cluster.runs(1):
        cluster.cont(1)
    return cluster.up()


def keyspace(cluster, name, replicas=None):
    """A new one of this name, without tables."""
    with cluster.session() as session:
        session.execute(f'DROP KEYSPACE IF EXISTS {name}')
        session.execute(
            f'CREATE KEYSPACE {name} WITH replication = {cluster.replication(replicas)}')
    return name


def built(binary, place):
    """A program of the build that the binary is of."""
    path = pathlib.Path(binary).resolve().parent / place
    check(os.access(path, os.X_OK), f'{path} was not built')
    return str(path)


def need_driver():
    """Debian's package python3-cassandra: begins this program anew under the Python that has it."""
    found = importlib.util.find_spec('cassandra')
    # None: a folder of that name, such as tools/cassandra.
    if found is None or found.origin is None:
        if sys.executable == PYTHON_OF_DEBIAN or not os.access(PYTHON_OF_DEBIAN, os.X_OK):
            raise SystemExit('python3-cassandra is missing: script/deps cassandra')
        os.execv(PYTHON_OF_DEBIAN, [PYTHON_OF_DEBIAN, *sys.argv])
