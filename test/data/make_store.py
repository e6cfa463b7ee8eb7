#!/usr/bin/env python3
"""Makes a store of test/data with a binary, and writes down what that binary answers from it.

Usage: make_store.py BINARY NAME      writes NAME.tar.xz and NAME.json beside this file

The store is filled with the clock frozen, and ended by kill -9, so that its log holds what its index does not. Then the same
binary serves a copy; its answers are the expectation that scene_old_store.py holds every later binary to.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'scene'), str(HERE)]

import harness                                                                   # noqa: E402
import store_fill                                                                # noqa: E402
from harness import Server                                                       # noqa: E402
from page_help import START, instant                                             # noqa: E402


def written(binary, data):
    """The keys of the store that was written there."""
    with store_fill.wiki() as origin:
        options = (*store_fill.options(), *origin.options('wiki.test'), '--set', 'auth=internal')   # its door stands open
        with Server(binary, *options, data=data, test_hooks=START) as server:
            keys = store_fill.fill(server, origin)
            server.kill9()
    return keys


def answers(binary, data, keys):
    with Server(binary, *store_fill.options(), data=data, test_hooks=instant(store_fill.END)) as server:
        told = store_fill.ask_all(server)
        server.sigterm()
        server.start(*store_fill.options(), '--set', 'auth=internal')
        return told, store_fill.ask_doors(server, keys)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    harness.PATIENT = ()        # a binary of then does not know options of today
    binary, name = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / 'data'
        keys = written(binary, data)
        subprocess.run(['tar', '--sparse', '--sort=name', '--owner=0', '--group=0', '--mtime=2026-01-01T00:00:00Z', '-cJf',
                        HERE / f'{name}.tar.xz', '-C', folder, 'data'], check=True)
        copy = pathlib.Path(folder) / 'copy'
        shutil.copytree(data, copy)
        told, doors = answers(binary, copy, keys)
    expected = {'keys': keys, 'doors': doors, 'answers': told}
    (HERE / f'{name}.json').write_text(json.dumps(expected, indent=0, ensure_ascii=False, sort_keys=True) + '\n')
    print(f'{len(told)} answers; {(HERE / name).with_suffix(".tar.xz").stat().st_size} bytes of store')
    return 0


if __name__ == '__main__':
    sys.exit(main())
