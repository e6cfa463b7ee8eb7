"""What scenes stand on: a real server process, requests to it, and a list of scenes.

    from harness import Server, eq, main, scene

    @scene
    def a_page_comes_back(binary):
        with Server(binary, '--domain', 'en.example.test') as server:
            status, headers, body = server.request('PUT', '/en.example.test/v1/page/html/A/1', body=b'hello')
            eq(status, 201)

    main()

Run as `python3 test/scene/scene_x.py BINARY [SCENE...]`; prints `ok NAME` or `FAILED NAME: why` for each, and exits
1 when one failed. A server listens on a free port of 127.0.0.1 and lives in a folder of its own; whatever a scene
leaves running is ended by its pid. Nothing waits by sleeping for a guess: everything is polled up to a deadline.
"""
import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
import several                   # noqa: E402  pylint: disable=wrong-import-position
import shared_store              # noqa: E402  pylint: disable=wrong-import-position
from ports import free_port      # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import

# Bounds of what must come, not of how fast: a sanitized binary on a busy machine has to keep them.
READY_TIMEOUT = 120     # until the `listening on` line
REQUEST_TIMEOUT = 120
EXIT_TIMEOUT = 120
WAIT_TIMEOUT = 90       # of wait_until
SCENE_TIMEOUT = int(os.environ.get('SCENE_TIMEOUT', '600'))     # of one scene
# Options of each server: a slow machine is no slow client, no dead origin, no hung disk. What is tested itself, a scene
# sets; what only drain_timeout would end is longer than EXIT_TIMEOUT.
PATIENT = ('drain_timeout=10m', 'write_timeout=2m', 'flight.wait_timeout=4m', 'flight.make_timeout=4m',
           'client.connect_timeout=1m', 'http.head_timeout=4m', 'http.idle_timeout=1h', 'http.body_bytes_per_s_min=1',
           'http.send_bytes_per_s_min=1', 'queue.start_timeout=2m', 'queue.write_timeout=2m')
REPORTS = ('ERROR: AddressSanitizer', 'ERROR: LeakSanitizer', 'WARNING: ThreadSanitizer', 'runtime error:',
           'invariant broken', 'stack smashing detected')

Answer = collections.namedtuple('Answer', 'status headers body')

# A shell starts what it runs in the background deaf to Ctrl-C, and that is inherited: scenes send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_scenes = []
_servers = []


class SceneError(AssertionError):
    """What a scene expected and did not get."""


def eq(got, want, what=''):
    """got == want, or the scene fails saying both."""
    if got != want:
        raise SceneError(f'{f"{what}: " if what else ""}got {_short(got)}, want {_short(want)}')


def check(condition, what):
    """condition holds, or the scene fails saying what."""
    if not condition:
        raise SceneError(what)


def wait_until(condition, what, timeout=WAIT_TIMEOUT, pause=0.01):
    """Polls condition() until it gives something true, and returns that; fails after timeout seconds."""
    deadline = time.monotonic() + timeout
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > deadline:
            raise SceneError(f'not within {timeout} s: {what}')
        time.sleep(pause)


def _short(value):
    text = repr(value)
    return text if len(text) <= 400 else f'{text[:300]}... ({len(text)} characters)'


