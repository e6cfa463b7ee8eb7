"""Goal: pages, stash and listings answer on a shared store as in a data directory. Method: the
scenes of these files of test/scene, with SCENE_CASSANDRA in the environment and a node behind it.
What is left out there and why, test/scene/shared_store.py tells as a program. By hand:
`python3 test/cassandra/scene_pages_served.py BINARY [NAME...]`, as page_put."""
import os
import pathlib
import subprocess
import sys

import rig

FILES = ('page_retention', 'page_put', 'stash', 'page_get', 'page_listing', 'page_errors',
         'wiki_says')


def main(files=FILES):
    binary, names = sys.argv[1], sys.argv[2:] or files
    cluster = rig.node()
    place = f'{cluster.address(1)}:{cluster.port}/{cluster.datacentre(1)}'
    scenes = rig.ROOT / 'test/scene'
    files = (scenes / f'scene_{name}.py' for name in names)
    return subprocess.run(
        [sys.executable, scenes / 'run.py', pathlib.Path(binary).resolve(), '--', *files],
        env={**os.environ, 'SCENE_CASSANDRA': place}, check=False).returncode


if __name__ == '__main__':
    sys.exit(main())
