"""The program test/cassandra/client (client.h) as an object: src/cql does what a scene says.

    with Client(binary, contact=proxy, version=4) as client:
        client.statement('put', 'INSERT INTO t.t (k, v) VALUES (?, ?)', idempotent=True)
        client.run('put', I32(1), Text('v'), ts='now')          # Outcome; it has to be well
        outcome = client.ask('put', ...)                        # whatever it is
        pending = [client.start('put', ...) for ...]            # each .wait()
"""
import itertools
import json
import pathlib
import subprocess
import tempfile
import threading
import time

import rig
from rig import SceneError, check, wait_until

TIMEOUT = 180
ANY, ONE, TWO, THREE, QUORUM, ALL, LOCAL_QUORUM, EACH_QUORUM, SERIAL, LOCAL_SERIAL, LOCAL_ONE = \
    range(11)
NULL, UNSET = ('null',), ('unset',)


def typed(kind):
    return lambda value: (f'{kind}:{value}',)


I64, I32, I16, I8, Text, Double, Date, Tid = map(
    typed, ('i64', 'i32', 'i16', 'i8', 'text', 'double', 'date', 'tid'))


def Blob(data):     # pylint: disable=invalid-name
    return (f'blob:{bytes(data).hex()}',)


def Uuid(value):    # pylint: disable=invalid-name
    return (f'uuid:{value.bytes.hex()}',)


def Bool(value):    # pylint: disable=invalid-name
    return (f'bool:{int(value)}',)


def Items(*values):     # pylint: disable=invalid-name
    """A list or set."""
    return ('[', *itertools.chain(*values), ']')


def Map(*values):       # pylint: disable=invalid-name
    """Keys and values in turn."""
    return ('{', *itertools.chain(*values), '}')


def Tuple(*values):     # pylint: disable=invalid-name
    """A tuple or user type."""
    return ('<', *itertools.chain(*values), '>')