class Server:
    """One server process: started at once, restarted on the same data, always ended.

    args are further options of `serve`, behind those of PATIENT. data: its folder; without, a temporary one that goes at close(). test_hooks:
    True, or an instant as text. env: variables beside the caller's. beside: another server, whose pages it has too where they
    are in a cluster. Raises SceneError when it is not ready in time.
    """

    def __init__(self, binary, *args, data=None, test_hooks=False, env=None, ready_timeout=READY_TIMEOUT, beside=None):
        self.binary = str(pathlib.Path(binary).resolve())
        self.args = [str(arg) for arg in args]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='scene-'))
        self.data = pathlib.Path(data) if data is not None else self.folder / 'data'
        self.beside, self.others = beside, None
        if beside is not None:
            shared_store.join(self.data, beside.data)
        self.test_hooks = test_hooks
        self._moved = None      # (test_hooks, the instant to which its clock was moved since)
        self.env = {**os.environ, **(env or {})}
        self.ready_timeout = ready_timeout
        self.process = None
        self.stderr_path = self.folder / 'stderr'
        self._connection = None
        _servers.append(self)
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.close()
        else:
            self.abandon()

    def abandon(self):
        """The end after a failure: shows the last of its log, asks nothing more of it."""
        if self not in _servers:
            return
        if self.process is not None:
            self.kill9()
        for line in self.stderr().splitlines()[-10:]:
            print(f'    {line[:300]}', file=sys.stderr)
        self.close(check_reports=False)

    # ---- the process

    def start(self, *args):
        """Starts it (again); args, if any, replace those it had."""
        check(self.process is None, 'the server runs already')
        if args:
            self.args = [str(arg) for arg in args]
        shared_store.make(self.binary, self.data, self.args)
        command = [self.binary, 'serve', '--data', str(self.data), '--listen', '127.0.0.1:0',
                   *shared_store.options(self.data), *several.options(), *(arg for option in PATIENT for arg in ('--set', option)), *self.args]
        hooks = self.test_hooks
        if self._moved and self._moved[0] == hooks and shared_store.differs('its time is not in the data directory'):
            hooks = self._moved[1]
        if hooks:
            command.append('--test-hooks' if hooks is True else f'--test-hooks={hooks}')
        self.lines = []
        self._more = threading.Condition()
        with open(self.stderr_path, 'ab') as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                                            env=self.env, cwd=self.folder)
        self._reader = threading.Thread(target=self._read_stdout, args=(self.process.stdout,), daemon=True)
        self._reader.start()
        self.url = self.wait_line('listening on ', self.ready_timeout)
        self.host, _, port = self.url.removeprefix('http://').rpartition(':')
        self.port = self.own_port = int(port)
        if 'auth=internal' in self.args and shared_store.differs('keys are read from the cluster'):
            wait_until(lambda: self.request('GET', '/readyz').status == 200, 'who may do what is known')
        if several.count() > 1 and self.beside is None and '--listen' not in self.args:
            self.others = several.Others(self, lambda: Server(self.binary, *self.args, test_hooks=self.test_hooks, env=self.env,
                                                              ready_timeout=self.ready_timeout, beside=self))
            self.port = self.others.port
            self.url = f'http://{self.host}:{self.port}'
        return self

    def _read_stdout(self, stdout):
        with stdout:
            for line in stdout:
                with self._more:
                    self.lines.append(line.decode(errors='replace').rstrip('\n'))
                    self._more.notify_all()
        with self._more:
            self.lines.append(None)
            self._more.notify_all()

    def wait_line(self, start, timeout=READY_TIMEOUT):
        """What follows start on the first line of stdout that begins so (`admin on `, ...)."""
        deadline = time.monotonic() + timeout
        with self._more:
            while True:
                for line in self.lines:
                    if line is not None and line.startswith(start):
                        return line[len(start):]
                if None in self.lines:
                    code = self.process.wait(EXIT_TIMEOUT)
                    self.process = None
                    raise SceneError(f'exit {code} instead of a line "{start}": {self.stderr()[-2000:]}')
                left = deadline - time.monotonic()
                if left <= 0:
                    raise SceneError(f'no line "{start}" within {timeout} s: {self.stderr()[-2000:]}')
                self._more.wait(left)

    @property
    def pid(self):
        return self.process.pid

    def stderr(self):
        """All it logged so far, over its restarts."""
        return self.stderr_path.read_text(errors='replace') if self.stderr_path.exists() else ''

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, timeout=EXIT_TIMEOUT):
        """The exit code, negative for a signal; fails when it does not end."""
        if self.others is not None:
            self.others.end()
            self.others = None
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise SceneError(f'the server did not end within {timeout} s') from None
        self._reader.join(EXIT_TIMEOUT)
        self._drop_connection()
        self.process = None
        return code

    def sigterm(self, timeout=EXIT_TIMEOUT):
        """Asks it to end and waits; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit(timeout)

    def kill9(self):
        """Ends it as a power cut of the process would."""
        self.process.kill()
        return self.wait_exit()

    def restart(self, *args):
        """A clean end, checked, and a start on the same data."""
        eq(self.sigterm(), 0, 'exit code')
        return self.start(*args)

    def close(self, check_reports=True):
        """Ends whatever runs, fails on a sanitizer's report or a broken invariant, removes the folder."""
        if self not in _servers:
            return
        _servers.remove(self)
        self._drop_connection()
        code = None
        try:
            if self.process is not None:
                try:
                    code = self.sigterm()
                except SceneError:
                    self.kill9()
                    raise
            if check_reports:
                self.check_reports()
                if code is not None:
                    eq(code, 0, f'exit code at the end ({self.stderr()[-2000:]})')
        finally:
            if self.folder in self.data.parents:
                shared_store.drop(self.data)
            shutil.rmtree(self.folder, ignore_errors=True)

    def check_reports(self):
        """Fails when stderr holds a report of a sanitizer, or an invariant broke."""
        for line in self.stderr().splitlines():
            if any(report in line for report in REPORTS):
                raise SceneError(f'on stderr: {self.stderr()[self.stderr().index(line):][:3000]}')

    # ---- requests

    def request(self, method, path, headers=None, body=None, timeout=REQUEST_TIMEOUT):
        """One request on a connection of its own. path goes out as it is. headers: a dict or a list of pairs.
        Returns Answer(status, headers, body); headers compare without case."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            return self._exchange(connection, method, path, headers, body)
        finally:
            connection.close()

    def request_again(self, method, path, headers=None, body=None):
        """As request, over one kept connection; opened anew when the server closed it."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self.host, self.port, timeout=REQUEST_TIMEOUT)
        try:
            return self._exchange(self._connection, method, path, headers, body)
        except (http.client.HTTPException, OSError):
            self._drop_connection()
            raise

    def _drop_connection(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @staticmethod
    def _exchange(connection, method, path, headers, body):
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            if not any(name.lower() == 'content-type' for name, _ in pairs):
                pairs.append(('Content-Type', 'application/json'))
        if isinstance(body, str):
            body = body.encode()
        names = [name.lower() for name, _ in pairs]
        connection.putrequest(method, path, skip_host='host' in names, skip_accept_encoding=True)
        for name, value in pairs:
            connection.putheader(name, value)
        if body is not None and not {'content-length', 'transfer-encoding'} & set(names):
            connection.putheader('Content-Length', str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def json(self, method, path, headers=None, body=None):
        """As request, with the body parsed: (status, headers, value)."""
        status, got, raw = self.request(method, path, headers, body)
        try:
            return Answer(status, got, json.loads(raw) if raw else None)
        except ValueError:
            raise SceneError(f'{method} {path}: {status} with a body that is no JSON: {_short(raw)}') from None

    def raw(self, data, timeout=REQUEST_TIMEOUT):
        """Sends bytes as they are and returns all that comes until the server closes, or timeout seconds of silence."""
        got = b''
        with socket.create_connection((self.host, self.port), timeout) as peer:
            try:
                peer.sendall(data)
                while True:
                    piece = peer.recv(65536)
                    if not piece:
                        return got
                    got += piece
            except (socket.timeout, ConnectionError):
                return got

    def connect(self, timeout=REQUEST_TIMEOUT):
        """A plain socket to the server; the caller closes it."""
        return socket.create_connection((self.host, self.port), timeout)

    # ---- test hooks

    def clock(self, **what):
        """clock(freeze='2026-01-01T00:00:00Z'), clock(advance='90s'), clock(resume=True); returns the new now."""
        others = self.others.servers if self.others is not None else []
        for server in (*others, self):
            connection = http.client.HTTPConnection(self.host, server.own_port, timeout=REQUEST_TIMEOUT)
            with contextlib.closing(connection):
                status, _, said = self._exchange(connection, 'POST', '/v1/test.clock', None, what)
            eq(status, 200, f'test.clock {what}: {said}')
        now = json.loads(said)['now']
        if isinstance(self.test_hooks, str):
            self._moved = self.test_hooks, now
        return now


SANITIZED_BYTES = 8 << 40    # of address space: the map of the index alone takes one TiB


def memory_of(server, figure):
    """A figure of /proc/PID/status in bytes; None of a sanitized server, whose figures say nothing."""
    with open(f'/proc/{server.pid}/status') as status:
        figures = {name: int(number) << 10 for name, number in re.findall(r'^(\w+):\s+(\d+) kB$', status.read(), re.M)}
    return figures[figure] if figures['VmPeak'] < SANITIZED_BYTES else None


def scene(function):
    """Registers function(binary) as a scene under its name."""
    _scenes.append(function)
    return function


def _on_alarm(number, frame):
    raise SceneError(f'not over after {SCENE_TIMEOUT} s')


def _end_servers():
    for server in list(_servers):
        server.abandon()


def _why(error):
    """What failed, and where. What failed in the clean-up behind it comes after it."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SceneError):
        frames = [frame for frame in frames if frame.filename != __file__]
        why = f'line {frames[-1].lineno}: {error}' if frames else str(error)
    else:
        places = ' < '.join(f'{os.path.basename(f.filename)}:{f.lineno}' for f in reversed(frames[-4:]))
        why = f'{type(error).__name__}: {error} ({places})'
    before = None if error.__suppress_context__ else error.__context__
    return why if before is None else f'{_why(before)}; then {why}'


def _run_scene(function, binary):
    """None, or why it failed."""
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.alarm(SCENE_TIMEOUT)
    try:
        function(binary)
        for server in list(_servers):
            server.close()
        return None
    except Exception as error:  # pylint: disable=broad-except
        return _why(error)
    finally:
        signal.alarm(0)
        _end_servers()
        shared_store.drop()


def main(arguments=None):
    """Runs the scenes named in argv, or all; exits 1 when one failed, 2 without a binary."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or not os.access(arguments[0], os.X_OK):
        print(f'usage: {sys.argv[0]} BINARY [SCENE...]', file=sys.stderr)
        sys.exit(2)
    os.environ.setdefault('ASAN_OPTIONS', 'detect_leaks=1:exitcode=99')
    os.environ.setdefault('UBSAN_OPTIONS', 'print_stacktrace=1:halt_on_error=1:exitcode=99')
    os.environ.setdefault('TSAN_OPTIONS', 'halt_on_error=1:exitcode=99')
    binary, wanted = arguments[0], arguments[1:]
    unknown = set(wanted) - {function.__name__ for function in _scenes}
    if unknown or not _scenes:
        print(f'no such scene: {" ".join(sorted(unknown)) or "there are none"}', file=sys.stderr)
        sys.exit(2)
    failed = 0
    for function in _scenes:
        if wanted and function.__name__ not in wanted:
            continue
        reason = shared_store.left_out(function) or several.left_out(function)
        if reason:
            print(f'left out {function.__name__}: {reason}', flush=True)
            continue
        why = _run_scene(function, binary)
        failed += why is not None
        line = f'ok {function.__name__}' if why is None else f'FAILED {function.__name__}: ' + ' '.join(why.split())
        print(line, flush=True)
    sys.exit(1 if failed else 0)
