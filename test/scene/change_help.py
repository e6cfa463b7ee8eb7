"""What the scenes of told changes share: a server that listens for PURGE, in front of a scripted wiki, and figures."""
import http.client
import re

from harness import REQUEST_TIMEOUT, Answer, Server, wait_until

LISTEN = ('--set', 'change.purge_listen=127.0.0.1:0')


def told_server(binary, origin, *args, **named):
    """Its clock runs; test hooks move it."""
    return Server(binary, *origin.options('localhost', hosts='wiki.test,other.test:8080'), *LISTEN, *args, test_hooks=True,
                  **named)


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
