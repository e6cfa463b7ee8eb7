"""Goal: from the command line one sees what is being made on which server, for whom and by whom, and gets lists with the
state they are in.
Method: the binary as a client of real servers that share a real Redis, with a generator and a wiki that can be held."""
import concurrent.futures
import json
import os
import pty
import re
import subprocess

from cli import CALL_TIMEOUT, Client
from harness import Server, check, eq, main, scene, wait_until
from list_help import Cluster
from origin import Origin

MORTAL = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=2s')


def _refused(client, *args, code=1, says=''):
    done = client(*args)
    eq(done.returncode, code, f'{args}: {done.stderr!r}')
    check(says in done.stderr.decode(), f'{args}: {done.stderr!r}')


def _on_terminal(client, *args):
    """What it prints when it writes to a terminal."""
    ours, its = pty.openpty()
    process = subprocess.Popen([client.binary, *args], stdin=subprocess.DEVNULL, stdout=its, env=client.env)
    os.close(its)
    text = b''
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:    # so ends a terminal
        pass
    os.close(ours)
    eq(process.wait(CALL_TIMEOUT), 0)
    return text.decode()


@scene
def flights_show_who_leads_and_who_waits(binary):
    with Cluster(binary, 2) as c:
        client = Client(binary, c.servers[0])
        urls = [server.url for server in c.servers]
        with c.generator.holding() as gate:
            futures = c.begin([(0, '/show/1'), (1, '/show/2'), (1, '/show/3')])

            def states():
                return sorted(f['state'] for doc in client.json('flight', 'ls', *urls) for f in doc['flights'])
            wait_until(lambda: c.total('flight_waiters') == 3 and states() == ['leading', 'waiting'], 'one leads')
            docs = client.json('flight', 'ls', *urls)
            eq([doc['server'] for doc in docs], urls)
            check(docs[0]['node'] != docs[1]['node'], 'each has a name')
            flights = [doc['flights'][0] for doc in docs]
            leader = next(doc['node'] for doc in docs if doc['flights'][0]['state'] == 'leading')
            for doc, flight in zip(docs, flights):
                eq((doc['redis'], doc['degraded'], len(doc['flights']), doc['left_out']), ('up', False, 1, 0))
                eq((flight['what'], flight['leader']), ('list localhost related show', leader))
                eq(flight['record'], c.redis.records()[0])
                check(re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', flight['since']), flight['since'])
                check(flight['age_ms'] >= 0, flight)
            eq([flight['waiters'] for flight in flights], [1, 2])
            eq(len({flight['generation'] for flight in flights}), 1, 'of one generation')
            eq(c.redis('HGET', flights[0]['record'], 'lt').decode(), f"{flights[0]['generation']}.{leader}")
            text = client.ok('flight', 'ls', *urls)
            for word in ('leading', 'waiting', 'list localhost related show', leader[:8], str(flights[0]['generation'])):
                check(word in text, f'{word} in {text}')
            eq(len(client.json('flight', 'ls')), 1, 'the server of the environment')
            gate.open()
            for future in futures:
                eq(future.result(60).status, 200)
        wait_until(lambda: states() == [], 'nothing is being made')
        docs = client.json('flight', 'ls', *urls)
        eq(sum(doc['counts']['led'] for doc in docs), 1)
        eq(sum(doc['counts']['joins'] for doc in docs), 2)
        _refused(client, 'flight', 'ls', urls[0], 'http://127.0.0.1:9', code=4, says='127.0.0.1:9')
        check(urls[0] in client('flight', 'ls', 'http://127.0.0.1:9', urls[0]).stdout.decode(), 'the others are shown')


@scene
def renders_are_flights_too(binary):
    with Origin() as origin:
        origin.page('A', (1, 'first'))
        with Cluster(binary, 1, *origin.options('localhost')) as c:
            client = Client(binary, c.servers[0])
            with origin.gate('render') as gate:
                pool = concurrent.futures.ThreadPoolExecutor(1)
                c.stack.callback(pool.shutdown)
                answer = pool.submit(c.servers[0].request, 'GET', '/localhost/v1/page/html/A')
                wait_until(lambda: gate.waiting == 1, 'it is being made')
                flight = client.json('flight', 'ls')[0]['flights'][0]
                eq((flight['what'], flight['state'], flight['waiters']), ('render page localhost 0 A', 'leading', 1))
                gate.open()
                eq(answer.result(60).status, 200)


@scene
def a_server_without_its_redis_says_so(binary):
    with Server(binary) as server:
        doc = Client(binary, server).json('flight', 'ls')[0]
        eq((doc['redis'], doc['degraded'], doc['flights']), ('none', False, []))
        check('none' in Client(binary, server).ok('flight', 'ls'), 'the table')
    with Cluster(binary, 1, *MORTAL, patient=False) as c:
        client = Client(binary, c.servers[0])
        c.redis.end()
        c.wait_redis(up=False)
        with c.generator.holding() as gate:
            future = c.begin([(0, '/d/1')])[0]
            wait_until(lambda: gate.arrived == 1, 'it is being made')
            first = client.json('flight', 'ls')[0]
            eq((first['redis'], first['degraded'], first['flights'][0]['state']), ('away', True, 'alone'))
            wait_until(lambda: client.json('flight', 'ls')[0]['counts']['degraded_ms'] > first['counts']['degraded_ms'],
                       'it is counted')
            gate.open()
            eq(future.result(60).status, 200)
        eq(client.json('flight', 'ls')[0]['counts']['alone'], 1)
        c.redis.start()
        c.wait_redis()
        eq(client.json('flight', 'ls')[0]['degraded'], False)


@scene
def what_is_being_made_is_for_administrators(binary):
    with Server(binary, '--admin-listen', '127.0.0.1:0') as server:
        eq(server.request('GET', '/v1/admin.flights').status, server.request('GET', '/v1/admin.nothing').status,
           'the admin listener alone has it')
        check(Client(binary, server)('flight', 'ls').returncode == 6, 'and nobody else')


@scene
def lists_are_got_whole_and_by_position(binary):
    with Cluster(binary, 2) as c:
        client = Client(binary, c.servers[0])
        doc = client.json('list', 'get', 'related', 'show', '--param', 'user=a b', '-p', 'lang=de')[0]
        eq((doc['list'], doc['display'], doc['state'], doc['how'], doc['size']), ('related', 'show', 'fresh', 'leader', 5))
        eq([item['position'] for item in doc['items']], [1, 2, 3, 4, 5])
        check(0 <= doc['age_s'] and 3590 <= doc['age_s'] + doc['fresh_s'] <= 3600, doc)
        eq(c.get(1, '/show/1?user=a%20b&lang=de').headers['List-Version'], doc['version'])
        again = client.json('list', 'get', 'related', 'show', '3', '--param', 'user=a b', '--param', 'lang=de')[0]
        eq((again['how'], again['version'], again['item']), ('hit', doc['version'], doc['items'][2]))
        lines = client.ok('list', 'get', 'related', 'show', '-p', 'user=a b', '-p', 'lang=de').splitlines()
        eq([line.split('\t')[0] for line in lines], ['1', '2', '3', '4', '5'])
        eq({'position': 1, **json.loads(lines[0].split('\t')[1])}, doc['items'][0])
        shown = _on_terminal(client, 'list', 'get', 'related', 'show', '2', '-p', 'user=a b', '-p', 'lang=de')
        for word in (doc['version'], 'fresh', 'hit', '/l/1/2'):
            check(word in shown, f'{word} in {shown}')
        eq(c.generator.count(), 1)
        eq(client.json('list', 'get', 'related', '*')[0]['display'], '*')
        eq(c.generator.calls[1][1], None)
        _refused(client, 'list', 'get', 'related', 'other', '--cached', code=5, says='none was to be made')
        _refused(client, 'list', 'get', 'related', 'show', '9', code=5, says='no such position')
        _refused(client, 'list', 'get', 'nothing', 'show', code=5, says='no list of this name')
        _refused(client, 'list', 'get', 'related', 'show', '--param', 'user', code=2, says='NAME=VALUE')
        eq(c.generator.count(), 2)


@scene
def a_stale_list_is_said_to_be_stale(binary):
    with Cluster(binary, 1, options={'ttl': '1s', 'stale_ttl': '1h'}) as c:
        client = Client(binary, c.servers[0])
        version = client.json('list', 'get', 'related', '*')[0]['version']
        c.generator.status = 500
        stale = wait_until(lambda: next((doc for doc in client.json('list', 'get', 'related', '*')
                                         if doc['state'] == 'stale'), None), 'it is past its time')
        eq((stale['version'], stale['how'], stale['fresh_s']), (version, 'stale', 0))


main()
