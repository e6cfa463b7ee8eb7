#!/usr/bin/env python3
"""front.py - what a request costs at the front, in instructions and in system calls; prints Markdown.

    front.py instructions OLD/palimpsest NEW/palimpsest    of a ready GET of 20 KB: on a connection of its own, with a key, and on one
                                                           that carried a write and a miss before; of a PUT; of a GET that is stored
    front.py calls OLD/palimpsest NEW/palimpsest           the same in system calls

The binaries are release builds (meson setup DIR --buildtype=release). The first wants valgrind, the second strace. What both count
is the whole program: what N requests add to none."""
import argparse
import glob
import http.client
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'bench')]
sys.dont_write_bytecode = True
from bench import Proc                # noqa: E402  pylint: disable=wrong-import-position

COUNTED = 300
WAIT_S = 60
PAGE = '/localhost/v1/page/html/'
HTML = {'Content-Type': 'text/html'}
BODY = (b'<p>The third planet from the Sun. ' * 600)[:20480]


class Server:
    def __init__(self, binary, *wrapper, keyed=False):
        self.folder = tempfile.mkdtemp(prefix='front-', dir='/var/tmp')
        self.headers = {}
        more = []
        if keyed:
            token = [binary, 'token']
            key = subprocess.run([*token, 'create', '--role', 'admin', '--data', f'{self.folder}/data', '--new'], check=True,
                                 capture_output=True, text=True).stdout.strip()
            subprocess.run([*token, 'lock', '--data', f'{self.folder}/data'], check=True, capture_output=True)
            self.headers = {'Authorization': f'Bearer {key}'}
            more = ['--set', 'auth=internal']
        wrapper = [word.replace('FOLDER', self.folder) for word in wrapper]
        self.proc = Proc([*wrapper, binary, 'serve', '--data', f'{self.folder}/data', '--listen', '127.0.0.1:0', *more],
                         'listening on ')
        self.address = self.proc.url.split('//')[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self):
        return http.client.HTTPConnection(self.address, timeout=WAIT_S)

    def ask(self, client, method, path, body=None, want=200):
        client.request(method, path, body, {**self.headers, **(HTML if body else {})})
        answer = client.getresponse()
        answer.read()
        if answer.status != want:
            raise SystemExit(f'{method} {path}: {answer.status}')


def play(server, how, count):
    """The same before, whatever count is."""
    client = server.client()
    server.ask(client, 'PUT', f'{PAGE}Earth/1', BODY, 201)
    for _ in range(4):
        server.ask(client, 'GET', f'{PAGE}Earth')
    if how != 'after':
        client = server.client()
        server.ask(client, 'GET', f'{PAGE}Earth')
    else:
        server.ask(client, 'PUT', f'{PAGE}Mars/1', BODY, 201)
        server.ask(client, 'GET', f'{PAGE}Nobody', want=404)
        server.ask(client, 'GET', f'{PAGE}Earth')
    for i in range(count):
        if how == 'put':
            server.ask(client, 'PUT', f'{PAGE}Venus/{i + 1}', BODY, 201)
        elif how == 'stored':
            server.ask(client, 'GET', f'{PAGE}Earth?x={i}')
        else:
            server.ask(client, 'GET', f'{PAGE}Earth')


def instructions(binary, how, count):
    with Server(binary, 'valgrind', '-q', '--tool=callgrind', '--callgrind-out-file=FOLDER/count', keyed=how == 'keyed') as server:
        play(server, how, count)
        server.proc.end()
        said = [subprocess.run(['callgrind_annotate', name], capture_output=True, text=True, check=False).stdout
                for name in glob.glob(f'{server.folder}/count*')]
        found = [re.search(r'([\d,]+) .*PROGRAM TOTALS', text) for text in said]
        return sum(int(one[1].replace(',', '')) for one in found if one)


def calls(binary, how, count):
    with Server(binary, 'strace', '-D', '-f', '-o', 'FOLDER/count', keyed=how == 'keyed') as server:       # -D: what is ended is the server
        play(server, how, count)
        server.proc.end()
        lines = pathlib.Path(server.folder, 'count').read_text(encoding='utf-8', errors='replace').splitlines()
        return sum('(' in line and ' resumed>' not in line and ' --- ' not in line for line in lines)


ROWS = {'plain': 'ready GET', 'keyed': 'ready GET with a key', 'after': 'ready GET after a write and a miss', 'put': 'PUT of 20 KB',
        'stored': 'GET that is stored'}
WAYS = {'instructions': instructions, 'calls': calls}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=WAYS)
    parser.add_argument('binaries', nargs='+')
    args = parser.parse_args()
    count = WAYS[args.what]
    print('| | ' + ' | '.join(args.binaries) + ' | ratio |\n| --- |' + ' ---: |' * (len(args.binaries) + 1))
    for how, name in ROWS.items():
        each = [(count(binary, how, COUNTED) - count(binary, how, 0)) / COUNTED for binary in args.binaries]
        print(f'| {name} | ' + ' | '.join(f'{one:.1f}' for one in each) + f' | {each[-1] / each[0]:.3f} |', flush=True)


if __name__ == '__main__':
    main()
