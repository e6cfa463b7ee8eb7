#!/usr/bin/env python3
"""script/run --lists: four servers behind a balancer without stickiness, one Redis, a generator that counts its calls, and
a page that shows the five items of a list arriving from different servers. All on loopback.

They stay up until script/run --lists --down. Everything lives in the folder given with --dir: configuration, stores,
logs and pids. Called again it starts anew. Wants redis-server and nginx (script/deps test).
"""
import argparse
import collections
import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[1]
SERVERS = 4
COMPUTES_S = 0.3         # what a list costs
READY_TIMEOUT = 90
END_TIMEOUT = 90


class ShowError(Exception):
    """Told to the user, without a trace."""


def say(text):
    print(text, flush=True)


# ---- the generator

class Generator(http.server.BaseHTTPRequestHandler):
    """GET /related: five items, others each time. GET /g/count: how often that was. Pictures and pages of the items."""
    protocol_version = 'HTTP/1.1'
    lock = threading.Lock()
    calls = collections.Counter()

    def log_message(self, *args):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path == '/related':
            self.related()
        elif url.path == '/g/count':
            display = urllib.parse.parse_qs(url.query).get('display', [''])[0]
            with self.lock:
                told = {'all': sum(self.calls.values()), 'display': self.calls[display]}
            self.reply('application/json', json.dumps(told))
        elif re.fullmatch(r'/g/image/\d+', url.path):
            number = int(url.path.rpartition('/')[2])
            self.reply('image/svg+xml', f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 80"><rect width="120" '
                       f'height="80" fill="hsl({number * 47 % 360},60%,75%)"/><text x="60" y="48" font-size="24" '
                       f'text-anchor="middle" font-family="sans-serif">{number}</text></svg>')
        else:
            self.reply('text/plain; charset=utf-8', f'The page of {url.path}.\n')

    def related(self):
        display = self.headers.get('Palimpsest-Display', '')
        with self.lock:
            first = sum(self.calls.values()) * 5 + 1
            self.calls[display] += 1
        time.sleep(COMPUTES_S)
        self.reply('application/json', json.dumps([{'link': f'/g/page/{n}', 'image': f'/g/image/{n}'}
                                                   for n in range(first, first + 5)]))

    def reply(self, kind, text):
        body = text.encode()
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve_generator(port):
    http.server.ThreadingHTTPServer.request_queue_size = 256
    http.server.ThreadingHTTPServer(('127.0.0.1', port), Generator).serve_forever()


# ---- the processes

def is_alive(pid, command):
    """Does the process with this number still run this command? Another program may have got the number."""
    try:
        state = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
        words = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().decode(errors='replace')
    except OSError:
        return False
    return state != 'Z' and command in words