class Outcome(dict):
    """A line of the program; its members are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f'{name}: {str(dict(self))[:500]}') from None

    @property
    def one(self):
        """The only row."""
        check(len(self.rows) == 1, f'one row: {str(dict(self))[:500]}')
        return self.rows[0]


class Pending:
    def __init__(self, client, number):
        self.client, self.id = client, number

    def wait(self, timeout=TIMEOUT):
        return self.client.wait(self.id, timeout)


def settings(given):
    return ','.join(f'{key}={value}' for key, value in given.items()) or '-'


class Client:
    """contact: a proxy, 'HOST:PORT', or a list of these; options as of client.c. ready: it has to
    become so before this returns."""

    def __init__(self, binary, contact, ready=True, dc='dc1', **options):
        contacts = contact if isinstance(contact, list) else [contact]
        maps = options.pop('maps', {})
        words = [f'contact={c if isinstance(c, str) else f"{c.host}:{c.port}"}' for c in contacts]
        words += [f'map={here}>{there}' for here, there in maps.items()]
        words += [f'{key}={int(value) if isinstance(value, bool) else value}'
                  for key, value in {'dc': dc, **options}.items()]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [rig.built(binary, 'test/cassandra/client'), *words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log)
        self.told, self.readiness = [], []      # lines that no line asked for
        self._answers, self._numbers = {}, itertools.count(1)
        self._came = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        if ready:
            try:
                wait_until(lambda: True in self.readiness or self._over, 'the client is ready')
                check(True in self.readiness, 'the client ended at once')
            except BaseException:
                self.kill()
                raise

    def _read(self):
        for line in self.process.stdout:
            try:
                outcome = Outcome(json.loads(line))
            except ValueError:
                outcome = Outcome(id='', unreadable=repr(line[:2000]))
            with self._came:
                if outcome['id'] == '':
                    self.told.append(outcome)
                    if 'ready' in outcome:
                        self.readiness.append(outcome['ready'])
                elif outcome['id'] in self._answers:
                    self.told.append(Outcome(id='', twice=outcome))
                else:
                    self._answers[outcome['id']] = outcome
                self._came.notify_all()
        with self._came:
            self._over = True
            self._came.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            self.kill()

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode(errors='replace')

    def kill(self):
        """The end behind a failure."""
        self.process.kill()
        self.process.wait()
        print(f'    the client: {self.errors()[-1500:]}', flush=True)

    def stop(self, ms=5000, timeout=TIMEOUT):
        """The orderly end. It has answered each line once, and its memory was in order."""
        if self.process.poll() is None:
            self.send('0', 'stop', str(ms))
        code = self.process.wait(timeout)
        self._thread.join(timeout)
        bad = [o for o in self.told if 'twice' in o or 'unreadable' in o]
        check(code == 0 and not bad, f'exit {code}, {bad}: {self.errors()[-1500:]}')

    def send(self, *fields):
        line = '\t'.join(fields)
        check('\n' not in line, 'one line')
        self.process.stdin.write(line.encode() + b'\n')
        self.process.stdin.flush()

    def start_line(self, *fields):
        number = str(next(self._numbers))
        self.send(number, *fields)
        return Pending(self, number)

    def wait(self, number, timeout=TIMEOUT):
        with self._came:
            self._came.wait_for(lambda: number in self._answers or self._over, timeout)
            outcome = self._answers.pop(number, None)
        if outcome is None:
            raise SceneError(f'no answer to {number}; the client '
                             f'{"ended" if self._over else "runs"}: {self.errors()[-1500:]}')
        return outcome

    # ---- statements and requests

    def statement(self, name, text, takes='-', gives='-', idempotent=False):
        """What the client refused it for, or ''."""
        flags = 'idempotent' if idempotent else '-'
        return self.start_line('statement', name, flags, takes, gives, text).wait().get(
            'refused', '')

    def start(self, name, *values, **given):
        return self.start_line('run', settings(given), name, *itertools.chain(*values))

    def ask(self, name, *values, **given):
        return self.start(name, *values, **given).wait()

    def run(self, name, *values, **given):
        return well(self.ask(name, *values, **given))

    def start_batch(self, *parts, kind='unlogged', **given):
        """parts: (name, value, ...)"""
        fields = []
        for name, *values in parts:
            fields += [name, *itertools.chain(*values), ';']
        return self.start_line('batch', settings(given), kind, *fields[:-1])

    def batch(self, *parts, **given):
        return well(self.start_batch(*parts, **given).wait())

    def text(self, text, *values, **given):
        return well(self.ask_text(text, *values, **given))

    def ask_text(self, text, *values, **given):
        return self.start_line('text', settings(given), text, *itertools.chain(*values)).wait()

    def pages(self, name, *values, page, **given):
        """All rows, and how many each page had."""
        rows, sizes, state = [], [], {}
        while True:
            outcome = self.run(name, *values, page=page, **state, **given)
            rows += outcome.rows
            sizes.append(len(outcome.rows))
            check(outcome.count == len(outcome.rows), 'rows are as many as said')
            if not outcome.more:
                return rows, sizes
            state = {'state': outcome.state}

    def agree(self, ms=30000):
        return self.start_line('agree', str(ms)).wait().why

    def stats(self):
        return self.start_line('stats').wait()

    def nodes(self):
        return {node['node']: Outcome(node) for node in self.start_line('nodes').wait().nodes}

    # ---- load

    def load(self, seconds, writers, readers, ledger, ms=10000, speculative=False):
        """Statements `write` and `read` are registered."""
        return self.start_line('load', str(seconds), str(writers), str(readers), str(ms),
                               str(ledger), 'write', 'read', str(int(speculative)))

    def finish(self):
        """The load begins nothing any more."""
        self.send('-', 'finish')

    def look(self):
        return self.start_line('look').wait()


def well(outcome):
    check(outcome.get('why') == 'ok' and 'broken' not in outcome,
          f'it went well: {str(dict(outcome))[:800]}')
    return outcome


def ledger_of(path):
    return [int(line) for line in pathlib.Path(path).read_text().split()]


def microseconds():
    return time.time_ns() // 1000
