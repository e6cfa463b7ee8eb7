"""haproxy as the balancer, with the configuration that docs/several-servers.md shows: only its addresses are replaced."""
import contextlib
import pathlib
import re
import socket

from harness import REQUEST_TIMEOUT, check, free_port, wait_until
from list_help import Process

MANUAL = pathlib.Path(__file__).resolve().parents[2] / 'docs/several-servers.md'
SERVER = re.compile(r'^ +server \w+ 10\.\d+\.\d+\.\d+:\d+$', re.M)
BACKEND = 'palimpsest'


def documented(first='defaults'):
    """The configuration as it is shown: indented, from the line that begins so on."""
    text = MANUAL.read_text()
    block = re.search(rf'^    {first}\b.*\n(?:    .*\n|\n)*', text, re.M).group()
    return re.sub(r'^    ', '', block, flags=re.M)


class Haproxy(Process):
    """Round robin over ports; server number n is called sN. sticky: with the lines that send editors to the first. more:
    lines behind all others, as what a test wants to know."""

    def __init__(self, ports, sticky=False, more=''):
        super().__init__('haproxy')
        self.port, self.control = free_port(), self.folder / 'control'
        shown = documented()
        check(len(SERVER.findall(shown)) >= 2 and 'bind :80' in shown, 'servers and an address to replace')
        servers = [f'  server s{n} 127.0.0.1:{port}' for n, port in enumerate(ports)]
        settings = f'global\n  nbthread 1\n  stats socket {self.control} level admin\n'
        text = SERVER.sub('', shown).replace('bind :80', f'bind 127.0.0.1:{self.port}').rstrip()
        to_first = documented('  acl edit').replace('use-server a ', 'use-server s0 ').rstrip() if sticky else ''
        (self.folder / 'conf').write_text('\n'.join([settings, text, to_first, *servers, more, '']))
        self.run(['haproxy', '-db', '-f', self.folder / 'conf'])
        self.wait_port(self.port)
        wait_until(self._is_asked, 'its control socket answers')        # which comes after the port

    def _is_asked(self):
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return bool(self.ask('show info'))
        return False

    def ask(self, command):
        """What its control socket says."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(REQUEST_TIMEOUT)
            s.connect(str(self.control))
            s.sendall(command.encode() + b'\n')
            parts = iter(lambda: s.recv(65536), b'')
            return b''.join(parts).decode()

    def stats(self):
        """{server: {column: value}} of show stat."""
        lines = [line.split(',') for line in self.ask('show stat').splitlines() if line]
        names = [name.lstrip('# ') for name in lines[0]]
        rows = [dict(zip(names, line)) for line in lines[1:]]
        return {row['svname']: row for row in rows if row['pxname'] == BACKEND}

    def is_up(self, n):
        return self.stats()[f's{n}']['status'].startswith('UP')

    def wait_server(self, n, up):
        wait_until(lambda: self.is_up(n) == up, f'server {n} is {"up" if up else "down"}')
