"""Goal: people edit a real wiki with VisualEditor through servers whose pages are in Cassandra, and see what others saved.
Method: scenes of test/e2e with SCENE_CASSANDRA in the environment and a node behind it. Those of scene_robin.py and
scene_saved.py have four servers on one keyspace behind haproxy, with a Redis and without; those of the other files have one
server, or two. By hand: `python3 test/cassandra/long_wiki.py BINARY [NAME...]`, as robin, or robin/none without Redis.
Wants script/deps browser, too."""
import os
import pathlib
import subprocess
import sys

import rig

RUNS = ('robin', 'robin/none', 'saved', 'editor', 'told')
MORE = ('wiki', 'fresh', 'rest')       # by hand: 20 minutes


def run(binary, name, place):
    """Whether all scenes of the file were fine."""
    file, _, redis = name.partition('/')
    print(f'{name}:', flush=True)
    env = {**os.environ, 'SCENE_CASSANDRA': place, **({'ROBIN_REDIS': redis} if redis else {})}
    return subprocess.run([sys.executable, rig.ROOT / f'test/e2e/scene_{file}.py', pathlib.Path(binary).resolve()], env=env,
                          check=False).returncode == 0


def main():
    binary, names = sys.argv[1], sys.argv[2:] or RUNS
    if set(names) - {*RUNS, *MORE}:
        raise SystemExit(f'there are {" ".join((*RUNS, *MORE))}')
    cluster = rig.node()
    place = f'{cluster.address(1)}:{cluster.port}/{cluster.datacentre(1)}'
    fine = [run(binary, name, place) for name in names]
    return 0 if all(fine) else 1


if __name__ == '__main__':
    sys.exit(main())
