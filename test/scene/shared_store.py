"""Scenes of pages on Cassandra instead of a data directory: with SCENE_CASSANDRA=HOST:PORT/DC in the environment each
server of harness.py keeps its pages in a keyspace of its own, made for its data folder. Tables take seconds to make, so
a keyspace is emptied for the next one, and dropped with the program.

What cannot be the same on a store of many servers, a scene says by one of these, with the reason:

    @scene
    @not_shared('latest_hash keeps nothing that is superseded, so no other server can be read behind a put')
    def what_latest_hash_forgets(binary):

    differs('a release lingers: another server may just have seen the pin') and server.clock(advance='10s')

`python3 test/scene/shared_store.py` lists them all.
"""
import ast
import atexit
import hashlib
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / 'tools/cassandra'))

SCHEMA_TIMEOUT = 300
SCHEMA_TRIES = 4
WRONG = 2                   # the exit code of who was told nonsense
KEPT = 'meta'               # the table that says which tables there are

_of_data = {}               # keyspaces of data folders in use
_free = []


def place():
    """(HOST:PORT, DC), or None: the store is in the data directory."""
    said = os.environ.get('SCENE_CASSANDRA')
    return said.split('/') if said else None


def not_shared(reason):
    """A scene that is left out on a shared store."""
    def mark(function):
        function.not_shared = reason
        return function
    return mark


def differs(_reason):
    """Whether the store is shared: what follows holds there alone."""
    return place() is not None


def left_out(function):
    """Why this scene does not run now, or None."""
    return getattr(function, 'not_shared', None) if place() else None


def keyspace(data):
    if str(data) not in _of_data:
        _of_data[str(data)] = _free.pop() if _free else 's' + hashlib.sha256(str(data).encode()).hexdigest()[:20]
    return _of_data[str(data)]


def join(data, other):
    """Another data folder whose server keeps its pages with those of other."""
    if place() is not None:
        _of_data[str(data)] = keyspace(other)


def options(data):
    """Words of a command line."""
    if place() is None:
        return []
    point, dc = place()
    said = ('store.kind=cassandra', f'store.contact_points={point}', f'store.local_dc={dc}',
            f'store.keyspace={keyspace(data)}', f'store.replication={dc}=1')
    return [word for option in said for word in ('--set', option)]


def found(data, folder):
    """Words of a verb that looks into the store without a server; a file in that folder says where it is."""
    if place() is None:
        return ['--data', str(data)]
    point, dc = place()
    file = pathlib.Path(folder) / 'store.yaml'
    file.write_text(json.dumps({'store': {'kind': 'cassandra', 'contact_points': [point], 'local_dc': dc,
                                          'keyspace': keyspace(data), 'replication': {dc: 1}}}))
    return ['--config', str(file)]


def run_again(command, ends):
    """A verb, until it ends with one of these codes: a busy node may be too slow for it."""
    for _ in range(SCHEMA_TRIES):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, capture_output=True, text=True, timeout=SCHEMA_TIMEOUT)
        if done.returncode in ends:
            break
    return done


def policies(binary, words):
    """`policy apply` with those of the words of `serve` that it knows. What is wrong with them the server says itself."""
    known, first = [], None
    for flag, value in zip(words, words[1:]):
        domain = value.split('.')[1] if flag == '--set' and value.startswith('domains.') else None
        first = first or domain
        if domain not in (None, first) or value.startswith('change.'):      # a verb takes no more than 128 options
            continue
        if flag in ('--set', '--config'):
            known += [flag, value]
        elif flag == '--domain':
            known += ['--set', f'domains={value}']
    run_again([binary, 'policy', 'apply', *known], (0, WRONG))


def make(binary, data, words=()):
    """The tables, when they are not there, and the policies of a server with these words."""
    if place() is None:
        return
    if not _of_data and not _free:
        atexit.register(_drop_all)
    if str(data) not in _of_data and not _free:
        run_again([binary, 'store', 'schema', *options(data)], (0,)).check_returncode()
    policies(binary, [*words, *options(data)])


def _session():
    from cql import Session     # pylint: disable=import-outside-toplevel,import-error
    host, _, port = place()[0].rpartition(':')
    return Session(host, int(port))


def drop(data=None):
    """What was kept for this data folder and for no other that is in use; or for any."""
    gone = list(_of_data) if data is None else [str(data)] if str(data) in _of_data else []
    if not gone:
        return
    with _session() as session:
        for one in gone:
            space = _of_data.pop(one)
            if space in _of_data.values():
                continue
            for row in session.execute(f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{space}'"):
                if row['table_name'] != KEPT:
                    session.execute(f'TRUNCATE {space}.{row["table_name"]}')
            _free.append(space)


def _drop_all():
    with _session() as session:
        for space in [*_free, *_of_data.values()]:
            session.execute(f'DROP KEYSPACE IF EXISTS {space}')


def said():
    """(file, scene, reason) of all that differs, as the sources say it."""
    for file in sorted(HERE.glob('*.py')):
        for function in ast.walk(ast.parse(file.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in ast.walk(function):
                name = getattr(call, 'func', None) and getattr(call.func, 'id', getattr(call.func, 'attr', ''))
                if name in ('not_shared', 'differs') and isinstance(call.args[0], ast.Constant):
                    what = 'left out' if name == 'not_shared' else 'differs'
                    yield file.name, function.name, what, call.args[0].value


if __name__ == '__main__':
    for line in said():
        print('{}  {}  {}: {}'.format(*line))
