"""Goal: queue top on a terminal shows what stands in the queues now, in place, the troubled first, and no more than fits;
a server that goes away meanwhile is said and come back to; Ctrl-C ends it.
Method: a pseudoterminal of a given size as the controlling terminal of the real binary; each picture that arrives on it.
"""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

from cli import Client
from harness import EXIT_TIMEOUT, Server, check, eq, free_port, main, scene, wait_until

WIDTH = 80
BEGIN, END = '\033[?7l\033[H\033[2J', '\033[?7h'


class Terminal:
    """`palimpsest queue top ARGS` on a terminal of its own."""

    def __init__(self, client, *args, height=24, width=WIDTH):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', height, width, 0, 0))

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL) # whoever runs us in the background has it ignored
        self.process = subprocess.Popen([client.binary, 'queue', 'top', '--interval', '100', *args], stdin=slave, stdout=slave,
                                        stderr=slave, preexec_fn=own, env={**client.env, 'TERM': 'xterm', 'NO_COLOR': ''})
        os.close(slave)
        self.seen = ''
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while True:
            try:
                got = os.read(self.master, 65536)
            except OSError: # nobody has the other end any more
                return
            if not got:
                return
            self.seen = (self.seen + got.decode(errors='replace'))[-1000000:]

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.process.kill()
        self.process.wait()
        self.reader.join(10)
        os.close(self.master)

    def picture(self):
        """The lines of the last whole picture, with their colours; [] before the first."""
        text, found, _ = self.seen.rpartition(END)
        lines = text[text.rindex(BEGIN) + len(BEGIN):].replace('\r\n', '\n').splitlines() if found else []
        while lines and not plain(lines[-1]):
            lines.pop()
        return lines

    def wait_for(self, what, holds):
        """The first picture from now on of which holds(lines without colours) is true."""
        def look():
            lines = [plain(line) for line in self.picture()]
            return lines if lines and holds(lines) else None
        try:
            return wait_until(look, what)
        except AssertionError:
            raise AssertionError(f'no picture with {what}: {self.seen[-1500:]!r}') from None


def plain(line):
    return re.sub(r'\033\[[0-9;]*m', '', line)


def cells(lines, queue):
    for line in lines:
        if line.split()[:1] == [queue]:
            return line.split()[1:]
    return None


@scene
def the_view_follows_the_queues(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('queue', 'create', 'q', '--partitions', '2', '--expire-timeout', '2000000h')
        client.ok('queue', 'produce', 'q', '--batch', '1', stdin=b'a\nb\nc\n')
        with Terminal(client) as terminal:
            lines = terminal.wait_for('three items', lambda lines: cells(lines, 'q')[:5] == ['2', '3', '0', '0', '0'])
            eq(lines[2].split(), ['QUEUE', 'PARTITIONS', 'READY', 'SCHEDULED', 'LEASED', 'WAITING', 'OLDEST'])
            check(server.url in lines[0], lines[0])
            client.ok('queue', 'lease', 'q')
            client.ok('queue', 'produce', 'q', '--at', '2099-01-01T00:00:00Z', stdin=b'd\n')
            terminal.wait_for('one leased, one scheduled', lambda lines: cells(lines, 'q')[:5] == ['2', '2', '1', '1', '0'])
            client.ok('queue', 'create', 'another')
            lines = terminal.wait_for('a new queue', lambda lines: cells(lines, 'another') is not None)
            eq([line.split()[0] for line in lines[3:]], ['q', 'another'], 'the fuller one first')
            eq(cells(lines, 'another')[5], '-', 'no oldest where nothing is')
            client.ok('queue', 'pause', 'another', '0')
            terminal.wait_for('the paused one first', lambda lines: lines[3].split()[0] == 'another')
            check(any('\033[33m' in line and 'another' in line for line in terminal.picture()), 'it is yellow')
            client.ok('queue', 'rm', 'another')
            terminal.wait_for('one queue less', lambda lines: cells(lines, 'another') is None)
            os.write(terminal.master, b'\x03')
            eq(terminal.process.wait(EXIT_TIMEOUT), -signal.SIGINT)


@scene
def no_more_is_shown_than_fits(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for i in range(12):
            client.ok('queue', 'create', f'q{i:02}')
        client.ok('queue', 'produce', 'q11', stdin=b'a\n')
        client.ok('queue', 'create', 'n' * 200)
        with Terminal(client, height=10) as terminal:
            lines = terminal.wait_for('a picture', lambda lines: cells(lines, 'q11') is not None)
            check(len(lines) < 10, f'{len(lines)} lines on a terminal of 10')
            eq(lines[3].split()[0], 'q11')
            eq(lines[-1], 'and 8 more')
        with Terminal(client, 'q03', 'q11', '--count', '2', height=10) as terminal:
            eq(terminal.process.wait(EXIT_TIMEOUT), 0)
            terminal.reader.join(EXIT_TIMEOUT)
            eq([line.split()[0] for line in map(plain, terminal.picture()[3:])], ['q11', 'q03'])
        with Terminal(client, 'none') as terminal:
            eq(terminal.process.wait(EXIT_TIMEOUT), 5)
            terminal.reader.join(EXIT_TIMEOUT)
            check("no such queue named 'none'" in terminal.seen, terminal.seen)


def columns(line):
    return len(plain(line))


@scene
def a_small_terminal_is_not_written_over(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for i in range(12):
            client.ok('queue', 'create', f'q{i:02}')
        client.ok('queue', 'create', 'n' * 200)
        client.ok('queue', 'produce', 'n' * 200, stdin=b'a\nb\n')
        for width, height in ((40, 6), (20, 3), (80, 5), (80, 24)):
            with Terminal(client, width=width, height=height) as terminal:
                lines = terminal.wait_for('a picture', lambda lines: any('READY' in line or 'QUEUE' in line for line in lines))
                check(len(lines) < height, f'{width}x{height}: {lines}')
                check(all(columns(line) <= width for line in lines), f'{width}x{height}: {lines}')
                check(any(line.startswith('nnn') for line in lines) or height < 4, lines)
        eq(cells(lines, 'n' * 40)[:2], ['1', '2'], 'a long name leaves room for the numbers')


@scene
def q_ends_it_and_the_terminal_is_as_it_was(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('queue', 'create', 'q')
        for key, status in ((b'q', 0), (b'xQ', 0), (b'\x03', -signal.SIGINT)):
            with Terminal(client, '--interval', '60000') as terminal:
                terminal.wait_for('a picture', lambda lines: cells(lines, 'q') is not None)
                wait_until(lambda: not termios.tcgetattr(terminal.master)[3] & termios.ICANON, 'keys come one by one')
                os.write(terminal.master, key)
                eq(terminal.process.wait(EXIT_TIMEOUT), status, key)
                after = termios.tcgetattr(terminal.master)
                check(after[3] & termios.ICANON and after[3] & termios.ECHO, f'{after}')


@scene
def a_server_that_went_away_is_come_back_to(binary):
    with Server(binary, '--listen', f'127.0.0.1:{free_port()}') as server:
        client = Client(binary, server)
        client.ok('queue', 'create', 'q')
        with Terminal(client) as terminal:
            terminal.wait_for('the queue', lambda lines: cells(lines, 'q') is not None)
            server.kill9()
            terminal.wait_for('what is wrong', lambda lines: 'connect to server' in lines[-1])
            server.start()
            client.ok('queue', 'produce', 'q', stdin=b'a\n')
            terminal.wait_for('the queue again', lambda lines: cells(lines, 'q') and cells(lines, 'q')[1] == '1')
            eq(terminal.process.poll(), None)


main()
