"""Scenes of pages on Cassandra instead of a data directory: with SCENE_CASSANDRA=HOST:PORT/DC in the environment each
server of harness.py keeps its pages in a keyspace of its own, made for its data folder and dropped with it."""
import hashlib
import os
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / 'tools/cassandra'))

SCHEMA_TIMEOUT = 300


def place():
    """(HOST:PORT, DC), or None: the store is in the data directory."""
    said = os.environ.get('SCENE_CASSANDRA')
    return said.split('/') if said else None


def keyspace(data):
    return 's' + hashlib.sha256(str(data).encode()).hexdigest()[:20]


def options(data):
    """Words of a command line."""
    if place() is None:
        return []
    point, dc = place()
    said = ('store.kind=cassandra', f'store.contact_points={point}', f'store.local_dc={dc}',
            f'store.keyspace={keyspace(data)}', f'store.replication={dc}=1')
    return [word for option in said for word in ('--set', option)]


def policies(binary, words):
    """`policy apply` with those of the words of `serve` that it knows. What is wrong with them the server says itself."""
    known = []
    for flag, value in zip(words, words[1:]):
        if flag in ('--set', '--config'):
            known += [flag, value]
        elif flag == '--domain':
            known += ['--set', f'domains={value}']
    subprocess.run([binary, 'policy', 'apply', *known], stdin=subprocess.DEVNULL, check=False, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=SCHEMA_TIMEOUT)


def make(binary, data, words=()):
    """The tables, when they are not there, and the policies of a server with these words."""
    if place() is not None:
        subprocess.run([binary, 'store', 'schema', *options(data)], stdin=subprocess.DEVNULL, check=True,
                       stdout=subprocess.DEVNULL, timeout=SCHEMA_TIMEOUT)
        policies(binary, [*words, *options(data)])


def drop(data):
    if place() is not None:
        from cql import Session     # pylint: disable=import-outside-toplevel,import-error
        host, _, port = place()[0].rpartition(':')
        with Session(host, int(port)) as session:
            session.execute(f'DROP KEYSPACE IF EXISTS {keyspace(data)}')
