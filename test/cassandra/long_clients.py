"""Goal: pages, buckets and stashes answer through any of four servers that share a store as one server does, to RESTBase's
clients, too. Method: the scenes of these files of test/scene, with SCENE_CASSANDRA and SCENE_SERVERS in the environment: each
server of a scene is four of them, and haproxy without stickiness gives each request to the next. What is left out there and
why, they say as they run. By hand: `python3 test/cassandra/long_clients.py BINARY [NAME...]`, as stash."""
import os
import pathlib
import subprocess
import sys

import rig

# Of RESTBase's clients are value, value_coded, render_titles, render_peer and render_transform.
FILES = ('page_put', 'page_get', 'page_retention', 'page_listing', 'page_errors', 'stash', 'value', 'value_coded',
         'render_titles', 'render_peer', 'render_transform')
SERVERS = 4
BESIDE = 4              # files: they wait for most of their time


def main():
    binary, names = sys.argv[1], sys.argv[2:] or FILES
    cluster = rig.node()
    place = f'{cluster.address(1)}:{cluster.port}/{cluster.datacentre(1)}'
    scenes = rig.ROOT / 'test/scene'
    files = (scenes / f'scene_{name}.py' for name in names)
    return subprocess.run(
        [sys.executable, scenes / 'run.py', pathlib.Path(binary).resolve(), '--', *files],
        env={**os.environ, 'SCENE_CASSANDRA': place, 'SCENE_SERVERS': str(SERVERS), 'SCENE_JOBS': str(BESIDE)}, check=False).returncode


if __name__ == '__main__':
    sys.exit(main())
