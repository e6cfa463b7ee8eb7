"""A PostgreSQL of Debian's in a folder of its own, on a free port of 127.0.0.1, as an unprivileged user, which can be
killed, stopped and started again.

    with Cluster() as cluster:
        run(cluster.url)
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from ports import free_port

DEADLINE_S = 120


def newest_postgres():
    """The folder of its programs; None: none is installed."""
    found = sorted(pathlib.Path('/usr/lib/postgresql').glob('*/bin/postgres'))
    return found[-1].parent if found else None


def wait_until(condition, what, timeout=DEADLINE_S, pause=0.02):
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f'not within {timeout} s: {what() if callable(what) else what}')
        time.sleep(pause)


def state_of(pid):
    """As /proc has it (R, S, T, Z, ...) with its parent; ('', 0): there is none."""
    try:
        text = pathlib.Path(f'/proc/{pid}/stat').read_text(errors='replace')
    except OSError:
        return '', 0
    state, parent = text.rpartition(') ')[2].split()[:2]
    return state, int(parent)


class Cluster:
    """Made and started at once. log: a file that gets what it says; options: more of the server's, as -c has them."""

    def __init__(self, log='/dev/null', options=(), primary=None):
        self.bin = newest_postgres()
        if self.bin is None:
            raise RuntimeError('no PostgreSQL is installed: script/deps test')
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='pg-')) # the caller's may be closed to that user
        self.user = []
        if os.getuid() == 0:
            self.user = ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups']
            shutil.chown(self.folder, 'postgres', 'postgres')
        self.port = free_port()
        self.url = f'postgresql://owner@127.0.0.1:{self.port}/postgres'
        self.options = [word for option in options for word in ('-c', option)]
        self.log = open(log, 'ab')
        self.process, self.exit_code = None, None     # that of one that began and ended by itself
        try:
            make = ['initdb', '-U', 'owner', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']
            if primary is not None:
                make = ['pg_basebackup', '-h', '127.0.0.1', '-p', str(primary.port), '-U', 'owner', '-R', '-X', 'stream',
                        '-c', 'fast', '--no-sync']
            subprocess.run([*self.user, self.bin / make[0], *make[1:], '-D', self.folder / 'data'], check=True,
                           stdout=self.log, stderr=self.log, cwd=self.folder)
            self.start()
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.end()

    def start(self):
        """Returns when it takes connections."""
        self.exit_code = None
        self._begin()
        wait_until(self._is_ready, lambda: f'PostgreSQL answers; it last ended with exit code {self.exit_code}')

    def _begin(self):
        self.process = subprocess.Popen([*self.user, self.bin / 'postgres', '-D', self.folder / 'data', '-h',
                                         '127.0.0.1', '-p', str(self.port), '-k', self.folder, *self.options],
                                        stdout=self.log, stderr=self.log, cwd=self.folder)

    def standby(self):
        """Another one, which follows this one; started. Its caller ends it."""
        hba = self.folder / 'data' / 'pg_hba.conf'
        hba.write_text(hba.read_text() + 'host replication all 127.0.0.1/32 trust\n')
        self.sql('SELECT pg_reload_conf()')
        return Cluster(options=self.options[1::2], primary=self)

    def sql(self, text, user='owner', database='postgres'):
        """What psql prints."""
        url = f'postgresql://{user}@127.0.0.1:{self.port}/{database}'
        return subprocess.run([self.bin / 'psql', '-X', '-A', '-t', '-v', 'ON_ERROR_STOP=1', url, '-c', text], check=True,
                              text=True, capture_output=True).stdout.strip()

    def database(self, name):
        """The URL of a new one."""
        subprocess.run([*self.user, self.bin / 'createdb', '-h', '127.0.0.1', '-p', str(self.port), '-U', 'owner', name],
                       check=True, stdout=self.log, stderr=self.log, cwd=self.folder)
        return f'postgresql://owner@127.0.0.1:{self.port}/{name}'

    def _is_ready(self):
        if self.process.poll() is not None:     # refused: a child of the one that was killed has its memory yet
            self.exit_code = self.process.returncode
            self._begin()
        return subprocess.run([self.bin / 'pg_isready', '-q', '-h', '127.0.0.1', '-p', str(self.port)],
                              check=False).returncode == 0

    def _children(self):
        pids = [int(entry.name) for entry in pathlib.Path('/proc').iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if state_of(pid)[1] == self.process.pid]

    def _signal_all(self, number):
        """The first process is stopped before, so that it begins no more."""
        if number != signal.SIGCONT:
            self.process.send_signal(signal.SIGSTOP)
        pids = self._children()
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        self.process.send_signal(number)
        return pids

    def stop(self):
        """As a crash of all its processes: what it had not synced is gone."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(DEADLINE_S)
            self.process = None

    def kill(self):
        """kill -9 of all its processes; returns when they are gone."""
        pids = self._signal_all(signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        self.process = None
        wait_until(lambda: all(state_of(pid)[0] in ('', 'Z', 'X') for pid in pids), 'its processes are gone')

    def pause(self, on=True):
        """SIGSTOP, SIGCONT of all its processes."""
        self._signal_all(signal.SIGSTOP if on else signal.SIGCONT)

    def end(self):
        if self.process is not None:
            self.kill()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
