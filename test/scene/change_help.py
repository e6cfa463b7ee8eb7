"""What the scenes of told changes share: a server that listens for PURGE, in front of a scripted wiki, one with rules, a
client that follows streams, and figures."""
import contextlib
import http.client
import json
import pathlib
import re
import socket
import tempfile

from harness import REQUEST_TIMEOUT, Answer, SceneError, Server, eq, wait_until
from inherit_help import connected

LISTEN = ('--set', 'change.purge_listen=127.0.0.1:0')


def told_server(binary, origin, *args, **named):
    """Its clock runs; test hooks move it."""
    return Server(binary, *origin.options('localhost', hosts='wiki.test,other.test:8080'), *LISTEN, *args, test_hooks=True,
                  **named)


def tell_events(server, *events):
    """They are on disk when this returns."""
    eq(server.json('POST', '/v1/events', body=list(events)).status, 201)


@contextlib.contextmanager
def rules_file(rules):
    """A configuration with these rules alone, to be written anew by its user."""
    with tempfile.TemporaryDirectory(prefix='scene-') as folder:
        file = pathlib.Path(folder) / 'palimpsest.yaml'
        write_rules(file, rules)
        yield file


def write_rules(file, rules):
    file.write_text(json.dumps({'change': {'rules': rules}}))


class UnixConnection(http.client.HTTPConnection):
    """A connection to the file of a unix socket."""

    def __init__(self, file):
        super().__init__('localhost', timeout=REQUEST_TIMEOUT)
        self.file = str(file)

    def connect(self):
        self.sock = connected(socket.AF_UNIX, self.file)


class Client:
    """One connection that follows a stream; each next() is one event: its id, its name, its data. file: over a unix socket."""

    def __init__(self, server, target='/v1/stream', last=None, headers=None, timeout=REQUEST_TIMEOUT, begins=True, file=None):
        self.connection = UnixConnection(file) if file else http.client.HTTPConnection(server.host, server.port, timeout=timeout)
        self.connection.request('GET', target, headers={**({'Last-Event-ID': last} if last else {}), **(headers or {})})
        self.answer = self.connection.getresponse()
        if begins:
            eq(self.answer.status, 200, self.answer.headers)
            eq(self.answer.readline(), b': ok\n')
            self.begins_at = self.answer.readline().decode().removeprefix('id: ').rstrip('\n')

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.connection.close()

    def next(self):
        """None: the server ended the stream."""
        fields, data = {}, []
        while True:
            line = self.answer.readline()
            if not line:
                return None
            line = line.rstrip(b'\n').decode()
            if not line and data:
                return fields.get('id'), fields.get('event'), json.loads('\n'.join(data))
            name, colon, value = line.partition(': ')
            if name == 'data':
                data.append(value)
                self.text = value       # as it came
            elif name and colon:
                fields[name] = value

    def take(self, count):
        return [self.next() for _ in range(count)]


def purge_connection(server):
    port = int(server.wait_line('purge on ').rpartition(':')[2])
    return http.client.HTTPConnection('127.0.0.1', port, timeout=REQUEST_TIMEOUT)


def purge(server, target, host='wiki.test', method='PURGE', connection=None):
    """One request to the listener for PURGE; the target goes out as it is."""
    one = connection or purge_connection(server)
    one.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    one.putheader('Host', host)
    one.endheaders()
    response = one.getresponse()
    answer = Answer(response.status, response.headers, response.read())
    if connection is None:
        one.close()
    return answer


def figure(server, name):
    """Of /metrics; name with its labels."""
    text = server.request('GET', '/metrics').body.decode()
    return int(float(re.search(rf'^palimpsest_{re.escape(name)} (\S+)$', text, re.M)[1]))


def wait_figure(server, name, at_least):
    return wait_until(lambda: figure(server, name) >= at_least, f'{name} >= {at_least}')


def hidden_or(server, target):
    """The body of the answer, when it has one of a page."""
    answer = server.request('GET', target)
    return answer.body if answer.status == 200 else answer.status


def rule_of(server, name):
    """As GET /v1/admin.change shows it; None: there is none."""
    return next((one for one in server.json('GET', '/v1/admin.change').body['rules'] if one['name'] == name), None)


def rule_comes_to(server, name, timeout=60, **figures):
    last = {}

    def is_so():
        last.update(rule_of(server, name) or {})
        return bool(last) and all(last[key] == value for key, value in figures.items())
    try:
        wait_until(is_so, f'{name}: {figures}', timeout=timeout)
    except SceneError as failure:
        raise SceneError(f'{failure}: {last}') from None
    return last