class Show:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.pids = self.folder / 'pids.json'

    def started(self):
        """[(name, pid, mark)] of what was started last; mark is in its command line."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self.pids.read_text())
        return []

    def start(self, name, mark, command):
        with open(self.folder / f'{name}.log', 'wb') as log:
            process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       cwd=self.folder, start_new_session=True)
        self.pids.write_text(json.dumps([*self.started(), [name, process.pid, str(mark)]]))
        return process

    def wait_port(self, process, name, port):
        deadline = time.monotonic() + READY_TIMEOUT
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
                return
            time.sleep(0.02)
        raise ShowError(f'{name} does not answer: {(self.folder / f"{name}.log").read_text(errors="replace")[-1500:]}')

    def down(self):
        alive = [(name, pid) for name, pid, mark in self.started() if is_alive(pid, mark)]
        for _, pid in reversed(alive):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + END_TIMEOUT
        for name, pid, mark in self.started():
            while is_alive(pid, mark):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                if time.monotonic() > deadline:
                    raise ShowError(f'{name} (pid {pid}) does not end')
                time.sleep(0.02)
        self.pids.unlink(missing_ok=True)

    def up(self, binary):
        self.down()
        if self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / 'redis.log').exists():
            raise ShowError(f'{self.folder} holds something else')
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        redis, generator, front, *ports = (free_port() for _ in range(3 + SERVERS))
        me = pathlib.Path(__file__).resolve()
        self.wait_port(self.start('redis', f'127.0.0.1:{redis}', [
            'redis-server', '--port', redis, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir',
            self.folder]), 'redis', redis)
        self.wait_port(self.start('generator', me, [sys.executable, '-B', me, '--generator', generator]), 'generator',
                       generator)
        config = self.folder / 'server.yaml'
        config.write_text(f'redis: {{url: "redis://127.0.0.1:{redis}/0"}}\nlists:\n  related:\n'
                          f'    generator: "http://127.0.0.1:{generator}/related"\n    params: [user, lang]\n    size: 5\n'
                          f'    ttl: 60s\n    unique_by: [link, image]\n')
        for n, port in enumerate(ports, 1):
            self.wait_port(self.start(f'server{n}', config, [
                binary, 'serve', '--config', config, '--data', self.folder / f'data{n}', '--listen', f'127.0.0.1:{port}']),
                f'server{n}', port)
            self.wait_redis(port)
        self.balance(front, ports, generator)
        return front

    def wait_redis(self, port):
        """Until that server and Redis have found each other."""
        deadline = time.monotonic() + READY_TIMEOUT
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=READY_TIMEOUT) as answer:
                if re.search(rb'redis_up 1$', answer.read(), re.M):
                    return
            time.sleep(0.02)
        raise ShowError('a server does not find Redis')

    def balance(self, port, ports, generator):
        user = 'user root;' if os.geteuid() == 0 else ''
        servers = ' '.join(f'server 127.0.0.1:{one};' for one in ports)
        places = ' '.join(f'{kind}_temp_path {self.folder}/{kind};'
                          for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        shutil.copy(ROOT / 'tools/lists_page.html', self.folder / 'index.html')
        conf = self.folder / 'nginx.conf'
        conf.write_text(f'''{user} worker_processes 1; daemon off; pid {self.folder}/nginx.pid;
error_log {self.folder}/nginx.err; events {{ worker_connections 1024; }}
http {{ access_log off; {places} upstream servers {{ {servers} }}
server {{ listen 127.0.0.1:{port}; add_header Served-By $upstream_addr always;
location / {{ proxy_pass http://servers; }}
location /g/ {{ proxy_pass http://127.0.0.1:{generator}; }}
location = / {{ default_type text/html; root {self.folder}; try_files /index.html =404; }} }} }}
''')
        self.wait_port(self.start('nginx', conf, ['nginx', '-e', self.folder / 'nginx.err', '-c', conf]), 'nginx', port)


# ---- what is printed

def shown(front):
    """The five items of one display as a program asks for them."""
    base = f'http://127.0.0.1:{front}/localhost/v1/lists/related/first-show'
    servers, links, versions = set(), set(), set()
    say(f'$ for p in 1 2 3 4 5; do curl -si "{base}/$p?user=you" & done')
    for p in range(1, 6):
        with urllib.request.urlopen(f'{base}/{p}?user=you', timeout=READY_TIMEOUT) as answer:
            item = json.load(answer)
            servers.add(answer.headers['Served-By'])
            versions.add(answer.headers['List-Version'])
            links.add(item['link'])
            say(f'    {answer.headers["Served-By"]}  {json.dumps(item)}  {answer.headers["Cache-Status"]}')
    with urllib.request.urlopen(f'http://127.0.0.1:{front}/g/count?display=first-show', timeout=READY_TIMEOUT) as answer:
        count = json.load(answer)['display']
    say(f'    {len(servers)} servers, {len(versions)} version, {len(links)} distinct items, computed {count} time(s)')


def main():
    parser = argparse.ArgumentParser(prog='script/run --lists', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--lists', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--generator', type=int, help=argparse.SUPPRESS)
    parser.add_argument('--down', action='store_true', help='end everything')
    parser.add_argument('--binary', help='the program (default: build it)')
    parser.add_argument('--dir', default=str(ROOT / 'build/lists'), help='folder of everything')
    args = parser.parse_args()
    if args.generator:
        serve_generator(args.generator)
    show = Show(args.dir)
    try:
        if args.down:
            show.down()
            return 0
        for program in ('redis-server', 'nginx'):
            if shutil.which(program) is None:
                subprocess.run([str(ROOT / 'script/deps'), 'test'], check=True)
        if args.binary is None:
            say('building build/palimpsest')
            subprocess.run([str(ROOT / 'script/build')], check=True, stdout=subprocess.DEVNULL)
        front = show.up(pathlib.Path(args.binary or ROOT / 'build/palimpsest').resolve())
        shown(front)
    except (ShowError, OSError, subprocess.CalledProcessError) as error:
        with contextlib.suppress(ShowError):
            show.down()
        print(f'script/run --lists: {error}', file=sys.stderr)
        return 1
    say(f'Open http://127.0.0.1:{front}/ to see a list arrive from different servers. End with: script/run --lists --down')
    return 0


if __name__ == '__main__':
    sys.exit(main())
